"""The names that accounts go by: `mwem.names`, and the mark in the comment of a table.

Owns which account a name belongs to, and gives an account its names when it is opened. Must not judge budgets.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

import duckdb

from mwem_sql.accounting import journal
from mwem_sql.database import catalog
from mwem_sql.database.catalog import Name
from mwem_sql.database.metadata import Key, account_of, damaged, insert, key_of, read_rows
from mwem_sql.errors import BudgetError, legible, refuse

NAME = ("database_name", "schema_name", "table_name")
"""The columns that a Key is stored in."""

# In a table's comment, which DuckDB keeps through every ALTER and rename.
_MARK = re.compile(r"\s*\[mwem account ([0-9a-f]+)\]")


@dataclass(frozen=True)
class Source:
    """What the rows of a private relation are known by in a ledger: `table` is how it is shown, `marked` the table that carries the account.

    `keys` are names in tiers: the account of the first tier that has one answers. `opened_with` are the names that a new account gets.
    """

    table: Name
    keys: tuple[tuple[Key, ...], ...]
    opened_with: tuple[Key, ...]
    marked: Name | None = None


def account_of_source(con: duckdb.DuckDBPyConnection, home: str, source: Source) -> str | None:
    """The account that answers for these rows: the one that the table is marked with, or the one that its name belongs to."""
    known = named_accounts(con, home)
    marked = mark_of(con, source.marked)
    if marked is not None:
        if marked not in known.values():
            raise refuse(
                BudgetError,
                "ledger",
                f"table ({source.table}) carries the account {marked}, which the ledger in database ({home}) does not know",
                "restore the schema mwem from a backup; if the rows are new, the curator takes the account off with COMMENT ON TABLE",
            )
        return marked
    for tier in source.keys:
        accounts = sorted({known[name] for name in tier if name in known})
        if len(accounts) > 1:
            raise refuse(
                BudgetError,
                "ledger",
                f"view ({source.table}) reads files of {len(accounts)} accounts ({', '.join(accounts)})",
                "release each account's files by themselves: mwem_ledger() shows what was charged where",
            )
        if accounts:
            return str(accounts[0])
    return None


def named_accounts(con: duckdb.DuckDBPyConnection, home: str) -> dict[Key, str]:
    """The account of every name."""
    with legible(damaged(home)):
        older = {
            key_of(row): account_of(row)
            for table in ("ledger", "budgets")
            for row in read_rows(con, home, table)
            if not row.get("account")
        }
        return older | {key_of(row): row["account"] for row in read_rows(con, home, "names")}


def open_account(con: duckdb.DuckDBPyConnection, home: str, source: Source, account: str | None) -> str:
    """The account, opened if there is none, with the names that are new to it, and the table marked with it."""
    account = account or uuid.uuid4().hex[:16]
    known = {key_of(row) for row in read_rows(con, home, "names")}
    news = [name for name in source.opened_with if name not in known]
    for name in news:
        insert(con, "names", {**dict(zip(NAME, name, strict=True)), "account": account})
    if news:
        journal.append(con, {"event": "names", "account": account, "names": news})
    if source.marked is not None and mark_of(con, source.marked) is None:
        before = catalog.comment(con, source.marked)
        catalog.set_comment(con, source.marked, f"{before} [mwem account {account}]".strip())
    return account


def mark_of(con: duckdb.DuckDBPyConnection, table: Name | None) -> str | None:
    """The account that a table is marked with."""
    mark = None if table is None else _MARK.search(catalog.comment(con, table))
    return mark[1] if mark else None
