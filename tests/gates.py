"""A gate without Quack: what Quack would run is run by the test, on a connection for each client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from mwem_sql.platform import seats
from mwem_sql.platform.session import Session, cursors, instance
from mwem_sql.server.gate import Gate
from mwem_sql.server.limits import ServerLimits
from mwem_sql.server.serve import ATTACH_HIDDEN
from mwem_sql.server.statements import RESULTS
from mwem_sql.server.users import Users

PRIVATE = """
    CREATE TABLE census (age INTEGER CHECK (age BETWEEN 0 AND 99), sex ENUM ('F', 'M') NOT NULL, city VARCHAR);
    INSERT INTO census SELECT i % 100, ['F', 'M'][1 + i % 2], ['Bonn', 'Kiel', 'Ulm'][1 + i % 3] FROM range(3000) t(i);
    CREATE TABLE census_domain AS SELECT 'city' AS attribute, ['Bonn', 'Kiel', 'Ulm'] AS "values";
    CREATE TABLE secret AS FROM census;
    CALL mwem_budget('census', 3.0)"""


@dataclass
class Client:
    """A connection of a user's, as Quack has it."""

    gate: Gate
    name: str
    con: duckdb.DuckDBPyConnection

    def run(self, text: str) -> list[Any]:
        """The rows of a statement."""
        return self.con.execute(self.gate.authorize(self.name, text)).fetchall()

    def one(self, text: str) -> dict[str, Any]:
        """Its one row, by column."""
        rows = self.con.execute(self.gate.authorize(self.name, text))
        names = [column[0] for column in rows.description or ()]
        (row,) = rows.fetchall()
        return dict(zip(names, row, strict=True))


@dataclass
class World:
    """Both sides, the gate between them, and tokens."""

    private: duckdb.DuckDBPyConnection
    public: duckdb.DuckDBPyConnection
    gate: Gate
    users: Users
    tokens: dict[str, str]

    def client(self, user: str, name: str | None = None) -> Client:
        name = name or f"connection of {user}"
        assert self.gate.authenticate(name, self.tokens[user])
        return Client(self.gate, name, self.public.cursor())


def world(
    private: duckdb.DuckDBPyConnection, public: duckdb.DuckDBPyConnection, folder: Path, limits: ServerLimits, *,
    names: Sequence[str] = ("anna", "bert"), tables: str = PRIVATE,
) -> World:  # fmt: skip
    private.execute(tables)
    public.execute(ATTACH_HIDDEN.format(RESULTS))
    users = Users(folder / "users.toml")
    tokens = {name: users.add(name) for name in names}
    key = instance(public)
    assert key is not None
    seats.serve(key)
    of_public = cursors(public.cursor())
    gate = Gate(
        public=of_public, inside=replace(Session.of(private), fresh=cursors(private.cursor())),
        database=Session.of(public).place.database, users=users, limits=limits,
        private_tables=lambda: ["census", "secret"], active=set,
    )  # fmt: skip
    return World(private, public, gate, users, tokens)
