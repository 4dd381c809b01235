"""States from a noisy histogram of the whole domain: where the loop starts, or all there is to a small domain. Sees released values only."""

from __future__ import annotations

import math

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.algebra.table import Table
from mwem_sql.loop.refinement import FLOOR
from mwem_sql.model.state import State
from mwem_sql.model.tree import LOWEST_LOG, SMALLEST_FLOAT

REST_SHARE = 0.05
"""Of n: what a histogram start keeps at least for the cells that it cannot tell from noise."""
HALVINGS = 60
"""Of an interval: to the last bit, or nearly."""


def with_prior(h: Floats, variance: float, base: Floats) -> Floats:
    """The weights p, with the sum of `base`, that minimise sum (h - p)^2 / (2 variance) + k KL(p || base) for k = a record per cell.

    KL is that of the distributions. A histogram that is nothing but noise leaves the base measure, one without noise stays as it is, and no
    cell becomes 0. At the minimum (p - h) / variance + k / n log(p / base) is the same number s for all cells.
    """
    n, base = float(base.sum()), np.maximum(base, SMALLEST_FLOAT)
    pull = h.size / n

    def weights(s: float) -> Floats:
        # By halving log(p / base), which the left side grows with.
        low, high = np.full(h.size, LOWEST_LOG), np.full(h.size, -LOWEST_LOG)
        for _ in range(HALVINGS):
            x = (low + high) / 2
            above = (base * np.exp(np.minimum(x, -LOWEST_LOG)) - h) / variance + pull * x > s
            low, high = np.where(above, low, x), np.where(above, x, high)
        return np.asarray(base * np.exp(low))

    # The weights grow with s. Below the first of these numbers each is less than its part of n, above the second more.
    marks = (base - h) / variance
    low, high = float(marks.min()), float(marks.max())
    for _ in range(HALVINGS):
        s = (low + high) / 2
        low, high = (low, s) if weights(s).sum() > n else (s, high)
    found = weights(low)
    return np.asarray(found * (n / found.sum()))


def not_impossible(weights: Floats, variance: float, base: Floats) -> Floats:
    """Weights that leave a little to every cell: a count far below 0 leaves next to nothing, and may have come out so by chance."""
    found = np.maximum(weights, np.minimum(base, FLOOR * math.sqrt(variance)))
    return np.asarray(found * (weights.sum() / found.sum()))


def from_histogram(query: LinearQuery, measured: Measurement, uniform: State) -> State:
    """A_0 from a noisy histogram: cells above what noise reaches keep their count, the others share the rest of n."""
    n = uniform.total
    h = measured.values.astype(np.float64)
    # The largest of so many draws is about this.
    reach = math.log(max(h.size, 2))
    frequent = h > measured.scale * (reach if measured.kind == "pure" else math.sqrt(2 * reach))
    weights = np.where(frequent, h, 0.0)
    others = np.where(frequent, 0.0, uniform.marginal(query.attributes).ravel())
    if others.any():
        weights += others * (max(n - weights.sum(), REST_SHARE * n) / others.sum())
    return dense(query, weights, uniform)


def dense(query: LinearQuery, weights: Floats, uniform: State) -> State:
    """A state of one clique over the whole domain."""
    state = State.of([Table(query.attributes, weights.reshape(query.shape))], uniform.attributes)
    state.rescale(uniform.total)
    return state
