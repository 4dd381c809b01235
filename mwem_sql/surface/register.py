"""Functions and macros into a connection: every SQL function of the surface is a macro over one Python function.

The Python functions live in the instance, are shared by all its connections and must outlive the one that registered
them, or the process crashes; so they are kept for good and look up a live connection at each call.
Owns what DuckDB knows of us. Must not know what a function does: that is in `spec.py`.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import uuid
import weakref
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from mwem_sql.boundary import sources
from mwem_sql.errors import TableError, refuse
from mwem_sql.platform import calls
from mwem_sql.platform.catalog import Place, is_read_only
from mwem_sql.platform.metadata import read_sql
from mwem_sql.platform.session import connection_of, lock, transaction, use
from mwem_sql.platform.session import instance as key_of_instance
from mwem_sql.surface import spec
from mwem_sql.surface.declaration import Home, SqlFunction

Handle = TypeVar("Handle")

_INSTANCES: dict[str, _Instance] = {}
_BODIES: list[Callable[..., Any]] = []  # DuckDB calls these as long as the instance lives


class _Instance:
    """One DuckDB instance and the connections that registered on it."""

    def __init__(self) -> None:
        self.key = uuid.uuid4().hex
        self._path: str | None = None  # of the database that the instance was opened with
        self._connections: list[weakref.ref[duckdb.DuckDBPyConnection]] = []
        self._guard = threading.Lock()  # as in `session.cursors`

    def add(self, con: duckdb.DuckDBPyConnection) -> None:
        if all(reference() is not con for reference in self._connections):
            self._connections.append(weakref.ref(con))
        self._path = min(con.cursor().execute("PRAGMA database_list").fetchall())[-1]

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A fresh connection of this instance, from whichever connection is still open."""
        for reference in list(self._connections):
            con = reference()
            with contextlib.suppress(duckdb.Error), self._guard:
                if con is not None:
                    return con.cursor()
            with contextlib.suppress(ValueError):  # another thread was first
                self._connections.remove(reference)
        if self._path is not None:
            with contextlib.suppress(duckdb.Error):
                return duckdb.connect(self._path)
        what = "the connection that register() was called on is gone"
        raise refuse(TableError, "mwem_sql", what, "keep it open, or call mwem_sql.register on the connection you use")

    def close(self) -> None:
        for reference in self._connections:
            con = reference()
            if con is not None:
                with contextlib.suppress(duckdb.Error):
                    con.close()


def register(handle: Handle) -> Handle:
    """Add the whole SQL surface to a connection, its cursors and its database; safe to call again. Returns `handle`.

    That is a connection or cursor of DuckDB, a connection or engine of SQLAlchemy (duckdb-engine), an Ibis backend, the
    handle of dbt-duckdb, or jupysql's connection.
    """
    con = connection_of(handle)
    with lock("register"):  # two at once on one file would make the same functions
        _instance_of(con).add(con)
        _create_macros(con)
    calls.listen()
    return handle


def unregister(handle: object) -> None:
    """Take the macros out of the connection's database again; releases and ledger stay."""
    con = connection_of(handle)
    cursor = con.cursor()
    use(cursor, Place(Place.of(con).database, "main"))
    for function in spec.FUNCTIONS.values():
        for target in (con, cursor):
            with contextlib.suppress(duckdb.Error):
                target.execute(f"DROP {function.ddl_kind} IF EXISTS {function.name}")


def connect(database: str | Path = ":memory:", **options: Any) -> duckdb.DuckDBPyConnection:
    """`duckdb.connect`, registered."""
    return register(duckdb.connect(str(database), **options))


def _instance_of(con: duckdb.DuckDBPyConnection) -> _Instance:
    """The instance that a connection belongs to, with all functions: created once, outside of the caller's transaction.

    To create the function that tells the instance fails where it exists. To call it would fail where it does not, and
    then DuckDB searches for similar names, which takes longer than to create all functions.
    """
    instance, cursor = _Instance(), con.cursor()
    try:
        _define(cursor, "_mwem_instance", lambda texts: pa.array([instance.key] * len(texts)), ["VARCHAR"], "VARCHAR")
    except duckdb.CatalogException:
        return _INSTANCES[str(key_of_instance(con))]
    _INSTANCES[instance.key] = instance
    _create_functions(cursor, instance)
    return instance


def _create_functions(con: duckdb.DuckDBPyConnection, home: Home) -> None:
    for function in spec.FUNCTIONS.values():
        name, body = f"_{function.name}", partial(partial, _called, function, home)
        if function.kind == "typed":
            _define(con, f"{name}_sql", body("selects"), ["VARCHAR"], "VARCHAR")
            _define(con, name, body("lists"), ["VARCHAR"], "STRUCT(err VARCHAR, lists VARCHAR[][])")
        elif function.kind == "scalar":
            _define(con, name, body("values"), ["VARCHAR"], function.struct, pure=True)
        else:
            _define(con, name, partial(_called_with, function, home), ["VARCHAR", "VARCHAR[]"], f"{function.struct}[]")


def _define(
    con: duckdb.DuckDBPyConnection, name: str, body: Callable[..., pa.Array], parameters: Sequence[str], returns: str,
    *, pure: bool = False,
) -> None:  # fmt: skip
    """A function that is not `pure` is run once per row; DuckDB folds the calls of one that is."""
    types = [con.type(text) for text in (*parameters, returns)]
    con.create_function(  # type: ignore[call-overload]
        name, body, types[:-1], types[-1], type="arrow", null_handling="special", side_effects=not pure
    )
    _BODIES.append(body)


def _called(function: SqlFunction, home: Home, kind: str, arguments: pa.Array) -> pa.Array:
    """What DuckDB calls. With the first call of a process all is imported that does the work."""
    from mwem_sql.surface import running  # noqa: PLC0415  (takes as long as all that `register` needs)

    return running.ENTRIES[kind](function, home, arguments)


def _called_with(function: SqlFunction, home: Home, arguments: pa.Array, queries: pa.Array) -> pa.Array:
    """The same with a workload. DuckDB counts the parameters."""
    from mwem_sql.surface import running  # noqa: PLC0415

    return running.rows(function, home, arguments, queries)


def _create_macros(con: duckdb.DuckDBPyConnection) -> None:
    """Lasting macros with comments, which cursors find, too; on a read-only database TEMP ones, for this connection."""
    database = Place.of(con).database
    if is_read_only(con.cursor(), database):
        for statement in _statements():
            if statement.type == duckdb.StatementType.CREATE:
                con.execute(statement.query.replace("CREATE OR REPLACE MACRO", "CREATE OR REPLACE TEMP MACRO"))
        return
    cursor = con.cursor()
    use(cursor, Place(database, "main"))
    with transaction(cursor):  # one write to the file, not fifty
        for statement in _statements():
            cursor.execute(statement)


@cache
def _statements() -> tuple[duckdb.Statement, ...]:
    """The script, parsed: that takes longer than the rest of `register`, so it is done once."""
    with duckdb.connect(":memory:") as con:
        return tuple(con.extract_statements(read_sql("macros.sql")))


@atexit.register
def _close_all() -> None:
    calls.finish(seconds=10)
    sources.close_all()
    # A connection that holds Python functions and is still open at exit makes DuckDB 2.0 report leaks.
    for instance in _INSTANCES.values():
        instance.close()
