"""Attribute: a column and every value it may take."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mwem_sql.database.ticks import Scale, Tick, scale_of
from mwem_sql.errors import MwemError, refuse_domain

CURE = (
    "declare it in the schema (an ENUM or BOOLEAN type, or CHECK (x BETWEEN 0 AND 9)), or in a table <name>_domain with the "
    "columns attribute, values, low, high; mwem_suggest_domain prints one to review"
)


@dataclass(frozen=True)
class Attribute:
    """A column and every value it may take: either a closed list, or all values from `low` to `high`.

    `values` are texts as DuckDB prints them. `low`, `high` and `step` are ticks of the type. `bins` cuts a continuous
    range into equal parts. A NULL is one more value where `nullable`. An `open` list has others beside it, which all
    count as NULL, so that there is a NULL whatever the column says.
    """

    name: str
    type: str
    nullable: bool
    values: tuple[str, ...] | None = None
    low: Tick | None = None
    high: Tick | None = None
    step: Tick | None = None
    bins: int | None = None
    source: str = "declared"
    open: bool = False

    def __post_init__(self) -> None:
        if self.open and self.values is None:
            raise self.refused(
                "is open but has no list of values", "list the values to be told apart; all others become NULL"
            )
        if self.open and not self.nullable:
            raise self.refused("is open but not nullable", "the values outside the list are shown as NULL")
        if self.values is not None:
            if not self.values:
                raise self.refused("has an empty list of values", "list at least one")
            if len(set(self.values)) < len(self.values):
                twice = next(value for k, value in enumerate(self.values) if value in self.values[:k])
                raise self.refused(f"lists the value {twice!r} twice", "list every value once")
            return
        if self.scale is None:
            raise self.refused(f"has the type {self.type}, which has no bounds", "give it a list of values")
        if self.low is None or self.high is None:
            raise self.refused("has neither a list of values nor both bounds", CURE)
        least, most = self.scale.limits
        if not (least <= self.low <= most and least <= self.high <= most):
            raise self.refused(
                f"has a bound that is not from {self.text(least)} to {self.text(most)}", "give bounds within that"
            )
        if self.low > self.high:
            raise self.refused(f"has low ({self.text(self.low)}) above high ({self.text(self.high)})", "swap them")
        if self.step is not None and self.bins is not None:
            raise self.refused("has both step and bins", "give one of them")
        if self.step is not None and not 0 < self.step < math.inf:
            raise self.refused(
                f"has step ({self.step}), which must be positive", "leave it out or give a positive number"
            )
        if self.bins is not None and self.bins < 1:
            raise self.refused(
                f"has bins ({self.bins}), which must be at least 1", "leave it out or give a whole number"
            )

    def refused(self, what: str, hint: str) -> MwemError:
        return refuse_domain(f"attribute {self.name} {what}", hint)

    @property
    def scale(self) -> Scale | None:
        return scale_of(self.type)

    @property
    def ordered(self) -> Scale:
        """The scale of an attribute with bounds."""
        scale = self.scale
        if scale is None or self.values is not None:
            raise TypeError(f"{self.name} has a list of values, not bounds")
        return scale

    def text(self, tick: Tick) -> str:
        scale = self.scale
        return scale.text(tick) if scale else str(tick)

    @property
    def lacks(self) -> str | None:
        """What it would need to be grouped by, in words; None if it needs nothing."""
        return "step or bins, to be grouped by" if self.cells is None else None

    @property
    def count(self) -> int | None:
        """How many values of its type lie between the bounds; None for real numbers."""
        assert self.low is not None and self.high is not None
        return int(self.high) - int(self.low) + 1 if self.ordered.discrete else None

    @property
    def cells(self) -> int | None:
        """How many values it has, NULL included; None for a continuous range without a grid."""
        extra = int(self.nullable)
        if self.values is not None:
            return len(self.values) + extra
        assert self.low is not None and self.high is not None
        if self.step is not None:
            return math.floor((self.high - self.low) / self.step * (1 + 1e-12)) + 1 + extra
        if self.bins is not None:
            return (self.bins if self.count is None else min(self.bins, self.count)) + extra
        return None if self.count is None else self.count + extra
