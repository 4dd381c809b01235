"""Answers to very many counts and partitions over the same attributes: differences of one table of prefix sums."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from mwem_sql.compiler.linear import Array, Block, LinearQuery

MANY = 100
"""Queries over the same attributes from which on it is worth it."""
MOST_ATTRIBUTES = 2
"""A box has a corner for each way to be low or high."""
MOST_RUNS = 40
"""Stretches of neighbouring classes in a cell, together, of a block that is answered so."""

Numbers = npt.NDArray[np.int64]


class Boxes:
    """Queries over the same attributes in the same order, each a sum over boxes: products of stretches of neighbouring classes."""

    def __init__(self, queries: Sequence[LinearQuery]) -> None:
        """All of them are such that `is_boxes` says so."""
        self.queries = list(queries)
        self._shape = tuple(block.extent + 1 for block in queries[0].blocks)
        sizes = np.array([query.shape for query in queries], dtype=np.int64)
        self.ends = np.cumsum(sizes.prod(axis=1))
        runs = {id(block): _counted(block) for query in queries for block in query.blocks}
        own = [[runs[id(block)] for block in query.blocks] for query in queries]
        alike: dict[tuple[int, ...], list[int]] = {}
        for number, found in enumerate(own):
            alike.setdefault(tuple([part.shape[1] for part in found]), []).append(number)
        cells, corners = [], []
        for counts, numbers in alike.items():
            # Of each axis its low ends, high ends and cells, a row per query; then of all boxes of the query.
            axes = [np.array([own[number][axis] for number in numbers]) for axis in range(len(counts))]
            wide = [
                np.broadcast_to(part.reshape(len(numbers), 3, *(-1 if axis == other else 1 for other in range(len(counts)))), (len(numbers), 3, *counts))
                for axis, part in enumerate(axes)
            ]
            cell = np.zeros((len(numbers), *counts), dtype=np.int64)
            for axis, part in enumerate(wide):
                cell = cell * sizes[numbers, axis].reshape(-1, *[1] * len(counts)) + part[:, 2]
            begins = (self.ends - sizes.prod(axis=1))[numbers]
            cells.append((cell + begins.reshape(-1, *[1] * len(counts))).ravel())
            corners.append([
                np.ravel_multi_index(tuple(part[:, side].ravel() for side, part in zip(sides, wide, strict=True)), self._shape)
                for sides in product((0, 1), repeat=len(counts))
            ])
        self._cells = np.concatenate(cells)
        self._corners = [np.concatenate(places) for places in zip(*corners, strict=True)]
        self._signs = [(-1) ** sides.count(0) for sides in product((0, 1), repeat=len(self._shape))]

    def answers(self, marginal: Array) -> Array:
        """Of all queries, one after the other, from a marginal over their attributes."""
        sums = np.zeros(self._shape, dtype=marginal.dtype)
        sums[(slice(1, None),) * marginal.ndim] = marginal
        for axis in range(marginal.ndim):
            np.cumsum(sums, axis=axis, out=sums)
        flat = sums.ravel()
        boxes = np.zeros(len(self._cells), dtype=marginal.dtype)
        for places, sign in zip(self._corners, self._signs, strict=True):
            boxes += sign * flat[places]
        out = np.zeros(self.ends[-1], dtype=marginal.dtype)
        np.add.at(out, self._cells, boxes)
        return out


def is_boxes(query: LinearQuery) -> bool:
    return 0 < len(query.blocks) <= MOST_ATTRIBUTES and all(map(_is_short, query.blocks))


def _is_short(block: Block) -> bool:
    return block.values is None and len(block.shape) == 1 and block.changes[0] < MOST_RUNS


def _counted(block: Block) -> Numbers:
    """The stretches of neighbouring classes that are in a cell: a row of where they begin, of where they end, and of their cells."""
    found = np.array(block.stretches, dtype=np.int64)
    return found[:, found[2] >= 0]
