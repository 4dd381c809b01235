"""Every experiment of the paper, one command each: a table beside the paper's claim, and a figure.

    python benchmarks/paper.py ranges      --data DIR --work DIR [--write docs/experiments.md]
    python benchmarks/paper.py contingency --data DIR --work DIR [--nltcs FILE]
    python benchmarks/paper.py cubes       --data DIR --work DIR
    python benchmarks/paper.py auto        --data DIR --work DIR

    ranges       squared error of 500 to 4000 random ranges on four tables, against the SVD bound
    contingency  relative entropy of three contingency tables, and of NLTCS if a file is given, against measuring all
                 parities
    cubes        maximum and average error of the 256 cuboids of Adult's eight attributes, round by round; and of all 14
    auto         `rounds := NULL` against the best fixed number of rounds in hindsight

DIR of --data holds the CSV files. Runs are unseeded, as releases are, and go `--jobs` at a time; what they measured is
kept in DIR of --work, so an interrupted command goes on where it was and a finished one only reports. After a change of
the algorithm delete releases.jsonl there. --write fills the command's section of a page and puts the figure (SVG and
PNG) beside it. Needs matplotlib (pip install 'mwem-sql[bench]'). The scaling figures come from scaling.py, the
comparison with other packages from peers.py.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path
from typing import Any

import contingency
import cubes
import ranges
import rounds
from results import Case, Results

# The paper has 5 repetitions of the ranges and 100 of the contingency tables.
COMMANDS = {"ranges": (ranges, 5), "contingency": (contingency, 100), "cubes": (cubes, 20), "auto": (rounds, 40)}


def measure(case: Case, directory: Path) -> dict[str, Any]:
    module = {"ranges": ranges, "contingency": contingency, "cubes": cubes}[case["experiment"]]
    return module.measure(case, directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--runs", type=int, help="of each case; the most of them for auto")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--nltcs", type=Path, help="CSV of 16 binary columns, a row per record or with a column `count`"
    )
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args()
    if options.nltcs:
        os.environ["NLTCS"] = str(options.nltcs)
    module, runs = COMMANDS[options.command]
    results = Results(options.work)
    results.run(module.cases(options.runs or runs), partial(measure, directory=options.data), options.jobs)
    module.show(results, options.runs or runs, options.write)


if __name__ == "__main__":
    main()
