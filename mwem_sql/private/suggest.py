"""A domain read off the private rows, for a person to review. Not private, on purpose: only the curator may see it.

Owns what is suggested of a column, and why a column is left out. Must not write the script that a person reviews: that is `surface/script.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
from sqlglot import exp

from mwem_sql.boundary.relations import Relation
from mwem_sql.compiler.dialects.dialect import Dialect
from mwem_sql.compiler.dialects.known import dialect_of
from mwem_sql.database import round_numbers
from mwem_sql.database.catalog import Column
from mwem_sql.database.sandbox import Sandbox
from mwem_sql.database.ticks import Scale, Tick, cast, is_finite, scale_of, try_cast
from mwem_sql.private.engine import as_described
from mwem_sql.private.engines.instance import as_engine
from mwem_sql.private.engines.protocol import Engine, Snapshot

SUGGESTED_VALUES = 100
"""Values that are listed of a column without an order."""
FEWEST_ROWS = 5
SMALLEST_SHARE = 1 / 500
"""A value is suggested if at least so many rows, and such a share of all rows, have it: names and keys are no categories."""
LEAST_COVERED = 1 / 20
"""The share of rows that listed values must have together. With less, nearly all rows would be NULL, and what is listed would be a few people's own."""


@dataclass(frozen=True)
class Suggestion:
    """A row of a domain table, and what a person should think of when reading it. `missing` has a reason where nothing is suggested."""

    attribute: str
    values: list[str] | None = None
    low: str | None = None
    high: str | None = None
    bins: int | None = None
    nullable: bool = False
    open: bool = False
    note: str = ""
    missing: str = ""


def suggest_domain(
    rows: Engine | duckdb.DuckDBPyConnection, relation: Relation, declared: Collection[str] = ()
) -> list[Suggestion]:
    """A suggestion for every column that is not declared already.

    Privacy:
        None: bounds, values and whether there are NULLs are those of the private rows. Bounds are rounded outwards and rare values are
        left out, so that hardly a line has one person's own value in it; but no budget covers any of it.
    """
    with as_engine(rows).snapshot() as snapshot:
        as_described(relation, "mwem_suggest_domain")(snapshot)
        reader = _Reader(snapshot, dialect_of(relation.dialect), relation)
        return [reader.suggest(column) for column in relation.columns if column.name not in declared]


class _Reader:
    """The private rows, and how many of them a value must be in to be suggested."""

    def __init__(self, snapshot: Snapshot, dialect: Dialect, relation: Relation) -> None:
        self._snapshot, self._dialect = snapshot, dialect
        self._rows = relation.tree()
        count: int = self._one(exp.Count(this=exp.Star()))[0]
        self._enough = max(FEWEST_ROWS, int(count * SMALLEST_SHARE))

    def suggest(self, column: Column) -> Suggestion:
        name = exp.column(column.name, quoted=True)
        known, distinct, rows = self._one(
            exp.Count(this=name.copy()),
            exp.Count(this=exp.Distinct(expressions=[name.copy()])),
            exp.Count(this=exp.Star()),
        )
        if not known:
            return Suggestion(column.name, missing="no row has a value in it")
        scale = scale_of(column.type)
        is_counted = scale is None or scale.family == "integer"
        if is_counted and distinct == known and known > SUGGESTED_VALUES:
            return Suggestion(column.name, missing="every row has another value, so it is a key and no category")
        if scale is not None:
            return self._ordered(column.name, scale, name, nullable=known < rows)
        return self._listed(column, name, distinct, known, nullable=known < rows)

    def _ordered(self, column: str, scale: Scale, name: exp.Expr, *, nullable: bool) -> Suggestion:
        finite = self._dialect.finite(name.copy(), scale)  # NaN and infinity are no bounds
        value = name.copy() if finite is None else exp.Case(ifs=[exp.If(this=finite, true=name.copy())])
        ends = self._one(*(cast(end(this=value.copy()), "VARCHAR") for end in (exp.Min, exp.Max)))
        low, high = _ticks(scale, ends)
        if low is None or high is None:
            return Suggestion(column, missing="no row has a finite value in it")
        one, none = exp.Literal.number(1), exp.Literal.number(0)
        shared = [exp.EQ(this=cast(value.copy(), "VARCHAR"), expression=exp.Literal.string(end)) for end in ends]
        at_low, at_high = self._one(
            *(exp.Sum(this=exp.Case(ifs=[exp.If(this=own, true=one)], default=none)) for own in shared)
        )
        least, most = round_numbers.outwards(
            scale, low, high, keep_low=at_low >= self._enough, keep_high=at_high >= self._enough
        )
        parts = round_numbers.bins(scale, least, most)
        note = "which values are possible? Those outside count as the nearest bound" + (
            "" if parts is None else f"; {parts} equal bins, no finer than answers have to be"
        )
        least_text, most_text = (round_numbers.text(scale, end) for end in (least, most))
        return Suggestion(column, low=least_text, high=most_text, bins=parts, nullable=nullable, note=note)

    def _listed(self, column: Column, name: exp.Expr, distinct: int, known: int, *, nullable: bool) -> Suggestion:
        shown = cast(name.copy(), "VARCHAR")
        frequent = (
            exp.select(exp.alias_(shown, "v"), exp.alias_(exp.Count(this=exp.Star()), "n")).from_(self._rows.copy())
            .where(exp.Not(this=exp.Is(this=name.copy(), expression=exp.null()))).group_by(name.copy())
            .having(exp.GTE(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(self._enough)))
            .order_by(exp.Count(this=exp.Star()).desc(), exp.column("v")).limit(SUGGESTED_VALUES)
        )  # fmt: skip
        found = self._ask(frequent)
        values = [value for value, _ in found]
        if sum(rows for _, rows in found) < known * LEAST_COVERED:
            few = "hardly any" if values else "none"
            reason = f"{distinct:,} different values, {few} of them in {self._enough:,} rows or more"
            return Suggestion(column.name, missing=reason)
        if len(values) == distinct:
            note = "are these all values that are possible? Others count as NULL, or as the first"
            return Suggestion(column.name, values=sorted(values), nullable=nullable, note=note)
        note = f"an open list of what {self._enough:,} rows or more have; all others are NULL. Take out what could name a person"
        return Suggestion(column.name, values=values, nullable=True, open=True, note=note)

    def _one(self, *read: exp.Expr) -> tuple[Any, ...]:
        return self._ask(
            exp.select(*(exp.alias_(each, f"v{k}") for k, each in enumerate(read))).from_(self._rows.copy())
        )[0]

    def _ask(self, query: exp.Select) -> list[tuple[Any, ...]]:
        batches = self._snapshot.run(self._dialect.sql(query), SUGGESTED_VALUES)
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def _ticks(scale: Scale, texts: Sequence[str | None]) -> list[Tick | None]:
    """What values that an engine printed are on a scale; None for one that is not there."""
    with Sandbox() as sandbox:
        found = sandbox.tried([scale.measure(try_cast(exp.convert(text), scale.type)) for text in texts])
    return [tick if is_finite(tick) else None for tick in found]
