"""Draws: exact probabilities of selection and noise, the ends of int64, and what a seed does."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pytest
from chance import sampled

from mwem_sql.kernel.noise import Noise, OpenDPNoise, SeededNoise, saturate
from mwem_sql.kernel.scales import (
    SATURATION,
    Kind,
)

ALPHA = 1e-11
"""How often a comparison of unseeded draws may fail by chance. The suite makes a dozen; what must not be plausible is 7
standard deviations off or more."""


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
@pytest.mark.parametrize("scores", sampled([[0, 1, 2, 4], [3, 0, 3, 5]], 1))
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
@pytest.mark.parametrize("scale", sampled([0.6, 3.3], 1))
def test_noise_has_the_exact_probabilities_around_each_value(make: Make, kind: Kind, scale: float) -> None:
    values = np.tile(np.array([-5, 1000], dtype=np.int64), 15_000)
    noisy = make().add_noise(values, scale, kind)
    expected = {x: p for x, p in masses(scale, kind).items() if abs(x) <= 3 * scale}
    for value in (-5, 1000):
        assert plausible((noisy[values == value] - value).tolist(), expected)
    wrong = {x: p for x, p in masses(1.15 * scale, kind).items() if x in expected}
    assert not plausible((noisy - values).tolist(), wrong)


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
