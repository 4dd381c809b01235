"""Spark's dialect: trees of comparisons, or a binary search in a constant array; texts under UTF8_BINARY. Runs nothing.

The same text runs with ANSI mode on and off: no cast of a row's value can fail, no index is outside of its array (`get`
gives NULL), and sums are of DECIMAL(38, 0). Spark's TIMESTAMP is a TIMESTAMP WITH TIME ZONE here, TIMESTAMP_NTZ a
TIMESTAMP.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlglot import exp

from mwem_sql.language.ticks import Scale, Tick, cast, scale_of
from mwem_sql.scan.dialects.dialect import Dialect


class SparkDialect(Dialect):
    name = "spark"

    def text(self, value: exp.Expr, type_text: str) -> exp.Expr:  # noqa: ARG002
        return exp.Collate(this=value, expression=exp.var("UTF8_BINARY"))

    def added(self, counts: exp.Expr) -> exp.Expr:
        """Of DECIMALs: Spark would merge a sum of BIGINTs with the GROUP BY below, and look texts up for every row."""
        return exp.Sum(this=cast(counts, "DECIMAL(38,0)"))

    def constant(self, text: str, type_text: str) -> exp.Expr:
        scale = scale_of(type_text)
        if scale is not None and scale.family == "timestamp":
            return _spark_cast(exp.Literal.string(text), "TIMESTAMP_NTZ")
        if scale is not None and scale.family == "timestamptz":
            text = text if text.endswith("+00:00") else f"{text}:00"  # Spark wants minutes in a zone
            return _spark_cast(exp.Literal.string(text), "TIMESTAMP_LTZ")
        return super().constant(text, type_text)

    def steps(self, value: exp.Expr, scale: Scale, starts: Sequence[Tick], results: Sequence[int]) -> exp.Expr:
        """By a binary search, unrolled over the powers of two below the number of starts."""
        if len(starts) <= 64:  # comparisons are compiled to Java in one piece
            return super().steps(value, scale, starts, results)
        key, kind = _comparable(value, scale)
        texts = [scale.text(tick) if scale.family == "decimal" else json.dumps(tick) for tick in starts[1:]]
        later = _array(texts, kind)
        powers = [2**bit for bit in reversed(range(len(starts).bit_length()))]
        # Names inside a lambda hide columns, so theirs are longer than that of the column in it. Spark takes one with a
        # dot for a field, even in quotes.
        prefix = "".join(column.name for column in value.find_all(exp.Column)).replace(".", "_")
        rank, step = (exp.column(f"{prefix}_{name}", quoted=True) for name in ("place", "step"))
        further = exp.Add(this=rank, expression=step)
        # The start number p + s is at index p + s - 1; beyond the last it is NULL, and the test is not true.
        index = exp.Sub(this=further.copy(), expression=exp.Literal.number(1))
        test = exp.LTE(this=_get(later, index), expression=key)
        body = exp.Case(ifs=[exp.If(this=test, true=further)], default=rank.copy())
        lambda_ = exp.Lambda(this=body, expressions=[rank.this.copy(), step.this.copy()])
        start = cast(exp.Literal.number(0), "INTEGER")
        steps = _array([str(power) for power in powers], "INT")
        result = exp.Anonymous(this="aggregate", expressions=[steps, start, lambda_])
        if list(results) == list(range(len(results))):
            return result
        return _get(_array([str(result) for result in results], "BIGINT"), result)


def _comparable(value: exp.Expr, scale: Scale) -> tuple[exp.Expr, str]:
    """A value in a type that JSON has, and that type: dates as days, instants as microseconds. It has all values."""
    value = value.copy()
    if scale.family == "date":
        return exp.Anonymous(this="unix_date", expressions=[value]), "INT"
    if scale.family in {"timestamp", "timestamptz"}:
        return exp.Anonymous(this="unix_micros", expressions=[_spark_cast(value, "TIMESTAMP_LTZ")]), "BIGINT"
    if scale.family == "decimal":
        return value, f"DECIMAL({scale.width},{scale.digits})"
    return (value, "DOUBLE") if scale.family == "real" else (cast(value, "BIGINT"), "BIGINT")


def _spark_cast(value: exp.Expr, type_text: str) -> exp.Cast:
    """A cast to a type that DuckDB has under another name."""
    return exp.Cast(this=value, to=exp.DataType.build(type_text, dialect="spark"))


def _array(texts: Sequence[str], kind: str) -> exp.Expr:
    """An array of numbers as one constant: Spark folds it before it reads a row."""
    listed = exp.Literal.string("[" + ",".join(texts) + "]")
    return exp.Anonymous(this="from_json", expressions=[listed, exp.Literal.string(f"array<{kind}>")])


def _get(array: exp.Expr, index: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="get", expressions=[array, index])
