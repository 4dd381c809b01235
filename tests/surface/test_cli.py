"""The command line: real processes where a process matters, `main` where it does not."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import json
import math
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from mwem_sql import cli
from mwem_sql.database.resources import read_sql

ROOT = Path(cli.__file__).resolve().parents[1]
COMMAND = [sys.executable, "-m", "mwem_sql.cli"]
PATIENCE = 60  # seconds until a hanging process is given up: generous, the machine may be busy
ENDLESS = "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE a.range % 7 = b.range % 5"


def environment(home: Path | str = "/nonexistent") -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "HOME": str(home), "COLUMNS": "80"}


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
        env=environment(),
        cwd=ROOT,
    )


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        code = cli.main(list(arguments))
    except SystemExit as leaving:  # argparse
        code = int(str(leaving.code))
    return code, *capsys.readouterr()


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
    assert cli.split(script) == (statements, rest)


def test_split_agrees_with_duckdb_on_the_demo() -> None:
    script = read_sql("demo.sql")
    statements, rest = cli.split(script)
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


def test_an_error_in_the_middle_of_a_result_is_only_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    late = "SELECT (CASE WHEN i = 500000 THEN 'x' ELSE '1' END)::INTEGER FROM range(1000000) t(i)"
    code, out, err = call(capsys, "-c", late, "-c", "SELECT 1")
    assert (code, out) == (1, "")
    assert err.startswith("Conversion Error: ")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nope"],
        ["-f", "/nonexistent/nightly.sql"],
        ["/nonexistent/x.duckdb", "-c", "SELECT 1"],
        ["--readonly", "/nonexistent.duckdb", "-c", "SELECT 1"],
        ["--readonly", "-c", "SELECT 1"],
        ["a.duckdb", "b.duckdb"],
        ["demo", "--rows", "0"],
        ["demo", "--epsilon", "much"],
    ],
)
def test_bad_usage(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "error: " in err
    assert "Traceback" not in err


def test_bad_usage_runs_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    assert call(capsys, str(path), "-c", "CREATE TABLE t (i INTEGER)", "-f", "/nonexistent.sql")[0] == 2
    assert not path.exists()


def test_a_file_that_is_no_database(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "letter.duckdb"
    path.write_text("Dear Sir or Madam, " * 1000, encoding="utf-8")
    code, _, err = call(capsys, str(path), "-c", "SELECT 1")
    assert code == 2
    assert "cannot open" in err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--version")
    assert code == 0
    assert out.startswith("mwem-sql ")
    assert duckdb.__version__ in out


def test_box_shows_the_first_rows_and_says_how_many_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "-c", "SELECT i FROM range(123456) t(i)")
    assert code == 0
    assert "│    39 │" in out
    assert "│    40 │" not in out
    assert "123,456 rows" in out


def test_box_fits_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    _, out, _ = call(capsys, "-c", "SELECT repeat('x', 300) AS a, repeat('y', 300) AS b, i FROM range(3) t(i)")
    assert "┌" in out
    assert max(map(len, out.splitlines())) <= 90


def test_a_wide_row_is_shown_with_all_its_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = call(capsys, "-c", "SELECT " + ", ".join(f"{i} AS column_number_{i}" for i in range(12)))
    assert [line.split() for line in out.split("\n") if line] == [[f"column_number_{i}", str(i)] for i in range(12)]


def test_csv_and_json_carry_every_kind_of_value(capsys: pytest.CaptureFixture[str]) -> None:
    row = """SELECT 1 AS a, 2 AS a, NULL AS n, 'q"' AS q, sum(5) AS h, [1, NULL] AS l, {'x': true} AS s,
             TIMESTAMPTZ '2020-01-02 03:04:05+00' IS NOT NULL AS t, DATE '2020-01-02' AS d, 'f'::ENUM ('m', 'f') AS e,
             now() AS tz"""
    code, out, _ = call(capsys, "--csv", "-c", row)
    assert code == 0
    header, values = csv.reader(out.splitlines())
    assert header == ["a", "a", "n", "q", "h", "l", "s", "t", "d", "e", "tz"]
    assert values[:-1] == ["1", "2", "", 'q"', "5", "[1, NULL]", "{'x': true}", "true", "2020-01-02", "f"]
    code, out, _ = call(capsys, "--json", "-c", row, "-c", "SELECT 7 AS x FROM range(2)")
    first, *others = map(json.loads, out.splitlines())
    del first["tz"]
    assert first == {
        "a": 1,
        "a_1": 2,
        "n": None,
        "q": 'q"',
        "h": 5,
        "l": [1, None],
        "s": {"x": True},
        "t": True,
        "d": "2020-01-02",
        "e": "f",
    }
    assert others == [{"x": 7}, {"x": 7}]


def test_statements_without_rows_print_nothing_and_a_column_called_count_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    silent = "BEGIN; CREATE TABLE t (i INTEGER); INSERT INTO t VALUES (1); DELETE FROM t; COMMIT; SET threads = 2; CHECKPOINT"
    assert call(capsys, "-c", silent) == (0, "", "")
    assert call(capsys, "--csv", "-c", 'SELECT 5 AS "Count"') == (0, "Count\n5\n", "")


def test_every_statement_runs_once(capsys: pytest.CaptureFixture[str]) -> None:
    sql = "CREATE SEQUENCE s; SELECT nextval('s') AS n; SELECT nextval('s') AS n"
    assert call(capsys, "--csv", "-c", sql) == (0, "n\n1\nn\n2\n", "")
    code, out, _ = call(capsys, "-c", sql)
    assert code == 0
    assert "│     2 │" in out


def test_no_table_name_finds_a_variable_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "-c", "SELECT * FROM relation")
    assert code == 1
    assert "does not exist" in err


def test_everything_is_registered(capsys: pytest.CaptureFixture[str]) -> None:
    table = "CREATE TABLE t (sex ENUM ('F', 'M') NOT NULL, old BOOLEAN NOT NULL)"
    code, out, err = call(capsys, "--json", "-c", table, "-c", "SELECT attribute FROM mwem_domain('t')")
    assert (code, err) == (0, "")
    assert [json.loads(line)["attribute"] for line in out.splitlines()] == ["sex", "old"]


def test_an_error_of_a_release_is_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(
        capsys, "-c", "CREATE TABLE w AS SELECT 'true' AS predicate", "-c", "CALL mwem_release('nowhere', w, 1.0)"
    )
    assert (code, out) == (1, "")
    assert "mwem_release: " in err
    assert "Traceback" not in err
    assert ".py" not in err


def test_piped_stdin_runs_without_prompts() -> None:
    script = "SELECT 1\n  AS one;\n.tables\n-- a comment ;\nSELECT 'a;\nb' AS two; SELECT 3 AS three"
    done = run("--csv", stdin=script)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("one\n1\n")
    assert done.stdout.endswith('two\n"a;\nb"\nthree\n3\n')


def test_piped_stdin_stops_at_the_first_error() -> None:
    done = run("--csv", stdin="SELECT 1 AS one;\n.help\n\nSELECT\n nope;\nSELECT 2 AS two;\n")
    assert done.returncode == 1
    assert "two" not in done.stdout
    assert done.stderr.startswith("<stdin>:4: Binder Error: ")
    assert "Traceback" not in done.stderr


def test_a_file_called_dash_is_stdin() -> None:
    done = run("--csv", "-c", "SELECT 1 AS one", "-f", "-", stdin="SELECT 2 AS two;\nSELECT nope")
    assert (done.returncode, done.stdout) == (1, "one\n1\ntwo\n2\n")
    assert done.stderr.startswith("<stdin>:2: ")


def test_a_pipe_that_nobody_reads_ends_quietly() -> None:
    with subprocess.Popen(
        [*COMMAND, "--csv", "-c", "FROM range(1000000)", "-c", "FROM range(1000000)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"range\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 128 + signal.SIGPIPE


def test_ctrl_c_ends_a_script() -> None:
    with subprocess.Popen(
        [*COMMAND, "--csv", "-c", "SELECT 1 AS started", "-c", f"COPY (SELECT 1 AS begun) TO '/dev/stderr'; {ENDLESS}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=ROOT,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"begun\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 128 + signal.SIGINT
        assert process.stderr.read().startswith(b"1\n\nInterrupted")


def test_ctrl_c_during_a_release_ends_the_demo() -> None:
    with subprocess.Popen(
        [*COMMAND, "demo", "--rows", "5000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while b"CALL mwem_release" not in process.stdout.readline():
            assert process.poll() is None
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 128 + signal.SIGINT
        assert b"Traceback" not in process.stderr.read()


class Terminal:
    """The shell on a pseudo-terminal that is its controlling one, so that a typed Ctrl-C is a signal."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        take = (
            "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", take, *COMMAND, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            cwd=ROOT,
            env={**environment(home), "TERM": "dumb"},
        )
        os.close(slave)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def expect(self, text: str) -> str:
        """Wait for a text; return what came before it."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no {text!r} in {self.seen!r}"
            try:
                chunk = os.read(self.master, 65536)
            except OSError:  # Linux: the other side is closed
                chunk = b""
            assert chunk, f"no {text!r} in {self.seen!r}"
            self.seen += chunk.decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before


@contextlib.contextmanager
def terminal(home: Path, *arguments: str) -> Iterator[Terminal]:
    opened = Terminal(home, *arguments)
    try:
        yield opened
    finally:
        opened.process.kill()
        opened.process.wait()
        os.close(opened.master)


def test_the_shell_on_a_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path, str(tmp_path / "x.duckdb")) as shell:
        assert "DuckDB" in shell.expect(cli.PROMPT)
        shell.type("SELECT 40\n")
        shell.expect(cli.CONTINUATION)
        shell.type("+ 2 AS answer; -- done;\n")
        assert "42 │" in shell.expect(cli.PROMPT)
        shell.type("SELECT nope;\n")
        error = shell.expect(cli.PROMPT)
        assert "Binder Error" in error
        assert "Traceback" not in error
        shell.type("CREATE TABLE kept AS SELECT 7 AS seven;\n")
        assert "OK" in shell.expect(cli.PROMPT)
        shell.type(".tables\n")
        assert "kept" in shell.expect(cli.PROMPT)
        shell.type(".schema kept\n")
        assert "CREATE TABLE kept" in shell.expect(cli.PROMPT)
        shell.type(".nonsense\n")
        assert ".help" in shell.expect(cli.PROMPT)
        shell.type("SELECT 'never run',\n")
        shell.expect(cli.CONTINUATION)
        time.sleep(0.7)  # Python misses a signal between writing the prompt and waiting for a key
        shell.type("\x03")
        assert "Traceback" not in shell.expect(cli.PROMPT)
        shell.type(f"{ENDLESS};\n")
        shell.expect(";")
        time.sleep(1)
        shell.type("\x03")
        stopped = shell.expect(cli.PROMPT)
        assert "Interrupted" in stopped
        assert "Traceback" not in stopped
        shell.type("FROM kept;\n")
        assert "7 │" in shell.expect(cli.PROMPT)
        shell.type("\x04")
        assert shell.process.wait(PATIENCE) == 0
    assert "FROM kept;" in (tmp_path / ".mwem_sql_history").read_text(encoding="utf-8")


def test_quit_leaves_the_shell_and_no_history_file_is_needed() -> None:
    with terminal(Path("/nonexistent")) as shell:
        shell.expect(cli.PROMPT)
        shell.type(".quit\n")
        assert shell.process.wait(PATIENCE) == 0
        with contextlib.suppress(AssertionError):  # reads to the end
            shell.expect("Traceback")
        assert "Error" not in shell.seen


def information(con: duckdb.DuckDBPyConnection, first: str, second: str) -> float:
    """Mutual information of two columns, in nats."""
    rows = con.table("census").aggregate(f"{first}, {second}, count(*)").fetchall()
    total = sum(n for *_, n in rows)
    one: dict[object, int] = {}
    two: dict[object, int] = {}
    for a, b, n in rows:
        one[a] = one.get(a, 0) + n
        two[b] = two.get(b, 0) + n
    return math.fsum(n / total * math.log(n * total / (one[a] * two[b])) for a, b, n in rows)


@pytest.fixture(scope="module")
def census() -> Iterator[duckdb.DuckDBPyConnection]:
    with contextlib.closing(duckdb.connect()) as con:
        con.execute(read_sql("demo.sql"))
        yield con


def test_the_demo_census_has_real_dependence(census: duckdb.DuckDBPyConnection) -> None:
    assert census.table("census").aggregate("count(*)").fetchall() == [(50_000,)]
    # Were two columns independent, 2n times their information would be chi-squared with at most 25 degrees of freedom:
    # 300 (0.003 nats) has a probability below 1e-40.
    for pair in ("education income", "sex occupation", "education occupation", "marital income", "sex marital"):
        assert information(census, *pair.split()) > 0.003, pair


def test_the_demo_census_declares_its_domain_and_uses_all_of_it(census: duckdb.DuckDBPyConnection) -> None:
    constraints = census.execute(
        "SELECT constraint_type, count(*) FROM duckdb_constraints() WHERE table_name = 'census' GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    assert constraints == [("CHECK", 2), ("NOT NULL", 7)]
    columns = census.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'census'"
    ).fetchall()
    for name, kind in columns:
        used = census.table("census").aggregate(f"count(DISTINCT {name})").fetchall()
        assert kind == "INTEGER" or used == [(kind.count("', '") + 1,)], name


def test_the_demo_workload_has_marginals_and_predicates(census: duckdb.DuckDBPyConnection) -> None:
    rows = census.execute("SELECT predicate, group_by FROM workload").fetchall()
    assert all((predicate is None) != (group_by is None) for predicate, group_by in rows)
    assert {len(group_by) for _, group_by in rows if group_by} == {2}
    for predicate in (predicate for predicate, _ in rows if predicate):
        selected = census.table("census").filter(predicate).aggregate("count(*)").fetchall()[0][0]
        assert 500 < selected < 49_500, predicate


def test_the_demo_census_is_the_same_each_time_and_has_as_many_rows_as_asked() -> None:
    prints = []
    for _ in range(2):
        with contextlib.closing(duckdb.connect()) as con:
            con.execute("SET VARIABLE demo_rows = 500")
            con.execute(read_sql("demo.sql"))
            prints.append(
                con.execute(
                    "SELECT count(*), md5(string_agg(c::VARCHAR, ';' ORDER BY c.rowid)) FROM census c"
                ).fetchall()
            )
    assert prints[0] == prints[1]
    assert prints[0][0][0] == 500


def test_the_demo_tells_its_story(tmp_path: Path) -> None:
    path = str(tmp_path / "demo.duckdb")
    done = run("demo", "--rows", "3000", "--epsilon", "2", "--seed", "1", "--database", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "CALL mwem_release('census', workload, 2.0, seed := 1);" in done.stdout
    assert "NOT private" in done.stdout
    assert "made up" in done.stdout
    assert "Doctorate, >50K" in done.stdout
    assert "█" in done.stdout
    assert "rows on\naverage" in done.stdout
    assert "\033" not in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    with contextlib.closing(duckdb.connect(path, read_only=True)) as con:
        (rows,) = con.execute("SELECT count(*) FROM census_synthetic").fetchall()[0]
        assert 2000 < rows < 4000


def test_the_demo_does_not_touch_a_table_that_is_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(tmp_path / "mine.duckdb")
    assert call(capsys, path, "-c", "CREATE TABLE census AS SELECT 42 AS precious")[0] == 0
    code, _, err = call(capsys, "demo", "--database", path)
    assert code == 1
    assert "census" in err
    assert "already exists" in err
    assert call(capsys, path, "--csv", "-c", "FROM census") == (0, "precious\n42\n", "")


def test_the_demo_passes_a_refusal_on(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "demo", "--rows", "10", "--epsilon", "-1")
    assert code == 1
    assert "mwem_release: " in err
    assert "Traceback" not in err
