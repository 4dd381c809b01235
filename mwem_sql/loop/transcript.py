"""What was released so far, and how it is asked for: the loop's only way to the kernel's measure.

Owns the values by precision, the estimate of n, what is refined, the targets that a state is fitted to, and the states
that follow from a noisy histogram of the whole domain. Sees released values only, and must not decide what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from mwem_sql.algebra.arrays import Floats, Labels
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.measurement import Measurement, Purpose
from mwem_sql.algebra.table import Table
from mwem_sql.algebra.totals import Totals
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.loop.plan import How, Schedule
from mwem_sql.loop.problem import Problem
from mwem_sql.loop.refinement import FLOOR, Refinement
from mwem_sql.model.fit import Target
from mwem_sql.model.projection import project
from mwem_sql.model.state import State
from mwem_sql.model.support import IMPOSSIBLE
from mwem_sql.model.tree import LOWEST_LOG, SMALLEST_FLOAT, WEIGHT_FLOOR

REST_SHARE = 0.05
"""Of n: what a histogram start keeps at least for the cells that it cannot tell from noise."""
HALVINGS = 60
"""Of an interval: to the last bit, or nearly."""
EMPTY = 0.5
"""Rows: a table with fewer, by the estimate, is empty."""
SAME = 1e-9
"""Totals that differ by a smaller share of n are the same."""
SWEEPS, CLOSE, FALLS = 50, 1e-4, 0.9
"""Proportional fitting of sets that overlap: at most so often, until the misfit per cell, in variances, is this, and
while it falls by a tenth."""


@dataclass(eq=False, kw_only=True)
class Transcript:
    """What was released so far: every measurement, and one value (in parts of its bound) for each query, by precision.

    A histogram is a start and a count of all records, but no query that the loop fits.
    """

    kernel: Kernel
    queries: Sequence[LinearQuery]
    # The variance of a measurement with a share.
    noise: Callable[[Fraction], float]
    # Variances fall with this power of a share.
    power: int
    public: float | None = None
    # What n is before anything says it.
    expected: float = 1.0
    # Public counts that every state agrees with.
    totals: Totals = field(default_factory=Totals)
    # What was released on the even distribution, where a run begins with another one.
    even: State | None = None
    # Whether new values are shrunk towards the state, which began with a start that was kept.
    shrinks: bool = False
    measurements: list[Measurement] = field(default_factory=list)
    values: dict[int, Floats] = field(default_factory=dict)
    variances: dict[int, float] = field(default_factory=dict)
    # Of each measurement that counts every record, the count and its precision.
    counts: list[tuple[float, float]] = field(default_factory=list)
    # The same object as long as nothing new is known of a query: the fit can then tell.
    targets: dict[int, list[Target]] = field(default_factory=dict)
    refined: dict[int, Refinement] = field(default_factory=dict)
    # What public counts ask of a fit, at this n and with this variance.
    _counted: tuple[float, float, list[Target]] = (0.0, 0.0, [])

    @classmethod
    def of(cls, kernel: Kernel, problem: Problem, schedule: Schedule) -> Transcript:
        return cls(
            kernel=kernel,
            queries=problem.kernel_queries,
            noise=schedule.composition.variance,
            power=schedule.composition.power,
            public=problem.total,
            expected=1.0 if problem.parents is None else problem.parents.total,
            totals=problem.totals,
            even=problem.even(1.0) if problem.start is not None else None,
        )

    def follow(self, schedule: Schedule) -> None:
        """Expect the noise of another composition from now on."""
        self.noise, self.power = schedule.composition.variance, schedule.composition.power

    def take(self, purpose: Purpose, q: int, share: Fraction, A: State) -> Measurement | None:
        """Measure a query: what was refined is refined again, and given to A.

        Anything else is measured as it is, and comes back.
        """
        if q in self.refined:
            self.refine(purpose, q, share, A)
            self.give(A, [q])
            return None
        is_new = q not in self.values
        measurement = self.measure(purpose, q, share)
        if self.shrinks and is_new and q in self.targets:
            self.targets[q] = [target.shrunk(A.answer(target.query)) for target in self.targets[q]]
        return measurement

    def measure(self, purpose: Purpose, q: int, share: Fraction) -> Measurement:
        measurement = Measurement.of(self.kernel.measure(q, share), self.queries[q], purpose, q)
        self.measurements.append(measurement)
        if self.queries[q].counts_all:
            sum_ = float(measurement.values.sum(dtype=np.float64))
            self.counts.append((sum_, 1 / (measurement.variance * measurement.values.size)))
        if purpose == "histogram":
            return measurement
        bound = self.queries[q].bound
        new, variance = measurement.values / bound, measurement.variance / bound**2
        if q in self.values:
            old = self.variances[q]
            new = (self.values[q] * variance + new * old) / (old + variance)
            variance = old * variance / (old + variance)
        self.values[q], self.variances[q] = new, variance
        if self.queries[q].blocks:
            self._note(q, new, variance)
        return measurement

    def _note(self, q: int, values: Floats, variance: float) -> None:
        """What a state is fitted to: the query, or its cells one by one where groups are counted by shares."""
        query = self.queries[q].shares
        parts = [query] if query.cells == 1 or not query.is_joint else query.single_cells()
        self.targets[q] = [
            Target(part, some, variance) for part, some in zip(parts, np.split(values, len(parts)), strict=True)
        ]

    def refine(self, purpose: Purpose, q: int, share: Fraction, A: State, how: How = "refined") -> None:
        """Measure a histogram by partitions that follow the data.

        A, before it is given what they tell, is what is known otherwise. Where there is nothing to look at more
        closely, the rest of the share goes to the partition as it is. A histogram that is measured again takes one
        partition more.
        """
        query = self.queries[q]
        parts = [1.0]
        if q in self.refined:
            self.refined[q].look(self.noise(share))
        else:
            self.refined[q] = Refinement(
                query.shape,
                A.marginal(query.attributes).ravel(),
                even=None if self.even is None else self.even.marginal(query.attributes).ravel(),
                by_cells=how in {"by cells", "single cells"},
                at_once=how == "single cells",
            )
            parts = self.refined[q].parts(self.power)

        def measure(labels: Labels, share: Fraction) -> tuple[Floats, float]:
            drawn = self.kernel.measure(q, share, labels)
            self.measurements.append(Measurement.of(drawn, query, purpose, q, labels))
            return drawn.values.astype(np.float64), drawn.variance

        self.refined[q].measure(share, parts, measure, self.noise)

    def give(self, A: State, queries: Iterable[int]) -> float:
        """Fit A at once to what was refined, one after the other; the estimate of n that it then has."""
        n = self.total()
        for state in filter(None, (A, self.even)):
            state.rescale(n)
        for q in queries:
            query, leaves = self.queries[q], self.refined[q].leaves(n)
            partition = LinearQuery((Block(query.attributes, leaves.labels.reshape(query.shape), leaves.values.size),))
            for state in filter(None, (A, self.even)):
                state.take(partition, leaves.cells.reshape(query.shape))
            values = A.possible_values(A.partitions.exact(partition), leaves.values)
            self.targets[q] = [Target(partition, values, leaves.variances)]
            self.variances[q] = float(leaves.variances.max())
        return n

    def sweep(self, A: State, queries: Sequence[int]) -> None:
        """Fit A to what was refined in turns, as long as sets that have attributes in common disagree.

        Proportional fitting. Ends when all of it fits far closer than noise allows to tell, or no longer fits better.
        """
        self._rescale(A.total)
        targets = [target for q in queries for target in self.targets[q]]
        cells, before = sum(target.values.size for target in targets), math.inf
        for _ in range(SWEEPS if len(queries) > 1 else 0):
            answers = A.answers([target.query for target in targets])
            misfit = sum(target.misfit(answer) for target, answer in zip(targets, answers, strict=True))
            if misfit <= CLOSE * cells or misfit > FALLS * before:
                return
            before = misfit
            for target in targets:
                A.match(target.query, target.values)

    def settle(self, A: State) -> float:
        """The estimate of n by now, which A and what was refined then sum to."""
        n = self.total()
        if self.public is None:
            A.rescale(n)
            self._rescale(n)
        return n

    def project(self, A: State) -> None:
        """Let A agree with public counts."""
        project(A, self.totals.partitions)

    def all_targets(self) -> list[Target]:
        """What a state is fitted to: what was measured; and public counts, each as good as the best measurement.

        A fit comes near to these, so that measurements are fitted beside them; a projection does the rest.
        """
        measured = [target for targets in self.targets.values() for target in targets]
        if not measured or not self.totals.partitions:
            return measured
        n, variance = self.total(), min(target.sharpest for target in measured)
        if self._counted[:2] != (n, variance):
            counted = [Target(each.query, each.values(n), variance) for each in self.totals.partitions]
            self._counted = n, variance, counted
        return [*measured, *self._counted[2]]

    def _rescale(self, n: float) -> None:
        """Let what was refined sum to another n."""
        for q in self.refined:
            (target,) = self.targets[q]
            if abs(target.values.sum() - n) > SAME * n:
                self.targets[q] = [Target(target.query, target.values * (n / target.values.sum()), target.variance)]

    def total(self) -> float:
        """The estimate of n from all that counts every record, each by its precision; at least 1, or what is public.

        Before there is any, what is expected.
        """
        if self.public is not None:
            return self.public
        estimate = self._estimate()
        return max(self.totals.fewest, self.expected if estimate is None else max(1.0, estimate))

    def is_empty(self) -> bool:
        """Whether the estimate of n is nearer to 0 than to 1."""
        estimate = self._estimate()
        return self.public is None and not self.totals.fewest and estimate is not None and estimate < EMPTY

    def _estimate(self) -> float | None:
        """The average of all that counts every record, each by its precision; None before there is any."""
        counts = [
            *self.counts,
            *((rows, 1 / variance) for rows, variance in (refinement.total() for refinement in self.refined.values())),
        ]
        if not counts:
            return None
        sums, precisions = zip(*counts, strict=True)
        return float(np.average(sums, weights=precisions))

    def least_known(self) -> int:
        """The query with the largest variance, the first measured among equals; the total only if there is no other."""
        return max(self.variances, key=lambda q: (bool(self.queries[q].blocks), self.variances[q]))


def with_prior(h: Floats, variance: float, base: Floats) -> Floats:
    """The weights p, with the sum of `base`, that minimise sum (h - p)^2 / (2 variance) + k KL(p || base).

    k is a record per cell, and KL is that of the distributions. A histogram that is nothing but noise leaves the base
    measure, one without noise stays as it is, and no cell becomes 0. At the minimum (p - h) / variance + k / n log(p /
    base) is the same number s for all cells.
    """
    n, base = float(base.sum()), np.maximum(base, SMALLEST_FLOAT)
    pull = h.size / n

    def weights(s: float) -> Floats:
        # By halving log(p / base), which the left side grows with.
        low, high = np.full(h.size, LOWEST_LOG), np.full(h.size, -LOWEST_LOG)
        for _ in range(HALVINGS):
            x = (low + high) / 2
            above = (base * np.exp(np.minimum(x, -LOWEST_LOG)) - h) / variance + pull * x > s
            low, high = np.where(above, low, x), np.where(above, x, high)
        return np.asarray(base * np.exp(low))

    # The weights grow with s. Below the first of these numbers each is less than its part of n, above the second more.
    marks = (base - h) / variance
    low, high = float(marks.min()), float(marks.max())
    for _ in range(HALVINGS):
        s = (low + high) / 2
        low, high = (low, s) if weights(s).sum() > n else (s, high)
    minimum = weights(low)
    return np.asarray(minimum * (n / minimum.sum()))


def not_impossible(weights: Floats, variance: float, base: Floats) -> Floats:
    """Weights that leave a little to every cell: a count far below 0, which chance may make, leaves next to nothing."""
    raised = np.maximum(weights, np.minimum(base, FLOOR * math.sqrt(variance)))
    return np.asarray(raised * (weights.sum() / raised.sum()))


def from_histogram(query: LinearQuery, measured: Measurement, uniform: State) -> State:
    """A_0 from a noisy histogram: cells above what noise reaches keep their count, the others share the rest of n."""
    n = uniform.total
    h = measured.values.astype(np.float64)
    # The largest of so many draws is about this.
    reach = math.log(max(h.size, 2))
    frequent = h > measured.scale * (reach if measured.kind == "pure" else math.sqrt(2 * reach))
    weights = np.where(frequent, h, 0.0)
    others = np.where(frequent, 0.0, uniform.marginal(query.attributes).ravel())
    if others.any():
        weights += others * (max(n - weights.sum(), REST_SHARE * n) / others.sum())
    return dense(query, weights, uniform)


def from_histogram_with_prior(query: LinearQuery, measured: Measurement, priors: Sequence[State]) -> State:
    """A state from a noisy histogram and nothing else: shrunk towards the nearest prior, and no cell is impossible."""
    h = measured.values.astype(np.float64)
    # Noise adds the same to the squared distance from each, on average.
    bases = [(prior, prior.marginal(query.attributes).ravel()) for prior in priors]
    prior, base = min(bases, key=lambda pair: float(np.square(h - pair[1]).sum()))
    weights = with_prior(h, measured.variance, base)
    return dense(query, not_impossible(weights, measured.variance, base), prior)


def dense(query: LinearQuery, weights: Floats, uniform: State) -> State:
    """A state of one clique over the whole domain; what is impossible in the uniform one is so in it."""
    weights = np.maximum(weights, WEIGHT_FLOOR * weights.sum())
    state = State.of([Table(query.attributes, weights.reshape(query.shape))], uniform.attributes)
    state.rescale(uniform.total)
    if uniform.support is not None:
        state.restrict(query.attributes, uniform.marginal(query.attributes) > IMPOSSIBLE * uniform.total)
        state.keep_within(uniform.support)
    return state
