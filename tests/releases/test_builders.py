"""Common workloads of several tables: each row counts rows of one table, and the release of all of them runs."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import mwem_sql
from mwem_sql.errors import OptionError

SETUP = """
    CREATE TABLE person (pid INTEGER PRIMARY KEY, sex ENUM ('F', 'M') NOT NULL, note VARCHAR);
    CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES person (pid), away BOOLEAN NOT NULL,
                        day INTEGER NOT NULL CHECK (day BETWEEN 1 AND 31));
    CREATE TABLE drug (vid INTEGER REFERENCES visit (vid), days INTEGER CHECK (days BETWEEN 1 AND 9));
    CREATE TABLE gold (pid INTEGER PRIMARY KEY REFERENCES person (pid));
    INSERT INTO person SELECT i, if(i % 3 = 0, 'F', 'M'), NULL FROM range(60) t(i);
    INSERT INTO visit SELECT row_number() OVER (), pid, i = 0, 1 + pid % 31 FROM person, range(2) t(i);
    INSERT INTO drug SELECT vid, 1 + vid % 9 FROM visit;
    INSERT INTO gold SELECT pid FROM person WHERE pid % 2 = 0
"""


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect() as con:
        con.execute(SETUP)
        yield con


def rows(con: duckdb.DuckDBPyConnection, tables: list[str], order: int) -> list[tuple[str, tuple[str, ...]]]:
    return [(row["of"], tuple(row["group_by"])) for row in mwem_sql.marginals(con, tables, order).to_pylist()]


def test_pairs_have_a_column_or_number_of_the_table_itself(con: duckdb.DuckDBPyConnection) -> None:
    """Columns above are asked about in their own table; a column without values, and keys, are left out."""
    assert rows(con, ["visit", "person"], 2) == [
        ("person", ("sex", "visit")),
        ("visit", ("away", "day")),
        ("visit", ("away", "person.sex")),
        ("visit", ("day", "person.sex")),
    ]
    assert rows(con, ["person", "visit", "drug"], 1) == [
        ("person", ("sex",)), ("person", ("visit",)),
        ("visit", ("away",)), ("visit", ("day",)), ("visit", ("drug",)),
        ("drug", ("days",)),
    ]  # fmt: skip


def test_a_table_with_fewer_columns_is_asked_about_all_of_them(con: duckdb.DuckDBPyConnection) -> None:
    """One that has keys alone, about those above it: each table of a release must be asked about."""
    assert rows(con, ["person", "gold"], 2) == [("person", ("sex", "gold")), ("gold", ("person.sex",))]
    assert rows(con, ["person", "visit"], 3) == [("person", ("sex", "visit")), ("visit", ("away", "day", "person.sex"))]
    with pytest.raises(OptionError, match=r"mwem_marginals: order \(4\) must be from 1 to 3"):
        mwem_sql.marginals(con, ["person", "visit"], 4)


def test_the_release_of_a_workload_that_was_made_runs(con: duckdb.DuckDBPyConnection) -> None:
    tables = ["person", "visit", "drug", "gold"]
    con.execute("CREATE TABLE workload AS FROM mwem_marginals(['person', 'visit', 'drug', 'gold'], 2)")
    con.execute(
        "INSERT INTO workload BY NAME FROM mwem_ranges(['person', 'visit', 'drug', 'gold'], 'day', 3, seed := 1)"
    )
    made = mwem_sql.release(con, tables, "workload", 1, rows_per_unit={"visit": 2, "drug": 4, "gold": 1})
    asked = [{query.label for query in one.workload} for one in made]
    for table, labels in zip(tables, asked, strict=True):
        assert labels >= {", ".join(names) for of, names in rows(con, tables, 2) if of == table}


def test_ranges_count_rows_of_the_nearest_table_that_sees_all_columns(con: duckdb.DuckDBPyConnection) -> None:
    tables = ["drug", "person", "visit"]
    for columns, of, begins in (
        ("day", "visit", '"day" BETWEEN'),
        (["visit.day", "days"], "drug", '"visit.day" BETWEEN'),
    ):
        for row in mwem_sql.ranges(con, tables, columns, 2).to_pylist():
            assert row["of"] == of and row["predicate"].startswith(begins)
    for columns in ("vid", "visit", "note", "nothing"):
        with pytest.raises(OptionError, match=f"mwem_ranges: columns .{columns}. are not all of one of the tables"):
            mwem_sql.ranges(con, tables, columns, 2)
    with pytest.raises(OptionError, match="mwem_ranges: no column is named"):
        mwem_sql.ranges(con, tables, [], 2)


def test_what_is_for_one_table_is_refused_of_several(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(OptionError, match=r"mwem_domain: domain \('d'\) is for one table"):
        mwem_sql.domain(con, ["person", "visit"], domain="d")
    with pytest.raises(OptionError, match=r"mwem_marginals: tables .*must be a list of 2 to 100"):
        mwem_sql.marginals(con, ["person"], 1)


def test_the_domain_of_several_tables_lists_columns_keys_and_numbers(con: duckdb.DuckDBPyConnection) -> None:
    found = {row["attribute"]: row for row in mwem_sql.domain(con, ["visit", "person"]).to_pylist()}
    assert list(found) == [
        "person.pid", "person.sex", "person.note", "person.visit",
        "visit.vid", "visit.pid", "visit.away", "visit.day",
    ]  # fmt: skip
    assert (found["visit.day"]["low"], found["visit.day"]["high"], found["visit.day"]["lacks"]) == ("1", "31", None)
    assert found["visit.pid"]["lacks"].startswith("it is a key") and found["person.note"]["lacks"].startswith("values")
    assert found["person.visit"]["declared"] == "rows of visit, up to rows_per_unit of the release"


def test_parities_have_a_column_of_the_table_itself(con: duckdb.DuckDBPyConnection) -> None:
    """Those above alone are asked about in their own table; numbers of rows below have no two values."""

    def names(*arguments: object, **options: object) -> list[tuple[str, str]]:
        rows = mwem_sql.parities(con, ["drug", "visit", "person"], *arguments, **options).to_pylist()  # type: ignore[arg-type]
        return [(row["of"], row["name"].removeprefix("parity of ")) for row in rows]

    con.execute("ALTER TABLE drug ADD COLUMN strong BOOLEAN DEFAULT true; ALTER TABLE drug ALTER strong SET NOT NULL")
    above = ["person.sex", "visit.away"]
    assert names(2) == [
        ("person", "sex"), ("visit", "away"), ("visit", "away, person.sex"),
        ("drug", "strong"), *(("drug", f"strong, {name}") for name in above),
    ]  # fmt: skip
    assert len(names(3)) == len(names(2)) + 1
    # Of a table that has none of the columns itself, those above it.
    assert names(2, columns=["sex", "away"]) == [
        ("person", "sex"), ("visit", "away"), ("visit", "person.sex, away"),
        ("drug", "person.sex"), ("drug", "visit.away"), ("drug", "person.sex, visit.away"),
    ]  # fmt: skip
    for columns, why in (
        (["nothing"], r"column \('nothing'\) is not a column with a domain of one of the tables"),
        (["vid"], r"column \('vid'\) is not a column with a domain"),
        (["day"], r"attribute day has 31 values or bins"),
    ):
        with pytest.raises(OptionError, match=f"mwem_parities: {why}"):
            names(1, columns=columns)
    with pytest.raises(OptionError, match=r"order \(4\) must be from 1 to 3, the number of attributes with two values"):
        names(4)


def test_the_release_of_parities_runs(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "UPDATE visit SET away = pid % 3 = 0; CREATE TABLE workload AS FROM mwem_parities(['person', 'visit'], 2)"
    )
    person, visit = mwem_sql.release(con, ["person", "visit"], "workload", 10**6, rows_per_unit=2)
    sums = mwem_sql.answer(con, visit.output, mwem_sql.parities(con, ["person", "visit"], 2).slice(1)).to_pylist()
    # Of 120 visits 40 are away, those of women.
    assert [round(row["answer"]) for row in sums] == [40, -120] and person.rows == 60


def test_rules_and_totals_are_of_each_table(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        """CREATE TABLE visit_rules AS SELECT 'away OR day > 0' AS rule;
           CREATE TABLE others AS SELECT 'day < 40' AS rule;
           CREATE TABLE person_known AS SELECT 'F' AS sex, 20 AS rows"""
    )
    tables = ["visit", "person"]
    for kind, of, listed in (
        (mwem_sql.rules, "visit", ['"away" OR "day" > 0']),
        (mwem_sql.known, "person", ["\"sex\" = 'F'", None]),
    ):
        rows = kind(con, tables).to_pylist()
        assert [row["of"] for row in rows] == [of] * len(listed)
        name = "rule" if kind is mwem_sql.rules else "predicate"
        assert [row[name] for row in rows] == listed
        in_sql = con.sql(f"FROM mwem_{kind.__name__}(['visit', 'person'])").to_arrow_table()
        assert in_sql.to_pylist() == rows
        assert [row["of"] for row in kind(con, of).to_pylist()] == [None] * len(listed)
    for rules in ({"visit": "others"}, {"VISIT": "main.others"}):
        assert [row["rule"] for row in mwem_sql.rules(con, tables, rules=rules).to_pylist()] == ['"day" < 40']
    found = con.sql("SELECT rule FROM mwem_rules(['visit', 'person'], rules := {visit: 'others'})").fetchall()
    assert found == [('"day" < 40',)]
    with pytest.raises(OptionError, match=r"rules names 'visits', which is not a table of this call.*did you mean"):
        mwem_sql.rules(con, tables, rules={"visits": "others"})
    with pytest.raises(OptionError, match=r"mwem_rules: rules \('others'\) is for one table. Hint: leave it out"):
        mwem_sql.rules(con, tables, rules="others")
