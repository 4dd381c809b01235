"""What a table makes those above it be asked."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from level_plans import SETUP, planned

import mwem_sql
from mwem_sql.boundary.levels import read_levels
from mwem_sql.platform.catalog import Place
from mwem_sql.releases.questions import NUMBER_WEIGHT, columns_above, read_of
from mwem_sql.workload import Query, Workload


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect() as con:
        con.execute(SETUP)
        yield con


def test_what_a_table_asks_of_those_above_is_asked_of_its_parent(con: duckdb.DuckDBPyConnection) -> None:
    """How many rows lead there, with less weight; and all that its rows tell apart of each column that they read."""
    tree = planned(
        con,
        Query("home AND person.age >= 65", of="visit"),
        Query("age < 18", of="visit"),
        Query(group_by=("strong", "visit.home", "person.old"), of="drug"),
    )
    person, visit, drug = (one.request.workload for one in tree.levels)
    assert len(drug) == 1
    assert [query.label for query in visit] == [
        "home AND person.age >= 65", "age < 18", "drug", "home", "person.old",
    ]  # fmt: skip
    assert {query.label: query.group_by for query in person} == {
        "visit": ('"visit"',),
        "age": ('"age" >= 65, "age" < 18',),
        "old": ('"old"',),
    }
    assert [query.weight for query in person] == [NUMBER_WEIGHT, 1, 1]


def test_columns_that_are_read_of_tables_above(con: duckdb.DuckDBPyConnection) -> None:
    levels = read_levels(con, ["person", "visit", "drug"], Place("memory", "main"))
    above = columns_above(levels, 2)
    assert above["visit.home"] == (1, "home") and above["person.age"] == (0, "age")
    queries = [[], [Query("home AND person.old", of="visit")], [Query("strong AND visit.home", of="drug")]]
    workload = Workload(tuple(query for each in queries for query in each))
    domains = [one.plan.compiled.domain for one in planned(con, *workload).levels]
    assert read_of(levels, domains, queries) == [{"old"}, {"home"}, {"strong"}]
