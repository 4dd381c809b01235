"""UGrid and AGrid: Qardaji, Yang and Li (2013), "Differentially private grids for geospatial data". n is public in the
paper.
"""

from __future__ import annotations

import math

import numpy as np

from textbook.curator import Curator
from textbook.tree import consistent

EVEN = 10  # the paper's c: rows times epsilon in a cell at which noise and unevenness inside are about alike
FINE = EVEN / 2  # the paper's c2, for the second level
COARSE_LEAST = 10  # the paper's least number of steps along an axis of the first level
FIRST = 0.5  # the paper's alpha: of epsilon, for the first level


def ugrid(curator: Curator, epsilon: float, _: object = None) -> np.ndarray:
    """One even grid of m x m, m = sqrt(n epsilon / 10); a cell of the grid is spread evenly."""
    group = _grid(curator.shape, math.sqrt(curator.rows * epsilon / EVEN))
    return _spread(curator.counts(group, epsilon), group)


def agrid(curator: Curator, epsilon: float, _: object = None) -> np.ndarray:
    """A coarse grid of m1 x m1, m1 = max(10, sqrt(n epsilon / 10) / 4); in each of its cells one of m2 x m2, m2 =
    sqrt(its noisy count times epsilon_2 / 5).
    """
    first, second = FIRST * epsilon, (1 - FIRST) * epsilon
    coarse = _grid(curator.shape, max(COARSE_LEAST, math.sqrt(curator.rows * epsilon / EVEN) / 4))
    counts = curator.counts(coarse, first)
    fine = np.empty(curator.cells, dtype=np.int64)
    rows, columns = np.unravel_index(np.arange(curator.cells), curator.shape)
    used = 0
    for block, count in enumerate(counts):
        inside = np.flatnonzero(coarse == block)
        steps = max(1, math.ceil(math.sqrt(max(count, 0) * second / FINE)))
        axes = [axis[inside] - axis[inside].min() for axis in (rows, columns)]
        shape = [int(axis.max()) + 1 for axis in axes]
        fine[inside] = used + _grid(shape, steps)[np.ravel_multi_index(axes, shape)]
        used = int(fine[inside].max()) + 1
    again = curator.counts(fine, second)
    leaf_of = np.empty(used, dtype=np.int64)
    leaf_of[fine] = coarse
    groups = [leaf_of, np.arange(used)]
    variance = [np.full(len(counts), 2 / first**2), np.full(used, 2 / second**2)]
    return _spread(consistent(groups, [counts, again], variance), fine)


def _grid(shape: tuple[int, ...] | list[int], steps: float) -> np.ndarray:
    """The number of each cell's block when every axis is cut into so many even steps, at most its size."""
    cut = [min(size, max(1, math.ceil(steps))) for size in shape]
    places = [np.arange(size) * own // size for size, own in zip(shape, cut, strict=True)]
    return np.ravel_multi_index(np.meshgrid(*places, indexing="ij"), cut).ravel()


def _spread(counts: np.ndarray, group: np.ndarray) -> np.ndarray:
    return (counts / np.bincount(group, minlength=len(counts)))[group]
