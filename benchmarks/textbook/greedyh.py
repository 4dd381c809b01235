"""GreedyH: the second stage of DAWA by itself. Li, Hay, Miklau and Wang (2014), "A data- and workload-aware algorithm
for range queries".

A binary tree over the cells; how much of epsilon a level has is fitted to the workload, bottom up and greedily: the
nodes of a level take the part of their subtrees' budget that makes the squared error of the workload within these
subtrees smallest. Then least squares.
"""

from __future__ import annotations

import numpy as np

from textbook.curator import Curator
from textbook.tree import consistent

# Parts of a subtree's budget that its top may take. All of it is not among them: the leaves must be measured.
PARTS = np.linspace(0, 0.98, 50)


def greedyh(curator: Curator, epsilon: float, queries: np.ndarray) -> np.ndarray:
    """`queries` has a row per query of the workload, or of a sample of it, and a column per cell, in the order of the
    curator's cells.
    """
    return over(curator, epsilon, np.arange(curator.cells), queries)


def over(curator: Curator, epsilon: float, leaf: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The estimated counts of leaves; `leaf` numbers each cell's, `queries` has a column per leaf."""
    leaves = queries.shape[1]
    shares = epsilon * fitted_shares(queries)
    levels = [level for level, share in enumerate(shares) if share > 0]
    groups = [np.arange(leaves) >> (len(shares) - 1 - level) for level in levels]
    measured = [curator.counts(group[leaf], shares[level]) for level, group in zip(levels, groups, strict=True)]
    variance = [np.full(len(counts), 2 / shares[level] ** 2) for level, counts in zip(levels, measured, strict=True)]
    return consistent(groups, measured, variance)


def fitted_shares(queries: np.ndarray) -> np.ndarray:
    """For each level from the root to the leaves: its share of the budget; they add up to 1.

    With C the covariance of a subtree's leaves under a budget of 1, a part p for its top gives C / (1 - p)^2 - p^2 v v'
    / ((1 - p)^2 ((1 - p)^2 + p^2 s)), where v = C 1 and s = 1' C 1 (Sherman and Morrison), so all that need be known of
    C is the error of the queries, tr(W C W'), the vector W v, and s. A query that holds all of the node above is not
    counted: it will be answered from there. (The authors discount it by a power of the depth instead; on 64 and 256
    cells this comes within a fifth of the best shares that a search found.)
    """
    along = queries.astype(np.float64)
    covers = along == 1
    spread = np.ones(along.shape[1])
    error = (np.where(_above(covers), 0, along) ** 2).sum(axis=0)
    parts = []
    while len(error) > 1:
        error, spread, along = (np.add(*_halves(values, 0)) for values in (error, spread, along))
        covers = np.logical_and(*_halves(covers, 1))
        above = _above(covers)
        error = error + (covers & ~above).sum(axis=0) * spread
        gain = (np.where(above, 0, along) ** 2).sum(axis=0)
        kept, taken = (1 - PARTS[:, None]) ** 2, PARTS[:, None] ** 2
        tried = error / kept - taken * gain / (kept * (kept + taken * spread))
        best = int(tried.sum(axis=1).argmin())
        shrink = 1 / (kept[best] + taken[best] * spread)
        error, spread, along = tried[best], spread * shrink, along * shrink
        parts.append(PARTS[best])
    left = np.cumprod([1, *(1 - np.array(parts[::-1]))])
    return left * np.array([*parts[::-1], 1])


def _halves(values: np.ndarray, missing: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the second child of every node above, along the last axis; the last one may have one child only."""
    second = values[..., 1::2]
    if values.shape[-1] % 2:
        second = np.concatenate([second, np.full_like(second, missing, shape=(*second.shape[:-1], 1))], axis=-1)
    return values[..., ::2], second


def _above(covers: np.ndarray) -> np.ndarray:
    """Whether each query holds all of the node above each node; nothing is above the root."""
    if covers.shape[1] == 1:
        return np.zeros_like(covers)
    return np.repeat(np.logical_and(*_halves(covers, 1)), 2, axis=1)[:, : covers.shape[1]]
