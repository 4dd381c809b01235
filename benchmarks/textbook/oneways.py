"""Independent one-way marginals: each attribute's histogram with an even part of epsilon, and their product.

The simplest synthetic table (DPBench's and AIM's "Independent"): no relation between attributes is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from textbook.curator import Curator


def oneways(histograms: Sequence[np.ndarray], epsilon: float, generator: np.random.Generator) -> list[np.ndarray]:
    """Estimated histograms, not negative, all with the mean of the noisy totals as their sum. A record is in one cell
    of each.
    """
    share = epsilon / len(histograms)
    noisy = [Curator(histogram, generator).counts(np.arange(len(histogram)), share) for histogram in histograms]
    total = max(float(np.mean([counts.sum() for counts in noisy])), 1.0)
    return [_to_sum(counts, total) for counts in noisy]


def marginal(estimates: Sequence[np.ndarray], attributes: Sequence[int]) -> np.ndarray:
    """The counts over some attributes if they were independent."""
    total = estimates[0].sum()
    out = np.array(total)
    for attribute in attributes:
        out = np.multiply.outer(out, estimates[attribute] / total)
    return out


def _to_sum(counts: np.ndarray, total: float) -> np.ndarray:
    """The nearest counts that are not negative and have this sum."""
    falling = -np.sort(-counts)
    over = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    last = int((falling > over).sum())
    return np.maximum(counts - over[last - 1], 0)
