"""What the loop is given and what it gives: the problem and the outcome.

Public or released, all of it. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from mwem_sql.algebra.arrays import Floats, Labels
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.measurement import Measurement, NoisyValues, Purpose
from mwem_sql.algebra.partition import refine
from mwem_sql.algebra.queries import Queries
from mwem_sql.algebra.totals import Totals
from mwem_sql.domains.detail import Detail
from mwem_sql.loop.details import DetailRows
from mwem_sql.loop.plan import Planned, Schedule
from mwem_sql.model.fit import Target
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.parents import Parents
from mwem_sql.model.projection import project
from mwem_sql.model.start import Start
from mwem_sql.model.state import State
from mwem_sql.model.support import Support

TOTAL = LinearQuery(())

Part: TypeAlias = Literal["directly", "others", "most"]
"""The mean error of queries that were measured, and of all others; the cell error that most of these others do not
exceed."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """What the loop is given: public all of it.

    `queries` are what rounds select among, and what is planned; they are numbered from 0. A histogram of the whole
    domain, what is `pushed` down only to be certified, `details`, by attribute, and the total have the numbers after
    them, in this order. `certified` are queries of the workload, by number: in the end it is told how far off they
    are. `max_cells` is for one factor of the state. `support` is where records can be; None for everywhere.
    `start` is what the run begins with; None for the even distribution. A problem that `is_below` others is about rows
    that lead to rows of their tables: `parents` is what these say, and what its run begins with. `totals` are public
    counts that every state agrees with, `public_counts` the same as measurements without noise; no round selects what
    follows from them (`determined`, by number).
    """

    queries: Queries
    weights: Floats
    sizes: Mapping[str, Floats]
    max_cells: int
    total: float | None = None
    histogram: LinearQuery | None = None
    average: bool = False
    fit: str = "mirror"
    details: Mapping[str, Detail] = field(default_factory=dict)
    pushed: Sequence[LinearQuery] = ()
    certified: Mapping[int, LinearQuery] = field(default_factory=dict)
    support: Support[State] | None = None
    start: Start | None = None
    totals: Totals = field(default_factory=Totals)
    public_counts: Sequence[Measurement] = ()
    determined: Sequence[int] = ()
    is_below: bool = False
    parents: Parents | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", Queries.of(self.queries))
        if len(self.weights) != len(self.queries):
            raise ValueError("a problem has one weight per query")

    @cached_property
    def kernel_queries(self) -> Queries:
        """The queries whose true answers the kernel must hold, in the order of their numbers."""
        histogram = [self.histogram] if self.histogram is not None else []
        details = [detail.query for detail in self.details.values()]
        return Queries.joined([self.queries, Queries.of([*histogram, *self.pushed, *details, TOTAL])])

    @property
    def first_pushed(self) -> int:
        """The number of the first query that is pushed down only to be certified."""
        return len(self.queries) + (self.histogram is not None)

    def beginnings(self, total: float) -> list[State]:
        """A_0 before anything is measured: with the start, if there is one, and without it."""
        if self.parents is not None:
            state = self.parents.state(self.sizes, self.support)
            if self.totals.partitions:
                state.rescale(max(total, self.parents.total))
                project(state, self.totals.partitions)
            return [state]
        states = [self.even(total)]
        if self.start is not None:
            states.insert(0, self.start.state(self.sizes, total, self.support))
        for state in states:
            project(state, self.totals.partitions)
        return states

    def even(self, total: float) -> State:
        """The even distribution. The theorem of the average is about queries as they are, and so are its groups."""
        state = State.unsplit(self.sizes, total, self.support)
        if self.average:
            state.partitions.most = None
        return state

    def lines(
        self, ahead: Sequence[Planned], *, selects: bool = True, certify: bool = False, units: bool = False
    ) -> list[Planned]:
        """The whole plan, in the order in which it is measured, around what is measured `ahead` of rounds.

        Without rounds, all that is measured says what the total is; below other tables, their rows say it until then.
        """
        total = Planned(purpose="total", number=len(self.kernel_queries) - 1)
        details = [
            Planned(purpose="detail", number=number, cells=detail.count)
            for number, detail in enumerate(self.details.values(), start=self.first_pushed + len(self.pushed))
        ]
        return [
            *([total] if selects and self.total is None and not self.is_below else []),
            *ahead,
            *([Planned(purpose="start")] if selects and self.start is not None else []),
            *details,
            *([Planned(purpose="certify")] if certify else []),
            *([Planned(purpose="units")] if units else []),
        ]

    def histogram_line(self, *, is_start: bool) -> Planned:
        """The histogram of the whole domain as a line: what a run starts from, or what takes the place of rounds."""
        assert self.histogram is not None
        if is_start:
            return Planned(purpose="histogram", number=len(self.queries), cells=self.histogram.cells, how="start")
        largest = int(self.queries.cells.max())
        return Planned(
            purpose="round",
            number=len(self.queries),
            importance=float(largest) ** 0.5,
            cells=self.histogram.cells,
            how="single cells",
        )

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
    schedule: Schedule
    """The plan that n decided on."""
    is_empty: bool = False
    """Whether the estimate of the number of rows is nearer to 0 than to 1: a state sums to 1 at least all the same."""
    measurements: tuple[Measurement, ...]
    """In the order in which they were made."""
    details: Mapping[str, DetailRows] = field(default_factory=dict)
    """By attribute, the rows of the cells inside classes."""
    kinds: Mapping[str, Labels] = field(default_factory=dict)
    """As `kinds_of`: of attributes whose groups are larger than what was measured."""
    certificate: Sequence[Figure] = ()
    targets: Sequence[Target] = ()
    """What the state was fitted to."""
    bounds: Callable[[State | Mixture], Floats | None] | None = None
    """Of a state, by query of the problem, a bound of its error from selections: of the sum over its cells, in parts of
    its bound. To be called once, with the last state."""
    units: NoisyValues | None = None
    """How many units have as many rows as are used, and how many have more."""

    def count(self, *purposes: Purpose) -> int:
        """How many measurements had one of these purposes."""
        return sum(measurement.purpose in purposes for measurement in self.measurements)


def kinds_of(state: State | Mixture, measurements: Sequence[Measurement]) -> dict[str, Labels]:
    """By attribute, a number for each class: the same where no measurement distinguishes two classes of a group.

    Only of attributes of which some measurement does.
    """
    out: dict[str, Labels] = {}
    for block in {block for measurement in measurements for block in measurement.query.blocks}:
        if not state.partitions.distinguishes(block):
            for axis, name in enumerate(block.attributes):
                out[name] = refine(out.get(name, state.partitions[name].codes), block.kinds(axis))
    return out


def is_total(query: LinearQuery) -> bool:
    return query.cells == 1 and query.counts_all
