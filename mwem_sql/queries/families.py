"""What is known of any query from noisy answers to others: sums of measured cells, and how much noise is in them. Pure array work; knows nothing of where noise comes from.

Partitions of the same attributes that are nested, as refinement measures them, are one family: a tree whose nodes are the parts. The estimate of a node joins its
own answer and the sum over the parts inside it, each by its precision; an asked cell is a sum of the largest nodes inside it. Every other answer is a family by itself. Families have independent
noise, so that what several tell of a cell is joined by precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from mwem_sql.queries.arrays import Flags, Floats, Integers
from mwem_sql.queries.contained import MOST_COMBINATIONS, Contained, Piece, contained, is_sum_of_parts
from mwem_sql.queries.linear import Block, LinearQuery

LEAST = 1e-30
"""The least variance: what no measured cell is part of has none."""
MOST_ASKED = 16
"""Families that one question is looked up in, those with the least noise on all their cells first. More: a little less noise in what many of them tell."""


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


@dataclass(frozen=True, eq=False)
class Told:
    """What a family tells of the cells of a question: which are sums of what was measured, and between which two sums the others are, if these `is_bounded`."""

    is_exact: Flags
    is_open: Flags
    is_bounded: bool
    low: Sums
    high: Sums


class Family:
    """Answers whose noise is looked at together. `blocks` are those of the finest cells; a cell of them has an estimate with a variance."""

    def __init__(self, answers: Sequence[Noisy]) -> None:
        """One answer, or several that `is_nested` says are nested."""
        self.attributes = frozenset(answers[0].query.attributes)
        self._tree = _Tree(answers) if len(answers) > 1 else None
        self.blocks = answers[0].query.blocks if self._tree is None else (self._tree.block,)
        self._sums = _sums_of(answers[0]) if self._tree is None else self._tree.leaves

    @cached_property
    def noise(self) -> float:
        """The variance of all cells together."""
        return float(self._sums.variances.sum())

    def told(self, asked: Sequence[Block], sizes: Mapping[str, int]) -> Told | None:
        """What it tells of a question on the same classes; None if that is too much to work out."""
        found, sums = contained(asked, self.blocks, sizes), self._sums
        if found is None:
            return None
        if self._tree is not None:
            found, sums = self._tree.gathered(found)
        low = _summed(found.low, sums)
        same = all((piece.low == piece.high).all() for piece in found.pieces)
        return Told(found.is_exact, found.is_open, found.is_bounded, low, low if same else _summed(found.high, sums))


class Families:
    """All noisy answers of a release, ready for questions about the same classes."""

    def __init__(self, answers: Sequence[Noisy], sizes: Mapping[str, int]) -> None:
        """`sizes` has the classes of each attribute."""
        self._sizes = sizes
        self._all = list(_grouped(answers))
        self._all.sort(key=lambda family: family.noise)
        # Of each attribute, the families that have it, as bits.
        self._having = dict.fromkeys(sizes, 0)
        for number, family in enumerate(self._all):
            for name in family.attributes:
                self._having[name] |= 1 << number

    def containing(self, names: Sequence[str]) -> list[Family]:
        """The families that have all these attributes, but for those of one class."""
        found = (1 << len(self._all)) - 1
        for name in names:
            if self._sizes[name] > 1:
                found &= self._having[name]
        return [self._all[number] for number in _bits(found)]

    def sharing(self, names: Sequence[str], count: int) -> list[Family]:
        """The families that have so many of these attributes or more."""
        masks, found = [self._having[name] for name in names], 0
        # By number of attributes, the families that have so many of those seen so far.
        seen = [(1 << len(self._all)) - 1] + [0] * count
        for mask in masks:
            for have in range(count, 0, -1):
                seen[have] |= seen[have - 1] & mask
        found = seen[count]
        return [self._all[number] for number in _bits(found)]

    def exact(self, asked: LinearQuery) -> tuple[Flags, Sums]:
        """Which cells are sums of what was measured, and the best estimate of those: by precision where several families tell."""
        is_exact = np.zeros(asked.cells, dtype=np.bool_)
        values, precisions, fourths = (np.zeros(asked.cells) for _ in range(3))
        for family in self.containing(asked.attributes)[:MOST_ASKED]:
            told = family.told(asked.blocks, self._sizes)
            if told is None:
                continue
            own = told.is_exact
            is_exact |= own
            precision = 1 / np.maximum(told.low.variances[own], LEAST)
            values[own] += told.low.values[own] * precision
            precisions[own] += precision
            fourths[own] += told.low.fourths[own] * precision**4
        known = np.where(is_exact & (precisions > 0), precisions, 1.0)
        # A cell that nothing measured is part of is 0 without noise.
        return is_exact, Sums(values / known, np.where(is_exact, 1 / known, 0.0), fourths / known**4)

    def is_exact(self, asked: LinearQuery) -> bool:
        """Whether all cells of a query are sums of what was measured."""
        rest = np.ones(asked.cells, dtype=np.bool_)
        for family in self.containing(asked.attributes)[:MOST_ASKED]:
            is_sum = is_sum_of_parts(asked.blocks, family.blocks)
            if is_sum:
                return True
            found = contained(asked.blocks, family.blocks, self._sizes) if is_sum is None else None
            if found is not None:
                rest &= ~found.is_exact
                if not rest.any():
                    return True
        return False


class _Tree:
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
        self._sums = Sums(values, variances, fourths)

    def _of(self, nodes: Integers) -> Sums:
        return Sums(self._sums.values[nodes], self._sums.variances[nodes], self._sums.fourths[nodes])

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


def _grouped(answers: Sequence[Noisy]) -> Iterator[Family]:
    nested: list[list[Noisy]] = []
    for answer in answers:
        if not answer.is_partition:
            yield Family([answer])
            continue
        for family in nested:
            if all(is_nested(answer, own) for own in family):
                family.append(answer)
                break
        else:
            nested.append([answer])
    for family in nested:
        yield Family(family)


def _labels(answer: Noisy, names: Sequence[str]) -> Integers:
    """Of each class combination its part, attributes in this order."""
    block = answer.query.blocks[0]
    return block.labels.transpose([block.attributes.index(name) for name in names]).reshape(-1).astype(np.int64)


def _first_of(labels: Integers) -> Integers:
    """Of each place, the first that has its label."""
    _, first, which = np.unique(labels, return_index=True, return_inverse=True)
    return first[which.reshape(-1)]


def _sums_of(answer: Noisy) -> Sums:
    size = prod(block.size for block in answer.query.blocks)
    return Sums(answer.values, np.full(size, answer.variance), np.full(size, answer.fourth))


def _summed(sum_: object, sums: Sums) -> Sums:
    assert callable(sum_)
    return Sums(sum_(sums.values), sum_(sums.variances, 2), sum_(sums.fourths, 4))


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
