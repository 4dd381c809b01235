"""A real server in a process of its own, with markers in all that must not come out, and real clients of it.

Each private table, and each file beside them, has a marker of its own; whatever comes back to a client or is written is
searched for them. Where DuckDB has no extension quack there is no server: `MISSING` says so.
"""

from __future__ import annotations

import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from mwem_sql.errors import MwemError
from mwem_sql.server.serve import EXTENSIONS, load
from mwem_sql.server.users import Users

MARKER = re.compile(r"(?i)canary\w*|7700077[0-9]{3}")
"""What must not come out: texts, and numbers that no statement makes."""
OTHER = "canary_bert"
"""Another user: who they are must not come out either."""

PRIVATE = """
    CREATE TABLE census (
        age INTEGER CHECK (age BETWEEN 0 AND 99), sex ENUM ('F', 'M') NOT NULL, city VARCHAR,
        note VARCHAR, salary BIGINT
    );
    INSERT INTO census SELECT i % 100, ['F', 'M'][1 + i % 2], ['Bonn', 'Kiel', 'Ulm'][1 + i % 3],
        'CANARY_census_' || i, 7700077000 + i % 1000 FROM range(3000) t(i);
    CREATE TABLE census_domain AS SELECT 'city' AS attribute, ['Bonn', 'Kiel', 'Ulm'] AS "values";
    CREATE TABLE secret (age INTEGER CHECK (age BETWEEN 0 AND 99), note VARCHAR);
    INSERT INTO secret SELECT i % 100, 'CANARY_secret_' || i FROM range(100) t(i);
    CREATE TABLE vault AS SELECT 'CANARY_vault' AS note, 7700077999 AS salary;
    CREATE VIEW seen AS SELECT age, note FROM secret"""
SETUP = "CALL mwem_budget('census', {cap}); CALL mwem_budget('census', {cap}, user := 'canary_bert');"


def missing() -> str:
    """Why there can be no server; an empty text if there can."""
    try:
        with connected():
            return ""
    except MwemError as error:
        return str(error)


@contextmanager
def connected(**settings: Any) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB of a client's."""
    with duckdb.connect(":memory:", config={"threads": 1, **settings}) as con:
        for extension in EXTENSIONS:
            load(con, extension)
        yield con


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


@dataclass
class Client:
    """A DuckDB that has attached the server."""

    con: duckdb.DuckDBPyConnection
    seen: list[str] = field(default_factory=list)

    def run(self, text: str) -> list[Any]:
        """The rows of a statement that the server is to run."""
        return self.here("FROM curator.query(?)", [text])

    def here(self, text: str, values: Sequence[object] = ()) -> list[Any]:
        """The rows of a statement of the client's own DuckDB. All that comes back is kept in `seen`."""
        try:
            done = self.con.execute(text, values)
            names, rows = [column[0] for column in done.description or ()], done.fetchall()
        except duckdb.Error as error:
            self.seen.append(str(error))
            raise
        self.seen.append(repr((names, rows)))
        return rows

    def one(self, text: str) -> dict[str, Any]:
        done = self.con.execute("FROM curator.query(?)", [text])
        names = [column[0] for column in done.description or ()]
        (row,) = done.fetchall()
        return dict(zip(names, row, strict=True))


class World:
    """A folder with a server's files, and the process that serves them."""

    def __init__(self, folder: Path, *, users: Iterable[str] = ("anna", OTHER), cap: float = 3.0) -> None:
        self.folder = folder
        self.private = folder / "CANARY_private" / "census.duckdb"
        self.public = folder / "published" / "published.duckdb"
        self.outside = folder / "outside"
        for each in (self.private.parent, self.public.parent, self.outside):
            each.mkdir(parents=True)
        self.users = Users(folder / "users.toml")
        self.tokens = {name: self.users.add(name) for name in users}
        self.setup = folder / "setup.sql"
        self.setup.write_text(SETUP.format(cap=cap))
        self.witness = OTHER if OTHER in self.tokens else next(iter(self.tokens))
        self.port = free_port()
        self.log = folder / "server.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._make()

    @property
    def uri(self) -> str:
        return f"quack:localhost:{self.port}"

    def _make(self) -> None:
        with duckdb.connect(str(self.private)) as con:
            con.execute(PRIVATE)
        with duckdb.connect(":memory:") as con:
            con.execute("CREATE TABLE t AS SELECT 'CANARY_file' AS note, 7700077998 AS salary")
            for kind in ("csv", "json", "parquet"):
                con.execute(f"COPY t TO '{self.outside / f'out.{kind}'}'")
            con.execute(f"ATTACH '{self.outside / 'out.duckdb'}' AS o; CREATE TABLE o.t AS FROM t; DETACH o")
        (self.outside / "out.txt").write_text("CANARY_text\n")

    def start(self, **limits: object) -> World:
        """Start to serve, and wait until it does."""
        options = [f"--{name.replace('_', '-')}={value}" for name, value in limits.items()]
        command = [
            sys.executable, "-m", "mwem_sql.cli", "serve", "--private", self.private, "--public", self.public,
            "--users", self.users.path, "--listen", self.uri, "--setup", self.setup, *options,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            [*map(str, command)], cwd=self.folder, stdout=subprocess.PIPE, stderr=self.log.open("ab"),
            env={"CANARY_VARIABLE": "CANARY_environment", "PATH": "/usr/bin:/bin", "HOME": str(self.folder)},
        )  # fmt: skip
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(b"serving"):
                break
        else:
            raise RuntimeError(self.log.read_text())
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        return self

    def stop(self, seconds: float = 60) -> int:
        """Let it end; its code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        finally:
            self.process.kill()

    def is_up(self) -> bool:
        """Whether it answers a new client."""
        assert self.process is not None
        with self.client(self.witness) as other:
            return self.process.poll() is None and other.run("SELECT 42") == [(42,)]

    @contextmanager
    def client(self, user: str, token: str | None = None, uri: str | None = None) -> Iterator[Client]:
        with connected() as con:
            self.attach(con, token or self.tokens[user], uri)
            yield Client(con)

    def attach(self, con: duckdb.DuckDBPyConnection, token: str, uri: str | None = None) -> None:
        con.execute(f"ATTACH '{uri or self.uri}' AS curator (TYPE quack, TOKEN '{token}')")

    def files(self) -> set[str]:
        """All that is on disk but what the server writes by itself."""
        paths = (str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())
        return {each for each in paths if not each.endswith((".wal", "server.log"))}

    def ledger(self) -> list[Any]:
        """The debits, once the server has ended."""
        with duckdb.connect(str(self.private), read_only=True) as con:
            return con.execute("SELECT user_name, output, epsilon FROM mwem.ledger ORDER BY ALL").fetchall()

    def memory(self) -> int:
        """Bytes of the server's that are in memory."""
        assert self.process is not None
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * 4096


@contextmanager
def served(
    folder: Path, *, users: Iterable[str] = ("anna", OTHER), cap: float = 3.0, **limits: object
) -> Iterator[World]:
    world = World(folder, users=users, cap=cap).start(**limits)
    try:
        yield world
    finally:
        with suppress(subprocess.TimeoutExpired):
            world.stop()


def leaks(text: str) -> list[str]:
    """The markers in a text."""
    return sorted(set(MARKER.findall(text)))


def forged(token: str) -> str:
    """A token that nobody gave out, of the form of one."""
    return f"{token.partition('.')[0]}.{secrets.token_urlsafe(32)}"
