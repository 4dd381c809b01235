"""Plans: every refusal comes before anything is spent; and which regime a workload gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from chance import sampled
from conftest import PEOPLE, Connection

import mwem_sql
from mwem_sql.errors import (
    CellsError,
    DomainError,
    MwemError,
    OptionError,
    OutputError,
    PredicateError,
    TableError,
    WorkloadError,
)
from mwem_sql.workload import Workload

ONE = Workload.from_predicates(["age > 40"])


def tables(con: Connection) -> set[str]:
    rows = con.cursor().execute("SELECT schema_name || '.' || table_name FROM duckdb_tables()").fetchall()
    return {name for (name,) in rows}


BAD: list[tuple[type[MwemError], str, str, dict[str, Any]]] = [
    (TableError, "nobody", "age > 40", {}),
    (TableError, "joined", "age > 40", {}),
    (TableError, "counted", "age > 40", {}),
    (TableError, "ranked", "age > 40", {}),
    (TableError, "fleeting", "age > 40", {}),
    (TableError, "people", "age > 40", {"domain": "peeking"}),
    (TableError, "people", "age > 40", {"domain": "nothing"}),
    (DomainError, "people", "age > 40", {"domain": "wrong"}),
    (DomainError, "people", "name = 'x'", {}),
    (OptionError, "people", "age > 40", {"epsilon": "0"}),
    (OptionError, "people", "age > 40", {"epsilon": "-1"}),
    (OptionError, "people", "age > 40", {"epsilon": "nan"}),
    (OptionError, "people", "age > 40", {"epsilon": "inf"}),
    (OptionError, "people", "age > 40", {"epsilon": "abc"}),
    (OptionError, "people", "age > 40", {"epsilon": None}),
    (OptionError, "people", "age > 40", {"epsilon": "1e-9"}),
    (OptionError, "people", "age > 40", {"delta": "2"}),
    (OptionError, "people", "age > 40", {"rounds": 0}),
    (OptionError, "people", "age > 40", {"rounds": 1.5}),
    (OptionError, "people", "age > 40", {"rounds": 10**12}),
    (OptionError, "people", "age > 40", {"rounds": "many"}),
    (OptionError, "people", "age > 40", {"rows": 0}),
    (OptionError, "people", "age > 40", {"total": 0}),
    (OptionError, "people", "age > 40", {"total": 1e12}),
    (OptionError, "people", "age > 40", {"unit": "person"}),
    (OptionError, "people", "age > 40", {"rows_per_unit": 3}),
    (TableError, "people", "age > 40", {"start": "warm"}),
    (OptionError, "people", "age > 40", {"average": 1}),
    (OptionError, "people", "age > 40", {"seed": -1}),
    (OutputError, "people", "age > 40", {"output": "workload"}),
    (OutputError, "people", "age > 40", {"output": "a.b.c.d"}),
    (OutputError, "people", "age > 40", {"output": "nowhere.main.x"}),
    (OutputError, "people", "age > 40", {"output": "temp.main.x"}),
    (WorkloadError, "people", "true", {}),
    (PredicateError, "people", "size > 1", {}),
    (PredicateError, "people", "age > 1 AND (", {}),
    (PredicateError, "people", "age > (SELECT 1)", {}),
    (PredicateError, "people", "age > max(age)", {}),
    (PredicateError, "people", "age > row_number() OVER ()", {}),
    (PredicateError, "people", "age > random()", {}),
    (PredicateError, "people", "now() > '2020-01-01'", {}),
    (PredicateError, "people", "getenv('HOME') = 'x'", {}),
    (PredicateError, "people", "_mwem_instance('x') = 'x'", {}),
    (CellsError, "wide", "a + b + c > 5", {}),
    (CellsError, "wide", "a = 1 AND b = 1 AND c = 1 AND d = 1", {"start": "histogram"}),
]


@pytest.fixture(scope="module")
def strict() -> Iterator[Connection]:
    con = mwem_sql.connect()
    con.execute(PEOPLE)
    con.execute(
        """ALTER TABLE people ADD COLUMN name VARCHAR;
           CREATE VIEW joined AS SELECT p.age FROM people p, workload;
           CREATE VIEW counted AS SELECT age, count(*) AS n FROM people GROUP BY age;
           CREATE VIEW ranked AS SELECT age, row_number() OVER () AS n FROM people;
           CREATE VIEW peeking AS SELECT 'age' AS attribute, min(name::INTEGER) AS low, 9 AS high FROM people;
           CREATE TABLE wrong AS SELECT 'age' AS attribute, 9 AS low, 1 AS high;
           CREATE TEMP TABLE fleeting AS FROM people;
           CREATE TABLE wide (a INTEGER CHECK (a BETWEEN 0 AND 999), b INTEGER CHECK (b BETWEEN 0 AND 999),
                              c INTEGER CHECK (c BETWEEN 0 AND 999), d INTEGER CHECK (d BETWEEN 0 AND 999));
           CREATE TABLE asked (predicate VARCHAR)"""
    )
    yield con
    con.close()


@pytest.mark.parametrize(("kind", "table", "predicate", "options"), sampled(BAD, 8), ids=lambda value: str(value)[:40])
def test_bad_input(
    strict: Connection, kind: type[MwemError], table: str, predicate: str, options: dict[str, Any]
) -> None:
    con = strict
    con.execute("DELETE FROM asked")
    con.execute("INSERT INTO asked VALUES (?)", [predicate])
    before = tables(con)
    given = {"epsilon": "1", **options}
    if predicate.startswith("a = 1"):
        # Each query is small; the histogram of all attributes together is not.
        con.execute("DELETE FROM asked")
        con.execute(
            "INSERT INTO asked SELECT c || ' = ' || i FROM (VALUES ('a'), ('b'), ('c'), ('d')) t(c), range(60) r(i)"
        )

    with pytest.raises(MwemError) as caught:
        mwem_sql.release(con, table, "asked", **given)
    sentence = str(caught.value)
    assert type(caught.value) is kind
    assert "Hint: " in sentence

    listed = "".join(f", {name} := ${name}" for name in given if name != "epsilon")
    with pytest.raises(duckdb.Error) as raised:
        con.execute(f"CALL mwem_release($table, asked, $epsilon{listed})", {"table": table, **given})
    assert str(raised.value) == f"Invalid Input Error: {sentence}"
    assert tables(con) == before
    assert not any(name.startswith("mwem.") for name in before)


def test_what_only_python_can_get_wrong(con: Connection) -> None:
    con.execute("CREATE VIEW leaking AS SELECT 'age > ' || max(age) AS predicate FROM people")
    for kind, workload, options, wanted in [
        (
            TableError,
            "leaking",
            {},
            "workload ('leaking') is a view, and what a view reads may be private. Hint: write its rows out",
        ),
        (TableError, "people", {}, "workload ('people') is the private table itself"),
        (
            TableError,
            "nothing",
            {},
            "workload ('nothing') does not exist for this call. Hint: create it as a table and COMMIT",
        ),
        (OptionError, 5, {}, "workload (int) must be a table name, a Workload or a frame"),
        (
            OptionError,
            ONE,
            {"roundz": 3},
            (
                "option roundz is unknown. Hint: did you mean rounds? the options are average, certify, delta, domain, "
                "fit, known, max_cells, output, publish_if, rounds,"
            ),
        ),
        (OptionError, ONE, {"epsilon": [1]}, "epsilon ([1]) must be a positive finite number"),
        (OptionError, ONE, {"rounds": True}, "rounds (True) must be a whole number"),
        (OptionError, ONE, {"output": True}, "output (True) must be the name of a table, as text"),
    ]:
        with pytest.raises(MwemError) as caught:
            mwem_sql.release(con, "people", workload, **{"epsilon": 1, **options})  # type: ignore[arg-type]
        assert type(caught.value) is kind
        assert wanted in str(caught.value)
    assert tables(con) == {"main.people", "main.workload"}


def test_a_table_of_another_transaction_is_seen_when_it_is_committed(con: Connection) -> None:
    con.execute(
        "BEGIN; CREATE TABLE late AS FROM people; CREATE TABLE late_domain AS SELECT 'age' AS attribute, 0 AS low, 99 "
        "AS high"
    )
    with pytest.raises(
        TableError, match="one whose transaction is still open cannot be seen here: create it as a table and COMMIT"
    ):
        mwem_sql.release(con, "late", ONE, 1)
    con.execute("COMMIT")
    assert mwem_sql.release(con, "late", ONE, 1).attributes == 1


def test_a_tiny_epsilon_needs_rows(con: Connection) -> None:
    with pytest.raises(OptionError, match="the number of rows would be noise"):
        mwem_sql.release(con, "people", ONE, 1e-7)
    assert mwem_sql.release(con, "people", ONE, 1e-7, rows=3).rows == 3
    assert mwem_sql.release(con, "people", ONE, 1e-7, total=30, output="o").rows == 30


def test_few_sets_of_attributes_are_refined_and_nothing_is_selected(con: Connection) -> None:
    made = mwem_sql.release(con, "people", "workload", 1)
    rows = con.execute("SELECT purpose, query, name FROM mwem.measurements ORDER BY step").fetchall()
    assert [row for row in rows if row[0] != "detail"] == [
        ("round", None, name) for name in ("age", "sex, member", "sex, city")
    ]
    assert {row for row in rows if row[0] == "detail"} == {("detail", None, "age")}
    assert made.rounds == 3


def test_parities_of_a_small_table_take_one_histogram(con: Connection) -> None:
    con.execute(
        "CREATE TABLE bits AS SELECT range % 2 = 0 AS a, range % 3 = 0 AS b, range % 5 = 0 AS c FROM range(300)"
    )
    con.execute(
        "ALTER TABLE bits ALTER a SET NOT NULL; ALTER TABLE bits ALTER b SET NOT NULL; ALTER TABLE bits ALTER c SET "
        "NOT NULL"
    )
    con.execute("CREATE TABLE asked AS FROM mwem_parities('bits', 3)")
    made = mwem_sql.release(con, "bits", "asked", 1)
    rows = con.execute('SELECT purpose, query, name, len("values") FROM mwem.measurements').fetchall()
    assert rows == [("round", None, "a, b, c", 8)]
    assert made.rounds == 1
    shown = dict(con.execute("FROM mwem_plan('bits', asked, 1)").fetchall())
    assert (shown["candidates"], shown["selection scale"]) == ("one histogram of the whole domain", "nothing to select")
    assert mwem_sql.release(con, "bits", "asked", 1, rounds=3, output="other").rounds == 3
    # Not where a call says how it is to be done.
    for options in ("fit := 'replay'", "average := true", "start := 'histogram'"):
        shown = dict(con.execute(f"FROM mwem_plan('bits', asked, 1, {options})").fetchall())
        assert shown["candidates"] != "one histogram of the whole domain"
