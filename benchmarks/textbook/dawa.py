"""DAWA: Li, Hay, Miklau and Wang (2014), "A data- and workload-aware algorithm for range queries under differential
privacy".

1. With a quarter of epsilon: a partition of the line into buckets that are nearly even inside. A bucket costs its
   deviation, the sum over its cells of |count - mean|, and 1 / epsilon_2 for the noise of its own count. The cost of
   each bucket of a length 2^k gets Laplace noise; the cheapest partition is found by dynamic programming. The noise
   would favour many small buckets, each with a cost below what a bucket can have, so a noisy cost below 1 / epsilon_2
   is set to that.
2. With the rest: GreedyH on the buckets, for the workload as it reads on buckets; a bucket's count is spread evenly
   over its cells.
"""

from __future__ import annotations

import numpy as np

from textbook.curator import Curator
from textbook.greedyh import over

FIRST = 0.25  # of epsilon, for the partition: the paper's choice
# Starts per length of a bucket: buckets up to this long start at every cell, longer ones at every (length / STARTS)-th,
# so that 65,536 cells take a second. The paper has all starts; on 4,096 cells that is a little worse (its error 1.1
# times this one's), for want of fewer noisy costs.
STARTS = 64


def dawa(curator: Curator, epsilon: float, queries: np.ndarray) -> np.ndarray:
    """`queries` has a row per query and a column per cell, in the order of the curator's cells."""
    first = FIRST * epsilon
    begins = partition(curator, first, epsilon - first)
    sizes = np.diff(np.append(begins, curator.cells))
    bucket = np.repeat(np.arange(len(begins)), sizes)
    on_buckets = np.add.reduceat(queries, begins, axis=1) / sizes
    counts = over(curator, epsilon - first, bucket, on_buckets)
    return (counts / sizes)[bucket]


def partition(curator: Curator, first: float, second: float) -> np.ndarray:
    """The first cells of the buckets.

    A record changes the deviation of a bucket of m cells by at most 2 (1 - 1 / m). The authors' noise has the scale (2
    - 1 / m - 1 / N) / epsilon_1 for N cells, and none for m = 1, whose deviation is always 0; that this costs epsilon_1
    in all is theirs and taken as it is.
    """
    cells = curator.cells
    lengths = [2**power for power in range(cells.bit_length()) if 2**power <= cells]
    starts = [np.arange(0, cells - length + 1, max(1, length // STARTS)) for length in lengths]
    scale = np.concatenate(
        [
            np.full(len(own), 0 if length == 1 else (2 - 1 / length - 1 / cells) / first)
            for length, own in zip(lengths, starts, strict=True)
        ]
    )
    noisy = curator.values(
        lambda truth: np.concatenate([_deviations(truth, length) for length in lengths]), scale, first
    )
    cost = np.maximum(noisy + 1 / second, 1 / second)
    ending: list[list[tuple[int, float]]] = [[] for _ in range(cells + 1)]
    for begin, length, own in zip(
        np.concatenate(starts).tolist(), np.repeat(lengths, list(map(len, starts))).tolist(), cost.tolist(), strict=True
    ):
        ending[begin + length].append((begin, own))
    best, come_from = [0.0], [0]
    for ends in ending[1:]:
        total, begin = min((best[begin] + own, begin) for begin, own in ends)
        best.append(total)
        come_from.append(begin)
    found, at = [], cells
    while at > 0:
        at = come_from[at]
        found.append(at)
    return np.array(found[::-1])


def _deviations(truth: np.ndarray, length: int) -> np.ndarray:
    """The sum of |count - mean| of every bucket of that length."""
    windows = np.lib.stride_tricks.sliding_window_view(truth, length)[:: max(1, length // STARTS)]
    sums = np.concatenate([[0], np.cumsum(truth)])
    means = (sums[length:] - sums[:-length])[:: max(1, length // STARTS)] / length
    return (
        np.array([np.abs(window - mean).sum() for window, mean in zip(windows, means, strict=True)])
        if length > 256
        else np.abs(windows - means[:, None]).sum(axis=1)
    )
