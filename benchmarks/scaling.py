"""How a release grows: the paper's synthetic scaling, and all 14 attributes of Adult.

    python benchmarks/scaling.py binary [--attributes 10 20 50 100 200]
    python benchmarks/scaling.py adult --data DIR [--ways 2] [--rounds 16]

`binary`: 100,000 rows of d independent bits with p = 0.1, all one- and two-way marginals, T = d rounds, epsilon 1; the time of
the whole CALL, of its rounds alone, and both over one float32 product X.T @ X of the data in the same run. `adult`: DIR holds
discretised/private-pgm-adult.csv; the time of the CALL, its peak memory, and the mean and maximum over the workload's marginals of
the L1 error as a share of the rows.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import resource
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import mwem_sql
from mwem_sql import store
from mwem_sql.catalog import Place

ROWS = 100_000


def memory() -> int:
    """Peak of this process, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


class Stopwatch:
    """The time that one function of a module takes, while something else calls it."""

    def __init__(self, module: object, name: str) -> None:
        self.seconds = 0.0
        inner = getattr(module, name)

        def timed(*arguments: object, **options: object) -> object:
            begin = time.perf_counter()
            try:
                return inner(*arguments, **options)
            finally:
                self.seconds += time.perf_counter() - begin

        setattr(module, name, timed)


def binary(attributes: int, loop: Stopwatch) -> None:
    bits = np.random.default_rng(attributes).random((ROWS, attributes)) < 0.1
    begin = time.perf_counter()
    floats = bits.astype(np.float32)
    floats.T @ floats
    product = time.perf_counter() - begin
    con = mwem_sql.connect()
    names = [f"b{number}" for number in range(attributes)]
    con.execute(f"CREATE TABLE bits ({', '.join(f'{name} BOOLEAN NOT NULL' for name in names)})")
    arrived = pa.table({name: bits[:, number] for number, name in enumerate(names)})
    con.from_arrow(arrived).insert_into("bits")
    con.execute("CREATE TABLE workload AS FROM mwem_marginals('bits', 1) UNION ALL FROM mwem_marginals('bits', 2)")
    loop.seconds = 0.0
    begin, used = time.perf_counter(), time.process_time()
    row = con.execute("FROM mwem_release('bits', workload, 1, rounds := $rounds)", {"rounds": attributes}).fetchall()[0]
    took, used = time.perf_counter() - begin, time.process_time() - used
    print(
        f"d {attributes:5}  queries {row[6]:7,}  call {took:7.2f} s (processor {used:7.2f} s, {took / product:6.0f} products)"
        f"  rounds {loop.seconds:7.2f} s ({1000 * loop.seconds / attributes:6.1f} ms each)  cells {row[8]:9,}  peak {memory():5} MB",
        flush=True,
    )
    con.close()


def load(con: duckdb.DuckDBPyConnection, directory: Path) -> tuple[np.ndarray, dict[str, int]]:
    sizes = json.loads((directory / "discretised/private-pgm-adult-domain.json").read_text())
    with (directory / "discretised/private-pgm-adult.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    codes = np.array([[int(row[name]) for name in sizes] for row in rows])
    declared = ", ".join(f'"{name}" INTEGER NOT NULL CHECK ("{name}" BETWEEN 0 AND {size - 1})' for name, size in sizes.items())
    con.execute(f"CREATE TABLE adult ({declared})")
    con.from_arrow(pa.table({name: codes[:, place] for place, name in enumerate(sizes)})).insert_into("adult")
    return codes, sizes


def adult(directory: Path, ways: int, rounds: int, loop: Stopwatch) -> None:
    con = mwem_sql.connect()
    codes, sizes = load(con, directory)
    con.execute("CREATE TABLE workload AS FROM mwem_marginals('adult', $ways)", {"ways": ways})
    begin, used = time.perf_counter(), time.process_time()
    row = con.execute("FROM mwem_release('adult', workload, 1, rounds := $rounds)", {"rounds": rounds}).fetchall()[0]
    took, used, peak = time.perf_counter() - begin, time.process_time() - used, memory()
    state = store.load(con.cursor(), "adult_synthetic", Place.of(con), "benchmark").state()
    drawn = np.stack([con.execute(f'SELECT "{name}" FROM adult_synthetic').fetchnumpy()[name] for name in sizes], 1)
    errors = {"weights": [], "rows": []}
    for names in itertools.combinations(sizes, ways):
        shape, places = [sizes[name] for name in names], [list(sizes).index(name) for name in names]

        def counts(table: np.ndarray, shape: list[int] = shape, places: list[int] = places) -> np.ndarray:
            return np.bincount(np.ravel_multi_index(table[:, places].T, shape), minlength=int(np.prod(shape)))

        truth = counts(codes)
        errors["weights"].append(np.abs(state.marginal(names).ravel() - truth).sum() / len(codes))
        errors["rows"].append(np.abs(counts(drawn) - truth).sum() / len(codes))
    print(f"adult, 14 attributes, {len(errors['rows'])} marginals of {ways}, {rounds} rounds, {row[8]:,} cells")
    print(f"  call {took:.2f} s (processor {used:.2f} s), rounds {loop.seconds:.2f} s, peak {peak} MB")
    for name, found in errors.items():
        print(f"  {name:8} mean L1 {np.mean(found):.4f}  maximum {np.max(found):.4f}")
    con.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=["binary", "adult"])
    parser.add_argument("--attributes", type=int, nargs="+", default=[10, 20, 50, 100, 200])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--ways", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=16)
    options = parser.parse_args()
    loop = Stopwatch(sys.modules["mwem_sql.release"], "mwem")
    if options.work == "binary":
        for attributes in options.attributes:
            binary(attributes, loop)
    else:
        adult(options.data, options.ways, options.rounds, loop)


if __name__ == "__main__":
    main()
