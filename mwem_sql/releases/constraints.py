"""What is public of the rows of a release, as constraints of its model: rules and public totals. Costs no budget.

Public all of it; what contradicts itself is refused here, before anything is charged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.algebra.totals import Totals
from mwem_sql.compile.compiled import Compiled
from mwem_sql.compile.rules import Breach
from mwem_sql.compile.totals import KNOWN_SHARE, Counted
from mwem_sql.errors import CellsError, DomainError, refuse
from mwem_sql.judge.evidence import Families
from mwem_sql.loop.strategy import Strategy
from mwem_sql.model.projection import can_agree
from mwem_sql.model.state import State
from mwem_sql.model.support import Support

RULES_SHARE = 0.1
"""Of max_cells: what the attributes of a rule may have together, and all rules in the model. A rule beyond is met by
rows alone. Larger: less room for what is measured."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Constraints:
    """What rules and public totals say of the classes of a workload."""

    sizes: dict[str, int]
    support: Support[State] | None
    """Where rules let records be; None for everywhere."""
    forbidden: tuple[Measurement, ...]
    """What rules say, as counts that are 0."""
    totals: Totals
    public_counts: tuple[Measurement, ...]
    """What public totals say."""

    @classmethod
    def of(
        cls, compiled: Compiled, rules: Sequence[Breach], counted: Counted, *, total: float | None, max_cells: int
    ) -> Constraints:
        """As far as the model has room for rules; totals beyond are refused. `total` is n where it is public."""
        support, forbidden = _support(compiled, rules, max_cells)
        totals = _totals(compiled, counted, support, total, max_cells)
        counts = tuple(
            Measurement.public(each.without_rest, each.rows, "known", ", ".join(each.query.attributes))
            for each in totals.partitions
        )
        sizes = {name: classes.count for name, classes in compiled.classes.items()}
        return cls(sizes=sizes, support=support, forbidden=forbidden, totals=totals, public_counts=counts)

    def determined(self, queries: Sequence[LinearQuery]) -> list[int]:
        """The numbers of the queries whose answers follow from public totals."""
        return (
            np.flatnonzero(Families(self.public_counts, self.sizes).are_exact(queries)).tolist()
            if self.public_counts
            else []
        )

    def undetermined(self, strategy: Strategy) -> Strategy:
        """A strategy without the lines whose values follow from public totals; as it is if these are all it has."""
        determined = set(self.determined(strategy.queries))
        lines = tuple(line for line in strategy.lines if line.number not in determined)
        given = strategy.alternatives
        if given is not None:
            at_once = tuple(line for line in given.at_once if line.number not in determined)
            given = replace(given, at_once=at_once)
        return replace(strategy, lines=lines if lines or strategy.rounds else strategy.lines, alternatives=given)


def _support(
    compiled: Compiled, rules: Sequence[Breach], max_cells: int
) -> tuple[Support[State] | None, tuple[Measurement, ...]]:
    """Where rules let records be, as far as the model has room for them; and what they say as measurements."""
    counts = {each: count for each in rules if (count := each.on(compiled.classes)) is not None}
    if not counts:
        return None, ()
    most, everywhere = int(max_cells * RULES_SHARE), State.unsplit(compiled.sizes, 1.0)
    everywhere.partitions.most = None  # what is impossible is no share of a group
    try:
        support, kept = Support.of(everywhere, list(counts.values()), most)
    except ValueError:
        what = f"rules leave no row possible: {'; '.join(repr(each.rule.text) for each in counts)}"
        raise refuse(DomainError, "rules", what, "correct one of them, or the domain of its columns") from None
    listed = list(counts.items())
    public = tuple(
        Measurement.public(listed[number][1], np.zeros(1), "rule", listed[number][0].rule.text) for number in kept
    )
    return (support if kept else None), public


def _totals(
    compiled: Compiled, counted: Counted, support: Support[State] | None, total: float | None, max_cells: int
) -> Totals:
    possible = None if support is None else support.possible
    totals = counted.on(compiled.classes, max_cells=max_cells, total=total, possible=possible)
    if not totals.partitions:
        return totals
    # Of an unknown number of rows: enough for all that is said.
    state = State.unsplit(compiled.sizes, totals.total or max(1.0, 2 * totals.fewest), support)
    if not can_agree(state, totals.partitions):
        answers = np.array([float(answer[0]) for answer in state.answers(counted.counts)])
        rows = np.array([each.rows for each in counted.totals])
        number = int(np.argmax(np.abs(answers - rows)))
        least, most = (0.0, answers[number]) if answers[number] < rows[number] else (answers[number], np.inf)
        raise counted.contradicted(number, rows[number], least, most)
    most = int(max_cells * KNOWN_SHARE)
    if state.cells > most:
        what = f"totals make a model of {state.cells:,} cells, more than a tenth of max_cells ({most:,})"
        raise refuse(CellsError, "known", what, "leave some of them out, or raise max_cells")
    return totals
