"""The baseline of the paper's contingency tables: all low-order parities, measured alike, then fitted.

Barak et al. take every entry of the Hadamard transform that the marginals up to an order depend on, each with the same
noise; a record changes each of them by 1, so with k of them the noise is Laplace(k / epsilon). As in the paper the fit
is multiplicative weights instead of their linear program, and n is public.
"""

from __future__ import annotations

import itertools

import listing
import numpy as np

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.model.fit import Fit, Target
from mwem_sql.model.state import State


def parities(attributes: int, order: int) -> np.ndarray:
    """A row for each set of one to `order` attributes, +1 or -1 in each cell of the table; row-major cells."""
    bits = np.array(list(itertools.product((1, -1), repeat=attributes)), dtype=np.float64)
    sets = [names for size in range(1, order + 1) for names in itertools.combinations(range(attributes), size)]
    return np.array([bits[:, list(names)].prod(axis=1) for names in sets])


def released(histogram: np.ndarray, queries: np.ndarray, epsilon: float, generator: np.random.Generator) -> np.ndarray:
    measured = queries @ histogram.ravel() + generator.laplace(scale=len(queries) / epsilon, size=len(queries))
    return listing.fitted(histogram, queries, measured)


def released_with_our_fit(
    histogram: np.ndarray, order: int, epsilon: float, generator: np.random.Generator
) -> np.ndarray:
    """The same measurements under the fit of a release, weighted by their variance: what is compared is then the choice
    of queries.
    """
    queries = parities(histogram.ndim, order)
    scale = len(queries) / epsilon
    measured = queries @ histogram.ravel() + generator.laplace(scale=scale, size=len(queries))
    names = [str(axis) for axis in range(histogram.ndim)]
    sets = [own for size in range(1, order + 1) for own in itertools.combinations(names, size)]
    sign = np.array([1, -1])
    blocks = {name: Block((name,), np.zeros(2, dtype=np.int32), 1, values=sign) for name in names}
    targets = [
        Target(LinearQuery(tuple(map(blocks.__getitem__, own))), np.array([value]), 2 * scale**2)
        for own, value in zip(sets, measured, strict=True)
    ]
    state = State.uniform({name: np.ones(2) for name in names}, float(histogram.sum()))
    fit = Fit(state)
    fit.fit(targets)
    return state.marginal(names)
