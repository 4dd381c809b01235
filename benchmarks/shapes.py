"""Data of our own: generated shapes over one, two and three attributes, and real columns from DIR, in two halves.

A constant of the algorithm may be chosen on the half `choose`; what is claimed comes from the half `report`, run once.
The halves share no shape and no table, whatever the number of attributes:

    choose  even, heavy tail, spikes, hills, round numbers, waves, correlated pairs; capital-loss, monetary, age x
            hours,
            recency x frequency, time x recency x frequency; the tables mildew, rochdale, households
    report  sparse, steps, sorted duplicates, two clusters, banded, slope, near-independent; capital-gain, final weight,
            age x education,
            time x frequency, age x education x hours; the tables czech, visits

A shape is a distribution over the cells, always the same one; its data are n draws from it, the same ones for the same
n.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import tables
from boxes import Boxes

SIZES = {1: (4096,), 2: (256, 256), 3: (32, 32, 32)}
SCALES = {1: (10**3, 10**4, 10**5, 10**6, 10**7), 2: (10**3, 10**4, 10**5, 10**6, 10**7), 3: (10**4, 10**6)}
QUERIES = 2000  # random ranges, rectangles or boxes of a workload
WORKLOADS = {1: ("prefixes", "ranges"), 2: ("rectangles",), 3: ("boxes",)}

CHOOSE = {
    1: ("even", "heavy tail", "spikes", "hills", "round numbers", "waves"),
    2: ("even", "heavy tail", "spikes", "hills", "round numbers", "correlated pairs"),
    3: ("heavy tail", "hills", "correlated pairs"),
}
REPORT = {
    1: ("sparse", "steps", "sorted duplicates", "two clusters", "banded", "slope"),
    2: ("sparse", "steps", "sorted duplicates", "two clusters", "banded", "near-independent"),
    3: ("sparse", "two clusters", "near-independent"),
}
CHOOSE_REAL = {
    1: ("capital-loss", "monetary"),
    2: ("age x hours", "recency x frequency"),
    3: ("time x recency x frequency",),
}
REPORT_REAL = {
    1: ("capital-gain", "final weight"),
    2: ("age x education", "time x frequency"),
    3: ("age x education x hours",),
}
HALVES = {"choose": (CHOOSE, CHOOSE_REAL), "report": (REPORT, REPORT_REAL)}

Cells = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Data:
    """What a case is about: a shape with its scale, or a real table, which has its own (n = 0)."""

    name: str
    dims: int
    n: int = 0

    def __str__(self) -> str:
        return f"{self.name}, {self.dims}-D, n {self.n:.0e}" if self.n else self.name


def listed(half: str, dims: int, *, real: bool) -> list[Data]:
    """Every shape of a half at every scale, and the real columns if there is a directory to read them from."""
    shapes, own = HALVES[half]
    return [
        *(Data(name, dims, n) for name in shapes[dims] for n in SCALES[dims]),
        *(Data(name, dims) for name in own[dims] if real),
    ]


@lru_cache(maxsize=4)
def histogram(data: Data, directory: Path | None) -> np.ndarray:
    """The counts of all cells."""
    if not data.n:
        return real(data.name, directory).histogram()
    weights = distribution(data.name, data.dims)
    drawn = np.random.default_rng([data.n, *_seed(data.name, data.dims)]).multinomial(data.n, weights.ravel())
    return drawn.reshape(weights.shape).astype(np.float64)


def rows(data: Data, directory: Path | None) -> tables.Table:
    """The same data as a table with a row per record; its columns are a, b, c for generated shapes."""
    if not data.n:
        return real(data.name, directory)
    counts = histogram(data, directory)
    cells = np.repeat(np.arange(counts.size, dtype=np.int32), counts.ravel().astype(np.int64))
    codes = np.stack([axis.astype(np.int32) for axis in np.unravel_index(cells, counts.shape)], axis=1)
    return tables.Table(str(data), dict(zip("abc", counts.shape, strict=False)), codes)


@lru_cache(maxsize=4)
def workload(kind: str, shape: tuple[int, ...]) -> Boxes:
    return Boxes.prefixes(*shape) if kind == "prefixes" else Boxes.random(shape, QUERIES, seed=len(shape))


def real(name: str, directory: Path) -> tables.Table:
    """Columns with a public step that brings them to a few thousand values;
    the rest as benchmarks/tables.py has them."""
    if name not in _COLUMNS:
        return tables.read(name, directory)
    file, columns = _COLUMNS[name]
    return tables._integers(name, directory / file, columns)  # noqa: SLF001  a reader like the others there


# (size of the domain, numbers per step) of each column.
_COLUMNS = {
    "capital-gain": ("adult_train.csv", {"capital-gain": (4000, 25)}),
    "final weight": ("adult_train.csv", {"fnlwgt": (4096, 400)}),
    "time x recency x frequency": ("transfusion.csv", {"time": (50, 2), "recency": (40, 2), "frequency": (28, 2)}),
    "age x education x hours": (
        "adult_train.csv",
        {"age": (46, 2), "education-num": (17, 1), "hours-per-week": (25, 4)},
    ),
}


@lru_cache(maxsize=4)
def distribution(name: str, dims: int) -> np.ndarray:
    """A shape's share of each cell."""
    shape = SIZES[dims]
    cells = np.meshgrid(*((np.arange(size) + 0.5) / size for size in shape), indexing="ij")
    weights = np.maximum(SHAPES[name](tuple(cells), np.random.default_rng(_seed(name, dims))), 0)
    return weights / weights.sum()


def _seed(name: str, dims: int) -> tuple[int, int]:
    return zlib.crc32(name.encode()), dims


def _hill(x: Cells, middle: np.ndarray, width: float) -> np.ndarray:
    return np.exp(-sum((axis - place) ** 2 for axis, place in zip(x, middle, strict=True)) / (2 * width**2))


def even(x: Cells, _: np.random.Generator) -> np.ndarray:
    return np.ones_like(x[0])


def heavy_tail(x: Cells, _: np.random.Generator) -> np.ndarray:
    """Zipf: falls with the distance from the first cell, and never ends."""
    steps = sum(axis * len(axis) for axis in x)
    return (1 + steps) ** -(len(x) + 0.1)


def spikes(x: Cells, generator: np.random.Generator) -> np.ndarray:
    """Forty cells of very different weight hold nine tenths; the rest is even."""
    out = np.full(x[0].size, 0.1 / x[0].size)
    heights = generator.pareto(1.2, 40) + 1
    out[generator.choice(out.size, 40, replace=False)] += 0.9 * heights / heights.sum()
    return out.reshape(x[0].shape)


def sparse(x: Cells, generator: np.random.Generator) -> np.ndarray:
    """One cell in a hundred holds something."""
    out = np.zeros(x[0].size)
    chosen = generator.choice(out.size, out.size // 100, replace=False)
    out[chosen] = generator.lognormal(0, 1.5, len(chosen))
    return out.reshape(x[0].shape)


def hills(x: Cells, generator: np.random.Generator) -> np.ndarray:
    """Five smooth hills, narrow and wide."""
    return sum(
        weight * _hill(x, generator.random(len(x)), width)
        for weight, width in zip((3, 2, 2, 1, 1), (0.02, 0.05, 0.1, 0.03, 0.2), strict=True)
    )


def steps(x: Cells, generator: np.random.Generator) -> np.ndarray:
    """Even within blocks whose borders are no round numbers: each axis in seven parts, weights far apart."""
    places = [np.searchsorted(np.sort(generator.random(6)), axis) for axis in x]
    return generator.lognormal(0, 2, (7,) * len(x))[tuple(places)]


def round_numbers(x: Cells, generator: np.random.Generator) -> np.ndarray:
    """Incomes: a lognormal bulk in which people name a multiple of 10 or of 50 steps."""
    out = np.ones_like(x[0])
    for axis in x:
        code = np.floor(axis * axis.shape[0]).astype(int)
        bulk = np.exp(-((np.log(axis) - np.log(0.2)) ** 2) / (2 * 0.6**2)) / axis
        out = out * bulk * (1 + 8 * (code % 10 == 0) + 60 * (code % 50 == 0))
    return out * generator.lognormal(0, 0.1, out.shape)


def sorted_duplicates(x: Cells, generator: np.random.Generator) -> np.ndarray:
    """A sorted file: falling runs of equal weights, in row-major order, long ones last."""
    lengths = np.cumsum(generator.geometric(1 / np.linspace(2, 120, 200)))
    run = np.searchsorted(lengths * (x[0].size / lengths[-1]), np.arange(x[0].size))
    return (0.96**run).reshape(x[0].shape)


def two_clusters(x: Cells, _: np.random.Generator) -> np.ndarray:
    """Two groups far apart, nothing between them."""
    return _hill(x, np.full(len(x), 0.13), 0.012) + 0.5 * _hill(x, np.full(len(x), 0.81), 0.04)


def banded(x: Cells, generator: np.random.Generator) -> np.ndarray:
    """One attribute: full and empty stripes. Several: a narrow band around the diagonal, even along it."""
    if len(x) == 1:
        return (np.searchsorted(np.sort(generator.random(30)), x[0]) % 2).astype(np.float64)
    return np.prod([np.abs(x[0] - axis) < 0.03 for axis in x[1:]], axis=0) + 1e-4


def waves(x: Cells, _: np.random.Generator) -> np.ndarray:
    """Seasons: a slow and a fast wave that never reach zero."""
    return 1.2 + sum(0.6 * np.sin(2 * np.pi * 3 * axis) + 0.4 * np.sin(2 * np.pi * 52 * axis) for axis in x)


def slope(x: Cells, _: np.random.Generator) -> np.ndarray:
    return 0.2 + sum(x)


def correlated_pairs(x: Cells, _: np.random.Generator) -> np.ndarray:
    """A normal distribution in which each attribute follows the one before it at 0.9, a little skew."""
    standard = [(np.sqrt(axis) - 0.6) / 0.13 for axis in x]
    out = standard[0] ** 2
    for before, after in itertools.pairwise(standard):
        out = out + (after - 0.9 * before) ** 2 / (1 - 0.9**2)
    return np.exp(-out / 2)


def near_independent(x: Cells, generator: np.random.Generator) -> np.ndarray:
    """A product of uneven marginals, each cell within a fifth of it."""
    out = np.ones_like(x[0])
    for axis, rate in zip(x, (6, 2, 4), strict=False):
        size = axis.shape[0]
        bumps = generator.lognormal(0, 0.7, size)[np.floor(axis * size).astype(int)]
        out = out * np.exp(-rate * axis) * bumps
    return out * (1 + 0.2 * np.sin(40 * np.prod(x, axis=0)))


SHAPES: dict[str, Callable[[Cells, np.random.Generator], np.ndarray]] = {
    function.__name__.replace("_", " ").replace("near ", "near-"): function
    for function in (
        even, heavy_tail, spikes, sparse, hills, steps, round_numbers, sorted_duplicates, two_clusters, banded, waves,
        slope,
        correlated_pairs, near_independent,
    )
}  # fmt: skip
