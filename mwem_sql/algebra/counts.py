"""Many counts asked together: a bit each. Which parts of a partition each of them has as a whole, and which it cuts. Pure array work.

Thousands of conditions on the same attributes take one pass over the classes, not one each: a word of memory holds what 64 of them say of a class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Flags, Floats, Integers
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.stretches import Stretches

Bits: TypeAlias = npt.NDArray[np.uint64]
"""The last axis has a bit for each count, 64 to a word."""

AT_ONCE = 2**22
"""Words, or flags, that are worked on at once."""
_EVERY = np.uint64(2**64 - 1)


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts about the same attributes, joined in the same way, as one question with a cell for each.

    `groups` are attributes that conditions join. Of each, `bits` has their classes' axes, and which counts have a record of those classes.
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
            yield Counts(self.groups, tuple(own[..., first : first + step] for own in self.bits), cells)

    def queries(self) -> Iterator[LinearQuery]:
        """One by one."""
        for number in range(self.cells):
            word, bit = number // 64, np.uint64(number % 64)
            labels = [np.where((own[..., word] >> bit) & np.uint64(1), 0, -1) for own in self.bits]
            yield LinearQuery(
                tuple(Block(names, own.astype(np.int32), 1) for names, own in zip(self.groups, labels, strict=True))
            )


def together(
    queries: Sequence[LinearQuery], places: Mapping[str, Integers] | None = None
) -> Iterator[tuple[list[int], Counts]]:
    """The counts among some queries, as few questions as possible, each with its queries' numbers. `places`: by attribute, the class of each of its finer classes."""
    alike: dict[tuple[tuple[str, ...], ...], list[int]] = {}
    for number, query in enumerate(queries):
        if all(block.values is None and block.size == 1 for block in query.blocks):
            alike.setdefault(tuple(block.attributes for block in query.blocks), []).append(number)
    for groups, numbers in alike.items():
        bits = []
        for k, names in enumerate(groups):
            own = _packed([queries[number].blocks[k] for number in numbers])
            bits.append(own if places is None else own[np.ix_(*(places[name] for name in names))])
        yield numbers, Counts(groups, tuple(bits), len(numbers))


def _packed(blocks: Sequence[Block]) -> Bits:
    """Which classes each block counts: bits are turned where a stretch begins, and go on from class to class."""
    held = [own.held if isinstance(own.held, Stretches) else Stretches.of(own.held) for own in blocks]
    which = np.repeat(np.arange(len(held)), [len(own.begins) for own in held])
    is_counted = np.concatenate([own.numbers for own in held]) >= 0
    was_counted = np.append(False, is_counted[:-1]) & (np.diff(which, prepend=-1) == 0)
    turns = np.flatnonzero(is_counted != was_counted)
    bits = np.zeros((blocks[0].extent, -(-len(blocks) // 64)), dtype=np.uint64)
    begins, turned = np.concatenate([own.begins for own in held])[turns], which[turns]
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
        """Of each part, and each count: whether the count has all of it; whether it has some of it, or may have. Then whether the count has what is in no part."""
        some, every = (self._spread(counts, own) for own in (np.bitwise_or, np.bitwise_and))
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
            own = over.reduce(bits, axis=absent) if absent else bits
            kept = [name for name in names if name in self.attributes]
            kept_order = sorted(range(len(kept)), key=lambda axis, kept=kept: self.attributes.index(kept[axis]))  # type: ignore[misc]
            wide = [size if name in kept else 1 for name, size in zip(self.attributes, self._shape, strict=True)]
            out = out & own.transpose(*kept_order, len(kept)).reshape(*wide, -1)
        return np.broadcast_to(out, (*self._shape, counts.words)).reshape(-1, counts.words)


def flags(bits: Bits, cells: int) -> Flags:
    """Bits as flags, of so many counts."""
    return np.unpackbits(np.ascontiguousarray(bits).view(np.uint8), axis=-1, count=cells, bitorder="little").view(
        np.bool_
    )


def summed(has: Flags, values: Sequence[Floats]) -> list[Floats]:
    """Of each of several lists of values with one for each row, the sum over the rows that each count has."""
    rows, cells = has.shape
    found, stacked = np.zeros((len(values), cells)), np.stack(values)
    step = max(1, AT_ONCE // max(1, cells))
    for first in range(0, rows, step):
        found += stacked[:, first : first + step] @ has[first : first + step].astype(np.float64)
    return list(found)
