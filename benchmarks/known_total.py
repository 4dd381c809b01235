"""Whether it matters that n is known: the error with `total := n` over that without, on the same data and under the
same seeds.

    python benchmarks/known_total.py [--runs 10] [--epsilon 0.1] [--rows 1000 100000] [--dims 1 2 tables]

The data are generated shapes of the half `choose` and one small table, `households`: all prefixes of 4,096 values,
2,000 rectangles over 256 x 256, all 3-way marginals of nine attributes. What is printed for a case is the ratio of mean
squared errors over all runs (of marginals: of L1 errors), and below the geometric mean over cases with its standard
error. Where sets of attributes are refined, the same seed makes the same noise: what differs is the estimate.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator

import numpy as np
import regret_marginals
import report
import shapes
import tables
from shapes import Data

import mwem_sql

KINDS = {1: "prefixes", 2: "rectangles"}


def errors(data: Data, epsilon: float, runs: int) -> np.ndarray:
    """Mean squared errors: a row for runs in which n is unknown, one for those in which it is given."""
    truth, table = shapes.histogram(data, None), shapes.rows(data, None)
    boxes, con = shapes.workload(KINDS[data.dims], truth.shape), table.connect()
    found = np.empty((2, runs))
    for (known, options), seed in itertools.product(enumerate(({}, {"total": table.rows})), range(runs)):
        with tables.released(con, boxes.workload(list(table.sizes)), epsilon, rows=1, seed=seed, **options) as (
            made,
            _,
        ):
            found[known, seed] = (boxes.answers(table.state(con, made.output)() - truth) ** 2).mean()
    return found


def marginal_errors(epsilon: float, runs: int) -> np.ndarray:
    table = regret_marginals.households()
    con, sets = table.connect(), list(itertools.combinations(table.sizes, regret_marginals.ORDER))
    workload = mwem_sql.Workload.from_rows({"group_by": list(names)} for names in sets)
    found = np.empty((2, runs))
    for (known, options), seed in itertools.product(enumerate(({}, {"total": table.rows})), range(runs)):
        with tables.released(con, workload, epsilon, rows=1, seed=seed, **options) as (made, _):
            found[known, seed] = regret_marginals.mean_l1(table, sets, table.state(con, made.output))
    return found


def cases(parts: list[str], rows: list[int], epsilon: float, runs: int) -> Iterator[tuple[str, np.ndarray]]:
    for dims, n in itertools.product((int(part) for part in parts if part.isdigit()), rows):
        for name in shapes.CHOOSE[dims]:
            data = Data(name, dims, n)
            yield str(data), errors(data, epsilon, runs)
    if "tables" in parts:
        yield "households, 3-way marginals", marginal_errors(epsilon, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**3, 10**5])
    parser.add_argument("--dims", nargs="+", choices=["1", "2", "tables"], default=["1", "2", "tables"])
    options = parser.parse_args()
    ratios = []
    sys.stdout.write("| data | n unknown | n given | ratio | of single runs |\n|---|---|---|---|---|\n")
    for name, found in cases(options.dims, options.rows, options.epsilon, options.runs):
        each = found[1] / found[0]
        ratios.append(found[1].mean() / found[0].mean())
        cells = [
            name,
            *map(report.number, found.mean(axis=1)),
            f"{ratios[-1]:.2f}",
            f"{each.min():.2f} to {each.max():.2f}",
        ]
        sys.stdout.write(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()
    logs = np.log(ratios)
    sys.stdout.write(
        f"\ngeometric mean {np.exp(logs.mean()):.3f}, times or over {np.exp(logs.std() / np.sqrt(len(logs))):.3f};"
        f" {len(ratios)} cases, {options.runs} runs each\n"
    )


if __name__ == "__main__":
    main()
