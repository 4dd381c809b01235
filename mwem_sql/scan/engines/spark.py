"""Spark as an engine: a session beside the user's, classic or through Spark Connect, and one job for each scan.

A snapshot is a list of files: it is fixed when the snapshot is opened, every scan reads those files, and their sizes
and times must be the same at the end. Spark's catalog declares types only; values and bounds come from a domain table.

Our sessions have the settings of `SETTINGS`, and Spark's default for every other that can be set. A new session starts
with what the application was started with (`--conf`, a server's spark-defaults), which may be anything: how a file is
read, which file is hidden, what a number in a text is. Settings of the user's session are not passed on. What is left
of the application's are static settings, which nobody can change: catalogs, extensions, the Hadoop configuration.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import pyarrow as pa

from mwem_sql.boundary.sources import Facts, Linked, Mark
from mwem_sql.errors import RELEASE, EngineError, MwemError, refuse, spoken_by
from mwem_sql.platform import calls
from mwem_sql.scan.engines import spark_catalog
from mwem_sql.scan.engines.spark_catalog import SparkRelation
from mwem_sql.scan.engines.spark_files import DataFiles

SETTINGS = {
    "spark.sql.ansi.enabled": "false",  # a cast of what cannot be cast is NULL, and fails no scan
    "spark.sql.caseSensitive": "false",
    "spark.sql.session.timeZone": "UTC",  # constants have no zone
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.variable.substitute": "false",  # ${env:HOME} in a text is that text
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.path.enabled": "false",  # of functions: a name is that of a built-in one
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoredPathSegmentRegex": "^[._]",
    "spark.sql.files.archive.reader.enabled": "false",
    "spark.sql.sources.useV1SourceList": "orc,parquet",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.sources.validatePartitionColumns": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.respectSummaryFiles": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",  # a column is identified by its name
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.aggregatePushdown": "false",
    "spark.sql.parquet.recordLevelFilter.enabled": "false",
    "spark.sql.orc.impl": "native",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.orc.aggregatePushdown": "false",
}
"""Every setting that decides what a file, a row or a constant of ours is.

No pushdown: what a file's statistics say decides nothing.
"""
_NEUTRAL = (
    "spark.sql.catalog.", "spark.sql.defaultCatalog", "spark.sql.catalogImplementation", "spark.sql.hive.metastore",
    "spark.sql.artifact.", "spark.sql.shuffle.partitions", "spark.sql.adaptive.", "spark.sql.files.maxPartition",
    "spark.sql.files.minPartition", "spark.sql.files.openCost",
)  # fmt: skip
"""Where tables are looked up, and how work is divided: none of these settings changes a row."""


class FilesSnapshot:
    """Lists of files under temporary views of a new session."""

    home = None

    def __init__(self, session: Any, identity: str) -> None:
        self._session = session
        self._identity = identity
        self._tag = f"mwem-{uuid.uuid4().hex}"
        self._files: list[DataFiles] = []

    def describe(self, parts: Sequence[str], function: str) -> Facts:
        """The relation; from here on its name stands for the files that it has now."""
        with spoken_by(function):
            self._files = []
            return self._shown(parts)

    def describe_all(self, names: Sequence[Sequence[str]], function: str) -> Linked:
        """Several tables. Spark keeps no keys: `mwem_keys` declares them."""
        with spoken_by(function):
            self._files = []
            return Linked(facts=tuple(map(self._shown, names)))

    def _shown(self, parts: Sequence[str]) -> Facts:
        relation = SparkRelation.of(self._session, parts)
        relation.show(self._identity)
        self._files.append(relation.files)
        return relation.facts(self._identity)

    def run(self, statement: str, rows: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002  Spark chooses
        self._session.addTag(self._tag)  # of this thread
        try:
            yield from self._session.sql(statement).toArrow().to_batches()
        finally:
            self._session.removeTag(self._tag)

    def state(self) -> object:
        return [files.state(self._session) for files in self._files]

    def interrupt(self) -> None:
        with suppress(Exception):  # a session that is gone runs nothing
            self._session.interruptTag(self._tag)


class Spark:
    """A Spark application, by a session of the user's or the address of a Spark Connect server."""

    kind = "spark"
    dialect = "spark"
    keeps_keys = False

    def __init__(self, session: Any, shown: str, timeout: float | None, *, is_ours: bool) -> None:
        self._session = session
        self._is_ours = is_ours
        self._is_remote = _is_remote(session)
        self.timeout = timeout
        self.shown = shown
        try:
            self.identity = spark_catalog.source_identity(session)
            self.schema = str(session.catalog.currentDatabase())
            self._catalog = str(session.catalog.currentCatalog())
        except Exception:  # noqa: BLE001  of Spark's, py4j's or gRPC's
            cure = "is it running, and does spark.sql('SELECT 1') work there?"
            raise refuse(EngineError, "mwem_attach", f"source ({shown}) does not answer", cure) from None

    @classmethod
    def of_remote(cls, url: str, timeout: float | None) -> Spark:
        shown = url.partition(";")[0].rstrip("/")
        try:
            from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415  needs what classic Spark does not

            session = SparkSession(url)  # not by a builder, which would make it the caller's default
            _never_retry(session)
        except Exception:  # noqa: BLE001  its text may repeat a token
            cure = "is the Spark Connect server running there?"
            raise refuse(EngineError, "mwem_attach", f"source ({shown}) cannot be reached", cure) from None
        return cls(session, shown, timeout, is_ours=True)

    @classmethod
    def of_session(cls, session: Any, timeout: float | None) -> Spark:
        shown = "spark connect" if _is_remote(session) else str(session.conf.get("spark.master", "spark"))
        return cls(session, shown, timeout, is_ours=False)

    def mark(self, parts: Sequence[str], mark: Mark, value: str) -> None:
        """Let a table carry a mark in a property: a rename takes it along."""
        with self._answering(RELEASE), self._fresh() as session:
            spark_catalog.mark(session, parts, mark, value)

    def close(self) -> None:
        if self._is_ours:
            with suppress(Exception):
                self._session.stop()

    def describe(self, parts: Sequence[str], function: str) -> Facts:
        """All that a snapshot does before it scans: what it would refuse is refused here, and free of charge."""
        with self._answering(function), self.snapshot() as snapshot:
            return snapshot.describe(parts, function)

    def describe_all(self, names: Sequence[Sequence[str]], function: str) -> Linked:
        with self._answering(function), self.snapshot() as snapshot:
            return snapshot.describe_all(names, function)

    @contextmanager
    def _answering(self, function: str) -> Iterator[None]:
        """What Spark raises becomes one sentence without its text, which quotes paths."""
        try:
            yield
        except MwemError:
            raise
        except Exception:  # noqa: BLE001  of Spark's, py4j's or gRPC's
            what = f"source ({self.shown}) does not answer"
            raise refuse(EngineError, function, what, "try the same with spark.sql") from None

    @contextmanager
    def snapshot(self) -> Iterator[FilesSnapshot]:
        with self._fresh() as session:
            snapshot = FilesSnapshot(session, self.identity)
            calls.track(snapshot)
            yield snapshot

    @contextmanager
    def _fresh(self) -> Iterator[Any]:
        """A session with none of the user's settings, views, variables and functions."""
        session = self._session.newSession()
        if self._is_remote:
            _never_retry(session)
        try:
            with nullcontext() if self._is_remote else active(session):
                settle(session, self._catalog, self.schema)
                yield session
        finally:
            if self._is_remote:  # a server keeps what is not given back; a classic session only lives in this process
                with suppress(Exception):
                    session.stop()


def _is_remote(session: Any) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


def _never_retry(session: Any) -> None:
    """A client that retries by itself reads twice what was charged once, and waits ten minutes for a lost server."""
    session.client.set_retry_policies(())


def settle(session: Any, catalog: str, schema: str) -> None:
    """Give a new session our settings, and the catalog and schema of a bare name."""
    for name in sorted(session.conf.getAll.keys() - SETTINGS.keys()):
        is_neutral = not name.startswith("spark.sql.") or name.startswith(_NEUTRAL)
        if not is_neutral and session.conf.isModifiable(name):
            session.conf.unset(name)
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    session.catalog.setCurrentCatalog(catalog)
    session.catalog.setCurrentDatabase(schema)


@contextmanager
def active(session: Any) -> Iterator[None]:
    """Let a classic session be the active one of this thread: Spark looks up some settings there by itself."""
    holder = session._jvm.org.apache.spark.sql.classic.SparkSession  # noqa: SLF001  PySpark has no word for it
    before = holder.getActiveSession()
    holder.setActiveSession(session._jsparkSession)  # noqa: SLF001
    try:
        yield
    finally:
        if before.isDefined():
            holder.setActiveSession(before.get())
        else:
            holder.clearActiveSession()
