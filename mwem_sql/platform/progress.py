"""How far the calls of this process are: whoever works says it, and whoever shows it listens. Public facts only, and no clock.

A call runs on a thread of DuckDB's, so that what listens is the process's, not the thread's. Must not draw anything.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Phase: TypeAlias = Literal["planning", "reading", "rounds", "rows", "done"]

_log: Final = logging.getLogger("mwem_sql")
_listeners: list[Listener] = []
_guard = threading.Lock()


@dataclass(frozen=True)
class News:
    """Where a call is: its table, its phase, of rounds how many are done and are expected, and the query that was measured last."""

    table: str
    phase: Phase
    done: int = 0
    of: int = 0
    query: str = ""


Listener: TypeAlias = Callable[[News], object]


def say(news: News) -> None:
    """Tell everybody who listens, and the log. A listener that fails is not heard of: it must not cost a release that is charged."""
    _log.info(
        "%s: %s%s",
        news.table,
        news.phase,
        f" {news.done} of {news.of}" if news.of else "",
        extra={
            "mwem": {"table": news.table, "phase": news.phase, "done": news.done, "of": news.of, "query": news.query}
        },
    )
    with _guard:
        listening = tuple(_listeners)
    for listener in listening:
        with suppress(Exception):
            listener(news)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Let a listener hear of all calls of this process while the block runs."""
    with _guard:
        _listeners.append(listener)
    try:
        yield
    finally:
        with _guard:
            _listeners.remove(listener)
