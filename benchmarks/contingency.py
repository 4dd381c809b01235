"""The paper's contingency tables: relative entropy between released weights and data, against epsilon.

`plain` is a call with no option, on the parities of up to three attributes; `histogram` starts from a noisy histogram
as the paper's optimised version does; `listing` is the paper's own algorithm with the best of four numbers of rounds in
hindsight; `barak` measures every parity alike. Relative entropy has no bound where a weight is 0: weights below FLOOR
rows count as FLOOR.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import barak
import listing
import numpy as np
import report
import tables
from results import Case, Results, Spread

import mwem_sql

DATA = ("mildew", "rochdale", "czech")
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
ORDER = 3
PAPER_ROUNDS = (5, 10, 15, 20)
FLOOR = 1e-300
WAYS = {
    "plain": "plain call",
    "histogram": "histogram start",
    "listing": "the paper's listing, best T",
    "barak": "Barak-style",
    "barak, our fit": "Barak-style, our fit",
}


def data() -> tuple[str, ...]:
    return (*DATA, "nltcs") if "NLTCS" in os.environ else DATA


def cases(runs: int) -> list[Case]:
    """NLTCS has a tenth of the runs, as in the paper, and no listing: a hundred passes over 65,536 cells for each
    measurement.
    """
    return [
        case(name, epsilon, way, rounds, run)
        for name in data() for epsilon in EPSILONS for way in WAYS
        for rounds in (PAPER_ROUNDS if way == "listing" else (None,))
        for run in range(runs if name in DATA else max(1, runs // 10))
        if name in DATA or way != "listing"
    ]  # fmt: skip


def case(name: str, epsilon: float, way: str, rounds: int | None, run: int) -> Case:
    return {"experiment": "contingency", "data": name, "epsilon": epsilon, "way": way, "rounds": rounds, "run": run}


def measure(asked: Case, directory: Path) -> dict[str, Any]:
    table = tables.read(asked["data"], directory)
    truth, way, epsilon = table.histogram(), asked["way"], asked["epsilon"]
    if way in {"plain", "histogram"}:
        con = tables.connected(asked["data"], directory)
        workload = mwem_sql.Workload.parities(mwem_sql.Domain.from_schema(con, "private"), ORDER)
        start = "histogram" if way == "histogram" else None
        with tables.released(con, workload, epsilon, rounds=asked["rounds"], start=start, rows=1) as (made, _):
            weights = table.state(con, made.output)()
    else:
        queries, generator = barak.parities(len(table.shape), ORDER), np.random.default_rng()
        if way == "listing":
            weights = listing.released(truth, queries, asked["rounds"], epsilon, generator)
        elif way == "barak":
            weights = barak.released(truth, queries, epsilon, generator)
        else:
            weights = barak.released_with_our_fit(truth, ORDER, epsilon, generator)
    scaled = np.maximum(weights.ravel() * (table.rows / weights.sum()), FLOOR)
    return {"entropy": listing.relative_entropy(truth.ravel(), scaled)}


def show(results: Results, runs: int, page: Path | None) -> None:
    asked = cases(runs)

    def entropy(name: str, epsilon: float, way: str) -> Spread:
        rounds = PAPER_ROUNDS if way == "listing" else (None,)
        found = [results.spread(asked, "entropy", data=name, epsilon=epsilon, way=way, rounds=one) for one in rounds]
        return min(found, key=lambda spread: spread.mean)

    figure, panels = report.axes(1, len(data()), 3.6 * len(data()), 3.4)
    styles = {
        "plain": ("-", report.OURS),
        "histogram": (":", report.MORE),
        "listing": ("-.", report.PAPER),
        "barak": ("--", report.OTHER),
        "barak, our fit": ("--", "#d08770"),
    }
    rows = []
    for panel, name in zip(panels[0], data(), strict=True):
        ways = [way for way in WAYS if name in DATA or way != "listing"]
        for way in ways:
            found = [entropy(name, epsilon, way) for epsilon in EPSILONS]
            style, color = styles[way]
            panel.plot(EPSILONS, [one.mean for one in found], style, color=color, label=WAYS[way])
            low, high = zip(
                *((max(one.mean - one.deviation, one.mean / 10), one.mean + one.deviation) for one in found),
                strict=True,
            )
            panel.fill_between(EPSILONS, low, high, color=color, alpha=0.15, linewidth=0)
        panel.set(xscale="log", yscale="log", title=name, xlabel="epsilon")
        for epsilon in EPSILONS:
            found = {way: entropy(name, epsilon, way) for way in ways}
            rival = min((found["barak"], found["barak, our fit"]), key=lambda spread: spread.mean)
            spread = max(found["plain"].deviation, rival.deviation)
            ahead = f"{(rival.mean - found['plain'].mean) / spread:+.1f}" if spread else ""
            shown = [f"{found[way].mean:.3g} ± {found[way].deviation:.2g}" if way in found else "" for way in WAYS]
            rows.append([name, epsilon, *shown, ahead])
    panels[0][0].set_ylabel("relative entropy")
    panels[0][-1].legend(frameon=False)
    text = report.table(
        ["data", "epsilon", *WAYS.values(), "ahead of the better baseline, in standard deviations"], rows
    )
    report.write("contingency", text + f"\n\nMean ± standard deviation of {runs} runs.\n", figure, page)
