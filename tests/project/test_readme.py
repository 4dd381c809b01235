"""The README's own words: its SQL runs top to bottom in one database, its Python as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import mwem_sql

README = Path(__file__).resolve().parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_sql_runs_as_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    con = mwem_sql.connect()
    try:
        for block in blocks("sql"):
            for statement in duckdb.extract_statements(block):
                con.execute(statement).fetchall()
        assert con.execute("SELECT count(*) > 5000 FROM people_synthetic").fetchall() == [(True,)]
        assert con.execute("SELECT table_name FROM mwem.ledger ORDER BY started").fetchall() == [
            ("titanic",),
            ("people",),
            ("from_parquet",),
            ("from_csv",),
        ]
    finally:
        con.close()


def test_python_runs_as_written(tmp_path):
    (script,) = blocks("python")
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert "census.main.votes_synthetic" in ran.stdout


def test_install_commands_are_the_two_that_ci_reads():
    lines = [line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("pip install ")]
    assert lines == ["pip install . && mwem-sql demo", "pip install '.[test]' && pytest"]


@pytest.mark.parametrize("path", re.findall(r"\]\((docs/[^)]+)\)", README.read_text(encoding="utf-8")))
def test_links_lead_somewhere(path):
    assert (README.parent / path).exists()
