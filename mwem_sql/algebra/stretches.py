"""Long arrays in little room: stretches of equal numbers, which is what conditions on ordered values make of them.

Ten thousand comparisons cut a column into ten thousand classes, and a plain array of classes for each comparison has the product of
the two; as stretches, each has as many numbers as it has constants. Knows nothing of SQL, data or noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Numbers, Places

SHORT = 512
"""Numbers of an array that is kept as it is. Larger: more memory for workloads of many constants; smaller: more time for small arrays."""
_FEWER = 8
"""Numbers of an array for each of its stretches, from which on it is held as stretches. These take two arrays, one of 8 bytes a number, so fewer save no room."""


@dataclass(frozen=True, eq=False)
class Stretches:
    """An array, row after row: from `begins[i]` on (the first is 0) it has `numbers[i]`, neighbours of which differ."""

    begins: Places
    numbers: Numbers
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: Numbers) -> Stretches:
        flat = array.ravel()
        begins = np.flatnonzero(flat[1:] != flat[:-1]) + 1
        begins = np.concatenate([np.zeros(min(1, flat.size), dtype=np.intp), begins])
        return cls(begins, flat[begins], array.shape)

    @classmethod
    def at(cls, begins: Places, numbers: Numbers, size: int) -> Stretches:
        """An array of one axis from its numbers at some places, ascending, that has the same number from each of them to the next."""
        kept = np.ones(len(begins), dtype=np.bool_)
        kept[1:] = numbers[1:] != numbers[:-1]
        return cls(begins[kept], numbers[kept], (size,))

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def ends(self) -> Places:
        return np.append(self.begins[1:], self.size)

    @property
    def is_worth_it(self) -> bool:
        """Whether this takes less room than the array."""
        return self.size > SHORT and _FEWER * len(self.begins) <= self.size

    def array(self) -> Numbers:
        return np.repeat(self.numbers, self.ends - self.begins).reshape(self.shape)

    def take(self, places: Places) -> Stretches:
        """The numbers at some places of the one axis, ascending."""
        begins = np.searchsorted(places, self.begins)
        some = begins < np.append(begins[1:], len(places))
        return Stretches.at(begins[some], self.numbers[some], len(places))


Held: TypeAlias = Stretches | Numbers
"""An array, or the same in less room."""


def hold(array: Numbers) -> Held:
    """The array as stretches where they are few, in bytes where its numbers fit them, or as it is."""
    if array.size <= SHORT:
        return array
    found = Stretches.of(array)
    if found.is_worth_it:
        return found
    if array.dtype.kind == "i" and array.itemsize > 1 and array.min() >= -128 and array.max() < 128:
        return array.astype(np.int8)
    return array


def plain(held: Held) -> Numbers:
    return held.array() if isinstance(held, Stretches) else held


def take(held: Held, places: Places) -> Held:
    """The numbers at some places of the one axis, ascending."""
    return held.take(places) if isinstance(held, Stretches) else held[places]


def equal(held: Held, number: int) -> Held:
    """Where an array of one axis has a number."""
    if isinstance(held, Stretches):
        return Stretches.at(held.begins, held.numbers == number, held.size)
    return np.asarray(held == number)


def both(parts: Sequence[Held]) -> Held:
    """Where all of several arrays of one axis are true."""
    return reduce(_both, parts)


def _both(one: Held, other: Held) -> Held:
    if not isinstance(one, Stretches) or not isinstance(other, Stretches):
        return np.asarray(plain(one) & plain(other))
    begins = np.union1d(one.begins, other.begins)
    found = [own.numbers[np.searchsorted(own.begins, begins, side="right") - 1] for own in (one, other)]
    return Stretches.at(begins, found[0] & found[1], one.size)


class Signatures:
    """Tells the places of one axis apart: places at which all of many arrays are alike have the same signature.

    It is a sum, by two sets of random multipliers, of all that the arrays say of a place. Places that differ have the same one with a
    probability below 2^-78 (numbers are below 2^24, and each factor of two in a difference takes one of 64 bits, twice).
    """

    def __init__(self, size: int) -> None:
        self._sums = np.zeros((size, 2), dtype=np.uint64)
        self._stretches: list[Stretches] = []
        self._generator = np.random.default_rng(0)

    def add(self, held: Held, axis: int = 0) -> None:
        """What an array of small whole numbers says along an axis."""
        if isinstance(held, Stretches) and len(held.shape) == 1:
            self._stretches.append(held)
            return
        rows = np.moveaxis(plain(held), axis, 0).reshape(len(self._sums), -1)
        self._sums += rows.astype(np.int64).view(np.uint64) @ self._multipliers(rows.shape[1])

    def rows(self) -> npt.NDArray[np.uint64]:
        """Of each place its signature: two numbers."""
        steps = np.zeros_like(self._sums)
        if self._stretches:
            counts = np.array([len(own.begins) for own in self._stretches])
            numbers = np.concatenate([own.numbers for own in self._stretches]).astype(np.int64)
            # By how much each array goes up from stretch to stretch, and at first from 0.
            ups = np.diff(numbers, prepend=0)
            firsts = np.cumsum(counts) - counts
            ups[firsts] = numbers[firsts]
            multipliers = np.repeat(self._multipliers(len(counts)), counts, axis=0)
            begins = np.concatenate([own.begins for own in self._stretches])
            np.add.at(steps, begins, ups.view(np.uint64)[:, None] * multipliers)
        return np.asarray(self._sums + np.cumsum(steps, axis=0, dtype=np.uint64))

    def _multipliers(self, count: int) -> npt.NDArray[np.uint64]:
        return self._generator.integers(2**64, size=(count, 2), dtype=np.uint64)
