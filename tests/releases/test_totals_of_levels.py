"""Public totals of several tables: those of the root hold, those of tables below are shares of their rows."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import mwem_sql
from mwem_sql.errors import DomainError

SETUP = """
    CREATE TABLE person (pid INTEGER PRIMARY KEY, sex ENUM ('F', 'M') NOT NULL,
        age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99));
    CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES person (pid),
        kind ENUM ('A', 'B', 'C') NOT NULL, home BOOLEAN NOT NULL);
    INSERT INTO person SELECT i, if(i % 3 = 0, 'F', 'M'), hash(i) % 100 FROM range(900) t(i);
    INSERT INTO visit SELECT row_number() OVER (), pid, if(sex = 'F', 'A', if(i = 0, 'B', 'C')), i = 0
    FROM person, range(3) t(i) WHERE i < 1 + pid % 3;
    CREATE TABLE workload AS FROM mwem_marginals(['person', 'visit'], 2);
    CREATE TABLE person_known AS SELECT * FROM (VALUES ('F', NULL, 300), ('M', NULL, 600), (NULL, 'age < 50', 440))
        t(sex, predicate, "rows")
"""
TABLES = ["person", "visit"]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect() as con:
        con.execute(SETUP)
        yield con


def rows(con: duckdb.DuckDBPyConnection, question: str) -> dict[object, int]:
    return dict(con.execute(question).fetchall())


@pytest.mark.parametrize("epsilon", [0.05, 1])
def test_totals_of_the_root_hold_exactly(con: duckdb.DuckDBPyConnection, epsilon: float) -> None:
    """In rows, in answers, and for sure; what follows from them is not measured."""
    person, visit = mwem_sql.release(con, TABLES, "workload", epsilon, rows_per_unit=3, seed=1)
    assert person.rows == 900
    assert rows(con, "SELECT sex, count(*) FROM person_synthetic GROUP BY ALL") == {"F": 300, "M": 600}
    young = rows(con, "SELECT age < 50, count(*) FROM person_synthetic GROUP BY ALL")[True]
    assert mwem_sql.count(con, person.output, "age < 50") == pytest.approx(440) and abs(young - 440) <= 1
    found = mwem_sql.count_interval(con, person.output, "sex = 'F'")
    assert (found["low"], found["answer"], found["high"]) == (300, 300, 300)
    measured = con.execute("SELECT purpose FROM mwem.measurements JOIN mwem.releases USING (release)").fetchall()
    assert ("total",) not in measured[: person.rounds]
    assert visit.rows == con.execute("SELECT count(*) FROM visit_synthetic").fetchall()[0][0]


@pytest.mark.parametrize("epsilon", [0.05, 1])
def test_totals_of_a_table_below_are_shares_of_its_rows(con: duckdb.DuckDBPyConnection, epsilon: float) -> None:
    """How many rows there are, the rows above say; so they do how many lead to each. Totals need not be true."""
    con.execute(
        "CREATE TABLE visit_known AS SELECT * FROM (VALUES ('A', 9000), ('B', 6000), ('C', 3000)) t(kind, rows)"
    )
    _, visit = mwem_sql.release(con, TABLES, "workload", epsilon, rows_per_unit=3, seed=1)
    ((said,),) = con.execute(f"SELECT sum(n) FROM ({numbers(con)})").fetchall()
    assert visit.rows == said < 3000
    kinds = rows(con, "SELECT kind, count(*) FROM visit_synthetic GROUP BY ALL")
    ((cells,),) = con.execute("SELECT count(DISTINCT (sex, age)) FROM person_synthetic").fetchall()
    for kind, share in (("A", 9 / 18), ("B", 6 / 18), ("C", 3 / 18)):
        assert mwem_sql.count(con, visit.output, f"kind = '{kind}'") == pytest.approx(share * visit.rows, abs=1)
        assert kinds[kind] == pytest.approx(share * visit.rows, abs=cells)
        found = mwem_sql.count_interval(con, visit.output, f"kind = '{kind}'")
        assert found["low"] == found["answer"] == found["high"] == share * 18000
    # What it says of the tables above is what their rows say, all the same.
    ((women,),) = con.execute(
        "SELECT count(*) FROM visit_synthetic JOIN person_synthetic USING (pid) WHERE sex = 'F'"
    ).fetchall()
    assert mwem_sql.count(con, visit.output, "sex = 'F'") == pytest.approx(women, abs=1)


def numbers(con: duckdb.DuckDBPyConnection) -> str:
    """The numbers of visits that persons say they have: each has that many."""
    assert con.execute("SELECT count(*) FROM visit_synthetic ANTI JOIN person_synthetic USING (pid)").fetchall() == [
        (0,)
    ]
    return "SELECT pid, count(*) AS n FROM visit_synthetic GROUP BY ALL"


def test_a_total_of_some_rows_is_a_share_of_those_that_are_counted(con: duckdb.DuckDBPyConnection) -> None:
    """Of a table whose number of rows no total says."""
    con.execute("CREATE TABLE visit_known AS SELECT 'A' AS kind, 600 AS rows")
    _, visit = mwem_sql.release(con, TABLES, "workload", 10, rows_per_unit=3, seed=2)
    assert mwem_sql.count(con, visit.output, "kind = 'A'") == pytest.approx(600, rel=0.02)


def test_totals_by_the_name_of_a_table(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE census AS SELECT 500 AS rows; CREATE TABLE visits AS SELECT 'A' AS kind, 600 AS rows")
    for call, why in (
        ("known := {persons: 'census'}", "known names 'persons', which is not a table of this call"),
        (
            "known := 'census'",
            "known .'census'. is for one table. Hint: leave it out: each table has its own, <table>_",
        ),
        ("known := {person: 'nothing'}", "table of public totals .'nothing'. does not exist"),
    ):
        statement = f"SELECT output FROM mwem_release(['person', 'visit'], workload, 1, rows_per_unit := 3, {call})"
        with pytest.raises(duckdb.Error, match=why):
            con.execute(statement).fetchall()
    options = {"rows_per_unit": 3, "known": {"person": "census", "Visit": "visits"}}
    person, _ = mwem_sql.release(con, TABLES, "workload", 1, **options)
    assert person.rows == 500
    assert all(one.reused for one in mwem_sql.release(con, TABLES, "workload", 1, **options))
    option = "known := {person: 'census'}, version := '2'"
    con.execute(f"CALL mwem_release(['person', 'visit'], workload, 1, rows_per_unit := 3, {option})").fetchall()
    assert mwem_sql.ledger(con).num_rows == 2


def test_totals_that_no_table_has_are_refused(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE visit_known AS SELECT * FROM (VALUES ('A', 10), ('A', 11)) t(kind, rows)")
    with pytest.raises(DomainError, match="no table has them all"):
        mwem_sql.release(con, TABLES, "workload", 1, rows_per_unit=3)
    assert mwem_sql.ledger(con).num_rows == 0
