"""The line that people see while a release runs: what it says, where it is shown, and that nothing is left of it."""

from __future__ import annotations

import io
import threading

import pytest

import mwem_sql
from mwem_sql.platform.calls import Progress, announce, listening
from mwem_sql.surface import progress_line
from mwem_sql.surface.progress_line import Line, shown


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_a_line_says() -> None:
    clock = Clock()
    line = Line(lambda _: None, clock)
    assert line.text() == ""
    line.update(Progress(table="people", phase="reading"))
    clock.now += 65
    assert line.text() == "people: reading the private table  1:05"
    line.update(Progress(table="people", phase="rounds", done=1, of=4, query="sex, city"))
    clock.now += 10
    line.update(Progress(table="people", phase="rounds", done=2, of=4, query="a" * 40))
    assert line.text() == f"people: measuring  {'█' * 10}{'░' * 10} 2 of 4  {'a' * 29}…  1:15  0:10 left"
    line.update(Progress(table="people", phase="done"))
    assert line.text() == ""
    line.end()


def test_another_table_starts_the_clock_anew() -> None:
    clock = Clock()
    line = Line(lambda _: None, clock)
    line.update(Progress(table="people", phase="reading"))
    clock.now += 65
    line.update(Progress(table="others", phase="planning"))
    assert line.text() == "others: planning  0:00"
    line.end()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_line_and_in_the_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, drawn = Terminal(), threading.Event()
    monkeypatch.setattr("sys.stderr", terminal)
    real = progress_line._on_terminal

    def on_terminal(text: str) -> None:
        real(text)
        drawn.set()

    monkeypatch.setattr(progress_line, "_on_terminal", on_terminal)
    with shown(None, silent=0.0):
        announce("people", "reading")
        assert drawn.wait(60)
    assert "\r\x1b[2Kpeople: reading" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K")


@pytest.mark.parametrize("wanted", [None, False])
def test_a_pipe_has_nothing(capsys: pytest.CaptureFixture[str], wanted: bool | None) -> None:
    with mwem_sql.connect() as con:
        con.execute("CREATE TABLE votes (yes BOOLEAN NOT NULL); INSERT INTO votes SELECT i % 3 = 0 FROM range(99) t(i)")
        workload = mwem_sql.Workload.from_predicates(["yes"])
        heard: list[Progress] = []
        with listening(heard.append):
            mwem_sql.release(con, "votes", workload, 1.0, progress=wanted)
    assert capsys.readouterr() == ("", "")
    assert [news.phase for news in heard] == ["planning", "reading", "rounds", "rows", "done"]
    assert (heard[2].done, heard[2].of, heard[2].query) == (1, 1, "yes")
