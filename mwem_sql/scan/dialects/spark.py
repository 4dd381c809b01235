"""Spark's dialect: trees of comparisons, or a binary search in a constant array; texts under UTF8_BINARY. Runs nothing.

The same text runs with ANSI mode on and off: no cast of a row's value can fail, no index is outside of its array (`get` gives NULL), and sums are of
DECIMAL(38, 0). A TIMESTAMP of Spark's is a TIMESTAMP WITH TIME ZONE here, TIMESTAMP_NTZ a TIMESTAMP.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlglot import exp

from mwem_sql.language.ticks import Scale, Tick, cast, scale_of
from mwem_sql.scan.dialects.portable import Portable

_FEW = 64  # starts up to which comparisons are compiled to Java in one piece


class SparkDialect(Portable):
    name = "spark"

    def text(self, value: exp.Expr, type_text: str) -> exp.Expr:  # noqa: ARG002
        return exp.Collate(this=value, expression=exp.var("UTF8_BINARY"))

    def added(self, counts: exp.Expr) -> exp.Expr:
        """Of DECIMALs: a sum of counts as they are would be merged with the GROUP BY below it, and texts be looked up for every row."""
        return exp.Sum(this=cast(counts, "DECIMAL(38,0)"))

    def constant(self, text: str, type_text: str) -> exp.Expr:
        scale = scale_of(type_text)
        if scale is not None and scale.family == "timestamp":
            return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("TIMESTAMP_NTZ", dialect="spark"))
        if scale is not None and scale.family == "timestamptz":
            text = text if text.endswith("+00:00") else f"{text}:00"  # Spark wants minutes in a zone
            return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("TIMESTAMP_LTZ", dialect="spark"))
        return super().constant(text, type_text)

    def steps(self, value: exp.Expr, scale: Scale, starts: Sequence[Tick], results: Sequence[int]) -> exp.Expr:
        """By a binary search, unrolled over the powers of two below the number of starts."""
        if len(starts) <= _FEW:
            return super().steps(value, scale, starts, results)
        found_by, kind = self._comparable(value, scale)
        texts = [scale.text(tick) if scale.family == "decimal" else json.dumps(tick) for tick in starts[1:]]
        later = _array(texts, kind)
        powers = [2**bit for bit in reversed(range(len(starts).bit_length()))]
        # Names inside a lambda hide columns, so theirs are longer than that of the column in it.
        own = "".join(column.name for column in value.find_all(exp.Column))
        place, step = (exp.column(f"{own}_{name}", quoted=True) for name in ("place", "step"))
        further = exp.Add(this=place, expression=step)
        # The start number p + s is at index p + s - 1; beyond the last it is NULL, and the test is not true.
        index = exp.Sub(this=further.copy(), expression=exp.Literal.number(1))
        test = exp.LTE(this=_get(later, index), expression=found_by)
        body = exp.Case(ifs=[exp.If(this=test, true=further)], default=place.copy())
        lambda_ = exp.Lambda(this=body, expressions=[place.this.copy(), step.this.copy()])
        found: exp.Expr = exp.Anonymous(
            this="aggregate",
            expressions=[
                _array([str(power) for power in powers], "INT"),
                cast(exp.Literal.number(0), "INTEGER"),
                lambda_,
            ],
        )
        if list(results) == list(range(len(results))):
            return found
        return _get(_array([str(result) for result in results], "BIGINT"), found)

    def _comparable(self, value: exp.Expr, scale: Scale) -> tuple[exp.Expr, str]:
        """A value in a type that JSON has: numbers as they are, dates as days and instants as microseconds. No value is beyond it."""
        value = value.copy()
        if scale.family == "date":
            return exp.Anonymous(this="unix_date", expressions=[value]), "INT"
        if scale.family in {"timestamp", "timestamptz"}:
            instant = exp.Cast(this=value, to=exp.DataType.build("TIMESTAMP_LTZ", dialect="spark"))
            return exp.Anonymous(this="unix_micros", expressions=[instant]), "BIGINT"
        if scale.family == "decimal":
            return value, f"DECIMAL({scale.width},{scale.digits})"
        return (value, "DOUBLE") if scale.family == "real" else (cast(value, "BIGINT"), "BIGINT")


def _array(texts: Sequence[str], kind: str) -> exp.Expr:
    """An array of numbers as one constant: Spark folds it before it reads a row."""
    listed = exp.Literal.string("[" + ",".join(texts) + "]")
    return exp.Anonymous(this="from_json", expressions=[listed, exp.Literal.string(f"array<{kind}>")])


def _get(array: exp.Expr, index: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="get", expressions=[array, index])
