"""`mwem_plan`: what a release would run and cost, as rows a person can read.

Owns the words of the plan. Must show public facts only: no statistics of the table, and nothing beyond the plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from mwem_sql.accounting.caps import nominal, protected
from mwem_sql.compile.compiled import Compiled, CompiledQuery
from mwem_sql.domains.detail import Detail
from mwem_sql.errors import OptionError, refuse
from mwem_sql.explain import coverage
from mwem_sql.kernel.scales import Kind, selection_scale
from mwem_sql.loop.plan import Schedule
from mwem_sql.platform.session import Session
from mwem_sql.releases import reuse, store
from mwem_sql.releases.levels import TablesRequest, plan_tree
from mwem_sql.releases.plan import Plan, make_plan
from mwem_sql.releases.request import Request
from mwem_sql.releases.store import Stored
from mwem_sql.scan.dialects.dialect import Dialect
from mwem_sql.scan.parts import ScanPart

SHOWN_STATEMENTS = 3  # of one part
SHOWN_CHARACTERS = 20_000
COMPOSITIONS: Mapping[Kind, str] = {"pure": "pure epsilon, Laplace noise", "zcdp": "zCDP, Gaussian noise"}
SHOWN_PAIRS = 5
"""Pairs of a start that are listed."""


def plan_rows(session: Session, request: Request | TablesRequest) -> Iterator[dict[str, str]]:
    """Rows (item, value) in reading order."""
    if isinstance(request, TablesRequest):
        yield from _tree_rows(session, request)
        return
    release = None
    if request.domain is None:
        release = store.in_place_of_table(session.cursor(), request.table, session.place, "mwem_plan")
        if release is not None and release.domain.link is not None:
            what = f"output ({release.name}) is of a release of several tables, which are planned together"
            hint = (
                "name the private tables: mwem_plan(['person', 'visit'], ...); mwem_quality says how good this one is"
            )
            raise refuse(OptionError, "mwem_plan", what, hint)
    if release is None:
        reuse.names(session.cursor(), session, request)  # an output that a release would refuse
    yield from _rows_of(make_plan(session, request, release), request, release)


def _tree_rows(session: Session, request: TablesRequest) -> Iterator[dict[str, str]]:
    """The same of several tables: what is about all of them, and then each, the root first."""
    for text in request.tables:
        reuse.names(session.cursor(), session, request.of(text))
    tree = plan_tree(session, request)
    yield {"item": "tables", "value": ", ".join(one.level.name for one in tree.levels)}
    yield {"item": "protects", "value": tree.protects}
    for one in tree.levels:
        rows = _rows_of(one.plan, one.request)
        yield next(rows)
        yield {"item": "share", "value": f"{float(one.plan.part):.0%} of the budget"}
        yield from (row for row in rows if row["item"] != "protects")


def _rows_of(plan: Plan, request: Request, release: Stored | None = None) -> Iterator[dict[str, str]]:
    """What would run for one table."""
    request = replace(request, total=plan.problem.total)
    compiled, schedule = plan.compiled, plan.schedule
    counts = {name: classes.count for name, classes in compiled.classes.items()}
    widest = max(compiled.queries, key=lambda query: query.linear.domain_cells)
    always = schedule.share("always")
    scales = list(coverage.scales(plan)) or ([schedule.composition.scale(always)] if always else [])
    predicted = schedule.composition.predicted
    named = nominal(float(request.budget.epsilon), float(request.budget.delta), request.rows or request.total)
    warning = "; ".join(filter(None, (named, plan.warning)))
    yield {"item": "table", "value": str(plan.relation.charged) if release is None else release.domain.table}
    if release is not None:
        yield {"item": "from release", "value": _instead(release)}
    if warning:
        yield {"item": "warning", "value": warning}
    for item, value in coverage.expected(plan, request):
        yield {"item": item, "value": value}
    facts = {
        "protects": protected(request.unit, request.rows_per_unit),
        **({} if plan.extent.words is None else {"counts for": plan.extent.words}),
        "epsilon": f"{float(request.budget.epsilon):g}",
        "delta": f"{float(request.budget.delta):g}",
        "composition": _by_rows(plan, lambda each: COMPOSITIONS[each.kind]),
        **({} if plan.discovery is None else {"discovers": plan.discovery.words}),
        "rounds": _rounds(plan),
        "total": _total(plan),
        "start": _start(request, plan),
        "queries": f"{len(compiled.queries):,} rows, {len(compiled.distinct.queries):,} distinct",
        "attributes": ", ".join(f"{name} {count:,}" for name, count in counts.items()) + " (classes)",
        **_left_out(compiled, [column.name for column in plan.relation.columns]),
        **_public(plan),
        "domain cells": f"{math.prod(counts.values()):,}",
        "widest query": f"{widest.linear.domain_cells:,} cells: {widest.label}",
        "candidates": _candidates(plan),
        "first": f"{_first(plan)} of the budget",
        "details": _details(plan.problem.details, schedule),
        "certificate": _certificate(schedule, len(plan.problem.certified)),
        **({} if request.publish_if is None else {"publish_if": _publication(request.publish_if)}),
        "selecting": f"{float(schedule.selecting):.0%} of a round",
        "selection scale": _by_rows(plan, _selection) if schedule.selects else "nothing to select",
        "noise scale": f"{_range(scales)} per cell of a count" if scales else "nothing is measured in rounds",
        "noise if pure": f"standard deviation {predicted.pure:.6g}",
    }
    sums = {
        query.linear.bound * query.linear.unit: query for query in compiled.queries if query.source.measure is not None
    }
    if sums:
        facts["largest measure"] = _largest(sums[max(sums)], request, schedule)
    if predicted.zcdp is not None:
        facts["noise if zCDP"] = f"standard deviation {predicted.zcdp:.6g}"
    parts = plan.pushdown.parts
    facts["scans"] = str(sum(len(part.statements) for part in parts))
    for item, value in facts.items():
        yield {"item": item, "value": value}
    for statement in plan.discovery.statements if plan.discovery is not None else ():
        yield {"item": "discovery", "value": statement}
    for part in parts:
        yield {"item": "plan", "value": part.words}
        yield {
            "item": "estimate",
            "value": f"{part.estimate}; relative cost per row {part.cost:,.0f} (1 is to sum up a column)",
        }
        for value in aggregates(part, plan.pushdown.dialect):
            yield {"item": "aggregate", "value": value}


def _start(request: Request, plan: Plan) -> str:
    start, shares = plan.problem.start, plan.schedule.of("start")
    if start is None:
        return request.start
    pairs = ", ".join(" with ".join(pair.names) for pair in start.pairs[:SHOWN_PAIRS])
    more = f" and {len(start.pairs) - SHOWN_PAIRS:,} more" if len(start.pairs) > SHOWN_PAIRS else ""
    said = f"{request.start}: {', '.join(start.one_ways)}" + (f"; {pairs}{more}" if pairs else "")
    share = f"{float(shares[0].share / plan.schedule.limit):.0%} of the budget" if shares else "what is measured"
    return f"{said}; {share} tells whether it is kept"


def aggregates(
    part: ScanPart, dialect: Dialect, *, statements: int = SHOWN_STATEMENTS, characters: int = SHOWN_CHARACTERS
) -> Iterator[str]:
    """The first statements of a part; of a thousand columns, one would fill a hundred screens."""
    for statement in part.statements[:statements]:
        text = dialect.sql(statement, pretty=True)
        more = len(text) - characters
        yield text if more <= 0 else f"{text[:characters]}\n... ({more:,} characters more)"
    if len(part.statements) > statements:
        yield f"... and {len(part.statements) - statements:,} more like these"


def _instead(release: Stored) -> str:
    """What is not known where a release stands for its private table."""
    return (
        f"{release.name}: a plan for its private table, with the domain and the columns that it was made with. The"
        " table itself, other columns of it and the cap on it are not known here; mwem_release needs the table"
    )


def _range(scales: Sequence[float]) -> str:
    least, most = f"{min(scales):.6g}", f"{max(scales):.6g}"
    return least if least == most else f"{least} to {most}"


def _largest(query: CompiledQuery, request: Request, schedule: Schedule) -> str:
    """The sum to which a record may add most. Without rounds it is added up from what is measured of its columns."""
    linear = query.linear
    noise = "added up from parts"
    if schedule.selects:
        scale = schedule.composition.scale(schedule.measure, linear.bound) * linear.unit
        noise = f"noise scale {scale:.6g} per cell"
    bins = coverage.from_bins(query, request.total)
    return f"up to {linear.bound * linear.unit:g}, in steps of {linear.unit:g}, {noise}{bins}: {query.label}"


def _selection(schedule: Schedule) -> str:
    if not schedule.left:
        return "none"
    return f"{selection_scale(schedule.select, schedule.composition.sensitivity, schedule.kind).scale:.6g}"


def _percent(schedule: Schedule, share: Fraction) -> str:
    return f"{float(share / schedule.limit):.0%}"


def _rounds(plan: Plan) -> str:
    schedule = plan.schedule
    if not schedule.selects:
        return f"of refining: {schedule.rounds}, or fewer"
    return _by_rows(plan, lambda each: f"{each.rounds if each.left else 0}")


def _by_rows(plan: Plan, value: Callable[[Schedule], str]) -> str:
    """What depends on n: one value, or one for each number of rows."""
    listed = {n: value(schedule) for n, schedule in coverage.by_rows(plan).items()}
    if len(set(listed.values())) == 1:
        return next(iter(listed.values()))
    return "by n: " + ", ".join(f"{each} of {n:,.0f} rows" for n, each in listed.items())


def _candidates(plan: Plan) -> str:
    schedule = plan.schedule
    if not schedule.selects:
        lines = schedule.of("round")
        if any(line.how == "with prior" for line in lines):
            return "one histogram of the whole domain"
        alone = "" if all(line.is_refined for line in lines) else ", or measured as it is"
        return f"none: all that is asked about is refined{alone}"
    listed = f"{len(plan.problem.queries):,}, with what cuboids add up to and partitions around counts"
    others = schedule.alternatives
    at_once = "; or all queries at once, by n" if others is not None and others.at_once else ""
    histogram = "; or one histogram of the whole domain, by n" if others is not None and others.histogram else ""
    return listed + at_once + histogram


def _total(plan: Plan) -> str:
    schedule = plan.schedule
    if plan.problem.total is not None:
        return "public constant"
    if schedule.of("total"):
        return f"private, {_percent(schedule, schedule.share('total'))} of the budget" + (
            ", and from the distributions that are measured first" if schedule.of("first") else ""
        )
    return "private, from all that is measured"


def _first(plan: Plan) -> str:
    """Distributions that are refined ahead of rounds, or in their place."""
    schedule = plan.schedule
    refined = [line for line in schedule.of("first", "round") if line.is_refined]
    if not schedule.selects:
        return f"{len(refined)} distributions, {_percent(schedule, schedule.share('round', 'always'))}"
    return f"{len(refined)} distributions, {_by_rows(plan, lambda each: _percent(each, each.share('first')))}"


def _details(details: Mapping[str, Detail], schedule: Schedule) -> str:
    if not details:
        return "none"
    listed = ", ".join(f"{name} {detail.count:,}" for name, detail in details.items())
    share = _percent(schedule, schedule.share("detail"))
    return f"inside classes, {share} of the budget: {listed} (parts, or fewer)"


def _certificate(schedule: Schedule, queries: int) -> str:
    if not schedule.of("certify"):
        return "none"
    return f"{_percent(schedule, schedule.share('certify'))} of the budget: how far off {queries:,} queries are"


def _publication(condition: str) -> str:
    return (
        f"{condition}, decided once it is made: the budget is spent either way, and nothing published if it is not met"
    )


def _public(plan: Plan) -> dict[str, str]:
    """What is public of rows, without any budget: rules, public totals, and columns that are computed."""
    domain = plan.compiled.published
    rules, computed = len(domain.rules), [each.name for each in domain.computed]
    cells = sum(each.purpose == "rule" for each in plan.public)
    out = {}
    if rules:
        out["rules"] = f"{rules:,} that no row breaks; {cells:,} of them are cells of the model that are 0"
    if domain.totals:
        about = "; ".join(dict.fromkeys(each.name for each in plan.problem.public_counts)) or "the number of rows alone"
        count = len(set(plan.problem.determined) & set(range(len(plan.compiled.distinct.queries))))
        out["known"] = f"{len(domain.totals):,} public totals that the release agrees with, of {about}"
        if plan.schedule.selects and count:
            out["known"] += f"; {count:,} of the queries follow from them and are not measured"
    if computed:
        out["computed"] = ", ".join(computed)
    return out


def _left_out(compiled: Compiled, columns: Sequence[str]) -> dict[str, str]:
    """The columns of the table that will not be in the output, and why."""
    reasons = {
        name: "no public domain" if compiled.domain.attribute(name) is None else "in no query"
        for name in columns if name not in compiled.published.columns
    }  # fmt: skip
    return {"left out": ", ".join(f"{name} ({reason})" for name, reason in reasons.items())} if reasons else {}
