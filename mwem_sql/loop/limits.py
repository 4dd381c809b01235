"""Which queries the model has room for: whether measuring one would keep the state within its cells, and a round within its part of them.

Owns a bound on that for every query, kept from round to round and computed again only where the state has changed. Public all of it: the
workload, the classes and the state. Changes no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Flags, Floats, Integers
from mwem_sql.loop.alike import Alike, Asked
from mwem_sql.model.state import State
from mwem_sql.model.tree import Tree

FEW = 5_000
"""Cliques that a round may look at to work out what sets of attributes would add. Larger: slower rounds. Beyond, only sets that surely fit are offered."""
APART = 1e-6
"""Cells: stands for the way between attributes of different trees, which is none, and yet they are not together. Below any number of cells."""


class Limits:
    """A state asks, as it grows, which queries of a workload it could still measure."""

    def __init__(self, asked: Asked, max_cells: int, step: int | None = None) -> None:
        """`max_cells` is for the whole state, `step` for what a round adds beside the cells of its own query."""
        self._asked = asked
        self._max_cells = max_cells
        self._step = max_cells if step is None else step
        attributes, is_single = len(asked.sizes), asked.sizes == 1
        # The way between two attributes of a tree: the cells of all cliques on it, 0 if they are in a clique together.
        # One that is alone and not split to its classes is not there yet.
        self._way = np.full((attributes, attributes), APART, dtype=np.float32)
        # Attributes of one class are never a reason to join anything.
        self._way[is_single, :] = self._way[:, is_single] = 0
        self._measured = 0
        # By group, which of its sets surely fit, and the ways up to which they do.
        self._surely: dict[int, tuple[Flags, Floats]] = {}
        self._exact: dict[tuple[int, ...], tuple[object, int]] = {}
        # Of each attribute, its groups and their runs; and if it is split in part, beside others, the cells of the cliques that hold it.
        self._groups = np.ones(attributes, dtype=np.int64)
        self._runs = np.ones(attributes, dtype=np.int64)
        self._held = np.zeros(attributes, dtype=np.int64)
        self._partial = np.zeros(attributes, dtype=np.bool_)
        self._splits = 0

    def fitting(self, state: State) -> Flags:
        """For each query, whether the state would keep to its limits if it were measured."""
        room = max(0, self._max_cells - state.cells)
        moved = self._follow(state)
        fits = [self._surely_fitting(place, state, room, moved) for place in range(len(self._asked.groups))]
        open_sets = sum(len(own) - np.count_nonzero(own) for own in fits)
        if open_sets * max((len(tree.potentials) for tree in state.trees), default=0) <= FEW:
            fits = [own.copy() for own in fits]
            for group, own in zip(self._asked.groups, fits, strict=True):
                open_ = np.flatnonzero(~own)
                own[open_] = [self._added(state, group, number) <= room for number in open_.tolist()]
        offered = np.empty(len(self._asked.queries), dtype=np.bool_)
        for group, own in zip(self._asked.groups, fits, strict=True):
            offered[group.span] = own[group.set_of]
        return offered

    def _follow(self, state: State) -> Integers | None:
        """Bring grids and ways up to date with the state: places of the ways that changed, or None if these are many."""
        attributes = len(self._asked.index)
        whole = []
        for name in state.partitions.splits[self._splits :]:
            place, partition = self._asked.index[name], state.partitions[name]
            self._groups[place], self._runs[place] = partition.count, len(partition.runs)
            if partition.is_whole:
                self._way[place, place] = 0
                whole.append(place * (attributes + 1))
        self._splits = len(state.partitions.splits)
        self._held[:], self._partial[:] = 0, False
        for name in state.partitions.partial:
            (tree,) = state.trees_of([name])
            holders = tree.layout.holders[name] if len(tree.attributes) > 1 else ()
            self._held[self._asked.index[name]] = sum(tree.potentials[number].cells for number in holders)
            self._partial[self._asked.index[name]] = True
        trees = self._measure_ways(state.trees)
        if sum(len(places) ** 2 for places in trees) >= self._way.size // 4:
            return None
        within = [(places[:, None] * attributes + places).reshape(-1) for places in trees]
        return np.concatenate([*within, np.array(whole, dtype=np.int64)])

    def _measure_ways(self, trees: Sequence[Tree]) -> list[Integers]:
        """Bring the ways up to date with trees that have changed; the attributes of each."""
        seen, index, moved = self._measured, self._asked.index, []
        for tree in trees:
            if tree.stamp <= seen or len(tree.layout.tops) == 1:
                continue
            self._measured = max(self._measured, tree.stamp)
            tops = list(tree.layout.tops.values())
            places = np.array([index[name] for name in tree.layout.tops])
            self._way[places[:, None], places] = _ways(tree).take(tops, axis=0).take(tops, axis=1)
            # Two are together if the first clique of one of them has the other.
            both = [
                (index[name], index[other])
                for name, top in tree.layout.tops.items()
                for other in tree.layout.cliques[top]
            ]
            one, two = np.array(both).T
            self._way[one, two] = self._way[two, one] = 0
            moved.append(places)
        return moved

    def _surely_fitting(self, place: int, state: State, room: int, moved: Integers | None) -> Flags:
        """Whether there is room for the sets of a group even at worst. What did not move is as it was."""
        group = self._asked.groups[place]
        if group.cells is None:
            return self._is_room(group, np.arange(len(group.sets)), room)
        # What is together in the end is where one attribute is already: the others alone make cliques on the way larger.
        most = self._longest(room, group.cells, group.cells / min(group.shape or (1,)), np.zeros(1), len(group.links))
        fits, before = self._surely.get(place, (np.empty(0, dtype=np.bool_), np.empty(0)))
        if moved is not None and group.at is not None and np.array_equal(most, before):
            again = group.linked(moved)
            fits[again] = self._way.take(group.links[0][again]) <= most[0]
        elif len(group.links) == 1:
            fits = (self._way <= most).take(group.links[0])
        else:
            fits = self._ways(group, slice(None)) <= most
        self._surely[place] = fits, most
        if state.partitions.partial:
            partly = np.flatnonzero(self._partial[group.sets].any(axis=1))
            fits = fits.copy()
            fits[partly] = self._is_room(group, partly, room)
        return fits

    def _is_room(self, group: Alike, rows: Integers, room: int) -> Flags:
        """The same for some sets, some of whose attributes are to be split."""
        members, counts = group.sets[rows], self._counts(group, rows)
        held = self._held[members]
        # Cliques that hold an attribute beside others grow as it is split; one that has it alone is a part of the set's.
        growth = (np.where(held > 0, counts / self._groups[members], 1.0).prod(axis=1) - 1) * held.sum(axis=1)
        cells = counts.prod(axis=1, dtype=np.float64)
        return self._ways(group, rows) <= self._longest(room, cells, cells, growth, len(group.links))

    def _counts(self, group: Alike, rows: Integers | int) -> Integers:
        """Groups that the attributes of some sets have at most after a query of the set is measured."""
        members = group.sets[rows]
        most = self._asked.sizes[members]
        return most if group.changes is None else np.minimum(most, self._runs[members] + group.changes[rows])

    def _longest(self, room: int, cells: Floats, times: Floats, growth: Floats, links: int) -> Floats:
        """The longest way between attributes of a set for which there surely is room; below 0 if there is none for what it splits.

        At worst all cliques on the way from one of its attributes to the others become `times` as large.
        """
        spare = np.minimum(self._step, room - cells) - growth
        most = np.maximum(spare / times, 0) + (spare >= 0) * links * APART
        return np.where(growth <= np.minimum(room, self._step + cells), most, -1.0)

    def _ways(self, group: Alike, rows: Integers | slice) -> Floats:
        """Of each set: no less than from one of its attributes to all others that are in the same tree, and so for all trees."""
        ways = [self._way.take(link[rows]) for link in group.links]
        if len(ways) != 3:
            return np.asarray(sum(ways, np.zeros(1, dtype=np.float32)))
        # Of three ways between the same cliques none is longer than the others together; and a third attribute may be in another tree.
        longest = np.maximum(np.maximum(ways[0], ways[1]), ways[2])
        return np.asarray(np.maximum(longest, ways[0] + ways[1] + ways[2] - longest))

    def _added(self, state: State, group: Alike, number: int) -> float:
        """By how many cells the state would grow, or infinity if that is more than it may at a time."""
        members, counts = group.sets[number].tolist(), self._counts(group, number).tolist()
        names = [self._asked.names[member] for member in members]
        trees = [(tree.layout, tree.sets, tree.cells) for tree in state.trees_of(names)]
        key = (*members, *counts)
        known = self._exact.get(key)
        # Kept while the trees of the set's attributes are cut in the same way, for the same reasons, and as large.
        if known is None or known[0] != trees:
            known = self._exact[key] = (
                trees,
                state.cells_with(names, dict(zip(names, counts, strict=True))) - state.cells,
            )
        return known[1] if known[1] <= prod(counts) + self._step else inf


def _ways(tree: Tree) -> npt.NDArray[np.float32]:
    """For every two cliques of a tree, the cells of all cliques from one to the other."""
    cells = [potential.cells for potential in tree.potentials]
    ways = np.zeros((len(cells), len(cells)), dtype=np.float32)
    for number, (size, parent) in enumerate(zip(cells, tree.layout.parents, strict=True)):
        ways[number, :number] = ways[:number, number] = ways[parent, :number] + size if number else 0
        ways[number, number] = size
    return ways
