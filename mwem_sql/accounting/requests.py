"""Requests: what users of a server ask beyond their caps, and what the curator says of each.

A request is a line of the journal, and decisions about it are later lines: its state follows from them
(`decisions.py`). An approval lets that very request of that user be charged once beside their caps; the cap of the
table holds all the same. The curator decides in the same way about releases that were withheld (`publish_if`). Must
not plan, or decide what a request is: its hash says that.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import duckdb
from sqlglot import exp

from mwem_sql.accounting import journal
from mwem_sql.accounting.caps import Charge
from mwem_sql.accounting.decisions import requests_for, requests_in
from mwem_sql.accounting.journal import Journal
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.errors import BudgetError, OptionError, did_you_mean, literal, refuse, spoken_by
from mwem_sql.platform import catalog, metadata
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.metadata import SCHEMA, Row, insert

MOST: Final = 20
"""Requests of one user that are open, or were made within a day. Larger: one user may fill the journal sooner."""
DAY: Final = timedelta(days=1)
DECIDED: Final = {"approved": ("open",), "refused": ("open", "approved"), "withdrawn": ("open", "approved")}
"""What may be said of a request, and in which states."""


def ask(
    con: duckdb.DuckDBPyConnection, ledger: Ledger, charge: Charge, output: str, *, user: str, request: str,
    version: str | None, workload: str, plan: Sequence[str], questions: Sequence[str], most: int = MOST,
) -> Row:  # fmt: skip
    """Store a user's request with its plan and workload; the one that waits or is approved already, if there is one."""

    def write() -> str:
        there = ledger.at(con)
        mine = [
            row for row in requests_in(there.journal).values() if row["user_name"] == user and row["kind"] == "release"
        ]
        for state in ("open", "approved"):
            for row in requests_for(there.journal, user, request, there.account, state):
                return str(row["entry"])
        count = sum(row["state"] == "open" or row["asked"] > there.journal.moment - DAY for row in mine)
        if count >= most:
            what = f"{user} has {count} requests that are open or of the last 24 hours, and {most} is the most"
            raise refuse(
                BudgetError, "mwem_request", what, "wait for the curator's word: FROM mwem_requests() shows it"
            )
        price = there.marked(con, charge)
        there.check_whole()
        there.check_cap(price, private=True)
        if _fits(there, user, price):
            table = ledger.identity.table.table
            what = f"epsilon ({float(price.budget.epsilon):g}) is within what {user} may ask of {table}"
            cure = "nobody need approve it: CALL mwem_release with the same arguments"
            raise refuse(BudgetError, "mwem_request", what, cure)
        entry = there.open_entry(
            con, there.account, price, output, event="request", private=True, user_name=user, action="mwem_request",
            request=request, version=version, workload=workload,
        )  # fmt: skip
        row = {"entry": entry, "plan": list(plan), "workload": list(questions)}
        insert(con, Name(ledger.home, SCHEMA, "requests"), row)
        return entry

    metadata.prepare(con, ledger.home, "ledger.sql")
    with spoken_by("mwem_request"):
        entry = journal.committed(con, write)
    return _rows(con, journal.read(con, ledger.home), [entry])[0]


def _fits(ledger: Ledger, user: str, charge: Charge) -> bool:
    """Whether a user's own caps allow a charge."""
    try:
        ledger.check_caps_of(user, charge)
    except BudgetError:
        return False
    return True


def decide(
    con: duckdb.DuckDBPyConnection, request: str, status: str, function: str, *, reason: str | None = None,
    user: str | None = None,
) -> Row:  # fmt: skip
    """Say that a request is approved, refused or withdrawn; a `user` may say it of their own.

    An approval is refused where the cap of the table has no room for it: who raises that cap says so first.
    """
    home = _home(con, request, function, user)

    def write() -> None:
        lines = journal.read(con, home)
        if lines.fault is not None:
            what = f"the journal of database ({home}) was changed by hand at line {lines.fault}, so nothing is decided"
            raise refuse(BudgetError, function, what, "restore the schema mwem from a backup")
        row = requests_in(lines)[request]
        if row["state"] not in DECIDED[status]:
            states = " or ".join(DECIDED[status])
            what = f"request ({request}) is {row['state']}, and only what is {states} can be {status}"
            raise refuse(OptionError, function, what, "FROM mwem_requests() shows what waits for a decision")
        if status == "approved" and row["kind"] == "release":
            _check_room(lines, row, function)
        journal.append(con, home, {"event": "decision", "entry": request, "status": status, "reason": reason})
        if status != "approved":
            where = exp.column("entry").eq(exp.Placeholder())
            con.execute(exp.delete(Name(home, SCHEMA, "requests").tree(), where=where).sql("duckdb"), [request])

    metadata.prepare(con, home, "ledger.sql")
    journal.committed(con, write)
    return _rows(con, journal.read(con, home), [request])[0]


def listed(con: duckdb.DuckDBPyConnection, user: str | None) -> list[Row]:
    """All requests of all attached databases, oldest first; a user's own where one is given."""
    rows = [
        row
        for lines in journal.read_all(con).values()
        for row in _rows(
            con, lines, [each for each, row in requests_in(lines).items() if user in (None, row["user_name"])]
        )
    ]
    return sorted(rows, key=lambda row: row["asked"])


def _check_room(lines: Journal, row: Row, function: str) -> None:
    cap = lines.cap(row["account"])
    if cap is None:
        return
    try:
        cap.check(row["table_name"], lines.charge_of(row), lines.charges(row["account"]))
    except BudgetError as error:
        what = str(error).partition(": ")[2].partition(". Hint: ")[0]
        cure = f"CALL mwem_budget({literal(row['table_name'])}, epsilon) raises it; then approve"
        raise refuse(BudgetError, function, f"request ({row['entry']}) cannot be released: {what}", cure) from None


def _home(con: duckdb.DuckDBPyConnection, request: str, function: str, user: str | None) -> str:
    """The database whose journal has a request. Of a user's view, another's is not there."""
    there: dict[str, str] = {}
    for home, lines in journal.read_all(con).items():
        there |= {each: home for each, row in requests_in(lines).items() if user in (None, row["user_name"])}
    if request not in there:
        what = f"request ({request!r}) does not exist"
        raise refuse(OptionError, function, what, f"{did_you_mean(request, there)}FROM mwem_requests() lists them")
    if catalog.is_read_only(con, there[request]):
        what = f"database ({there[request]!r}), which has the request, cannot be written"
        raise refuse(OptionError, function, what, "ATTACH it writable")
    return there[request]


def _rows(con: duckdb.DuckDBPyConnection, lines: Journal, ids: Sequence[str]) -> list[Row]:
    """Requests as their functions show them."""
    if not ids:
        return []
    stored = {row["entry"]: row for row in metadata.rows_if_any(con, lines.home, "requests", ("entry", "plan"))}
    out = []
    of_lines = requests_in(lines)
    for each in ids:
        row = of_lines[each]
        home = row["database_name"] or lines.home
        plan = stored.get(each, {}).get("plan")
        out.append({**row, "request": each, "database_name": home, "plan": plan, "intact": lines.fault is None})
    return out
