"""The distribution of a few attributes together, by refinement.

Measure a partition, look closer where rows are many and uneven, measure again. Owns the tree of halves, which depends
on the numbers of classes alone, the decision where to look closer in it, and the estimate from all that was measured:
least squares on the tree (algebra/nested.py), non-negative, shrunk towards a start. Sees released values
only; knows nothing of SQL, kernels or budgets. Cells are the class combinations of the attributes, in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod, sqrt

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Flags, Floats, Labels
from mwem_sql.algebra.nested import LeastSquares
from mwem_sql.loop.plan import divided

Numbers = npt.NDArray[np.int64]

BITS_ALONE, BITS = 3, 4
"""Halvings between two measured partitions: for ranges over one attribute, and otherwise. Fewer: more rounds of more
noise; more: boundaries follow the data less."""


class Halves:
    """A binary tree over cells: each level halves the attribute that was halved least, down to single cells.

    `order` are the cells from left to right; the nodes of level l begin in it at `starts[l]`, and `parents[l]` are
    their numbers in the level above. Level 0 is everything. `levels` are those that are measured; `surfaces` are how
    many nodes of each the side of a box cuts at most: as many as the halvings of the other attributes make.
    """

    def __init__(self, shape: Sequence[int], by_cells: bool = False) -> None:
        halvings = [_halvings(size) for size in shape]
        codes = np.zeros(prod(shape), dtype=np.int64)
        done = [0] * len(shape)
        bits = sum(map(len, halvings))
        halved = [done.copy()]
        for _ in range(bits):
            axis = min(
                (each for each in range(len(shape)) if done[each] < len(halvings[each])),
                key=lambda each: (done[each], -shape[each]),
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
            nodes = codes >> (bits - level)
            starts = np.flatnonzero(np.concatenate([[True], nodes[1:] != nodes[:-1]]))
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


def partitions_of(shape: Sequence[int], by_cells: bool = False) -> int:
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
    """The levels of the tree that are measured, the last one included.

    Of one attribute the first is coarser: ranges add up what is beside them.
    """
    is_line = attributes == 1
    count = max(1, round(bits / (BITS_ALONE if is_line and not by_cells else BITS)))
    return [*((bits - is_line) * number // count for number in range(1, count)), bits]


MANY = 5.0
"""Noise of the next measurement, in standard deviations: a part of more rows may be split, halves of fewer are measured
as one. Smaller: noise is split, too; larger: small groups stay coarse."""
SURE = 3.0
"""Noise of what is known of a count by then, in standard deviations: less is no count. Smaller: noise is split; larger:
the first rounds split nothing."""
FLOOR = 1e-3
"""The least that is estimated of a part, in standard deviations of its noise. Smaller: a record where noise hides it
costs more in relative entropy, and without any no cell would ever have rows again (czech at epsilon 2, `python
benchmarks/contingency.py`: 3 runs of 50 at 0.04 to 0.13 instead of 0.001)."""


@dataclass(frozen=True, eq=False)
class Leaves:
    """What is known of the cells.

    The leaf of each, and of each leaf the estimated rows and the variance of that estimate.
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


class Refinement:
    """A partition of cells that follows the data, and all that was measured of it.

    `base` is what is known of the cells otherwise; `even` is the same without a start, if the base has one: what was
    measured says which of the two is nearer. A node of the tree is open if it is known: measured, or the sum of
    known halves. The known nodes without known halves are the leaves. What is measured next is a cut through the open
    nodes: leaves, and nodes above them whose leaves have too few rows to be told apart.
    """

    def __init__(
        self,
        shape: Sequence[int],
        base: Floats,
        *,
        even: Floats | None = None,
        by_cells: bool = False,
        at_once: bool = False,
    ) -> None:
        """Begins with the coarsest partition that is measured.

        `by_cells`: only cuboids are asked for; `at_once`: single cells are measured, and nothing else.
        """
        self.tree = Halves(shape, by_cells)
        self._levels = self.tree.levels[-1:] if at_once else self.tree.levels
        self._by_cells = by_cells
        self._shape = tuple(shape)
        # The last one without a start.
        least = np.finfo(np.float64).tiny
        self._known = [np.maximum(each / each.sum(), least) for each in (base, even) if each is not None]
        self._base = self._known[0]
        self._bases = self._sums_of(self._base)
        nodes = [len(starts) for starts in self.tree.starts]
        first = self._levels[0]
        self._sums = [np.zeros(count) for count in nodes]
        self._precisions = [np.zeros(count) for count in nodes]
        self._open = [np.full(count, level <= first) for level, count in enumerate(nodes)]
        self._leaf = [np.full(count, level == first) for level, count in enumerate(nodes)]
        self._cut = [leaf.copy() for leaf in self._leaf]

    @property
    def follows_start(self) -> bool:
        """Whether there is a start, and what was measured is nearer to it than to what is known without it."""
        return len(self._known) > 1 and self._base is self._known[0]

    def parts(self, power: int) -> list[float]:
        """What each measurement takes of a share, in proportion, if all are made. Variances fall with this power of it.

        A box adds up the parts that its sides cut, of every level; a cuboid asks for all parts. The sum of their
        variances is least when shares grow as a root of their number: the third one for a power of 2, the square root
        for 1.
        """
        cells = [len(self.tree.starts[level]) for level in self._levels]
        counts = cells if self._by_cells else self.tree.surfaces[-len(self._levels) :]
        return [count ** (1 / (power + 1)) for count in counts]

    @property
    def labels(self) -> Labels:
        """Of each cell, its part of the partition that is measured next."""
        return self._labels(self._cut)

    def add(self, values: Floats, variance: float) -> None:
        """Take note of a measurement of the partition: a value for each part, all with the same variance."""
        done = 0
        for level, cut in enumerate(self._cut):
            count = int(cut.sum())
            self._sums[level][cut] += values[done : done + count] / variance
            self._precisions[level][cut] += 1 / variance
            done += count

    def look(self, variance: float) -> bool:
        """Take the partition for the next measurement, which has this variance; whether it is another one.

        A leaf is split if it has many rows, and they are likely to be uneven: as much, in proportion, as in the family
        of halves that it comes from.
        """
        tree, estimates = self._solved_up()
        self._choose_base(tree, estimates)
        rows, variances = tree.down(estimates), tree.variances
        noise = sqrt(variance)
        uneven = self._unevenness(rows, tree)
        levels = [0, *self._levels]
        split = False
        for above, level, finer in reversed(list(zip(levels, levels[1:], levels[2:], strict=False))):
            family = np.arange(len(rows[level]))
            for between in range(level, above, -1):
                family = self.tree.parents[between][family]
            chosen = self._leaf[level] & (rows[level] > MANY * noise) & (rows[level] > SURE * np.sqrt(variances[level]))
            chosen &= rows[level] / 2 * uneven[above][family] > noise
            if chosen.any():
                split = True
                self._leaf[level] &= ~chosen
                for below in range(level + 1, finer + 1):
                    chosen = chosen[self.tree.parents[below]]
                    self._open[below] |= chosen
                self._leaf[finer] |= chosen
        before, self._cut = self._cut, self._cut_at([each <= MANY * noise for each in rows])
        return split or any((old != new).any() for old, new in zip(before, self._cut, strict=True))

    def measure(
        self,
        share: Fraction,
        parts: Sequence[float],
        measure: Callable[[Labels, Fraction], tuple[Floats, float]],
        variance: Callable[[Fraction], float],
    ) -> None:
        """Spend a share in these parts, a partition each; in fewer where these would be noise.

        Where there is nothing to look at more closely, the rest goes to the partition as it is.
        `measure` gives a value for each part, and their variance; `variance` is what it will be.
        """
        while parts:
            spent = divided(share, parts)[0]
            self.add(*measure(self.labels, spent))
            share = share - spent
            parts = self._with_signal(share, parts[1:], variance)
            if parts and not self.look(variance(divided(share, parts)[0])):
                parts = [1.0]

    def _with_signal(
        self, share: Fraction, parts: Sequence[float], variance: Callable[[Fraction], float]
    ) -> Sequence[float]:
        """As many of these parts as leave the fullest leaf more rows than noise; fewer are further apart."""
        tree, estimates = self._solved_up()
        leaves = [each[leaf] for each, leaf in zip(tree.down(estimates), self._leaf, strict=True)]
        fullest, fewer = float(np.concatenate(leaves).max()), parts
        while len(fewer) > 1 and fullest <= MANY * sqrt(variance(divided(share, fewer)[0])):
            fewer = fewer[1:]
        if len(fewer) < len(parts):
            done, last, count = self._levels[: -len(parts)], self._levels[-1], len(fewer)
            self._levels = [*done, *(last - (last - done[-1]) * left // count for left in reversed(range(count)))]
        return fewer

    def total(self) -> tuple[float, float]:
        """The rows of all cells, and the variance of that."""
        tree, estimates = self._solved_up()
        return float(estimates[0][0]), float(tree.variances[0][0])

    def leaves(self, total: float) -> Leaves:
        """The estimate: rows of each leaf, which sum to `total`.

        Of several attributes, what the estimate says of each alone is a base, too, and so is the mean of both: the one
        that what was measured is nearest to is taken.
        """
        tree, estimates = self._solved_up()
        self._choose_base(tree, estimates)
        leaves = self._leaves(tree, estimates, self._base, total)
        if len(self._shape) > 1:
            cells = leaves.cells.reshape(self._shape)
            alone = np.ones(1)
            for axis in range(cells.ndim):
                marginal = cells.sum(axis=tuple(other for other in range(cells.ndim) if other != axis))
                alone = np.multiply.outer(alone, marginal / total)
            # A share of the other base, so that nothing is impossible.
            independent = (1 - FLOOR) * alone.reshape(-1) + FLOOR * self._base
            rows = tree.down(estimates)
            best = min(
                (self._base, (self._base + independent) / 2, independent),
                key=lambda base: self._surprise(rows, tree, base),
            )
            if best is not self._base:
                leaves = self._leaves(tree, estimates, best, total)
        return leaves

    def _choose_base(self, tree: LeastSquares, estimates: Sequence[Floats]) -> None:
        """With a start or without it: whichever what was measured is nearer to."""
        if len(self._known) > 1:
            rows = tree.down(estimates)
            self._base = min(self._known, key=lambda base: self._surprise(rows, tree, base))
            self._bases = self._sums_of(self._base)

    def _leaves(self, tree: LeastSquares, estimates: Sequence[Floats], base: Floats, total: float) -> Leaves:
        shrunk = self._shrunk(tree, estimates, self._sums_of(base), total)
        rows = np.concatenate([each[leaf] for each, leaf in zip(shrunk, self._leaf, strict=True)])
        variances = np.concatenate([each[leaf] for each, leaf in zip(tree.variances, self._leaf, strict=True)])
        rows = np.maximum(rows, FLOOR * np.sqrt(variances))
        return Leaves(self._labels(self._leaf), rows * (total / rows.sum()), variances, base)

    def _surprise(self, rows: Sequence[Floats], tree: LeastSquares, base: Floats) -> float:
        """How far halves are from what a base expects of them, in logarithms, so that single ones do not decide."""
        sums, surprise = self._sums_of(base), 0.0
        for level in range(1, len(rows)):
            away, _, noise = self._differences(rows, tree, sums, level)
            has_noise = noise > 0
            surprise += float(np.log1p(np.square(away[has_noise]) / noise[has_noise]).sum())
        return surprise

    def _noise_share(self, tree: LeastSquares, estimates: Sequence[Floats], base: Sequence[Floats]) -> float:
        """What noise explains of the differences from a base (James and Stein): of k numbers, k - 2 over their squares.

        The two halves of a node differ by one number.
        """
        rows, squares, count = tree.down(estimates), 0.0, 0
        for level in range(1, len(rows)):
            away, _, noise = self._differences(rows, tree, base, level)
            has_noise = noise > 0
            squares += float((np.square(away[has_noise]) / noise[has_noise]).sum()) / 2
            count += len(np.unique(self.tree.parents[level][has_noise]))
        return min(1.0, max(0, count - 2) / squares) if squares > 0 else 0.0

    def _unevenness(self, rows: Sequence[Floats], tree: LeastSquares) -> list[Floats]:
        """Of each node, by how much of their rows the halves below it differ from the base; at most 1.

        Down to the next level that is measured.

        What noise adds to the differences on average is taken off.
        """
        # By node, sums over the halves below it: the squares of differences less their noise, and of what is expected.
        sums: Floats = np.zeros((2, len(rows[-1])))
        unevenness = [sums[0]]
        for level in range(len(rows) - 1, 0, -1):
            away, expected, noise = self._differences(rows, tree, self._bases, level)
            parents, count = self.tree.parents[level], len(rows[level - 1])
            squares = np.stack([away**2 - noise, expected**2]) + (0 if level in self._levels else sums)
            sums = np.stack([np.bincount(parents, part, minlength=count) for part in squares])
            share = np.divide(np.maximum(sums[0], 0), sums[1], out=np.zeros(count), where=sums[1] > 0)
            unevenness.insert(0, np.minimum(1, np.sqrt(share)))
        return unevenness

    def _differences(
        self, rows: Sequence[Floats], tree: LeastSquares, base: Sequence[Floats], level: int
    ) -> tuple[Floats, Floats, Floats]:
        """Of the nodes of a level.

        How far they are from what a base expects of them, what that is, and the variance of a half given both.
        Zeros where nothing is known.
        """
        parents, open_ = self.tree.parents[level], self._open[level]
        expected = np.maximum(rows[level - 1][parents], 0) * base[level] / base[level - 1][parents]
        noise = tree.variances[level] * (1 - tree.shares(level))
        return np.where(open_, rows[level] - expected, 0.0), np.where(open_, expected, 0.0), np.where(open_, noise, 0.0)

    def _cut_at(self, few: Sequence[Flags]) -> list[Flags]:
        """The highest nodes that are leaves, or have few rows and only leaves below them that were measured before."""
        whole = [np.zeros(0, dtype=np.bool_)] * len(few)
        for level in range(len(few) - 1, -1, -1):
            whole[level] = self._leaf[level] & (self._precisions[level] > 0)
            if level + 1 < len(few):
                both = np.bincount(self.tree.parents[level + 1], ~whole[level + 1], minlength=len(few[level])) == 0
                whole[level] |= self._open[level] & ~self._leaf[level] & few[level] & both
        cut, done = list[Flags](), np.zeros(1, dtype=np.bool_)
        for level, marked in enumerate(whole):
            done = done[self.tree.parents[level]] if level else done
            cut.append(~done & (marked | self._leaf[level]))
            done = done | cut[-1]
        return cut

    def _labels(self, parts: Sequence[Flags]) -> Labels:
        """Of each cell, the number of the marked node that it is in, those of upper levels first."""
        places, whole = np.empty(len(self.tree.order), dtype=np.int32), 0
        for starts, marked in zip(self.tree.starts, parts, strict=True):
            if marked.any():
                number = np.where(marked, whole + np.cumsum(marked) - 1, -1)
                lengths = np.diff(np.append(starts, len(places)))
                inside = np.repeat(marked, lengths)
                places[inside] = np.repeat(number, lengths)[inside]
                whole += int(marked.sum())
        labels = np.empty_like(places)
        labels[self.tree.order] = places
        return labels

    def _sums_of(self, cells: Floats) -> list[Floats]:
        return [self.tree.sums(cells, level) for level in range(len(self.tree.starts))]

    def _solved_up(self) -> tuple[LeastSquares, list[Floats]]:
        """The tree of what was measured, and of each node the best estimate from it and below it."""
        tree = LeastSquares(self.tree.parents, self._precisions)
        return tree, tree.up(self._sums)

    def _shrunk(
        self, tree: LeastSquares, estimates: Sequence[Floats], base: Sequence[Floats], total: float
    ) -> list[Floats]:
        """Least squares with non-negative halves, which sum to the total.

        Towards a start they are shrunk by what noise explains of their differences together.
        """
        lost = self._noise_share(tree, estimates, base) if self.follows_start else 0.0

        def correct(level: int, above: Floats, solved: Floats) -> Floats:
            expected = above * base[level] / base[level - 1][self.tree.parents[level]]
            shrunk = solved + lost * (expected - solved)
            return np.where(self._open[level], np.clip(shrunk, 0, above), 0.0)

        return tree.down(estimates, np.array([total]), correct)
