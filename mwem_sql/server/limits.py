"""What a server's users may take: memory, time, rows, and how much at once.

A limit keeps others working; none of them is about privacy. Defaults are for a server of a few cores and users.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from mwem_sql.errors import OptionError, refuse


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """All limits. A command line's options have these names, with dashes."""

    memory: str = "2GB"
    """Of the instance that runs analysts' statements, their tables of results included."""
    process_memory: str = "8GB"
    """Of the whole process, scans and what DuckDB does not count included. Above it statements of analysts fail."""
    threads: int = 2
    """Of that instance."""
    statement_seconds: float = 300.0
    """After these a statement is interrupted. A release that runs is finished and stored all the same."""
    releases_at_once: int = 2
    """Releases that are made at the same time; one more is refused, and charged nothing."""
    workload_rows: int = 100_000
    """Rows of one workload."""
    tables_per_user: int = 100
    """Tables that one user may have."""
    statements_per_user: int = 16
    """Statements of one user that run at the same time."""
    connections_per_user: int = 50
    """Connections of one user that are open at the same time."""
    grace_seconds: float = 600.0
    """What a release has to come to its end once the server is to stop."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, (int, float)) and not 0 < value < 10**9:
                what = f"{each.name} ({value}) must be above 0"
                raise refuse(OptionError, "mwem-sql serve", what, f"leave it out for {each.default}")


class Slots:
    """A number of places; who finds none is refused, and does not wait."""

    def __init__(self, most: int) -> None:
        self._most, self._taken = most, 0
        self._changed = threading.Condition()

    @contextmanager
    def one(self, refusal: Exception) -> Iterator[None]:
        with self._changed:
            if self._taken >= self._most:
                raise refusal
            self._taken += 1
        try:
            yield
        finally:
            with self._changed:
                self._taken -= 1
                self._changed.notify_all()

    def wait_until_free(self, seconds: float) -> bool:
        """Wait until nobody has a place; whether that came."""
        with self._changed:
            return self._changed.wait_for(lambda: self._taken == 0, seconds)
