"""What a round may select, and what the kernel needs to know of it.

Which queries are open, their answers where these changed, and the noise expected. A query is open for a round that
would measure it more closely than before, if the model has room for it: a bound on that is kept for every query, and
computed again only where the state has changed. Public or released, all of it. Changes no state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from math import inf, prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Flags, Floats, Integers
from mwem_sql.kernel.composition import Composition
from mwem_sql.kernel.scales import selection_scale
from mwem_sql.loop.approximations import Approximations, Group, GroupedQueries
from mwem_sql.loop.plan import Schedule
from mwem_sql.loop.problem import Problem, is_total
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.model.tree import Tree

MOST_CLIQUES = 5_000
"""Cliques that a round may look at to work out what sets of attributes would add; beyond, only sets that surely fit are
offered. Larger: slower rounds."""
APART = 1e-6
"""Cells: the way between attributes of different trees. It is below any number of cells, and not 0: they are not
together."""


class Limits:
    """A state asks, as it grows, which queries of a workload it could still measure."""

    def __init__(
        self, queries: GroupedQueries, max_cells: int, step: int | None = None, *, most_cliques: int = MOST_CLIQUES
    ) -> None:
        """`max_cells` is for the whole state, `step` for what a round adds beside the cells of its own query."""
        self._queries = queries
        self._max_cells = max_cells
        self._step = max_cells if step is None else step
        self._most_cliques = most_cliques
        attributes, is_single = len(queries.sizes), queries.sizes == 1
        # The way between two attributes of a tree: the cells of all cliques on it, 0 if they are in a clique together.
        # One that is alone and not split to its classes is not there yet.
        self._way = np.full((attributes, attributes), APART, dtype=np.float32)
        # Attributes of one class are never a reason to join anything.
        self._way[is_single, :] = self._way[:, is_single] = 0
        self._measured = 0
        # By group, which of its sets surely fit, and the ways up to which they do.
        self._surely: dict[int, tuple[Flags, Floats]] = {}
        self._exact: dict[tuple[int, ...], tuple[object, int]] = {}
        # Of each attribute, its groups and their runs; and if it is split in part, beside others, the cells of the
        # cliques that hold it.
        self._groups = np.ones(attributes, dtype=np.int64)
        self._runs = np.ones(attributes, dtype=np.int64)
        self._held = np.zeros(attributes, dtype=np.int64)
        self._partial = np.zeros(attributes, dtype=np.bool_)
        self._splits = 0

    def fitting(self, state: State) -> Flags:
        """For each query, whether the state would keep to its limits if it were measured."""
        room = max(0, self._max_cells - state.cells)
        moved = self._follow(state)
        fits = [self._surely_fitting(place, state, room, moved) for place in range(len(self._queries.groups))]
        open_sets = sum(len(fit) - np.count_nonzero(fit) for fit in fits)
        if open_sets * max((len(tree.potentials) for tree in state.trees), default=0) <= self._most_cliques:
            fits = [fit.copy() for fit in fits]
            for group, fit in zip(self._queries.groups, fits, strict=True):
                open_ = np.flatnonzero(~fit)
                fit[open_] = [self._added(state, group, number) <= room for number in open_.tolist()]
        offered = np.empty(len(self._queries.queries), dtype=np.bool_)
        for group, fit in zip(self._queries.groups, fits, strict=True):
            offered[group.span] = fit[group.set_of]
        return offered

    def _follow(self, state: State) -> Integers | None:
        """Bring groups and ways up to date with the state; give the ways that changed, or None if they are many."""
        attributes = len(self._queries.index)
        whole = []
        for name in state.partitions.splits[self._splits :]:
            place, partition = self._queries.index[name], state.partitions[name]
            self._groups[place], self._runs[place] = partition.count, len(partition.runs)
            if partition.is_whole:
                self._way[place, place] = 0
                whole.append(place * (attributes + 1))
        self._splits = len(state.partitions.splits)
        self._held[:], self._partial[:] = 0, False
        for name in state.partitions.partial:
            (tree,) = state.trees_of([name])
            holders = tree.layout.holders[name] if len(tree.attributes) > 1 else ()
            self._held[self._queries.index[name]] = sum(tree.potentials[number].cells for number in holders)
            self._partial[self._queries.index[name]] = True
        trees = self._measure_ways(state.trees)
        if sum(len(places) ** 2 for places in trees) >= self._way.size // 4:
            return None
        within = [(places[:, None] * attributes + places).reshape(-1) for places in trees]
        return np.concatenate([*within, np.array(whole, dtype=np.int64)])

    def _measure_ways(self, trees: Sequence[Tree]) -> list[Integers]:
        """Bring the ways up to date with trees that have changed; the attributes of each."""
        seen, index, moved = self._measured, self._queries.index, []
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
        group = self._queries.groups[place]
        if group.cells is None:
            return self._is_room(group, np.arange(len(group.sets)), room)
        # What is together in the end is where one attribute is already: the others alone make cliques on the way
        # larger.
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

    def _is_room(self, group: Group, rows: Integers, room: int) -> Flags:
        """The same for some sets, some of whose attributes are to be split."""
        members, counts = group.sets[rows], self._counts(group, rows)
        beside = self._held[members]
        # Cliques that hold an attribute beside others grow as it is split; one that has it alone is a part of the
        # set's.
        growth = (np.where(beside > 0, counts / self._groups[members], 1.0).prod(axis=1) - 1) * beside.sum(axis=1)
        cells = counts.prod(axis=1, dtype=np.float64)
        return self._ways(group, rows) <= self._longest(room, cells, cells, growth, len(group.links))

    def _counts(self, group: Group, rows: Integers | int) -> Integers:
        """Groups that the attributes of some sets have at most after a query of the set is measured."""
        members = group.sets[rows]
        most = self._queries.sizes[members]
        return most if group.changes is None else np.minimum(most, self._runs[members] + group.changes[rows])

    def _longest(self, room: int, cells: Floats, times: Floats, growth: Floats, links: int) -> Floats:
        """The longest way between attributes of a set for which there surely is room; below 0 if there is none.

        At worst all cliques on the way from one of its attributes to the others become `times` as large.
        """
        spare = np.minimum(self._step, room - cells) - growth
        most = np.maximum(spare / times, 0) + (spare >= 0) * links * APART
        return np.where(growth <= np.minimum(room, self._step + cells), most, -1.0)

    def _ways(self, group: Group, rows: Integers | slice) -> Floats:
        """For each set, a bound on the way from one of its attributes to the others, added up over trees."""
        ways = [self._way.take(link[rows]) for link in group.links]
        if len(ways) != 3:
            return np.asarray(sum(ways, np.zeros(1, dtype=np.float32)))
        # Of three ways between the same cliques none is longer than the others together; and a third attribute may be
        # in another tree.
        longest = np.maximum(np.maximum(ways[0], ways[1]), ways[2])
        return np.asarray(np.maximum(longest, ways[0] + ways[1] + ways[2] - longest))

    def _added(self, state: State, group: Group, number: int) -> float:
        """By how many cells the state would grow, or infinity if that is more than it may at a time."""
        members, counts = group.sets[number].tolist(), self._counts(group, number).tolist()
        names = [self._queries.names[member] for member in members]
        trees = [(tree.layout, tree.sets, tree.cells) for tree in state.trees_of(names)]
        key = (*members, *counts)
        cached = self._exact.get(key)
        # Kept while the trees of the set's attributes are cut in the same way, for the same reasons, and as large.
        if cached is None or cached[0] != trees:
            cached = self._exact[key] = (
                trees,
                state.cells_with(names, dict(zip(names, counts, strict=True))) - state.cells,
            )
        return cached[1] if cached[1] <= prod(counts) + self._step else inf


def _ways(tree: Tree) -> npt.NDArray[np.float32]:
    """For every two cliques of a tree, the cells of all cliques from one to the other."""
    cells = [potential.cells for potential in tree.potentials]
    ways = np.zeros((len(cells), len(cells)), dtype=np.float32)
    for number, (size, parent) in enumerate(zip(cells, tree.layout.parents, strict=True)):
        ways[number, :number] = ways[:number, number] = ways[parent, :number] + size if number else 0
        ways[number, number] = size
    return ways


STEP_SHARE = 20
"""Beside the cells of its own query a round may add at most this many even shares of the room over all rounds and
attributes. Larger: models of more cells, which answer hardly better and take longer. `python benchmarks/nist.py`"""
LAG = 0.25
"""Scales of the noise of a selection: by so much scores may lag behind the state. Larger: faster rounds, and worse
choices."""


class Offered(NamedTuple):
    """What `Kernel.select` takes: a flag for every query, and what has changed since the last selection.

    Of each changed query: its answers, noise, weight and number.
    """

    is_open: npt.NDArray[np.bool_]
    answers: Sequence[Floats]
    noise: Floats
    weights: Floats
    changed: npt.NDArray[np.int64]


class Candidates:
    """The queries of a problem, by number, as rounds go by."""

    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        sizes = {name: len(size) for name, size in problem.sizes.items()}
        step = STEP_SHARE * problem.max_cells // (schedule.rounds * max(1, len(sizes)))
        lag = LAG * selection_scale(schedule.select, schedule.composition.sensitivity, schedule.kind).scale
        self._weights = problem.weights
        self._queries = queries = GroupedQueries(problem.queries, sizes)
        self._limits = Limits(queries, problem.max_cells, step)
        self._approximations = Approximations(queries, lag)
        self.penalties = Penalties(schedule.composition, queries)
        # The share that each query was last measured with.
        self._shares = np.zeros(len(problem.queries))
        # A public total needs no measurement.
        for scalar in np.flatnonzero(queries.cells == 1).tolist() if problem.total is not None else ():
            self._shares[scalar] = math.inf if is_total(problem.queries[scalar]) else 0.0
        self._shares[list(problem.determined)] = math.inf
        self._others = len(problem.kernel_queries) - len(problem.queries)
        self._outdated = True

    def offer(self, state: State, measure: Fraction) -> Offered | None:
        """What a round that measures with this share may select; None if there is nothing."""
        self._outdated |= self.penalties.change_to(measure)
        is_open = (self._shares < float(measure)) & self._limits.fitting(state)
        if not is_open.any():
            return None
        changed, answers = self._approximations.news(state, wanted=is_open, everything=self._outdated)
        self._outdated = False
        every = np.pad(is_open, (0, self._others))
        return Offered(every, answers, self.penalties.noise[changed], self._weights[changed], changed)

    def answers(self, state: State | Mixture) -> tuple[Integers, Sequence[Floats]]:
        """The answers of a finished state: the numbers of all queries, and vectors of answers in that order."""
        if isinstance(state, State):
            return Approximations(self._queries).news(state)
        queries = self._queries
        scaled = zip(state.answers([query.shares for query in queries.queries]), queries.bounds, strict=True)
        return np.arange(len(queries.queries)), [answer * bound for answer, bound in scaled]

    def note(self, q: int, share: Fraction) -> None:
        """A query was measured with a share."""
        self._shares[q] = float(share)


class Penalties:
    """By query, the absolute noise that a round's measurement is expected to collect over all its cells.

    The kernel counts in whole numbers up to a query's bound; the state and its measurements in parts of it, up to 1.
    """

    def __init__(self, composition: Composition, queries: GroupedQueries) -> None:
        self._composition = composition
        self._cells = queries.cells
        self._bounds, self._bound_of = np.unique(queries.bounds, return_inverse=True)
        self._measure = Fraction(0)
        self.noise = np.zeros(0)

    def change_to(self, measure: Fraction) -> bool:
        """Follow a round's share for measuring; whether the noise is another than before."""
        if measure == self._measure:
            return False
        self._measure = measure
        noise = [self._composition.mean_noise(measure, bound) for bound in self._bounds.tolist()]
        self.noise = np.array(noise)[self._bound_of] * self._cells
        return True

    @property
    def doubt(self) -> Floats:
        """How far apart misfits may be by chance, in parts of the bounds."""
        return np.asarray(2 * math.log(max(1, len(self._cells))) * self.noise / self._bounds[self._bound_of])
