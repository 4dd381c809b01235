"""The choice of a composition: epsilon with Laplace noise, or rho (zCDP) with Gaussian noise.

The smaller predicted noise decides. Which measurement takes which share is decided in loop/plan.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from mwem_sql.kernel.accountant import Accountant
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.scales import Kind, noise_scale, noise_variance, zcdp_rho


class Predicted(NamedTuple):
    """Standard deviation of the noise on one measured cell under each kind; None where the kind does not exist."""

    pure: float
    zcdp: float | None


@dataclass(frozen=True, kw_only=True)
class Composition:
    """What shares add up to: `limit`, in epsilon for the pure kind and in rho for zcdp."""

    kind: Kind
    limit: Fraction
    budget: Budget
    predicted: Predicted
    sensitivity: int = 1
    """Rows of a unit, at most: the kernel's."""

    @property
    def power(self) -> int:
        """Variances fall with this power of a share."""
        return 2 if self.kind == "pure" else 1

    def scale(self, share: Fraction, bound: int = 1) -> float:
        """Of the noise that a share leaves on a cell to which a row adds at most `bound`."""
        return noise_scale(share, self.sensitivity * bound, self.kind).scale

    def variance(self, share: Fraction) -> float:
        """Of the noise that a share leaves on a cell of a count."""
        return noise_variance(share, self.sensitivity, self.kind)

    def accountant(self) -> Accountant:
        """Open the account that all shares are to be spent from."""
        return Accountant(self.kind, self.limit, self.budget)


def compose(
    budget: Budget, typical: Mapping[Kind, Fraction], *, sensitivity: int = 1, counted_in_rho: bool = False
) -> Composition:
    """The kind whose noise on one measured cell has the smaller standard deviation, pure at a tie.

    `typical` is what such a cell takes of the whole under each kind. (epsilon, 0) implies (epsilon, delta), so that
    with delta > 0 either may be taken: sqrt(2) times the Laplace scale is compared with sigma. Only public numbers
    decide. `counted_in_rho`: the table's cap adds up rho, in which Laplace noise would cost far more; then rho is
    taken.
    """
    pure = math.sqrt(2) * noise_scale(typical["pure"] * budget.epsilon, sensitivity, "pure").scale
    rho = zcdp_rho(budget.epsilon, budget.delta) if budget.delta else Fraction(0)
    zcdp = noise_scale(typical["zcdp"] * rho, sensitivity, "zcdp").scale if rho else None
    better = zcdp is not None and (counted_in_rho or zcdp < pure)
    return Composition(
        kind="zcdp" if better else "pure",
        limit=rho if better else budget.epsilon,
        budget=budget,
        predicted=Predicted(pure, zcdp),
        sensitivity=sensitivity,
    )
