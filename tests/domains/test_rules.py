"""What a schema and a rules table say of several columns together."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from mwem_sql.domains.domain import Domain
from mwem_sql.errors import DomainError, MwemError, PredicateError, TableError

PEOPLE = """CREATE TABLE people (
    age INTEGER CHECK (age BETWEEN 0 AND 99), marital VARCHAR CHECK (marital IN ('N', 'single', 'married')),
    income INTEGER CHECK (income BETWEEN 0 AND 200000), note VARCHAR,
    decade INTEGER GENERATED ALWAYS AS (age // 10), next INTEGER GENERATED ALWAYS AS (decade + 1),
    product BIGINT GENERATED ALWAYS AS (age * income), length INTEGER GENERATED ALWAYS AS (length(note)),
    CHECK (age >= 15 OR marital = 'N'), CHECK (note <> marital), CHECK (age > 3 AND income < age * 2000))"""


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(PEOPLE)
        yield con


def rules_of(domain: Domain) -> list[tuple[str, str]]:
    return [(rule.text, rule.source) for rule in domain.rules]


def test_checks_over_several_columns_are_rules(con: duckdb.DuckDBPyConnection) -> None:
    domain = Domain.from_schema(con, "people")
    assert rules_of(domain) == [
        ('("age" >= 15) OR ("marital" = \'N\')', "CHECK"),
        ('"note" <> "marital"', "CHECK"),
        ('"income" < ("age" * 2000)', "CHECK"),
    ]
    assert domain["age"].low == 4  # what is about one column is its domain, as ever
    assert [domain.columns_of(rule) for rule in domain.rules] == [("age", "marital"), ("note", "marital"),
                                                                  ("income", "age")]  # fmt: skip


def test_generated_columns_follow_from_declared_ones_down_to_plain_columns(con: duckdb.DuckDBPyConnection) -> None:
    """One of an undeclared column has no domain, as before."""
    domain = Domain.from_schema(con, "people")
    assert {each.name: each.columns for each in domain.computed} == {
        "decade": ("age",), "next": ("age",), "product": ("age", "income"),
    }  # fmt: skip
    assert {each.source for each in domain.computed} == {"GENERATED"}
    assert domain.lacks("next") is None
    assert domain.lacks("length") is not None


def test_a_generated_column_of_several_columns_that_has_a_domain_of_its_own_keeps_it(
    con: duckdb.DuckDBPyConnection,
) -> None:
    con.execute("CREATE TABLE people_domain AS SELECT 'product' AS attribute, 0 AS low, 999 AS high")
    domain = Domain.from_schema(con, "people")
    assert domain["product"].high == 999
    assert "product" not in {each.name for each in domain.computed}
    con.execute("INSERT INTO people_domain VALUES ('decade', 0, 9)")
    assert Domain.from_schema(con, "people").attribute("decade") is None  # it reads one column, of few values


def test_a_view_has_the_rules_of_what_it_shows(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE VIEW v AS SELECT age AS years, marital AS m, decade, income + 1 AS more FROM people")
    domain = Domain.from_schema(con, "v")
    assert rules_of(domain) == [('("years" >= 15) OR ("m" = \'N\')', "CHECK")]
    assert [(each.name, each.columns) for each in domain.computed] == [("decade", ("years",))]


def test_a_rules_table_has_conditions_and_equations(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("""CREATE TABLE people_rules AS SELECT unnest(['AGE < 99 OR marital <> ''N''',
        'income IS NULL = (age < 15)
        AND note = CASE WHEN marital = ''N'' THEN ''child'' END', 'marital = ''N''', NULL]) AS rule""")
    domain = Domain.from_schema(con, "people")
    declared = [text for text, source in rules_of(domain) if source == "rules table"]
    assert declared == [
        "\"age\" < 99 OR \"marital\" <> 'N'", '("income" IS NULL) = ("age" < 15)', "\"marital\" = 'N'",
    ]  # fmt: skip
    (note,) = [each for each in domain.computed if each.source == "rules table"]
    assert (note.name, note.type, note.columns) == ("note", "VARCHAR", ("marital",))
    # A rule about a computed column is one about what it is computed of.
    assert domain.columns_of(domain.rules[1]) == ("marital",)
    other = Domain.from_schema(con, "people", rules="people_rules")
    assert other == domain


def test_what_is_stored_is_read_again(con: duckdb.DuckDBPyConnection) -> None:
    domain = Domain.from_schema(con, "people")
    assert Domain.from_json(domain.to_json()) == domain


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ("SELECT 'age > 3' AS condition", DomainError, "has the columns condition. Hint: it has one column, rule"),
        ("SELECT 'ages > 3' AS rule", PredicateError, "rules: rule .'ages > 3'. reads the unknown column ages"),
        ("SELECT 'random() > age' AS rule", PredicateError, "calls random"),
        ("SELECT unnest(['note = marital', 'note = lower(marital)']) AS rule", DomainError, "says twice what note"),
        ("SELECT unnest(['note = marital', 'marital = note']) AS rule", DomainError, "by itself in the end"),
    ],
)
def test_what_a_rules_table_may_not_say(
    con: duckdb.DuckDBPyConnection, rows: str, error: type[Exception], message: str
) -> None:
    con.execute(f"CREATE TABLE people_rules AS {rows}")
    with pytest.raises(error, match=message):
        Domain.from_schema(con, "people")


def test_a_rules_table_is_public(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE VIEW people_rules AS SELECT 'age > ' || max(age) AS rule FROM people")
    with pytest.raises(
        TableError, match=r"rules table .'people_rules'. is a view, and what a view reads may be private"
    ):
        Domain.from_schema(con, "people")
    with pytest.raises(TableError, match=r"rules table .'nowhere'. does not exist for this call"):
        Domain.from_schema(con, "people", rules="nowhere")
    with pytest.raises(TableError, match="is the private table itself"):
        Domain.from_schema(con, "people", rules="people")


PLACES = "CREATE TABLE places AS FROM (VALUES (1, 'N'), (15, 'single'), (15, NULL), (99, 'N')) p(years, state)"


def test_a_foreign_key_to_a_public_table_lists_what_can_be(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(PLACES)
    con.execute(
        "CREATE TABLE people_rules AS SELECT 'foreign key (age, marital) references places (years, state)' AS rule"
    )
    rule = Domain.from_schema(con, "people").rules[-1]
    rows = con.execute(f"""SELECT age, marital, {rule.text}
        FROM (SELECT unnest([1, 15, 15, 2, NULL, 99])::INTEGER AS age,
        unnest(['N', 'single', 'N', 'N', 'married', NULL]) AS marital)""").fetchall()
    assert [bool(holds) for *_, holds in rows] == [True, True, False, False, True, True]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("(age) REFERENCES nowhere (years)", "does not exist for this call"),
        ("(age) REFERENCES people (age)", "is the private table itself"),
        ("(age) REFERENCES seen (age)", "is a view, and what a view reads may be private"),
        ("(age) REFERENCES places (year)", "unknown column 'year'"),
        ("(ages) REFERENCES places (years)", "unknown column 'ages'"),
        ("(age, marital) REFERENCES places (years)", "is not a foreign key with the columns on both sides"),
        ("(age REFERENCES", "is not a foreign key with the columns on both sides"),
    ],
)
def test_what_a_foreign_key_may_not_say(con: duckdb.DuckDBPyConnection, key: str, message: str) -> None:
    con.execute(f"{PLACES}; CREATE VIEW seen AS FROM people; CREATE TABLE people_rules (rule VARCHAR)")
    con.execute("INSERT INTO people_rules VALUES (?)", [f"FOREIGN KEY {key}"])
    with pytest.raises(MwemError, match=message):
        Domain.from_schema(con, "people")
