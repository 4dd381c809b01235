"""The ledger as the curator reads it: every entry, what its table has spent and has left, and whether it is intact.

Owns the rows of `mwem_ledger`, over all attached databases. Must not write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

import duckdb
from sqlglot import exp

from mwem_sql.accounting import journal
from mwem_sql.accounting.journal import Journal
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.metadata import SCHEMA, Row, holders


def entries(con: duckdb.DuckDBPyConnection) -> list[Row]:
    """Every entry of every attached database, oldest first, with what its table has spent and has left.

    A release that exists is done, even if nobody wrote so. A cap that replaced another and a policy are rows, too.
    `intact` is false for all rows of a journal that was changed by hand, and one more row says at which line.
    """
    stored: set[str] = set()
    for home in holders(con, "releases"):
        with suppress(duckdb.Error):  # a damaged one has no say
            query = exp.select("entry").from_(Name(home, SCHEMA, "releases").tree())
            stored.update(row[0] for row in con.execute(query.sql("duckdb")).fetchall())
    out = [row for lines in journal.read_all(con).values() for row in _rows(lines, stored)]
    return sorted(out, key=lambda row: (row["started"], row["number"]))


def _rows(lines: Journal, stored: set[str]) -> Iterator[Row]:
    balances = {account: lines.balance(account) for account in {row["account"] for row in _events(lines)}}
    for row in _events(lines):
        balance = balances[row["account"]]
        yield {
            **row,
            "database_name": row["database_name"] or lines.home,
            "status": "done" if row["entry"] in stored else row["status"],
            "epsilon_spent": balance.epsilon_spent,
            "epsilon_left": balance.epsilon_left,
            "intact": lines.fault is None,
        }


def _events(lines: Journal) -> Iterator[Row]:
    """What the curator sees of a journal. Of caps those that replaced another; all of them where there is a fault."""
    yield from lines.entries.values()
    for history in lines.caps.values():
        for before, cap in zip([None, *history], history, strict=False):
            if before is not None or lines.fault is not None:
                was = "none" if before is None else before["epsilon"]
                yield _note(cap, f"mwem_budget: epsilon {was} to {cap['epsilon']}")
    for policy in lines.policies:
        yield _note(policy, f"mwem_policy: require_caps {str(policy['require_caps']).lower()}")
    if lines.fault is not None:
        last = lines.lines[-1]["moment"] if lines.lines else datetime.min  # noqa: DTZ901  no time here has a zone
        line = {"number": lines.fault, "account": None, "moment": last, "schema_name": "", "table_name": ""}
        yield _note(line, f"mwem_ledger: the journal was changed by hand at line {lines.fault}")


def _note(line: Row, action: str) -> Row:
    """A line that is not an entry, as a row that costs nothing."""
    names = {name: line.get(name) or "" for name in journal.NAME}
    return {
        **dict.fromkeys(("who", "claimed", "unit", "rows_per_unit", "version", "workload", "reason")), **line, **names,
        "entry": "", "output": None, "epsilon": 0.0, "delta": 0.0, "private": False, "status": "done", "action": action,
        "started": line["moment"], "finished": line["moment"],
    }  # fmt: skip
