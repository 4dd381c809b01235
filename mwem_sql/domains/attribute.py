"""Attribute: a column and every value it may take."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from mwem_sql.errors import MwemError, refuse_domain
from mwem_sql.language.ticks import Scale, Tick, scale_of

CURE = (
    "declare it in the schema (an ENUM or BOOLEAN type, or CHECK (x BETWEEN 0 AND 9)), or in a table <name>_domain with"
    " the columns attribute, values, low, high; mwem_suggest_domain prints one to review. A text column may say"
    " discover = true there: a release with a delta finds its values"
)

SHOWN_EDGES = 40
"""Beginnings of bins that are listed where people read how a range is cut."""


@dataclass(frozen=True)
class Attribute:
    """A column and every value it may take: either a closed list, or all values from `low` to `high`.

    `values` are texts as DuckDB prints them. `low`, `high`, `step` and `edges` are ticks of the type. `bins` cuts a
    range into equal parts; `edges` are where bins begin, the first of which begins at `low` whether it is listed or
    not; with a `step` alone bins begin at `low`, `low + step` and so on. Synthetic values lie on these steps, whatever
    the bins are. A NULL is one more value where `nullable`. An `open` attribute has values off its domain, too, because
    no type and no CHECK keeps them out: those off a list are one more value, `other`, and those beyond a bound count as
    the value `least` or `most`, one tick beyond it, which nothing else counts as. The list of an open text column may
    be empty. One that is to `discover` is completed by each release with the values that enough units have.
    """

    name: str
    type: str
    nullable: bool
    _: KW_ONLY
    values: tuple[str, ...] | None = None
    low: Tick | None = None
    high: Tick | None = None
    step: Tick | None = None
    bins: int | None = None
    edges: tuple[Tick, ...] | None = None
    source: str = "declared"
    open: bool = False
    discover: bool = False

    def __post_init__(self) -> None:
        if self.discover and not (self.type == "VARCHAR" and self.values is not None and self.open):
            raise self.refused(
                f"of type {self.type} cannot be discovered: that is for text whose values neither a type nor a CHECK"
                " lists",
                "leave discover out, and give it values, or low and high; or read it as text in a view",
            )
        if self.values is not None:
            if not self.values and not (self.open and self.type == "VARCHAR"):
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
        if self.bins is not None and self.edges is not None:
            raise self.refused("has both bins and edges", "give one of them")
        if self.step is not None and not 0 < self.step < math.inf:
            raise self.refused(
                f"has step ({self.step}), which must be positive", "leave it out or give a positive number"
            )
        if self.bins is not None and self.bins < 1:
            raise self.refused(
                f"has bins ({self.bins}), which must be at least 1", "leave it out or give a whole number"
            )
        if self.edges is not None:
            self._check_edges(self.edges, self.low, self.high)

    def _check_edges(self, edges: tuple[Tick, ...], low: Tick, high: Tick) -> None:
        if not edges:
            raise self.refused("has an empty list of edges", "list where its bins begin, or leave it out")
        for edge in edges:
            if not low <= edge <= high:
                raise self.refused(
                    f"has the edge {self.text(edge)}, which is not from {self.text(low)} to {self.text(high)}",
                    "give edges between low and high, or change low and high",
                )
        for first, second in pairwise(edges):
            if first >= second:
                raise self.refused(
                    f"has the edge {self.text(second)} after {self.text(first)}, and edges must ascend",
                    "list each beginning of a bin once, the least first",
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
    def step_text(self) -> str | None:
        """The step as a domain table has it: days for dates, seconds for timestamps, units of the value otherwise."""
        if self.step is None:
            return None
        scale = self.ordered
        if not scale.discrete:
            return str(self.step)
        digits = {"decimal": scale.digits, "timestamp": 6, "timestamptz": 6}.get(scale.family, 0)
        return format(Decimal(int(self.step)).scaleb(-digits).normalize(), "f")

    @property
    def cut(self) -> str:
        """How its range is cut, in words; empty where it is not."""
        steps = f"in steps of {self.step_text}" if self.step is not None else ""
        return ", ".join(filter(None, [self._bins, steps]))

    @property
    def _bins(self) -> str:
        if self.bins is not None:
            return f"in {self.bins:,} equal bins" if self.bins > 1 else "in one bin"
        if self.edges is None or self.low is None:
            return ""
        inner = [self.text(edge) for edge in self.edges if edge != self.low]
        shown = inner[:SHOWN_EDGES] + ([f"... ({len(inner):,} in all)"] if len(inner) > SHOWN_EDGES else [])
        return f"in bins that begin at {', '.join([self.text(self.low), *shown])}" if inner else "in one bin"

    @property
    def lacks(self) -> str | None:
        """What it would need to be grouped by, in words; None if it needs nothing."""
        return "step, bins or edges, to be grouped by" if self.cells is None else None

    @property
    def has_bins(self) -> bool:
        """Whether its values are counted in bins: even or listed ones, or steps. `classes.bin_edges` has their ends."""
        return self.bins is not None or self.edges is not None or self.step is not None

    @property
    def other(self) -> str | None:
        """A value off an open list, on which conditions are evaluated for all such values; None where a type has none.

        Conditions that compare with listed values are the same for all of them.
        """
        listed = self.values or ()
        if self.type.startswith("ENUM("):
            labels = [item.name for item in exp.DataType.build(self.type, dialect="duckdb").expressions]
            return next((label for label in labels if label not in listed), None)
        if self.type == "BOOLEAN":
            return next((text for text in ("false", "true") if text not in listed), None)
        if self.scale is not None and self.scale.family in {"integer", "decimal"}:
            digits = self.scale.digits
            above = max(int(Decimal(text).scaleb(digits)) for text in listed) + 1
            return self.text(above if above <= self.scale.limits[1] else self.scale.limits[0])
        return self.other_label if self.type == "VARCHAR" else None

    @property
    def other_label(self) -> str:
        """What answers call the values off a list."""
        name = "(other)"
        while name in (self.values or ()):
            name = f"({name})"
        return name

    @property
    def least(self) -> Tick:
        """The lowest tick that a value counts as: that of all values below the bound, if there may be any."""
        assert self.low is not None
        return self.ordered.before(self.low) if self.has_outer and self.low > self.ordered.limits[0] else self.low

    @property
    def most(self) -> Tick:
        """The highest tick that a value counts as."""
        assert self.high is not None
        return self.ordered.after(self.high) if self.has_outer and self.high < self.ordered.limits[1] else self.high

    @property
    def has_outer(self) -> bool:
        """Whether values beyond the bounds count as ticks of their own."""
        return self.open and self.values is None

    @property
    def outer(self) -> int:
        """How many cells there are beyond the bounds."""
        return int(self.least != self.low) + int(self.most != self.high)

    @property
    def count(self) -> int | None:
        """How many values of its type lie between the bounds; None for real numbers."""
        assert self.low is not None and self.high is not None
        return int(self.high) - int(self.low) + 1 if self.ordered.discrete else None

    @property
    def steps(self) -> int:
        """How many steps there are from the low bound to the high one."""
        assert self.low is not None and self.high is not None and self.step is not None
        return math.floor((self.high - self.low) / self.step * (1 + 1e-12)) + 1

    def on_steps(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The ticks so many steps above the low bound.

        Real numbers are what the decimals of bound and step add up to: 0.3, not 0.30000000000000004.
        """
        assert self.low is not None and self.high is not None and self.step is not None
        if self.ordered.discrete:
            return int(self.low) + numbers * int(self.step)
        digits = max(_digits(self.low), _digits(self.step))
        return self.ordered.nearest(np.minimum(np.round(self.low + numbers * self.step, digits), self.high))

    @property
    def cells(self) -> int | None:
        """How many values it has, with NULL and those beyond its bounds; None for a continuous range without a grid."""
        extra = int(self.nullable)
        if self.values is not None:
            return len(self.values) + int(self.open) + extra
        assert self.low is not None and self.high is not None
        extra += self.outer
        if self.bins is not None:
            return (self.bins if self.count is None else min(self.bins, self.count)) + extra
        if self.edges is not None:
            return len({self.low, *self.edges}) + extra
        if self.step is not None:
            return self.steps + extra
        return None if self.count is None else self.count + extra


def _digits(number: float) -> int:
    """Decimals of a real number, in its shortest text; those of 1e300 are 0."""
    return max(0, -int(Decimal(repr(float(number))).normalize().as_tuple().exponent))
