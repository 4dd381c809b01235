"""Rounds that choose themselves (`rounds := NULL`) against the best fixed number of them in hindsight, on each
experiment.

The best is chosen after the fact and for each experiment by its mean over the same number of runs: nobody can know it
beforehand, and being the smallest of several noisy means it is a little too good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import contingency
import cubes
import ranges
import report
from results import Case, Results, key

FIXED = (2, 4, 6, 8, 10, 12, 16, 20, 28, 40)
ASKED = 1.15
# The runs are noisy to a different degree and cost more or less.
RUNS = {"ranges": 10, "contingency": 40, "cubes": 6}


def works() -> Iterator[tuple[str, str, Callable[[int | None, int], Case]]]:
    """For each experiment a name, the figure that is compared, and its case with that many rounds."""
    for data in (*ranges.DATA, *ranges.HELD_OUT):
        for epsilon in (0.1, 0.0125):
            yield (
                f"ranges, {data}, epsilon {epsilon}",
                "error",
                lambda rounds, run, data=data, epsilon=epsilon: ranges.case(
                    data, ranges.FIXED_COUNT, epsilon, way="plain", rounds=rounds, run=run
                ),
            )
    for data in contingency.DATA:
        for epsilon in (0.1, 1.0):
            yield (
                f"contingency, {data}, epsilon {epsilon}",
                "entropy",
                lambda rounds, run, data=data, epsilon=epsilon: contingency.case(data, epsilon, "plain", rounds, run),
            )
    for data, figures in (("income", ("average", "maximum")), ("country", ("average", "maximum")), ("all 14", ("L1",))):
        for figure in figures:
            ways = 2 if data == "all 14" else 3
            yield (
                f"cubes, {data}, {figure}",
                figure,
                lambda rounds, run, data=data, ways=ways: cubes.case(
                    data, ways, rounds, public=False, trace=False, run=run
                ),
            )


def cases(runs: int) -> list[Case]:
    """`runs` is the most for any experiment."""
    found = []
    for _, _, make in works():
        count = min(runs, RUNS[make(None, 0)["experiment"]])
        found += [make(rounds, run) for rounds in (None, *FIXED) for run in range(count)]
    return list({key(case): case for case in found}.values())


def show(results: Results, runs: int, page: Path | None) -> None:
    asked = cases(runs)
    rows, ratios = [], []
    for name, figure, make in works():
        work = {part: value for part, value in make(None, 0).items() if part not in {"rounds", "run"}}
        own = results.spread(asked, figure, **work, rounds=None)
        fixed = {rounds: results.spread(asked, figure, **work, rounds=rounds).mean for rounds in FIXED}
        best = min(fixed, key=fixed.__getitem__)
        ratios.append(own.mean / fixed[best])
        rows.append([name, report.number(own.mean), report.number(fixed[best]), best, f"{ratios[-1]:.2f}x", own.runs])
    figure, panels = report.axes(1, 1, 7, 0.3 * len(rows) + 0.8)
    panel = panels[0][0]
    panel.barh([row[0] for row in rows], ratios, color=report.OURS)
    panel.axvline(ASKED, color=report.PAPER, linewidth=1)
    panel.invert_yaxis()
    panel.set_xlabel(f"error of a plain call over that of the best fixed number of rounds (asked for: {ASKED})")
    text = report.table(["experiment", "plain call", "best fixed rounds", "which", "ratio", "runs"], rows)
    report.write("auto", text + "\n", figure, page)
