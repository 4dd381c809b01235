"""The dialects by name: each writes the same scans for one engine."""

from __future__ import annotations

from mwem_sql.scan.dialects.dialect import Dialect
from mwem_sql.scan.dialects.duckdb import DUCKDB
from mwem_sql.scan.dialects.postgresql import PostgreSQLDialect
from mwem_sql.scan.dialects.spark import SparkDialect

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (DUCKDB, PostgreSQLDialect(), SparkDialect())}
