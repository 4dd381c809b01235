"""What to expect of a release, in words: how many queries are measured, how well, and what would be better.

For `mwem_plan`. Every number follows from the plan's shares and the distribution of the noise: public all of it. Must
speak of what is measured, and not of what fits and guesses add to noise or take from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import groupby, pairwise
from math import pi, prod, sqrt
from typing import NamedTuple

import numpy as np

from mwem_sql.compile.compiled import CompiledQuery
from mwem_sql.domains.classes import Classes
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.scales import Kind, noise_scale, typical, within, zcdp_rho
from mwem_sql.loop.plan import Planned, Schedule, best
from mwem_sql.loop.refinement import Refinement
from mwem_sql.releases.plan import Plan, schedule_of
from mwem_sql.releases.request import Request

SHOWN = 20
"""Queries and attributes that are listed one by one."""
LISTED_STRETCHES, WIDE_STRETCH = 8, 1 / 64
"""An attribute of at most so many stretches has those listed that are wider than this part of its domain."""
LARGE = 0.9
"""Of the noise: advice is given if it would bring it below."""
DELTA = "1e-6"
SERVED = (1, 10, 100, 1000)
SIZES = (1_000, 10_000, 100_000, 1_000_000)
"""Rows of tables for which a plan is listed, where n decides."""
SMALL_ERROR = 0.01
"""Of a public total: what counts as close."""


def expected(plan: Plan, request: Request) -> Iterator[tuple[str, str]]:
    """Rows (item, value): what a person wants to know first."""
    yield "expect", _measured(plan, request)
    for shown in _always(plan, request):
        yield "always", shown
    for shown in _binned(plan, request):
        yield "bins", shown
    for name, classes in list(plan.compiled.classes.items())[:SHOWN]:
        unasked = _unasked(classes)
        if unasked:
            inside = (
                "its own distribution is measured there"
                if name in plan.problem.details
                else "rows are spread evenly there"
            )
            yield "told apart", f"{name}: nothing is asked inside {unasked}; {inside}"
    yield "serves", _served(request)
    for advice in _advice(plan, request):
        yield "advice", advice


def scales(plan: Plan, schedule: Schedule | None = None) -> dict[float, Kind]:
    """The scales of the noise on a measured cell, from the least to the most: in rounds, or of what is refined."""
    schedule = schedule or plan.schedule
    schedules = by_rows(plan, schedule).values() if schedule.selects else [schedule]
    return dict(
        sorted(
            (each.composition.scale(share), each.kind)
            for each in schedules
            for share in (_shares_in_rounds(each) if schedule.selects else _shares(plan, each))
        )
    )


def _shares(plan: Plan, schedule: Schedule) -> list[Fraction]:
    """Without rounds, what measuring a cell takes, from the most to the least: the last partition of what is refined.

    Where nothing is left to look at more closely, the last partition takes what the others would have had.
    """
    parts = _refined(plan, schedule)
    refined = {share for last in parts for share in (last.most, last.least)}
    return sorted(refined | {line.share for line in schedule.of("round") if not line.is_refined}, reverse=True)


def _histograms(schedule: Schedule) -> list[Planned]:
    """One histogram of the whole domain, if that is all that is measured."""
    return [line for line in schedule.of("round") if line.how == "with prior"]


class _Last(NamedTuple):
    """Of a distribution that is refined, what its last partition takes.

    `least`, if all others are measured, too; `most`, if only the first is.
    """

    least: Fraction
    most: Fraction


def _refined(plan: Plan, schedule: Schedule) -> list[_Last]:
    out = []
    for line in schedule.of("round"):
        if line.is_refined:
            shape = plan.problem.queries[line.number].shape
            parts = _parts(shape, line.how == "by cells", schedule.composition.power)
            least, most = _of(parts[-1:], parts), _of(parts[1:] or parts, parts)
            out.append(_Last(line.share * least, line.share * most))
    return out


@lru_cache(maxsize=64)
def _parts(shape: tuple[int, ...], by_cells: bool, power: int) -> list[float]:
    """A plan asks for the same ones several times, and to make the tree of a million cells takes a while."""
    return Refinement(shape, np.ones(prod(shape)), by_cells=by_cells).parts(power)


def _of(some: Sequence[float], parts: Sequence[float]) -> Fraction:
    return sum(map(Fraction, some), Fraction(0)) / sum(map(Fraction, parts))


def by_rows(plan: Plan, schedule: Schedule | None = None) -> dict[float, Schedule]:
    """By number of rows, what is measured in a table of so many; of a public total, that alone."""
    schedule = schedule or plan.schedule
    sizes = SIZES if schedule.alternatives is not None else SIZES[:1]
    return {n: best(schedule, n) for n in (sizes if plan.problem.total is None else [plan.problem.total])}


def _shares_in_rounds(schedule: Schedule) -> list[Fraction]:
    """Of measuring a cell: in a round, or where n makes other plans better, of what takes the place of rounds."""
    return [schedule.measure] if schedule.left else sorted({line.share for line in schedule.of("round")}, reverse=True)


def _measured(plan: Plan, request: Request) -> str:
    schedule, queries = plan.schedule, len(plan.compiled.distinct.queries)
    for line in _histograms(schedule):
        # A parity adds all cells up, with signs.
        off = sqrt(2 / pi * line.cells * schedule.composition.variance(line.share))
        return (
            f"all {queries:,} queries are measured, as sums over one histogram of {line.cells:,} cells;"
            f" each is off by about {_short(off)} rows"
        )
    if not schedule.selects:
        count = sum(line.is_refined for line in schedule.of("round"))
        alone = len(schedule.of("round")) - count
        sets = f"{count:,} joint distribution{'s' if count > 1 else ''}, refined" if count else "by themselves"
        sets += f", and {alone:,} that compare columns, as they are" if alone else ""
        sentence = f"; {_off(_shares(plan, schedule), request, schedule.kind, 'a measured part')}" if count else ""
        return f"all {queries:,} queries are about what is measured: {sets}{sentence}"
    return _in_rounds(plan, request, queries)


def _in_rounds(plan: Plan, request: Request, queries: int) -> str:
    by_sentence = groupby(by_rows(plan).items(), lambda each: _of_rows(plan, request, each[1], queries))
    sizes = [(sentence, [n for n, _ in group]) for sentence, group in by_sentence]
    sentences = [sentence for sentence, _ in sizes]
    if len(sizes) > 1:
        sentences = [f"of {_short(n)} rows{' or more' if more else ''}, {each}" for each, (n, *more) in sizes]
        sentences[0] = f"in a table {sentences[0]}"
    for line in plan.schedule.of("histogram"):
        cells = f"each of {line.cells:,} cells that it starts from"
        sentences.append(_off([line.share], request, plan.schedule.kind, cells))
    return "; ".join(sentences)


def _of_rows(plan: Plan, request: Request, schedule: Schedule, queries: int) -> str:
    """What is measured in a table of so many rows."""
    taken, always = _shares_in_rounds(schedule), len(schedule.of("always"))
    if schedule.left:
        measured = min(queries, always + schedule.rounds)
        off = _off(taken, request, schedule.kind, "a measured cell")
        return f"about {measured:,} of {queries:,} queries will be measured, {off}"
    if not taken:
        return f"each attribute by itself{f' and {always:,} of {queries:,} queries' if always else ''}"
    if plan.problem.histogram is None or schedule.of("round")[0].number != len(plan.problem.queries):
        return f"all {queries:,} queries at once, {_off(taken, request, schedule.kind, 'a cell')}"
    off = _off(taken, request, schedule.kind, "a cell of it")
    return f"all {queries:,} queries, as sums over one histogram of {plan.problem.histogram.cells:,} cells: {off}"


def _off(
    taken: Sequence[Fraction], request: Request, kind: Kind, what: str, *, unit: float = 1.0, bound: int = 1
) -> str:
    """Noise in words; of several shares, from the least to the most."""
    scales = sorted({noise_scale(share, request.rows_per_unit * bound, kind).scale for share in taken})
    about = [f"{_short(unit * typical(scale, kind))}" for scale in scales]
    rows = " rows" if unit == bound == 1 else ""
    listed = about[0] if about[0] == about[-1] else f"{about[0]} to {about[-1]}"
    return f"{what} is off by about {listed}{rows}, 95 of 100 within {_short(unit * within(scales[-1], kind, 0.95))}"


def _binned(plan: Plan, request: Request) -> Iterator[str]:
    """Sums over bins that are not measured in any case, whose line says it."""
    always = {line.workload for line in plan.schedule.of("always")}
    distinct = plan.compiled.distinct
    rows = [
        row
        for row, query in plan.compiled.queries.special.items()
        if query.reach and distinct.rows[distinct.of_row[row]] == row
    ]
    binned = [plan.compiled.queries[row] for row in sorted(rows) if distinct.of_row[row] not in always]
    for query in binned[:SHOWN]:
        yield f"{query.label}: its interval is as wide as noise makes it{from_bins(query, request.total)}"
    if len(binned) > SHOWN:
        yield f"... and {len(binned) - SHOWN:,} more"


def from_bins(query: CompiledQuery, total: float | None) -> str:
    """How far values may lie from the means of their bins, in words; nothing if there are no bins in a sum."""
    if query.reach is None:
        return ""
    most = query.reach.bound * query.reach.unit
    if query.over is not None:
        return f", and up to {_short(most)} from bins"
    return (
        f", and up to {_short(most)} a row from bins"
        if total is None
        else f", and up to {_short(most * total)} from bins"
    )


def _always(plan: Plan, request: Request) -> Iterator[str]:
    """What is measured in any case, and how well."""
    if _histograms(plan.schedule) and plan.compiled.distinct.always:
        yield "the histogram tells all of them"
    always = [(line, line.workload) for line in plan.schedule.of("always") if line.workload is not None]
    for line, number in always[:SHOWN]:
        query = plan.compiled.first_row(number)
        cells = f"{query.linear.cells:,} cell{'s' if query.linear.cells > 1 else ''}"
        what = "each" if query.linear.cells > 1 else "it"
        off = _off([line.share], request, plan.schedule.kind, what, unit=query.linear.unit, bound=query.linear.bound)
        # Of an average its sum and its count are measured.
        name = query.label if query.over is None else f"sum of {query.label}"
        yield f"{name}: {cells}, {off}{from_bins(replace(query, over=None), request.total)}"
    if len(always) > SHOWN:
        yield f"... and {len(always) - SHOWN:,} more"


def _unasked(classes: Classes) -> str | None:
    """Stretches of a domain inside which no query tells values apart, if they are wide."""
    pieces = classes.pieces
    sizes = np.bincount(classes.codes[: pieces.non_null], pieces.sizes[: pieces.non_null], minlength=classes.count)
    if pieces.attribute.values is not None:
        values, groups = pieces.non_null, int((sizes > 0).sum())
        return f"{groups:,} group{'s' if groups > 1 else ''} of its {values:,} values" if groups < values else None
    begins = np.flatnonzero(np.diff(classes.codes[: pieces.non_null], prepend=-1))
    stretches = list(pairwise([*begins.tolist(), pieces.non_null]))
    wide = [
        (begin, end)
        for begin, end in (stretches if len(stretches) <= LISTED_STRETCHES else ())
        if end - begin > 1 or not pieces.listed
        if pieces.sizes[begin:end].sum() > WIDE_STRETCH * sizes.sum()
    ]
    # Beside a constant of a continuous range a stretch begins one float further: nobody wants to read that.
    text = pieces.attribute.text if pieces.attribute.ordered.discrete else _short
    return ", ".join(f"[{text(pieces.lows[a].item())}, {text(pieces.highs[b - 1].item())}]" for a, b in wide) or None


def _served(request: Request) -> str:
    """How noise grows with the number of queries that share the budget, each measured as it is."""
    listed = [f"{count:,}: {_short(_alone(request, count))}" for count in SERVED]
    alone = listed[0].split(": ")[1]
    sentence = (
        f"a cell of one query that is measured alone is off by about {alone} rows; of each of {', '.join(listed[1:])}"
    )
    if request.total is None:
        return sentence
    low, high = 0, 2**40
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _alone(request, middle) <= SMALL_ERROR * request.total else (low, middle)
    error = f"{_short(SMALL_ERROR * request.total)} rows, {SMALL_ERROR:.0%} of the total"
    return f"{sentence}; {low:,} can be served with {error}"


def _alone(request: Request, count: int) -> float:
    """The noise on a cell if so many queries take all of the budget in even shares."""
    budget = request.budget
    limits: dict[Kind, Fraction] = {"pure": budget.epsilon}
    if budget.delta:
        limits["zcdp"] = zcdp_rho(budget.epsilon, budget.delta)
    return min(
        typical(noise_scale(limit / count, request.rows_per_unit, kind).scale, kind)
        for kind, limit in limits.items()
        if limit
    )


def _advice(plan: Plan, request: Request) -> Iterator[str]:
    """What would lower the noise of this very request: only what does, by how much."""
    now = _noise(plan, plan.schedule)
    if not now:
        return
    if not request.budget.delta and (plan.cap is None or not plan.cap.pure):
        loose = replace(request, budget=Budget.parse(str(float(request.budget.epsilon)), DELTA))
        then = _noise(plan, schedule_of(loose, plan))
        if then < LARGE * now:
            yield f"delta := {DELTA} would bring {_short(now)} rows down to {_short(then)}"
    if request.rounds is not None and request.rounds > 1 and plan.schedule.selects:
        fewer = replace(request, rounds=request.rounds // 2)
        then = _noise(plan, schedule_of(fewer, plan))
        if then < LARGE * now:
            yield f"fewer queries: rounds := {fewer.rounds} would bring {_short(now)} rows down to {_short(then)}"
    sets, schedule = plan.schedule.of("round"), plan.schedule
    if len(sets) > 1:
        largest = max(sets, key=lambda line: line.share)
        left = 1 - float(largest.share / schedule.share("round", "always"))
        names = ", ".join(plan.problem.queries[largest.number].attributes)
        factor = left if schedule.kind == "pure" else sqrt(left)
        yield f"fewer queries: without those about {names} the noise on all others would be {factor:.2f} of this"
    widest = max(query.linear.cells for query in plan.compiled.queries)
    if widest >= 4 and plan.schedule.selects:
        yield (
            f"coarser groups: a sum over 4 measured cells (of up to {widest:,}) has 2 times the noise of one cell,"
            " one group in their place has it once"
        )


def _noise(plan: Plan, schedule: Schedule) -> float:
    """The noise on a measured cell, or the largest of those on parts of sets; 0 if there is nothing of the kind."""
    return max((typical(scale, kind) for scale, kind in scales(plan, schedule).items()), default=0.0)


def _short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:.3g}"
