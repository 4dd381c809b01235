"""The page as a file: what is replaced, and what is private."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Connection

import mwem_sql
from mwem_sql.errors import OptionError, OutputError


@pytest.fixture(scope="module")
def made(shared: Connection) -> Connection:
    shared.execute("CALL mwem_release('people', workload, 1, rounds := 2, rows := 30)")
    return shared


def test_a_page_is_written_and_written_again(made: Connection, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    for _ in range(2):
        (row,) = mwem_sql.report(made, "people_synthetic", path).to_pylist()
        assert row == {"file": str(path), "bytes": path.stat().st_size, "private": True}
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_a_file_of_somebody_else_stays(made: Connection, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("<html>mine</html>")
    with pytest.raises(OutputError, match="exists and was not made by mwem_report"):
        mwem_sql.report(made, "people_synthetic", path)
    assert path.read_text() == "<html>mine</html>"


def test_a_page_is_no_pdf(made: Connection, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"report.pdf'\) must end with one of .html, .htm. Hint: write 'report.html'"):
        mwem_sql.report(made, "people_synthetic", tmp_path / "report.pdf")
    assert not list(tmp_path.iterdir())


def test_true_answers_make_it_not_private_and_the_ledger_notes_it(made: Connection, tmp_path: Path) -> None:
    (row,) = mwem_sql.report(made, "people_synthetic", tmp_path / "r.html", compare="people").to_pylist()
    assert row["private"] is False
    assert "NOT PRIVATE: this page shows true answers of people" in (tmp_path / "r.html").read_text("utf-8")
    assert "mwem_compare" in mwem_sql.ledger(made).column("action").to_pylist()


def test_from_sql(made: Connection, tmp_path: Path) -> None:
    rows = made.execute("CALL mwem_report('people_synthetic', ?)", [str(tmp_path / "r.html")]).fetchall()
    assert rows[0][0] == str(tmp_path / "r.html")
