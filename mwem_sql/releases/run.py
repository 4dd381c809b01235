"""A release from request to stored output: check, charge, run, store.

The order is the guarantee: everything that can be refused is refused on public facts before the debit, the debit is
committed before the first private row is read, and output and metadata appear together or not at all.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from mwem_sql.accounting.accounts import identity_of
from mwem_sql.accounting.caps import Charge
from mwem_sql.accounting.ledger import Ledger, Receipt
from mwem_sql.accounting.partitions import extent_of
from mwem_sql.accounting.subjects import check_writable
from mwem_sql.algebra.arrays import Integers
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.boundary import relations
from mwem_sql.compile.compiled import Compiled
from mwem_sql.domains.classes import Classes
from mwem_sql.errors import (
    RELEASE,
    DomainError,
    OptionError,
    OutputError,
    WorkloadError,
    refuse,
)
from mwem_sql.judge import certificate
from mwem_sql.kernel.accountant import Accountant
from mwem_sql.kernel.draws import Draws
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.noise import Noise, OpenDPNoise, SeededNoise
from mwem_sql.loop.loop import mwem
from mwem_sql.loop.problem import Outcome, Problem
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.platform import calls, catalog
from mwem_sql.platform.calls import announce, frozen
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.session import Session
from mwem_sql.releases import entries, grid, reuse, store, summary
from mwem_sql.releases.discovery import MOST_VALUES, discover, most_frequent, warning_of
from mwem_sql.releases.entries import Entry
from mwem_sql.releases.plan import Plan, make_plan, with_values
from mwem_sql.releases.request import Request
from mwem_sql.releases.rows import row_rules
from mwem_sql.scan import execution
from mwem_sql.scan.engines.protocol import Snapshot
from mwem_sql.synthesis.values import draw_rows

_log = logging.getLogger("mwem_sql")


def run_release(session: Session, request: Request) -> tuple[Name, dict[str, Any]]:
    """Make the release or find the stored one; the output's name and the summary row."""
    started = time.monotonic()
    calls.stands("mwem_ledger() tells the same: nothing was charged. Call again, at no loss")
    con = session.cursor()
    private, output = reuse.names(con, session, request)
    with reuse.output_lock(con, output):
        fingerprint = reuse.fingerprint(con, session, request, private, output)
        facts = reuse.stored_release(con, output, fingerprint, request)
        if facts is not None:
            reuse.check_seed(con, session, request, private)
            reuse.restore_table(session, request, output)
            seconds, warnings = time.monotonic() - started, [summary.rows_used_warning(facts)]
            return output, summary.row(output, facts, seconds, warnings, reused=True)
        plan, ledger = planned(con, session, request, output)
        discovery = plan.discovery
        with entries.opened(
            session,
            request,
            ledger,
            charge_of(request, plan),
            fingerprint,
            output=output,
            outputs=str(output),
            workload=first_query(plan.compiled),
            noise=noise_of(request),
        ) as entry:
            check = _check_of(session, request, plan, ledger, entry.receipt)
            plan, missing = _discover(session, request, plan, check, entry.draws)
            facts = _run_and_store(
                session,
                request,
                plan,
                check,
                entry,
                output=output,
                marks={"entry": entry.receipt.entry, "request": fingerprint.hash, "asked": fingerprint.content},
            )
            entry.rho = facts["rho"] + (discovery.threshold.rho if discovery is not None else 0)
        announce(request.table, "done")
        warnings = [
            plan.warning,
            plan.extent.warning,
            missing,
            entry.warning,
            facts["waived"],
            *facts["beyond"],
            summary.rows_used_warning(facts),
            uncapped(request, ledger, entry.receipt),
        ]
        return output, summary.row(output, facts, time.monotonic() - started, warnings, reused=False)


def planned(con: duckdb.DuckDBPyConnection, session: Session, request: Request, output: Name) -> tuple[Plan, Ledger]:
    """The plan of a release that is not stored yet, and the ledger to debit; all is refused here but by caps."""
    announce(request.table, "planning")
    plan = make_plan(session, request)
    databases = catalog.databases(con)
    if databases[output.database].read_only:
        what = f"output ({output}) is in a database that cannot be written"
        hint = "give output := 'database.schema.table' in a writable one, or USE one"
        raise refuse(OutputError, RELEASE, what, hint)
    ledger = plan.ledger
    assert ledger is not None  # the plan is of the table itself
    check_writable(session, ledger, databases, RELEASE)
    reuse.check_replaceable(con, [output], request.version)
    reuse.check_theirs(session, ledger, [output])
    return plan, ledger


def noise_of(request: Request) -> Noise:
    """What noise is drawn from: OpenDP's, or what a seed repeats."""
    return OpenDPNoise() if request.seed is None else SeededNoise(request.seed)


def charge_of(request: Request, plan: Plan) -> Charge:
    """What a release takes; its unit by the protected table's own name for it, if it has one, or by its table's."""
    if plan.relation.unit is not None:
        charge = Charge.of(plan.schedule.composition, plan.relation.unit.table.table, None)
        return charge if plan.discovery is None else charge.finding(plan.discovery.threshold)
    origin = None if request.unit is None else plan.relation.origin(request.unit, RELEASE)
    unit = origin.name if origin is not None else request.unit
    charge = Charge.of(
        plan.schedule.composition, unit, request.rows_per_unit, computed=unit is not None and origin is None
    )
    if plan.extent.scope is not None:
        charge = replace(charge, scope=plan.extent.scope, partition=plan.extent.partition)
    return charge if plan.discovery is None else charge.finding(plan.discovery.threshold)


def first_query(compiled: Compiled) -> str:
    """A workload as the ledger shows it: its first query, and how many more there are."""
    first = " ".join(compiled.queries[0].label.split())
    first = first if len(first) <= 60 else f"{first[:57]}..."
    return first if len(compiled.queries) == 1 else f"{first} and {len(compiled.queries) - 1:,} more"


def _check_of(session: Session, request: Request, plan: Plan, ledger: Ledger, receipt: Receipt) -> execution.Check:
    """Whether a snapshot has what was planned and charged: the same definition, account, unit and scope.

    Of files, their state.
    """
    charge = receipt.charge

    def check(snapshot: Snapshot) -> execution.Fingerprint:
        con = snapshot.home or session.private.cursor()
        with catalog.read_once(con):
            return checked(con, snapshot)

    def checked(con: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> execution.Fingerprint:
        relation = relations.describe(con, request.table, session.private.place, RELEASE, snapshot, unit=request.unit)
        there = replace(ledger, identity=identity_of(relation, catalog.databases(con))).at(con)
        planned = _unit_column(plan.relation, request) or charge.unit_id  # the debit may have marked it
        if relation != plan.relation or there.account != receipt.account or _unit_column(relation, request) != planned:
            raise execution.ChangedError
        # Taken back meanwhile, it counts for all values whatever its scope is.
        if charge.scope is not None and there.partition == charge.partition:
            extent = extent_of(con, there, relation, request.unit, session.settings)
            if extent.scope != charge.scope:
                raise execution.ChangedError
        return relation.files.state if relation.files else lambda: None

    return check


def _unit_column(relation: relations.Relation, request: Request) -> str:
    """What the column, or table, of a unit is known by; empty without a unit, or where a view computes it."""
    if relation.unit is not None:
        return relation.unit.id
    origin = None if request.unit is None else relation.origin(request.unit, RELEASE)
    return origin.id if origin is not None else ""


def _run_and_store(
    session: Session,
    request: Request,
    plan: Plan,
    check: execution.Check,
    entry: Entry,
    *,
    output: Name,
    marks: Mapping[str, str],
) -> dict[str, Any]:
    made = made_of(request, plan, _run(session, request, plan, check, entry.draws), marks)
    waived = entries.withhold(request, made.facts, entry, output)
    announce(request.table, "rows")
    generator = np.random.default_rng(request.seed)
    rules = row_rules(plan.compiled.published, session.settings)
    columns = draw_rows(made.state, made.classes, made.facts["rows"], generator, rules)
    (release,) = store_all(
        session, [store.Content(facts=made.facts, rows=columns, tables=made.tables, off=made.off, name=output)]
    )
    return made.facts | {"release": release, "beyond": made.off, "rho": made.rho, "waived": waived}


def store_all(session: Session, contents: Sequence[store.Content]) -> list[int]:
    """Store what a call has made; a sentence if that fails."""
    try:
        return store.write(session.cursor(), contents)
    except duckdb.Error as error:
        output = ", ".join(str(content.name) for content in contents)
        what = f"output ({output}) could not be written ({str(error).splitlines()[0]})"
        hint = "make room or check the database, and call again, at no further cost: what was measured is kept"
        raise refuse(OutputError, RELEASE, what, hint) from None


@dataclass(frozen=True, eq=False, kw_only=True)
class Made:
    """What a run gives, ready to be stored but for the rows: its state on classes that measurements distinguish."""

    facts: dict[str, Any]
    state: State | Mixture
    classes: dict[str, Classes]
    tables: dict[str, pa.Table]
    off: list[str]
    """Sentences of rows off the domain."""
    rho: Fraction
    """What was taken."""

    @property
    def rows(self) -> int:
        return int(self.facts["rows"])


def merged(plan: Plan, outcome: Outcome) -> tuple[State | Mixture, dict[str, Classes]]:
    """A state and its classes, without distinctions that no measurement makes."""
    classes = {name: fine.merge(outcome.state.partitions[name]) for name, fine in plan.compiled.classes.items()}
    for name, inside in outcome.details.items():
        detail, groups = plan.problem.details[name], outcome.state.partitions[name]
        classes[name] = detail.weigh(groups, inside.labels, inside.rows, outcome.kinds.get(name))
    return outcome.state.merged(), classes


def rows_of(outcome: Outcome) -> int:
    """As many rows as an outcome says."""
    return 0 if outcome.is_empty else max(1, round(outcome.total))


def made_of(request: Request, plan: Plan, outcome: Outcome, marks: Mapping[str, str], rows: int | None = None) -> Made:
    """What is stored of an outcome; with as many rows as it says, or as are known."""
    compiled, (state, classes) = plan.compiled, merged(plan, outcome)
    is_public = plan.problem.total is not None and rows is None  # of a table below others, these say the number
    if rows is None:
        rows = request.rows or rows_of(outcome)
    measured = certificate.families(plan.problem, outcome)
    bounds = certificate.bounds(compiled, outcome, measured)
    facts: dict[str, Any] = {
        **marks,
        "version": request.version,
        "rows": rows,
        "epsilon": float(request.budget.epsilon),
        "delta": float(request.budget.delta),
        "rounds": outcome.count("round", "again"),
        "again": outcome.count("again"),
        "queries": len(compiled.queries),
        "attributes": len(compiled.classes),
        "cells": state.cells,
        "total": outcome.total,
        "total_is_public": is_public,
        "unit": request.unit,
        "rows_per_unit": request.rows_per_unit,
        "private": request.seed is None,
        **certificate.facts(bounds, compiled, outcome, measured),
        **summary.unit_facts(outcome.units),
        "domain": json.dumps(compiled.published.to_json()),
        "grid": json.dumps(grid.to_json(classes)),
    }
    tables = {
        "measurements": _measurements(plan, outcome, classes),
        "factors": _factors(state),
        "bounds": bounds,
        "certificates": certificate.table(outcome),
        "workloads": store.workload_rows(compiled.queries.workload),
    }
    return Made(
        facts=facts,
        state=state,
        classes=classes,
        tables=tables,
        off=summary.off_domain(state, classes),
        rho=Charge.of(outcome.schedule.composition).rho,
    )


def _discover(
    session: Session, request: Request, plan: Plan, check: execution.Check, draws: Draws
) -> tuple[Plan, str | None]:
    """The plan with the values that were found, and what is to be said of them; the plan itself if none are wanted.

    With too many values a plan may be refused: then half of them are left out, until it is made. Without any it was
    made before the charge.
    """
    if plan.discovery is None:
        return plan, None
    announce(request.table, "reading")
    frequent = discover(session, plan.relation, plan.discovery, check, draws)
    most = min(MOST_VALUES, max(map(len, frequent.values())))
    while True:
        values = most_frequent(frequent, most)
        try:
            return with_values(session, request, plan, values), warning_of(frequent, values)
        except (WorkloadError, DomainError, OptionError):
            if not most:
                raise
            most //= 2


def _run(session: Session, request: Request, plan: Plan, check: execution.Check, draws: Draws) -> Outcome:
    """The private part: true answers into the kernel, and the loop on top of it.

    Privacy:
        The debit has been committed. Only the outcome leaves, which the kernels' select, measure and certify produced.
    """
    accountant = plan.schedule.composition.accountant()
    announce(request.table, "reading")
    rows = execution.engine_of(session.private.cursor(), plan.relation)
    answers = execution.true_answers(rows, plan.pushdown, check)
    run = Run(request, plan, answers, accountant, draws)
    del answers
    outcome = run.certified(run.loop(plan.problem))
    accountant.settle()
    return outcome


class Run:
    """One table's part of a release: its kernel, which has the true answers from here on, and what is asked of it."""

    def __init__(self, request: Request, plan: Plan, answers: Integers, accountant: Accountant, draws: Draws) -> None:
        answers, units = plan.pushdown.apart(answers)
        self._request, self._plan, self._draws = request, plan, draws
        self._kernel = Kernel(
            answers, plan.pushdown.cells, accountant, draws, request.rows_per_unit, plan.problem.bounds()
        )
        # A unit is in one of the two cells, and counts once there, however many rows it has.
        self._of_units = Kernel(units, [units.size], accountant, draws) if units.size else None

    def loop(self, problem: Problem) -> Outcome:
        """What is measured, and the state that is fitted to it."""
        request, plan = self._request, self._plan

        def progress(done: int, of: int, q: int) -> None:
            announce(request.table, "rounds", done=done, of=of, query=plan.label(q))

        self._draws.note(*plan.identity())
        with frozen():
            outcome = mwem(self._kernel, problem, plan.schedule, progress)
        if outcome.count("again"):
            _log.info(
                "%d of %d rounds measured again what is in the model: no other query is left that fits max_cells (%d)",
                outcome.count("again"), outcome.count("round", "again"), request.max_cells,
            )  # fmt: skip
        return outcome

    def certified(self, outcome: Outcome) -> Outcome:
        """With what is measured last: how far off the state is, and how many units have more rows than are used."""
        figures = certificate.certify(self._kernel, self._plan.problem, outcome.schedule.share("certify"), outcome)
        outcome = replace(outcome, certificate=figures)
        if self._of_units is not None:
            outcome = replace(outcome, units=self._of_units.measure(0, outcome.schedule.share("units")))
        return outcome


def _measurements(plan: Plan, outcome: Outcome, classes: Mapping[str, Classes]) -> pa.Table:
    """The rows of mwem.measurements; `classes` are those that are stored."""
    problem = plan.problem
    # A class of each group stands for all of them.
    firsts = {name: partition.representatives for name, partition in outcome.state.partitions.items()}
    # What groups do not distinguish is on pieces: the class of each.
    pieces = {name: plan.compiled.classes[name].holding(stored.pieces) for name, stored in classes.items()}
    details = {detail.name: name for name, detail in problem.details.items()}
    rows = []
    for step, measurement in enumerate([*outcome.measurements, *plan.public], start=1):
        query = None
        if measurement.purpose in {"rule", "known"}:
            name, stored = measurement.name, measurement.on(firsts)
        elif measurement.purpose == "detail":
            # On the pieces of the attribute's domain: the cell of each.
            name = details[measurement.query.attributes[0]]
            (block,) = measurement.query.blocks
            labels = block.labels[problem.details[name].cells_of(classes[name])]
            stored = replace(measurement, query=LinearQuery((Block((name,), labels, block.size),)))
        else:
            name, distinguishes = measurement.purpose, outcome.state.partitions.distinguishes
            stored = measurement.on(firsts if all(map(distinguishes, measurement.query.blocks)) else pieces)
            if measurement.number is not None and name not in {"total", "histogram"}:
                name, query = plan.label(measurement.number), plan.workload_query(measurement.number)
        number = query.row_number if query else None
        rows.append({"step": step, "query": number, **store.encode(replace(stored, name=name))})
    return pa.Table.from_pylist(rows, schema=store.MEASUREMENTS)


def _factors(state: State | Mixture) -> pa.Table:
    table = state.table()
    if isinstance(state, State):
        table = table.add_column(0, "state", pa.array(np.zeros(table.num_rows, dtype=np.int32)))
    return table


def uncapped(request: Request, ledger: Ledger, receipt: Receipt) -> str | None:
    """What a table without a cap has spent in all, in words; nothing if this was its first release."""
    balance = receipt.balance
    if balance.cap is not None or balance.spent <= request.budget.epsilon:
        return None
    delta = f" and delta {float(balance.delta):g}" if balance.delta else ""
    table = ledger.identity.table.table
    return (
        f"no cap on {table}: its releases have spent epsilon {balance.epsilon_spent:g}{delta} together"
        " (mwem_budget sets one)"
    )
