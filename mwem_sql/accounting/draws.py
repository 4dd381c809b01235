"""Stored draws: what an entry of a ledger has drawn, beside its journal, until its release is stored.

Owns the table mwem.draws. Whether a draw fits what is asked is decided in `kernel/draws.py`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from functools import lru_cache

import duckdb
import numpy as np
from sqlglot import exp

from mwem_sql.errors import RELEASE, OutputError, refuse
from mwem_sql.kernel.draws import Draw
from mwem_sql.platform import metadata
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.metadata import SCHEMA, VERSION

MADE_BY = f"mwem_sql {VERSION}, numpy {np.__version__}, {platform.machine()}"
"""What may decide the last bit of an approximation."""


def read(con: duckdb.DuckDBPyConnection, home: str, entry: str) -> list[Draw]:
    """What an entry has drawn, in its order."""
    rows = con.execute(_statements(home)[0], [entry]).fetchall()
    return [Draw(step=step, values=values, made_by=made_by) for _, step, values, made_by in rows]


def storing(con: duckdb.DuckDBPyConnection, home: str, entry: str, stored: Sequence[Draw]) -> Callable[[Draw], None]:
    """Store draws behind those that are there, each by a statement that is committed when it returns."""
    (write,) = con.extract_statements(_statements(home)[1])  # parsed once: it runs for every draw
    count = len(stored)

    def store(draw: Draw) -> None:
        nonlocal count
        count += 1
        try:
            con.execute(write, [entry, count, draw.step, draw.values, MADE_BY])
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
        else:
            return
        raise refuse(
            OutputError,
            RELEASE,
            f"a draw could not be stored in database ({home}), beside its ledger ({reason})",
            "make room or check the database, and call again: the release goes on from what was stored, at no further"
            " cost",
        )

    return store


def drop(con: duckdb.DuckDBPyConnection, home: str, entry: str) -> None:
    """Forget the draws of an entry whose release is stored: to be called in the transaction that says so."""
    con.execute(_statements(home)[2], [entry])


@lru_cache(maxsize=256)
def _statements(home: str) -> tuple[str, str, str]:
    """Those that read, write and drop. Kept: to write them takes as long as to run them."""
    table, columns = Name(home, SCHEMA, "draws").tree(), list(metadata.declared("ledger.sql", "draws"))
    is_of_entry = exp.column(columns[0]).eq(exp.Placeholder())
    read_all = exp.select(*(exp.column(name, quoted=True) for name in columns[1:])).from_(table).where(is_of_entry)
    values = exp.Values(expressions=[exp.Tuple(expressions=[exp.Placeholder() for _ in columns])])
    statements = (
        read_all.order_by(exp.column("number")),
        exp.Insert(this=table.copy(), expression=values),
        exp.delete(table.copy(), where=is_of_entry.copy()),
    )
    read_sql, write_sql, drop_sql = (statement.sql("duckdb") for statement in statements)
    return read_sql, write_sql, drop_sql
