"""A release of UCI Adult, end to end: from the CSV into a table with ENUMs and CHECKs, all 2-way marginals of eight columns.

    python benchmarks/adult.py --data DIR [--runs 3] [--rounds 10] [--epsilon 1]

DIR holds adult_train.csv. Prints, per run and on average, the cuboid error (the mean absolute error of a cuboid's cells) of the
released weights and of the synthetic rows, average and maximum over the workload's cuboids and over all 256, and what share
of the call's time a bare GROUP BY of the eight columns takes.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from pathlib import Path

import duckdb
import numpy as np

import mwem_sql
from mwem_sql import store
from mwem_sql.catalog import Place

COLUMNS = ("workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "income")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def load(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """The schema is what a curator would declare: categories, and bounds for the two integers."""
    con.execute("CREATE TEMP TABLE raw AS FROM read_csv(?, all_varchar := true)", [str(path)])
    declared = []
    for name in COLUMNS:
        rows = con.execute(f"SELECT DISTINCT {quoted(name)} FROM raw ORDER BY 1").fetchall()
        values = ", ".join("'" + value.replace("'", "''") + "'" for (value,) in rows)
        declared.append(f"{quoted(name)} ENUM({values}) NOT NULL")
    con.execute(
        f"""CREATE TABLE adult (age INTEGER NOT NULL CHECK (age BETWEEN 17 AND 90),
            "hours-per-week" INTEGER NOT NULL CHECK ("hours-per-week" BETWEEN 1 AND 99), {", ".join(declared)})"""
    )
    listed = ", ".join(map(quoted, COLUMNS))
    con.execute(f'INSERT INTO adult SELECT age, "hours-per-week", {listed} FROM raw')
    values = ", ".join(f"(['{a}', '{b}'])" for a, b in itertools.combinations(COLUMNS, 2))
    con.execute(f"CREATE TABLE workload AS SELECT * FROM (VALUES {values}) AS w(group_by)")


def cuboid(con: duckdb.DuckDBPyConnection, table: str, names: tuple[str, ...], values: dict[str, list[str]]) -> np.ndarray:
    """Counts of all cells of a cuboid, the empty ones included."""
    counts = np.zeros([len(values[name]) for name in names])
    listed = ", ".join(f"enum_code({quoted(name)})" for name in names)
    for *codes, count in con.execute(f"SELECT {listed}, count(*) FROM {table} GROUP BY ALL").fetchall():
        counts[tuple(codes)] = count
    return counts


def errors(con: duckdb.DuckDBPyConnection, output: str) -> dict[str, list[float]]:
    values = {
        name: con.execute(f"SELECT enum_range(NULL::{kind})").fetchall()[0][0]
        for name, kind in con.execute(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'adult' AND data_type LIKE 'ENUM%'"
        ).fetchall()
    }
    out: dict[str, list[float]] = {"weights": [], "rows": [], "weights of all 256": []}
    state = store.load(con.cursor(), output, Place.of(con), "benchmark").state()
    for size in range(1, len(COLUMNS) + 1):
        for names in itertools.combinations(COLUMNS, size):
            truth = cuboid(con, "adult", names, values)
            error = float(np.abs(state.marginal(names) - truth).mean())
            out["weights of all 256"].append(error)
            if size == 2:
                out["weights"].append(error)
                out["rows"].append(float(np.abs(cuboid(con, output, names, values) - truth).mean()))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--epsilon", default="1")
    options = parser.parse_args()
    con = mwem_sql.connect()
    load(con, options.data / "adult_train.csv")
    collected: dict[str, list[tuple[float, float]]] = {}
    ratios, seconds = [], []
    for run in range(options.runs):
        output = f"run_{run}"
        begin = time.perf_counter()
        con.execute(
            "CALL mwem_release('adult', workload, $epsilon, rounds := $rounds, output := $output)",
            {"epsilon": options.epsilon, "rounds": options.rounds, "output": output},
        ).fetchall()
        took = time.perf_counter() - begin
        begin = time.perf_counter()
        con.execute(f"SELECT {', '.join(map(quoted, COLUMNS))}, count(*) FROM adult GROUP BY ALL").fetchall()
        ratios.append(took / (time.perf_counter() - begin))
        seconds.append(took)
        for name, found in errors(con, output).items():
            collected.setdefault(name, []).append((statistics.mean(found), max(found)))
    print(f"adult, {options.runs} runs, {options.rounds} rounds, epsilon {options.epsilon}, all 28 two-way marginals")
    print(f"  call: {min(seconds):.1f} to {max(seconds):.1f} s, {min(ratios):.0f}x to {max(ratios):.0f}x a bare GROUP BY of the columns")
    for name, pairs in collected.items():
        for label, found in zip(("average", "maximum"), zip(*pairs, strict=True), strict=True):
            spread = statistics.stdev(found) if len(found) > 1 else 0.0
            print(f"  {name:20} {label} cuboid error {statistics.mean(found):8.2f}  (sd {spread:.2f}, {min(found):.2f} to {max(found):.2f})")
    con.close()


if __name__ == "__main__":
    main()
