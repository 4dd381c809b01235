"""The loop: with selections and noise known, it is the paper's figure and listing; with real noise, it keeps the theorem."""

# ruff: noqa: N803, N806  the paper's letters
from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import comb, log, pi, prod, sqrt
from unittest import mock

import numpy as np
import oracle
import pytest
from conftest import flat
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import Floats, close, dense, domains, queries, seeds

from mwem_sql.accounting.accountant import Accountant
from mwem_sql.accounting.budget import Budget
from mwem_sql.accounting.pace import LEAST_FIRST, Pace
from mwem_sql.accounting.scales import Kind, noise_scale
from mwem_sql.accounting.split import Split, split
from mwem_sql.model.adaptive import Adaptive
from mwem_sql.model.grouped import Grouped
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.mwem.loop import PASSES, mwem
from mwem_sql.mwem.problem import Outcome, Problem
from mwem_sql.mwem.regimes import FIRST_SHARE
from mwem_sql.mwem.start import FAINT, REST_SHARE, not_impossible, with_prior
from mwem_sql.mwem.strategy import First, whole_domain
from mwem_sql.private.kernel import Kernel
from mwem_sql.private.noise import Noise, OpenDPNoise, SeededNoise
from mwem_sql.queries.linear import Block, LinearQuery

Integers = NDArray[np.int64]
PURE = Budget.parse(1)
GAUSSIAN = Budget.parse(1, "1e-6")
MANY = 10**6


class Scripted:
    """Noise by the test's book: picks candidates in the order given, then the best; adds what `noise` gives."""

    private = False

    def __init__(self, picks: Sequence[int] = (), noise: Callable[[int], Integers] | None = None) -> None:
        self.picks = list(picks)
        self.noise = noise
        self.scores: list[Integers] = []

    def select(self, scores: Integers, _scale: float, _kind: Kind) -> int:
        self.scores.append(scores.copy())
        return self.picks.pop(0) % scores.size if self.picks else int(scores.argmax())

    def add_noise(self, values: Integers, _scale: float, _kind: Kind) -> Integers:
        return values + self.noise(values.size) if self.noise else values.copy()


class Blind(Scripted):
    """Never looks at what it is given: all that leaves the kernel is the same for any data."""

    def select(self, scores: Integers, _scale: float, _kind: Kind) -> int:
        return self.picks.pop(0) % scores.size

    def add_noise(self, values: Integers, _scale: float, _kind: Kind) -> Integers:
        assert self.noise is not None
        return self.noise(values.size)


def cuboid(shape: Mapping[str, int], *names: str) -> LinearQuery:
    return whole_domain({name: shape[name] for name in names})


def count(name: str, *counted: int) -> LinearQuery:
    """How many records are in the classes marked 1."""
    return LinearQuery((Block((name,), np.array(counted, np.int32) - 1, 1),))


def parity(shape: Mapping[str, int], *names: str) -> LinearQuery:
    """The sum of the product of signs, -1 for odd classes."""
    signs = {name: np.where(np.arange(shape[name]) % 2, -1, 1).astype(np.int8) for name in names}
    return LinearQuery(tuple(Block((name,), np.zeros(shape[name], np.int32), 1, signs[name]) for name in names))


def points(D: int) -> list[LinearQuery]:
    """One count for each element of a domain of one attribute."""
    return [count("x", *row) for row in np.eye(D, dtype=np.int64)]


def ones(shape: Mapping[str, int]) -> dict[str, Floats]:
    return {name: np.ones(size) for name, size in shape.items()}


def shape_of(problem: Problem) -> dict[str, int]:
    return {name: len(size) for name, size in problem.sizes.items()}


def shares(problem: Problem, rounds: int, budget: Budget = PURE) -> Split:
    return split(
        budget,
        rounds,
        total_is_public=problem.total is not None,
        histogram=problem.histogram is not None,
        sensitivity=problem.sensitivity,
    )


def run(
    problem: Problem, B: NDArray[np.int64], rounds: int, noise: Noise, budget: Budget = PURE
) -> tuple[Outcome, Accountant]:
    """A run on the dense data B, one entry per element of the domain."""
    shape = shape_of(problem)
    answers = [(oracle.dense_query(query, shape) @ B).astype(np.int64) for query in problem.kernel_queries()]
    how = shares(problem, rounds, budget)
    accountant = how.accountant()
    outcome = mwem(Kernel(*flat(answers), accountant, noise, problem.sensitivity), problem, how)
    accountant.settle()
    return outcome, accountant


def iterates(outcome: Outcome) -> list[Grouped]:
    """The states that an average is of; or the one that there is."""
    inner = outcome.state.state
    return [Grouped(state, outcome.state.grids) for state in (inner.states if isinstance(inner, Mixture) else [inner])]


def asked(outcome: Outcome, *purposes: str) -> list[int]:
    return [step.measurement.query for step in outcome.steps if step.purpose in purposes]


def purposes(outcome: Outcome) -> list[str]:
    return [step.purpose for step in outcome.steps]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Problem, Integers, int, Scripted, Budget]:
    """A problem, its data, rounds, and a script whose noise adds up to a quarter of the data: far beyond, steps overshoot."""
    sizes = draw(domains(3))
    shape = {name: len(size) for name, size in sizes.items()}
    generator = np.random.default_rng(draw(seeds))
    n = draw(st.sampled_from([20, 1000, 10**6]))
    B = generator.multinomial(n, generator.dirichlet(np.full(prod(shape.values()), 0.3)))
    workload = draw(st.lists(queries(shape), min_size=1, max_size=4))
    problem = Problem(
        workload,
        np.ones(len(workload)),
        sizes,
        MANY,
        draw(st.sampled_from([None, float(n)])),
        whole_domain(shape) if draw(st.booleans()) else None,
        draw(st.booleans()),
        draw(st.sampled_from([1, 3])),
        fit="replay",
    )
    script = Scripted(
        draw(st.lists(st.integers(0, 9), min_size=6, max_size=6)),
        lambda size: generator.integers(-n // (4 * size), n // (4 * size), size, endpoint=True),
    )
    return problem, B, draw(st.integers(1, 6)), script, draw(st.sampled_from([PURE, GAUSSIAN]))


def counts_all(query: LinearQuery) -> bool:
    return all((b.labels >= 0).all() and (b.values is None or (b.values == 1).all()) for b in query.blocks)


def estimate(problem: Problem, steps: Sequence[tuple[int, Floats, float]]) -> float:
    """N from the measurements (query, values, variance) of queries that count every record."""
    if problem.total is not None:
        return problem.total
    kernel_queries = problem.kernel_queries()
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
    steps = [
        (s.measurement.query, s.measurement.values.astype(np.float64), s.measurement.variance) for s in outcome.steps
    ]
    kinds = purposes(outcome)
    done = sum(kind in {"total", "histogram"} for kind in kinds)
    n = estimate(problem, steps[:done])
    h, reach = None, 0.0
    if problem.histogram is not None:
        histogram = outcome.steps[done - 1].measurement
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


@settings(deadline=None, max_examples=100)
@given(cases())
def test_the_loop_is_the_papers(case: tuple[Problem, Integers, int, Scripted, Budget]) -> None:
    """100 literal passes after each round, or one step of the figure and the average: weights, answers and n."""
    problem, B, rounds, script, budget = case
    outcome, accountant = run(problem, B, rounds, script, budget)
    Q = [oracle.dense_query(query, shape_of(problem)) for query in problem.kernel_queries()]
    how = shares(problem, rounds, budget)
    scale = noise_scale(how.measure, problem.sensitivity, how.kind).scale
    A, n = replayed(problem, outcome, Q, scale if how.kind == "pure" else scale * sqrt(2 / pi))
    expected = A[-1]
    if problem.average:
        # Every iterate has the total that is known in the end.
        expected = np.mean([A_i * n / A_i.sum() for A_i in A[:rounds]], axis=0)
    assert outcome.total == pytest.approx(n, rel=1e-12)
    assert outcome.state.total == pytest.approx(n, rel=1e-12)
    close(dense(outcome.state), expected, n)
    for query, q in zip(problem.queries, Q[1:], strict=False):
        close(outcome.state.answer(query), oracle.evaluate(q, expected), n)
    rounds_asked = asked(outcome, "round")
    assert len(set(rounds_asked)) == len(rounds_asked)
    assert all(1 <= q <= len(problem.queries) for q in rounds_asked)
    assert accountant.remaining == 0 or not asked(outcome, "round", "again")


def test_the_loop_makes_all_passes() -> None:
    """Parities that nearly agree: the misfit rises in the second pass, and falls in the ones after it."""
    generator = np.random.default_rng(0)
    signs = generator.choice([-1, 1], 8) * np.where(generator.random((9, 8)) < 0.15, -1, 1)
    workload = [LinearQuery((Block(("x",), np.zeros(8, np.int32), 1, row.astype(np.int8)),)) for row in signs]
    B = generator.multinomial(1000, generator.dirichlet(np.ones(8)))
    problem = Problem(workload, np.ones(9), {"x": np.ones(8)}, MANY, 1000.0, fit="replay")
    script = Scripted([0] * 9, lambda size: generator.integers(-60, 60, size))
    outcome, _ = run(problem, B, 9, script)
    Q = [oracle.dense_query(query, {"x": 8}) for query in problem.kernel_queries()]
    A, _ = replayed(problem, outcome, Q, 0.0)
    close(dense(outcome.state), A[-1], 1000.0)
    stopped = State.uniform(problem.sizes, 1000.0)
    measurements: list[tuple[LinearQuery, Floats]] = []
    for step in outcome.steps:
        measurements.append((workload[step.measurement.query - 1], step.measurement.values.astype(np.float64)))
        stopped.replay(measurements, PASSES, tolerance=0.0)
    assert np.abs(dense(stopped) - A[-1]).max() > 0.1


@pytest.mark.parametrize("total", [None, 500.0])
@pytest.mark.parametrize("histogram", [False, True])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("rounds", [1, 3, 6])
@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "zcdp"])
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_the_budget_is_spent_exactly(
    *, total: float | None, histogram: bool, average: bool, rounds: int, budget: Budget, sensitivity: int
) -> None:
    shape = {"a": 3, "b": 2}
    workload = [cuboid(shape, "a"), cuboid(shape, "a", "b"), count("b", 0, 1), parity(shape, "a", "b")]
    problem = Problem(
        workload, np.ones(4), ones(shape), MANY, total, whole_domain(shape) if histogram else None, average, sensitivity
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
    share = {"total": how.total, "histogram": how.histogram, "round": how.measure, "again": how.select + how.measure}
    assert [step.measurement.share for step in outcome.steps] == [share[purpose] for purpose in purposes(outcome)]
    assert Counter(asked(outcome, "round")) == Counter(set(asked(outcome, "round")))
    assert isinstance(outcome.state.state, Mixture) == average
    scale = noise_scale(how.measure, sensitivity, how.kind).scale
    assert {s.measurement.scale for s in outcome.steps if s.purpose == "round"} == {scale}


def test_both_kinds_of_plan_are_tried() -> None:
    problem = Problem([], np.ones(0), {}, MANY, 1.0)
    assert {shares(problem, 6, budget).kind for budget in (PURE, GAUSSIAN)} == {"pure", "zcdp"}


def test_what_is_measured_again() -> None:
    """The least known first, the first measured among equals; the total has its own share and is left alone."""
    shape = {"a": 2, "b": 2}
    workload = [count("a", 0, 1), count("b", 0, 1), cuboid(shape, "a", "b")]
    for total, values in itertools.product([None, 50.0], [-9, 1000]):
        problem = Problem(workload, np.ones(3), ones(shape), MANY, total)
        outcome, _ = run(problem, np.full(4, 10), 10, Scripted([2, 0, 0], lambda size, v=values: np.full(size, v)))
        assert asked(outcome, "round") == [3, 1, 2]
        assert asked(outcome, "again") == [3, 1, 2, 3, 1, 2, 3]


def test_measurements_of_a_query_are_combined_by_their_precision() -> None:
    problem = Problem([count("a", 1, 0)], np.ones(1), {"a": np.ones(2)}, MANY, 1000.0, fit="replay")
    given = iter([300, 60, 0])
    outcome, _ = run(problem, np.array([400, 600]), 3, Scripted((), lambda _: np.array([next(given)])))
    first, *again = (step.measurement for step in outcome.steps)
    assert [int(m.values[0]) for m in (first, *again)] == [700, 460, 400]
    # Select and measure have equal shares: twice the share, and noise of about a quarter of the variance.
    assert again[0].share == again[1].share == 2 * first.share
    precision = [1 / m.variance for m in (first, *again)]
    assert precision[1] / precision[0] == pytest.approx(4, rel=0.05)
    combined = np.average([700, 460, 400], weights=precision)
    # All that pulls on the state in the last 100 passes is the combined value, and by then it is nearly there.
    A = np.array([1000 / 2, 1000 / 2])
    for upto in (1, 2, 3):
        m = np.array([np.average([700, 460, 400][:upto], weights=precision[:upto])])
        A = oracle.multiplicative_weights(A, [(np.array([[1.0, 0.0]]), m)])
    close(dense(outcome.state), A, 1000.0)
    assert dense(outcome.state)[0] == pytest.approx(combined, abs=0.01)


def chain(max_cells: int, total: float | None, average: bool = False) -> Problem:
    """Cuboids a-b, b-c, c-d of three classes each: 4 cells at the start, then 11, 19 or 18 for two of them, 27 for all."""
    shape = dict.fromkeys("abcd", 3)
    workload = [cuboid(shape, *pair) for pair in ("ab", "bc", "cd")]
    return Problem(workload, np.ones(3), ones(shape), max_cells, total, average=average)


@pytest.mark.parametrize("total", [None, 300.0])
@pytest.mark.parametrize("average", [False, True])
def test_queries_that_would_not_fit_are_not_offered(total: float | None, average: bool) -> None:
    B = np.random.default_rng(3).multinomial(300, np.full(81, 1 / 81))
    for max_cells, rounds, again in [(26, [2, 1], [2, 1, 2]), (18, [2], [2, 2, 2, 2]), (27, [2, 1, 3], [2, 1])]:
        script = Scripted([1, 0, 0])
        outcome, accountant = run(chain(max_cells, total, average), B, 5, script)
        assert asked(outcome, "round") == rounds
        assert asked(outcome, "again") == again
        assert accountant.remaining == 0
        assert max(state.cells for state in iterates(outcome)) <= max_cells
    # a-b and c-d share no attribute: both fit, and then b-c would be one clique too many.
    script = Scripted([0, 1])
    outcome, _ = run(chain(26, total, average), B, 3, script)
    assert asked(outcome, "round") == [1, 3]
    assert [scores.size for scores in script.scores] == [3, 2]


@pytest.mark.parametrize("average", [False, True])
def test_no_query_fits_and_the_total_is_private(average: bool) -> None:
    B = np.full(81, 10)
    given = iter([100, 40, 40, 40])
    outcome, accountant = run(chain(8, None, average), B, 3, Scripted((), lambda _: np.array([next(given)])))
    assert purposes(outcome) == ["total", "again", "again", "again"]
    assert asked(outcome, "total", "again") == [0, 0, 0, 0]
    assert accountant.remaining == 0
    assert 850 < outcome.total < 855  # nearly all of the budget went to the last three
    close(dense(outcome.state), np.full(81, outcome.total / 81), outcome.total)


@pytest.mark.parametrize("average", [False, True])
def test_no_query_fits_and_the_total_is_public(average: bool) -> None:
    """There is nothing to measure: the start is the result, and the account is not touched."""
    outcome, accountant = run(chain(8, 810.0, average), np.full(81, 10), 3, OpenDPNoise())
    assert outcome.steps == ()
    assert accountant.remaining == accountant.limit
    close(dense(outcome.state), np.full(81, 10.0), 810.0)


def test_total_is_estimated_from_all_that_counts_every_record() -> None:
    """By hand: the total itself, a cuboid of three cells, and not a count, a parity or a cuboid of a part."""
    shape = {"a": 3, "b": 2}
    part = LinearQuery((*cuboid(shape, "a").blocks, *count("b", 0, 1).blocks))
    workload = [cuboid(shape, "a"), count("b", 0, 1), parity(shape, "b"), part]
    problem = Problem(workload, np.ones(4), ones(shape), MANY)
    given = iter([np.array([60]), np.array([30, 0, 0]), np.array([-500]), np.array([700]), np.array([900, 900, 900])])
    outcome, _ = run(problem, np.full(6, 100), 4, Scripted([0] * 4, lambda _: next(given)))
    assert asked(outcome, "total", "round") == [0, 1, 2, 3, 4]
    variance = [step.measurement.variance for step in outcome.steps]
    expected = np.average([660, 630], weights=[1 / variance[0], 1 / (3 * variance[1])])
    assert outcome.total == pytest.approx(expected, rel=1e-12)
    assert outcome.state.total == outcome.total
    assert dense(outcome.state).sum() == pytest.approx(expected, rel=1e-12)


def test_a_histogram_counts_every_record_too() -> None:
    problem = Problem([count("a", 0, 1)], np.ones(1), {"a": np.ones(2)}, MANY, histogram=whole_domain({"a": 2}))
    given = iter([np.array([0]), np.array([100, 100]), np.array([0])])
    outcome, _ = run(problem, np.array([500, 500]), 1, Scripted((), lambda _: next(given)))
    assert purposes(outcome) == ["total", "histogram", "round"]
    variance = [step.measurement.variance for step in outcome.steps]
    assert outcome.total == pytest.approx(np.average([1000, 1200], weights=[1 / variance[0], 1 / (2 * variance[1])]))
    # A share of 1/4 for two cells tells more of n than one of 1/20.
    assert outcome.total > 1150


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("histogram", [False, True])
def test_total_is_at_least_1(average: bool, histogram: bool) -> None:
    shape = {"a": 2}
    histogram_query = whole_domain(shape) if histogram else None
    problem = Problem([cuboid(shape, "a")], np.ones(1), ones(shape), MANY, None, histogram_query, average)
    outcome, accountant = run(problem, np.zeros(2, np.int64), 3, Scripted((), lambda size: np.full(size, -40)))
    assert outcome.total == 1.0
    assert dense(outcome.state).sum() == pytest.approx(1.0, rel=1e-12)
    assert accountant.remaining == 0


@pytest.mark.parametrize("average", [False, True])
def test_a_public_total_is_never_measured(average: bool) -> None:
    """Not even when the workload asks for it, in whatever words; nor does wrong data change it."""
    shape = {"a": 2, "b": 2}
    workload = [LinearQuery(()), count("a", 1, 1), cuboid(shape, "a")]
    problem = Problem(workload, np.ones(3), ones(shape), MANY, 77.0, average=average)
    outcome, accountant = run(problem, np.full(4, 1000), 4, SeededNoise(0))
    assert purposes(outcome) == ["round", "again", "again", "again"]
    assert asked(outcome, "round", "again") == [3, 3, 3, 3]
    assert outcome.total == outcome.state.total == 77.0
    assert outcome.state.answer(workload[1])[0] == pytest.approx(77.0)
    assert accountant.remaining == 0
    private = Problem(workload, np.ones(3), ones(shape), MANY, average=average)
    assert set(asked(run(private, np.full(4, 1000), 4, SeededNoise(0))[0], "round")) == {1, 2, 3}


def test_a_workload_of_totals_alone() -> None:
    for sizes, total in itertools.product([{}, {"a": np.ones(2)}], [None, 40.0]):
        problem = Problem([LinearQuery(())], np.ones(1), sizes, MANY, total)
        outcome, accountant = run(problem, np.full(2 ** len(sizes), 40), 3, Scripted())
        assert accountant.remaining == (0 if total is None else accountant.limit)
        assert outcome.state.answer(LinearQuery(()))[0] == pytest.approx(total or 40 * 2 ** len(sizes))


@pytest.mark.parametrize("total", [None, 1.0, 1e9])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("histogram", [False, True])
def test_noise_beyond_all_data_breaks_nothing(total: float | None, average: bool, histogram: bool) -> None:
    shape = {"a": 3, "b": 4}
    workload = [cuboid(shape, "a", "b"), parity(shape, "a", "b"), count("b", 0, 1, 1, 0)]
    whole = whole_domain(shape) if histogram else None
    problem = Problem(workload, np.ones(3), ones(shape), MANY, total, whole, average)
    for seed in range(2):
        outcome, _ = run(problem, np.arange(12), 4, SeededNoise(seed), Budget.parse("1e-9"))
        weights = dense(outcome.state)
        assert np.isfinite(weights).all()
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(outcome.total, rel=1e-9)


def after_start(
    B: Sequence[int], total: float, sizes: dict[str, Floats], noise: Noise, budget: Budget = PURE
) -> Grouped:
    """A_0 itself: of one round the average keeps nothing else."""
    shape = {name: len(size) for name, size in sizes.items()}
    problem = Problem([cuboid(shape, "a")], np.ones(1), sizes, MANY, total, whole_domain(shape), average=True)
    outcome, _ = run(problem, np.array(B), 1, noise, budget)
    return iterates(outcome)[0]


def test_frequent_cells_keep_their_counts_and_the_rest_is_spread() -> None:
    sizes = {"a": np.array([1.0, 3.0]), "b": np.array([1.0, 1.0, 2.0])}
    # A quarter of epsilon 1: noise of scale 4 on six cells reaches 4 log 6 = 7.2.
    A = after_start([400, 7, 0, 8, 0, 0], 1000.0, sizes, Scripted())
    others = np.array([0, 1, 2, 0, 3, 6]) * (1000 - 408) / 12
    close(dense(A), others + np.array([400, 0, 0, 8, 0, 0]), 1000.0)
    assert A.total == 1000.0
    assert A.cells == 6


def test_gaussian_noise_reaches_less_far() -> None:
    budget = Budget.parse(1, "1e-2")
    how = split(budget, 1, total_is_public=True, histogram=True)
    assert how.kind == "zcdp"
    sigma = noise_scale(how.histogram, 1, "zcdp").scale
    size = 100
    reach = sigma * sqrt(2 * log(size))
    assert reach < sigma * log(size) - 2
    frequent = int(reach) + 1
    A = after_start([frequent] + [0] * (size - 1), 1000.0, {"a": np.ones(size)}, Scripted(), budget)
    assert dense(A)[0] == pytest.approx(frequent)


def test_some_of_n_is_kept_for_cells_that_look_empty() -> None:
    A = after_start([600, 900, 0], 1000.0, {"a": np.ones(3)}, Scripted())
    close(dense(A), np.array([600, 900, 50]) * 1000 / 1550, 1000.0)


def test_all_cells_frequent() -> None:
    A = after_start([600, 900], 1000.0, {"a": np.ones(2)}, Scripted())
    close(dense(A), np.array([400.0, 600.0]), 1000.0)


@settings(deadline=None, max_examples=40)
@given(domains(3), seeds, st.sampled_from([PURE, GAUSSIAN]))
def test_a_histogram_start_is_a_state(sizes: dict[str, Floats], seed: int, budget: Budget) -> None:
    generator = np.random.default_rng(seed)
    shape = {name: len(size) for name, size in sizes.items()}
    B = generator.multinomial(5000, generator.dirichlet(np.full(prod(shape.values()), 0.2)))
    problem = Problem([cuboid(shape, *shape)], np.ones(1), sizes, MANY, None, whole_domain(shape), average=True)
    outcome, accountant = run(problem, B, 1, SeededNoise(seed), budget)
    assert accountant.remaining == 0
    A = dense(iterates(outcome)[0])
    assert outcome.state.attributes == tuple(sizes)
    assert (A > 0).all()
    assert A.sum() == pytest.approx(outcome.total, rel=1e-12)


def test_a_histogram_start_changes_the_outcome_for_the_better() -> None:
    """A few values hold nearly all records: the start finds them, which one round of marginals cannot."""
    shape = {"a": 4, "b": 4}
    B = np.zeros(16, np.int64)
    B[[0, 5, 10, 15]] = 500
    errors = []
    for whole in (None, whole_domain(shape)):
        problem = Problem([cuboid(shape, "a"), cuboid(shape, "b")], np.ones(2), ones(shape), MANY, 2000.0, whole)
        errors.append(np.abs(dense(run(problem, B, 2, SeededNoise(0))[0].state) - B).sum())
    assert errors[1] < 0.1 * errors[0]


def test_parities_ranges_and_cuboids_in_one_run() -> None:
    shape = {"age": 8, "sex": 2, "race": 3}
    ranges = [count("age", *((low <= x < high) for x in range(8))) for low, high in [(0, 3), (2, 6), (5, 8)]]
    cuboids = [cuboid(shape, "sex", "race"), cuboid(shape, "race", "age")]
    parities = [parity(shape, "age"), parity(shape, "sex", "age"), parity(shape, "sex", "race", "age")]
    workload = [*ranges, *cuboids, *parities]
    generator = np.random.default_rng(11)
    B = generator.multinomial(20_000, generator.dirichlet(np.full(48, 0.5)))
    problem = Problem(workload, np.ones(8), ones(shape), MANY)
    script = Scripted()
    outcome, accountant = run(problem, B, 8, script)
    assert [scores.size for scores in script.scores] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert set(asked(outcome, "round")) == set(range(1, 9))
    assert accountant.remaining == 0
    uniform = State.uniform(problem.sizes, 20_000.0)
    for query in workload:
        exact = oracle.dense_query(query, shape) @ B
        before, after = (np.abs(state.answer(query) - exact).sum() for state in (uniform, outcome.state))
        assert after < max(0.1 * before, 100)


def test_the_worst_query_is_selected() -> None:
    """Scores are the errors of A_{i-1}; with no noise to speak of, the worst comes first, and then what is left."""
    B = np.array([700, 200, 60, 40])
    problem = Problem(points(4), np.ones(4), {"x": np.ones(4)}, MANY, 1000.0)
    script = Scripted()
    outcome, _ = run(problem, B, 4, script, Budget.parse(1000))
    assert asked(outcome, "round")[0] == 1
    np.testing.assert_array_equal(script.scores[0], np.abs(B - 250))
    A = oracle.multiplicative_weights(np.full(4, 250.0), [(np.eye(4)[:1], np.array([700.0]))])
    np.testing.assert_array_equal(script.scores[1], np.abs(np.rint(A[1:]) - B[1:]))


def test_importance_changes_what_is_selected() -> None:
    B = np.array([500, 260, 140, 100])
    for weights, first in [([1, 1, 1, 1], 1), ([1, 1, 1, 3], 4), ([0.01, 0.01, 5, 0.01], 3)]:
        problem = Problem(points(4), np.array(weights, dtype=np.float64), {"x": np.ones(4)}, MANY, 1000.0)
        assert asked(run(problem, B, 1, Scripted(), Budget.parse(100))[0], "round") == [first]


@pytest.mark.parametrize("sensitivity", [1, 3])
@pytest.mark.parametrize("delta", [0, "0.01"])
def test_a_cuboid_whose_noise_exceeds_its_error_is_not_selected(sensitivity: int, delta: object) -> None:
    shape = {"a": 2, "wide": 100}
    generator = np.random.default_rng(4)
    B = generator.multinomial(10_000, np.repeat([0.52, 0.48], 100) / 100)
    workload = [cuboid(shape, "wide"), cuboid(shape, "a")]
    error = [float(np.abs(oracle.dense_query(query, shape) @ B - 10_000 / query.cells).sum()) for query in workload]
    assert error[0] > 1.2 * error[1] > 300
    problem = Problem(workload, np.ones(2), ones(shape), MANY, 10_000.0, sensitivity=sensitivity)
    for epsilon, first in [(1000, 1), ("0.2", 2)]:
        script = Scripted()
        budget = Budget.parse(epsilon, delta)
        outcome, _ = run(problem, B, 1, script, budget)
        assert asked(outcome, "round") == [first]
        how = shares(problem, 1, budget)
        assert how.kind == ("zcdp" if delta and first == 2 else "pure")
        # The mean of the absolute value of Laplace and of Gaussian noise.
        per_cell = noise_scale(how.measure, sensitivity, how.kind).scale * (1 if how.kind == "pure" else sqrt(2 / pi))
        penalised = [e - per_cell * query.cells for e, query in zip(error, workload, strict=True)]
        np.testing.assert_allclose(script.scores[0], penalised, atol=1)


@settings(deadline=None, max_examples=25)
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
        for a, b in zip(first.steps, other.steps, strict=True):
            assert (a.measurement.query, a.measurement.share) == (b.measurement.query, b.measurement.share)
            np.testing.assert_array_equal(a.measurement.values, b.measurement.values)
        assert other.state.state.table().equals(first.state.state.table())


def test_seeded_runs_repeat() -> None:
    shape = {"a": 3, "b": 2}
    problem = Problem([cuboid(shape, "a"), cuboid(shape, "b"), parity(shape, "a", "b")], np.ones(3), ones(shape), MANY)
    B = np.array([9, 80, 7, 60, 5, 40])
    tables = [run(problem, B, 2, SeededNoise(seed))[0].state.state.table() for seed in (1, 1, 2)]
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])


@settings(deadline=None, max_examples=40)
@given(cases())
def test_relative_entropy_falls_in_every_round_without_noise(
    case: tuple[Problem, Integers, int, Scripted, Budget],
) -> None:
    """The lemma, and strictly where the selected query has an error; in the first round by the whole of the lemma."""
    problem, B, rounds, script, _ = case
    n = float(B.sum())
    problem = Problem(problem.queries, problem.weights, problem.sizes, MANY, n, average=problem.average)
    Q = [oracle.dense_query(query, shape_of(problem)) for query in problem.kernel_queries()]
    A = oracle.uniform(problem.sizes, n)
    for T in range(1, rounds + 1):
        # Without noise a run of T rounds begins with the run of T - 1, but for the fit after the last.
        with mock.patch.object(Adaptive, "finish"):
            outcome, _ = run(problem, B, T + problem.average, Scripted(script.picks), Budget.parse(MANY))
        if not outcome.steps:
            return
        A_i = dense(iterates(outcome)[-1])
        q = Q[outcome.steps[T - 1].measurement.query]
        error = (oracle.evaluate(q, A) - oracle.evaluate(q, B)) / (2 * n)
        fall = oracle.relative_entropy(B, A) - oracle.relative_entropy(B, A_i)
        assert fall >= -1e-12
        assert fall > 0 or np.abs(error).max() < 1e-4
        assert fall >= float(error @ error) - 1e-12 or T > 1
        A = A_i


def test_the_lemma_can_fail() -> None:
    """With a measurement far off, relative entropy rises: the test above sees what it is to see."""
    B = np.array([500, 500])
    problem = Problem([count("x", 1, 0)], np.ones(1), {"x": np.ones(2)}, MANY, 1000.0)
    outcome, _ = run(problem, B, 1, Scripted((), lambda _: np.array([400])))
    assert oracle.relative_entropy(B, dense(outcome.state)) > 0.1


def worst_error(outcome: Outcome, Q: Sequence[Floats], B: Floats) -> float:
    A = dense(outcome.state)
    return max(float(np.abs(oracle.evaluate(q, A) - oracle.evaluate(q, B)).max()) for q in Q)


@pytest.mark.parametrize("T", [18, 30, 60])
@pytest.mark.parametrize("epsilon", [1, 1000])
def test_theorem_where_one_query_needs_many_steps(T: int, epsilon: int) -> None:
    """All records alike, and a count for each value: only the first count is far off, and it is selected once.

    A loop that updates with the selected query alone leaves it 0.85 to 0.91 n off, far outside of the bound.
    """
    D, n = 18, 10**6
    B = n * np.eye(D, dtype=np.int64)[7]
    problem = Problem(points(D), np.ones(D), {"x": np.ones(D)}, MANY, float(n), average=True)
    outcome, _ = run(problem, B, T, SeededNoise(T), Budget.parse(epsilon))
    bound = oracle.theorem(n, D, T, D, epsilon)
    assert bound < 0.82 * n
    assert worst_error(outcome, [np.eye(D)], B.astype(np.float64)) <= bound


@pytest.mark.parametrize(("doubt", "steps"), [(349, 2), (352, 1)])
def test_an_earlier_query_takes_the_step_when_it_is_worse_beyond_doubt(doubt: float, steps: int) -> None:
    """The first count is 350 off after its step, the second is exact; `doubt` is 2 log|Q| times the scale 2T/eps."""
    sizes = {"x": np.ones(2), "y": np.ones(2)}
    problem = Problem([count("x", 1, 0), count("y", 1, 0)], np.ones(2), sizes, MANY, 1000.0, average=True)
    epsilon = 2 * log(2) * 2 * 3 / doubt
    outcome, _ = run(problem, np.array([450, 450, 50, 50]), 3, Scripted([0, 0]), Budget.parse(epsilon))
    assert asked(outcome, "round") == [1, 2]
    A = np.full(2, 500.0)
    for _ in range(steps):
        A = oracle.update(A, np.array([[1.0, 0.0]]), np.array([900.0]))
    close(iterates(outcome)[2].marginal(["x"]), A, 1000.0)
    close(iterates(outcome)[2].marginal(["y"]), np.full(2, 500.0), 1000.0)


def test_theorem() -> None:
    """On random instances and real noise the bound fails no more often than the theorem allows.

    It allows 2T/|Q| per instance. More failures than `allowed` have a probability below 1e-6 even then; the bound is below
    what the uniform start has for an error, so that standing still would fail in all of them.
    """
    T, queries_asked, D, n, epsilon, instances = 20, 1000, 16, 10**6, 1, 12
    probability = 2 * T / queries_asked
    allowed = binomial_quantile(instances, probability, 1e-6)
    assert allowed <= instances / 2
    bound = oracle.theorem(n, D, T, queries_asked, epsilon)
    failures = 0
    for seed in range(instances):
        generator = np.random.default_rng(seed)
        B = generator.multinomial(n, generator.dirichlet(np.full(D, 0.02)))
        if seed % 2:
            labels = np.where(generator.random((queries_asked, D)) < generator.random((queries_asked, 1)), 0, -1)
            Q = (labels == 0).astype(np.float64)
            workload = [LinearQuery((Block(("x",), row.astype(np.int32), 1),)) for row in labels]
        else:
            Q = generator.choice([-1.0, 1.0], (queries_asked, D))
            workload = [LinearQuery((Block(("x",), np.zeros(D, np.int32), 1, row.astype(np.int8)),)) for row in Q]
        problem = Problem(workload, np.ones(queries_asked), {"x": np.ones(D)}, MANY, float(n), average=True)
        outcome, _ = run(problem, B, T, SeededNoise(seed), Budget.parse(epsilon))
        assert np.abs(Q @ (B - n / D)).max() > bound
        failures += worst_error(outcome, [Q], B.astype(np.float64)) > bound
    assert failures <= allowed


def binomial_quantile(trials: int, probability: float, beyond: float) -> int:
    """The smallest k that is exceeded with a probability of at most `beyond`."""
    mass = [comb(trials, k) * probability**k * (1 - probability) ** (trials - k) for k in range(trials + 1)]
    return next(k for k in range(trials + 1) if sum(mass[k + 1 :]) <= beyond)


def test_average_and_last_differ() -> None:
    shape = {"a": 2, "b": 2}
    B = np.array([70, 10, 10, 10])
    last, average = (
        run(Problem([cuboid(shape, "a"), cuboid(shape, "b")], np.ones(2), ones(shape), MANY, 100.0, average=a), B, 2, Scripted())[0]
        for a in (False, True)
    )  # fmt: skip
    assert len(iterates(average)) == 2
    close(dense(iterates(average)[0]), np.full(4, 25.0), 100.0)
    assert np.abs(dense(last.state) - dense(average.state)).max() > 5


def test_progress() -> None:
    shape = {"a": 2}
    problem = Problem([cuboid(shape, "a")], np.ones(1), ones(shape), MANY, 10.0)
    how = shares(problem, 3)
    told: list[tuple[int, int]] = []
    answers = [np.array([10]), np.array([5, 5])]
    mwem(Kernel(*flat(answers), how.accountant(), Scripted()), problem, how, lambda done, of: told.append((done, of)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_problem_has_one_weight_per_query() -> None:
    with pytest.raises(ValueError, match="one weight per query"):
        Problem([LinearQuery(())], np.ones(2), {}, MANY)


def test_numbers_of_the_kernels_queries() -> None:
    shape = {"a": 2, "b": 3}
    workload = [cuboid(shape, "a"), cuboid(shape, "b")]
    whole = whole_domain(shape)
    assert Problem(workload, np.ones(2), ones(shape), MANY).kernel_queries()[1:] == workload
    assert Problem(workload, np.ones(2), ones(shape), MANY, histogram=whole).kernel_queries()[1:] == [*workload, whole]
    np.testing.assert_array_equal(oracle.dense_query(whole, shape), np.eye(6))
    assert Fraction(1, 20) == shares(Problem(workload, np.ones(2), ones(shape), MANY), 2).total


def first_of(
    shape: Mapping[str, int], workload: Sequence[LinearQuery], total: float | None = None, **options: object
) -> Problem:
    """One-way marginals ahead of the rounds, behind the queries of the workload; a cell as important as any other."""
    ahead = [cuboid(shape, name) for name in shape]
    first = [First(number, float(query.cells)) for number, query in enumerate(ahead, start=len(workload))]
    return Problem(
        [*workload, *ahead], np.ones(len(workload) + len(ahead)), ones(shape), MANY, total, first=first, **options
    )


def grown(
    problem: Problem,
    B: Integers,
    rounds: int,
    noise: Noise,
    budget: Budget = PURE,
    *,
    selecting: Fraction = Fraction(1, 10),
    growing: bool = True,
) -> tuple[Outcome, Accountant, Split]:
    """A run in which steps may grow."""
    how = split(
        budget, rounds, total_is_public=problem.total is not None, histogram=problem.histogram is not None, first=FIRST_SHARE if problem.first else Fraction(0),
        growing=growing, selecting=selecting, sensitivity=problem.sensitivity,
    )  # fmt: skip
    answers = [
        (oracle.dense_query(query, shape_of(problem)) @ B).astype(np.int64) for query in problem.kernel_queries()
    ]
    accountant = how.accountant()
    outcome = mwem(Kernel(*flat(answers), accountant, noise, problem.sensitivity), problem, how)
    accountant.settle()
    return outcome, accountant, how


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "zcdp"])
@pytest.mark.parametrize("total", [None, 4000.0])
@pytest.mark.parametrize("histogram", [False, True])
def test_first_marginals_come_first_and_tell_the_total(budget: Budget, total: float | None, histogram: bool) -> None:
    shape = {"a": 4, "b": 5, "c": 2}
    problem = first_of(
        shape,
        [cuboid(shape, "a", "b"), cuboid(shape, "b", "c")],
        total,
        histogram=whole_domain(shape) if histogram else None,
    )
    B = np.random.default_rng(0).multinomial(4000, np.random.default_rng(1).dirichlet(np.ones(40)))
    outcome, accountant, how = grown(problem, B, 20, SeededNoise(3), budget)
    ahead = ["total"] * (total is None) + ["histogram"] * histogram + ["first"] * 3
    assert purposes(outcome)[: len(ahead)] == ahead
    assert asked(outcome, "first") == [3, 4, 5]
    shares = [step.measurement.share for step in outcome.steps if step.purpose == "first"]
    assert sum(shares) >= how.first * LEAST_FIRST
    np.testing.assert_allclose([float(share / shares[2]) for share in shares], [2, 2.5, 1])
    assert accountant.remaining == 0
    counted = [
        (float(s.measurement.values.sum()), 1 / (s.measurement.variance * s.measurement.values.size))
        for s in outcome.steps
    ]
    expected = total or np.average([sums for sums, _ in counted], weights=[precision for _, precision in counted])
    assert outcome.total == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("rows", "at_once"), [(400, True), (20, False)])
def test_a_histogram_of_a_small_domain_takes_everything_where_its_noise_is_small_beside_n(
    rows: int, at_once: bool
) -> None:
    """All of epsilon but the glance: noise of 1 / 0.98 on 16 cells, in 4 cells of a pair 8.2 together; a third of 20 rows is less than that."""
    shape = dict.fromkeys("abcd", 2)
    pairs = [cuboid(shape, *pair) for pair in itertools.combinations(shape, 2)]
    problem = first_of(shape, pairs, histogram=whole_domain(shape))
    how = split(PURE, 8, total_is_public=False, histogram=False, first=FIRST_SHARE, growing=True)
    B = np.full(16, rows // 16)
    B[0] += rows - B.sum()
    answers = [(oracle.dense_query(query, shape) @ B).astype(np.int64) for query in problem.kernel_queries()]
    accountant = how.accountant()
    outcome = mwem(
        Kernel(*flat(answers), accountant, Scripted(noise=lambda size: np.zeros(size, dtype=np.int64))), problem, how
    )
    assert accountant.remaining == 0
    assert (purposes(outcome) == ["total", "round"]) == at_once
    if at_once:
        np.testing.assert_allclose(outcome.state.marginal(list(shape)).ravel(), B, rtol=1e-6)


def test_a_run_that_noise_would_hide_has_no_rounds() -> None:
    shape = {"a": 4, "b": 5, "c": 2}
    problem = first_of(shape, [cuboid(shape, "a", "b"), cuboid(shape, "b", "c")])
    outcome, accountant, _ = grown(problem, np.full(40, 1), 20, SeededNoise(3), Budget.parse("0.01"))
    assert set(purposes(outcome)) == {"total", "first"}
    assert accountant.remaining == 0


def test_a_marginal_that_came_first_can_be_selected_to_be_known_better() -> None:
    """It was measured with a small share: a round would know it better, once, and then no more."""
    shape = {"a": 3, "b": 3}
    problem = first_of(shape, [])
    outcome, _, how = grown(problem, np.full(9, 100), 4, Scripted([0, 0], lambda size: np.full(size, 400)))
    assert how.first / 2 < how.measure
    assert asked(outcome, "first") == [1, 2]
    assert asked(outcome, "round") == [1, 2]
    assert purposes(outcome)[5:] == ["again"] * (len(purposes(outcome)) - 5)


def test_steps_grow_when_there_is_nothing_to_hear_and_what_was_known_badly_is_asked_again() -> None:
    """Data that the start describes: after three rounds steps double, and all that was measured before may be measured better."""
    shape = {"a": 2, "b": 2, "c": 2, "d": 2}
    workload = [cuboid(shape, *pair) for pair in itertools.combinations("abcd", 2)]
    problem = Problem(workload, np.ones(6), ones(shape), MANY, 1600.0)
    outcome, accountant, how = grown(problem, np.full(16, 100), 16, Scripted())
    taken = [step.measurement.share / how.measure for step in outcome.steps]
    assert taken == [1, 1, 1, 2, 2, 2, 7]
    assert set(asked(outcome, "round")[:3]) & set(asked(outcome, "round")[3:])
    assert accountant.remaining == 0
    # The penalties of all candidates follow: the scores of exact answers are the noise that a measurement has.
    script = Scripted()
    grown(problem, np.full(16, 100), 16, script)
    expected = [-4 * noise_scale(how.measure * share, 1, "pure").scale for share in (1, 2, 7)]
    np.testing.assert_allclose([script.scores[i].max() for i in (0, 3, 6)], np.rint(expected), atol=1)
    assert [script.scores[i].min() for i in (0, 3, 6)] == [script.scores[i].max() for i in (0, 3, 6)]


def test_steps_stay_as_they_are_while_there_is_something_to_hear() -> None:
    shape = dict.fromkeys("abcdef", 3)
    generator = np.random.default_rng(5)
    workload = [cuboid(shape, *pair) for pair in itertools.combinations("abcdef", 2)]
    B = generator.multinomial(10**6, generator.dirichlet(np.full(3**6, 0.05)))
    outcome, _, how = grown(Problem(workload, np.ones(15), ones(shape), MANY, 1e6), B, 10, SeededNoise(1))
    assert [step.measurement.share for step in outcome.steps] == [how.measure] * 10


def test_what_is_heard_is_how_far_a_measurement_is_from_what_was_known(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[float, float]] = []
    monkeypatch.setattr(Pace, "hear", lambda _, *told: heard.append(told))
    shape = {"a": 3, "b": 4}
    problem = Problem([cuboid(shape, "a", "b")], np.ones(1), ones(shape), MANY, 1200.0)
    outcome, _, how = grown(problem, np.arange(12) * 20, 1, SeededNoise(4))
    measured = outcome.steps[0].measurement
    assert heard == [
        (
            pytest.approx(np.abs(measured.values - 100.0).sum()),
            pytest.approx(12 * noise_scale(how.measure, 1, "pure").scale),
        )
    ]


def test_growing_steps_beat_steps_that_are_too_small() -> None:
    """Where most of what is asked is noise, so many equal steps end up worse than what becomes of them."""
    shape = dict.fromkeys("abcde", 3)
    generator = np.random.default_rng(2)
    workload = [cuboid(shape, *pair) for pair in itertools.combinations("abcde", 2)]
    B = generator.multinomial(1000, generator.dirichlet(np.full(3**5, 0.1)))
    errors: dict[bool, list[float]] = {False: [], True: []}
    for growing, found in errors.items():
        for seed in range(4):
            outcome, _, _ = grown(
                Problem(workload, np.ones(10), ones(shape), MANY, 1000.0), B, 50, SeededNoise(seed), growing=growing
            )
            found.append(
                sum(np.abs(outcome.state.answer(q) - oracle.dense_query(q, shape) @ B).sum() for q in workload)
            )
    assert np.mean(errors[True]) < np.mean(errors[False]) - 3 * np.std(errors[False]) / np.sqrt(4)


def test_the_share_of_selecting_has_an_effect() -> None:
    """Few candidates of different use: nearly all of a round is better spent on measuring than half of it."""
    shape = dict.fromkeys("abcde", 4)
    generator = np.random.default_rng(8)
    workload = [cuboid(shape, *pair) for pair in itertools.combinations("abcde", 2)]
    B = generator.multinomial(20_000, generator.dirichlet(np.full(4**5, 0.05)))
    errors = {}
    for selecting in (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)):
        problem = Problem(workload, np.ones(10), ones(shape), MANY, 20_000.0)
        outcomes = [grown(problem, B, 6, SeededNoise(seed), selecting=selecting)[0] for seed in range(6)]
        errors[selecting] = np.mean(
            [np.abs(o.state.answer(q) - oracle.dense_query(q, shape) @ B).sum() for o in outcomes for q in workload]
        )
    assert errors[Fraction(1, 10)] < errors[Fraction(1, 2)] < errors[Fraction(9, 10)]


def test_no_cell_of_a_histogram_is_impossible() -> None:
    """A count far below 0 by chance: its records would cost more in relative entropy than all others together."""
    base = np.full(4, 25.0)
    weights = with_prior(np.array([-60.0, 40.0, 60.0, 60.0]), 1.0, base)
    assert weights[0] < 1e-9
    found = not_impossible(weights, 1.0, base)
    assert found.sum() == pytest.approx(weights.sum())
    assert found[0] == pytest.approx(FAINT, rel=1e-3)
    np.testing.assert_allclose(found[1:], weights[1:], rtol=1e-4)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 20), st.floats(1e-6, 1e6), seeds)
def test_a_histogram_with_a_prior_is_at_the_minimum(cells: int, variance: float, seed: int) -> None:
    """The slopes of misfit and prior add up to the same number in all cells, and the weights to those of the base."""
    generator = np.random.default_rng(seed)
    base = generator.uniform(0.1, 10, cells)
    h = base + generator.normal(0, sqrt(variance), cells)
    found = with_prior(h, variance, base)
    assert found.min() > 0
    assert found.sum() == pytest.approx(base.sum())
    slopes = (found - h) / variance + cells / base.sum() * np.log(found / base)
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-6, atol=1e-6 * (1 + np.abs(h).max() / variance))


def test_a_prior_is_all_that_is_left_of_noise_and_nothing_beside_an_exact_histogram() -> None:
    base = np.array([10.0, 20.0, 30.0, 40.0])
    np.testing.assert_allclose(with_prior(np.array([90.0, -5.0, 15.0, 0.0]), 1e12, base), base, rtol=1e-6)
    np.testing.assert_allclose(
        with_prior(np.array([50.0, 0.0, 25.0, 25.0]), 1e-12, base), [50.0, 0.0, 25.0, 25.0], atol=1e-6
    )


@pytest.mark.parametrize("total", [None, 12.0])
@pytest.mark.parametrize("budget", [PURE, Budget.parse(1, "1e-6")])
def test_at_once_all_goes_to_one_histogram(total: float | None, budget: Budget) -> None:
    shape = {"a": 2, "b": 3}
    problem = Problem([whole_domain(shape)], np.ones(1), ones(shape), 100, total, at_once=True)
    plan = split(budget, 1, total_is_public=True, histogram=False, selecting=Fraction(0))
    B = np.array([5, 0, 1, 2, 3, 1])
    answers = np.concatenate([[B.sum()], B])
    accountant = plan.accountant()
    outcome = mwem(Kernel(answers, [1, 6], accountant, SeededNoise(1), 1, problem.bounds()), problem, plan)
    accountant.settle()
    assert accountant.remaining == 0
    (step,) = outcome.steps
    assert (step.purpose, step.measurement.query, step.measurement.share) == ("round", 1, plan.limit)
    assert outcome.total == (total or max(1.0, step.measurement.values.sum()))
    assert outcome.state.total == pytest.approx(outcome.total)


HILL = np.exp(-((np.arange(64) - 20.0) ** 2) / 50)
KNOWN = {
    "one attribute": ({"a": 64}, 10**3, HILL / HILL.sum()),
    "one attribute, many rows": ({"a": 64}, 10**5, HILL / HILL.sum()),
    "two attributes": ({"a": 16, "b": 16}, 10**4, np.random.default_rng(4).dirichlet(np.full(256, 0.05))),
    "even": ({"a": 16, "b": 16}, 10**3, np.full(256, 1 / 256)),
}


@pytest.mark.parametrize("case", KNOWN)
def test_a_known_total_takes_nothing_away(case: str) -> None:
    """What is refined with n and without it: the same measurements under the same seed, and an estimate that is no worse."""
    shape, n, weights = KNOWN[case]
    B = np.random.default_rng(9).multinomial(n, weights)
    plan = split(Budget.parse(0.1, 0), 4, total_is_public=True, histogram=False, selecting=Fraction(0))
    ends = np.cumsum(B)
    errors: dict[float | None, list[float]] = {None: [], float(n): []}
    for seed in range(20):
        outcomes = []
        for total, found in errors.items():
            problem = Problem(
                [whole_domain(shape)], np.ones(1), ones(shape), MANY, total, first=[First(0, 1.0)], whole=True
            )
            kernel = Kernel(
                np.concatenate([[n], B]), [1, B.size], plan.accountant(), SeededNoise(seed), 1, problem.bounds()
            )
            outcomes.append(mwem(kernel, problem, plan))
            found.append(float(np.square(np.cumsum(dense(outcomes[-1].state)) - ends).mean()))
        assert outcomes[1].total == n
        one, other = ([step.measurement.values for step in outcome.steps] for outcome in outcomes)
        assert list(map(list, one)) == list(map(list, other))
    assert np.mean(errors[float(n)]) <= 1.1 * np.mean(errors[None])


def test_a_known_total_takes_nothing_away_from_rounds() -> None:
    """The share that n takes where it is not known is small, and so is what is gained without it: errors of all pairs of attributes are alike.

    Errors of single runs spread by two fifths, means of ten by an eighth: half as much again is four times that away.
    """
    shape = dict.fromkeys("abcde", 3)
    workload = [cuboid(shape, *pair) for pair in itertools.combinations("abcde", 2)]
    B = np.random.default_rng(6).multinomial(1000, np.random.default_rng(7).dirichlet(np.full(243, 0.3)))
    errors = {}
    for total in (None, 1000.0):
        outcomes = [grown(first_of(shape, workload, total), B, 6, SeededNoise(seed))[0] for seed in range(10)]
        errors[total] = np.mean(
            [
                np.square(outcome.state.answer(query) - oracle.dense_query(query, shape) @ B).sum()
                for outcome in outcomes
                for query in workload
            ]
        )
    assert errors[1000.0] <= 1.5 * errors[None]
