"""The loop: Multiplicative Weights and the Exponential Mechanism, to be read beside the paper's figure.

Sees the private table through the kernel's two methods only; everything else here is public or released. The letters are
the figure's: A is the approximation, n its total, q_i the query of round i, m its measurement, T the rounds.

For the last A every round fits all measurements again: by mirror descent to a tolerance, or (`fit := 'replay'`) as the
paper's listing does, 100 passes of the fixed step. For the average a round takes one step, as in the figure, which is what
the theorem is about.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from mwem_sql.accounting.budget import Pace, Split
from mwem_sql.accounting.scales import noise_scale, noise_variance, selection_scale
from mwem_sql.domains.detail import Detail
from mwem_sql.model.adaptive import Adaptive
from mwem_sql.model.factor import LOWEST, SCHEMA, TINY
from mwem_sql.model.grouped import Grouped
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.model.targets import Target
from mwem_sql.mwem import details
from mwem_sql.mwem.candidates import Offers
from mwem_sql.mwem.refinement import Refinement
from mwem_sql.mwem.strategy import First
from mwem_sql.private.kernel import Kernel, Measurement
from mwem_sql.queries.arrays import Floats, Labels
from mwem_sql.queries.linear import Block, LinearQuery
from mwem_sql.queries.summary import Facts

PASSES = 100  # over all measurements after each round, as in the paper's listing
# A histogram start keeps at least this share of n for the cells that it cannot tell from noise.
REST_SHARE = 0.05
# Beside the cells of its own query a round may add at most this many even shares of the room over all rounds and attributes:
# entangled models of hundreds of attributes stay quick, small ones are not held back.
STEP_SHARE = 100
# Of the noise of a selection: by so much the scores that it is added to may be behind.
LAG = 0.25
# Totals that differ by a smaller share of n are the same.
SAME = 1e-9
# Proportional fitting of sets that overlap: at most so often, until the misfit per cell, in variances, is this, and while it falls by a tenth.
SWEEPS = 50
CLOSE = 1e-4
FALLS = 0.9
HALVINGS = 60  # of an interval: to the last bit, or nearly
TOTAL = LinearQuery(())

Purpose: TypeAlias = Literal["total", "histogram", "first", "round", "again", "detail"]


@dataclass(frozen=True, eq=False)
class Problem:
    """What the loop is given: public all of it.

    Kernel query 0 is the total; `queries` follow from 1; a histogram of the whole domain, if asked for, comes after them, and
    `details`, by attribute, last.
    `max_cells` is for one factor of the state; `sensitivity` is the kernel's; `first` are histograms over classes that are refined ahead of
    the rounds, or with `whole` instead of them. `at_once`: the only query is the histogram of the whole domain.
    """

    queries: Sequence[LinearQuery]
    weights: Floats
    sizes: Mapping[str, Floats]
    max_cells: int
    total: float | None = None
    histogram: LinearQuery | None = None
    average: bool = False
    sensitivity: int = 1
    fit: str = "mirror"
    first: Sequence[First] = ()
    whole: bool = False
    at_once: bool = False
    details: Mapping[str, Detail] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.queries):
            raise ValueError("a problem has one weight per query")

    def kernel_queries(self) -> list[LinearQuery]:
        """The queries whose true answers the kernel must hold, in the order of their numbers."""
        whole = [self.histogram] if self.histogram is not None else []
        return [TOTAL, *self.queries, *whole, *(detail.query for detail in self.details.values())]

    def bounds(self) -> list[int]:
        """For each of them, the most that a record adds to a cell."""
        return list(map(int, Facts.of(self.kernel_queries()).bounds))


@dataclass(frozen=True, eq=False)
class Step:
    """One measurement of a run and what it was for; if it was of a partition of the query's cells, the part of each cell."""

    purpose: Purpose
    measurement: Measurement
    parts: Labels | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """The state sums to `total`: the public constant, or the estimate from all of `steps`. `told` are the details, by attribute."""

    state: Grouped
    total: float
    steps: tuple[Step, ...]
    told: Mapping[str, details.Told] = field(default_factory=dict)

    def count(self, *purposes: Purpose) -> int:
        """How many steps had one of these purposes."""
        return sum(step.purpose in purposes for step in self.steps)


def mwem(kernel: Kernel, problem: Problem, split: Split, progress: Callable[[int, int], None] | None = None) -> Outcome:
    """Run all rounds. The kernel debits; what is asked and when it ends depends on released values only.

    All of `split` is spent, unless there is nothing at all to measure: a public total, and no query whose factor fits.
    """
    run = _at_once if problem.at_once else _whole if problem.whole else _rounds
    return _in_detail(kernel, problem, split, run(kernel, problem, split, progress))


def _in_detail(kernel: Kernel, problem: Problem, split: Split, outcome: Outcome) -> Outcome:
    """With what attributes are inside the classes of a state; shares grow as the third root of the cells, as those of distributions that come first."""
    parts = {name: Fraction(detail.count ** (1 / 3)) for name, detail in problem.details.items()}
    steps, told = list(outcome.steps), {}
    q = len(problem.kernel_queries()) - len(parts)
    for number, (name, part) in enumerate(parts.items(), start=q):
        share = split.detail * part / sum(parts.values())
        expected, groups = outcome.state.marginal([name]), outcome.state.grids[name].groups
        measured, told[name] = details.refine(
            kernel, number, share, problem.details[name], expected=expected, groups=groups, noise=_noise(problem, split)
        )
        steps += [Step("detail", own, parts) for own, parts in measured]
    return replace(outcome, steps=tuple(steps), told=told)


def _rounds(kernel: Kernel, problem: Problem, split: Split, progress: Callable[[int, int], None] | None) -> Outcome:
    """The paper's loop."""
    Q = problem.kernel_queries()
    T = split.rounds
    pace = Pace(split)
    sizes = {name: len(size) for name, size in problem.sizes.items()}
    step = STEP_SHARE * problem.max_cells // (T * max(1, len(sizes)))
    lag = LAG * selection_scale(split.select, problem.sensitivity, split.kind).scale
    offers = Offers(problem.queries, sizes, problem.max_cells, step, lag)
    penalties = _Penalties(problem, split, offers)
    # The share that each query was last measured with: it is a candidate for a round that would measure it more closely.
    known = np.zeros(len(problem.queries))
    candidates = np.zeros(len(Q), dtype=bool)
    # A public total needs no measurement.
    for scalar in np.flatnonzero(offers.cells == 1).tolist() if problem.total is not None else ():
        known[scalar] = math.inf if _is_total(problem.queries[scalar]) else 0.0
    m = _Measured.of(kernel, problem, split)
    iterates: list[Adaptive] = []
    outdated = True

    # Let n denote ||B||, the number of records: a public constant, or estimated from what is measured.
    if split.total:
        m.measure("total", 0, split.total)
    histogram = (
        m.measure("histogram", 1 + len(problem.queries), split.histogram) if problem.histogram is not None else None
    )
    n = m.total()

    # Let A_0 denote n times the uniform distribution over D, or what the noisy histogram tells of B.
    A = Adaptive.uniform(problem.sizes, n)
    if problem.histogram is not None and histogram is not None:
        A = _from_histogram(problem.histogram, histogram, A)
    ahead = _ahead(problem, split.first)
    if split.growing and ahead:
        ahead = _ahead(problem, split.first + pace.spare(split.first, _doubt(problem, ahead, split, n)))
    for own, share in ahead:
        m.refine("first", own.query + 1, share, A, own.by_cells)
        known[own.query] = float(share)
    n = m.give(A, [own.query + 1 for own, _ in ahead])

    # For iteration i = 1..T:
    for i in itertools.count(1):
        if problem.average:
            iterates.append(A.copy())
        select, measure = pace.take()
        outdated |= penalties.change_to(measure)
        np.less(known, float(measure), out=candidates[1 : len(problem.queries) + 1])
        candidates[1 : len(problem.queries) + 1] &= offers.fitting(A)
        anything = bool(candidates.any())
        if not anything and not m.variances:
            break
        if anything:
            # 1. Exponential Mechanism: sample q_i with score |q(A_{i-1}) - q(B)|.
            news, answers = offers.news(A, everything=outdated)
            outdated = False
            q_i = kernel.select(
                candidates, answers, penalties.noise[news + 1], problem.weights[news], select, changed=news + 1
            )
            known[q_i - 1] = float(measure)
            before = A.answer(Q[q_i].shares) if split.growing else None
            # 2. Laplace Mechanism: m_i = q_i(B) + Laplace(2T/eps).
            if q_i in m.refined:
                m.refine("round", q_i, measure, A)
                m.give(A, [q_i])
            else:
                measured = m.measure("round", q_i, measure)
                if before is not None:
                    pace.hear(
                        float(np.abs(measured.values / Q[q_i].bound - before).sum()),
                        penalties.noise[q_i] / Q[q_i].bound,
                    )
                    m.shrink(q_i, before)
                # Even if it is not fitted: what is stored tells apart what was measured.
                A.refine(Q[q_i])
        else:
            # Nothing new can be asked: the whole round goes to what is in the state.
            q_i = m.least_known()
            if q_i in m.refined:
                m.refine("again", q_i, select + measure, A)
                m.give(A, [q_i])
            else:
                m.measure("again", q_i, select + measure)

        if problem.total is None:
            n = m.total()
            A.rescale(n)
            m.rescale(n)
        # 3. Multiplicative Weights: A_i(x) proportional to A_{i-1}(x) exp(q_i(x) (m_i - q_i(A_{i-1})) / 2n).
        if problem.average:
            k = _worst_fit(A, m, q_i, penalties.doubt)
            A.update(Q[k].shares, m.values[k])
        else:
            _fit(A, problem, m)
        if progress is not None:
            progress(i, i + pace.rounds)
        if not pace.left:
            break
    if problem.fit == "mirror":
        A.finish()

    # Output: the average of A_0 .. A_{T-1}, or the last A.
    if not problem.average:
        return Outcome(A, n, tuple(m.steps))
    for A_i in iterates:
        if problem.total is None:
            A_i.rescale(n)
        A_i.follow(A)
    return Outcome(Grouped(Mixture([A_i.state for A_i in iterates]), A.grids), n, tuple(m.steps))


def _noise(problem: Problem, split: Split) -> Callable[[Fraction], float]:
    """Of a share, the variance of what is measured with it."""
    return lambda share: noise_variance(share, problem.sensitivity, split.kind)


def _ahead(problem: Problem, budget: Fraction) -> list[tuple[First, Fraction]]:
    """What is refined first, and the share of each."""
    whole = sum(Fraction(own.part) for own in problem.first)
    return [(own, budget * Fraction(own.part) / whole) for own in problem.first] if budget else []


def _doubt(problem: Problem, ahead: Sequence[tuple[First, Fraction]], split: Split, n: float) -> float:
    """How large the noise on what is refined first would be, as a share of n: its absolute values over all cells, on average."""
    noise = [
        problem.queries[own.query].cells * noise_scale(share, problem.sensitivity, split.kind).scale
        for own, share in ahead
    ]
    return float(np.mean(noise)) / n


def _whole(kernel: Kernel, problem: Problem, split: Split, progress: Callable[[int, int], None] | None) -> Outcome:
    """Spend everything on the joint distributions of a few sets of attributes: there is nothing to select, and no loop."""
    m = _Measured.of(kernel, problem, split)
    A = Adaptive.uniform(problem.sizes, problem.total or 1.0)
    ahead = _ahead(problem, split.limit - split.detail)
    for number, (own, share) in enumerate(ahead, start=1):
        m.refine("round", own.query + 1, share, A, own.by_cells)
        m.give(A, [own.query + 1])
        if progress is not None:
            progress(number, len(ahead))
    m.sweep(A, [own.query + 1 for own, _ in ahead])
    return Outcome(A, A.total, tuple(m.steps))


def _at_once(kernel: Kernel, problem: Problem, split: Split, _: Callable[[int, int], None] | None) -> Outcome:
    """Spend everything on the histogram of a small domain: there is nothing to select, and no loop."""
    m = _Measured.of(kernel, problem, split)
    measured = m.measure("round", 1, split.limit - split.detail)
    n = m.total()
    A = Adaptive.uniform(problem.sizes, n)
    weights = _with_prior(
        measured.values.astype(np.float64), measured.variance, A.marginal(problem.queries[0].attributes).ravel()
    )
    return Outcome(_dense(problem.queries[0], weights, A), n, tuple(m.steps))


def _with_prior(h: Floats, variance: float, base: Floats) -> Floats:
    """The weights p, with the sum of `base`, that minimise sum (h - p)^2 / (2 variance) + k KL(p || base) for k = a record per cell.

    KL is that of the distributions. A histogram that is nothing but noise leaves the base measure, one without noise stays as it is, and no
    cell becomes 0. At the minimum (p - h) / variance + k / n log(p / base) is the same number s for all cells.
    """
    n, base = float(base.sum()), np.maximum(base, TINY)
    pull = h.size / n

    def weights(s: float) -> Floats:
        # By halving log(p / base), which the left side grows with.
        low, high = np.full(h.size, LOWEST), np.full(h.size, -LOWEST)
        for _ in range(HALVINGS):
            x = (low + high) / 2
            above = (base * np.exp(np.minimum(x, -LOWEST)) - h) / variance + pull * x > s
            low, high = np.where(above, low, x), np.where(above, x, high)
        return np.asarray(base * np.exp(low))

    # The weights grow with s. Below the first of these numbers each is less than its part of n, above the second more.
    marks = (base - h) / variance
    low, high = float(marks.min()), float(marks.max())
    for _ in range(HALVINGS):
        s = (low + high) / 2
        low, high = (low, s) if weights(s).sum() > n else (s, high)
    found = weights(low)
    return np.asarray(found * (n / found.sum()))


@dataclass(eq=False)
class _Measured:
    """What was released so far: every step, and one value (in parts of its bound) for each query, by precision.

    A histogram is a start and a count of all records, but no query that the loop fits.
    """

    kernel: Kernel
    queries: Sequence[LinearQuery]
    # The variance of a measurement with a share.
    noise: Callable[[Fraction], float]
    # Variances fall with this power of a share.
    power: int
    public: float | None = None
    steps: list[Step] = field(default_factory=list)
    values: dict[int, Floats] = field(default_factory=dict)
    variances: dict[int, float] = field(default_factory=dict)
    # Of each step that counts every record, the count and its precision.
    counts: list[tuple[float, float]] = field(default_factory=list)
    # The same object as long as nothing new is known of a query: the fit can then tell.
    targets: dict[int, Target] = field(default_factory=dict)
    refined: dict[int, Refinement] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: Kernel, problem: Problem, split: Split) -> _Measured:
        return cls(
            kernel, problem.kernel_queries(), _noise(problem, split), 2 if split.kind == "pure" else 1, problem.total
        )

    def measure(self, purpose: Purpose, q: int, share: Fraction) -> Measurement:
        measurement = self.kernel.measure(q, share)
        self.steps.append(Step(purpose, measurement))
        if _counts_every_record(self.queries[q]):
            sum_ = float(measurement.values.sum(dtype=np.float64))
            self.counts.append((sum_, 1 / (measurement.variance * measurement.values.size)))
        if purpose == "histogram":
            return measurement
        bound = self.queries[q].bound
        new, spread = measurement.values / bound, measurement.variance / bound**2
        if q in self.values:
            old = self.variances[q]
            new = (self.values[q] * spread + new * old) / (old + spread)
            spread = old * spread / (old + spread)
        self.values[q], self.variances[q] = new, spread
        if self.queries[q].blocks:
            self.targets[q] = Target(self.queries[q].shares, new, spread)
        return measurement

    def refine(self, purpose: Purpose, q: int, share: Fraction, A: Adaptive, by_cells: bool = False) -> None:
        """Measure a histogram by partitions that follow the data; A, before it is given what they tell, is what is known otherwise.

        Where there is nothing to look at more closely, the rest of the share goes to the partition as it is. A histogram that is measured again takes
        one partition more.
        """
        query = self.queries[q]
        parts = [1.0]
        if q in self.refined:
            self.refined[q].look(self.noise(share))
        else:
            self.refined[q] = Refinement(query.shape, A.marginal(query.attributes).ravel())
            parts = self.refined[q].parts(by_cells, self.power)

        def measure(labels: Labels, share: Fraction) -> tuple[Floats, float]:
            measured = self.kernel.measure(q, share, labels)
            self.steps.append(Step(purpose, measured, labels))
            return measured.values.astype(np.float64), measured.variance

        self.refined[q].measure(share, parts, measure, self.noise)

    def give(self, A: Adaptive, queries: Iterable[int]) -> float:
        """Fit A at once to what was refined, one after the other; the estimate of n that it then has."""
        n = self.total()
        A.rescale(n)
        for q in queries:
            query, leaves = self.queries[q], self.refined[q].leaves(n)
            partition = LinearQuery((Block(query.attributes, leaves.labels.reshape(query.shape), leaves.values.size),))
            A.take(partition, leaves.cells.reshape(query.shape))
            self.targets[q] = Target(partition, leaves.values, leaves.variances)
            self.variances[q] = float(leaves.variances.max())
        return n

    def sweep(self, A: Adaptive, queries: Sequence[int]) -> None:
        """Fit A to what was refined over and over, as long as sets of attributes that have some in common still disagree: proportional fitting.

        Ends when all of it fits far closer than noise allows to tell, or no longer fits better.
        """
        self.rescale(A.total)
        cells, before = sum(self.targets[q].values.size for q in queries), math.inf
        for _ in range(SWEEPS if len(queries) > 1 else 0):
            answers = A.answers([self.targets[q].query for q in queries])
            misfit = sum(self.targets[q].misfit(answer) for q, answer in zip(queries, answers, strict=True))
            if misfit <= CLOSE * cells or misfit > FALLS * before:
                return
            before = misfit
            for q in queries:
                A.match(self.targets[q].query, self.targets[q].values)

    def rescale(self, n: float) -> None:
        """Let what was refined sum to another n."""
        for q in self.refined:
            target = self.targets[q]
            if abs(target.values.sum() - n) > SAME * n:
                self.targets[q] = Target(target.query, target.values * (n / target.values.sum()), target.variance)

    def shrink(self, q: int, before: Floats) -> None:
        """Take a measurement for nearer to what was known where noise explains half of the difference or more; if it explains all of it, not at all.

        James and Stein would take off what noise explains of any difference: less noise in what is hardly told, and less of what is.
        """
        if q not in self.targets:
            return
        target = self.targets.pop(q)
        away = target.values - before
        kept = min(1.0, float(away @ away) / float(target.variances.sum()) - 1)
        if kept > 0:
            self.targets[q] = Target(target.query, before + kept * away, target.variance)

    def total(self) -> float:
        """The estimate of n from all that counts every record, each by its precision; at least 1. Before there is any, 1."""
        if self.public is not None:
            return self.public
        counts = [
            *self.counts,
            *((rows, 1 / variance) for rows, variance in (own.total() for own in self.refined.values())),
        ]
        if not counts:
            return 1.0
        sums, precisions = zip(*counts, strict=True)
        return max(1.0, float(np.average(sums, weights=precisions)))

    def least_known(self) -> int:
        """The query with the largest variance, the first measured among equals; the total only if there is no other."""
        return max(self.variances, key=lambda q: (q > 0, self.variances[q]))


class _Penalties:
    """By kernel query, the absolute noise that a round's measurement is expected to collect over all its cells.

    The kernel counts in whole numbers up to a query's bound; the state and its measurements in parts of it, up to 1.
    """

    def __init__(self, problem: Problem, split: Split, offers: Offers) -> None:
        self._problem = problem
        self._kind = split.kind
        self._cells = np.concatenate([[1], offers.cells])
        self._bounds, self._bound_of = np.unique(np.concatenate([[1], offers.bounds]), return_inverse=True)
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


def _fit(A: Adaptive, problem: Problem, m: _Measured) -> None:
    if problem.fit == "replay":
        A.replay([(target.query, target.values) for target in m.targets.values()], PASSES, tolerance=None)
    else:
        A.fit(list(m.targets.values()))


def _worst_fit(A: Adaptive, m: _Measured, q_i: int, doubt: Floats) -> int:
    """The query that takes step 3: q_i, unless A answers one measured earlier worse beyond doubt.

    The figure selects a query again until it fits. Here none is selected twice, so an earlier one that fits badly must
    get its steps from the measurement it has; without them the theorem fails. With them it holds as it stands. Let e =
    2T log|Q| / eps (the proof's adderr), `doubt` be 2e, and r_q = |m_q - q(A)|, which is within e of |q(A) - q(B)|.
    Lemma 1 gives err <= |q_i(A) - q_i(B)| + 4e over the queries not measured before. If q_i takes the step, then r_q <=
    r_i + 2e for all measured q, so they are within 4e of q_i's error, too. Otherwise k takes it, whose error exceeds
    r_k - e > r_i + e >= |q_i(A) - q_i(B)|, and that of all measured ones less 2e. Either way err is within 4e of the
    error of the query that takes the step, and the rest of the proof is the paper's.
    """
    queries = [q for q in m.values if q == q_i or not _is_total(m.queries[q])]  # no step changes the total
    answers = A.answers([m.queries[q].shares for q in queries])
    misfit = {q: float(np.abs(m.values[q] - answer).sum()) for q, answer in zip(queries, answers, strict=True)}
    return max(queries, key=lambda q: (misfit[q] - (0.0 if q == q_i else doubt[q]), q == q_i))


def _is_total(query: LinearQuery) -> bool:
    return query.cells == 1 and _counts_every_record(query)


def _counts_every_record(query: LinearQuery) -> bool:
    return all(block.counts_all for block in query.blocks)


def _from_histogram(query: LinearQuery, measured: Measurement, uniform: Adaptive) -> Adaptive:
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
    return _dense(query, weights, uniform)


def _dense(query: LinearQuery, weights: Floats, uniform: Adaptive) -> Adaptive:
    """A state of one factor over the whole domain."""
    table = pa.Table.from_pydict(
        {"factor": [0], "attributes": [query.attributes], "shape": [query.shape], "weights": [weights]}, schema=SCHEMA
    )
    A = State.from_table(table, uniform.attributes)
    A.rescale(uniform.total)
    return Adaptive.whole(A)
