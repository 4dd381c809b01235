"""True answers beside released ones, for the curator. Not private, on purpose: beside releases/run.py the only place that is handed true answers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mwem_sql.accounting.ledger import ledger_of
from mwem_sql.boundary import relations
from mwem_sql.compile.written import as_written
from mwem_sql.domains.attribute import Attribute
from mwem_sql.errors import OptionError, TableError, did_you_mean, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform import catalog
from mwem_sql.platform.session import Session
from mwem_sql.releases.answer import CONFIDENCE, answerer, divided, or_null
from mwem_sql.releases.store import Stored
from mwem_sql.scan import engine, scores, truth
from mwem_sql.scan.dialects.known import dialect_of
from mwem_sql.scan.pushdown import plan_pushdown
from mwem_sql.workload import Workload

_FAILED = "SQL cannot evaluate it on every private row; the cause is withheld because it may quote a private value"
_ELSEWHERE = (
    "the table is another engine's, whose SQL may mean something else: the true answer is that on the public domain"
)
_BY_BINS = (
    "groups are those of the domain, which SQL does not know (bins, values off the domain): the true answer is by these"
)


def compare_scores(session: Session, stored: Stored, table: str, target: str | None) -> list[scores.Score]:
    """Scores of the synthetic rows beside the private table.

    Privacy:
        None: these are true figures, for the curator. The ledger notes that it was done.
    """
    function = "mwem_quality"
    scores.check_library(function, f"compare ({table!r})")
    con = session.cursor()
    relation = relations.describe(con, table, session.place, function)
    if relation.source is not None:
        what = f"compare ({table!r}) is a table of another engine, whose rows are not brought here"
        raise refuse(OptionError, function, what, "leave compare out; mwem_compare works")
    if target is not None:
        target = _target(stored, target, function)
    if catalog.find(con, stored.name.quoted(), session.place) is None:
        what = f"output ({stored.name}) is no longer there as a table"
        raise refuse(TableError, function, what, "make the same release again: it costs nothing and writes the table anew")  # fmt: skip
    missing = [name for name in stored.classes if fold(name) not in {fold(own.name) for own in relation.columns}]
    if missing:
        what = f"compare ({table!r}) has no column {missing[0]!r}"
        raise refuse(OptionError, function, what, f"name the table that {stored.name.table} was made from")
    fields = [_field(own.attribute) for own in stored.classes.values()]
    with ledger_of(con, relation, session.place, function).note(session.cursor, str(stored.name), function):
        return scores.scores(session.meaning(), relation.tree(), stored.name.tree(), fields, target)


def _field(own: Attribute) -> scores.Field:
    low, high = (0.0, 0.0) if own.values is not None else (float(own.least), float(own.most))
    return scores.Field(name=own.name, type=own.type, values=own.values, low=low, high=high)


def _target(stored: Stored, target: str, function: str) -> str:
    name = stored.domain.spelling.get(fold(target))
    if name is None or name not in stored.classes:
        what = f"target ({target!r}) is not a column of {stored.name.table}"
        raise refuse(OptionError, function, what, f"{did_you_mean(target, list(stored.classes))}it has {', '.join(stored.classes)}")  # fmt: skip
    values = stored.domain[name].values
    if values is None or len(values) > scores.MOST_CLASSES:
        what = f"target ({target!r}) is not a list of at most {scores.MOST_CLASSES} values"
        raise refuse(OptionError, function, what, "name a column with a short list of values, or leave it out")
    return name


def compare(
    session: Session, table: str, output: str, workload: Workload, confidence: float = CONFIDENCE
) -> Iterator[dict[str, Any]]:
    """True and released answers side by side.

    The true answer is what SQL says on the private table. What a release could tell at best, without noise, is the answer on the public domain, where
    values lie in bins and within bounds: the difference between these two is the binning error.

    Privacy:
        None: this shows true answers to the curator. The ledger notes that it was done.
    """
    function = "mwem_compare"
    ready = answerer(session, output, function)
    con = session.cursor()
    relation = relations.describe(con, table, session.place, function)
    compiled = ready.asked(workload)
    linear = [query.linear for query in compiled.queries] + [
        query.over.linear for query in compiled.queries if query.over
    ]
    pushdown = plan_pushdown(relation, compiled.classes, linear, dialect=dialect_of(relation.dialect))
    written = list(as_written(ready.stored.domain, workload))
    is_here = relation.source is None
    with ledger_of(con, relation, session.place, function).note(session.cursor, str(ready.stored.name), function):
        reader = engine.engine_of(session.cursor(), relation)
        answers = engine.true_answers(reader, pushdown, engine.as_described(relation, function))
        said = truth.answers(session.meaning(), relation.tree(), written) if is_here else [None] * len(written)
    true = iter(np.split(answers, pushdown.starts[1:]))
    sums = [next(true).astype(np.float64) for _ in compiled.queries]
    counts = [next(true).astype(np.float64) if query.over else None for query in compiled.queries]
    scaled = [query.linear.unit * own for query, own in zip(compiled.queries, sums, strict=True)]
    binned = map(divided, scaled, counts)
    judged = ready.judged(compiled, confidence)
    for query, own, cells, best, (values, intervals) in zip(
        compiled.queries, written, said, binned, judged, strict=True
    ):
        note = None if is_here else _ELSEWHERE
        if is_here and (own.by_bins or cells is None):
            note = _BY_BINS if own.by_bins else _FAILED
        rows = zip(query.cells(), best.tolist(), values.tolist(), intervals.rows(), strict=True)
        for cell, at_best, value, interval in rows:
            if own.by_bins or not is_here:
                true_answer = at_best
            elif cells is None:
                true_answer = math.nan
            else:
                true_answer = cells.get(tuple(cell or ()), math.nan if own.is_average else 0.0)
            yield {
                "query": query.number, "name": query.label, "cell": cell, "true_answer": or_null(true_answer),
                "answer": or_null(value), "error": or_null(abs(value - true_answer)), **interval,
                "binning_error": or_null(abs(at_best - true_answer)), "note": note,
            }  # fmt: skip
