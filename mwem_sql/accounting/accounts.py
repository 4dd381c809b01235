"""Which account a request is charged to: only this module says so. Reads the catalog, the names of accounts and their caps; must not write.

| the rows are in | the ledger is in | the account is |
|---|---|---|
| a table | its database | the one the table is marked with; else the one its name belongs to, or that of a view above it; else a new one |
| a table of a database attached READ_ONLY | the database that knows its file, else the default one | the one that the file's path and the table's name belong to; else a new one |
| a source (`mwem_attach`) | the attached database that knows them, else the one named at attach | the one that the names of its server, database, schema and table belong to; else a new one |
| files, read by a view | the database that knows one of them, else the view's | the one that the files belong to; else the one of the view's name; else a new one |
| a file, named in the place of a table | the database that knows it, else the current one | the one that the file belongs to; else a new one |

While any attached database has a cap, nothing is charged to an account without one (`Ledger.debit`): what is in no account may be a copy.
A table that was replaced, and so is known by its name only, is refused where there are several caps: its rows may be another account's.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

import duckdb

from mwem_sql.accounting.caps import Cap
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.accounting.names import Source
from mwem_sql.boundary.files import FileName
from mwem_sql.boundary.relations import Relation
from mwem_sql.database import catalog
from mwem_sql.database.catalog import Name, Place, is_read_only
from mwem_sql.database.metadata import Key, holders, key, key_of, read_rows
from mwem_sql.errors import BudgetError, OutputError, refuse


def ledger_of(con: duckdb.DuckDBPyConnection, relation: Relation, place: Place, function: str) -> Ledger:
    """The ledger that answers for a relation; refused where it could not be written or a cap could not be kept."""
    ledger = _answering(con, relation, place, function)
    if not is_read_only(con, ledger.home):
        return ledger
    table = relation.charged
    if ledger.balance(con).cap is not None:
        raise refuse(
            BudgetError,
            function,
            f"table ({table}) has a cap in its own file, which is attached READ_ONLY",
            "attach it writable, so that the release can be debited there",
        )
    raise refuse(
        OutputError,
        function,
        f"default database ({place.database}) cannot be written, and neither can {table.database}",
        "USE a writable database: the ledger of a READ_ONLY table is kept in the default one",
    )


def cap_of(con: duckdb.DuckDBPyConnection, relation: Relation, place: Place, function: str) -> Cap | None:
    """The cap on what a request is charged to."""
    return _answering(con, relation, place, function).balance(con).cap


def _answering(con: duckdb.DuckDBPyConnection, relation: Relation, place: Place, function: str) -> Ledger:
    table = relation.charged
    if relation.source is not None:
        # By its server's name and not by the alias, which is this session's.
        shown = Name(relation.source.engine.shown, table.schema, table.table)
        names = tuple(dict.fromkeys(name for tier in relation.keys for name in tier))
        elsewhere = Source(shown, relation.keys, names)
        return Ledger(_home(con, elsewhere, names, relation.source.home, function), elsewhere)
    read_only = is_read_only(con, table.database)
    if relation.files is None:
        beside = _of_table(relation)
        if not read_only or beside.balance(con).cap is not None:
            return beside
        path = os.path.realpath(str(catalog.databases(con)[table.database].path))
        keys: tuple[Key, ...] = ((path, *key("", table.schema, table.table)[1:]),)
        attached_as = key(table.database, table.schema, table.table)  # what older files have
        source = Source(table, (keys, (attached_as,)), keys)
    else:
        keys = tuple((path, "", "") for path in relation.files.paths)
        # A file that was named in the place of a table has no view whose name could speak for it.
        views = tuple(
            (key("", name.schema, name.table),) for name in reversed(relation.names) if not isinstance(name, FileName)
        )
        source = Source(table, (keys, *views), (*itertools.chain(*views[:1]), *keys))
    return Ledger(_home(con, source, keys, place.database if read_only else table.database, function), source)


def _of_table(relation: Relation) -> Ledger:
    table = relation.charged
    # A name that a table has lost to a view above it still speaks for it.
    keys = tuple(
        (key("", name.schema, name.table),) for name in reversed(relation.names) if name.database == table.database
    )
    return Ledger(table.database, Source(table, keys, keys[0], table))


def _home(con: duckdb.DuckDBPyConnection, source: Source, keys: Sequence[Key], default: str, function: str) -> str:
    """The database whose ledger knows these files; one with a cap comes first."""
    knowing = [
        home for home in holders(con, "names") if not set(keys).isdisjoint(map(key_of, read_rows(con, home, "names")))
    ]
    capped = [home for home in knowing if Ledger(home, source).balance(con).cap is not None]
    if len(capped) > 1:
        raise refuse(
            BudgetError,
            function,
            f"the files of {source.table} have caps in {len(capped)} databases ({', '.join(capped)})",
            "DETACH all but one: a release is charged to one account",
        )
    return (capped or ([default] if default in knowing else knowing) or [default])[0]
