"""Fitting a tree of cliques to all its measurements at once: mirror descent on the noise-weighted squared misfit.

Where the paper replays exp(q(x) (m - q(A)) / 2n) a hundred times over, this takes the same step for all measurements
together, with a step size found by search and momentum (Nesterov's), and stops when the misfit no longer falls. The
distributions that it can reach are the same: products of exp(q(x) times a number per cell).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from operator import is_

import numpy as np

from mwem_sql.compiler.linear import Floats, LinearQuery
from mwem_sql.factor import LOWEST, TINY, Factor
from mwem_sql.tree import Names, Tree

TOLERANCE = 1e-2
"""Fitting ends when `PATIENCE` steps together lower the misfit by less than this share of it, or of what noise alone makes:
1 per measured cell. Below that a closer fit is a fit to the noise."""
PATIENCE = 5
STEPS = 60
"""At most; the next round goes on from where this one ended."""
START = 1.0
"""The largest exponent of the first step."""
SLOW = 1.1
"""Growth of the step size from the first step on that was too long."""
EVEN = 0.1
"""The ratio of smallest to largest precision from which the weights are left out of a first fit."""
FARTHEST = 10.0
"""Totals that a measured value may be away from 0; one beyond counts as that. No answer is beyond 1, and the square of a
larger number would hide what all other measurements say."""
SMALLEST = 1e-9
"""The largest exponent of a step below which the misfit is taken to be at its minimum."""


@dataclass(frozen=True, eq=False)
class Target:
    """What a tree is fitted to: a query over attributes of one clique, its measured values and their variance."""

    query: LinearQuery
    values: Floats
    variance: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """The misfit is the sum over all cells of (q(A) - m)^2 / variance."""

    misfit: float
    steps: int


@dataclass(frozen=True, eq=False)
class _Point:
    """A distribution over the tree: its cliques, what each shares with its parent, and the targets' answers as shares."""

    cliques: list[Factor]
    separators: list[Floats]
    answers: list[Floats]


class Fit:
    """The targets of one tree, which has a clique for each, ready to be fitted."""

    def __init__(self, tree: Tree, targets: Sequence[Target]) -> None:
        """Changes nothing yet."""
        self._tree = tree
        self._targets = targets
        self._queries = [target.query for target in targets]
        # All in shares of the total, and in units of the smallest noise: step sizes then hardly depend on either.
        sharpest = min(target.variance for target in targets)
        self._precisions = [sharpest / target.variance for target in targets]
        self._unit = tree.total**2 / sharpest
        self._noise = sum(target.query.cells for target in targets) / self._unit
        self._values = [np.clip(target.values / tree.total, -FARTHEST, FARTHEST) for target in targets]
        self._names = [tuple(name for name in query.attributes if name in tree.attributes) for query in self._queries]
        self._homes = [_some(tree.home(names)) for names in self._names]
        self._shared = [(), *(tuple(sorted(tree.layout.separator(n))) for n in range(1, len(tree.cliques)))]

    def run(self, tolerance: float = TOLERANCE) -> Fitted:
        """Change the tree until the misfit no longer falls; not at all if it is as good as when it last fell no longer."""
        here = self._start()
        known, last = self._tree.fitted if isinstance(self._tree.fitted, tuple) else ((), 0.0)
        found = self._misfit(here) * self._unit
        same = len(known) == len(self._targets) and all(map(is_, known, self._targets))
        if same and found <= last + tolerance * max(last, self._noise * self._unit):
            return Fitted(found, 0)
        steps = 0
        weighted = self._precisions
        if min(weighted) < EVEN:
            # The sharpest alone would set the pace: what all measurements agree on is found sooner without weights.
            self._precisions = [1.0] * len(weighted)
            here, _, steps = self._descend(here, tolerance)
            self._precisions = weighted
        here, misfit, more = self._descend(here, tolerance)
        self._tree.replace(here.cliques)
        self._tree.fitted = (tuple(self._targets), misfit * self._unit)
        return Fitted(misfit * self._unit, steps + more)

    def _descend(self, here: _Point, tolerance: float) -> tuple[_Point, float, int]:
        """Lower the misfit from one point on: the last point, its misfit and the number of steps.

        Nesterov's iteration on the numbers y that the targets' cells are multiplied by: x' = y + size * slope and
        y' = x' + ahead * (x' - x). Where the misfit would rise, it starts again without momentum, then with a smaller size.
        """
        misfits = [self._misfit(here)]
        size, growth = START / max(self._largest_slope(here), TINY), 2.0
        still = [np.zeros_like(values) for values in self._values]
        lead, momentum = still, 1.0  # lead: y - x
        while len(misfits) <= STEPS and misfits[-1] > 0:
            following = (1 + sqrt(1 + 4 * momentum**2)) / 2
            ahead = (momentum - 1) / following
            steps = [
                size * precision * (values - answers)
                for precision, values, answers in zip(self._precisions, self._values, here.answers, strict=True)
            ]
            leads = [ahead * (old + step) for old, step in zip(lead, steps, strict=True)]
            there = self._moved(here, [step + own for step, own in zip(steps, leads, strict=True)])
            found = self._misfit(there)
            if found < misfits[-1]:
                here, lead, momentum = there, leads, following
                misfits.append(found)
                size *= growth
                if len(misfits) > PATIENCE and misfits[-1 - PATIENCE] - found <= tolerance * max(found, self._noise):
                    break
            elif momentum > 1:
                lead, momentum = still, 1.0
            elif size * self._largest_slope(here) > SMALLEST:
                size, growth = size / 4, SLOW
            else:
                break
        return here, misfits[-1], len(misfits) - 1

    def _start(self) -> _Point:
        self._tree.calibrate()
        cliques = self._tree.cliques
        separators = [clique.marginal(shared) for clique, shared in zip(cliques, self._shared, strict=True)]
        return _Point(cliques, separators, self._answers(cliques))

    def _misfit(self, point: _Point) -> float:
        return sum(
            precision * float(np.square(answers - values).sum())
            for precision, values, answers in zip(self._precisions, self._values, point.answers, strict=True)
        )

    def _largest_slope(self, point: _Point) -> float:
        return max(
            precision * float(np.abs(answers - values).max())
            for precision, values, answers in zip(self._precisions, self._values, point.answers, strict=True)
        )

    def _answers(self, cliques: Sequence[Factor]) -> list[Floats]:
        wanted: dict[int, set[Names]] = {}
        for home, names in zip(self._homes, self._names, strict=True):
            wanted.setdefault(home, set()).add(names)
        marginals = {home: cliques[home].marginals(sets) for home, sets in wanted.items()}
        return [
            query.answer(marginals[home][names]) / self._tree.total
            for query, home, names in zip(self._queries, self._homes, self._names, strict=True)
        ]

    def _moved(self, point: _Point, shift: Sequence[Floats]) -> _Point:
        """The distribution times exp(q(x) shift) over all targets: one pass up to the root of the tree and one down."""
        cliques = [clique.share() for clique in point.cliques]
        separators = list(point.separators)
        total = self._tree.total
        for query, home, names, own in zip(self._queries, self._homes, self._names, shift, strict=True):
            exponent = query.spread(np.clip(own, LOWEST, -LOWEST))
            growth = np.exp(np.maximum(exponent - exponent.max(), LOWEST))
            cliques[home].multiply(names, growth.reshape([cliques[home].size(name) for name in names]))
            cliques[home].lift(total)
        for number in range(len(cliques) - 1, 0, -1):
            shared = self._shared[number]
            own = cliques[number].marginal(shared)
            grown = own / separators[number]
            separators[number] = own
            parent = cliques[self._tree.layout.parents[number]]
            parent.multiply(shared, grown / grown.max())
            parent.lift(total)
        cliques[0].multiply((), np.array(total / cliques[0].weights.sum()))
        for number in range(1, len(cliques)):
            shared = self._shared[number]
            new = cliques[self._tree.layout.parents[number]].marginal(shared)
            cliques[number].multiply(shared, new / separators[number])
            cliques[number].lift(total)
            separators[number] = new
        return _Point(cliques, separators, self._answers(cliques))


def _some(number: int | None) -> int:
    assert number is not None
    return number
