"""The same work through other packages of PyPI: error, time and peak memory of each, side by side with a plain call.

    python benchmarks/peers.py --data DIR --work DIR [--runs 3] [--only AIM ...] [--tables country] [--write
    docs/experiments.md]

Adult's eight attributes, with income (32,561 rows) and with native-country (48,842 rows), cuboids of up to three
attributes, pure epsilon 1; the error of a cuboid is the mean absolute error of its cells, over all 256 cuboids. Each
package is installed once into an environment of its own under DIR of --work, and each run is a fresh process. What was
measured is kept there: a run that is known is not made again. AIM and MWEM+PGM take minutes each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import cubes
import numpy as np
import peer
import report
import tables
from results import Case, Results

HERE = Path(__file__).parent
EPSILON = 1.0
TRIES = 3
DATA = {"income": "eight with income", "country": "eight with native-country"}
# What pip is given, line by line: smartnoise-synth would bring torch, which its MWEM does not use.
PACKAGES = {
    "mbi": [["opendp[mbi]==0.16.0", "mbi==1.1.0", "pandas"]],
    "smartnoise": [["--no-deps", "smartnoise-synth==1.0.8"], ["smartnoise-sql==1.0.10", "Faker", "scipy"]],
}
# The name in the table: the script, its environment (None: this one), the method's name there.
PEERS: dict[str, tuple[str, str | None, str]] = {
    "mwem_sql, plain call": ("peer_ours.py", None, "plain call"),
    "OpenDP AIM": ("peer_mbi.py", "mbi", "AIM"),
    "OpenDP MST": ("peer_mbi.py", "mbi", "MST"),
    "MWEM+PGM (mbi), 10 rounds": ("peer_mbi.py", "mbi", "MWEM+PGM"),
    "smartnoise MWEM": ("peer_smartnoise.py", "smartnoise", "MWEM"),
}


def environment(work: Path, name: str | None) -> Path:
    """The interpreter that has a package, installed the first time."""
    if name is None:
        return Path(sys.executable)
    home = work / f"environment-{name}"
    python = home / "bin" / "python"
    done = home / "installed"
    if not done.exists():
        print(f"installing {name} into {home}", file=sys.stderr, flush=True)
        venv.create(home, clear=True, with_pip=True)
        for line in PACKAGES[name]:
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *line], check=True
            )
        done.touch()
    return python


def run(case: Case, directory: Path, work: Path) -> dict[str, Any]:
    """One run in a process of its own; the errors are computed here, from the weights that it leaves."""
    script, name, method = PEERS[case["way"]]
    table = tables.read(case["data"], directory)
    python = environment(work, name)
    with tempfile.TemporaryDirectory() as scratch:
        job, weights = Path(scratch) / "job.npz", Path(scratch) / "weights.npy"
        peer.Job(table.sizes, table.codes, EPSILON).save(job)
        command = [python, HERE / script, method, job, weights]
        # OpenDP's AIM now and then asks itself for a negative scale at the end of its budget and raises: such a run is
        # made again.
        failed = 0
        while (
            ran := subprocess.run(command, check=False, capture_output=True, text=True, env=_variables(name))
        ).returncode:
            failed += 1
            if failed == TRIES:
                raise SystemExit(f"{case['way']} failed {TRIES} times:\n{ran.stderr}")
        average, maximum = cubes.cuboid_errors(np.load(weights).astype("float64") - table.histogram())
    return json.loads(ran.stdout.splitlines()[-1]) | {"average": average, "maximum": maximum, "failed": failed}


def _variables(name: str | None) -> dict[str, str]:
    """Another environment's interpreter must not find this one's packages."""
    return {key: value for key, value in os.environ.items() if name is None or key != "PYTHONPATH"}


def cases(works: list[str], names: list[str], runs: int) -> list[Case]:
    """Each way once before any is run again: what else the machine does then slows all of them."""
    return [
        {"experiment": "peers", "data": data, "way": name, "run": run}
        for run in range(runs)
        for data in works
        for name in names
    ]


def show(results: Results, works: list[str], names: list[str], runs: int, page: Path | None) -> None:
    asked = cases(works, names, runs)
    rows = []
    for data, label in ((data, DATA[data]) for data in works):
        ours = {
            figure: results.spread(asked, figure, data=data, way=names[0]).mean
            for figure in ("average", "maximum", "seconds", "processor", "megabytes")
        }
        for name in names:
            found = {figure: results.spread(asked, figure, data=data, way=name) for figure in ours}
            rows.append(
                [
                    label, name,
                    *(
                        f"{found[figure].mean:.3g}" + (f" ± {found[figure].deviation:.2g}" if runs > 1 else "")
                        for figure in ("average", "maximum")
                    ),
                    f"{found['seconds'].mean:.1f}", f"{found['processor'].mean:.1f}",
                    f"{found['processor'].mean / ours['processor']:.0f}x",
                    f"{found['megabytes'].mean:,.0f}",
                    sum(measured["failed"] for measured in results.of(asked, data=data, way=name)),
                ]
            )  # fmt: skip
    figure, panels = report.axes(1, len(works), 4 * len(works), 3)
    for panel, (data, label) in zip(panels[0], ((data, DATA[data]) for data in works), strict=True):
        for name in names:
            seconds, average = (
                results.spread(asked, part, data=data, way=name).mean for part in ("processor", "average")
            )
            panel.scatter(seconds, average, color=report.OURS if name == names[0] else report.OTHER)
            panel.annotate(name, (seconds, average), xytext=(4, 4), textcoords="offset points", fontsize=7)
        panel.set(xscale="log", yscale="log", title=label, xlabel="seconds of processor time")
        panel.margins(x=0.35, y=0.2)
    panels[0][0].set_ylabel("average cuboid error")
    head = [
        "work, epsilon 1",
        "package",
        "average cuboid error",
        "maximum",
        "seconds",
        "of processor",
        "over ours",
        "peak MB",
        "failed runs",
    ]
    report.write(
        "peers",
        report.table(head, rows)
        + f"\n\n{f'Mean ± standard deviation of {runs} runs' if runs > 1 else 'One run'}, each in a fresh process, one"
        " at a time.\n",
        figure,
        page,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--only", nargs="+", choices=list(PEERS), default=list(PEERS), metavar="PACKAGE", help=", ".join(PEERS)
    )
    parser.add_argument("--tables", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args()
    results = Results(options.work)
    for case in results.missing(cases(options.tables, options.only, options.runs)):
        print(case["data"], case["way"], case["run"], file=sys.stderr, flush=True)
        results.keep(case, run(case, options.data, options.work))
    show(results, options.tables, options.only, options.runs, options.write)


if __name__ == "__main__":
    main()
