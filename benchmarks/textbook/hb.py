"""Hb: Qardaji, Yang and Li (2013), "Understanding hierarchical methods for differentially private histograms".

A hierarchy of blocks with the same branching everywhere, epsilon split evenly over its levels, then least squares.
"""

from __future__ import annotations

import math

import numpy as np

from textbook.curator import Curator
from textbook.tree import blocks, consistent


def height(size: int, branching: int) -> int:
    """Levels below the root that it takes to come to single values; the root is not measured."""
    levels = 1
    while branching**levels < size:
        levels += 1
    return levels


def branching(size: int) -> int:
    """The one that makes the mean variance of a range smallest, by the paper's formula for N values: (b - 1) h^3 - 2 (b
    + 1) h^2 / 3.
    """

    def variance(b: int) -> float:
        h = height(size, b)
        return (b - 1) * h**3 - 2 * (b + 1) * h**2 / 3

    return min(range(2, max(size, 2) + 1), key=variance)


def hb(curator: Curator, epsilon: float, _: object = None) -> np.ndarray:
    """Over several attributes a block has b steps along each, where b is the rule's for the longest axis."""
    longest = max(curator.shape)
    b = branching(longest)
    levels = height(longest, b)
    groups = [blocks(curator.shape, b**level) for level in range(levels - 1, -1, -1)]
    share = epsilon / levels
    measured = [curator.counts(one, share) for one in groups]
    variance = [np.full(len(counts), 2 / share**2) for counts in measured]
    assert math.prod(curator.shape) == len(measured[-1])
    return consistent(groups, measured, variance)
