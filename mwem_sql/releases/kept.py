"""What is made of the content of a stored table, kept for the next question: a state, measurements, a workload.

A thing is kept by what it was made of, not by a name: by the digest of the rows that the table has at the moment. A
release that is withdrawn, dropped, replaced or changed by hand has other rows or none, whoever changed them, and two
databases that have the same rows have the same things. So nothing is ever out of date, and nothing need be told to.
Must not be given anything private.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
from sqlglot import exp

from mwem_sql.platform.catalog import Name

Value = TypeVar("Value")

MOST_BYTES = 2**26
"""Bytes of content whose things are kept. Larger: more releases are ready for questions; memory grows with it."""


class Kept:
    """Things by their keys, each with its size in bytes; those that were asked for longest ago go first."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._things: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._guard = threading.Lock()
        self.size = 0

    def get(self, key: Hashable, make: Callable[[], tuple[Value, int]]) -> Value:
        """The thing of a key, made now if it is not here. Two threads may make it at once: both are the same."""
        with self._guard:
            if key in self._things:
                self._things.move_to_end(key)
                value: Value = self._things[key][0]
                return value
        value, size = make()
        with self._guard:
            if size <= self._most and key not in self._things:
                self._things[key] = value, size
                self.size += size
            while self.size > self._most:
                self.size -= self._things.popitem(last=False)[1][1]
        return value

    def clear(self) -> None:
        with self._guard:
            self._things.clear()
            self.size = 0


KEPT = Kept()
"""Those of this process."""


def content(
    con: duckdb.DuckDBPyConnection,
    table: Name,
    release: int,
    made: Callable[[pa.Table], Value],
    *,
    order: tuple[str, ...],
    of: Hashable = None,
    size: Callable[[Value], int] | None = None,
) -> Value:
    """What is made of the rows that a table has of a release, in an order, and `of` what else it is made.

    Of each table one thing only is made. Its size is that of the rows, if no other is given.
    """

    def make() -> tuple[Value, int]:
        listed = rows(con, table, release, order)
        value = made(listed)
        return value, listed.nbytes if size is None else size(value)

    return KEPT.get((table.table, of, digest(con, table, release)), make)


def rows(con: duckdb.DuckDBPyConnection, table: Name, release: int, order: tuple[str, ...]) -> pa.Table:
    """The rows that a table has of a release, without its number."""
    return con.sql(_of_release(table, order), params=[release]).to_arrow_table()


@lru_cache(maxsize=256)
def _of_release(table: Name, order: tuple[str, ...]) -> str:
    """Kept: to write it takes as long as to run it."""
    star = exp.Star(except_=[exp.to_identifier("release")])
    condition = exp.column("release").eq(exp.Placeholder())
    return exp.select(star).from_(table.tree()).where(condition).order_by(*map(exp.column, order)).sql("duckdb")


def digest(con: duckdb.DuckDBPyConnection, table: Name, release: int) -> tuple[int, int]:
    """The rows that a table has of a release: how many, and the sum of their hashes, which has no order."""
    ((count, total),) = con.execute(_digest(table), [release]).fetchall()
    return int(count), int(total or 0)


@lru_cache(maxsize=256)
def _digest(table: Name) -> str:
    """Kept: to write it takes as long as to run it."""
    row = "__mwem_row"  # a name that no column of ours has
    hashes = _system("hash", exp.column(row))
    return (
        exp.select(_system("count", exp.column(row)), _system("sum", hashes))
        .from_(exp.alias_(table.tree(), row, table=True))
        .where(exp.column("release").eq(exp.Placeholder()))
        .sql("duckdb")
    )


def _system(function: str, argument: exp.Expr) -> exp.Expr:
    """A call of DuckDB's own function, whatever the user has called so."""
    call = exp.Anonymous(this=function, expressions=[argument])
    return exp.Dot.build([exp.to_identifier("system"), exp.to_identifier("main"), call])
