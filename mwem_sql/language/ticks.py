"""Ordered column types as numbers: integers, decimals, dates and timestamps count ticks; DOUBLE and FLOAT do not.

A tick is the type's smallest step (1, 0.01, a day, a microsecond), so that every bounded domain of such a type
is a range of int64 and "the value before" has one meaning. Values enter and leave as DuckDB expressions or Arrow.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

Tick = int | float

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_INTEGERS = {**_BITS, **{f"U{name}": bits for name, bits in _BITS.items()}}
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  a tick of TIMESTAMP has no zone
MICROSECOND = timedelta(microseconds=1)
_MOST = 2**62 - 1  # the difference of two ticks is an int64 too


@dataclass(frozen=True)
class Scale:
    """How one ordered type counts. `family` is integer, decimal, date, timestamp, timestamptz or real.

    `width` and `digits` are those of a decimal: all digits, and those behind the point.
    """

    type: str
    family: str
    width: int = 0
    digits: int = 0

    @property
    def discrete(self) -> bool:
        return self.family != "real"

    @cached_property
    def limits(self) -> tuple[Tick, Tick]:
        """The least and the greatest bound that a domain of this type can have."""
        if self.family == "integer":
            bits = _INTEGERS[self.type]
            low, high = (0, 2**bits - 1) if self.type.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            return max(low, -_MOST), min(high, _MOST)
        if self.family == "decimal":
            most = min(10**self.width - 1, _MOST)
            return -most, most
        if self.family == "date":
            return (date.min - EPOCH.date()).days, (date.max - EPOCH.date()).days
        if self.family == "real":
            most = float(np.finfo(np.float32 if self.type == "FLOAT" else np.float64).max / 2)
            return -most, most
        return (datetime.min - EPOCH) // MICROSECOND, (datetime.max - EPOCH) // MICROSECOND  # noqa: DTZ901

    def before(self, tick: Tick) -> Tick:
        return tick - 1 if self.discrete else self._neighbour(tick, -math.inf)

    def after(self, tick: Tick) -> Tick:
        return tick + 1 if self.discrete else self._neighbour(tick, math.inf)

    def _neighbour(self, tick: Tick, towards: float) -> float:
        if self.type == "FLOAT":
            return float(np.nextafter(np.float32(tick), np.float32(towards)))
        return math.nextafter(tick, towards)

    def nearest(self, ticks: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Real numbers as the type holds them: FLOAT has fewer digits."""
        return ticks.astype(np.float32).astype(np.float64) if self.type == "FLOAT" else ticks

    def text(self, tick: Tick) -> str:
        """The tick as a literal that DuckDB casts to the type."""
        if self.family == "decimal":
            return format(Decimal(int(tick)).scaleb(-self.digits), "f")
        if self.family == "date":
            return (EPOCH.date() + timedelta(days=int(tick))).isoformat()
        if self.family == "timestamp":
            return (EPOCH + timedelta(microseconds=int(tick))).isoformat(sep=" ")
        if self.family == "timestamptz":
            return (EPOCH + timedelta(microseconds=int(tick))).isoformat(sep=" ") + "+00"
        return repr(tick)

    def tick_of(self, text: str) -> Tick | None:
        """What a number as it stands in SQL means beside a column of this type, if that is certain; None otherwise.

        Beside an integer column, a short integer. Beside a decimal, a short one with no more places. Beside a DOUBLE, a
        short decimal: DuckDB divides two whole numbers that a double holds exactly, which gives the nearest double, and
        so does Python.
        """
        digits = text.removeprefix("-")
        if self.family == "integer" and digits.isdecimal() and len(digits) <= 18:
            return int(text)
        if not digits.replace(".", "", 1).isdecimal() or len(digits) > 15:
            return None
        if self.family == "decimal" and self.width <= 18 and len(digits.partition(".")[2]) <= self.digits:
            return int(Decimal(text).scaleb(self.digits))
        return float(text) if self.type == "DOUBLE" else None

    def literal(self, tick: Tick) -> exp.Expr:
        """The tick as a typed SQL constant."""
        return cast(exp.Literal.string(self.text(tick)), self.type)

    def measure(self, value: exp.Expr) -> exp.Expr:
        """SQL for the tick of a value of this type; NULL for NULL, and for what no int64 counts."""
        if self.family == "integer":
            return try_cast(value, "BIGINT")
        if self.family == "decimal":
            digits = exp.Anonymous(
                this="replace", expressions=[cast(value, "VARCHAR"), exp.Literal.string("."), exp.Literal.string("")]
            )
            return try_cast(digits, "BIGINT")
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
            return pa.Array.from_buffers(
                pa.decimal128(38, self.digits), len(whole), [None, pa.py_buffer(pairs.tobytes())]
            )
        if self.family == "date":
            return pa.array(whole.astype(np.int32)).cast(pa.date32())
        if self.family == "timestamp":
            return pa.array(whole).cast(pa.timestamp("us"))
        if self.family == "timestamptz":
            return pa.array(whole).cast(pa.timestamp("us", "UTC"))
        return pa.array(whole)


@lru_cache(maxsize=1024)
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
    return Scale(name, "decimal", int(decimal[1]), int(decimal[2])) if decimal else None


def is_finite(tick: object) -> TypeGuard[Tick]:
    return isinstance(tick, (int, float)) and math.isfinite(tick)


def cast(value: exp.Expr, type_text: str) -> exp.Cast:
    """`CAST(value AS type)` for a type as DuckDB's catalog prints it, ENUM values verbatim."""
    return exp.Cast(this=value, to=_data_type(type_text).copy())


def try_cast(value: exp.Expr, type_text: str) -> exp.TryCast:
    """The same, but NULL where a value has no counterpart."""
    return exp.TryCast(this=value, to=_data_type(type_text).copy())


@lru_cache(maxsize=256)
def _data_type(type_text: str) -> exp.DataType:
    return exp.DataType.build(type_text, dialect="duckdb")


def as_text(value: exp.Expr, type_text: str) -> exp.Expr:
    """SQL that prints a value of a type in one way only: equal values alike, whatever the connection's time zone."""
    scale = scale_of(type_text)
    if scale is not None and scale.family == "timestamptz":
        # Not timezone('UTC', ...), which raises at the end of time.
        utc = exp.Anonymous(this="make_timestamp", expressions=[exp.Anonymous(this="epoch_us", expressions=[value])])
        return exp.DPipe(this=cast(utc, "VARCHAR"), expression=exp.Literal.string("+00"))
    if scale is not None and scale.family == "real":
        value = exp.Add(this=value, expression=cast(exp.Literal.number(0), type_text))  # -0.0 + 0 is 0.0
    return cast(value, "VARCHAR")
