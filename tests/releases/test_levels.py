"""What each table of a release is asked, and what it has of the budget."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import duckdb
import pytest

import mwem_sql
from mwem_sql.boundary.levels import read_levels
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.session import Session
from mwem_sql.releases.levels import TablesRequest, TreePlan, plan_tree
from mwem_sql.releases.questions import columns_above, read_of
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


def test_what_a_table_asks_of_those_above_is_asked_of_its_parent(con: duckdb.DuckDBPyConnection) -> None:
    """Together with how many rows lead there: all that its rows tell apart, for each column that they read."""
    tree = planned(
        con,
        Query("home AND person.age >= 65", of="visit"),
        Query("age < 18", of="visit"),
        Query(group_by=("strong", "visit.home", "person.old"), of="drug"),
    )
    person, visit, drug = (one.request.workload for one in tree.levels)
    assert len(drug) == 1
    assert [query.label for query in visit] == [
        "home AND person.age >= 65", "age < 18", "drug", "home, drug", "person.old, drug",
    ]  # fmt: skip
    assert {query.label: query.group_by for query in person} == {
        "visit": ('"visit"',),
        "age, visit": ('"age" >= 65, "age" < 18, "visit"',),
        "old, visit": ('"old", "visit"',),
    }


def test_what_does_not_fit_is_not_asked_of_a_parent(con: duckdb.DuckDBPyConnection) -> None:
    """How many rows lead to a row remains; what the workload itself asks of too many cells is refused as ever."""
    queries = Workload((Query(group_by=("home", "person.age"), of="visit"),))
    options = {"rows_per_unit": 9}
    for max_cells, labels in ((5_000, ["visit", "age, visit"]), (500, ["visit"])):
        request = TablesRequest.parse(["person", "visit"], queries, 1, {**options, "max_cells": max_cells})
        assert _labels(plan_tree(Session.of(con), request)) == labels


def _labels(tree: TreePlan) -> list[str]:
    return [query.label for query in tree.root.request.workload]


def test_each_table_has_as_much_of_the_budget(con: duckdb.DuckDBPyConnection) -> None:
    """Whatever its rows per unit and its questions, under epsilon and under rho; the parts add up."""
    queries = [Query(group_by=("home",), of="visit"), Query(group_by=("strong",), of="drug")]
    tree = planned(con, *queries, visit=4, drug=32)
    assert [one.plan.part for one in tree.levels] == [Fraction(1, 3)] * 3
    assert [one.plan.schedule.limit for one in tree.levels] == [Fraction(1, 3)] * 3
    assert tree.limit == Fraction(1)
    in_rho = planned(con, *queries, delta=1e-6, visit=4, drug=32)
    assert [one.plan.part for one in in_rho.levels] == [Fraction(1, 3)] * 3
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


def test_columns_that_are_read_of_tables_above(con: duckdb.DuckDBPyConnection) -> None:
    levels = read_levels(con, ["person", "visit", "drug"], Place("memory", "main"))
    above = columns_above(levels, 2)
    assert above["visit.home"] == (1, "home") and above["person.age"] == (0, "age")
    queries = [[], [Query("home AND person.old", of="visit")], [Query("strong AND visit.home", of="drug")]]
    workload = Workload(tuple(query for each in queries for query in each))
    domains = [one.plan.compiled.domain for one in planned(con, *workload).levels]
    assert read_of(levels, domains, queries) == [{"old"}, {"home"}, {"strong"}]
