"""Session: how a call reaches its database, and what of the caller's connection changes the meaning of SQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import duckdb
from sqlglot import exp

from mwem_sql.language.dialect import fold
from mwem_sql.platform import calls
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.handles import connection_of
from mwem_sql.platform.sandbox import MEANINGFUL_SETTINGS, set_statement

_LOCKS: dict[str, threading.Lock] = {}
_LOCKS_GUARD = threading.Lock()


@dataclass(frozen=True)
class Session:
    """`cursor` gives a fresh connection of the instance for every statement: it sees committed, lasting tables only."""

    fresh: Callable[[], duckdb.DuckDBPyConnection]
    place: Place
    settings: Mapping[str, object]

    @classmethod
    def of(cls, handle: object) -> Session:
        """A session with the current database, schema and settings of a connection, or of the one that a handle holds."""
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
                with suppress(duckdb.Error):  # one that all connections share, or of an extension that is not loaded
                    con.execute(set_statement(name, value))
        return con

    def cursor(self) -> duckdb.DuckDBPyConnection:
        return calls.track(self.fresh())


def instance(con: duckdb.DuckDBPyConnection) -> str | None:
    """The key of the instance that a connection belongs to; None where `register` was not called on it."""
    try:
        return str(con.cursor().execute("SELECT _mwem_instance('')").fetchall()[0][0])
    except duckdb.Error:
        return None


def lock(name: str) -> threading.Lock:
    """One lock per name and process. No other process can write to the same DuckDB file."""
    with _LOCKS_GUARD:
        return _LOCKS.setdefault(fold(name), threading.Lock())


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
