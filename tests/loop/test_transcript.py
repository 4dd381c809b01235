"""What was measured: combined by precision, and the total from all that counts every record."""

# ruff: noqa: N806  the paper's letters
# ruff: noqa: N803, N806  the paper's letters
from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import log, prod, sqrt

import numpy as np
import oracle
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import (
    GAUSSIAN,
    MANY,
    PURE,
    PlannedProblem,
    Scripted,
    count,
    cuboid,
    first_of,
    iterates,
    numbers,
    ones,
    parity,
    planned,
    purposes,
    run,
    schedule,
    shares,
)
from strategies import Floats, close, dense, domains, seeds

from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.draws import Draws
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.noise import Noise, SeededNoise
from mwem_sql.kernel.scales import noise_scale
from mwem_sql.loop.loop import mwem
from mwem_sql.loop.plan import Planned
from mwem_sql.loop.problem import Problem
from mwem_sql.loop.refinement import FLOOR
from mwem_sql.loop.strategy import whole_domain
from mwem_sql.loop.transcript import not_impossible, with_prior
from mwem_sql.model.state import State


def test_what_is_measured_again() -> None:
    """The least known first, the first measured among equals; the total has its own share and is left alone."""
    shape = {"a": 2, "b": 2}
    workload = [count("a", 0, 1), count("b", 0, 1), cuboid(shape, "a", "b")]
    for total, values in itertools.product([None, 50.0], [-9, 1000]):
        problem = Problem(queries=workload, weights=np.ones(3), sizes=ones(shape), max_cells=MANY, total=total)
        outcome, _ = run(problem, np.full(4, 10), 10, Scripted([2, 0, 0], lambda size, v=values: np.full(size, v)))
        assert numbers(outcome, "round") == [2, 0, 1]
        assert numbers(outcome, "again") == [2, 0, 1, 2, 0, 1, 2]


def test_measurements_of_a_query_are_combined_by_their_precision() -> None:
    problem = Problem(
        queries=[count("a", 1, 0)],
        weights=np.ones(1),
        sizes={"a": np.ones(2)},
        max_cells=MANY,
        total=1000.0,
        fit="replay",
    )
    given = iter([300, 60, 0])
    outcome, _ = run(problem, np.array([400, 600]), 3, Scripted((), lambda _: np.array([next(given)])))
    first, *again = outcome.measurements
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


def test_total_is_estimated_from_all_that_counts_every_record() -> None:
    """By hand: the total itself, a cuboid of three cells, and not a count, a parity or a cuboid of a part."""
    shape = {"a": 3, "b": 2}
    part = LinearQuery((*cuboid(shape, "a").blocks, *count("b", 0, 1).blocks))
    workload = [cuboid(shape, "a"), count("b", 0, 1), parity(shape, "b"), part]
    problem = Problem(queries=workload, weights=np.ones(4), sizes=ones(shape), max_cells=MANY)
    given = iter([np.array([60]), np.array([30, 0, 0]), np.array([-500]), np.array([700]), np.array([900, 900, 900])])
    outcome, _ = run(problem, np.full(6, 100), 4, Scripted([0] * 4, lambda _: next(given)))
    assert numbers(outcome, "total", "round") == [4, 0, 1, 2, 3]
    variance = [step.variance for step in outcome.measurements]
    expected = np.average([660, 630], weights=[1 / variance[0], 1 / (3 * variance[1])])
    assert outcome.total == pytest.approx(expected, rel=1e-12)
    assert outcome.state.total == outcome.total
    assert dense(outcome.state).sum() == pytest.approx(expected, rel=1e-12)


def test_a_histogram_counts_every_record_too() -> None:
    problem = Problem(
        queries=[count("a", 0, 1)],
        weights=np.ones(1),
        sizes={"a": np.ones(2)},
        max_cells=MANY,
        histogram=whole_domain({"a": 2}),
    )
    given = iter([np.array([0]), np.array([100, 100]), np.array([0])])
    outcome, _ = run(problem, np.array([500, 500]), 1, Scripted((), lambda _: next(given)))
    assert purposes(outcome) == ["total", "histogram", "round"]
    variance = [step.variance for step in outcome.measurements]
    assert outcome.total == pytest.approx(np.average([1000, 1200], weights=[1 / variance[0], 1 / (2 * variance[1])]))
    # A share of 1/4 for two cells tells more of n than one of 1/20.
    assert outcome.total > 1150


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("histogram", [False, True])
def test_total_is_at_least_1(average: bool, histogram: bool) -> None:
    shape = {"a": 2}
    histogram_query = whole_domain(shape) if histogram else None
    problem = Problem(
        queries=[cuboid(shape, "a")],
        weights=np.ones(1),
        sizes=ones(shape),
        max_cells=MANY,
        total=None,
        histogram=histogram_query,
        average=average,
    )
    outcome, accountant = run(problem, np.zeros(2, np.int64), 3, Scripted((), lambda size: np.full(size, -40)))
    assert outcome.total == 1.0
    assert dense(outcome.state).sum() == pytest.approx(1.0, rel=1e-12)
    assert accountant.remaining == 0


@pytest.mark.parametrize("average", [False, True])
def test_a_public_total_is_never_measured(average: bool) -> None:
    """Not even when the workload asks for it, in whatever words; nor does wrong data change it."""
    shape = {"a": 2, "b": 2}
    workload = [LinearQuery(()), count("a", 1, 1), cuboid(shape, "a")]
    problem = Problem(
        queries=workload, weights=np.ones(3), sizes=ones(shape), max_cells=MANY, total=77.0, average=average
    )
    outcome, accountant = run(problem, np.full(4, 1000), 4, SeededNoise(0))
    assert purposes(outcome) == ["round", "again", "again", "again"]
    assert numbers(outcome, "round", "again") == [2, 2, 2, 2]
    assert outcome.total == outcome.state.total == 77.0
    assert outcome.state.answer(workload[1])[0] == pytest.approx(77.0)
    assert accountant.remaining == 0
    private = Problem(queries=workload, weights=np.ones(3), sizes=ones(shape), max_cells=MANY, average=average)
    assert set(numbers(run(private, np.full(4, 1000), 4, SeededNoise(0))[0], "round")) == {0, 1, 2}


def test_a_workload_of_totals_alone() -> None:
    for sizes, total in itertools.product([{}, {"a": np.ones(2)}], [None, 40.0]):
        problem = Problem(queries=[LinearQuery(())], weights=np.ones(1), sizes=sizes, max_cells=MANY, total=total)
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
    problem = Problem(
        queries=workload,
        weights=np.ones(3),
        sizes=ones(shape),
        max_cells=MANY,
        total=total,
        histogram=whole,
        average=average,
    )
    for seed in range(2):
        outcome, _ = run(problem, np.arange(12), 4, SeededNoise(seed), Budget.parse("1e-9"))
        weights = dense(outcome.state)
        assert np.isfinite(weights).all()
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(outcome.total, rel=1e-9)


HILL = np.exp(-((np.arange(64) - 20.0) ** 2) / 50)


KNOWN = {
    "one attribute": ({"a": 64}, 10**3, HILL / HILL.sum()),
    "one attribute, many rows": ({"a": 64}, 10**5, HILL / HILL.sum()),
    "two attributes": ({"a": 16, "b": 16}, 10**4, np.random.default_rng(4).dirichlet(np.full(256, 0.05))),
    "even": ({"a": 16, "b": 16}, 10**3, np.full(256, 1 / 256)),
}


@pytest.mark.parametrize("case", KNOWN)
def test_a_known_total_takes_nothing_away(case: str) -> None:
    """What is refined with n and without it.

    The same measurements under the same seed, and an estimate that is no worse.
    """
    shape, n, weights = KNOWN[case]
    B = np.random.default_rng(9).multinomial(n, weights)
    ends = np.cumsum(B)
    errors: dict[float | None, list[float]] = {None: [], float(n): []}
    for seed in range(20):
        outcomes = []
        for total, found in errors.items():
            problem = PlannedProblem(
                queries=[whole_domain(shape)],
                weights=np.ones(1),
                sizes=ones(shape),
                max_cells=MANY,
                total=total,
                ahead=[Planned(purpose="round", number=0, cells=B.size, how="refined")],
            )
            how = shares(problem, None, Budget.parse(0.1))
            account = how.composition.accountant()
            kernel = Kernel(
                np.concatenate([B, [n]]), [B.size, 1], account, Draws(SeededNoise(seed)), 1, problem.bounds()
            )
            outcomes.append(mwem(kernel, problem, how))
            found.append(float(np.square(np.cumsum(dense(outcomes[-1].state)) - ends).mean()))
        assert outcomes[1].total == n
        one, other = ([step.values for step in outcome.measurements] for outcome in outcomes)
        assert list(map(list, one)) == list(map(list, other))
    assert np.mean(errors[float(n)]) <= 1.1 * np.mean(errors[None])


@pytest.mark.thorough
def test_a_known_total_takes_nothing_away_from_rounds() -> None:
    """The share that n takes where it is not known is small, and so is what is gained without it.

    Errors of all pairs of attributes are alike.

    Errors of single runs spread by two fifths, means of ten by an eighth: half as much again is four times that away.
    """
    shape = dict.fromkeys("abcde", 3)
    workload = [cuboid(shape, *pair) for pair in itertools.combinations("abcde", 2)]
    B = np.random.default_rng(6).multinomial(1000, np.random.default_rng(7).dirichlet(np.full(243, 0.3)))
    errors = {}
    for total in (None, 1000.0):
        outcomes = [planned(first_of(shape, workload, total), B, 6, SeededNoise(seed))[0] for seed in range(10)]
        errors[total] = np.mean(
            [
                np.square(outcome.state.answer(query) - oracle.dense_query(query, shape) @ B).sum()
                for outcome in outcomes
                for query in workload
            ]
        )
    assert errors[1000.0] <= 1.5 * errors[None]


def after_start(B: Sequence[int], total: float, sizes: dict[str, Floats], noise: Noise, budget: Budget = PURE) -> State:
    """A_0 itself: of one round the average keeps nothing else."""
    shape = {name: len(size) for name, size in sizes.items()}
    problem = Problem(
        queries=[cuboid(shape, "a")],
        weights=np.ones(1),
        sizes=sizes,
        max_cells=MANY,
        total=total,
        histogram=whole_domain(shape),
        average=True,
    )
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
    how = schedule(budget, 1, histogram=True)
    assert how.kind == "zcdp"
    sigma = noise_scale(how.share("histogram"), 1, "zcdp").scale
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
    problem = Problem(
        queries=[cuboid(shape, *shape)],
        weights=np.ones(1),
        sizes=sizes,
        max_cells=MANY,
        total=None,
        histogram=whole_domain(shape),
        average=True,
    )
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
        problem = Problem(
            queries=[cuboid(shape, "a"), cuboid(shape, "b")],
            weights=np.ones(2),
            sizes=ones(shape),
            max_cells=MANY,
            total=2000.0,
            histogram=whole,
        )
        errors.append(np.abs(dense(run(problem, B, 2, SeededNoise(0))[0].state) - B).sum())
    assert errors[1] < 0.1 * errors[0]


def test_no_cell_of_a_histogram_is_impossible() -> None:
    """A count far below 0 by chance: its records would cost more in relative entropy than all others together."""
    base = np.full(4, 25.0)
    weights = with_prior(np.array([-60.0, 40.0, 60.0, 60.0]), 1.0, base)
    assert weights[0] < 1e-9
    found = not_impossible(weights, 1.0, base)
    assert found.sum() == pytest.approx(weights.sum())
    assert found[0] == pytest.approx(FLOOR, rel=1e-3)
    np.testing.assert_allclose(found[1:], weights[1:], rtol=1e-4)


@settings(max_examples=examples(100), deadline=None)
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
    problem = PlannedProblem(
        queries=[whole_domain(shape)],
        weights=np.ones(1),
        sizes=ones(shape),
        max_cells=100,
        total=total,
        ahead=[Planned(purpose="round", number=0, cells=6, how="with prior")],
    )
    plan = shares(problem, None, budget)
    B = np.array([5, 0, 1, 2, 3, 1])
    answers = np.concatenate([B, [B.sum()]])
    accountant = plan.composition.accountant()
    outcome = mwem(Kernel(answers, [6, 1], accountant, Draws(SeededNoise(1)), 1, problem.bounds()), problem, plan)
    accountant.settle()
    assert accountant.remaining == 0
    (step,) = outcome.measurements
    assert (step.purpose, step.number, step.share) == ("round", 0, plan.limit)
    assert outcome.total == (total or max(1.0, step.values.sum()))
    assert outcome.state.total == pytest.approx(outcome.total)
