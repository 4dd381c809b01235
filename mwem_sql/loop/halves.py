"""The tree of halves: all class combinations of a few attributes, halved one attribute at a time. Public: it depends on the numbers of classes alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Floats

Numbers = npt.NDArray[np.int64]

BITS_ALONE, BITS = 3, 4
"""Halvings between two measured partitions: of one attribute about which ranges are asked, and otherwise. Fewer: more rounds of more noise; more:
boundaries follow the data less."""


class Halves:
    """A binary tree over cells: each level halves one attribute everywhere, that which was halved least; down to single cells.

    `order` are the cells from left to right; the nodes of level l begin in it at `starts[l]`, and `parents[l]` are their numbers in
    the level above. Level 0 is everything. `levels` are those that are measured; `surfaces` are how many nodes of each the side of a box cuts at
    most: as many as the halvings of the other attributes make.
    """

    def __init__(self, shape: Sequence[int], by_cells: bool = False) -> None:
        halvings = [_halvings(size) for size in shape]
        codes = np.zeros(prod(shape), dtype=np.int64)
        done = [0] * len(shape)
        bits = sum(map(len, halvings))
        halved = [done.copy()]
        for _ in range(bits):
            axis = min(
                (own for own in range(len(shape)) if done[own] < len(halvings[own])),
                key=lambda own: (done[own], -shape[own]),
            )
            side = halvings[axis][done[axis]].reshape(-1, *[1] * (len(shape) - axis - 1))
            codes = 2 * codes + np.broadcast_to(side, shape).reshape(-1)
            done[axis] += 1
            halved.append(done.copy())
        self.order: Numbers = np.argsort(codes, kind="stable")
        codes = codes[self.order]
        self.starts: list[Numbers] = []
        self.parents: list[Numbers] = []
        for level in range(bits + 1):
            own = codes >> (bits - level)
            starts = np.flatnonzero(np.concatenate([[True], own[1:] != own[:-1]]))
            above = self.starts[-1] if level else starts
            self.parents.append(np.searchsorted(above, starts, side="right") - 1)
            self.starts.append(starts)
        self.levels = _levels(bits, len(shape), by_cells)
        self.surfaces = [
            max(
                (
                    2 ** (level - halved[level][axis])
                    for axis, whole in enumerate(halvings)
                    if halved[above][axis] < len(whole)
                ),
                default=1,
            )
            for above, level in zip([0, *self.levels], self.levels, strict=False)
        ]

    def sums(self, cells: Floats, level: int) -> Floats:
        """Of all nodes of a level, the sum over their cells."""
        return np.asarray(np.add.reduceat(cells[self.order], self.starts[level]))


def rounds_of(shape: Sequence[int], by_cells: bool = False) -> int:
    """How many partitions of cells of this shape are measured at most."""
    return len(_levels(sum((size - 1).bit_length() for size in shape), len(shape), by_cells))


def _halvings(size: int) -> list[Numbers]:
    """Of each class, whether it is in the upper half when everything is halved, then every half, and so on."""
    lows, highs = np.zeros(size, dtype=np.int64), np.full(size, size, dtype=np.int64)
    classes, out = np.arange(size), []
    while (highs - lows).max() > 1:
        middle = (lows + highs) // 2
        upper = (classes >= middle) & (highs - lows > 1)
        out.append(upper.astype(np.int64))
        lows, highs = np.where(upper, middle, lows), np.where(upper | (highs - lows == 1), highs, middle)
    return out


def _levels(bits: int, attributes: int, by_cells: bool) -> list[int]:
    """The levels of the tree that are measured, the last one included. Of one attribute the first is coarser: ranges add up what is beside them."""
    is_line = attributes == 1
    count = max(1, round(bits / (BITS_ALONE if is_line and not by_cells else BITS)))
    return [*((bits - is_line) * number // count for number in range(1, count)), bits]
