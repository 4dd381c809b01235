"""How the cells of one query make up those of another: exactly, or between two sums.

Pure array work on classes that both are about. A record that a measured query puts in cell v adds to a cell c of an
asked query at least `low` and at most `high` times what it adds to v. Where the two are equal for all v of a cell, the
cell is a sum of measured ones. An attribute that was not measured may have any value: that, too, is between a low and a
high. Blocks with no attribute in common are worked out apart (`Piece`), because both queries are products of them.

Many counts are asked together, a bit each (`Counts`): thousands of conditions on the same attributes take one pass over
the classes, not one each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Flags, Floats, Integers, Numbers
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.nested import Estimates, NestedPartitions
from mwem_sql.algebra.stretches import Stretches

Bits: TypeAlias = npt.NDArray[np.uint64]
"""The last axis has a bit for each count, 64 to a word."""

MOST_COMBINATIONS = 2**22
"""Class combinations of blocks that are worked out together; of more, nothing is said. More: a question takes more
memory."""
DENSE = 2**20
"""Entries of a matrix, up to which sums are a product with it. More: sparse sums are slower than they need be."""
AT_ONCE = 2**22
"""Words, or flags, that are worked on at once. More: more memory."""
_EVERY = np.uint64(2**64 - 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Piece:
    """Blocks that have attributes in common.

    A record of measured cell `measured[k]` adds `low[k]` to `high[k]` times what it adds there to asked cell
    `asked[k]`. `is_open` are asked cells that records count in which no measured cell has. `is_bounded` is whether what
    is measured is never negative: only then do low and high mean anything where they differ. `counts` are the measured
    cells' and asked cells' numbers.
    """

    asked: Integers
    measured: Integers
    low: Floats
    high: Floats
    is_open: Flags
    is_bounded: bool
    counts: tuple[int, int]

    @cached_property
    def is_exact(self) -> Flags:
        """Of each asked cell, whether it is a sum of measured ones."""
        out = ~self.is_open
        np.logical_and.at(out, self.asked, self.low == self.high)
        return out


@dataclass(frozen=True, eq=False, kw_only=True)
class Contained:
    """All pieces of two queries; the order of blocks in each, piece after piece."""

    pieces: tuple[Piece, ...]
    asked_order: tuple[int, ...]
    asked_shape: tuple[int, ...]
    measured_order: tuple[int, ...]
    measured_shape: tuple[int, ...]

    @cached_property
    def is_exact(self) -> Flags:
        """Of each asked cell, whether it is a sum of measured cells."""
        return self._in_order([piece.is_exact for piece in self.pieces], np.logical_and)

    @cached_property
    def is_open(self) -> Flags:
        """Of each asked cell, whether it has records that no measured cell has, or may have.

        There is no upper bound, and none below but what is counted.
        """
        return self._in_order([piece.is_open for piece in self.pieces], np.logical_or)

    @property
    def is_bounded(self) -> bool:
        """Whether cells that are not exact lie between the two sums.

        Nothing that is added, in any piece, is negative.
        """
        return all(piece.is_bounded and not (piece.low < 0).any() for piece in self.pieces)

    @cached_property
    def is_alike(self) -> bool:
        """Whether both sums are the same, of every cell."""
        return all(bool((piece.low == piece.high).all()) for piece in self.pieces)

    def low(self, cells: Estimates) -> Estimates:
        """Of each asked cell, the sum over measured cells with the lower factors."""
        return self._sums(cells, [piece.low for piece in self.pieces])

    def high(self, cells: Estimates) -> Estimates:
        return self._sums(cells, [piece.high for piece in self.pieces])

    def of_tree(self, tree: NestedPartitions) -> tuple[Contained, Estimates, Estimates]:
        """The same with least squares estimates in the place of a tree's atoms.

        One for each asked cell of the piece that has them, by its lower and by its higher factors.
        """
        number = next(k for k, piece in enumerate(self.pieces) if piece.counts[1] == tree.block.size)
        piece = self.pieces[number]
        cells = np.arange(piece.counts[0])
        ones, counts = np.ones(len(cells)), (len(cells), len(cells))
        once = replace(piece, asked=cells, measured=cells, low=ones, high=ones, counts=counts)
        pieces = (*self.pieces[:number], once, *self.pieces[number + 1 :])
        low = _by_tree(tree, piece, piece.low)
        high = low if (piece.low == piece.high).all() else _by_tree(tree, piece, piece.high)
        return replace(self, pieces=pieces, measured_shape=(len(cells),)), low, high

    def _sums(self, cells: Estimates, factors: Sequence[Floats]) -> Estimates:
        values, variances, fourths = (
            self._sum(each, [factor**power for factor in factors])
            for each, power in ((cells.values, 1), (cells.variances, 2), (cells.fourths, 4))
        )
        return Estimates(values, variances, fourths)

    def _sum(self, cells: Floats, factors: Sequence[Floats]) -> Floats:
        out = cells.reshape(self.measured_shape).transpose(self.measured_order)
        done = 1
        for piece, factor in zip(self.pieces, factors, strict=True):
            out = _applied(piece, factor, out.reshape(done, piece.counts[1], -1))
            done *= piece.counts[0]
        return self._from_pieces(out.reshape(-1))

    def _from_pieces(self, cells: Numbers) -> Numbers:
        shape = [self.asked_shape[block] for block in self.asked_order]
        return np.asarray(cells.reshape(shape).transpose(np.argsort(self.asked_order)).reshape(-1))

    def _in_order(self, flags: Sequence[Flags], together: np.ufunc) -> Flags:
        out = np.array([together.identity], dtype=np.bool_)
        for flag in flags:
            out = together.outer(out, flag).reshape(-1)
        return self._from_pieces(out)


def _by_tree(tree: NestedPartitions, piece: Piece, factors: Floats) -> Estimates:
    cells, step = piece.counts[0], max(1, AT_ONCE // tree.block.size)
    several = []
    for first in range(0, cells, step):
        entries = np.flatnonzero((piece.asked >= first) & (piece.asked < first + step))
        dense = np.zeros((tree.block.size, min(step, cells - first)))
        dense[piece.measured[entries], piece.asked[entries] - first] = factors[entries]
        several.append(tree.estimates(dense))
    return Estimates.joined(several)


def _applied(piece: Piece, factors: Floats, cells: Floats) -> Floats:
    """(before, measured cells, after) to (before, asked cells, after)."""
    asked, measured = piece.counts
    if asked * measured <= DENSE:
        matrix = np.zeros((asked, measured))
        matrix[piece.asked, piece.measured] = factors
        return np.asarray(matrix @ cells)
    out = np.zeros((asked, cells.shape[0], cells.shape[2]))
    np.add.at(out, piece.asked, np.moveaxis(cells[:, piece.measured] * factors[:, None], 1, 0))
    return np.moveaxis(out, 0, 1)


def contained(asked: Sequence[Block], measured: Sequence[Block], sizes: Mapping[str, int]) -> Contained | None:
    """How the cells of `measured` make up those of `asked`; `sizes` has the classes of each attribute.

    None if that is too much to work out.
    """
    together = _together([frozenset(block.attributes) for block in (*asked, *measured)])
    pieces, asked_order, measured_order = [], list[int](), list[int]()
    for numbers in together:
        ours = [number for number in numbers if number < len(asked)]
        theirs = [number - len(asked) for number in numbers if number >= len(asked)]
        piece = _piece([asked[number] for number in ours], [measured[number] for number in theirs], sizes)
        if piece is None:
            return None
        pieces.append(piece)
        asked_order += ours
        measured_order += theirs
    return Contained(
        pieces=tuple(pieces),
        asked_order=tuple(asked_order),
        asked_shape=tuple(block.size for block in asked),
        measured_order=tuple(measured_order),
        measured_shape=tuple(block.size for block in measured),
    )


def _together(sets: Sequence[frozenset[str]]) -> list[list[int]]:
    """Numbers of sets that hang together by common members."""
    groups: list[tuple[set[str], list[int]]] = []
    for number, names in enumerate(sets):
        touched = [group for group in groups if not group[0].isdisjoint(names)]
        groups = [group for group in groups if group[0].isdisjoint(names)]
        united = set(names).union(*(members for members, _ in touched))
        groups.append((united, sorted([number, *(k for _, members in touched for k in members)])))
    return [numbers for _, numbers in groups]


def _piece(asked: Sequence[Block], measured: Sequence[Block], sizes: Mapping[str, int]) -> Piece | None:
    names = list(dict.fromkeys(name for block in (*asked, *measured) for name in block.attributes))
    if prod(sizes[name] for name in names) > MOST_COMBINATIONS:
        return None
    shape = [sizes[name] for name in names]
    cell, adds = _flat(asked, names, shape)
    place, weighs = _flat(measured, names, shape)
    counts = prod(block.size for block in asked), prod(block.size for block in measured)
    is_open = np.zeros(counts[0], dtype=np.bool_)
    is_open[cell[(cell >= 0) & (place < 0)]] = True
    both = np.flatnonzero((cell >= 0) & (place >= 0))
    key, which = np.unique(place[both] * counts[0] + cell[both], return_inverse=True)
    which = which.reshape(-1)
    ratio = adds[both] / weighs[both]
    low, high = np.full(len(key), np.inf), np.full(len(key), -np.inf)
    np.minimum.at(low, which, ratio)
    np.maximum.at(high, which, ratio)
    # Records of a measured cell that are not in the asked one add nothing.
    sizes_of = np.bincount(place[place >= 0], minlength=counts[1])
    is_whole = np.bincount(which, minlength=len(key)) == sizes_of[key // counts[0]]
    # On whole numbers up to here: equal ratios are equal floats. From here on in what they stand for.
    unit = prod(block.unit for block in asked) / prod(block.unit for block in measured)
    low = unit * np.where(is_whole, low, np.minimum(low, 0))
    high = unit * np.where(is_whole, high, np.maximum(high, 0))
    return Piece(
        asked=key % counts[0],
        measured=key // counts[0],
        low=low,
        high=high,
        is_open=is_open,
        is_bounded=bool((weighs[place >= 0] > 0).all()),
        counts=counts,
    )


def _flat(blocks: Sequence[Block], names: Sequence[str], shape: Sequence[int]) -> tuple[Integers, Floats]:
    """Of each class combination its cell, or -1, and what a record of it adds there.

    A record that adds 0 is in no cell.
    """
    cell, adds = np.zeros(shape, dtype=np.int64), np.ones(shape)
    for block in blocks:
        axes = np.argsort([names.index(name) for name in block.attributes])
        wide = [block.shape[block.attributes.index(name)] if name in block.attributes else 1 for name in names]
        labels = block.labels.transpose(axes).reshape(wide).astype(np.int64)
        if block.values is not None:
            values = block.values.transpose(axes).reshape(wide)
            adds = adds * values
            labels = np.where(values != 0, labels, -1)
        cell = np.where((cell >= 0) & (labels >= 0), cell * block.size + labels, -1)
    return cell.reshape(-1), np.asarray(np.broadcast_to(adds, shape)).reshape(-1)


@dataclass(frozen=True, eq=False)
class Counts:
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

    def alone(self) -> Iterator[Counts]:
        """Each group's conditions by themselves."""
        for names, bits in zip(self.groups, self.bits, strict=True):
            yield Counts((names,), (bits,), self.cells)

    def split(self, extent: int) -> Iterator[Counts]:
        """The same, as many at once as can be worked out on so many class combinations."""
        step = max(1, AT_ONCE // max(1, extent))
        for first in range(0, self.words, step):
            cells = min(self.cells, 64 * (first + step)) - 64 * first
            yield Counts(self.groups, tuple(bits[..., first : first + step] for bits in self.bits), cells)

    def queries(self) -> Iterator[LinearQuery]:
        """One by one."""
        for number in range(self.cells):
            word, bit = number // 64, np.uint64(number % 64)
            labels = [np.where((bits[..., word] >> bit) & np.uint64(1), 0, -1) for bits in self.bits]
            yield LinearQuery(
                tuple(Block(names, label.astype(np.int32), 1) for names, label in zip(self.groups, labels, strict=True))
            )


def together(
    queries: Sequence[LinearQuery], places: Mapping[str, Integers] | None = None
) -> Iterator[tuple[list[int], Counts]]:
    """The counts among some queries, as few questions as possible, each with its queries' numbers.

    `places`: by attribute, the class of each of its finer classes.
    """
    alike: dict[tuple[tuple[str, ...], ...], list[int]] = {}
    for number, query in enumerate(queries):
        if all(block.values is None and block.size == 1 for block in query.blocks):
            alike.setdefault(tuple(block.attributes for block in query.blocks), []).append(number)
    for groups, numbers in alike.items():
        bits = []
        for k, names in enumerate(groups):
            packed = _packed([queries[number].blocks[k] for number in numbers])
            bits.append(packed if places is None else packed[np.ix_(*(places[name] for name in names))])
        yield numbers, Counts(groups, tuple(bits), len(numbers))


def _packed(blocks: Sequence[Block]) -> Bits:
    """Which classes each block counts: bits are turned where a stretch begins, and go on from class to class."""
    several = [block.held if isinstance(block.held, Stretches) else Stretches.of(block.held) for block in blocks]
    which = np.repeat(np.arange(len(several)), [len(stretches.begins) for stretches in several])
    is_counted = np.concatenate([stretches.numbers for stretches in several]) >= 0
    was_counted = np.append(False, is_counted[:-1]) & (np.diff(which, prepend=-1) == 0)
    turns = np.flatnonzero(is_counted != was_counted)
    bits = np.zeros((blocks[0].extent, -(-len(blocks) // 64)), dtype=np.uint64)
    begins, turned = np.concatenate([stretches.begins for stretches in several])[turns], which[turns]
    np.bitwise_xor.at(bits, (begins, turned // 64), np.uint64(1) << (turned % 64).astype(np.uint64))
    return np.asarray(np.bitwise_xor.accumulate(bits, axis=0).reshape(*blocks[0].shape, -1))


class Parts:
    """A partition of the class combinations of some attributes, all or some of them, into parts with a number each."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        """The cells of a count by groups."""
        self.attributes = tuple(name for block in blocks for name in block.attributes)
        self._shape = tuple(size for block in blocks for size in block.shape)
        place: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        for block in blocks:
            labels = block.labels.reshape(-1).astype(np.int64)
            joint = place[:, None] * block.size + labels
            place = np.where((place[:, None] >= 0) & (labels >= 0), joint, -1).reshape(-1)
        order = np.argsort(place, kind="stable")
        counted = int(np.count_nonzero(place < 0))
        self._rest, self._order = order[:counted], order[counted:]
        numbers = place[self._order]
        self._begins = np.flatnonzero(np.diff(numbers, prepend=-1))
        self.numbers = numbers[self._begins]
        """Of the parts that have any class combination, in ascending order."""

    @property
    def extent(self) -> int:
        return prod(self._shape)

    def made_of(self, counts: Counts) -> tuple[Bits, Bits, Bits]:
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

    def _spread(self, counts: Counts, over: np.ufunc) -> Bits:
        """The counts' bits on all class combinations, `over` any classes of attributes that are not the parts'."""
        out = np.full((*([1] * len(self._shape)), counts.words), _EVERY)
        for names, bits in zip(counts.groups, counts.bits, strict=True):
            absent = tuple(axis for axis, name in enumerate(names) if name not in self.attributes)
            kept_bits = over.reduce(bits, axis=absent) if absent else bits
            kept = [name for name in names if name in self.attributes]
            kept_order = np.argsort([self.attributes.index(name) for name in kept])
            wide = [size if name in kept else 1 for name, size in zip(self.attributes, self._shape, strict=True)]
            out = out & kept_bits.transpose(*kept_order, len(kept)).reshape(*wide, -1)
        return np.broadcast_to(out, (*self._shape, counts.words)).reshape(-1, counts.words)


def flags(bits: Bits, cells: int) -> Flags:
    """Bits as flags, of so many counts."""
    return np.unpackbits(np.ascontiguousarray(bits).view(np.uint8), axis=-1, count=cells, bitorder="little").view(
        np.bool_
    )


def summed(has: Flags, cells: Estimates) -> Estimates:
    """Of each count, the sum over the rows that it has."""
    rows, counts = has.shape
    sums, stacked = np.zeros((3, counts)), np.stack([cells.values, cells.variances, cells.fourths])
    step = max(1, AT_ONCE // max(1, counts))
    for first in range(0, rows, step):
        sums += stacked[:, first : first + step] @ has[first : first + step].astype(np.float64)
    return Estimates(*sums)
