"""The certificate, and what selections say: how far the finished state is off, of queries of the workload.

Owns the rows of mwem.bounds and mwem.certificates. The certificate has three figures, drawn with noise by the kernel:
the mean error of the queries that were measured, the mean error of the others, and the cell error that most of the
others do not exceed. Intervals of answers that were not measured are made of the last. What is certified follows from
public and released values alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mwem_sql.algebra.chance import BOUNDS, REACH, SELECTIONS, SUMMARY, Chance
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.measurement import KINDS, NOISE
from mwem_sql.compile.compiled import Compiled, CompiledQuery
from mwem_sql.judge import grade
from mwem_sql.judge.evidence import Families
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.tails import cumulants, half_width
from mwem_sql.loop.plan import divided
from mwem_sql.loop.problem import Figure, Outcome, Part, Problem
from mwem_sql.workload import Query, Workload

WITHIN_FIGURE: Final = Fraction(193, 200)
"""Of the queries that were not measured: those whose cells are off by no more than the last figure."""
FIGURE_PARTS: Final[Mapping[Part, int]] = {"directly": 1, "others": 1, "most": 2}
"""What each figure takes of the share, in proportion: intervals are made of the last."""
MOST_CERTIFIED, MOST_CERTIFIED_CELLS = 2_000, 2**21
"""Queries that are certified, and their cells together. Of a workload with more, some at even distances stand for
all."""

_CERTIFICATES_SCHEMA = pa.schema(
    {
        "part": pa.string(), "queries": pa.int32(), "beyond": pa.int32(), "value": pa.float64(), "noise": pa.string(),
        "scale": pa.float64(), "possible": pa.float64(),
    }
)  # fmt: skip

CERTIFIED = ("directly", "others")
"""The figures that together are about all certified queries."""
USEFUL = 0.02
"""Of all rows: the noise on the certificate's last figure from which on intervals do without it, and bounds have all of
the chance to fail. Scales and n decide, not the figure."""
MOST_BOUNDED = 20
"""Bounded queries that later questions are looked up in. More: a question takes longer; fewer: a bound that says more
is missed."""

MOST_NOISES = 100
"""Measured queries whose noise is worked out for the word of the summary, at even distances. More: it takes longer."""

Text = tuple[str | None, str | None, str | None]


def sample(
    queries: Sequence[LinearQuery], most: int = MOST_CERTIFIED, most_cells: int = MOST_CERTIFIED_CELLS
) -> list[int]:
    """The numbers of those that are certified: all, or as many as are allowed, at even distances."""
    count = min(len(queries), most)
    while count:
        numbers = [k * len(queries) // count for k in range(count)]
        if sum(queries[number].cells for number in numbers) <= most_cells:
            return numbers
        count //= 2
    return []


def certify(kernel: Kernel, problem: Problem, share: Fraction, outcome: Outcome) -> tuple[Figure, ...]:
    """Spend a share on the figures; those that there are queries for.

    Privacy:
        Which queries were measured, and what the state answers, follows from what was released.
    """
    if not share or not problem.certified:
        return ()
    numbers = np.array(list(problem.certified), dtype=np.int64)
    queries = list(problem.certified.values())
    is_measured = families(problem, outcome).are_exact(queries)
    answers = outcome.state.answers([query.shares for query in queries])
    figures: list[tuple[Part, list[int]]] = [("directly", np.flatnonzero(is_measured).tolist())]
    others = np.flatnonzero(~is_measured).tolist()
    figures += [("others", others), ("most", others)]
    figures = [(part, places) for part, places in figures if places]
    shares = divided(share, [FIGURE_PARTS[part] for part, _ in figures])
    out = []
    for (part, places), taken in zip(figures, shares, strict=True):
        vectors = np.concatenate([answers[k] * queries[k].bound for k in places])
        rank = most_beyond(len(places)) + 1 if part == "most" else None
        leading = [queries[k].cells for k in places]
        possible = 1.0 if part == "most" else float(np.mean([most_wrong(queries[k]) for k in places]))
        drawn = kernel.certify(numbers[places], leading, vectors, taken, rank=rank)
        out.append(Figure(part, len(places), drawn, possible))
    return tuple(out)


def most_wrong(query: LinearQuery) -> int:
    """The most that a query's cells are off together, in parts of all rows: a misplaced row counts in two."""
    return 1 if query.cells == 1 else 2


def most_beyond(queries: int) -> int:
    """How many of so many queries may have cells that are off by more than the last figure."""
    return math.floor((1 - WITHIN_FIGURE) * queries)


def families(problem: Problem, outcome: Outcome) -> Families:
    """All measurements of the workload's classes, and public totals, ready for its queries."""
    sizes = {name: len(base) for name, base in problem.sizes.items()}
    return Families(
        [*problem.public_counts, *(each for each in outcome.measurements if each.purpose != "detail")], sizes
    )


def bounds(compiled: Compiled, outcome: Outcome, measured: Families) -> pa.Table:
    """A row for each row of the workload: whether it was measured, and a bound of its error from selections."""
    distinct = compiled.distinct
    flags = measured.are_exact(distinct.queries)
    is_measured, errors = flags[distinct.of_row], np.full(len(distinct.of_row), np.inf)
    # Selections are among the problem's queries, which begin with the distinct ones.
    from_selections = None if outcome.bounds is None else outcome.bounds(outcome.state)
    if from_selections is not None:
        errors = from_selections[distinct.of_row] * compiled.linear.bounds * compiled.linear.units
    for row, count in distinct.of_count.items():
        # An average is measured if both its sum and its count are.
        is_measured[row] &= flags[count]
        errors[row] = np.inf
    return pa.table(
        {
            "query": np.arange(1, len(is_measured) + 1, dtype=np.int32),
            "measured": is_measured,
            "bound": pa.array(errors, mask=~np.isfinite(errors)),
        }
    )


def table(outcome: Outcome) -> pa.Table:
    """A row for each figure."""
    rows = [
        {
            "part": figure.part, "queries": figure.queries,
            "beyond": most_beyond(figure.queries) if figure.part == "most" else 0,
            "value": float(figure.drawn.values[0]), "noise": NOISE[figure.drawn.kind], "scale": figure.drawn.scale,
            "possible": figure.possible,
        }
        for figure in outcome.certificate
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=_CERTIFICATES_SCHEMA)


def facts(rows: pa.Table, compiled: Compiled, outcome: Outcome, measured: Families) -> dict[str, Any]:
    """For the summary: measured queries, the mean error of the certified ones, the share of rows in wrong cells."""
    figures = table(outcome)
    mean, within = mean_error(figures, outcome.total)
    flags = rows.column("measured").to_numpy()
    exact = compiled.linear.take(np.flatnonzero(flags))
    every, others = (_at_most(figures, outcome.total, parts) for parts in (CERTIFIED, ("others",)))
    wrong = grade.wrong(len(exact) / len(flags), _noise(exact, outcome.total, measured), every, others)
    return {"measured": len(exact), "mean_error": mean, "mean_error_within": within, "wrong": wrong}


def _at_most(figures: pa.Table, total: float, parts: Sequence[str]) -> float | None:
    mean, within = mean_error(figures, total, parts)
    return None if mean is None or within is None else mean + within


def _noise(queries: Sequence[LinearQuery], total: float, measured: Families) -> float | None:
    """The mean share of the rows that noise alone puts in wrong cells of measured queries; None without any."""
    shares = []
    for number in sample(queries, MOST_NOISES):
        query = queries[number]
        # Of Gaussian noise, which sums of noise are nearly, the mean absolute value.
        deviations = np.sqrt(measured.exact(query).estimates.variances)
        off = math.sqrt(2 / math.pi) * float(deviations.sum()) / (query.bound * query.unit)
        shares.append(min(1.0, off / (most_wrong(query) * max(1.0, total))))
    return float(np.mean(shares)) if shares else None


def mean_error(figures: pa.Table, total: float, parts: Sequence[str] = CERTIFIED) -> tuple[float | None, float | None]:
    """The mean error of the certified queries of some kinds, and how far the true mean is from that 95 times in 100.

    Both are shares of all rows, of which there are `total`: those that are in a wrong cell. Neither is above 1.
    """
    rows = [row for row in figures.to_pylist() if row["part"] in parts]
    if not rows:
        return None, None
    shares = np.array([row["queries"] for row in rows], dtype=np.float64)
    shares /= shares.sum()
    each = np.array([cumulants(row["scale"], KINDS[row["noise"]]) for row in rows])
    width = half_width(float(shares**2 @ each[:, 0]), float(shares**4 @ each[:, 1]), SUMMARY)
    # Noise may take a small mean below 0.
    mean = max(0.0, float(shares @ np.array([row["value"] for row in rows])))
    possible = max(1.0, total) * float(shares @ np.array([row["possible"] for row in rows]))
    return min(1.0, mean / possible), min(1.0, width / possible)


def _text(query: Query) -> Text:
    """What a query asks, as mwem.workloads writes it: it is the same question if it is the same text."""
    return query.predicate, query.measure, query.group_text


class ErrorBounds:
    """Bounds of the errors of the workload's queries beyond their measurements, at a chance to fail of `miss`."""

    def __init__(self, workload: Workload, rows: pa.Table, figures: pa.Table, miss: float, total: float) -> None:
        """`rows` are about the queries of the workload, in its order; `total` is the released number of rows."""
        self._bounds: Mapping[Text, tuple[Query, float]] = {
            _text(query): (query, math.inf if bound is None else bound)
            for query, bound in zip(workload, rows.column("bound").to_pylist(), strict=True)
        }
        self._total = total
        # An average is two certified queries, its sum and its count, each of which may be beyond the figure.
        self._most = {
            (queries, has_bins): _most(figures, _beside_bounds(miss, has_bins), USEFUL * total, queries)
            for queries in (1, 2)
            for has_bins in (False, True)
        }
        self._selections_hold = _beside_bounds(miss).allows(SELECTIONS / miss)

    def bounded(self) -> dict[Query, float]:
        """The counts with the smallest bounds, and these bounds, where they are below the number of rows."""
        if not self._selections_hold:
            return {}
        useful = [
            (query, bound) for query, bound in self._bounds.values() if query.measure is None and bound < self._total
        ]
        return dict(sorted(useful, key=lambda pair: pair[1])[:MOST_BOUNDED])

    def within(self, query: CompiledQuery) -> tuple[float, float]:
        """How far a cell of a query, and of the count that it is divided by, is off at most if it was not measured.

        Endless where nothing bounds it.
        """
        _, bound = self._bounds.get(_text(query.source), (None, None))
        if bound is None:
            return math.inf, math.inf
        bound = bound if self._selections_hold else math.inf
        linear, most = query.linear, self._most[1 if query.over is None else 2, query.reach is not None]
        return min(bound, most * linear.bound * linear.unit), most


def _beside_bounds(miss: float, has_bins: bool = False) -> Chance:
    """The chance of an interval of which bounds by measurements, and the reach of bins, have had their part."""
    chance = Chance(miss)
    chance.take("bounds", BOUNDS)
    if has_bins:
        chance.take("reach", REACH)
    return chance


def _most(figures: pa.Table, chance: Chance, useful: float, queries: int) -> float:
    """How far cells of one query, or of each of two, are off, but for a chance of which selections take, too.

    Endless if the noise is not below `useful`.
    """
    row = next((row for row in figures.to_pylist() if row["part"] == "most"), None)
    beyond = 0.0 if row is None else queries * row["beyond"] / row["queries"]
    if row is None or not chance.allows((SELECTIONS + beyond) / chance.whole):
        return math.inf
    chance.take("selections", SELECTIONS / chance.whole)
    chance.take("queries beyond the figure", beyond / chance.whole)
    # The noise matters on one side only; a figure below 0 is all noise.
    left = min(1.0, 2 * chance.rest("noise of the figure"))
    noise = half_width(*cumulants(row["scale"], KINDS[row["noise"]]), left)
    return max(0.0, float(row["value"])) + noise if noise < useful else math.inf
