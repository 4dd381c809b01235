"""`mwem_quality`: every query of a release's workload, whether it was measured and how far off its answers may be. From released values only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mwem_sql.database.session import Session
from mwem_sql.errors import TableError, refuse
from mwem_sql.releases import store
from mwem_sql.releases.answer import answerer, or_null
from mwem_sql.releases.bounds import mean_error, query_of
from mwem_sql.releases.known import Known
from mwem_sql.workload import Workload

QUALITY = {
    "query": "INTEGER", "name": "VARCHAR", "cells": "BIGINT", "measured": "VARCHAR", "round": "INTEGER", "noise": "DOUBLE", "width": "DOUBLE",
    "mean_error": "DOUBLE", "mean_error_within": "DOUBLE",
}  # fmt: skip
"""`round` is the step of mwem.measurements that first measured it directly, `noise` the standard deviation of what is known of a cell then, `width` that of an interval:
of both the median over cells. `mean_error` is the certified mean error of the workload's queries of its kind, all of whose cells were measured or not; 95 times in 100 it is
within `mean_error_within` of the truth. Both are shares of all rows: those in a wrong cell. NULL without a certificate."""


def quality(session: Session, output: str, confidence: float) -> Iterator[dict[str, Any]]:
    """A row for each query of the workload, in its order."""
    ready = answerer(session, output, "mwem_quality")
    con = session.cursor()
    known = store.bounds_of(con, ready.stored)
    if known is None:
        raise refuse(
            TableError,
            "mwem_quality",
            f"output ({output!r}) was released by an older version, which kept nothing of its workload",
            "release it again with a new version; mwem_answer works, and says 'unknown'",
        )
    rows = known[0].to_pylist()
    compiled = ready.compile(Workload(tuple(map(query_of, rows))))
    measured = Known(ready.stored.classes, store.measurements_of(con, ready.stored), compiled)
    total = float(ready.stored.facts["total"])
    certified = {flag: mean_error(known[1], total, [part]) for flag, part in ((True, "directly"), (False, "others"))}
    noise, steps = np.full(len(rows), np.nan), dict[int, int | None]()
    for numbers, asked in measured.questions([query.linear for query in compiled.queries]):
        exact = measured.families.exact(asked)
        steps.update(zip(numbers, measured.first_steps(asked, len(numbers)), strict=True))
        cells = np.where(exact.is_exact, np.sqrt(exact.sums.variances), np.nan).reshape(len(numbers), -1)
        for number, own in zip(numbers, cells, strict=True):
            noise[number] = np.median(own[~np.isnan(own)]) if not np.isnan(own).all() else np.nan
    for k, (row, (_, intervals)) in enumerate(zip(rows, ready.judged(compiled, confidence), strict=True)):
        widths = intervals.high - intervals.low
        order = ["directly", "in part", "never"]
        mean, within = certified[bool(row["measured"])]
        yield {
            "query": row["query"], "name": row["name"], "cells": len(widths),
            "measured": max(intervals.measured, key=order.index), "round": steps[k], "noise": or_null(float(noise[k])),
            "width": float(np.median(widths)) if np.isfinite(widths).any() else None,
            "mean_error": mean, "mean_error_within": within,
        }  # fmt: skip
