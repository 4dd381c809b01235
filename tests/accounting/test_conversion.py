"""Between rho and (epsilon, delta): OpenDP's own curve, dp_accounting, the textbook's formula."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import schedule
from opendp import combinators, domains, measurements, measures, metrics
from opendp.mod import disable_features, enable_features

from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.scales import zcdp_epsilon, zcdp_rho


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
    space = domains.atom_domain(T="i64"), metrics.absolute_distance(T="f64"), measures.zero_concentrated_divergence()
    enable_features("honest-but-curious")
    try:
        bare: Any = combinators.make_zCDP_to_approxDP(
            measurements.make_user_measurement(*space, lambda _: 0, lambda d_in: d_in)
        )
        exact = bare.map(rho).epsilon(delta)
    finally:
        disable_features("honest-but-curious")
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


def test_rho_is_better_than_the_textbooks_and_known_at_one() -> None:
    rho = float(zcdp_rho(Fraction(1), Fraction(1, 10**9)))
    assert rho == pytest.approx(0.014973, abs=1e-6)
    textbook = (math.sqrt(math.log(1e9) + 1) - math.sqrt(math.log(1e9))) ** 2
    assert rho > textbook == pytest.approx(0.01178, abs=1e-5)


def test_rho_stops_where_opendps_conversion_overflows() -> None:
    plan = schedule(Budget.parse("1e6", "1e-9"), 5).composition
    assert plan.kind == "pure"
    assert zcdp_rho(plan.budget.epsilon, plan.budget.delta) == 2**16


def opendp_curve(rho: float) -> Any:
    """OpenDP's conversion of a Gaussian that costs rho, built without the code under test."""
    space = domains.atom_domain(T="i64"), metrics.absolute_distance(T="f64")
    sigma = 1 / math.sqrt(2 * rho)
    converted: Any = combinators.make_zCDP_to_approxDP(measurements.make_gaussian(*space, sigma))
    return converted.map(1.0)
