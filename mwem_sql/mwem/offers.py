"""The candidates of a round: which of them the model has room for, and what the state answers to each.

Both are kept from round to round and computed again only where the state has changed. Public all of it: the
workload, the classes and the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import inf, prod

import numpy as np
import numpy.typing as npt

from mwem_sql.model.adaptive import Adaptive
from mwem_sql.model.three_way import three_way
from mwem_sql.model.tree import Tree
from mwem_sql.model.two_way import TwoWay
from mwem_sql.queries.arrays import Floats
from mwem_sql.queries.linear import LinearQuery
from mwem_sql.queries.summary import Facts, distinct_rows

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_NONE = np.empty(0, dtype=np.int64)

FEW = 5_000
"""Cliques that a round may look at to work out what sets of attributes would add; beyond, only those that surely fit are offered."""
MANY = 1000
"""Queries from which on they are answered from two-way marginals where possible."""
BULK = 50
"""Three-way marginals of one shape from which on they are worked out together."""
LARGEST = 8000
"""Classes of all attributes together up to which all two-way marginals are kept: a matrix of half a gigabyte."""
APART = 1e-6
"""Stands for the way between attributes of different trees: none, and yet they are not together."""


@dataclass(frozen=True, eq=False)
class Alike:
    """Queries over the same number of attributes; if they are plain marginals, of the same shape, too.

    `span` are their numbers again, as a slice where they are neighbours. `members` has a row of attributes for each, and
    `begins` the places where those attributes' values begin. `sets` has each row once, in any order of its attributes;
    `set_of` says which is whose. `links` are every two attributes of each set, as places in a matrix over
    attributes; of a single one, on its diagonal. `at` leads back, from such a place to the query, if each has one of its own.
    `cells` are those of a plain marginal; of the others, `changes` says how often what is asked changes along each attribute
    from a class to the next, and sets differ in that, too.
    """

    numbers: Numbers
    span: slice | Numbers
    members: Numbers
    begins: Numbers
    shape: tuple[int, ...] | None
    sets: Numbers
    cells: Floats | None
    changes: Numbers | None
    set_of: Numbers | slice
    links: list[Numbers]
    at: Numbers | None

    def linked(self, places: Numbers) -> Numbers:
        """The queries, by place in the group, whose link is one of these."""
        assert self.at is not None
        found = self.at[places]
        return found[found >= 0]


class Offers:
    """All queries of a workload, by number from 0; a state asks about them as it changes."""

    def __init__(
        self,
        queries: Sequence[LinearQuery],
        sizes: Mapping[str, int],
        max_cells: int,
        step: int | None = None,
        lag: float = 0.0,
    ) -> None:
        """`sizes` are the class counts of all attributes; `max_cells` is for the whole state, `step` for what a round adds.

        Answers may lag behind the state by `lag` records per marginal. They are those of the queries as they are: up to their bounds.
        """
        self._queries = queries
        self._max_cells = max_cells
        self._step = max_cells if step is None else step
        self._lag = lag
        self._names = list(sizes)
        self._index = {name: place for place, name in enumerate(sizes)}
        self._sizes = np.array(list(sizes.values()), dtype=np.int64)
        facts = Facts.of(queries)
        # Of each query, its cells and the most that a record adds to one of them.
        self.cells, self.bounds = facts.cells, facts.bounds
        self._alike = self._group(facts)
        # The way between two attributes of a tree: the cells of all cliques on it, 0 if they are in a clique together.
        # One that is alone and not split to its classes is not there yet.
        self._way = np.full((len(sizes), len(sizes)), APART, dtype=np.float32)
        # Attributes of one class are never a reason to join anything.
        self._way[self._sizes == 1, :] = self._way[:, self._sizes == 1] = 0
        self._measured = 0
        # By group, which of its sets surely fit, and the ways up to which they do.
        self._surely: dict[int, tuple[Flags, Floats]] = {}
        self._exact: dict[tuple[int, ...], tuple[object, int]] = {}
        # Of each attribute, its groups and their runs; and if it is split in part, beside others, the cells of the cliques that hold it.
        self._groups = np.ones(len(sizes), dtype=np.int64)
        self._runs = np.ones(len(sizes), dtype=np.int64)
        self._held = np.zeros(len(sizes), dtype=np.int64)
        self._partial = np.zeros(len(sizes), dtype=np.bool_)
        self._regridded = 0
        # Attributes that are there since the last look, by their places on the diagonal.
        self._new: list[int] = []
        plain = any(group.shape and len(group.shape) == 2 for group in self._alike) or len(queries) > MANY
        read = {
            self._names[place] for group in self._alike if group.shape for place in np.unique(group.members).tolist()
        }
        self._pairs = TwoWay(sizes, read) if plain and int(self._sizes.sum()) <= LARGEST else None
        self._answers: dict[int, Floats] = {}
        self._total = 0.0
        self._seen = 0

    def fitting(self, state: Adaptive) -> Flags:
        """For each query, whether the state would keep to its limits if it were measured."""
        room = max(0, self._max_cells - state.cells)
        self._regrid(state)
        trees = self._measure_ways(state.trees)
        few = sum(len(own) ** 2 for own in trees) < self._way.size // 4
        moved = np.concatenate(
            [
                *((own[:, None] * len(self._index) + own).reshape(-1) for own in trees if few),
                np.array(self._new, dtype=np.int64),
            ]
        )
        self._new.clear()
        found = []
        for place, group in enumerate(self._alike):
            if group.cells is None:
                found.append(self._is_room(group, np.arange(len(group.sets)), room))
                continue
            # What is together in the end is where one attribute is already: the others alone make cliques on the way larger.
            most = self._longest(
                room, group.cells, group.cells / min(group.shape or (1,)), np.zeros(1), len(group.links)
            )
            known, before = self._surely.get(place, (np.empty(0, dtype=np.bool_), np.empty(0)))
            if few and group.at is not None and np.array_equal(most, before):
                again = group.linked(moved)
                known[again] = self._way.take(group.links[0][again]) <= most[0]
            elif len(group.links) == 1:
                known = (self._way <= most).take(group.links[0])
            else:
                known = self._ways(group, slice(None)) <= most
            self._surely[place] = known, most
            if state.partial:
                partly = np.flatnonzero(self._partial[group.sets].any(axis=1))
                known = known.copy()
                known[partly] = self._is_room(group, partly, room)
            found.append(known)
        open_sets = sum(len(fits) - np.count_nonzero(fits) for fits in found)
        if open_sets * max((len(tree.cliques) for tree in state.trees), default=0) <= FEW:
            found = [fits.copy() for fits in found]
            for group, fits in zip(self._alike, found, strict=True):
                open_ = np.flatnonzero(~fits)
                fits[open_] = [self._added(state, group, number) <= room for number in open_.tolist()]
        offered = np.empty(len(self._queries), dtype=np.bool_)
        for group, fits in zip(self._alike, found, strict=True):
            offered[group.span] = fits[group.set_of]
        return offered

    def news(self, state: Adaptive, *, everything: bool = False) -> tuple[Numbers, list[Floats]]:
        """The queries whose answers are not what they were, or `everything`; and vectors that hold their answers one after the other.

        They are on loan: the next call writes to them.
        """
        first = self._total == 0
        self._regrid(state)
        changed = self._changed(state)
        rescaled = first or abs(state.total - self._total) > self._lag
        if rescaled:
            for kept in self._answers.values():
                np.multiply(kept, state.total / self._total, out=kept)
            self._total = state.total
        numbers, answers = [_NONE], []
        moved = np.flatnonzero(changed)
        for group in self._alike:
            stale = np.arange(len(group.numbers))
            if not first:
                stale = (
                    group.linked(moved)
                    if group.at is not None
                    else np.flatnonzero(_any(changed, group.links)[group.set_of])
                )
            where = np.arange(len(group.numbers)) if rescaled or everything else stale
            for part, products in self._parts(state, group, where):
                numbers.append(group.numbers[part])
                if products is None:
                    answers += self._asked(state, group, part, stale)
                elif isinstance(products, Tree):
                    assert group.shape is not None
                    answers.append(three_way(products, self._index, group.members[part], group.shape) * state.total)
                else:
                    answers.append(self._products(group, part, products) * state.total)
        return np.concatenate(numbers), answers

    def _parts(
        self, state: Adaptive, group: Alike, where: Numbers
    ) -> Iterator[tuple[Numbers, list[tuple[int, ...]] | Tree | None]]:
        """Some queries of a group, by how they are products of one- and two-way marginals; if they are not, with their tree, or None."""
        if not len(where):
            return
        if group.shape is None or self._pairs is None:
            yield where, None
            return
        if len(group.shape) <= 2:
            yield where, [tuple(range(len(group.shape)))]
            return
        trees = np.empty(len(self._index), dtype=np.int64)
        for number, tree in enumerate(state.trees):
            trees[[self._index[name] for name in tree.attributes]] = number
        # Which of the attributes share a tree, as one number: few are possible.
        links = list(combinations(range(len(group.shape)), 2))
        owners = trees[group.members[where]]
        pattern = np.zeros(len(where), dtype=np.int64)
        for bit, (one, other) in enumerate(links):
            pattern |= (owners[:, one] == owners[:, other]).astype(np.int64) << bit
        for kind in np.unique(pattern):
            together = [link for bit, link in enumerate(links) if kind >> bit & 1]
            joined = [axis for link in together for axis in link]
            alone = [(axis,) for axis in range(len(group.shape)) if axis not in joined]
            alike = pattern == kind
            if len(set(joined)) == len(joined):
                yield where[alike], [*together, *alone]
            elif len(group.shape) > 3 or len(group.numbers) < BULK:
                yield where[alike], None
            else:
                for number in np.unique(owners[alike, 0]).tolist():
                    tree = state.trees[number]
                    whole = state.coarse.isdisjoint(tree.attributes)
                    yield where[alike & (owners[:, 0] == number)], tree if whole else None

    def _asked(self, state: Adaptive, group: Alike, where: Numbers, stale: Numbers) -> list[Floats]:
        """Answers that only the state can give; those that are not stale are remembered."""
        numbers = group.numbers[where].tolist()
        old = set(group.numbers[stale].tolist())
        new = [number for number in numbers if number in old or number not in self._answers]
        for number, answer in zip(new, state.answers([self._queries[number].shares for number in new]), strict=True):
            self._answers[number] = answer * self.bounds[number] if self.bounds[number] > 1 else answer
        return [self._answers[number] for number in numbers]

    def _products(self, group: Alike, where: Numbers, parts: Sequence[tuple[int, ...]]) -> Floats:
        """Products of one- and two-way marginals, as shares."""
        assert self._pairs is not None and group.shape is not None
        out = np.ones(1)
        for axes in parts:
            places = [group.begins[where, axis, None] + np.arange(group.shape[axis]) for axis in axes]
            marginal = self._pairs.one[places[0]]
            if len(axes) == 2:
                marginal = marginal[:, :, None] * self._pairs.one[places[1]][:, None, :]
                marginal += self._pairs.excess[places[0][:, :, None], places[1][:, None, :]]
            shape = [size if axis in axes else 1 for axis, size in enumerate(group.shape)]
            out = out * marginal.reshape(len(where), *shape)
        return out.reshape(-1)

    def _changed(self, state: Adaptive) -> Flags:
        """Pairs of attributes whose joint distribution is not what it was; on the diagonal, attributes."""
        if self._pairs is not None:
            return self._pairs.refresh(state.trees, self._lag / state.total)
        changed = np.zeros((len(self._index), len(self._index)), dtype=np.bool_)
        seen = self._seen
        for tree in state.trees:
            if tree.stamp > seen:
                own = [self._index[name] for name in tree.attributes]
                changed[own, :] = changed[:, own] = True
                self._seen = max(self._seen, tree.stamp)
        return changed

    def _measure_ways(self, trees: Sequence[Tree]) -> list[Numbers]:
        """Bring the ways up to date with trees that have changed; the attributes of each."""
        seen, moved = self._measured, []
        for tree in trees:
            if tree.stamp <= seen or len(tree.layout.tops) == 1:
                continue
            self._measured = max(self._measured, tree.stamp)
            ways = _ways(tree)
            names = list(tree.layout.tops)
            places = np.array([self._index[name] for name in names])
            tops = np.array([tree.layout.tops[name] for name in names])
            self._way[places[:, None], places] = ways.take(tops, axis=0).take(tops, axis=1)
            # Two are together if the first clique of one of them has the other.
            both = [
                (self._index[name], self._index[other])
                for name, top in tree.layout.tops.items()
                for other in tree.layout.cliques[top]
            ]
            one, two = np.array(both).T
            self._way[one, two] = self._way[two, one] = 0
            moved.append(places)
        return moved

    def _regrid(self, state: Adaptive) -> None:
        """Follow the state's grids."""
        for name in state.regridded[self._regridded :]:
            place, grid = self._index[name], state.grids[name]
            self._groups[place], self._runs[place] = grid.count, grid.runs
            if grid.is_whole:
                self._way[place, place] = 0
                self._new.append(place * (len(self._index) + 1))
            if self._pairs is not None:
                self._pairs.regrid(name, grid)
        self._regridded = len(state.regridded)
        self._held[:], self._partial[:] = 0, False
        for name in state.partial:
            (tree,) = state.state.trees_of([name])
            holders = tree.layout.holders[name] if len(tree.attributes) > 1 else ()
            self._held[self._index[name]] = sum(tree.cliques[number].weights.size for number in holders)
            self._partial[self._index[name]] = True

    def _is_room(self, group: Alike, rows: Numbers, room: int) -> Flags:
        """Whether there is room for some sets even at worst."""
        members, counts = group.sets[rows], self._counts(group, rows)
        held = self._held[members]
        # Cliques that hold an attribute beside others grow as it is split; one that has it alone is a part of the set's.
        growth = (np.where(held > 0, counts / self._groups[members], 1.0).prod(axis=1) - 1) * held.sum(axis=1)
        cells = counts.prod(axis=1, dtype=np.float64)
        return self._ways(group, rows) <= self._longest(room, cells, cells, growth, len(group.links))

    def _counts(self, group: Alike, rows: Numbers | int) -> Numbers:
        """Groups that the attributes of some sets have at most after a query of the set is measured."""
        members = group.sets[rows]
        most = self._sizes[members]
        return most if group.changes is None else np.minimum(most, self._runs[members] + group.changes[rows])

    def _longest(self, room: int, cells: Floats, times: Floats, growth: Floats, links: int) -> Floats:
        """The longest way between attributes of a set for which there surely is room; below 0 if there is none for what it splits.

        At worst all cliques on the way from one of its attributes to the others become `times` as large.
        """
        spare = np.minimum(self._step, room - cells) - growth
        most = np.maximum(spare / times, 0) + (spare >= 0) * links * APART
        return np.where(growth <= np.minimum(room, self._step + cells), most, -1.0)

    def _ways(self, group: Alike, rows: Numbers | slice) -> Floats:
        """Of each set: no less than from one of its attributes to all others that are in the same tree, and so for all trees."""
        ways = [self._way.take(link[rows]) for link in group.links]
        if len(ways) != 3:
            return np.asarray(sum(ways, np.zeros(1, dtype=np.float32)))
        # Of three ways between the same cliques none is longer than the others together; and a third attribute may be in another tree.
        longest = np.maximum(np.maximum(ways[0], ways[1]), ways[2])
        return np.asarray(np.maximum(longest, ways[0] + ways[1] + ways[2] - longest))

    def _added(self, state: Adaptive, group: Alike, number: int) -> float:
        """By how many cells the state would grow, or infinity if that is more than it may at a time."""
        members, counts = group.sets[number].tolist(), self._counts(group, number).tolist()
        names = [self._names[member] for member in members]
        trees = [(tree.layout, tree.sets, tree.cells) for tree in state.state.trees_of(names)]
        key = (*members, *counts)
        known = self._exact.get(key)
        # Kept while the trees of the set's attributes are cut in the same way, for the same reasons, and as large.
        if known is None or known[0] != trees:
            known = self._exact[key] = (trees, state.cells_with(dict(zip(names, counts, strict=True))) - state.cells)
        return known[1] if known[1] <= prod(counts) + self._step else inf

    def _group(self, facts: Facts) -> list[Alike]:
        """The queries by number of attributes; plain marginals by shape."""
        (widths, members), changes = facts.places(self._index), facts.changes()
        begins = np.cumsum(widths) - widths
        starts = np.cumsum(self._sizes) - self._sizes
        found = []
        for width, is_plain in product(np.unique(widths).tolist(), (True, False)):
            numbers = np.flatnonzero((widths == width) & (facts.plain == is_plain))
            places = begins[numbers, None] + np.arange(width)
            rows = members[places]
            kinds, _, kind_of = distinct_rows(
                self._sizes[rows] if is_plain else rows[:, :0], int(self._sizes.max(initial=0)) + 1
            )
            for kind, shape in enumerate(kinds.tolist() if len(numbers) else []):
                own = numbers[kind_of == kind]
                table = rows[kind_of == kind]
                ordered = np.sort(table, axis=1)
                if not is_plain:
                    ordered = np.concatenate(
                        [ordered, np.take_along_axis(changes[places], np.argsort(table, axis=1), axis=1)], axis=1
                    )
                sets, _, which = distinct_rows(ordered, max(len(self._index), 1 + int(changes.max(initial=0))))
                alone = len(sets) == len(own)
                if alone:
                    sets = ordered
                sets, turns = sets[:, :width], sets[:, width:]
                links = [
                    sets[:, one] * len(self._index) + sets[:, other]
                    for one, other in (combinations(range(width), 2) if width != 1 else [(0, 0)])
                ]
                cells = self._sizes[sets[:1]].astype(np.float64).prod(axis=1) if is_plain else None  # all are the same
                span = slice(own[0], own[-1] + 1) if own[-1] - own[0] + 1 == len(own) else own
                at = None
                if alone and len(links) == 1 and (is_plain or len(np.unique(links[0])) == len(own)):
                    at = np.full(len(self._index) ** 2, -1, dtype=np.int64)
                    at[links[0]] = np.arange(len(own))
                found.append(
                    Alike(
                        own, span, table, starts[table], tuple(shape) if is_plain else None, sets, cells, None if is_plain else turns,
                        slice(None) if alone else which, links, at,
                    )
                )  # fmt: skip
        return found


def _ways(tree: Tree) -> npt.NDArray[np.float32]:
    """For every two cliques of a tree, the cells of all cliques from one to the other."""
    cells = [clique.weights.size for clique in tree.cliques]
    ways = np.zeros((len(cells), len(cells)), dtype=np.float32)
    for number, (own, parent) in enumerate(zip(cells, tree.layout.parents, strict=True)):
        ways[number, :number] = ways[:number, number] = ways[parent, :number] + own if number else 0
        ways[number, number] = own
    return ways


def _any(flags: Flags, links: Sequence[Numbers]) -> Flags:
    """Of each set, whether one of its links is flagged."""
    found = np.zeros(len(links[0]) if links else 1, dtype=np.bool_)
    for link in links:
        found |= flags.take(link)
    return found
