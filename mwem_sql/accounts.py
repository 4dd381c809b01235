"""Which account answers for a table: its own, that of a capped name it has lost, or one in another database. Reads the catalog and caps only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import duckdb

from mwem_sql import catalog
from mwem_sql.catalog import Name, Place
from mwem_sql.errors import BudgetError, OutputError, TableError, refuse
from mwem_sql.ledger import Ledger, columns_hash, holders, read_rows


def ledger_of(con: duckdb.DuckDBPyConnection, names: Sequence[Name], place: Place, function: str) -> Ledger:
    """The ledger that answers for a table, the last of the names; refused where it could not be written or a cap could not be kept."""
    found = _answering(con, names, place)
    if not is_read_only(con, found.home):
        return found
    if found.balance(con).cap is not None:
        raise refuse(
            BudgetError, function, f"table ({found.table}) has a cap in its own file, which is attached READ_ONLY",
            "attach it writable, so that the release can be debited there",
        )
    raise refuse(
        OutputError, function, f"default database ({place.database}) cannot be written, and neither can {names[-1].database}",
        "USE a writable database: the ledger of a READ_ONLY table is kept in the default one",
    )


def is_counted_in_rho(con: duckdb.DuckDBPyConnection, names: Sequence[Name], place: Place) -> bool:
    """Whether a table has a cap with delta."""
    cap = _answering(con, names, place).balance(con).cap
    return cap is not None and not cap.pure


def _answering(con: duckdb.DuckDBPyConnection, names: Sequence[Name], place: Place) -> Ledger:
    """A table's own account if it has a cap. Else that of a capped name which the table has lost, to a view above it or altogether."""
    table = names[-1]
    for name in reversed(names):
        own = Ledger(name.database, name, renamed=None if name == table else table)
        if own.balance(con).cap is not None:
            return own
    if is_read_only(con, table.database):
        return Ledger(place.database, table)
    # Of several the one with the least left: it may be any of them.
    return min(_lost(con, table), key=lambda lost: lost.balance(con).epsilon_left or 0, default=Ledger(table.database, table))


def _lost(con: duckdb.DuckDBPyConnection, table: Name) -> Iterator[Ledger]:
    """The accounts of capped names that are gone and had the very columns of a table."""
    own = columns_hash(con, table)
    for row in read_rows(con, table.database, "budgets") if table.database in holders(con, "budgets") else ():
        name = Name(table.database, row["schema_name"], row["table_name"])
        if row.get("columns") == own and not row["database_name"] and _is_gone(con, name):
            yield Ledger(table.database, name, renamed=table)


def _is_gone(con: duckdb.DuckDBPyConnection, name: Name) -> bool:
    """Whether a name no longer stands for rows of its own: there is none, or it is that of a view of other rows."""
    if catalog.find(con, name.quoted(), Place(name.database, name.schema)) is None:
        return True
    with suppress(TableError):  # a view that no release can be made of
        relation = catalog.describe(con, name.quoted(), Place(name.database, name.schema), "ledger")
        return relation.charged != relation.name
    return True


def is_read_only(con: duckdb.DuckDBPyConnection, database: str) -> bool:
    rows = con.execute("SELECT readonly FROM duckdb_databases() WHERE database_name = ?", [database]).fetchall()
    return bool(rows and rows[0][0])
