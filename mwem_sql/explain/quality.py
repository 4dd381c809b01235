"""`mwem_quality`: every query of a release's workload, whether it was measured and how far off its answers may be. From released values only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mwem_sql.errors import OptionError, refuse
from mwem_sql.explain.compare import compare_scores
from mwem_sql.judge import grade
from mwem_sql.judge.certificate import mean_error, query_of
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.releases.answer import answerer, or_null, read_confidence
from mwem_sql.workload import Workload

FUNCTION = "mwem_quality"


def asked(session: Session, output: str, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a call asks for: a row for each query of the workload, or the scores of all."""
    confidence = read_confidence(arguments["confidence"], FUNCTION)
    summary, table, target = (arguments.get(name) for name in ("summary", "compare", "target"))
    if summary not in {None, True, False}:
        raise refuse(OptionError, FUNCTION, f"summary ({summary!r}) must be true or false", "write summary := true")
    for name, value, needs in (("compare", table, "summary := true"), ("target", target, "compare := '<the private table>'")):  # fmt: skip
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise refuse(OptionError, FUNCTION, f"{name} ({value!r}) must be a name", "write it as a string")
        if value is not None and not (summary if name == "compare" else table):
            raise refuse(OptionError, FUNCTION, f"{name} ({value!r}) is for scores", f"add {needs}")
    if not summary:
        return quality(session, output, confidence)
    return _summary(session, output, table, target)


def _summary(session: Session, output: str, table: str | None, target: str | None) -> Iterator[dict[str, Any]]:
    """What the release itself says of its quality, privately; and beside the private table, what others print."""
    ready = answerer(session, output, FUNCTION)
    compared = () if table is None else compare_scores(session, ready.stored, table, target)
    facts = ready.stored.facts
    mean, within = facts.get("mean_error"), facts.get("mean_error_within")
    low = high = None
    if mean is not None and within is not None:
        low, high = max(0.0, mean - within), min(1.0, mean + within)
    share = None if facts.get("measured") is None else facts["measured"] / facts["queries"]
    expected = f"{grade.word(facts)}. {grade.limits()}"
    yield _score("rows in wrong cells", mean, low, high, "private: share of all rows, mean over the workload's questions, by the certificate; low to high 95 times in 100")  # fmt: skip
    yield _score("rows in wrong cells, expected", facts.get("wrong"), None, None, f"private: by noise and certificate; {expected}")  # fmt: skip
    yield _score("questions measured", share, None, None, "private: share of the workload's questions")
    for own in compared:
        yield _score(own.name, own.value, None, None, f"NOT PRIVATE: {own.note}")


def _score(name: str, value: float | None, low: float | None, high: float | None, note: str) -> dict[str, Any]:
    return {"name": name, "score": value, "low": low, "high": high, "note": note}


def quality(session: Session, output: str, confidence: float) -> Iterator[dict[str, Any]]:
    """A row for each query of the workload, in its order."""
    ready = answerer(session, output, "mwem_quality")
    con = session.cursor()
    known = store.bounds_of(con, ready.stored)
    rows = known[0].to_pylist()
    compiled = ready.compile(Workload(tuple(map(query_of, rows))))
    measured = ready.known(compiled)
    total = float(ready.stored.facts["total"])
    certified = {flag: mean_error(known[1], total, [part]) for flag, part in ((True, "directly"), (False, "others"))}
    noise, steps = np.full(len(rows), np.nan), dict[int, int | None]()
    for numbers, asked in measured.questions([query.linear for query in compiled.queries]):
        exact = measured.families.exact(asked)
        steps.update(zip(numbers, measured.first_steps(asked, len(numbers)), strict=True))
        cells = np.where(exact.is_exact, np.sqrt(exact.estimates.variances), np.nan).reshape(len(numbers), -1)
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
            "mean_error": mean, "mean_error_within": within, "score": None, "low": None, "high": None, "note": None,
        }  # fmt: skip
