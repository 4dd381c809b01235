"""Public totals on the classes of a workload: what they say together, and a refusal where no table has them all.

Reads no private row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf

from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.totals import ContradictionError, Possible, TooManyCellsError, Totals
from mwem_sql.compile.build import MAX_CELLS
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.classes import Classes
from mwem_sql.domains.domain import Domain
from mwem_sql.domains.totals import PublicTotal
from mwem_sql.errors import CellsError, DomainError, MwemError, refuse, spoken_by
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Query, Workload

KNOWN_SHARE = 0.1
"""Of max_cells: the class combinations of a total's columns, and all that totals add to the model. Larger: less room
for what is measured."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Counted:
    """Public totals as counts on classes."""

    totals: tuple[PublicTotal, ...]
    counts: tuple[LinearQuery, ...]

    @classmethod
    def of(cls, totals: Sequence[PublicTotal], cuts: Sequence[LinearQuery | None]) -> Counted:
        """From the conditions of those that have one, compiled; refuses what is in doubt of values off the domain."""
        conditions = iter(cuts)
        counts = []
        for total in totals:
            count = LinearQuery(()) if total.text is None else next(conditions)
            if count is None:
                what = f"total ({total.words}) may count values off the domain or not"
                raise refuse(DomainError, "known", what, "compare with values of the domain, or declare it wider")
            counts.append(count)
        return cls(totals=tuple(totals), counts=tuple(counts))

    def on(
        self,
        classes: Mapping[str, Classes],
        *,
        max_cells: int = MAX_CELLS,
        total: float | None = None,
        possible: Possible | None = None,
    ) -> Totals:
        """What they say together; refused where they contradict each other, rules (`possible`), or the `total`."""
        sizes = {name: each.count for name, each in classes.items()}
        most = int(max_cells * KNOWN_SHARE)
        rows = [float(total.rows) for total in self.totals]
        try:
            return Totals.of(self.counts, rows, sizes, most_cells=most, total=total, possible=possible)
        except ContradictionError as error:
            raise self.contradicted(error.number, error.rows, error.least, error.most) from None
        except TooManyCellsError as error:
            what = f"total ({self.totals[error.number].words}) joins {error.cells:,} values, more than {most:,}"
            raise refuse(CellsError, "known", what, "leave it out, or raise max_cells") from None

    def contradicted(self, number: int | None, rows: float, least: float, most: float) -> MwemError:
        """A total that cannot be what it is said to be, if the others are."""
        words = "all rows" if number is None else self.totals[number].words
        leaves = (
            "nothing that it could count is possible"
            if not most
            else f"by the others there are {_count(least)}"
            if least == most
            else f"by the others there are at least {_count(least)}"
            if isinf(most)
            else f"by the others there are at most {_count(most)}"
        )
        what = f"total ({words}) is {_count(rows)}, and {leaves}: no table has them all"
        return refuse(DomainError, "known", what, "correct one of them; total := and rules are among them")


def conditions(totals: Sequence[PublicTotal]) -> tuple[Query, ...]:
    """The conditions of those that have one, as queries."""
    return tuple(Query(predicate=total.text) for total in totals if total.text is not None)


def total_of_all(domain: Domain, sandbox: Sandbox, total: float | None = None) -> float | None:
    """The number of rows, if all totals of declared columns by themselves, or the `total`, say it."""
    totals = domain.totals_about({attribute.name for attribute in domain})
    queries = conditions(totals)
    if not queries:
        return Counted.of(totals, ()).on({}, total=total).total
    with spoken_by("known", instead_of="workload"):
        compiled = compile_workload(domain, Workload(queries), sandbox)
    special = compiled.queries.special
    cuts = [
        None if row in special and special[row].hull is not None else compiled.linear[row]
        for row in range(len(queries))
    ]
    return Counted.of(totals, cuts).on(compiled.classes, total=total).total


def _count(rows: float) -> str:
    return f"{rows:,.0f}" if rows < inf else "any number"
