"""How the cells of measured queries make up those of a question: exactly, or between two sums.

Pure array work on classes that both are about. A record that a measured query puts in a source cell v adds to a cell c
of the question at least `low` and at most `high` times what it adds to v. Where the two are equal for all v of a cell,
the cell is a sum of source cells. An attribute that was not measured may have any value: that, too, is between a low
and a high. Both queries are products of blocks, so blocks are worked out by connected component of their attributes.

Many counts are one question, a bit each (`CountBatch`): thousands of conditions on the same attributes take one pass
over the classes, not one each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from operator import attrgetter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Flags, Floats, Integers, Numbers
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.nested import Estimates, NestedPartitions
from mwem_sql.algebra.queries import Queries
from mwem_sql.algebra.sets import connected
from mwem_sql.algebra.table import Names, Table

Bits: TypeAlias = npt.NDArray[np.uint64]
"""The last axis has a bit for each count, 64 to a word."""

MOST_COMBINATIONS = 2**22
"""Class combinations of blocks that are worked out together; of more, nothing is said. More: a question takes more
memory."""
DENSE = 2**20
"""Entries of a matrix, up to which sums are a product with it. More: sparse sums are slower than they need be."""
CHUNK = 2**22
"""Words, or flags, that are worked on at once. More: more memory."""
BIT_AXIS = ""
"""The axis of bits, beside those of attributes: no attribute has such a name."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Component:
    """Blocks that have attributes in common.

    A record of source cell `source[k]` adds `low[k]` to `high[k]` times what it adds there to the question's cell
    `question[k]`. `is_open` are cells of the question with records that no source cell has. `is_bounded` is whether no
    record adds less than 0 to a source cell: only then do low and high mean anything where they differ. `counts` are
    the numbers of cells of the question and of source cells.
    """

    question: Integers
    source: Integers
    low: Floats
    high: Floats
    is_open: Flags
    is_bounded: bool
    counts: tuple[int, int]

    @cached_property
    def is_exact(self) -> Flags:
        """Of each cell of the question, whether it is a sum of source cells."""
        out = ~self.is_open
        np.logical_and.at(out, self.question, self.low == self.high)
        return out


@dataclass(frozen=True, eq=False, kw_only=True)
class Containment:
    """All components of a question and a measured query; the order of blocks in each, component after component."""

    components: tuple[Component, ...]
    question_order: tuple[int, ...]
    question_shape: tuple[int, ...]
    source_order: tuple[int, ...]
    source_shape: tuple[int, ...]

    @cached_property
    def is_exact(self) -> Flags:
        """Of each cell of the question, whether it is a sum of source cells."""
        return self._in_order([component.is_exact for component in self.components], np.logical_and)

    @cached_property
    def is_open(self) -> Flags:
        """Of each cell of the question, whether it may have records that no source cell has: no upper bound."""
        return self._in_order([component.is_open for component in self.components], np.logical_or)

    @property
    def is_bounded(self) -> bool:
        """Whether other cells lie between the two sums: nothing that is added in a component is negative."""
        return all(component.is_bounded and not (component.low < 0).any() for component in self.components)

    def low(self, source: Estimates | NestedPartitions) -> Estimates:
        """Of each cell of the question, the sum over source cells with the lower factors."""
        return self._sums(source, [component.low for component in self.components])

    def high(self, source: Estimates | NestedPartitions) -> Estimates:
        return self._sums(source, [component.high for component in self.components])

    def _sums(self, source: Estimates | NestedPartitions, factors: Sequence[Floats]) -> Estimates:
        """`source` are estimates of source cells, or a tree whose atoms these are: its least squares sum the atoms."""
        solved = None
        if isinstance(source, NestedPartitions):
            number = next(k for k, each in enumerate(self.components) if each.counts[1] == source.block.size)
            solved = self.components[number]
            source = _by_tree(source, solved, factors[number])
        sums = [
            self._sum(cells, [factor**power for factor in factors], solved)
            for cells, power in zip(source.moments, (1, 2, 4), strict=True)
        ]
        return Estimates(np.stack(sums))

    def _sum(self, cells: Floats, factors: Sequence[Floats], solved: Component | None) -> Floats:
        """`solved`: a component that is summed already, and the only one with source cells."""
        out = cells if solved else cells.reshape(self.source_shape).transpose(self.source_order)
        done = 1
        for component, factor in zip(self.components, factors, strict=True):
            if component is not solved:
                out = _applied(component, factor, out.reshape(done, component.counts[1], -1))
            done *= component.counts[0]
        return self._from_components(out.reshape(-1))

    def _from_components(self, cells: Numbers) -> Numbers:
        shape = [self.question_shape[block] for block in self.question_order]
        return np.asarray(cells.reshape(shape).transpose(np.argsort(self.question_order)).reshape(-1))

    def _in_order(self, flags: Sequence[Flags], together: np.ufunc) -> Flags:
        out = np.array([together.identity], dtype=np.bool_)
        for flag in flags:
            out = together.outer(out, flag).reshape(-1)
        return self._from_components(out)


def _by_tree(tree: NestedPartitions, component: Component, factors: Floats) -> Estimates:
    cells, step = component.counts[0], max(1, CHUNK // tree.block.size)
    several = []
    for first in range(0, cells, step):
        entries = np.flatnonzero((component.question >= first) & (component.question < first + step))
        dense = np.zeros((tree.block.size, min(step, cells - first)))
        dense[component.source[entries], component.question[entries] - first] = factors[entries]
        several.append(tree.estimates(dense))
    return Estimates.joined(several)


def _applied(component: Component, factors: Floats, cells: Floats) -> Floats:
    """(before, source cells, after) to (before, cells of the question, after)."""
    if prod(component.counts) <= DENSE:
        matrix = np.zeros(component.counts)
        matrix[component.question, component.source] = factors
        return np.asarray(matrix @ cells)
    out = np.zeros((component.counts[0], cells.shape[0], cells.shape[2]))
    np.add.at(out, component.question, np.moveaxis(cells[:, component.source] * factors[:, None], 1, 0))
    return np.moveaxis(out, 0, 1)


def containment(question: Sequence[Block], source: Sequence[Block], sizes: Mapping[str, int]) -> Containment | None:
    """How the cells of `source` make up those of `question`, on so many classes; None if that is too much work."""
    components, question_order, source_order = [], list[int](), list[int]()
    for numbers in connected([block.attributes for block in (*question, *source)]):
        ours = [number for number in numbers if number < len(question)]
        theirs = [number - len(question) for number in numbers if number >= len(question)]
        component = _component([question[number] for number in ours], [source[number] for number in theirs], sizes)
        if component is None:
            return None
        components.append(component)
        question_order += ours
        source_order += theirs
    return Containment(
        components=tuple(components),
        question_order=tuple(question_order),
        question_shape=tuple(block.size for block in question),
        source_order=tuple(source_order),
        source_shape=tuple(block.size for block in source),
    )


def _component(question: Sequence[Block], source: Sequence[Block], sizes: Mapping[str, int]) -> Component | None:
    names = tuple(dict.fromkeys(name for block in (*question, *source) for name in block.attributes))
    shape = [sizes[name] for name in names]
    if prod(shape) > MOST_COMBINATIONS:
        return None
    cell, adds = _flat(question, names, shape)
    origin, weighs = _flat(source, names, shape)
    counts = prod(block.size for block in question), prod(block.size for block in source)
    is_open = np.zeros(counts[0], dtype=np.bool_)
    is_open[cell[(cell >= 0) & (origin < 0)]] = True
    both = np.flatnonzero((cell >= 0) & (origin >= 0))
    key, which = np.unique(origin[both] * counts[0] + cell[both], return_inverse=True)
    which = which.reshape(-1)
    ratio = adds[both] / weighs[both]
    low, high = np.full(len(key), np.inf), np.full(len(key), -np.inf)
    np.minimum.at(low, which, ratio)
    np.maximum.at(high, which, ratio)
    # Records of a source cell that are not in the question's cell add nothing.
    combinations = np.bincount(origin[origin >= 0], minlength=counts[1])
    is_whole = np.bincount(which, minlength=len(key)) == combinations[key // counts[0]]
    # On whole numbers up to here: equal ratios are equal floats. From here on in what they stand for.
    unit = prod(block.unit for block in question) / prod(block.unit for block in source)
    return Component(
        question=key % counts[0],
        source=key // counts[0],
        low=unit * np.where(is_whole, low, np.minimum(low, 0)),
        high=unit * np.where(is_whole, high, np.maximum(high, 0)),
        is_open=is_open,
        is_bounded=bool((weighs[origin >= 0] > 0).all()),
        counts=counts,
    )


def _flat(blocks: Sequence[Block], names: Names, shape: Sequence[int]) -> tuple[Integers, Floats]:
    """Of each class combination its cell, and what a record of it adds there; -1 for a record that adds 0."""
    cell, adds = np.zeros(shape, dtype=np.int64), np.ones(shape)
    for block in blocks:
        labels = Table(block.attributes, block.labels).align(names).astype(np.int64)
        if block.values is not None:
            values = Table(block.attributes, block.values).align(names)
            adds = adds * values
            labels = np.where(values != 0, labels, -1)
        cell = np.where((cell >= 0) & (labels >= 0), cell * block.size + labels, -1)
    return cell.reshape(-1), adds.reshape(-1)


@dataclass(frozen=True, eq=False)
class CountBatch:
    """Counts about the same attributes, joined in the same way, as one question with a cell for each.

    `groups` are attributes that conditions join. Of each, `bits` has their classes' axes, and which counts have a
    record of those classes.
    """

    groups: tuple[tuple[str, ...], ...]
    bits: tuple[Bits, ...]
    cells: int

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        return tuple(name for names in self.groups for name in names)

    @property
    def words(self) -> int:
        return -(-self.cells // 64)

    def alone(self) -> Iterator[CountBatch]:
        """Each group's conditions by themselves."""
        for names, bits in zip(self.groups, self.bits, strict=True):
            yield CountBatch((names,), (bits,), self.cells)

    def split(self, extent: int) -> Iterator[CountBatch]:
        """The same, as many at once as can be worked out on so many class combinations."""
        step = max(1, CHUNK // max(1, extent))
        for first in range(0, self.words, step):
            cells = min(self.cells, 64 * (first + step)) - 64 * first
            yield CountBatch(self.groups, tuple(bits[..., first : first + step] for bits in self.bits), cells)

    def queries(self) -> Iterator[LinearQuery]:
        """One by one."""
        for number in range(self.cells):
            word, bit = number // 64, np.uint64(number % 64)
            labels = [np.where((bits[..., word] >> bit) & np.uint64(1), 0, -1) for bits in self.bits]
            yield LinearQuery(
                tuple(Block(names, label.astype(np.int32), 1) for names, label in zip(self.groups, labels, strict=True))
            )


@dataclass(frozen=True, eq=False)
class Cuboids:
    """Counts by groups, as many by each condition, as one question: their cells, one query after the other.

    Nothing says anything of two attributes of any of them together. `blocks` are the conditions of each; `attributes`
    are those of the first.
    """

    blocks: Sequence[Sequence[Block]]

    @property
    def attributes(self) -> tuple[str, ...]:
        return LinearQuery(tuple(self.blocks[0])).attributes

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells per condition."""
        return tuple([block.size for block in self.blocks[0]])

    @property
    def cells(self) -> int:
        return len(self.blocks) * prod(self.shape)


def cuboids(queries: Queries, flags: Flags) -> Iterator[tuple[Integers, Cuboids]]:
    """The flagged queries as few questions, each with its queries' numbers, of not too many cells together."""
    for numbers, members in queries.by_kind(flags, attrgetter("size")):
        step = max(1, CHUNK // int(queries.cells[numbers[0]]))
        for first in range(0, len(numbers), step):
            rows = members[first : first + step].tolist()
            yield numbers[first : first + step], Cuboids([[queries.blocks[k] for k in row] for row in rows])


def count_batches(
    queries: Queries, places: Mapping[str, Integers] | None = None
) -> Iterator[tuple[Integers, CountBatch]]:
    """The counts among some queries, as few questions as possible, each with its queries' numbers.

    `places`: by attribute, the class of each of its finer classes.
    """
    counts = np.array([block.values is None and block.size == 1 for block in queries.blocks], dtype=np.bool_)
    for numbers, members in queries.by_kind(queries.are_all(counts), attrgetter("attributes")):
        groups, bits = list[Names](), list[Bits]()
        for column in members.T.tolist():
            blocks = [queries.blocks[k] for k in column]
            groups.append(blocks[0].attributes)
            packed = _packed(blocks)
            bits.append(packed if places is None else packed[np.ix_(*(places[name] for name in groups[-1]))])
        yield numbers, CountBatch(tuple(groups), tuple(bits), len(numbers))


def _packed(blocks: Sequence[Block]) -> Bits:
    """Which classes each block counts: bits are turned where a stretch begins, and go on from class to class."""
    several = [block.runs for block in blocks]
    which = np.repeat(np.arange(len(several)), list(map(len, several)))
    is_counted = np.concatenate([runs.numbers for runs in several]) >= 0
    was_counted = np.append(False, is_counted[:-1]) & (np.diff(which, prepend=-1) == 0)
    turns = np.flatnonzero(is_counted != was_counted)
    bits = np.zeros((blocks[0].extent, -(-len(blocks) // 64)), dtype=np.uint64)
    begins, turned = np.concatenate([runs.begins for runs in several])[turns], which[turns]
    np.bitwise_xor.at(bits, (begins, turned // 64), np.uint64(1) << (turned % 64).astype(np.uint64))
    return np.asarray(np.bitwise_xor.accumulate(bits, axis=0).reshape(*blocks[0].shape, -1))


class Parts:
    """A partition of the class combinations of some attributes, all or some of them, into parts with a number each."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        """The cells of a count by groups."""
        self.attributes = tuple(name for block in blocks for name in block.attributes)
        self._shape = tuple(size for block in blocks for size in block.shape)
        part, _ = _flat(blocks, self.attributes, self._shape)
        order = np.argsort(part, kind="stable")
        rest = int(np.count_nonzero(part < 0))
        self._rest, self._order = order[:rest], order[rest:]
        numbers = part[self._order]
        self._begins = np.flatnonzero(np.diff(numbers, prepend=-1))
        self.numbers = numbers[self._begins]
        """Of the parts that have any class combination, in ascending order."""

    @property
    def extent(self) -> int:
        return prod(self._shape)

    def made_of(self, counts: CountBatch) -> tuple[Bits, Bits, Bits]:
        """Of each part, and each count: whether the count has all of it; whether it has some of it, or may have.

        Then whether the count has what is in no part.
        """
        some, every = (self._spread(counts, over) for over in (np.bitwise_or, np.bitwise_and))
        beyond = np.bitwise_or.reduce(some[self._rest], axis=0) if len(self._rest) else np.zeros_like(some[0])
        if not len(self._begins):
            return some[:0], some[:0], beyond
        full = np.bitwise_and.reduceat(every[self._order], self._begins, axis=0)
        touched = np.bitwise_or.reduceat(some[self._order], self._begins, axis=0)
        return full, touched, beyond

    def _spread(self, counts: CountBatch, over: np.ufunc) -> Bits:
        """The counts' bits on all class combinations, `over` any classes of attributes that are not the parts'."""
        names = (*self.attributes, BIT_AXIS)
        out = np.full((*([1] * len(self._shape)), counts.words), ~np.uint64(0))
        for group, bits in zip(counts.groups, counts.bits, strict=True):
            absent = tuple(axis for axis, name in enumerate(group) if name not in self.attributes)
            present = tuple(name for name in group if name in self.attributes)
            out = out & Table((*present, BIT_AXIS), over.reduce(bits, axis=absent) if absent else bits).align(names)
        return Table(names, out).expand(names, (*self._shape, counts.words)).reshape(-1, counts.words)


def unpack(bits: Bits, cells: int) -> Flags:
    """Bits as flags, of so many counts."""
    return np.unpackbits(np.ascontiguousarray(bits).view(np.uint8), axis=-1, count=cells, bitorder="little").view(
        np.bool_
    )


def sum_flagged(has: Flags, cells: Estimates) -> Estimates:
    """Of each count, the sum over the rows that it has."""
    rows, counts = has.shape
    sums = np.zeros((3, counts))
    step = max(1, CHUNK // max(1, counts))
    for first in range(0, rows, step):
        sums += cells.moments[:, first : first + step] @ has[first : first + step].astype(np.float64)
    return Estimates(sums)
