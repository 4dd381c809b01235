"""The compiled form of a query: a linear map from the cells of a few attributes to its answers.

Knows nothing of SQL, data or noise. A query is a product of blocks, one per group of attributes that its
conditions join, so that independent conditions stay apart and a factored state can answer them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Array, Floats, Labels, Numbers, Places
from mwem_sql.algebra.partition import Encoding, Runs, decode, encode, refine, runs_of
from mwem_sql.algebra.table import Table


@dataclass(frozen=True, eq=False, init=False)
class Block:
    """A map from the classes of `attributes` to `size` cells.

    `labels` has one axis per attribute (`shape`): a class combination's cell, or -1 where it is not counted. A long one
    is kept in run-length encoding, and decoded at every use.
    `values` (same shape) is what a counted record adds to its cell, in whole numbers of `unit`; None: 1 everywhere.
    """

    attributes: tuple[str, ...]
    size: int
    values: Numbers | None
    unit: float
    encoding: Encoding = field(init=False, repr=False)

    def __init__(
        self,
        attributes: tuple[str, ...],
        labels: Encoding,
        size: int,
        *,
        values: Numbers | None = None,
        unit: float = 1.0,
    ) -> None:
        if len(labels.shape) != len(attributes):
            raise ValueError("a block has one label axis per attribute")
        if values is not None and values.shape != labels.shape:
            raise ValueError("a block's values have the shape of its labels")
        if not isinstance(labels, Runs) or not labels.saves_memory:
            labels = encode(decode(labels))
        # Not by assignment: a block is frozen.
        self.__dict__.update(attributes=attributes, size=size, values=values, unit=unit, encoding=labels)

    @property
    def labels(self) -> Labels:
        return decode(self.encoding).astype(np.int32, copy=False)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.encoding.shape

    @property
    def extent(self) -> int:
        """Class combinations of its attributes."""
        return self.encoding.size

    @property
    def _labels(self) -> Numbers:
        """The cell of each run, or of each class combination where the labels are not encoded."""
        return self.encoding.numbers if isinstance(self.encoding, Runs) else self.encoding.reshape(-1)

    @cached_property
    def _counted(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The positions of counted labels sorted by cell, and their cells."""
        where = np.flatnonzero(self._labels >= 0)
        where = where[np.argsort(self._labels[where], kind="stable")]
        return where, self._labels[where].astype(np.intp)

    @cached_property
    def bound(self) -> int:
        """The most that a record adds to its cell, in absolute value; at least 1."""
        added = None if self.values is None else self.values[self.labels >= 0]
        return 1 if added is None or not added.size else max(1, int(np.abs(added).max()))

    @cached_property
    def counts_all(self) -> bool:
        """Every record adds 1 to a cell."""
        return bool((self._labels >= 0).all()) and (self.values is None or bool((self.values == 1).all()))

    @property
    def is_run_length(self) -> bool:
        """It counts records, and is kept in run-length encoding."""
        return self.values is None and isinstance(self.encoding, Runs)

    @cached_property
    def is_identity(self) -> bool:
        """Every class combination is a cell of its own, in order."""
        if self.values is not None or self.size != self.extent or isinstance(self.encoding, Runs):
            return False
        return bool((self.encoding.ravel() == np.arange(self.size)).all())

    def slices(self, axis: int) -> Numbers:
        """A row for each class of one attribute: equal rows where the block does not distinguish the classes."""
        labels = self.labels
        entries: Numbers = labels[..., None]
        if self.values is not None:
            adds = (labels >= 0) & (self.values != 0)
            entries = np.stack([np.where(adds, labels, -1), np.where(adds, self.values, 0)], axis=-1)
        return np.moveaxis(entries, axis, 0).reshape(labels.shape[axis], -1)

    def kinds(self, axis: int) -> Labels:
        """A number for each class of one attribute: the same where the block does not distinguish the classes."""
        return refine(np.zeros(self.shape[axis], dtype=np.int32), self.slices(axis))

    @property
    def is_joint(self) -> bool:
        """Whether it counts or sums up records by several attributes at once: by `a > b`, say, and perhaps the rest."""
        return len(self.attributes) > 1 and self.size <= 2

    def parts(self, axis: int, most: int) -> Numbers:
        """A row for each class of one attribute, as `slices`; of a joint block, about `most` different ones at most.

        Where it distinguishes more classes, those of which it says the same whatever the other attributes are stay by
        themselves, and the others fall into even parts.
        """
        slices = self.slices(axis)
        if not self.is_joint or len(slices) <= most:
            return slices
        kinds = self.kinds(axis)
        if kinds.max() < most:
            return kinds
        entries = slices.reshape(len(slices), -1, 1 if self.values is None else 2)
        is_settled = (entries == entries[:, :1]).all(axis=(1, 2))
        return np.where(is_settled, -1 - kinds, np.arange(len(slices)) * most // len(slices))

    @cached_property
    def changes(self) -> tuple[int, ...]:
        """For each attribute, the number of classes that the block distinguishes from the class before."""
        if self.is_identity:
            return tuple(size - 1 for size in self.shape)
        if len(self.shape) == 1 and self.values is None:
            return (len(self.runs) - 1,)
        if self.values is None:
            # Views, and no row per class: 10,000 predicates have thousands of blocks over several attributes.
            labels = decode(self.encoding)
            turned = [np.moveaxis(labels, axis, 0) for axis in range(labels.ndim)]
            others = tuple(range(1, labels.ndim))
            return tuple(int(np.count_nonzero((rows[1:] != rows[:-1]).any(axis=others))) for rows in turned)
        slices = map(self.slices, range(len(self.shape)))
        return tuple(int(np.count_nonzero((rows[1:] != rows[:-1]).any(axis=1))) for rows in slices)

    @property
    def runs(self) -> Runs:
        """Neighbouring class combinations in the same cell, or not counted."""
        return runs_of(self.encoding)

    @cached_property
    def key(self) -> bytes:
        """A digest of what the block asks of each record."""
        return blake2b(_canonical(self), digest_size=16).digest()

    def apply(self, weights: Array) -> Array:
        """Sum an array (before, class combinations, after) into (before, cells, after); integers stay integers."""
        if self.is_identity:
            return weights
        if self.values is not None:
            weights = weights * self.values.reshape(-1, 1)
        if isinstance(self.encoding, Runs):
            weights = np.add.reduceat(weights, self.encoding.begins, axis=1)
        out = np.zeros((weights.shape[0], self.size, weights.shape[2]), dtype=weights.dtype)
        where, cells = self._counted
        if where.size:
            starts = np.flatnonzero(np.diff(cells, prepend=-1))
            out[:, cells[starts], :] = np.add.reduceat(weights[:, where, :], starts, axis=1)
        return out

    def spread(self, cells: Floats) -> Floats:
        """The adjoint of `apply`: (before, cells, after) to (before, class combinations, after), or 0."""
        if self.is_identity:
            return cells
        out = np.where((self._labels >= 0)[:, None], cells[:, self._labels, :], 0.0)
        if isinstance(self.encoding, Runs):
            out = np.repeat(out, self.encoding.ends - self.encoding.begins, axis=1)
        return out if self.values is None else out * self.values.reshape(-1, 1)

    def in_shares(self) -> Block:
        """The same with values in parts of `bound`."""
        if self.bound == 1 or self.values is None:
            return self
        return Block(
            self.attributes, self.encoding, self.size, values=self.values / self.bound, unit=self.unit * self.bound
        )

    def single_cells(self) -> list[Block]:
        """A block of one cell for each of its cells, in their order."""
        if self.size == 1:
            return [self]
        return [
            Block(
                self.attributes,
                np.where(self.labels == cell, np.int32(0), np.int32(-1)),
                1,
                values=self.values,
                unit=self.unit,
            )
            for cell in range(self.size)
        ]

    def on(self, places: Mapping[str, Places]) -> Block:
        """The same on other classes: class k of an attribute is there what class `places[k]` is here."""
        at = np.ix_(*(places[name] for name in self.attributes))
        values = None if self.values is None else self.values[at]
        return Block(self.attributes, self.labels[at], self.size, values=values, unit=self.unit)


@dataclass(frozen=True)
class LinearQuery:
    """A product of blocks over disjoint attributes; its cells are the blocks' cells in row-major order.

    No block at all is the query "how many rows". Queries are equal if they are products of the same blocks.
    """

    blocks: tuple[Block, ...]

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        return tuple(name for block in self.blocks for name in block.attributes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Cells per block."""
        return tuple(block.size for block in self.blocks)

    @cached_property
    def cells(self) -> int:
        return prod(self.shape)

    @cached_property
    def domain_cells(self) -> int:
        """Class combinations of its attributes."""
        return prod(block.extent for block in self.blocks)

    @cached_property
    def bound(self) -> int:
        """The most that a record adds to a cell, in absolute value: 1 for counts and parities."""
        return prod(block.bound for block in self.blocks)

    @cached_property
    def unit(self) -> float:
        """What an answer of 1 stands for."""
        return prod(block.unit for block in self.blocks)

    @cached_property
    def counts_all(self) -> bool:
        """Every record adds 1 to a cell."""
        return all(block.counts_all for block in self.blocks)

    @cached_property
    def is_count(self) -> bool:
        """No record adds anything but 1, or nothing."""
        return all(block.values is None for block in self.blocks)

    @property
    def is_joint(self) -> bool:
        """Whether a block of it is."""
        return any(block.is_joint for block in self.blocks)

    def single_cells(self) -> list[LinearQuery]:
        """A query of one cell for each of its cells, in their order."""
        return list(map(LinearQuery, product(*(block.single_cells() for block in self.blocks))))

    @property
    def shares(self) -> LinearQuery:
        """The same query with answers in parts of `bound`, so that a record adds at most 1; maybe itself."""
        # Not kept where it is the query itself: what refers to itself stays in memory until someone collects.
        return self if self.bound == 1 else self._shares

    @cached_property
    def _shares(self) -> LinearQuery:
        return LinearQuery(tuple(block.in_shares() for block in self.blocks))

    def answer(self, marginal: Array) -> Array:
        """The answers, one per cell, from a marginal whose axes are `attributes`, in that order.

        Integers wrap around beyond int64: an answer that fits is exact whatever the steps to it were.
        """
        out = marginal
        done = 1
        for block in self.blocks:
            out = block.apply(out.reshape(done, block.extent, -1))
            done *= block.size
        return out.reshape(self.cells)

    def spread(self, cells: Floats) -> Floats:
        """The adjoint of `answer`: sum over cells c of q_c(x) cells[c], an array whose axes are `attributes`."""
        out = cells
        done = 1
        for block in self.blocks:
            out = block.spread(out.reshape(done, block.size, -1))
            done *= block.extent
        return out.reshape([axis for block in self.blocks for axis in block.shape])

    def on(self, places: Mapping[str, Places]) -> LinearQuery:
        """The same on other classes: class k of an attribute is there what class `places[k]` is here."""
        return LinearQuery(tuple(block.on(places) for block in self.blocks))


def _canonical(block: Block) -> bytes:
    """The block with attributes by name, cells by first appearance, and values only where some differ from 1."""
    order = tuple(sorted(block.attributes))
    names = repr(order).encode()
    if block.values is None:
        is_ordered = order == block.attributes
        runs = block.runs if is_ordered else runs_of(Table(block.attributes, block.labels).project(order).cells)
        ends = np.append(runs.begins, block.extent).astype(np.int64)
        cells = _by_appearance(runs.numbers.astype(np.int32, copy=False), block.size)
        return names + ends.tobytes() + cells.tobytes()
    flat = _by_appearance(Table(block.attributes, block.labels).project(order).cells.ravel(), block.size)
    values = np.where(flat >= 0, Table(block.attributes, block.values).project(order).cells.ravel(), 1)
    if block.unit == 1 and bool((values == 1).all()):
        return _canonical(Block(block.attributes, block.encoding, block.size))
    return names + flat.tobytes() + repr(block.unit).encode() + values.tobytes()


def _by_appearance(labels: Labels, size: int) -> Labels:
    """Cells numbered by first appearance; -1 stays."""
    if size == 1:
        return labels
    seen, first = np.unique(labels, return_index=True)
    rank = np.full(size + 1, -1, dtype=np.int32)
    cells = [label for _, label in sorted(zip(first, seen, strict=True)) if label >= 0]
    rank[cells] = np.arange(len(cells), dtype=np.int32)
    return rank[labels]
