"""The planner: which statements answer a list of queries, chosen from public facts only. Runs nothing.

Four plans, alone or together: one GROUP BY of all touched columns; a GROUP BY for each attribute set, or for a union of
sets; aggregates for scalar queries; a streamed product for very many one- and two-way queries. Their costs are compared
for a table of `TYPICAL_ROWS` rows: how many the private table has is private, and so are its statistics.

Costs are nanoseconds of one core per row, measured with `benchmarks/pushdown.py --constants`; only their ratios matter.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from mwem_sql.algebra.arrays import Integers
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.queries import Queries
from mwem_sql.algebra.table import Names
from mwem_sql.domains.classes import Classes
from mwem_sql.scan import parts
from mwem_sql.scan.dialects.dialect import Dialect, PrivateRows, Unit
from mwem_sql.scan.dialects.duckdb import DUCKDB
from mwem_sql.scan.parts import AGGREGATES, UNIT_CELLS, GroupBy, Histogram, NumbersBySet, Product, ScanPart, Units

MAX_SCAN_CELLS = 2**24
"""Cells of a histogram of whole groups, and of the matrix of all pairs of classes. Memory grows with it: 128 MB."""
MAX_PART_CELLS = 2**25
"""Cells of all histograms of one GROUP BY. Memory grows with it; with fewer, the same GROUP BY runs more often."""
CACHED_CELLS = 2**20
"""Cells of a histogram that unites attribute sets only to save time: about what a cache has. Larger: fewer histograms,
and more misses."""
UNION_CELLS = (2**24, 2**20, 2**16, 2**12, 0)
"""Cells up to which sets are united for a GROUP BY, all of which are tried; 0: each set alone."""
TYPICAL_ROWS = 2**20
"""Rows that fixed costs are divided by. With more, plans of many statements look cheaper."""
STATEMENT_COST = 2e6 / TYPICAL_ROWS
"""To plan and start a statement."""
LEAST_PAIR_COST = 34 / 190
"""What a pair of attributes costs at least by other plans than the product: a histogram of 20 attributes has 190."""

Ranks = tuple[int, ...]
"""An attribute set: ranks of its attributes among all of the release, ascending."""
Unions = Sequence[tuple[Ranks, Sequence[Ranks]]]
"""Attributes, and the sets in them that are answered from them."""


@dataclass(frozen=True, eq=False)
class Pushdown:
    """What to run for the answers of `queries`. Public all of it.

    Answers are one vector: `cells[i]` of query i follow those of query i - 1, from `starts[i]` on; counts of units, if
    there are units, come last.
    """

    queries: Queries
    parts: tuple[ScanPart, ...]
    dialect: Dialect = DUCKDB

    @property
    def cells(self) -> Integers:
        return self.queries.cells

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
    table: PrivateRows,
    classes: Mapping[str, Classes],
    queries: Sequence[LinearQuery],
    unit: Unit | None = None,
    dialect: Dialect = DUCKDB,
) -> Pushdown:
    """The cheapest plan that answers every query."""
    planner = _Planner(table, classes, queries, unit, dialect)
    planned = planner.cheapest()
    if unit is not None:
        start = int(planner.pushdown.cells.sum())
        planned.append(parts.units(dialect, table, unit, start, cost=STATEMENT_COST + 85.0))
    return replace(planner.pushdown, parts=tuple(planned))


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
        table: PrivateRows,
        classes: Mapping[str, Classes],
        queries: Sequence[LinearQuery],
        unit: Unit | None,
        dialect: Dialect,
    ) -> None:
        self.dialect = dialect
        self.classes = classes
        self.names = tuple(classes)
        columns = list(classes.values())
        self.counts = [column.count for column in columns]
        self.wide = [dialect.is_wide(column) for column in columns]
        self.texts = [dialect.is_text(column) for column in columns]
        self.source = dialect.source(table, columns, unit)
        self.statement_cost = STATEMENT_COST + (500.0 if unit else 0.0)  # every statement ranks the rows of each unit
        queries = Queries.of(queries)
        self.pushdown = Pushdown(queries, (), dialect)
        rank_of = {name: rank for rank, name in enumerate(self.names)}
        self.marginals = _small_marginals(queries, rank_of)
        touched = set(self.marginals[:, 1:].ravel().tolist()) - {-1}
        # So many that no plan but the product will do, or none: the search below decides.
        is_certain = self._product_cost(touched) < LEAST_PAIR_COST * len(self.marginals)
        self.pairs = self.marginals if is_certain and self._is_multipliable(touched) else self.marginals[:0]
        self.paired = frozenset(self.pairs[:, 1:].ravel().tolist()) - {-1}
        others = np.ones(len(queries), dtype=np.bool_)
        others[self.pairs[:, 0]] = False
        self.sets: dict[Ranks, NumbersBySet] = {}
        for number in np.flatnonzero(others).tolist():
            names = queries[number].attributes
            ranks = tuple(sorted([rank_of[name] for name in names]))
            self.sets.setdefault(ranks, {}).setdefault(names, []).append(number)

    def cheapest(self) -> list[ScanPart]:
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
        """Sets that the product may answer: of one or two attributes, all or the narrow ones, if the matrix fits."""
        pairs = [ranks for ranks in sets if len(ranks) <= 2]
        touched = set(chain.from_iterable(pairs))
        out = []
        for width in (2**12, 64, 16, 4):
            narrow = self.paired.union(rank for rank in touched if self.counts[rank] <= width)
            inside = [ranks for ranks in pairs if narrow.issuperset(ranks)]
            if self._is_multipliable(narrow) and len(inside) > 1 and inside not in out:
                out.append(inside)
        if out and self._product_cost(self.paired.union(*out[0])) < LEAST_PAIR_COST * len(out[0]):
            return out[:1]
        return [*out, [ranks for ranks in pairs if self.paired.issuperset(ranks)]]

    def _is_multipliable(self, ranks: Iterable[int]) -> bool:
        return self.dialect.streams and sum(self._shape(ranks)) ** 2 <= MAX_SCAN_CELLS

    def _aggregatable(self, sets: Sequence[Ranks]) -> list[list[Ranks]]:
        """Sets whose queries are cheaper as aggregates than by one GROUP BY each: all, those without texts, none."""
        queries = self.pushdown.queries
        scalar = [
            ranks
            for ranks in sets
            if not any(self.wide[rank] for rank in ranks)
            and self._queries_cost(ranks) < self._group_cost(ranks, [(ranks, [ranks])])
            and all(parts.can_aggregate(queries[number]) for number in self._numbers([ranks]))
        ]
        cheap = [ranks for ranks in scalar if not any(self.texts[rank] for rank in ranks)]
        return [*filter(None, (scalar, cheap if len(cheap) < len(scalar) else [])), []]

    def _grouped(self, base: _Draft, rest: Sequence[Ranks], most: float) -> list[_Draft]:
        """The draft with the rest grouped: all touched columns at once, or unions of sets up to some sizes."""
        if base.cost >= most or not rest:
            return [base]
        touched = tuple(sorted(set(chain.from_iterable(rest))))
        most_groups = self.dialect.most_groups or math.inf
        covers: list[Unions | None] = [[(touched, rest)]] if self._cells(touched) <= most_groups else []
        for limit in UNION_CELLS:
            if limit <= most_groups and self._cells(touched) > limit:
                allowed = (most - base.cost) / (self.statement_cost + 6.0)  # of one column
                covers.append(self._cover(rest, limit, allowed))
        out = []
        for unions in covers:
            if unions is None:
                continue
            cost = base.cost + sum(self._group_cost(union, self._histograms(union, sets)) for union, sets in unions)
            out.append(replace(base, cost=cost, unions=unions))
            most = min(most, cost)
        return out

    def _cover(self, sets: Iterable[Ranks], limit: int, most: float = math.inf) -> Unions | None:
        """Unions of sets that stay within some cells, each set in one of them; None if it takes more than `most`."""
        unions: list[set[int]] = []
        inside: list[list[Ranks]] = []
        cells: list[int] = []
        unions_of: dict[int, int] = {}  # by attribute, the unions that have it, as bits
        growing: list[int] = []  # at most 64 unions
        for ranks in sets:
            common = -1
            for rank in ranks:
                common &= unions_of.get(rank, 0)
            number = (common & -common).bit_length() - 1
            if number < 0:
                fits = (k for k in growing if cells[k] * self._cells(set(ranks) - unions[k]) <= limit)
                number = next(fits, len(unions))
                if number == len(unions):
                    if number >= most:
                        return None
                    unions.append(set())
                    inside.append([])
                    cells.append(1)
                    growing = [*growing[-64:], number]
                unions[number].update(ranks)
                for rank in ranks:
                    unions_of[rank] = unions_of.get(rank, 0) | 1 << number
                cells[number] = self._cells(unions[number])
                if 2 * cells[number] > limit:
                    growing.remove(number)
            inside[number].append(ranks)
        return [(tuple(sorted(union)), inner) for union, inner in zip(unions, inside, strict=True)]

    def _histograms(self, union: Ranks, sets: Sequence[Ranks]) -> Unions:
        """What the groups of a union are added up to: one histogram of all, or several of fewer attributes."""
        if self._cells(union) <= MAX_SCAN_CELLS:
            return [(union, sets)]
        return self._cover(sets, CACHED_CELLS) or []

    def _group_cost(self, union: Ranks, histograms: Unions) -> float:
        """A GROUP BY, with 16 ns for each doubling of the groups beyond what a cache has, and its histograms."""
        cells = self._cells(union)
        columns = sum(25.0 if self.texts[rank] else 3.0 for rank in union)
        scans = math.ceil(sum(self._cells(ranks) for ranks, _ in histograms) / MAX_PART_CELLS)
        doublings = min(max(math.log2(cells), 14), 24) - 14
        cost = scans * (self.statement_cost + 3.0 + columns + 16.0 * doublings)
        for ranks, sets in histograms:
            groups = min(1.0, cells / TYPICAL_ROWS) * (4.0 + 1.5 * len(ranks))
            cost += groups + 10.0 / TYPICAL_ROWS * self._cells(ranks) + 2e4 / TYPICAL_ROWS * len(sets)
        return cost

    def _queries_cost(self, ranks: Ranks) -> float:
        """Aggregates. Half of the 0.8 ns is planning: 0.4 ms each, whatever the rows."""
        queries = [self.pushdown.queries[number] for number in self._numbers([ranks])]
        return sum((query.cells * (0.8 + 0.6 * len(query.blocks)) for query in queries), 0.0)

    def _aggregates_cost(self, sets: Collection[Ranks]) -> float:
        cost, batched = 0.0, AGGREGATES
        touched: set[int] = set()
        for ranks in sorted(sets):
            if batched >= AGGREGATES:
                touched.clear()
                batched = 0
                cost += self.statement_cost
            cost += self._queries_cost(ranks) + sum(map(self._code_cost, set(ranks) - touched))
            touched.update(ranks)
            batched += sum(self.pushdown.queries[number].cells for number in self._numbers([ranks]))
        return cost

    def _product_cost(self, touched: Collection[int]) -> float:
        if not touched:
            return 0.0
        kept = sum(self.counts[rank] - 1 for rank in touched)
        return self.statement_cost + sum(map(self._code_cost, touched)) + 3.0 * kept + 0.02 * kept**2

    def _code_cost(self, rank: int) -> float:
        """The code of every row."""
        return 100.0 if self.texts[rank] else 3.0

    def _shape(self, ranks: Iterable[int]) -> tuple[int, ...]:
        return tuple(map(self.counts.__getitem__, ranks))

    def _cells(self, ranks: Iterable[int]) -> int:
        return math.prod(map(self.counts.__getitem__, ranks))

    def _numbers(self, sets: Iterable[Ranks]) -> list[int]:
        return [number for ranks in sets for numbers in self.sets[ranks].values() for number in numbers]

    def _queries(self, sets: Iterable[Ranks]) -> NumbersBySet:
        return {names: numbers for ranks in sets for names, numbers in self.sets[ranks].items()}

    def _names(self, ranks: Iterable[int]) -> Names:
        return tuple(self.names[rank] for rank in ranks)

    def _parts(self, draft: _Draft) -> Iterable[ScanPart]:
        paired = sorted(self.paired.union(*draft.multiplied))
        whole = len(draft.unions) == 1 and not paired and not draft.aggregated
        rows = self.sets.get((), {})
        for union, sets in draft.unions:
            for chunk in self._chunks(self._histograms(union, sets)):
                histograms = [
                    Histogram(self._names(ranks), self._shape(ranks), self._queries(inside)) for ranks, inside in chunk
                ]
                histograms[0].queries.update(rows)
                rows = {}
                yield self._group_by(union, tuple(histograms), cost=self._group_cost(union, chunk), whole=whole)
        if paired:
            yield self._product(paired, self._queries(draft.multiplied) | rows)
        if draft.aggregated:
            yield parts.aggregates(
                self.dialect,
                self.source,
                self.classes,
                self.pushdown.queries,
                self._numbers(draft.aggregated),
                starts=self.pushdown.starts,
                cost=self._aggregates_cost(draft.aggregated),
            )

    def _group_by(self, ranks: Ranks, histograms: tuple[Histogram, ...], *, cost: float, whole: bool) -> GroupBy:
        names = self._names(ranks)
        columns = [self.classes[name] for name in names]
        return GroupBy(
            attributes=names,
            statement=self.dialect.grouped(self.source, columns),
            readings=tuple(map(self.dialect.reading, columns)),
            histograms=histograms,
            whole=whole,
            cost=cost,
        )

    def _product(self, ranks: Sequence[int], queries: NumbersBySet) -> Product:
        names = self._names(ranks)
        columns = [self.classes[name] for name in names]
        numbers = [number for same in queries.values() for number in same]
        rows = np.isin(self.marginals[:, 0], numbers)
        whole = set(self.marginals[rows, 0].tolist())
        marginals = np.concatenate([self.pairs, self.marginals[rows]])
        marginals[:, 1:] = np.where(marginals[:, 1:] < 0, -1, np.searchsorted(ranks, marginals[:, 1:]))
        others = {names: [number for number in same if number not in whole] for names, same in queries.items()}
        return Product(
            attributes=names,
            shape=self._shape(ranks),
            statement=self.dialect.coded(self.source, columns),
            readings=tuple(map(self.dialect.reading, columns)),
            marginals=marginals,
            queries={names: same for names, same in others.items() if same},
            cost=self._product_cost(ranks),
        )

    def _chunks(self, histograms: Unions) -> Iterable[Unions]:
        """Consecutive histograms of at most `MAX_PART_CELLS` together; a larger one stands alone."""
        chunks: list[list[tuple[Ranks, Sequence[Ranks]]]] = []
        room = 0
        for histogram in histograms:
            cells = self._cells(histogram[0])
            if cells > room:
                chunks.append([])
                room = MAX_PART_CELLS
            chunks[-1].append(histogram)
            room -= cells
        return chunks


def _small_marginals(queries: Queries, rank_of: Mapping[str, int]) -> Integers:
    """The queries that are whole one- and two-way marginals, as (query, attribute, attribute or -1)."""
    widths, ranks = queries.widths, queries.attribute_ranks(rank_of)
    ends = np.cumsum(widths)
    few = np.flatnonzero(queries.are_marginals & (widths <= 2))
    first, second = ranks[ends[few] - widths[few]], np.where(widths[few] == 2, ranks[ends[few] - 1], -1)
    return np.stack([few, first, second], axis=1)


def _without(sets: Sequence[Ranks], taken: Iterable[Ranks]) -> list[Ranks]:
    gone = set(taken)
    return [ranks for ranks in sets if ranks not in gone]
