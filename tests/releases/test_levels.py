"""What each table of a release is asked, and what it has of the budget."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import duckdb
import pytest
from level_plans import SETUP, planned

import mwem_sql
from mwem_sql.platform.session import Session
from mwem_sql.releases.levels import TablesRequest, TreePlan, plan_tree
from mwem_sql.workload import Query, Workload


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect() as con:
        con.execute(SETUP)
        yield con


def test_what_does_not_fit_is_not_asked_of_a_parent(con: duckdb.DuckDBPyConnection) -> None:
    """How many rows lead to a row remains; what the workload itself asks of too many cells is refused as ever."""
    queries = Workload(tuple(Query(f"home AND person.age >= {age}", of="visit") for age in range(20, 40)))
    options = {"rows_per_unit": 9}
    for max_cells, labels in ((100, ["visit", "age"]), (18, ["visit"])):
        request = TablesRequest.parse(["person", "visit"], queries, 1, {**options, "max_cells": max_cells})
        assert _labels(plan_tree(Session.of(con), request)) == labels


def _labels(tree: TreePlan) -> list[str]:
    return [query.label for query in tree.root.request.workload]


def test_a_table_below_has_twice_as_much_as_the_root(con: duckdb.DuckDBPyConnection) -> None:
    """Whatever its rows per unit and its questions, under epsilon and under rho; the parts add up."""
    parts = [Fraction(1, 5), Fraction(2, 5), Fraction(2, 5)]
    queries = [Query(group_by=("home",), of="visit"), Query(group_by=("strong",), of="drug")]
    tree = planned(con, *queries, visit=4, drug=32)
    assert [one.plan.part for one in tree.levels] == parts
    assert [one.plan.schedule.limit for one in tree.levels] == parts
    assert tree.limit == Fraction(1)
    in_rho = planned(con, *queries, delta=1e-6, visit=4, drug=32)
    assert [one.plan.part for one in in_rho.levels] == parts
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
