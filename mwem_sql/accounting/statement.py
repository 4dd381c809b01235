"""The ledger as the curator reads it: every entry, what its table has spent and has left, and whether anybody changed it by hand.

Owns the rows of `mwem_ledger`, over all attached databases. Must not write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import duckdb
from sqlglot import exp

from mwem_sql.accounting import integrity
from mwem_sql.accounting.balance import Balance, balance_of
from mwem_sql.errors import legible
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.metadata import SCHEMA, Row, account_of, check_types, damaged, holders


def entries(con: duckdb.DuckDBPyConnection) -> list[Row]:
    """Every ledger row of every attached database, oldest first, with what its table has spent and has left.

    A release that exists is done, even if nobody wrote so. A cap that replaced another is a row, too. `intact` is false for a row that
    was changed or taken out by hand, and NULL for one that is older than the journal.
    """
    stored: set[str] = set()
    for home in holders(con, "releases"):
        with suppress(duckdb.Error):  # a damaged one has no say
            query = exp.select("entry").from_(Name(home, SCHEMA, "releases").tree())
            stored.update(row[0] for row in con.execute(query.sql("duckdb")).fetchall())
    out: list[Row] = []
    for home in holders(con, "ledger"):
        with legible(damaged(home)):
            out += _with_balances(con, home, stored)
    return sorted(out, key=lambda row: (row["started"], row["entry"]))


def _with_balances(con: duckdb.DuckDBPyConnection, home: str, stored: set[str]) -> Iterator[Row]:
    balances: dict[str, Balance] = {}
    for row in integrity.checked(con, home):
        check_types(row, "ledger.sql", "ledger")
        account = account_of(row)
        if account not in balances:
            balances[account] = balance_of(con, home, account)
        left = {"epsilon_spent": balances[account].epsilon_spent, "epsilon_left": balances[account].epsilon_left}
        yield {
            **row,
            "database_name": row["database_name"] or home,
            "status": "done" if row["entry"] in stored else row["status"],
            **left,
        }
