"""How a budget is shared out: exact shares for the total, a start, what comes first, rounds and details, which add up to the limit.

Whether epsilon or rho is composed is decided here, by the smaller predicted noise. Which shares a call takes is decided in loop/regimes.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from mwem_sql.errors import RELEASE, OptionError, refuse
from mwem_sql.kernel.accountant import Accountant, fault
from mwem_sql.kernel.budget import Budget, quoted, shown
from mwem_sql.kernel.scales import Kind, noise_scale, zcdp_rho

MAXIMUM_ROUNDS: Final = 10**6
# What a private total and a histogram start take off the top.
TOTAL_SHARE: Final = Fraction(1, 20)
# The same where distributions come first, which tell it better: enough to say how much these should take.
GLANCE_SHARE: Final = Fraction(1, 50)
HISTOGRAM_SHARE: Final = Fraction(1, 4)
# What it takes to tell of how many units rows are left out. One unit counts once there, however many rows it has.
UNITS_SHARE: Final = Fraction(1, 50)
# Of a round: what selecting takes in the paper, whose theorem is about it.
PAPER_SHARE: Final = Fraction(1, 2)


class Predicted(NamedTuple):
    """Standard deviation of the noise on one measured cell under each plan; None where the plan does not exist."""

    pure: float
    zcdp: float | None


@dataclass(frozen=True)
class Split:
    """How the limit is shared: `total + histogram + first + always + rounds * (select + measure) + detail + certify + units == limit`, exactly.

    Shares are in epsilon for the pure kind and in rho for zcdp. `total` is 0 when n is public, `histogram` unless asked
    for, `first` where no marginal is measured ahead of the rounds; `select` and `measure` are for one round. If the split
    is `growing`, later rounds may take more than the first, and there are fewer. `detail` is for what attributes are inside the workload's classes,
    `always` for queries that are measured in any case, `certify` for how far the answers are off in the end, `units` for the units that have more rows than are used. If nothing but what is always measured is left, a
    round has nothing.
    """

    kind: Kind
    limit: Fraction
    total: Fraction
    histogram: Fraction
    first: Fraction
    select: Fraction
    measure: Fraction
    rounds: int
    growing: bool
    predicted: Predicted
    budget: Budget
    detail: Fraction = Fraction(0)
    always: Fraction = Fraction(0)
    certify: Fraction = Fraction(0)
    units: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Refuse shares that do not add up."""
        once = self.total, self.histogram, self.first, self.always, self.detail, self.certify, self.units
        shares = sum(once) + self.rounds * (self.select + self.measure)
        if shares != self.limit or min(*once, self.select, self.measure) < 0:
            raise fault(f"the shares ({shown(shares)}) must add up to the limit ({shown(self.limit)})")

    @property
    def model(self) -> Fraction:
        """What the model is made of: all but what is told beside it."""
        return self.limit - self.detail - self.certify - self.units

    @property
    def refined(self) -> Fraction:
        """What is left for distributions that are refined in the place of rounds."""
        return self.model - self.always

    @property
    def power(self) -> int:
        """Variances fall with this power of a share."""
        return 2 if self.kind == "pure" else 1

    def accountant(self) -> Accountant:
        """Open the account that this split is to be spent from."""
        return Accountant(self.kind, self.limit, self.budget)


def split(
    budget: Budget,
    rounds: int,
    *,
    total_is_public: bool,
    histogram: bool,
    first: Fraction = Fraction(0),
    detail: Fraction = Fraction(0),
    always: Fraction = Fraction(0),
    certify: Fraction = Fraction(0),
    units: Fraction = Fraction(0),
    growing: bool = False,
    selecting: Fraction = PAPER_SHARE,
    sensitivity: int = 1,
    counted_in_rho: bool = False,
    function: str = RELEASE,
) -> Split:
    """Share the budget evenly among rounds, of each of which `selecting` goes to the selection; half is the paper's figure.

    A private total takes 1/20 of the whole, a histogram start 1/4, and what is measured ahead of the rounds `first`, which then tells the
    total, too, so that 1/50 is enough for it. `always` is of what is then left for rounds. With delta > 0 the same split is made of rho too, and the plan whose noise on one measured cell has
    the smaller standard deviation (sqrt(2) times the Laplace scale against sigma) is taken, pure at a tie: (epsilon, 0) implies
    (epsilon, delta). Only public numbers decide. `counted_in_rho`: the table's cap adds up rho, in which Laplace noise would cost far
    more; then the plan of rho is taken.
    """
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= MAXIMUM_ROUNDS:
        raise refuse(
            OptionError,
            function,
            f"rounds ({quoted(rounds)}) must be a whole number from 1 to {MAXIMUM_ROUNDS}",
            "leave rounds out to have it chosen",
        )
    total = Fraction(0) if total_is_public else GLANCE_SHARE if first else TOTAL_SHARE
    start = HISTOGRAM_SHARE if histogram else Fraction(0)
    left = 1 - total - start - first - detail - certify - units
    each = (1 - always) * left / rounds
    measuring = (1 - selecting) * each
    typical = measuring or left

    pure = math.sqrt(2) * noise_scale(typical * budget.epsilon, sensitivity, "pure").scale
    rho = zcdp_rho(budget.epsilon, budget.delta) if budget.delta else Fraction(0)
    predicted = Predicted(pure, noise_scale(typical * rho, sensitivity, "zcdp").scale if rho else None)
    better = predicted.zcdp is not None and (counted_in_rho or predicted.zcdp < predicted.pure)
    kind: Kind = "zcdp" if better else "pure"
    limit = rho if better else budget.epsilon
    return Split(
        kind, limit, total * limit, start * limit, first * limit, selecting * each * limit, measuring * limit, rounds, growing, predicted, budget,
        detail * limit, always * left * limit, certify * limit, units * limit,
    )  # fmt: skip
