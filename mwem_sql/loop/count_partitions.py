"""Partitions in the place of counts: a count of some records costs as much privacy as counting all records by several cells.

A count's own partition has the records that it counts as its first cell, and the others by where they are: before them or not. A
closer look cuts those that are counted into a few cells. Grids cut whole attributes, by one or two, into 2, 4, 8, ... cells
of neighbouring classes. A record is in one cell of each of them, as in one of a marginal. Public all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.queries import Queries

PIECES = 4
"""Cells that a closer look cuts what is counted along an attribute into. More: finer answers inside a count, each with the same noise."""
MOST_CELLS = 36
"""Of a partition that stands for a count: two attributes with a closer look at both."""
MOST_HELD = 2**20
MOST_SUMMED = 2**28
"""Class combinations of an attribute set, and those times its counts, over which true answers are summed up; beyond, they stay counts."""


class Counts:
    """The queries of a workload that count the records for which something holds: products of conditions."""

    def __init__(self, queries: Sequence[LinearQuery], weights: Floats) -> None:
        self._queries = queries = Queries.of(queries)
        self._weights = weights
        self._sides = {block: sides_of(block) for block in queries.blocks if _is_condition(block)}
        is_condition = np.array([block in self._sides for block in queries.blocks], dtype=np.bool_)
        self._sets: dict[tuple[str, ...], list[int]] = {}
        for number in np.flatnonzero(queries.are_all(is_condition) & (queries.counts > 0)).tolist():
            self._sets.setdefault(tuple(sorted(queries[number].attributes)), []).append(number)
        for names, numbers in list(self._sets.items()):
            cells = queries[numbers[0]].domain_cells
            if cells > MOST_HELD or cells * len(numbers) > MOST_SUMMED:
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
                sizes |= dict(zip(block.attributes, block.labels.shape, strict=True))
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
                own = tuple([blocks[block] for block in self._queries[number].blocks])
                if prod([block.size for block in own]) <= MOST_CELLS:
                    yield number, LinearQuery(own)


def _is_condition(block: Block) -> bool:
    """Whether a block counts some records, not all of them and not by cells."""
    return block.size == 1 and block.values is None and 0 < int(np.count_nonzero(block.labels >= 0)) < block.labels.size


def sides_of(block: Block) -> Block:
    """What is counted, what comes before it along the attribute, and the rest; of several attributes, what is counted and the rest."""
    counted = block.labels >= 0
    labels = np.where(counted, 0, 1).astype(np.int32)
    if labels.ndim == 1:
        first = int(counted.argmax())
        labels[first:][~counted[first:]] = 2 if first else 1
    return Block(block.attributes, labels, int(labels.max()) + 1)


def _cut(block: Block, sides: Block) -> Block:
    """The same with what is counted along an attribute cut into a few cells of as many classes each."""
    inside = np.flatnonzero(block.labels.ravel() >= 0)
    pieces = min(PIECES, len(inside)) if block.labels.ndim == 1 else 1
    labels = sides.labels + np.int32(pieces - 1)
    labels.ravel()[inside] = np.arange(len(inside)) * pieces // len(inside)
    return Block(block.attributes, labels, sides.size + pieces - 1)


def _doubled(size: int) -> list[int]:
    """2, 4, 8, ... and the size itself."""
    return [*(2**power for power in range(1, size.bit_length()) if 2**power < size), size]


def even_block(name: str, size: int, cells: int) -> Block:
    return Block((name,), (np.arange(size) * cells // size).astype(np.int32), cells)
