"""The ledger beside the journal: what somebody changed, took out or added by hand.

Owns the comparison of the two. Must not write, and must not decide what follows from a difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import duckdb

from mwem_sql.accounting import journal
from mwem_sql.accounting.policy import policies
from mwem_sql.platform.metadata import Row, account_of, holders, key_of, read_rows


def is_intact(con: duckdb.DuckDBPyConnection, home: str) -> bool:
    """Whether ledger, caps and names of a database say what the journal says. What is older than the journal cannot be told."""
    events, whole = _journal(con, home)
    return (
        whole
        and _names_agree(con, home, events)
        and all(row["intact"] is not False for row in _compared(con, home, events, whole=whole))
    )


def checked(con: duckdb.DuckDBPyConnection, home: str) -> Iterator[Row]:
    """The rows of a ledger, those that are missing in it and those of caps, each with whether it is as the journal says."""
    events, whole = _journal(con, home)
    return _compared(con, home, events, whole=whole)


def _compared(con: duckdb.DuckDBPyConnection, home: str, events: list[Row], *, whole: bool) -> Iterator[Row]:
    written: dict[str, Row] = {}
    caps: dict[str, list[Row]] = {}
    for event in events:
        if event.get("event") == "cap":
            caps.setdefault(account_of(event), []).append(event)
        elif event.get("event") in {"entry", "end"}:
            written.setdefault(event["entry"], {}).update(event)
    for row in read_rows(con, home, "ledger"):
        event = written.pop(row["entry"], {})
        older = not event and row.get("rho_exact") is None  # rho and the journal came together
        yield {**row, "intact": None if older else whole and bool(event) and _agrees(row, event)}
    for event in written.values():
        yield {**event, **{name: _time(event.get(name)) for name in ("started", "finished")}, "intact": False}
    yield from _caps(con, home, caps, whole)
    for event in policies(events):
        yield _cap_row(event, f"mwem_policy: require_caps {str(event['require_caps']).lower()}", intact=whole)


def _caps(con: duckdb.DuckDBPyConnection, home: str, caps: dict[str, list[Row]], whole: bool) -> Iterator[Row]:
    """Caps that replaced others, and caps that are not as they were set."""
    current = {account_of(row): row for row in read_rows(con, home, "budgets")}
    for account, history in caps.items():
        row = current.pop(account, None)
        for number, event in enumerate(history):
            last = number == len(history) - 1
            intact = whole and (not last or (row is not None and _agrees(row, event)))
            if number or not intact:
                before = history[number - 1]["epsilon"] if number else "none"
                yield _cap_row(event, f"mwem_budget: epsilon {before} to {event['epsilon']}", intact=intact)
    for row in current.values():
        if row.get("account"):  # a cap without one may be older than the journal
            first = str(datetime.min)  # noqa: DTZ901  times of the journal have no zone
            yield _cap_row({**row, "who": None, "when": first}, "mwem_budget: not in the journal", intact=False)


def _cap_row(event: Row, action: str, *, intact: bool) -> Row:
    return {
        **event, "entry": "", "output": None, "epsilon": 0.0, "delta": 0.0, "private": False, "status": "done", "intact": intact,
        "action": action, "started": _time(event["when"]), "finished": _time(event["when"]),
    }  # fmt: skip


def _journal(con: duckdb.DuckDBPyConnection, home: str) -> tuple[list[Row], bool]:
    return journal.read(con, home) if home in holders(con, "journal") else ([], True)


def _names_agree(con: duckdb.DuckDBPyConnection, home: str, events: list[Row]) -> bool:
    told = {
        tuple(name): event["account"] for event in events if event.get("event") == "names" for name in event["names"]
    }
    return told == {key_of(row): row["account"] for row in read_rows(con, home, "names")}


def _agrees(row: Row, event: Row) -> bool:
    told = journal.texts(row)
    return all(told[name] == value for name, value in event.items() if name in told)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
