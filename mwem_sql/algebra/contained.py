"""How the cells of one query make up those of another: exactly, or between two sums. Pure array work on classes that both are about.

A record that a measured query puts in cell v adds to a cell c of an asked query at least `low` and at most `high` times what it adds to v. Where the two are equal for
all v of a cell, the cell is a sum of measured ones. An attribute that was not measured may have any value: that, too, is between a low and a high.
Blocks with no attribute in common are worked out apart (`Piece`), because both queries are products of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats, Integers, Numbers
from mwem_sql.algebra.linear import Block

MOST_COMBINATIONS = 2**22
"""Class combinations of blocks that are worked out together; of more, nothing is told."""
DENSE = 2**20
"""Entries of a matrix, up to which sums are a product with it."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Blocks that have attributes in common. A record of measured cell `measured[k]` adds `low[k]` to `high[k]` times what it adds there to asked cell `asked[k]`.

    `is_open` are asked cells that records count in which no measured cell has. `is_bounded` is whether what is measured is never negative: only then do
    low and high mean anything where they differ. `counts` are the measured cells' and asked cells' numbers.
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


@dataclass(frozen=True, eq=False)
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
        """Of each asked cell, whether it has records that no measured cell has, or may have: there is no upper bound, and none below but what is counted."""
        return self._in_order([piece.is_open for piece in self.pieces], np.logical_or)

    @property
    def is_bounded(self) -> bool:
        """Whether cells that are not exact lie between the two sums: nothing that is added, in any piece, is negative."""
        return all(piece.is_bounded and not (piece.low < 0).any() for piece in self.pieces)

    def low(self, cells: Floats, power: int = 1) -> Floats:
        """Of each asked cell, the sum over measured cells with the lower factors, to a power."""
        return self._sum(cells, [piece.low**power for piece in self.pieces])

    def high(self, cells: Floats, power: int = 1) -> Floats:
        return self._sum(cells, [piece.high**power for piece in self.pieces])

    def _sum(self, cells: Floats, factors: Sequence[Floats]) -> Floats:
        out = cells.reshape(self.measured_shape).transpose(self.measured_order)
        done = 1
        for piece, own in zip(self.pieces, factors, strict=True):
            out = _applied(piece, own, out.reshape(done, piece.counts[1], -1))
            done *= piece.counts[0]
        return self._from_pieces(out.reshape(-1))

    def _from_pieces(self, cells: Numbers) -> Numbers:
        shape = [self.asked_shape[block] for block in self.asked_order]
        return np.asarray(cells.reshape(shape).transpose(np.argsort(self.asked_order)).reshape(-1))

    def _in_order(self, flags: Sequence[Flags], together: np.ufunc) -> Flags:
        out = np.array([together.identity], dtype=np.bool_)
        for own in flags:
            out = together.outer(out, own).reshape(-1)
        return self._from_pieces(out)


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
    """How the cells of `measured` make up those of `asked`; `sizes` has the classes of each attribute. None if that is too much to work out."""
    together = _together([frozenset(block.attributes) for block in (*asked, *measured)])
    pieces, asked_order, measured_order = [], list[int](), list[int]()
    for numbers in together:
        own = [number for number in numbers if number < len(asked)]
        theirs = [number - len(asked) for number in numbers if number >= len(asked)]
        piece = _piece([asked[number] for number in own], [measured[number] for number in theirs], sizes)
        if piece is None:
            return None
        pieces.append(piece)
        asked_order += own
        measured_order += theirs
    shapes = tuple(block.size for block in asked), tuple(block.size for block in measured)
    return Contained(tuple(pieces), tuple(asked_order), shapes[0], tuple(measured_order), shapes[1])


def _together(sets: Sequence[frozenset[str]]) -> list[list[int]]:
    """Numbers of sets that hang together by common members."""
    groups: list[tuple[set[str], list[int]]] = []
    for number, names in enumerate(sets):
        touched = [group for group in groups if not group[0].isdisjoint(names)]
        groups = [group for group in groups if group[0].isdisjoint(names)]
        united = set(names).union(*(own for own, _ in touched))
        groups.append((united, sorted([number, *(k for _, own in touched for k in own)])))
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
    low, high = np.where(is_whole, low, np.minimum(low, 0)), np.where(is_whole, high, np.maximum(high, 0))
    return Piece(
        key % counts[0], key // counts[0], low, high, is_open, bool((weighs[place >= 0] > 0).all()), counts
    )  # fmt: skip


def _flat(blocks: Sequence[Block], names: Sequence[str], shape: Sequence[int]) -> tuple[Integers, Floats]:
    """Of each class combination its cell, or -1, and what a record of it adds there. A record that adds 0 is in no cell."""
    cell, adds = np.zeros(shape, dtype=np.int64), np.ones(shape)
    for block in blocks:
        axes = sorted(range(len(block.attributes)), key=lambda axis, own=block: names.index(own.attributes[axis]))  # type: ignore[misc]
        wide = [block.shape[block.attributes.index(name)] if name in block.attributes else 1 for name in names]
        labels = block.labels.transpose(axes).reshape(wide).astype(np.int64)
        if block.values is not None:
            values = block.values.transpose(axes).reshape(wide)
            adds = adds * values
            labels = np.where(values != 0, labels, -1)
        cell = np.where((cell >= 0) & (labels >= 0), cell * block.size + labels, -1)
    return cell.reshape(-1), np.asarray(np.broadcast_to(adds, shape)).reshape(-1)
