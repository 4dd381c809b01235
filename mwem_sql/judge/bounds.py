"""The rows of mwem.bounds and mwem.certificates: of each query of the workload whether it was measured and what selections tell of its error, and the certificate.

Owns how both are made of an outcome, and what they say of a question that is one of the workload's: how far its cells may be off. Sees released values only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.compile.compiled import Compiled, CompiledQuery
from mwem_sql.judge import grade
from mwem_sql.judge.intervals import BOUNDS_PART
from mwem_sql.judge.known import KINDS
from mwem_sql.kernel.tails import Spread, cumulants, half_width, half_widths
from mwem_sql.loop.bounds import BETA
from mwem_sql.loop.certificate import families, measured, most_beyond, most_wrong, sampled
from mwem_sql.loop.problem import Outcome, Problem
from mwem_sql.workload import Query

_BOUNDS = pa.schema(
    {
        "query": pa.int32(), "name": pa.string(), "predicate": pa.string(), "measure": pa.string(), "group_by": pa.string(),
        "measured": pa.bool_(), "bound": pa.float64(),
    }
)  # fmt: skip
_CERTIFICATES = pa.schema(
    {
        "part": pa.string(), "queries": pa.int32(), "beyond": pa.int32(), "value": pa.float64(), "noise": pa.string(), "scale": pa.float64(),
        "possible": pa.float64(),
    }
)  # fmt: skip

CERTIFIED = ("directly", "others")
"""The figures that together are about all certified queries."""
MISS = 0.05
"""The chance that the mean error is further off than the summary says."""
USEFUL = 0.02
"""Of all rows: the noise on the certificate's last figure from which on intervals do without it, and bounds have all of the chance to fail. Scales and n decide, not the figure."""
MOST_BOUNDED = 20
"""Bounded queries that later questions are looked up in. More: a question takes longer; fewer: a bound that says more is missed."""

MOST_NOISES = 100
"""Measured queries whose noise is worked out for the word of the summary, at even distances. More: it takes longer."""

Text = tuple[str | None, str | None, str | None]


def table(compiled: Compiled, problem: Problem, outcome: Outcome) -> pa.Table:
    """A row for each row of the workload."""
    distinct, linear, sources = compiled.distinct, compiled.linear, compiled.queries.workload.queries
    flags = np.array(measured(problem, outcome.steps, distinct.queries), dtype=np.bool_)
    is_measured, bounds = flags[distinct.of_row], np.full(len(sources), np.inf)
    # The problem's queries begin with the distinct ones unless nothing was selected.
    if not problem.whole and outcome.bounds is not None:
        bounds = outcome.bounds[distinct.of_row] * linear.bounds * linear.units
    for row, number in distinct.of_count.items():
        # An average is measured if both its sum and its count are.
        is_measured[row] &= flags[number]
        bounds[row] = np.inf
    texts = list(zip(*map(text_of, sources), strict=True))
    columns = [
        pa.array(np.arange(1, len(sources) + 1, dtype=np.int32)), pa.array([query.label for query in sources], pa.string()),
        *(pa.array(text, pa.string()) for text in texts), pa.array(is_measured), pa.array(bounds, mask=~np.isfinite(bounds)),
    ]  # fmt: skip
    return pa.table(columns, schema=_BOUNDS)


def certificate(outcome: Outcome) -> pa.Table:
    """A row for each figure."""
    rows = [
        {
            "part": figure.part, "queries": figure.queries, "beyond": most_beyond(figure.queries) if figure.part == "most" else 0,
            "value": figure.certified.value, "noise": "laplace" if figure.certified.kind == "pure" else "gaussian", "scale": figure.certified.scale,
            "possible": figure.possible,
        }
        for figure in outcome.certificate
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=_CERTIFICATES)


def facts(known: pa.Table, compiled: Compiled, problem: Problem, outcome: Outcome) -> dict[str, Any]:
    """What the summary says: how many rows of the workload were measured, the mean error over all that were certified, and the share of rows in wrong cells."""
    figures = certificate(outcome)
    mean, within = mean_error(figures, outcome.total)
    flags = known.column("measured").to_pylist()
    exact = compiled.linear.take(np.flatnonzero(flags))
    every, others = (_at_most(figures, outcome.total, parts) for parts in (CERTIFIED, ("others",)))
    wrong = grade.wrong(len(exact) / len(flags), _noise(problem, outcome, exact), every, others)
    return {"measured": len(exact), "mean_error": mean, "mean_error_within": within, "wrong": wrong}


def _at_most(figures: pa.Table, total: float, parts: Sequence[str]) -> float | None:
    mean, within = mean_error(figures, total, parts)
    return None if mean is None or within is None else mean + within


def _noise(problem: Problem, outcome: Outcome, queries: Sequence[LinearQuery]) -> float | None:
    """Of queries that were measured, the share of the rows that noise alone puts in wrong cells, on average; None if there are none."""
    known, shares = families(problem, outcome.steps), []
    for number in sampled(queries, MOST_NOISES):
        own = queries[number]
        # Of Gaussian noise, which sums of noise are nearly, the mean absolute value.
        off = math.sqrt(2 / math.pi) * float(np.sqrt(known.exact(own).sums.variances).sum()) / own.bound
        shares.append(min(1.0, off / (most_wrong(own) * max(1.0, outcome.total))))
    return float(np.mean(shares)) if shares else None


def mean_error(figures: pa.Table, total: float, parts: Sequence[str] = CERTIFIED) -> tuple[float | None, float | None]:
    """The mean error of the certified queries of some kinds, and how far the true mean is from that at most, 95 times in 100; None if there are none.

    Both are shares of all rows, of which there are `total`: those that are in a wrong cell. Neither is above 1.
    """
    rows = [row for row in figures.to_pylist() if row["part"] in parts]
    if not rows:
        return None, None
    shares = np.array([row["queries"] for row in rows], dtype=np.float64)
    shares /= shares.sum()
    each = np.array([cumulants(row["scale"], KINDS[row["noise"]]) for row in rows])
    spread = Spread(np.array([shares**2 @ each[:, 0]]), np.array([shares**4 @ each[:, 1]]))
    # Noise may take a small mean below 0.
    mean = max(0.0, float(shares @ np.array([row["value"] for row in rows])))
    # Older files did not keep what is possible: twice all rows, of queries with several cells.
    possible = max(1.0, total) * float(shares @ np.array([row.get("possible") or 2.0 for row in rows]))
    return min(1.0, mean / possible), min(1.0, float(half_widths(spread, MISS)[0]) / possible)


def text_of(query: Query) -> Text:
    """What a query asks, as it was written: it is the same question if it is the same text."""
    group_by = None
    if query.group_by is not None:
        group_by = f"[{', '.join(map(_json, query.group_by))}]" if query.verbatim else _json(query.group_by[0])
    return query.predicate, query.measure, group_by


@lru_cache(maxsize=10_000)
def _json(name: str) -> str:
    """A workload names the same columns in many rows."""
    return json.dumps(name)


def _asked(query: Query) -> Text:
    """The same, whether columns are listed or written as mwem.workloads writes them."""
    return query.predicate, query.measure, query.group_text


def query_of(row: Mapping[str, Any]) -> Query:
    """The query of a row, as it was asked."""
    group_by = None if row["group_by"] is None else json.loads(row["group_by"])
    is_text = isinstance(group_by, str)
    names = None if group_by is None else (group_by,) if is_text else tuple(group_by)
    return Query(row["predicate"], row["measure"], names, verbatim=not is_text, name=row["name"])


class Assured:
    """What is known of the workload's own queries beyond their measurements, at a chance to fail of `miss`."""

    def __init__(self, known: pa.Table, figures: pa.Table, miss: float, total: float) -> None:
        """`total` is the released number of rows."""
        self._known: Mapping[Text, dict[str, Any]] = {_asked(query_of(row)): row for row in known.to_pylist()}
        self._total = total
        self._most = _most(figures, miss, USEFUL * total)
        self._selections_hold = miss * (1 - BOUNDS_PART) >= BETA

    def bounded(self) -> dict[Query, float]:
        """Counts with the smallest bounds, if these say more than that they are no more than all rows; and the bounds."""
        if not self._selections_hold:
            return {}
        rows = [
            row
            for row in self._known.values()
            if row["measure"] is None and (row["bound"] or self._total) < self._total
        ]
        rows.sort(key=lambda row: float(row["bound"]))
        return {query_of(row): float(row["bound"]) for row in rows[:MOST_BOUNDED]}

    def within(self, query: CompiledQuery) -> tuple[float, float]:
        """How far a cell of a query, and of the count that it is divided by, is off at most if it was not measured; endless where nothing is known."""
        row = self._known.get(_asked(query.source))
        if row is None:
            return math.inf, math.inf
        bound = row["bound"] if row["bound"] is not None and self._selections_hold else math.inf
        linear = query.linear
        return min(bound, self._most * linear.bound * linear.unit), self._most


def _most(figures: pa.Table, miss: float, useful: float) -> float:
    """The error of a cell that is exceeded with a chance of `miss` at most: what is left of that for the noise on the figure. Endless if that noise is not below `useful`."""
    for row in figures.to_pylist():
        left = miss * (1 - BOUNDS_PART) - BETA - row["beyond"] / row["queries"]
        if row["part"] == "most" and left > 0:
            # The noise matters on one side only; a figure below 0 is all noise.
            noise = half_width(row["scale"], KINDS[row["noise"]], min(1.0, 2 * left))
            return max(0.0, float(row["value"])) + noise if noise < useful else math.inf
    return math.inf
