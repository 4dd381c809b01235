"""Noisy answers, and nested partitions of the same attributes as one tree, as refinement measures them. Pure array work.

The nodes of the tree are the parts. A sum of its smallest parts, the atoms, is estimated by least squares over all answers: two passes, up and down, give the weight of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats, Integers
from mwem_sql.algebra.contained import MOST_COMBINATIONS, Contained, Piece
from mwem_sql.algebra.counts import AT_ONCE
from mwem_sql.algebra.linear import Block, LinearQuery

_AT_ONCE = 2**17
"""Numbers that passes over a tree have at a time: what a processor keeps near."""


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
        length, begin = keys // count, np.full(len(keys), count, dtype=np.int64)
        np.minimum.at(begin, node.reshape(-1), np.tile(place, len(parts)))
        precisions, values, fourths = (np.zeros(len(keys)) for _ in range(3))
        for own, answer, nodes in zip(inside, answers, node, strict=True):
            which, where = np.unique(nodes, return_index=True)
            values[which] += answer.values[own[where]] / answer.variance
            precisions[which] += 1 / answer.variance
            fourths[which] += answer.fourth / answer.variance**4
        ordered, self._levels = _levels(_parents(begin, length))
        # Of each node, what a unit of `_solved` takes of the answers to it, and adds to variance and fourth cumulant.
        self._worth = np.stack([values, precisions, fourths])[:, ordered]
        leaf = np.flatnonzero(length[ordered] == 1)
        self._leaf = leaf[np.argsort(begin[ordered][leaf])]
        self._precisions = precisions[ordered]
        self._spreads()

    def _spreads(self) -> None:
        """Of each node, the variance of what its own answers and those inside it tell, and that in parts of the variance of the latter; the lowest first."""
        self._variances, self._shares = 1 / self._precisions, np.ones(len(self._precisions))
        for level in reversed(self._levels):
            below = np.add.reduceat(self._variances[level.nodes], level.begins)
            self._shares[level.parents] = 1 / (1 + below * self._precisions[level.parents])
            self._variances[level.parents] = below * self._shares[level.parents]

    def estimates(self, factors: Floats | Flags) -> Sums:
        """The least squares estimates of sums of atoms, by all answers: `factors` has a row per atom and a column per sum.

        Least squares are linear in the answers, with weights that scales alone decide: no bias, and a variance and a fourth cumulant that are known.
        """
        found = np.zeros((3, factors.shape[1]))
        step = max(1, _AT_ONCE // len(self._precisions))
        for first in range(0, factors.shape[1], step):
            own = slice(first, first + step)
            x = self._solved(factors[:, own])
            squares = x * x
            found[:, own] = self._worth[0] @ x, self._worth[1] @ squares, self._worth[2] @ (squares * squares)
        return Sums(*found)

    def _solved(self, factors: Floats | Flags) -> Floats:
        """Of each node the x of the normal equations, summed over its atoms: for each atom the sum of precision * x over the nodes that have it is its factor.

        Up: x is a - b g, where g is that sum over the nodes above. Down: g is known from the top on.
        """
        x = np.zeros((len(self._precisions), factors.shape[1]))
        x[self._leaf] = factors * self._variances[self._leaf, None]
        for level in reversed(self._levels):
            x[level.parents] = np.add.reduceat(x[level.nodes], level.begins, axis=0)
            x[level.parents] *= self._shares[level.parents, None]
        above = np.zeros_like(x)
        for level in self._levels:
            above[level.parents] += self._precisions[level.parents, None] * x[level.parents]
            above[level.nodes] = np.repeat(above[level.parents], level.counts, axis=0)
            x[level.nodes] -= self._variances[level.nodes, None] * above[level.nodes]
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
    """Nodes at the same distance from the top, one after the other, those of one parent together: where each parent's begin, how many they are, and the parents."""

    nodes: slice
    begins: Integers
    counts: Integers
    parents: Integers


def _levels(parent: Integers) -> tuple[Integers, list[_Level]]:
    """The nodes from the top down, and their levels, but for the top."""
    nodes = np.flatnonzero(parent < 0)
    ordered, levels, done = [nodes], list[_Level](), 0
    place = np.full(len(parent), -1, dtype=np.int64)
    while len(nodes):
        place[nodes] = done + np.arange(len(nodes))
        done += len(nodes)
        nodes = np.flatnonzero((parent >= 0) & (place < 0) & (place[parent] >= 0))
        nodes = nodes[np.argsort(place[parent[nodes]], kind="stable")]
        if len(nodes):
            parents, begins, counts = np.unique(place[parent[nodes]], return_index=True, return_counts=True)
            levels.append(_Level(slice(done, done + len(nodes)), begins, counts, parents))
            ordered.append(nodes)
    return np.concatenate(ordered), levels


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
