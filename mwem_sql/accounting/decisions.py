"""Decisions: what the lines of a journal say of requests and of withheld releases, and which approval a charge may use.

Pure: reads lines, writes none (`requests.py` does).
"""

from __future__ import annotations

from mwem_sql.accounting.caps import Charge
from mwem_sql.accounting.journal import Journal
from mwem_sql.platform.metadata import Row


def requests_in(journal: Journal) -> dict[str, Row]:
    """All that waits for the curator's word, or has it, by its id: requests, and releases that were withheld.

    Of each its `kind`, release or publish; its `state`, open, approved, refused, withdrawn or used; when it was `asked`
    and `decided`; and the entry that it is `used_by`.
    """
    out: dict[str, Row] = {}
    for line in journal.lines:
        event, entry, status = line["event"], line["entry"], line["status"]
        if event == "request":
            out[entry] = _undecided(line, line, "release")
        elif event == "end" and status == "withheld" and journal.entries.get(entry, {}).get("private"):
            out.setdefault(entry, _undecided(journal.entries[entry], line, "publish"))
        elif event == "end" and status == "done" and entry in out:
            out[entry].update(state="used", used_by=entry)
        elif event == "decision" and entry in out:
            out[entry].update(state=status, decided=line["moment"], reason=line["reason"])
        elif event == "entry" and line["approval"] in out:
            out[line["approval"]].update(state="used", used_by=entry)
    return out


def requests_for(journal: Journal, user: str | None, request: str | None, account: str | None, state: str) -> list[Row]:
    """A user's requests for a release of an account, by its hash, in some state."""
    wanted = ("release", user, request, account, state)
    names = ("kind", "user_name", "request", "account", "state")
    return [row for row in requests_in(journal).values() if tuple(row[name] for name in names) == wanted]


def approval_of(
    journal: Journal, user: str | None, request: str | None, account: str | None, charge: Charge
) -> str | None:
    """The curator's approval of a user's request, if there is one that is not used and costs no more than it said."""
    rows = [] if user is None else requests_for(journal, user, request, account, "approved")
    return next((row["entry"] for row in rows if journal.charge_of(row).covers(charge)), None)


def _undecided(row: Row, line: Row, kind: str) -> Row:
    """A request as it begins; `line` says since when it waits."""
    return {
        **row, "kind": kind, "state": "open", "asked": line["moment"], "decided": None, "reason": None, "used_by": None,
    }  # fmt: skip
