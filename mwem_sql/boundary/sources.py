"""Sources that are attached: which alias stands for which engine in an instance, and which database has its ledger.

An engine describes its relations (`Facts`): names, types as DuckDB has them, declarations, and the keys that a ledger
has for their rows. Those are the server's, never the alias: two aliases of one table are one account. Opens nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import duckdb
from sqlglot import exp

from mwem_sql.errors import TableError, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Column, Name
from mwem_sql.platform.metadata import Key
from mwem_sql.platform.session import instance


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A relation of an engine, from its catalog. Public all of it.

    `keys` are those of its rows in a ledger, in tiers, as `accounting.accounts.Identity` has them: first all leaves
    that it reads, by identities that follow them through renames; then names. `mark` is the account that the relation
    itself carries. `definition` is whatever else must be the same when the rows are read: a view's text, an object's
    number. `base` is the table whose rows they are, with its schema before it, and `id` what that is known by however
    it is renamed; where the engine does not tell, they are empty.
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
    base: tuple[str, ...] = ()
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """Columns of a table that the engine keeps unique, or that lead to another table. Tables have their schemas.

    `is_primary` of a PRIMARY KEY. `refers_to` and `refers_columns` of a FOREIGN KEY; others have none.
    """

    table: tuple[str, ...]
    columns: tuple[str, ...]
    is_primary: bool = False
    refers_to: tuple[str, ...] = ()
    refers_columns: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Linked:
    """Several relations of an engine, and all keys of its database. `ids` has for each table with a key its ledger key.

    What leads where is said of whole tables: of partitions and children, those at the top. An engine that keeps no keys
    has no `constraints`.
    """

    facts: tuple[Facts, ...]
    constraints: tuple[Constraint, ...] | None = None
    ids: Mapping[tuple[str, ...], Key] = field(default_factory=dict)


Mark: TypeAlias = Literal["account", "unit"]
"""What a relation may carry: the account of its rows, and what it is known by where its rows are units."""


class Describes(Protocol):
    """What says what a relation is: an engine, or one snapshot of it."""

    def describe(self, parts: Sequence[str], function: str) -> Facts:
        """The relation under a name without the alias; a TableError says why it cannot be a private one."""
        ...

    def describe_all(self, names: Sequence[Sequence[str]], function: str) -> Linked:
        """Several relations with their keys; a TableError where the engine has no keys that it enforces."""
        ...


class Engine(Describes, Protocol):
    """What the boundary knows of an engine: its kind, the dialect of its SQL, and the schema of a bare name.

    `identity` is the server's name for its database, however it was reached; `shown` is what a person reads. Neither
    has a secret in it.
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
    @property
    def keeps_keys(self) -> bool:
        """Whether it has PRIMARY and FOREIGN KEY constraints; else `mwem_keys` declares keys."""
        ...

    def mark(self, parts: Sequence[str], mark: Mark, value: str) -> None:
        """Let a relation carry a mark from now on, where names alone would not follow its rows; else do nothing."""
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
    by_alias = _attached_to(con)
    return [by_alias[alias] for alias in sorted(by_alias)]


def named(con: duckdb.DuckDBPyConnection, text: str) -> tuple[Source, list[str]] | None:
    """The source that a name begins with, and the rest of the name."""
    alias, *rest = catalog.split_name(text)
    source = _attached_to(con).get(fold(alias)) if rest else None
    return None if source is None else (source, rest)


def _attached_to(con: duckdb.DuckDBPyConnection) -> dict[str, Source]:
    """The sources of an instance, by alias. Where no instance has one, nothing is looked up."""
    return _ATTACHED.get(instance(con) or "", {}) if _ATTACHED else {}


def add(con: duckdb.DuckDBPyConnection, source: Source) -> None:
    """Let an alias stand for a source, in this instance and for as long as the process lives."""
    key = instance(con)
    assert key is not None
    with _GUARD:
        by_alias = _ATTACHED.setdefault(key, {})
        schemas = con.execute("SELECT DISTINCT schema_name FROM duckdb_schemas()").fetchall()
        names = {fold(name) for name in (*catalog.databases(con), *(name for (name,) in schemas))}
        if fold(source.alias) in names | by_alias.keys():
            what = f"alias ({source.alias!r}) is the name of a database, schema or source that is there already"
            raise refuse(TableError, "mwem_attach", what, "choose another, or detach that first")
        by_alias[fold(source.alias)] = source


def remove(con: duckdb.DuckDBPyConnection, alias: str) -> Source:
    """Take an alias back; its account, caps and releases stay."""
    with _GUARD:
        by_alias = _attached_to(con)
        source = by_alias.pop(fold(alias), None)
        if source is None:
            aliases = ", ".join(sorted(one.alias for one in by_alias.values())) or "none"
            what = f"alias ({alias!r}) is not that of an attached source"
            raise refuse(TableError, "mwem_detach", what, f"mwem_sources() lists them: {aliases}")
        return source


def close_all() -> None:
    """Close every engine: drivers that are collected after Python has ended complain."""
    with _GUARD:
        for by_alias in _ATTACHED.values():
            for source in by_alias.values():
                source.engine.close()
        _ATTACHED.clear()
