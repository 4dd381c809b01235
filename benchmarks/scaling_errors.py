"""The error of what was released from a table of codes: for scaling_works.py, and for scaling_mst.py in another
environment.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

Columns = Mapping[str, np.ndarray]
Sizes = Mapping[str, int]


def discretised(directory: Path) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Adult's 14 attributes as codes, and how many each may have."""
    sizes = json.loads((directory / "discretised/private-pgm-adult-domain.json").read_text())
    with (directory / "discretised/private-pgm-adult.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    return {name: np.array([int(row[name]) for row in rows]) for name in sizes}, sizes


def counts(columns: Columns, sizes: Sizes, names: Sequence[str]) -> np.ndarray:
    """All cells of a cuboid, row-major. Rows with a negative code are in none of them."""
    shape = [sizes[name] for name in names]
    rows = np.stack([columns[name] for name in names])
    return np.bincount(np.ravel_multi_index(rows[:, (rows >= 0).all(axis=0)], shape), minlength=int(np.prod(shape)))


def distance(columns: Columns, sizes: Sizes, ways: int, released: Callable[[Sequence[str]], np.ndarray]) -> list[float]:
    """Mean and maximum, over all marginals of so many attributes, of the L1 distance to the truth as a share of the
    rows.
    """
    rows = len(next(iter(columns.values())))
    found = [
        np.abs(released(names) - counts(columns, sizes, names)).sum() / rows
        for names in itertools.combinations(sizes, ways)
    ]
    return [float(np.mean(found)), float(np.max(found))]
