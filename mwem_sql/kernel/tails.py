"""How far sums of noise may be off: quantiles, from the noise's distribution.

Public all of it: scales and weights decide, no value does. A sum of independent noise is described by its variance and
its fourth cumulant. Gaussian noise has no fourth cumulant. That of Laplace noise is three times the squared variance,
so that a sum of k equal terms has a k-th of it, in proportion: `terms` reads k off the two, also where terms are not
equal, and the quantile is that of a sum of k equal Laplace terms.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.kernel.scales import Kind, variance

HALF_A_STEP: Final = 0.5
"""Noise is on whole numbers. Discrete Laplace noise is no further off than continuous noise of its scale and half a
step (tests/kernel/test_tails.py)."""
_GRID: Final = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 40.0, 100.0)
"""Numbers of Laplace terms whose quantiles are worked out. A sum of more is taken for Gaussian: quantiles up to 1e-6
differ by less than 2%."""
_SLACK: Final = 0.02
"""Of a quantile of one Laplace term, on top; of more terms, in proportion less."""


def cumulants(scale: float, kind: Kind) -> tuple[float, float]:
    """The variance and the fourth cumulant of one cell's noise; of Laplace noise, those of the continuous one."""
    return (2 * scale**2, 12 * scale**4) if kind == "pure" else (variance(scale, kind), 0.0)


def half_widths(variances: Floats, fourths: Floats, miss: float) -> Floats:
    """How far each of several sums of noise may be off, in either direction, but for a chance of `miss`."""
    miss = min(max(miss, 1e-9), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(fourths > 0, 3 * variances**2 / fourths, np.inf)
    deviations = np.sqrt(variances)
    return np.asarray(_quantiles(terms, miss) * deviations + HALF_A_STEP * (deviations > 0))


def half_width(variance: float, fourth: float, miss: float) -> float:
    """The same of one sum."""
    return float(half_widths(np.array([variance]), np.array([fourth]), miss)[0])


def _quantiles(terms: Floats, miss: float) -> Floats:
    """In standard deviations, by interpolation in the logarithm of the number of terms; they fall as it grows."""
    listed = np.array([_of_terms(count, miss) for count in _GRID] + [NormalDist().inv_cdf(1 - miss / 2)])
    logs = np.append(np.log(_GRID), math.log(_GRID[-1]) + 1)
    between = np.interp(np.log(np.clip(terms, 1.0, _GRID[-1] * math.e)), logs, listed)
    return np.asarray(np.where(np.isinf(terms), listed[-1], between))


@lru_cache(maxsize=4096)
def _of_terms(terms: float, miss: float) -> float:
    """The x that a sum of so many Laplace terms, of variance 1, exceeds in absolute value with chance `miss`."""
    if terms == 1:
        return -math.log(miss) / math.sqrt(2)
    low, high = 0.0, 2 - math.log(miss)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _beyond(middle, terms) > miss else (low, middle)
    return high * (1 + _SLACK / terms)


def _beyond(x: float, terms: float) -> float:
    """The chance of more than x.

    A sum of k Laplace terms is Gaussian noise whose variance is Gamma distributed with shape k: an average over that.
    """
    variances, weights = _gamma(terms)
    return float(
        np.sum(weights * np.array([math.erfc(x / math.sqrt(2 * variance)) for variance in variances.tolist()]))
    )


@lru_cache(maxsize=64)
def _gamma(shape: float) -> tuple[Floats, Floats]:
    """Points and weights of a Gamma distribution with mean 1, evenly spaced in the logarithm."""
    logs = np.linspace(-14 / shape - 3 / math.sqrt(shape), math.log(1 + 40 / shape), 240)
    density = shape * (logs - np.exp(logs))
    weights = np.exp(density - density.max())
    return np.exp(logs), weights / weights.sum()
