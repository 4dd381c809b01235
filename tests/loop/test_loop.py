"""The loop.

With selections and noise known, it is the paper's figure and listing; with real noise, it keeps the theorem.
"""

# ruff: noqa: N803, N806  the paper's letters
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log, pi, sqrt

import numpy as np
import oracle
import pytest
from chance import examples, sampled
from conftest import flat
from hypothesis import assume, given, settings
from loops import (
    GAUSSIAN,
    MANY,
    PURE,
    Integers,
    PlannedProblem,
    Scripted,
    cases,
    count,
    cuboid,
    iterates,
    numbers,
    ones,
    parity,
    purposes,
    run,
    shape_of,
    shares,
)
from strategies import Floats, close, dense, seeds

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.draws import Draws
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.noise import SeededNoise
from mwem_sql.kernel.scales import Kind, noise_scale
from mwem_sql.loop.loop import PASSES, mwem
from mwem_sql.loop.problem import Outcome, Problem
from mwem_sql.loop.strategy import whole_domain
from mwem_sql.loop.transcript import REST_SHARE
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State


class Blind(Scripted):
    """Never looks at what it is given: all that leaves the kernel is the same for any data."""

    def select(self, scores: Integers, _scale: float, _kind: Kind) -> int:
        return self.picks.pop(0) % scores.size

    def add_noise(self, values: Integers, _scale: float, _kind: Kind) -> Integers:
        assert self.noise is not None
        return self.noise(values.size)


def counts_all(query: LinearQuery) -> bool:
    return all((b.labels >= 0).all() and (b.values is None or (b.values == 1).all()) for b in query.blocks)


def estimate(problem: Problem, steps: Sequence[tuple[int, Floats, float]]) -> float:
    """N from the measurements (query, values, variance) of queries that count every record."""
    if problem.total is not None:
        return problem.total
    kernel_queries = problem.kernel_queries
    sums = [(m.sum(), 1 / (len(m) * variance)) for q, m, variance in steps if counts_all(kernel_queries[q])]
    return max(1.0, sum(m * w for m, w in sums) / sum(w for _, w in sums))


def start(problem: Problem, n: float, h: Floats | None, reach: float) -> Floats:
    """A_0, the histogram's frequent cells found one by one."""
    A = oracle.uniform(problem.sizes, n)
    if h is None:
        return A
    frequent = [x for x in range(len(h)) if h[x] > reach]
    others = [x for x in range(len(h)) if h[x] <= reach]
    rest = max(n - sum(h[x] for x in frequent), REST_SHARE * n)
    base = sum(A[x] for x in others)
    A = np.array([h[x] if x in frequent else A[x] * rest / base for x in range(len(h))])
    return A * n / A.sum()


def replayed(problem: Problem, outcome: Outcome, Q: Sequence[Floats], per_cell: float) -> tuple[list[Floats], float]:
    """A_0 .. A_T and n, from the released measurements alone: the listing, or the figure for the average.

    `per_cell` is the absolute noise expected on a cell.
    """
    steps = [(s.number, s.values.astype(np.float64), s.variance) for s in outcome.measurements]
    kinds = purposes(outcome)
    done = sum(kind in {"total", "histogram"} for kind in kinds)
    n = estimate(problem, steps[:done])
    h, reach = None, 0.0
    if problem.histogram is not None:
        histogram = outcome.measurements[done - 1]
        h, cells = steps[done - 1][1], max(2, histogram.values.size)
        reach = histogram.scale * (log(cells) if histogram.kind == "pure" else sqrt(2 * log(cells)))
    A = [start(problem, n, h, reach)]
    for i in range(done, len(steps)):
        n = estimate(problem, steps[: i + 1])
        taken: dict[int, list[tuple[Floats, float]]] = {}
        for (q, m, variance), kind in zip(steps[: i + 1], kinds, strict=False):
            if kind != "histogram":
                taken.setdefault(q, []).append((m, 1 / variance))
        known = {q: np.average([m for m, _ in ms], axis=0, weights=[w for _, w in ms]) for q, ms in taken.items()}
        A_i = A[-1] * n / A[-1].sum()
        if not problem.average:
            A.append(oracle.multiplicative_weights(A_i, [(Q[q], m) for q, m in known.items()], PASSES))
            continue
        q_i = steps[i][0]
        doubt = 2 * log(len(problem.queries)) * per_cell
        excess = {q: np.abs(m - oracle.evaluate(Q[q], A_i)).sum() - doubt * len(m) for q, m in known.items()}
        excess = {q: e for q, e in excess.items() if q == q_i or not (len(Q[q]) == 1 and (Q[q] == 1).all())}
        excess[q_i] += doubt * len(known[q_i])
        k = max(excess, key=excess.__getitem__)
        # Of two that fit equally badly, rounding decides.
        assume(all(q == k or e < excess[k] - 1e-6 * n for q, e in excess.items()))
        A.append(oracle.update(A_i, Q[k], known[k]))
    return A, n


@settings(deadline=None, max_examples=examples(100))
@given(cases())
def test_the_loop_is_the_papers(case: tuple[Problem, Integers, int, Scripted, Budget]) -> None:
    """100 literal passes after each round, or one step of the figure and the average: weights, answers and n."""
    problem, B, rounds, script, budget = case
    outcome, accountant = run(problem, B, rounds, script, budget)
    Q = [oracle.dense_query(query, shape_of(problem)) for query in problem.kernel_queries]
    how = shares(problem, rounds, budget)
    scale = noise_scale(how.measure, how.composition.sensitivity, how.kind).scale
    A, n = replayed(problem, outcome, Q, scale if how.kind == "pure" else scale * sqrt(2 / pi))
    expected = A[-1]
    if problem.average:
        # Every iterate has the total that is known in the end.
        expected = np.mean([A_i * n / A_i.sum() for A_i in A[:rounds]], axis=0)
    assert outcome.total == pytest.approx(n, rel=1e-12)
    assert outcome.state.total == pytest.approx(n, rel=1e-12)
    close(dense(outcome.state), expected, n)
    for query, q in zip(problem.queries, Q, strict=False):
        close(outcome.state.answer(query), oracle.evaluate(q, expected), n)
    rounds_asked = numbers(outcome, "round")
    assert len(set(rounds_asked)) == len(rounds_asked)
    assert all(0 <= q < len(problem.queries) for q in rounds_asked)
    assert accountant.remaining == 0 or not numbers(outcome, "round", "again")


def test_the_loop_makes_all_passes() -> None:
    """Parities that nearly agree: the misfit rises in the second pass, and falls in the ones after it."""
    generator = np.random.default_rng(0)
    signs = generator.choice([-1, 1], 8) * np.where(generator.random((9, 8)) < 0.15, -1, 1)
    workload = [LinearQuery((Block(("x",), np.zeros(8, np.int32), 1, values=row.astype(np.int8)),)) for row in signs]
    B = generator.multinomial(1000, generator.dirichlet(np.ones(8)))
    problem = Problem(
        queries=workload, weights=np.ones(9), sizes={"x": np.ones(8)}, max_cells=MANY, total=1000.0, fit="replay"
    )
    script = Scripted([0] * 9, lambda size: generator.integers(-60, 60, size))
    outcome, _ = run(problem, B, 9, script)
    Q = [oracle.dense_query(query, {"x": 8}) for query in problem.kernel_queries]
    A, _ = replayed(problem, outcome, Q, 0.0)
    close(dense(outcome.state), A[-1], 1000.0)
    stopped = State.uniform(problem.sizes, 1000.0)
    measurements: list[tuple[LinearQuery, Floats]] = []
    for step in outcome.measurements:
        measurements.append((workload[step.number], step.values.astype(np.float64)))
        stopped.replay(measurements, passes=2)
    assert np.abs(dense(stopped) - A[-1]).max() > 0.1


@pytest.mark.parametrize("total", [None, 500.0])
@pytest.mark.parametrize("histogram", [False, True])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("rounds", sampled([6, 1, 3], 1))
@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "zcdp"])
@pytest.mark.parametrize("sensitivity", sampled([3, 1], 1))
def test_the_budget_is_spent_exactly(
    *, total: float | None, histogram: bool, average: bool, rounds: int, budget: Budget, sensitivity: int
) -> None:
    shape = {"a": 3, "b": 2}
    workload = [cuboid(shape, "a"), cuboid(shape, "a", "b"), count("b", 0, 1), parity(shape, "a", "b")]
    problem = PlannedProblem(
        queries=workload,
        weights=np.ones(4),
        sizes=ones(shape),
        max_cells=MANY,
        total=total,
        histogram=whole_domain(shape) if histogram else None,
        average=average,
        sensitivity=sensitivity,
    )
    B = np.random.default_rng(0).multinomial(500, np.full(6, 1 / 6))
    outcome, accountant = run(problem, B, rounds, SeededNoise(1), budget)
    how = shares(problem, rounds, budget)
    assert how.kind == accountant.kind
    assert accountant.remaining == 0
    assert 0 < accountant.mapped <= accountant.limit
    new = min(rounds, 4)
    first = ["total"] * (total is None) + ["histogram"] * histogram
    assert purposes(outcome) == first + ["round"] * new + ["again"] * (rounds - new)
    share = {
        "total": how.share("total"),
        "histogram": how.share("histogram"),
        "round": how.measure,
        "again": how.select + how.measure,
    }
    assert [step.share for step in outcome.measurements] == [share[purpose] for purpose in purposes(outcome)]
    assert Counter(numbers(outcome, "round")) == Counter(set(numbers(outcome, "round")))
    assert isinstance(outcome.state, Mixture) == average
    scale = noise_scale(how.measure, sensitivity, how.kind).scale
    assert {s.scale for s in outcome.measurements if s.purpose == "round"} == {scale}


def test_both_kinds_of_plan_are_tried() -> None:
    problem = Problem(queries=[], weights=np.ones(0), sizes={}, max_cells=MANY, total=1.0)
    assert {shares(problem, 6, budget).kind for budget in (PURE, GAUSSIAN)} == {"pure", "zcdp"}


def test_parities_ranges_and_cuboids_in_one_run() -> None:
    shape = {"age": 8, "sex": 2, "race": 3}
    ranges = [count("age", *((low <= x < high) for x in range(8))) for low, high in [(0, 3), (2, 6), (5, 8)]]
    cuboids = [cuboid(shape, "sex", "race"), cuboid(shape, "race", "age")]
    parities = [parity(shape, "age"), parity(shape, "sex", "age"), parity(shape, "sex", "race", "age")]
    workload = [*ranges, *cuboids, *parities]
    generator = np.random.default_rng(11)
    B = generator.multinomial(20_000, generator.dirichlet(np.full(48, 0.5)))
    problem = Problem(queries=workload, weights=np.ones(8), sizes=ones(shape), max_cells=MANY)
    script = Scripted()
    outcome, accountant = run(problem, B, 8, script)
    assert [scores.size for scores in script.scores] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert set(numbers(outcome, "round")) == set(range(8))
    assert accountant.remaining == 0
    uniform = State.uniform(problem.sizes, 20_000.0)
    for query in workload:
        exact = oracle.dense_query(query, shape) @ B
        before, after = (np.abs(state.answer(query) - exact).sum() for state in (uniform, outcome.state))
        assert after < max(0.1 * before, 100)


@settings(deadline=None, max_examples=examples(25))
@given(cases(), seeds)
def test_all_that_depends_on_the_data_comes_from_the_kernel(
    case: tuple[Problem, Integers, int, Scripted, Budget], seed: int
) -> None:
    """Other data and the same outputs of the kernel: bit for bit the same outcome."""
    problem, B, rounds, script, budget = case
    outcomes = []
    for data in (B, np.roll(B, 1) * 3 + 5, np.zeros_like(B)):
        generator = np.random.default_rng(seed)
        blind = Blind(script.picks * 2, lambda size, g=generator: g.integers(-100, 1000, size))
        outcomes.append(run(problem, data, rounds, blind, budget))
    (first, spent), *others = outcomes
    for other, also_spent in others:
        assert also_spent.spent == spent.spent
        assert (other.total, purposes(other)) == (first.total, purposes(first))
        for a, b in zip(first.measurements, other.measurements, strict=True):
            assert (a.number, a.share) == (b.number, b.share)
            np.testing.assert_array_equal(a.values, b.values)
        assert other.state.table().equals(first.state.table())


def test_seeded_runs_repeat() -> None:
    shape = {"a": 3, "b": 2}
    problem = Problem(
        queries=[cuboid(shape, "a"), cuboid(shape, "b"), parity(shape, "a", "b")],
        weights=np.ones(3),
        sizes=ones(shape),
        max_cells=MANY,
    )
    B = np.array([9, 80, 7, 60, 5, 40])
    tables = [run(problem, B, 2, SeededNoise(seed))[0].state.table() for seed in (1, 1, 2)]
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])


def test_average_and_last_differ() -> None:
    shape = {"a": 2, "b": 2}
    B = np.array([70, 10, 10, 10])
    last, average = (
        run(
            Problem(
                queries=[cuboid(shape, "a"), cuboid(shape, "b")],
                weights=np.ones(2),
                sizes=ones(shape),
                max_cells=MANY,
                total=100.0,
                average=a,
            ),
            B,
            2,
            Scripted(),
        )[0]
        for a in (False, True)
    )
    assert len(iterates(average)) == 2
    close(dense(iterates(average)[0]), np.full(4, 25.0), 100.0)
    assert np.abs(dense(last.state) - dense(average.state)).max() > 5


def test_progress() -> None:
    shape = {"a": 2}
    problem = Problem(queries=[cuboid(shape, "a")], weights=np.ones(1), sizes=ones(shape), max_cells=MANY, total=10.0)
    how = shares(problem, 3)
    told: list[tuple[int, int, int]] = []
    answers = [np.array([5, 5]), np.array([10])]
    kernel = Kernel(*flat(answers), how.composition.accountant(), Draws(Scripted()))
    mwem(kernel, problem, how, lambda done, of, q: told.append((done, of, q)))
    assert told == [(1, 3, 0), (2, 3, 0), (3, 3, 0)]
