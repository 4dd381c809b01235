"""Whose tables are whose: an analyst writes the tables of `main` that they made, and no others.

A name belongs to who first made a table of that name here; it is written down in the published database, beside the
tables. What nobody made (releases, the curator's tables) belongs to no analyst, and neither do the names of private
tables and what goes with them. Owns the table of owners. Must not run a statement of an analyst.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import duckdb
from sqlglot import exp

from mwem_sql.errors import RELEASE, OutputError, TableError, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.session import transaction
from mwem_sql.server.statements import OWNERS_SCHEMA, SERVER

_OWNERS = exp.table_("owners", db=OWNERS_SCHEMA, quoted=True)
_TABLE = """
    CREATE SCHEMA IF NOT EXISTS mwem_server;
    CREATE TABLE IF NOT EXISTS mwem_server.owners (table_name VARCHAR PRIMARY KEY, user_name VARCHAR NOT NULL)"""
_ENDINGS = ("", "_synthetic", "_domain", "_rules", "_known")


class Owners:
    """The owners of tables, as the published database has them."""

    def __init__(
        self, public: Callable[[], duckdb.DuckDBPyConnection], reserved: Callable[[], Collection[str]], most: int
    ) -> None:
        """`reserved` are the names of private tables; `most` is how many tables a user may have."""
        self._public, self._reserved, self._most, self._lock = public, reserved, most, threading.Lock()
        self._outputs: Counter[str] = Counter()
        con = public()
        con.execute(_TABLE)
        rows = con.execute(exp.select("*").from_(_OWNERS).sql("duckdb")).fetchall()
        self._owners: dict[str, str] = dict(rows)
        for table, user in rows:  # those that were never made, or dropped by the curator
            self.release(table, user)

    def claim(self, table: str, user: str) -> None:
        """A table is about to be made: its name is the user's from now on; refused where it cannot be."""
        name = fold(table)
        with self._lock:
            owner = self._owners.get(name)
            if owner == user:
                return
            if owner is None and self._exists(table):
                raise self._not_theirs(table)
            if owner is not None:
                what = f"table ({table!r}) is a name of another user's"
                raise refuse(TableError, SERVER, what, f"choose another: {user}_{table}")
            if name in self._outputs:
                what = f"table ({table!r}) has the name of a release that is being made"
                raise refuse(TableError, SERVER, what, f"choose another: {user}_{table}")
            if name in self._reserved_names():
                what = f"table ({table!r}) has the name of a private table, or of what goes with one"
                raise refuse(TableError, SERVER, what, f"choose another: {user}_{table}")
            if sum(each == user for each in self._owners.values()) >= self._most:
                what = f"table ({table!r}) would be one more than the {self._most:,} that a user may have"
                raise refuse(TableError, SERVER, what, "drop tables that you need no more")
            values = exp.Tuple(expressions=[exp.convert(name), exp.convert(user)])
            insert = exp.Insert(this=_OWNERS.copy(), expression=exp.Values(expressions=[values]))
            self._public().execute(insert.sql("duckdb"))
            self._owners[name] = user

    def check(self, table: str, user: str) -> None:
        """Refuse to write what is not the user's."""
        with self._lock:
            if self._owners.get(fold(table)) != user:
                raise self._not_theirs(table)

    def release(self, table: str, user: str) -> None:
        """A table was dropped: its name is free again, once it is gone."""
        with self._lock:
            if self._owners.get(fold(table)) == user and not self._exists(table):
                con = self._public()
                with transaction(con):
                    where = exp.column("table_name").eq(exp.convert(fold(table)))
                    con.execute(exp.delete(_OWNERS.copy(), where=where).sql("duckdb"))
                del self._owners[fold(table)]

    @contextmanager
    def releasing(self, output: str, tables: Collection[str], user: str) -> Iterator[None]:
        """An output while a release of tables makes it: in `main`, a name of nobody's, and nobody takes it meanwhile.

        Who could create it in between would make a release fail that is charged already.
        """
        *places, table = catalog.split_name(output)
        name, home = fold(table), fold(Place.of(self._public()).database)
        hint = f"leave output out, or choose another: {user}_{table}"
        if not {fold(place) for place in places} <= {home, "main"}:
            what = f"output ({output!r}) is not in the schema main, where releases of a server are"
            raise refuse(OutputError, RELEASE, what, hint)
        with self._lock:
            if name in self._reserved_names() - {fold(each) + "_synthetic" for each in tables}:
                what = f"output ({output!r}) has the name of a private table, or of what goes with one"
                raise refuse(OutputError, RELEASE, what, hint)
            owner = self._owners.get(name)
            if owner is not None:
                whose = "yours" if owner == user else "another user's"
                again = f"DROP TABLE IF EXISTS {exp.to_identifier(table, quoted=True).sql('duckdb')}"
                cure = f"choose another, or {again}" if owner == user else hint
                raise refuse(OutputError, RELEASE, f"output ({output!r}) is the name of a table of {whose}", cure)
            self._outputs[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._outputs -= Counter([name])

    def tables_of(self, user: str) -> list[str]:
        """The names that are a user's, whether there is such a table or not."""
        with self._lock:
            return sorted(table for table, owner in self._owners.items() if owner == user)

    def _reserved_names(self) -> set[str]:
        return {fold(each) + ending for each in self._reserved() for ending in _ENDINGS}

    def _not_theirs(self, table: str) -> Exception:
        what = f"table ({table!r}) is not one that you made here"
        return refuse(TableError, SERVER, what, "write tables of your own: CREATE TABLE name AS ...")

    def _exists(self, table: str) -> bool:
        con = self._public()
        place = Place(Place.of(con).database, "main")
        return catalog.find(con, exp.to_identifier(table, quoted=True).sql("duckdb"), place) is not None
