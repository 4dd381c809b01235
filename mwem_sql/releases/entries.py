"""The ledger's entry of a release: opened for a request, or taken up where an earlier call did not come to its end.

An unfinished release is its entry and what it has drawn by then. The same request goes on from there: it is charged
once, however often it is called. A seeded one begins anew: it was not charged, and a seed promises the same of the same
rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import duckdb

from mwem_sql.accounting import draws, journal
from mwem_sql.accounting.caps import Charge
from mwem_sql.accounting.decisions import requests_in
from mwem_sql.accounting.ledger import Ledger, Receipt
from mwem_sql.errors import RELEASE, BudgetError, WithheldError, literal, refuse
from mwem_sql.kernel.draws import Draws
from mwem_sql.kernel.noise import Noise
from mwem_sql.language.dialect import fold
from mwem_sql.platform import calls, metadata
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.metadata import Row
from mwem_sql.platform.session import Session, lock
from mwem_sql.releases.publication import PublicationCondition
from mwem_sql.releases.request import Request
from mwem_sql.releases.reuse import RequestHash


@dataclass(kw_only=True)
class Entry:
    """An open entry: its receipt, what the release draws, and what it took in rho, once that is known.

    `before` is how much of it was drawn by an earlier call.
    """

    receipt: Receipt
    draws: Draws
    rho: Fraction
    before: int
    approved: bool = False
    """Whether the curator has said that it is published whatever its condition says."""

    @property
    def warning(self) -> str | None:
        """That not all of the release is of this call, in words."""
        if not self.before:
            return None
        draws = f"{self.before:,} draw{' is' if self.before == 1 else 's are'}"
        return f"{draws} of an earlier call, which did not come to its end: rows that changed since are not in them"


@contextmanager
def opened(
    session: Session,
    request: Request,
    ledger: Ledger,
    charge: Charge,
    fingerprint: RequestHash,
    *,
    output: Name,
    outputs: str,
    workload: str,
    noise: Noise,
) -> Iterator[Entry]:
    """The entry of a request, charged if it was not yet; done once the block is left, or failed or withheld.

    `output` is the one that an unfinished entry is known by, `outputs` are all, in words.
    """
    is_private = request.seed is None
    # One call at a time: what another one of this process has open is not unfinished. No other process can open a file
    # that this one writes to, so that nobody goes on with an entry which is not done by then.
    with lock(f"mwem.entry {fingerprint.hash}"):
        unfinished = unfinished_entry(ledger, fingerprint.hash, output, session.user) if is_private else None
        if unfinished is not None:  # as it is now that no other call has it
            unfinished = unfinished_entry(ledger.at(session.private.cursor()), fingerprint.hash, output, session.user)
        calls.stands(calls.UNKNOWN)  # between here and the next line that says so, it may be charged
        if unfinished is not None:
            receipt = take_up(session.private.cursor(), ledger, unfinished, charge)
        else:
            receipt = ledger.debit(
                session.private.cursor(),
                charge,
                outputs,
                action=RELEASE,
                private=is_private,
                request=fingerprint.hash,
                version=request.version,
                workload=workload,
                user_name=session.user,
            )
        calls.stands(charged(request, outputs))
        status, rho = "failed", charge.rho
        try:
            made = Entry(receipt=receipt, draws=Draws(noise), rho=rho, before=0)
            if is_private:
                before = (
                    draws.read(session.private.cursor(), ledger.home, receipt.entry) if unfinished is not None else []
                )
                store = draws.storing(session.private.cursor(), ledger.home, receipt.entry, before)
                waiting = requests_in(ledger.at(session.private.cursor()).journal) if unfinished is not None else {}
                approved = receipt.entry in waiting and waiting[receipt.entry]["state"] == "approved"
                made = replace(made, draws=Draws(noise, before, store), before=len(before), approved=approved)
            yield made
            status, rho = "done", made.rho
            calls.stands(
                "mwem_ledger() tells the same: the release was charged and is stored."
                " The same call returns it at no further cost"
            )
        except WithheldError:
            status = "withheld"
            raise
        finally:
            with (
                calls.shielded(),
                suppress(duckdb.Error),
            ):  # an entry that stays open counts all the same, and as done if its release is there
                ledger.close(session.private.cursor(), receipt.entry, status, rho)


def unfinished_entry(ledger: Ledger, request: str, output: Name, user: str | None) -> Row | None:
    """The latest private entry of a user's request, charged for these rows, that did not come to its end."""
    ending = fold(f".{output.schema}.{output.table}")
    rows = [
        row
        for row in ledger.journal.entries.values()
        if (row["request"], row["private"], row["account"]) == (request, True, ledger.account)
        and row["user_name"] == user
        and row["status"] != "done"
        and fold(row["output"]).endswith(ending)
    ]
    return max(rows, key=lambda row: row["started"], default=None)


def take_up(con: duckdb.DuckDBPyConnection, ledger: Ledger, row: Row, charge: Charge) -> Receipt:
    """Open an unfinished entry again, so that its release goes on. It is charged already: nothing is added.

    A BudgetError if its release now is not what was charged.
    """

    def write() -> Receipt:
        there = ledger.at(con)
        there.check_whole()
        before = there.journal.charge_of(row)
        if not before.covers(there.marked(con, charge)):
            raise refuse(
                BudgetError,
                RELEASE,
                f"table ({ledger.identity.table}) is not what this request was charged for on"
                f" {row['started']:%Y-%m-%d %H:%M:%S} UTC: the unit, or the rows that its views can have, are others"
                " now",
                "call again when they are as they were, at no further cost; or give a new version := '...' to charge it"
                " anew",
            )
        journal.append(con, ledger.home, {"event": "resume", "entry": row["entry"]})
        return Receipt(row["entry"], row["account"], before, there.journal.balance(row["account"]))

    metadata.prepare(con, ledger.home, "ledger.sql")
    return journal.committed(con, write)


def charged(request: Request, outputs: str) -> str:
    """What is to be said if the call is stopped between debit and store."""
    spent = f"epsilon {float(request.budget.epsilon):g}"
    if request.budget.delta:
        spent += f" and delta {float(request.budget.delta):g}"
    return (
        f"mwem_ledger() tells the same: {spent} was charged for {outputs}, and what was measured by then is kept."
        " The same call goes on from there at no further cost"
    )


def withhold(request: Request, facts: Mapping[str, Any], entry: Entry, output: Name) -> str | None:
    """Raise where a release does not meet its condition; a sentence where the curator publishes it all the same.

    Privacy:
        What is decided, and said, follows from the certificate, which was drawn with noise and paid for.
    """
    mean, within = facts["mean_error"], facts["mean_error_within"]
    if request.publish_if is None or PublicationCondition.parse(request.publish_if).holds(mean, within):
        return None
    figures = "there is no certificate"
    if mean is not None:
        figures = f"mean_share is {min(1.0, mean + within):.3g} (mean_error {mean:.3g}, within {within:.3g})"
    if entry.approved:
        return f"publish_if ({request.publish_if!r}) is not met, and the curator published it all the same: {figures}"
    spent = f"epsilon {float(request.budget.epsilon):g} is spent, and to call it again costs nothing and says the same"
    word = f"CALL mwem_approve({literal(entry.receipt.entry)})"
    cure = f"ask for more epsilon, or for less; or the curator lets that call publish it: {word}"
    if request.seed is not None:
        spent, cure = "nothing is spent by a call with a seed", "leave publish_if out, or ask for more epsilon"
    raise refuse(
        WithheldError,
        RELEASE,
        f"output ({output}) is not published: {figures}, so that publish_if ({request.publish_if!r}) is not met",
        f"{cure}. {spent[0].upper()}{spent[1:]}",
    )
