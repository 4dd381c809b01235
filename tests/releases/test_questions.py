"""Which table a question is about, and what a table makes those above it be asked."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import mwem_sql
from mwem_sql.boundary.levels import read_levels
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.session import Session
from mwem_sql.releases.levels import TablesRequest, plan_tree
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


def test_columns_that_are_read_of_tables_above(con: duckdb.DuckDBPyConnection) -> None:
    levels = read_levels(con, ["person", "visit", "drug"], Place("memory", "main"))
    above = columns_above(levels, 2)
    assert above["visit.home"] == (1, "home") and above["person.age"] == (0, "age")
    queries = [[], [Query("home AND person.old", of="visit")], [Query("strong AND visit.home", of="drug")]]
    workload = Workload(tuple(query for each in queries for query in each))
    tree = plan_tree(
        Session.of(con), TablesRequest.parse(["person", "visit", "drug"], workload, 1, {"rows_per_unit": 4})
    )
    domains = [one.plan.compiled.domain for one in tree.levels]
    assert read_of(levels, domains, queries) == [{"old"}, {"home"}, {"strong"}]
