"""Scales: how much noise a share of the budget buys. OpenDP's mechanisms, calibrated by OpenDP's maps.

Owns the calibration of selection and noise, the variance of noise, the conversion between rho and (epsilon,
delta), and is the only module that calls OpenDP. Draws nothing, keeps no state, knows no queries or rounds.

Two kinds of plan exist. `pure` composes epsilon: selection is permute-and-flip, noise is discrete Laplace.
`zcdp` composes rho: selection is Gumbel noisy max (the exponential mechanism), noise is discrete Gaussian.
From very many candidates both select by the exponential mechanism, which is our code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final, TypeAlias

import numpy as np

# Module by module: `opendp.prelude` imports scikit-learn where it is installed, which takes longer than all the rest.
from opendp import combinators, domains, measurements, measures, metrics
from opendp.mod import enable_features

from mwem_sql.algebra import measurement
from mwem_sql.errors import RELEASE, OptionError, refuse

enable_features("contrib")

Kind: TypeAlias = measurement.Kind

# The difference of two saturated values still fits an int64.
SATURATION: Final = 2**62 - 1
# OpenDP doubles the sensitivity of a score that is not monotonic, in int64.
MAXIMUM_SENSITIVITY: Final = 2**61
# Whoever weighs measurements by precision divides by the variance; at epsilon 1000 the exact one underflows to 0.
MINIMUM_VARIANCE: Final = 1e-30
# Candidates from which on selection is our exponential mechanism: OpenDP takes a microsecond for each.
MANY_CANDIDATES: Final = 20_000
SLACK: Final = Fraction(1, 2**16)
# Below it the slack would not cover the rounding.
LEAST_EPSILON: Final = 1e-5
# From here on the sum over the integers equals the integral to double precision (error below exp(-2 pi^2 sigma^2)).
_CONTINUOUS_SIGMA: Final = 5.0
# Below it Laplace noise is 0 for all that floats can tell.
_SMALLEST_SCALE: Final = 2e-3
# OpenDP's conversion of rho overflows above about 7e4; the smallest epsilon and delta of a Budget need 4e-28.
_SMALLEST_RHO: Final = 1e-36
LARGEST_RHO: Final = 2.0**16


@dataclass(frozen=True)
class Calibrated:
    """A scale and what OpenDP's map says it costs: epsilon or rho, never above the share it was made for."""

    scale: float
    map: float


def variance(scale: float, kind: Kind) -> float:
    """Give the exact variance of one cell's noise (public: it depends on the scale alone)."""
    if scale == 0:
        return MINIMUM_VARIANCE  # what is public has no noise
    if kind == "pure":
        result = 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2
    elif scale >= _CONTINUOUS_SIGMA:
        result = scale * scale
    else:
        masses = _masses(scale)
        result = 2 * sum(x * x * mass for x, mass in masses) / (1 + 2 * sum(mass for _, mass in masses))
    return max(result, MINIMUM_VARIANCE)


def typical(scale: float, kind: Kind) -> float:
    """Give the mean of the absolute value of one cell's noise, on whole numbers."""
    if kind == "pure":
        return 1 / math.sinh(1 / scale) if scale > _SMALLEST_SCALE else 0.0
    if scale >= _CONTINUOUS_SIGMA:
        return scale * math.sqrt(2 / math.pi)
    masses = _masses(scale)
    return 2 * sum(x * mass for x, mass in masses) / (1 + 2 * sum(mass for _, mass in masses))


def within(scale: float, kind: Kind, chance: float) -> int:
    """Give the least whole number that one cell's noise is within, up or down, with this chance at least."""
    if kind == "pure":
        # Beyond x lie 2 a^(x + 1) / (1 + a), with a = exp(-1 / scale).
        beyond = (1 - chance) * (1 + math.exp(-1 / scale)) / 2
        return max(0, math.ceil(-scale * math.log(beyond) - 1 - 1e-9))
    if scale >= _CONTINUOUS_SIGMA:
        return max(0, math.ceil(scale * NormalDist().inv_cdf((1 + chance) / 2) - 0.5))
    masses = _masses(scale)
    inside, whole, x = 1.0, 1 + 2 * sum(mass for _, mass in masses), 0
    for x, mass in [(0, 0.0), *masses]:  # noqa: B007
        inside += 2 * mass
        if inside >= chance * whole:
            break
    return x


def _masses(scale: float) -> list[tuple[int, float]]:
    """Of discrete Gaussian noise of a small scale, the whole numbers above 0 and how likely each is beside 0."""
    return [(x, math.exp(-((x / scale) ** 2) / 2)) for x in range(1, 64)]


@lru_cache(maxsize=4096)
def selection_scale(share: Fraction, sensitivity: int, kind: Kind) -> Calibrated:
    """Find the scale at which one selection costs at most `share`.

    Privacy:
        Neighbours differ in one row or unit, which moves each score by at most `sensitivity`, some up and some down
        (the score is not monotonic), so the map is 2 * sensitivity / scale
        in epsilon and an eighth of its square in rho; OpenDP's own map decides.
    """
    _check(share, sensitivity)
    start = float(2 * sensitivity / share) if kind == "pure" else sensitivity / math.sqrt(float(2 * share))
    return _calibrate(lambda scale: make_selection(scale, kind).map(sensitivity), start, share)


@lru_cache(maxsize=4096)
def many_scale(share: Fraction, sensitivity: int, kind: Kind) -> Calibrated:
    """Find the scale at which one selection by the exponential mechanism costs at most `share`.

    Privacy:
        As for `selection_scale`: 2 * sensitivity / scale in epsilon, an eighth of its square in rho. The proof is ours
        and is in docs/selection-proof.md; SLACK on the sensitivity covers what floats round.
    """
    _check(share, sensitivity)

    def cost(scale: float) -> Fraction:
        epsilon = 2 * sensitivity * (1 + SLACK) / Fraction(scale)
        return epsilon if kind == "pure" else epsilon**2 / 8

    scale = selection_scale(share, sensitivity, kind).scale * float(1 + SLACK)
    while Fraction(rounded := math.nextafter(float(cost(scale)), math.inf)) > share:
        scale *= 1 + 2.0**-50
    return Calibrated(scale, rounded)


def is_many(candidates: int, share: Fraction, kind: Kind) -> bool:
    """Whether so many are selected from by `select_many`: a rule on public numbers alone."""
    epsilon = float(share) if kind == "pure" else math.sqrt(8 * float(share))
    return candidates >= MANY_CANDIDATES and epsilon >= LEAST_EPSILON


@lru_cache(maxsize=4096)
def noise_scale(share: Fraction, sensitivity: int, kind: Kind) -> Calibrated:
    """Find the scale at which one noisy vector costs at most `share`.

    Privacy:
        Neighbours differ in one row or unit, which moves the vector by at most `sensitivity` in L1 and so in L2: the
        map is sensitivity / scale in epsilon and half its square in rho; OpenDP's own map decides.
    """
    _check(share, sensitivity)
    start = float(sensitivity / share) if kind == "pure" else sensitivity / math.sqrt(float(2 * share))
    return _calibrate(lambda scale: make_noise(scale, kind).map(sensitivity), start, share)


@lru_cache(maxsize=256)
def threshold_scale(share: Fraction, values: int, kind: Kind) -> Calibrated:
    """Find the scale at which noisy counts of values cost at most `share`, the values of a single unit aside.

    Privacy:
        A unit is in at most `values` counts, each by 1: in L1 that is `values` and in L2 its root, which is what
        OpenDP's map goes by.
    """
    _check(share, values)
    start = float(values / share) if kind == "pure" else math.sqrt(float(values / (2 * share)))
    # Where the threshold is does not matter to this part of the map.
    return _calibrate(lambda scale: make_threshold(scale, 2, kind).map((values, values, 1))[0], start, share)


@lru_cache(maxsize=256)
def least_threshold(scale: float, failure: Fraction, values: int, kind: Kind) -> int:
    """Find the least noisy count at which a value of a single unit is published with a chance of at most `failure`.

    Privacy:
        A unit may have `values` such values, and the map counts all of them. OpenDP 0.16 publishes counts from the
        threshold on, the threshold included, and its map leaves the threshold out (`tests/kernel/test_thresholds.py`
        counts both): it says of a threshold what is true of the next one. So the map of the threshold before decides.
    """

    def fits(threshold: int) -> bool:
        return Fraction(make_threshold(scale, threshold - 1, kind).map((values, values, 1))[1]) <= failure

    low, high = 2, 4
    while not fits(high):
        low, high = high, 2 * high
        if high > SATURATION:
            raise refuse(
                OptionError,
                RELEASE,
                f"a part of delta ({float(failure):g}) must be within reach of a threshold",
                "raise delta or epsilon, or lower rows_per_unit",
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def pure_rho(epsilon: Fraction) -> Fraction:
    """A pure epsilon in zCDP (Bun and Steinke 2016, proposition 1.4)."""
    return epsilon**2 / 2


def noise_variance(share: Fraction, sensitivity: int, kind: Kind) -> float:
    """Give the variance that one noisy vector of this share will have in each cell."""
    return variance(noise_scale(share, sensitivity, kind).scale, kind)


@lru_cache(maxsize=1024)
def zcdp_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find the largest float rho that OpenDP converts to at most (epsilon, delta); 0 if there is none."""

    def fits(rho: float) -> bool:
        return rho <= LARGEST_RHO and _profile(rho).delta(_float_below(epsilon)) <= _float_below(delta)

    # Positive doubles are ordered as their bit patterns are, so halving those visits every magnitude in 64 steps.
    low, high = (int(np.float64(end).view(np.int64)) for end in (_SMALLEST_RHO, 2 * LARGEST_RHO))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(float(np.int64(middle).view(np.float64))) else (low, middle)
    rho = float(np.int64(low).view(np.float64))
    # Read the other way the curve is inverted numerically, which may be an ulp stricter.
    while rho > _SMALLEST_RHO and zcdp_epsilon(Fraction(rho), delta) > epsilon:
        rho *= 1 - 2.0**-50
    return Fraction(rho) if rho > _SMALLEST_RHO else Fraction(0)


@lru_cache(maxsize=1024)
def zcdp_epsilon(rho: Fraction, delta: Fraction) -> float:
    """Convert rho-zCDP to the epsilon that OpenDP's curve gives at delta, every rounding against us.

    OpenDP finds it numerically: for one rho, reached in two ways, its answers differ by an ulp or two now and then.
    """
    return float(_profile(-_float_below(-rho)).epsilon(_float_below(delta))) * (1 + 2.0**-48)


def _calibrate(map_of: Callable[[float], float], scale: float, share: Fraction) -> Calibrated:
    # In half of all cases OpenDP's map, which rounds upwards, exceeds the share by an ulp at the closed form's scale.
    step = 2.0**-52
    for _ in range(60):
        cost = float(map_of(scale))
        if math.isfinite(cost) and Fraction(cost) <= share:
            return Calibrated(scale, cost)
        scale, step = scale * (1 + step), 2 * step
    raise refuse(
        OptionError,
        RELEASE,
        f"a share of the budget ({float(share):g}) must be within reach of a noise scale",
        "use an epsilon between 0.001 and 100 and fewer rounds",
    )


def _check(share: Fraction, sensitivity: int) -> None:
    if share <= 0:
        raise refuse(
            OptionError,
            RELEASE,
            f"a share of the budget ({share}) must be positive",
            "raise epsilon or use fewer rounds",
        )
    if not 1 <= sensitivity <= MAXIMUM_SENSITIVITY:
        raise refuse(
            OptionError,
            RELEASE,
            f"the sensitivity ({sensitivity}) must be between 1 and 2^61",
            "lower rows_per_unit, or the bounds of the measures",
        )


def make_selection(scale: float, kind: Kind) -> Any:
    """Permute-and-flip (pure) or Gumbel noisy max (zcdp)."""
    measure = measures.max_divergence() if kind == "pure" else measures.zero_concentrated_divergence()
    return measurements.make_noisy_max(_vectors(), metrics.linf_distance(T="i64"), measure, scale)


def make_noise(scale: float, kind: Kind) -> Any:
    """Discrete Laplace (pure) or discrete Gaussian (zcdp) noise on a vector."""
    if kind == "pure":
        return measurements.make_laplace(_vectors(), metrics.l1_distance(T="i64"), scale)
    return measurements.make_gaussian(_vectors(), metrics.l2_distance(T="i64"), scale)


def make_threshold(scale: float, threshold: int, kind: Kind) -> Any:
    """Discrete Laplace (pure) or discrete Gaussian (zcdp) noise on a count for each key, and those from a threshold on.

    The map takes the number of keys that one unit is in, the most that it adds to all of them, and to one.
    """
    keys = domains.map_domain(domains.atom_domain(T="i64"), domains.atom_domain(T="i64"))
    one: Any = metrics.absolute_distance(T="i64")
    if kind == "pure":
        return measurements.make_laplace_threshold(keys, metrics.l01inf_distance(one), scale, threshold)
    return measurements.make_gaussian_threshold(keys, metrics.l02inf_distance(one), scale, threshold)


def _vectors() -> Any:
    # T="i64" by name: T=int is OpenDP's i32, which raises above 2^31.
    return domains.vector_domain(domains.atom_domain(T="i64"))


def _profile(rho: float) -> Any:
    # OpenDP converts measurements, not numbers (one with a map of our own needs the process-wide "honest-but-curious"
    # flag): take the unit Gaussian at the distance where its own map, rounded upwards, reaches rho.
    gaussian: Any = measurements.make_gaussian(domains.atom_domain(T="i64"), metrics.absolute_distance(T="f64"), 1.0)
    distance = math.sqrt(2 * rho)
    while gaussian.map(distance) < rho:
        distance = math.nextafter(distance, math.inf)
    converted: Any = combinators.make_zCDP_to_approxDP(gaussian)
    return converted.map(distance)


def _float_below(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)
