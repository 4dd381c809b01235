"""What to expect of a release, in words: how many queries are measured and how well, where nothing is asked, and what would be better.

For `mwem_plan`. Every number follows from the plan's shares and the noise's own distribution: public all of it. Must not promise what fits and
guesses add to noise or take from it: it speaks of what is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import pi, prod, sqrt

import numpy as np

from mwem_sql.accounting.budget import Budget
from mwem_sql.accounting.scales import Kind, noise_scale, typical, variance, within, zcdp_rho
from mwem_sql.accounting.split import Split
from mwem_sql.domains.classes import Classes
from mwem_sql.mwem.problem import shared
from mwem_sql.mwem.refinement import Refinement
from mwem_sql.releases.plan import Plan, shares_of
from mwem_sql.releases.request import Request

SHOWN = 20
"""Queries and attributes that are listed one by one."""
FEW, WIDE = 8, 1 / 64
"""An attribute that is told apart in at most so many stretches has those listed that are wider than this part of its domain."""
LARGE = 0.9
"""Of the noise: advice is given if it would bring it below."""
DELTA = "1e-6"
SERVED = (1, 10, 100, 1000)
CLOSE = 0.01
"""Of a public total: what counts as close."""


def expected(plan: Plan, request: Request) -> Iterator[tuple[str, str]]:
    """Rows (item, value): what a person wants to know first."""
    yield "expect", _measured(plan, request)
    for shown in _always(plan, request):
        yield "always", shown
    for name, classes in list(plan.compiled.classes.items())[:SHOWN]:
        unasked = _unasked(classes)
        if unasked:
            spread = (
                "its own distribution is measured there"
                if name in plan.problem.details
                else "rows are spread evenly there"
            )
            yield "told apart", f"{name}: nothing is asked inside {unasked}; {spread}"
    yield "serves", _served(request)
    for advice in _advice(plan, request):
        yield "advice", advice


def _measured(plan: Plan, request: Request) -> str:
    problem, split = plan.problem, plan.split
    queries = len(plan.compiled.distinct[0])
    if problem.at_once:
        # A parity adds all cells up, with signs.
        cells = problem.queries[0].cells
        noise = noise_scale(split.measure, request.rows_per_unit, split.kind)
        off = sqrt(2 / pi * cells * variance(noise.scale, split.kind))
        return f"all {queries:,} queries are measured, as sums over one histogram of {cells:,} cells; each is off by about {_short(off)} rows"
    if problem.whole:
        sets = f"{len(problem.first):,} joint distributions, refined" if problem.first else "by themselves"
        told = f"; {_off(_shares(plan), request, split.kind, 'a measured part')}" if problem.first else ""
        return f"all {queries:,} queries are about what is measured: {sets}{told}"
    measured = min(queries, len(problem.always) + split.rounds)
    fewer = ", or fewer and better" if split.growing else ""
    return f"about {measured:,} of {queries:,} queries will be measured{fewer}; {_off(_shares(plan), request, split.kind, 'a measured cell')}"


def _shares(plan: Plan, split: Split | None = None) -> list[Fraction]:
    """What measuring a cell takes: in a round; or of each set that is refined, the last of its partitions."""
    split = split or plan.split
    if not plan.problem.whole:
        return [split.measure]
    found = []
    for first, share in zip(
        plan.problem.first,
        shared([first.part for first in plan.problem.first], split.rounds * split.measure),
        strict=True,
    ):
        shape = plan.problem.queries[first.query].shape
        parts = Refinement(shape, np.ones(prod(shape))).parts(first.by_cells, 2 if split.kind == "pure" else 1)
        found.append(share * Fraction(parts[-1]) / Fraction(sum(parts)))
    return found


def _off(shares: list[Fraction], request: Request, kind: Kind, what: str, *, unit: float = 1.0, bound: int = 1) -> str:
    """Noise in words; of several shares, from the least to the most."""
    scales = sorted({noise_scale(share, request.rows_per_unit * bound, kind).scale for share in shares})
    about = [f"{_short(unit * typical(scale, kind))}" for scale in scales]
    rows = " rows" if unit == bound == 1 else ""
    listed = about[0] if about[0] == about[-1] else f"{about[0]} to {about[-1]}"
    return f"{what} is off by about {listed}{rows}, 95 of 100 within {_short(unit * within(scales[-1], kind, 0.95))}"


def _always(plan: Plan, request: Request) -> Iterator[str]:
    """What is measured in any case, and how well."""
    queries = plan.compiled.distinct[0]
    if plan.problem.at_once and plan.compiled.always:
        yield "the histogram tells all of them"
    owed = list(zip(plan.problem.always, plan.problem.always_shares(plan.split.always), strict=True))
    for own, share in owed[:SHOWN]:
        query = queries[own.asked]
        cells = f"{query.linear.cells:,} cell{'s' if query.linear.cells > 1 else ''}"
        what = "each" if query.linear.cells > 1 else "it"
        off = _off([share], request, plan.split.kind, what, unit=query.linear.unit, bound=query.linear.bound)
        yield f"{query.label}: {cells}, {off}"
    if len(owed) > SHOWN:
        yield f"... and {len(owed) - SHOWN:,} more"


def _unasked(classes: Classes) -> str | None:
    """Stretches of a domain inside which no query tells values apart, if they are wide."""
    pieces = classes.pieces
    sizes = np.bincount(classes.codes[: pieces.known], pieces.sizes[: pieces.known], minlength=classes.count)
    if pieces.attribute.values is not None:
        values, groups = pieces.known, int((sizes > 0).sum())
        return f"{groups:,} group{'s' if groups > 1 else ''} of its {values:,} values" if groups < values else None
    begins = np.flatnonzero(np.diff(classes.codes[: pieces.known], prepend=-1))
    stretches = list(pairwise([*begins.tolist(), pieces.known]))
    wide = [
        (begin, end)
        for begin, end in (stretches if len(stretches) <= FEW else ())
        if end - begin > 1 or not pieces.listed
        if pieces.sizes[begin:end].sum() > WIDE * sizes.sum()
    ]
    # Beside a constant of a continuous range a stretch begins one float further: nobody wants to read that.
    text = pieces.attribute.text if pieces.attribute.ordered.discrete else _short
    return ", ".join(f"[{text(pieces.lows[a].item())}, {text(pieces.highs[b - 1].item())}]" for a, b in wide) or None


def _served(request: Request) -> str:
    """How noise grows with the number of queries that share the budget, each measured as it is."""
    listed = [f"{count:,}: {_short(_alone(request, count))}" for count in SERVED]
    told = f"a cell of one query that is measured alone is off by about {listed[0].split(': ')[1]} rows; of each of {', '.join(listed[1:])}"
    if request.total is None:
        return told
    low, high = 0, 2**40
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _alone(request, middle) <= CLOSE * request.total else (low, middle)
    return f"{told}; {low:,} can be served with {_short(CLOSE * request.total)} rows, {CLOSE:.0%} of the total"


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
    now = _noise(plan, request, plan.split)
    if not now:
        return
    if not request.budget.delta and (plan.cap is None or not plan.cap.pure):
        loose = replace(request, budget=Budget.parse(str(float(request.budget.epsilon)), DELTA))
        then = _noise(plan, loose, shares_of(loose, plan))
        if then < LARGE * now:
            yield f"delta := {DELTA} would bring {_short(now)} rows down to {_short(then)}"
    if request.rounds is not None and request.rounds > 1 and not plan.problem.whole:
        fewer = replace(request, rounds=request.rounds // 2)
        then = _noise(plan, fewer, shares_of(fewer, plan))
        if then < LARGE * now:
            yield f"fewer queries: rounds := {fewer.rounds} would bring {_short(now)} rows down to {_short(then)}"
    if len(plan.problem.first) > 1 and plan.problem.whole:
        largest = max(plan.problem.first, key=lambda first: first.part)
        whole = sum(own.part for own in plan.problem.first) + sum(own.part for own in plan.problem.always)
        left = 1 - largest.part / whole
        names = ", ".join(plan.problem.queries[largest.query].attributes)
        yield f"fewer queries: without those about {names} the noise on all others would be {left if plan.split.kind == 'pure' else sqrt(left):.2f} of this"
    widest = max(query.linear.cells for query in plan.compiled.queries)
    if widest >= 4 and not plan.problem.whole:
        yield f"coarser groups: a sum over 4 measured cells (of up to {widest:,}) has 2 times the noise of one cell, one group in their place has it once"


def _noise(plan: Plan, request: Request, split: Split) -> float:
    """The noise on a measured cell, or the largest of those on parts of sets; 0 if there is nothing of the kind."""
    scales = [noise_scale(share, request.rows_per_unit, split.kind).scale for share in _shares(plan, split) if share]
    return max((typical(scale, split.kind) for scale in scales), default=0.0)


def _short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:.3g}"
