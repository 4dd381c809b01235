"""Withdrawal: a release is taken back, so that nothing is answered from it any more. Reads nothing private."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mwem_sql.accounting import journal
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.errors import OptionError, OutputError, refuse
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.metadata import SCHEMA, insert, prepare
from mwem_sql.platform.session import Session, lock, transaction
from mwem_sql.releases import store, summary


def withdraw(session: Session, output: str, reason: object, function: str) -> dict[str, Any]:
    """Mark the newest release under a name; the row that says so. A release is withdrawn once, and for good.

    The mark is beside the release, in mwem.withdrawals, so that it goes wherever the release goes; the ledger of the
    private table notes it, too. Nothing is charged, and nothing is given back: what was published stays published.
    """
    why = read_reason(reason, function)
    con = session.cursor()
    name, facts = store.find(con, output, session.place, function)
    if catalog.is_read_only(con, name.database):
        what = f"output ({name}) is in a database that cannot be written"
        raise refuse(OutputError, function, what, "open it writable, and call again")
    release = facts["release"]
    with lock("mwem.releases"):
        before = store.withdrawal_of(con, name, release)
        if before is not None:
            raise refuse(
                OutputError,
                function,
                f"output ({name}) was withdrawn already, {before}",
                "there is nothing left to do; mwem_release with a new version := '...' makes a new release under this"
                " name",
            )
        with _noted(session, facts["entry"], str(name), why, function) as noted:
            now, who = journal.now(), str(journal.who()["who"])
            row = {"release": release, "withdrawn": now, "who": who, "reason": why}
            writing = session.cursor()
            prepare(writing, name.database, "metadata.sql")
            with transaction(writing):
                insert(writing, Name(name.database, SCHEMA, "withdrawals"), row)
                summary.comment_withdrawn(writing, name, store.Withdrawal(now, who, why))
    return {"output": str(name), **row, "noted": noted}


@contextmanager
def _noted(session: Session, entry: str, output: str, reason: str, function: str) -> Iterator[bool]:
    """A note in the ledger that has the release's charge.

    False where that ledger is not attached: an exported release is away from it.
    """
    ledger_entry = Ledger.of_entry(session.cursor(), entry)
    if ledger_entry is None:
        yield False
        return
    ledger, account = ledger_entry
    with ledger.note(session.cursor, output, function, account=account, private=True, reason=reason):
        yield True


def read_reason(reason: object, function: str) -> str:
    """Why, on one line, without a full stop at its end: what follows it in a message begins with one."""
    text = " ".join(reason.split()).rstrip(". ") if isinstance(reason, str) else ""
    most = 1000  # every refusal quotes it
    if not text:
        what = f"reason ({reason!r}) must say why, in words"
        hint = "write it for whoever asks the release later: 'pay was in thousands before 2020'"
        raise refuse(OptionError, function, what, hint)
    if len(text) > most:
        what = f"reason ({text[:40]!r}...) has {len(text):,} characters, more than {most:,}"
        raise refuse(OptionError, function, what, "say it in short, and where the rest is to be read")
    return text
