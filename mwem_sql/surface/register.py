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
from collections.abc import Callable, Sequence, Sized
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

from mwem_sql.boundary import sources
from mwem_sql.errors import MwemError, TableError, refuse
from mwem_sql.platform import calls
from mwem_sql.platform.catalog import Place, is_read_only
from mwem_sql.platform.metadata import read_sql
from mwem_sql.platform.session import connection_of, lock, transaction, use
from mwem_sql.platform.session import instance as key_of_instance
from mwem_sql.releases.sample import as_texts
from mwem_sql.surface import spec
from mwem_sql.surface.bodies import Arguments, Home, Typed, sentence
from mwem_sql.surface.declaration import SqlFunction

Handle = TypeVar("Handle")
Result = TypeVar("Result")

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
        name = f"_{function.name}"
        if function.kind == "typed":
            _define(con, f"{name}_sql", partial(_selects, function, home), ["VARCHAR"], "VARCHAR")
            lists = "STRUCT(err VARCHAR, lists VARCHAR[][])"
            _define(con, name, partial(_lists, function, home), ["VARCHAR"], lists)
        elif function.kind == "scalar":
            _define(con, name, partial(_values, function, home), ["VARCHAR"], function.struct, pure=True)
        else:
            _define(con, name, partial(_rows, function, home), ["VARCHAR", "VARCHAR[]"], f"{function.struct}[]")


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


def _rows(function: SqlFunction, home: Home, arguments: pa.Array, queries: pa.Array) -> pa.Array:
    """The rows of each call; or one with the refusal, which the macro raises as an error of DuckDB's."""
    out: list[list[dict[str, Any]]] = []
    for text, texts in zip(arguments.to_pylist(), queries.to_pylist(), strict=True):
        try:
            out.append(_run(function, Arguments.of_sql(function.name, home, text, texts), list))
        except Exception as error:  # noqa: BLE001
            out.append([{"err": sentence(function.name, error)}])
    return pa.array(out, type=pa.list_(_row(function)))


def _run(function: SqlFunction, call: Arguments, read: Callable[[Any], Result]) -> Result:
    """What a body gives, read to its end before the call ends."""

    def work() -> Result:
        with call.permitted():
            return read(function.body(call))

    return calls.run(function.name, work)


def _values(function: SqlFunction, home: Home, arguments: pa.Array) -> pa.Array:
    """One value per row. All predicates that are asked of one release are compiled together."""
    try:
        requests = [Arguments.of_sql(function.name, home, text) for text in arguments.to_pylist()]
    except MwemError as error:
        return pa.array([{"err": sentence(function.name, error)}] * len(arguments), type=_row(function))
    out: list[dict[str, Any]] = [{} for _ in requests]
    groups: dict[str, list[int]] = {}
    for row, call in enumerate(requests):
        same = {name: value for name, value in call.values.items() if name != "predicate"}
        groups.setdefault(repr((call.session.place, call.session.settings, same)), []).append(row)
    for rows in groups.values():
        try:
            with requests[rows[0]].permitted():
                values = function.body([requests[row] for row in rows])
            for row, value in zip(rows, values, strict=True):
                out[row] = value
        except Exception as error:  # noqa: BLE001
            out[rows[0]] = {"err": sentence(function.name, error)}
    return pa.array(out, type=_row(function))


def _row(function: SqlFunction) -> pa.DataType:
    return pa.struct([pa.field("err", pa.string()), *function.schema])


def _selects(function: SqlFunction, home: Home, arguments: pa.Array) -> pa.Array:
    """For functions whose columns depend on their arguments: the SELECT of each call, made when DuckDB binds it."""
    return pa.array([_select(function, home, text) for text in arguments.to_pylist()])


def _select(function: SqlFunction, home: Home, text: str) -> str:
    """A list of values for each column, side by side; or what raises the refusal."""
    names: Sequence[str] = ()
    try:
        call = Arguments.of_sql(function.name, home, text)
        names = _names(function, call)
        typed: Typed = _run(function, call, lambda typed: typed)
    except Exception as error:  # noqa: BLE001
        return _raising(sentence(function.name, error), names).sql("duckdb")
    rows = exp.select(exp.alias_(exp.Anonymous(this=f"_{function.name}", expressions=[exp.Literal.string(text)]), "r"))
    # What is not refused when it is bound may be when it runs.
    lists = "CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r.lists END AS v"
    source = exp.select(lists, dialect="duckdb").from_(rows.subquery("c")).subquery("s")
    items = [sqlglot.parse_one(f"unnest(v[{k}])", read="duckdb") for k in range(1, len(typed.types) + 1)]
    return exp.select(*typed.cast(items)).from_(source).sql("duckdb")


def _names(function: SqlFunction, call: Arguments) -> Sequence[str]:
    """The columns that a call has, as far as they are known before it is read.

    Where DuckDB misses a column, it says so in the place of our refusal.
    """
    names = [column.name for column in function.columns]
    if names == ["<column>"]:  # all of the release
        with contextlib.suppress(MwemError):
            return list(call.answerer().stored.classes)
    return () if any(name.startswith("<") for name in names) else names


def _raising(refusal: str, names: Sequence[str]) -> exp.Select:
    """Raises whatever the outer query filters or projects: in a list, before there are rows.

    Without names, DuckDB shows the refusal as the nearest to a column that it misses.
    """
    error = exp.Anonymous(this="error", expressions=[exp.Literal.string(refusal)])
    source = exp.select(exp.alias_(exp.Unnest(expressions=[exp.Array(expressions=[error])]), "r")).subquery("e")
    return exp.select(*(exp.alias_(exp.column("r"), name, quoted=True) for name in names or (refusal,))).from_(source)


def _lists(function: SqlFunction, home: Home, arguments: pa.Array) -> pa.Array:
    """Of each call a struct with its refusal, or with a list of values for each column, as text."""
    refusals: list[str | None] = []
    results: list[list[pa.Array]] = []
    for text in arguments.to_pylist():
        try:
            call = Arguments.of_sql(function.name, home, text)
            results.append(_run(function, call, lambda typed: as_texts(typed.rows())))
            refusals.append(None)
        except Exception as error:  # noqa: BLE001
            results.append([])
            refusals.append(sentence(function.name, error))
    columns = [column for each in results for column in each]
    values = pa.concat_arrays([pa.array([], pa.string()), *columns])
    inner = pa.ListArray.from_arrays(_offsets(columns), values)
    outer = pa.ListArray.from_arrays(_offsets(results), inner)
    return pa.StructArray.from_arrays([pa.array(refusals, pa.string()), outer], ["err", "lists"])


def _offsets(lists: Sequence[Sized]) -> pa.Array:
    return pa.array(np.cumsum([0, *map(len, lists)]), pa.int32())


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
