"""Methods of the literature for histograms and ranges, written for reading, to be compared with. Nothing here is part
of the package.

Each method has a file with the paper it is from and its steps, sees the data through a `Curator` alone, and returns
estimated counts of the cells. tests/project/test_textbook.py checks each against dense algebra and its budget.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from boxes import Boxes

from textbook import hilbert
from textbook.curator import Curator
from textbook.dawa import dawa
from textbook.greedyh import greedyh
from textbook.grids import agrid, ugrid
from textbook.hb import hb
from textbook.identity import identity, uniform
from textbook.mwem import mwem
from textbook.quadtree import quadtree

# Queries of the workload that GreedyH fits its budget to, drawn at random: its fit takes a row of numbers, one per
# cell, for each.
SAMPLE = {1: 512, 2: 128, 3: 128}

Method = Callable[[Curator, float, Boxes], np.ndarray]


def on_curve(method: Callable[[Curator, float, np.ndarray], np.ndarray]) -> Method:
    """A method for the line, along a Hilbert curve where there are several attributes."""

    def run(curator: Curator, epsilon: float, boxes: Boxes) -> np.ndarray:
        order, queries = _along_curve(boxes)
        out = np.empty(curator.cells)
        out[order] = method(curator.along(order), epsilon, queries)
        return out

    return run


@lru_cache(maxsize=2)  # for the runs on a workload, one after another
def _along_curve(boxes: Boxes) -> tuple[np.ndarray, np.ndarray]:
    """The cells along the curve, and the sample of the workload in that order."""
    order = hilbert.order(boxes.shape)
    return order, boxes.sample(SAMPLE[len(boxes.shape)])[:, order]


LINE: dict[str, Method] = {
    "identity": identity, "hb": hb, "greedyh": on_curve(greedyh), "dawa": on_curve(dawa), "mwem": mwem,
    "uniform": uniform,
}  # fmt: skip
METHODS: dict[int, dict[str, Method]] = {
    1: LINE,
    2: {**LINE, "ugrid": ugrid, "agrid": agrid, "quadtree": quadtree},
    3: LINE,
}


def released(
    way: str, histogram: np.ndarray, epsilon: float, boxes: Boxes, generator: np.random.Generator
) -> np.ndarray:
    """A method's estimate of all cells; refuses one that has spent more than it has."""
    curator = Curator(histogram, generator)
    found = METHODS[histogram.ndim][way](curator, epsilon, boxes)
    assert curator.spent.max() <= epsilon * (1 + 1e-9), way
    return found.reshape(histogram.shape)
