"""The data cube of UCI Adult, end to end: from the CSV into a table with ENUMs, through the CALL, back from weights and
rows.

    python benchmarks/adult.py --data DIR [--attributes income|country] [--ways 3] [--epsilon 1] [--delta 0]
                               [--rounds 10] [--total] [--runs 20] [--seed 0]

DIR holds adult_train.csv (`income`: eight attributes with income, 32,561 rows) and discretised/ (`country`: eight with
native-country, 48,842 rows). The workload is all marginals of `ways` attributes. Without --rounds and --total it is the
plain call. With --seed the noise is seeded, run after run from that seed on; without, it is OpenDP's. Prints the mean
over all runs of the average and the maximum over all 256 cuboids of a cuboid's error, the mean absolute error of its
cells: of the released weights and of the synthetic rows, with standard deviations, and the processor time of a call.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from pathlib import Path

import duckdb
import numpy as np

import mwem_sql
from mwem_sql.platform.catalog import Place
from mwem_sql.releases import store

INCOME = ("workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "income")
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
# A cuboid of more cells counts with the most that its error can be, twice the rows over the cells: a few hundredths.
MOST_CELLS = 4_000_000


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def load(con: duckdb.DuckDBPyConnection, directory: Path, which: str) -> dict[str, list[str]]:
    """Make the table `adult` of eight ENUMs, as a curator would declare it; their values."""
    names = INCOME if which == "income" else COUNTRY
    path = directory / ("adult_train.csv" if which == "income" else "discretised/private-pgm-adult.csv")
    con.execute("CREATE TEMP TABLE raw AS FROM read_csv(?, all_varchar := true)", [str(path)])
    if which == "income":
        values = {
            name: [value for (value,) in con.execute(f"SELECT DISTINCT {quoted(name)} FROM raw ORDER BY 1").fetchall()]
            for name in names
        }
    else:
        declared = json.loads((directory / "discretised/private-pgm-adult-domain.json").read_text())
        values = {name: [str(code) for code in range(declared[name])] for name in names}
    listed = {name: ", ".join("'" + value.replace("'", "''") + "'" for value in own) for name, own in values.items()}
    con.execute(
        f"CREATE TABLE adult ({', '.join(f'{quoted(name)} ENUM({own}) NOT NULL' for name, own in listed.items())})"
    )
    con.execute(f"INSERT INTO adult SELECT {', '.join(map(quoted, names))} FROM raw")
    return values


def codes(con: duckdb.DuckDBPyConnection, table: str, names: list[str]) -> np.ndarray:
    listed = ", ".join(f"enum_code({quoted(name)})::INTEGER AS c{place}" for place, name in enumerate(names))
    columns = con.execute(f"SELECT {listed} FROM {table}").fetchnumpy()
    return np.stack([columns[f"c{place}"] for place in range(len(names))])


class Cube:
    """The true counts of all cuboids, and how far others are from them."""

    def __init__(self, rows: np.ndarray, sizes: dict[str, int]) -> None:
        self.sizes, self.rows, self.names = sizes, rows.shape[1], list(sizes)
        self.sets = [names for size in range(len(sizes) + 1) for names in itertools.combinations(self.names, size)]
        self.truth = {names: self.counts(rows, names) for names in self.sets if self.cells(names) <= MOST_CELLS}

    def cells(self, names: tuple[str, ...]) -> int:
        return int(np.prod([self.sizes[name] for name in names]))

    def counts(self, rows: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
        if not names:
            return np.array([rows.shape[1]], dtype=np.int32)
        shape = [self.sizes[name] for name in names]
        flat = np.ravel_multi_index([rows[self.names.index(name)] for name in names], shape)
        return np.bincount(flat, minlength=self.cells(names)).astype(np.int32)

    def errors(self, answer) -> tuple[float, float]:
        """Average and maximum over all cuboids."""
        found = [
            (
                float(np.abs(answer(names).ravel() - self.truth[names]).mean())
                if names in self.truth
                else 2 * self.rows / self.cells(names)
            )
            for names in self.sets
        ]
        return statistics.mean(found), max(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--attributes", choices=["income", "country"], default="income")
    parser.add_argument("--ways", type=int, default=3)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default="0")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--total", action="store_true")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    con = mwem_sql.connect()
    values = load(con, options.data, options.attributes)
    names = list(values)
    con.execute("CREATE TABLE workload AS FROM mwem_marginals('adult', $ways)", {"ways": options.ways})
    cube = Cube(codes(con, "adult", names), {name: len(own) for name, own in values.items()})
    collected: dict[str, list[tuple[float, float]]] = {"weights": [], "rows": []}
    seconds, rounds = [], []
    for run in range(options.runs):
        call = """FROM mwem_release('adult', workload, $epsilon, delta := $delta, rounds := $rounds, total := $total,
        seed := $seed,
                  output := 'released', version := $version)"""
        given = {
            "epsilon": options.epsilon, "delta": options.delta, "rounds": options.rounds, "version": str(run),
            "total": cube.rows if options.total else None, "seed": None if options.seed is None else options.seed + run,
        }  # fmt: skip
        begin = time.process_time()
        row = con.execute(call, given).fetchall()[0]
        seconds.append(time.process_time() - begin)
        rounds.append(row[5])
        state = store.load(con.cursor(), "released", Place.of(con), "benchmark").state()
        drawn = codes(con, "released", names)
        collected["weights"].append(cube.errors(state.marginal))
        collected["rows"].append(cube.errors(lambda own, drawn=drawn: cube.counts(drawn, own)))
    print(
        f"adult with {options.attributes}, {options.ways}-way, epsilon {options.epsilon}, delta {options.delta},"
        f" {options.runs} runs, {min(rounds)} to {max(rounds)} rounds, processor {statistics.mean(seconds):.2f} s a"
        " call"
    )
    for name, pairs in collected.items():
        for label, found in zip(("average", "maximum"), zip(*pairs, strict=True), strict=True):
            spread = statistics.stdev(found) if len(found) > 1 else 0.0
            print(
                f"  {name:8} {label} cuboid error {statistics.mean(found):8.2f}  (sd {spread:.2f}, {min(found):.2f} to"
                f" {max(found):.2f})"
            )
    con.close()


if __name__ == "__main__":
    main()
