"""The parts that a pushdown is made of, each with its SQL: group and roll up, aggregate, or multiply. Runs nothing.

A statement's columns are `c0`, `c1`, ... and, where it groups, the count. A part is public, and describes itself.
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
from mwem_sql.algebra.table import Names
from mwem_sql.domains.classes import Classes
from mwem_sql.language.ticks import cast
from mwem_sql.scan.dialects.dialect import COUNT, ColumnReading, Dialect, PrivateRows, Unit

AGGREGATES = 256
"""Aggregates of one SELECT. With more, fewer statements run; with thousands DuckDB plans longer than it runs."""
UNIT_CELLS = 2
"""Counts of units: those that have as many rows as are used or fewer, and those that have more."""

NumbersBySet: TypeAlias = dict[Names, list[int]]
"""Numbers of queries by their attributes, in the order that the queries have them."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of all class combinations of some attributes, and the queries that are answered from its marginals."""

    attributes: Names
    shape: tuple[int, ...]
    queries: NumbersBySet = field(default_factory=dict)

    @property
    def cells(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class _OneStatement:
    """A part of one statement; `readings` say which classes its columns stand for."""

    attributes: Names
    statement: exp.Select
    readings: tuple[ColumnReading, ...]
    cost: float

    @property
    def statements(self) -> tuple[exp.Select, ...]:
        return (self.statement,)


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupBy(_OneStatement):
    """One GROUP BY of some columns; its groups are added up to histograms.

    `whole`: it is the only part, over all touched columns.
    """

    histograms: tuple[Histogram, ...]
    whole: bool

    @property
    def words(self) -> str:
        columns = _columns(self.attributes)
        sets = {frozenset(names) for histogram in self.histograms for names in histogram.queries if names}
        what = f"one GROUP BY of all touched columns, {columns}," if self.whole else f"a GROUP BY of {columns},"
        return f"{what} rolled up to {_plural(len(sets), 'attribute set')}"

    @property
    def estimate(self) -> str:
        cells = sum(histogram.cells for histogram in self.histograms)
        return f"{_plural(len(self.histograms), 'histogram')} of {cells:,} cells"


@dataclass(frozen=True, eq=False)
class Aggregates:
    """One aggregate for each cell of scalar queries; `cells[k]` are the ranks of statement k's among all answers."""

    statements: tuple[exp.Select, ...]
    cells: tuple[Integers, ...]
    cost: float

    @property
    def words(self) -> str:
        return f"aggregates of their own for scalar queries, up to {AGGREGATES} in a SELECT"

    @property
    def estimate(self) -> str:
        return f"{_plural(sum(map(len, self.cells)), 'aggregate')} in {_plural(len(self.statements), 'statement')}"


@dataclass(frozen=True, eq=False)
class Units(Aggregates):
    """How many units have as many rows as are used or fewer, and how many have more: behind all other answers."""

    @property
    def words(self) -> str:
        return "a GROUP BY of the unit, to tell of how many of them rows are left out"


@dataclass(frozen=True, eq=False, kw_only=True)
class Product(_OneStatement):
    """All pairs of attributes at once: codes are streamed, and one-hot blocks multiplied with themselves.

    `marginals` has a row (query, attribute, attribute or -1) for each query that is a whole one- or two-way marginal;
    `queries` are the others.
    """

    shape: tuple[int, ...]
    marginals: Integers
    queries: NumbersBySet

    @property
    def words(self) -> str:
        queries = len(self.marginals) + sum(map(len, self.queries.values()))
        return f"a streamed pairwise product of {_columns(self.attributes)} for {queries:,} one- and two-way queries"

    @property
    def estimate(self) -> str:
        return f"{sum(self.shape):,} classes, {sum(self.shape) ** 2:,} pairs"


ScanPart: TypeAlias = GroupBy | Aggregates | Product


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
    pairs = [(number, cell) for number in wanted for cell in range(queries[number].cells)]
    statements, cells = [], []
    for begin in range(0, len(pairs), AGGREGATES):
        batch = pairs[begin : begin + AGGREGATES]
        touched = dict.fromkeys(name for number, _ in batch for name in queries[number].attributes)
        code = {name: exp.column(f"v{k}", table="__codes") for k, name in enumerate(touched)}
        columns = [
            exp.alias_(_aggregate(dialect, queries[number], cell, code), f"c{k}")
            for k, (number, cell) in enumerate(batch)
        ]
        inner = [exp.alias_(dialect.whole_code(classes[name]), f"v{k}") for k, name in enumerate(touched)]
        rows = exp.select(*inner or [exp.Star()]).from_(source.copy()).subquery("__codes")
        statements.append(exp.select(*columns).from_(rows))
        cells.append(np.array([starts[number] + cell for number, cell in batch], dtype=np.int64))
    return Aggregates(tuple(statements), tuple(cells), cost)


def units(dialect: Dialect, table: PrivateRows, unit: Unit, start: int, *, cost: float) -> Units:
    """The counts of units; they are the answers from `start` on. Rows without a unit are of none."""
    count = exp.column(COUNT, table="__units")
    each = (
        exp.select(exp.alias_(dialect.count(None), COUNT)).from_(table.tree())
        .where(unit.known).group_by(*dialect.unit_key(unit))
    )  # fmt: skip
    used = exp.Literal.number(unit.rows)
    tests = [exp.LTE(this=count, expression=used), exp.GT(this=count.copy(), expression=used.copy())]
    counts = [exp.alias_(dialect.count(test), f"c{k}") for k, test in enumerate(tests)]
    statement = exp.select(*counts).from_(each.subquery("__units"))
    return Units((statement,), (np.arange(start, start + UNIT_CELLS),), cost)


def can_aggregate(query: LinearQuery) -> bool:
    """Whether a query has few cells and its blocks have few enough class combinations for SQL."""
    return query.cells <= 4 and all(block.extent <= 2**12 for block in query.blocks) and query.bound < 2**62


def _aggregate(dialect: Dialect, query: LinearQuery, cell: int, code: Mapping[str, exp.Expr]) -> exp.Expr:
    """How many rows are in a cell, or the sum of what they add to it; saturates at what an int64 holds."""
    tests: list[exp.Expr] = []
    amounts: list[exp.Expr] = []
    inside = np.unravel_index(cell, query.shape) if query.shape else ()
    for block, label in zip(query.blocks, inside, strict=True):
        counted = block.labels.ravel() == label
        index = _index(block, code)
        if not counted.all():
            tests.append(_among(dialect, np.flatnonzero(counted), index, counted.size))
        if block.values is not None:
            values = np.where(counted, block.values.ravel(), 0).tolist()
            amounts.append(dialect.lookup(values, index.copy(), "BIGINT"))
    if not amounts:
        return dialect.count(exp.and_(*tests) if tests else None)
    amount = amounts[0]
    for other in amounts[1:]:
        amount = exp.Mul(this=amount, expression=other)
    if tests:
        amount = exp.Case(ifs=[exp.If(this=exp.and_(*tests), true=amount)], default=exp.Literal.number(0))
    return dialect.total(amount)


def _index(block: Block, code: Mapping[str, exp.Expr]) -> exp.Expr:
    """The index of a row's class combination among all of the block, counted from 0."""
    codes = [code[name].copy() for name in block.attributes] or [exp.Literal.number(0)]
    index = codes[0]
    for column, size in zip(codes[1:], block.shape[1:], strict=True):
        # BIGINT because a product of codes would raise in their type.
        scaled = exp.Mul(this=exp.paren(cast(index, "BIGINT")), expression=exp.Literal.number(size))
        index = exp.Add(this=scaled, expression=column)
    return index


def _among(dialect: Dialect, counted: npt.NDArray[np.intp], index: exp.Expr, size: int) -> exp.Expr:
    """Whether an index is among these: by comparison where they are neighbours."""
    if not counted.size:
        return exp.false()
    first, last = int(counted[0]), int(counted[-1])
    if last - first + 1 > counted.size:
        table = np.zeros(size, dtype=np.int64)
        table[counted] = 1
        return exp.EQ(this=dialect.lookup(table.tolist(), index, "UTINYINT"), expression=exp.Literal.number(1))
    if first == last:
        return exp.EQ(this=index, expression=exp.Literal.number(first))
    if first == 0:
        return exp.LTE(this=index, expression=exp.Literal.number(last))
    if last == size - 1:
        return exp.GTE(this=index, expression=exp.Literal.number(first))
    return exp.Between(this=index, low=exp.Literal.number(first), high=exp.Literal.number(last))


def _columns(names: Names) -> str:
    return f"{_plural(len(names), 'column')} ({', '.join(names if len(names) <= 8 else (*names[:8], '...'))})"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
