"""Settings of a Spark session of our own: those written here, and Spark's default for every other that can be set. Reads no row.

A new session starts with what the application was started with (`--conf`, a server's spark-defaults), which may be anything: how a file is
read, which file is hidden, what a number in a text is. Settings of the user's session are not passed on. What is left of the application's
are static settings, which nobody can change: catalogs, extensions, the Hadoop configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_FALSE, _TRUE = "false", "true"
# Every setting that decides what a file, a row or a constant of ours is. No pushdown: what a file's statistics say decides nothing.
SETTINGS = {
    "spark.sql.ansi.enabled": _FALSE,  # a cast of what cannot be cast is NULL, and fails no scan
    "spark.sql.caseSensitive": _FALSE,
    "spark.sql.session.timeZone": "UTC",  # constants have no zone
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.variable.substitute": _FALSE,  # ${env:HOME} in a text is that text
    "spark.sql.parser.escapedStringLiterals": _FALSE,
    "spark.sql.path.enabled": _FALSE,  # of functions: a name is that of a built-in one
    "spark.sql.readSideCharPadding": _TRUE,
    "spark.sql.files.ignoreCorruptFiles": _FALSE,
    "spark.sql.files.ignoreMissingFiles": _FALSE,
    "spark.sql.files.ignoredPathSegmentRegex": "^[._]",
    "spark.sql.files.archive.reader.enabled": _FALSE,
    "spark.sql.sources.useV1SourceList": "orc,parquet",
    "spark.sql.sources.partitionColumnTypeInference.enabled": _FALSE,
    "spark.sql.sources.validatePartitionColumns": _FALSE,
    "spark.sql.parquet.binaryAsString": _FALSE,
    "spark.sql.parquet.inferTimestampNTZ.enabled": _TRUE,
    "spark.sql.parquet.int96AsTimestamp": _TRUE,
    "spark.sql.parquet.int96TimestampConversion": _FALSE,
    "spark.sql.parquet.respectSummaryFiles": _FALSE,
    "spark.sql.parquet.fieldId.read.enabled": _FALSE,  # a column is known by its name
    "spark.sql.parquet.filterPushdown": _FALSE,
    "spark.sql.parquet.aggregatePushdown": _FALSE,
    "spark.sql.parquet.recordLevelFilter.enabled": _FALSE,
    "spark.sql.orc.impl": "native",
    "spark.sql.orc.filterPushdown": _FALSE,
    "spark.sql.orc.aggregatePushdown": _FALSE,
}
# Every option of a reader of files. `mergeSchema`: every footer is read, and must agree, before anything is charged.
OPTIONS = {
    "mergeSchema": _TRUE,
    "recursiveFileLookup": _FALSE,
    "pathGlobFilter": "*",
    "ignoreCorruptFiles": _FALSE,
    "ignoreMissingFiles": _FALSE,
    "datetimeRebaseMode": "CORRECTED",  # EXCEPTION would fail on an old date
    "int96RebaseMode": "CORRECTED",
    "orc.force.positional.evolution": _FALSE,
}
# Where tables are found, and how work is cut up: none of them changes a row.
_KEPT = (
    "spark.sql.catalog.", "spark.sql.defaultCatalog", "spark.sql.catalogImplementation", "spark.sql.hive.metastore", "spark.sql.artifact.",
    "spark.sql.shuffle.partitions", "spark.sql.adaptive.", "spark.sql.files.maxPartition", "spark.sql.files.minPartition", "spark.sql.files.openCost",
)  # fmt: skip


def settle(session: Any, catalog: str, schema: str) -> None:
    """Give a new session our settings, and the place where a bare name is looked up."""
    given = {name for name in session.conf.getAll if name.startswith("spark.sql.") and not name.startswith(_KEPT)}
    for name in sorted(given - SETTINGS.keys()):
        if session.conf.isModifiable(name):
            session.conf.unset(name)
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    session.catalog.setCurrentCatalog(catalog)
    session.catalog.setCurrentDatabase(schema)


@contextmanager
def active(session: Any) -> Iterator[None]:
    """Let a classic session be the one that is active in this thread: where Spark looks up settings by itself, it asks the active one."""
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
