"""Pushdowns for tests: made from a workload, and run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import duckdb
import numpy as np

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.compile.compiled import Compiled
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes, value_pieces
from mwem_sql.domains.domain import Domain
from mwem_sql.platform.catalog import Name
from mwem_sql.scan import execution
from mwem_sql.scan.dialects.dialect import Unit
from mwem_sql.scan.pushdown import Pushdown, plan_pushdown

TABLE = Name("memory", "main", "t")


def planned(compiled: Compiled, unit: Unit | None = None, table: Name = TABLE) -> Pushdown:
    return plan_pushdown(table, compiled.classes, [query.linear for query in compiled.queries], unit)


def answers(con: duckdb.DuckDBPyConnection, pushdown: Pushdown) -> list[list[int]]:
    """Those of each query; then, if there is a unit, how many units have all their rows used, and how many not."""
    found = execution.true_answers(con.cursor(), pushdown)
    assert found.dtype == np.int64
    inside, units = pushdown.apart(found)
    return [answer.tolist() for answer in [*np.split(inside, pushdown.starts[1:]), *([units] if units.size else [])]]


def whole(classes: dict[str, Classes], *sets: Iterable[str]) -> list[LinearQuery]:
    """The marginals of sets of attributes."""
    blocks = {name: Block((name,), np.arange(own.count, dtype=np.int32), own.count) for name, own in classes.items()}
    return [LinearQuery(tuple(blocks[name] for name in names)) for names in sets]


PEOPLE = Domain(
    "t",
    ("a", "s", "person"),
    (
        Attribute("a", "INTEGER", nullable=True, low=0, high=9),
        Attribute("s", "VARCHAR", nullable=True, values=("x", "y")),
    ),
)


def load(con: duckdb.DuckDBPyConnection, rows: list[tuple[Any, ...]]) -> None:
    con.execute("CREATE OR REPLACE TABLE t (a INTEGER, s VARCHAR, person INTEGER)")
    if rows:
        con.executemany("INSERT INTO t VALUES (?, ?, ?)", [list(row) for row in rows])


def grid(sizes: dict[str, int]) -> dict[str, Classes]:
    attributes = {
        name: Attribute(name, "INTEGER", nullable=False, low=0, high=size - 1) for name, size in sizes.items()
    }
    return {
        name: Classes(value_pieces(item), np.arange(sizes[name], dtype=np.int32)) for name, item in attributes.items()
    }
