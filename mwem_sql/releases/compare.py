"""True answers beside released ones, for the curator. Not private, on purpose: beside releases/run.py the only place that is handed true answers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mwem_sql.accounting.accounts import ledger_of
from mwem_sql.boundary import relations
from mwem_sql.compiler.pushdown import plan_pushdown
from mwem_sql.compiler.written import as_written
from mwem_sql.database.session import Session
from mwem_sql.private import engine, truth
from mwem_sql.releases.answer import answerer, in_units, or_null
from mwem_sql.workload import Workload

_FAILED = "SQL cannot evaluate it on every private row; the cause is withheld because it may quote a private value"
_BY_BINS = "groups are the declared bins, which SQL does not know: the true answer is by bins"


def compare(session: Session, table: str, output: str, workload: Workload) -> Iterator[dict[str, Any]]:
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
    compiled = ready.compile(workload)
    linear = [query.linear for query in compiled.queries] + [
        query.over.linear for query in compiled.queries if query.over
    ]
    pushdown = plan_pushdown(relation, compiled.classes, linear)
    ledger_of(con, relation, session.place, function).note(session.cursor(), str(ready.stored.name), function)
    true = iter(np.split(engine.true_answers(session.cursor(), pushdown), pushdown.starts[1:]))
    sums = [next(true).astype(np.float64) for _ in compiled.queries]
    counts = [next(true).astype(np.float64) if query.over else None for query in compiled.queries]
    binned = map(in_units, compiled.queries, sums, counts)
    written = list(as_written(ready.stored.domain, workload))
    said = truth.answers(session.meaning(), relation.tree(), written)
    for query, own, cells, best, values in zip(
        compiled.queries, written, said, binned, ready.answers(compiled), strict=True
    ):
        note = _BY_BINS if own.by_bins else _FAILED if cells is None else None
        for cell, at_best, value in zip(query.cells(), best.tolist(), values.tolist(), strict=True):
            if own.by_bins:
                true_answer = at_best
            elif cells is None:
                true_answer = math.nan
            else:
                true_answer = cells.get(tuple(cell or ()), math.nan if own.is_average else 0.0)
            yield {
                "query": query.number, "name": query.label, "cell": cell, "true_answer": or_null(true_answer),
                "answer": or_null(value), "error": or_null(abs(value - true_answer)),
                "binning_error": or_null(abs(at_best - true_answer)), "note": note,
            }  # fmt: skip
