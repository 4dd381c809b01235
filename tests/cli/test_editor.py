"""The line editor: what Enter does, history by statement, and completion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

import mwem_sql
from mwem_sql.cli.editor import Editor, Names, is_usable
from mwem_sql.cli.shell import is_whole


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect() as con:
        con.execute('CREATE TABLE adult (age INTEGER, "agé" INTEGER); CREATE VIEW adults AS FROM adult')
        yield con


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe:
        yield pipe


def editor(con: duckdb.DuckDBPyConnection, keys: PipeInput, history: Path) -> Editor:
    return Editor(con, is_whole, ("mwem> ", "  ... "), history, input=keys, output=DummyOutput())


def test_enter_ends_a_statement_that_is_whole_and_goes_on_otherwise(
    con: duckdb.DuckDBPyConnection, keys: PipeInput, tmp_path: Path
) -> None:
    reading = editor(con, keys, tmp_path / "history")
    keys.send_text("SELECT ';'\r+ 2; -- done\r")
    assert reading.read() == "SELECT ';'\n+ 2; -- done"
    keys.send_text(".tables\r")
    assert reading.read() == ".tables"


def test_history_is_by_statement_and_lasts(con: duckdb.DuckDBPyConnection, keys: PipeInput, tmp_path: Path) -> None:
    keys.send_text("SELECT 1,\r2;\r")
    editor(con, keys, tmp_path / "history").read()
    again = editor(con, keys, tmp_path / "history")
    keys.send_text("\x10\r")
    assert again.read() == "SELECT 1,\n2;"


def test_without_a_place_for_it_there_is_a_history_all_the_same(
    con: duckdb.DuckDBPyConnection, keys: PipeInput
) -> None:
    reading = editor(con, keys, Path("/nonexistent/history"))
    keys.send_text("SELECT 1;\r")
    assert reading.read() == "SELECT 1;"


@pytest.mark.parametrize(("key", "raised"), [("\x03", KeyboardInterrupt), ("\x04", EOFError)])
def test_ctrl_c_and_ctrl_d(
    con: duckdb.DuckDBPyConnection, keys: PipeInput, tmp_path: Path, key: str, raised: type[BaseException]
) -> None:
    keys.send_text(key)
    with pytest.raises(raised):
        editor(con, keys, tmp_path / "history").read()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM adu", {"adult", "adults"}),
        ("SELECT ag", {"age", "agé", "AGGREGATE"}),
        ("FROM mwem_ma", {"mwem_marginals"}),
        ("CALL mwem_release('adult', w, 1, rou", {"rounds := "}),
        ("SELECT mwem_count('x', 'a(b') + mwem_release('adult', rows", {"rows := ", "rows_per_unit := "}),
        (".t", {".tables"}),
        ("SELECT 1 ", set()),
    ],
)
def test_completion(con: duckdb.DuckDBPyConnection, text: str, expected: set[str]) -> None:
    completions = {each.text for each in Names(con).get_completions(Document(text), CompleteEvent())}
    assert expected <= completions if expected else not completions


def test_options_are_offered_inside_the_call_only(con: duckdb.DuckDBPyConnection) -> None:
    after = "CALL mwem_release('adult', w, 1); SELECT rou"
    assert "rounds := " not in {each.text for each in Names(con).get_completions(Document(after), CompleteEvent())}


@pytest.mark.parametrize(("kind", "usable"), [("xterm-256color", True), ("dumb", False), ("", False)])
def test_a_terminal_that_only_prints_lines_is_read_line_by_line(
    monkeypatch: pytest.MonkeyPatch, kind: str, usable: bool
) -> None:
    monkeypatch.setenv("TERM", kind)
    assert is_usable() == usable
