"""Queries that follow from a workload's and may be measured in their place or beside them. Public all of it.

A cuboid adds up to marginals over fewer attributes: these cost as much privacy and have less noise. A count costs as
much privacy as counting all records by several cells. So a count has a partition: the records that it counts are its
first cell, and the others are in cells by where they are, before them or not. A closer look cuts those that are counted
into a few cells. Grids cut whole attributes, by one or two, into 2, 4, 8, ... cells of neighbouring classes. A record
is in one cell of each of them, as in one of a marginal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import comb, prod

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats, Integers
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.partition import Runs
from mwem_sql.algebra.queries import Queries

MOST_ADDED = 20_000
"""Marginals that are added to a workload, those of fewer parts first; and partitions."""
MOST_CELLS = 4_000_000
"""Of all marginals that are added, together; and of all partitions."""


def with_marginals(
    queries: Queries, weights: Floats, most_added: int = MOST_ADDED, most_cells: int = MOST_CELLS
) -> tuple[Queries, Floats]:
    """A workload and what its cuboids add up to, over fewer attributes, with the largest weight of those."""
    parts = _Parts(queries)
    sets = parts.sets(queries, weights)
    batches, importance, count, cells = [queries], [weights], 0, 0
    for width in range(1, max((rows.shape[1] for rows, _ in sets), default=0) + 1):
        if len(parts.blocks) ** width >= 2**62 or any(comb(rows.shape[1], width) > most_added for rows, _ in sets):
            break
        subsets = [
            (rows, weight, list(some)) for rows, weight in sets for some in combinations(range(rows.shape[1]), width)
        ]
        codes = np.concatenate([parts.code(rows[:, some]) for rows, _, some in subsets])
        codes, which = np.unique(codes, return_inverse=True)
        largest = np.zeros(len(codes))
        np.maximum.at(largest, which.reshape(-1), np.concatenate([weight for _, weight, _ in subsets]))
        existing = parts.cuboids(queries, width)
        new = ~np.isin(codes, list(existing))
        rows = parts.decode(codes[new], width)
        count += len(rows)
        cells += int(parts.sizes[rows].prod(axis=1).sum())
        if count > most_added or cells > most_cells:
            break
        batches.append(Queries(parts.blocks, rows.reshape(-1), np.full(len(rows), width)))
        importance.append(largest[new])
    return Queries.joined(batches), np.concatenate(importance)


class _Parts:
    """The blocks of a workload's cuboids, equal ones once: each puts every record in one of several cells."""

    def __init__(self, queries: Queries) -> None:
        numbers: dict[bytes, int] = {}
        self.blocks: list[Block] = []
        # Of each block the number of its part, or -1 if it is none.
        self._of_block = np.full(len(queries.blocks), -1, dtype=np.int64)
        for place, block in enumerate(queries.blocks):
            if block.size > 1 and block.counts_all:
                self._of_block[place] = numbers.setdefault(block.key, len(self.blocks))
                if len(numbers) > len(self.blocks):
                    self.blocks.append(block)
        self.sizes = np.array([block.size for block in self.blocks], dtype=np.float64)

    def sets(self, queries: Queries, weights: Floats) -> list[tuple[Integers, Floats]]:
        """The parts of each cuboid, and its weight; by number of parts."""
        widths = np.unique(queries.counts[queries.counts > 0]).tolist()
        sets = [(rows, weights[numbers]) for numbers, rows in (self._cuboids(queries, width) for width in widths)]
        return [(rows, weight) for rows, weight in sets if len(rows)]

    def cuboids(self, queries: Queries, width: int) -> dict[int, int]:
        """The cuboids of so many parts, by code."""
        numbers, rows = self._cuboids(queries, width)
        return dict(zip(self.code(rows).tolist(), numbers.tolist(), strict=True))

    def code(self, rows: Integers) -> Integers:
        """A number for each set of parts."""
        codes = np.zeros(len(rows), dtype=np.int64)
        for column in np.sort(rows, axis=1).T:
            codes = codes * len(self.blocks) + column
        return codes

    def decode(self, codes: Integers, width: int) -> Integers:
        """The sets of parts again."""
        return codes[:, None] // len(self.blocks) ** np.arange(width - 1, -1, -1) % len(self.blocks)

    def _cuboids(self, queries: Queries, width: int) -> tuple[Integers, Integers]:
        """The queries of so many blocks all of which are parts, and a row of those for each."""
        numbers, members = queries.of_count(width)
        rows = self._of_block[members]
        whole = (rows >= 0).all(axis=1)
        return numbers[whole], rows[whole]


def paired_parts(questions: Queries, candidates: Queries) -> Floats:
    """Of each question, the share of its parts that a round measures: of a cuboid two, where its pairs are there.

    A round may measure more: it selects. That it may is no reason for fewer rounds than where only pairs are asked for.
    """
    pairs = candidates.take(np.flatnonzero(candidates.counts == 2))
    if not _are_cuboids(pairs).any():
        return np.ones(len(questions))
    return np.where(_are_cuboids(questions), np.minimum(2 / np.maximum(questions.counts, 1), 1.0), 1.0)


def _are_cuboids(queries: Queries) -> Flags:
    """Those that count every record in one of several cells."""
    counts_all = np.array([block.counts_all for block in queries.blocks], dtype=np.bool_)
    return np.asarray((queries.cells > 1) & queries.are_all(counts_all))


COUNT_PIECES = 4
"""Cells into which a closer look cuts a count along an attribute. More: finer answers inside a count, each with the
same noise."""
MOST_PARTITION_CELLS = 36
"""Of a partition that stands for a count: two attributes with a closer look at both."""
MOST_HELD = 2**20
MOST_SUMMED = 2**28
"""Class combinations of an attribute set, and those times its counts, over which true answers are summed up.
Beyond, counts stay counts."""


class Counts:
    """The queries of a workload that count the records for which something holds: products of conditions."""

    def __init__(
        self,
        queries: Sequence[LinearQuery],
        weights: Floats,
        *,
        most_held: int = MOST_HELD,
        most_summed: int = MOST_SUMMED,
    ) -> None:
        self._queries = queries = Queries.of(queries)
        self._weights = weights
        self._sides = {block: sides_of(block) for block in queries.blocks if _is_condition(block)}
        is_condition = np.array([block in self._sides for block in queries.blocks], dtype=np.bool_)
        self._sets: dict[tuple[str, ...], list[int]] = {}
        for number in np.flatnonzero(queries.are_all(is_condition) & (queries.counts > 0)).tolist():
            self._sets.setdefault(tuple(sorted(queries[number].attributes)), []).append(number)
        for names, numbers in list(self._sets.items()):
            cells = queries[numbers[0]].domain_cells
            if cells > most_held or cells * len(numbers) > most_summed:
                del self._sets[names]

    def partitions(self) -> Iterator[tuple[int, LinearQuery]]:
        """Of each count, by number, its own partition, unless that has too many cells."""
        return self._each(self._sides)

    def closer(self) -> Iterator[tuple[int, LinearQuery]]:
        """The same with a closer look at what is counted, where that is more than one class."""
        cut = {block: _cut(block, sides) for block, sides in self._sides.items()}
        finer = {block for block, sides in self._sides.items() if cut[block].size > sides.size}
        return (
            (number, query) for number, query in self._each(cut) if not finer.isdisjoint(self._queries[number].blocks)
        )

    def grids(self) -> Iterator[tuple[float, LinearQuery]]:
        """Of each one and two attributes that a count is about, all grids, and the largest weight of those counts."""
        sizes: dict[str, int] = {}
        largest: dict[tuple[str, ...], float] = {}
        for names, numbers in self._sets.items():
            for block in self._queries[numbers[0]].blocks:
                sizes |= dict(zip(block.attributes, block.shape, strict=True))
            weight = float(self._weights[numbers].max())
            for some in (*((name,) for name in names), *combinations(names, 2)):
                largest[some] = max(largest.get(some, 0.0), weight)
        levels = {
            name: [even_block(name, size, cells) for cells in _doubled(size)]
            for name, size in sizes.items()
            if size > 1
        }
        for names in sorted(largest, key=len):
            for blocks in product(*(levels.get(name, ()) for name in names)):
                yield largest[names], LinearQuery(blocks)

    def _each(self, blocks: dict[Block, Block]) -> Iterator[tuple[int, LinearQuery]]:
        for numbers in self._sets.values():
            for number in numbers:
                parts = tuple([blocks[block] for block in self._queries[number].blocks])
                if prod([block.size for block in parts]) <= MOST_PARTITION_CELLS:
                    yield number, LinearQuery(parts)


def _is_condition(block: Block) -> bool:
    """Whether a block counts some records, not all of them and not by cells."""
    return block.size == 1 and block.values is None and len(block.runs) > 1


def sides_of(block: Block) -> Block:
    """The counted classes, those before them along the attribute, and the rest.

    Over several attributes: the counted class combinations, and the rest.
    """
    runs = block.runs
    sides = np.where(runs.numbers >= 0, 0, 1).astype(np.int32)
    if len(block.shape) == 1 and sides[0]:
        sides[2::2] = 2  # what is counted and what is not take turns
    return Block(block.attributes, Runs(runs.begins, sides, runs.shape), int(sides.max()) + 1)


def _cut(block: Block, sides: Block) -> Block:
    """The same with what is counted along an attribute cut into a few cells of as many classes each."""
    if len(block.shape) > 1:
        return sides
    inside = np.flatnonzero(block.labels >= 0)
    pieces = min(COUNT_PIECES, len(inside))
    labels = sides.labels + np.int32(pieces - 1)
    labels[inside] = np.arange(len(inside)) * pieces // len(inside)
    return Block(block.attributes, labels, sides.size + pieces - 1)


def _doubled(size: int) -> list[int]:
    """2, 4, 8, ... and the size itself."""
    return [*(2**power for power in range(1, size.bit_length()) if 2**power < size), size]


def even_block(name: str, size: int, cells: int) -> Block:
    return Block((name,), (np.arange(size) * cells // size).astype(np.int32), cells)
