"""The budget: exact reading, exact splitting, and an account that no mechanism can overdraw."""

from __future__ import annotations

import math
import tracemalloc
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.accounting.accountant import Accountant, AccountingError
from mwem_sql.accounting.budget import Budget
from mwem_sql.accounting.pace import CERTAIN, ENOUGH, LEAST_FIRST, MOST_FIRST, MUTE, PATIENCE, Pace
from mwem_sql.accounting.scales import Kind, noise_scale, selection_scale, zcdp_epsilon, zcdp_rho
from mwem_sql.accounting.split import (
    GLANCE_SHARE,
    HISTOGRAM_SHARE,
    MAXIMUM_ROUNDS,
    TOTAL_SHARE,
    Predicted,
    Split,
    split,
)
from mwem_sql.errors import BudgetError, OptionError
from mwem_sql.mwem.regimes import FIRST_SHARE, SELECT_SHARE

EPSILONS = st.decimals(min_value=Decimal("1e-6"), max_value=Decimal(1000), allow_nan=False).filter(lambda d: d > 0)
DELTAS = st.sampled_from(["0", "1e-12", "1e-9", "1e-5", "0.01"])


@pytest.mark.parametrize(
    ("given_epsilon", "exact"),
    [
        ("0.1", Fraction(1, 10)),
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (Decimal("0.10"), Fraction(1, 10)),
        ("1e-9", Fraction(1, 10**9)),
        (" 5E-1 ", Fraction(1, 2)),
        (3, Fraction(3)),
        (np.int64(3), Fraction(3)),
        (Fraction(1, 3), Fraction(1, 3)),
        ("1e-12", Fraction(1, 10**12)),
        ("1e6", Fraction(10**6)),
    ],
)
def test_epsilon_is_the_exact_rational_of_its_decimal(given_epsilon: object, exact: Fraction) -> None:
    assert Budget.parse(given_epsilon).epsilon == exact
    assert Budget.parse(given_epsilon).delta == 0


NO_NUMBERS = ["abc", "", "nan", "sNaN", "inf", "-Infinity", "1/3", "9" * 1000, None, True, [1], b"1", 1j]
NOT_POSITIVE = ["0", 0, -1, "-0.5", "0e-999999999", math.nan, math.inf, Decimal("NaN")]


@pytest.mark.parametrize("bad", NO_NUMBERS + NOT_POSITIVE)
def test_an_epsilon_that_is_no_positive_finite_number_is_refused(bad: object) -> None:
    with pytest.raises(OptionError) as refusal:
        Budget.parse(bad)
    shown = repr(bad) if len(repr(bad)) < 60 else repr(bad)[:50]
    assert str(refusal.value).startswith(f"mwem_release: epsilon ({shown}")
    assert ") must be a positive finite number. Hint: write a decimal such as 0.5" in str(refusal.value)


@pytest.mark.parametrize(
    "absurd", ["1e999999999", "1e-999999999", "1e7", "1e-13", pytest.param(10**100_000, id="huge"), Decimal("1e99999")]
)
def test_an_absurd_epsilon_is_refused_at_once(absurd: object) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(OptionError, match=r"epsilon \(.*\) must be between 1e-12 and 1e6\. Hint: "):
            Budget.parse(absurd)
        # As a fraction, 1e999999999 would take minutes and a gigabyte.
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("bad", ["abc", -1e-9, 1, "1.0", "nan", "inf", None, False, "1e999999999"])
def test_a_delta_outside_zero_to_one_is_refused(bad: object) -> None:
    with pytest.raises(OptionError) as refusal:
        Budget.parse(1, bad, function="mwem_plan")
    assert str(refusal.value).startswith(
        f"mwem_plan: delta ({bad!r}) must be a finite number from 0 to below 1. Hint: "
    )


def test_delta_is_exact_and_tiny_ones_are_refused() -> None:
    assert Budget.parse(1, 1e-9).delta == Fraction(1, 10**9)
    assert Budget.parse(1, "0e-999999999").delta == 0
    for tiny in ("1e-301", "1e-999999999"):
        with pytest.raises(
            OptionError, match=r"delta \('1e-\d+'\) must be 0 or at least 1e-300\. Hint: leave delta out"
        ):
            Budget.parse(1, tiny)


def test_a_budget_checks_itself() -> None:
    for epsilon, delta in ((Fraction(0), Fraction(0)), (Fraction(10**400), Fraction(0)), (Fraction(1), Fraction(1))):
        with pytest.raises(OptionError, match="Budget: "):
            Budget(epsilon, delta)
    with pytest.raises(OptionError, match="must be fractions"):
        Budget(0.1)  # type: ignore[arg-type]


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


@settings(max_examples=60, deadline=None)
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


def paced(rounds: int, growing: bool, delta: object = 0) -> tuple[Pace, Split]:
    plan = split(
        Budget.parse(1, delta), rounds, total_is_public=True, histogram=False, growing=growing, selecting=SELECT_SHARE
    )
    return Pace(plan), plan


@pytest.mark.parametrize("rounds", [1, 2, 7, 100])
def test_a_fixed_number_of_rounds_is_kept_whatever_is_heard(rounds: int) -> None:
    pace, plan = paced(rounds, growing=False)
    taken = []
    while pace.left:
        assert pace.rounds == rounds - len(taken)
        taken.append(pace.take())
        pace.hear(0.0, 1.0)
    assert taken == [(plan.select, plan.measure)] * rounds
    assert pace.rounds == 0


@pytest.mark.parametrize(("delta", "factor"), [(0, 2), ("1e-6", 4)])
def test_a_step_that_heard_only_noise_is_followed_by_ones_of_half_the_noise(delta: object, factor: int) -> None:
    pace, plan = paced(400, growing=True, delta=delta)
    assert plan.kind == ("zcdp" if delta else "pure")
    for distances in ([0.0] * PATIENCE, [0.2] * PATIENCE):
        before = pace.take()[1]
        for distance in distances:
            pace.hear(distance, 1.0)
        after = pace.take()[1]
        assert after == factor * before
        assert noise_scale(after, 1, plan.kind).scale == pytest.approx(
            noise_scale(before, 1, plan.kind).scale / 2, rel=1e-9
        )


def test_a_signal_above_the_noise_keeps_the_steps_as_they_are() -> None:
    pace, plan = paced(20, growing=True)
    for distance in [5.0, 0.0, 0.5, 4.0, 0.0, 0.3, 4.0] * 2:
        pace.take()
        pace.hear(distance, 1.0)
    assert pace.take() == (plan.select, plan.measure)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60), st.lists(st.floats(0, 3), min_size=60, max_size=60), st.sampled_from([0, "1e-6"]))
def test_whatever_is_heard_the_whole_budget_is_spent_and_no_more(
    rounds: int, distances: list[float], delta: object
) -> None:
    """The filter: shares chosen from what came before, debited from one account, add up to its limit exactly."""
    pace, plan = paced(rounds, growing=True, delta=delta)
    account = plan.accountant()
    shares = []
    while pace.left:
        shares.append(pace.take())
        for share in shares[-1]:
            account.debit(share)
        pace.hear(distances[len(shares) - 1], 1.0)
    assert account.remaining == 0
    assert len(shares) <= rounds
    # Steps never shrink, and what is left in the end is part of the last one.
    assert [sum(share) for share in shares] == sorted(sum(share) for share in shares)
    assert all(select == SELECT_SHARE * (select + measure) for select, measure in shares)


def test_three_tenths_over_ten_rounds_is_three_tenths() -> None:
    assert reduce(add, [0.03] * 10) > 0.3  # In floats ten shares exceed the budget.
    plan = split(Budget.parse(0.3), 10, total_is_public=True, histogram=False)
    account = plan.accountant()
    for _ in range(10):
        for calibrated in (selection_scale(plan.select, 1, "pure"), noise_scale(plan.measure, 1, "pure")):
            account.debit(plan.select)
            account.record(calibrated.map, plan.select)
    account.settle()
    assert account.spent == Fraction(3, 10)
    assert account.mapped <= Fraction(3, 10)


def test_an_overdraft_is_refused_and_nothing_is_charged() -> None:
    account = Accountant("pure", Fraction(1))
    account.debit(Fraction(3, 4))
    with pytest.raises(BudgetError) as refusal:
        account.debit(Fraction(1, 2))
    assert str(refusal.value) == (
        "mwem_release: the next share (0.5) must fit what is left of epsilon (0.25 of 1). "
        "Hint: raise epsilon or use fewer rounds"
    )
    with pytest.raises(BudgetError):
        account.debit(Fraction(1, 4) + Fraction(1, 10**30))
    assert (account.spent, account.remaining) == (Fraction(3, 4), Fraction(1, 4))
    account.debit(Fraction(1, 4))


@pytest.mark.parametrize("share", [Fraction(0), Fraction(-1, 2)])
def test_a_debit_cannot_be_a_credit(share: Fraction) -> None:
    account = Accountant("pure", Fraction(1))
    with pytest.raises(AccountingError, match=r"a share \(.*\) must be positive"):
        account.debit(share)
    assert account.spent == 0


@pytest.mark.parametrize("cost", [math.nextafter(0.5, 1), 0.6, -0.1, math.inf, math.nan])
def test_a_cost_above_its_share_is_refused_by_an_ulp(cost: float) -> None:
    account = Accountant("pure", Fraction(1))
    account.debit(Fraction(1, 2))
    with pytest.raises(AccountingError, match=r"the cost of a mechanism \(.*\) must not exceed its share \(0\.5\)"):
        account.record(cost, Fraction(1, 2))
    account.record(0.5, Fraction(1, 2))
    assert account.mapped == Fraction(1, 2)


def test_a_cost_without_a_debit_is_refused() -> None:
    account = Accountant("pure", Fraction(1))
    with pytest.raises(AccountingError, match=r"a recorded share \(0\.5\) must have been debited first"):
        account.record(0.5, Fraction(1, 2))


def test_an_account_beyond_the_budget_is_not_opened() -> None:
    budget = Budget.parse(1, "1e-9")
    rho = zcdp_rho(budget.epsilon, budget.delta)
    Accountant("zcdp", rho, budget).settle()
    for kind, limit in (("zcdp", rho * Fraction(1001, 1000)), ("pure", Fraction(1001, 1000))):
        with pytest.raises(AccountingError, match=r"the limit \(1\.00.*\) must not exceed epsilon \(1\)"):
            Accountant(kind, limit, budget)  # type: ignore[arg-type]
    with pytest.raises(AccountingError, match="must name the budget"):
        Accountant("zcdp", rho)


def test_settle_sees_what_a_faulty_record_would_leave_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Accountant("pure", Fraction(1))
    account.debit(Fraction(1))
    account.record(1.0, Fraction(1))
    monkeypatch.setattr(account, "_mapped", 1 + Fraction(1, 10**30))
    with pytest.raises(AccountingError, match="must not exceed the limit"):
        account.settle()


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        ("1", "1e-9"),
        ("0.1", "1e-5"),
        ("10", "1e-12"),
        ("1e-12", "1e-300"),
        ("1e-12", "1e-5"),
        ("300", "1e-300"),
        ("2", "0.5"),
    ],
)
def test_rho_is_the_largest_that_opendps_own_curve_allows(epsilon: str, delta: str) -> None:
    budget = Budget.parse(epsilon, delta)
    rho = float(zcdp_rho(budget.epsilon, budget.delta))
    assert Fraction(zcdp_epsilon(Fraction(rho), budget.delta)) <= budget.epsilon
    assert opendp_curve(rho).delta(float(epsilon)) <= float(delta)
    # OpenDP's curve is numeric: near epsilon 0 it moves in steps of 1e-16, so ask for the next rho a little further up.
    assert opendp_curve(rho * (1 + 1e-6)).delta(float(epsilon)) > float(delta)


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-8, 1e3), st.sampled_from([1e-12, 1e-6, 1e-3]))
def test_the_conversion_is_never_below_opendps_at_that_very_rho(rho: float, delta: float) -> None:
    """OpenDP converts a bare rho only behind a process-wide flag, which the package leaves alone and this test sets."""
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="f64"), dp.zero_concentrated_divergence()
    dp.enable_features("honest-but-curious")
    try:
        bare: Any = dp.c.make_zCDP_to_approxDP(dp.m.make_user_measurement(*space, lambda _: 0, lambda d_in: d_in))
        exact = bare.map(rho).epsilon(delta)
    finally:
        dp.disable_features("honest-but-curious")
    assert exact <= zcdp_epsilon(Fraction(rho), Fraction(delta)) <= exact * (1 + 1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-9"), ("0.1", "1e-5"), ("3", "1e-6"), ("0.5", "1e-12")])
def test_the_conversion_agrees_with_dp_accounting(epsilon: str, delta: str) -> None:
    """Its Renyi accountant finds the same epsilon, up to its grid of orders; its exact one for the Gaussian, less."""
    rho = float(zcdp_rho(Fraction(epsilon), Fraction(delta)))
    renyi = RdpAccountant((1 + np.logspace(-2, 4, 3000)).tolist())
    renyi.compose(dp_event.ZCDpEvent(rho))
    assert renyi.get_epsilon(float(delta)) == pytest.approx(float(epsilon), rel=1e-5)
    exact = PLDAccountant()
    exact.compose(dp_event.GaussianDpEvent(1 / math.sqrt(2 * rho)))
    assert 0.85 * float(epsilon) < exact.get_epsilon(float(delta)) <= float(epsilon)


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


def test_rho_is_better_than_the_textbooks_and_known_at_one() -> None:
    rho = float(zcdp_rho(Fraction(1), Fraction(1, 10**9)))
    assert rho == pytest.approx(0.014973, abs=1e-6)
    textbook = (math.sqrt(math.log(1e9) + 1) - math.sqrt(math.log(1e9))) ** 2
    assert rho > textbook == pytest.approx(0.01178, abs=1e-5)


def test_rho_stops_where_opendps_conversion_overflows() -> None:
    plan = split(Budget.parse("1e6", "1e-9"), 5, total_is_public=True, histogram=False)
    assert plan.kind == "pure"
    assert zcdp_rho(plan.budget.epsilon, plan.budget.delta) == 2**16


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


def opendp_curve(rho: float) -> Any:
    """OpenDP's conversion of a Gaussian that costs rho, built without the code under test."""
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="f64")
    sigma = 1 / math.sqrt(2 * rho)
    converted: Any = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, sigma))
    return converted.map(1.0)


@pytest.mark.parametrize(
    ("doubt", "taken"),
    [
        (0.0, (LEAST_FIRST - 1) * FIRST_SHARE),
        (ENOUGH / 2, -FIRST_SHARE / 2),
        (ENOUGH, 0),
        (CERTAIN, 0),
        (2 * CERTAIN, FIRST_SHARE),
        (4 * CERTAIN, 3 * FIRST_SHARE),
        (0.99 * MUTE * CERTAIN / FIRST_SHARE, MOST_FIRST - FIRST_SHARE),
        (1.01 * MUTE * CERTAIN / FIRST_SHARE, 1 - FIRST_SHARE),
        (1e9, 1 - FIRST_SHARE),
    ],
)
def test_distributions_that_noise_hides_take_from_the_rounds_and_those_that_are_known_leave_to_them(
    doubt: float, taken: Fraction
) -> None:
    plan = split(
        Budget.parse(1),
        17,
        total_is_public=True,
        histogram=False,
        first=FIRST_SHARE,
        growing=True,
        selecting=SELECT_SHARE,
    )
    pace = Pace(plan)
    found = pace.spare(plan.first, doubt)
    assert float(found) == pytest.approx(float(taken))
    shares = []
    while pace.left:
        shares.append(sum(pace.take()))
    # Rounds are as large as they were, and fewer or more.
    assert plan.first + found + sum(shares) == 1
    assert all(share == plan.select + plan.measure for share in shares[:-1])
