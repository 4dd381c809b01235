"""Empty databases in memory with our functions.

To open one and to register takes 0.1 s, a new one on an instance that is there 0.02 s.

The instance of a process is used by one test at a time. After it, the database goes and an empty one takes its name;
macros are copied from a file that `register` made. An instance that a test changed in another way (settings, attached
databases, sources) is left.
"""

from __future__ import annotations

import atexit
import contextlib
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import duckdb

import mwem_sql
from mwem_sql.boundary import sources
from mwem_sql.platform import session
from mwem_sql.surface import register

STATE = """SELECT md5(string_agg(name || '=' || coalesce(value, 'NULL'), ',' ORDER BY name)),
    (SELECT list(database_name ORDER BY database_name) FROM duckdb_databases()) FROM duckdb_settings()"""


class _Instance:
    """An instance whose database `memory` is renewed."""

    def __init__(self) -> None:
        self._root = mwem_sql.connect()
        self._key = session.instance(self._root)
        self._root.execute("USE memory")  # as `renew` leaves it: a setting, which `STATE` has
        self._state = self._root.execute(STATE).fetchall()

    def connect(self) -> duckdb.DuckDBPyConnection:
        con = self._root.cursor()
        register._instance_of(con).add(con)
        return con

    def renew(self) -> bool:
        """Whether the instance is as it was, with an empty database."""
        if sources._ATTACHED.get(self._key or "") or self._root.execute(STATE).fetchall() != self._state:
            return False
        self._root.execute(
            f"""ATTACH ':memory:' AS aside; USE aside; DETACH memory;
                ATTACH ':memory:' AS memory; USE memory; DETACH aside;
                ATTACH '{_macros()}' AS macros (READ_ONLY); COPY FROM DATABASE macros TO memory; DETACH macros"""
        )
        return True

    def close(self) -> None:
        self._root.close()


_free: list[_Instance] = []


@cache
def _macros() -> Path:
    """A file with the macros, and nothing else."""
    folder = tempfile.TemporaryDirectory(prefix="macros")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "macros.duckdb"
    mwem_sql.connect(path).close()
    return path


@contextlib.contextmanager
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """What `mwem_sql.connect()` returns."""
    instance = _free.pop() if _free else _Instance()
    try:
        with instance.connect() as con:
            yield con
    finally:
        renewed = False
        with contextlib.suppress(duckdb.Error):
            renewed = instance.renew()
        if renewed:
            _free.append(instance)
        else:
            instance.close()
