"""The dialects by name."""

from __future__ import annotations

from mwem_sql.scan.dialects.dialect import Dialect
from mwem_sql.scan.dialects.native import Native
from mwem_sql.scan.dialects.postgresql import PostgreSQL
from mwem_sql.scan.dialects.spark import Spark

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (Native(), PostgreSQL(), Spark())}


def dialect_of(name: str) -> Dialect:
    return DIALECTS[name]
