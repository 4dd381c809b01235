"""Functions and macros into a connection: every SQL function of the surface is a table macro over one Python function.

The Python functions live in the instance, are shared by all its connections and must outlive the one that registered
them, or the process crashes; so they are kept for good and look up a live connection at each call.
Owns what DuckDB knows of us. Must not know what a function does: that is in `spec.py`.
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
from mwem_sql.platform.metadata import read_sql
from mwem_sql.platform.session import connection_of, lock, transaction, use
from mwem_sql.platform.session import instance as key_of_instance
from mwem_sql.surface import calling, selects, spec
from mwem_sql.surface.calling import Arguments
from mwem_sql.surface.function import Function

Handle = TypeVar("Handle")

_PATIENCE = 10.0  # seconds that calls have to end when Python ends
_TEXT, _QUERIES = "VARCHAR", "STRUCT(n BIGINT, j VARCHAR)[]"

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
        self._path = min(con.cursor().execute("PRAGMA database_list").fetchall())[-1]

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
        _define(cursor, "_mwem_instance", lambda texts: pa.array([instance.key] * len(texts)), [_TEXT], _TEXT)
    except duckdb.CatalogException:
        return _INSTANCES[str(key_of_instance(con))]
    _INSTANCES[instance.key] = instance
    _create_functions(cursor, instance)
    return instance


def _create_functions(con: duckdb.DuckDBPyConnection, instance: _Instance) -> None:
    for function in spec.FUNCTIONS.values():
        name = f"_{function.name}"
        if function.kind == "typed":
            _define(con, f"{name}_sql", _selects(instance, function), [_TEXT], _TEXT)
            _define(con, name, _lists(instance, function), [_TEXT], "STRUCT(err VARCHAR, lists VARCHAR[][])")
        elif function.kind == "scalar":
            _define(con, name, _values(instance, function), [_TEXT], function.struct, pure=True)
        else:
            _define(con, name, _rows(instance, function), [_TEXT, _QUERIES], f"{function.struct}[]")


def _define(
    con: duckdb.DuckDBPyConnection, name: str, body: Callable[..., pa.Array], parameters: Sequence[str], returns: str,
    *, pure: bool = False,
) -> None:  # fmt: skip
    """A function that is not `pure` is run once per row; DuckDB folds the calls of one that is."""
    types = [con.type(text) for text in (*parameters, returns)]
    con.create_function(  # type: ignore[call-overload]
        name, body, types[:-1], types[-1], type="arrow", null_handling="special", side_effects=not pure
    )
    _KEPT.append(body)


def _rows(instance: _Instance, function: Function) -> Callable[[pa.Array, pa.Array], pa.Array]:
    kind = pa.list_(_row(function))

    def run(text: str, queries: list[str] | None) -> list[dict[str, Any]]:
        try:
            call = Arguments.of_sql(function.name, instance.cursor, text, queries)
            return calls.run(function.name, lambda: list(function.body(call)))
        except Exception as error:  # noqa: BLE001
            return [{"err": calling.sentence(function.name, error)}]  # which the macro raises as an error of DuckDB's

    def body(arguments: pa.Array, queries: pa.Array) -> pa.Array:
        rows = [run(*each) for each in zip(arguments.to_pylist(), _json_rows(queries), strict=True)]
        return pa.array(rows, type=kind)

    return body


def _values(instance: _Instance, function: Function) -> Callable[[pa.Array], pa.Array]:
    """One value per row. All predicates that are asked of one release are compiled together."""
    kind = _row(function)

    def body(arguments: pa.Array) -> pa.Array:
        requests = [Arguments.of_sql(function.name, instance.cursor, text) for text in arguments.to_pylist()]
        out: list[dict[str, Any]] = [{} for _ in requests]
        groups: dict[str, list[int]] = {}
        for row, call in enumerate(requests):
            same = {name: value for name, value in call.values.items() if name != "predicate"}
            groups.setdefault(repr((call.session.place, call.session.settings, same)), []).append(row)
        for rows in groups.values():
            try:
                for row, value in zip(rows, function.body([requests[row] for row in rows]), strict=True):
                    out[row] = value
            except Exception as error:  # noqa: BLE001
                out[rows[0]] = {"err": calling.sentence(function.name, error)}
        return pa.array(out, type=kind)

    return body


def _row(function: Function) -> pa.DataType:
    return pa.struct([pa.field("err", pa.string()), *function.schema])


def _selects(instance: _Instance, function: Function) -> Callable[[pa.Array], pa.Array]:
    return lambda arguments: pa.array(
        [selects.select_sql(function, instance.cursor, text) for text in arguments.to_pylist()]
    )


def _lists(instance: _Instance, function: Function) -> Callable[[pa.Array], pa.Array]:
    return lambda arguments: selects.lists(function, instance.cursor, arguments.to_pylist())


def _json_rows(queries: pa.Array) -> list[list[str] | None]:
    """The workload rows of each call, already in order; None where the workload had no rows or there is none."""
    lists = queries.combine_chunks() if isinstance(queries, pa.ChunkedArray) else queries
    out: list[list[str] | None] = []
    for k in range(len(lists)):
        item = lists[k]
        out.append(item.values.field("j").to_pylist() if item.is_valid and item.values is not None else None)
    return out


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
    calls.finish(_PATIENCE)
    sources.close_all()
    # A connection that holds Python functions and is still open at exit makes DuckDB 2.0 report leaks.
    for instance in _INSTANCES.values():
        instance.close()
