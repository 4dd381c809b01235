"""Ordered column types as numbers: integers, decimals, dates and timestamps count ticks, DOUBLE and FLOAT are themselves.

A tick is the type's smallest step (1, 0.01, a day, a microsecond), so that every bounded domain of such a type
is a range of int64 and "the value before" has one meaning. Values enter and leave as DuckDB expressions or Arrow.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

Tick = int | float

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  a tick of TIMESTAMP has no zone


@dataclass(frozen=True)
class Scale:
    """How one ordered type counts. `family` is integer, decimal, date, timestamp, timestamptz or real."""

    type: str
    family: str
    digits: int = 0

    @property
    def discrete(self) -> bool:
        return self.family != "real"

    def before(self, tick: Tick) -> Tick:
        return tick - 1 if self.discrete else self._neighbour(tick, -math.inf)

    def after(self, tick: Tick) -> Tick:
        return tick + 1 if self.discrete else self._neighbour(tick, math.inf)

    def _neighbour(self, tick: Tick, towards: float) -> float:
        if self.type == "FLOAT":
            return float(np.nextafter(np.float32(tick), np.float32(towards)))
        return math.nextafter(tick, towards)

    def text(self, tick: Tick) -> str:
        """The tick as a literal that DuckDB casts to the type."""
        if self.family == "decimal":
            return format(Decimal(int(tick)).scaleb(-self.digits), "f")
        if self.family == "date":
            return (date(1970, 1, 1) + timedelta(days=int(tick))).isoformat()
        if self.family == "timestamp":
            return (_EPOCH + timedelta(microseconds=int(tick))).isoformat(sep=" ")
        if self.family == "timestamptz":
            return (_EPOCH + timedelta(microseconds=int(tick))).isoformat(sep=" ") + "+00"
        return repr(tick)

    def literal(self, tick: Tick) -> exp.Expr:
        """The tick as a typed SQL constant."""
        return cast(exp.Literal.string(self.text(tick)), self.type)

    def measure(self, value: exp.Expr) -> exp.Expr:
        """SQL for the tick of a value of this type; NULL gives NULL."""
        if self.family == "integer":
            return cast(value, "BIGINT")
        if self.family == "decimal":
            digits = exp.Anonymous(
                this="replace", expressions=[cast(value, "VARCHAR"), exp.Literal.string("."), exp.Literal.string("")]
            )
            return cast(digits, "BIGINT")
        if self.family == "date":
            return cast(exp.Sub(this=value, expression=cast(exp.Literal.string("1970-01-01"), "DATE")), "BIGINT")
        if self.family == "real":
            return cast(value, "DOUBLE")
        return exp.Anonymous(this="epoch_us", expressions=[value])

    def arrow(self, ticks: npt.NDArray[Any]) -> pa.Array:
        """Values of this type from their ticks, without a Python loop."""
        if self.family == "real":
            return pa.array(np.asarray(ticks, dtype=np.float64))
        whole = np.asarray(ticks, dtype=np.int64)
        if self.family == "decimal":
            pairs = np.stack([whole, whole >> 63], axis=1)  # int128, little endian
            return pa.Array.from_buffers(pa.decimal128(38, self.digits), len(whole), [None, pa.py_buffer(pairs.tobytes())])
        if self.family == "date":
            return pa.array(whole.astype(np.int32)).cast(pa.date32())
        if self.family == "timestamp":
            return pa.array(whole).cast(pa.timestamp("us"))
        if self.family == "timestamptz":
            return pa.array(whole).cast(pa.timestamp("us", "UTC"))
        return pa.array(whole)


def scale_of(type_text: str) -> Scale | None:
    """The scale of a DuckDB type as its catalog prints it; None where values have no ticks."""
    name = type_text.upper()
    if name in _INTEGERS:
        return Scale(name, "integer")
    if name == "TIMESTAMP":
        return Scale(name, "timestamp")
    if name == "TIMESTAMP WITH TIME ZONE":
        return Scale(name, "timestamptz")
    if name == "DATE":
        return Scale(name, "date")
    if name in {"DOUBLE", "FLOAT"}:
        return Scale(name, "real")
    decimal = re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", name)
    return Scale(name, "decimal", int(decimal[2])) if decimal else None


def cast(value: exp.Expr, type_text: str) -> exp.Cast:
    """`CAST(value AS type)` for a type as DuckDB's catalog prints it, ENUM values verbatim."""
    return exp.Cast(this=value, to=exp.DataType.build(type_text, dialect="duckdb"))
