"""The journal: everything that was ever written to the ledger of a database, in one chain of checksums.

Owns `mwem.journal` and must not judge budgets. A chain without a key shows a changed, missing or added line; whoever can write to the
file can also forge all of it, unless somebody has noted down a checksum elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import duckdb
from sqlglot import exp

from mwem_sql.platform.catalog import Name
from mwem_sql.platform.session import lock

_RETRIES = 30
_PAUSE = 0.05  # seconds at most between two of them

Result = TypeVar("Result")


def append(con: duckdb.DuckDBPyConnection, event: dict[str, Any]) -> None:
    """Write an event into the open transaction of a connection that uses the ledger's schema.

    Of two transactions that do so at once, one fails to commit: both want the next number.
    """
    last = con.execute("SELECT number, checksum FROM journal ORDER BY number DESC LIMIT 1").fetchall()
    number, before = (last[0][0] + 1, last[0][1]) if last else (1, "")
    text = json.dumps(event, sort_keys=True)
    con.execute("INSERT INTO journal VALUES (?, ?, ?)", [number, text, _checksum(before, number, text)])


def read(con: duckdb.DuckDBPyConnection, database: str) -> tuple[list[dict[str, Any]], bool]:
    """All events in order, and whether the chain of their checksums is whole."""
    lines = exp.select("number", "event", "checksum").from_(Name(database, "mwem", "journal").tree()).order_by("number")
    events: list[dict[str, Any]] = []
    before, whole = "", True
    for expected, (number, text, checksum) in enumerate(con.execute(lines.sql("duckdb")).fetchall(), start=1):
        whole = whole and number == expected and checksum == _checksum(before, number, text)
        before = checksum
        try:
            events.append(dict(json.loads(text)))
        except ValueError:
            whole = False
    return events, whole


def retried(attempt: Callable[[], Result]) -> Result:
    """Run a short transaction that writes to the journal; the loser of a conflict tries again, and sees what the winner wrote."""
    for _ in range(_RETRIES):
        try:
            with lock("mwem.journal"):  # spares the threads of one process most conflicts
                return attempt()
        except (
            duckdb.TransactionException,
            duckdb.ConstraintException,
        ):  # the number was taken at the same time, or just before
            time.sleep(random.uniform(0, _PAUSE))  # noqa: S311  not for noise
    return attempt()


def _checksum(before: str, number: int, text: str) -> str:
    return hashlib.sha256(f"{before}\n{number}\n{text}".encode()).hexdigest()


def texts(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as the journal writes it: JSON has no times."""
    return {name: str(value) if isinstance(value, datetime) else value for name, value in row.items()}
