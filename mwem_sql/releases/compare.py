"""True answers beside released ones, for the curator. Not private, on purpose: beside releases/run.py the only place that is handed true answers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mwem_sql.accounting.accounts import ledger_of
from mwem_sql.boundary import relations
from mwem_sql.compiler.dialects.known import dialect_of
from mwem_sql.compiler.pushdown import plan_pushdown
from mwem_sql.compiler.written import as_written
from mwem_sql.database.session import Session
from mwem_sql.private import engine, truth
from mwem_sql.releases.answer import CONFIDENCE, answerer, divided, or_null
from mwem_sql.workload import Workload

_FAILED = "SQL cannot evaluate it on every private row; the cause is withheld because it may quote a private value"
_ELSEWHERE = (
    "the table is another engine's, whose SQL may mean something else: the true answer is that on the public domain"
)
_BY_BINS = "groups are the declared bins, which SQL does not know: the true answer is by bins"


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
    with ledger_of(con, relation, session.place, function).noted(session.cursor, str(ready.stored.name), function):
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
