"""What the loop is given and what it gives: the problem and the outcome.

Public or released, all of it. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal, TypeAlias

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.measurement import Measurement, NoisyValues, Purpose
from mwem_sql.algebra.queries import Queries
from mwem_sql.domains.detail import Detail
from mwem_sql.loop.details import DetailRows
from mwem_sql.loop.strategy import Always, First
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State

TOTAL = LinearQuery(())

Part: TypeAlias = Literal["directly", "others", "most"]
"""The mean error of queries that were measured, and of all others; the cell error that most of these others do not
exceed."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """What the loop is given: public all of it.

    Kernel query 0 is the total; `queries` follow from 1; a histogram of the whole domain, if asked for, comes after
    them, then what is `pushed` down only to be certified, and `details`, by attribute, last. `certified` are queries of
    the workload, by kernel number: in the end it is told how far off they are. `max_cells` is for one factor of the
    state; `sensitivity` is the kernel's; `first` are histograms over classes that are refined ahead of the rounds, or
    with `whole` instead of them; `always` are measured ahead of either. `at_once`: the only query is the histogram of
    the whole domain.
    """

    queries: Queries
    weights: Floats
    sizes: Mapping[str, Floats]
    max_cells: int
    total: float | None = None
    histogram: LinearQuery | None = None
    average: bool = False
    sensitivity: int = 1
    fit: str = "mirror"
    first: Sequence[First] = ()
    whole: bool = False
    at_once: bool = False
    details: Mapping[str, Detail] = field(default_factory=dict)
    always: Sequence[Always] = ()
    pushed: Sequence[LinearQuery] = ()
    certified: Mapping[int, LinearQuery] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", Queries.of(self.queries))
        if len(self.weights) != len(self.queries):
            raise ValueError("a problem has one weight per query")

    @cached_property
    def kernel_queries(self) -> Queries:
        """The queries whose true answers the kernel must hold, in the order of their numbers."""
        whole = [self.histogram] if self.histogram is not None else []
        details = [detail.query for detail in self.details.values()]
        return Queries.joined([Queries.of([TOTAL]), self.queries, Queries.of([*whole, *self.pushed, *details])])

    def always_shares(self, budget: Fraction) -> list[Fraction]:
        """What each query that is measured in any case takes of what they have together."""
        return shared([own.part for own in self.always], budget)

    def bounds(self) -> list[int]:
        """For each of them, the most that a record adds to a cell."""
        return list(map(int, self.kernel_queries.bounds))


@dataclass(frozen=True, eq=False)
class Figure:
    """A noisy figure of how far the answers to some queries are off: of how many, and which.

    `possible` is the most that it can be without noise, in parts of all rows: the mean over the queries.
    """

    part: Part
    queries: int
    drawn: NoisyValues
    possible: float = 2.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """What a run gives."""

    state: State | Mixture
    total: float
    """What the state sums to: the public constant, or the estimate from all measurements."""
    measurements: tuple[Measurement, ...]
    """In the order in which they were made."""
    details: Mapping[str, DetailRows] = field(default_factory=dict)
    """By attribute, the rows of the cells inside classes."""
    certificate: Sequence[Figure] = ()
    bounds: Floats | None = None
    """By query of the problem, a bound of its error from selections: of the sum over its cells, in parts of its
    bound."""
    units: NoisyValues | None = None
    """How many units have as many rows as are used, and how many have more."""

    def count(self, *purposes: Purpose) -> int:
        """How many measurements had one of these purposes."""
        return sum(measurement.purpose in purposes for measurement in self.measurements)


def shared(parts: Sequence[float], budget: Fraction) -> list[Fraction]:
    """A budget by parts, exactly."""
    exact = [Fraction(part) for part in parts]
    return [budget * part / sum(exact) for part in exact]


def is_total(query: LinearQuery) -> bool:
    return query.cells == 1 and query.counts_all
