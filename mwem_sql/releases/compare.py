"""True answers beside released ones, for the curator. Not private, on purpose: beside releases/run.py the only place that is handed true answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mwem_sql.accounting.accounts import ledger_of
from mwem_sql.boundary import relations
from mwem_sql.compiler.pushdown import plan_pushdown
from mwem_sql.database.session import Session
from mwem_sql.private import engine
from mwem_sql.releases.answer import CONFIDENCE, answerer, divided, or_null
from mwem_sql.workload import Workload


def compare(
    session: Session, table: str, output: str, workload: Workload, confidence: float = CONFIDENCE
) -> Iterator[dict[str, Any]]:
    """True and released answers side by side.

    Privacy:
        None: this shows true answers to the curator. The ledger notes that it was done.
    """
    function = "mwem_compare"
    ready = answerer(session, output, function)
    con = session.cursor()
    relation = relations.describe(con, table, session.place, function)
    compiled = ready.compile(workload)
    linear = [query.linear for query in compiled.queries] + [
        query.over.linear for query in compiled.queries if query.over
    ]
    pushdown = plan_pushdown(relation, compiled.classes, linear)
    ledger_of(con, relation, session.place, function).note(session.cursor(), str(ready.stored.name), function)
    true = iter(np.split(engine.true_answers(session.cursor(), pushdown), pushdown.starts[1:]))
    sums = [next(true).astype(np.float64) for _ in compiled.queries]
    counts = [next(true).astype(np.float64) if query.over else None for query in compiled.queries]
    scaled = [query.linear.unit * own for query, own in zip(compiled.queries, sums, strict=True)]
    judged = ready.judged(compiled, confidence)
    for query, truth, (values, intervals) in zip(compiled.queries, map(divided, scaled, counts), judged, strict=True):
        rows = zip(query.cells(), truth.tolist(), values.tolist(), intervals.rows(), strict=True)
        for cell, true_answer, value, interval in rows:
            yield {
                "query": query.number, "name": query.label, "cell": cell, "true_answer": or_null(true_answer),
                "answer": or_null(value), "error": or_null(abs(value - true_answer)), **interval,
            }  # fmt: skip
