"""Discovery: the values of text columns that nobody listed, found by a release before everything else.

Owns what is planned, run and made of them: public lists of values, sorted, on which all that follows is planned anew.
What is planned is public; the counts go from `scan` to `kernel.thresholds` and nowhere else.

Everything that can be refused is refused before, on the lists without what will be found. If a plan is refused with
what was found (too many cells, a predicate that fails on a value), values are left out until it is not, the least
frequent first, by their noisy counts: those are released, so that no rule about them reads private rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

from sqlglot import exp
from sqlglot.errors import SqlglotError

from mwem_sql.boundary.relations import Relation
from mwem_sql.compile.compiled import Compiled
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import RELEASE, OptionError, refuse
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.draws import Draws
from mwem_sql.kernel.thresholds import Threshold, discovery_budget, find_threshold, frequent_values
from mwem_sql.language import dialect, predicate
from mwem_sql.language.conditions import columns_of, comparison
from mwem_sql.language.dialect import fold
from mwem_sql.platform.session import Session
from mwem_sql.scan import execution
from mwem_sql.scan.dialects import DIALECTS
from mwem_sql.scan.dialects.dialect import Unit
from mwem_sql.workload import Query, Workload

MOST_VALUES = 10_000
"""Values of a column that are kept of those that are found. More: lists that take longer to plan and to print."""

Frequent = Mapping[str, Mapping[str, int]]
"""By column: the values that were found, and their noisy counts. Released."""


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """Which columns have values to be found, how, and what is left of the budget. Public all of it."""

    columns: tuple[str, ...]
    statements: tuple[str, ...]
    threshold: Threshold
    rest: Budget
    unit: str | None

    @property
    def words(self) -> str:
        budget, who = self.threshold.budget, "rows" if self.unit is None else f"different {self.unit}"
        return (
            f"{', '.join(self.columns)}: values that fewer than about {self.threshold.least:,} {who} have stay"
            f" '(other)'; takes epsilon {float(budget.epsilon):g} and delta {float(budget.delta):g}. Cells and noise"
            " here are without them"
        )


def rest_of(budget: Budget) -> Budget:
    """What finding values leaves of a budget."""
    part = discovery_budget(budget)
    return Budget(budget.epsilon - part.epsilon, budget.delta - part.delta)


def columns_to_find(compiled: Compiled) -> tuple[str, ...]:
    """The columns that a workload asks about whose values are to be found."""
    return tuple(each.name for each in compiled.domain if each.discover and each.name in compiled.classes)


def plan_discovery(budget: Budget, compiled: Compiled, relation: Relation, unit: Unit | None) -> Discovery | None:
    """What is to be found for a workload: of the columns that it asks about; None if there is nothing."""
    columns = columns_to_find(compiled)
    if not columns:
        return None
    if not budget.delta:
        raise refuse(
            OptionError,
            RELEASE,
            f"delta (0) must be above 0 to discover the values of {', '.join(columns)}: one that a single row has may"
            " be shown, with a chance that delta bounds",
            "give delta := 1e-9, or one far below one over the number of rows; or list the values in the domain table",
        )
    target = DIALECTS[relation.dialect]
    return Discovery(
        columns=columns,
        statements=tuple(target.sql(target.value_counts(relation, name, unit)) for name in columns),
        threshold=find_threshold(discovery_budget(budget), len(columns), 1 if unit is None else unit.rows),
        rest=rest_of(budget),
        unit=None if unit is None else relation.unit.table.table if relation.unit is not None else unit.column,
    )


def discover(
    session: Session, relation: Relation, discovery: Discovery, check: execution.Check, draws: Draws
) -> dict[str, dict[str, int]]:
    """The values of each column that enough units have, and their noisy counts.

    Privacy:
        The debit of the whole request has been committed. Only what `frequent_values` gives leaves.
    """
    threshold = discovery.threshold
    accountant = threshold.accountant()
    draws.note(*discovery.statements)
    counts = execution.value_counts(
        execution.engine_of(session.private.cursor(), relation), discovery.statements, check
    )
    frequent = {
        name: frequent_values(batches, threshold, accountant, draws)
        for name, batches in zip(discovery.columns, counts, strict=True)
    }
    accountant.settle()
    return frequent


def most_frequent(frequent: Frequent, most: int) -> dict[str, list[str]]:
    """Of each column at most so many values, those with the largest noisy counts, in the order of texts."""
    return {
        name: sorted(sorted(counts, key=lambda text: -counts[text])[:most], key=str.encode)
        for name, counts in frequent.items()
    }


def warning_of(frequent: Frequent, kept: Mapping[str, Sequence[str]]) -> str | None:
    """Columns of which no value was found, and those of which values are left out, in words; None without any."""
    words = [
        f"no value of {name} was found: raise epsilon or delta, or list the values in the domain table"
        if not counts
        else f"{len(counts) - len(kept[name]):,} of {len(counts):,} values of {name} that were found are left out,"
        " because the workload has no room for them"
        for name, counts in frequent.items()
        if len(kept[name]) < max(1, len(counts))
    ]
    return "; ".join(words) or None


def complete(domain: Domain, values: Mapping[str, Sequence[str]]) -> Domain:
    """A domain with values behind those that its lists have; these lists are found, and not to be discovered again."""
    attributes = [
        replace(
            each,
            values=tuple(dict.fromkeys([*(each.values or ()), *values[each.name]])),
            discover=False,
            source=f"{each.source}, discovered",
        )
        if each.name in values
        else each
        for each in domain
    ]
    return replace(domain, attributes=tuple(attributes))


def with_names(domain: Domain, workload: Workload) -> Domain:
    """A domain in which the values that a workload or a rule names are on the lists that are to be discovered.

    Whoever asks `city = 'Bonn'` has made Bonn public: it is counted, whether it is found or not.
    """
    columns = {each.name for each in domain if each.discover}
    if not columns:
        return domain
    names: dict[str, dict[str, None]] = {name: {} for name in columns}
    rules = (f"SELECT {rule.text}" for rule in domain.rules)
    totals = (f"SELECT {total.text}" for total in domain.totals if total.text is not None)
    for text in dict.fromkeys(chain(rules, totals, *map(_texts, workload))):
        if not any(fold(name) in fold(text) for name in columns):
            continue
        with suppress(SqlglotError, RecursionError):  # refused when it is compiled, with a sentence
            for part in dialect.expression(text).find_all(exp.EQ, exp.NEQ, exp.In):
                column = domain.spelling.get(fold((*columns_of(part), "")[0]), "")
                operator, constants = comparison(part) or ("", [])
                if operator and column in columns:
                    names[column] |= dict.fromkeys(each.name for each in constants if each.is_string)
    attributes = [
        replace(each, values=tuple(dict.fromkeys([*(each.values or ()), *names[each.name]]))) if each.discover else each
        for each in domain
    ]
    return replace(domain, attributes=tuple(attributes))


def _texts(query: Query) -> Iterator[str]:
    """What a query says in SQL, each as a statement."""
    condition = None if query.predicate is None else predicate.bare(query.predicate)
    return (f"SELECT {text}" for text in (condition, query.measure, query.group_text) if text is not None)
