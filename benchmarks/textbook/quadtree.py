"""Quadtree: Cormode, Procopiuc, Srivastava, Shen and Yu (2012), "Differentially private spatial decompositions".

Every axis is halved level by level down to single cells, or TALLEST times. Epsilon is split geometrically, a level
having 2^(1/3) times what the one above it has, which is the paper's optimum for two attributes; then least squares.
"""

from __future__ import annotations

import math

import numpy as np

from textbook.curator import Curator
from textbook.tree import consistent, halvings

TALLEST = 10  # halvings of each axis: the paper's height; 1,024 steps along an axis


def quadtree(curator: Curator, epsilon: float, _: object = None) -> np.ndarray:
    levels = min(TALLEST, math.ceil(math.log2(max(curator.shape)))) + 1
    labels = [halvings(curator.shape, times) for times in range(levels)]
    weights = 2 ** (np.arange(levels) / 3)
    shares = epsilon * weights / weights.sum()
    measured = [curator.counts(group, share) for group, share in zip(labels, shares, strict=True)]
    variance = [np.full(len(counts), 2 / share**2) for counts, share in zip(measured, shares, strict=True)]
    leaf = labels[-1]
    groups = []
    for group in labels:
        of_leaf = np.empty(len(measured[-1]), dtype=np.int64)
        of_leaf[leaf] = group
        groups.append(of_leaf)
    return (consistent(groups, measured, variance) / np.bincount(leaf))[leaf]
