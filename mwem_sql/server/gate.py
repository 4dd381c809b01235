"""The gate: every statement of an analyst comes through here, and what DuckDB runs is what the gate gives back.

Quack asks twice: once per connection whose token it is, and before each statement what is to run. The gate runs what
computes by itself, on a connection of its own that it can interrupt and that has a ticket for that statement
(`platform/seats.py`), and gives back where the result is; so no client's text needs to be believed about who it is, and
none runs without an end. What only changes tables runs on the client's connection, for its transactions.

Owns sessions and results. Must not read a private row: functions of mwem_sql do, under the user's name.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from mwem_sql.errors import RELEASE, BudgetError, MwemError, OptionError, WorkloadError, refuse
from mwem_sql.platform import catalog, seats
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.seats import Seat
from mwem_sql.platform.session import Session
from mwem_sql.releases import ddl
from mwem_sql.server import published
from mwem_sql.server.limits import ServerLimits, Slots
from mwem_sql.server.owners import Owners
from mwem_sql.server.statements import (
    FILL_END,
    RESULTS,
    SERVER,
    ClientStatement,
    StatementReader,
    created,
    for_curators,
)
from mwem_sql.server.users import User, Users
from mwem_sql.surface.spec import FUNCTIONS

KEEP_SECONDS = 120.0
"""Seconds that a result is kept for its client to begin to fetch it. What is being fetched stays until it is read."""
ASLEEP_SECONDS = 12 * 3600.0
"""Seconds after which a connection without a statement has to be made again."""

_log = logging.getLogger("mwem_sql")


@dataclass(eq=False, kw_only=True)
class Connection:
    """A client's connection, by the id that Quack gave it. `user` is as they logged in."""

    user: User
    used: float = field(default_factory=time.monotonic)
    result: str | None = None


class Gate:
    """All statements of one server."""

    def __init__(
        self,
        *,
        public: Callable[[], duckdb.DuckDBPyConnection],
        inside: Session,
        database: str,
        users: Users,
        limits: ServerLimits,
        private_tables: Callable[[], list[str]],
        active: Callable[[], set[str]],
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        """`active` are the ids of the connections that Quack has."""
        self._keep_seconds = keep_seconds
        self._public, self._inside, self._database = public, inside, database
        self._users, self._limits, self._active = users, limits, active
        self._reader = StatementReader(database)
        self._owners = Owners(public, private_tables, limits.tables_per_user)
        self._releases = Slots(limits.releases_at_once)
        self._statements = Slots(10**6)
        self._of_users: dict[str, Slots] = {}
        self._running: set[duckdb.DuckDBPyConnection] = set()
        self._connections: dict[str, Connection] = {}
        self._results: dict[str, float] = {}
        self._lock = threading.Lock()
        self._is_closed = threading.Event()

    def authenticate(self, connection: str, token: str) -> bool:
        """Whether a token is a user's; their connection is known from here on."""
        user = self._users.with_token(token)
        if user is None or self._is_closed.is_set():
            _log.warning("server: a connection was refused")
            return False
        with self._lock:
            self._forget()
            if sum(each.user.name == user.name for each in self._connections.values()) >= (
                self._limits.connections_per_user
            ):
                _log.warning("server: %s has too many connections", user.name)
                return False
            self._connections[connection] = Connection(user=user)
        return True

    def authorize(self, connection: str, text: str) -> str:
        """The SQL that runs instead of a statement. What is raised here, Quack refuses without a word."""
        with self._lock:
            here = self._connections.get(connection)
        if here is None or self._users.named(here.user.name) != here.user:
            raise PermissionError("no connection of a user")
        here.used = time.monotonic()
        try:
            if self._is_closed.is_set():
                raise refuse(OptionError, SERVER, "the server is being stopped", "ATTACH it again in a while")
            what = f"{self._limits.statements_per_user} statements of yours run already"
            with (
                self._statements.one(PermissionError()),
                self._statements_of(here.user.name).one(refuse(OptionError, SERVER, what, "wait for one to end")),
            ):
                return self._run(here, self._reader.read(text))
        except (MwemError, duckdb.Error) as error:
            if text.endswith(FILL_END):  # rows that come after it would be written whatever is given back
                raise
            return _raising(str(error) if isinstance(error, MwemError) else _cause(error))

    def close(self, seconds: float) -> bool:
        """Take no more statements, and wait for those that run; whether they came to their end."""
        self._is_closed.set()
        is_done = self._statements.wait_until_free(seconds)
        self._reader.close()
        return is_done

    def interrupt(self) -> None:
        """Stop the statements that run. What is charged goes on: a call of ours does not notice."""
        with self._lock:
            for cursor in self._running:
                cursor.interrupt()

    @contextmanager
    def running(self, user: str, function: str, values: Mapping[str, Any], rows: int) -> Iterator[None]:
        """A call of a function of ours, refused where a user may not make it (`platform.seats.Permits`)."""
        _check_call(function, values)
        if rows > self._limits.workload_rows:
            what = (
                f"the workload has {rows:,} rows, more than the {self._limits.workload_rows:,} that this server takes"
            )
            raise refuse(WorkloadError, function, what, "ask in several calls, or group: one row may have many cells")
        place: AbstractContextManager[None] = nullcontext()
        if function == RELEASE:
            what = f"{self._limits.releases_at_once} releases are being made already, so nothing was charged or read"
            place = self._releases.one(refuse(BudgetError, RELEASE, what, "call again in a while"))
        with place, ExitStack() as outputs:
            if function == RELEASE:
                for output, tables in _outputs(values):
                    outputs.enter_context(self._owners.releasing(output, tables, user))
            _log.info("server: %s calls %s", user, function)
            yield
            if function == RELEASE:
                try:  # what is charged and stored is returned, whatever becomes of a view
                    self.publish()
                except (MwemError, duckdb.Error):
                    _log.exception("server: the views of private tables' names could not be made")

    def publish(self) -> None:
        """Let private tables' names answer from their releases."""
        published.refresh(self._public(), self._database)

    def _run(self, here: Connection, statement: ClientStatement) -> str:
        self._drop(here)
        user = here.user.name
        if statement.target is not None:
            if statement.kind in {"columns", "table", "view"}:
                self._owners.claim(statement.target, user)
            else:
                self._owners.check(statement.target, user)
        if statement.kind in {"columns", "transaction"} or (statement.kind == "insert" and not statement.text):
            return statement.text or _nothing()
        if statement.kind == "drop":
            return self._dropped(statement, user)
        cursor = self._public()
        with self._timed(cursor), seats.taken(cursor, Seat(user=user, inside=self._inside, permits=self)):
            try:
                here.result = self._computed(cursor, statement)
            except BaseException:
                if statement.kind in {"table", "view"} and statement.target is not None:
                    self._owners.release(statement.target, user)  # the name, unless there is such a table
                raise
        return exp.select("*").from_(_result(here.result).tree()).sql("duckdb")

    def _dropped(self, statement: ClientStatement, user: str) -> str:
        """A table is dropped at once, so that its name is free: on a connection of ours."""
        cursor = self._public()
        with self._timed(cursor):
            cursor.execute(statement.text)
        assert statement.target is not None
        self._owners.release(statement.target, user)
        return _nothing()

    def _computed(self, cursor: duckdb.DuckDBPyConnection, statement: ClientStatement) -> str:
        """Run a statement, and keep its result; the name of the table that it is in."""
        name = f"r_{secrets.token_hex(16)}"
        with self._lock:
            self._results[name] = time.monotonic()
        target = _result(name).quoted()
        if statement.kind == "query":
            cursor.execute(created("TABLE", target, statement.text))
            return name
        text = statement.text
        if statement.kind in {"table", "view"}:
            assert statement.target is not None
            made = exp.table_(statement.target, db="main", quoted=True).sql("duckdb")
            text = created(statement.kind.upper(), made, statement.text, replaces=statement.replaces)
        rows = cursor.execute(text).fetchall()
        names = [column[0] for column in cursor.description or ()]
        table = pa.table(
            {each: [None if row[k] is None else str(row[k]) for row in rows] for k, each in enumerate(names)}
            if statement.kind in {"show", "explain"}
            else {"Count": [int(row[0]) for row in rows]}
        )
        cursor.register("__mwem_rows", table)
        select = exp.select("*").from_(exp.table_("__mwem_rows"))
        cursor.execute(exp.Create(this=_result(name).tree(), kind="TABLE", expression=select).sql("duckdb"))
        return name

    @contextmanager
    def _timed(self, cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """A statement that is interrupted when it takes too long."""
        is_late = threading.Event()

        def stop() -> None:
            is_late.set()
            cursor.interrupt()

        timer = threading.Timer(self._limits.statement_seconds, stop)
        timer.daemon = True
        timer.start()
        with self._lock:
            self._running.add(cursor)
        try:
            yield
        except duckdb.Error:
            if not is_late.is_set():
                raise
            what = f"the statement took more than {self._limits.statement_seconds:g} seconds, and was stopped"
            hint = "ask for less; a release that it made is stored, and the same CALL returns it at no cost"
            raise refuse(OptionError, SERVER, what, hint) from None
        finally:
            with self._lock:
                self._running.discard(cursor)
            timer.cancel()

    def _statements_of(self, user: str) -> Slots:
        with self._lock:
            return self._of_users.setdefault(user, Slots(self._limits.statements_per_user))

    def _drop(self, here: Connection) -> None:
        """The last result of a connection, and those that nobody fetched. Who reads one keeps reading it."""
        late = time.monotonic() - self._keep_seconds
        with self._lock:
            names = {name for name, moment in self._results.items() if moment < late}
            if here.result in self._results:
                names.add(here.result)
            for name in names:
                del self._results[name]
            here.result = None
        cursor = self._public()
        for name in names:
            cursor.execute(ddl.drop(_result(name)))

    def _forget(self) -> None:
        """Connections that Quack has no more, or that slept too long. To be called with the lock."""
        active, late = self._active(), time.monotonic() - ASLEEP_SECONDS
        fresh = time.monotonic() - 60
        for name, each in list(self._connections.items()):
            if each.used < late or (name not in active and each.used < fresh):
                del self._connections[name]


def _check_call(function: str, values: Mapping[str, Any]) -> None:
    """Refuse what is the curator's alone: whole functions, and some arguments of others."""
    declared = FUNCTIONS[function]
    if declared.is_curators:
        raise for_curators(function)
    given = {**values, **values.get("options", {})}
    for parameter in declared.signature:
        if parameter.is_curators and given.get(parameter.name) is not None:
            what = f"{parameter.name} ({given[parameter.name]!r}) is the curator's alone, and is not taken from users"
            raise refuse(OptionError, function, what, "leave it out")


def _outputs(values: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """The outputs that a release is to write, each with the tables that it may be named after."""
    named = values.get("options", {}).get("output")
    private = values["private_table"]
    names = private if isinstance(private, list) else [private]
    tables = [catalog.split_name(each)[-1] for each in names if isinstance(each, str) and each]
    if named is None:
        yield from ((exp.to_identifier(f"{table}_synthetic", quoted=True).sql("duckdb"), [table]) for table in tables)
    elif isinstance(named, str) and named:
        yield named, tables


def _cause(error: duckdb.Error) -> str:
    """What DuckDB says of a user's own statement, which reads nothing but what is published."""
    return str(error).strip() or type(error).__name__


def _result(name: str) -> Name:
    return Name(RESULTS, "main", name)


def _nothing() -> str:
    return exp.select(exp.alias_(exp.true(), "Success")).sql("duckdb")


def _raising(sentence: str) -> str:
    return exp.select(exp.Anonymous(this="error", expressions=[exp.Literal.string(sentence)])).sql("duckdb")
