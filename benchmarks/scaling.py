"""How a release grows with attributes, queries and rounds, and how it compares with OpenDP's MST.

    python benchmarks/scaling.py binary [--attributes 10 20 50 100 200 500 1000]
    python benchmarks/scaling.py bits --data DIR [--rounds 60]
    python benchmarks/scaling.py adult --data DIR [--mst [RUNS]]
    python benchmarks/scaling.py adult8 --data DIR
    python benchmarks/scaling.py growth [--docs docs]

    binary   the paper's synthetic scaling: 100,000 rows of d independent bits with p = 0.1, all one- and two-way
             marginals, T = d,
             epsilon 1; over one float32 X.T @ X of its data,
             the best of three timed right before and three right after the CALL
    bits     the paper's binarised Adult: 8 attributes as 27 bits, all three-way cuboids; the same with 50 attributes of
             noise; and
             with these and 50 more rounds of the same share of epsilon, as in the paper,
             which does not plot the first 50
    adult    all 14 attributes of discretised Adult, all 2-way marginals in 16 rounds and all 3-way ones in 30, epsilon
             1, pure and
             with delta 1e-9; and OpenDP's MST at (1, 1e-9), installed into an environment under --work (1.4 GB)
    adult8   the 8 categorical columns of Adult, all 3-way marginals, 10 rounds
    growth   from what the others left in --work: plots, and the tables of scaling.md, written to --docs

DIR of --data holds adult_train.csv and discretised/. Each run has a process of its own, so that its peak memory (which
includes the table) is its own; cases take turns. Cells of the tables are smallest, median and largest of --runs runs.
Time is wall time or, with --clock processor, processor time; both are kept, so that `growth` can show either. Where
others use the machine the second is the steadier one: set OPENBLAS_NUM_THREADS=1 then, because threads of BLAS wait for
each other in a loop. `growth` needs matplotlib (pip install 'mwem-sql[bench]').
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

import scaling_report

HERE = Path(__file__).parent
RUNS = {"binary": 3, "bits": 3, "adult": 3, "adult8": 5}
PEER = ("opendp[mbi]==0.16.0", "pandas")  # its rows come as a frame of pandas, which it does not install

Case = dict[str, Any]


def cases(options: argparse.Namespace) -> list[Case]:
    """What the sub-command runs, each so many times."""
    data = {"data": str(options.data)}
    if options.work_name == "binary":
        return [{"work": "binary", "attributes": attributes} for attributes in options.attributes]
    if options.work_name == "bits":
        plain = {"work": "bits", **data, "noise": 0, "rounds": options.rounds, "epsilon": 1.0}
        longer = options.rounds + 50
        return [
            plain,
            {**plain, "noise": 50},
            {**plain, "noise": 50, "rounds": longer, "epsilon": longer / options.rounds},
        ]
    if options.work_name == "adult8":
        return [{"work": "adult8", **data, "rounds": 10}]
    plans = [
        {"work": "adult14", **data, "ways": ways, "rounds": rounds, "delta": delta}
        for ways, rounds in ((2, 16), (3, 30))
        for delta in (0, 1e-9)
    ]
    return [*plans, *([{"work": "mst", **data}] if options.mst else [])]


def run(command: list[str], environment: dict[str, str] | None = None) -> Case:
    """What a process of its own prints, and how long all of it took: wall and processor time."""

    def clock() -> tuple[float, float]:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.perf_counter(), used.ru_utime + used.ru_stime

    begin = clock()
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(ran.stdout) | {"process": [end - start for start, end in zip(begin, clock(), strict=True)]}


def run_mst(data: str, work: Path) -> Case:
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return run([peer(work), str(HERE / "scaling_mst.py"), data], without)


def peer(work: Path) -> str:
    """The Python of an environment of its own, made the first time."""
    home = work / "mst"
    if not home.exists():
        venv.create(home, with_pip=True)
    subprocess.run([home / "bin/python", "-m", "pip", "install", "--quiet", *PEER], check=True)
    return str(home / "bin/python")


def run_work(case: Case) -> Case:
    return run([sys.executable, str(HERE / "scaling_works.py"), json.dumps(case)])


def measure(options: argparse.Namespace, work: Path) -> None:
    runs = options.runs or RUNS[options.work_name]
    todo = cases(options)
    with records_of(work, options.work_name).open("w") as lines:
        for number in range(max(runs, options.mst)):
            for case in todo:
                if number >= (options.mst if case["work"] == "mst" else runs):
                    continue
                measured = run_mst(case["data"], work) if case["work"] == "mst" else run_work(case)
                print(json.dumps(case | measured), file=lines, flush=True)
                print(case, measured["seconds"], file=sys.stderr, flush=True)
    records = scaling_report.read(records_of(work, options.work_name), options.clock)
    print(scaling_report.TABLES[options.work_name](records))


def records_of(work: Path, name: str) -> Path:
    return work / f"scaling-{name}.jsonl"


def growth(work: Path, docs: Path, clock: str) -> None:
    """Tables and plots of all that has been measured."""
    found = {name: records_of(work, name) for name in RUNS if records_of(work, name).exists()}
    scaling_report.publish({name: scaling_report.read(path, clock) for name, path in found.items()}, clock, docs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work_name", metavar="work", choices=[*RUNS, "growth"], help=", ".join([*RUNS, "growth"]))
    parser.add_argument("--data", type=Path, help="adult_train.csv and discretised/ are there")
    parser.add_argument("--work", type=Path, help="what is measured is kept there; by default nothing is")
    parser.add_argument(
        "--runs", type=int, help="of each case; " + ", ".join(f"{name} {runs}" for name, runs in RUNS.items())
    )
    parser.add_argument("--attributes", type=int, nargs="+", default=[10, 20, 50, 100, 200, 500, 1000])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--mst", type=int, nargs="?", const=1, default=0, metavar="RUNS")
    parser.add_argument("--clock", choices=scaling_report.CLOCKS, default="wall")
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    options = parser.parse_args()
    if options.data is None and options.work_name not in {"binary", "growth"}:
        parser.error(f"{options.work_name} needs --data")
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        if options.work_name == "growth":
            growth(work, options.docs, options.clock)
        else:
            measure(options, work)


if __name__ == "__main__":
    main()
