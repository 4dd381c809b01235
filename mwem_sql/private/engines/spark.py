"""Spark as an engine: a session of its own beside the user's, classic or through Spark Connect, and one job for each scan.

    relation  a table of the catalog that is kept in Parquet or ORC files, or such files by their path: alias.parquet."/data/people"

A snapshot is a list of files: it is fixed when the snapshot is opened, every scan reads those files, and their sizes and times must be the same at the
end. Spark's catalog declares types only; values and bounds come from a domain table.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from sqlglot import exp

from mwem_sql.boundary.sources import Facts
from mwem_sql.database import calls
from mwem_sql.database.catalog import Column
from mwem_sql.errors import EngineError, TableError, refuse
from mwem_sql.private.engines.protocol import ChangedError

_FORMATS = ("parquet", "orc")
_TYPES = {
    "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "boolean": "BOOLEAN", "string": "VARCHAR", "date": "DATE", "timestamp": "TIMESTAMP WITH TIME ZONE", "timestamp_ntz": "TIMESTAMP",
}  # fmt: skip
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark keeps that a string is a CHAR or VARCHAR
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_TEXT = re.compile(r"varchar\(\d+\)|string collate \w+")
# Constants have no zone of their own; a file that is gone or damaged fails the scan, and does not count as empty.
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC", "spark.sql.files.ignoreCorruptFiles": "false", "spark.sql.files.ignoreMissingFiles": "false",
}  # fmt: skip
_NO_RETRIES = ()  # a client that tries again by itself reads again what was charged once, and waits for ten minutes for a server that is gone
_CURE = 'release a table in Parquet or ORC files, or such files by alias.parquet."/path"'


class FilesSnapshot:
    """A list of files under a temporary view of a session of its own."""

    home = None

    def __init__(self, session: Any) -> None:
        self._session = session
        self._tag = f"mwem-{uuid.uuid4().hex}"
        self._files: list[str] = []

    def describe(self, parts: Sequence[str], function: str) -> Facts:
        """The relation; from here on its name stands for the files that it has now."""
        found = _Relation.of(self._session, parts, function)
        self._files = found.show(self._session)
        return found.facts()

    def run(self, statement: str, rows: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002  Spark makes its own
        self._session.addTag(self._tag)  # of this thread
        try:
            yield from self._session.sql(statement).toArrow().to_batches()
        finally:
            self._session.removeTag(self._tag)

    def state(self) -> object:
        """Sizes and times of the files, from a listing that opens none of them."""
        if not self._files:
            return ()
        listed = self._session.read.format("binaryFile").load(self._files).select("path", "length", "modificationTime")
        found = sorted(tuple(row.values()) for row in listed.toArrow().to_pylist())
        if len(found) != len(self._files):
            raise ChangedError
        return found

    def interrupt(self) -> None:
        with suppress(Exception):  # a session that is gone runs nothing
            self._session.interruptTag(self._tag)


class Spark:
    """A Spark application, by a session of the user's or the address of a Spark Connect server."""

    kind = "spark"
    dialect = "spark"

    def __init__(self, session: Any, shown: str, timeout: float | None, *, is_ours: bool) -> None:
        self._session = session
        self._is_ours = is_ours
        self._is_remote = _is_remote(session)
        self.timeout = timeout
        self.shown = shown
        try:
            self.identity = _identity(session)
            self.schema = str(session.catalog.currentDatabase())
        except Exception:  # noqa: BLE001  of Spark's, py4j's or gRPC's
            raise refuse(
                EngineError,
                "mwem_attach",
                f"source ({shown}) does not answer",
                "is it running, and does spark.sql('SELECT 1') work there?",
            ) from None

    @classmethod
    def of_remote(cls, url: str, timeout: float | None) -> Spark:
        shown = url.partition(";")[0].rstrip("/")
        try:
            from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415  needs what classic Spark does not

            session = SparkSession(url)  # not by a builder, which would make it the caller's default
            session.client.set_retry_policies(_NO_RETRIES)
        except Exception:  # noqa: BLE001  its text may repeat a token
            raise refuse(
                EngineError, "mwem_attach", f"source ({shown}) cannot be reached", "is the Spark Connect server running there?"
            ) from None  # fmt: skip
        return cls(session, shown, timeout, is_ours=True)

    @classmethod
    def of_session(cls, session: Any, timeout: float | None) -> Spark:
        shown = "spark connect" if _is_remote(session) else str(session.conf.get("spark.master", "spark"))
        return cls(session, shown, timeout, is_ours=False)

    def mark(self, parts: Sequence[str], account: str) -> None:
        """Nothing is written: what its rows are known by follows them."""

    def close(self) -> None:
        if self._is_ours:
            with suppress(Exception):
                self._session.stop()

    def describe(self, parts: Sequence[str], function: str) -> Facts:
        try:
            with self._fresh() as session:
                return _Relation.of(session, parts, function).facts()
        except (PySparkException, OSError):
            raise refuse(
                EngineError, function, f"source ({self.shown}) does not answer", "try the same with spark.sql"
            ) from None

    @contextmanager
    def snapshot(self) -> Iterator[FilesSnapshot]:
        with self._fresh() as session:
            snapshot = FilesSnapshot(session)
            calls.track(snapshot)
            yield snapshot

    @contextmanager
    def _fresh(self) -> Iterator[Any]:
        """A session with none of the user's settings, views and functions but ANSI mode, under which the statements are the same."""
        session = self._session.newSession()
        if self._is_remote:
            session.client.set_retry_policies(_NO_RETRIES)
        try:
            for name, value in _SETTINGS.items():
                session.conf.set(name, value)
            session.catalog.setCurrentCatalog(self._session.catalog.currentCatalog())
            session.conf.set("spark.sql.ansi.enabled", self._session.conf.get("spark.sql.ansi.enabled"))
            yield session
        finally:
            if self._is_remote:  # a server keeps what is not given back; a classic session only lives in this process
                with suppress(Exception):
                    session.stop()


class _Relation:
    """What the catalog, or the footers of files, say of a relation."""

    def __init__(self, name: tuple[str, str], kind: str, location: str, frame: Any, identity: str) -> None:
        self._name = name
        self._format = kind
        self._location = location
        self._frame = frame
        self._identity = identity

    @classmethod
    def of(cls, session: Any, parts: Sequence[str], function: str) -> _Relation:
        identity = _identity(session)
        if len(parts) == 2 and parts[0].lower() in _FORMATS and ("/" in parts[1] or "\\" in parts[1]):
            kind, location = parts[0].lower(), parts[1]
            try:
                frame = session.read.format(kind).load(location)
                frame.schema  # noqa: B018  Connect looks only now
            except PySparkException:
                raise refuse(
                    TableError, function, f"files ({location!r}) are not there, or not {kind}", "give a path that Spark can read"
                ) from None  # fmt: skip
            return cls((kind, location), kind, location, frame, identity)
        if len(parts) > 2:
            raise refuse(
                TableError, function, f"table ({'.'.join(parts)}) has too many parts",
                "write alias.schema.table; another catalog is made the session's current one before it is attached",
            )  # fmt: skip
        name = exp.table_(parts[-1], db=parts[0] if len(parts) > 1 else None, quoted=True).sql("spark")
        try:
            rows = {row[0]: row[1] for row in session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()}
        except PySparkException:
            raise refuse(
                TableError, function, f"table ({'.'.join(parts)}) does not exist in the source", "name it as alias.schema.table"
            ) from None  # fmt: skip
        kind = str(rows.get("Provider", "")).lower()
        if rows.get("Type") not in {"MANAGED", "EXTERNAL"} or kind not in _FORMATS or not rows.get("Location"):
            what = f"is of type {rows.get('Type', 'TEMPORARY')}" + (f" in {kind}" if kind else "")
            raise refuse(
                TableError, function, f"table ({'.'.join(parts)}) {what}, whose rows may be computed or change", _CURE
            )
        schema = parts[-2] if len(parts) > 1 else str(session.catalog.currentDatabase())
        return cls((schema, parts[-1]), kind, str(rows["Location"]), session.table(name), identity)

    @property
    def _view(self) -> str:
        """The name of the temporary view: the same in every session."""
        return "__mwem_" + hashlib.sha256("\n".join([self._identity, *self._name]).encode()).hexdigest()[:16]

    def facts(self) -> Facts:
        schema = self._frame.schema
        columns = tuple(
            Column(field.name, kind, field.nullable)
            for field in schema
            if (kind := _type(field.metadata.get(_DECLARED) or field.dataType.simpleString())) is not None
        )
        keys = (("spark", "", _plain(self._location)),), ((self._identity, *self._name),)
        return Facts(
            *self._name, columns, exp.table_(self._view, quoted=True), keys, (), {column.name: column for column in columns},
            (self._format, self._location, schema.json()),
        )  # fmt: skip

    def show(self, session: Any) -> list[str]:
        """Let the view's name stand for the files that there are now; those files."""
        schema = self._frame.schema
        files = sorted(self._frame.inputFiles())
        base = _plain(self._location).rstrip("/")
        if not files:
            rows = session.createDataFrame([], schema)
        elif all(_plain(file).startswith(f"{base}/") for file in files):
            rows = session.read.schema(schema).option("basePath", self._location).format(self._format).load(files)
        elif [_plain(file) for file in files] == [base]:  # one file by its own path
            rows = session.read.schema(schema).format(self._format).load(files)
        else:
            raise ChangedError  # partitions elsewhere: their place is not in their path
        rows.createOrReplaceTempView(self._view)
        return files


def _is_remote(session: Any) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


def _identity(session: Any) -> str:
    return f"spark:{_plain(session.conf.get('spark.sql.warehouse.dir'))}"


def _plain(path: str) -> str:
    """A path in one spelling: Spark writes file:/x, file:///x and /x for the same."""
    return re.sub(r"^file:/+", "/", path)


def _type(text: str) -> str | None:
    """DuckDB's type for one of Spark's; None where there is none with the same values. CHAR(n) is padded, and left out."""
    decimal = _DECIMAL.fullmatch(text)
    if decimal:
        return f"DECIMAL({decimal[1]},{decimal[2]})"
    return "VARCHAR" if _TEXT.fullmatch(text) else _TYPES.get(text)
