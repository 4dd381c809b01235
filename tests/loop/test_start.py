"""Starts: a state from a noisy histogram, in which no cell is impossible."""

# ruff: noqa: N803, N806  the paper's letters
from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import log, prod, sqrt

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import GAUSSIAN, MANY, PURE, Scripted, cuboid, iterates, ones, run
from strategies import Floats, close, dense, domains, seeds

from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.noise import Noise, SeededNoise
from mwem_sql.kernel.scales import noise_scale
from mwem_sql.kernel.split import split
from mwem_sql.loop.loop import mwem
from mwem_sql.loop.problem import Problem
from mwem_sql.loop.refinement import FLOOR
from mwem_sql.loop.start import not_impossible, with_prior
from mwem_sql.loop.strategy import whole_domain
from mwem_sql.model.state import State


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
    problem = Problem(
        queries=[whole_domain(shape)], weights=np.ones(1), sizes=ones(shape), max_cells=100, total=total, at_once=True
    )
    plan = split(budget, 1, total_is_public=True, histogram=False, selecting=Fraction(0))
    B = np.array([5, 0, 1, 2, 3, 1])
    answers = np.concatenate([[B.sum()], B])
    accountant = plan.accountant()
    outcome = mwem(Kernel(answers, [1, 6], accountant, SeededNoise(1), 1, problem.bounds()), problem, plan)
    accountant.settle()
    assert accountant.remaining == 0
    (step,) = outcome.measurements
    assert (step.purpose, step.number, step.share) == ("round", 1, plan.limit)
    assert outcome.total == (total or max(1.0, step.values.sum()))
    assert outcome.state.total == pytest.approx(outcome.total)
