"""A server: two DuckDB instances in one process, of which Quack serves the public one.

The private instance has the rows, what the curator declares of them, sources and the ledger; nothing connects the two
but functions of mwem_sql (`platform/seats.py`). The public one has releases and analysts' tables; its configuration is
locked, and nothing outside of it can be reached.
Owns the life of both: opening, locking, reloading, stopping. Must not read a statement.
"""

from __future__ import annotations

import logging
import re
import secrets
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import exp

from mwem_sql.errors import OptionError, literal, refuse
from mwem_sql.language import dialect
from mwem_sql.platform import catalog, seats
from mwem_sql.platform.metadata import SCHEMA
from mwem_sql.platform.sandbox import set_statement
from mwem_sql.platform.session import Session, cursors, instance
from mwem_sql.server.door import Door
from mwem_sql.server.gate import Gate
from mwem_sql.server.limits import ServerLimits
from mwem_sql.server.memory import Watch
from mwem_sql.server.statements import DEPTH, RESULTS
from mwem_sql.server.users import Users
from mwem_sql.surface.register import register

EXTENSIONS = ("httpfs", "quack")
LISTEN = "quack:localhost:9494"
_AUTHENTICATE, _AUTHORIZE = "_mwem_authenticate", "_mwem_authorize"
ATTACH_HIDDEN = "ATTACH ':memory:' AS {} (HIDDEN)"
"""How a database is attached that no list of databases or tables shows."""
_LOCKED = {
    "autoload_known_extensions": False, "autoinstall_known_extensions": False, "enable_external_access": False,
    "lock_configuration": True,
}  # fmt: skip

_log = logging.getLogger("mwem_sql")


class Server:
    """A server that runs. `private` and `public` are connections of the curator's, in this process, to both sides."""

    def __init__(
        self, private: duckdb.DuckDBPyConnection, public: duckdb.DuckDBPyConnection, gate: Gate, users: Users,
        *, listen: str, setup: str, limits: ServerLimits,
    ) -> None:  # fmt: skip
        self.private, self.public, self.listen = private, public, listen
        self._gate, self._users, self._setup, self._limits = gate, users, setup, limits
        self._memory = Watch(_bytes(limits.process_memory), gate.interrupt)
        self._is_stopped = False
        self._door: Door | None = None

    @property
    def users(self) -> list[str]:
        return self._users.names

    def reload(self, setup: str | None = None) -> None:
        """Read the users file again and run the setup, or another one, again.

        Who was removed is refused from the next statement on.
        """
        self._users.reload()
        self._setup = self._setup if setup is None else setup
        self._set_up()
        self._gate.publish()

    def stop(self) -> bool:
        """Take no more statements, let those that run come to their end, and close; whether all of them did."""
        if self._is_stopped:
            return True
        self._is_stopped = True
        is_done = self._gate.close(self._limits.grace_seconds)
        self._memory.close()
        if self._door is not None:
            self._door.close()
        with suppress(duckdb.Error):
            self.public.cursor().execute("CALL quack_stop(?)", [self.listen])
        for con in (self.public, self.private):
            with suppress(duckdb.Error):
                con.cursor().execute("CHECKPOINT")
            con.close()
        return is_done

    def __enter__(self) -> Server:  # noqa: PYI034  Self is not in Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _set_up(self) -> None:
        for statement in self.private.extract_statements(self._setup) if self._setup else ():
            self.private.execute(statement).fetchall()


def serve(
    private: str | Path, public: str | Path, users: str | Path, *, listen: str = LISTEN, setup: str = "",
    limits: ServerLimits | None = None, allow_other_hosts: bool = False, **more: Any,
) -> Server:  # fmt: skip
    """Serve releases of a private database's tables to users with tokens, over DuckDB's protocol Quack.

    `private` and `public` are DuckDB files; `setup` is SQL that runs on the private side, at the start and at each
    reload: caps, sources. `limits` are a `ServerLimits`, or its fields as keywords. Only this machine can connect
    unless `allow_other_hosts`: others come through a proxy that speaks TLS.
    """
    limits = limits or ServerLimits(**more)
    if Path(private).resolve() == Path(public).resolve():
        what = f"public ({str(public)!r}) is the private file itself"
        raise refuse(OptionError, "serve", what, "name another file: it is made if it is not there")
    file = Users.of(users)
    inner = register(duckdb.connect(str(private)))
    try:
        outer = _public(public, limits)
    except BaseException:
        inner.close()
        raise
    try:
        inside, key = replace(Session.of(inner), fresh=cursors(inner)), instance(outer)
        public_cursors = cursors(outer.cursor())  # calls make theirs of the other
        assert key is not None
        gate = Gate(
            public=public_cursors, inside=inside, database=Session.of(outer).place.database, users=file, limits=limits,
            private_tables=lambda: _tables(inside), active=lambda: _active(public_cursors()),
        )  # fmt: skip
        seats.serve(key)
        _define(outer, gate)
        server = Server(inner, outer, gate, file, listen=listen, setup=setup, limits=limits)
        server._set_up()  # noqa: SLF001
        gate.publish()
        outer.execute(
            "CALL quack_serve(?, token := ?, allow_other_hostname := ?)",
            [listen, secrets.token_urlsafe(32), allow_other_hosts],
        ).fetchall()
        for name, value in _LOCKED.items():
            outer.execute(set_statement(name, value))
    except BaseException:
        outer.close()
        inner.close()
        raise
    server._door = Door.beside(private, inside.fresh)  # noqa: SLF001
    _log.info("server: %s serves %s", listen, public)
    return server


def _public(path: str | Path, limits: ServerLimits) -> duckdb.DuckDBPyConnection:
    """The public instance, with Quack, and with a hidden place for results."""
    # Replacements are a setting of each connection: one that is given here is that of all.
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": limits.memory, "threads": limits.threads, "python_enable_replacements": "false",
    }  # fmt: skip
    con = duckdb.connect(str(path), config=config)
    try:
        for extension in EXTENSIONS:
            load(con, extension)
        con.execute("SET temp_directory = ''")
        con.execute(set_statement("max_expression_depth", DEPTH).replace("SET ", "SET GLOBAL ", 1))
        con.execute(ATTACH_HIDDEN.format(dialect.quoted(RESULTS)))
        return register(con)
    except BaseException:
        con.close()
        raise


def load(con: duckdb.DuckDBPyConnection, extension: str) -> None:
    """Load an extension: the one of a package from PyPI if there is one, else the one that DuckDB installed."""
    try:
        folder = Path(next(iter(import_module(f"duckdb_extension_{extension}").__path__)))
        files = sorted(folder.rglob(f"{extension}.duckdb_extension"))
    except ImportError:
        files = []
    try:
        con.execute(exp.Command(this="LOAD", expression=literal(str(files[0])) if files else extension).sql("duckdb"))
    except duckdb.Error as error:
        what = f"DuckDB {duckdb.__version__} cannot load its extension {extension} ({str(error).splitlines()[0]})"
        hint = f"INSTALL {extension} in DuckDB, or pip install duckdb-extension-{extension}=={duckdb.__version__}"
        raise refuse(OptionError, "serve", what, hint) from None


def _define(con: duckdb.DuckDBPyConnection, gate: Gate) -> None:
    """Let Quack ask the gate."""
    text, boolean = con.type("VARCHAR"), con.type("BOOLEAN")

    def authenticate(connection: str, token: str, _: str) -> bool:
        return gate.authenticate(connection, token)

    con.create_function(_AUTHENTICATE, authenticate, [text] * 3, boolean, side_effects=True)
    con.create_function(_AUTHORIZE, gate.authorize, [text] * 2, text, side_effects=True)
    for setting, function in (("authentication", _AUTHENTICATE), ("authorization", _AUTHORIZE)):
        con.execute(set_statement(f"quack_{setting}_function", function).replace("SET ", "SET GLOBAL ", 1))


def _bytes(text: str) -> int:
    """A size as DuckDB writes it: 2GB."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if match is None:
        what = f"process_memory ({text!r}) must be a size"
        raise refuse(OptionError, "mwem-sql serve", what, "write it as DuckDB does: 8GB")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def _active(public: duckdb.DuckDBPyConnection) -> set[str]:
    rows = public.execute("SELECT connection_id FROM quack_active_connections()").fetchall()
    return {row[0] for row in rows}


def _tables(inside: Session) -> list[str]:
    """The names of private tables and views."""
    return [name.table for name, _ in catalog.relations(inside.cursor()).values() if name.schema != SCHEMA]
