"""The plan of a release: what would run for a request. That is relation, classes, regime, shares, problem and scans.

Public all of it; every refusal of a workload happens here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mwem_sql.accounting.caps import Cap
from mwem_sql.accounting.ledger import Ledger, read_ledger
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.boundary import relations
from mwem_sql.boundary.relations import Relation
from mwem_sql.compile.build import MAX_CELLS
from mwem_sql.compile.check import check_constants, flat
from mwem_sql.compile.compiled import Compiled, CompiledQuery
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.detail import Detail, details_of
from mwem_sql.domains.domain import read_domain
from mwem_sql.errors import RELEASE, CellsError, OptionError, WorkloadError, literal, refuse
from mwem_sql.judge.certificate import sample
from mwem_sql.kernel.scales import noise_scale, noise_variance
from mwem_sql.kernel.split import UNITS_SHARE, Split, split
from mwem_sql.language.dialect import fold
from mwem_sql.loop.problem import Problem, is_total
from mwem_sql.loop.regimes import Asked, Regime, choose
from mwem_sql.loop.strategy import cells_with, whole_domain
from mwem_sql.platform.calls import uncollected
from mwem_sql.platform.catalog import Column
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session
from mwem_sql.releases.request import MAX_ROWS, Request
from mwem_sql.releases.store import Stored
from mwem_sql.scan.dialects import DIALECTS
from mwem_sql.scan.dialects.dialect import Unit
from mwem_sql.scan.pushdown import Pushdown, plan_pushdown

CERTIFY_SHARE = Fraction(1, 50)
"""The certificate's share of the budget in a plain call. Larger: the error of answers is known better, and answers have
more noise. `python benchmarks/coverage.py --shares`"""
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
    split: Split
    pushdown: Pushdown
    regime: Regime
    cap: Cap | None = None
    idle: tuple[str, ...] = ()
    """Predicates that no value of the public domain makes true."""
    ledger: Ledger | None = None
    """As it was read for this plan; None if a release stands for the table."""

    def workload_query(self, number: int) -> CompiledQuery | None:
        """The workload's query that one of the problem's is, if it is one.

        Without a loop, those that are always measured are.
        """
        if not self.problem.at_once and not self.problem.whole:
            return self.compiled.first_row(number) if 0 <= number < len(self.compiled.distinct.queries) else None
        always = self.problem.always
        return next((self.compiled.first_row(each.asked) for each in always if each.query == number), None)

    def label(self, q: int) -> str:
        """What the kernel's query q is called: as the workload calls it, or by its attributes."""
        if q == 0:
            return "total"
        query = self.workload_query(q - 1)
        # A histogram of the whole domain comes after the queries.
        queries = self.problem.queries
        measured = queries[q - 1] if q <= len(queries) else self.problem.kernel_queries[q]
        return ", ".join(measured.attributes) if query is None else query.label

    @property
    def warning(self) -> str | None:
        """Predicates that are never true, in words."""
        return _never_true(self.idle) if self.idle else None


def _never_true(idle: Sequence[str]) -> str:
    first = flat(idle[0])
    if len(idle) == 1:
        return f"predicate {first!r} is never true on the declared domain"
    return f"predicates {first!r} and {len(idle) - 1:,} more are never true on the declared domain"


@uncollected()
def make_plan(session: Session, request: Request, release: Stored | None = None) -> Plan:
    """What would run for a request; every refusal of the workload happens here.

    Of a table that is elsewhere, a `release` has what is public of it.
    """
    con = session.cursor()
    relation = (
        relations.describe(con, request.table, session.place, RELEASE) if release is None else _relation_of(release)
    )
    compiled, idle = _compile(session, request, relation, release)
    _check_room(request, compiled)
    regime = _regime(request, compiled)
    details = details_of(compiled.classes) if regime.detail else {}
    ledger = read_ledger(con, relation, session.place, RELEASE) if release is None else None
    cap = ledger.cap if ledger is not None else None
    shares = _split(request, regime, has_details=bool(details), cap=cap)
    _check_rows(request, shares)
    problem = _problem(request, compiled, regime, details)
    _check_always(request, problem, shares)
    scanned = compiled.classes | {detail.name: detail.cells for detail in details.values()}
    pushdown = plan_pushdown(
        relation, scanned, problem.kernel_queries, _unit(request, relation), DIALECTS[relation.dialect]
    )
    return Plan(
        relation=relation,
        compiled=compiled,
        problem=problem,
        split=shares,
        pushdown=pushdown,
        regime=regime,
        cap=cap,
        idle=tuple(idle),
        ledger=ledger,
    )


def shares_of(request: Request, plan: Plan) -> Split:
    """The shares of another request that has the same plan but for its budget or rounds."""
    regime = plan.regime if request.rounds is None else _regime(request, plan.compiled)
    return _split(request, regime, has_details=bool(plan.problem.details), cap=plan.cap)


def _relation_of(release: Stored) -> Relation:
    """The private table of a release, as far as the release has it: name, released columns, and the unit's column."""
    domain, unit = release.domain, release.facts["unit"]
    columns = [Column(attribute.name, attribute.type, attribute.nullable) for attribute in domain]
    if unit is not None and fold(unit) not in domain.spelling:
        columns.append(Column(unit, "VARCHAR", nullable=True))
    name = release.name.beside(domain.table)
    declared = {column.name: column for column in columns}
    return Relation(name=name, columns=tuple(columns), rows=name.tree(), declared=declared)


def _compile(
    session: Session, request: Request, relation: Relation, release: Stored | None
) -> tuple[Compiled, list[str]]:
    """The workload against the public domain, and predicates that are never true there."""
    with Sandbox(session.settings) as sandbox:
        domain = (
            read_domain(session.cursor(), relation, request.domain, session.place, sandbox)
            if release is None
            else release.domain
        )
        compiled = compile_workload(domain, request.workload, sandbox)
        idle = check_constants(compiled, sandbox)
    if idle and {query.predicate for query in request.workload} <= set(idle):
        raise refuse(
            WorkloadError,
            RELEASE,
            f"the workload asks for nothing that is possible: {_never_true(idle)}",
            f"ask for values that are possible: FROM mwem_domain({literal(request.table)}) lists them",
        )
    if not compiled.classes:
        raise refuse(
            WorkloadError,
            RELEASE,
            f"the workload ({len(request.workload)} rows) asks about no column, so there is nothing to synthesize",
            "add a predicate or a group_by over a column",
        )
    return compiled, idle


def _regime(request: Request, compiled: Compiled) -> Regime:
    distinct = compiled.distinct
    shape = {name: classes.count for name, classes in compiled.classes.items()}
    return choose(
        Asked(
            distinct.queries,
            distinct.weights,
            shape,
            request.max_cells,
            request.rounds,
            request.average,
            request.total is not None,
            request.start,
            request.fit,
            _always(request, compiled),
        )
    )


def _always(request: Request, compiled: Compiled) -> list[int]:
    """The queries that are measured in any case, by number among the distinct ones. A public total needs no measurement."""
    distinct = compiled.distinct
    return [number for number in distinct.always if request.total is None or not is_total(distinct.queries[number])]


def _split(request: Request, regime: Regime, *, has_details: bool, cap: Cap | None) -> Split:
    return split(
        request.budget,
        regime.rounds,
        total_is_public=request.total is not None or regime.whole,
        histogram=request.start == "histogram",
        first=regime.first,
        detail=regime.detail if has_details else Fraction(0),
        always=regime.always,
        certify=_certify(request),
        units=UNITS_SHARE if request.unit is not None else Fraction(0),
        growing=regime.growing,
        selecting=regime.selecting,
        sensitivity=request.rows_per_unit,
        counted_in_rho=cap is not None and not cap.pure,
    )


def _certify(request: Request) -> Fraction:
    """The share of the certificate. The paper's own figure, with its rounds given, has none unless it is asked for."""
    if request.certify is not None:
        return Fraction(str(request.certify))
    return CERTIFY_SHARE if request.rounds is None and not request.average else Fraction(0)


def _problem(request: Request, compiled: Compiled, regime: Regime, details: Mapping[str, Detail]) -> Problem:
    shape = {name: classes.count for name, classes in compiled.classes.items()}
    strategy = regime.strategy
    asked = compiled.distinct.queries
    numbers = sample(asked) if _certify(request) else []
    histogram = whole_domain(shape) if regime.joint else _histogram(request, shape)
    # Where sets of attributes are refined, the workload's queries are not among what is measured: their answers come from the same scans.
    before = 1 + len(strategy.queries) + (histogram is not None) if regime.whole else 1
    places = range(len(numbers)) if regime.whole else numbers
    return Problem(
        queries=strategy.queries,
        weights=strategy.weights,
        sizes=compiled.sizes,
        max_cells=request.max_cells,
        total=request.total,
        histogram=histogram,
        average=request.average,
        sensitivity=request.rows_per_unit,
        fit=request.fit,
        first=strategy.first,
        whole=strategy.whole,
        at_once=regime.at_once,
        details=details,
        always=strategy.always,
        pushed=[asked[number] for number in numbers] if regime.whole else (),
        certified={before + place: asked[number] for place, number in zip(places, numbers, strict=True)},
    )


def _check_room(request: Request, compiled: Compiled) -> None:
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


def _check_rows(request: Request, shares: Split) -> None:
    """Whether the default number of rows, the noisy n, will be one that can be written."""
    if request.rows is not None:
        return
    if request.total is not None and request.total > MAX_ROWS:
        raise refuse(
            OptionError,
            RELEASE,
            f"total ({request.total:g}) is more than {MAX_ROWS:,} rows",
            "give rows := 1000000, or another number",
        )
    if (
        request.total is None
        and noise_scale(
            shares.total or shares.first or shares.measure or shares.always, request.rows_per_unit, shares.kind
        ).scale
        > MAX_UNCERTAINTY
    ):
        raise refuse(
            OptionError,
            RELEASE,
            f"epsilon ({float(request.budget.epsilon):g}) is so small that the number of rows would be noise",
            "give rows := 1000, or another number; or raise epsilon",
        )


def _check_always(request: Request, problem: Problem, shares: Split) -> None:
    """Whether queries that are measured in any case fit into one model, and are more than noise: public numbers decide."""
    if not problem.always:
        return
    sizes = {name: len(size) for name, size in problem.sizes.items()}
    cells = cells_with([problem.queries[own.query] for own in problem.always], sizes, request.max_cells)
    if cells > request.max_cells:
        raise refuse(
            CellsError,
            RELEASE,
            f"the {len(problem.always):,} queries that are always measured make a model of {cells:,} cells or more together,"
            f" more than max_cells ({request.max_cells:,})",
            "mark fewer of them, ask in coarser groups, or raise max_cells",
        )
    noise = max(
        math.sqrt(noise_variance(own, request.rows_per_unit, shares.kind))
        for own in problem.always_shares(shares.always)
    )
    most = request.total or MAX_NOISE
    if noise > most:
        raise refuse(
            OptionError,
            RELEASE,
            f"{len(problem.always):,} {'queries are' if len(problem.always) > 1 else 'query is'} always measured, and a cell would be off by about {noise:,.0f} rows,"
            f" more than {'total' if request.total else 'any use'} ({most:,.0f})",
            "mark fewer of them, raise epsilon, or give a delta"
            + ("" if request.total else "; of a larger table, give its total"),
        )


def _unit(request: Request, relation: Relation) -> Unit | None:
    if request.unit is None:
        return None
    column = relation.column(request.unit, RELEASE)
    return Unit(column.name, request.rows_per_unit, column.type)


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
