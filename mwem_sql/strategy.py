"""What may be measured for a workload: its queries, the marginals that their answers add up to, and partitions in the place of counts.

A marginal over fewer attributes costs as much privacy and has less noise; a partition costs as much as a count and tells more. Which of
them are worth it is for the selection to say. Public all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import comb

import numpy as np
import numpy.typing as npt

from mwem_sql.compiler.facts import Facts
from mwem_sql.compiler.linear import Block, Floats, LinearQuery
from mwem_sql.partitions import Counts

MOST_ADDED = 20_000
"""Marginals that are added to a workload, those of fewer parts first; and partitions."""
MOST_CELLS = 4_000_000
"""Of all marginals that are added, together; and of all partitions."""
FIRST_CELLS = 32
"""At most, of a grid of one attribute that is measured ahead of the rounds; not for fewer counts than that, or for the lesser part of a workload."""
SMALL = 64
"""Class combinations of partitions among which equal ones are looked for."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Strategy:
    """`queries` begins with those of the workload; the first cell of one that is a partition is the count that was asked for.

    What is added has the largest weight of the queries that it is part of.

    `first` are the numbers, from 0, of the marginals of a single part; if most queries are counts that join attributes (`grids_first`),
    also of a grid for each other attribute of these: what one attribute tells needs few cells, and rounds are left for what they tell
    together. `partitioned` says of how many counts there are partitions.
    """

    queries: list[LinearQuery]
    weights: Floats
    first: list[int]
    partitioned: int = 0
    grids_first: bool = False


def is_told_at_once(queries: Sequence[LinearQuery], cells: int, share: float) -> bool:
    """Whether all are parities and are better told from one histogram of the whole domain than in rounds that measure with such a share.

    A parity is the sum of all cells, with signs, each with the noise that the whole budget leaves; in a round one has the noise of its share.
    """
    if cells * share**2 > 1:
        return False
    blocks = Facts.of(queries).blocks
    return bool(blocks) and all(map(_is_sign, blocks))


def _is_sign(block: Block) -> bool:
    """Whether every record is counted once, or once less."""
    return block.size == 1 and block.values is not None and bool(((block.labels >= 0) & (np.abs(block.values) == 1)).all())


def extend(queries: Sequence[LinearQuery], weights: Floats) -> Strategy:
    """All that may be measured for a workload, as long as there is room for it."""
    return _with_partitions(queries, _with_marginals(queries, weights))


def _with_partitions(queries: Sequence[LinearQuery], strategy: Strategy) -> Strategy:
    """Put partitions in the place of a workload's counts, and add grids, and closer looks at what is counted."""
    if len(queries) > MOST_ADDED:
        return strategy
    counts = Counts(queries, strategy.weights)
    found, importance, first = strategy.queries.copy(), list[float](), dict[str, int]()
    partitions = dict(counts.partitions())
    for number, partition in partitions.items():
        found[number] = partition
    joining, joined = counts.joined()
    grids_first = joining > max(FIRST_CELLS, len(queries) / 2)
    told = {name for number in strategy.first for name in strategy.queries[number].attributes}
    untold = joined - told if grids_first else set()
    closer = ((float(strategy.weights[number]), query) for number, query in counts.closer())
    cells = 0
    for is_grid, (weight, query) in chain(((True, grid) for grid in counts.grids()), ((False, look) for look in closer)):
        cells += query.cells
        if len(importance) == MOST_ADDED or cells > MOST_CELLS:
            break
        if is_grid and len(query.blocks) == 1 and query.cells <= FIRST_CELLS and query.attributes[0] in untold:
            first[query.attributes[0]] = len(found)
        found.append(query)
        importance.append(weight)
    weights = np.concatenate([strategy.weights, importance])
    return _without_equals(Strategy(found, weights, [*strategy.first, *first.values()], len(partitions), grids_first), len(strategy.queries))


def _without_equals(strategy: Strategy, kept: int) -> Strategy:
    """Without what is there before; all up to a number stay. Of many classes few partitions are equal, and all are long."""
    numbers = np.arange(len(strategy.queries))
    small = numbers[[query.domain_cells <= SMALL for query in strategy.queries]]
    equal = small[Facts.of([strategy.queries[number] for number in small.tolist()]).firsts()]
    np.maximum.at(strategy.weights, equal, strategy.weights[small])
    # By number, the one that stays for it.
    stays = numbers.copy()
    stays[small] = np.where(small < kept, small, equal)
    is_new = stays == numbers
    place = (np.cumsum(is_new) - 1)[stays]
    queries = [strategy.queries[number] for number in np.flatnonzero(is_new).tolist()]
    return replace(strategy, queries=queries, weights=strategy.weights[is_new], first=place[strategy.first].tolist())


def _with_marginals(queries: Sequence[LinearQuery], weights: Floats) -> Strategy:
    """Add to a workload what its cuboids add up to, over fewer attributes."""
    facts = Facts.of(queries)
    parts = _Parts(facts)
    sets = parts.sets(facts, weights)
    found, importance, first, added = list(queries), [weights], [], 0
    for width in range(1, max((rows.shape[1] for rows, _ in sets), default=0) + 1):
        if len(parts.blocks) ** width >= 2**62 or any(comb(rows.shape[1], width) > MOST_ADDED for rows, _ in sets):
            break
        places = [(rows, own, list(some)) for rows, own in sets for some in combinations(range(rows.shape[1]), width)]
        codes = np.concatenate([parts.code(rows[:, some]) for rows, _, some in places])
        codes, which = np.unique(codes, return_inverse=True)
        largest = np.zeros(len(codes))
        np.maximum.at(largest, which.reshape(-1), np.concatenate([own for _, own, _ in places]))
        asked = parts.asked(facts, width)
        new = ~np.isin(codes, list(asked))
        rows = parts.decode(codes[new], width)
        added += int(parts.sizes[rows].prod(axis=1).sum())
        if len(found) - len(queries) + len(rows) > MOST_ADDED or added > MOST_CELLS:
            break
        if width == 1:
            first = sorted(asked.values()) + list(range(len(found), len(found) + len(rows)))
        found += [LinearQuery(tuple(parts.blocks[part] for part in row)) for row in rows.tolist()]
        importance.append(largest[new])
    return Strategy(found, np.concatenate(importance), first)


class _Parts:
    """The blocks of a workload's cuboids, equal ones once: each puts every record in one of several cells."""

    def __init__(self, facts: Facts) -> None:
        numbers: dict[bytes, int] = {}
        self.blocks: list[Block] = []
        # Of each block the number of its part, or -1 if it is none.
        self._of_block = np.full(len(facts.blocks), -1, dtype=np.int64)
        # In the order in which the workload has them, which is the same in every process.
        places, seen = np.unique(facts.members, return_index=True)
        for place in places[np.argsort(seen)].tolist():
            block = facts.blocks[place]
            if block.size > 1 and block.counts_all:
                self._of_block[place] = numbers.setdefault(block.key, len(self.blocks))
                if len(numbers) > len(self.blocks):
                    self.blocks.append(block)
        self.sizes = np.array([block.size for block in self.blocks], dtype=np.float64)

    def sets(self, facts: Facts, weights: Floats) -> list[tuple[Numbers, Floats]]:
        """The parts of each cuboid, and its weight; by number of parts."""
        widths = np.unique(facts.counts[facts.counts > 0]).tolist()
        found = [(rows, weights[numbers]) for numbers, rows in (self._cuboids(facts, width) for width in widths)]
        return [(rows, own) for rows, own in found if len(rows)]

    def asked(self, facts: Facts, width: int) -> dict[int, int]:
        """The cuboids of so many parts, by code."""
        numbers, rows = self._cuboids(facts, width)
        return dict(zip(self.code(rows).tolist(), numbers.tolist(), strict=True))

    def code(self, rows: Numbers) -> Numbers:
        """A number for each set of parts."""
        codes = np.zeros(len(rows), dtype=np.int64)
        for column in np.sort(rows, axis=1).T:
            codes = codes * len(self.blocks) + column
        return codes

    def decode(self, codes: Numbers, width: int) -> Numbers:
        """The sets of parts again."""
        return codes[:, None] // len(self.blocks) ** np.arange(width - 1, -1, -1) % len(self.blocks)

    def _cuboids(self, facts: Facts, width: int) -> tuple[Numbers, Numbers]:
        """The queries of so many blocks all of which are parts, and a row of those for each."""
        numbers, members = facts.of_count(width)
        rows = self._of_block[members]
        whole = (rows >= 0).all(axis=1)
        return numbers[whole], rows[whole]
