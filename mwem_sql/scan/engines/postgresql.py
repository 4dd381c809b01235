"""PostgreSQL as an engine, through ADBC: one REPEATABLE READ READ ONLY transaction for all scans of a call.

Lock, then look: a name is looked up in one transaction; the transaction that reads begins with LOCK TABLE,
which takes no snapshot, so that the definition that is checked and the rows that are read are those under the lock.
When all is read, the transaction must have locks on nothing else: a child or partition that was added meanwhile, or a
schema under another's name, shows there.

A role that may SELECT is enough. What a relation is, is said by `postgresql_catalog.py`; here are connections and
nothing else. The URI of a source, and with it a password, stays inside the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import adbc_driver_manager
import pyarrow as pa
from adbc_driver_postgresql import dbapi
from sqlglot import exp

from mwem_sql.boundary.sources import Facts, Linked, Mark
from mwem_sql.errors import EngineError, TableError, refuse, spoken_by
from mwem_sql.platform import calls
from mwem_sql.scan.engines.postgresql_catalog import Catalog, CatalogRow
from mwem_sql.scan.engines.postgresql_keys import linked

_SERVER = """
    SELECT system_identifier::text AS server, d.oid::bigint AS database, d.datname::text AS name,
        pg_encoding_to_char(d.encoding)::text AS encoding, coalesce(host(inet_server_addr()), 'local')::text AS address,
        current_setting('port')::text AS port
    FROM pg_control_system(), pg_database AS d WHERE d.datname = current_database()"""
# Relations of users that this transaction has locked: what it plans to read or has read, whatever the snapshot says.
# Not indexes.
_LOCKED = """
    SELECT DISTINCT relation::bigint AS oid FROM pg_locks
    WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation >= 16384
        AND pg_get_indexdef(relation) IS NULL"""
_SETTINGS = {
    "search_path": "pg_catalog, pg_temp",  # names mean PostgreSQL's functions and types; a temporary type comes last
    "row_security": "off",  # a policy that would hide rows is an error instead
    "constraint_exclusion": "off",  # a constant part of a constraint would be computed, perhaps by a user's function
    "TimeZone": "'UTC'",
    "DateStyle": "'ISO, YMD'",
    "standard_conforming_strings": "on",
    "idle_in_transaction_session_timeout": "0",
    # PostgreSQL has no statistics of codes: it would expect as many groups as rows, sort them, and compile.
    "enable_sort": "off",
    # To spare a sort it would then compare all rows of two tables, in a loop; every join of ours has equations.
    "enable_nestloop": "off",
    "jit": "off",
}


class TransactionSnapshot:
    """One transaction over one relation, or over several that were named at once, on a new connection."""

    home = None

    def __init__(self, connection: Any, identity: str, timeout: float | None) -> None:
        self._cursor = connection.cursor()
        self._identity = identity
        self._timeout = timeout
        self._is_open = False
        self._relations: list[CatalogRow] = []

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Rows of the catalog."""
        self.begin()
        self._cursor.execute(statement, tuple(parameters) or None)
        return self._cursor.fetch_arrow_table().to_pylist()  # type: ignore[no-any-return]

    def begin(self) -> None:
        """Begin the transaction, unless it has begun. None of these statements takes its snapshot."""
        if self._is_open:
            return
        self._cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._is_open = True
        for name, value in _SETTINGS.items():
            self._cursor.execute(f"SET LOCAL {name} = {value}")
        if self._timeout is not None:
            self._cursor.execute(f"SET LOCAL statement_timeout = {max(1, round(self._timeout * 1000))}")

    def describe(self, parts: Sequence[str], function: str) -> Facts:
        """The relation, locked against DDL until the transaction ends: what is described is what is read."""
        with spoken_by(function):
            catalog = Catalog(self.rows, self._identity)
            (relation,) = self._named(catalog, [parts])
            return catalog.facts(relation, self.locked)

    def describe_all(self, names: Sequence[Sequence[str]], function: str) -> Linked:
        """Several relations, all locked before the snapshot is taken, and the keys that the snapshot has."""
        with spoken_by(function):
            catalog = Catalog(self.rows, self._identity)
            facts = tuple(catalog.facts(relation, self.locked) for relation in self._named(catalog, names))
            return linked(self.rows, self._identity, facts)

    def _named(self, catalog: Catalog, names: Sequence[Sequence[str]]) -> list[CatalogRow]:
        """The relations under some names, locked."""
        relations = [catalog.find(parts) for parts in names]
        before = [(relation["schema"], relation["name"]) for relation in self._relations]
        if not before:
            self._lock(relations)
        elif before != [(relation["schema"], relation["name"]) for relation in relations]:
            raise ValueError("a snapshot is of certain relations: others would be locked after the snapshot was taken")
        return relations

    def _lock(self, relations: list[CatalogRow]) -> None:
        """End the transaction in which names were looked up, and begin the one that reads, with the locks.

        SELECT is right enough for that.
        """
        self._cursor.execute("ROLLBACK")
        self._is_open = False
        self.begin()
        tables = [exp.table_(relation["name"], db=relation["schema"], quoted=True) for relation in relations]
        listed = ", ".join(table.sql("postgres") for table in tables)
        self._cursor.execute(f"LOCK TABLE {listed} IN ACCESS SHARE MODE")
        self._relations = relations

    def locked(self) -> set[int]:
        """The numbers of the relations that the transaction has locked."""
        return {row["oid"] for row in self.rows(_LOCKED)}

    def run(self, statement: str, rows: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002  batches are of some bytes
        self.begin()
        self._cursor.execute(statement)
        yield from self._cursor.fetch_record_batch()

    def state(self) -> object:
        """What the transaction reads. A lock on something else: a name, child or partition is no longer the same."""
        return self.locked()

    def interrupt(self) -> None:
        with suppress(adbc_driver_manager.Error):
            self._cursor.adbc_cancel()


class PostgreSQL:
    """A database of a PostgreSQL server. Every use opens a connection."""

    kind = "postgresql"
    keeps_keys = True
    dialect = "postgres"
    schema = "public"

    def __init__(self, connection: Any, host: str | None, timeout: float | None) -> None:
        self._connection = connection
        self.timeout = timeout
        self.identity = ""
        try:
            with self.snapshot() as snapshot:
                (server,) = snapshot.rows(_SERVER)
        except adbc_driver_manager.Error:
            cure = "the role needs EXECUTE on pg_control_system(), which every role has unless it was taken away"
            raise refuse(EngineError, "mwem_attach", "source (postgresql) does not tell what it is", cure) from None
        if server["encoding"] != "UTF8":
            what = f"source (postgresql) has the encoding {server['encoding']}"
            rule = "in which texts have another order of bytes"
            raise refuse(TableError, "mwem_attach", f"{what}, {rule}", "only databases in UTF8 can be attached")
        self.identity = f"postgresql:{server['server']}/{server['database']}"
        self.shown = f"postgresql://{host or server['address']}:{server['port']}/{server['name']}"

    @classmethod
    def of_uri(cls, uri: str, timeout: float | None) -> PostgreSQL:
        try:
            host = urlsplit(uri).hostname
            connection = dbapi.connect(uri, autocommit=True)
        except (adbc_driver_manager.Error, ValueError):
            # The driver's text may repeat the URI, and with it a password.
            what = "source (postgresql) cannot be reached, or refused the role"
            cure = "try the same with psql; a password comes from PGPASSWORD, PGPASSFILE or mwem_sql.attach in Python"
            raise refuse(EngineError, "mwem_attach", what, cure) from None
        return cls(connection, host, timeout)

    @classmethod
    def of_connection(cls, connection: Any, timeout: float | None) -> PostgreSQL:
        """Of a connection that the caller has opened, and goes on using: ours are clones of it."""
        if "postgres" not in str(connection.adbc_get_info().get("vendor_name", "")).lower():
            what = "source (an ADBC connection) is not one to PostgreSQL"
            raise refuse(TableError, "mwem_attach", what, "use adbc_driver_postgresql")
        return cls(connection.adbc_clone(), None, timeout)

    def mark(self, parts: Sequence[str], mark: Mark, value: str) -> None:
        """Nothing is written: the numbers of tables follow their rows."""

    def close(self) -> None:
        self._connection.close()

    def describe(self, parts: Sequence[str], function: str) -> Facts:
        with self._catalog_snapshot(function) as snapshot:
            return snapshot.describe(parts, function)

    def describe_all(self, names: Sequence[Sequence[str]], function: str) -> Linked:
        with self._catalog_snapshot(function) as snapshot:
            return snapshot.describe_all(names, function)

    @contextmanager
    def _catalog_snapshot(self, function: str) -> Iterator[TransactionSnapshot]:
        """A snapshot whose catalog is asked; a refusal where the server does not answer."""
        try:
            with self.snapshot() as snapshot:
                yield snapshot
        except adbc_driver_manager.Error:
            what = f"source ({self.shown}) does not answer, or the table is locked"
            raise refuse(EngineError, function, what, "try the same with psql and the same role") from None

    @contextmanager
    def snapshot(self) -> Iterator[TransactionSnapshot]:
        """Left in any way, the connection is closed, and the server ends the transaction."""
        connection = self._connection.adbc_clone()
        try:
            connection.adbc_connection.set_autocommit(True)
            snapshot = TransactionSnapshot(connection, self.identity, self.timeout)
            calls.track(snapshot)
            yield snapshot
        finally:
            with suppress(adbc_driver_manager.Error):
                connection.close()
