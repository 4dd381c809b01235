"""What comes ahead of the rounds or takes their place, and from how many rows on. Public numbers all of it.

The loop asks with the n that it has estimated, a plan with the n that a table may have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from mwem_sql.kernel.scales import noise_scale
from mwem_sql.kernel.split import Split
from mwem_sql.loop.problem import Problem, shared
from mwem_sql.loop.strategy import First

TOLD = 1 / 3
"""Noise on the cells of a cuboid, added up, as a share of n: with less, a histogram of a small domain takes everything. Larger: it does so where noise hides
how attributes go together, and one-way distributions tell more."""


def refined_ahead(problem: Problem, budget: Fraction) -> list[tuple[First, Fraction]]:
    """What is refined first, and the share of each."""
    shares = shared([first.part for first in problem.first], budget)
    return list(zip(problem.first, shares, strict=True)) if budget else []


def told_from(problem: Problem, split: Split) -> float:
    """The n from which on one histogram of the whole domain takes all that rounds have: its noise, added up to the cells of the largest cuboid, is at most `TOLD` of n."""
    assert problem.histogram is not None
    share = split.model - split.total
    cells = max(query.cells for query in problem.queries)
    noise = noise_scale(share, problem.sensitivity, split.kind).scale * math.sqrt(problem.histogram.cells * cells)
    return noise / TOLD


def doubt(problem: Problem, ahead: Sequence[tuple[First, Fraction]], split: Split, n: float) -> float:
    """How large the noise on what is refined first would be, as a share of n: its absolute values over all cells, on average."""
    scales = [noise_scale(share, problem.sensitivity, split.kind).scale for _, share in ahead]
    noise = [problem.queries[first.query].cells * scale for (first, _), scale in zip(ahead, scales, strict=True)]
    return float(np.mean(noise)) / n
