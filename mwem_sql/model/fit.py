"""Fitting a tree of cliques to all its measurements at once: mirror descent on the noise-weighted squared misfit.

Where the paper replays exp(q(x) (m - q(A)) / 2n) a hundred times over, this takes the same step for all measurements
together, with a step size found by search and momentum (Nesterov's), and stops when the misfit no longer falls. The
distributions that it can reach are the same: products of exp(q(x) times a number per cell).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.factor import LOWEST, TINY, Factor
from mwem_sql.model.targets import Note
from mwem_sql.model.tree import Names, Tree

LAG = 0.25
"""Standard deviations of the noise on a measured cell: by so much a clique may lag behind its neighbours. Larger: faster rounds, looser fits."""
SMALL = 32
"""Cliques up to which a tree is fitted as a whole. Larger: closer fits of large trees, in more time per round."""
DRIFT = 0.2
"""The rise of a large tree's misfit, as a share of it or of what noise alone makes, from which on it is fitted as a whole."""
TOLERANCE = 1e-2
"""Fitting ends when `PATIENCE` steps together lower the misfit by less than this share of it, or of what noise alone makes:
1 per measured cell. Below that a closer fit is a fit to the noise."""
TIGHT = 1e-8
CHEAP_CELLS = 10_000
CHEAP_STEPS = 40
CHEAP_WORK = 160
"""A model of so few cells is fitted to the tolerance TIGHT, as far as that takes no more than CHEAP_STEPS, or CHEAP_WORK steps times cliques."""
PATIENCE = 5
"""Steps over which the fall of the misfit is measured: a single step may gain little and the next ones more."""
STEPS = 45
"""Of a fit, at most; the next round goes on from where this one ended."""
CLOSE = 1e-3
CLOSE_STEPS = 300
"""Tolerance and steps of the last fit. Below this tolerance the errors of all marginals rise again."""
START = 1.0
"""The largest exponent of the first step, over all measured cells: each changes weights by a factor of at most e."""
SLOW = 1.1
"""Factor by which the step size grows from step to step, once a step was too long; before that it doubles."""
EVEN = 1e-3
"""The ratio of smallest to largest precision below which the weights are left out of a first fit: where some measurements have next to no noise, the
others would never be heard. Larger: more is fitted to the noise of the others, in up to twice the time; at 0.1 the average cuboid error of
`python benchmarks/adult.py --data DIR` is 7.25 instead of 7.15, in 1.3 seconds instead of 0.9."""
FARTHEST = 10.0
"""Totals that a measured value may be away from 0; one beyond counts as that. No answer is beyond 1, and the square of a
larger number would hide what all other measurements say."""
SMALLEST = 1e-9
"""The largest exponent of a step below which the misfit is taken to be at its minimum."""


@dataclass(frozen=True, eq=False)
class _Point:
    """A distribution over the region: its cliques, what each shares with its parent, and all targets' answers as shares."""

    cliques: list[Factor]
    separators: list[Floats]
    answers: Floats


def fit(tree: Tree, lag: float, tolerance: float = TOLERANCE) -> int:
    """Fit a tree to its targets until the misfit no longer falls, where anything has changed since it last did; in how many steps.

    A small tree is fitted as a whole; of a large one, the cliques that know something of the same attributes as a new target, and
    all of it once the misfit of the others has risen by more than the drift allows. A clique is left as it is while
    its neighbours say the same to within `lag`, as a share of the total.
    """
    everything = range(len(tree.cliques))
    drift = max(tolerance, DRIFT) if len(everything) > SMALL else tolerance
    tree.settle(lag)
    if abs(tree.total - tree.checked) > lag * tree.total:
        _look(tree, everything)
        tree.checked = tree.total
    steps = 0
    if len(everything) > SMALL:
        new = [target for clique, targets in tree.targets.items() if clique not in tree.fitted for target in targets]
        names = {name for target in new for name in target.query.attributes}.intersection(tree.attributes)
        for region in tree.layout.connected({number for name in names for number in tree.layout.holders[name]}):
            steps += _Region(tree, region).fit(tolerance)
            _look(tree, set(tree.settle(lag)).difference(region))
    risen = sum(note.now - note.last for note in tree.fitted.values())
    if len(tree.fitted) < len(tree.targets) or risen > drift * sum(note.scale for note in tree.fitted.values()):
        steps += _Region(tree, everything).fit(tolerance)
    tree.misfit = sum(note.now for note in tree.fitted.values())
    return steps


def finish(tree: Tree) -> None:
    """Fit a small tree once more, with more steps than one of many fits may take; a large one was never fitted as a whole."""
    if len(tree.cliques) <= SMALL:
        _Region(tree, range(len(tree.cliques))).fit(CLOSE, CLOSE_STEPS)
        tree.misfit = sum(note.now for note in tree.fitted.values())


def is_fitted(tree: Tree, total: float, lag: float) -> bool:
    """Whether nothing has changed that a fit would look at."""
    return len(tree.fitted) == len(tree.targets) and abs(total - tree.checked) <= lag * total


def _look(tree: Tree, numbers: Iterable[int]) -> None:
    """Note the misfit of some cliques' targets as it is now."""
    for number in numbers:
        clique = tree.layout.cliques[number]
        note = tree.fitted.get(clique)
        if note is not None:
            targets = tree.targets[clique]
            names = [tuple(name for name in target.query.attributes if name in clique) for target in targets]
            marginals = tree.cliques[number].marginals(names)
            now = sum(
                target.misfit(target.query.answer(marginals[own])) for own, target in zip(names, targets, strict=True)
            )
            tree.fitted[clique] = replace(note, now=now)


class _Region:
    """Cliques of a tree that lie side by side, each after its parent, and all their targets."""

    def __init__(self, tree: Tree, numbers: Sequence[int]) -> None:
        """Changes nothing yet."""
        self._tree = tree
        self._numbers = numbers
        place = {number: position for position, number in enumerate(numbers)}
        self._parents = [place.get(tree.layout.parents[number], -1) for number in numbers]
        cliques = [tree.layout.cliques[number] for number in numbers]
        self._shared = [
            (),
            *(tuple(sorted(own & cliques[up])) for own, up in zip(cliques[1:], self._parents[1:], strict=True)),
        ]
        homes = [(home, target) for home, clique in enumerate(cliques) for target in tree.targets.get(clique, ())]
        self._homes = [home for home, _ in homes]
        self._targets = [target for _, target in homes]
        self._queries = [target.query for target in self._targets]
        # All in shares of the total, and in units of the smallest noise: step sizes then hardly depend on either.
        sharpest = min(target.sharpest for target in self._targets)
        self._unit = tree.total**2 / sharpest
        cells = [query.cells for query in self._queries]
        self._ends = np.cumsum(cells).tolist()
        variances = [target.variance for target in self._targets]
        if any(isinstance(own, np.ndarray) for own in variances):
            self._precisions = np.concatenate([sharpest / target.variances for target in self._targets])
        else:
            self._precisions = np.repeat([sharpest / own for own in variances], cells)
        self._noise = self._ends[-1] / self._unit
        self._values = np.clip(
            np.concatenate([target.values for target in self._targets]) / tree.total, -FARTHEST, FARTHEST
        )
        self._names = [tuple(name for name in query.attributes if name in tree.attributes) for query in self._queries]
        is_small = tree.cells <= CHEAP_CELLS and len(tree.cliques) <= SMALL
        self._cheap = min(CHEAP_STEPS, CHEAP_WORK // len(numbers)) if is_small else 0

    def fit(self, tolerance: float, steps_each: int = STEPS) -> int:
        """Change the cliques until the misfit of their targets no longer falls; the number of steps."""
        here = self._start()
        steps = 0
        weighted = self._precisions
        if weighted.min() < EVEN:
            # The sharpest alone would set the pace: what all measurements agree on is found sooner without weights.
            self._precisions = np.ones_like(weighted)
            here, steps = self._descend(here, tolerance, steps_each)
            self._precisions = weighted
        here, more = self._descend(here, tolerance, steps_each)
        self._tree.replace(dict(zip(self._numbers, here.cliques, strict=True)))
        squares = np.split(self._unit * weighted * np.square(here.answers - self._values), self._ends[:-1])
        for home in set(self._homes):
            own = np.concatenate([square for place, square in zip(self._homes, squares, strict=True) if place == home])
            misfit = float(own.sum())
            self._tree.fitted[self._tree.layout.cliques[self._numbers[home]]] = Note(misfit, misfit, own.size)
        return steps + more

    def _descend(self, here: _Point, tolerance: float, most_steps: int) -> tuple[_Point, int]:
        """Lower the misfit from one point on: the last point and the number of steps.

        Nesterov's iteration on the numbers y that the targets' cells are multiplied by: x' = y + size * slope and
        y' = x' + ahead * (x' - x). Where the misfit would rise, it starts again without momentum, then with a smaller size.
        """
        misfits = [self._misfit(here)]
        size, growth = START / max(self._largest_slope(here), TINY), 2.0
        still = np.zeros_like(self._values)
        lead, momentum = still, 1.0  # lead: y - x
        while len(misfits) <= most_steps and misfits[-1] > 0:
            following = (1 + sqrt(1 + 4 * momentum**2)) / 2
            ahead = (momentum - 1) / following
            step = size * self._precisions * (self._values - here.answers)
            leads = ahead * (lead + step)
            there = self._moved(here, step + leads)
            found = self._misfit(there)
            if found < misfits[-1]:
                here, lead, momentum = there, leads, following
                misfits.append(found)
                size *= growth
                most = TIGHT if len(misfits) <= self._cheap else tolerance
                if len(misfits) > PATIENCE and misfits[-1 - PATIENCE] - found <= most * max(found, self._noise):
                    break
            elif momentum > 1:
                lead, momentum = still, 1.0
            elif size * self._largest_slope(here) > SMALLEST:
                size, growth = size / 4, SLOW
            else:
                break
        return here, len(misfits) - 1

    def _start(self) -> _Point:
        cliques = self._tree.refocus(self._numbers)
        separators = [clique.marginal(shared) for clique, shared in zip(cliques, self._shared, strict=True)]
        return _Point(cliques, separators, self._answers(cliques))

    def _misfit(self, point: _Point) -> float:
        return float(self._precisions @ np.square(point.answers - self._values))

    def _largest_slope(self, point: _Point) -> float:
        return float((self._precisions * np.abs(point.answers - self._values)).max())

    def _answers(self, cliques: Sequence[Factor]) -> Floats:
        wanted: dict[int, set[Names]] = {}
        for home, names in zip(self._homes, self._names, strict=True):
            wanted.setdefault(home, set()).add(names)
        marginals = {home: cliques[home].marginals(sets) for home, sets in wanted.items()}
        answers = [
            query.answer(marginals[home][names])
            for query, home, names in zip(self._queries, self._homes, self._names, strict=True)
        ]
        return np.concatenate(answers) / self._tree.total

    def _moved(self, point: _Point, shift: Floats) -> _Point:
        """The distribution times exp(q(x) shift) over all targets: one pass up to the root of the tree and one down."""
        cliques = [clique.share() for clique in point.cliques]
        separators = list(point.separators)
        total = self._tree.total
        shift = np.clip(shift, LOWEST, -LOWEST)
        for query, home, names, end in zip(self._queries, self._homes, self._names, self._ends, strict=True):
            exponent = query.spread(shift[end - query.cells : end])
            growth = np.exp(np.maximum(exponent - exponent.max(), LOWEST))
            cliques[home].multiply(names, growth.reshape([cliques[home].size(name) for name in names]))
            cliques[home].lift(total)
        for number in range(len(cliques) - 1, 0, -1):
            shared = self._shared[number]
            own = cliques[number].marginal(shared)
            grown = own / separators[number]
            separators[number] = own
            parent = cliques[self._parents[number]]
            parent.multiply(shared, grown / grown.max())
            parent.lift(total)
        cliques[0].multiply((), np.array(total / cliques[0].weights.sum()))
        for number in range(1, len(cliques)):
            shared = self._shared[number]
            new = cliques[self._parents[number]].marginal(shared)
            cliques[number].multiply(shared, new / separators[number])
            cliques[number].lift(total)
            separators[number] = new
        return _Point(cliques, separators, self._answers(cliques))
