"""The mechanisms: their distributions, their calibration and their edges, for OpenDP and the seeded stand-in alike.

Counts are judged by Chernoff's bound, which holds for every n: P(n KL(count/n, p) > t) <= 2 exp(-t) for each category.
With t = log(2 categories / alpha) a right sampler fails a test with probability below alpha = 1e-9. The wrong samplers
that the tests name (another mechanism, a scale off by 1.75 or 1.15) pass with probability below 1e-14, by that bound.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.accounting.scales import (
    MAXIMUM_SENSITIVITY,
    MINIMUM_VARIANCE,
    SATURATION,
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
from mwem_sql.errors import OptionError
from mwem_sql.private.noise import Noise, OpenDPNoise, SeededNoise, saturate

ALPHA = 1e-9
NOISES = [pytest.param(OpenDPNoise, id="opendp"), pytest.param(lambda: SeededNoise(7), id="seeded")]
KINDS: list[Kind] = ["pure", "zcdp"]
Make = Callable[[], Noise]


def plausible(draws: Iterable[int], expected: Mapping[int, float]) -> bool:
    """Say whether the draws can come from `expected`; what it does not name is one more category."""
    counts = Counter(draws)
    total = sum(counts.values())
    pairs = [(counts[x] / total, p) for x, p in expected.items()]
    pairs.append((1 - sum(f for f, _ in pairs), max(1 - sum(p for _, p in pairs), 1e-15)))
    return max(total * divergence(f, p) for f, p in pairs) <= math.log(2 * len(pairs) / ALPHA)


def divergence(observed: float, expected: float) -> float:
    parts = ((observed, expected), (1 - observed, 1 - expected))
    return sum(f * math.log(f / p) for f, p in parts if f > 1e-12)  # 0 log 0 is 0.


def permute_and_flip(scores: list[int], scale: float) -> dict[int, float]:
    """Follow the definition by brute force: visit candidates in each order, stop at each with its probability."""
    odds = [math.exp((score - max(scores)) / scale) for score in scores]
    result = dict.fromkeys(range(len(scores)), 0.0)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1 / len(orders)
        for candidate in order:
            result[candidate] += reached * odds[candidate]
            reached *= 1 - odds[candidate]
    return result


def softmax(scores: list[int], scale: float) -> dict[int, float]:
    odds = [math.exp(score / scale) for score in scores]
    return {candidate: odd / sum(odds) for candidate, odd in enumerate(odds)}


def masses(scale: float, kind: Kind) -> dict[int, float]:
    """Give the noise's exact probabilities on the integers, far into the tails."""
    odds = {x: math.exp(-abs(x) / scale if kind == "pure" else -((x / scale) ** 2) / 2) for x in range(-900, 901)}
    return {x: odd / sum(odds.values()) for x, odd in odds.items()}


@pytest.mark.parametrize("make", NOISES)
@pytest.mark.parametrize("scores", [[0, 1, 2, 4], [3, 0, 3, 5]])
def test_selection_has_the_mechanisms_exact_probabilities(make: Make, scores: list[int]) -> None:
    noise, scale, array = make(), 2.0, np.array(scores)
    flips = [noise.select(array, scale, "pure") for _ in range(5000)]
    gumbels = [noise.select(array, scale, "zcdp") for _ in range(5000)]
    assert plausible(flips, permute_and_flip(scores, scale))
    assert plausible(gumbels, softmax(scores, scale))
    assert not plausible(flips, softmax(scores, scale))
    assert not plausible(gumbels, permute_and_flip(scores, scale))
    assert not plausible(flips, permute_and_flip(scores, 1.75 * scale))
    assert not plausible(gumbels, softmax(scores, 1.75 * scale))


def test_the_brute_force_agrees_with_the_measured_figures() -> None:
    assert permute_and_flip([0, 1, 2], 2.0) == pytest.approx({0: 0.147, 1: 0.266, 2: 0.587}, abs=5e-4)


@pytest.mark.parametrize("make", NOISES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.6, 3.3])
def test_noise_has_the_exact_probabilities_around_each_value(make: Make, kind: Kind, scale: float) -> None:
    values = np.tile(np.array([-5, 1000], dtype=np.int64), 15_000)
    noisy = make().add_noise(values, scale, kind)
    expected = {x: p for x, p in masses(scale, kind).items() if abs(x) <= 3 * scale}
    for value in (-5, 1000):
        assert plausible((noisy[values == value] - value).tolist(), expected)
    wrong = {x: p for x, p in masses(1.15 * scale, kind).items() if x in expected}
    assert not plausible((noisy - values).tolist(), wrong)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.3, 0.9, 2.0, 4.9, 5.1, 40.0])
def test_variance_is_that_of_the_distribution(kind: Kind, scale: float) -> None:
    assert variance(scale, kind) == pytest.approx(sum(x * x * p for x, p in masses(scale, kind).items()), rel=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_variance_can_be_divided_by(kind: Kind) -> None:
    assert variance(1e-6, kind) == MINIMUM_VARIANCE > 0
    assert variance(1e15, kind) == pytest.approx(2e30 if kind == "pure" else 1e30)


SHARES = st.fractions(min_value=Fraction(1, 10**15), max_value=10**6).filter(lambda share: share > 0)


@settings(max_examples=150, deadline=None)
@given(SHARES, st.sampled_from([1, 3, 1000, 3000, 2**40]), st.sampled_from(KINDS))
def test_a_calibrated_map_is_at_most_its_share_and_close_to_it(share: Fraction, sensitivity: int, kind: Kind) -> None:
    factor = 2 if kind == "pure" else 1
    for calibrated, rows in (
        (selection_scale(share, sensitivity, kind), factor),
        (noise_scale(share, sensitivity, kind), 1),
    ):
        assert Fraction(calibrated.map) <= share
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

    monkeypatch.setattr("mwem_sql.accounting.scales.make_noise", lambda *_: Stubborn())
    with pytest.raises(
        OptionError, match=r"a share of the budget \(0\.123\) must be within reach of a noise scale\. Hint: "
    ):
        noise_scale(Fraction(123, 1000), 1, "pure")


@pytest.mark.parametrize("make", NOISES)
@pytest.mark.parametrize("kind", KINDS)
def test_extremes_of_int64_saturate_and_never_raise(make: Make, kind: Kind) -> None:
    extremes = np.array([2**63 - 1, -(2**63), 0, 2**31, -1])
    assert make().select(extremes, 1e-6, kind) == 0
    assert make().select(-np.array([2**63 - 1, 7]), 1e-6, kind) == 1
    for scale in (1.0, 1e12, 1e18):
        noisy = make().add_noise(extremes, scale, kind)
        assert noisy.shape == extremes.shape
        assert noisy.dtype == np.int64
    quiet = make().add_noise(extremes, 1e-6, kind)
    assert quiet.tolist() == saturate(extremes).tolist() == [SATURATION, -SATURATION, 0, 2**31, -1]


@pytest.mark.parametrize("make", NOISES)
@pytest.mark.parametrize("kind", KINDS)
def test_read_only_and_strided_arrays_are_taken_and_left_alone(make: Make, kind: Kind) -> None:
    array = np.arange(20, dtype=np.int64)
    array.setflags(write=False)
    assert make().select(array, 1e-6, kind) == 19
    assert make().select(array[::-1], 1e-6, kind) == 0
    assert make().add_noise(array, 1e-6, kind).tolist() == list(range(20))
    assert make().add_noise(array[::2], 1e-6, kind).tolist() == list(range(0, 20, 2))
    assert array.tolist() == list(range(20))
    assert make().add_noise(array[:0], 1.0, kind).size == 0


def test_a_seed_repeats_the_draws_and_is_not_private() -> None:
    scores, values = np.arange(50) // 10, np.zeros(40, dtype=np.int64)

    def draws(noise: Noise) -> list[int]:
        picks = [noise.select(scores, 3.0, kind) for kind in KINDS for _ in range(20)]
        return picks + [x for kind in KINDS for x in noise.add_noise(values, 9.0, kind).tolist()]

    assert draws(SeededNoise(3)) == draws(SeededNoise(3)) != draws(SeededNoise(4))
    assert draws(OpenDPNoise()) != draws(OpenDPNoise())
    assert OpenDPNoise().private
    assert not SeededNoise(3).private


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("share", [Fraction(1, 3), Fraction(1, 1000), Fraction(7)])
@pytest.mark.parametrize("sensitivity", [1, 3, 1000])
def test_scale_of_many_costs_at_most_the_share(kind: Kind, share: Fraction, sensitivity: int) -> None:
    calibrated = many_scale(share, sensitivity, kind)
    epsilon = 2 * sensitivity * (1 + SLACK) / Fraction(calibrated.scale)
    cost = epsilon if kind == "pure" else epsilon**2 / 8
    assert cost <= Fraction(calibrated.map) <= share
    assert calibrated.scale < selection_scale(share, sensitivity, kind).scale * float(1 + SLACK) * (1 + 1e-12)


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
    """Of 4,000 draws, the mean is within 5.5 standard errors, and so is the number beyond the reach: a chance of less than 1e-7 each."""
    drawn = np.abs(OpenDPNoise().add_noise(np.zeros(4000, dtype=np.int64), 12.0, kind))
    error = math.sqrt((variance(12.0, kind) - typical(12.0, kind) ** 2) / len(drawn))
    assert abs(drawn.mean() - typical(12.0, kind)) < 5.5 * error
    assert (drawn > within(12.0, kind, 0.95)).sum() < 4000 * 0.05 + 5.5 * math.sqrt(4000 * 0.05 * 0.95)
