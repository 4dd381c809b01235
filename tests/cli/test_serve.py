"""`mwem-sql user` and the options of `mwem-sql serve`; what a server does is in tests/server."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from mwem_sql import cli
from mwem_sql.server.users import Users


def test_users_are_added_listed_and_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "users.toml")
    tokens = []
    for name in ("bert", "anna"):
        assert cli.main(["user", "add", name, "--users", file]) == 0
        tokens.append(capsys.readouterr().out.strip())
    assert [user.name for token in tokens if (user := Users.of(file).with_token(token))] == ["bert", "anna"]
    assert cli.main(["user", "--users", file, "list"]) == 0
    assert capsys.readouterr().out == "anna\nbert\n"
    assert cli.main(["user", "remove", "bert", "--users", file]) == 0
    assert "kill -HUP" in capsys.readouterr().err
    assert cli.main(["user", "list", "--users", file]) == 0
    assert capsys.readouterr().out == "anna\n"


def test_what_cannot_be_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "users.toml")
    assert cli.main(["user", "list", "--users", file]) == 1
    assert "mwem-sql user add anna --users" in capsys.readouterr().err
    assert cli.main(["user", "add", "A B", "--users", file]) == 1
    assert "must be a lower-case letter" in capsys.readouterr().err


def test_a_server_needs_both_files(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["serve", "--private", "census.duckdb"])
    assert "required: --public" in capsys.readouterr().err


def test_one_file_cannot_be_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, users = str(tmp_path / "census.duckdb"), str(tmp_path / "users.toml")
    cli.main(["user", "add", "anna", "--users", users])
    assert cli.main(["serve", "--private", file, "--public", file, "--users", users]) == 1
    assert "is the private file itself" in capsys.readouterr().err


def test_a_server_that_does_not_answer_is_not_well(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as con:
        con.bind(("127.0.0.1", 0))  # and does not listen
        listen = f"quack:127.0.0.1:{con.getsockname()[1]}"
        assert cli.main(["serve", "--health", "--listen", listen]) == 1
    assert f"{listen} does not answer" in capsys.readouterr().err
