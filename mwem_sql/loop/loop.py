"""The loop: Multiplicative Weights and the Exponential Mechanism, to be read beside the paper's figure.

Sees the private table through the kernel's methods only; everything else here is public or released. The letters are
the figure's: A is the approximation, n its total, q_i the query of round i, m what is measured, T the rounds.

For the last A every round fits all measurements again: by mirror descent to a tolerance, or (`fit := 'replay'`) as the
paper's listing does, 100 passes of the fixed step. For the average a round takes one step, as in the figure, which is
what the theorem is about. Public counts are met exactly after every step, by a projection that takes A no further from
B in relative entropy, so that the theorem holds with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.loop import details, start
from mwem_sql.loop.bounds import Bounds
from mwem_sql.loop.candidates import Candidates
from mwem_sql.loop.plan import Schedule, best
from mwem_sql.loop.problem import Outcome, Problem, is_total, kinds_of
from mwem_sql.loop.transcript import Transcript, from_histogram, from_histogram_with_prior
from mwem_sql.model.fit import Fit
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State

PASSES = 100
"""Over all measurements after each round, as in the paper's listing."""

Progress: TypeAlias = Callable[[int, int, int], None]
"""Called after each round: with its number, how many are expected, and the number of the query that was measured."""


def mwem(kernel: Kernel, problem: Problem, schedule: Schedule, progress: Progress | None = None) -> Outcome:
    """Measure what is planned, run rounds while something is left, then measure details.

    The kernel debits; what is measured and when it ends depends on released values only. All of the schedule is spent
    but for what is certified afterwards (judge/certificate.py), and for what counts units. If there is nothing at all
    to measure, a public total and no query whose factor fits, the rounds spend nothing.
    """
    progress = progress or (lambda _i, _rounds, _q: None)
    m = Transcript.of(kernel, problem, schedule)
    # Let n denote ||B||, and A_0 n times the uniform distribution over D, or what was measured first tells of B.
    for line in schedule.of("total"):
        m.measure("total", line.number, line.share)
    planned = best(schedule, m.total())
    if planned.kind != schedule.kind:
        kernel.count_in_rho(planned.limit)
        m.follow(planned)
    schedule = planned
    fit = _measure_planned(problem, schedule, m, progress)
    state, bounds = _run_rounds(problem, schedule, m, fit, progress) if schedule.left else (fit.state, None)
    rows, kinds = {}, kinds_of(state, m.measurements)
    for name, line in zip(problem.details, schedule.of("detail"), strict=True):
        measured, rows[name] = details.refine(
            kernel,
            line.number,
            line.share,
            problem.details[name],
            expected=state.marginal([name]),
            groups=kinds.get(name, state.partitions[name].codes),
            noise=schedule.composition.variance,
        )
        m.measurements += measured
    return Outcome(
        state=state,
        total=m.total(),
        is_empty=m.is_empty(),
        schedule=schedule,
        measurements=tuple(m.measurements),
        details=rows,
        kinds=kinds,
        targets=tuple(m.all_targets()),
        bounds=bounds,
    )


def _measure_planned(problem: Problem, schedule: Schedule, m: Transcript, progress: Progress) -> Fit:
    """A_0: everything that is measured without a selection, in the order of its lines."""
    A = problem.beginnings(m.total())[0]
    lines = schedule.of("histogram", "first", "always", "round")
    refined, pending, direct = list[int](), list[int](), list[int]()
    for place, line in enumerate(lines, start=1):
        q, query = line.number, m.queries[line.number]
        if line.is_refined:
            # What is known of its attributes by then is what it is shrunk towards.
            if any(not set(query.attributes).isdisjoint(m.queries[other].attributes) for other in pending):
                m.give(A, pending)
                pending = []
            m.refine(line.purpose, q, line.share, A, line.how)
            refined.append(q)
            pending.append(q)
        else:
            measured = m.measure(line.purpose, q, line.share)
            # A histogram tells n, too.
            if line.how == "start":
                A = from_histogram(query, measured, State.unsplit(problem.sizes, m.total(), problem.support))
            elif line.how == "with prior":
                A = from_histogram_with_prior(query, measured, problem.beginnings(m.total()))
            else:
                direct.append(q)
        if line.purpose == "round":
            progress(place, len(lines), q)
    if pending:
        m.give(A, pending)
    for line in schedule.of("start"):
        A = start.settle(problem, m, A, refined, line.share)
    fit = Fit(A)
    if not schedule.left:
        m.sweep(A, refined)
    if direct or (not schedule.left and len(refined) > 1):
        # Sets that overlap were measured with noise of different size: all of them are weighed against one another.
        m.settle(A)
        for q in direct:
            A.refine(m.queries[q])
            if problem.average:
                A.update(m.queries[q].shares, m.values[q])
        if not problem.average:
            _refit(fit, problem, m)
            if not schedule.left:
                fit.finish()
    m.project(A)
    return fit


def _run_rounds(
    problem: Problem, schedule: Schedule, m: Transcript, fit: Fit, progress: Progress
) -> tuple[State | Mixture, Callable[[State | Mixture], Floats | None]]:
    """The paper's figure; and what gives a bound of every query's error from selections."""
    A = fit.state
    iterates: list[State] = []
    candidates, bounds = Candidates(problem, schedule), Bounds(problem, schedule)
    for line in schedule.of("first", "always"):
        # No round that takes what the first one does selects again what is always measured.
        candidates.note(line.number, line.share if line.purpose == "first" else max(line.share, schedule.measure))
    # For iteration i = 1..T:
    for i, (select, measure, rounds_left) in enumerate(schedule.steps(), start=1):
        if problem.average:
            iterates.append(A.copy())
        offered = candidates.offer(A, measure)
        if offered is not None:
            bounds.offer(offered)
            # 1. Exponential Mechanism: sample q_i with score |q(A_{i-1}) - q(B)|.
            selection = m.kernel.select(*offered[:-1], select, changed=offered.changed)
            q_i = selection.query
            candidates.note(q_i, measure)
            # 2. Laplace Mechanism: m_i = q_i(B) + Laplace(2T/eps).
            measured = m.take("round", q_i, measure, A)
            if measured is not None:
                # Even if it is not fitted: what is stored tells apart what was measured.
                A.refine(m.queries[q_i])
            bounds.observe(selection, measured)
        elif m.variances:
            # Nothing new can be selected: the whole round goes to what is in the state.
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
        m.project(A)
        progress(i, i + rounds_left, q_i)
    fit.finish()
    m.project(A)
    # Output: the average of A_0 .. A_{T-1}, or the last A.
    state = _average(iterates, A, m) if problem.average else A
    return state, lambda last: bounds.final(lambda: candidates.answers(last))


def _average(iterates: Sequence[State], A: State, m: Transcript) -> Mixture:
    for A_i in iterates:
        if m.public is None:
            A_i.rescale(m.total())
            m.project(A_i)
        A_i.follow(A)
    return Mixture(iterates)


def _refit(fit: Fit, problem: Problem, m: Transcript) -> None:
    if problem.fit == "replay":
        fit.state.replay([(target.query, target.values) for target in m.all_targets()], PASSES)
    else:
        fit.fit(m.all_targets())


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
