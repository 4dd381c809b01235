"""The mechanisms: their distributions, their calibration and their edges, for OpenDP and the seeded stand-in alike.

Counts are judged by Chernoff's bound, which holds for every n: P(n KL(count/n, p) > t) <= 2 exp(-t) for each category.
With t = log(2 categories / alpha) a right sampler fails a test with probability below alpha = 1e-9. The wrong samplers
that the tests name (another mechanism, a scale off by 1.75 or 1.15) pass with probability below 1e-14, by that bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.errors import OptionError
from mwem_sql.kernel.noise import OpenDPNoise, SeededNoise
from mwem_sql.kernel.scales import (
    MAXIMUM_SENSITIVITY,
    MINIMUM_VARIANCE,
    SLACK,
    Kind,
    is_many,
    many_scale,
    noise_scale,
    selection_scale,
    typical,
    variance,
    within,
)

KINDS: list[Kind] = ["pure", "zcdp"]


def masses(scale: float, kind: Kind) -> dict[int, float]:
    """Give the noise's exact probabilities on the integers, far into the tails."""
    odds = {x: math.exp(-abs(x) / scale if kind == "pure" else -((x / scale) ** 2) / 2) for x in range(-900, 901)}
    return {x: odd / sum(odds.values()) for x, odd in odds.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.3, 0.9, 2.0, 4.9, 5.1, 40.0])
def test_variance_is_that_of_the_distribution(kind: Kind, scale: float) -> None:
    assert variance(scale, kind) == pytest.approx(sum(x * x * p for x, p in masses(scale, kind).items()), rel=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_variance_can_be_divided_by(kind: Kind) -> None:
    assert variance(1e-6, kind) == MINIMUM_VARIANCE > 0
    assert variance(1e15, kind) == pytest.approx(2e30 if kind == "pure" else 1e30)


SHARES = st.fractions(min_value=Fraction(1, 10**15), max_value=10**6).filter(lambda share: share > 0)


@settings(max_examples=examples(150), deadline=None)
@given(SHARES, st.sampled_from([1, 3, 1000, 3000, 2**40]), st.sampled_from(KINDS))
def test_a_calibrated_map_is_at_most_its_share_and_close_to_it(share: Fraction, sensitivity: int, kind: Kind) -> None:
    factor = 2 if kind == "pure" else 1
    for calibrated, rows in (
        (selection_scale(share, sensitivity, kind), factor),
        (noise_scale(share, sensitivity, kind), 1),
    ):
        assert share * (1 - Fraction(1, 10**12)) <= Fraction(calibrated.map) <= share
        ideal = rows * sensitivity / (float(share) if kind == "pure" else math.sqrt(2 * float(share)))
        assert calibrated.scale == pytest.approx(ideal, rel=1e-13)


def test_the_closed_form_alone_would_overspend() -> None:
    """The trap the calibration is for: OpenDP's maps exceed many shares by an ulp at the textbook scale."""
    moved = [t for t in range(1, 60) if noise_scale(Fraction(1, 2 * t), 1, "pure").scale != 2 * t]
    moved += [
        t for t in range(1, 60) if noise_scale(Fraction(3, 20 * t), 1, "pure").scale != float(Fraction(20 * t, 3))
    ]
    assert len(moved) > 10


@pytest.mark.parametrize("calibrate", [selection_scale, noise_scale])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [Fraction(1, 10**12), Fraction(1, 10**18), Fraction(10**6)])
def test_tiny_and_huge_shares_work(calibrate: Callable[..., object], kind: Kind, share: Fraction) -> None:
    scale = selection_scale(share, 1000, kind).scale
    calibrate(share, 3, kind)
    for noise in (OpenDPNoise(), SeededNoise(1)):
        assert noise.select(np.array([5, -7, 9]), scale, kind) in {0, 1, 2}
        assert noise.add_noise(np.array([5, -7]), scale, kind).dtype == np.int64


@pytest.mark.parametrize("calibrate", [selection_scale, noise_scale])
def test_shares_and_sensitivities_out_of_range_are_refused(calibrate: Callable[..., object]) -> None:
    for share in (Fraction(0), Fraction(-1, 3)):
        with pytest.raises(OptionError, match=r"a share of the budget \(.*\) must be positive\. Hint: raise epsilon"):
            calibrate(share, 1, "pure")
    for sensitivity in (0, -3, MAXIMUM_SENSITIVITY + 1):
        with pytest.raises(
            OptionError, match=r"the sensitivity \(.*\) must be between 1 and 2\^61\. Hint: lower rows_per"
        ):
            calibrate(Fraction(1), sensitivity, "pure")


def test_a_share_beyond_every_double_is_refused_not_looped_over(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn:
        def map(self, _: int) -> float:
            return math.inf

    monkeypatch.setattr("mwem_sql.kernel.scales.make_noise", lambda *_: Stubborn())
    with pytest.raises(
        OptionError, match=r"a share of the budget \(0\.123\) must be within reach of a noise scale\. Hint: "
    ):
        noise_scale(Fraction(123, 1000), 1, "pure")


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("share", [Fraction(1, 3), Fraction(1, 1000), Fraction(7)])
@pytest.mark.parametrize("sensitivity", [1, 3, 1000])
def test_scale_of_many_costs_at_most_the_share(kind: Kind, share: Fraction, sensitivity: int) -> None:
    calibrated = many_scale(share, sensitivity, kind)
    epsilon = 2 * sensitivity * (1 + SLACK) / Fraction(calibrated.scale)
    cost = epsilon if kind == "pure" else epsilon**2 / 8
    assert share * (1 - Fraction(1, 10**12)) <= cost <= Fraction(calibrated.map) <= share
    assert calibrated.scale == pytest.approx(
        selection_scale(share, sensitivity, kind).scale * float(1 + SLACK), rel=1e-12
    )


def test_many_is_a_rule_on_public_numbers() -> None:
    assert is_many(20_000, Fraction(1, 10), "pure")
    assert not is_many(19_999, Fraction(1, 10), "pure")
    assert not is_many(10**6, Fraction(1, 10**6), "pure")
    assert is_many(10**6, Fraction(1, 10**6), "zcdp")


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.7, 4.99, 5.0, 8.0, 40.0])
def test_the_mean_and_the_reach_of_noise(scale: float, kind: Kind) -> None:
    """Against the distribution, summed up."""
    reach = range(-int(60 * scale) - 5, int(60 * scale) + 6)
    mass = [math.exp(-abs(x) / scale if kind == "pure" else -((x / scale) ** 2) / 2) for x in reach]
    whole = sum(mass)
    assert typical(scale, kind) == pytest.approx(
        sum(abs(x) * m for x, m in zip(reach, mass, strict=True)) / whole, rel=5e-3
    )
    for chance in (0.5, 0.9, 0.95, 0.999):
        found = within(scale, kind, chance)
        assert sum(m for x, m in zip(reach, mass, strict=True) if abs(x) <= found) / whole >= chance - 2e-3
        assert sum(m for x, m in zip(reach, mass, strict=True) if abs(x) < found) / whole < chance + 2e-3


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_opendp_draws_such_noise(kind: Kind) -> None:
    """Of 4,000 draws, the mean and the number beyond are within 7 standard errors: a chance of 1e-10 each.

    Noise is whole, so that beyond the smallest number that 95 in 100 are within there are somewhat fewer than 5.
    """
    drawn = np.abs(OpenDPNoise().add_noise(np.zeros(4000, dtype=np.int64), 12.0, kind))
    error = math.sqrt((variance(12.0, kind) - typical(12.0, kind) ** 2) / len(drawn))
    assert abs(drawn.mean() - typical(12.0, kind)) < 7 * error
    reach = range(-700, 701)
    mass = np.array([math.exp(-abs(x) / 12.0 if kind == "pure" else -((x / 12.0) ** 2) / 2) for x in reach])
    beyond = float(mass[np.abs(reach) > within(12.0, kind, 0.95)].sum() / mass.sum())
    assert 0.04 < beyond <= 0.05
    assert (drawn > within(12.0, kind, 0.95)).sum() == pytest.approx(
        4000 * beyond, abs=7 * math.sqrt(4000 * beyond * (1 - beyond))
    )
