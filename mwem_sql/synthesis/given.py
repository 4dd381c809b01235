"""Class codes of rows some of whose attributes are given: the others are drawn from the state, given these.

Rows of one given cell are one group. Messages run over a tree once for all groups, with an axis for them: what a clique
says of its attributes, given those of a group. Then clique after clique is dealt, each cell of a group to its share of
the rows, rounded down or up by even steps: counts are within one of what is due in every group, and even across groups.
Which row of a group gets which cell is random, so that rows of one parent are independent given it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

import numpy as np

from mwem_sql.algebra.arrays import Floats, Integers, Places
from mwem_sql.algebra.table import Names, Table
from mwem_sql.model.state import State
from mwem_sql.synthesis.rounding import golden_offsets

AT_ONCE: Final = 2**22
"""Cells of all groups that are worked on at once. Larger: more memory, fewer passes over a tree."""


def draw_given(
    state: State, given: Mapping[str, Places], rows: int, generator: np.random.Generator
) -> dict[str, Places]:
    """The class of each row in each attribute that is not given. `given` has one class for each of the rows."""
    drawn: dict[str, Places] = {}
    for tree in state.trees:
        own = [name for name in tree.attributes if name not in given]
        if own:
            tree.calibrate()
            walk = list(tree.walk(0))
            drawn |= _drawn_of_tree(walk, own, {name: given[name] for name in tree.attributes if name in given}, rows,
                                    generator)  # fmt: skip
    return drawn


def _drawn_of_tree(
    walk: Sequence[tuple[Table, Names]],
    own: Sequence[str],
    given: Mapping[str, Places],
    rows: int,
    generator: np.random.Generator,
) -> dict[str, Places]:
    """All that a tree has of its own, for groups of rows that are alike in what is given."""
    sizes = {name: size for table, _ in walk for name, size in zip(table.names, table.shape, strict=True)}
    group, firsts = _groups(given, sizes, rows)
    order = generator.permutation(rows)
    order = order[np.argsort(group[order], kind="stable")]
    ends = np.searchsorted(group[order], np.arange(len(firsts) + 1))
    codes = {name: np.empty(rows, dtype=np.int64) for name in own}
    largest = max(prod(sizes[name] for name in table.names if name not in given) for table, _ in walk)
    step = max(1, AT_ONCE // largest)
    for begin in range(0, len(firsts), step):
        end = min(begin + step, len(firsts))
        places = order[ends[begin] : ends[end]]
        evidence = {name: codes_of[firsts[begin:end]] for name, codes_of in given.items()}
        _deal(_conditional(walk, evidence), group[places] - begin, places, codes, generator)
    return {name: codes[name] for name in own}


def _groups(given: Mapping[str, Places], sizes: Mapping[str, int], rows: int) -> tuple[Integers, Integers]:
    """The group of each row, by what is given, and the first row of each group; neighbours are alike."""
    group, firsts = np.zeros(rows, dtype=np.int64), np.zeros(min(rows, 1), dtype=np.int64)
    for name, codes in given.items():
        _, firsts, group = np.unique(group * sizes[name] + codes, return_index=True, return_inverse=True)
        group = group.reshape(-1)
    return group, firsts


def _deal(
    cliques: Sequence[tuple[Table, Names]],
    group: Integers,
    places: Integers,
    codes: Mapping[str, Places],
    generator: np.random.Generator,
) -> None:
    """Write the codes of the rows at `places`, which are sorted by their group. `cliques` are conditional tables."""
    for tables, shared in cliques:
        new = tables.names[1 + len(shared) :]
        if not new:
            continue
        shape = tables.shape[1 : 1 + len(shared)]
        cell = group if not shared else group * prod(shape) + np.ravel_multi_index(
            [codes[name][places] for name in shared], shape
        )  # fmt: skip
        # Which rows of a cell get what must be random: they were dealt by other cells before.
        order = generator.permutation(len(places))
        order = order[np.argsort(cell[order], kind="stable")]
        cells, counts = np.unique(cell, return_counts=True)
        weights = tables.cells.reshape(-1, prod(tables.shape[1 + len(shared) :]))
        chosen = np.empty(len(places), dtype=np.int64)
        step, done = max(1, AT_ONCE // weights.shape[1]), 0
        for begin in range(0, len(cells), step):
            some = _even_counts(weights[cells[begin : begin + step]], counts[begin : begin + step], generator)
            dealt = np.repeat(np.tile(np.arange(weights.shape[1]), len(some)), some.reshape(-1))
            chosen[order[done : done + len(dealt)]] = dealt
            done += len(dealt)
        for name, axis in zip(new, np.unravel_index(chosen, tables.shape[1 + len(shared) :]), strict=True):
            codes[name][places] = axis


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
        known = _sums(_restricted(walk[place][0].project(walk[place][1]), evidence), shares[place])
        message = np.divide(sums.cells, known.cells, out=np.zeros_like(sums.cells), where=known.cells > 0)
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
