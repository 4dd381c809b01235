"""What a model is fitted to: measured values of queries with their noise, and how far off the model is. Only records: the fit is in `fit`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import LinearQuery


@dataclass(frozen=True, eq=False)
class Target:
    """What a tree is fitted to: a query over attributes of one clique, its measured values and their variance, one for all or one each."""

    query: LinearQuery
    values: Floats
    variance: float | Floats

    @property
    def variances(self) -> Floats:
        return np.full(len(self.values), self.variance)

    @property
    def sharpest(self) -> float:
        return float(self.variance.min()) if isinstance(self.variance, np.ndarray) else self.variance

    def misfit(self, answer: Floats) -> float:
        """The sum over all cells of (q(A) - m)^2 / variance."""
        return float((np.square(answer - self.values) / self.variance).sum())


@dataclass(frozen=True, eq=False)
class Fitted:
    """The misfit is the sum over all cells of (q(A) - m)^2 / variance."""

    misfit: float
    steps: int


@dataclass(frozen=True)
class Note:
    """The misfit of a clique's targets when they were last fitted and now, and the number of their cells."""

    last: float
    now: float
    cells: int

    @property
    def scale(self) -> float:
        return max(self.last, self.cells)
