"""Regret: how much worse than the best textbook method for each case, chosen after the fact; a plain call and every
method, on the same data.

    python benchmarks/regret.py --data DIR --work DIR [--half choose|report] [--dims 1 2 3 tables growth limit]
    [--epsilon 0.1] [--runs 3]
                                [--jobs 2] [--every] [--write docs/regret.md]
    python benchmarks/regret.py --work DIR --quick

    1, 2, 3  histograms of one, two and three attributes: prefixes and ranges, rectangles, boxes
    tables   3-way marginals of small tables, against independent one-ways (regret_marginals.py)
    growth   the error as epsilon grows from 0.1 to 10, for a million rows
    limit    ten predicates with next to no noise (regret_limit.py)

The mean squared error of a case (data, workload, epsilon) over its queries and runs is divided by the smallest one of a
textbook method; regret is the geometric mean of that over cases. shapes.py has the data and its two halves: constants
are chosen on one, and the other is run once. Our own calls are unseeded and go through DuckDB; the textbook's see the
histogram. What was measured is kept in DIR of --work: after a change of the algorithm delete releases.jsonl there, and
both files after one of shapes.py or textbook/. --quick is a few cases of the half `choose`: two minutes, and one when
the textbook's are there. --write fills the page's section and puts the figure beside it, which needs matplotlib (pip
install 'mwem-sql[bench]').
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import regret_limit
import regret_marginals
import report
import shapes
import tables
import textbook
from results import Case, Results, key
from shapes import Data

OURS = "plain"
TEXTBOOK_RUNS = 5  # of each textbook method: they are quick, and the best of them is what everything is divided by
RUNS = 3
QUICK = {
    1: [
        Data(name, 1, n)
        for name in ("even", "heavy tail", "spikes", "hills", "round numbers")
        for n in (10**3, 10**5, 10**7)
    ],
    2: [Data(name, 2, n) for name in ("spikes", "hills", "correlated pairs") for n in (10**4, 10**6)],
}


# The error must fall as epsilon grows: rows of these data, and the epsilons.
GROWTH_ROWS, EPSILONS, GROWTH_DIMS = 10**6, (0.1, 1.0, 10.0), (1, 2)
PARTS = ("1", "2", "3", "tables", "growth", "limit")


def listed(half: str, dims: Sequence[int], *, quick: bool, real: bool) -> list[Data]:
    if quick:
        return [data for dim in dims for data in QUICK.get(dim, [])]
    return [data for dim in dims for data in shapes.listed(half, dim, real=real)]


def cases(data: Iterable[Data], epsilon: float, runs: int) -> list[Case]:
    return [
        {"experiment": "regret", "data": str(one), "name": one.name, "dims": one.dims, "n": one.n, "workload": kind,
        "epsilon": epsilon, "way": way, "run": run}
        for one in data for kind in shapes.WORKLOADS[one.dims]
        for way in (OURS, *textbook.METHODS[one.dims])
        for run in range(runs if way == OURS else TEXTBOOK_RUNS)
    ]  # fmt: skip


def grown(half: str, dims: int, runs: int) -> list[Case]:
    data = [one for one in shapes.listed(half, dims, real=False) if one.n == GROWTH_ROWS]
    return [case for epsilon in EPSILONS for case in cases(data, epsilon, runs)]


@lru_cache(maxsize=1)
def connected(data: Data, directory: Path | None) -> tuple[tables.Table, duckdb.DuckDBPyConnection]:
    """One table at a time is kept, for the runs on it, one after another."""
    table = shapes.rows(data, directory)
    return table, table.connect()


def measure(asked: Case, directory: Path | None) -> dict[str, Any]:
    data = Data(asked["name"], asked["dims"], asked["n"])
    truth = shapes.histogram(data, directory)
    boxes = shapes.workload(asked["workload"], truth.shape)
    begin = time.process_time()
    if asked["way"] == OURS:
        table, con = connected(data, directory)
        workload, seed = boxes.workload(list(table.sizes)), asked.get("seed")
        with tables.released(con, workload, asked["epsilon"], rows=1, seed=seed) as (made, seconds):
            weights = table.state(con, made.output)()
    else:
        generator = np.random.default_rng(asked.get("seed"))
        weights = textbook.released(asked["way"], truth, asked["epsilon"], boxes, generator)
        seconds = time.process_time() - begin
    return {"error": float((boxes.answers(weights - truth) ** 2).mean()), "rows": int(truth.sum()), "seconds": seconds}


class Errors:
    """The mean squared error of every way for every case, and the ratios to the best textbook method."""

    def __init__(self, results: Results, asked: list[Case]) -> None:
        gathered: dict[tuple[Any, ...], dict[str, list[float]]] = {}
        self.rows, self.seconds = {}, []
        for case in asked:
            for found in results.of([case]):
                place = (case["data"], case["dims"], case["workload"], case["epsilon"])
                gathered.setdefault(place, {}).setdefault(case["way"], []).append(found["error"])
                self.rows[place] = found["rows"]
                if case["way"] == OURS:
                    self.seconds.append(found["seconds"])
        self.mean = {
            place: {way: float(np.mean(values)) for way, values in ways.items()} for place, ways in gathered.items()
        }

    def best(self, place: tuple[Any, ...]) -> tuple[str, float]:
        return min(((way, error) for way, error in self.mean[place].items() if way != OURS), key=lambda one: one[1])

    def ratios(self, way: str, **wanted: object) -> dict[tuple[Any, ...], float]:
        """Of the cases that agree with `wanted` (dims, decade): this way's error over the best textbook method's."""
        return {
            place: ways[way] / self.best(place)[1]
            for place, ways in self.mean.items()
            if way in ways
            and wanted.get("dims", place[1]) == place[1]
            and wanted.get("decade", self.decade(place)) == self.decade(place)
        }

    def decade(self, place: tuple[Any, ...]) -> int:
        return round(float(np.log10(self.rows[place])))


def geometric(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def regrets(errors: Errors, dims: int) -> str:
    """A row per way: overall, by n, worst case."""
    decades = sorted({errors.decade(place) for place in errors.mean if place[1] == dims})
    lines = []
    for way in (OURS, *textbook.METHODS[dims]):
        ratios = errors.ratios(way, dims=dims)
        if not ratios:
            continue
        worst = max(ratios, key=ratios.__getitem__)
        by_n = [errors.ratios(way, dims=dims, decade=decade).values() for decade in decades]
        best = sum(errors.best(place)[0] == way for place in ratios)
        lines.append([
            "plain call" if way == OURS else way, len(ratios), f"{geometric(ratios.values()):.3g}",
            *(f"{geometric(own):.3g}" for own in by_n),
            f"{ratios[worst]:.3g}: {worst[0]}, {worst[2]}", "" if way == OURS else best,
        ])  # fmt: skip
    return report.table(
        [f"{dims}-D", "cases", "regret", *(f"n about 1e{decade}" for decade in decades), "worst case", "best in"], lines
    )


def every(errors: Errors, dims: int) -> str:
    """A row per case, for finding out where it goes wrong."""
    lines = []
    for place, ways in errors.mean.items():
        if place[1] == dims and OURS in ways:
            way, best = errors.best(place)
            lines.append(
                [place[0], place[2], report.number(ways[OURS]), report.number(best), way, f"{ways[OURS] / best:.3g}"]
            )
    return report.table(["data", "workload", "plain call", "best textbook", "which", "ratio"], lines)


def growth(errors: Errors, dims: int) -> str:
    """The error as epsilon grows, on the same data: mean over cases, and every step on which it did not fall."""
    cases: dict[tuple[Any, ...], dict[float, dict[str, float]]] = {}
    for (data, own, kind, epsilon), ways in errors.mean.items():
        if own == dims:
            cases.setdefault((data, kind), {})[epsilon] = ways
    whole = {place: found for place, found in cases.items() if set(EPSILONS) <= set(found)}
    lines = []
    for way in (OURS, *textbook.METHODS[dims]):
        means = [geometric(found[epsilon][way] for found in whole.values()) for epsilon in EPSILONS]
        steps = {
            (*place, high): found[high][way] / found[low][way]
            for place, found in whole.items()
            for low, high in itertools.pairwise(EPSILONS)
        }
        worst = max(steps, key=steps.__getitem__)
        rising = sum(step > 1 for step in steps.values())
        shown = f"{steps[worst]:.2g}: {worst[0]}, {worst[1]}, to {worst[2]}"
        lines.append(
            [
                "plain call" if way == OURS else way,
                len(whole),
                *map(report.number, means),
                f"{rising} of {len(steps)}",
                shown,
            ]
        )
    head = [
        f"{dims}-D, error as epsilon grows",
        "cases",
        *(f"epsilon {epsilon}" for epsilon in EPSILONS),
        "steps on which it rose",
        "worst step",
    ]
    return report.table(head, lines)


def figure(errors: Errors, every_dims: Sequence[int]) -> Any:
    """Regret by n times epsilon: a point per case of our own, a line through the means per decade of ours and of the
    best methods.
    """
    drawn, panels = report.axes(1, len(every_dims), 4.2 * len(every_dims), 3.6)
    for panel, dims in zip(panels[0], every_dims, strict=True):
        for way, color in ((OURS, report.OURS), ("dawa", report.PAPER), ("hb", report.OTHER), ("agrid", report.MORE)):
            ratios = errors.ratios(way, dims=dims)
            if not ratios:
                continue
            at = {place: errors.rows[place] * place[3] for place in ratios}
            if way == OURS:
                panel.scatter(at.values(), ratios.values(), s=8, color=color, alpha=0.4, linewidth=0)
            decades = sorted({round(np.log10(x)) for x in at.values()})
            means = [
                geometric(ratios[place] for place, x in at.items() if round(np.log10(x)) == decade)
                for decade in decades
            ]
            panel.plot(
                [10.0**decade for decade in decades],
                means,
                marker="o",
                markersize=3,
                color=color,
                label="plain call" if way == OURS else way,
            )
        panel.axhline(1, color="black", linewidth=0.6)
        panel.set(xscale="log", yscale="log", title=f"{dims}-D", xlabel="n times epsilon")
        panel.legend(frameon=False)
    panels[0][0].set_ylabel("error over the best textbook method's")
    return drawn


def measured(case: Case, directory: Path | None) -> dict[str, Any]:
    return {"regret": measure, "marginals": regret_marginals.measure, "limit": regret_limit.measure}[
        case["experiment"]
    ](case, directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="CSV files of the real tables; without it generated shapes only")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--half", choices=shapes.HALVES, default="choose")
    parser.add_argument("--dims", "--parts", nargs="+", choices=PARTS, help="all by default, 1 and 2 with --quick")
    parser.add_argument("--epsilon", type=float, default=EPSILONS[0])
    parser.add_argument("--runs", type=int, help="of our own call in each case")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--every", action="store_true", help="also a row per case")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args()
    runs = options.runs or (1 if options.quick else RUNS)
    parts = options.dims or (PARTS[:2] if options.quick else PARTS)
    every_dims = [int(part) for part in parts if part.isdigit()]
    real = options.data is not None
    results = Results(options.work)

    asked = cases(listed(options.half, every_dims, quick=options.quick, real=real), options.epsilon, runs)
    growing = [case for dims in GROWTH_DIMS for case in grown(options.half, dims, runs)] if "growth" in parts else []
    small = regret_marginals.cases(options.half, runs, TEXTBOOK_RUNS, real=real) if "tables" in parts else []
    limit = regret_limit.cases(runs) if "limit" in parts and real else []
    results.run(
        [*{key(case): case for case in (*asked, *growing, *small, *limit)}.values()],
        partial(measured, directory=options.data),
        options.jobs,
    )

    sections = []
    for dims in every_dims:
        errors = Errors(results, [case for case in asked if case["dims"] == dims])
        if errors.mean:
            sections += [regrets(errors, dims), *([every(errors, dims)] if options.every else [])]
            sections.append(
                f"Epsilon {options.epsilon}; a call took {np.median(errors.seconds):.2f} s of processor time (median;"
                f" at most {max(errors.seconds):.2f} s)."
            )
    if growing:
        sections += [growth(Errors(results, growing), dims) for dims in GROWTH_DIMS]
    if small:
        sections.append(regret_marginals.text(results, small))
    if limit:
        sections.append(regret_limit.text(results, limit))
    text = (
        f"The half `{options.half}`, {runs} runs of a plain call and {TEXTBOOK_RUNS} of each textbook method in each"
        " case.\n\n" + "\n\n".join(sections) + "\n"
    )
    picture = figure(Errors(results, [*asked, *growing]), every_dims) if every_dims and options.write else None
    if options.write and not options.write.exists():
        options.write.write_text("# Regret\n\n<!-- regret -->\n<!-- /regret -->\n")
    report.write("regret", text, picture, options.write)


if __name__ == "__main__":
    main()
