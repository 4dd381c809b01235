"""Noisy answers, and nested partitions of the same attributes as one tree, as refinement measures them. Pure array work.

The nodes of the tree are the parts. A sum of its smallest parts, the atoms, is estimated by least squares over all answers: two passes, up and down, give the weight of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mwem_sql.queries.arrays import Floats, Integers
from mwem_sql.queries.contained import MOST_COMBINATIONS, Contained, Piece
from mwem_sql.queries.counts import AT_ONCE
from mwem_sql.queries.linear import Block, LinearQuery


@dataclass(frozen=True, eq=False)
class Noisy:
    """A noisy answer: a value per cell of `query`, and the variance and fourth cumulant of the noise on each."""

    query: LinearQuery
    values: Floats
    variance: float
    fourth: float

    @property
    def is_partition(self) -> bool:
        """Of the joint classes of its attributes, into parts that may be anything: only such partitions are nested."""
        return len(self.query.blocks) == 1 and self.query.blocks[0].counts_all


@dataclass(frozen=True, eq=False)
class Sums:
    """Of each asked cell: a sum of measured cells, the variance of its noise and the fourth cumulant of that."""

    values: Floats
    variances: Floats
    fourths: Floats


class Tree:
    """Nested partitions as a tree of nodes, each a stretch of atoms: the parts that are not split any more."""

    def __init__(self, answers: Sequence[Noisy]) -> None:
        block = answers[0].query.blocks[0]
        parts = [_labels(answer, block.attributes) for answer in answers]
        atoms = parts[0]
        for own in parts[1:]:
            atoms = np.unique(atoms * (int(own.max()) + 1) + own, return_inverse=True)[1].reshape(-1)
        count = int(atoms.max()) + 1
        first = np.unique(atoms, return_index=True)[1]
        inside = np.stack([own[first] for own in parts])
        sizes = np.stack([np.bincount(own)[own] for own in inside])
        firsts = np.stack([_first_of(own) for own in inside])
        # Equal parts of different partitions are one node, known by its size and its first atom.
        keys, node = np.unique(sizes * count + firsts, return_inverse=True)
        node = node.reshape(sizes.shape)
        largest_first = np.take_along_axis(node, np.argsort(-sizes, axis=0, kind="stable"), axis=0)
        order = np.lexsort(largest_first[::-1])
        place = np.empty(count, dtype=np.int64)
        place[order] = np.arange(count)
        self.block = Block(block.attributes, place[atoms].reshape(block.shape).astype(np.int32), count)
        self._length = keys // count
        self._begin = np.full(len(keys), count, dtype=np.int64)
        np.minimum.at(self._begin, node.reshape(-1), np.tile(place, len(parts)))
        self._parent = _parents(self._begin, self._length)
        precisions, values, fourths = (np.zeros(len(keys)) for _ in range(3))
        for own, answer, nodes in zip(inside, answers, node, strict=True):
            which, where = np.unique(nodes, return_index=True)
            values[which] += answer.values[own[where]] / answer.variance
            precisions[which] += 1 / answer.variance
            fourths[which] += answer.fourth / answer.variance**4
        # Of each node, what the answers to it are worth: what a unit of `_solved` takes of its value, and adds to variance and fourth cumulant.
        self._precisions, self._worth = precisions, np.stack([values, precisions, fourths])
        leaf = np.flatnonzero(self._length == 1)
        self._leaf = leaf[np.argsort(self._begin[leaf])]
        self._levels = _levels(self._parent)
        self._spreads()

    def _spreads(self) -> None:
        """Of each node, the variance of what its own answers and those inside it tell; the smallest nodes first."""
        self._variances, self._below = 1 / self._precisions, np.zeros(len(self._precisions))
        for level in reversed(self._levels[1:]):
            sums = np.add.reduceat(self._variances[level.nodes], level.begins)
            self._below[level.parents] = sums
            self._variances[level.parents] = sums / (1 + sums * self._precisions[level.parents])

    def estimates(self, factors: Floats) -> Sums:
        """The least squares estimates of sums of atoms, by all answers: `factors` has a row per atom and a column per sum.

        Least squares are linear in the answers, with weights that scales alone decide: no bias, and a variance and a fourth cumulant that are known.
        """
        found = np.zeros((3, factors.shape[1]))
        step = max(1, AT_ONCE // 4 // len(self._parent))
        for first in range(0, factors.shape[1], step):
            solved = self._solved(factors[:, first : first + step])
            for power, own in zip((1, 2, 4), range(3), strict=True):
                found[own, first : first + step] = self._worth[own] @ solved**power
        return Sums(*found)

    def _solved(self, factors: Floats) -> Floats:
        """Of each node v the x of the normal equations, summed over its atoms: for each atom the sum of precision * x over the nodes that have it is its factor.

        Up: x is a - b g, where g is that sum over the nodes above. Down: g is known from the top on.
        """
        x = np.zeros((len(self._parent), factors.shape[1]))
        x[self._leaf] = factors * self._variances[self._leaf, None]
        for level in reversed(self._levels[1:]):
            sums = np.add.reduceat(x[level.nodes], level.begins, axis=0)
            x[level.parents] = sums / (1 + self._below[level.parents] * self._precisions[level.parents])[:, None]
        above = np.zeros_like(x)
        for level in self._levels:
            nodes = level.nodes
            if level is not self._levels[0]:
                above[nodes] = above[self._parent[nodes]]
                x[nodes] -= self._variances[nodes, None] * above[nodes]
            above[nodes] += self._precisions[nodes, None] * x[nodes]
        return x

    def gathered(self, found: Contained) -> tuple[Contained, Sums, Sums]:
        """The same with estimates in the place of atoms: one for each asked cell of the piece that has them, by its lower and by its higher factors."""
        number = next(k for k, piece in enumerate(found.pieces) if piece.counts[1] == self.block.size)
        piece = found.pieces[number]
        cells = np.arange(piece.counts[0])
        once = Piece(
            cells, cells, np.ones(len(cells)), np.ones(len(cells)), piece.is_open, piece.is_bounded, (len(cells), len(cells))
        )  # fmt: skip
        pieces = (*found.pieces[:number], once, *found.pieces[number + 1 :])
        low = self._of_entries(piece, piece.low)
        high = low if (piece.low == piece.high).all() else self._of_entries(piece, piece.high)
        return replace(found, pieces=pieces, measured_shape=(len(cells),)), low, high

    def _of_entries(self, piece: Piece, factors: Floats) -> Sums:
        cells, step = piece.counts[0], max(1, AT_ONCE // self.block.size)
        parts = []
        for first in range(0, cells, step):
            own = np.flatnonzero((piece.asked >= first) & (piece.asked < first + step))
            dense = np.zeros((self.block.size, min(step, cells - first)))
            dense[piece.measured[own], piece.asked[own] - first] = factors[own]
            parts.append(self.estimates(dense))
        return Sums(
            *(
                np.concatenate(own)
                for own in zip(*((part.values, part.variances, part.fourths) for part in parts), strict=True)
            )
        )


@dataclass(frozen=True, eq=False)
class _Level:
    """Nodes at the same distance from the top, those of one parent together; where each parent's begin, and the parents."""

    nodes: Integers
    begins: Integers
    parents: Integers


def _levels(parent: Integers) -> list[_Level]:
    """From the top down; the nodes at the top have no parent."""
    depth, above = np.zeros(len(parent), dtype=np.int64), parent.copy()
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    out = []
    for own in range(int(depth.max()) + 1):
        nodes = np.flatnonzero(depth == own)
        nodes = nodes[np.argsort(parent[nodes], kind="stable")]
        begins = np.flatnonzero(np.diff(parent[nodes], prepend=-2))
        out.append(_Level(nodes, begins, parent[nodes[begins]]))
    return out


def _parents(begin: Integers, length: Integers) -> Integers:
    """Of each stretch of atoms, the smallest other that has it; -1 if none has."""
    out, above = np.full(len(begin), -1, dtype=np.int64), list[int]()
    for number in np.lexsort((-length, begin)).tolist():
        while above and begin[above[-1]] + length[above[-1]] <= begin[number]:
            above.pop()
        out[number] = above[-1] if above else -1
        above.append(number)
    return out


def is_nested(one: Noisy, other: Noisy) -> bool:
    """Whether of any two parts with a class combination in common one is inside the other."""
    own, names = one.query.blocks[0], one.query.blocks[0].attributes
    if frozenset(names) != frozenset(other.query.attributes) or own.extent > MOST_COMBINATIONS:
        return False
    left, right = _labels(one, names), _labels(other, names)
    sizes = np.bincount(left), np.bincount(right)
    keys, common = np.unique(left * len(sizes[1]) + right, return_counts=True)
    smaller = np.minimum(sizes[0][keys // len(sizes[1])], sizes[1][keys % len(sizes[1])])
    return bool((common == smaller).all())


def _labels(answer: Noisy, names: Sequence[str]) -> Integers:
    """Of each class combination its part, attributes in this order."""
    block = answer.query.blocks[0]
    return block.labels.transpose([block.attributes.index(name) for name in names]).reshape(-1).astype(np.int64)


def _first_of(labels: Integers) -> Integers:
    """Of each place, the first that has its label."""
    _, first, which = np.unique(labels, return_index=True, return_inverse=True)
    return first[which.reshape(-1)]
