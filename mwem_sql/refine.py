"""The distribution of a few attributes together, by refinement: measure a partition, split it where there are rows, measure again.

Owns the tree of halves that partitions are taken from, the decision where to split, and the estimate from all that was measured:
least squares on the tree in closed form, non-negative, shrunk towards what was known before. Sees released values only; knows nothing of SQL,
kernels or budgets. Cells are the class combinations of the attributes, in row-major order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
import numpy.typing as npt

from mwem_sql.compiler.linear import Floats, Labels

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

BITS_ALONE, BITS_TOGETHER = 3, 4
"""Halvings between two measured partitions, of one attribute and of several. Fewer: more rounds of more noise; more: boundaries follow the data less."""
TAU_ALONE, TAU_TOGETHER = 8.0, 5.0
"""Noise of the next measurement, in standard deviations, above which a count is split. Smaller: noise is split, too; larger: small groups stay coarse."""
SURE = 3.0
"""The same for what is known of the count by then: less is no count."""
SHRINK = 0.5
"""Of a half's deviation from what was expected of it, squared, over its variance: what is taken off. 1 is James and Stein's for one number."""

FAINT = 1e-3
"""Of the noise on a part, in standard deviations: the least that is estimated of it. A part of no rows at all could never have any again."""


@dataclass(frozen=True, eq=False)
class Leaves:
    """What is known of the cells: the leaf of each, and of each leaf the estimated rows and the variance of that estimate.

    `base` is what cells share the rows of their leaf by.
    """

    labels: Labels
    values: Floats
    variances: Floats
    base: Floats

    @property
    def cells(self) -> Floats:
        """The rows of each cell."""
        return np.asarray((self.values / np.bincount(self.labels, self.base))[self.labels] * self.base)


class Halves:
    """A binary tree over cells: each level halves one attribute everywhere, that which was halved least; down to single cells.

    `order` are the cells from left to right; the nodes of level l begin in it at `starts[l]`, and `parents[l]` are their numbers in
    the level above. Level 0 is everything. `levels` are those that are measured.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        halvings = [_halvings(size) for size in shape]
        codes = np.zeros(prod(shape), dtype=np.int64)
        done = [0] * len(shape)
        bits = sum(map(len, halvings))
        for _ in range(bits):
            axis = min((own for own in range(len(shape)) if done[own] < len(halvings[own])), key=lambda own: (done[own], -shape[own]))
            side = halvings[axis][done[axis]].reshape(-1, *[1] * (len(shape) - axis - 1))
            codes = 2 * codes + np.broadcast_to(side, shape).reshape(-1)
            done[axis] += 1
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
        self.levels = _levels(bits, len(shape))

    def sums(self, cells: Floats, level: int) -> Floats:
        """Of all nodes of a level, the sum over their cells."""
        return np.asarray(np.add.reduceat(cells[self.order], self.starts[level]))


class Refinement:
    """A partition of cells that grows finer, and all that was measured of it."""

    def __init__(self, shape: Sequence[int]) -> None:
        """Begins with the coarsest partition that is measured."""
        self.tree = Halves(shape)
        self._shape = tuple(shape)
        self._tau = TAU_ALONE if len(shape) == 1 else TAU_TOGETHER
        nodes = [len(starts) for starts in self.tree.starts]
        self._sums = [np.zeros(count) for count in nodes]
        self._precisions = [np.zeros(count) for count in nodes]
        self._leaf = [np.zeros(count, dtype=np.bool_) for count in nodes]
        self._open = [np.full(count, level <= self.tree.levels[0]) for level, count in enumerate(nodes)]
        self._leaf[self.tree.levels[0]][:] = True

    @property
    def rounds(self) -> int:
        """How many partitions are measured at most."""
        return rounds_of(self._shape)

    @property
    def labels(self) -> Labels:
        """Of each cell, its part of the partition."""
        places, whole = np.empty(len(self.tree.order), dtype=np.int32), 0
        for level in self.tree.levels:
            leaf = self._leaf[level]
            number = np.where(leaf, whole + np.cumsum(leaf) - 1, -1)
            lengths = np.diff(np.append(self.tree.starts[level], len(places)))
            inside = np.repeat(leaf, lengths)
            places[inside] = np.repeat(number, lengths)[inside]
            whole += int(leaf.sum())
        labels = np.empty_like(places)
        labels[self.tree.order] = places
        return labels

    def tell(self, values: Floats, variance: float) -> None:
        """Take note of a measurement of the partition: a value for each part, all with the same variance."""
        done = 0
        for level in self.tree.levels:
            leaf = self._leaf[level]
            count = int(leaf.sum())
            self._sums[level][leaf] += values[done : done + count] / variance
            self._precisions[level][leaf] += 1 / variance
            done += count

    def split(self, variance: float) -> bool:
        """Split the parts that have more rows than noise makes up, theirs and that of the next measurement; whether there are any."""
        values, variances = self._upwards()
        estimates = self._downwards(values, variances)
        found = False
        for level, finer in reversed(list(zip(self.tree.levels, self.tree.levels[1:], strict=False))):
            chosen = self._leaf[level] & (estimates[level] > self._tau * sqrt(variance)) & (estimates[level] > SURE * np.sqrt(variances[level]))
            if chosen.any():
                found = True
                self._leaf[level] &= ~chosen
                for below in range(level + 1, finer + 1):
                    chosen = chosen[self.tree.parents[below]]
                    self._open[below] |= chosen
                self._leaf[finer] |= chosen
        return found

    @property
    def spread(self) -> float:
        """The largest variance of what was measured of a part."""
        return max(float((1 / self._precisions[level][self._leaf[level]]).max(initial=0.0)) for level in self.tree.levels)

    def total(self) -> tuple[float, float]:
        """The rows of all cells, and the variance of that."""
        values, variances = self._upwards()
        return float(values[0][0]), float(variances[0][0])

    def leaves(self, base: Floats, total: float) -> Leaves:
        """The estimate: rows of each part, which sum to `total`. `base` is what is known of the cells otherwise.

        Of several attributes, what the estimate says of each alone is a base, too, and so is the mean of both: the one that what was measured is
        nearest to is taken.
        """
        base = np.maximum(base / base.sum(), np.finfo(np.float64).tiny)
        found = self._estimated(base, total)
        if len(self._shape) > 1:
            cells = found.cells.reshape(self._shape)
            alone = np.ones(1)
            for axis in range(cells.ndim):
                own = cells.sum(axis=tuple(other for other in range(cells.ndim) if other != axis))
                alone = np.multiply.outer(alone, own / total)
            # A share of the other base, so that nothing is impossible.
            independent = (1 - FAINT) * alone.reshape(-1) + FAINT * base
            bases = (base, (base + independent) / 2, independent)
            best = min(bases, key=self._surprise)
            if best is not base:
                found = self._estimated(best, total)
        return found

    def _estimated(self, base: Floats, total: float) -> Leaves:
        values, variances = self._upwards()
        estimates = self._downwards(values, variances, [self.tree.sums(base, level) for level in range(len(values))], total)
        parts = [(estimates[level][self._leaf[level]], variances[level][self._leaf[level]]) for level in self.tree.levels]
        rows, spread = (np.concatenate(own) for own in zip(*parts, strict=True))
        rows = np.maximum(rows, FAINT * np.sqrt(spread))
        return Leaves(self.labels, rows * (total / rows.sum()), spread, base)

    def _surprise(self, base: Floats) -> float:
        """How far halves are from what a base expects of them, in logarithms, so that single ones do not decide."""
        values, variances = self._upwards()
        estimates = self._downwards(values, variances)
        sums = [self.tree.sums(base, level) for level in range(len(values))]
        found = 0.0
        for level in range(1, len(values)):
            parents, spread = self.tree.parents[level], variances[level]
            noise = spread * (1 - _shares(spread, parents))
            told = self._open[level] & (noise > 0)
            expected = np.maximum(estimates[level - 1][parents], 0) * sums[level] / sums[level - 1][parents]
            found += float(np.log1p(np.square(estimates[level] - expected)[told] / noise[told]).sum())
        return found

    def _upwards(self) -> tuple[list[Floats], list[Floats]]:
        """Of each node the best estimate from measurements of it and below it, and its variance."""
        values = [np.zeros(len(own)) for own in self._sums]
        variances = [np.zeros(len(own)) for own in self._sums]
        for level in range(len(values) - 1, -1, -1):
            open_ = self._open[level]
            if not open_.any():
                continue
            sums, precisions = self._sums[level].copy(), self._precisions[level].copy()
            inner = open_ & ~self._leaf[level]
            if inner.any():
                below, count = self.tree.parents[level + 1], len(sums)
                own = np.bincount(below, variances[level + 1], minlength=count)[inner]
                sums[inner] += np.bincount(below, values[level + 1], minlength=count)[inner] / own
                precisions[inner] += 1 / own
            values[level][open_] = sums[open_] / precisions[open_]
            variances[level][open_] = 1 / precisions[open_]
        return values, variances

    def _downwards(
        self, values: Sequence[Floats], variances: Sequence[Floats], base: Sequence[Floats] | None = None, total: float = 0.0
    ) -> list[Floats]:
        """Least squares over the tree: what halves say beyond what their parent says is shared by variance.

        With a base, halves are also non-negative, shrunk towards their parts of it, and everything sums to the total.
        """
        out = [values[0] if base is None else np.array([total])]
        for level in range(1, len(values)):
            open_ = self._open[level]
            found = np.zeros(len(open_))
            if open_.any():
                parents = self.tree.parents[level]
                count = len(out[-1])
                above, own, spread = out[-1][parents], values[level], variances[level]
                shares = _shares(spread, parents)
                found = own + (above - np.bincount(parents, own, minlength=count)[parents]) * shares
                if base is not None:
                    expected = above * base[level] / base[level - 1][parents]
                    away = found - expected
                    # Of one half given both: the same for either.
                    noise = spread * (1 - shares)
                    lost = np.divide(SHRINK * noise, away**2, out=np.ones_like(away), where=away**2 > SHRINK * noise)
                    found = np.clip(expected + (1 - lost) * away, 0, above)
                found = np.where(open_, found, 0.0)
            out.append(found)
        return out


def rounds_of(shape: Sequence[int]) -> int:
    """How many partitions of cells of this shape are measured at most."""
    return len(_levels(sum((size - 1).bit_length() for size in shape), len(shape)))


def _shares(spread: Floats, parents: Numbers) -> Floats:
    """Of each half, its part of the variance of both."""
    both = np.bincount(parents, spread)[parents]
    return np.divide(spread, both, out=np.zeros_like(spread), where=both > 0)


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


def _levels(bits: int, attributes: int) -> list[int]:
    """The levels of the tree that are measured, the last one included. Of one attribute the first is coarser: ranges add up what is beside them."""
    each, early = (BITS_ALONE, 1) if attributes == 1 else (BITS_TOGETHER, 0)
    count = max(1, round(bits / each))
    return [*((bits - early) * number // count for number in range(1, count)), bits]
