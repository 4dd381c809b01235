"""The account of one run: what was debited and what the mechanisms took, as exact sums of fractions.

In floats 0.1 + 0.1 + 0.1 > 0.3. It must not draw noise or see an answer.

Why the shares may simply be added although each round depends on the last: the adversary of the composition theorems
chooses every mechanism after seeing all earlier outputs; query, approximation and candidates are functions of those.
For pure epsilon the privacy loss of a transcript is the sum of the steps' losses, each at most its share whatever came
before (Dwork and Roth 2014, appendix B); for zCDP the Renyi divergences of adaptively chosen steps add up (Bun and
Steinke 2016, lemma 2.3). A loop that also chooses its next share from released outputs (`rounds := NULL`, where n says
how many there are) needs a privacy filter: a debit refused at the limit is that filter (Rogers, Roth, Ullman and Vadhan
2016). For pure epsilon nothing new is to be shown: the sum along every transcript stays within the limit. For zCDP
shares that depend on outputs, and whose sum never exceeds the limit, add up as if they were fixed: Feldman and Zrnic
2021 for Renyi divergences of any order, Whitehouse and others 2023 for approximate zCDP, and so OpenDP's fully adaptive
composition.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from mwem_sql.errors import RELEASE, BudgetError, MwemError, refuse
from mwem_sql.kernel.budget import Budget, shown
from mwem_sql.kernel.scales import Kind, pure_rho, zcdp_epsilon


class AccountingError(BudgetError):
    """A mechanism took more than its share: a fault of this package, never of the request."""


class Accountant:
    """Keeps the shares that were debited and the costs that OpenDP's maps gave, both as exact sums.

    A step debits its share, draws, and records its map. A debit is never undone, whatever became of the
    draw.
    """

    def __init__(self, kind: Kind, limit: Fraction, budget: Budget | None = None) -> None:
        """Open an account of `limit` (epsilon for pure, rho for zcdp) that must stay within `budget`."""
        if kind == "zcdp" and budget is None:
            raise fault("an account in rho (None) must name the budget that it converts to")
        self._kind, self._limit = kind, limit
        self.budget: Final = budget or Budget(limit)
        self._spent = self._recorded = self._mapped = Fraction(0)
        self._check_limit()

    @property
    def kind(self) -> Kind:
        return self._kind

    @property
    def limit(self) -> Fraction:
        return self._limit

    def count_in_rho(self, limit: Fraction) -> None:
        """Go on in rho, after steps without a delta, once what they released says that this is better.

        What was taken so far is epsilon_0-differentially private, hence epsilon_0^2 / 2 in rho (Bun and Steinke 2016,
        proposition 1.4). Let Y be the outputs of those steps after which the account goes on in rho. An event of the
        whole run is the union of what has an output outside Y and what has one in Y. Of the first, losses add up to
        epsilon at most. The second is an event of the mechanism that stops outside Y, and all of that is in rho: its
        probability is at most e^epsilon times that of the neighbour, plus delta. The sum of both bounds is the claim.
        """
        if self._kind != "pure" or not self.budget.delta:
            raise fault(f"an account in {_unit(self._kind)} (delta {self.budget.delta}) must not go on in rho")
        self._kind, self._limit = "zcdp", limit
        self._spent, self._recorded, self._mapped = (
            pure_rho(taken) for taken in (self._spent, self._recorded, self._mapped)
        )
        if self._spent > limit:
            raise fault(f"what was taken ({shown(self._spent)}) must fit the limit in rho ({shown(limit)})")
        self._check_limit()

    @property
    def spent(self) -> Fraction:
        """The sum of the shares debited."""
        return self._spent

    @property
    def remaining(self) -> Fraction:
        """What may still be debited."""
        return self.limit - self._spent

    @property
    def mapped(self) -> Fraction:
        """The exact sum of the recorded maps: never more than `spent`."""
        return self._mapped

    def debit(self, share: Fraction) -> None:
        """Take `share` before its mechanism runs; refused, and nothing taken, when it does not fit."""
        if share <= 0:
            raise fault(f"a share ({shown(share)}) must be positive")
        if share > self.remaining:
            raise refuse(
                BudgetError,
                RELEASE,
                f"the next share ({shown(share)}) must fit what is left of {_unit(self.kind)}"
                f" ({shown(self.remaining)} of {shown(self.limit)})",
                "raise epsilon or use fewer rounds",
            )
        self._spent += share

    def record(self, map_value: float, share: Fraction) -> None:
        """Keep what a mechanism's map says it cost; refused when above the share debited for it."""
        if not math.isfinite(map_value) or not 0 <= Fraction(map_value) <= share:
            raise fault(f"the cost of a mechanism ({map_value!r}) must not exceed its share ({shown(share)})")
        if self._recorded + share > self._spent:
            raise fault(f"a recorded share ({shown(share)}) must have been debited first")
        self._recorded += share
        self._mapped += Fraction(map_value)

    def settle(self) -> None:
        """Check the whole account before anything is published."""
        if not self._mapped <= self._recorded <= self._spent <= self.limit:
            raise fault(f"the costs ({shown(self._mapped)}) must not exceed the limit ({shown(self.limit)})")
        self._check_limit()

    def _check_limit(self) -> None:
        # Costs within the limit convert to no more than the limit does, so this covers the sum of the maps too.
        epsilon = self.limit if self.kind == "pure" else Fraction(zcdp_epsilon(self.limit, self.budget.delta))
        if epsilon > self.budget.epsilon:
            raise fault(f"the limit ({shown(epsilon)}) must not exceed epsilon ({shown(self.budget.epsilon)})")


def _unit(kind: Kind) -> str:
    return "epsilon" if kind == "pure" else "rho"


def fault(what: str) -> MwemError:
    return refuse(AccountingError, RELEASE, what, "this is a fault in mwem_sql: please report it")
