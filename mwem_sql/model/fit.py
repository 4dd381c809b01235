"""A fit of a state to all its measurements at once: mirror descent on the noise-weighted squared misfit.

Where the paper replays exp(q(x) (m - q(A)) / 2n) a hundred times over, this takes the same step for all measurements
together, with a step size by search and momentum (Nesterov's), and stops when the misfit no longer falls. The
distributions that it can reach are the same: products of exp(q(x) times a number per cell).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import NamedTuple

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.table import Names, Table
from mwem_sql.model.cliques import Clique, Layout
from mwem_sql.model.state import State, one_per_cell
from mwem_sql.model.tree import LOWEST_LOG, SMALLEST_FLOAT, Potential, Tree, propagate

FIT_LAG = 0.25
"""Standard deviations of the noise on a measured cell: by so much a clique may lag behind its neighbours. Larger:
faster rounds, looser fits."""
SMALL_TREE = 32
"""Cliques up to which a tree is fitted as a whole. Larger: closer fits of large trees, in more time per round."""
DRIFT = 0.2
"""The rise of a large tree's misfit, as a share of it or of what noise alone makes, from which on it is fitted as a
whole."""
TOLERANCE = 1e-2
"""Fitting ends when `FIT_PATIENCE` steps together lower the misfit by less than this share of it, or of what noise
alone makes: 1 per measured cell. Below that a closer fit is a fit to the noise."""
TIGHT = 1e-8
CHEAP_CELLS = 10_000
CHEAP_STEPS = 40
CHEAP_WORK = 160
"""A model of so few cells is fitted to the tolerance TIGHT, as far as that takes no more than CHEAP_STEPS steps, or
CHEAP_WORK steps times cliques."""
FIT_PATIENCE = 5
"""Steps over which the fall of the misfit is measured: a single step may gain little and the next ones more."""
LAST_FIT_TOLERANCE = 1e-3
LAST_FIT_STEPS = 300
"""Tolerance and steps of the last fit: without it, counts that have no noise are off by a row in a thousand."""
STEPS = 45
"""Of a fit, at most; the next round goes on from where this one ended."""
SLOW = 1.1
"""Factor by which the step size grows from step to step, once a step was too long; before that it doubles."""
EVEN = 1e-3
"""The ratio of smallest to largest precision below which a first fit leaves the weights out: where some measurements
have next to no noise, they alone would set the pace. Without it, averages at epsilon 1000 are off by 6%
(tests/language/test_measures.py). Larger: closer to the noise of the others, in up to twice the time."""
FARTHEST = 10.0
"""Totals that a measured value may be away from 0; one beyond counts as that. No answer is beyond 1, and the square of
a larger number would hide what all other measurements say."""
MATCH_CELLS = 32
"""Cells of a new measurement from which on it is fitted at once before the descent: of few, the descent finds as much
in its first steps."""
EMPTIED = 0.1
"""Of what a cell has: what is left of it at least when a new measurement is fitted at once. Later measurements may say
otherwise."""


@dataclass(frozen=True, eq=False)
class Target:
    """What a state is fitted to: a query, its measured values and their variance, one for all or one each."""

    query: LinearQuery
    values: Floats
    variance: float | Floats

    @property
    def variances(self) -> Floats:
        return np.full(len(self.values), self.variance)

    @property
    def sharpest(self) -> float:
        return float(self.variance.min()) if isinstance(self.variance, np.ndarray) else self.variance

    def shrunk(self, answer: Floats) -> Target:
        """Shrunk towards an answer, by as much as noise explains of the distance (James and Stein, positive part)."""
        misfit = self.misfit(answer)
        noise = max(0.0, len(self.values) - 2.0) / misfit if misfit > 0 else 0.0
        return Target(self.query, self.values + min(1.0, noise) * (answer - self.values), self.variance)

    def misfit(self, answer: Floats) -> float:
        """The sum over all cells of (q(A) - m)^2 / variance."""
        return float((np.square(answer - self.values) / self.variance).sum())


@dataclass(frozen=True)
class _Note:
    """The misfit of a clique's targets when they were last fitted and at this total, and the number of their cells."""

    last: float
    now: float
    cells: int
    total: float

    @property
    def scale(self) -> float:
        return max(self.last, self.cells)


class _Home(NamedTuple):
    """The clique in which a target is fitted, as long as the tree has this layout and so many cells."""

    layout: Layout
    cells: int
    clique: Clique


class Fit:
    """A state and what it is fitted to. Remembers how well each clique fits, so that the next fit does what is new."""

    def __init__(self, state: State) -> None:
        self.state = state
        # What it was last fitted to, each target on groups; and how often attributes were split until then.
        self._targets: dict[Target, Target] = {}
        self._splits = 0
        self._homes: dict[Target, _Home] = {}
        # By the clique that they are fitted in, targets on groups; and how well they fit, once they were fitted.
        self._by_clique: dict[Clique, list[Target]] = {}
        self._notes: dict[Clique, _Note] = {}

    def fit(self, targets: Sequence[Target], tolerance: float = TOLERANCE) -> int:
        """Refit all measurements, each weighted by the inverse of its variance, until their misfit no longer falls.

        The misfit is the sum over all cells of (q(A) - m)^2 / variance. The most steps that a tree took.
        """
        self._take(targets)
        state, steps = self.state, 0
        lag = FIT_LAG * sqrt(min((target.sharpest for target in targets), default=0.0)) / state.total
        for tree in state.trees:
            cliques = [clique for clique in tree.layout.cliques if clique in self._by_clique]
            if not all(self._is_current(clique, lag) for clique in cliques):
                tree.rescale(state.total)
                steps = max(steps, self._fit_tree(tree, cliques, lag, tolerance))
        return steps

    def _take(self, targets: Sequence[Target]) -> None:
        """Note what is to be fitted, on the groups that it needs, and make room for it; what is new fits at once."""
        state = self.state
        for target in targets:
            if target not in self._targets:
                state.refine(target.query)
        splits = set(state.partitions.splits[self._splits :])
        self._splits = len(state.partitions.splits)
        current, new = dict[Target, Target](), list[Target]()
        for target in targets:
            on_groups = self._targets.get(target)
            if on_groups is None or not splits.isdisjoint(target.query.attributes):
                query = state.partitions.exact(target.query)
                values = state.possible_values(query, one_per_cell(query, target.values))
                on_groups = replace(target, query=query, values=values)
                new.append(on_groups)
            current[target] = on_groups
        self._targets = current
        for target in new:
            state.join(target.query.attributes)
        by_clique: dict[Clique, list[Target]] = {}
        self._homes = {
            target: self._home(target) for target in current.values() if state.several(target.query.attributes)
        }
        for target, home in self._homes.items():
            by_clique.setdefault(home.clique, []).append(target)
        # A clique with other targets than before is fitted again.
        self._notes = {
            clique: note for clique, note in self._notes.items() if by_clique.get(clique) == self._by_clique.get(clique)
        }
        self._by_clique = by_clique
        for target in new:
            if target.query.cells >= MATCH_CELLS and target.query.counts_all:
                # As far as noise does not explain it, and no cell is emptied; the descent goes on from there.
                here, noise = state.group_answers([target.query])[0], np.sqrt(target.variances)
                near = np.clip(here, target.values - noise, target.values + noise)
                state.match_groups(target.query, np.maximum(near, EMPTIED * here))

    def _home(self, target: Target) -> _Home:
        """The smallest clique that has the attributes of a target, looked for again only if its tree has changed."""
        names = self.state.several(target.query.attributes)
        (tree,) = self.state.trees_of(names[:1])
        home = self._homes.get(target)
        if home is not None and home.layout is tree.layout and home.cells == tree.cells:
            return home
        number = tree.home(names)
        assert number is not None
        return _Home(tree.layout, tree.cells, tree.layout.cliques[number])

    def _is_current(self, clique: Clique, lag: float) -> bool:
        """Whether nothing has changed that a fit would look at."""
        note, total = self._notes.get(clique), self.state.total
        return note is not None and abs(total - note.total) <= lag * total

    def _fit_tree(self, tree: Tree, cliques: Sequence[Clique], lag: float, tolerance: float) -> int:
        """Fit a tree to its targets where anything has changed since it last was; the number of steps.

        A small tree is fitted as a whole; of a large one, the cliques that have attributes of a new target, and all of
        it once the misfit of the others has risen by more than the drift allows. A clique is left as it is while its
        neighbours agree to within `lag`, as a share of the total.
        """
        everything = range(len(tree.potentials))
        is_large = len(everything) > SMALL_TREE
        drift = max(tolerance, DRIFT) if is_large else tolerance
        tree.settle(lag)
        self._look(tree, [number for number in everything if not self._is_current(tree.layout.cliques[number], lag)])
        steps = 0
        if is_large:
            new = [target for clique in cliques if clique not in self._notes for target in self._by_clique[clique]]
            names = set(self.state.several({name for target in new for name in target.query.attributes}))
            for region in tree.layout.connected({number for name in names for number in tree.layout.holders[name]}):
                steps += self._fit_region(tree, region, tolerance)
                self._look(tree, set(tree.settle(lag)).difference(region))
        notes = [self._notes[clique] for clique in cliques if clique in self._notes]
        risen = sum(note.now - note.last for note in notes)
        if len(notes) < len(cliques) or risen > drift * sum(note.scale for note in notes):
            steps += self._fit_region(tree, everything, tolerance)
        return steps

    def _look(self, tree: Tree, numbers: Iterable[int]) -> None:
        """Note the misfit of some cliques' targets as it is now."""
        for number in numbers:
            clique = tree.layout.cliques[number]
            note = self._notes.get(clique)
            if note is not None:
                placed = self._placed(number, clique)
                tables = tree.potentials[number].table.projections({names for _, names, _ in placed})
                now = sum(target.misfit(target.query.answer(tables[names].cells)) for _, names, target in placed)
                self._notes[clique] = replace(note, now=now, total=tree.total)

    def _placed(self, number: int, clique: Clique) -> list[tuple[int, Names, Target]]:
        """Targets of a clique with its number and their attributes of several groups."""
        targets = self._by_clique.get(clique, ())
        return [(number, tuple(self.state.several(target.query.attributes)), target) for target in targets]

    def finish(self) -> None:
        """Fit small trees once more, closer and with more steps than one of many fits may take."""
        for tree in self.state.trees:
            if len(tree.potentials) <= SMALL_TREE and any(clique in self._by_clique for clique in tree.layout.cliques):
                tree.rescale(self.state.total)
                self._fit_region(tree, range(len(tree.potentials)), LAST_FIT_TOLERANCE, LAST_FIT_STEPS)

    def _fit_region(self, tree: Tree, numbers: Sequence[int], tolerance: float, most_steps: int = STEPS) -> int:
        """Change cliques, side by side, until the misfit of their targets no longer falls; the number of steps."""
        cliques = [tree.layout.cliques[number] for number in numbers]
        placed = [one for position, clique in enumerate(cliques) for one in self._placed(position, clique)]
        region = _Region(tree, numbers, placed)
        steps = region.fit(tolerance, most_steps)
        for position, squares in region.squares().items():
            misfit = float(squares.sum())
            self._notes[cliques[position]] = _Note(misfit, misfit, squares.size, tree.total)
        return steps


@dataclass(frozen=True, eq=False)
class _Point:
    """A distribution over the region: its cliques, their separators' marginals, and all targets' answers as shares."""

    potentials: list[Potential]
    separators: list[Table]
    answers: Floats


class _Region:
    """Cliques of a tree, side by side, each after its parent, and their targets with the places of the cliques."""

    def __init__(self, tree: Tree, numbers: Sequence[int], placed: Sequence[tuple[int, Names, Target]]) -> None:
        """Makes the cliques agree on their separators; the distribution stays as it is."""
        self._tree, self._numbers = tree, numbers
        positions = {number: position for position, number in enumerate(numbers)}
        self._parents = [positions.get(tree.layout.parents[number], -1) for number in numbers]
        self._placed = [(home, names, target.query) for home, names, target in placed]
        self._wanted: dict[int, set[Names]] = {}
        for home, names, _ in placed:
            self._wanted.setdefault(home, set()).add(names)
        # By clique and set of attributes, the largest set that has it: exponents are added up there, so that weights
        # are multiplied once for each such set, however many targets there are.
        self._largest = {home: _largest(sets) for home, sets in self._wanted.items()}
        targets = [target for _, _, target in placed]
        # All in shares of the total, and in units of the smallest noise: step sizes then hardly depend on either.
        sharpest = min(target.sharpest for target in targets)
        self._unit = tree.total**2 / sharpest
        self._ends = np.cumsum([target.query.cells for target in targets]).tolist()
        self._precisions = np.concatenate([sharpest / target.variances for target in targets])
        self._noise = self._ends[-1] / self._unit
        values = np.concatenate([target.values for target in targets])
        self._values = np.clip(values / tree.total, -FARTHEST, FARTHEST)
        is_small = tree.cells <= CHEAP_CELLS and len(tree.potentials) <= SMALL_TREE
        self._cheap = min(CHEAP_STEPS, CHEAP_WORK // len(numbers)) if is_small else 0
        potentials = tree.refocus(numbers)
        separators = [
            potential.table.project(tree.layout.separators[number] if position else ())
            for position, (number, potential) in enumerate(zip(numbers, potentials, strict=True))
        ]
        self._here = _Point(potentials, separators, self._answers(potentials))

    def fit(self, tolerance: float, most_steps: int) -> int:
        """Change the cliques until the misfit of their targets no longer falls; the number of steps."""
        steps, weighted = 0, self._precisions
        if weighted.min() < EVEN:
            # The sharpest alone would set the pace: without weights the descent is sooner where all measurements agree.
            self._precisions = np.ones_like(weighted)
            steps = self._descend(tolerance, most_steps)
            self._precisions = weighted
        steps += self._descend(tolerance, most_steps)
        self._tree.replace(dict(zip(self._numbers, self._here.potentials, strict=True)))
        return steps

    def _descend(self, tolerance: float, most_steps: int) -> int:
        """Lower the misfit from here on; the number of steps.

        Nesterov's iteration on the numbers y that the targets' cells are multiplied by: x' = y + size * slope and
        y' = x' + ahead * (x' - x). Where the misfit would rise, it starts again without momentum, then with a smaller
        size.
        """
        here = self._here
        misfits = [self._misfit(here)]
        # No measured cell changes weights by more than a factor of e in the first step.
        size, growth = 1 / max(self._largest_slope(here), SMALLEST_FLOAT), 2.0
        still = np.zeros_like(self._values)
        lead, momentum = still, 1.0  # lead: y - x
        while len(misfits) <= most_steps and misfits[-1] > 0:
            following = (1 + sqrt(1 + 4 * momentum**2)) / 2
            ahead = (momentum - 1) / following
            step = size * self._precisions * (self._values - here.answers)
            leads = ahead * (lead + step)
            there = self._moved(here, step + leads)
            misfit = self._misfit(there)
            if misfit < misfits[-1]:
                here, lead, momentum = there, leads, following
                misfits.append(misfit)
                size *= growth
                most = TIGHT if len(misfits) <= self._cheap else tolerance
                if len(misfits) > FIT_PATIENCE and misfits[-1 - FIT_PATIENCE] - misfit <= most * max(
                    misfit, self._noise
                ):
                    break
            elif momentum > 1:
                lead, momentum = still, 1.0
            elif size * self._largest_slope(here) > 1e-9:
                size, growth = size / 4, SLOW
            else:
                break  # the steps have become too small to change anything
        self._here = here
        return len(misfits) - 1

    def squares(self) -> dict[int, Floats]:
        """By position of the clique, what each cell of its targets adds to the misfit."""
        squares = self._unit * self._precisions * np.square(self._here.answers - self._values)
        by_home: dict[int, list[Floats]] = {}
        for (home, _, _), cells in zip(self._placed, np.split(squares, self._ends[:-1]), strict=True):
            by_home.setdefault(home, []).append(cells)
        return {home: np.concatenate(cells) for home, cells in by_home.items()}

    def _misfit(self, point: _Point) -> float:
        return float(self._precisions @ np.square(point.answers - self._values))

    def _largest_slope(self, point: _Point) -> float:
        return float((self._precisions * np.abs(point.answers - self._values)).max())

    def _answers(self, potentials: Sequence[Potential]) -> Floats:
        tables = {home: potentials[home].table.projections(sets) for home, sets in self._wanted.items()}
        answers = [query.answer(tables[home][names].cells) for home, names, query in self._placed]
        return np.concatenate(answers) / self._tree.total

    def _moved(self, point: _Point, shift: Floats) -> _Point:
        """The distribution times exp(q(x) shift) over all targets."""
        potentials, total = [potential.share() for potential in point.potentials], self._tree.total
        shift = np.clip(shift, LOWEST_LOG, -LOWEST_LOG)
        exponents: dict[tuple[int, Names], Floats] = {}
        for (home, names, query), end in zip(self._placed, self._ends, strict=True):
            table, largest = potentials[home].table, self._largest[home][names]
            exponent = query.spread(shift[end - query.cells : end]).reshape(table.sizes(names))
            if (home, largest) in exponents:
                exponent = exponents[home, largest] + Table(names, exponent).align(largest)
            elif names != largest:
                exponent = Table(names, exponent).expand(largest, table.sizes(largest))
            exponents[home, largest] = exponent
        for (home, largest), total_exponent in exponents.items():
            growth = np.exp(np.maximum(total_exponent - total_exponent.max(), LOWEST_LOG))
            potentials[home].multiply(Table(largest, growth), total)
        separators = propagate(potentials, self._parents, point.separators, total)
        return _Point(potentials, separators, self._answers(potentials))


def _largest(sets: Iterable[Names]) -> dict[Names, Names]:
    """By set of attributes, the first of the largest ones that has it."""
    order = sorted(sets, key=lambda names: (-len(names), names))
    return {names: next(one for one in order if set(names) <= set(one)) for names in order}
