"""The privacy budget: reading it, splitting it into shares, and accounting for what the mechanisms took.

Owns every sum of epsilon, delta and rho, as exact fractions: in floats 0.1 + 0.1 + 0.1 > 0.3.
It must not draw noise or see an answer; all of it is public arithmetic.

Why the shares may simply be added although each round depends on the last: the adversary of the composition theorems
chooses every mechanism after seeing all earlier outputs; query, approximation and candidates are functions of those.
For pure epsilon the privacy loss of a transcript is the sum of the steps' losses, each at most its share whatever came
before (Dwork and Roth 2014, appendix B); for zCDP the Renyi divergences of adaptively chosen steps add up (Bun and
Steinke 2016, lemma 2.3). A loop that also chooses its next share from released outputs (`rounds := NULL`, see `Pace`)
needs a privacy filter: a debit refused at the limit is that filter (Rogers, Roth, Ullman and Vadhan 2016). For pure
epsilon nothing new is to be shown: the sum along every transcript stays within the limit. For zCDP shares that depend on
outputs, and whose sum never exceeds the limit, add up as if they were fixed: Feldman and Zrnic 2021 for Renyi divergences of
any order, Whitehouse and others 2023 for approximate zCDP, and so OpenDP's fully adaptive composition.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from mwem_sql.accounting.scales import Kind, noise_scale, zcdp_epsilon, zcdp_rho
from mwem_sql.errors import RELEASE, BudgetError, MwemError, OptionError, refuse

# Below, the noise exceeds any table; above, there is no privacy left to speak of. Both keep every scale a plain double.
MINIMUM_EPSILON: Final = Fraction(1, 10**12)
MAXIMUM_EPSILON: Final = Fraction(10**6)
MINIMUM_DELTA: Final = Fraction(1, 10**300)
MAXIMUM_ROUNDS: Final = 10**6
# What a private total and a histogram start take off the top.
TOTAL_SHARE: Final = Fraction(1, 20)
# The same where distributions come first, which tell it better: enough to say how much these should take.
GLANCE_SHARE: Final = Fraction(1, 50)
HISTOGRAM_SHARE: Final = Fraction(1, 4)
# Noise on distributions of single attributes, as a share of n, above which they take more than that. Larger: more is left for how attributes go
# together. Of nine attributes and 1,300 rows at epsilon 1 that is four rounds; of 0.1 two, of 0.18 eight, both with larger errors:
# `python benchmarks/regret.py --data DIR --work DIR --half choose --parts tables`. And the most that they take: with less, rounds tell noise at epsilon 0.1.
CERTAIN: Final = 0.13
MOST_FIRST: Final = Fraction(9, 10)
# Of a round: what selecting takes in the paper, whose theorem is about it.
PAPER_SHARE: Final = Fraction(1, 2)
# Rounds in a row that together are heard less than this many times as loud as their noise before steps grow: errors as large as the
# noise would be heard so loud.
PATIENCE: Final = 3
AS_LOUD: Final = math.sqrt(2)
# What a step is multiplied by to halve the noise, in epsilon and in rho.
_HALVED: Final = {"pure": 2, "zcdp": 4}

_LONGEST_TEXT: Final = 100


class AccountingError(BudgetError):
    """A mechanism took more than its share: a fault of this package, never of the request."""


@dataclass(frozen=True)
class Budget:
    """(epsilon, delta) as exact rationals of the decimals that the user wrote."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Refuse what `parse` would refuse."""
        if not (isinstance(self.epsilon, Fraction) and isinstance(self.delta, Fraction)):
            raise refuse(
                OptionError, "Budget", "epsilon and delta must be fractions", "use Budget.parse(epsilon, delta)"
            )
        _check_epsilon(self.epsilon, self.epsilon, "Budget")
        _check_delta(self.delta, self.delta, "Budget")

    @classmethod
    def parse(cls, epsilon: object, delta: object = 0, function: str = RELEASE) -> Budget:
        """Read both from text or numbers; a float counts as the shortest decimal that prints it (0.1 is 1/10)."""
        exact_epsilon, exact_delta = _rational(epsilon), _rational(delta)
        _check_epsilon(exact_epsilon, epsilon, function)
        _check_delta(exact_delta, delta, function)
        return cls(Fraction(exact_epsilon), Fraction(exact_delta))


class Predicted(NamedTuple):
    """Standard deviation of the noise on one measured cell under each plan; None where the plan does not exist."""

    pure: float
    zcdp: float | None


@dataclass(frozen=True)
class Split:
    """How the limit is shared: `total + histogram + first + rounds * (select + measure) + detail == limit`, exactly.

    Shares are in epsilon for the pure kind and in rho for zcdp. `total` is 0 when n is public, `histogram` unless asked
    for, `first` where no marginal is measured ahead of the rounds; `select` and `measure` are for one round. If the split
    is `growing`, later rounds may take more than the first, and there are fewer. `detail` is for what attributes are inside the workload's classes.
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

    def __post_init__(self) -> None:
        """Refuse shares that do not add up."""
        shares = self.total + self.histogram + self.first + self.rounds * (self.select + self.measure) + self.detail
        if (
            shares != self.limit
            or min(self.total, self.histogram, self.first, self.select, self.measure, self.detail) < 0
        ):
            raise _fault(f"the shares ({_shown(shares)}) must add up to the limit ({_shown(self.limit)})")

    def accountant(self) -> Accountant:
        """Open the account that this split is to be spent from."""
        return Accountant(self.kind, self.limit, self.budget)


class Pace:
    """Hands out the shares of one round after the other, until all that a split keeps for rounds is spent.

    All rounds take the same, unless the split is growing and some in a row have heard more noise than errors: the next ones
    then take what halves it. This is the paper's doubling within one run, as AIM does it (McKenna and others 2022), but for
    one selection that went wrong. What would not make two more rounds goes to the last. Decides on released values only.
    """

    def __init__(self, split: Split) -> None:
        self._split = split
        self._step = split.select + split.measure
        self._selecting = split.select / self._step
        self._heard: list[float] = []
        self.left = split.rounds * self._step

    @property
    def rounds(self) -> int:
        """How many more rounds there will be if they all take what the next one takes."""
        return max(1, int(self.left / self._step)) if self.left else 0

    def take(self) -> tuple[Fraction, Fraction]:
        """The shares for selecting and measuring in the next round."""
        if self.left < 2 * self._step:
            self._step = self.left
        self.left -= self._step
        return self._selecting * self._step, (1 - self._selecting) * self._step

    def spare(self, first: Fraction, doubt: float) -> Fraction:
        """Take off the rounds what brings the noise of distributions, which would be `doubt` with a share of `first`, down to `CERTAIN`; up to `MOST_FIRST`.

        Rounds tell how attributes go together. As long as noise hides how each is by itself, they tell noise. There are fewer of them then, not smaller ones.
        """
        more = Fraction(max(doubt / CERTAIN, 1.0)) ** (1 if self._split.kind == "pure" else 2) - 1
        taken = max(Fraction(0), min(first * more, (self.left + first) * MOST_FIRST - first))
        self.left -= taken
        return taken

    def hear(self, distance: float, noise: float) -> None:
        """Take note of how far the last measurement was from what was known, and of the noise that it was expected to carry."""
        self._heard.append(distance / noise)
        if self._split.growing and len(self._heard) >= PATIENCE and sum(self._heard[-PATIENCE:]) < AS_LOUD * PATIENCE:
            self._step *= _HALVED[self._split.kind]
            self._heard.clear()


class Accountant:
    """Keeps the shares that were debited and the costs that OpenDP's maps gave, both as exact sums.

    A step debits its share, draws, and records its map. A debit is never undone: a draw that failed may have been seen.
    """

    def __init__(self, kind: Kind, limit: Fraction, budget: Budget | None = None) -> None:
        """Open an account of `limit` (epsilon for pure, rho for zcdp) that must stay within `budget`."""
        if kind == "zcdp" and budget is None:
            raise _fault("an account in rho (None) must name the budget that it converts to")
        self.kind: Final = kind
        self.limit: Final = limit
        self.budget: Final = budget or Budget(limit)
        self._spent = self._recorded = self._mapped = Fraction(0)
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
            raise _fault(f"a share ({_shown(share)}) must be positive")
        if share > self.remaining:
            raise refuse(
                BudgetError,
                RELEASE,
                f"the next share ({_shown(share)}) must fit what is left of {_unit(self.kind)}"
                f" ({_shown(self.remaining)} of {_shown(self.limit)})",
                "raise epsilon or use fewer rounds",
            )
        self._spent += share

    def record(self, map_value: float, share: Fraction) -> None:
        """Keep what a mechanism's map says it cost; refused when above the share debited for it."""
        if not math.isfinite(map_value) or not 0 <= Fraction(map_value) <= share:
            raise _fault(f"the cost of a mechanism ({map_value!r}) must not exceed its share ({_shown(share)})")
        if self._recorded + share > self._spent:
            raise _fault(f"a recorded share ({_shown(share)}) must have been debited first")
        self._recorded += share
        self._mapped += Fraction(map_value)

    def settle(self) -> None:
        """Check the whole account before anything is published."""
        if not self._mapped <= self._recorded <= self._spent <= self.limit:
            raise _fault(f"the costs ({_shown(self._mapped)}) must not exceed the limit ({_shown(self.limit)})")
        self._check_limit()

    def _check_limit(self) -> None:
        # Costs within the limit convert to no more than the limit does, so this covers the sum of the maps too.
        epsilon = self.limit if self.kind == "pure" else Fraction(zcdp_epsilon(self.limit, self.budget.delta))
        if epsilon > self.budget.epsilon:
            raise _fault(f"the limit ({_shown(epsilon)}) must not exceed epsilon ({_shown(self.budget.epsilon)})")


def split(
    budget: Budget,
    rounds: int,
    *,
    total_is_public: bool,
    histogram: bool,
    first: Fraction = Fraction(0),
    detail: Fraction = Fraction(0),
    growing: bool = False,
    selecting: Fraction = PAPER_SHARE,
    sensitivity: int = 1,
    counted_in_rho: bool = False,
    function: str = RELEASE,
) -> Split:
    """Share the budget evenly among rounds, of each of which `selecting` goes to the selection; half is the paper's figure.

    A private total takes 1/20 of the whole, a histogram start 1/4, and what is measured ahead of the rounds `first`, which then tells the
    total, too, so that 1/50 is enough for it. With delta > 0 the same split is made of rho too, and the plan whose noise on one measured cell has
    the smaller standard deviation (sqrt(2) times the Laplace scale against sigma) is taken, pure at a tie: (epsilon, 0) implies
    (epsilon, delta). Only public numbers decide. `counted_in_rho`: the table's cap adds up rho, in which Laplace noise would cost far
    more; then the plan of rho is taken.
    """
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= MAXIMUM_ROUNDS:
        raise refuse(
            OptionError,
            function,
            f"rounds ({_quoted(rounds)}) must be a whole number from 1 to {MAXIMUM_ROUNDS}",
            "leave rounds out to have it chosen",
        )
    total = Fraction(0) if total_is_public else GLANCE_SHARE if first else TOTAL_SHARE
    start = HISTOGRAM_SHARE if histogram else Fraction(0)
    each = (1 - total - start - first - detail) / rounds
    measuring = (1 - selecting) * each

    pure = math.sqrt(2) * noise_scale(measuring * budget.epsilon, sensitivity, "pure").scale
    rho = zcdp_rho(budget.epsilon, budget.delta) if budget.delta else Fraction(0)
    predicted = Predicted(pure, noise_scale(measuring * rho, sensitivity, "zcdp").scale if rho else None)
    better = predicted.zcdp is not None and (counted_in_rho or predicted.zcdp < predicted.pure)
    kind: Kind = "zcdp" if better else "pure"
    limit = rho if better else budget.epsilon
    return Split(
        kind, limit, total * limit, start * limit, first * limit, selecting * each * limit, measuring * limit, rounds, growing, predicted, budget,
        detail * limit,
    )  # fmt: skip


def _rational(value: object) -> Fraction | Decimal:
    """Give the exact number, or a NaN for anything that is none; a Decimal may still have an absurd exponent."""
    if isinstance(value, numbers.Rational) and not isinstance(value, bool):
        return Fraction(int(value.numerator), int(value.denominator))
    # str of a numpy float is its shortest decimal; repr is "np.float64(0.1)".
    text = str(value).strip() if isinstance(value, (str, float, Decimal, np.floating)) else ""
    try:
        return Decimal(text) if len(text) <= _LONGEST_TEXT else Decimal("NaN")
    except InvalidOperation:
        return Decimal("NaN")


def _check_epsilon(exact: Fraction | Decimal, given: object, function: str) -> None:
    hint = "write a decimal such as 0.5; smaller is more private"
    if (isinstance(exact, Decimal) and not exact.is_finite()) or exact <= 0:
        raise refuse(OptionError, function, f"epsilon ({_quoted(given)}) must be a positive finite number", hint)
    if not _within(exact, MINIMUM_EPSILON, MAXIMUM_EPSILON):
        raise refuse(OptionError, function, f"epsilon ({_quoted(given)}) must be between 1e-12 and 1e6", hint)


def _check_delta(exact: Fraction | Decimal, given: object, function: str) -> None:
    hint = "leave delta out for pure epsilon, or write a decimal far below one over the number of rows, such as 1e-9"
    if (isinstance(exact, Decimal) and not exact.is_finite()) or not 0 <= exact < 1:
        raise refuse(OptionError, function, f"delta ({_quoted(given)}) must be a finite number from 0 to below 1", hint)
    if exact != 0 and not _within(exact, MINIMUM_DELTA, Fraction(1)):
        raise refuse(OptionError, function, f"delta ({_quoted(given)}) must be 0 or at least 1e-300", hint)


def _within(exact: Fraction | Decimal, low: Fraction, high: Fraction) -> bool:
    # The exponent first: as a fraction, 1e999999999 would be a gigabyte of digits.
    if isinstance(exact, Decimal) and not -400 < exact.adjusted() < 400:
        return False
    return low <= Fraction(exact) <= high


def _quoted(given: object) -> str:
    if isinstance(given, int) and given.bit_length() > 256:  # Python refuses to print very long integers.
        return f"a whole number of {given.bit_length()} bits"
    if isinstance(given, Fraction):
        return _shown(given)
    text = repr(given)
    return text if len(text) <= 60 else f"{text[:56]}..."


def _shown(exact: Fraction) -> str:
    try:
        return f"{float(exact):.12g}"
    except OverflowError:
        return "beyond 1e308"


def _unit(kind: Kind) -> str:
    return "epsilon" if kind == "pure" else "rho"


def _fault(what: str) -> MwemError:
    return refuse(AccountingError, RELEASE, what, "this is a fault in mwem_sql: please report it")
