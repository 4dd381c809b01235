"""What a curator says of a whole ledger: that releases need caps, which tables are public, what a user may ask in all.

Each is a line of the journal. Reads and writes no account but to refuse a table as public that has one.
"""

from __future__ import annotations

import uuid

import duckdb

from mwem_sql.accounting import journal
from mwem_sql.accounting.accounts import Identity, TableCarrier
from mwem_sql.accounting.caps import Balance, Cap
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.errors import BudgetError, refuse
from mwem_sql.platform import catalog, metadata
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.metadata import Key, key


def set_cap_of_user(con: duckdb.DuckDBPyConnection, home: str, cap: Cap) -> Balance:
    """Set or replace a user's cap on all tables of a ledger together; what is left under it."""

    def write() -> None:
        before = journal.read_all(con)[home]
        following = cap.following(before.cap(None, cap.user), before.moment)
        journal.append(con, home, journal.cap_line(following, None, ("", "", "")))

    metadata.prepare(con, home, "ledger.sql")
    journal.committed(con, write)
    after = journal.read_all(con)[home]
    present = after.cap(None, cap.user)
    assert present is not None
    return Balance.of(present, after.charges_of(None, present))


def set_policy(con: duckdb.DuckDBPyConnection, home: str, *, require_caps: bool) -> None:
    """Write down that releases from tables of this database need a cap from now on, or no longer do."""
    metadata.prepare(con, home, "ledger.sql")
    journal.committed(con, lambda: journal.append(con, home, {"event": "policy", "require_caps": require_caps}))


def requires_caps(con: duckdb.DuckDBPyConnection, home: str) -> bool:
    """Whether the policy of a database requires caps."""
    journals = journal.read_all(con)
    return home in journals and journals[home].requires_caps


def set_public(con: duckdb.DuckDBPyConnection, table: Name) -> None:
    """Write down that all rows of a table are public, by the curator's word; refused of a table with an account."""
    ledger = Ledger(table.database, Identity(table=table, names=((_key(table),),), carrier=TableCarrier(table)))

    def write() -> None:
        if catalog.public_marks(con, table).get(table) in ledger.at(con).journal.public:
            return
        if ledger.at(con).account is not None or any(column.id for column in catalog.columns(con, table)):
            what = f"table ({table}) was charged, capped or named as a unit, so that it is private"
            hint = f"if its rows are public all the same, copy them: CREATE TABLE {table.table}_public AS FROM "
            raise refuse(
                BudgetError, "mwem_public", what, f"{hint}{table.table}; CALL mwem_public('{table.table}_public')"
            )
        mark = uuid.uuid4().hex[:16]
        journal.append(con, table.database, {"event": "public", "entry": mark, **journal.columns_of_key(_key(table))})
        catalog.mark_public(con, table, mark)

    metadata.prepare(con, table.database, "ledger.sql")
    journal.committed(con, write)


def _key(table: Name) -> Key:
    return key("", table.schema, table.table)
