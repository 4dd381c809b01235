"""What a round may select, and what the kernel needs to know of it: which queries are open, their answers where these changed, and the noise expected.

Owns the bookkeeping between rounds. A query is open for a round that would measure it more closely than before, if the model has room for it
(limits.py). Public or released, all of it. The kernel numbers queries from 1, after the total; only here and in alike.py are they numbered from 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Floats, Integers
from mwem_sql.kernel.scales import noise_scale, selection_scale
from mwem_sql.kernel.split import Split
from mwem_sql.loop.alike import Asked
from mwem_sql.loop.approximations import Approximations
from mwem_sql.loop.limits import Limits
from mwem_sql.loop.problem import Problem, is_total
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State

STEP_SHARE = 100
"""Beside the cells of its own query a round may add at most this many even shares of the room over all rounds and attributes: entangled models of
hundreds of attributes stay quick, small ones are not held back."""
LAG = 0.25
"""Scales of the noise of a selection: by so much the scores that it is added to may be behind the state. Larger: faster rounds, and worse choices."""


class Offered(NamedTuple):
    """For `Kernel.select`: a flag for every query; of those that changed since the last selection, answers, noise, weights and numbers."""

    is_open: npt.NDArray[np.bool_]
    answers: Sequence[Floats]
    noise: Floats
    weights: Floats
    changed: npt.NDArray[np.int64]


class Candidates:
    """The queries of a problem, by kernel number, as rounds go by."""

    def __init__(self, problem: Problem, split: Split) -> None:
        sizes = {name: len(size) for name, size in problem.sizes.items()}
        step = STEP_SHARE * problem.max_cells // (split.rounds * max(1, len(sizes)))
        lag = LAG * selection_scale(split.select, problem.sensitivity, split.kind).scale
        self._weights = problem.weights
        self._asked = asked = Asked(problem.queries, sizes)
        self._limits = Limits(asked, problem.max_cells, step)
        self._approximations = Approximations(asked, lag)
        self.penalties = Penalties(problem, split, asked)
        # The share that each query was last measured with.
        self._known = np.zeros(len(problem.queries) + 1)
        self._known[0] = math.inf
        # A public total needs no measurement.
        for scalar in np.flatnonzero(asked.cells == 1).tolist() if problem.total is not None else ():
            self._known[scalar + 1] = math.inf if is_total(problem.queries[scalar]) else 0.0
        self._others = len(problem.kernel_queries) - len(self._known)
        self._outdated = True

    def offer(self, state: State, measure: Fraction) -> Offered | None:
        """What a round that measures with this share may select; None if there is nothing."""
        self._outdated |= self.penalties.change_to(measure)
        is_open = np.zeros(len(self._known) + self._others, dtype=np.bool_)
        np.less(self._known, float(measure), out=is_open[: len(self._known)])
        is_open[1 : len(self._known)] &= self._limits.fitting(state)
        if not is_open.any():
            return None
        news, answers = self._approximations.news(state, everything=self._outdated)
        self._outdated = False
        return Offered(is_open, answers, self.penalties.noise[news + 1], self._weights[news], news + 1)

    def answers(self, state: State | Mixture) -> tuple[Integers, Sequence[Floats]]:
        """The answers of a finished state to all queries: their numbers, from 0, and vectors that hold the answers one after the other."""
        if isinstance(state, State):
            return Approximations(self._asked).news(state)
        scaled = zip(state.answers([query.shares for query in self._asked.queries]), self._asked.bounds, strict=True)
        return np.arange(len(self._asked.queries)), [answer * bound for answer, bound in scaled]

    def note(self, q: int, share: Fraction) -> None:
        """A query was measured with a share."""
        self._known[q] = float(share)


class Penalties:
    """By kernel query, the absolute noise that a round's measurement is expected to collect over all its cells.

    The kernel counts in whole numbers up to a query's bound; the state and its measurements in parts of it, up to 1.
    """

    def __init__(self, problem: Problem, split: Split, asked: Asked) -> None:
        self._problem = problem
        self._kind = split.kind
        self._cells = np.concatenate([[1], asked.cells])
        self._bounds, self._bound_of = np.unique(np.concatenate([[1], asked.bounds]), return_inverse=True)
        self._measure = Fraction(0)
        self.noise = np.zeros(0)

    def change_to(self, measure: Fraction) -> bool:
        """Follow a round's share for measuring; whether the noise is another than before."""
        if measure == self._measure:
            return False
        self._measure = measure
        # The mean of the absolute value of Laplace and of Gaussian noise.
        spread = 1.0 if self._kind == "pure" else math.sqrt(2 / math.pi)
        scales = [
            noise_scale(measure, self._problem.sensitivity * bound, self._kind).scale for bound in self._bounds.tolist()
        ]
        self.noise = spread * np.array(scales)[self._bound_of] * self._cells
        return True

    @property
    def doubt(self) -> Floats:
        """How far apart misfits may be by chance, in parts of the bounds."""
        return np.asarray(2 * math.log(max(1, len(self._problem.queries))) * self.noise / self._bounds[self._bound_of])
