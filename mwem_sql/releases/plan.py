"""The plan of a release: what would run for a request: relation, classes, strategy, problem, schedule and scans.

Public all of it; every refusal of a workload happens here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from sqlglot import exp

from mwem_sql.accounting.caps import Cap
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.accounting.partitions import Extent, extent_of
from mwem_sql.accounting.subjects import describe, ledger_beside
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.boundary.relations import Relation
from mwem_sql.compile.build import MAX_CELLS
from mwem_sql.compile.compiled import Compiled, CompiledQuery
from mwem_sql.domains.detail import details_of
from mwem_sql.domains.domain import read_domain
from mwem_sql.errors import RELEASE, CellsError, OptionError, refuse
from mwem_sql.judge.certificate import sample
from mwem_sql.language.dialect import fold
from mwem_sql.loop.plan import SHARES, Alternatives, Schedule, make_schedule
from mwem_sql.loop.problem import Problem, is_total
from mwem_sql.loop.room import cells_with
from mwem_sql.loop.strategy import Setting, Strategy, choose, whole_domain
from mwem_sql.model.start import Start
from mwem_sql.platform.calls import uncollected
from mwem_sql.platform.catalog import Column
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session
from mwem_sql.releases.constraints import Constraints
from mwem_sql.releases.discovery import Discovery, columns_to_find, complete, plan_discovery, rest_of, with_names
from mwem_sql.releases.draft import Draft, check_possible, draft_of, never_true
from mwem_sql.releases.request import MAX_ROWS, Request
from mwem_sql.releases.start import read_start
from mwem_sql.releases.store import Stored
from mwem_sql.scan.dialects import DIALECTS
from mwem_sql.scan.dialects.dialect import Unit
from mwem_sql.scan.pushdown import Pushdown, plan_pushdown
from mwem_sql.workload import check_of

MAX_UNCERTAINTY = 10**7
"""Noise on n, in rows, beyond which it cannot serve as the number of rows."""
MAX_NOISE = 10_000
"""The noise on a cell of a query that is always measured, in rows (a standard deviation), beyond which the query is
refused where the total is not public: at epsilon 1 and delta 0 there may be some 7,000 such queries, at epsilon 0.01
some 70."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """What would run: public all of it."""

    relation: Relation
    compiled: Compiled
    problem: Problem
    schedule: Schedule
    pushdown: Pushdown
    strategy: Strategy
    cap: Cap | None = None
    idle: tuple[str, ...] = ()
    """Predicates that no value of the public domain makes true."""
    public: tuple[Measurement, ...] = ()
    """What rules say, as counts that are 0, and what public totals say."""
    ledger: Ledger | None = None
    """As it was read for this plan; None if a release stands for the table."""
    extent: Extent = field(default_factory=Extent)
    """For which values of the column that the table is partitioned by it counts."""
    part: Fraction = Fraction(1)
    """Of the budget."""
    discovery: Discovery | None = None
    """Columns whose values are to be found first; None once they are, or where there are none."""

    def workload_query(self, number: int) -> CompiledQuery | None:
        """The workload's query that one of the problem's is, if it is one.

        Without a loop, those that are measured as they are.
        """
        if self.schedule.selects:
            return self.compiled.first_row(number) if number < len(self.compiled.distinct.queries) else None
        lines = [line for line in self.schedule.of("always", "round") if line.number == number]
        return next((self.compiled.first_row(line.workload) for line in lines if line.workload is not None), None)

    def label(self, number: int) -> str:
        """What a query is called: as the workload calls it, or by its attributes."""
        query = self.workload_query(number)
        return query.label if query else ", ".join(self.problem.kernel_queries[number].attributes) or "total"

    def identity(self) -> Iterator[object]:
        """What an answer is about, beside the request: the relation's definition, and how values fall into classes.

        Without the name of the database, which is that of its file: it may be renamed.
        """
        tree = self.relation.tree()
        for table in tree.find_all(exp.Table):
            table.set("catalog", None)
        yield from (tree.sql("duckdb"), self.relation.definition, json.dumps(self.compiled.domain.to_json()))
        for name, classes in self.compiled.classes.items():
            pieces = classes.pieces
            yield from (name, classes.codes, pieces.lows, pieces.highs, pieces.points, pieces.bins)

    @property
    def warning(self) -> str | None:
        """Predicates that are never true, in words."""
        return never_true(self.idle) if self.idle else None


@uncollected()
def make_plan(session: Session, request: Request, release: Stored | None = None) -> Plan:
    """What would run for a request; every refusal of the workload happens here.

    Of a table that is elsewhere, a `release` has what is public of it.
    """
    with session.reading_once() as once, Sandbox(session.settings) as sandbox:
        relation = (
            describe(once, request.table, RELEASE, unit=request.unit) if release is None else _relation_of(release)
        )
        relation.check_unit(request.unit, RELEASE)
        check_of(request.workload, relation.name.table, relation.name.table)
        domain = (
            with_names(
                read_domain(
                    once,
                    relation,
                    sandbox,
                    domain=request.domain,
                    rules=request.rules,
                    totals=request.known,
                ),
                request.workload,
            )
            if release is None
            else release.domain
        )
        draft = draft_of(request, domain, sandbox)
    if columns_to_find(draft.compiled):  # what is never true yet may be true of values that are found
        draft = draft._replace(idle=())
    check_possible(request, draft.idle)
    ledger = ledger_beside(session, relation, RELEASE) if release is None else None
    plan = _plan(session, request, Subject(relation=relation, unit=_unit(request, relation)), draft, ledger)
    _check_publication(request, plan)
    return plan


def _check_publication(request: Request, plan: Plan) -> None:
    """Refuse a condition on a certificate that there will not be."""
    if request.publish_if is None or (plan.schedule.of("certify") and plan.problem.certified):
        return
    what = f"publish_if ({request.publish_if!r}) is decided on the certificate, and this release has none"
    hint = "give it a share of the budget: certify := 0.02"
    if plan.schedule.of("certify"):
        hint = "ask at least one query of fewer cells: none of these can be certified"
    raise refuse(OptionError, RELEASE, what, hint)


def with_values(session: Session, request: Request, plan: Plan, values: Mapping[str, Sequence[str]]) -> Plan:
    """The plan of the same request once values are found: with them on the lists, and what is left of the budget.

    The kind of the noise stays within what was charged: rho stays rho.
    """
    with Sandbox(session.settings) as sandbox:
        draft = draft_of(request, complete(plan.compiled.domain, values), sandbox)
    subject = Subject(relation=plan.relation, unit=_unit(request, plan.relation))
    return _plan(session, request, subject, draft, plan.ledger, before=plan)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Whose rows a plan is about, and what of the budget it has."""

    relation: Relation
    unit: Unit | None = None
    """Whose rows are protected together; None where each row is a unit."""
    part: Fraction = Fraction(1)
    """Of the budget; other tables of the release have the rest."""
    is_below: bool = False
    """Whether rows of tables above say how many rows there are."""
    above: frozenset[str] = frozenset()
    """The attributes of the tables above, whose distribution is known by then."""


def plan_level(session: Session, request: Request, subject: Subject, draft: Draft, ledger: Ledger) -> Plan:
    """What would run for one of several tables. All of them count in rho, or none: they have one account."""
    return _plan(session, request, subject, draft, ledger)


def _plan(
    session: Session,
    request: Request,
    subject: Subject,
    draft: Draft,
    ledger: Ledger | None,
    *,
    before: Plan | None = None,
) -> Plan:
    """What would run; `before` is the plan that was made to find values."""
    compiled = draft.compiled
    check_room(request, compiled)
    relation, unit = subject.relation, subject.unit
    discovery = plan_discovery(request.budget, compiled, relation, unit) if before is None else before.discovery
    if discovery is not None:
        request = replace(request, budget=discovery.rest)
    total = request.total if draft.total is None else draft.total
    constraints = Constraints.of(compiled, draft.rules, draft.counted, total=total, max_cells=request.max_cells)
    request = replace(request, total=constraints.totals.total)
    strategy = _without_known(constraints.undetermined(_strategy(request, compiled)), subject.above)
    start = read_start(session, request, relation.private_names, compiled)
    problem = replace(
        _problem(request, compiled, strategy, start),
        support=constraints.support,
        totals=constraints.totals,
        public_counts=constraints.public_counts,
        determined=constraints.determined(strategy.queries),
        is_below=subject.is_below,
    )
    cap = ledger.cap if ledger is not None else None
    in_rho = (cap is not None and not cap.pure) or (before is not None and before.schedule.kind == "zcdp")
    schedule = _schedule(request, strategy, problem, in_rho=in_rho or subject.part < 1, part=subject.part)
    _check_rows(request, schedule, subject)
    _check_always(request, problem, schedule)
    scanned = compiled.classes | {detail.name: detail.cells for detail in problem.details.values()}
    pushdown = plan_pushdown(relation, scanned, problem.kernel_queries, unit, DIALECTS[relation.dialect])
    extent = Extent()
    if ledger is not None:
        extent = extent_of(session.private.cursor(), ledger, relation, request.unit, session.settings)
    return Plan(
        relation=relation,
        compiled=compiled,
        problem=problem,
        schedule=schedule,
        pushdown=pushdown,
        strategy=strategy,
        cap=cap,
        idle=tuple(draft.idle),
        public=(*constraints.forbidden, *constraints.public_counts),
        ledger=ledger,
        extent=extent,
        part=subject.part,
        discovery=discovery if before is None else None,
    )


def schedule_of(request: Request, plan: Plan) -> Schedule:
    """The shares of another request that has the same plan but for its budget or rounds."""
    request = replace(request, total=plan.problem.total)
    strategy = plan.strategy if request.rounds is None else _strategy(request, plan.compiled)
    if plan.discovery is not None:
        request = replace(request, budget=rest_of(request.budget))
    in_rho = plan.part < 1 or (plan.cap is not None and not plan.cap.pure)
    return _schedule(request, strategy, plan.problem, in_rho=in_rho, part=plan.part)


def _relation_of(release: Stored) -> Relation:
    """The private table of a release, as far as the release has it: name, released columns, and the unit's column."""
    domain, unit = release.domain, release.facts["unit"]
    columns = [Column(attribute.name, attribute.type, attribute.nullable) for attribute in domain]
    if unit is not None and fold(unit) not in domain.spelling:
        columns.append(Column(unit, "VARCHAR", nullable=True))
    name = release.name.beside(domain.table)
    declared = {column.name: column for column in columns}
    return Relation(name=name, columns=tuple(columns), rows=name.tree(), declared=declared)


def _strategy(request: Request, compiled: Compiled) -> Strategy:
    distinct = compiled.distinct
    return choose(
        Setting(
            queries=distinct.queries,
            weights=distinct.weights,
            shape={name: classes.count for name, classes in compiled.classes.items()},
            max_cells=request.max_cells,
            rounds=request.rounds,
            average=request.average,
            is_total_public=request.total is not None,
            start=request.start,
            fit=request.fit,
            always=_always(request, compiled),
        )
    )


def _always(request: Request, compiled: Compiled) -> list[int]:
    """The distinct queries that are measured in any case, by number. A public total needs no measurement."""
    distinct = compiled.distinct
    return [number for number in distinct.always if request.total is None or not is_total(distinct.queries[number])]


def _without_known(strategy: Strategy, above: frozenset[str]) -> Strategy:
    """Without distributions of what the tables above know; with them where there is nothing else."""
    lines = [
        line
        for line in strategy.lines
        if line.purpose == "always" or not above.issuperset(strategy.queries[line.number].attributes)
    ]
    return replace(strategy, lines=tuple(lines)) if lines else strategy


def _schedule(
    request: Request, strategy: Strategy, problem: Problem, *, in_rho: bool, part: Fraction = Fraction(1)
) -> Schedule:
    starts = request.start == "histogram"
    lines = problem.lines(
        [*([problem.histogram_line(is_start=True)] if starts else []), *strategy.lines],
        selects=strategy.rounds is not None,
        certify=bool(_certify(request)),
        units=request.unit is not None,
    )
    return make_schedule(
        request.budget,
        lines,
        strategy.rounds,
        selecting=strategy.selecting,
        shares={"certify": _certify(request)},
        alternatives=_alternatives(strategy, problem),
        sensitivity=request.rows_per_unit,
        counted_in_rho=in_rho,
        part=part,
    )


def _alternatives(strategy: Strategy, problem: Problem) -> Alternatives | None:
    if strategy.alternatives is None or not strategy.histogram:
        return strategy.alternatives
    return replace(strategy.alternatives, histogram=problem.histogram_line(is_start=False))


def _certify(request: Request) -> Fraction:
    """The share of the certificate. The paper's own figure, with its rounds given, has none unless it is asked for."""
    if request.certify is not None:
        return Fraction(str(request.certify))
    return SHARES["certify"] if _is_plain(request) else Fraction(0)


def _is_plain(request: Request) -> bool:
    return request.rounds is None and not request.average


def _problem(request: Request, compiled: Compiled, strategy: Strategy, start: Start | None) -> Problem:
    shape = {name: classes.count for name, classes in compiled.classes.items()}
    queries = compiled.distinct.queries
    numbers = sample(queries) if _certify(request) or start is not None else []
    # Where nothing is selected, the workload's queries are not among what is measured: their answers come from the
    # same scans.
    pushed = [queries[number] for number in numbers] if strategy.rounds is None else []
    problem = Problem(
        queries=strategy.queries,
        weights=strategy.weights,
        sizes=compiled.sizes,
        max_cells=request.max_cells,
        total=request.total,
        histogram=whole_domain(shape) if strategy.histogram else _histogram(request, shape),
        average=request.average,
        fit=request.fit,
        details=details_of(compiled.classes) if _is_plain(request) else {},
        pushed=pushed,
        start=start,
    )
    places = [problem.first_pushed + place for place in range(len(pushed))] or numbers
    return replace(problem, certified={place: queries[number] for place, number in zip(places, numbers, strict=True)})


def check_room(request: Request, compiled: Compiled) -> None:
    """The model has room for any query of the workload beside the cell that it starts from for each attribute."""
    cells = len(compiled.classes) + compiled.linear.model_cells - compiled.linear.widths
    for number in np.flatnonzero(cells > request.max_cells)[:1].tolist():
        raise refuse(
            CellsError,
            RELEASE,
            f"query {compiled.queries[number].label!r} makes a model of {int(cells[number]):,} cells, more than"
            f" max_cells ({request.max_cells:,})",
            "ask about fewer attributes at a time or in coarser groups, or raise max_cells",
        )


def uncertainty(total: float | None, schedule: Schedule) -> float:
    """The noise on the number of rows, in rows; none where the `total` is public."""
    share = schedule.share("total") or schedule.share("first") or schedule.typical
    return 0.0 if total is not None else schedule.composition.scale(share)


def _check_rows(request: Request, schedule: Schedule, subject: Subject) -> None:
    """Whether the default number of rows, the noisy n, will be one that can be written."""
    if request.rows is not None:
        return
    if request.total is not None and request.total > MAX_ROWS:
        what = f"total ({request.total:g}) is more than {MAX_ROWS:,} rows"
        raise refuse(OptionError, RELEASE, what, "give rows := 1000000, or another number")
    if uncertainty(request.total, schedule) > MAX_UNCERTAINTY:
        what = f"epsilon ({float(request.budget.epsilon):g}) is so small that the number of rows would be noise"
        hint = "raise epsilon" if subject.part < 1 else "give rows := 1000, or another number; or raise epsilon"
        raise refuse(OptionError, RELEASE, what, hint)


def _check_always(request: Request, problem: Problem, schedule: Schedule) -> None:
    """Queries that are measured in any case fit into one model, and are more than noise: public numbers decide."""
    always = schedule.of("always")
    if not always:
        return
    sizes = {name: len(size) for name, size in problem.sizes.items()}
    cells = cells_with([problem.queries[line.number] for line in always], sizes, request.max_cells)
    if cells > request.max_cells:
        raise refuse(
            CellsError,
            RELEASE,
            f"the {len(always):,} queries that are always measured make a model of {cells:,} cells or more"
            f" together, more than max_cells ({request.max_cells:,})",
            "mark fewer of them, ask in coarser groups, or raise max_cells",
        )
    noise = max(math.sqrt(schedule.composition.variance(line.share)) for line in always)
    most = request.total or MAX_NOISE
    if noise > most:
        raise refuse(
            OptionError,
            RELEASE,
            f"{len(always):,} {'queries are' if len(always) > 1 else 'query is'} always measured, and a cell would be"
            f" off by about {noise:,.0f} rows, more than {'total' if request.total else 'any use'} ({most:,.0f})",
            "mark fewer of them, raise epsilon, or give a delta"
            + ("" if request.total else "; of a larger table, give its total"),
        )


def _unit(request: Request, relation: Relation) -> Unit | None:
    if request.unit is None:
        return None
    unit = relation.unit
    columns = unit.columns if unit is not None else (relation.column(request.unit, RELEASE),)
    first, *others = ((column.name, column.type) for column in columns)
    return Unit(first[0], request.rows_per_unit, first[1], tuple(others))


def _histogram(request: Request, shape: Mapping[str, int]) -> LinearQuery | None:
    if request.start != "histogram":
        return None
    if math.prod(shape.values()) > MAX_CELLS:
        raise refuse(
            CellsError,
            RELEASE,
            f"start ('histogram') needs {math.prod(shape.values()):,} cells over {', '.join(shape)}, more than"
            f" {MAX_CELLS:,}",
            "leave start out, or ask about fewer attributes",
        )
    return whole_domain(shape)
