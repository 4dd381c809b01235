"""Profile: what a column's private rows have: ends, frequent values, how rows are distributed. Not private, on purpose.

Owns the SQL of these questions, for every engine. Must not decide what to suggest: that is `scan/suggestion.py`, the
only caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from mwem_sql.boundary.relations import Relation
from mwem_sql.language.ticks import Scale, Tick, cast, is_finite, scale_of, try_cast
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.scan.dialects import DIALECTS
from mwem_sql.scan.dialects.dialect import Dialect, has_value
from mwem_sql.scan.engines.protocol import Snapshot

LARGEST_WHOLE: Final = 10**15
"""Whole numbers of a DOUBLE are whole numbers up to this: it holds each of them."""


@dataclass(frozen=True, kw_only=True)
class ColumnValues:
    """The values of a column: SQL for one of them, its type, the codes that are NULL in it, and what it is in words."""

    name: str
    type: str
    value: exp.Expr
    codes: tuple[str, ...] = ()
    words: str = "numbers"

    @property
    def read_as(self) -> str | None:
        """SQL of a view that has these values in this column; None if the column has them itself."""
        return None if isinstance(self.value, exp.Column) else self.value.sql("duckdb")


@dataclass(frozen=True, kw_only=True)
class Span:
    """The ends of numbers or dates, as printed and as ticks; how many rows have one, and how many distinct ones."""

    texts: tuple[str, str]
    low: Tick
    high: Tick
    rows: int
    distinct: int
    is_whole: bool


@dataclass(frozen=True, kw_only=True)
class TextFacts:
    """How many rows of a text column have a number, one with leading zeros, with a fraction, or a very large one.

    `others` are different texts that are no numbers; of very many, some.
    """

    rows: int
    numbers: int
    zeros: int
    fractions: int
    large: int
    others: list[str]


class Profile:
    """What the private rows of a relation have in their columns."""

    def __init__(self, snapshot: Snapshot, relation: Relation, sandbox: Sandbox) -> None:
        self._snapshot, self._sandbox = snapshot, sandbox
        self._dialect: Dialect = DIALECTS[relation.dialect]
        self._rows = relation.tree()
        self.rows: int = self._one(exp.Count(this=exp.Star()))[0]

    def counts(self, column: ColumnValues) -> tuple[int, int]:
        """How many rows have a value, and how many different ones there are."""
        rows, distinct = self._one(exp.Count(this=column.value.copy()), _distinct(column.value))
        return int(rows), int(distinct)

    def rows_per_value(self, column: ColumnValues) -> tuple[int, float]:
        """The largest number of rows that have the same value, and the sum of the squares of all such numbers."""
        counts = (
            exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(self._rows.copy())
            .where(has_value(column.value)).group_by(column.value.copy())
        )  # fmt: skip
        number = cast(exp.column("n"), "DOUBLE")
        square = exp.Mul(this=number, expression=number.copy())
        query = exp.select(
            exp.alias_(exp.Max(this=exp.column("n")), "most"), exp.alias_(exp.Sum(this=square), "squares")
        ).from_(counts.subquery("__counts"))
        ((most, squares),) = self._ask(query)
        return int(most), float(squares)

    def text(self, column: ColumnValues, most: int) -> TextFacts:
        """What a text column has of numbers. In DuckDB's SQL: elsewhere nobody can make a view that reads them."""
        name, number = column.value, try_cast(column.value.copy(), "DOUBLE")
        is_number = exp.Anonymous(this="isfinite", expressions=[number])
        has_zero = exp.Anonymous(this="regexp_matches", expressions=[name.copy(), exp.Literal.string(r"^\s*[+-]?0\d")])
        has_fraction = exp.NEQ(this=number.copy(), expression=exp.Floor(this=number.copy()))
        size = exp.GT(this=exp.Abs(this=number.copy()), expression=exp.Literal.number(LARGEST_WHOLE))
        is_large = exp.and_(is_number.copy(), size)
        counts = self._one(exp.Count(this=name.copy()), *map(_how_many, (is_number, has_zero, has_fraction, is_large)))
        query = (
            exp.select(exp.alias_(name.copy(), "v")).distinct().from_(self._rows.copy())
            .where(exp.Not(this=exp.Coalesce(this=is_number.copy(), expressions=[exp.false()])))
            .where(has_value(name)).limit(most + 1)
        )  # fmt: skip
        rows, numbers, zeros, fractions, large = (int(count or 0) for count in counts)
        others = sorted(str(text) for (text,) in self._ask(query))
        return TextFacts(rows=rows, numbers=numbers, zeros=zeros, fractions=fractions, large=large, others=others)

    def span(self, column: ColumnValues, scale: Scale) -> Span | None:
        """The ends of what is finite, and whether all of it is whole; None where nothing is finite."""
        value = self._finite(column)
        ends = [cast(end(this=value.copy()), "VARCHAR") for end in (exp.Min, exp.Max)]
        has_fraction = exp.NEQ(this=value.copy(), expression=exp.Floor(this=value.copy()))
        more = [_how_many(has_fraction)] if scale.family in {"real", "decimal"} else []
        first, last, rows, distinct, *fractions = self._one(
            *ends, exp.Count(this=value.copy()), _distinct(value), *more
        )
        low, high = self.ticks(scale, (first, last))
        if low is None or high is None:
            return None
        largest = max(abs(low), abs(high)) / 10**scale.digits
        is_whole = scale.family in {"integer", "date"} or (fractions == [0] and largest <= LARGEST_WHOLE)
        return Span(texts=(first, last), low=low, high=high, rows=rows, distinct=distinct, is_whole=is_whole)

    def having(self, column: ColumnValues, texts: Sequence[str]) -> list[int]:
        """How many rows have each of some values, as they are printed."""
        printed = cast(column.value.copy(), "VARCHAR")
        tests = (exp.EQ(this=printed.copy(), expression=exp.Literal.string(text)) for text in texts)
        return [int(count) for count in self._one(*map(_how_many, tests))]

    def above(self, column: ColumnValues, scale: Scale) -> Callable[[Sequence[Tick]], list[int]]:
        """What tells how many rows have each of some values, on a scale, or a greater one."""
        values = exp.select(exp.alias_(self._finite(column), "v")).from_(self._rows.copy())

        def above(ticks: Sequence[Tick]) -> list[int]:
            if not ticks:
                return []
            constants = (self._dialect.constant(scale.text(tick), scale.type) for tick in ticks)
            tests = (exp.GTE(this=exp.column("v", table="__values"), expression=constant) for constant in constants)
            counts = self._one(*map(_how_many, tests), rows=values.subquery("__values"))
            return [int(count) for count in counts]

        return above

    def frequent(
        self, column: ColumnValues, most: int, least: int = 1, *, is_negative: bool = False
    ) -> list[tuple[str, int]]:
        """The most frequent values as text, and how many rows have each, at least so many; or of the negative ones."""
        value = self._finite(column)
        query = (
            exp.select(exp.alias_(cast(value.copy(), "VARCHAR"), "v"), exp.alias_(exp.Count(this=exp.Star()), "n"))
            .from_(self._rows.copy()).where(has_value(value)).group_by(value.copy())
            .having(exp.GTE(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(least)))
            .order_by(exp.Count(this=exp.Star()).desc(), exp.column("v")).limit(most)
        )  # fmt: skip
        if is_negative:
            query = query.where(exp.LT(this=value.copy(), expression=exp.Literal.number(0)))
        return [(str(text), int(rows)) for text, rows in self._ask(query)]

    def ticks(self, scale: Scale, texts: Sequence[str | None]) -> list[Tick | None]:
        """What values that an engine printed are on a scale; None for one that is not there."""
        ticks = self._sandbox.tried([scale.measure(try_cast(exp.convert(text), scale.type)) for text in texts])
        return [tick if is_finite(tick) else None for tick in ticks]

    def _finite(self, column: ColumnValues) -> exp.Expr:
        """SQL for a value; NULL for NaN and infinity, which are no bounds."""
        scale = scale_of(column.type)
        test = None if scale is None else self._dialect.finite(column.value.copy(), scale)
        return column.value.copy() if test is None else exp.Case(ifs=[exp.If(this=test, true=column.value.copy())])

    def _one(self, *read: exp.Expr, rows: exp.Expr | None = None) -> tuple[Any, ...]:
        """What is read off all rows, or those of a subquery."""
        columns = (exp.alias_(each, f"v{k}", copy=False) for k, each in enumerate(read))
        query = exp.select(*columns, copy=False).from_(rows or self._rows.copy(), copy=False)
        return self._ask(query)[0]

    def _ask(self, query: exp.Select) -> list[tuple[Any, ...]]:
        batches = self._snapshot.run(self._dialect.sql(query), 100)
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def _distinct(value: exp.Expr) -> exp.Expr:
    return exp.Count(this=exp.Distinct(expressions=[value.copy()]))


def _how_many(test: exp.Expr) -> exp.Expr:
    """SQL for the number of rows of which something is true."""
    one, none = exp.Literal.number(1), exp.Literal.number(0)
    return exp.Sum(this=exp.Case(ifs=[exp.If(this=test, true=one)], default=none))
