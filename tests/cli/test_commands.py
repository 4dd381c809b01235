"""Dot commands, from a pipe and from -c."""

from __future__ import annotations

import pytest
from command import call


def test_tables_from_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "-c", "CREATE TABLE kept (i INTEGER)", "-c", ".tables")
    assert (code, err) == (0, "")
    assert "kept" in out


def test_mode_changes_how_rows_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(
        capsys, stdin=".mode\n.mode csv\nSELECT 1 AS a, 2 AS b;\n.mode record\nSELECT 1 AS a, 2 AS b;\n"
    )
    assert (code, err) == (0, "")
    assert out == "box\na,b\n1,2\n  a  1\n  b  2\n\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (".mode xml", "box, record, csv, json"),
        (".schema nowhere", ".tables lists them"),
        (".nonsense", ".help lists them"),
    ],
)
def test_what_cannot_be_done_is_said(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    code, out, err = call(capsys, stdin=f"{line}\nSELECT 1;\n")
    assert (code, out) == (1, "")
    assert said in err


def test_quit_ends_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, stdin=".quit\nSELECT 1;\n") == (0, "", "")
