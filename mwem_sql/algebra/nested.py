"""Least squares on a tree, and nested partitions of the same attributes as such a tree. Pure array work.

A node is the sum of the nodes below it, and some nodes were measured. Two passes solve the normal equations: up, the
best estimate of each node from it and all below it; down, what the nodes below another say beyond that one is shared
among them by variance. Refinement estimates rows by it, and intervals the weight of each measurement in a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats, Integers, Places
from mwem_sql.algebra.linear import Block
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.algebra.table import Table

_CHUNK_NUMBERS = 2**17
"""Numbers that passes over a tree work on at a time. More: a processor no longer keeps them near."""


class LeastSquares:
    """A tree by levels, the top first.

    `variances` are those of the best estimate of each node from it and below it; 0 where there is none.
    """

    def __init__(self, parents: Sequence[Places], precisions: Sequence[Floats]) -> None:
        """`parents`: of each node of a level, its parent in the level above, ascending.

        `precisions`: of each node, that of its measurements, 0 without one.
        """
        self._parents = parents
        self._begins = [np.flatnonzero(np.diff(each, prepend=-1)) for each in parents]
        self._counts = [len(each) for each in precisions]
        self._below = [np.zeros(count) for count in self._counts]
        self.variances = [np.zeros(count) for count in self._counts]
        for level in range(len(parents) - 1, -1, -1):
            whole = precisions[level].copy()
            if level + 1 < len(parents):
                below = self._below[level] = self._gathered(self.variances[level + 1], level + 1)
                whole += np.divide(1, below, out=np.zeros_like(below), where=below > 0)
            np.divide(1, whole, out=self.variances[level], where=whole > 0)

    def up(self, sums: Sequence[Floats]) -> list[Floats]:
        """Of each node the best estimate from it and below it, from `sums` of values times precision by node."""
        estimates = list(sums)
        for level in range(len(sums) - 1, -1, -1):
            total, variances = sums[level], self.variances[level]
            if level + 1 < len(sums):
                below = self._below[level]
                inverse = np.divide(1, below, out=np.zeros_like(below), where=below > 0)
                total = total + _by_node(inverse, total) * self._gathered(estimates[level + 1], level + 1)
            estimates[level] = total * _by_node(variances, total)
        return estimates

    def down(
        self,
        estimates: Sequence[Floats],
        top: Floats | None = None,
        correct: Callable[[int, Floats, Floats], Floats] | None = None,
    ) -> list[Floats]:
        """The least squares estimates of all nodes, from those of `up`; `top` replaces those of the first level.

        `correct` may change those of a level: it gets the level, the estimates of its nodes' parents, and of its nodes.
        """
        out = [estimates[0] if top is None else top]
        for level in range(1, len(estimates)):
            parents, estimate = self._parents[level], estimates[level]
            surplus = (out[-1] - self._gathered(estimate, level))[parents]
            solved = estimate + surplus * _by_node(self.shares(level), estimate)
            out.append(solved if correct is None else correct(level, out[-1][parents], solved))
        return out

    def shares(self, level: int) -> Floats:
        """Of each node of a level, its part of the variance of all that have its parent."""
        variances, whole = self.variances[level], self._below[level - 1][self._parents[level]]
        return np.divide(variances, whole, out=np.zeros_like(variances), where=whole > 0)

    def _gathered(self, values: Floats, level: int) -> Floats:
        """Of each node of the level above, the sum over the nodes below it."""
        out = np.zeros((self._counts[level - 1], *values.shape[1:]))
        begins = self._begins[level]
        if len(begins):
            out[self._parents[level][begins]] = np.add.reduceat(values, begins, axis=0)
        return out


def _by_node(numbers: Floats, like: Floats) -> Floats:
    """A number per node, to multiply an array that may have further axes."""
    return numbers.reshape(-1, *[1] * (like.ndim - 1))


@dataclass(frozen=True, eq=False)
class Estimates:
    """Of each of several sums of measured cells: its value, the variance of its noise and the fourth cumulant of that.

    `moments` has a row for each of the three, and a column per sum.
    """

    moments: Floats

    @property
    def values(self) -> Floats:
        return np.asarray(self.moments[0])

    @property
    def variances(self) -> Floats:
        return np.asarray(self.moments[1])

    @property
    def fourths(self) -> Floats:
        return np.asarray(self.moments[2])

    @classmethod
    def joined(cls, several: Sequence[Estimates]) -> Estimates:
        return cls(np.concatenate([each.moments for each in several], axis=1))


class NestedPartitions:
    """Measured partitions as a tree of nodes, each a stretch of atoms: the parts that are not split any more.

    `block` has the atom of each class combination.
    """

    def __init__(self, partitions: Sequence[Measurement], cumulants: Sequence[tuple[float, float]]) -> None:
        """`cumulants`: of each, the variance and the fourth cumulant of the noise on a value."""
        block = partitions[0].query.blocks[0]
        parts = [_labels(partition, block.attributes) for partition in partitions]
        atoms = parts[0]
        for labels in parts[1:]:
            atoms = np.unique(atoms * (int(labels.max()) + 1) + labels, return_inverse=True)[1].reshape(-1)
        count = int(atoms.max()) + 1
        first = np.unique(atoms, return_index=True)[1]
        inside = np.stack([labels[first] for labels in parts])
        sizes = np.stack([np.bincount(labels)[labels] for labels in inside])
        firsts = np.stack([_first_of(labels) for labels in inside])
        # Equal parts of different partitions are one node, identified by its size and its first atom.
        keys, node = np.unique(sizes * count + firsts, return_inverse=True)
        node = node.reshape(sizes.shape)
        largest_first = np.take_along_axis(node, np.argsort(-sizes, axis=0, kind="stable"), axis=0)
        order = np.lexsort(largest_first[::-1])
        position = np.empty(count, dtype=np.int64)
        position[order] = np.arange(count)
        self.block = Block(block.attributes, position[atoms].reshape(block.shape).astype(np.int32), count)
        length, begin = keys // count, np.full(len(keys), count, dtype=np.int64)
        np.minimum.at(begin, node.reshape(-1), np.tile(position, len(parts)))
        precisions, sums, fourths = (np.zeros(len(keys)) for _ in range(3))
        for labels, partition, (variance, fourth), nodes in zip(inside, partitions, cumulants, node, strict=True):
            which, where = np.unique(nodes, return_index=True)
            sums[which] += partition.values[labels[where]] / variance
            precisions[which] += 1 / variance
            fourths[which] += fourth / variance**4
        ordered, parents = _levels(_parents(begin, length))
        ends = np.cumsum([len(each) for each in parents])[:-1]
        self._tree = LeastSquares(parents, np.split(precisions[ordered], ends))
        # Of each node, what a unit of the normal equations' solution takes of its measurements, and adds to variance
        # and fourth cumulant.
        self._worth = np.stack([sums, precisions, fourths])[:, ordered]
        leaves = np.flatnonzero(length[ordered] == 1)
        self._leaves, self._ends = leaves[np.argsort(begin[ordered][leaves])], ends

    def estimates(self, factors: Floats | Flags) -> Estimates:
        """The least squares estimates of sums of atoms, by all measurements.

        `factors` has a row per atom and a column per sum. Least squares are linear in the values, with weights that
        scales alone decide: no bias, and a variance and a fourth cumulant that follow from the scales.
        """
        out = np.zeros((3, factors.shape[1]))
        step = max(1, _CHUNK_NUMBERS // self._worth.shape[1])
        for first in range(0, factors.shape[1], step):
            columns = slice(first, first + step)
            atoms = np.zeros((self._worth.shape[1], min(step, factors.shape[1] - first)))
            atoms[self._leaves] = factors[:, columns]
            x = np.concatenate(self._tree.down(self._tree.up(np.split(atoms, self._ends))))
            squares = x * x
            out[:, columns] = self._worth[0] @ x, self._worth[1] @ squares, self._worth[2] @ (squares * squares)
        return Estimates(out)


def _levels(parent: Integers) -> tuple[Integers, list[Integers]]:
    """The nodes from the top down, and by level the position of each one's parent in the level above; -1 at the top."""
    nodes = np.flatnonzero(parent < 0)
    ordered, parents = [nodes], [np.full(len(nodes), -1, dtype=np.int64)]
    while True:
        position = np.full(len(parent) + 1, -1, dtype=np.int64)
        position[nodes] = np.arange(len(nodes))
        above = position[parent]
        nodes = np.flatnonzero(above >= 0)
        if not len(nodes):
            return np.concatenate(ordered), parents
        nodes = nodes[np.argsort(above[nodes], kind="stable")]
        ordered.append(nodes)
        parents.append(above[nodes])


def _parents(begin: Integers, length: Integers) -> Integers:
    """Of each stretch of atoms, the smallest other that has it; -1 if none has."""
    out, above = np.full(len(begin), -1, dtype=np.int64), list[int]()
    for number in np.lexsort((-length, begin)).tolist():
        while above and begin[above[-1]] + length[above[-1]] <= begin[number]:
            above.pop()
        out[number] = above[-1] if above else -1
        above.append(number)
    return out


def is_nested(one: Measurement, other: Measurement) -> bool:
    """Whether two partitions are of the same attributes, and of any two parts that overlap one is inside the other."""
    names = one.query.attributes
    if frozenset(names) != frozenset(other.query.attributes):
        return False
    left, right = _labels(one, names), _labels(other, names)
    sizes = np.bincount(left), np.bincount(right)
    keys, common = np.unique(left * len(sizes[1]) + right, return_counts=True)
    smaller = np.minimum(sizes[0][keys // len(sizes[1])], sizes[1][keys % len(sizes[1])])
    return bool((common == smaller).all())


def _labels(partition: Measurement, names: Sequence[str]) -> Integers:
    """Of each class combination its part, attributes in this order."""
    block = partition.query.blocks[0]
    return Table(block.attributes, block.labels).project(names).cells.reshape(-1).astype(np.int64)


def _first_of(labels: Integers) -> Integers:
    """Of each position, the first that has its label."""
    _, first, which = np.unique(labels, return_index=True, return_inverse=True)
    return first[which.reshape(-1)]
