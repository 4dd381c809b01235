"""Ranges over one attribute, rectangles over two, boxes over three: as arrays of ends, as SQL, and answered all at
once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import mwem_sql


@dataclass(frozen=True, eq=False)
class Boxes:
    """A row of ends per box, both included; a column per attribute."""

    shape: tuple[int, ...]
    lows: np.ndarray
    highs: np.ndarray

    @classmethod
    def prefixes(cls, size: int) -> Boxes:
        """All values up to each."""
        return cls((size,), np.zeros((size, 1), dtype=np.int64), np.arange(size)[:, None])

    @classmethod
    def random(cls, shape: Sequence[int], count: int, seed: int) -> Boxes:
        """Two values per attribute, in order."""
        generator = np.random.default_rng(seed)
        ends = np.sort([[generator.integers(0, size, count) for size in shape] for _ in range(2)], axis=0)
        return cls(tuple(shape), ends[0].T, ends[1].T)

    def __len__(self) -> int:
        return len(self.lows)

    def answers(self, counts: np.ndarray) -> np.ndarray:
        """The sum of the counts in each box: differences of prefix sums."""
        sums = counts
        for axis in range(counts.ndim):
            sums = np.cumsum(sums, axis=axis)
        sums = np.pad(sums, [(1, 0)] * counts.ndim)
        out = np.zeros(len(self))
        for corner in itertools.product((0, 1), repeat=counts.ndim):
            places = tuple(
                np.where(high, self.highs[:, axis] + 1, self.lows[:, axis]) for axis, high in enumerate(corner)
            )
            out += (-1) ** (counts.ndim - sum(corner)) * sums[places]
        return out

    def inside(self, number: int) -> np.ndarray:
        """Whether each cell, in row-major order, is in one box."""
        out = np.zeros(self.shape, dtype=bool)
        out[tuple(slice(low, high + 1) for low, high in zip(self.lows[number], self.highs[number], strict=True))] = True
        return out.ravel()

    def sample(self, count: int, seed: int = 0) -> np.ndarray:
        """A row of zeros and ones for each of so many of the boxes, or for all if there are fewer."""
        chosen = np.random.default_rng(seed).permutation(len(self))[:count]
        return np.array([self.inside(number) for number in chosen], dtype=np.float32)

    def workload(self, names: Sequence[str]) -> mwem_sql.Workload:
        """The boxes as predicates: `a <= high` where there is no lower end, otherwise BETWEEN."""
        return mwem_sql.Workload.from_predicates(
            " AND ".join(
                f'"{name}" <= {high}' if low == 0 and len(names) == 1 else f'"{name}" BETWEEN {low} AND {high}'
                for name, low, high in zip(names, lows, highs, strict=True)
            )
            for lows, highs in zip(self.lows.tolist(), self.highs.tolist(), strict=True)
        )
