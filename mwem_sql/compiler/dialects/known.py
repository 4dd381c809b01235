"""The dialects by name: those that are run, and those that are compiled and not run."""

from __future__ import annotations

from mwem_sql.compiler.dialects.compiled import BigQuery, ClickHouse, Snowflake, SQLServer, Trino
from mwem_sql.compiler.dialects.dialect import Dialect
from mwem_sql.compiler.dialects.native import Native
from mwem_sql.compiler.dialects.postgresql import PostgreSQL
from mwem_sql.compiler.dialects.spark import Spark

_ALL = (Native(), PostgreSQL(), Spark(), Snowflake(), BigQuery(), Trino(), ClickHouse(), SQLServer())
RUN = ("duckdb", "postgres", "spark")
"""The dialects of engines that are run."""
DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in _ALL}


def dialect_of(name: str) -> Dialect:
    return DIALECTS[name]
