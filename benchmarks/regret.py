"""Regret: how much worse than the best textbook method for each case, chosen after the fact; a plain call and every method, on the same data.

    python benchmarks/regret.py --data DIR --work DIR [--half choose|report] [--dims 1 2 3] [--epsilon 0.1] [--runs 3] [--jobs 2]
    python benchmarks/regret.py --work DIR --quick

The mean squared error of a case (data, workload, epsilon) over its queries and runs is divided by the smallest one of a textbook method;
regret is the geometric mean of that over cases. shapes.py has the data and its two halves: constants are chosen on one, and the other is
run once. What was measured is kept in DIR of --work; after a change of the algorithm delete releases.jsonl there. Our own calls
are unseeded and go through DuckDB; the textbook's see the histogram. --quick: a few cases of the half `choose`, a minute or two.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import report
import shapes
import tables
import textbook
from results import Case, Results
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


def listed(half: str, dims: Sequence[int], *, quick: bool, real: bool) -> list[Data]:
    if quick:
        return [data for dim in dims for data in QUICK.get(dim, [])]
    return [data for dim in dims for data in shapes.listed(half, dim, real=real)]


def cases(data: Iterable[Data], epsilon: float, runs: int) -> list[Case]:
    return [
        {"experiment": "regret", "data": str(one), "name": one.name, "dims": one.dims, "n": one.n, "workload": kind, "epsilon": epsilon, "way": way, "run": run}
        for one in data for kind in shapes.WORKLOADS[one.dims]
        for way in (OURS, *textbook.METHODS[one.dims])
        for run in range(runs if way == OURS else TEXTBOOK_RUNS)
    ]  # fmt: skip


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
        with tables.released(con, boxes.workload(list(table.sizes)), asked["epsilon"], rows=1) as (made, seconds):
            weights = table.state(con, made.output)()
    else:
        weights = textbook.released(asked["way"], truth, asked["epsilon"], boxes, np.random.default_rng())
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
            "plain call" if way == OURS else way, len(ratios), f"{geometric(ratios.values()):.3g}", *(f"{geometric(own):.3g}" for own in by_n),
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="CSV files of the real tables; without it generated shapes only")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--half", choices=shapes.HALVES, default="choose")
    parser.add_argument("--dims", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--runs", type=int, help="of our own call in each case")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--every", action="store_true", help="also a row per case")
    options = parser.parse_args()
    results = Results(options.work)
    data = listed(options.half, options.dims, quick=options.quick, real=options.data is not None)
    asked = cases(data, options.epsilon, options.runs or (1 if options.quick else RUNS))
    results.run(asked, partial(measure, directory=options.data), options.jobs)
    errors = Errors(results, asked)
    for dims in options.dims:
        if any(one.dims == dims for one in data):
            print(regrets(errors, dims) + "\n")
            if options.every:
                print(every(errors, dims) + "\n")
    print(
        f"epsilon {options.epsilon}; a call took {np.median(errors.seconds):.2f} s of processor time (median; at most {max(errors.seconds):.2f} s)"
    )


if __name__ == "__main__":
    main()
