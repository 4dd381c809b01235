"""The loop: Multiplicative Weights and the Exponential Mechanism, to be read beside the paper's figure.

Sees the private table through the kernel's methods only; everything else here is public or released. The letters are
the figure's: A is the approximation, n its total, q_i the query of round i, m what is measured, T the rounds.

For the last A every round fits all measurements again: by mirror descent to a tolerance, or (`fit := 'replay'`) as the
paper's listing does, 100 passes of the fixed step. For the average a round takes one step, as in the figure, which is what
the theorem is about.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.split import Split
from mwem_sql.loop import details
from mwem_sql.loop.ahead import doubt, refined_ahead, told_from
from mwem_sql.loop.bounds import Bounds
from mwem_sql.loop.candidates import Candidates
from mwem_sql.loop.pace import Pace
from mwem_sql.loop.problem import Outcome, Problem, is_total
from mwem_sql.loop.strategy import Always
from mwem_sql.loop.transcript import Transcript, dense, from_histogram, noise_of, not_impossible, with_prior
from mwem_sql.model.fit import Fit
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State

PASSES = 100
"""Over all measurements after each round, as in the paper's listing."""

Progress: TypeAlias = Callable[[int, int, int], None]
"""Told of each round: its number, how many are expected, and the kernel's number of what was measured."""


def mwem(kernel: Kernel, problem: Problem, split: Split, progress: Progress | None = None) -> Outcome:
    """Run all rounds. The kernel debits; what is asked and when it ends depends on released values only.

    All of `split` is spent but for what is certified afterwards (judge/certificate.py), and for what counts units. If there is nothing
    at all to measure, a public total and no query whose factor fits, the rounds spend nothing.
    """
    run = _at_once if problem.at_once else _whole if problem.whole else _rounds
    outcome = run(kernel, problem, split, progress or (lambda _i, _rounds, _q: None))
    return _in_detail(kernel, problem, split, outcome)


def _rounds(kernel: Kernel, problem: Problem, split: Split, progress: Progress) -> Outcome:
    """The paper's figure."""
    pace, candidates, m = Pace(split), Candidates(problem, split), Transcript.of(kernel, problem, split)
    # Let n denote ||B||, and A_0 n times the uniform distribution over D, or what was measured first tells of B.
    fit = _start(problem, split, pace, candidates, m)
    A = fit.state
    iterates: list[State] = []
    bounds = Bounds(problem, split)
    # For iteration i = 1..T:
    for i in itertools.count(1):
        if not pace.left:
            break
        if problem.average:
            iterates.append(A.copy())
        select, measure = pace.take()
        offered = candidates.offer(A, measure)
        if offered is not None:
            bounds.offer(offered)
            # 1. Exponential Mechanism: sample q_i with score |q(A_{i-1}) - q(B)|.
            selection = kernel.select(*offered[:-1], select, changed=offered.changed)
            q_i = selection.query
            candidates.note(q_i, measure)
            # 2. Laplace Mechanism: m_i = q_i(B) + Laplace(2T/eps).
            noise = candidates.penalties.noise[q_i]
            measured = _measure(A, m, q_i, measure, noise=noise, pace=pace if split.growing else None)
            bounds.observe(selection, measured)
        elif m.variances:
            # Nothing new can be asked: the whole round goes to what is in the state.
            q_i = m.least_known()
            m.take("again", q_i, select + measure, A)
        else:
            break
        m.settle(A)
        # 3. Multiplicative Weights: A_i(x) proportional to A_{i-1}(x) exp(q_i(x) (m_i - q_i(A_{i-1})) / 2n).
        if problem.average:
            k = _worst_fit(A, m, q_i, candidates.penalties.doubt)
            A.update(m.queries[k].shares, m.values[k])
        else:
            _refit(fit, problem, m)
        progress(i, i + pace.rounds, q_i)
    # Output: the average of A_0 .. A_{T-1}, or the last A.
    state = _average(iterates, A, m) if problem.average else A
    return Outcome(
        state=state,
        total=m.total(),
        measurements=tuple(m.measurements),
        bounds=bounds.final(lambda: candidates.answers(state)),
    )


def _start(problem: Problem, split: Split, pace: Pace, candidates: Candidates, m: Transcript) -> Fit:
    """A_0, from what is measured ahead of the rounds: n, a histogram of the whole domain, the distribution of each attribute."""
    if split.total:
        m.measure("total", 0, split.total)
    if problem.histogram is None or not split.histogram:
        A = State.unsplit(problem.sizes, m.total())
    else:
        measured = m.measure("histogram", 1 + len(problem.queries), split.histogram)
        A = from_histogram(problem.histogram, measured, State.unsplit(problem.sizes, m.total()))
    if problem.histogram is not None and not split.histogram and m.total() >= told_from(problem, split):
        q = 1 + len(problem.queries)
        m.refine("round", q, split.first + pace.take_all(), A, by_cells=True, at_once=True)
        m.give(A, [q])
        return Fit(A)
    ahead = refined_ahead(problem, split.first)
    if split.growing and ahead:
        ahead = refined_ahead(problem, split.first + pace.spare(split.first, doubt(problem, ahead, split, m.total())))
    for first, share in ahead:
        m.refine("first", first.number, share, A, first.by_cells)
        candidates.note(first.number, share)
    m.give(A, [first.number for first, _ in ahead])
    always = _measure_always(problem, split, m)
    if always:
        m.settle(A)
    for own, share in always:
        # No round that takes what the first one does selects it again.
        candidates.note(own.number, max(share, split.measure))
        if split.growing:
            m.shrink(own.number, A.answer(m.queries[own.number].shares))
        A.refine(m.queries[own.number])
        if problem.average:
            A.update(m.queries[own.number].shares, m.values[own.number])
    fit = Fit(A)
    if always and not problem.average:
        _refit(fit, problem, m)
    return fit


def _measure_always(problem: Problem, split: Split, m: Transcript) -> list[tuple[Always, Fraction]]:
    """Measure what is asked for in any case, as it is; what was measured, and the share of each."""
    ahead = list(zip(problem.always, problem.always_shares(split.always), strict=True))
    for own, share in ahead:
        m.measure("always", own.number, share)
    return ahead


def _measure(
    A: State, m: Transcript, q_i: int, share: Fraction, *, noise: float, pace: Pace | None
) -> Measurement | None:
    """Measure what was selected. If steps may grow, the pace hears how far it is from what was known, and what noise explains of that is left out."""
    query = m.queries[q_i]
    before = A.answer(query.shares) if pace is not None else None
    measured = m.take("round", q_i, share, A)
    if measured is None:
        return None
    if pace is not None and before is not None:
        pace.hear(float(np.abs(measured.values / query.bound - before).sum()), noise / query.bound)
        m.shrink(q_i, before)
    # Even if it is not fitted: what is stored tells apart what was measured.
    A.refine(query)
    return measured


def _average(iterates: Sequence[State], A: State, m: Transcript) -> Mixture:
    for A_i in iterates:
        if m.public is None:
            A_i.rescale(m.total())
        A_i.follow(A)
    return Mixture(iterates)


def _refit(fit: Fit, problem: Problem, m: Transcript) -> None:
    if problem.fit == "replay":
        fit.state.replay([(target.query, target.values) for target in m.targets.values()], PASSES)
    else:
        fit.fit(list(m.targets.values()))


def _worst_fit(A: State, m: Transcript, q_i: int, doubt: Floats) -> int:
    """The query that takes step 3: q_i, unless A answers one measured earlier worse beyond doubt.

    The figure selects a query again until it fits. Here none is selected twice, so an earlier one that fits badly must
    get its steps from the measurement it has; without them the theorem fails. With them it holds as it stands. Let e =
    2T log|Q| / eps (the proof's adderr), `doubt` be 2e, and r_q = |m_q - q(A)|, which is within e of |q(A) - q(B)|.
    Lemma 1 gives err <= |q_i(A) - q_i(B)| + 4e over the queries not measured before. If q_i takes the step, then r_q <=
    r_i + 2e for all measured q, so they are within 4e of q_i's error, too. Otherwise k takes it, whose error exceeds
    r_k - e > r_i + e >= |q_i(A) - q_i(B)|, and that of all measured ones less 2e. Either way err is within 4e of the
    error of the query that takes the step, and the rest of the proof is the paper's.
    """
    queries = [q for q in m.values if q == q_i or not is_total(m.queries[q])]  # no step changes the total
    answers = A.answers([m.queries[q].shares for q in queries])
    misfit = {q: float(np.abs(m.values[q] - answer).sum()) for q, answer in zip(queries, answers, strict=True)}
    return max(queries, key=lambda q: (misfit[q] - (0.0 if q == q_i else doubt[q]), q == q_i))


def _whole(kernel: Kernel, problem: Problem, split: Split, progress: Progress) -> Outcome:
    """Spend everything on the joint distributions of a few sets of attributes: there is nothing to select, and no loop."""
    m = Transcript.of(kernel, problem, split)
    A = State.unsplit(problem.sizes, problem.total or 1.0)
    _measure_always(problem, split, m)
    ahead = refined_ahead(problem, split.refined)
    for number, (first, share) in enumerate(ahead, start=1):
        m.refine("round", first.number, share, A, first.by_cells)
        m.give(A, [first.number])
        progress(number, len(ahead), first.number)
    m.sweep(A, [first.number for first, _ in ahead])
    if problem.always:
        m.settle(A)
        _refit(Fit(A), problem, m)
    return Outcome(state=A, total=A.total, measurements=tuple(m.measurements))


def _at_once(kernel: Kernel, problem: Problem, split: Split, progress: Progress) -> Outcome:
    """Spend everything on the histogram of a small domain: there is nothing to select, and no loop."""
    m = Transcript.of(kernel, problem, split)
    measured = m.measure("round", 1, split.model)
    uniform, histogram = State.unsplit(problem.sizes, m.total()), problem.queries[0]
    base = uniform.marginal(histogram.attributes).ravel()
    weights = with_prior(measured.values.astype(np.float64), measured.variance, base)
    A = dense(histogram, not_impossible(weights, measured.variance, base), uniform)
    progress(1, 1, 1)
    return Outcome(state=A, total=m.total(), measurements=tuple(m.measurements))


def _in_detail(kernel: Kernel, problem: Problem, split: Split, outcome: Outcome) -> Outcome:
    """With what attributes are inside the classes of a state; shares grow as the third root of the cells, as those of distributions that come first."""
    parts = {name: Fraction(detail.count ** (1 / 3)) for name, detail in problem.details.items()}
    measurements, rows = list(outcome.measurements), {}
    for q, (name, part) in enumerate(parts.items(), start=len(problem.kernel_queries) - len(parts)):
        share = split.detail * part / sum(parts.values())
        expected, groups = outcome.state.marginal([name]), outcome.state.partitions[name].codes
        measured, rows[name] = details.refine(
            kernel, q, share, problem.details[name], expected=expected, groups=groups, noise=noise_of(problem, split)
        )
        measurements += measured
    return replace(outcome, measurements=tuple(measurements), details=rows)
