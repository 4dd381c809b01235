"""Counts and partitions that are sums over boxes, very many of them over the same attributes: differences of one table of prefix sums.

Owns which queries these are and how they are answered so; whether it is done is the business of whoever asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Array, Floats, Integers, Places
from mwem_sql.algebra.linear import Block, LinearQuery

MANY_BOXES = 100
"""Queries over the same attributes from which on they are answered so. Fewer: the table of prefix sums costs more than it saves."""
MOST_ATTRIBUTES = 2
"""Of a query that is answered so. A box has a corner for each way to be low or high: each attribute doubles the work."""
MOST_RUNS = 40
"""Stretches of neighbouring classes in a block that is answered so. A query has a box for each combination of them, so more cost more than its cells."""


class Boxes:
    """Queries over the same attributes in the same order, each a sum over boxes: products of stretches of neighbouring classes."""

    def __init__(self, queries: Sequence[LinearQuery]) -> None:
        """All of them are such that `is_boxes` says so."""
        self.queries = list(queries)
        sizes = np.array([query.shape for query in queries], dtype=np.int64)
        self._cells_before = np.cumsum(sizes.prod(axis=1)) - sizes.prod(axis=1)
        runs = {id(block): _counted(block) for query in queries for block in query.blocks}
        own = [[runs[id(block)] for block in query.blocks] for query in queries]
        alike: dict[tuple[int, ...], list[int]] = {}
        for number, found in enumerate(own):
            alike.setdefault(tuple([part.shape[1] for part in found]), []).append(number)
        cells, ends = [], []
        for counts, numbers in alike.items():
            # Of each axis its low ends, high ends and cells, a row per query; then of all boxes of the query.
            axes = [np.array([own[number][axis] for number in numbers]) for axis in range(len(counts))]
            wide = [
                np.broadcast_to(
                    part.reshape(len(numbers), 3, *(-1 if axis == other else 1 for other in range(len(counts)))),
                    (len(numbers), 3, *counts),
                )
                for axis, part in enumerate(axes)
            ]
            cell = np.zeros((len(numbers), *counts), dtype=np.int64)
            for axis, part in enumerate(wide):
                cell = cell * sizes[numbers, axis].reshape(-1, *[1] * len(counts)) + part[:, 2]
            begins = self._cells_before[numbers]
            cells.append((cell + begins.reshape(-1, *[1] * len(counts))).ravel())
            ends.append([part[:, side].ravel() for part in wide for side in (0, 1)])
        self._cells = np.concatenate(cells)
        # Of all boxes, where they begin along the first attribute, where they end, where they begin along the second, and so on.
        self._ends = [np.concatenate(own) for own in zip(*ends, strict=True)]

    def answers(self, marginal: Array) -> list[Array]:
        """One array per query, from a marginal over their attributes."""
        sums = _prefixes(marginal)
        boxes = np.zeros(len(self._cells), dtype=marginal.dtype)
        for sign, corner in self._corners():
            boxes += sign * sums[corner]
        return self._added(boxes)

    def spread(self, marginal: Floats, places: Sequence[tuple[Places, Floats]]) -> list[Floats]:
        """The same from a marginal over stretches of classes, each of which has its weight by shares.

        `places` has for each attribute, and each place before, between and after classes, the stretch that it is in and the share of it that comes before.
        Prefix sums are linear along a stretch, so that no array over classes is needed.
        """
        sums = _prefixes(marginal)
        boxes = np.zeros(len(self._cells))
        for sign, corner in self._corners():
            found = [(stretch[own], share[own]) for (stretch, share), own in zip(places, corner, strict=True)]
            for beyond in product((0, 1), repeat=len(found)):
                weights = prod(share if own else 1 - share for own, (_, share) in zip(beyond, found, strict=True))
                boxes += (
                    sign * weights * sums[tuple(stretch + own for own, (stretch, _) in zip(beyond, found, strict=True))]
                )
        return self._added(boxes)

    def _corners(self) -> Iterator[tuple[int, tuple[Integers, ...]]]:
        """Of all boxes the corners at one side of each attribute, and whether what is before them is added or taken off."""
        for sides in product((0, 1), repeat=len(self._ends) // 2):
            yield (-1) ** sides.count(0), tuple(self._ends[2 * axis + side] for axis, side in enumerate(sides))

    def _added(self, boxes: Array) -> list[Array]:
        """The boxes of each cell together, and the cells of each query."""
        out = np.zeros(int(self._cells_before[-1]) + self.queries[-1].cells, dtype=boxes.dtype)
        np.add.at(out, self._cells, boxes)
        return np.split(out, self._cells_before[1:])


def _prefixes(marginal: Array) -> Array:
    sums = np.zeros([size + 1 for size in marginal.shape], dtype=marginal.dtype)
    sums[(slice(1, None),) * marginal.ndim] = marginal
    for axis in range(marginal.ndim):
        np.cumsum(sums, axis=axis, out=sums)
    return sums


def many_boxes(queries: Sequence[LinearQuery]) -> dict[tuple[str, ...], list[int]]:
    """Numbers of the queries that are worth answering so, by their attributes; these may differ from query to query."""
    found: dict[tuple[str, ...], list[int]] = {}
    for number, query in enumerate(queries if len(queries) >= MANY_BOXES else ()):
        if is_boxes(query):
            found.setdefault(query.attributes, []).append(number)
    return {attributes: numbers for attributes, numbers in found.items() if len(numbers) >= MANY_BOXES}


def is_boxes(query: LinearQuery) -> bool:
    return 0 < len(query.blocks) <= MOST_ATTRIBUTES and all(map(_is_short, query.blocks))


def _is_short(block: Block) -> bool:
    return block.values is None and len(block.shape) == 1 and block.changes[0] < MOST_RUNS


def _counted(block: Block) -> Integers:
    """The stretches of neighbouring classes that are in a cell: a row of where they begin, of where they end, and of their cells."""
    found = np.array(block.stretches, dtype=np.int64)
    return found[:, found[2] >= 0]
