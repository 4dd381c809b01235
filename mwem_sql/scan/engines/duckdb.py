"""DuckDB as an engine: the instance of the caller, and a file that is opened as another instance."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import duckdb
import pyarrow as pa

from mwem_sql.boundary import relations
from mwem_sql.boundary.files import keys_of
from mwem_sql.boundary.sources import Facts, Linked, Mark
from mwem_sql.errors import BudgetError, TableError, literal, refuse, spoken_by
from mwem_sql.language.dialect import quoted
from mwem_sql.platform import calls
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.metadata import holders
from mwem_sql.scan.engines.protocol import RowEngine, refuse_several

# A private file is opened with nothing but itself: no other file, no extension, no setting that a view could depend on.
_ISOLATED: dict[str, str | bool | int | float | list[str]] = {
    "access_mode": "READ_ONLY",
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "lock_configuration": "true",
}


class InstanceSnapshot:
    """One transaction of a DuckDB connection."""

    def __init__(self, con: duckdb.DuckDBPyConnection, engine: DuckDBFile | None = None) -> None:
        self.home = con if engine is None else None
        self._con = con
        self._engine = engine

    def describe(self, parts: Sequence[str], function: str) -> Facts:
        assert self._engine is not None
        return self._engine.facts(self._con, parts, function)

    def describe_all(self, names: Sequence[Sequence[str]], function: str) -> Linked:
        assert self._engine is not None
        return self._engine.describe_all(names, function)

    def run(self, statement: str, rows: int) -> Iterator[pa.RecordBatch]:
        """The result in batches: neither DuckDB nor Python holds all of it."""
        relation = self._con.sql(statement)
        # DuckDB 1.4 has the older name only, and later ones warn of it.
        reader = relation.to_arrow_reader if hasattr(relation, "to_arrow_reader") else relation.fetch_record_batch
        yield from reader(rows)

    def state(self) -> object:
        return None

    def interrupt(self) -> None:
        self._con.interrupt()


@contextmanager
def transaction(con: duckdb.DuckDBPyConnection, engine: DuckDBFile | None = None) -> Iterator[InstanceSnapshot]:
    con.execute("BEGIN TRANSACTION")
    try:
        yield InstanceSnapshot(con, engine)
    finally:
        con.execute("ROLLBACK")


class SameInstance:
    """The instance that the caller is connected to: a connection of it is all that is needed."""

    timeout: float | None = None

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con

    @contextmanager
    def snapshot(self) -> Iterator[InstanceSnapshot]:
        with transaction(self._con) as snapshot:
            yield snapshot


class DuckDBFile:
    """A DuckDB file as another instance: read-only, without external access, with nothing of the caller's instance."""

    kind = "duckdb"
    keeps_keys = True
    dialect = "duckdb"
    schema = "main"

    def __init__(self, path: str | Path, timeout: float | None = None) -> None:
        self.path = os.path.realpath(path)
        self.identity = self.shown = self.path
        self.timeout = timeout
        if not Path(self.path).is_file():
            what = f"source ({str(path)!r}) is not a file"
            raise refuse(TableError, "mwem_attach", what, "give the path of a DuckDB file")
        try:
            self._con = duckdb.connect(self.path, read_only=True, config=_ISOLATED)
        except duckdb.Error:
            what = f"source ({str(path)!r}) cannot be opened as a DuckDB file of its own"
            cure = "DETACH it or close other connections to it first"
            rule = "a file is opened once, and its tables are then named without mwem_attach"
            raise refuse(TableError, "mwem_attach", what, f"{cure}: {rule}") from None

    def mark(self, parts: Sequence[str], mark: Mark, value: str) -> None:
        """Nothing is written: the file is the identity of its rows."""

    def close(self) -> None:
        self._con.close()

    def describe(self, parts: Sequence[str], function: str) -> Facts:
        return self.facts(self._con.cursor(), parts, function)

    def describe_all(self, names: Sequence[Sequence[str]], function: str) -> Linked:  # noqa: ARG002
        with spoken_by(function):
            raise refuse_several(self.shown)

    def facts(self, con: duckdb.DuckDBPyConnection, parts: Sequence[str], function: str) -> Facts:
        """What DuckDB's rules say of a relation, read in the file's instance. All its tables are one account.

        The file is not written to: no table can be marked, and a name inside it may mean another table tomorrow. For
        the same reason a file that has a ledger is refused: what was spent and capped there could neither be kept nor
        added to.
        """
        text = ".".join(map(quoted, parts))
        relation = relations.describe(con, text, Place.of(con), function)
        if relation.charged.database in holders(con, "journal"):
            file = f"a file ({self.path!r}) that has a ledger of its own, and is opened to be read only"
            cure = "ATTACH the file writable and release it there, so that the release can be debited in it"
            raise refuse(BudgetError, function, f"table ({relation.charged.table!r}) is in {file}", cure)
        if relation.joined:
            what = f"view ({relation.name.table!r}) joins, in a file that is opened by itself, without what keys need"
            raise refuse(TableError, function, what, f"detach it, and ATTACH {literal(self.path)}")
        return Facts(
            schema=relation.name.schema,
            table=relation.name.table,
            columns=relation.columns,
            rows=relation.tree(),
            keys=(keys_of(self.path),),
            checks=relation.checks,
            declared=relation.declared,
            definition=relation.below,
        )

    @contextmanager
    def snapshot(self) -> Iterator[InstanceSnapshot]:
        with transaction(calls.track(self._con.cursor()), self) as snapshot:
            yield snapshot


def as_engine(rows: RowEngine | duckdb.DuckDBPyConnection) -> RowEngine | SameInstance:
    """An engine as it is; a connection as the instance that it belongs to."""
    return cast(RowEngine, rows) if hasattr(rows, "snapshot") else SameInstance(rows)
