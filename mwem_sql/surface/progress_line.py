"""Progress for people: a line on a terminal, or a line in a notebook. Nothing in a pipe unless the caller wants it.

Owns how it looks. Knows only what `platform/calls.py` announces: public facts.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Any

from mwem_sql.platform.calls import Progress, listening

REDRAW_SECONDS = 0.2
"""Seconds between two updates of a line. Smaller: the terminal flickers. Larger: the clock jumps."""
SILENT_SECONDS = 0.5
"""Seconds that a call may take before there is a line at all."""


@contextmanager
def shown(progress: bool | None, *, silent: float = SILENT_SECONDS) -> Iterator[None]:
    """Show the progress of calls while the block runs: True always, False never, None where a person looks on."""
    draw = _display(progress)
    if draw is None:
        yield
        return
    line = Line(draw, silent=silent)
    with listening(line.update):
        try:
            yield
        finally:
            line.end()


def _display(progress: bool | None) -> Callable[[str], object] | None:
    """What shows a line of text: the notebook's display, or a terminal."""
    notebook = _notebook()
    if progress is False or (progress is None and notebook is None and not sys.stderr.isatty()):
        return None
    return notebook or _on_terminal


def _on_terminal(text: str) -> None:
    """Replace the line that the cursor is in; nothing is left of an empty one."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[2K{text[: get_terminal_size((80, 24)).columns - 1]}")
    elif text:
        sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _notebook() -> Callable[[str], object] | None:
    """A line of a notebook that is written anew, and is there from its first text on; None outside of one."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display  # noqa: PLC0415 (there is a notebook, so there is this)

    handle: Any = None

    def draw(text: str) -> None:
        nonlocal handle
        if handle is None:
            handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            handle.update({"text/plain": text}, raw=True)

    return draw


class Line:
    """One line of text about the call that spoke last, drawn on another thread: a call may be silent for long."""

    def __init__(
        self,
        draw: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
        *,
        silent: float = SILENT_SECONDS,
    ) -> None:
        self._draw, self._clock, self._silent = draw, clock, silent
        self._began = self._rounds_began = clock()
        self._progress: Progress | None = None
        self._over = threading.Event()
        self._last = ""
        self._thread: threading.Thread | None = None

    def update(self, progress: Progress) -> None:
        if progress.phase == "rounds" and (self._progress is None or self._progress.phase != "rounds"):
            self._rounds_began = self._clock()
        if self._progress is None or progress.table != self._progress.table:
            self._began = self._clock()
        self._progress = progress
        if self._thread is None:
            self._thread = threading.Thread(target=self._redraw, daemon=True)
            self._thread.start()

    def _redraw(self) -> None:
        while not self._over.wait(REDRAW_SECONDS):
            if self._clock() - self._began >= self._silent:
                self._put(self.text())

    def _put(self, text: str) -> None:
        if text != self._last:
            self._last = text
            self._draw(text)

    def end(self) -> None:
        """Leave nothing behind."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._put("")

    def text(self) -> str:
        """The line: phase, bar, rounds, what was measured, and the time."""
        progress = self._progress
        if progress is None or progress.phase == "done":
            return ""
        now = self._clock()
        words = {"reading": "reading the private table", "rounds": "measuring", "rows": "writing rows"}
        parts = [f"{progress.table}: {words.get(progress.phase, progress.phase)}"]
        if progress.of:
            full = round(20 * progress.done / progress.of)
            parts.append(f"{'█' * full}{'░' * (20 - full)} {progress.done} of {progress.of}")
        if progress.query:
            parts.append(progress.query if len(progress.query) <= 30 else progress.query[:29] + "…")
        parts.append(_clock_text(now - self._began))
        if progress.of and progress.done:
            parts.append(
                f"{_clock_text((now - self._rounds_began) * (progress.of - progress.done) / progress.done)} left"
            )
        return "  ".join(parts)


def _clock_text(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
