"""How good a release is: for everybody by what was released, and for the curator beside the private table.

`mwem_quality` has every query of the workload, whether it was measured and how far off its answers may be.
`mwem_compare` and scores are not private, on purpose: beside `releases/run.py` this is the only module that is handed
true answers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import duckdb
import numpy as np

from mwem_sql.accounting.ledger import ledger_of
from mwem_sql.boundary import relations
from mwem_sql.boundary.levels import level_rows, read_levels
from mwem_sql.boundary.relations import Relation
from mwem_sql.compile.statements import statements
from mwem_sql.domains.attribute import Attribute
from mwem_sql.errors import OptionError, TableError, did_you_mean, refuse, spoken_by
from mwem_sql.judge import grade
from mwem_sql.judge.certificate import mean_error
from mwem_sql.judge.intervals import RANK
from mwem_sql.language.dialect import fold
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.releases.answer import CONFIDENCE, Answerer, answerer, divided, or_null, read_confidence
from mwem_sql.releases.store import Stored
from mwem_sql.scan import execution, scores, truth
from mwem_sql.scan.dialects import DIALECTS
from mwem_sql.scan.pushdown import plan_pushdown
from mwem_sql.workload import Workload


def quality(session: Session, output: str, arguments: Mapping[str, Any], function: str) -> Iterator[dict[str, Any]]:
    """What a call asks for: a row for each query of the workload, or the scores of all."""
    confidence = read_confidence(arguments["confidence"], function)
    summary, table, target = (arguments.get(name) for name in ("summary", "compare", "target"))
    if summary not in {None, True, False}:
        raise refuse(OptionError, function, f"summary ({summary!r}) must be true or false", "write summary := true")
    needed = {
        "compare": (table, summary, "summary := true"),
        "target": (target, table, "compare := '<the private table>'"),
    }
    for name, (value, condition, needs) in needed.items():
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise refuse(OptionError, function, f"{name} ({value!r}) must be a name", "write it as a string")
        if value is not None and not condition:
            raise refuse(OptionError, function, f"{name} ({value!r}) is for scores", f"add {needs}")
    ready = answerer(session, output, function)
    return _scores(session, ready, table, target, function) if summary else _by_query(session, ready, confidence)


def _scores(
    session: Session, ready: Answerer, table: str | None, target: str | None, function: str
) -> Iterator[dict[str, Any]]:
    """What the release itself says of its quality, privately; and beside the private table, what others print."""
    compared = () if table is None else _compare_scores(session, ready.stored, table, target, function)
    facts = ready.stored.facts
    mean, within = facts.get("mean_error"), facts.get("mean_error_within")
    low = high = None
    if mean is not None and within is not None:
        low, high = max(0.0, mean - within), min(1.0, mean + within)
    share = None if facts.get("measured") is None else facts["measured"] / facts["queries"]
    note = (
        "private: share of all rows, mean over the workload's questions, by the certificate; low to high 95 times in"
        " 100"
    )
    yield _score("rows in wrong cells", mean, low, high, note)
    note = f"private: by noise and certificate; {grade.word(facts)}. {grade.limits()}"
    yield _score("rows in wrong cells, expected", facts.get("wrong"), None, None, note)
    yield _score("questions measured", share, None, None, "private: share of the workload's questions")
    for each in compared:
        yield _score(each.name, each.value, None, None, f"NOT PRIVATE: {each.note}")


def _score(name: str, value: float | None, low: float | None, high: float | None, note: str) -> dict[str, Any]:
    return {"name": name, "score": value, "low": low, "high": high, "note": note}


def _by_query(session: Session, ready: Answerer, confidence: float) -> Iterator[dict[str, Any]]:
    """A row for each query of the workload, in its order."""
    workload, bounds = store.bounds_of(session.cursor(), ready.stored)
    figures, total = store.figures_of(session.cursor(), ready.stored), float(ready.stored.facts["total"])
    certified = {flag: mean_error(figures, total, [part]) for flag, part in ((True, "directly"), (False, "others"))}
    judged = ready.judged(workload, confidence)
    noise, steps = np.full(len(workload), np.nan), dict[int, int | None]()
    evidence = judged.evidence
    for numbers, questions in evidence.questions([query.linear for query in judged.queries]):
        exact = evidence.families.exact(questions)
        steps.update(zip(numbers, evidence.first_steps(questions, len(numbers)), strict=True))
        cells = np.where(exact.is_exact, np.sqrt(exact.estimates.variances), np.nan).reshape(len(numbers), -1)
        for number, deviations in zip(numbers, cells, strict=True):
            if not np.isnan(deviations).all():
                noise[number] = np.nanmedian(deviations)
    is_measured = bounds.column("measured").to_pylist()
    for k, (query, intervals) in enumerate(zip(judged.queries, judged.intervals, strict=True)):
        widths = intervals.high - intervals.low
        mean, within = certified[is_measured[k]]
        yield {
            "query": query.row_number,
            "name": query.label,
            "cells": len(widths),
            "measured": max(intervals.measured, key=RANK.__getitem__),
            "round": steps[k],
            "noise": or_null(float(noise[k])),
            "width": float(np.median(widths)) if np.isfinite(widths).any() else None,
            "mean_error": mean,
            "mean_error_within": within,
            **dict.fromkeys(("score", "low", "high", "note")),
        }


def _compare_scores(
    session: Session, stored: Stored, table: str, target: str | None, function: str
) -> list[scores.Score]:
    """Scores of the synthetic rows beside the private table.

    Privacy:
        None: these are true figures, for the curator. The ledger notes that it was done.
    """
    scores.check_library(function, f"compare ({table!r})")
    con = session.cursor()
    relation = relations.describe(con, table, session.place, function)
    if relation.source is not None:
        what = f"compare ({table!r}) is a table of another engine, whose rows are not brought here"
        raise refuse(OptionError, function, what, "leave compare out; mwem_compare works")
    if catalog.find(con, stored.name.quoted(), session.place) is None:
        what = f"output ({stored.name}) is no longer there as a table"
        hint = "make the same release again: it costs nothing and writes the table anew"
        raise refuse(TableError, function, what, hint)
    columns = {fold(column.name) for column in relation.columns}
    # Of several tables, the columns that are in the table itself.
    compared = {name: classes for name, classes in stored.classes.items() if name in stored.domain.own}
    if not compared:
        what = f"output ({stored.name}) has columns of keys only"
        raise refuse(OptionError, function, what, "leave compare out; mwem_compare works")
    if target is not None:
        target = _target(stored, compared, target, function)
    missing = [name for name in compared if fold(name) not in columns]
    if missing:
        what = f"compare ({table!r}) has no column {missing[0]!r}"
        raise refuse(OptionError, function, what, f"name the table that {stored.name.table} was made from")
    fields = [_field(classes.attribute) for classes in compared.values()]
    with ledger_of(con, relation, session.place, function).note(session.cursor, str(stored.name), function):
        return scores.scores(session.meaning(), relation.tree(), stored.name.tree(), fields, target)


def _field(attribute: Attribute) -> scores.Field:
    is_listed = attribute.values is not None
    low, high = (0.0, 0.0) if is_listed else (float(attribute.least), float(attribute.most))
    return scores.Field(name=attribute.name, type=attribute.type, values=attribute.values, low=low, high=high)


def _target(stored: Stored, compared: Collection[str], target: str, function: str) -> str:
    name = stored.domain.spelling.get(fold(target))
    if name is None or name not in compared:
        what = f"target ({target!r}) is not a column of {stored.name.table}"
        near = did_you_mean(target, list(compared))
        raise refuse(OptionError, function, what, f"{near}it has {', '.join(compared)}")
    values = stored.domain[name].values
    if values is None or len(values) > scores.MOST_CLASSES:
        what = f"target ({target!r}) is not a list of at most {scores.MOST_CLASSES} values"
        raise refuse(OptionError, function, what, "name a column with a short list of values, or leave it out")
    return name


def compare(
    session: Session, table: str, output: str, workload: Workload, confidence: float = CONFIDENCE
) -> Iterator[dict[str, Any]]:
    """True and released answers side by side.

    The true answer is what SQL says on the private table. The best that a release could say, without noise, is the
    answer on the public domain, where values lie in bins and within bounds: the difference between these two is the
    binning error.

    Privacy:
        None: this shows true answers to the curator. The ledger notes that it was done.
    """
    function = "mwem_compare"
    ready = answerer(session, output, function)
    con = session.cursor()
    relation = _rows_as_released(con, table, ready.stored, session.place, function)
    judged = ready.judged(workload, confidence, is_new=True)
    queries = judged.queries
    linear = [query.linear for query in queries] + [query.over.linear for query in queries if query.over]
    pushdown = plan_pushdown(relation, judged.compiled.classes, linear, dialect=DIALECTS[relation.dialect])
    listed = list(statements(ready.stored.domain, workload))
    is_here = relation.source is None
    with ledger_of(con, relation, session.place, function).note(session.cursor, str(ready.stored.name), function):
        reader = execution.engine_of(session.cursor(), relation)
        answers = execution.true_answers(reader, pushdown, execution.as_described(relation, function))
        by_sql = truth.answers(session.meaning(), relation.tree(), listed) if is_here else [None] * len(listed)
    true = iter(np.split(answers, pushdown.starts[1:]))
    sums = [next(true).astype(np.float64) * query.linear.unit for query in queries]
    counts = [next(true).astype(np.float64) if query.over else None for query in queries]
    binned = map(divided, sums, counts)
    for query, text, cells, best, values, intervals in zip(
        queries, listed, by_sql, binned, judged.answers, judged.intervals, strict=True
    ):
        notes = [
            _note(is_here=is_here, by_bins=text.by_bins, is_failed=cells is None),
            _rows_compared(ready.stored),
        ]
        note = "; ".join(filter(None, notes)) or None
        rows = zip(query.cells(), best.tolist(), values.tolist(), intervals.rows(), strict=True)
        for cell, at_best, value, interval in rows:
            if text.by_bins or not is_here:
                true_answer = at_best
            elif cells is None:
                true_answer = math.nan
            else:
                true_answer = cells.get(tuple(cell or ()), math.nan if text.is_average else 0.0)
            yield {
                "query": query.row_number,
                "name": query.label,
                "cell": cell,
                "true_answer": or_null(true_answer),
                "answer": or_null(value),
                "error": or_null(abs(value - true_answer)),
                **interval,
                "binning_error": or_null(abs(at_best - true_answer)),
                "note": note,
            }


def _rows_as_released(
    con: duckdb.DuckDBPyConnection, table: str, stored: Stored, place: Place, function: str
) -> Relation:
    """The private table; of one of several that keys join, its rows with what is above and below them.

    All of these: a release has used so many of a unit at most.
    """
    relation = relations.describe(con, table, place, function)
    domain, link = stored.domain, stored.domain.link
    if link is None:
        return relation
    others = (*domain.above, *link.below)
    if fold(relation.name.table) in map(fold, others):
        what = f"table ({table!r}) is not the one that {stored.name.table} was made from"
        raise refuse(OptionError, function, what, f"name {domain.table}")
    beside = [relation.name.beside(name).quoted() for name in others]
    with spoken_by(function):
        levels = read_levels(con, [relation.name.quoted(), *beside], place)
    number = next(k for k, level in enumerate(levels) if level.table.name == relation.name)
    most = {name: int(domain[name].most) for name in link.below}
    return level_rows(levels, number, most, DIALECTS[relation.dialect].text)


def _rows_compared(stored: Stored) -> str | None:
    """Which rows the true answers of a table are about that leads to others."""
    if not stored.domain.above:
        return None
    unit, most = stored.facts["unit"], stored.facts["rows_per_unit"]
    return f"the true answer is of all rows that lead to a {unit}; the release used at most {most:,} of each"


def _note(*, is_here: bool, by_bins: bool, is_failed: bool) -> str | None:
    """Why a true answer is not what SQL says on the private table."""
    if not is_here:
        return (
            "the table is another engine's, whose SQL may mean something else: the true answer is that on the public"
            " domain"
        )
    if by_bins:
        return (
            "groups are those of the domain, which SQL does not know (bins, values off the domain): the true answer is"
            " by these"
        )
    if is_failed:
        return "SQL cannot evaluate it on every private row; the cause is withheld because it may quote a private value"
    return None
