"""Which account a request is charged to, whatever engine or spelling it comes by. Must not write.

Only this module says so. Where the ledger is, and which account its rows have:

- A table: in its database, or in an attached one that has a key of its file. The account that the table carries, or
  that its file's keys belong to; else the one that its name belongs to, or the name of a view above it; else a new one.
- A table of a DuckDB file that cannot be written (attached READ_ONLY, or a source): in the attached database that has
  a key of the file, else in the default one, or the one named at attach. The account of the file, for all its tables:
  names inside it may change unseen. A file that has a ledger of its own is refused.
- Another source (`mwem_attach`): in the attached database that has a key of its rows, else in the one named at attach.
  The account that it carries, or that the keys of its leaves belong to; else that of their names; else a new one.
- Files, read by a view or named in the place of a table: in the database that has a key of one of them, else in the
  view's, else in the current one. The account of the files' keys; else that of the view's name; else a new one.

What rows are known by:

| | strong: it follows the rows through every rename | weak: asked only where nothing strong is there |
|---|---|---|
| a DuckDB table | the mark in its comment, and those of all tables that keys connect with it | its name, and those of |
|  |  | views above it; then those of the tables that keys connect with it |
| a file, a DuckDB file without a ledger included | device and inode, and its real path | the name of the view |
| views of files that `mwem_keys` connects | those of the files of all | the names of all |
| a PostgreSQL table | the numbers of all leaves that it reads, and of their parents | their names |
| a Spark table | the mark in its properties; its folder and files | its name |

While any attached database has a cap, nothing is charged to an account without one (`Ledger.debit`): what is in no
account may be a copy. A table that was replaced, and so is known by its name only, is refused where there are several
caps: its rows may be another account's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import duckdb

from mwem_sql.accounting.journal import Journal
from mwem_sql.boundary.files import FileName, is_inode, keys_of
from mwem_sql.boundary.relations import Relation
from mwem_sql.boundary.sources import Source
from mwem_sql.errors import BudgetError, literal, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Database, Name
from mwem_sql.platform.metadata import Key, key

# In a table's comment, which DuckDB keeps through every ALTER and rename.
_ACCOUNT = re.compile(r"\s*\[mwem account ([0-9a-f]+)\]")


@dataclass(frozen=True)
class TableCarrier:
    """A DuckDB table that can be written. Comments carry marks: DuckDB keeps them through every ALTER and rename."""

    table: Name

    @property
    def name(self) -> str:
        return self.table.table

    def account(self, con: duckdb.DuckDBPyConnection) -> str | None:
        """The account that the table carries."""
        mark = _ACCOUNT.search(catalog.comment(con, self.table))
        return mark[1] if mark else None

    def carry(self, con: duckdb.DuckDBPyConnection, account: str) -> None:
        """Carry an account from now on."""
        before = catalog.comment(con, self.table)
        catalog.set_comment(con, self.table, f"{before} [mwem account {account}]".strip())

    def unit(self, con: duckdb.DuckDBPyConnection, column: str) -> str:
        """What a column is known by however it is renamed; empty where nothing but its name tells."""
        return next((each.id for each in catalog.columns(con, self.table) if fold(each.name) == fold(column)), "")

    def carry_unit(self, con: duckdb.DuckDBPyConnection, column: str, unit: str) -> bool:
        """Let a column be known by `unit` from now on; false where that cannot be."""
        catalog.mark_column(con, self.table, column, unit)
        return True


@dataclass(frozen=True)
class UnitCarrier(TableCarrier):
    """A table that is a unit: all rows that lead to a row of it. The table itself is marked, and no column."""

    def unit(self, con: duckdb.DuckDBPyConnection, column: str) -> str:  # noqa: ARG002
        return catalog.table_unit(con, self.table)

    def carry_unit(self, con: duckdb.DuckDBPyConnection, column: str, unit: str) -> bool:  # noqa: ARG002
        catalog.mark_table(con, self.table, unit)
        return True


@dataclass(frozen=True)
class SourceUnit:
    """A table of a source that is a unit: nothing is marked, for `id` is what the engine itself knows it by."""

    id: str

    def unit(self, _: duckdb.DuckDBPyConnection, column: str) -> str:  # noqa: ARG002
        return self.id

    def carry_unit(self, _: duckdb.DuckDBPyConnection, column: str, unit: str) -> bool:  # noqa: ARG002
        return False


@dataclass(frozen=True)
class FilesUnit:
    """A table that is a unit and whose rows are files: a view of them, or a table of Spark, which carries a mark, too.

    `leaves` are the strong keys of its own rows, as a journal has them of units.
    """

    leaves: tuple[tuple[Key, ...], ...]
    relation: Relation

    @classmethod
    def of(cls, relation: Relation, leaves: Iterable[tuple[Key, ...]]) -> FilesUnit:
        return cls(tuple(tuple(unit_key("files", each[0]) for each in leaf) for leaf in leaves), relation)

    @property
    def keys(self) -> tuple[Key, ...]:
        return _all(self.leaves)

    def unit(self, _: duckdb.DuckDBPyConnection, column: str) -> str:  # noqa: ARG002
        return self.relation.base_id

    def carry_unit(self, _: duckdb.DuckDBPyConnection, column: str, unit: str) -> bool:  # noqa: ARG002
        """Nothing is marked but a table of Spark: the journal has the keys."""
        if self.relation.source is not None and not self.relation.base_id:
            self.relation.source.engine.mark((self.relation.name.schema, self.relation.name.table), "unit", unit)
        return True


@dataclass(frozen=True)
class SourceCarrier:
    """A relation of a source, as its engine has described it; the methods are those of a `TableCarrier`."""

    source: Source
    relation: Relation

    @property
    def name(self) -> str:
        return self.relation.name.table

    def account(self, _: duckdb.DuckDBPyConnection) -> str | None:
        return self.relation.mark

    def carry(self, _: duckdb.DuckDBPyConnection, account: str) -> None:
        self.source.engine.mark((self.relation.name.schema, self.relation.name.table), "account", account)

    def unit(self, _: duckdb.DuckDBPyConnection, column: str) -> str:
        return next((each.id for each in self.relation.declared.values() if each.name == column), "")

    def carry_unit(self, _: duckdb.DuckDBPyConnection, column: str, unit: str) -> bool:  # noqa: ARG002
        return False


Carrier: TypeAlias = TableCarrier | SourceCarrier | SourceUnit | FilesUnit


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What the rows of a private relation are known by. `table` is how it is shown.

    `leaves` has for every leaf that is read its strong keys: all that belong to an account must belong to the same.
    `names` are weak keys in tiers: the first tier with an account answers. `first_keys` are those of a new account.
    `connected` are the tables that keys connect with these rows: what they carry counts, too. Of these, `joined` are
    read or lead to the unit: they carry the account from the first debit on. `beside` are the names of views of files
    that keys connect. `unit` is the table that is the unit.
    """

    table: Name
    leaves: tuple[tuple[Key, ...], ...] = ()
    names: tuple[tuple[Key, ...], ...] = ()
    first_keys: tuple[Key, ...] = ()
    carrier: TableCarrier | SourceCarrier | None = None
    connected: tuple[TableCarrier | SourceCarrier, ...] = ()
    joined: tuple[TableCarrier | SourceCarrier, ...] = ()
    beside: tuple[str, ...] = ()
    unit: UnitCarrier | SourceUnit | FilesUnit | None = None

    @property
    def strong(self) -> tuple[Key, ...]:
        return tuple(key for leaf in self.leaves for key in leaf)

    @property
    def elsewhere(self) -> Identity:
        """The same to a ledger in another database.

        DuckDB writes to one database per transaction: a debit there cannot mark the table, whose file answers for it.
        """
        return replace(self, first_keys=_all(self.leaves), names=(), carrier=None, connected=(), joined=(), unit=None)

    @property
    def carriers(self) -> tuple[TableCarrier | SourceCarrier, ...]:
        """What carries the account from the first debit on."""
        return self.joined if self.carrier is None else (self.carrier, *self.joined)

    @property
    def connected_names(self) -> tuple[str, ...]:
        """What keys connect with these rows, for people."""
        return (*(carrier.name for carrier in self.connected), *self.beside)

    def marks(self, con: duckdb.DuckDBPyConnection) -> frozenset[str]:
        """The accounts that the rows carry, and those that keys connect with them."""
        carried = (carrier.account(con) for carrier in (*self.carriers, *self.connected))
        return frozenset(account for account in carried if account is not None)


def identity_of(relation: Relation, databases: Mapping[str, Database]) -> Identity:
    """What the rows of a relation are known by. `databases` are those that are attached."""
    table = relation.charged
    if relation.source is not None:
        # Shown by its server's name and not by the alias, which is this session's.
        shown = Name(relation.source.engine.shown, table.schema, table.table)
        strong, weak = relation.keys[0], relation.keys[1:]
        of_others = tuple(key for each in relation.beside for key in each.keys[0])
        unit: SourceUnit | FilesUnit | None = None
        if relation.unit is not None:
            is_known = relation.source.engine.keeps_keys
            unit = SourceUnit(relation.unit.id) if is_known else FilesUnit.of(relation, _leaves(strong))
        return Identity(
            table=shown,
            leaves=(*_leaves(strong), *_leaves(of_others)),
            names=(*weak, _all(tuple(tier for each in relation.beside for tier in each.keys[1:]))),
            first_keys=(*_all(relation.keys), *of_others),
            carrier=SourceCarrier(relation.source, relation),
            connected=tuple(SourceCarrier(relation.source, each) for each in relation.beside),
            unit=unit,
        )
    if relation.files is not None:
        # A file that was named in the place of a table has no view whose name could speak for it.
        views = tuple((_name(name),) for name in reversed(relation.names) if not isinstance(name, FileName))
        of_files = [keys_of(path) for path in relation.files.paths]
        others = (path for each in relation.beside if each.files for path in each.files.paths)
        leaves = tuple(dict.fromkeys((*of_files, *map(keys_of, others))))
        return Identity(
            table=table,
            leaves=leaves,
            names=(*views, tuple(_name(each.name) for each in relation.beside)),
            first_keys=_all(leaves, *views[:1]),
            beside=tuple(each.name.table for each in relation.beside),
            unit=None if relation.unit is None else FilesUnit.of(relation, of_files),
        )
    database = databases[table.database]
    leaves = (keys_of(database.path),) if database.path else ()
    if database.read_only:
        return Identity(table=table, leaves=leaves, first_keys=_all(leaves))
    # A name that a table has lost to a view above it still speaks for it.
    names = tuple((_name(name),) for name in reversed(relation.names) if name.database == table.database)
    path = relation.unit.path if relation.unit is not None else ()
    private = (each.name for each in relation.joined if each.mark is None)
    joined = tuple(name for name in dict.fromkeys((*path, *private)) if name != table)
    connected = tuple(name for name in relation.connected if name != table)
    return Identity(
        table=table,
        leaves=leaves,
        names=(*names, tuple(map(_name, connected))),
        first_keys=(*names[0], *map(_name, joined)),
        carrier=TableCarrier(table),
        connected=tuple(map(TableCarrier, connected)),
        joined=tuple(map(TableCarrier, joined)),
        unit=None if relation.unit is None else UnitCarrier(relation.unit.table),
    )


@dataclass(frozen=True)
class Books:
    """What says which account rows have, as it was read: the journals by database, and the marks on the rows."""

    journals: Mapping[str, Journal]
    marks: frozenset[str] = frozenset()

    def account(self, home: str, identity: Identity) -> str | None:
        """The account that answers for these rows; a BudgetError where they belong to two."""
        keys = self.journals[home].keys if home in self.journals else {}
        for mark in sorted(self.marks - set(keys.values())):
            raise refuse(
                BudgetError,
                "ledger",
                f"table ({identity.table}) carries the account {mark}, which the ledger in database ({home}) does "
                "not know",
                "ATTACH the database that has its ledger, or restore the schema mwem from a backup; if the rows are "
                "new, the curator takes the mark off",
            )
        strong = _accounts(keys, identity.strong) | self.marks
        weak = (_accounts(keys, tier) for tier in identity.names)
        accounts = sorted(next((tier for tier in (strong, *weak) if tier), set()))
        is_torn = any(len(_accounts(keys, leaf)) > 1 for leaf in identity.leaves)
        if len(accounts) > 1 and identity.connected_names and not is_torn:
            names = ", ".join(identity.connected_names)
            raise refuse(
                BudgetError,
                "ledger",
                f"table ({identity.table}) is connected by keys with {names}, and together they have {len(accounts)} "
                f"accounts ({', '.join(accounts)}), of which one would have to count what the other has spent",
                "release from a copy without the keys, CREATE TABLE ... AS FROM ..., with a cap of its own; of tables "
                "that are public the curator says so with mwem_public before anything of them is charged",
            )
        if len(accounts) > 1:
            raise refuse(
                BudgetError,
                "ledger",
                f"table ({identity.table}) reads rows of {len(accounts)} accounts ({', '.join(accounts)})",
                "release each account's rows by themselves: mwem_ledger() shows what was charged where. "
                "If it is one file that was replaced, the curator confirms it with "
                f"CALL mwem_budget({literal(identity.table.table)}, epsilon)",
            )
        return accounts[0] if accounts else None

    def unit(self, con: duckdb.DuckDBPyConnection, home: str, identity: Identity, carrier: Carrier, column: str) -> str:
        """What a unit is known by however it is renamed; of files, whatever marks and keys say. Empty if nothing does.

        A BudgetError where files are units of two tables.
        """
        present = carrier.unit(con, column)
        if not isinstance(carrier, FilesUnit):
            return present
        keys = self.journals[home].keys if home in self.journals else {}
        units = _accounts(keys, carrier.keys) | ({present} if present else set())
        if len(units) > 1:
            name = literal(identity.table.table)
            what = f"table ({identity.table}) has files whose rows are units of {len(units)} tables"
            hint = f"CALL mwem_budget({name}, epsilon, unit := {name})"
            raise refuse(BudgetError, "ledger", what, f"if a file was replaced, the curator confirms it with {hint}")
        return next(iter(units), "")

    def is_known_by_name_only(self, home: str, identity: Identity) -> bool:
        """Whether nothing that follows rows is known of them: what has such a name today may be other rows."""
        return not self.marks and not _accounts(self.journals[home].keys, identity.strong)

    def home(self, identity: Identity, default: str, function: str) -> str:
        """The database whose ledger knows these rows; one with a cap comes first."""
        accounts = {home: _accounts(journal.keys, identity.strong) for home, journal in self.journals.items()}
        by_key = [home for home in accounts if accounts[home]]
        by_mark = [home for home, journal in self.journals.items() if self.marks & set(journal.keys.values())]
        other = [home for home in by_key if home not in by_mark]
        if by_mark and other:
            raise refuse(
                BudgetError,
                function,
                f"the rows of {identity.table} are counted in two ledgers, those of {by_mark[0]} and {other[0]}",
                "have the curator decide which one goes on and lower its cap by what the other has spent; then DETACH "
                "the other",
            )
        if default in by_mark:  # a copy of the file may know the mark, too
            return default
        knowing = by_mark or by_key
        capped = [
            home for home in knowing if any(self.journals[home].cap(each) for each in (*accounts[home], *self.marks))
        ]
        if len(capped) > 1:
            raise refuse(
                BudgetError,
                function,
                f"the rows of {identity.table} have caps in {len(capped)} databases ({', '.join(capped)})",
                "DETACH all but one: a release is charged to one account",
            )
        return (capped or ([default] if default in knowing else knowing) or [default])[0]


def moved_keys(journal: Journal, identity: Identity) -> dict[Key, str]:
    """Of a file that was replaced, as the curator confirms, the path says whose rows it has, no longer the inode.

    And whether they are units, and which.
    """
    out: dict[Key, str] = {}
    for leaf in (*identity.leaves, *(identity.unit.leaves if isinstance(identity.unit, FilesUnit) else ())):
        present = [each for each in leaf if each in journal.keys]
        out |= {each: journal.keys[present[-1]] for each in present if journal.keys[each] != journal.keys[present[-1]]}
    return out


def unit_key(account: str, column: str) -> Key:
    """The key of a column in the table that took the place of another: it belongs to the unit that its name was."""
    return f"unit of {account}", "", column


def _accounts(keys: Mapping[Key, str], some: Iterable[Key]) -> set[str]:
    return {keys[each] for each in some if each in keys}


def _leaves(keys: tuple[Key, ...]) -> tuple[tuple[Key, ...], ...]:
    """The keys of each leaf: a file has two, its inode and then its path."""
    starts = [k for k in range(len(keys)) if k == 0 or not is_inode(keys[k - 1])]
    return tuple(keys[start:end] for start, end in pairwise([*starts, len(keys)]))


def _name(name: Name) -> Key:
    return key("", name.schema, name.table)


def _all(leaves: tuple[tuple[Key, ...], ...], *names: tuple[Key, ...]) -> tuple[Key, ...]:
    return tuple(each for keys in (*names, *leaves) for each in keys)
