"""What each table of a release is asked, and what it has of the budget."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import duckdb
import pytest

import mwem_sql
from mwem_sql.platform.session import Session
from mwem_sql.releases.levels import TablesRequest, TreePlan, plan_tree
from mwem_sql.workload import Query, Workload

SETUP = """
    CREATE TABLE person (pid INTEGER PRIMARY KEY, old BOOLEAN NOT NULL,
        age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99));
    CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES person (pid), home BOOLEAN NOT NULL);
    CREATE TABLE drug (vid INTEGER REFERENCES visit (vid), strong BOOLEAN NOT NULL)
"""


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect() as con:
        con.execute(SETUP)
        yield con


def planned(con: duckdb.DuckDBPyConnection, *queries: Query, delta: float = 0, **most: int) -> TreePlan:
    options = {"rows_per_unit": most or 4, "delta": delta}
    tables = ["person", "visit", "drug"]
    return plan_tree(Session.of(con), TablesRequest.parse(tables, Workload(queries), 1, options))


def test_shares_add_up_and_follow_the_rule(con: duckdb.DuckDBPyConnection) -> None:
    """In proportion to the cube root of the rows of a unit times the cells; under rho to the square root."""
    queries = [Query(group_by=("home",), of="visit"), Query(group_by=("strong",), of="drug")]
    tree = planned(con, *queries, visit=4, drug=32)
    shares = [one.plan.part for one in tree.levels]
    assert sum(shares) == 1
    # home (2 cells) and the numbers of drugs (33); strong (2 cells).
    assert float(shares[1] / shares[2]) == pytest.approx((4 * (2 + 33) / (32 * 2)) ** (1 / 3))
    assert [one.plan.schedule.limit for one in tree.levels] == shares
    assert tree.limit == Fraction(1)
    in_rho = planned(con, *queries, delta=1e-6, visit=4, drug=32)
    parts = [one.plan.part for one in in_rho.levels]
    assert float(parts[1] / parts[2]) == pytest.approx((4 * (2 + 33) / (32 * 2)) ** (1 / 2))
    assert {one.plan.schedule.kind for one in in_rho.levels} == {"zcdp"}
    assert [one.plan.schedule.composition.sensitivity for one in tree.levels] == [1, 4, 32]


def test_what_the_tables_above_know_is_not_measured_again(con: duckdb.DuckDBPyConnection) -> None:
    """No line of the plan is about columns of tables above alone, unless there is nothing else."""
    tree = planned(
        con,
        *[Query(group_by=names, of="visit") for names in (("home", "old"), ("age",), ("old", "age"))],
        Query(group_by=("strong",), of="drug"),
    )
    visit = tree.levels[1].plan
    lines = [visit.problem.queries[line.number].attributes for line in visit.schedule.of("first", "round")]
    assert lines and all("home" in names or "drug" in names for names in lines)


def test_numbers_that_are_one_at_most(con: duckdb.DuckDBPyConnection) -> None:
    """Where the column that leads to a row is a key itself."""
    con.execute("CREATE TABLE pass (pid INTEGER PRIMARY KEY REFERENCES person (pid), gold BOOLEAN NOT NULL)")
    request = TablesRequest.parse(
        ["person", "pass"], Workload((Query("gold"),)), 1, {"rows_per_unit": 5}
    )  # fmt: skip
    tree = plan_tree(Session.of(con), request)
    assert tree.root.plan.compiled.domain["pass"].high == 1
