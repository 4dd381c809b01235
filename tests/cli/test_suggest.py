"""`mwem-sql suggest`: a script from a file, whose types are declared in it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from chance import sampled

from mwem_sql import cli

CSV = "id;born;town;pay\n" + "".join(
    f"{i};0{1 + i % 9}/12/19{50 + i % 50};{'Bern' if i % 3 else 'Genf'};{i},5\n" for i in range(300)
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pay 2024.csv").write_text(CSV)
    duckdb.execute("COPY (SELECT i % 7 AS day, (i % 9) * 1.5::DOUBLE AS x FROM range(300) t(i)) TO 'days.parquet'")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "table", "wanted"),
    sampled([
        ("pay 2024.csv", "pay_2024",
        ("""delim := ';', quote := '', dateformat := '%d/%m/%Y', decimal_separator := ',', """
         """"columns" := {'id': 'BIGINT', 'born': 'DATE', 'town': 'VARCHAR', 'pay': 'DOUBLE'})""")),
        ("days.parquet", "days",
        """CREATE TABLE IF NOT EXISTS "days" AS SELECT * FROM read_parquet('days.parquet');"""),
    ], 1),
)  # fmt: skip
def test_the_script_makes_table_and_release(
    files: Path, capsys: pytest.CaptureFixture[str], file: str, table: str, wanted: str
) -> None:
    assert cli.main(["suggest", file]) == 0
    script = capsys.readouterr().out
    assert script.startswith("-- NOT PRIVATE.")
    assert wanted in script
    (files / "made.sql").write_text(script)
    assert cli.main(["made.duckdb", "-f", "made.sql"]) == 0
    with duckdb.connect("made.duckdb") as con:
        assert con.execute(f"SELECT count(*) > 0 FROM {table}_synthetic").fetchall() == [(True,)]
        assert con.execute(f"SELECT count(*) FROM {table}").fetchall() == [(300,)]


def test_what_cannot_be_read_is_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "empty.csv").write_text("")
    (files / "header.csv").write_text("name,age\n")
    (files / "latin.csv").write_text("name,age\n" + "Müller,31\n" * 20, encoding="latin-1")
    for file, reason in (
        ("nothing.csv", "mwem-sql suggest: file ('nothing.csv') does not exist. Hint: name a CSV"),
        ("empty.csv", "no column that a domain can be suggested for"),
        ("header.csv", "no column that a domain can be suggested for (name: no row has a value in it; age: "),
        ("latin.csv", "file ('latin.csv') cannot be read as CSV: it is not in UTF-8. Hint: save it as UTF-8, for"),
    ):
        assert cli.main(["suggest", file]) == 1
        assert reason in capsys.readouterr().err


@pytest.mark.usefixtures("files")
def test_the_shell_shows_the_script_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-c", "CREATE TABLE days AS FROM 'days.parquet'; FROM mwem_suggest_domain('days')"]) == 0
    assert capsys.readouterr().out.startswith("-- NOT PRIVATE.")
    assert cli.main(["--csv", "-c", "CREATE TABLE days AS FROM 'days.parquet'; FROM mwem_suggest_domain('days')"]) == 0
    assert capsys.readouterr().out.startswith("attribute,values,low")


@pytest.mark.parametrize("named", [["clinic"], ["clinic/persons.csv", "clinic/visits.parquet"]])
def test_a_folder_becomes_tables_that_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], named: list[str]
) -> None:
    """From two files to two published tables, in three commands."""
    monkeypatch.chdir(tmp_path)
    Path("clinic").mkdir()
    Path("clinic/notes.txt").write_text("not a table")
    duckdb.execute(
        """COPY (SELECT 'p' || i AS pid, ['F', 'M'][1 + i % 2] AS sex FROM range(200) t(i)) TO 'clinic/persons.csv';
        COPY (SELECT i AS vid, 'p' || i % 150 AS pid, ['home', 'away'][1 + i % 2] AS place FROM range(500) t(i))
        TO 'clinic/visits.parquet'"""
    )
    assert cli.main(["suggest", *named]) == 0
    script = capsys.readouterr().out
    assert script.startswith("-- NOT PRIVATE.")
    Path("made.sql").write_text(script)
    assert cli.main(["made.duckdb", "-f", "made.sql"]) == 0
    with duckdb.connect("made.duckdb") as con:
        joined = con.execute("SELECT count(*) FROM visits_synthetic JOIN persons_synthetic USING (pid)").fetchall()
        assert joined == con.execute("SELECT count(*) FROM visits_synthetic").fetchall() != [(0,)]


def test_files_that_cannot_be_told_apart_are_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "empty").mkdir()
    (files / "days.csv").write_text("a\n1\n")
    for arguments, reason in (
        (["empty"], "folder ('empty') has no .csv or .parquet file in it"),
        (["days.csv", "days.parquet"], "files ('days.csv', 'days.parquet') would make two tables 'days'"),
    ):
        assert cli.main(["suggest", *arguments]) == 1
        assert reason in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["suggest", "days.csv", "days.parquet", "--table", "t"])
