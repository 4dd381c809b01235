"""Spark as an engine: a session of its own beside the user's, classic or through Spark Connect, and one job for each scan.

    relation  a table of the catalog that is kept in Parquet or ORC files, or such files by their path: alias.parquet."/data/people"

A snapshot is a list of files: it is fixed when the snapshot is opened, every scan reads those files, and their sizes and times must be the same at the
end. Spark's catalog declares types only; values and bounds come from a domain table.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pyarrow as pa

from mwem_sql.boundary.sources import Facts
from mwem_sql.errors import RELEASE, EngineError, MwemError, refuse
from mwem_sql.platform import calls
from mwem_sql.scan.engines import spark_catalog, spark_settings
from mwem_sql.scan.engines.spark_catalog import Relation
from mwem_sql.scan.engines.spark_files import DataFiles

_NO_RETRIES = ()  # a client that tries again by itself reads again what was charged once, and waits for ten minutes for a server that is gone


class FilesSnapshot:
    """A list of files under a temporary view of a session of its own."""

    home = None

    def __init__(self, session: Any, identity: str) -> None:
        self._session = session
        self._identity = identity
        self._tag = f"mwem-{uuid.uuid4().hex}"
        self._files: DataFiles | None = None

    def describe(self, parts: Sequence[str], function: str) -> Facts:
        """The relation; from here on its name stands for the files that it has now."""
        relation = Relation.of(self._session, parts, function)
        relation.show(self._identity)
        self._files = relation.files
        return relation.facts(self._identity)

    def run(self, statement: str, rows: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002  Spark makes its own
        self._session.addTag(self._tag)  # of this thread
        try:
            yield from self._session.sql(statement).toArrow().to_batches()
        finally:
            self._session.removeTag(self._tag)

    def state(self) -> object:
        return None if self._files is None else self._files.state(self._session)

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
            self.identity = spark_catalog.source_identity(session)
            self.schema = str(session.catalog.currentDatabase())
            self._catalog = str(session.catalog.currentCatalog())
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
        """Let a table carry its account in a property: a rename takes it along."""
        with self._answering(RELEASE), self._fresh() as session:
            spark_catalog.mark(session, parts, account)

    def close(self) -> None:
        if self._is_ours:
            with suppress(Exception):
                self._session.stop()

    def describe(self, parts: Sequence[str], function: str) -> Facts:
        """All that a snapshot does before it scans: what it would refuse is refused here, and free of charge."""
        with self._answering(function), self.snapshot() as snapshot:
            return snapshot.describe(parts, function)

    @contextmanager
    def _answering(self, function: str) -> Iterator[None]:
        """What Spark raises becomes one sentence without its text, which quotes paths."""
        try:
            yield
        except MwemError:
            raise
        except Exception:  # noqa: BLE001  of Spark's, py4j's or gRPC's
            raise refuse(
                EngineError, function, f"source ({self.shown}) does not answer", "try the same with spark.sql"
            ) from None

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
            session.client.set_retry_policies(_NO_RETRIES)
        try:
            with ExitStack() as stack:
                if not self._is_remote:
                    stack.enter_context(spark_settings.active(session))
                spark_settings.settle(session, self._catalog, self.schema)
                yield session
        finally:
            if self._is_remote:  # a server keeps what is not given back; a classic session only lives in this process
                with suppress(Exception):
                    session.stop()


def _is_remote(session: Any) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")
