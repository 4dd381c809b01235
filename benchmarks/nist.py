"""The board of NIST's Collaborative Research Cycle: the k-marginal score, pMSE and impossible rows of synthetic rows.

    python benchmarks/nist.py --data DIR [--half choose|report] [--budgets 1:3.6e-6 1 10] [--workloads pairs puma]
                              [--seeds 1] [--checks] [--enlarged] [--references] [--every]
    python benchmarks/nist.py --data DIR --excerpt FILE --rows FILE ...

DIR holds acs/: Texas is the half `choose`, Massachusetts `report`; --excerpt is any other file with these columns.
--enlarged draws 27,253 people in 20 areas from the excerpt, each area a mixture of two of its areas. A budget is
EPSILON or EPSILON:DELTA. Workloads: `pairs` of all 23 columns; `puma`, the area with pairs of the others, by which rows
are scored. --checks declares what cannot be and which columns follow from others, --every prints the share of rows by
rule.
--references scores true shares without noise in two models, each column given the area and a tree given the area; and
independent one-ways of the declared bins with the budgets' epsilons.
--rows scores rows that something else has made, in CSV files like the excerpt's. nist_table.py says how columns are
declared, nist_score.py how rows are scored; pMSE needs scikit-learn, and is left out without it.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import tempfile
from pathlib import Path

import nist_score
import nist_table
import numpy as np
import report
import tables
from nist_score import Codes
from nist_table import Excerpt
from results import Spread
from textbook.oneways import oneways

HEAD = ("rows", "epsilon", "delta", "seconds", "score", "pMSE", "impossible")
BUDGETS = ("1:3.6e-6", "1", "10")


def figures(excerpt: Excerpt, codes: Codes, table: str) -> dict[str, float]:
    """Score, pMSE and shares of impossible rows of a table."""
    pmse = codes.pmse(table) if importlib.util.find_spec("sklearn") else float("nan")
    return {"score": codes.score(codes.of(table).shares), "pMSE": pmse, **excerpt.broken(table)}


def released(
    excerpt: Excerpt, codes: Codes, workload: str, budget: tuple[float, float], seeds: int
) -> dict[str, Spread]:
    """The figures of releases with as many rows as they find, and the seconds of processor time of one."""
    asked, (epsilon, delta), runs = excerpt.workload(workload), budget, []
    for seed in range(seeds):
        with tables.released(excerpt.con, asked, epsilon, delta=delta, seed=seed, progress=False) as (made, seconds):
            runs.append({"seconds": seconds, **figures(excerpt, codes, made.output)})
    return {name: Spread.of(run[name] for run in runs) for name in runs[0]}


def independent(excerpt: Excerpt, codes: Codes, epsilon: float, seeds: int) -> dict[str, Spread]:
    """The figures of independent one-ways: every column counted by itself, rows drawn as if none followed another."""
    table, runs = excerpt.coded, []
    histograms = [table.histogram(names=[name]) for name in table.sizes]
    for seed in range(seeds):
        generator = np.random.default_rng(seed)
        estimates = oneways(histograms, epsilon, generator)
        rows = round(estimates[0].sum())
        drawn = [generator.choice(len(counts), rows, p=counts / counts.sum()) for counts in estimates]
        runs.append(figures(excerpt, codes, excerpt.decoded(np.stack(drawn, axis=1), generator)))
    return {name: Spread.of(run[name] for run in runs) for name in runs[0]}


def shown(found: dict[str, Spread]) -> list[str]:
    score = found["score"]
    return [
        f"{found['seconds'].mean:.1f}" if "seconds" in found else "",
        f"{score.mean:.1f}" + (f" ± {score.deviation / score.runs**0.5:.1f}" if score.runs > 1 else ""),
        f"{found['pMSE'].mean:.4f}", f"{found['any'].mean:.2%}",
    ]  # fmt: skip


def rules(found: dict[str, Spread]) -> str:
    names = [name for name in found if name not in {"seconds", "score", "pMSE", "any"}]
    return "\n".join(f"    {found[name].mean:7.2%} {name}" for name in names if found[name].mean)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--half", choices=nist_table.HALVES, default="choose")
    parser.add_argument("--excerpt", type=Path, metavar="FILE")
    parser.add_argument("--budgets", nargs="*", default=BUDGETS, metavar="EPSILON[:DELTA]")
    parser.add_argument("--workloads", nargs="+", choices=("pairs", "puma"), default=("pairs", "puma"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--checks", action="store_true")
    parser.add_argument("--enlarged", action="store_true")
    parser.add_argument("--references", action="store_true")
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--rows", type=Path, nargs="+", default=[], metavar="FILE")
    options = parser.parse_args()
    path = options.excerpt or options.data / nist_table.HALVES[options.half]
    if options.enlarged:
        path = nist_table.enlarged(path, Path(tempfile.mkdtemp()) / f"enlarged_{path.name}")
    excerpt = Excerpt(path, options.data / nist_table.DICTIONARY, checks=options.checks)
    codes = Codes(excerpt.con)
    print(f"{path.name}, {len(codes.true.codes[nist_table.AREA]):,} rows, seeds 0 to {options.seeds - 1}\n")
    print(report.table(HEAD, []), flush=True)
    if options.references:
        for name, model in (("true rows", codes.true.shares), ("each column given the area, no noise",
                            nist_score.star(codes.true)), ("a tree given the area, no noise",
                            nist_score.tree(codes.true))):  # fmt: skip
            print(report.row([name, "", "", "", f"{codes.score(model):.1f}", "", ""]), flush=True)
        for epsilon in dict.fromkeys(budget.partition(":")[0] for budget in options.budgets):
            found = independent(excerpt, codes, float(epsilon), options.seeds)
            print(report.row(["independent one-ways", epsilon, "0", *shown(found)]), flush=True)
    for file in options.rows:
        found = {name: Spread.of([one]) for name, one in figures(excerpt, codes, excerpt.load(file)).items()}
        print(report.row([file.name, "", "", *shown(found)]), flush=True)
    for workload, budget in itertools.product(options.workloads, options.budgets):
        epsilon, _, delta = budget.partition(":")
        found = released(excerpt, codes, workload, (float(epsilon), float(delta or 0)), options.seeds)
        print(report.row([f"plain call, {workload}", epsilon, delta or "0", *shown(found)]), flush=True)
        if options.every:
            print(rules(found), flush=True)


if __name__ == "__main__":
    main()
