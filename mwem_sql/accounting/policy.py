"""The policy of a database: whether releases need a cap. Kept in the journal alone, so that nobody changes it without leaving a trace.

Owns the journal's events "policy". Must not refuse a release: that is the ledger's.
"""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from mwem_sql.accounting import journal
from mwem_sql.accounting.names import NAME
from mwem_sql.platform import metadata
from mwem_sql.platform.metadata import Row, holders
from mwem_sql.platform.session import transaction


def set_policy(con: duckdb.DuckDBPyConnection, home: str, *, require_caps: bool, who: str, when: str) -> None:
    """Write down that releases from tables of this database need a cap from now on, or no longer do."""
    event = {"event": "policy", "require_caps": require_caps, "who": who, "when": when, **dict.fromkeys(NAME, ""),
             "epsilon_exact": "0", "delta_exact": "0"}  # fmt: skip

    def write() -> None:
        with transaction(con):
            journal.append(con, event)

    metadata.prepare(con, home, "ledger.sql", metadata.NEWEST)
    journal.retried(write)


def requires_caps(con: duckdb.DuckDBPyConnection, home: str) -> bool:
    """Whether the policy of a database requires caps; where nobody set one, it does not."""
    events = journal.read(con, home)[0] if home in holders(con, "journal") else []
    return any(bool(event["require_caps"]) for event in list(policies(events))[-1:])


def policies(events: Iterable[Row]) -> Iterable[Row]:
    """The events of the journal that set a policy, in order."""
    return (event for event in events if event.get("event") == "policy")
