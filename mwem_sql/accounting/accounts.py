"""Which account a request is charged to: only this module says so, whatever engine or spelling the request comes by. Must not write.

| the rows are in | the ledger is in | the account is |
|---|---|---|
| a table | its database; where another attached database knows its file, in that one | the one that the table carries, or that its file is known by; else the one its name belongs to, or that of a view above it; else a new one |
| a table of a DuckDB file that cannot be written (attached READ_ONLY, or a source) | the attached database that knows the file, else the default one, or the one named at attach | that of the file, for all its tables: names inside it may change unseen. A file that has a ledger of its own is refused |
| another source (`mwem_attach`) | the attached database that knows its rows, else the one named at attach | the one that it carries, or that its leaves are known by; else that of their names; else a new one |
| files, read by a view or named in the place of a table | the database that knows one of them, else the view's, else the current one | the one that the files are known by; else that of the view's name; else a new one |

What rows are known by is in `names`. While any attached database has a cap, nothing is charged to an account without one (`Ledger.debit`): what is
in no account may be a copy. A table that was replaced, and so is known by its name only, is refused where there are several caps: its rows
may be another account's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import duckdb

from mwem_sql.accounting.balance import cap_of_account
from mwem_sql.accounting.caps import Cap
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.accounting.names import Identity, TableCarrier
from mwem_sql.boundary.files import FileName, is_inode, keys_of
from mwem_sql.boundary.relations import Relation
from mwem_sql.boundary.sources import Source
from mwem_sql.errors import BudgetError, OutputError, refuse
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Name, Place, is_read_only
from mwem_sql.platform.metadata import Key, holders, key, key_of, read_rows


@dataclass(frozen=True)
class SourceCarrier:
    """A relation of a source, as its engine has described it."""

    source: Source
    relation: Relation

    def account(self, _: duckdb.DuckDBPyConnection) -> str | None:
        return self.relation.mark

    def carry(self, _: duckdb.DuckDBPyConnection, account: str) -> None:
        self.source.engine.mark((self.relation.name.schema, self.relation.name.table), account)

    def unit(self, _: duckdb.DuckDBPyConnection, column: str) -> str:
        return next((each.id for each in self.relation.declared.values() if each.name == column), "")

    def carry_unit(self, _: duckdb.DuckDBPyConnection, column: str, unit: str) -> bool:  # noqa: ARG002
        return False


def ledger_of(con: duckdb.DuckDBPyConnection, relation: Relation, place: Place, function: str) -> Ledger:
    """The ledger that answers for a relation; refused where it could not be written."""
    ledger = _answering(con, relation, place, function)
    if not is_read_only(con, ledger.home):
        return ledger
    raise refuse(
        OutputError,
        function,
        f"default database ({place.database}) cannot be written, and neither can {relation.charged.database}",
        "USE a writable database: the ledger of a READ_ONLY table is kept in the default one",
    )


def cap_of(con: duckdb.DuckDBPyConnection, relation: Relation, place: Place, function: str) -> Cap | None:
    """The cap on what a request is charged to."""
    return _answering(con, relation, place, function).balance(con).cap


def identity_of(con: duckdb.DuckDBPyConnection, relation: Relation) -> Identity:
    """What the rows of a relation are known by."""
    table = relation.charged
    if relation.source is not None:
        # Shown by its server's name and not by the alias, which is this session's.
        shown = Name(relation.source.engine.shown, table.schema, table.table)
        strong, weak = relation.keys[0], relation.keys[1:]
        return Identity(
            table=shown,
            leaves=_leaves(strong),
            names=weak,
            opened_with=_all(relation.keys),
            carrier=SourceCarrier(relation.source, relation),
        )
    if relation.files is not None:
        # A file that was named in the place of a table has no view whose name could speak for it.
        views = tuple((_name(name),) for name in reversed(relation.names) if not isinstance(name, FileName))
        leaves = tuple(keys_of(path) for path in relation.files.paths)
        return Identity(table=table, leaves=leaves, names=views, opened_with=_all(leaves, *views[:1]))
    leaves = _file_of(con, table.database)
    if is_read_only(con, table.database):
        return Identity(table=table, leaves=leaves, opened_with=_all(leaves))
    # A name that a table has lost to a view above it still speaks for it.
    names = tuple((_name(name),) for name in reversed(relation.names) if name.database == table.database)
    return Identity(table=table, leaves=leaves, names=names, opened_with=names[0], carrier=TableCarrier(table))


def _answering(con: duckdb.DuckDBPyConnection, relation: Relation, place: Place, function: str) -> Ledger:
    table, identity = relation.charged, identity_of(con, relation)
    if relation.source is not None:
        return Ledger(_home(con, identity, relation.source.home, function), identity)
    read_only = is_read_only(con, table.database)
    if relation.files is not None:
        return Ledger(_home(con, identity, place.database if read_only else table.database, function), identity)
    if read_only:
        _check_no_ledger(con, table, function)
        return Ledger(_home(con, identity, place.database, function), identity)
    home = _home(con, identity, table.database, function)
    if home == table.database:
        return Ledger(home, identity)
    # DuckDB writes to one database per transaction: the debit cannot mark the table, whose file answers for it anyway.
    return Ledger(home, replace(identity, opened_with=_all(identity.leaves), names=(), carrier=None))


def _check_no_ledger(con: duckdb.DuckDBPyConnection, table: Name, function: str) -> None:
    """One file has one ledger: what its own would count, another must not count apart."""
    if read_rows(con, table.database, "journal"):
        raise refuse(
            BudgetError,
            function,
            f"table ({table}) is in a file that has a ledger of its own, which is attached READ_ONLY",
            "attach it writable, so that the release can be debited there",
        )


def _file_of(con: duckdb.DuckDBPyConnection, database: str) -> tuple[tuple[Key, ...], ...]:
    """The file of a database, as a leaf; none in memory."""
    path = catalog.databases(con)[database].path
    return (keys_of(path),) if path else ()


def _leaves(keys: tuple[Key, ...]) -> tuple[tuple[Key, ...], ...]:
    """The keys of each leaf: a file has two, its inode and then its path."""
    starts = [place for place in range(len(keys)) if place == 0 or not is_inode(keys[place - 1])]
    return tuple(keys[start:end] for start, end in zip(starts, [*starts[1:], len(keys)], strict=True))


def _name(name: Name) -> Key:
    return key("", name.schema, name.table)


def _all(leaves: tuple[tuple[Key, ...], ...], *names: tuple[Key, ...]) -> tuple[Key, ...]:
    return tuple(each for keys in (*names, *leaves) for each in keys)


def _home(con: duckdb.DuckDBPyConnection, identity: Identity, default: str, function: str) -> str:
    """The database whose ledger knows these rows; one with a cap comes first."""
    keys = set(identity.strong)
    mark = identity.carrier.account(con) if identity.carrier is not None else None
    rows = {home: read_rows(con, home, "names") for home in holders(con, "names")}
    by_key = [home for home in rows if any(key_of(row) in keys for row in rows[home])]
    by_mark = [home for home in rows if any(row["account"] == mark for row in rows[home])]
    other = [home for home in by_key if home not in by_mark]
    if by_mark and other:
        raise refuse(
            BudgetError,
            function,
            f"the rows of {identity.table} are counted in two ledgers, those of {by_mark[0]} and {other[0]}",
            "have the curator decide which one goes on and lower its cap by what the other has spent; then DETACH the other",
        )
    if default in by_mark:  # a copy of the file may know the mark, too
        return default
    knowing = by_mark or by_key
    capped = [
        home
        for home in knowing
        for account in {row["account"] for row in rows[home] if key_of(row) in keys or row["account"] == mark}
        if cap_of_account(con, home, account) is not None
    ]
    if len(set(capped)) > 1:
        raise refuse(
            BudgetError,
            function,
            f"the rows of {identity.table} have caps in {len(capped)} databases ({', '.join(capped)})",
            "DETACH all but one: a release is charged to one account",
        )
    return (capped or ([default] if default in knowing else knowing) or [default])[0]
