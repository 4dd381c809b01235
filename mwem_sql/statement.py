"""The ledger as the curator reads it: every entry, what its table has spent and has left, and whether anybody changed it by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from types import NoneType
from typing import Any

import duckdb
from sqlglot import exp

from mwem_sql import journal
from mwem_sql.catalog import Name
from mwem_sql.compiler.dialect import fold
from mwem_sql.errors import legible
from mwem_sql.ledger import SCHEMA, Balance, Ledger, damaged, holders, read_rows

_KEY = ("database_name", "schema_name", "table_name")
_FACTS: dict[str, Any] = {
    **dict.fromkeys((*_KEY, "entry", "action", "status"), str), "epsilon": float, "delta": float, "private": bool, "started": datetime,
    "finished": (datetime, NoneType), **dict.fromkeys(("output", "who", "unit"), (str, NoneType)), "rows_per_unit": (int, NoneType),
}  # fmt: skip

Row = dict[str, Any]


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
    balances: dict[Name, Balance] = {}
    for row in _checked(con, home):
        name = Name(row["database_name"] or home, row["schema_name"], row["table_name"])
        if not all(isinstance(row.get(fact), kind) for fact, kind in _FACTS.items()):
            raise TypeError("a fact of another type")
        if name not in balances:
            balances[name] = Ledger(home, name).balance(con)
        balance = {"epsilon_spent": balances[name].epsilon_spent, "epsilon_left": balances[name].epsilon_left}
        yield {**row, "database_name": name.database, "status": "done" if row["entry"] in stored else row["status"], **balance}


def _checked(con: duckdb.DuckDBPyConnection, home: str) -> Iterator[Row]:
    """The rows of a ledger beside what the journal says of them."""
    events, whole = journal.read(con, home) if home in holders(con, "journal") else ([], True)
    written: dict[str, Row] = {}
    caps: dict[tuple[str, ...], list[Row]] = {}
    for event in events:
        if event.get("event") == "cap":
            caps.setdefault(tuple(fold(event[name]) for name in _KEY), []).append(event)
        else:
            written.setdefault(event["entry"], {}).update(event)
    for row in read_rows(con, home, "ledger"):
        event = written.pop(row["entry"], {})
        older = not event and row.get("rho_exact") is None  # rho and the journal came together
        yield {**row, "intact": None if older else whole and bool(event) and _agrees(row, event)}
    for event in written.values():
        yield {**event, **{name: _time(event.get(name)) for name in ("started", "finished")}, "intact": False}
    current = {tuple(fold(row[name]) for name in _KEY): row for row in read_rows(con, home, "budgets")} if home in holders(con, "budgets") else {}
    for key, history in caps.items():
        for place, event in enumerate(history):
            last = place == len(history) - 1
            intact = whole and (not last or (key in current and _agrees(current[key], event)))
            if place or not intact:
                before = history[place - 1]["epsilon"] if place else "none"
                yield {
                    **event, "entry": "", "output": None, "epsilon": 0.0, "delta": 0.0, "private": False, "status": "done", "intact": intact,
                    "action": f"mwem_budget: epsilon {before} to {event['epsilon']}", "started": _time(event["when"]), "finished": _time(event["when"]),
                }  # fmt: skip


def _agrees(row: Row, event: Row) -> bool:
    told = journal.texts(row)
    return all(told[name] == value for name, value in event.items() if name in told)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
