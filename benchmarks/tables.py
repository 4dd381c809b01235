"""The paper's data sets as integer codes: read from DIR, loaded into DuckDB, and what a release says of them.

Each column holds 0 .. size - 1 and its size is the declared, public domain. The range experiments have the paper's
domains: age 0..90 and hours in 25 steps of 4; recency 0..79 and frequency 0..54; monetary in 1251 steps of 10. Two
pairs of columns are not the paper's.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import mwem_sql
from mwem_sql.platform.catalog import Place
from mwem_sql.releases import store

CATEGORIES = ("workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "income")
COUNTRY = (
    "workclass",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of codes, a column per attribute."""

    name: str
    sizes: dict[str, int]
    codes: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.codes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.sizes.values())

    def histogram(self, codes: np.ndarray | None = None, names: Sequence[str] | None = None) -> np.ndarray:
        """Counts of all cells over some or all attributes; of these rows, or of others with the same columns."""
        places = [list(self.sizes).index(name) for name in names or self.sizes]
        shape = [self.shape[place] for place in places]
        cells = np.ravel_multi_index((self.codes if codes is None else codes)[:, places].T, shape)
        return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A database with this table in it, named `private`; one thread, because runs go side by side."""
        con = mwem_sql.connect()
        con.execute("SET threads = 1")
        columns = ", ".join(
            f'"{name}" INTEGER NOT NULL CHECK ("{name}" BETWEEN 0 AND {size - 1})' for name, size in self.sizes.items()
        )
        con.execute(f"CREATE TABLE private ({columns})")
        con.from_arrow(pa.table({name: self.codes[:, place] for place, name in enumerate(self.sizes)})).insert_into(
            "private"
        )
        return con

    def marginals(self, ways: int) -> mwem_sql.Workload:
        """All marginals of one to that many attributes."""
        sets = [names for size in range(1, ways + 1) for names in itertools.combinations(self.sizes, size)]
        return mwem_sql.Workload.from_rows({"group_by": list(names)} for names in sets)

    def state(self, con: duckdb.DuckDBPyConnection, output: str) -> Callable[..., np.ndarray]:
        """The released weights over the values of some or all attributes; values of one class share its weight."""
        stored = store.load(con.cursor(), output, Place.of(con), "benchmark")
        state = stored.state()

        def weights(names: Sequence[str] | None = None) -> np.ndarray:
            names = tuple(names or self.sizes)
            found = state.marginal(names)
            for axis, name in enumerate(names):
                own = stored.classes[name]
                classes = own.codes[np.searchsorted(own.pieces.highs, np.arange(self.sizes[name]))]
                if not np.array_equal(classes, np.arange(own.count)):
                    alike = np.bincount(classes)[classes].reshape(
                        [-1 if axis == other else 1 for other in range(len(names))]
                    )
                    found = np.take(found, classes, axis=axis) / alike
            return found

        return weights

    def drawn(self, con: duckdb.DuckDBPyConnection, output: str) -> np.ndarray:
        """The synthetic rows."""
        columns = con.execute(f"FROM {output}").fetchnumpy()
        return np.stack([columns[name] for name in self.sizes], axis=1)


def _read(path: Path) -> dict[str, list[str]]:
    with path.open() as lines:
        rows = list(csv.DictReader(lines))
    return {name: [row[name] for row in rows] for name in rows[0]}


def _integers(name: str, path: Path, columns: dict[str, tuple[int, int]]) -> Table:
    """Columns of numbers with (size of the domain, numbers per step)."""
    raw = _read(path)
    codes = np.array([np.array(raw[column], dtype=np.int64) // step for column, (_, step) in columns.items()]).T
    return Table(name, {column: size for column, (size, _) in columns.items()}, codes)


def _categories(name: str, path: Path) -> Table:
    raw = _read(path)
    found = {column: np.unique(raw[column], return_inverse=True) for column in CATEGORIES}
    return Table(
        name,
        {column: len(values) for column, (values, _) in found.items()},
        np.array([codes for _, codes in found.values()]).T,
    )


def _discretised(name: str, directory: Path, columns: Sequence[str] | None) -> Table:
    declared = json.loads((directory / "discretised/private-pgm-adult-domain.json").read_text())
    raw = _read(directory / "discretised/private-pgm-adult.csv")
    sizes = {column: declared[column] for column in columns or declared}
    return Table(name, sizes, np.array([raw[column] for column in sizes], dtype=np.int64).T)


def _binary(name: str, path: Path) -> Table:
    """A contingency table with a column `count`, or a row per record."""
    raw = {column: np.array(values, dtype=np.int64) for column, values in _read(path).items()}
    counts = raw.pop("count", 1)
    codes = np.repeat(np.array(list(raw.values())).T, counts, axis=0)
    return Table(name, dict.fromkeys(raw, 2), codes)


_READERS: dict[str, Callable[[Path], Table]] = {
    "capital-loss": lambda path: _integers("capital-loss", path / "adult_train.csv", {"capital-loss": (4357, 1)}),
    "age x hours": lambda path: _integers(
        "age x hours", path / "adult_train.csv", {"age": (91, 1), "hours-per-week": (25, 4)}
    ),
    "recency x frequency": lambda path: _integers(
        "recency x frequency", path / "transfusion.csv", {"recency": (80, 1), "frequency": (55, 1)}
    ),
    "age x education": lambda path: _integers(
        "age x education", path / "adult_train.csv", {"age": (91, 1), "education-num": (17, 1)}
    ),
    "time x frequency": lambda path: _integers(
        "time x frequency", path / "transfusion.csv", {"time": (100, 1), "frequency": (55, 1)}
    ),
    "monetary": lambda path: _integers("monetary", path / "transfusion.csv", {"monetary": (1251, 10)}),
    "income": lambda path: _categories("income", path / "adult_train.csv"),
    "country": lambda path: _discretised("country", path, COUNTRY),
    "all 14": lambda path: _discretised("all 14", path, None),
    "mildew": lambda path: _binary("mildew", path / "mildew_table.csv"),
    "rochdale": lambda path: _binary("rochdale", path / "rochdale_table.csv"),
    "czech": lambda path: _binary("czech", path / "czech_table.csv"),
    "nltcs": lambda _: _binary("nltcs", Path(os.environ["NLTCS"])),
}


@cache
def read(name: str, directory: Path) -> Table:
    return _READERS[name](directory)


@lru_cache(maxsize=1)
def connected(name: str, directory: Path) -> duckdb.DuckDBPyConnection:
    """One connection is kept for the runs on a table, one after another."""
    return read(name, directory).connect()


_outputs = itertools.count()


@contextmanager
def released(
    con: duckdb.DuckDBPyConnection, workload: mwem_sql.Workload, epsilon: float, **options: object
) -> Iterator[tuple[mwem_sql.Release, float]]:
    """A release of its own, never a stored one, with OpenDP's noise, and its seconds of processor time; its rows are
    dropped afterwards.
    """
    begin = time.process_time()
    made = mwem_sql.release(con, "private", workload, epsilon, output=f"released_{next(_outputs)}", **options)
    yield made, time.process_time() - begin
    con.execute(f"DROP TABLE {made.output}")
