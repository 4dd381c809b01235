"""The loop's pace: what comes first, steps that grow, and the share of selecting."""

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
    asked,
    cuboid,
    first_of,
    grown,
    ones,
    purposes,
)

from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.noise import SeededNoise
from mwem_sql.kernel.scales import noise_scale
from mwem_sql.kernel.split import split
from mwem_sql.loop.loop import mwem
from mwem_sql.loop.pace import LEAST_FIRST, Pace
from mwem_sql.loop.problem import Problem
from mwem_sql.loop.regimes import FIRST_SHARE
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
    outcome, accountant, how = grown(problem, B, 20, SeededNoise(3), budget)
    ahead = ["total"] * (total is None) + ["histogram"] * histogram + ["first"] * 3
    assert purposes(outcome)[: len(ahead)] == ahead
    assert asked(outcome, "first") == [3, 4, 5]
    shares = [step.share for step in outcome.measurements if step.purpose == "first"]
    assert sum(shares) >= how.first * LEAST_FIRST
    np.testing.assert_allclose([float(share / shares[2]) for share in shares], [2, 2.5, 1])
    assert accountant.remaining == 0
    counted = [(float(s.values.sum()), 1 / (s.variance * s.values.size)) for s in outcome.measurements]
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
    answers = [(oracle.dense_query(query, shape) @ B).astype(np.int64) for query in problem.kernel_queries]
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
    problem = Problem(queries=workload, weights=np.ones(6), sizes=ones(shape), max_cells=MANY, total=1600.0)
    outcome, accountant, how = grown(problem, np.full(16, 100), 16, Scripted())
    taken = [step.share / how.measure for step in outcome.measurements]
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
    outcome, _, how = grown(
        Problem(queries=workload, weights=np.ones(15), sizes=ones(shape), max_cells=MANY, total=1e6),
        B,
        10,
        SeededNoise(1),
    )
    assert [step.share for step in outcome.measurements] == [how.measure] * 10


def test_what_is_heard_is_how_far_a_measurement_is_from_what_was_known(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[float, float]] = []
    monkeypatch.setattr(Pace, "hear", lambda _, *told: heard.append(told))
    shape = {"a": 3, "b": 4}
    problem = Problem(
        queries=[cuboid(shape, "a", "b")], weights=np.ones(1), sizes=ones(shape), max_cells=MANY, total=1200.0
    )
    outcome, _, how = grown(problem, np.arange(12) * 20, 1, SeededNoise(4))
    measured = outcome.measurements[0]
    assert heard == [
        (
            pytest.approx(np.abs(measured.values - 100.0).sum()),
            pytest.approx(12 * noise_scale(how.measure, 1, "pure").scale),
        )
    ]


@pytest.mark.thorough
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
                Problem(queries=workload, weights=np.ones(10), sizes=ones(shape), max_cells=MANY, total=1000.0),
                B,
                50,
                SeededNoise(seed),
                growing=growing,
            )
            found.append(
                sum(np.abs(outcome.state.answer(q) - oracle.dense_query(q, shape) @ B).sum() for q in workload)
            )
    assert np.mean(errors[True]) < np.mean(errors[False]) - 3 * np.std(errors[False]) / np.sqrt(4)


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
        outcomes = [grown(problem, B, 6, SeededNoise(seed), selecting=selecting)[0] for seed in range(6)]
        errors[selecting] = np.mean(
            [np.abs(o.state.answer(q) - oracle.dense_query(q, shape) @ B).sum() for o in outcomes for q in workload]
        )
    assert errors[Fraction(1, 10)] < errors[Fraction(1, 2)] < errors[Fraction(9, 10)]
