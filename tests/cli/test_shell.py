"""Options, exit codes, pipes, Ctrl-C, and the shell on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
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
from command import COMMAND, ENDLESS, PATIENCE, ROOT, call, environment

from mwem_sql.cli.shell import CONTINUATION, PROMPT


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


def test_a_command_with_a_slip_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unrecognized arguments: x.csv; did you mean 'suggest'?" in call(capsys, "sugest", "x.csv")[2]


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


@pytest.mark.thorough
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


class Terminal:
    """The shell on a pseudo-terminal that is its controlling one, so that a typed Ctrl-C is a signal."""

    def __init__(self, home: Path, *arguments: str, kind: str = "dumb") -> None:
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
            env={**environment(home), "TERM": kind, "PROMPT_TOOLKIT_NO_CPR": "1"},
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
def terminal(home: Path, *arguments: str, kind: str = "dumb") -> Iterator[Terminal]:
    opened = Terminal(home, *arguments, kind=kind)
    try:
        yield opened
    finally:
        opened.process.kill()
        opened.process.wait()
        os.close(opened.master)


def test_the_shell_on_a_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path, str(tmp_path / "x.duckdb")) as shell:
        assert "DuckDB" in shell.expect(PROMPT)
        shell.type("SELECT 40\n")
        shell.expect(CONTINUATION)
        shell.type("+ 2 AS answer; -- done;\n")
        assert "42 │" in shell.expect(PROMPT)
        shell.type("SELECT nope;\n")
        error = shell.expect(PROMPT)
        assert "Binder Error" in error
        assert "Traceback" not in error
        shell.type("CREATE TABLE kept AS SELECT 7 AS seven;\n")
        assert "OK" in shell.expect(PROMPT)
        shell.type(".tables\n")
        assert "kept" in shell.expect(PROMPT)
        shell.type(".schema kept\n")
        assert "CREATE TABLE kept" in shell.expect(PROMPT)
        shell.type(".nonsense\n")
        assert ".help" in shell.expect(PROMPT)
        shell.type("SELECT 'never run',\n")
        shell.expect(CONTINUATION)
        time.sleep(0.7)  # Python misses a signal between writing the prompt and waiting for a key
        shell.type("\x03")
        assert "Traceback" not in shell.expect(PROMPT)
        shell.type(f"{ENDLESS};\n")
        shell.expect(";")
        time.sleep(1)
        shell.type("\x03")
        stopped = shell.expect(PROMPT)
        assert "Interrupted" in stopped
        assert "Traceback" not in stopped
        shell.type("FROM kept;\n")
        assert "7 │" in shell.expect(PROMPT)
        shell.type("\x04")
        assert shell.process.wait(PATIENCE) == 0


def test_the_line_editor_on_a_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path, kind="xterm-256color") as shell:
        shell.expect(PROMPT.strip())
        shell.type("SELECT 40\r+ 2 AS answer;\r")
        shell.expect("42 │")
        shell.expect(PROMPT.strip())
        shell.type("SELECT nope;\r")
        shell.expect("\x1b[1;31mBinder Error:\x1b[0m")
        shell.expect(PROMPT.strip())
        shell.type("\x03\x04")
        assert shell.process.wait(PATIENCE) == 0
    assert "+SELECT 40\n++ 2 AS answer;" in (tmp_path / ".mwem_sql_history").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_quit_leaves_the_shell_and_no_history_file_is_needed() -> None:
    with terminal(Path("/nonexistent")) as shell:
        shell.expect(PROMPT)
        shell.type(".quit\n")
        assert shell.process.wait(PATIENCE) == 0
        with contextlib.suppress(AssertionError):  # reads to the end
            shell.expect("Traceback")
        assert "Error" not in shell.seen
