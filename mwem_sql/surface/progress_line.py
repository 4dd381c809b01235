"""Progress for people: a line on a terminal, or a line in a notebook. Nothing in a pipe unless it is asked for.

Owns how it looks. Knows only what `platform/progress.py` says: public facts.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Any

from mwem_sql.platform.progress import News, heard_by

REDRAWN = 0.2
"""Seconds between two looks of a line. Smaller: the terminal flickers. Larger: the clock jumps."""
PATIENCE = 0.5
"""Seconds that a call may take before there is a line at all."""
WIDTH = 20
"""Characters of a full bar."""
PHASES = {"planning": "planning", "reading": "reading the private table", "rounds": "measuring", "rows": "writing rows"}


@contextmanager
def shown(progress: bool | None) -> Iterator[None]:
    """Show the progress of calls while the block runs: True always, False never, None where a person looks on."""
    draw = _display(progress)
    if draw is None:
        yield
        return
    line = Line(draw)
    with heard_by(line.hear):
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
    """One line of text about the call that spoke last, drawn on a thread of its own: a call may be silent for long."""

    def __init__(self, draw: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._draw, self._clock = draw, clock
        self._began = self._rounds_began = clock()
        self._news: News | None = None
        self._over = threading.Event()
        self._last = ""
        self._thread: threading.Thread | None = None

    def hear(self, news: News) -> None:
        if news.phase == "rounds" and (self._news is None or self._news.phase != "rounds"):
            self._rounds_began = self._clock()
        if self._news is None or news.table != self._news.table:
            self._began = self._clock()
        self._news = news
        if self._thread is None:
            self._thread = threading.Thread(target=self._redraw, daemon=True)
            self._thread.start()

    def _redraw(self) -> None:
        while not self._over.wait(REDRAWN):
            if self._clock() - self._began >= PATIENCE:
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
        news = self._news
        if news is None or news.phase == "done":
            return ""
        now = self._clock()
        parts = [f"{news.table}: {PHASES[news.phase]}"]
        if news.of:
            full = round(WIDTH * news.done / news.of)
            parts.append(f"{'█' * full}{'░' * (WIDTH - full)} {news.done} of {news.of}")
        if news.query:
            parts.append(news.query if len(news.query) <= 30 else news.query[:29] + "…")
        parts.append(_clock_text(now - self._began))
        if news.of and news.done:
            parts.append(f"{_clock_text((now - self._rounds_began) * (news.of - news.done) / news.done)} left")
        return "  ".join(parts)


def _clock_text(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
