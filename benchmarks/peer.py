"""What peers.py and its peers say to each other: a job in a file, weights in another, and what it took on standard
output.

For any environment with numpy; imports nothing of this project but its neighbour.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import memory
import numpy as np


@dataclass(frozen=True, eq=False)
class Job:
    """Rows of codes, a column per attribute with that many classes, and a pure epsilon."""

    sizes: dict[str, int]
    codes: np.ndarray
    epsilon: float

    def save(self, path: Path) -> None:
        np.savez(path, names=list(self.sizes), shape=list(self.sizes.values()), codes=self.codes, epsilon=self.epsilon)

    @classmethod
    def load(cls, path: Path) -> Job:
        with np.load(path) as parts:
            sizes = dict(zip(map(str, parts["names"]), map(int, parts["shape"]), strict=True))
            return cls(sizes, parts["codes"], float(parts["epsilon"]))


def serve(methods: Mapping[str, Callable[[Job], Callable[[], np.ndarray]]]) -> None:
    """`METHOD JOB WEIGHTS` on the command line: run a method and write the weights of all cells.

    What is timed ends with the fitted model; its weights are asked for afterwards. Imports are not timed.
    """
    method, job, weights = sys.argv[1:]
    asked = Job.load(Path(job))
    wall, processor = time.perf_counter(), time.process_time()
    found = methods[method](asked)
    took = {
        "seconds": time.perf_counter() - wall, "processor": time.process_time() - processor,
        "megabytes": memory.peak_megabytes(),
    }  # fmt: skip
    np.save(weights, found().astype(np.float32))
    print(json.dumps(took))
