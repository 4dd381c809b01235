"""The parts that a pushdown is made of, each with its SQL: group and roll up, aggregate, or multiply. Runs nothing.

A statement's columns are `c0`, `c1`, ... and, where it groups, the count. What a part tells of itself is public.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from mwem_sql.algebra.arrays import Integers
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.domains.classes import Classes
from mwem_sql.language.ticks import cast
from mwem_sql.scan.codes import Reading, Rows, Unit
from mwem_sql.scan.dialects.dialect import COUNT, Dialect

__all__ = ["BATCH", "COUNT", "Aggregates", "Asked", "GroupBy", "Histogram", "Names", "Part", "Product"]

BATCH = 256  # aggregates of one SELECT: with thousands DuckDB plans longer than it runs
UNIT_CELLS = 2  # units that have as many rows as are used, or fewer; units that have more
_SHOWN_COLUMNS = 8
_FEW = 4  # cells of a query that may be aggregates of their own
_TABLE = 2**12  # class combinations of a block that may be written out in SQL

Names: TypeAlias = tuple[str, ...]
Asked: TypeAlias = dict[Names, list[int]]
"""Numbers of queries by their attributes, in the queries' own order."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of all class combinations of some attributes, and the queries that are answered from its marginals."""

    attributes: Names
    shape: tuple[int, ...]
    asked: Asked = field(default_factory=dict)

    @property
    def cells(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, eq=False)
class GroupBy:
    """One GROUP BY of some columns; its groups are added up to histograms. `readings` say which classes its columns stand for."""

    attributes: Names
    statement: exp.Select
    readings: tuple[Reading, ...]
    histograms: tuple[Histogram, ...]
    whole: bool
    cost: float

    @property
    def statements(self) -> tuple[exp.Select, ...]:
        return (self.statement,)

    @property
    def words(self) -> str:
        columns = _columns(self.attributes)
        if self.whole:
            return f"one GROUP BY of all touched columns, {columns}, rolled up to {self._sets}"
        return f"a GROUP BY of {columns}, rolled up to {self._sets}"

    @property
    def estimate(self) -> str:
        held = _plural(len(self.histograms), "histogram")
        return f"{held} of {sum(histogram.cells for histogram in self.histograms):,} cells"

    @property
    def _sets(self) -> str:
        sets = {frozenset(names) for histogram in self.histograms for names in histogram.asked if names}
        return _plural(len(sets), "attribute set")


@dataclass(frozen=True, eq=False)
class Aggregates:
    """One aggregate for each cell of scalar queries; `places[k]` are those of statement k's columns among all answers."""

    statements: tuple[exp.Select, ...]
    places: tuple[Integers, ...]
    cost: float

    @property
    def words(self) -> str:
        return f"aggregates of their own for scalar queries, up to {BATCH} in a SELECT"

    @property
    def estimate(self) -> str:
        return f"{_plural(sum(map(len, self.places)), 'aggregate')} in {_plural(len(self.statements), 'statement')}"


@dataclass(frozen=True, eq=False)
class Units(Aggregates):
    """How many units have as many rows as are used or fewer, and how many have more: behind all other answers."""

    @property
    def words(self) -> str:
        return "a GROUP BY of the unit, to tell of how many of them rows are left out"

    @property
    def estimate(self) -> str:
        return "2 aggregates in 1 statement"


@dataclass(frozen=True, eq=False)
class Product:
    """All pairs of attributes at once: codes are streamed, and one-hot blocks multiplied with themselves.

    `plain` has a row (query, attribute, attribute or -1) for each query that is a whole one- or two-way marginal.
    """

    attributes: Names
    shape: tuple[int, ...]
    statement: exp.Select
    readings: tuple[Reading, ...]
    plain: Integers
    asked: Asked
    cost: float

    @property
    def statements(self) -> tuple[exp.Select, ...]:
        return (self.statement,)

    @property
    def words(self) -> str:
        queries = len(self.plain) + sum(map(len, self.asked.values()))
        return f"a streamed pairwise product of {_columns(self.attributes)} for {queries:,} one- and two-way queries"

    @property
    def estimate(self) -> str:
        return f"{sum(self.shape):,} classes, {sum(self.shape) ** 2:,} pairs"


Part: TypeAlias = GroupBy | Aggregates | Product


def group_by(
    dialect: Dialect,
    source: exp.Expr,
    attributes: Names,
    classes: Mapping[str, Classes],
    histograms: Sequence[Histogram],
    *,
    cost: float,
    whole: bool,
) -> GroupBy:
    own = [classes[name] for name in attributes]
    query = dialect.grouped(source, own)
    return GroupBy(attributes, query, tuple(map(dialect.reading, own)), tuple(histograms), whole, cost)


def product(
    dialect: Dialect,
    source: exp.Expr,
    attributes: Names,
    classes: Mapping[str, Classes],
    *,
    plain: Integers,
    asked: Asked,
    cost: float,
) -> Product:
    own = [classes[name] for name in attributes]
    shape = tuple(item.count for item in own)
    query = dialect.coded(source, own)
    return Product(attributes, shape, query, tuple(map(dialect.reading, own)), plain, asked, cost)


def aggregates(
    dialect: Dialect,
    source: exp.Expr,
    classes: Mapping[str, Classes],
    queries: Sequence[LinearQuery],
    numbers: Iterable[int],
    *,
    starts: Integers,
    cost: float,
) -> Aggregates:
    """One aggregate for each cell of the queries; those over the same attributes stand together and share codes."""
    wanted = sorted(numbers, key=lambda number: (queries[number].attributes, number))
    cells = [(number, cell) for number in wanted for cell in range(queries[number].cells)]
    statements, places = [], []
    for begin in range(0, len(cells), BATCH):
        batch = cells[begin : begin + BATCH]
        touched = dict.fromkeys(name for number, _ in batch for name in queries[number].attributes)
        code = {name: exp.column(f"v{k}", table="__codes") for k, name in enumerate(touched)}
        found = [
            exp.alias_(_aggregate(dialect, queries[number], cell, code), f"c{k}")
            for k, (number, cell) in enumerate(batch)
        ]
        inner = [exp.alias_(dialect.whole_code(classes[name]), f"v{k}") for k, name in enumerate(touched)]
        rows = exp.select(*inner or [exp.Star()]).from_(source.copy()).subquery("__codes")
        statements.append(exp.select(*found).from_(rows))
        places.append(np.array([starts[number] + cell for number, cell in batch], dtype=np.int64))
    return Aggregates(tuple(statements), tuple(places), cost)


def units(dialect: Dialect, table: Rows, unit: Unit, start: int, *, cost: float) -> Units:
    """The counts of units; they are the answers from `start` on. Rows without a unit are of none."""
    column, count = exp.column(unit.column, quoted=True), exp.column(COUNT, table="__units")
    each = (
        exp.select(exp.alias_(dialect.count(None), COUNT))
        .from_(table.tree())
        .where(exp.Not(this=exp.Is(this=column, expression=exp.null())))
        .group_by(dialect.unit_key(unit))
    )
    used = exp.Literal.number(unit.rows)
    found = [exp.LTE(this=count, expression=used), exp.GT(this=count.copy(), expression=used.copy())]
    counts = [exp.alias_(dialect.count(test), f"c{k}") for k, test in enumerate(found)]
    statement = exp.select(*counts).from_(each.subquery("__units"))
    return Units((statement,), (np.arange(start, start + UNIT_CELLS),), cost)


def can_aggregate(query: LinearQuery) -> bool:
    """Whether a query has few cells and its blocks are short enough to be written out."""
    return query.cells <= _FEW and all(block.extent <= _TABLE for block in query.blocks) and query.bound < 2**62


def _aggregate(dialect: Dialect, query: LinearQuery, cell: int, code: Mapping[str, exp.Expr]) -> exp.Expr:
    """How many rows are in a cell, or the sum of what they add to it; saturates at what an int64 holds."""
    tests: list[exp.Expr] = []
    amounts: list[exp.Expr] = []
    inside = np.unravel_index(cell, query.shape) if query.shape else ()
    for block, own in zip(query.blocks, inside, strict=True):
        counted = block.labels.ravel() == own
        place = _place(block, code)
        if not counted.all():
            tests.append(_among(dialect, np.flatnonzero(counted), place, counted.size))
        if block.values is not None:
            values = np.where(counted, block.values.ravel(), 0).tolist()
            amounts.append(dialect.lookup(values, place.copy(), "BIGINT"))
    if not amounts:
        return dialect.count(exp.and_(*tests) if tests else None)
    amount = amounts[0]
    for other in amounts[1:]:
        amount = exp.Mul(this=amount, expression=other)
    if tests:
        amount = exp.Case(ifs=[exp.If(this=exp.and_(*tests), true=amount)], default=exp.Literal.number(0))
    return dialect.total(amount)


def _place(block: Block, code: Mapping[str, exp.Expr]) -> exp.Expr:
    """The place of a row's class combination among all of the block, counted from 0."""
    places = [code[name].copy() for name in block.attributes] or [exp.Literal.number(0)]
    place = places[0]
    for own, size in zip(places[1:], block.shape[1:], strict=True):
        # BIGINT because a product of codes would raise in their own type.
        place = exp.Add(
            this=exp.Mul(this=exp.paren(cast(place, "BIGINT")), expression=exp.Literal.number(size)), expression=own
        )
    return place


def _among(dialect: Dialect, counted: npt.NDArray[np.intp], place: exp.Expr, size: int) -> exp.Expr:
    """Whether a place is among these: by comparison where they are neighbours."""
    if not counted.size:
        return exp.false()
    first, last = int(counted[0]), int(counted[-1])
    if last - first + 1 > counted.size:
        table = np.zeros(size, dtype=np.int64)
        table[counted] = 1
        return exp.EQ(this=dialect.lookup(table.tolist(), place, "UTINYINT"), expression=exp.Literal.number(1))
    if first == last:
        return exp.EQ(this=place, expression=exp.Literal.number(first))
    if first == 0:
        return exp.LTE(this=place, expression=exp.Literal.number(last))
    if last == size - 1:
        return exp.GTE(this=place, expression=exp.Literal.number(first))
    return exp.Between(this=place, low=exp.Literal.number(first), high=exp.Literal.number(last))


def plain_rows(asked: Asked, queries: Sequence[LinearQuery], rank: Mapping[str, int]) -> tuple[Integers, Asked]:
    """Whole one- and two-way marginals as (query, attribute, attribute or -1), and the queries that are none."""
    whole: list[tuple[int, int, int]] = []
    others: Asked = {}
    for names, numbers in asked.items():
        first, second = (*(rank[name] for name in names), -1, -1)[:2]
        for number in numbers:
            if names and all(block.is_identity for block in queries[number].blocks):
                whole.append((number, first, second))
            else:
                others.setdefault(names, []).append(number)
    return np.array(whole, dtype=np.int64).reshape(-1, 3), others


def _columns(names: Names) -> str:
    listed = ", ".join(names if len(names) <= _SHOWN_COLUMNS else (*names[:_SHOWN_COLUMNS], "..."))
    return f"{_plural(len(names), 'column')} ({listed})"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
