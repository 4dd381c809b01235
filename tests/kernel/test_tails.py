"""How far noise may be off: against the distributions themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mwem_sql.kernel.scales import variance
from mwem_sql.kernel.tails import cumulants, half_width, half_widths


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 2.5, 40.0, 1e6])
@pytest.mark.parametrize("miss", [0.5, 0.05, 1e-3, 1e-8])
def test_discrete_laplace_noise_is_within(scale: float, miss: float) -> None:
    """P(|Z| >= k) = 2 p^k / (1 + p) for p = exp(-1 / scale)."""
    reach = math.floor(half_width(*cumulants(scale, "pure"), miss)) + 1
    p = math.exp(-1 / scale)
    assert 2 * math.exp(-reach / scale) / (1 + p) <= miss


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_one_cell_is_not_wider_than_its_noise(scale: float) -> None:
    assert half_width(*cumulants(scale, "pure"), 0.05) <= scale * math.log(20) + 0.6
    assert half_width(*cumulants(scale, "zcdp"), 0.05) == pytest.approx(
        1.96 * math.sqrt(variance(scale, "zcdp")) + 0.5, rel=1e-3
    )


@pytest.mark.parametrize("terms", [1, 2, 3, 5, 10, 60, 300])
def test_sums_of_laplace_noise_are_within(terms: int) -> None:
    """Of 40,000 sums, as many as there should be, within five standard deviations: a failure in a million."""
    generator, scale, draws = np.random.default_rng(terms), 30.0, 40_000
    sums = np.abs(generator.laplace(0, scale, (draws, terms)).sum(axis=1))
    variance, fourth = cumulants(scale, "pure")
    for miss in (0.2, 0.05, 0.005):
        beyond = int((sums > half_width(terms * variance, terms * fourth, miss)).sum())
        slack = 5 * math.sqrt(draws * miss)
        assert beyond <= draws * miss + slack
        assert beyond >= 0.7 * draws * miss - slack


def test_unequal_terms_are_between_the_heaviest_and_the_normal() -> None:
    one, many = (half_width(1.0, fourth, 0.01) for fourth in (3.0, 0.0))
    mixed = half_width(1.0, 1.2, 0.01)
    assert many < mixed < one


def test_what_has_no_noise_has_no_width() -> None:
    assert half_widths(np.zeros(2), np.zeros(2), 0.05).tolist() == [0.0, 0.0]
