"""What is measured for a workload, and what may be. Public all of it.

Where a workload asks about few sets of attributes, their joint distributions are what it needs: each is refined (`together`), and
nothing is selected. Otherwise the distribution of each attribute is refined first, and rounds select among the workload's queries, the
marginals that their answers add up to, and partitions in the place of counts (`extend`): a marginal over fewer attributes costs as much
privacy and has less noise; a partition costs as much as a count and tells more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.partition import Partition
from mwem_sql.algebra.queries import Queries
from mwem_sql.loop.derived import MOST_ADDED, MOST_CELLS, MOST_HELD, Counts, even_block, sides_of, with_marginals
from mwem_sql.model.state import State

MOST_ASKED = 1000
"""Different sets of attributes among which those are looked for that are in no other."""
PIECES = 8
"""Of the values that are summed, in a partition beside a sum."""
MOST_SETS = 8
"""Sets of attributes that are all refined; of more, rounds select."""
SMALL = 64
"""Class combinations of partitions among which equal ones are looked for."""


@dataclass(frozen=True, eq=False)
class Strategy:
    """`queries` begins with those of the workload; the first cell of one that is a partition is the count that was asked for.

    What is added has the largest weight of the queries that it is part of.

    `first` are the histograms over classes that are refined ahead of the rounds, or instead of them (`whole`); `always` is what is measured
    ahead of everything, as it is.
    """

    queries: Queries
    weights: Floats
    first: list[First]
    whole: bool = False
    always: list[Always] = field(default_factory=list)


@dataclass(frozen=True)
class First:
    """A histogram that is refined: its number, from 0, and its part of what is spent on all of them.

    `by_cells`: only cuboids ask about it, which need single cells; ranges need the sums over many, too.
    """

    query: int
    part: float
    by_cells: bool = False

    @property
    def number(self) -> int:
        """Its number for the kernel, which has the total before all queries."""
        return self.query + 1


@dataclass(frozen=True)
class Always:
    """A query that is measured in any case: its number, its part of what is spent on all of them, and which of the workload's it is."""

    query: int
    part: float
    asked: int

    @property
    def number(self) -> int:
        """Its number for the kernel."""
        return self.query + 1


def part_of(weight: float, cells: int) -> float:
    """The part of a share that makes the sum of weight^2 cells / share^2, over all that have one, smallest."""
    return float((weight**2 * cells) ** (1 / 3))


def are_parities(queries: Sequence[LinearQuery]) -> bool:
    blocks = Queries.of(queries).blocks
    return bool(blocks) and all(map(_is_sign, blocks))


def is_told_at_once(cells: int, share: float) -> bool:
    """Whether parities are better told from one histogram of so many cells than in rounds that measure with such a share.

    A parity is the sum of all cells, with signs, each with the noise that the whole budget leaves; in a round one has the noise of its share.
    """
    return cells * share**2 <= 1


def _is_sign(block: Block) -> bool:
    """Whether every record is counted once, or once less."""
    return (
        block.size == 1 and block.values is not None and bool(((block.labels >= 0) & (np.abs(block.values) == 1)).all())
    )


def together(
    queries: Sequence[LinearQuery],
    weights: Floats,
    sizes: Mapping[str, int],
    max_cells: int,
    always: Sequence[int] = (),
) -> Strategy | None:
    """The joint distributions of all sets of attributes that a workload asks about, if they are few and the model has room for them.

    Shares grow as the third root of cells times the square of the importance (`part_of`). What is measured `always` has a part beside
    the sets; a set that it tells cell by cell is not refined, too.
    """
    asked: dict[frozenset[str], list[int]] = {}
    for number, query in enumerate(queries):
        asked.setdefault(frozenset(name for name in query.attributes if sizes[name] > 1), []).append(number)
        if len(asked) > MOST_ASKED:
            return None
    sets = [names for names in asked if names and not any(names < other for other in asked)]
    if (
        not 0 < len(sets) <= MOST_SETS
        or any(prod(sizes[name] for name in names) > MOST_HELD for names in sets)
        or model_cells(sets, sizes, max_cells) > max_cells
    ):
        return None
    told = {frozenset(queries[number].attributes) for number in always if _is_every_cell(queries[number])}
    sets = [names for names in sets if names not in told]
    importance = {
        names: max(float(weights[own].max()) for other, own in asked.items() if other <= names and other)
        for names in sets
    }
    is_cells = {
        names: all(
            is_cuboid(queries[number]) for other, own in asked.items() if other and other <= names for number in own
        )
        for names in sets
    }
    found = [whole_domain({name: size for name, size in sizes.items() if name in names}) for names in sets]
    refined = [part_of(importance[names], query.cells) for query, names in zip(found, sets, strict=True)]
    measured = [part_of(float(weights[number]), queries[number].cells) for number in always]
    whole = sum(refined) + sum(measured)
    partitions = dict(Counts([queries[number] for number in always], weights[list(always)]).partitions())
    return Strategy(
        Queries.of([*found, *(partitions.get(place, queries[number]) for place, number in enumerate(always))]),
        np.ones(len(found) + len(always)),
        [
            First(number, part / whole, is_cells[names])
            for number, (part, names) in enumerate(zip(refined, sets, strict=True))
        ],
        whole=True,
        always=[
            Always(len(found) + place, part / whole, number)
            for place, (part, number) in enumerate(zip(measured, always, strict=True))
        ],
    )


def _is_every_cell(query: LinearQuery) -> bool:
    """Whether every class combination of its attributes is a cell of its own."""
    return query.cells == query.domain_cells and query.counts_all


def model_cells(sets: Sequence[frozenset[str]], sizes: Mapping[str, int], max_cells: int) -> int:
    """The cells of a model of all these sets; or of the first so many that are more than the limit."""
    state = State.uniform({name: np.ones(size) for name, size in sizes.items()}, 1.0)
    for names in sets:
        cells = state.cells_with(sorted(names))
        if cells > max_cells:
            return cells
        state.join(sorted(names))
    return state.cells


def cells_with(queries: Sequence[LinearQuery], sizes: Mapping[str, int], max_cells: int) -> int:
    """The same of a model that tells apart what these queries do."""
    partitions = {name: Partition.single(np.ones(size)) for name, size in sizes.items()}
    for query in queries:
        for block in query.blocks:
            for axis, name in enumerate(block.attributes):
                partitions[name] = partitions[name].refine(block.slices(axis))
    groups = {name: partition.count for name, partition in partitions.items()}
    return model_cells([frozenset(query.attributes) for query in queries], groups, max_cells)


def is_cuboid(query: LinearQuery) -> bool:
    return query.cells > 1 and query.counts_all


def whole_domain(shape: Mapping[str, int]) -> LinearQuery:
    """The histogram over all class combinations, as one query."""
    return LinearQuery(tuple(Block((name,), np.arange(size, dtype=np.int32), size) for name, size in shape.items()))


def extend(
    queries: Sequence[LinearQuery], weights: Floats, sizes: Mapping[str, int], rounds: int | None = None
) -> Strategy:
    """All that may be measured for a workload in rounds, as long as there is room for it. If their number is given, nothing comes first."""
    workload = Queries.of(queries)
    found = _with_partitions(workload, Strategy(*with_marginals(workload, weights), []), rounds)
    return found if rounds is not None else _with_first(_with_sums(found, workload), workload, sizes)


def _with_sums(strategy: Strategy, queries: Queries) -> Strategy:
    """With a partition beside each sum that joins attributes: what is summed in a few even pieces, the rest as it is asked.

    A sum counts in parts of the largest value that a record can have, and what is off by ten times may be a small part of that: next to counts it is
    never the worst. How many records have which values is on the scale of counts.
    """
    added, weights = list[LinearQuery](), list[float]()
    has_values = np.array([block.values is not None for block in queries.blocks], dtype=np.bool_)
    for number in np.flatnonzero(~queries.are_all(~has_values))[:MOST_ADDED].tolist():
        query = queries[number]
        summed = [block for block in query.blocks if block.values is not None and not _is_sign(block)]
        if summed and len(query.attributes) > 1:
            pieces = [
                even_block(name, size, min(PIECES, size))
                for block in summed
                for name, size in zip(block.attributes, block.labels.shape, strict=True)
            ]
            others = [_with_rest(block) for block in query.blocks if block.values is None]
            added.append(LinearQuery((*others, *pieces)))
            weights.append(float(strategy.weights[number]))
    if sum(query.cells for query in added) > MOST_CELLS:
        return strategy
    return replace(
        strategy,
        queries=Queries.joined([strategy.queries, Queries.of(added)]),
        weights=np.concatenate([strategy.weights, weights]),
    )


def _with_rest(block: Block) -> Block:
    """The cells of a block, and one more for the records that it does not count."""
    if block.counts_all:
        return block
    return (
        sides_of(block)
        if block.size == 1
        else Block(block.attributes, np.where(block.labels < 0, np.int32(block.size), block.labels), block.size + 1)
    )


def _with_first(strategy: Strategy, queries: Queries, sizes: Mapping[str, int]) -> Strategy:
    """With the distribution of each attribute that is counted by, refined first; shares grow as the third root of the cells.

    That is what makes the sum of cells / share^2 smallest, which the noise of all of them together is in proportion to.
    """
    by_cells, by_ranges = set[str](), set[str]()
    for block in queries.blocks:
        if block.values is None or not _is_sign(block):
            (by_cells if block.size > 1 and block.values is None else by_ranges).update(
                name for name in block.attributes if 1 < sizes[name] <= MOST_HELD
            )
    one_way = np.flatnonzero(strategy.queries.are_marginals & (strategy.queries.counts == 1)).tolist()
    plain = {strategy.queries[number].attributes[0]: number for number in one_way}
    count, added, weights, first = len(strategy.queries), list[LinearQuery](), [strategy.weights], []
    for name in (name for name in sizes if name in by_cells | by_ranges):
        number = plain.get(name, count + len(added))
        if name not in plain:
            added.append(whole_domain({name: sizes[name]}))
            weights.append(np.ones(1))
        first.append(First(number, sizes[name] ** (1 / 3), name not in by_ranges))
    whole = sum(own.part for own in first)
    return replace(
        strategy,
        queries=Queries.joined([strategy.queries, Queries.of(added)]),
        weights=np.concatenate(weights),
        first=[replace(own, part=own.part / whole) for own in first],
    )


def _with_partitions(queries: Queries, strategy: Strategy, rounds: int | None) -> Strategy:
    """Put partitions in the place of a workload's counts; where these are more than the rounds, add grids, and closer looks at what is counted."""
    if len(queries) > MOST_ADDED:
        return strategy
    counts = Counts(queries, strategy.weights)
    found, importance = list(strategy.queries), list[float]()
    partitions = dict(counts.partitions())
    for number, partition in partitions.items():
        found[number] = partition
    cells = 0
    closer = ((float(strategy.weights[number]), query) for number, query in counts.closer())
    for weight, query in chain(counts.grids(), closer) if rounds is None or len(partitions) > rounds else ():
        cells += query.cells
        if len(importance) == MOST_ADDED or cells > MOST_CELLS:
            break
        found.append(query)
        importance.append(weight)
    weights = np.concatenate([strategy.weights, importance])
    return _without_equals(Strategy(Queries.of(found), weights, []), len(strategy.queries))


def _without_equals(strategy: Strategy, kept: int) -> Strategy:
    """Without what is there before; all up to a number stay. Of many classes few partitions are equal, and all are long."""
    numbers = np.arange(len(strategy.queries))
    small = np.flatnonzero(strategy.queries.domain_cells <= SMALL)
    equal = small[strategy.queries.take(small).firsts()]
    np.maximum.at(strategy.weights, equal, strategy.weights[small])
    # By number, the one that stays for it.
    stays = numbers.copy()
    stays[small] = np.where(small < kept, small, equal)
    is_new = stays == numbers
    queries = strategy.queries.take(np.flatnonzero(is_new))
    return replace(strategy, queries=queries, weights=strategy.weights[is_new])
