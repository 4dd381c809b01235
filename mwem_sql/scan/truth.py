"""What SQL itself says on the private table, for the curator. Not private, on purpose: `mwem_compare` shows it, and nothing else calls it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
from sqlglot import exp

from mwem_sql.compile.statements import Statement
from mwem_sql.language import dialect

BATCH = 250
"""Aggregates of one SELECT: of thousands it would be planned slowly."""

Cells = dict[tuple[str | None, ...], float]
"""By group_by values, as text; () without any. What is NULL, and groups without rows, are missing."""


def answers(con: duckdb.DuckDBPyConnection, rows: exp.Expr, queries: Sequence[Statement]) -> list[Cells | None]:
    """Of each query, what SQL says; None if it cannot be evaluated on every private row.

    Privacy:
        None. Why an expression fails stays here: DuckDB's message would quote a private value.
    """
    found: dict[int, Cells | None] = {}
    scalars = [number for number, query in enumerate(queries) if not query.groups]
    with _snapshot(con):
        for begin in range(0, len(scalars), BATCH):
            _scalars(con, rows, {number: queries[number] for number in scalars[begin : begin + BATCH]}, found)
        for number, query in enumerate(queries):
            if query.groups:
                told = _run(con, query.grouped(rows.copy()))
                found[number] = None if told is None else {tuple(row[:-1]): row[-1] for row in told}
    return [None if own is None else _numbers(own) for _, own in sorted(found.items())]


def _scalars(
    con: duckdb.DuckDBPyConnection, rows: exp.Expr, queries: Mapping[int, Statement], found: dict[int, Cells | None]
) -> None:
    """Several at once; if one fails, each by itself."""
    told = _run(con, exp.select(*(query.aggregate for query in queries.values())).from_(rows.copy()))
    if told is not None:
        found.update((number, {(): value}) for number, value in zip(queries, told[0], strict=True))
    elif len(queries) == 1:
        found.update(dict.fromkeys(queries))
    else:
        for number, query in queries.items():
            _scalars(con, rows, {number: query}, found)


def _numbers(cells: Mapping[tuple[str | None, ...], Any]) -> Cells:
    return {cell: float(value) for cell, value in cells.items() if value is not None}


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


@contextmanager
def _snapshot(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    con.execute("BEGIN TRANSACTION")
    try:
        yield
    finally:
        con.execute("ROLLBACK")
