"""The dialects by name."""

from __future__ import annotations

from mwem_sql.compiler.dialects.dialect import Dialect
from mwem_sql.compiler.dialects.native import Native
from mwem_sql.compiler.dialects.postgresql import PostgreSQL
from mwem_sql.compiler.dialects.spark import Spark

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (Native(), PostgreSQL(), Spark())}


def dialect_of(name: str) -> Dialect:
    return DIALECTS[name]
