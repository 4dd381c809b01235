"""Shares: one rule, exact sums, those of the paper, and what follows once n is known."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from chance import examples
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import PURE, schedule

from mwem_sql.errors import BudgetError
from mwem_sql.kernel.accountant import AccountingError
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.scales import Kind, noise_scale, selection_scale
from mwem_sql.loop.plan import (
    SHARES,
    SIGNAL,
    Alternatives,
    Planned,
    best,
    divided,
    make_schedule,
    occupied,
    part_of,
    plans,
)

EPSILONS = st.decimals(min_value=Decimal("1e-6"), max_value=Decimal(1000), allow_nan=False).filter(lambda d: d > 0)
DELTAS = st.sampled_from(["0", "1e-12", "1e-9", "1e-5", "0.01"])
PURPOSES = ("total", "histogram", "first", "always", "detail", "certify", "units")


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_the_rule_makes_the_noise_of_all_lines_together_smallest(kind: Kind) -> None:
    """The sum of importance^2 cells / share^power, against shares that are moved a little."""
    weighted = np.array([(1.0, 4), (2.0, 9), (0.5, 100)])
    parts = np.array([float(part_of(importance, cells, kind)) for importance, cells in weighted])
    shares, power = parts / parts.sum(), 2 if kind == "pure" else 1
    noise = float((weighted[:, 0] ** 2 * weighted[:, 1] / shares**power).sum())
    for moved in np.eye(3) - 1 / 3:
        for step in (-0.01, 0.01):
            other = shares + step * moved
            assert float((weighted[:, 0] ** 2 * weighted[:, 1] / other**power).sum()) > noise


def test_a_share_is_divided_exactly() -> None:
    assert divided(Fraction(1, 3), [1, 0.1, Fraction(2, 7)]) == [
        Fraction(1, 3) * part / (1 + Fraction(0.1) + Fraction(2, 7)) for part in (1, Fraction(0.1), Fraction(2, 7))
    ]


def test_the_papers_schedule_gives_epsilon_over_two_t_to_each_step() -> None:
    plan = schedule(Budget.parse("0.5"), 10)
    assert (plan.kind, plan.limit, plan.lines) == ("pure", Fraction(1, 2), ())
    assert plan.select == plan.measure == plan.typical == Fraction(1, 40)
    assert plan.composition.predicted == (math.sqrt(2) * noise_scale(Fraction(1, 40), 1, "pure").scale, None)


def test_a_private_total_and_a_histogram_start_come_off_the_top() -> None:
    plan = schedule(Budget.parse(1), 7, total=True, histogram=True)
    assert (plan.share("total"), plan.share("histogram")) == (SHARES["total"], SHARES["histogram"])
    assert plan.select == (1 - SHARES["total"] - SHARES["histogram"]) / 14


def test_distributions_that_come_first_take_their_share_and_tell_the_total() -> None:
    plan = schedule(Budget.parse(1), 17, total=True, first=[4, 9], selecting=SHARES["select"])
    assert (plan.share("total"), plan.share("first")) == (SHARES["total"], (1 - SHARES["total"]) / 2)
    assert plan.step == (1 - SHARES["total"]) / 2 / 17
    assert plan.select == SHARES["select"] * plan.step
    one, other = plan.of("first")
    assert float(other.share / one.share) == pytest.approx((9 / 4) ** (1 / 3))


@pytest.mark.parametrize("number", [1, 3])
def test_what_is_always_measured_takes_what_a_round_takes(number: int) -> None:
    lines = [Planned(purpose="always", cells=4**place) for place in range(number)]
    plan = make_schedule(PURE, lines, 5)
    assert plan.share("always") == Fraction(number, number + 5)
    assert plan.step == plan.share("always") / number


def test_without_rounds_all_that_is_left_goes_by_importance_and_cells() -> None:
    lines = [
        Planned(purpose="always", importance=2.0, cells=3),
        Planned(purpose="round", cells=12, how="refined", steps=2),
        Planned(purpose="round", cells=6, how="refined", steps=1),
        Planned(purpose="certify"),
    ]
    plan = make_schedule(PURE, lines, shares={"certify": Fraction(1, 10)})
    assert plan.share("always", "round") == Fraction(9, 10)
    wanted = np.array([12, 12, 6]) ** (1 / 3)
    np.testing.assert_allclose([float(line.share) for line in plan.lines[:3]], 0.9 * wanted / wanted.sum())
    assert (plan.selects, plan.left, plan.select, plan.rounds) == (False, 0, 0, 3)
    assert plan.typical == plan.share("round") / 3
    assert list(plan.steps()) == []


def test_shares_that_do_not_add_up_are_refused() -> None:
    plan = schedule(PURE, 2, total=True)
    with pytest.raises(AccountingError, match=r"the shares \(1\.25\) must add up to the limit \(1\)"):
        replace(plan, left=plan.left + Fraction(1, 4))
    with pytest.raises(AccountingError, match="must add up"):
        replace(plan, lines=(replace(plan.lines[0], share=-Fraction(1, 20)),), left=Fraction(21, 20))


@settings(max_examples=examples(60), deadline=None)
@given(
    epsilon=EPSILONS,
    delta=DELTAS,
    rounds=st.integers(1, 60),
    lines=st.lists(
        st.builds(
            Planned,
            purpose=st.sampled_from(PURPOSES),
            importance=st.floats(0.01, 100),
            cells=st.integers(1, 10**6),
        ),
        max_size=6,
    ),
    sensitivity=st.sampled_from([1, 3]),
)
def test_every_path_stays_within_its_share_and_the_shares_add_up(
    *, epsilon: Decimal, delta: str, rounds: int, lines: list[Planned], sensitivity: int
) -> None:
    budget = Budget.parse(epsilon, delta)
    plan = make_schedule(budget, lines, rounds, sensitivity=sensitivity)
    assert sum(line.share for line in plan.lines) + rounds * (plan.select + plan.measure) == plan.limit
    predicted = plan.composition.predicted
    assert plan.limit == budget.epsilon if plan.kind == "pure" else predicted.zcdp < predicted.pure
    account = plan.composition.accountant()
    selection = selection_scale(plan.select, sensitivity, plan.kind)
    measurement = noise_scale(plan.measure, sensitivity, plan.kind)
    steps = [(noise_scale(line.share, sensitivity, plan.kind), line.share) for line in plan.lines]
    for calibrated, share in steps + [(selection, plan.select), (measurement, plan.measure)] * rounds:
        assert Fraction(calibrated.map) <= share
        assert Fraction(calibrated.map) >= share * (1 - Fraction(1, 10**12))  # and no budget is wasted
        account.debit(share)
        account.record(calibrated.map, share)
    account.settle()
    assert account.remaining == 0
    assert account.mapped <= account.spent == plan.limit
    with pytest.raises(BudgetError):
        account.debit(Fraction(1, 10**30))


def test_the_steps_of_a_release_compose_to_epsilon_with_dp_accounting() -> None:
    """Every scale of a plan, handed to dp-accounting as what it is: Gaussians, and selections of bounded range."""
    plan = schedule(Budget.parse(1, "1e-9"), 24, total=True, first=[7] * 14, selecting=SHARES["select"])
    assert plan.kind == "zcdp"
    composed = RdpAccountant((1 + np.logspace(-2, 4, 3000)).tolist())
    for line in plan.lines:
        composed.compose(dp_event.GaussianDpEvent(noise_scale(line.share, 1, "zcdp").scale), 1)
    composed.compose(dp_event.GaussianDpEvent(noise_scale(plan.measure, 1, "zcdp").scale), 24)
    range_ = 2 / selection_scale(plan.select, 1, "zcdp").scale
    composed.compose(dp_event.ZCDpEvent(range_**2 / 8), 24)
    assert composed.get_epsilon(1e-9) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("rounds", [1, 2, 7, 100])
def test_rounds_take_the_same(rounds: int) -> None:
    plan = schedule(PURE, rounds, selecting=SHARES["select"])
    assert list(plan.steps()) == [(plan.select, plan.measure, rounds - i) for i in range(1, rounds + 1)]


ALTERNATIVES = Alternatives(
    questions=3,
    attributes=3,
    cells=occupied(36),
    at_once=tuple(Planned(purpose="round", number=number, cells=cells) for number, cells in enumerate([36, 9, 50])),
    histogram=Planned(purpose="round", number=3, importance=3.0, cells=36, how="single cells"),
)
ROUNDS_ALONE = replace(ALTERNATIVES, questions=400, at_once=(), histogram=None)


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 60), st.floats(1, 1e7), DELTAS, st.sampled_from([ALTERNATIVES, ROUNDS_ALONE]))
def test_whatever_n_is_the_whole_budget_is_spent_and_no_more(
    rounds: int, n: float, delta: str, given: Alternatives
) -> None:
    """The filter: shares chosen from what came before, debited from one account, add up to its limit exactly."""
    plan = schedule(Budget.parse(1, delta), rounds, total=True, first=[4, 9, 91], alternatives=given)
    account = plan.composition.accountant()
    (total,) = plan.of("total")
    account.debit(total.share)
    for error, planned in plans(plan, n):
        assert 0 < error < math.inf
        assert planned.limit == sum(line.share for line in planned.lines) + planned.left
    chosen = best(plan, n)
    if chosen.kind != plan.kind:
        account.count_in_rho(chosen.limit)
    shares = list(chosen.steps())
    others = [line.share for line in chosen.lines if line.purpose != "total"]
    for share in others + [part for each in shares for part in each[:2]]:
        account.debit(share)
    assert account.remaining == 0
    assert len(shares) == (chosen.rounds if chosen.left else 0)
    assert len({select + measure for select, measure, _ in shares}) <= 1


def test_rounds_grow_with_n_and_the_share_of_what_comes_first_falls() -> None:
    plan = schedule(PURE, 9, total=True, first=[4, 9, 91], selecting=SHARES["select"], alternatives=ROUNDS_ALONE)
    chosen = [best(plan, 10.0**power) for power in range(2, 9)]
    rounds = [each.rounds for each in chosen]
    assert rounds == sorted(rounds)
    assert (rounds[0], rounds[-1] > 10) == (0, True)
    first = [each.share("first") for each in chosen]
    assert first == sorted(first, reverse=True)
    # Without rounds all of it: nothing is left over.
    assert first[0] == plan.share("first") + plan.left
    assert not chosen[0].left


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("n", [3e3, 3e5])
def test_neither_more_nor_fewer_rounds_nor_another_share_are_predicted_to_be_better(kind: Kind, n: float) -> None:
    """The prediction, written out as a sum for each number of rounds and share, against what is chosen."""
    plan = schedule(
        Budget.parse(1, "0" if kind == "pure" else "1e-6"), 9, total=True, first=[4, 9, 91],
        selecting=SHARES["select"], alternatives=ROUNDS_ALONE,
    )  # fmt: skip
    plan = plan.in_rho if kind == "zcdp" and plan.in_rho is not None else plan
    ((error, chosen),) = plans(replace(plan, in_rho=None), n)
    whole = plan.share("first") + plan.left

    def predicted(rounds: int, share: Fraction) -> float:
        each = plan.with_first(share).with_rounds(rounds)
        first = [line.importance**2 * occupied(line.cells) * plan.noise(line.share) for line in each.of("first")]
        later = rounds / 3 * ROUNDS_ALONE.cells * plan.noise(each.measure) if rounds else 0.0
        return SIGNAL * math.exp(-rounds / 3) + (sum(first) + later) / n

    assert predicted(chosen.rounds, chosen.share("first")) == pytest.approx(error, rel=1e-3)
    for rounds in {max(1, chosen.rounds - 1), chosen.rounds, chosen.rounds + 1}:
        for factor in (0.8, 1.0, 1.2):
            share = min(chosen.share("first") * Fraction(factor), whole * Fraction(99, 100))
            assert predicted(rounds, share) >= error * (1 - 1e-3)


def test_the_plan_with_the_smallest_predicted_error_is_taken() -> None:
    plan = schedule(PURE, 9, total=True, first=[4, 9, 91], alternatives=ALTERNATIVES)
    for n in (30.0, 300.0, 3_000.0):
        listed = list(plans(plan, n))
        errors = [error for error, _ in listed]
        assert best(plan, n).lines == listed[errors.index(min(errors))][1].lines


def test_questions_of_several_marginals_have_as_many_rounds_as_these() -> None:
    """And an error that all of them have, and what they leave."""
    plan = schedule(PURE, 9, total=True, first=[4, 9, 91], alternatives=ROUNDS_ALONE)
    wider = replace(plan, alternatives=replace(ROUNDS_ALONE, marginals=1.5))
    for n in (3e3, 3e5):
        ((error, pairs),), ((wide, triples),) = plans(plan, n), plans(wider, n)
        assert triples.lines == pairs.lines
        assert triples.step == pairs.step
        assert wide == pytest.approx(1.5 * error + SIGNAL**2)


def test_all_questions_at_once_take_everything_but_the_total() -> None:
    plan = schedule(PURE, 9, total=True, first=[4, 9, 91], alternatives=replace(ALTERNATIVES, histogram=None))
    error, at_once = next(plans(plan, 1e6))
    assert best(plan, 1e6).lines == at_once.lines
    assert [line.purpose for line in at_once.lines] == ["total", "round", "round", "round"]
    shares = [line.share for line in at_once.of("round")]
    assert sum(shares) == plan.limit - plan.share("total")
    np.testing.assert_allclose([float(share / shares[1]) for share in shares], np.array([4, 1, 50 / 9]) ** (1 / 3))
    scales = [cells / float(share) for cells, share in zip([36, 9, 50], shares, strict=True)]
    assert error == pytest.approx(sum(scales) / 3 / 1e6, rel=1e-6)


def test_a_histogram_takes_the_place_of_rounds_where_it_is_predicted_to_be_better() -> None:
    """Its noise, added up to the cells of the largest cuboid."""
    wide = Planned(purpose="round", number=3, importance=3.0, cells=36_000, how="single cells")
    given = replace(ALTERNATIVES, at_once=(), histogram=wide)
    plan = schedule(PURE, 2, total=True, first=[4, 9], alternatives=given)
    (error, histogram), _ = plans(plan, 1e6)
    scale = noise_scale(plan.limit - plan.share("total"), 1, "pure").scale
    assert error == pytest.approx(scale * math.sqrt(36_000 * 9) / 1e6)
    assert [line.purpose for line in histogram.lines] == ["total", "round"]
    assert not histogram.left
    assert best(plan, 1e6).lines == histogram.lines
    assert best(plan, 1e3).of("first")


def test_without_alternatives_n_decides_nothing() -> None:
    plain = schedule(PURE, 2, total=True, first=[4, 9])
    assert [each for _, each in plans(plain, 10.0)] == [plain]
    assert best(plain, 10.0) is plain


@pytest.mark.parametrize(("counted", "first"), [(True, [4, 9]), (False, [])])
def test_a_cap_that_adds_up_rho_and_a_total_that_costs_much_decide_before_n(counted: bool, first: list[int]) -> None:
    lines = [Planned(purpose="total"), *(Planned(purpose="first", cells=cells) for cells in first)]
    plan = make_schedule(Budget.parse(1, "1e-9"), lines, 40, alternatives=ROUNDS_ALONE, counted_in_rho=counted)
    assert (plan.kind, plan.in_rho) == ("zcdp", None)


def test_the_total_takes_the_same_in_epsilon_and_in_rho() -> None:
    plan = schedule(Budget.parse(1, "1e-9"), 40, total=True, first=[4, 9], alternatives=ROUNDS_ALONE)
    assert plan.kind == "pure"
    assert plan.in_rho is not None
    assert plan.in_rho.kind == "zcdp"
    assert plan.in_rho.share("total") == plan.share("total") ** 2 / 2
