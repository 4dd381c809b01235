"""What selections say of the queries that they did not select: none is much worse than the one that was.

The paper's own argument, kept as a number for each query. In a round, every open query has a score that exceeds the
selected one's by at most scale (ln(queries) + ln(1 / beta)), but for a chance of beta: this is so for the exponential
mechanism, and for permute-and-flip, which is never worse. The error of the selected one follows from what is measured
of it and the noise on that. From then on a bound grows by as much as the state's answer moves, and the smallest over
all rounds counts. Sees released values only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from mwem_sql.algebra.arrays import Floats, Integers
from mwem_sql.algebra.chance import SELECTIONS, Chance
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.kernel.kernel import Selection
from mwem_sql.kernel.tails import cumulants, half_width
from mwem_sql.loop.candidates import Offered
from mwem_sql.loop.plan import Schedule
from mwem_sql.loop.problem import Problem

MOST_BOUNDED_CELLS: Final = 2**18
"""Cells of all queries together. With more, nothing is kept: it would take as long as the selections themselves."""


class Bounds:
    """By query, how far its answer may be off: the sum over its cells, on the kernel's grid."""

    def __init__(self, problem: Problem, schedule: Schedule, most_cells: int = MOST_BOUNDED_CELLS) -> None:
        queries = problem.queries
        self._is_kept = bool(queries.cells.sum() <= most_cells)
        self._cells, self._limits = queries.cells, queries.bounds
        self._ends = np.cumsum(queries.cells)
        self._problem = problem
        self._chance, self._rounds = Chance(SELECTIONS), schedule.rounds
        self._answers = np.zeros(int(queries.cells.sum()) if self._is_kept else 0)
        self._penalties = np.zeros(len(queries.cells))
        self._open = np.zeros(len(queries.cells), dtype=np.bool_)
        self._bounds = np.full(len(queries.cells), np.inf)

    def offer(self, offered: Offered) -> None:
        """Take note of what a selection is about to see."""
        if not self._is_kept:
            return
        self._open = offered.is_open[: len(self._cells)]
        self._penalties[offered.changed] = np.rint(offered.noise)
        if len(offered.changed):
            self._move(
                offered.changed, np.concatenate([np.asarray(answers).reshape(-1) for answers in offered.answers])
            )

    def observe(self, selection: Selection, measured: Measurement | None) -> None:
        """Take note of what was selected and measured; None if it was not measured by its own cells."""
        if measured is None or not self._is_kept or not self._chance.allows(1 / self._rounds):
            return
        # Half of it for the selection, half for the noise, which matters on one side only.
        beta = self._chance.take("a round", 1 / self._rounds) / 2
        number = selection.query
        cells = slice(int(self._ends[number] - self._cells[number]), int(self._ends[number]))
        distance = np.abs(measured.values - np.rint(self._answers[cells]))
        # The mean of |d - noise| is at least |d|, and its variance at most that of the noise.
        variance, fourth = cumulants(measured.scale, measured.kind)
        error = float(distance.sum()) + half_width(distance.size * variance, distance.size * fourth, 2 * beta)
        count = int(self._open.sum())
        times = np.broadcast_to(selection.multipliers, count).astype(np.float64)
        slack = selection.scale * (math.log(count) + math.log(1 / beta))
        place = int(np.count_nonzero(self._open[:number]))
        score = times[place] * (error - self._penalties[number]) + slack
        bounds = score / times + self._penalties[self._open] + self._cells[self._open] / 2
        self._bounds[self._open] = np.minimum(self._bounds[self._open], np.maximum(bounds, 0))
        self._bounds[number] = min(self._bounds[number], error + distance.size / 2)

    def final(self, answers: Callable[[], tuple[Integers, Sequence[Floats]]]) -> Floats | None:
        """The bounds of a state with these answers, in parts of the queries' own; None if there are none."""
        if not self._is_kept:
            return None
        if np.isfinite(self._bounds).any():
            numbers, vectors = answers()
            self._move(numbers, np.concatenate([np.asarray(vector).reshape(-1) for vector in vectors]))
        return self._bounds / self._limits

    def _move(self, numbers: Integers, answers: Floats) -> None:
        cells = self._cells[numbers]
        inside = np.cumsum(cells) - cells
        places = np.arange(len(answers)) + np.repeat(self._ends[numbers] - cells - inside, cells)
        self._bounds[numbers] += np.add.reduceat(np.abs(answers - self._answers[places]), inside)
        self._answers[places] = answers
