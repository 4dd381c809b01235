"""What SQL itself says on the private table, for the curator. Not private, on purpose.

`mwem_compare` shows it, and nothing else calls it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
from sqlglot import exp

from mwem_sql.compile.statements import Statement
from mwem_sql.language import dialect
from mwem_sql.scan.engines.duckdb import transaction

COUNTS_AT_ONCE = 250
"""Aggregates of one SELECT: of thousands it would be planned slowly."""

Cells = dict[tuple[str | None, ...], float]
"""By group_by values, as text; () without any. What is NULL, and groups without rows, are missing."""


def answers(con: duckdb.DuckDBPyConnection, rows: exp.Expr, queries: Sequence[Statement]) -> list[Cells | None]:
    """Of each query, what SQL says; None if it cannot be evaluated on every private row.

    Privacy:
        None. Why an expression fails stays here: DuckDB's message would quote a private value.
    """
    cells: dict[int, Cells | None] = {}
    scalars = [number for number, query in enumerate(queries) if not query.groups]
    with transaction(con):
        for begin in range(0, len(scalars), COUNTS_AT_ONCE):
            cells |= _scalars(
                con, rows, {number: queries[number] for number in scalars[begin : begin + COUNTS_AT_ONCE]}
            )
        for number, query in enumerate(queries):
            if query.groups:
                groups = _run(con, query.grouped(rows.copy()))
                cells[number] = None if groups is None else _cells(groups)
    return [cells[number] for number in range(len(queries))]


def _scalars(
    con: duckdb.DuckDBPyConnection, rows: exp.Expr, queries: Mapping[int, Statement]
) -> dict[int, Cells | None]:
    """Several at once; if one fails, each by itself."""
    values = _run(con, exp.select(*(query.aggregate for query in queries.values())).from_(rows.copy()))
    if values is not None:
        return {number: _cells([(value,)]) for number, value in zip(queries, values[0], strict=True)}
    if len(queries) == 1:
        return dict.fromkeys(queries)
    each = [_scalars(con, rows, {number: query}) for number, query in queries.items()]
    return {number: cells for single in each for number, cells in single.items()}


def _cells(rows: Sequence[tuple[Any, ...]]) -> Cells:
    return {row[:-1]: float(row[-1]) for row in rows if row[-1] is not None}


def _run(con: duckdb.DuckDBPyConnection, select: exp.Select) -> list[tuple[Any, ...]] | None:
    """Its rows; None if it fails, whatever the reason. A failure ends the snapshot, and the next one is taken."""
    try:
        return con.execute(dialect.sql(select)).fetchall()
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        con.execute("ROLLBACK")
        con.execute("BEGIN TRANSACTION")
        return None
