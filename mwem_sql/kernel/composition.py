"""Compositions: epsilon with Laplace noise, or rho (zCDP) with Gaussian noise.

Which of them is taken, and which measurement takes which share, is decided in loop/plan.py.
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

    @property
    def better(self) -> Kind:
        """The kind with less noise, pure at a tie."""
        return "zcdp" if self.zcdp is not None and self.zcdp < self.pure else "pure"


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

    def mean_noise(self, share: Fraction, bound: int = 1) -> float:
        """The absolute value of that noise, on average."""
        return self.scale(share, bound) * (1.0 if self.kind == "pure" else math.sqrt(2 / math.pi))

    def accountant(self) -> Accountant:
        """Open the account that all shares are to be spent from."""
        return Accountant(self.kind, self.limit, self.budget)


def compositions(
    budget: Budget, typical: Mapping[Kind, Fraction], *, sensitivity: int = 1, part: Fraction = Fraction(1)
) -> dict[Kind, Composition]:
    """The kinds that a budget allows, pure first, with the noise of both.

    `typical` is what a measured cell takes of the whole under each kind. (epsilon, 0) implies (epsilon, delta), so that
    with delta > 0 either may be taken. `part` is what of the budget is added up here, where others have the rest.
    """
    limits: dict[Kind, Fraction] = {"pure": budget.epsilon}
    if budget.delta and (rho := zcdp_rho(budget.epsilon, budget.delta)):
        limits["zcdp"] = rho
    limits = {kind: part * limit for kind, limit in limits.items()}
    scales = {kind: noise_scale(typical[kind] * limit, sensitivity, kind).scale for kind, limit in limits.items()}
    predicted = Predicted(math.sqrt(2) * scales["pure"], scales.get("zcdp"))
    return {
        kind: Composition(kind=kind, limit=limit, budget=budget, predicted=predicted, sensitivity=sensitivity)
        for kind, limit in limits.items()
    }
