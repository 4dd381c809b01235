"""Class codes of rows some of whose attributes are given: the others are drawn from the state, given these.

Rows of one given cell are one group. Messages run over a tree once for all groups, with an axis for them: what a clique
says of its attributes, given those of a group. Then clique after clique is dealt, each cell of a group to its share of
the rows, rounded down or up by even steps: counts are within one of what is due in every group, and even across groups.
Which row of a group gets which cell is random, so that rows of one parent are independent given it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from mwem_sql.algebra.arrays import Floats, Integers, Places
from mwem_sql.algebra.table import Names, Table
from mwem_sql.model.state import State
from mwem_sql.synthesis.rounding import golden_offsets

MOST_GROUP_CELLS: Final = 2**22
"""Cells of all groups that are worked on at once. Larger: more memory, fewer passes over a tree."""


def draw_given(
    state: State,
    given: Mapping[str, Places],
    rows: int,
    generator: np.random.Generator,
    *,
    most_cells: int = MOST_GROUP_CELLS,
) -> dict[str, Places]:
    """The class of each row in each attribute that is not given. `given` has one class for each of the rows."""
    dealer, drawn = _Dealer(generator, most_cells), dict[str, Places]()
    for tree in state.trees:
        if tree.attributes - given.keys():
            tree.calibrate()
            of_tree = {name: given[name] for name in tree.attributes if name in given}
            drawn |= dealer.of_tree(list(tree.walk(0)), of_tree, rows)
    return drawn


@dataclass(frozen=True, eq=False)
class _Dealer:
    """What deals the classes of a tree, a number of cells at a time."""

    generator: np.random.Generator
    most_cells: int

    def of_tree(self, walk: Sequence[tuple[Table, Names]], given: Mapping[str, Places], rows: int) -> dict[str, Places]:
        """All that a tree has beside what is given, for groups of rows that are alike in that."""
        sizes = {name: size for table, _ in walk for name, size in zip(table.names, table.shape, strict=True)}
        group, firsts = _groups(given, sizes, rows)
        order = self._sorted(group)
        ends = np.searchsorted(group[order], np.arange(len(firsts) + 1))
        codes: dict[str, Places] = {name: np.empty(rows, dtype=np.int64) for name in sizes if name not in given}
        largest = max(prod(sizes[name] for name in table.names if name not in given) for table, _ in walk)
        step = max(1, self.most_cells // largest)
        for begin in range(0, len(firsts), step):
            end = min(begin + step, len(firsts))
            places = order[ends[begin] : ends[end]]
            evidence = {name: codes_of[firsts[begin:end]] for name, codes_of in given.items()}
            for table, shared in _conditional(walk, evidence):
                self._deal(table, shared, (group[places] - begin, places), codes)
        return codes

    def _deal(self, table: Table, shared: Names, rows: tuple[Integers, Integers], codes: Mapping[str, Places]) -> None:
        """Write the codes that a conditional table adds, for some rows: their groups and their places."""
        cell, places = rows
        new, width = table.names[1 + len(shared) :], table.shape[1 + len(shared) :]
        if not new:
            return
        if shared:
            shape = table.shape[1 : 1 + len(shared)]
            cell = cell * prod(shape) + np.ravel_multi_index([codes[name][places] for name in shared], shape)
        order = self._sorted(cell)
        cells, counts = np.unique(cell, return_counts=True)
        weights = table.cells.reshape(-1, prod(width))
        chosen = np.empty(len(places), dtype=np.int64)
        step, done = max(1, self.most_cells // weights.shape[1]), 0
        for begin in range(0, len(cells), step):
            some = _even_counts(weights[cells[begin : begin + step]], counts[begin : begin + step], self.generator)
            dealt = np.repeat(np.tile(np.arange(weights.shape[1]), len(some)), some.reshape(-1))
            chosen[order[done : done + len(dealt)]] = dealt
            done += len(dealt)
        for name, axis in zip(new, np.unravel_index(chosen, width), strict=True):
            codes[name][places] = axis

    def _sorted(self, cell: Integers) -> Integers:
        """Rows by their cell; those of one cell in random order: which of them gets what must be chance."""
        order = self.generator.permutation(len(cell))
        return np.asarray(order[np.argsort(cell[order], kind="stable")])


def _groups(given: Mapping[str, Places], sizes: Mapping[str, int], rows: int) -> tuple[Integers, Integers]:
    """The group of each row, by what is given, and the first row of each group; neighbours are alike."""
    group, firsts = np.zeros(rows, dtype=np.int64), np.zeros(min(rows, 1), dtype=np.int64)
    for name, codes in given.items():
        _, firsts, group = np.unique(group * sizes[name] + codes, return_index=True, return_inverse=True)
        group = group.reshape(-1)
    return group, firsts


def _even_counts(weights: Floats, counts: Integers, generator: np.random.Generator) -> Integers:
    """Rows of whole numbers that sum to the counts, each within 1 of its share by weight and equal to it on average."""
    bounds = np.cumsum(weights, axis=1)
    ends = bounds * (counts / bounds[:, -1])[:, None] + golden_offsets(len(counts), generator)[:, None]
    ends = np.minimum(np.floor(ends).astype(np.int64), counts[:, None])
    ends[:, -1] = counts
    return np.asarray(np.diff(ends, axis=1, prepend=0))


def _conditional(walk: Sequence[tuple[Table, Names]], evidence: Mapping[str, Places]) -> list[tuple[Table, Names]]:
    """Each clique as a table: an axis for groups, without a name, those shared with cliques before, and the rest.

    Its weights are in proportion to the chance of the rest given group and shared: what is given of cliques behind it
    has come up by messages.
    """
    tables = [_restricted(table, evidence) for table, _ in walk]
    shares = [tuple(name for name in shared if name not in evidence) for _, shared in walk]
    before = [_holder(walk, place) for place in range(len(walk))]
    for place in range(len(walk) - 1, 0, -1):
        sums = _sums(tables[place], shares[place])
        before_it = _sums(_restricted(walk[place][0].project(walk[place][1]), evidence), shares[place])
        message = np.divide(sums.cells, before_it.cells, out=np.zeros_like(sums.cells), where=before_it.cells > 0)
        largest = message.reshape(len(message), -1).max(axis=1).reshape(-1, *[1] * (message.ndim - 1))
        # A group that no weight is left of: what is given behind this clique then says nothing.
        message = np.where(largest > 0, message / np.where(largest > 0, largest, 1.0), 1.0)
        tables[before[place]] = tables[before[place]].multiply(Table(sums.names, message))
    out = []
    for table, shared in zip(tables, shares, strict=True):
        names = ("", *shared, *(name for name in table.names if name and name not in shared))
        cells = np.ascontiguousarray(table.project(names).cells)
        flat = cells.reshape(prod(cells.shape[: 1 + len(shared)]), -1)
        flat = np.where(flat.sum(axis=1, keepdims=True) > 0, flat, 1.0)
        out.append((Table(names, flat.reshape(cells.shape)), shared))
    return out


def _restricted(table: Table, evidence: Mapping[str, Places]) -> Table:
    """The part of a table that agrees with what is given, for each group."""
    fixed = [name for name in table.names if name in evidence]
    free = tuple(name for name in table.names if name not in evidence)
    cells = table.project((*fixed, *free)).cells
    if fixed:
        cells = cells[tuple(evidence[name] for name in fixed)]
    else:
        groups = len(next(iter(evidence.values()))) if evidence else 1
        cells = np.broadcast_to(cells, (groups, *cells.shape))
    return Table(("", *free), np.array(cells))


def _sums(table: Table, shared: Names) -> Table:
    return table.project(("", *shared))


def _holder(walk: Sequence[tuple[Table, Names]], place: int) -> int:
    """The first clique that has all that one shares with those before it."""
    return next(number for number, (table, _) in enumerate(walk) if set(walk[place][1]) <= set(table.names))
