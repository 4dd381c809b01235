"""The process's own memory: what DuckDB does not count under its limit must not bring the whole server down.

Functions of lists and texts take memory from the system, past `memory_limit`, and notice no interrupt before they end.
While the process has more than it may, the system gives it no more: what asks for some fails, and gives back what it
has. Owns the process's limit of address space. Linux only; elsewhere it does nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

EVERY_SECONDS = 0.02
"""Between two looks. Larger: more is taken before it is seen, some 2 GB in a second."""
_STATUS = Path("/proc/self/statm")
_log = logging.getLogger("mwem_sql")


class Watch:
    """A thread that looks at the process's memory until it is closed."""

    def __init__(self, most: int, interrupt: Callable[[], object]) -> None:
        """`most` is in bytes; `interrupt` stops the statements of all users."""
        self._most, self._interrupt, self._is_closed = most, interrupt, threading.Event()
        self._thread = threading.Thread(target=self._look, name="mwem_sql memory", daemon=True)
        if resource is not None and _STATUS.exists():
            self._thread.start()

    def close(self) -> None:
        self._is_closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _look(self) -> None:
        page, is_over = resource.getpagesize(), False
        usual = resource.getrlimit(resource.RLIMIT_AS)
        while not self._is_closed.wait(EVERY_SECONDS):
            size, resident = (int(each) * page for each in _STATUS.read_text().split()[:2])
            if resident > self._most and not is_over:
                _log.warning("server: more than %d MB of memory, and no more is taken", self._most >> 20)
                resource.setrlimit(resource.RLIMIT_AS, (size, usual[1]))
                self._interrupt()
            elif resident <= self._most and is_over:
                resource.setrlimit(resource.RLIMIT_AS, usual)
            is_over = resident > self._most
        resource.setrlimit(resource.RLIMIT_AS, usual)
