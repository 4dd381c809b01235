"""Runs and what they measured: a pool of processes, a file of JSON lines, and averages over runs.

A case is a mapping that says all there is to say about a run; a result is its case and what was measured. A case that
the file already has is not run again, so a command that was interrupted goes on, and one that has finished only
reports.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Case = dict[str, Any]
OURS = {"plain", "histogram", "barak, our fit", "mwem_sql, plain call"}
SHOW_EVERY = 20  # seconds


def is_reference(case: Case) -> bool:
    """Whether nothing of this project has a part in what is measured."""
    return case["way"] not in OURS


def key(case: Case) -> str:
    return json.dumps(case, sort_keys=True)


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over runs."""

    mean: float
    deviation: float
    runs: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        found = list(values)
        return cls(statistics.mean(found), statistics.stdev(found) if len(found) > 1 else 0.0, len(found))


class Results:
    """Two files: what depends on this project, and what does not and so outlasts a change of it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._paths = {
            reference: directory / f"{name}.jsonl" for reference, name in ((False, "releases"), (True, "references"))
        }
        found = [path.read_text().splitlines() for path in self._paths.values() if path.exists()]
        self._known = {key(line["case"]): line["measured"] for lines in found for line in map(json.loads, lines)}

    def missing(self, cases: Iterable[Case]) -> list[Case]:
        return [case for case in cases if key(case) not in self._known]

    def run(self, cases: list[Case], measure: Callable[[Case], dict[str, Any]], jobs: int) -> None:
        """Measure what is missing. `measure` is called in processes that start afresh, `jobs` at a time."""
        missing = self.missing(cases)
        if not missing:
            return
        # A process keeps the table that it last read: runs on one table go together.
        missing.sort(key=lambda case: case["data"])
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        begin = shown = time.monotonic()
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            running = {pool.submit(measure, case): case for case in missing}
            for done, future in enumerate(as_completed(running), start=1):
                self.keep(running[future], future.result())
                if time.monotonic() - shown > SHOW_EVERY or done == len(missing):
                    shown = time.monotonic()
                    print(f"{done} of {len(missing)} runs, {shown - begin:.0f} s", file=sys.stderr, flush=True)

    def keep(self, case: Case, measured: dict[str, Any]) -> None:
        self._known[key(case)] = measured
        with self._paths[is_reference(case)].open("a") as lines:
            lines.write(json.dumps({"case": case, "measured": measured}) + "\n")

    def of(self, cases: Iterable[Case], **wanted: object) -> Iterator[dict[str, Any]]:
        """What was measured for the cases that agree with `wanted`."""
        for case in cases:
            if all(case[name] == value for name, value in wanted.items()):
                yield self._known[key(case)]

    def spread(self, cases: Iterable[Case], figure: str, **wanted: object) -> Spread:
        return Spread.of(measured[figure] for measured in self.of(cases, **wanted))
