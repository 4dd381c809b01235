"""Seats: for whom a server's statement runs, by a ticket that nobody can guess and that is good for one statement.

A function that DuckDB calls cannot see which connection called it, and what a statement says of itself is the client's
word. So a server sets a variable on its own connection before it runs a statement there; the macros pass it on, and a
seat is looked up by it. Where an instance is served, no function of ours runs without one. Owns tickets. Must not know
what a user may do.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import duckdb

from mwem_sql.errors import TableError, refuse
from mwem_sql.platform.sandbox import set_statement
from mwem_sql.platform.session import Session

VARIABLE = "mwem_ticket"
"""The variable of a connection that has the ticket."""


class Permits(Protocol):
    """What a server lets a user do, and how much of it at a time."""

    def running(self, user: str, function: str, values: Mapping[str, Any], rows: int) -> AbstractContextManager[None]:
        """A call while it runs; refused before it begins. `rows` are those of its workload."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Seat:
    """A user of a server, and what their calls reach: the side of private rows."""

    user: str
    inside: Session
    permits: Permits


_GUARD = threading.Lock()
_SEATS: dict[str, Seat] = {}
_SERVED: set[str] = set()
"""Keys of the instances in which no function of ours runs without a seat."""


def serve(instance: str) -> None:
    """Let no function of ours run in an instance but for a seat, for as long as the process lives."""
    with _GUARD:
        _SERVED.add(instance)


@contextmanager
def taken(con: duckdb.DuckDBPyConnection, seat: Seat) -> Iterator[None]:
    """A connection's statements run for a seat while the block runs. The ticket is good for that long."""
    ticket = secrets.token_urlsafe(32)
    with _GUARD:
        _SEATS[ticket] = seat
    try:
        con.execute(set_statement(VARIABLE, ticket, is_variable=True))
        yield
    finally:
        with _GUARD:
            del _SEATS[ticket]


def seat_of(instance: str, ticket: object, function: str) -> Seat | None:
    """The seat that a call is made for; None in an instance that is not served."""
    with _GUARD:
        if instance not in _SERVED:
            return None
        seat = _SEATS.get(ticket) if isinstance(ticket, str) else None
    if seat is None:
        what = "the call has no seat: it is no statement of a user whom the server knows"
        raise refuse(TableError, function, what, "ATTACH the server with your token, and call it there")
    return seat
