"""Shares: those of the paper, exact sums, and the noise that they predict."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from chance import examples
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.errors import BudgetError, OptionError
from mwem_sql.kernel.accountant import AccountingError
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.scales import Kind, noise_scale, selection_scale, zcdp_rho
from mwem_sql.kernel.split import (
    GLANCE_SHARE,
    HISTOGRAM_SHARE,
    MAXIMUM_ROUNDS,
    TOTAL_SHARE,
    Predicted,
    Split,
    split,
)
from mwem_sql.loop.regimes import FIRST_SHARE, SELECT_SHARE

EPSILONS = st.decimals(min_value=Decimal("1e-6"), max_value=Decimal(1000), allow_nan=False).filter(lambda d: d > 0)


DELTAS = st.sampled_from(["0", "1e-12", "1e-9", "1e-5", "0.01"])


@pytest.mark.parametrize("rounds", [0, -1, True, 2.0, None, MAXIMUM_ROUNDS + 1, pytest.param(10**100_000, id="huge")])
def test_rounds_outside_their_range_are_refused(rounds: int) -> None:
    with pytest.raises(
        OptionError, match=r"mwem_release: rounds \(.*\) must be a whole number from 1 to 1000000\. Hint: leave"
    ):
        split(Budget.parse(1), rounds, total_is_public=True, histogram=False)


def test_the_papers_split_gives_epsilon_over_two_t_to_each_step() -> None:
    plan = split(Budget.parse("0.5"), 10, total_is_public=True, histogram=False)
    assert plan.kind == "pure"
    assert (plan.limit, plan.total, plan.histogram) == (Fraction(1, 2), Fraction(0), Fraction(0))
    assert plan.select == plan.measure == Fraction(1, 40)
    assert plan.predicted == Predicted(math.sqrt(2) * noise_scale(Fraction(1, 40), 1, "pure").scale, None)


def test_a_private_total_and_a_histogram_start_come_off_the_top() -> None:
    plan = split(Budget.parse(1), 7, total_is_public=False, histogram=True)
    assert (plan.total, plan.histogram) == (TOTAL_SHARE, HISTOGRAM_SHARE) == (Fraction(1, 20), Fraction(1, 4))
    assert plan.select == Fraction(7, 10) / 14


def test_marginals_that_come_first_take_their_share_and_tell_the_total() -> None:
    plan = split(Budget.parse(1), 17, total_is_public=False, histogram=False, first=FIRST_SHARE, selecting=SELECT_SHARE)
    assert (plan.total, plan.first) == (GLANCE_SHARE, FIRST_SHARE)
    assert plan.select + plan.measure == (1 - GLANCE_SHARE - FIRST_SHARE) / 17
    assert plan.select == SELECT_SHARE * (1 - GLANCE_SHARE - FIRST_SHARE) / 17


def test_a_split_that_does_not_add_up_is_refused() -> None:
    share, budget = Fraction(1, 4), Budget.parse(1)
    nothing = Fraction(0)
    Split("pure", Fraction(1), nothing, nothing, nothing, share, share, 2, False, Predicted(1, None), budget)
    with pytest.raises(AccountingError, match=r"the shares \(1\.25\) must add up to the limit \(1\)"):
        Split("pure", Fraction(1), nothing, nothing, share, share, share, 2, False, Predicted(1, None), budget)


@settings(max_examples=examples(60), deadline=None)
@given(
    epsilon=EPSILONS,
    delta=DELTAS,
    rounds=st.integers(1, 60),
    total_is_public=st.booleans(),
    histogram=st.booleans(),
    sensitivity=st.sampled_from([1, 3]),
)
def test_every_path_stays_within_its_share_and_the_shares_add_up(
    *, epsilon: Decimal, delta: str, rounds: int, total_is_public: bool, histogram: bool, sensitivity: int
) -> None:
    budget = Budget.parse(epsilon, delta)
    plan = split(budget, rounds, total_is_public=total_is_public, histogram=histogram, sensitivity=sensitivity)
    assert plan.total + plan.histogram + rounds * (plan.select + plan.measure) == plan.limit
    if plan.kind == "pure":
        assert plan.limit == budget.epsilon
    else:
        assert plan.predicted.zcdp is not None
        assert plan.predicted.zcdp < plan.predicted.pure

    account = plan.accountant()
    selection = selection_scale(plan.select, sensitivity, plan.kind)
    measurement = noise_scale(plan.measure, sensitivity, plan.kind)
    steps = [(noise_scale(share, sensitivity, plan.kind), share) for share in (plan.total, plan.histogram) if share]
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
    plan = split(
        Budget.parse(1, "1e-9"), 24, total_is_public=False, histogram=False, first=FIRST_SHARE, selecting=SELECT_SHARE
    )
    assert plan.kind == "zcdp"
    composed = RdpAccountant((1 + np.logspace(-2, 4, 3000)).tolist())
    composed.compose(dp_event.GaussianDpEvent(noise_scale(plan.total, 1, "zcdp").scale), 1)
    composed.compose(dp_event.GaussianDpEvent(noise_scale(plan.first / 14, 1, "zcdp").scale), 14)
    composed.compose(dp_event.GaussianDpEvent(noise_scale(plan.measure, 1, "zcdp").scale), 24)
    range_ = 2 / selection_scale(plan.select, 1, "zcdp").scale
    composed.compose(dp_event.ZCDpEvent(range_**2 / 8), 24)
    assert composed.get_epsilon(1e-9) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize(("rounds", "kind"), [(1, "pure"), (8, "pure"), (9, "zcdp"), (200, "zcdp")])
def test_the_plan_with_the_smaller_noise_is_taken(rounds: int, kind: Kind) -> None:
    plan = split(Budget.parse(1, "1e-9"), rounds, total_is_public=True, histogram=False)
    rho = float(zcdp_rho(Fraction(1), Fraction(1, 10**9)))
    laplace, gaussian = math.sqrt(2) * 2 * rounds, 1 / math.sqrt(2 * rho / (2 * rounds))
    assert plan.predicted == pytest.approx((laplace, gaussian))
    assert plan.kind == kind == ("zcdp" if gaussian < laplace else "pure")
    assert plan.accountant().kind == kind


def test_sensitivity_scales_the_prediction() -> None:
    one, three = (
        split(Budget.parse(1, "1e-9"), 20, total_is_public=True, histogram=False, sensitivity=k).predicted
        for k in (1, 3)
    )
    assert three == pytest.approx([3 * deviation for deviation in one if deviation])
