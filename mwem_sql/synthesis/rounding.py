"""Whole numbers of rows for all cells of a state's cliques, close to the weights and equal where cliques overlap.

Attributes are taken one after the other, clique by clique. The rows of a cell of what was taken before are shared out
to the classes of the next attribute: each class gets its conditional share, rounded down or up. Which shares are
rounded up is used to keep what is summed over those cells near the state, too: the attribute's marginal, which ends up
within 1, its pairs with the attributes before it, and what the clique shares with its neighbours. So errors do not add
up along a tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Flags, Floats, Integers
from mwem_sql.algebra.table import Names, Table
from mwem_sql.model.state import State
from mwem_sql.model.tree import Tree

GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it, modulo 1, are spread more evenly than those of any other number."""
ROUNDING_SWEEPS = 2
"""Times that open fractions are moved before some are decided: more do not come closer."""
LEAST_WEIGHT = 1e-300
"""Keeps a division by 0 away; below any weight."""
LEAST_DUE = 1e-200
"""Rows: a cell that is due fewer has none. Far above the weight of impossible cells, far below any other."""


@dataclass(frozen=True, eq=False)
class CliqueCounts:
    """Rows in each cell of a clique; the attributes of a clique before it (`shared`) are in front."""

    table: Table
    shared: Names


def whole_tables(state: State, rows: int, generator: np.random.Generator) -> Iterator[CliqueCounts]:
    """Counts for each clique, in an order in which they can be dealt; the trees with the largest cliques first."""
    for tree in sorted(state.trees, key=lambda tree: -max(one.cells for one in tree.potentials)):
        yield from _tree_tables(tree, rows, generator)


def systematic_counts(weights: Floats, count: int, generator: np.random.Generator) -> Integers:
    """Integers that sum to `count`, each within 1 of its share by weight and equal to it on average."""
    # One offset for all bounds: every run of neighbours is within 1 of its share, too.
    bounds = np.cumsum(weights)
    ends = np.floor(bounds * (count / bounds[-1]) + generator.random()).astype(np.int64)
    ends[-1] = count
    return np.asarray(np.diff(np.minimum(ends, count), prepend=0))


def golden_offsets(count: int, generator: np.random.Generator) -> Floats:
    """Numbers in [0, 1), each as likely as any other, neighbours far apart and every run of them evenly spread."""
    return np.asarray((np.arange(count) * GOLDEN + generator.random()) % 1)


def _tree_tables(tree: Tree, rows: int, generator: np.random.Generator) -> Iterator[CliqueCounts]:
    tree.calibrate()
    walk = list(tree.walk(max(range(len(tree.potentials)), key=lambda number: tree.potentials[number].cells)))
    done: list[CliqueCounts] = []
    for weights, shared in walk:
        counts = Table((), np.array(rows))
        if shared:
            counts = next(one.table for one in done if set(shared) <= set(one.table.names)).project(shared)
        separators = [other for _, other in walk if set(other) <= set(weights.names)]
        for name in weights.names:
            if name not in shared:
                taken = counts.names
                kept = {(other,) for other in taken} | {
                    tuple(part for part in taken if part in separator) for separator in separators if name in separator
                }
                sets = sorted(
                    (names for names in kept if 0 < len(names) < len(taken)),
                    key=lambda names: [taken.index(n) for n in names],
                )
                counts = _share_out(weights.project([*taken, name]), counts.cells, sets, generator)
        done.append(CliqueCounts(counts, shared))
        yield done[-1]


def _share_out(weights: Table, rows: Integers, kept: Sequence[Names], generator: np.random.Generator) -> Table:
    """Rows per cell of `weights`, whose last axis is a new attribute, given those per cell of the other axes.

    A class gets its share of a cell's rows rounded down or up. Half of the cells are decided first, then half of the
    rest, and so on; each time, the fractions of those still open are moved towards what is then missing from the
    marginals: of the attribute alone, and with each set of others in `kept`. What is still missing from the former at
    the end is corrected by moving single rows, where that takes a count least far from its share.
    """
    classes, total = weights.shape[-1], int(rows.sum())
    weights = Table(weights.names, weights.cells * (total / weights.cells.sum()))
    cells = generator.permutation(np.flatnonzero(rows))
    sizes = rows.reshape(-1)[cells]
    shares = weights.cells.reshape(-1, classes)[cells]
    shares *= (sizes / shares.sum(axis=1))[:, None]
    is_possible = shares >= LEAST_DUE
    shares[~is_possible] = 0
    coordinates = dict(zip(weights.names, np.unravel_index(cells, (*rows.shape, 1)), strict=True))
    margins = [
        _Margin(weights.project((*names, weights.names[-1])).cells, [coordinates[name] for name in names], shares)
        for names in [*kept, ()]
    ]
    due = margins[-1].decide(total, generator)
    counts = np.floor(shares).astype(np.int64)
    fractions = shares - counts
    ups = sizes - counts.sum(axis=1)
    for margin in margins:
        margin.count(slice(None), counts)
    start = 0
    while start < len(cells):
        rest, half = slice(start, None), slice(start, start + (len(cells) - start + 1) // 2)
        for _ in range(ROUNDING_SWEEPS):
            for margin in margins:
                margin.pull(rest, fractions[rest])
            fractions[rest] = _summing_to(ups[rest], fractions[rest], is_possible[rest])
        decided = _systematic_rows(fractions[half], ups[half], is_possible[half], generator)
        counts[half] += decided
        for margin in margins:
            margin.count(half, decided)
        start = half.stop
    _correct(counts, shares, is_possible, due)
    out = np.zeros(weights.shape, dtype=np.int64)
    out.reshape(-1, classes)[cells] = counts
    return Table(weights.names, out)


class _Margin:
    """What is missing from a marginal: an axis for its cells among those before the attribute, one for its classes."""

    def __init__(self, weights: Floats, coordinates: Sequence[Integers], shares: Floats) -> None:
        """What the shares sum to, but no further from the weights than a whole number has to be.

        With few rows the shares know best: they depend on all that was taken before.
        """
        self.cells = np.ravel_multi_index(coordinates, weights.shape[:-1]) if coordinates else None
        self.is_possible = weights.reshape(-1, weights.shape[-1]) >= LEAST_DUE
        self.low = np.floor(weights.reshape(-1, weights.shape[-1]))
        self.missing = np.clip(self._sums(slice(None), shares), self.low, np.ceil(weights.reshape(self.low.shape)))

    def decide(self, total: int, generator: np.random.Generator) -> Integers:
        """Whole numbers that sum to the total, for a marginal of one cell."""
        left = np.array([total - int(self.low.sum())])
        fractions = _summing_to(left, self.missing - self.low, self.is_possible)
        self.missing = self.low + _systematic_rows(fractions, left, self.is_possible, generator)
        return np.asarray(self.missing[0].astype(np.int64))

    def count(self, rows: slice, counts: Integers) -> None:
        self.missing -= self._sums(rows, counts)

    def pull(self, rows: slice, fractions: Floats) -> None:
        """Move fractions towards what is missing, those halfway between 0 and 1 most."""
        room = fractions * (1 - fractions)
        moves = _moves(self.missing - self._sums(rows, fractions), self._sums(rows, room))
        fractions += room * (moves if self.cells is None else moves[self.cells[rows]])

    def _sums(self, rows: slice, values: npt.NDArray[Any]) -> Floats:
        if self.cells is None:
            return np.asarray(values.sum(axis=0, keepdims=True), dtype=np.float64)
        cells = self.cells[rows, None] * values.shape[1] + np.arange(values.shape[1])
        sums = np.bincount(cells.reshape(-1), values.reshape(-1), self.low.size)
        return sums.astype(np.float64, copy=False).reshape(self.low.shape)


def _moves(gaps: Floats, rooms: Floats) -> Floats:
    """By what part of their room f (1 - f) fractions have to move to close a gap.

    1 takes none of them out of [0, 1].
    """
    return np.asarray(gaps / np.maximum(rooms, np.abs(gaps) + LEAST_WEIGHT))


def _summing_to(totals: Integers, fractions: Floats, is_possible: Flags) -> Floats:
    """Rows of fractions, those that are possible moved inside [0, 1] so that each row sums to its total."""
    room = fractions * (1 - fractions)
    near = fractions + room * _moves(totals - fractions.sum(axis=1), room.sum(axis=1))[:, None]
    # What is left takes all of a row the same part of their way to 0 or to 1.
    sums, classes = near.sum(axis=1), is_possible.sum(axis=1)
    down = np.where(sums > totals, totals / np.maximum(sums, LEAST_WEIGHT), 1.0)
    up = np.where(sums < totals, (classes - totals) / np.maximum(classes - sums, LEAST_WEIGHT), 1.0)
    return np.where(is_possible, 1 - (1 - near * down[:, None]) * up[:, None], 0.0)


def _systematic_rows(
    fractions: Floats, totals: Integers, is_possible: Flags, generator: np.random.Generator
) -> Integers:
    """0 or 1 for each fraction, 1 as often as it says, summing to the totals."""
    ends = np.floor(np.cumsum(fractions, axis=1) + golden_offsets(len(totals), generator)[:, None]).astype(np.int64)
    # The last that is possible has what rounding errors leave.
    behind = np.cumsum(is_possible, axis=1) == is_possible.sum(axis=1, keepdims=True)
    ends = np.where(behind, totals[:, None], np.minimum(ends, totals[:, None]))
    return np.asarray(np.diff(ends, prepend=0, axis=1))


def _correct(counts: Integers, shares: Floats, is_possible: Flags, due: Integers) -> None:
    """Move single rows between classes until their sums are due, where a count is then least far from its share."""
    over = counts.sum(axis=0) - due
    sources, targets = (np.repeat(np.arange(len(due)), np.maximum(each, 0)) for each in (over, -over))
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        above = counts[:, source] - shares[:, source]
        below = shares[:, target] - counts[:, target]
        can_move = (counts[:, source] > 0) & is_possible[:, target]
        if can_move.any():
            row = np.argmax(np.where(can_move, np.minimum(above, below), -np.inf))
            counts[row, source] -= 1
            counts[row, target] += 1
