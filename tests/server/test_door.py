"""The curator's door: who may open it, what comes through, and what becomes of it."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mwem_sql
from mwem_sql.cli import main
from mwem_sql.errors import MwemError, OptionError
from mwem_sql.platform.session import cursors
from mwem_sql.server.door import Door, ask, path_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no such socket")


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Path]:
    """A file with a door."""
    file = tmp_path / "census.duckdb"
    with mwem_sql.connect(str(file)) as con:
        con.execute("CREATE TABLE census (x BOOLEAN NOT NULL); CALL mwem_budget('census', 3.0)")
        opened = Door(file, cursors(con), most_bytes=1000, seconds=0.5)
        yield file
        opened.close()


def test_the_curator_says_what_they_could_say_to_the_file(private: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(private, "SELECT 1 AS a; SELECT x, 2 AS b FROM (SELECT NULL AS x)") == (["x", "b"], [[None, "2"]])
    assert ask(private, "CALL mwem_budget('census', 4.0)")[1][0][:3] == ["main", "census", "4.0"]
    assert ask(private, "") == ([], [])
    with pytest.raises(MwemError, match=r"request \('x'\) does not exist"):
        ask(private, "CALL mwem_approve('x')")
    with pytest.raises(MwemError, match="Parser Error"):
        ask(private, "SELEC 1")
    assert main(["curator", str(private), "-c", "SELECT epsilon FROM mwem.budgets"]) == 0
    assert capsys.readouterr().out == '{"epsilon": "4.0"}\n'
    assert main(["curator", str(private)]) == 0
    assert capsys.readouterr().out == ""  # nothing waits
    assert main(["curator", str(private), "-c", "FROM nowhere"]) == 1
    assert "nowhere does not exist" in capsys.readouterr().err


def test_only_the_owner_opens_it(private: Path) -> None:
    found = path_of(private).stat()
    assert stat.S_ISSOCK(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_uid == os.getuid()


@pytest.mark.skipif(not hasattr(os, "seteuid") or os.getuid() != 0, reason="only root can be somebody else")
def test_somebody_else_does_not(private: Path) -> None:
    for folder in (private.parent, *private.parent.parents):
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(OptionError, match="Permission denied"):
            ask(private, "SELECT 1")
    finally:
        os.seteuid(0)


def test_nonsense_closes_no_door(private: Path) -> None:
    with pytest.raises(OptionError, match="no server that answers"):
        ask(private, "SELECT 1" + 200_000 * " ")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as con:
        con.connect(str(path_of(private)))
        con.sendall(b"SELECT \xff")
        con.shutdown(socket.SHUT_WR)  # and gone before the answer
    assert ask(private, "SELECT 1 AS a") == (["a"], [["1"]])


def test_who_says_nothing_does_not_keep_others_waiting(private: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as con:
        con.connect(str(path_of(private)))
        assert ask(private, "SELECT 1 AS a") == (["a"], [["1"]])


def test_a_door_that_was_left_is_replaced_and_a_closed_one_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "census.duckdb"
    with mwem_sql.connect(str(file)) as con:
        left = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        left.bind(str(path_of(file)))
        left.close()  # as by kill -9
        with pytest.raises(OptionError, match="has no server that answers at"):
            ask(file, "SELECT 1")
        opened = Door.beside(file, cursors(con))
        assert opened is not None
        assert ask(file, "SELECT 1 AS a")[1] == [["1"]]
        opened.close()
        assert not path_of(file).exists()
        with pytest.raises(OptionError, match="No such file"):
            ask(file, "SELECT 1")


def test_where_there_can_be_no_door_there_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with mwem_sql.connect() as con:
        assert Door.beside(":memory:", cursors(con)) is None
        assert not caplog.records
        assert Door.beside(tmp_path / ("x" * 200), cursors(con)) is None
        assert "no door for the curator" in caplog.text
