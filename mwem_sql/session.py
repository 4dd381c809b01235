"""Session: how a call reaches its database, and what of the caller's connection changes the meaning of SQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import duckdb

from mwem_sql.catalog import Place
from mwem_sql.compiler.sandbox import MEANINGFUL_SETTINGS

_LOCKS: dict[str, threading.Lock] = {}
_LOCKS_GUARD = threading.Lock()


@dataclass(frozen=True)
class Session:
    """`cursor` gives a fresh connection of the instance for every statement: it sees committed, lasting tables only."""

    cursor: Callable[[], duckdb.DuckDBPyConnection]
    place: Place
    settings: Mapping[str, object]

    @classmethod
    def of(cls, con: duckdb.DuckDBPyConnection) -> Session:
        """A session with the current database, schema and settings of a connection."""
        asked = con.cursor()
        own = con.execute("SELECT current_database(), current_schema()").fetchall()[0]
        settings = {}
        for name in MEANINGFUL_SETTINGS:
            try:
                settings[name] = con.execute("SELECT current_setting(?)", [name]).fetchall()[0][0]
            except duckdb.Error:
                continue  # a setting of an extension that is not loaded
        asked.close()
        return cls(con.cursor, Place(*own), settings)


def output_lock(name: str) -> threading.Lock:
    """One lock per output name and process: two identical calls at once make one release."""
    with _LOCKS_GUARD:
        return _LOCKS.setdefault(name.casefold(), threading.Lock())
