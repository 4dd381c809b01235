"""`mwem-sql export`: which database is meant, and what is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from chance import sampled
from command import call

import mwem_sql


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a release."""
    path = tmp_path_factory.mktemp("database") / "census.duckdb"
    with mwem_sql.connect(path) as con:
        con.execute("CREATE TABLE t (a BOOLEAN NOT NULL); INSERT INTO t SELECT i % 2 = 0 FROM range(50) t(i)")
        mwem_sql.release(con, "t", mwem_sql.Workload.from_predicates(["a"]), 1.0)
    return path


@pytest.fixture
def census(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a copy of it."""
    shutil.copy(database, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_only_database_of_the_folder_is_meant(census: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "export", "t_synthetic", "--to", "release.parquet")
    assert (code, err) == (0, "")
    assert [line.split()[-1] for line in out.splitlines()] == ["release.parquet", "release.md", "release.json"]
    assert (census / "release.parquet").read_bytes()[:4] == b"PAR1"


def test_a_database_that_answers(census: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command opens the release's database read-only; the new one must be writable all the same."""
    code, out, err = call(capsys, "export", "t_synthetic", "--to", "release.duckdb")
    assert (code, err) == (0, "")
    assert [line.split()[-1] for line in out.splitlines()] == ["release.duckdb", "release.md", "release.json"]
    with mwem_sql.connect(census / "release.duckdb") as con:
        assert mwem_sql.count_interval(con, "t_synthetic", "a")["measured"] == "directly"


@pytest.mark.parametrize("named", sampled([["--database", "census.duckdb"], []], 1))
def test_of_several_one_must_be_named(census: Path, capsys: pytest.CaptureFixture[str], named: list[str]) -> None:
    mwem_sql.connect(census / "other.duckdb").close()
    code, _, err = call(capsys, "export", "t_synthetic", "--to", "release.csv", *named)
    assert code == (0 if named else 2)
    assert ("2 *.duckdb files" in err) != bool(named)


def test_what_is_no_release(census: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "export", "nothing", "--to", str(census / "release.csv"))
    assert (code, out) == (1, "")
    assert "mwem_export: output ('nothing') is not a release" in err
