"""The paper's own algorithm, from the listing that the tests keep as their oracle: dense arrays, float noise, n public.

For comparison with releases on the same data; nothing here is private.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parent.parent / "tests"))

import oracle

relative_entropy = oracle.relative_entropy


def released(
    histogram: np.ndarray, queries: np.ndarray, rounds: int, epsilon: float, generator: np.random.Generator
) -> np.ndarray:
    """The last approximation; `queries` has a row of values per query and a column per cell of the histogram."""
    truth = histogram.ravel().astype(np.float64)
    uniform = np.full(truth.size, truth.sum() / truth.size)
    states, _ = oracle.mwem(truth, uniform, queries[:, None, :], T=rounds, epsilon=epsilon, generator=generator)
    return states[-1]


def fitted(histogram: np.ndarray, queries: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Uniform weights after the listing's 100 passes over all measurements."""
    size = histogram.size
    return oracle.multiplicative_weights(
        np.full(size, histogram.sum() / size), list(zip(queries[:, None, :], measured[:, None], strict=True))
    )
