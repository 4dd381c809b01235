"""What accounts go by: the keys in `mwem.names`, and the marks that tables and columns carry.

| | strong: it follows the rows through every rename | weak: asked only where nothing strong is known |
|---|---|---|
| a DuckDB table | the mark in its comment | its name, and those of views above it |
| a file, a DuckDB file without a ledger included | device and inode, and its real path | the name of the view |
| a PostgreSQL table | the numbers of all leaves that it reads, and of their parents | their names |
| a Spark table | the mark in its properties; its folder and files | its name |

Owns which account a key belongs to, and gives an account its keys when it is opened. Must not judge budgets.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Protocol

import duckdb
from sqlglot import exp

from mwem_sql.accounting import journal
from mwem_sql.errors import BudgetError, legible, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.metadata import Key, account_of, damaged, insert, key_of, read_rows

NAME = ("database_name", "schema_name", "table_name")
"""The columns that a Key is stored in."""

# In a table's comment, which DuckDB keeps through every ALTER and rename.
_MARK = re.compile(r"\s*\[mwem account ([0-9a-f]+)\]")


class Carrier(Protocol):
    """What carries an account along with its rows."""

    def account(self, con: duckdb.DuckDBPyConnection) -> str | None:
        """The account that it carries."""
        ...

    def carry(self, con: duckdb.DuckDBPyConnection, account: str) -> None:
        """Carry an account from now on."""
        ...

    def unit(self, con: duckdb.DuckDBPyConnection, column: str) -> str:
        """What a column is known by however it is renamed; empty where nothing but its name tells."""
        ...

    def carry_unit(self, con: duckdb.DuckDBPyConnection, column: str, unit: str) -> bool:
        """Let a column be known by `unit` from now on; false where that cannot be."""
        ...


@dataclass(frozen=True)
class TableCarrier:
    """A DuckDB table that can be written: comments carry marks, and DuckDB keeps them through every ALTER and rename."""

    table: Name

    def account(self, con: duckdb.DuckDBPyConnection) -> str | None:
        mark = _MARK.search(catalog.comment(con, self.table))
        return mark[1] if mark else None

    def carry(self, con: duckdb.DuckDBPyConnection, account: str) -> None:
        before = catalog.comment(con, self.table)
        catalog.set_comment(con, self.table, f"{before} [mwem account {account}]".strip())

    def unit(self, con: duckdb.DuckDBPyConnection, column: str) -> str:
        return next((each.id for each in catalog.columns(con, self.table) if fold(each.name) == fold(column)), "")

    def carry_unit(self, con: duckdb.DuckDBPyConnection, column: str, unit: str) -> bool:
        catalog.mark_column(con, self.table, column, unit)
        return True


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What the rows of a private relation are known by. `table` is how it is shown.

    `leaves` has for every leaf that is read its strong keys: all that are known must be of one account. `names` are weak keys in
    tiers: the first tier that is known answers. `opened_with` are the keys that a new account gets.
    """

    table: Name
    leaves: tuple[tuple[Key, ...], ...] = ()
    names: tuple[tuple[Key, ...], ...] = ()
    opened_with: tuple[Key, ...] = ()
    carrier: Carrier | None = None

    @property
    def strong(self) -> tuple[Key, ...]:
        return tuple(key for leaf in self.leaves for key in leaf)


def account_of_rows(con: duckdb.DuckDBPyConnection, home: str, identity: Identity) -> str | None:
    """The account that answers for these rows; a BudgetError where they are known as those of two."""
    known = named_accounts(con, home)
    mark = identity.carrier.account(con) if identity.carrier is not None else None
    if mark is not None and mark not in known.values():
        raise refuse(
            BudgetError,
            "ledger",
            f"table ({identity.table}) carries the account {mark}, which the ledger in database ({home}) does not know",
            "ATTACH the database that has its ledger, or restore the schema mwem from a backup; if the rows are new, the curator takes the mark off",
        )
    strong = {known[key] for key in identity.strong if key in known} | ({mark} if mark is not None else set())
    weak = ({known[key] for key in tier if key in known} for tier in identity.names)
    accounts = sorted(next((tier for tier in (strong, *weak) if tier), set()))
    if len(accounts) > 1:
        raise refuse(
            BudgetError,
            "ledger",
            f"table ({identity.table}) reads rows of {len(accounts)} accounts ({', '.join(accounts)})",
            "release each account's rows by themselves: mwem_ledger() shows what was charged where. "
            f"If it is one file that was replaced, the curator confirms it with CALL mwem_budget({_text(identity.table.table)}, epsilon)",
        )
    return accounts[0] if accounts else None


def is_known_by_name_only(con: duckdb.DuckDBPyConnection, home: str, identity: Identity) -> bool:
    """Whether nothing that follows rows is known of them: what has such a name today may be other rows."""
    known = named_accounts(con, home)
    is_carried = identity.carrier is not None and identity.carrier.account(con) is not None
    return not is_carried and not any(key in known for key in identity.strong)


def named_accounts(con: duckdb.DuckDBPyConnection, home: str) -> dict[Key, str]:
    """The account of every key."""
    with legible(damaged(home)):
        older = {
            key_of(row): account_of(row)
            for table in ("ledger", "budgets")
            for row in read_rows(con, home, table)
            if not row.get("account")
        }
        return older | {key_of(row): row["account"] for row in read_rows(con, home, "names")}


def open_account(con: duckdb.DuckDBPyConnection, home: str, identity: Identity, account: str | None) -> str:
    """The account, opened if there is none, with the keys that are new to it; what can carry it does."""
    account = account or uuid.uuid4().hex[:16]
    known = {key_of(row) for row in read_rows(con, home, "names")}
    give_keys(con, account, [key for key in dict.fromkeys(identity.opened_with) if key not in known])
    if identity.carrier is not None and identity.carrier.account(con) is None:
        identity.carrier.carry(con, account)
    return account


def confirm_paths(con: duckdb.DuckDBPyConnection, home: str, identity: Identity) -> None:
    """The curator's word for a file that was replaced: its path says whose rows it has, and its inode no longer does."""
    known = named_accounts(con, home)
    for leaf in identity.leaves:
        accounts = [known[key] for key in leaf if key in known]
        moved = [key for key in leaf if key in known and known[key] != accounts[-1]]
        for key in moved:
            con.execute(
                "UPDATE names SET account = ? WHERE database_name = ? AND schema_name = ? AND table_name = ?",
                [accounts[-1], *key],
            )
        if moved:
            journal.append(con, {"event": "names", "account": accounts[-1], "names": moved})


def give_keys(con: duckdb.DuckDBPyConnection, account: str, keys: list[Key]) -> None:
    """Let keys belong to an account, or to a unit of one, from now on."""
    for each in keys:
        insert(con, "names", {**dict(zip(NAME, each, strict=True)), "account": account})
    if keys:
        journal.append(con, {"event": "names", "account": account, "names": keys})


def unit_key(account: str, column: str) -> Key:
    """What a column is known by in the table that took the place of another: it belongs to the unit that its name was."""
    return f"unit of {account}", "", column


def _text(value: str) -> str:
    return exp.Literal.string(value).sql("duckdb")
