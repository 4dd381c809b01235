"""What releases cost and what a cap allows: exact, public arithmetic, and the refusals that follow.

Must not read or write a database.

A charge has a scope: for which values of the column that its account is partitioned by it counts. What is spent is a
sum for each value (`sums_by_value`); a cap holds for the largest.

A cap fixes its accountant when it is set; to take whichever turns out tighter afterwards would not be sound. Without
delta, epsilons are added up. With delta everything is kept in rho (zCDP), added up, and converted once, at its delta.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction

from mwem_sql.boundary.scope import EVERYTHING, Key, Scope, kind_of
from mwem_sql.errors import RELEASE, BudgetError, MwemError, OptionError, literal, refuse
from mwem_sql.kernel.budget import MINIMUM_DELTA, Budget
from mwem_sql.kernel.composition import Composition
from mwem_sql.kernel.scales import LARGEST_RHO, pure_rho, zcdp_epsilon, zcdp_rho
from mwem_sql.kernel.thresholds import Threshold
from mwem_sql.language.dialect import fold

# Beyond these a guarantee is a number without protection: e^20 is half a billion, and a delta of 1e-4 gives up one
# release in 10,000.
LARGEST_EPSILON = 20.0
LARGEST_DELTA = 1e-4


@dataclass(frozen=True, kw_only=True)
class PartitionColumn:
    """The column that an account is partitioned by: the curator's word that no row's value in it ever changes.

    `number` is that of the line that declares it: only charges of later lines have a scope. `id` is what the column is
    known by however it is renamed.
    """

    number: int
    name: str
    id: str
    type: str

    def has_kind(self, type_text: str) -> bool:
        """Whether scopes of a column of this type mean the same as when it was declared."""
        return kind_of(self.type) == kind_of(type_text)


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What one release takes: its budget, the same in rho, and whose rows it protects together.

    `failure` is the part of the budget's delta that is no conversion of rho: the chance that a value of a single unit
    is published where a release finds values. (rho, failure) is approximate zCDP (Bun and Steinke 2016, section 8), and
    both add up. `unit` is a column of the protected table, or, if it is `computed`, of a view of it; or a table, if
    `rows_per_unit` is None: then a row of it and all rows that lead to it are one unit, and however many of them a
    release uses, what it costs is for all of them. `unit_id` is what that column or table is known by however it is
    renamed. `scope` are the values of the column `partition` that its rows can have; None: it counts for all values.
    """

    budget: Budget
    rho: Fraction
    unit: str | None = None
    rows_per_unit: int | None = 1
    computed: bool = False
    unit_id: str = ""
    failure: Fraction = Fraction(0)
    scope: Scope | None = None
    partition: PartitionColumn | None = None

    @classmethod
    def of(
        cls, composition: Composition, unit: str | None = None, rows_per_unit: int | None = 1, *, computed: bool = False
    ) -> Charge:
        budget = composition.budget
        rho = composition.limit if composition.kind == "zcdp" else pure_rho(budget.epsilon)
        return cls(budget=budget, rho=rho, unit=unit, rows_per_unit=rows_per_unit, computed=computed)

    def finding(self, threshold: Threshold) -> Charge:
        """With what finding values takes before. The noise of the rest may turn out to be of either kind."""
        budget = Budget(self.budget.epsilon + threshold.budget.epsilon, self.budget.delta + threshold.budget.delta)
        rho = max(self.rho, zcdp_rho(self.budget.epsilon, self.budget.delta))
        return replace(self, budget=budget, rho=rho + threshold.rho, failure=threshold.failure)

    def covers(self, other: Charge) -> bool:
        """Whether another charge for the same rows takes no more, of the same units and of no other values."""
        is_same = replace(self, rho=other.rho, scope=other.scope, partition=other.partition) == other
        is_within = self.scope is None or (self.scope, self.partition) == (other.scope, other.partition)
        return is_same and is_within and other.rho <= self.rho

    @property
    def protects(self) -> str:
        return protected(self.unit, self.rows_per_unit) + (", as a view computes it" if self.computed else "")


@dataclass(frozen=True)
class Cap:
    """The most that all releases of a table may take together, counted for one unit.

    That of a `user` is for what this user of a server asks, whatever the units. One that renews `every` so often is, in
    each window, a new cap: since it was `opened`, what was charged in lines of the journal up to `since` is not
    counted.
    """

    budget: Budget
    unit: str | None = None
    rows_per_unit: int | None = 1
    unit_id: str = ""
    _: KW_ONLY
    user: str | None = None
    every: str | None = None
    opened: datetime | None = None
    since: int = 0

    def renewed(self, moment: datetime, number: int) -> Cap:
        """The cap as it is at a moment: where its window has passed, a new one, for charges of later lines only.

        `number` is that of the journal's last line.
        """
        if self.every is None or self.opened is None:
            return self
        passed = (moment - self.opened) // read_every(self.every)
        if passed < 1:
            return self
        return replace(self, opened=self.opened + passed * read_every(self.every), since=number)

    def following(self, before: Cap | None, moment: datetime) -> Cap:
        """The cap as it is set at a moment: one that renews goes on in the window that is open, if there is one."""
        if self.every is None:
            return self
        if before is not None and before.every is not None:
            return replace(self, opened=before.opened, since=before.since)
        return replace(self, opened=moment)

    @property
    def pure(self) -> bool:
        return self.budget.delta == 0

    def limit(self, failure: Fraction = Fraction(0)) -> Fraction:
        """In epsilon for a pure cap; in rho for another, at what `failure` leaves of its delta."""
        if self.pure:
            return self.budget.epsilon
        left = self.budget.delta - failure
        return zcdp_rho(self.budget.epsilon, left) if left >= MINIMUM_DELTA else Fraction(0)

    @property
    def protects(self) -> str:
        return protected(self.unit, self.rows_per_unit)

    def cost(self, charge: Charge) -> Fraction:
        return charge.budget.epsilon if self.pure else charge.rho

    def left(self, cost: Fraction, failure: Fraction) -> Fraction:
        return max(self.limit(failure) - cost, Fraction(0))

    def epsilon(self, cost: Fraction, failure: Fraction = Fraction(0)) -> float:
        """A sum of costs as epsilon, at what `failure` leaves of the cap's delta."""
        if self.pure or not cost:
            return float(cost)
        left = self.budget.delta - failure
        return _converted(cost, left) if left >= MINIMUM_DELTA else math.inf

    def counts(self, charge: Charge) -> bool:
        """Whether a release protects whom this cap is for. One by a computed unit never does: the view may change."""
        if self.user is not None:
            return True
        if charge.computed or self.rows_per_unit != charge.rows_per_unit:
            return False
        if self.unit is None or charge.unit is None:
            return self.unit == charge.unit
        if self.unit_id or charge.unit_id:
            return self.unit_id == charge.unit_id
        return fold(self.unit) == fold(charge.unit)

    def check(self, table: str, charge: Charge, charges: Sequence[Charge]) -> None:
        """Refuse what cannot be counted under this cap, or does not fit beside other charges at some value."""
        if not self.counts(charge):
            rows = "as many as most of them have" if self.rows_per_unit is None else self.rows_per_unit
            hint = f"give unit := {self.unit!r}, rows_per_unit := {rows}" if self.unit else "leave unit out"
            what = f"a release that protects {charge.protects} cannot be counted under the cap on {table}"
            raise refuse(BudgetError, RELEASE, f"{what}, which is for {self.protects}", hint)
        if self.pure and charge.budget.delta:
            what = f"delta ({float(charge.budget.delta):g}) does not fit the cap on {table}, which has none (delta 0)"
            hint = "leave delta out; a table's cap fixes from the start whether delta may be used"
            raise refuse(BudgetError, RELEASE, what, hint)
        within = EVERYTHING if charge.scope is None else charge.scope
        items = [(each.scope, (self.cost(each), each.failure)) for each in [*charges, charge]]
        totals = [pair for scope, pair in sums_by_value(items) if not scope.is_disjoint(within)]
        cost, failure = min(totals, key=lambda pair: self.limit(pair[1]) - pair[0])
        if cost > self.limit(failure):
            raise self._too_much(table, charge, self.left(cost - self.cost(charge), failure), failure)

    def check_replaces(self, table: str, before: Cap | None, charges: Sequence[Charge]) -> None:
        """Refuse to be set where it could not be kept: what another accountant or unit counted cannot be added up."""
        if charges and before is not None and before.pure != self.pure:
            was, delta = float(before.budget.delta), float(self.budget.delta)
            counted = f"{len(charges)} releases of {table} were counted {'without' if before.pure else 'with'} it"
            change = (
                f"delta ({delta:g}) cannot be changed to or from 0"
                if before.pure
                else f"delta (0) cannot replace {was:g}"
            )
            hint = f"keep delta := {was:g}; which way of counting is the tighter one must not be chosen afterwards"
            raise refuse(BudgetError, "mwem_budget", f"{change}: {counted}", hint)
        if self.pure and any(charge.budget.delta for charge in charges):
            hint = "give delta := 1e-6, or another small number, so that they can be counted"
            what = f"delta (0) does not fit {table}: it has releases with delta above 0"
            raise refuse(BudgetError, "mwem_budget", what, hint)
        other = min((each for each in charges if not self.counts(each)), key=lambda each: each.protects, default=None)
        if other is not None:
            what = f"a cap for {self.protects} cannot count releases of {table} that protect {other.protects}"
            cure = "their unit and rows_per_unit"
            if other.unit is not None and other.rows_per_unit is None:
                cure = f"unit := {literal(other.unit)}"
            raise refuse(BudgetError, "mwem_budget", what, f"set it with {cure}")

    def _too_much(self, table: str, charge: Charge, left: Fraction, failures: Fraction) -> MwemError:
        epsilon, delta = float(charge.budget.epsilon), float(charge.budget.delta)
        what = f"epsilon ({epsilon:g}, delta {delta:g}) does not fit the cap on {table}"
        if charge.scope is not None and charge.partition is not None:
            what += f" for {charge.partition.name} {charge.scope.words(charge.partition.type)}"
        if self.pure:
            rest = f"{float(left):g} of {float(self.limit()):g} is left (delta 0)"
        else:
            limit = self.limit(failures)
            rest = (
                f"its cost in rho is {float(charge.rho):g}, and {float(left):g} of {float(limit):g} is left: "
                f"enough for epsilon {self.epsilon(left, failures):g} at delta {float(self.budget.delta - failures):g}"
                " by Gaussian noise, "
                f"or for {math.sqrt(2 * left):g} by Laplace noise"
            )
        hint = "ask for less, or have the curator raise the cap with mwem_budget"
        if self.user is not None:
            hint = "ask for less, or ask the curator: CALL mwem_request with the same arguments costs nothing"
        return refuse(BudgetError, RELEASE, f"{what}: {rest}", hint)


@dataclass(frozen=True, kw_only=True)
class Balance:
    """What an account's releases have taken together, and its cap. Without a cap epsilons and deltas are added up.

    `seeded` releases were made with a known seed before there was a cap: no budget covers them.
    """

    cap: Cap | None
    spent: Fraction
    delta: Fraction
    seeded: int = 0
    failure: Fraction = Fraction(0)
    """The part of delta that no rho accounts for; 0 without a cap."""

    @classmethod
    def of(cls, cap: Cap | None, charges: Sequence[Charge], seeded: int = 0) -> Balance:
        """Of the value at which least is left, so that `epsilon_left` is what is left for a release of all rows."""
        balances = [balance for _, balance in cls.by_value(cap, charges)]
        if cap is None:
            spent, delta = max(each.spent for each in balances), max(each.delta for each in balances)
            return cls(cap=None, spent=spent, delta=delta, seeded=seeded)
        return replace(min(balances, key=lambda each: cap.limit(each.failure) - each.spent), seeded=seeded)

    @classmethod
    def by_value(cls, cap: Cap | None, charges: Sequence[Charge]) -> list[tuple[Scope, Balance]]:
        """For sets of values that are all values together: what was spent at each."""
        if cap is None:
            items = [(each.scope, (each.budget.epsilon, each.budget.delta)) for each in charges]
            return [(scope, cls(cap=None, spent=spent, delta=delta)) for scope, (spent, delta) in sums_by_value(items)]
        items = [(each.scope, (cap.cost(each), each.failure)) for each in charges]
        delta = Fraction(0) if cap.pure or not charges else cap.budget.delta
        return [
            (scope, cls(cap=cap, spent=spent, delta=delta, failure=failure))
            for scope, (spent, failure) in sums_by_value(items)
        ]

    @property
    def epsilon_spent(self) -> float:
        return float(self.spent) if self.cap is None else self.cap.epsilon(self.spent, self.failure)

    @property
    def epsilon_left(self) -> float | None:
        if self.cap is None:
            return None
        return self.cap.epsilon(self.cap.left(self.spent, self.failure), self.failure)


_UNITS = {"day": timedelta(days=1), "hour": timedelta(hours=1), "week": timedelta(weeks=1)}


def read_every(value: object) -> timedelta:
    """How long a window of a cap lasts, from '30 days' or '12 hours'."""
    match = re.fullmatch(r"\s*([1-9][0-9]{0,4})\s+(day|hour|week)s?\s*", value) if isinstance(value, str) else None
    if match is None:
        what = f"every ({value!r}) must be a number of hours, days or weeks"
        raise refuse(OptionError, "mwem_budget", what, "write '30 days', or leave it out for a cap that never renews")
    return int(match[1]) * _UNITS[match[2]]


_Pair = tuple[Fraction, Fraction]


def sums_by_value(items: Sequence[tuple[Scope | None, _Pair]]) -> list[tuple[Scope, _Pair]]:
    """Sums of pairs at each value of a column; None counts at every value.

    As sets of values that have none in common and are all values together. One pass over the ends of all stretches: at
    each, what begins there is added, and what ends there is taken off.
    """
    changes: dict[Key, list[_Pair]] = {}
    for scope, (first, second) in items:
        for low, high in () if scope is None else scope.stretches:
            if low is not None:
                changes.setdefault(low, []).append((first, second))
            if high is not None:
                changes.setdefault(high, []).append((-first, -second))
    of_null = _sum(pair for scope, pair in items if scope is None or scope.null)
    running = _sum(pair for scope, pair in items if scope is None or scope.begins_below)
    out: list[tuple[Scope, _Pair]] = [(Scope(null=True), of_null)]
    start: Key | None = None
    for end in sorted(changes):
        out.append((Scope(((start, end),)), running))
        running, start = _sum([running, *changes[end]]), end
    return [*out, (Scope(((start, None),)), running)]


def _sum(pairs: Iterable[_Pair]) -> _Pair:
    first, second = Fraction(0), Fraction(0)
    for pair in pairs:
        first, second = first + pair[0], second + pair[1]
    return first, second


def seed_refused(table: str) -> MwemError:
    return refuse(
        BudgetError,
        RELEASE,
        f"a seeded release of {table} is refused, because the table has a cap",
        "leave seed out; seeded noise is for experiments on tables without a cap",
    )


def protected(unit: str | None, rows_per_unit: int | None) -> str:
    """Whose rows neighbouring tables differ by, in words."""
    if unit is not None and rows_per_unit is None:
        return f"one {unit} and all rows that lead to it"
    return "one row" if unit is None else f"one {unit}, at most {rows_per_unit} rows"


def protected_below(unit: str, most: Mapping[str, int]) -> str:
    """The same of several tables: `most` has for each table below the unit's how many rows are used."""
    below = [f"{rows:,} row{'s' if rows > 1 else ''} of {table}" for table, rows in most.items()]
    return f"{protected(unit, None)}, at most {' and '.join(below)}"


def nominal(epsilon: float, delta: float, rows: float | None) -> str | None:
    """Why a guarantee is one in name only, in words; None if it is not. `rows` are those that were released, if any."""
    reasons = []
    if epsilon > LARGEST_EPSILON:
        reasons.append(
            f"epsilon ({epsilon:g}) is above {LARGEST_EPSILON:g}: one row may change the odds by e^{epsilon:g}"
        )
    if delta > LARGEST_DELTA:
        reasons.append(f"delta ({delta:g}) is above {LARGEST_DELTA:g}: with that chance nothing is promised")
    elif rows is not None and delta * rows > 1:
        reasons.append(
            f"delta ({delta:g}) is above 1 / {rows:,.0f} rows: a release that shows one of them as it is may have it"
        )
    return f"nominal guarantee: {'; '.join(reasons)}" if reasons else None


def _converted(rho: Fraction, delta: Fraction) -> float:
    if rho <= LARGEST_RHO:
        return zcdp_epsilon(rho, delta)
    # Beyond what OpenDP converts, and beyond any privacy.
    return float(rho) + 2 * math.sqrt(float(rho) * -math.log(float(delta)))
