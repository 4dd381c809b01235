"""The paper's data cubes: the error of all 256 cuboids of Adult's eight attributes, as rounds proceed and at the end.

The error of a cuboid is the mean absolute error of its cells. It is taken from the released weights, and from the
synthetic rows beside them. A round's weights are what the measurements released up to it give: the fit of a release,
begun from uniform.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import report
import tables
from results import Case, Results

from mwem_sql import Release, Workload
from mwem_sql.loop.strategy import whole_domain
from mwem_sql.model.fit import Fit, Target
from mwem_sql.model.state import State

PAPER = {"average": 13.21, "maximum": 138.71}
ROUNDS = 10
WAYS = {2: "2-way", 3: "3-way", 8: "unrestricted"}
# What is asked of each kind of work: average and maximum cuboid error; mean L1 error of a marginal for `all 14`.
REACH: dict[str, tuple[Case, dict[str, float]]] = {
    "eight with income, 3-way, 10 rounds, total public": (
        {"data": "income", "ways": 3, "rounds": ROUNDS, "public": True},
        {"average": 7.5, "maximum": 75},
    ),
    "the same, plain call": (
        {"data": "income", "ways": 3, "rounds": None, "public": False},
        {"average": 6.6, "maximum": 55},
    ),
    "eight with native-country, 3-way, plain call": (
        {"data": "country", "ways": 3, "rounds": None, "public": False},
        {"average": 5.2, "maximum": 60},
    ),
    "all 14, 2-way, delta 1e-9": ({"data": "all 14", "ways": 2, "rounds": None, "public": False}, {"L1": 0.085}),
    "all 14, 3-way, delta 1e-9": ({"data": "all 14", "ways": 3, "rounds": None, "public": False}, {"L1": 0.19}),
}


def cases(runs: int) -> list[Case]:
    """The rows of the table, and five runs that are followed round by round."""
    found = [case(**work, trace=False, run=run) for work, _ in REACH.values() for run in range(runs)]
    return found + [
        case("income", ways, ROUNDS, public=True, trace=True, run=run) for ways in WAYS for run in range(min(runs, 5))
    ]


def case(data: str, ways: int, rounds: int | None, *, public: bool, trace: bool, run: int) -> Case:
    return {
        "experiment": "cubes",
        "way": "plain",
        "data": data,
        "ways": ways,
        "rounds": rounds,
        "public": public,
        "trace": trace,
        "run": run,
    }


def measure(asked: Case, directory: Path) -> dict[str, Any]:
    table = tables.read(asked["data"], directory)
    con = tables.connected(asked["data"], directory)
    workload = _workload(asked["data"], asked["ways"], directory)
    wide = asked["data"] == "all 14"
    total = table.rows if asked["public"] else None
    options = {
        "rounds": asked["rounds"],
        "total": total,
        "rows": 1 if asked["trace"] else None,
        "delta": 1e-9 if wide else None,
    }
    with tables.released(con, workload, 1.0, **options) as (made, seconds):
        found: dict[str, Any] = {"seconds": seconds, "rounds": made.rounds}
        if wide:
            drawn = table.drawn(con, made.output)
            sets = [query.group_by for query in workload if len(query.group_by or ()) == asked["ways"]]
            truth = [table.histogram(names=names) for names in sets]
            state = table.state(con, made.output)
            found["L1"] = float(
                np.mean([np.abs(state(names) - counts).sum() for names, counts in zip(sets, truth, strict=True)])
                / table.rows
            )
            found["L1 of rows"] = float(
                np.mean(
                    [
                        np.abs(table.histogram(drawn, names) - counts).sum()
                        for names, counts in zip(sets, truth, strict=True)
                    ]
                )
                / table.rows
            )
            return found
        truth = _truth(asked["data"], directory)
        if asked["trace"]:
            return found | {"trace": [cuboid_errors(weights - truth) for weights in _by_round(table, made)]}
        average, maximum = cuboid_errors(table.state(con, made.output)() - truth)
        rows_average, rows_maximum = cuboid_errors(table.histogram(table.drawn(con, made.output)) - truth)
    return found | {
        "average": average,
        "maximum": maximum,
        "average of rows": rows_average,
        "maximum of rows": rows_maximum,
    }


@lru_cache(maxsize=1)
def _truth(data: str, directory: Path) -> np.ndarray:
    return tables.read(data, directory).histogram()


@lru_cache(maxsize=1)
def _workload(data: str, ways: int, directory: Path) -> Workload:
    return tables.read(data, directory).marginals(ways)


def cuboid_errors(difference: np.ndarray) -> tuple[float, float]:
    """Average and maximum over all cuboids of the mean absolute cell, each cuboid summed from one with an attribute
    more.
    """
    found: list[float] = []

    def visit(cells: np.ndarray, first: int) -> None:
        found.append(float(np.abs(cells).mean()))
        for axis in range(first, cells.ndim):
            # Axes before `first` stay, so that every subset comes up once.
            visit(cells.sum(axis=axis), axis)

    visit(difference, 0)
    return float(np.mean(found)), max(found)


def _by_round(table: tables.Table, made: Release) -> Iterator[np.ndarray]:
    """The weights before the first round and after each. A measured marginal is named by its attributes;
    n is public."""
    state = State.uniform({name: np.ones(size) for name, size in table.sizes.items()}, table.rows)
    fit = Fit(state)
    steps = made.measurements.to_pylist()
    targets = [_target(table, step) for step in steps]
    first = next(number for number, step in enumerate(steps) if step["purpose"] == "round")
    for number in range(first, len(steps) + 1):
        fit.fit(targets[:number])
        yield state.marginal(tuple(table.sizes))


def _target(table: tables.Table, step: dict[str, Any]) -> Target:
    query = whole_domain({name: table.sizes[name] for name in step["name"].split(", ")})
    variance = (2.0 if step["noise"] == "laplace" else 1.0) * step["scale"] ** 2
    return Target(query, np.array(step["values"], dtype=np.float64), variance)


def show(results: Results, runs: int, page: Path | None) -> None:
    asked = cases(runs)
    figure, panels = report.axes(1, 2, 8, 3.2)
    for panel, part, name in ((panels[0][0], 1, "maximum"), (panels[0][1], 0, "average")):
        for ways, style in zip(WAYS, ("--", "-", ":"), strict=True):
            traces = [measured["trace"] for measured in results.of(asked, trace=True, ways=ways)]
            length = min(map(len, traces))
            mean = np.mean([[errors[part] for errors in trace[:length]] for trace in traces], axis=0)
            panel.plot(range(length), mean, style, color=report.OURS, label=WAYS[ways])
        panel.axhline(PAPER[name], color=report.PAPER, linewidth=1, label="the paper, 3-way, at the end")
        panel.set(yscale="log", xlabel="round", ylabel=f"{name} cuboid error")
    panels[0][1].legend(frameon=False)
    rows = []
    for label, (work, reach) in REACH.items():
        for name, limit in reach.items():
            weights, drawn = (
                results.spread(asked, figure_name, **work, trace=False) for figure_name in (name, f"{name} of rows")
            )
            seconds = results.spread(asked, "seconds", **work, trace=False)
            claim = PAPER.get(name, "") if work["data"] == "income" else ""
            rows.append(
                [
                    label,
                    name,
                    claim,
                    limit,
                    f"{weights.mean:.3g} ± {weights.deviation:.2g}",
                    f"{drawn.mean:.3g} ({drawn.mean / weights.mean:.2f}x)",
                    f"{seconds.mean:.1f}",
                ]
            )
    for ways, label in WAYS.items():
        last = np.array([measured["trace"][-1] for measured in results.of(asked, trace=True, ways=ways)])
        for part, name in enumerate(("average", "maximum")):
            rows.append(
                [
                    f"eight with income, {label}, 10 rounds, {len(last)} runs",
                    name,
                    PAPER[name] if ways > 2 else "",
                    "",
                    f"{last[:, part].mean():.3g}",
                    "",
                    "",
                ]
            )
    head = [
        "work, epsilon 1",
        "cuboid error",
        "the paper",
        "asked for, at most",
        "weights",
        "synthetic rows",
        "processor seconds",
    ]
    report.write("cubes", report.table(head, rows) + f"\n\nMean ± standard deviation of {runs} runs.\n", figure, page)
