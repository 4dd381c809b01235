"""The DuckDB connection inside what people hold: SQLAlchemy's, Ibis's, dbt's and jupysql's connections wrap one.

Owns how it is found: by the attributes that such handles have, so that none of those packages is imported or needed. Must not open a
connection of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import duckdb

from mwem_sql.errors import OptionError, refuse

# Where the next handle is, as an attribute or as what a method without arguments gives.
_STEPS = (
    "default_connection",  # the module duckdb itself
    "con",  # an Ibis backend
    "connection",  # a connection or session of SQLAlchemy
    "raw_connection",  # an engine of SQLAlchemy
    "_connection",  # a connection of jupysql
    "cursor",  # a handle of dbt-duckdb
)
_FORWARDED = "interrupt"  # a method that every DuckDB connection has, and that wrappers hand on unchanged
_DEEPEST = 4  # handles around a connection: jupysql around SQLAlchemy, its pool and its driver


def connection_of(handle: object) -> duckdb.DuckDBPyConnection:
    """The DuckDB connection that a handle is or holds."""
    level = [handle]
    for _ in range(_DEEPEST):
        for each in level:
            found = _own(each)
            if found is not None:
                return found
        level = [inner for each in level for inner in _inside(each)]
    kind = type(handle)
    raise refuse(
        OptionError,
        "mwem_sql",
        f"connection ({kind.__module__}.{kind.__qualname__}) must be a connection of DuckDB or hold one",
        "pass a DuckDB connection or cursor, a SQLAlchemy connection or engine on DuckDB, an Ibis backend, or the connection of dbt or jupysql",
    )


def _own(handle: object) -> duckdb.DuckDBPyConnection | None:
    """The handle itself, or the connection that its methods belong to."""
    if isinstance(handle, duckdb.DuckDBPyConnection):
        return handle
    owner = getattr(getattr(handle, _FORWARDED, None), "__self__", None)
    return owner if isinstance(owner, duckdb.DuckDBPyConnection) else None


def _inside(handle: object) -> Iterator[object]:
    for step in _STEPS:
        inner = getattr(handle, step, None)
        with suppress(TypeError):  # a method of the same name that wants arguments
            if inner is not None:
                yield inner() if callable(inner) else inner
