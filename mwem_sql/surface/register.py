"""Functions and macros into a connection: every SQL function of the surface is a table macro over one Python function.

The Python functions live in the instance, are shared by all its connections and must outlive the one that registered
them, or the process crashes; so they are kept for good and look up a live connection at each call.
Owns what DuckDB knows of us. Must not know what a function does: that is in `functions.py`.
"""

from __future__ import annotations

import atexit
import contextlib
import uuid
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from mwem_sql.boundary import sources
from mwem_sql.errors import TableError, refuse
from mwem_sql.platform import calls
from mwem_sql.platform.catalog import Place, is_read_only
from mwem_sql.platform.handles import connection_of
from mwem_sql.platform.resources import read_sql
from mwem_sql.platform.session import instance as key_of_instance
from mwem_sql.platform.session import lock, transaction, use
from mwem_sql.surface import functions, selects, words

Handle = TypeVar("Handle")

_PATIENCE = 10.0  # seconds that calls have to end when Python ends
_CREATE = "CREATE OR REPLACE MACRO"
_QUERIES = "STRUCT(n BIGINT, j VARCHAR)[]"
_ARROW = {
    "VARCHAR": pa.string(), "VARCHAR[]": pa.list_(pa.string()), "INTEGER": pa.int32(), "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_(), "TIMESTAMP": pa.timestamp("us"),
}  # fmt: skip

_INSTANCES: dict[str, _Instance] = {}
_KEPT: list[Callable[..., Any]] = []  # DuckDB calls these as long as the instance lives


class _Instance:
    """One DuckDB instance and the connections that registered on it."""

    def __init__(self) -> None:
        self.key = uuid.uuid4().hex
        self._path: str | None = None  # of the database that the instance was opened with
        self._connections: list[weakref.ref[duckdb.DuckDBPyConnection]] = []

    def add(self, con: duckdb.DuckDBPyConnection) -> None:
        if all(known() is not con for known in self._connections):
            self._connections.append(weakref.ref(con))
        rows = (
            con.cursor()
            .execute("SELECT path FROM duckdb_databases() WHERE NOT internal ORDER BY database_oid")
            .fetchall()
        )
        self._path = rows[0][0]

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A fresh connection of this instance, from whichever connection is still open."""
        for known in list(self._connections):
            con = known()
            with contextlib.suppress(duckdb.Error):
                if con is not None:
                    return con.cursor()
            with contextlib.suppress(ValueError):  # another thread was first
                self._connections.remove(known)
        if self._path is not None:
            with contextlib.suppress(duckdb.Error):
                return duckdb.connect(self._path)
        raise refuse(
            TableError,
            "mwem_sql",
            "the connection that register() was called on is gone",
            "keep it open, or call mwem_sql.register on the connection you use",
        )

    def close(self) -> None:
        for known in self._connections:
            con = known()
            if con is not None:
                with contextlib.suppress(duckdb.Error):
                    con.close()


def register(handle: Handle) -> Handle:
    """Add the whole SQL surface to a connection, its cursors and its database; safe to call again. Returns what it was given.

    A connection or cursor of DuckDB, a connection or engine of SQLAlchemy (duckdb-engine), an Ibis backend, the handle of
    dbt-duckdb, or jupysql's connection.
    """
    con = connection_of(handle)
    with lock("register"):  # two at once on one file would make the same functions
        instance = _instance_of(con)
        if instance is None:
            instance = _Instance()
            _INSTANCES[instance.key] = instance
            _create_functions(con, instance)
        instance.add(con)
        _create_macros(con)
    calls.listen()
    return handle


def unregister(handle: object) -> None:
    """Take the macros out of the connection's database again; releases and ledger stay."""
    con = connection_of(handle)
    cursor = con.cursor()
    use(cursor, Place(Place.of(con).database, "main"))
    for entry in words.entries():
        for target in (con, cursor):
            with contextlib.suppress(duckdb.Error):
                target.execute(f"DROP {entry.kind} IF EXISTS {entry.name}")


def connect(database: str | Path = ":memory:", **options: Any) -> duckdb.DuckDBPyConnection:
    """`duckdb.connect`, registered."""
    return register(duckdb.connect(str(database), **options))


def _instance_of(con: duckdb.DuckDBPyConnection) -> _Instance | None:
    return _INSTANCES.get(key_of_instance(con) or "")


def _create_functions(con: duckdb.DuckDBPyConnection, instance: _Instance) -> None:
    def name(arguments: pa.Array) -> pa.Array:
        return pa.array([instance.key] * len(arguments))

    def sampled(arguments: pa.Array) -> pa.Array:
        return selects.sampled(instance.cursor, arguments.to_pylist())

    def count(arguments: pa.Array) -> pa.Array:
        kind = pa.struct({"err": pa.string(), **{column: _ARROW[text] for column, text in functions.COUNTED.items()}})
        return pa.array(functions.counts(instance.cursor, arguments.to_pylist()), type=kind)

    _define(con, "_mwem_instance", name, ["VARCHAR"], "VARCHAR")
    _define(con, "_mwem_sample", sampled, ["VARCHAR"], "STRUCT(err VARCHAR, lists VARCHAR[][])")
    for select in selects.SELECTS:
        _define(con, f"_{select}_sql", _select(instance, select), ["VARCHAR"], "VARCHAR")
    counted = ", ".join(f"{column} {kind}" for column, kind in functions.COUNTED.items())
    _define(con, "_mwem_count", count, ["VARCHAR"], f"STRUCT(err VARCHAR, {counted})", pure=True)
    for function in functions.FUNCTIONS:
        listed = ", ".join(f'"{column}" {kind}' for column, kind in function.columns.items())
        _define(
            con,
            f"_{function.name}",
            _rows(instance, function),
            ["VARCHAR", _QUERIES],
            f"STRUCT(err VARCHAR, {listed})[]",
        )


def _define(
    con: duckdb.DuckDBPyConnection, name: str, body: Callable[..., pa.Array], parameters: Sequence[str], returns: str,
    *, pure: bool = False,
) -> None:  # fmt: skip
    """A function that is not `pure` is run once per row; DuckDB folds the calls of one that is."""
    _KEPT.append(body)
    con.create_function(  # type: ignore[call-overload]
        name, body, list(parameters), returns, type="arrow", null_handling="special", side_effects=not pure
    )


def schema_of(function: functions.Function) -> pa.Schema:
    """The columns of a function in Arrow's types."""
    return pa.schema({column: _ARROW[text] for column, text in function.columns.items()})


def _rows(instance: _Instance, function: functions.Function) -> Callable[[pa.Array, pa.Array], pa.Array]:
    kind = pa.list_(pa.struct([pa.field("err", pa.string()), *schema_of(function)]))

    def body(arguments: pa.Array, queries: pa.Array) -> pa.Array:
        calls = zip(arguments.to_pylist(), _json_rows(queries), strict=True)
        return pa.array([function.run(instance.cursor, text, rows) for text, rows in calls], type=kind)

    return body


def _select(instance: _Instance, function: str) -> Callable[[pa.Array], pa.Array]:
    def body(arguments: pa.Array) -> pa.Array:
        return pa.array([selects.select_sql(function, instance.cursor, text) for text in arguments.to_pylist()])

    return body


def _json_rows(queries: pa.Array) -> list[list[str] | None]:
    """The workload rows of each call, already in order; None where the workload had no rows or there is none."""
    lists = queries.combine_chunks() if isinstance(queries, pa.ChunkedArray) else queries
    out: list[list[str] | None] = []
    for k in range(len(lists)):
        item = lists[k]
        out.append(item.values.field("j").to_pylist() if item.is_valid and item.values is not None else None)
    return out


def _create_macros(con: duckdb.DuckDBPyConnection) -> None:
    """Persistent macros with comments, so that cursors find them; TEMP ones, for this connection only, on a read-only database."""
    database = Place.of(con).database
    script = read_sql("macros.sql")
    if is_read_only(con.cursor(), database):
        con.execute(script.replace(_CREATE, "CREATE OR REPLACE TEMP MACRO"))
        return
    cursor = con.cursor()
    use(cursor, Place(database, "main"))
    with transaction(cursor):  # one write to the file, not fifty
        for statement in _statements():
            cursor.execute(statement)


@cache
def _statements() -> tuple[duckdb.Statement, ...]:
    """All that macros and their comments are made with, parsed: to parse them takes longer than the rest of `register`, so it is done once."""
    with duckdb.connect(":memory:") as con:
        return tuple(con.extract_statements(";".join((read_sql("macros.sql"), *words.comments()))))


@atexit.register
def _close_all() -> None:
    calls.finish(_PATIENCE)
    sources.close_all()
    # A connection that holds Python functions and is still open at exit makes DuckDB 2.0 report leaks.
    for instance in _INSTANCES.values():
        instance.close()
