"""A compiled workload as columns: what its cells are called."""

from __future__ import annotations

import pyarrow as pa
from conftest import Connection

import mwem_sql
from mwem_sql.compile.compiled import cells_of
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Query, Workload


def test_cells_of_several_queries_are_those_of_each(con: Connection) -> None:
    """In the order of each, with NULL where a value is, or where a query has no groups."""
    con.execute(
        """CREATE TABLE t (a INT CHECK (a IN (1, 2)), b ENUM ('x', 'y', 'z') NOT NULL,
                           c INT NOT NULL CHECK (c IN (5, 6, 7)))"""
    )
    queries = [
        Query(group_by=("a", "b")),
        Query("c > 5"),
        Query(group_by=("b", "a")),
        Query("a = 1", group_by=("c", "b")),
        Query("a = c", group_by=("c", "a")),
        Query(group_by=("b", "c")),
        Query(group_by=("c // 2, b",), verbatim=False),
        Query(group_by=("a", "c", "b")),
        Query(group_by=("a", "c")),
        Query(measure="avg(c)", group_by=("b",)),
        Query(measure="sum(c)"),
    ]
    with Sandbox() as sandbox:
        compiled = compile_workload(mwem_sql.Domain.from_schema(con, "t"), Workload(tuple(queries)), sandbox)
    cells = cells_of(list(compiled.queries))
    assert cells.to_pylist() == [cell for query in compiled.queries for cell in query.cells()]
    assert cells.null_count == 2 and [None, "x"] in cells.to_pylist()
    assert cells_of([]).to_pylist() == [] and cells_of([]).type == pa.list_(pa.string())
    assert cells_of([compiled.queries[1]]).to_pylist() == [None]
