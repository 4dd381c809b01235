"""The paper's range queries: the mean squared error per query, against the number of ranges and against epsilon.

Compared with the SVD bound on the matrix mechanism at delta = 1/n, and with the paper's listing, which knows n and has
the best of four numbers of rounds in hindsight, as the paper reports it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import listing
import numpy as np
import report
import svd_bound
import tables
from results import Case, Results

import mwem_sql

DATA = ("capital-loss", "age x hours", "recency x frequency", "monetary")
# Nothing was chosen on these: they come up beside the others in `paper.py auto`.
HELD_OUT = ("age x education", "time x frequency")
COUNTS = (500, 1000, 2000, 4000)
EPSILONS = (0.0125, 0.025, 0.05, 0.1)
FIXED_COUNT, FIXED_EPSILON = 2000, 0.1
PAPER_ROUNDS = (10, 12, 14, 16)


def grid() -> list[tuple[int, float]]:
    return sorted({*((count, FIXED_EPSILON) for count in COUNTS), *((FIXED_COUNT, epsilon) for epsilon in EPSILONS)})


def cases(runs: int) -> list[Case]:
    """A plain call and the paper's choices of T, for every point of the figure. A run has ranges of its own."""
    ways = [("plain", None), *(("listing", rounds) for rounds in PAPER_ROUNDS), ("bound", None)]
    return [
        case(data, count, epsilon, way=way, rounds=rounds, run=run)
        for data in DATA for count, epsilon in grid() for way, rounds in ways for run in range(runs)
    ]  # fmt: skip


def case(data: str, count: int, epsilon: float, *, way: str, rounds: int | None, run: int) -> Case:
    return {
        "experiment": "ranges",
        "data": data,
        "queries": count,
        "epsilon": epsilon,
        "way": way,
        "rounds": rounds,
        "run": run,
    }


def measure(asked: Case, directory: Path) -> dict[str, Any]:
    table = tables.read(asked["data"], directory)
    con = tables.connected(asked["data"], directory)
    workload = mwem_sql.Workload.ranges(
        mwem_sql.Domain.from_schema(con, "private"), list(table.sizes), asked["queries"], seed=asked["run"]
    )
    matrix = indicators(workload, table.shape)
    if asked["way"] == "bound":
        return {"error": svd_bound.bound_per_query(matrix, asked["epsilon"], 1 / table.rows)}
    truth = table.histogram()
    if asked["way"] == "listing":
        seconds, weights = (
            None,
            listing.released(truth, matrix, asked["rounds"], asked["epsilon"], np.random.default_rng()),
        )
    else:
        with tables.released(con, workload, asked["epsilon"], rounds=asked["rounds"], rows=1) as (made, seconds):
            weights = table.state(con, made.output)()
    return {"error": float((((weights.ravel() - truth.ravel()) @ matrix.T) ** 2).mean()), "seconds": seconds}


def indicators(workload: mwem_sql.Workload, shape: tuple[int, ...]) -> np.ndarray:
    """A row of zeros and ones per range, over all cells in row-major order."""
    ends = np.array(
        [re.findall(r"BETWEEN (\d+) AND (\d+)", str(query.predicate)) for query in workload], dtype=np.int64
    )
    out = np.ones((len(ends), 1))
    for axis, size in enumerate(shape):
        low, high = ends[:, axis, :1], ends[:, axis, 1:]
        inside = (np.arange(size) >= low) & (np.arange(size) <= high)
        out = (out[:, :, None] * inside[:, None, :]).reshape(len(ends), -1)
    return out


def show(results: Results, runs: int, page: Path | None) -> None:
    asked = cases(runs)

    def error(data: str, count: int, epsilon: float, way: str) -> float:
        rounds = PAPER_ROUNDS if way == "listing" else (None,)
        at = {"data": data, "queries": count, "epsilon": epsilon, "way": way}
        return min(results.spread(asked, "error", **at, rounds=one).mean for one in rounds)

    figure, panels = report.axes(len(DATA), 2, 8, 10)
    for row, data in zip(panels, DATA, strict=True):
        for panel, label, points in (
            (row[0], "ranges at epsilon 0.1", [(count, FIXED_EPSILON, count) for count in COUNTS]),
            (row[1], "epsilon, 2000 ranges", [(FIXED_COUNT, epsilon, epsilon) for epsilon in EPSILONS]),
        ):
            for way, name, style, color in (
                ("bound", "SVD bound", "--", report.OTHER), ("listing", "the paper's listing, best T", "-.",
                report.PAPER),
                ("plain", "plain call", "-", report.OURS),
            ):  # fmt: skip
                panel.plot(
                    [x for *_, x in points],
                    [error(data, count, epsilon, way) for count, epsilon, _ in points],
                    style,
                    marker="o",
                    color=color,
                    label=name,
                )
            panel.set(yscale="log", title=data, xlabel=label)
        row[0].set_ylabel("squared error per query")
    panels[0][1].legend(frameon=False)
    rows = []
    for data in DATA:
        for count, epsilon in grid():
            bound, paper, ours = (error(data, count, epsilon, way) for way in ("bound", "listing", "plain"))
            rows.append(
                [
                    data,
                    count,
                    epsilon,
                    *map(report.number, (bound, paper, ours)),
                    f"{bound / ours:.1f}x",
                    f"{paper / ours:.1f}x",
                ]
            )
    seconds = [measured["seconds"] for measured in results.of(asked, way="plain")]
    text = report.table(
        [
            "data",
            "ranges",
            "epsilon",
            "SVD bound",
            "the paper's listing, best T",
            "plain call",
            "below the bound",
            "below the listing",
        ],
        rows,
    )
    text += (
        f"\n\nMean squared error per query, {runs} repetitions; a call took {np.median(seconds):.2f} s of processor"
        f" time (median; at most {max(seconds):.2f} s).\n"
    )
    report.write("ranges", text, figure, page)
