"""Persons, their visits and drugs, and the plan of a release of all three."""

from __future__ import annotations

import duckdb

from mwem_sql.platform.session import Session
from mwem_sql.releases.levels import TablesRequest, TreePlan, plan_tree
from mwem_sql.workload import Query, Workload

SETUP = """
    CREATE TABLE person (pid INTEGER PRIMARY KEY, old BOOLEAN NOT NULL,
        age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99));
    CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES person (pid), home BOOLEAN NOT NULL);
    CREATE TABLE drug (vid INTEGER REFERENCES visit (vid), strong BOOLEAN NOT NULL)
"""


def planned(con: duckdb.DuckDBPyConnection, *queries: Query, delta: float = 0, **most: int) -> TreePlan:
    options = {"rows_per_unit": most or 4, "delta": delta}
    tables = ["person", "visit", "drug"]
    return plan_tree(Session.of(con), TablesRequest.parse(tables, Workload(queries), 1, options))
