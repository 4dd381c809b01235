"""Dialects that are compiled and never run here: Snowflake, BigQuery, Trino, ClickHouse and SQL Server.

Their SQL is written to the same rules, and compared with golden files. No such engine was there to run it: nothing attaches one.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from mwem_sql.compiler.dialects.portable import Portable
from mwem_sql.database.ticks import cast


class Snowflake(Portable):
    name = "snowflake"

    def text(self, value: exp.Expr, type_text: str) -> exp.Expr:  # noqa: ARG002
        return exp.Anonymous(this="COLLATE", expressions=[cast(value, "VARCHAR"), exp.Literal.string("utf8")])


class BigQuery(Portable):
    name = "bigquery"

    def text(self, value: exp.Expr, type_text: str) -> exp.Expr:  # noqa: ARG002
        return exp.Anonymous(this="COLLATE", expressions=[cast(value, "VARCHAR"), exp.Literal.string("")])


class Trino(Portable):
    name = "trino"

    def hash(self, texts: Sequence[exp.Expr]) -> exp.Expr:
        bytes_ = exp.Anonymous(this="TO_UTF8", expressions=[super().hash(texts).this])
        return exp.Anonymous(this="TO_HEX", expressions=[exp.Anonymous(this="MD5", expressions=[bytes_])])


class ClickHouse(Portable):
    name = "clickhouse"


class SQLServer(Portable):
    name = "tsql"

    def text(self, value: exp.Expr, type_text: str) -> exp.Expr:  # noqa: ARG002
        return exp.Collate(this=value, expression=exp.var("Latin1_General_100_BIN2_UTF8"))

    def hash(self, texts: Sequence[exp.Expr]) -> exp.Expr:
        return exp.Anonymous(this="HASHBYTES", expressions=[exp.Literal.string("MD5"), super().hash(texts).this])
