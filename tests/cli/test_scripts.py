"""Scripts: where statements end, in which order they run, and which line an error names."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from command import call, run

from mwem_sql.cli.console import split_script
from mwem_sql.platform.metadata import read_sql


@pytest.mark.parametrize(
    ("script", "statements", "rest"),
    [
        ("SELECT 1; SELECT 2;", [(1, "SELECT 1;"), (1, "SELECT 2;")], ""),
        ("SELECT 1;\n\n-- no ; here\n  SELECT 2\n;x", [(1, "SELECT 1;"), (4, "SELECT 2\n;")], "x"),
        (
            "SELECT 'a;b', \"c;d\", $$e;f$$, $t$ $$;$t$, E'\\';';",
            [(1, "SELECT 'a;b', \"c;d\", $$e;f$$, $t$ $$;$t$, E'\\';';")],
            "",
        ),
        ("SELECT 'é;ü'; SELECT '日;本';", [(1, "SELECT 'é;ü';"), (1, "SELECT '日;本';")], ""),
        ("/* ; /* ; */ ; */ SELECT 1;", [(1, "SELECT 1;")], ""),
        (";;\n;", [], ""),
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT 'a;", [], "SELECT 'a;"),
        ("SELECT $$a;", [], "SELECT $$a;"),
        ('SELECT "a;', [], 'SELECT "a;'),
        ("SELECT 1; /* a;", [(1, "SELECT 1;")], " /* a;"),
        ("SELECT 1; -- a;", [(1, "SELECT 1;")], " -- a;"),
        ("selec ) 1; SELECT 2;", [(1, "selec ) 1;"), (1, "SELECT 2;")], ""),
    ],
)
def test_split(script: str, statements: list[tuple[int, str]], rest: str) -> None:
    assert split_script(script) == (statements, rest)


def test_split_agrees_with_duckdb_on_the_demo() -> None:
    script = read_sql("demo.sql")
    statements, rest = split_script(script)
    assert len(statements) == len(duckdb.extract_statements(script))
    assert not rest.strip()
    lines = script.splitlines()
    assert all(lines[line - 1].startswith(text.splitlines()[0]) for line, text in statements)


def test_statements_of_all_options_run_in_order(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "between.sql"
    file.write_text("INSERT INTO t VALUES (2);\nINSERT INTO t VALUES (3)", encoding="utf-8")
    code, out, err = call(
        capsys,
        "--csv",
        "-c",
        "CREATE TABLE t (i INTEGER); INSERT INTO t VALUES (1)",
        "-f",
        str(file),
        "-c",
        "SELECT i, 'a;b' AS s FROM t ORDER BY i;",
    )
    assert (code, out, err) == (0, "i,s\n1,a;b\n2,a;b\n3,a;b\n", "")


def test_a_database_file_keeps_what_was_written_and_readonly_refuses_more(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = str(tmp_path / "x.duckdb")
    assert call(capsys, path, "-c", "CREATE TABLE t AS SELECT 42 AS answer") == (0, "", "")
    assert call(capsys, path, "--readonly", "--csv", "-c", "FROM t") == (0, "answer\n42\n", "")
    code, out, err = call(capsys, path, "--readonly", "-c", "INSERT INTO t VALUES (1)")
    assert (code, out) == (1, "")
    assert "read-only" in err


def test_a_failing_statement_stops_the_rest_and_names_file_and_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "nightly.sql"
    file.write_text("SELECT 1 AS one;\n-- a comment\n\nSELECT nope;\nSELECT 2 AS two;", encoding="utf-8")
    code, out, err = call(capsys, "--csv", "-f", str(file), "-c", "SELECT 3")
    assert (code, out) == (1, "one\n1\n")
    assert err.startswith(f"{file}:4: Binder Error: ")
    assert "Traceback" not in err


def test_an_open_quote_is_an_error_with_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "open.sql"
    file.write_text("SELECT 1;\n\nSELECT 'abc\n", encoding="utf-8")
    code, _, err = call(capsys, "-f", str(file))
    assert code == 1
    assert err.startswith(f"{file}:3: Parser Error: unterminated")


def test_piped_stdin_runs_without_prompts() -> None:
    script = "SELECT 1\n  AS one;\n.tables\n-- a comment ;\nSELECT 'a;\nb' AS two; SELECT 3 AS three"
    done = run("--csv", stdin=script)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("one\n1\n")
    assert done.stdout.endswith('two\n"a;\nb"\nthree\n3\n')


def test_piped_stdin_stops_at_the_first_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "--csv", stdin="SELECT 1 AS one;\n.help\n\nSELECT\n nope;\nSELECT 2 AS two;\n")
    assert code == 1
    assert "two" not in out
    assert err.startswith("<stdin>:4: Binder Error: ")
    assert "Traceback" not in err


def test_a_file_called_dash_is_stdin(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--csv", "-c", "SELECT 1 AS one", "-f", "-"]
    code, out, err = call(capsys, *arguments, stdin="SELECT 2 AS two;\nSELECT nope")
    assert (code, out) == (1, "one\n1\ntwo\n2\n")
    assert err.startswith("<stdin>:2: ")
