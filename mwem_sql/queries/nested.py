"""Noisy answers, and nested partitions of the same attributes as one tree, as refinement measures them. Pure array work.

The nodes of the tree are the parts. The estimate of a node joins its own answer and the sum over the parts inside it, each by its precision; an asked cell is a sum of the largest nodes inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mwem_sql.queries.arrays import Floats, Integers
from mwem_sql.queries.contained import MOST_COMBINATIONS, Contained, Piece
from mwem_sql.queries.counts import Bits, all_between
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
        precisions, values, fourths = (np.zeros(len(keys)) for _ in range(3))
        for own, answer, nodes in zip(inside, answers, node, strict=True):
            which, where = np.unique(nodes, return_index=True)
            values[which] += answer.values[own[where]] / answer.variance
            precisions[which] += 1 / answer.variance
            fourths[which] += answer.fourth / answer.variance**4
        self._join(values / precisions, 1 / precisions, fourths / precisions**4)
        leaf = np.flatnonzero(self._length == 1)
        leaf = leaf[np.argsort(self._begin[leaf])]
        self.leaves = self._of(leaf)

    def _join(self, values: Floats, variances: Floats, fourths: Floats) -> None:
        """Of each node, its own answer and the sum over its children, by precision; the smallest first."""
        order = np.lexsort((-self._length, self._begin))
        self._parent = np.full(len(order), -1, dtype=np.int64)
        above: list[int] = []
        for number in order.tolist():
            while above and self._begin[above[-1]] + self._length[above[-1]] <= self._begin[number]:
                above.pop()
            self._parent[number] = above[-1] if above else -1
            above.append(number)
        below = np.zeros((3, len(order)))
        has = np.zeros(len(order), dtype=np.bool_)
        for number in np.argsort(self._length, kind="stable").tolist():
            if has[number]:
                share = below[1, number] / (below[1, number] + variances[number])
                values[number] = share * values[number] + (1 - share) * below[0, number]
                fourths[number] = share**4 * fourths[number] + (1 - share) ** 4 * below[2, number]
                variances[number] *= share
            parent = self._parent[number]
            if parent >= 0:
                below[:, parent] += values[number], variances[number], fourths[number]
                has[parent] = True
        self.nodes = Sums(values, variances, fourths)

    def _of(self, nodes: Integers) -> Sums:
        return Sums(self.nodes.values[nodes], self.nodes.variances[nodes], self.nodes.fourths[nodes])

    def tops(self, atoms: Bits) -> Bits:
        """Of counts asked together, bit by bit: the largest nodes all of whose atoms are set."""
        full = all_between(atoms, self._begin, self._begin + self._length)
        above = np.where((self._parent >= 0)[:, None], full[self._parent], np.uint64(0))
        return np.asarray(full & ~above)

    def gathered(self, found: Contained) -> tuple[Contained, Sums]:
        """The same with atoms in nodes, as large as there are with atoms that all make up the same."""
        number = next(k for k, piece in enumerate(found.pieces) if piece.counts[1] == self.block.size)
        piece = found.pieces[number]
        entries = np.bincount(piece.measured, minlength=self.block.size)
        is_pure = (entries == 1)[piece.measured] & (piece.low == piece.high)
        pure = np.unique(np.stack([piece.asked, piece.low], axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        # Atoms that make up nothing have one code, those that are cut one each.
        code = -2 - np.arange(self.block.size)
        code[entries == 0] = -1
        code[piece.measured[is_pure]] = pure[is_pure]
        changes = np.cumsum(np.append(0, np.diff(code) != 0))
        is_even = changes[self._begin + self._length - 1] == changes[self._begin]
        top = is_even & ~np.where(self._parent >= 0, is_even[self._parent], False)
        top &= code[self._begin] != -1
        nodes = np.flatnonzero(top)
        holder = np.full(self.block.size, -1, dtype=np.int64)
        holder[self._begin[nodes]] = np.arange(len(nodes))
        # One entry for a pure node, all entries of a cut atom.
        kept = holder[piece.measured] >= 0
        gathered = Piece(
            piece.asked[kept], holder[piece.measured[kept]], piece.low[kept], piece.high[kept], piece.is_open, piece.is_bounded,
            (piece.counts[0], max(1, len(nodes))),
        )  # fmt: skip
        pieces = (*found.pieces[:number], gathered, *found.pieces[number + 1 :])
        sums = self._of(nodes) if len(nodes) else Sums(np.zeros(1), np.zeros(1), np.zeros(1))
        return replace(found, pieces=pieces, measured_shape=(max(1, len(nodes)),)), sums


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
