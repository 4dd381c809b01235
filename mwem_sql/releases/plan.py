"""From a request to what would run: relation, classes, regime, shares, problem, scans. Public all of it; every refusal of a workload happens here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mwem_sql.accounting.accounts import cap_of
from mwem_sql.accounting.scales import noise_scale
from mwem_sql.accounting.split import Split, split
from mwem_sql.boundary import relations
from mwem_sql.boundary.relations import Relation
from mwem_sql.compiler.blocks import MAX_CELLS
from mwem_sql.compiler.codes import Unit
from mwem_sql.compiler.pipeline import Compiled, compile_workload
from mwem_sql.compiler.pushdown import Pushdown, plan_pushdown
from mwem_sql.database.garbage import uncollected
from mwem_sql.database.sandbox import Sandbox
from mwem_sql.database.session import Session
from mwem_sql.domains.detail import Detail, details_of
from mwem_sql.domains.domain import read_domain
from mwem_sql.errors import RELEASE, CellsError, OptionError, WorkloadError, refuse
from mwem_sql.mwem.problem import Problem
from mwem_sql.mwem.regimes import Asked, Regime, choose
from mwem_sql.mwem.strategy import whole_domain
from mwem_sql.queries.linear import LinearQuery
from mwem_sql.releases.request import MAX_ROWS, Request

MAX_UNCERTAINTY = 10**7
"""Noise on n, in rows, beyond which it cannot serve as the number of rows."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What would run: public all of it."""

    relation: Relation
    compiled: Compiled
    problem: Problem
    split: Split
    pushdown: Pushdown


@uncollected()
def make_plan(session: Session, request: Request) -> Plan:
    """What would run for a request; every refusal of the workload happens here."""
    con = session.cursor()
    relation = relations.describe(con, request.table, session.place, RELEASE)
    compiled = _compile(session, request, relation)
    _check_room(request, compiled)
    regime = _regime(request, compiled)
    details = details_of(compiled.classes) if regime.detail else {}
    cap = cap_of(con, relation, session.place, RELEASE)
    shares = _split(request, regime, has_details=bool(details), in_rho=cap is not None and not cap.pure)
    _check_rows(request, shares)
    problem = _problem(request, compiled, regime, details)
    scanned = compiled.classes | {detail.name: detail.scanned for detail in details.values()}
    pushdown = plan_pushdown(relation, scanned, problem.kernel_queries(), _unit(request, relation))
    return Plan(relation, compiled, problem, shares, pushdown)


def _compile(session: Session, request: Request, relation: Relation) -> Compiled:
    """The workload against the public domain."""
    with Sandbox(session.settings) as sandbox:
        domain = read_domain(session.cursor(), relation, request.domain, session.place, sandbox)
        compiled = compile_workload(domain, request.workload, sandbox)
    if not compiled.classes:
        raise refuse(
            WorkloadError,
            RELEASE,
            f"the workload ({len(request.workload)} rows) asks about no column, so there is nothing to synthesize",
            "add a predicate or a group_by over a column",
        )
    return compiled


def _regime(request: Request, compiled: Compiled) -> Regime:
    queries, weights = compiled.distinct
    shape = {name: classes.count for name, classes in compiled.classes.items()}
    return choose(
        Asked(
            [query.linear for query in queries],
            weights,
            shape,
            request.max_cells,
            request.rounds,
            request.average,
            request.total is not None,
            request.start,
            request.fit,
        )
    )


def _split(request: Request, regime: Regime, *, has_details: bool, in_rho: bool) -> Split:
    return split(
        request.budget,
        regime.rounds,
        total_is_public=request.total is not None or regime.whole,
        histogram=request.start == "histogram",
        first=regime.first,
        detail=regime.detail if has_details else Fraction(0),
        growing=regime.growing,
        selecting=regime.selecting,
        sensitivity=request.rows_per_unit,
        counted_in_rho=in_rho,
    )


def _problem(request: Request, compiled: Compiled, regime: Regime, details: Mapping[str, Detail]) -> Problem:
    shape = {name: classes.count for name, classes in compiled.classes.items()}
    strategy = regime.strategy
    return Problem(
        strategy.queries,
        strategy.weights,
        compiled.sizes,
        request.max_cells,
        request.total,
        whole_domain(shape) if regime.joint else _histogram(request, shape),
        request.average,
        request.rows_per_unit,
        request.fit,
        strategy.first,
        strategy.whole,
        regime.at_once,
        details,
    )


def _check_room(request: Request, compiled: Compiled) -> None:
    """The model can hold what any query of the workload tells apart beside the cell that it starts from for each attribute."""
    cells = len(compiled.classes) + compiled.facts.told_cells - compiled.facts.widths
    for number in np.flatnonzero(cells > request.max_cells)[:1].tolist():
        raise refuse(
            CellsError,
            RELEASE,
            f"query {compiled.queries[number].label!r} makes a model of {int(cells[number]):,} cells, more than max_cells ({request.max_cells:,})",
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
        and noise_scale(shares.total or shares.first or shares.measure, request.rows_per_unit, shares.kind).scale
        > MAX_UNCERTAINTY
    ):
        raise refuse(
            OptionError,
            RELEASE,
            f"epsilon ({float(request.budget.epsilon):g}) is so small that the number of rows would be noise",
            "give rows := 1000, or another number; or raise epsilon",
        )


def _unit(request: Request, relation: Relation) -> Unit | None:
    if request.unit is None:
        return None
    column = relation.column(request.unit, RELEASE)
    return Unit(column.name, request.rows_per_unit, is_text=column.type.startswith("VARCHAR"))


def _histogram(request: Request, shape: Mapping[str, int]) -> LinearQuery | None:
    if request.start != "histogram":
        return None
    if math.prod(shape.values()) > MAX_CELLS:
        raise refuse(
            CellsError,
            RELEASE,
            f"start ('histogram') needs {math.prod(shape.values()):,} cells over {', '.join(shape)}, more than {MAX_CELLS:,}",
            "leave start out, or ask about fewer attributes",
        )
    return whole_domain(shape)
