"""True answers beside released ones, for the curator. Not private, on purpose: beside releases/run.py the only place that is handed true answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mwem_sql.accounting.accounts import ledger_of
from mwem_sql.boundary import relations
from mwem_sql.compiler.dialects.known import dialect_of
from mwem_sql.compiler.pushdown import plan_pushdown
from mwem_sql.database.session import Session
from mwem_sql.private import engine
from mwem_sql.releases.answer import answerer, in_units, or_null
from mwem_sql.workload import Workload


def compare(session: Session, table: str, output: str, workload: Workload) -> Iterator[dict[str, Any]]:
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
    pushdown = plan_pushdown(relation, compiled.classes, linear, dialect=dialect_of(relation.dialect))
    ledger_of(con, relation, session.place, function).note(session.cursor(), str(ready.stored.name), function)
    true = iter(
        np.split(
            engine.true_answers(
                engine.engine_of(session.cursor(), relation), pushdown, engine.as_described(relation, function)
            ),
            pushdown.starts[1:],
        )
    )
    sums = [next(true).astype(np.float64) for _ in compiled.queries]
    counts = [next(true).astype(np.float64) if query.over else None for query in compiled.queries]
    truths = map(in_units, compiled.queries, sums, counts)
    for query, truth, values in zip(compiled.queries, truths, ready.answers(compiled), strict=True):
        for cell, true_answer, value in zip(query.cells(), truth.tolist(), values.tolist(), strict=True):
            yield {
                "query": query.number, "name": query.label, "cell": cell, "true_answer": or_null(true_answer),
                "answer": or_null(value), "error": or_null(abs(value - true_answer)),
            }  # fmt: skip
