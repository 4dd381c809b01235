"""Asking: a release that is beyond a user's caps is planned, checked in full and stored as a request.

What is stored is what would be released: the same hash, the same price. Must not charge anything or read a private row.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from mwem_sql.accounting import requests
from mwem_sql.accounting.caps import Charge
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.errors import BudgetError, OptionError, refuse
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.metadata import Row
from mwem_sql.platform.session import Session
from mwem_sql.releases import entries, reuse
from mwem_sql.releases.levels import TablesRequest
from mwem_sql.releases.request import Request
from mwem_sql.releases.run import charge_of, first_query, planned
from mwem_sql.releases.tables import charge_of_tables, fingerprint_of_tables, planned_tables, stored_tables

_FUNCTION = "mwem_request"


@dataclass(frozen=True, kw_only=True)
class Quote:
    """What a call of mwem_release would charge, to which ledger, for which outputs; `known_by` is one of them."""

    ledger: Ledger
    charge: Charge
    hash: str
    outputs: Sequence[Name]
    known_by: Name
    workload: str


def ask(session: Session, request: Request | TablesRequest, plan: Sequence[str]) -> Row:
    """Store what a user asks beyond their caps, with its plan in words; refused if it would be after its approval."""
    first = request.first if isinstance(request, TablesRequest) else request
    user = session.user
    if user is None:
        what = f"table ({first.table}) is asked for by nobody's name: requests are for users of a server, who have caps"
        raise refuse(
            OptionError, _FUNCTION, what, "CALL mwem_budget sets the table's cap, and mwem_release needs no more"
        )
    con = session.cursor()
    if isinstance(request, TablesRequest):
        quote = _of_tables(con, session, request)
    else:
        quote = _of_table(con, session, request)
    if quote is None:
        what = f"table ({first.table}) has a release of this very request already"
        raise refuse(OptionError, _FUNCTION, what, "CALL mwem_release with the same arguments returns it at no cost")
    if entries.unfinished_entry(quote.ledger, quote.hash, quote.known_by, user) is not None:
        what = f"table ({first.table}) was charged for this very request already, which did not come to its end"
        raise refuse(BudgetError, _FUNCTION, what, "CALL mwem_release with the same arguments goes on, at no cost")
    return requests.ask(
        session.private.cursor(), quote.ledger, quote.charge, ", ".join(map(str, quote.outputs)), user=user,
        request=quote.hash, version=first.version, workload=quote.workload, plan=plan,
        questions=[json.dumps(row) for row in first.workload.to_arrow().to_pylist()],
    )  # fmt: skip


def _of_table(con: duckdb.DuckDBPyConnection, session: Session, request: Request) -> Quote | None:
    """Of one table; None if its release is stored."""
    private, output = reuse.names(con, session, request)
    fingerprint = reuse.fingerprint(con, session, request, private, output)
    if reuse.stored_release(con, output, fingerprint, request) is not None:
        return None
    plan, ledger = planned(con, session, request, output)
    return Quote(
        ledger=ledger, charge=charge_of(request, plan), hash=fingerprint.hash, outputs=[output], known_by=output,
        workload=first_query(plan.compiled),
    )  # fmt: skip


def _of_tables(con: duckdb.DuckDBPyConnection, session: Session, request: TablesRequest) -> Quote | None:
    """Of several."""
    named = [reuse.names(con, session, request.of(text)) for text in request.tables]
    fingerprint = fingerprint_of_tables(con, session, request, named)
    if stored_tables(con, request, [output for _, output in named], fingerprint) is not None:
        return None
    tree, ordered = planned_tables(con, session, request, named)
    return Quote(
        ledger=tree.ledger, charge=charge_of_tables(tree), hash=fingerprint.hash, outputs=ordered,
        known_by=ordered[-1], workload=first_query(tree.root.plan.compiled),
    )  # fmt: skip
