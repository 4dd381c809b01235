"""The planner: which aggregates answer a list of queries, chosen from public facts only. Runs nothing.

Four plans, alone or together: one GROUP BY of all touched columns; a GROUP BY for each attribute set, or for a union of sets;
aggregates of their own for scalar queries; a streamed product for very many one- and two-way queries. Their costs are
compared for a table of `ROWS` rows: how many the private table has is private, and so are its statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Integers
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.queries import Queries
from mwem_sql.domains.classes import Classes
from mwem_sql.scan import scans
from mwem_sql.scan.codes import Rows, Unit
from mwem_sql.scan.dialects.dialect import Dialect
from mwem_sql.scan.dialects.native import Native
from mwem_sql.scan.scans import (
    BATCH,
    COUNT,
    UNIT_CELLS,
    Aggregates,
    Asked,
    GroupBy,
    Histogram,
    Names,
    Part,
    Product,
    Units,
)

__all__ = ["COUNT", "Aggregates", "GroupBy", "Histogram", "Part", "Product", "Pushdown", "Unit", "plan_pushdown"]

DUCKDB = Native()
MAX_SCAN_CELLS = 2**24  # of a histogram that holds whole groups, and of the matrix of all pairs of classes
MAX_HELD_CELLS = 2**25  # of all histograms of one part
_HISTOGRAM_CELLS = 2**20  # of a histogram that unites attribute sets only to save time: what a cache holds, or nearly
_GROWING = 64  # unions that may still grow at a time
_LIMITS = (2**24, 2**20, 2**16, 2**12, 0)  # cells up to which sets are united for a GROUP BY; 0: each set alone

_WIDTHS = (2**12, 64, 16, 4)  # classes up to which attributes take part in the product

# Costs in nanoseconds of one core per row, measured with `benchmarks/pushdown.py --constants`; only their ratios matter.
ROWS = 2**20
_STATEMENT = 2e6 / ROWS  # to plan and start one, whatever the rows
_BOUND_UNITS = 500.0  # to rank the rows of each unit, in every statement
_COUNT_UNITS = 85.0  # to count the rows of each unit, once
_GROUP, _GROUP_COLUMN, _GROUP_TEXT = 3.0, 3.0, 25.0
_GROUP_BIT, _CACHED_BITS, _MOST_BITS = 16.0, 14, 24  # for each doubling of the groups beyond what a cache holds
_ADD, _ADD_COLUMN = 4.0, 1.5  # a group to a histogram
_CELL, _SET = 10.0 / ROWS, 2e4 / ROWS  # roll-ups, and the answers of an attribute set
_ROW_CODE, _ROW_TEXT = 3.0, 100.0
_AGGREGATE, _AGGREGATE_BLOCK = 0.8, 0.6  # half of the first is planning: 0.4 ms each, whatever the rows
_PRODUCT_CLASS, _PRODUCT_PAIR = 3.0, 0.02
# What a pair costs at least by other plans: a histogram of 20 attributes has 190 pairs.
_LEAST_PAIR = (_ADD + 20 * _ADD_COLUMN) / 190

Ranks = tuple[int, ...]
"""An attribute set: places of its attributes among all of the release, ascending."""
Unions = Sequence[tuple[Ranks, Sequence[Ranks]]]
"""Attributes, and the sets in them that are answered from them."""


@dataclass(frozen=True, eq=False)
class Pushdown:
    """What to run for the answers of `queries`. Public all of it.

    Answers are one vector: `cells[i]` of query i follow those of query i - 1, from `starts[i]` on; counts of units, if there are units, come last.
    """

    queries: Queries
    cells: Integers
    parts: tuple[Part, ...]
    dialect: Dialect = DUCKDB

    @property
    def size(self) -> int:
        """How many answers there are."""
        return int(self.cells.sum()) + sum(UNIT_CELLS for part in self.parts if isinstance(part, Units))

    def apart(self, answers: Integers) -> tuple[Integers, Integers]:
        """The answers of all queries, and the counts of units, which are none without a unit."""
        inside, units = np.split(answers, [int(self.cells.sum())])
        return inside, units

    @cached_property
    def starts(self) -> Integers:
        return np.cumsum(self.cells) - self.cells


def plan_pushdown(
    table: Rows,
    classes: Mapping[str, Classes],
    queries: Sequence[LinearQuery],
    unit: Unit | None = None,
    dialect: Dialect = DUCKDB,
) -> Pushdown:
    """The cheapest plan that answers every query."""
    planner = _Planner(table, classes, queries, unit, dialect)
    parts = planner.cheapest()
    if unit is not None:
        parts.append(
            scans.units(dialect, table, unit, int(planner.pushdown.cells.sum()), cost=_STATEMENT + _COUNT_UNITS)
        )
    return replace(planner.pushdown, parts=tuple(parts))


@dataclass(frozen=True)
class _Draft:
    """A way to answer all sets: by the product, by aggregates, and by a GROUP BY for each of `unions`."""

    cost: float
    multiplied: Collection[Ranks] = ()
    aggregated: Collection[Ranks] = ()
    unions: Unions = ()


class _Planner:
    def __init__(
        self,
        table: Rows,
        classes: Mapping[str, Classes],
        queries: Sequence[LinearQuery],
        unit: Unit | None,
        dialect: Dialect,
    ) -> None:
        self.dialect = dialect
        self.classes = classes
        self.names = tuple(classes)
        self.counts = [own.count for own in classes.values()]
        self.wide = [dialect.is_wide(own) for own in classes.values()]
        self.texts = [dialect.is_text(own) for own in classes.values()]
        self.source = dialect.source(table, list(classes.values()), unit)
        self.statement = _STATEMENT + (_BOUND_UNITS if unit else 0.0)
        queries = Queries.of(queries)
        self.pushdown = Pushdown(queries, queries.cells, (), dialect)
        rank = {name: place for place, name in enumerate(self.names)}
        self.pairs = self._certain_pairs(queries.widths, queries.attribute_ranks(rank), queries.are_marginals)
        self.paired = frozenset(self.pairs[:, 1:].ravel().tolist()) - {-1}
        others = np.ones(len(queries), dtype=np.bool_)
        others[self.pairs[:, 0]] = False
        self.sets: dict[Ranks, Asked] = {}
        for number in np.flatnonzero(others).tolist():
            names = queries[number].attributes
            self.sets.setdefault(tuple(sorted([rank[name] for name in names])), {}).setdefault(names, []).append(number)

    def _certain_pairs(self, widths: Integers, places: Integers, plain: npt.NDArray[np.bool_]) -> Integers:
        """Whole one- and two-way marginals as (query, attribute, attribute or -1), if there are so many that no plan but the product will do."""
        ends = np.cumsum(widths)
        few = np.flatnonzero(plain & (widths <= 2))
        rows = np.stack(
            [few, places[ends[few] - widths[few]], np.where(widths[few] == 2, places[ends[few] - 1], -1)], axis=1
        )
        touched = set(rows[:, 1:].ravel().tolist()) - {-1}
        if not self._is_multipliable(touched) or self._product_cost(touched) >= _LEAST_PAIR * len(rows):
            return rows[:0]
        return rows

    def cheapest(self) -> list[Part]:
        """The parts of the cheapest draft; "how many rows" is answered by any of them."""
        sets = sorted((ranks for ranks in self.sets if ranks), key=lambda ranks: (-len(ranks), ranks))
        best = _Draft(math.inf)
        for multiplied in self._multipliable(sets):
            left = _without(sets, multiplied)
            for aggregated in self._aggregatable(left):
                rest = _without(left, aggregated)
                touched = self.paired.union(*multiplied)
                base = _Draft(self._product_cost(touched) + self._aggregates_cost(aggregated), multiplied, aggregated)
                best = min([best, *self._grouped(base, rest, best.cost)], key=lambda draft: draft.cost)
        if () in self.sets and not best.unions and not best.multiplied and not self.paired:
            best = replace(best, aggregated=[*best.aggregated, ()])
        return list(self._parts(best))

    def _multipliable(self, sets: Sequence[Ranks]) -> list[list[Ranks]]:
        """Sets that the product may answer: of one or two attributes, all of them or the narrow ones, if the matrix fits."""
        pairs = [ranks for ranks in sets if len(ranks) <= 2]
        out = []
        for width in _WIDTHS:
            narrow = self.paired.union(
                place for place in set(chain.from_iterable(pairs)) if self.counts[place] <= width
            )
            found = [ranks for ranks in pairs if narrow.issuperset(ranks)]
            if self._is_multipliable(narrow) and len(found) > 1 and found not in out:
                out.append(found)
        if out and self._product_cost(self.paired.union(*out[0])) < _LEAST_PAIR * len(out[0]):
            return out[:1]
        return [*out, [ranks for ranks in pairs if self.paired.issuperset(ranks)]]

    def _is_multipliable(self, places: Iterable[int]) -> bool:
        return self.dialect.streams and sum(map(self.counts.__getitem__, places)) ** 2 <= MAX_SCAN_CELLS

    def _aggregatable(self, sets: Sequence[Ranks]) -> list[list[Ranks]]:
        """Sets whose queries are cheaper as aggregates than by a GROUP BY of their own."""
        found = [
            ranks for ranks in sets
            if not any(self.wide[place] for place in ranks)
            and self._queries_cost(ranks) < self._group_cost(ranks, [(ranks, [ranks])])
            and all(scans.can_aggregate(self.pushdown.queries[number]) for number in self._numbers([ranks]))
        ]  # fmt: skip
        cheap = [ranks for ranks in found if not any(self.texts[place] for place in ranks)]
        return [*filter(None, (found, cheap if len(cheap) < len(found) else [])), []]

    def _grouped(self, base: _Draft, rest: Sequence[Ranks], most: float) -> list[_Draft]:
        """The draft with the rest grouped: all touched columns at once, or unions of sets up to some sizes."""
        if base.cost >= most or not rest:
            return [base]
        touched = tuple(sorted(set(chain.from_iterable(rest))))
        most_groups = self.dialect.most_groups or math.inf
        covers: list[Unions | None] = [[(touched, rest)]] if self._cells(touched) <= most_groups else []
        for limit in _LIMITS:
            if limit <= most_groups and self._cells(touched) > limit:
                allowed = (most - base.cost) / (self.statement + _GROUP + _GROUP_COLUMN)
                covers.append(self._cover(rest, limit, allowed))
        out = []
        for unions in covers:
            if unions is None:
                continue
            cost = base.cost + sum(self._group_cost(union, self._histograms(union, own)) for union, own in unions)
            out.append(replace(base, cost=cost, unions=unions))
            most = min(most, cost)
        return out

    def _cover(self, sets: Iterable[Ranks], limit: int, most: float = math.inf) -> Unions | None:
        """Unions of sets that stay within some cells, each set in one of them; None if it takes more than `most`."""
        unions: list[set[int]] = []
        inside: list[list[Ranks]] = []
        cells: list[int] = []
        holders: dict[int, int] = {}  # by attribute, the unions that have it, as bits
        growing: list[int] = []
        for ranks in sets:
            holding = -1
            for place in ranks:
                holding &= holders.get(place, 0)
            number = (holding & -holding).bit_length() - 1
            if number < 0:
                fits = (
                    k
                    for k in growing
                    if cells[k] * self._cells(place for place in ranks if place not in unions[k]) <= limit
                )
                number = next(fits, len(unions))
                if number == len(unions):
                    if number >= most:
                        return None
                    unions.append(set())
                    inside.append([])
                    cells.append(1)
                    growing = [*growing[-_GROWING:], number]
                unions[number].update(ranks)
                for place in ranks:
                    holders[place] = holders.get(place, 0) | 1 << number
                cells[number] = self._cells(unions[number])
                if 2 * cells[number] > limit:
                    growing.remove(number)
            inside[number].append(ranks)
        return [(tuple(sorted(union)), own) for union, own in zip(unions, inside, strict=True)]

    def _histograms(self, union: Ranks, sets: Sequence[Ranks]) -> Unions:
        """What the groups of a union are added up to: one histogram of all, or several of fewer attributes."""
        if self._cells(union) <= MAX_SCAN_CELLS:
            return [(union, sets)]
        return self._cover(sets, _HISTOGRAM_CELLS) or []

    def _group_cost(self, union: Ranks, histograms: Unions) -> float:
        cells = self._cells(union)
        columns = sum(_GROUP_TEXT if self.texts[place] else _GROUP_COLUMN for place in union)
        bits = min(max(math.log2(cells), _CACHED_BITS), _MOST_BITS) - _CACHED_BITS
        scans = math.ceil(sum(self._cells(own) for own, _ in histograms) / MAX_HELD_CELLS)
        cost = scans * (self.statement + _GROUP + columns + _GROUP_BIT * bits)
        for own, sets in histograms:
            cost += (
                min(1.0, cells / ROWS) * (_ADD + _ADD_COLUMN * len(own)) + _CELL * self._cells(own) + _SET * len(sets)
            )
        return cost

    def _queries_cost(self, ranks: Ranks) -> float:
        queries = [self.pushdown.queries[number] for number in self._numbers([ranks])]
        return sum((query.cells * (_AGGREGATE + _AGGREGATE_BLOCK * len(query.blocks)) for query in queries), 0.0)

    def _aggregates_cost(self, sets: Collection[Ranks]) -> float:
        cost, batched = 0.0, BATCH
        touched: set[int] = set()
        for ranks in sorted(sets):
            if batched >= BATCH:
                touched.clear()
                batched = 0
                cost += self.statement
            cost += self._queries_cost(ranks) + sum(map(self._row_cost, set(ranks) - touched))
            touched.update(ranks)
            batched += sum(self.pushdown.queries[number].cells for number in self._numbers([ranks]))
        return cost

    def _product_cost(self, touched: Collection[int]) -> float:
        if not touched:
            return 0.0
        kept = sum(self.counts[place] - 1 for place in touched)
        return self.statement + sum(map(self._row_cost, touched)) + _PRODUCT_CLASS * kept + _PRODUCT_PAIR * kept**2

    def _row_cost(self, place: int) -> float:
        return _ROW_TEXT if self.texts[place] else _ROW_CODE

    def _cells(self, places: Iterable[int]) -> int:
        return math.prod(map(self.counts.__getitem__, places))

    def _numbers(self, sets: Iterable[Ranks]) -> list[int]:
        return [number for ranks in sets for numbers in self.sets[ranks].values() for number in numbers]

    def _asked(self, sets: Iterable[Ranks]) -> Asked:
        return {names: numbers for ranks in sets for names, numbers in self.sets[ranks].items()}

    def _named(self, places: Iterable[int]) -> Names:
        return tuple(self.names[place] for place in places)

    def _parts(self, draft: _Draft) -> Iterable[Part]:
        paired = sorted(self.paired.union(*draft.multiplied))
        whole = len(draft.unions) == 1 and not paired and not draft.aggregated
        rows = self.sets.get((), {})
        for union, sets in draft.unions:
            for histograms in _chunks(self._histograms(union, sets), self._cells, MAX_HELD_CELLS):
                made = [
                    Histogram(self._named(own), self._shape(own), self._asked(inside)) for own, inside in histograms
                ]
                made[0].asked.update(rows)
                rows = {}
                cost = self._group_cost(union, histograms)
                yield scans.group_by(
                    self.dialect, self.source, self._named(union), self.classes, made, cost=cost, whole=whole
                )
        if paired:
            rank = {self.names[place]: k for k, place in enumerate(paired)}
            plain, others = scans.plain_rows(self._asked(draft.multiplied) | rows, self.pushdown.queries, rank)
            certain = self.pairs.copy()
            certain[:, 1:] = np.where(certain[:, 1:] < 0, -1, np.searchsorted(paired, certain[:, 1:]))
            plain = np.concatenate([certain, plain])
            yield scans.product(
                self.dialect,
                self.source,
                self._named(paired),
                self.classes,
                plain=plain,
                asked=others,
                cost=self._product_cost(paired),
            )
        if draft.aggregated:
            cost, numbers = self._aggregates_cost(draft.aggregated), self._numbers(draft.aggregated)
            yield scans.aggregates(
                self.dialect,
                self.source,
                self.classes,
                self.pushdown.queries,
                numbers,
                starts=self.pushdown.starts,
                cost=cost,
            )

    def _shape(self, places: Iterable[int]) -> tuple[int, ...]:
        return tuple(map(self.counts.__getitem__, places))


def _without(sets: Sequence[Ranks], taken: Iterable[Ranks]) -> list[Ranks]:
    gone = set(taken)
    return [ranks for ranks in sets if ranks not in gone]


def _chunks(unions: Unions, size: Callable[[Ranks], int], most: int) -> list[Unions]:
    """Consecutive unions whose sizes add up to at most `most`; a larger one stands alone."""
    out: list[list[tuple[Ranks, Sequence[Ranks]]]] = []
    room = 0
    for union in unions:
        if size(union[0]) > room:
            out.append([])
            room = most
        out[-1].append(union)
        room -= size(union[0])
    return list(out)
