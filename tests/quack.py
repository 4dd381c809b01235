"""A real server and real clients: `mwem-sql serve` and DuckDB's command line, of an environment that has Quack.

The tests' own DuckDB need not have it. MWEM_SQL_QUACK names the folder with an environment's commands, so that it is
made once; else it is made anew.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from environments import ROOT, environment, run

VERSION = "1.5.5"
PACKAGES = [
    f"{name}=={VERSION}" for name in ("duckdb", "duckdb-cli", "duckdb-extension-quack", "duckdb-extension-httpfs")
]
TIMEOUT = 120.0


def commands(folder: Path) -> Path:
    """The folder with `mwem-sql`, `python` and `duckdb` of an environment that has Quack."""
    named = os.environ.get("MWEM_SQL_QUACK")
    return Path(named) if named else environment(folder / "quack", ROOT, *PACKAGES).parent


def free_port() -> int:
    with socket.socket() as con:
        con.bind(("127.0.0.1", 0))
        return int(con.getsockname()[1])


class RefusedError(Exception):
    """What a client reads on stderr."""


@dataclass
class Served:
    """A server's process and its folder. `lines` are what it printed, in order."""

    bin: Path
    folder: Path
    options: Sequence[str] = ()
    port: int = field(default_factory=free_port)
    tokens: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        extensions = "import duckdb_extension_httpfs as h, duckdb_extension_quack as q; print(*h.__path__, *q.__path__)"
        folders = run(self.bin / "python", "-c", extensions).split()
        files = [next(Path(folder).rglob("*.duckdb_extension")) for folder in folders]
        self._load = "".join(f"LOAD '{file}'; " for file in files)
        self._changed = threading.Condition()

    def sql(self, file: str, *statements: str) -> str:
        """Statements on a file of the folder, in a process of its own; what they print as JSON."""
        arguments = [each for statement in statements for each in ("-c", statement)]
        return run(self.bin / "mwem-sql", self.folder / file, "--json", *arguments, cwd=self.folder)

    def user(self, name: str) -> str:
        self.tokens[name] = run(self.bin / "mwem-sql", "user", "add", name, cwd=self.folder).split()[0]
        return self.tokens[name]

    def curator(self, *arguments: str) -> list[dict[str, Any]]:
        """The rows of what the curator says while it runs, values as text."""
        lines = run(self.bin / "mwem-sql", "curator", "private.duckdb", *arguments, cwd=self.folder)
        return [json.loads(line) for line in lines.splitlines()]

    def start(self) -> None:
        command = [
            self.bin / "mwem-sql", "serve", "--private", "private.duckdb", "--public", "published.duckdb", "--setup",
            "setup.sql", "--listen", f"quack:localhost:{self.port}", *self.options,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            list(map(str, command)), cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.lines.clear()
        threading.Thread(target=self._read, daemon=True).start()
        self.wait_for("An analyst pastes")

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as printed:
            for line in printed:
                with self._changed:
                    self.lines.append(line.rstrip())
                    self._changed.notify_all()
        with self._changed:
            self.lines.append("(ended)")
            self._changed.notify_all()

    def wait_for(self, text: str, after: int = 0) -> None:
        """Until a line with a text was printed; an error if the process ends without."""
        with self._changed:
            is_there = self._changed.wait_for(
                lambda: any(text in line for line in self.lines[after:]) or "(ended)" in self.lines, TIMEOUT
            )
        assert is_there and any(text in line for line in self.lines[after:]), "\n".join(self.lines)

    def reload(self) -> None:
        before = len(self.lines)
        self.process.send_signal(signal.SIGHUP)
        self.wait_for("read again", before)

    def stop(self) -> int:
        """Stop it as systemd does; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT)

    def client(self, user: str, *, token: str | None = None) -> list[str]:
        """The command of a client that is attached; the SQL that it runs comes last."""
        attach = f"ATTACH 'quack:localhost:{self.port}' AS curator (TYPE quack, TOKEN '{token or self.tokens[user]}'); "
        return [str(self.bin / "duckdb"), "-json", "-cmd", self._load + attach, "-c"]

    def ask(self, user: str, sql: str, *, token: str | None = None) -> list[dict[str, Any]]:
        """The rows of a statement of a client of its own; a RefusedError has what it read."""
        done = subprocess.run(
            [*self.client(user, token=token), sql], capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        if done.returncode or done.stderr.strip():
            raise RefusedError(done.stderr)
        return json.loads(done.stdout) if done.stdout.strip() else []

    def query(self, user: str, sql: str) -> list[dict[str, Any]]:
        """The rows of a statement that runs on the server as it is."""
        text = sql.replace("'", "''")
        return self.ask(user, f"FROM curator.query('{text}')")
