"""Passes over the tables of a release: down, up and down again, as messages pass in a tree.

Down, each table is measured, from the root on; its state begins with what rows above it say. Up, what was measured of
a table says something of the one that its rows lead to, which is fitted to that, too (model/children.py). Down again,
each table is fitted to its measurements beside the rows above it, agrees with these (model/parents.py), and its rows
are drawn. Only the first pass measures; what is certified is asked in the last one, of the states that are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mwem_sql.algebra.linear import Block
from mwem_sql.algebra.totals import CountedPartition
from mwem_sql.compile.compiled import Compiled
from mwem_sql.domains.domain import Domain
from mwem_sql.loop.problem import Outcome
from mwem_sql.model.children import Ascent
from mwem_sql.model.fit import Fit, Target
from mwem_sql.model.projection import MISTAKE, project
from mwem_sql.model.state import State
from mwem_sql.platform.calls import announce, frozen
from mwem_sql.releases.drawing import Above, Drawing, grouped, link_of
from mwem_sql.releases.levels import TreePlan
from mwem_sql.releases.plan import Plan
from mwem_sql.releases.run import Made, Run, made_of, merged, rows_of

TURNS: Final = 1000
"""In which public totals and what the rows above say are met in turns, at most; the rows above have the last word.
Larger: closer where totals contradict what was measured, which takes some hundred."""


def made(
    tree: TreePlan, runs: Sequence[Run], drawing: Callable[[], Drawing], marks: Mapping[str, str]
) -> tuple[list[Made], Drawing]:
    """What is stored of each table, and the rows of all."""
    outcomes = _down(tree, runs, drawing())
    _up(tree, outcomes)
    return _down_again(tree, runs, outcomes, drawing(), marks)


def _down(tree: TreePlan, runs: Sequence[Run], drawing: Drawing) -> list[Outcome]:
    """Measure each table. Rows are drawn of those that others are below."""
    has_children = {one.level.parent for one in tree.levels}
    out = list[Outcome]()
    for place, (one, run) in enumerate(zip(tree.levels, runs, strict=True)):
        above = drawing.above(one.plan.compiled) if place else None
        problem = one.plan.problem if above is None else replace(one.plan.problem, parents=above.parents)
        out.append(run.loop(problem))
        if place in has_children:
            _draw(drawing, one.plan, out[-1], above)
    return out


def _up(tree: TreePlan, outcomes: list[Outcome]) -> None:
    """Fit each table to what those below it were measured to be, the lowest ones first."""
    for place in reversed(range(len(outcomes))):
        below = [number for number, one in enumerate(tree.levels) if one.level.parent == place]
        if below:
            plan = tree.levels[place].plan
            children = [(tree.levels[number].plan.compiled, outcomes[number]) for number in below]
            outcomes[place] = _fitted(plan, outcomes[place], children)


def _fitted(plan: Plan, outcome: Outcome, children: Sequence[tuple[Compiled, Outcome]]) -> Outcome:
    """An outcome whose state is fitted to what was measured of its table's children, too."""
    state, targets = outcome.state, list(outcome.targets)
    assert isinstance(state, State)  # no average is made of several tables
    # A joint distribution with numbers of children has no more cells than the table has rows.
    most_cells = min(plan.problem.max_cells, max(state.cells, round(outcome.total)))
    with frozen():
        for compiled, child in children:
            measured = [each for each in child.measurements if each.purpose != "detail"]
            targets += ascent(plan.compiled, compiled).targets(measured, state, most_cells)
        _fit(state, targets, plan.problem.totals.partitions)
    return replace(outcome, targets=tuple(targets))


def _fit(state: State, targets: Sequence[Target], counted: Sequence[CountedPartition]) -> None:
    fit = Fit(state)
    fit.fit(targets)
    fit.finish()
    project(state, counted)


def _settle(plan: Plan, outcome: Outcome, above: Above) -> None:
    """Fit a table's state to its measurements beside the rows above it, which are others than those it began with.

    They are what the table was measured to be, so that the state agrees with them in the end and fits all the same.
    Public totals of the table's own columns are shares: how many rows there are, the rows above say.
    """
    state, parents, most_cells = outcome.state, above.parents, plan.problem.max_cells
    assert isinstance(state, State)  # no average is made of several tables
    counted = [each.scaled(parents.total / state.total) for each in plan.problem.totals.partitions]
    with frozen():
        parents.agree(state, most_cells)
        sharpest = min((target.sharpest for target in outcome.targets), default=1.0)
        margins = [Target(query, values, sharpest) for query, values in parents.margins(state)]
        _fit(state, [*outcome.targets, *margins], counted)
        for _ in range(TURNS):
            parents.agree(state, most_cells)
            if project(state, counted, sweeps=0) <= MISTAKE:
                return
            project(state, counted)
        parents.agree(state, most_cells)


def ascent(parent: Compiled, compiled: Compiled) -> Ascent:
    """How the attributes of a table are those of the one that its rows lead to.

    Of an attribute above, what the parent was not asked about, or in other classes, is summed out as the table's own.
    """
    domain, names, places = compiled.published, dict[str, str](), dict[str, np.ndarray]()
    for name, classes in compiled.classes.items():
        there = _name_above(domain, name)
        if there in parent.classes:
            whole = parent.classes[there]
            codes = classes.holding(whole.pieces)
            of_class = codes[whole.representatives]
            if np.array_equal(of_class[whole.codes], codes):
                names[name], places[name] = there, of_class
    numbers = parent.classes[domain.table]
    values = numbers.pieces.points[numbers.representatives].astype(np.int64)
    number = Block((domain.table,), np.zeros(len(values), dtype=np.int32), 1, values=values)
    return Ascent(names=names, places=places, number=number)


def _name_above(domain: Domain, name: str) -> str | None:
    """What the table that rows lead to calls an attribute; None for one of the rows' own."""
    column = domain.column_above(name)
    if column is None:
        return None
    return column[1] if column[0] == link_of(domain).parent else name


def _down_again(
    tree: TreePlan, runs: Sequence[Run], outcomes: Sequence[Outcome], drawing: Drawing, marks: Mapping[str, str]
) -> tuple[list[Made], Drawing]:
    """Rows of each table, given those above it, and what is stored."""
    out = list[Made]()
    for place, (one, run, outcome) in enumerate(zip(tree.levels, runs, outcomes, strict=True)):
        above, last = None, outcome
        if place:
            assert isinstance(outcome.state, State)  # no average is made of several tables
            above = drawing.above(one.plan.compiled)
            _settle(one.plan, outcome, above)
            last = replace(outcome, total=above.parents.total)
        last = run.certified(last)
        announce(one.level.name, "rows")
        _draw(drawing, one.plan, last, above)
        stored = made_of(one.request, one.plan, last, marks, rows=None if above is None else above.parents.rows)
        out.append(_of_root(stored, one.plan.compiled.published) if above is None else stored)
    return out, drawing


def _draw(drawing: Drawing, plan: Plan, outcome: Outcome, above: Above | None) -> None:
    state, classes = merged(plan, outcome)
    domain = plan.compiled.published
    if above is None:
        drawing.draw_root(domain, state, classes, rows_of(outcome))
        return
    assert isinstance(state, State)  # no average is made of several tables
    drawing.draw(domain, state, classes, grouped(above.parents.codes, outcome.state.partitions), above.rows)


def _of_root(made: Made, domain: Domain) -> Made:
    """A unit has one row of the root, by its key."""
    return replace(made, facts=made.facts | {"unit": domain.table, "units_cut": 0.0, "units_cut_within": 0.0})
