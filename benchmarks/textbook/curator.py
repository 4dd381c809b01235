"""The only door to the private histogram: adds the noise and keeps the account. For comparison, not for release: float
noise, an ordinary generator.

The account has a number per cell: what a record in that cell has paid for. Counts of disjoint groups cost a record the
share of its own group alone, so a method is epsilon-differentially private if no cell has paid more than epsilon
(neighbours differ in one record).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Curator:
    """Holds the counts of all cells in row-major order, or along another order of them."""

    def __init__(self, histogram: np.ndarray, generator: np.random.Generator) -> None:
        self.shape = histogram.shape
        self.generator = generator
        self.spent = np.zeros(histogram.size)
        self._truth = histogram.ravel().astype(np.float64)
        self._places = np.arange(histogram.size)

    @property
    def cells(self) -> int:
        return len(self._truth)

    @property
    def rows(self) -> float:
        """The number of records, for the methods whose papers take it as public."""
        return float(self._truth.sum())

    def along(self, order: np.ndarray) -> Curator:
        """The same cells in another order, as one dimension, on the same account."""
        other = Curator(self._truth[order], self.generator)
        other.spent, other._places = self.spent, self._places[order]
        return other

    def counts(self, groups: np.ndarray, share: float | np.ndarray) -> np.ndarray:
        """Noisy counts of disjoint groups of cells. `groups` numbers each cell's, -1 for none; a share for all groups
        or one for each.
        """
        inside = groups >= 0
        size = int(groups.max()) + 1
        shares = np.broadcast_to(np.asarray(share, dtype=np.float64), (size,))
        self.spent[self._places[inside]] += shares[groups[inside]]
        paid = shares > 0  # a group without a share is not counted
        noise = self.generator.laplace(size=size) / np.where(paid, shares, 1)
        return np.where(paid, np.bincount(groups[inside], self._truth[inside], minlength=size) + noise, 0)

    def values(
        self, function: Callable[[np.ndarray], np.ndarray], scale: np.ndarray | float, share: float
    ) -> np.ndarray:
        """A function of the counts with Laplace noise; the caller says why `scale` makes it cost `share`."""
        self.spent[self._places] += share
        exact = function(self._truth)
        return exact + self.generator.laplace(size=exact.shape) * scale

    def choose(self, score: Callable[[np.ndarray], np.ndarray], share: float) -> int:
        """The exponential mechanism; a record changes each score by 1 at most."""
        self.spent[self._places] += share
        exponents = share * score(self._truth) / 2
        weights = np.exp(exponents - exponents.max())
        return int(self.generator.choice(len(weights), p=weights / weights.sum()))
