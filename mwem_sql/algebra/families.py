"""What is known of any query from noisy answers to others: sums of measured cells, and how much noise is in them. Pure array work; knows nothing of where noise comes from.

Partitions of the same attributes that are nested are one family, a tree (`nested`). Every other answer is a family by itself. Families have independent noise, so that what several tell of a cell is
joined by precision. A question is a query, or many counts at once (`counts`), which is faster by as much as they are many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np

from mwem_sql.algebra.arrays import Flags
from mwem_sql.algebra.contained import MOST_COMBINATIONS, contained
from mwem_sql.algebra.counts import Bits, Counts, Parts, flags, summed, together
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.nested import Noisy, Sums, Tree, is_nested

Asked: TypeAlias = LinearQuery | Counts
"""What both have: `attributes`, and a number of `cells`."""

LEAST = 1e-30
"""The least variance: what no measured cell is part of has none."""
MOST_ASKED = 16
"""Families that one question is looked up in, those with the least noise on all their cells first. More: a little less noise in what many of them tell."""


@dataclass(frozen=True, eq=False)
class Told:
    """What a family tells of the cells of a question: which are sums of what was measured, and between which two sums the others are, if these `is_bounded`."""

    is_exact: Flags
    is_open: Flags
    is_bounded: bool
    low: Sums
    high: Sums


@dataclass(frozen=True, eq=False)
class Exact:
    """Which cells of a question are sums of what was measured, and which of these more than one measurement tells; the estimates."""

    is_exact: Flags
    is_joined: Flags
    sums: Sums


class Family:
    """Answers whose noise is looked at together. `blocks` are those of the finest cells; a cell of them has an estimate with a variance."""

    def __init__(self, answers: Sequence[Noisy]) -> None:
        """One answer, or several that `is_nested` says are nested."""
        self.attributes = frozenset(answers[0].query.attributes)
        self._tree = Tree(answers) if len(answers) > 1 else None
        self.blocks = answers[0].query.blocks if self._tree is None else (self._tree.block,)
        self._sums = _sums_of(answers[0])
        self._last: tuple[Counts, Told | None] | None = None

    @property
    def is_joined(self) -> bool:
        """Whether its estimates are made of several answers."""
        return self._tree is not None

    @cached_property
    def noise(self) -> float:
        """The variance of all cells together."""
        if self._tree is not None:
            return float(self._tree.estimates(np.ones((self._tree.block.size, 1))).variances[0])
        return float(self._sums.variances.sum())

    def told(self, asked: Asked, sizes: Mapping[str, int]) -> Told | None:
        """What it tells of a question on the same classes; None if that is too much to work out."""
        if isinstance(asked, Counts):
            # The same is asked twice: what is exact, and then between what the rest lies.
            if self._last is None or self._last[0] is not asked:
                self._last = asked, self._told_of_counts(asked, sizes)
            return self._last[1]
        found, least, most = contained(asked.blocks, self.blocks, sizes), self._sums, self._sums
        if found is None:
            return None
        exact = found.is_exact, found.is_open, found.is_bounded
        if self._tree is not None:
            found, least, most = self._tree.gathered(found)
        low = _summed(found.low, least)
        same = least is most and all((piece.low == piece.high).all() for piece in found.pieces)
        return Told(*exact, low, low if same else _summed(found.high, most))

    def is_exact(self, asked: Asked, sizes: Mapping[str, int]) -> Flags | None:
        """Which cells are sums of its cells."""
        if isinstance(asked, Counts):
            if self._parts is not None:
                return np.concatenate(
                    [_exact(*self._parts.made_of(own), own.cells)[0] for own in asked.split(self._parts.extent)]
                )
            each = [self.is_exact(query, sizes) for query in asked.queries()]
            return np.array([own is not None and bool(own[0]) for own in each])
        found = contained(asked.blocks, self.blocks, sizes)
        return None if found is None else found.is_exact

    def _told_of_counts(self, asked: Counts, sizes: Mapping[str, int]) -> Told | None:
        if self._parts is not None:
            return _joined([self._told_by_parts(own, self._parts) for own in asked.split(self._parts.extent)])
        each = [self.told(query, sizes) for query in asked.queries()]
        known = [own for own in each if own is not None]
        # All are about the same attributes: all are too much to work out, or none is.
        return _joined(known) if len(known) == len(each) else None

    def _told_by_parts(self, asked: Counts, parts: Parts) -> Told:
        full, touched, beyond = parts.made_of(asked)
        is_exact, is_open = _exact(full, touched, beyond, asked.cells)
        low = self._over(flags(full, asked.cells), parts)
        high = Sums(low.values.copy(), low.variances.copy(), low.fourths.copy())
        if not is_exact.all():
            more = self._over(flags(touched, asked.cells)[:, ~is_exact], parts)
            high.values[~is_exact], high.variances[~is_exact], high.fourths[~is_exact] = (
                more.values,
                more.variances,
                more.fourths,
            )
        return Told(is_exact, is_open, True, low, high)

    def _over(self, has: Flags, parts: Parts) -> Sums:
        """Of each count, the sum over the parts that it has."""
        if self._tree is not None:
            return self._tree.estimates(has)
        own = self._sums
        return Sums(*summed(has, [each[parts.numbers] for each in (own.values, own.variances, own.fourths)]))

    @cached_property
    def _parts(self) -> Parts | None:
        """Its cells as parts, where they are counts of not too many class combinations."""
        is_small = prod(block.extent for block in self.blocks) <= MOST_COMBINATIONS
        return Parts(self.blocks) if is_small and all(block.values is None for block in self.blocks) else None


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

    def exact(self, asked: Asked) -> Exact:
        """Which cells are sums of what was measured, and the best estimate of those: by precision where several families tell."""
        is_exact, is_joined = (np.zeros(asked.cells, dtype=np.bool_) for _ in range(2))
        values, precisions, fourths = (np.zeros(asked.cells) for _ in range(3))
        for family in self.containing(asked.attributes)[:MOST_ASKED]:
            told = family.told(asked, self._sizes)
            if told is None:
                continue
            own = told.is_exact
            is_joined |= own & (is_exact | family.is_joined)
            is_exact |= own
            precision = 1 / np.maximum(told.low.variances[own], LEAST)
            values[own] += told.low.values[own] * precision
            precisions[own] += precision
            fourths[own] += told.low.fourths[own] * precision**4
        known = np.where(is_exact & (precisions > 0), precisions, 1.0)
        # A cell that nothing measured is part of is 0 without noise.
        sums = Sums(values / known, np.where(is_exact, 1 / known, 0.0), fourths / known**4)
        return Exact(is_exact, is_joined, sums)

    def are_exact(self, queries: Sequence[LinearQuery]) -> list[bool]:
        """Of each query, whether all of its cells are sums of what was measured."""
        out = [False] * len(queries)
        counts = list(together(queries))
        counted = {number for numbers, _ in counts for number in numbers}
        for number, query in enumerate(queries):
            if number not in counted:
                out[number] = bool(self._is_exact(query).all())
        for numbers, own in counts:
            for number, is_exact in zip(numbers, self._is_exact(own).tolist(), strict=True):
                out[number] = is_exact
        return out

    def _is_exact(self, asked: Asked) -> Flags:
        found = np.zeros(asked.cells, dtype=np.bool_)
        for family in self.containing(asked.attributes)[:MOST_ASKED]:
            own = family.is_exact(asked, self._sizes)
            if own is not None:
                found |= own
            if found.all():
                break
        return found


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


def _sums_of(answer: Noisy) -> Sums:
    size = prod(block.size for block in answer.query.blocks)
    return Sums(answer.values, np.full(size, answer.variance), np.full(size, answer.fourth))


def _exact(full: Bits, touched: Bits, beyond: Bits, cells: int) -> tuple[Flags, Flags]:
    """Of each count, whether it cuts no part and has nothing beyond them; and whether it has."""
    cuts = np.bitwise_or.reduce(touched & ~full, axis=0)
    return flags(~(cuts | beyond), cells), flags(beyond, cells)


def _joined(parts: Sequence[Told]) -> Told:
    low, high = (
        Sums(
            *(
                np.concatenate(own)
                for own in zip(*((sums.values, sums.variances, sums.fourths) for sums in each), strict=True)
            )
        )
        for each in ([own.low for own in parts], [own.high for own in parts])
    )
    is_exact, is_open = (
        np.concatenate(own) for own in ([own.is_exact for own in parts], [own.is_open for own in parts])
    )
    return Told(is_exact, is_open, all(own.is_bounded for own in parts), low, high)


def _summed(sum_: object, sums: Sums) -> Sums:
    assert callable(sum_)
    return Sums(sum_(sums.values), sum_(sums.variances, 2), sum_(sums.fourths, 4))


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
