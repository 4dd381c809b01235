"""The two ends: every cell measured by itself, and nothing but the total."""

from __future__ import annotations

import numpy as np

from textbook.curator import Curator


def identity(curator: Curator, epsilon: float, _: object = None) -> np.ndarray:
    """Dwork, McSherry, Nissim and Smith (2006): Laplace noise on each cell. A record is in one cell."""
    return curator.counts(np.arange(curator.cells), epsilon)


def uniform(curator: Curator, epsilon: float, _: object = None) -> np.ndarray:
    """The noisy total, spread evenly (Hay et al. 2016,
    DPBench: what any method must beat to have learned something)."""
    total = curator.counts(np.zeros(curator.cells, dtype=np.int64), epsilon)
    return np.full(curator.cells, total[0] / curator.cells)
