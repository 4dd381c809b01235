"""What is planned ahead of rounds.

Distributions that come first, a histogram in their place; the share of selecting.
"""

# ruff: noqa: N806  the paper's letters
from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import oracle
import pytest
from chance import sampled
from conftest import flat
from loops import (
    GAUSSIAN,
    MANY,
    PURE,
    Scripted,
    cuboid,
    first_of,
    numbers,
    ones,
    planned,
    purposes,
    shares,
)

from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.draws import Draws
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.noise import SeededNoise
from mwem_sql.kernel.scales import noise_scale
from mwem_sql.loop.loop import mwem
from mwem_sql.loop.plan import Alternatives, Planned, make_schedule, occupied
from mwem_sql.loop.problem import Problem
from mwem_sql.loop.strategy import whole_domain


@pytest.mark.parametrize(
    ("budget", "total", "histogram"), sampled(itertools.product([PURE, GAUSSIAN], [None, 4000.0], [False, True]), 3)
)
def test_first_marginals_come_first_and_tell_the_total(budget: Budget, total: float | None, histogram: bool) -> None:
    shape = {"a": 4, "b": 5, "c": 2}
    problem = first_of(
        shape,
        [cuboid(shape, "a", "b"), cuboid(shape, "b", "c")],
        total,
        histogram=whole_domain(shape) if histogram else None,
    )
    B = np.random.default_rng(0).multinomial(4000, np.random.default_rng(1).dirichlet(np.ones(40)))
    outcome, accountant, how = planned(problem, B, 20, SeededNoise(3), budget)
    ahead = ["total"] * (total is None) + ["histogram"] * histogram + ["first"] * 3
    assert purposes(outcome)[: len(ahead)] == ahead
    assert numbers(outcome, "first") == [2, 3, 4]
    taken = [step.share for step in outcome.measurements if step.purpose == "first"]
    assert sum(taken) >= how.share("first")
    root = 1 / 3 if how.kind == "pure" else 1 / 2
    np.testing.assert_allclose([float(share / taken[2]) for share in taken], np.array([2, 2.5, 1]) ** root)
    assert accountant.remaining == 0
    counted = [(float(s.values.sum()), 1 / (s.variance * s.values.size)) for s in outcome.measurements]
    expected = total or np.average([sums for sums, _ in counted], weights=[precision for _, precision in counted])
    assert outcome.total == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("rows", "at_once"), [(100_000, True), (1_000, False)])
def test_a_histogram_of_a_small_domain_takes_everything_where_its_noise_is_small_beside_n(
    rows: int, at_once: bool
) -> None:
    """All of epsilon but what the total takes.

    Noise of 1 / 0.98 on 4,096 cells, in 16 cells of a pair 261 rows together: 26% of 1,000 rows. There is less to learn
    than that beyond single attributes, and these have little noise.
    """
    shape = dict.fromkeys("abcdef", 4)
    pairs = [cuboid(shape, *pair) for pair in itertools.combinations(shape, 2)]
    problem = first_of(shape, pairs, histogram=whole_domain(shape))
    given = Alternatives(
        questions=15, attributes=6, cells=occupied(16), histogram=problem.histogram_line(is_start=False)
    )
    how = shares(problem, 8, alternatives=given)
    B = np.full(4**6, rows // 4**6)
    B[0] += rows - B.sum()
    answers = [(oracle.dense_query(query, shape) @ B).astype(np.int64) for query in problem.kernel_queries]
    accountant = how.composition.accountant()
    outcome = mwem(
        Kernel(*flat(answers), accountant, Draws(Scripted(noise=lambda size: np.zeros(size, dtype=np.int64)))),
        problem,
        how,
    )
    assert accountant.remaining == 0
    assert (purposes(outcome) == ["total", "round"]) == at_once
    if at_once:
        # The little that halves are shrunk by is a hundredth of the noise.
        np.testing.assert_allclose(outcome.state.marginal(list(shape)).ravel(), B, rtol=0, atol=0.01)


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_a_run_that_noise_would_hide_has_no_rounds(delta: str) -> None:
    """All goes to what comes first. With a delta, the account is in epsilon until n is known."""
    shape = {"a": 4, "b": 5, "c": 2}
    problem = first_of(shape, [cuboid(shape, "a", "b"), cuboid(shape, "b", "c")])
    given = Alternatives(questions=2, attributes=3, cells=occupied(14))
    how = shares(problem, 20, Budget.parse("0.01", delta), alternatives=given)
    answers = [(oracle.dense_query(query, shape) @ np.ones(40)).astype(np.int64) for query in problem.kernel_queries]
    accountant = how.composition.accountant()
    outcome = mwem(Kernel(*flat(answers), accountant, Draws(SeededNoise(3))), problem, how)
    accountant.settle()
    assert set(purposes(outcome)) == {"total", "first"}
    assert outcome.schedule.left == accountant.remaining == 0


def test_many_rows_are_counted_in_rho_after_a_total_in_epsilon() -> None:
    """Of the same table with more rows, the run has more rounds, and Gaussian noise but on the total."""
    shape = dict.fromkeys("abcdef", 3)
    pairs = [cuboid(shape, *pair) for pair in itertools.combinations(shape, 2)]
    problem = first_of(shape, pairs)
    given = Alternatives(questions=15, attributes=6, cells=occupied(9))
    how = shares(problem, 12, Budget.parse(1, "1e-6"), alternatives=given)
    kinds = {}
    for rows in (1, 1_000):
        B = np.full(3**6, rows)
        answers = [(oracle.dense_query(query, shape) @ B).astype(np.int64) for query in problem.kernel_queries]
        accountant = how.composition.accountant()
        outcome = mwem(Kernel(*flat(answers), accountant, Draws(SeededNoise(1))), problem, how)
        accountant.settle()
        assert accountant.remaining == 0
        assert accountant.kind == outcome.schedule.kind
        kinds[rows] = [step.kind for step in outcome.measurements]
    assert kinds[1][0] == kinds[1_000][0] == "pure"
    assert set(kinds[1]) == {"pure"}
    assert set(kinds[1_000][1:]) == {"zcdp"}
    assert len(kinds[1_000]) > len(kinds[1])


def test_a_marginal_that_came_first_can_be_selected_to_be_known_better() -> None:
    """It was measured with a small share: a round would know it better, once, and then no more."""
    shape = {"a": 3, "b": 3}
    problem = first_of(shape, [])
    script = Scripted([0, 0], lambda size: np.full(size, 400))
    outcome, _, how = planned(problem, np.full(9, 100), 4, script, first=Fraction(3, 20))
    assert how.share("first") / 2 < how.measure
    assert numbers(outcome, "first") == [0, 1]
    assert numbers(outcome, "round") == [0, 1]
    assert purposes(outcome)[5:] == ["again"] * (len(purposes(outcome)) - 5)


def test_rounds_take_the_same_and_penalties_follow() -> None:
    """Data that the start describes: scores of exact answers are the noise that a measurement has."""
    shape = {"a": 2, "b": 2, "c": 2, "d": 2}
    workload = [cuboid(shape, *pair) for pair in itertools.combinations("abcd", 2)]
    problem = Problem(queries=workload, weights=np.ones(6), sizes=ones(shape), max_cells=MANY, total=1600.0)
    script = Scripted()
    outcome, accountant, how = planned(problem, np.full(16, 100), 6, script)
    assert [step.share for step in outcome.measurements] == [how.measure] * 6
    assert sorted(numbers(outcome, "round")) == list(range(6))
    assert accountant.remaining == 0
    expected = -4 * noise_scale(how.measure, 1, "pure").scale
    for scores in script.scores:
        np.testing.assert_allclose(scores, np.rint(expected), atol=1)


@pytest.mark.thorough
def test_the_share_of_selecting_has_an_effect() -> None:
    """Few candidates of different use: nearly all of a round is better spent on measuring than half of it."""
    shape = dict.fromkeys("abcde", 4)
    generator = np.random.default_rng(8)
    workload = [cuboid(shape, *pair) for pair in itertools.combinations("abcde", 2)]
    B = generator.multinomial(20_000, generator.dirichlet(np.full(4**5, 0.05)))
    errors = {}
    for selecting in (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)):
        problem = Problem(queries=workload, weights=np.ones(10), sizes=ones(shape), max_cells=MANY, total=20_000.0)
        outcomes = [planned(problem, B, 6, SeededNoise(seed), selecting=selecting)[0] for seed in range(6)]
        errors[selecting] = np.mean(
            [np.abs(o.state.answer(q) - oracle.dense_query(q, shape) @ B).sum() for o in outcomes for q in workload]
        )
    assert errors[Fraction(1, 10)] < errors[Fraction(1, 2)] < errors[Fraction(9, 10)]


def test_sets_that_overlap_are_weighed_by_their_noise() -> None:
    """What is measured last, with far more noise, does not decide what is said of the attribute in common."""
    shape = {"a": 4, "b": 4, "c": 4}
    B = np.random.default_rng(0).multinomial(20_000, np.random.default_rng(1).dirichlet(np.ones(64)))
    problem = first_of(shape, [cuboid(shape, "a", "b"), cuboid(shape, "b", "c")], 20_000.0)
    lines = [
        Planned(purpose="round", number=number, importance=importance, cells=16, how="by cells")
        for number, importance in enumerate((1e6, 1.0))
    ]
    how = make_schedule(Budget.parse(1), lines)
    answers = [(oracle.dense_query(query, shape) @ B).astype(np.int64) for query in problem.kernel_queries]
    accountant = how.composition.accountant()
    outcome = mwem(Kernel(*flat(answers), accountant, Draws(SeededNoise(1)), 1), problem, how)
    sharp, noisy = (how.noise(line.share) for line in how.lines)
    assert noisy > 1000 * sharp
    true = B.reshape(4, 4, 4).sum(axis=(0, 2))
    # Four cells of the sharp measurement, each off by less than ten times its noise but for 1 in 10,000; the fit is
    # to a thousandth.
    assert np.abs(outcome.state.marginal(["b"]) - true).max() < 4 * 10 * sharp + 20_000 / 1000
