"""Sources that are attached: which alias stands for which engine in an instance, and in which database its ledger is kept. Opens nothing.

An engine tells here what a relation of it is (`Facts`): names, types as DuckDB has them, declarations, and the names that its rows are
known by in a ledger. Those are the server's own, never the alias: two aliases of one table are one account.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import duckdb
from sqlglot import exp

from mwem_sql.errors import TableError, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Column, Name
from mwem_sql.platform.metadata import Key
from mwem_sql.platform.session import instance


@dataclass(frozen=True)
class Facts:
    """A relation of an engine, from its catalog. Public all of it.

    `keys` are what its rows are known by, in tiers, as `accounting.accounts.Identity` has them: first all leaves that it reads, by
    identities that follow them through renames; then names. `mark` is the account that the relation itself carries.
    `definition` is whatever else must be the same when the rows are read: a view's text, an object's number.
    """

    schema: str
    table: str
    columns: tuple[Column, ...]
    rows: exp.Expr
    keys: tuple[tuple[Key, ...], ...]
    checks: tuple[str, ...] = ()
    declared: dict[str, Column] = field(default_factory=dict)
    definition: object = None
    mark: str | None = None


class Describes(Protocol):
    """What says what a relation is: an engine, or one snapshot of it."""

    def describe(self, parts: Sequence[str], function: str) -> Facts:
        """The relation under a name without the alias; a TableError says why it cannot be a private one."""
        ...


class Engine(Describes, Protocol):
    """What the boundary knows of an engine: its kind, the dialect of its SQL, and the schema that a bare name is looked up in.

    `identity` is the server's own name for its database, however it was reached; `shown` is what a person reads. Neither has a secret in it.
    """

    @property
    def kind(self) -> str: ...
    @property
    def dialect(self) -> str: ...
    @property
    def identity(self) -> str: ...
    @property
    def shown(self) -> str: ...
    @property
    def schema(self) -> str: ...
    def mark(self, parts: Sequence[str], account: str) -> None:
        """Let a relation carry an account from now on, where names alone would not follow its rows; else do nothing."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, eq=False)
class Source:
    """An engine under an alias; `home` is the database that its ledger is kept in."""

    alias: str
    engine: Engine
    home: str

    def name(self, parts: Sequence[str]) -> Name:
        """A relation's name with the alias in front, in the spelling of the call. It need not exist."""
        schema, table = (self.engine.schema, *parts)[-2:]
        return Name(self.alias, schema, table)


_GUARD = threading.Lock()
_ATTACHED: dict[str, dict[str, Source]] = {}
"""By instance, and by alias as DuckDB compares names."""


def attached(con: duckdb.DuckDBPyConnection) -> list[Source]:
    """The sources of an instance, in the order of their aliases."""
    found = _ATTACHED.get(instance(con) or "", {}) if _ATTACHED else {}
    return [found[alias] for alias in sorted(found)]


def named(con: duckdb.DuckDBPyConnection, text: str) -> tuple[Source, list[str]] | None:
    """The source that a name begins with, and the rest of the name."""
    if not _ATTACHED:
        return None
    parts = catalog.split_name(text)
    if len(parts) < 2:
        return None
    source = _ATTACHED.get(instance(con) or "", {}).get(fold(parts[0]))
    return None if source is None else (source, parts[1:])


def add(con: duckdb.DuckDBPyConnection, source: Source) -> None:
    """Let an alias stand for a source, in this instance and for as long as the process lives."""
    key = instance(con)
    assert key is not None
    with _GUARD:
        own = _ATTACHED.setdefault(key, {})
        taken = [fold(name) for name in catalog.databases(con)] + list(own)
        if fold(source.alias) in taken or fold(source.alias) in _schemas(con):
            raise refuse(
                TableError,
                "mwem_attach",
                f"alias ({source.alias!r}) is the name of a database, schema or source that is there already",
                "choose another, or detach that first",
            )
        own[fold(source.alias)] = source


def remove(con: duckdb.DuckDBPyConnection, alias: str) -> Source:
    """Take an alias back; its account, caps and releases stay."""
    with _GUARD:
        own = _ATTACHED.get(instance(con) or "", {})
        source = own.pop(fold(alias), None)
        if source is None:
            known = ", ".join(sorted(one.alias for one in own.values())) or "none"
            raise refuse(
                TableError,
                "mwem_detach",
                f"alias ({alias!r}) is not that of an attached source",
                f"mwem_sources() lists them: {known}",
            )
        return source


def close_all() -> None:
    """Close every engine: drivers that are collected after Python has ended complain."""
    with _GUARD:
        for own in _ATTACHED.values():
            for source in own.values():
                source.engine.close()
        _ATTACHED.clear()


def _schemas(con: duckdb.DuckDBPyConnection) -> set[str]:
    return {fold(name) for (name,) in con.execute("SELECT DISTINCT schema_name FROM duckdb_schemas()").fetchall()}
