"""A release from request to stored output: check, charge, run, store.

The order is the guarantee: everything that can be refused is refused on public facts before the debit, the debit is
committed before the first private row is read, and output and metadata appear together or not at all.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from mwem_sql.accounting.accounts import cap_of, ledger_of
from mwem_sql.accounting.budget import DETAIL_SHARE, FIRST_SHARE, PAPER_SHARE, SELECT_SHARE, TOTAL_SHARE, Split, split
from mwem_sql.accounting.caps import Charge, nominal, protected
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.accounting.scales import noise_scale
from mwem_sql.boundary import relations
from mwem_sql.boundary.relations import Relation
from mwem_sql.compiler.blocks import MAX_CELLS
from mwem_sql.compiler.pipeline import Compiled, compile_workload
from mwem_sql.compiler.pushdown import Pushdown, Unit, plan_pushdown
from mwem_sql.database import calls
from mwem_sql.database.catalog import Name, is_read_only
from mwem_sql.database.garbage import frozen, uncollected
from mwem_sql.database.sandbox import Sandbox
from mwem_sql.database.session import Session
from mwem_sql.domains.detail import details_of
from mwem_sql.domains.domain import Domain, read_domain
from mwem_sql.errors import RELEASE, CellsError, OptionError, OutputError, WorkloadError, refuse
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.mwem.loop import Outcome, Problem, mwem
from mwem_sql.mwem.refinement import rounds_of
from mwem_sql.mwem.strategy import Strategy, are_parities, extend, is_told_at_once, together, whole_domain
from mwem_sql.private import engine
from mwem_sql.private.kernel import Kernel
from mwem_sql.private.noise import OpenDPNoise, SeededNoise
from mwem_sql.queries.arrays import Floats
from mwem_sql.queries.linear import LinearQuery
from mwem_sql.releases import measurements, reuse, store
from mwem_sql.releases.request import MAX_ROWS, Request
from mwem_sql.synthesis.values import draw_rows

MINIMUM_ROUNDS = 4
ROUNDS_PER_ATTRIBUTE = 2
MAX_UNCERTAINTY = 10**7  # noise on n, in rows, beyond which it cannot serve as the number of rows
SUMMARY = (
    "release", "output", "rows", "epsilon", "delta", "rounds", "queries", "attributes", "cells", "seconds", "private", "reused", "protects",
    "warning",
)  # fmt: skip

_log = logging.getLogger("mwem_sql")


@dataclass(frozen=True, eq=False)
class Plan:
    """What would run: public all of it."""

    relation: Relation
    compiled: Compiled
    problem: Problem
    split: Split
    pushdown: Pushdown


def run_release(session: Session, request: Request) -> tuple[Name, dict[str, Any]]:
    """Make the release or find the stored one; the output's name and the summary row."""
    started = time.monotonic()
    con = session.cursor()
    private, output = reuse.names(con, session, request)
    with reuse.output_lock(con, output):
        fingerprint = reuse.fingerprint(con, session, request, private, output)
        found = reuse.stored_release(con, output, fingerprint, request)
        if found is not None:
            reuse.check_seed(con, session, request, private)
            reuse.restore_table(session, request, output)
            return output, _summary(output, found, started, reused=True)
        plan = make_plan(session, request)
        if is_read_only(con, output.database):
            raise refuse(
                OutputError,
                RELEASE,
                f"output ({output}) is in a database that cannot be written",
                "give output := 'database.schema.table' in a writable one, or USE one",
            )
        ledger = ledger_of(con, plan.relation, session.place, RELEASE)
        if request.seed is None:
            reuse.check_unfinished(con, ledger, fingerprint, output)
        charge = _charge(request, plan)
        entry = ledger.debit(
            session.cursor(), charge, str(output), action=RELEASE, request=fingerprint, private=request.seed is None
        )
        status = "failed"
        try:
            held = _held(session, request, plan, ledger, entry)
            facts = _run_and_store(
                session, request, plan, held, output=output, marks={"entry": entry, "request": fingerprint}
            )
            status = "done"
        finally:
            with (
                calls.shielded(),
                suppress(duckdb.Error),
            ):  # an entry that stays open counts all the same, and as done if its release is there
                ledger.close(session.cursor(), entry, status)
        return output, _summary(output, facts, started, reused=False)


@uncollected()
def make_plan(session: Session, request: Request) -> Plan:
    """Compile the request against the public domain; every refusal of the workload happens here."""
    con = session.cursor()
    relation = relations.describe(con, request.table, session.place, RELEASE)
    with Sandbox(session.settings) as sandbox:
        domain = read_domain(con, relation, request.domain, session.place, sandbox)
        compiled = compile_workload(domain, request.workload, sandbox)
    if not compiled.classes:
        raise refuse(
            WorkloadError,
            RELEASE,
            f"the workload ({len(request.workload)} rows) asks about no column, so there is nothing to synthesize",
            "add a predicate or a group_by over a column",
        )
    queries, weights = compiled.distinct
    linear = [query.linear for query in queries]
    _check_room(request, compiled)
    is_plain = request.rounds is None and not request.average
    rounds = request.rounds or default_rounds(len(linear), len(compiled.classes))
    shape = {name: classes.count for name, classes in compiled.classes.items()}
    strategy, at_once = _strategy(request, linear, weights, shape, rounds)
    is_whole = at_once or strategy.whole
    if is_whole:
        rounds = max(1, sum(rounds_of(strategy.queries[own.query].shape) for own in strategy.first))
    # The paper's own figure stays as it is.
    details = details_of(compiled.classes) if is_plain else {}
    cap = cap_of(con, relation, session.place, RELEASE)
    shares = split(
        request.budget, rounds, total_is_public=request.total is not None or is_whole,
        histogram=request.start == "histogram", first=FIRST_SHARE if strategy.first and not is_whole else Fraction(0), growing=is_plain and not is_whole,
        detail=DETAIL_SHARE if details else Fraction(0),
        selecting=Fraction(0) if is_whole else PAPER_SHARE if request.average else SELECT_SHARE, sensitivity=request.rows_per_unit,
        counted_in_rho=cap is not None and not cap.pure,
    )  # fmt: skip
    _check_rows(request, shares)
    problem = Problem(
        strategy.queries, strategy.weights, compiled.sizes, request.max_cells, request.total, _histogram(request, shape), request.average,
        request.rows_per_unit, request.fit, strategy.first, strategy.whole, at_once, details,
    )  # fmt: skip
    scanned = compiled.classes | {detail.name: detail.scanned for detail in details.values()}
    pushdown = plan_pushdown(relation, scanned, problem.kernel_queries(), _unit(request, relation))
    return Plan(relation, compiled, problem, shares, pushdown)


def _strategy(
    request: Request, queries: Sequence[LinearQuery], weights: Floats, shape: Mapping[str, int], rounds: int
) -> tuple[Strategy, bool]:
    """What is measured, by what is asked: one histogram of parities, the joint distributions of few sets of attributes, or what rounds select.

    The last element: whether it is the first of these.
    """
    if request.average:
        # The theorem is about the workload's own queries and even shares.
        return Strategy(list(queries), weights, []), False
    if request.rounds is None and (request.start, request.fit) == ("uniform", "mirror"):
        measured = float((1 - SELECT_SHARE) * (1 if request.total is not None else 1 - TOTAL_SHARE) / rounds)
        cells = math.prod(shape.values())
        if are_parities(queries):
            if cells <= request.max_cells and is_told_at_once(cells, measured):
                return Strategy([whole_domain(shape)], np.ones(1), []), True
        elif found := together(queries, weights, shape, request.max_cells):
            return found, False
    found = extend(queries, weights, shape, request.rounds)
    if sum(found.queries[own.query].cells for own in found.first) > request.max_cells:
        # The model has no room for them.
        found = replace(found, first=[])
    return found, False


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


def default_rounds(queries: int, attributes: int) -> int:
    """`rounds := NULL`: how many rounds there are unless steps grow; public numbers only. At most one per distinct query.

    Chosen on Adult's eight attributes: fewer rounds have a larger maximum over cuboids, more rounds a larger average.
    """
    return max(1, min(queries, max(MINIMUM_ROUNDS, ROUNDS_PER_ATTRIBUTE * attributes)))


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


def _charge(request: Request, plan: Plan) -> Charge:
    """What a release takes; its unit by the protected table's own name for it, if it has one."""
    origin = None if request.unit is None else plan.relation.origin(request.unit, RELEASE)
    return Charge.of(
        plan.split, origin or request.unit, request.rows_per_unit, computed=request.unit is not None and origin is None
    )


def _held(session: Session, request: Request, plan: Plan, ledger: Ledger, entry: str) -> engine.Held:
    """Whether a snapshot has what was planned and charged: the same definition, under the same account. Of files, their state."""

    def held(con: duckdb.DuckDBPyConnection) -> engine.State:
        relation = relations.describe(con, request.table, session.place, RELEASE)
        if relation != plan.relation or ledger.account(con) != ledger.charged(con, entry):
            raise engine.ChangedError
        return relation.files.state if relation.files else lambda: None

    return held


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


def _run_and_store(
    session: Session, request: Request, plan: Plan, held: engine.Held, *, output: Name, marks: Mapping[str, str]
) -> dict[str, Any]:
    outcome = _run(session, request, plan, held)
    compiled, state = plan.compiled, outcome.state.state
    # What no measurement told apart is not told apart in what is stored.
    classes = {name: own.merged(outcome.state.grids[name].groups) for name, own in compiled.classes.items()}
    for name, told in outcome.told.items():
        classes[name] = plan.problem.details[name].told(outcome.state.grids[name].groups, told.labels, told.rows)
    rows = request.rows or max(1, round(outcome.total))
    generator = np.random.default_rng(request.seed)
    facts: dict[str, Any] = {
        **marks, "version": request.version, "rows": rows,
        "epsilon": float(request.budget.epsilon), "delta": float(request.budget.delta),
        "rounds": outcome.count("round", "again"), "again": outcome.count("again"),
        "queries": len(compiled.queries), "attributes": len(compiled.classes), "cells": state.cells,
        "total": outcome.total, "total_is_public": request.total is not None, "unit": request.unit,
        "rows_per_unit": request.rows_per_unit, "private": request.seed is None,
        "domain": json.dumps(_published(compiled).to_json()), "grid": json.dumps(store.classes_to_json(classes)),
    }  # fmt: skip
    asked = () if plan.problem.at_once or plan.problem.whole else compiled.distinct[0]
    columns = draw_rows(state, classes, rows, generator)
    try:
        measured = measurements.table(plan.problem, asked, outcome, classes)
        release = store.write(session.cursor(), output, facts, columns, measurements=measured, factors=_factors(state))
    except duckdb.Error as error:
        raise refuse(
            OutputError,
            RELEASE,
            f"output ({output}) could not be written ({str(error).splitlines()[0]})",
            "make room or check the database; the budget of this call is spent",
        ) from None
    return facts | {"release": release}


def _run(session: Session, request: Request, plan: Plan, held: engine.Held) -> Outcome:
    """The private part: true answers into the kernel, and the loop on top of it.

    Privacy:
        The debit has been committed. Only the outcome leaves, which the kernel's select and measure produced.
    """
    accountant = plan.split.accountant()
    noise = OpenDPNoise() if request.seed is None else SeededNoise(request.seed)
    answers = engine.true_answers(session.cursor(), plan.pushdown, held)
    kernel = Kernel(answers, plan.pushdown.cells, accountant, noise, request.rows_per_unit, plan.problem.bounds())
    del answers
    with frozen():
        outcome = mwem(kernel, plan.problem, plan.split, lambda done, of: _log.info("round %d of %d", done, of))
    accountant.settle()
    if outcome.count("again"):
        _log.info(
            "%d of %d rounds measured again what is in the model: no other query is left that fits max_cells (%d)",
            outcome.count("again"), outcome.count("round", "again"), request.max_cells,
        )  # fmt: skip
    return outcome


def _published(compiled: Compiled) -> Domain:
    """The domain of the released attributes only."""
    attributes = tuple(attribute for attribute in compiled.domain if attribute.name in compiled.classes)
    return Domain(compiled.domain.table, tuple(attribute.name for attribute in attributes), attributes)


def _factors(state: State | Mixture) -> pa.Table:
    table = state.table()
    if isinstance(state, State):
        table = table.add_column(0, "state", pa.array(np.zeros(table.num_rows, dtype=np.int32)))
    return table


def _summary(output: Name, facts: Mapping[str, Any], started: float, *, reused: bool) -> dict[str, Any]:
    shown = {
        **facts, "output": str(output), "seconds": round(time.monotonic() - started, 3), "reused": reused,
        "protects": protected(facts["unit"], facts["rows_per_unit"]), "warning": nominal(facts["epsilon"], facts["delta"], facts["rows"]),
    }  # fmt: skip
    return {name: shown[name] for name in SUMMARY}
