"""The curator's door to a server that runs: SQL for the private side, through a socket that only its owner can open.

A DuckDB file has one process that writes to it, so that while a server runs nobody else can open it. Whoever may open
the door could read the file before: the door has the file's own owner, and gives nothing more. It is a socket of this
machine's file system, so that nothing comes to it from the network, nor from analysts' SQL, which reaches no file.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import duckdb

from mwem_sql.errors import MwemError, OptionError, refuse

DOOR_BYTES = 2**20
"""Of a text that is sent in. Larger: more memory for one who sends nonsense."""
DOOR_SECONDS = 10.0
"""For the text to come in. Longer: a curator's client that hangs keeps others waiting."""

_log = logging.getLogger("mwem_sql")


def path_of(private: str | Path) -> Path:
    """Where the door to the server of a private file is."""
    return Path(f"{private}.curator")


class Door:
    """One call at a time: a text of SQL in, the rows of its last statement out, values as text."""

    def __init__(
        self, private: str | Path, cursor: Callable[[], duckdb.DuckDBPyConnection], *, most_bytes: int = DOOR_BYTES,
        seconds: float = DOOR_SECONDS,
    ) -> None:  # fmt: skip
        """Open it. `cursor` is of the private side. No other process has its file: a door that is left is nobody's."""
        self._path, self._cursor = path_of(private), cursor
        self._most_bytes, self._seconds = most_bytes, seconds
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(str(self._path))
            self._path.chmod(0o600)  # before it listens: until then nobody can connect
            self._socket.listen()
        except OSError:
            self._socket.close()
            raise
        threading.Thread(target=self._serve, daemon=True, name="mwem_sql door").start()

    @classmethod
    def beside(cls, private: str | Path, cursor: Callable[[], duckdb.DuckDBPyConnection]) -> Door | None:
        """A door where there can be one: not on Windows, for a database in memory, or where the path is too long."""
        if str(private) == ":memory:" or not hasattr(socket, "AF_UNIX"):
            return None
        try:
            return cls(private, cursor)
        except OSError as error:
            _log.warning("server: no door for the curator at %s: %s", path_of(private), error)
            return None

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:  # closed
                return
            with closing(client), suppress(OSError):  # a client that went away
                client.settimeout(self._seconds)
                client.sendall(json.dumps(self._answer(_read(client, self._most_bytes))).encode())

    def _answer(self, text: str) -> dict[str, Any]:
        _log.info("server: the curator calls")
        try:
            con = self._cursor()
            columns, rows = [], []
            for statement in con.extract_statements(text):
                rows = con.execute(statement).fetchall()
                columns = [column[0] for column in con.description or ()]
            return {"columns": columns, "rows": [[None if each is None else str(each) for each in row] for row in rows]}
        except (MwemError, duckdb.Error, UnicodeError) as error:
            return {"error": str(error)}


def ask(private: str | Path, text: str) -> tuple[list[str], list[Sequence[str | None]]]:
    """Columns and rows of SQL that the server of a private file runs on its private side."""
    path = path_of(private)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as con:
            con.connect(str(path))
            con.sendall(text.encode())
            con.shutdown(socket.SHUT_WR)
            answer = json.loads(_read(con))
    except (OSError, ValueError, AttributeError) as error:
        what = f"private ({str(private)!r}) has no server that answers at {path} ({error})"
        hint = "start it, as the user whose file it is; without a server, open the file: mwem-sql"
        raise refuse(OptionError, "mwem-sql curator", what, f"{hint} {private}") from None
    if "error" in answer:
        raise MwemError(answer["error"])
    return answer["columns"], answer["rows"]


def _read(con: socket.socket, most: int | None = None) -> str:
    """All that comes, until the other side has said all."""
    parts, count = [], 0
    while part := con.recv(2**16):
        parts.append(part)
        count += len(part)
        if most is not None and count > most:
            raise OSError("too long")
    return b"".join(parts).decode(errors="replace")
