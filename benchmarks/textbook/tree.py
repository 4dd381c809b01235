"""Counts of nested groups, measured with noise, made to agree: weighted least squares on a tree, in two passes.

Hay, Rastogi, Miklau and Suciu (2010), "Boosting the accuracy of differentially private histograms through consistency",
for a noise of its own in each node.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np


def consistent(
    groups: Sequence[np.ndarray], measured: Sequence[np.ndarray], variance: Sequence[np.ndarray]
) -> np.ndarray:
    """The least-squares counts of the leaves.

    `groups[l]` has the node of level l that each leaf is in, coarse to fine, the last being the leaves themselves.
    `measured[l]` and `variance[l]` have a number per node; an infinite variance says that it was not measured, which a
    leaf must be.
    """
    parents = []
    for above, below in itertools.pairwise(groups):
        parent = np.empty(len(measured[len(parents) + 1]), dtype=np.int64)
        parent[below] = above
        parents.append(parent)
    best, spread = [np.empty(0)] * len(groups), [np.empty(0)] * len(groups)
    best[-1], spread[-1] = measured[-1], variance[-1]
    for level in range(len(groups) - 2, -1, -1):  # up: what the children say of a node, with what it says itself
        nodes = len(measured[level])
        from_below, its_spread = (
            np.bincount(parents[level], values[level + 1], minlength=nodes) for values in (best, spread)
        )
        own, below = 1 / variance[level], 1 / its_spread
        spread[level] = 1 / (own + below)
        best[level] = (measured[level] * own + from_below * below) * spread[level]
    final = best[0]
    for level, parent in enumerate(
        parents, start=1
    ):  # down: what a parent has more than its children goes to the less certain ones
        missing = final - np.bincount(parent, best[level], minlength=len(final))
        part = spread[level] / np.bincount(parent, spread[level], minlength=len(final))[parent]
        final = best[level] + part * missing[parent]
    return final[groups[-1]]


def blocks(shape: Sequence[int], width: int) -> np.ndarray:
    """The number of each cell's block when every axis is cut into steps of `width`; row-major cells and blocks."""
    steps = [np.arange(size) // width for size in shape]
    return _numbered(steps)


def halvings(shape: Sequence[int], times: int) -> np.ndarray:
    """The number of each cell's block when every axis is halved so many times; numbers that are free are left out."""
    steps = [np.arange(size) * 2**times // size for size in shape]
    return np.unique(_numbered(steps), return_inverse=True)[1].ravel()


def _numbered(steps: Sequence[np.ndarray]) -> np.ndarray:
    mesh = np.meshgrid(*steps, indexing="ij")
    return np.ravel_multi_index(mesh, [int(step.max()) + 1 for step in steps]).ravel()
