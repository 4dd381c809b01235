"""Session: how a call reaches its database, and which of the caller's settings change the meaning of SQL.

Finds the DuckDB connection inside the handles that SQLAlchemy, Ibis, dbt and jupysql give people, by their attributes,
so that none of those packages is imported or needed. Must not open a connection of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass

import duckdb
from sqlglot import exp

from mwem_sql.errors import OptionError, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform import calls
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.sandbox import MEANINGFUL_SETTINGS, set_statement

_locks: dict[str, threading.Lock] = {}
_locks_guard = threading.Lock()


@dataclass(frozen=True)
class Session:
    """`cursor` gives a fresh connection of the instance for every statement: it sees committed, lasting tables only.

    A session of a server has two sides: `inside` is the one of private rows, what the curator declares of them, and
    their ledger; the session's own has workloads and releases. `user` is who the server knows that it is.
    """

    fresh: Callable[[], duckdb.DuckDBPyConnection]
    place: Place
    settings: Mapping[str, object]
    _: KW_ONLY
    inside: Session | None = None
    user: str | None = None

    @classmethod
    def of(cls, handle: object) -> Session:
        """A session with the current database, schema and settings of the connection that a handle is or holds."""
        con = connection_of(handle)
        settings = {}
        for name in MEANINGFUL_SETTINGS:
            with suppress(duckdb.Error):  # a setting of an extension that is not loaded
                settings[name] = con.execute("SELECT current_setting(?)", [name]).fetchall()[0][0]
        return cls(con.cursor, Place.of(con), settings)

    def meaning(self) -> duckdb.DuckDBPyConnection:
        """A cursor on which SQL means what it means to the caller."""
        con = self.cursor()
        for name, value in self.settings.items():
            if name in MEANINGFUL_SETTINGS:
                with suppress(duckdb.Error):  # all connections share it, or its extension is not loaded
                    con.execute(set_statement(name, value))
        return con

    def cursor(self) -> duckdb.DuckDBPyConnection:
        return calls.track(self.fresh())

    @property
    def private(self) -> Session:
        """The side that private rows and their ledger are on."""
        return self if self.inside is None else self.inside

    def side_of(self, declared: str | None) -> Session:
        """Where a public table about a private one is looked up: by its name, among the caller's; else beside that."""
        return self.private if declared is None else self


def cursors(con: duckdb.DuckDBPyConnection) -> Callable[[], duckdb.DuckDBPyConnection]:
    """Cursors of a connection for several threads: from 2.0 on, DuckDB refuses two that are made at the same time."""
    guard = threading.Lock()

    def cursor() -> duckdb.DuckDBPyConnection:
        with guard:
            return con.cursor()

    return cursor


def instance(con: duckdb.DuckDBPyConnection) -> str | None:
    """The key of the instance that a connection belongs to; None where `register` was not called on it."""
    try:
        return str(con.cursor().execute("SELECT _mwem_instance('')").fetchall()[0][0])
    except duckdb.Error:
        return None


def lock(name: str) -> threading.Lock:
    """One lock per name and process. No other process can write to the same DuckDB file."""
    with _locks_guard:
        return _locks.setdefault(fold(name), threading.Lock())


def use(con: duckdb.DuckDBPyConnection, place: Place) -> None:
    con.execute(exp.Use(this=exp.table_(place.schema, db=place.database, quoted=True)).sql("duckdb"))


@contextmanager
def transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """All or nothing."""
    con.execute("BEGIN TRANSACTION")
    try:
        yield
        con.execute("COMMIT")
    except BaseException:
        with suppress(duckdb.Error):  # a failed COMMIT has ended the transaction already
            con.execute("ROLLBACK")
        raise


def connection_of(handle: object) -> duckdb.DuckDBPyConnection:
    """The DuckDB connection that a handle is or holds."""
    level = [handle]
    for _ in range(4):  # jupysql around SQLAlchemy, its pool and its driver
        for each in level:
            con = _connection_in(each)
            if con is not None:
                return con
        level = [inner for each in level for inner in _handles_in(each)]
    kind = type(handle)
    raise refuse(
        OptionError,
        "mwem_sql",
        f"connection ({kind.__module__}.{kind.__qualname__}) must be a connection of DuckDB or hold one",
        "pass a DuckDB connection or cursor, a SQLAlchemy connection or engine on DuckDB, an Ibis backend, or the "
        "connection of dbt or jupysql",
    )


def _connection_in(handle: object) -> duckdb.DuckDBPyConnection | None:
    """The handle itself, or the connection that its method `interrupt` belongs to: wrappers pass that on unchanged."""
    if isinstance(handle, duckdb.DuckDBPyConnection):
        return handle
    owner = getattr(getattr(handle, "interrupt", None), "__self__", None)
    return owner if isinstance(owner, duckdb.DuckDBPyConnection) else None


def _handles_in(handle: object) -> Iterator[object]:
    """The next handles: attributes, or results of methods without arguments."""
    names = (
        "default_connection",  # the module duckdb itself
        "con",  # an Ibis backend
        "connection",  # a connection or session of SQLAlchemy
        "raw_connection",  # an engine of SQLAlchemy
        "_connection",  # a connection of jupysql
        "cursor",  # a handle of dbt-duckdb
    )
    for name in names:
        inner = getattr(handle, name, None)
        with suppress(TypeError):  # a method of the same name that wants arguments
            if inner is not None:
                yield inner() if callable(inner) else inner
