"""`Partition`, how members fall into cells, and `Runs`, a long array in run-length encoding.

Members are values, pieces of a range, or the cells of a finer partition. Ten thousand comparisons cut a column into ten
thousand classes, and a plain array of classes for each comparison has the product of the two; in run-length encoding,
each has as many numbers as it has constants. Knows nothing of SQL, data or noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Floats, Labels, Numbers, Places
from mwem_sql.algebra.sets import distinct

SHORT = 512
"""Numbers of an array that is not encoded. Larger: more memory for workloads of many constants; smaller: more time for
small arrays."""
RUN_LENGTH = 8
"""Numbers of a run, on average, from which on an array is encoded. A run takes 16 bytes, so shorter ones save none."""

SUMMED = 2**16
"""Numbers of the arrays that signatures sum up at once: 4 MB. More take memory, fewer take time."""


@dataclass(frozen=True, eq=False)
class Runs:
    """An array, row after row: from `begins[i]` on (the first is 0) it has `numbers[i]`. Neighbouring runs differ."""

    begins: Places
    numbers: Numbers
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: Numbers) -> Runs:
        flat = array.ravel()
        begins = np.flatnonzero(flat[1:] != flat[:-1]) + 1
        begins = np.concatenate([np.zeros(min(1, flat.size), dtype=np.intp), begins])
        return cls(begins, flat[begins], array.shape)

    @classmethod
    def at(cls, begins: Places, numbers: Numbers, size: int) -> Runs:
        """An array of one axis that has `numbers[i]` from `begins[i]` to the next; begins ascend."""
        differs = np.ones(len(begins), dtype=np.bool_)
        differs[1:] = numbers[1:] != numbers[:-1]
        return cls(begins[differs], numbers[differs], (size,))

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def ends(self) -> Places:
        return np.append(self.begins[1:], self.size)

    @property
    def saves_memory(self) -> bool:
        return self.size > SHORT and RUN_LENGTH * len(self) <= self.size

    def array(self) -> Numbers:
        return np.repeat(self.numbers, self.ends - self.begins).reshape(self.shape)

    def take(self, members: Places) -> Runs:
        """The numbers of some members of the one axis, ascending."""
        begins = np.searchsorted(members, self.begins)
        some = begins < np.append(begins[1:], len(members))
        return Runs.at(begins[some], self.numbers[some], len(members))


Encoding: TypeAlias = Runs | Numbers
"""An array, or the same in run-length encoding."""


def encode(array: Numbers) -> Encoding:
    """The array in run-length encoding if that is shorter, in bytes if its numbers fit them, or as it is."""
    if array.size <= SHORT:
        return array
    runs = Runs.of(array)
    if runs.saves_memory:
        return runs
    if array.dtype.kind == "i" and array.itemsize > 1 and array.min() >= -128 and array.max() < 128:
        return array.astype(np.int8)
    return array


def decode(encoding: Encoding) -> Numbers:
    return encoding.array() if isinstance(encoding, Runs) else encoding


def runs_of(encoding: Encoding) -> Runs:
    return encoding if isinstance(encoding, Runs) else Runs.of(encoding)


def take(encoding: Encoding, members: Places) -> Encoding:
    """The numbers of some members of the one axis, ascending."""
    return encoding.take(members) if isinstance(encoding, Runs) else encoding[members]


def equal(encoding: Encoding, number: int) -> Encoding:
    """Where an array of one axis has a number."""
    if isinstance(encoding, Runs):
        return Runs.at(encoding.begins, encoding.numbers == number, encoding.size)
    return np.asarray(encoding == number)


def conjunction(truths: Sequence[Encoding]) -> Encoding:
    """Where all of several arrays of one axis are true."""
    return reduce(_both, truths)


def _both(one: Encoding, other: Encoding) -> Encoding:
    if not isinstance(one, Runs) or not isinstance(other, Runs):
        return np.asarray(decode(one) & decode(other))
    begins = distinct(one.begins, other.begins)
    first, second = (
        runs.numbers[np.searchsorted(runs.begins, begins, side="right") - 1] for runs in (one, other)
    )  # fmt: skip
    return Runs.at(begins, first & second, one.size)


@dataclass(frozen=True, eq=False)
class Partition:
    """How members fall into cells: `codes[i]` is the cell of member i. Members share a cell's weight by `base`."""

    codes: Labels
    base: Floats

    @classmethod
    def single(cls, base: Floats) -> Partition:
        """All members in one cell."""
        return cls(np.zeros(len(base), dtype=np.int32), base)

    @classmethod
    def whole(cls, members: int) -> Partition:
        """Each member a cell."""
        return cls(np.arange(members, dtype=np.int32), np.ones(members))

    @cached_property
    def count(self) -> int:
        """Cells."""
        return int(self.codes.max()) + 1

    @property
    def is_whole(self) -> bool:
        return self.count == len(self.codes)

    @cached_property
    def representatives(self) -> npt.NDArray[np.intp]:
        """The first member of each cell."""
        return np.unique(self.codes, return_index=True)[1]

    @cached_property
    def sums(self) -> Floats:
        """The base of each cell."""
        return np.bincount(self.codes, self.base).astype(np.float64, copy=False)

    @cached_property
    def shares(self) -> Floats:
        """Each member's share of its cell."""
        return np.asarray(self.base / self.sums[self.codes])

    @cached_property
    def runs(self) -> Runs:
        """Neighbouring members of one cell. A query that changes c times along the members makes at most c more."""
        return Runs.of(self.codes)

    @cached_property
    def run_shares(self) -> Floats:
        """Each run's share of its cell."""
        return np.add.reduceat(self.shares, self.runs.begins)

    @cached_property
    def boundaries(self) -> tuple[Places, Floats]:
        """Of each boundary before, between and after members: the run behind it, and the share of that run before it.

        After the last member, that is the last run.
        """
        begins, count = self.runs.begins, len(self.runs)
        run = np.repeat(np.arange(count), self.runs.ends - begins)
        before = np.cumsum(self.shares) - self.shares
        inside = (before - before[begins][run]) / self.run_shares[run]
        return np.append(run, count - 1), np.append(inside, 1.0)

    @cached_property
    def _order(self) -> tuple[Places, Places]:
        """Members sorted by cell, and where each cell begins."""
        order = np.argsort(self.codes, kind="stable")
        return order, np.searchsorted(self.codes[order], np.arange(self.count))

    def refine(self, rows: Numbers) -> Partition:
        """Split cells whose members differ in a row (members first); cells are numbered by first appearance."""
        return Partition(refine(self.codes, rows), self.base)

    def merge(self, coarser: Partition) -> Partition:
        """The cells of `coarser`, whose members are the cells of this one."""
        return Partition(coarser.codes[self.codes], self.base)

    def spread(self, weights: Floats, axis: int) -> Floats:
        """From weights of cells along an axis to those of members."""
        return spread(weights, axis, self.codes, self.shares)

    def spread_to_runs(self, weights: Floats, axis: int) -> Floats:
        """From weights of cells along an axis to those of runs."""
        return spread(weights, axis, self.runs.numbers, self.run_shares)

    def gather(self, weights: Floats, axis: int) -> Floats:
        """From weights of members along an axis to those of cells."""
        order, starts = self._order
        return np.asarray(np.add.reduceat(weights.take(order, axis=axis), starts, axis=axis))

    def average(self, adds: Floats, axis: int) -> Floats:
        """From what a record of each member adds along an axis to what one of each cell adds on average."""
        return self.gather(adds * self.shares.reshape(-1, *[1] * (adds.ndim - axis - 1)), axis)

    def coverage(self, begins: Places, ends: Places) -> Floats:
        """The share of each cell in some disjoint ranges of members: `average` of a count, run by run."""
        behind, inside = self.boundaries
        # What comes before a boundary is a part of the run behind it, and all runs before that.
        steps, parts = np.zeros(len(self.runs) + 1), np.zeros(len(self.runs))
        for boundary, sign in ((begins, -1.0), (ends, 1.0)):
            np.add.at(steps, behind[boundary], sign)
            np.add.at(parts, behind[boundary], sign * inside[boundary])
        whole = np.cumsum(steps[::-1])[::-1][1:]
        weights = (whole + parts) * self.run_shares
        return np.bincount(self.runs.numbers, weights, minlength=self.count).astype(np.float64, copy=False)


def refine(codes: Labels, rows: Numbers) -> Labels:
    """Codes of cells that are split where members differ in a row (members first), numbered by first appearance."""
    rows = np.ascontiguousarray(rows.reshape(len(codes), -1))
    seen: dict[tuple[int, bytes], int] = {}
    out = np.empty(len(codes), dtype=np.int32)
    for member, code in enumerate(codes.tolist()):
        out[member] = seen.setdefault((code, rows[member].tobytes()), len(seen))
    return out


def spread(weights: Floats, axis: int, parents: Places, shares: Floats) -> Floats:
    """Weights of members along an axis: member i gets its share of what cell `parents[i]` has."""
    out = weights.take(parents, axis=axis)
    out *= shares.reshape(-1, *[1] * (out.ndim - axis - 1))
    return np.asarray(out)


def signatures(
    sizes: Mapping[str, int], arrays: Iterable[tuple[tuple[str, ...], Encoding]], *, at_once: int = SUMMED
) -> dict[str, npt.NDArray[np.uint64]]:
    """Two numbers for each member of each axis, the same for members that none of the arrays distinguishes.

    An array has small whole numbers, and a name of `sizes` for each of its axes. Arrays over the same axes are first
    summed up with random multipliers, run by run, and then along each axis. Members that differ have the same signature
    with a probability below 2^-74 (numbers are below 2^24, and each factor of two in a difference takes one of 64 bits,
    twice; the second sum meets multiples of higher powers of two, each with the chance that there is one).
    """
    generator = np.random.default_rng(0)
    out = {name: np.zeros((size, 2), dtype=np.uint64) for name, size in sizes.items()}
    by_names: dict[tuple[str, ...], list[Encoding]] = {}
    for names, encoding in arrays:
        by_names.setdefault(names, []).append(encoding)
    for names, encodings in by_names.items():
        shape = [sizes[name] for name in names]
        cells = _summed(encodings, prod(shape), generator, at_once).reshape(*shape, 2)
        for axis, name in enumerate(names):
            rows = np.moveaxis(cells, axis, 0).reshape(shape[axis], -1)
            out[name] += rows @ generator.integers(2**64, size=(rows.shape[1], 2), dtype=np.uint64)
    return out


def _summed(
    encodings: Sequence[Encoding], size: int, generator: np.random.Generator, at_once: int
) -> npt.NDArray[np.uint64]:
    """Two sums of the arrays, by random multipliers."""
    steps = np.zeros((size, 2), dtype=np.uint64)
    sizes = [len(encoding) if isinstance(encoding, Runs) else encoding.size for encoding in encodings]
    portions = np.flatnonzero(np.diff(np.cumsum(sizes) // at_once)) + 1
    for begin, end in pairwise([0, *portions.tolist(), len(encodings)]):
        runs = [runs_of(encoding) for encoding in encodings[begin:end]]
        counts = np.array(list(map(len, runs)))
        numbers = np.concatenate([each.numbers for each in runs]).astype(np.int64)
        # By how much each array rises from run to run, and at first from 0.
        rises = np.diff(numbers, prepend=0)
        firsts = (np.cumsum(counts) - counts)[counts > 0]
        rises[firsts] = numbers[firsts]
        multipliers = np.repeat(generator.integers(2**64, size=(len(runs), 2), dtype=np.uint64), counts, axis=0)
        np.add.at(steps, np.concatenate([each.begins for each in runs]), rises.view(np.uint64)[:, None] * multipliers)
    return np.cumsum(steps, axis=0, dtype=np.uint64)
