"""What epsilon, delta, rounds and the number of rows do to errors: the figures of docs/choosing.md.

python benchmarks/choosing.py --runs 5

The made-up census of `mwem-sql demo`, all pairs of its seven columns (age and hours in tens). Errors are those of
cells, in rows: the mean over all cells and the worst one, each as mean and standard error over runs with seeds from 0.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import numpy as np

import mwem_sql

DEMO = Path(__file__).resolve().parent.parent / "sql" / "demo.sql"
COLUMNS = ("age // 10", "sex", "education", "marital", "occupation", "hours // 10", "income")
PAIRS = mwem_sql.Workload.from_rows([{"group_by": f"{one}, {two}"} for one, two in itertools.combinations(COLUMNS, 2)])
SIZES = (1_300, 10_000, 100_000)
EPSILONS = (0.1, 0.3, 1, 3)
ROUNDS = (None, 5, 10, 20, 40)


def errors(rows: int, runs: int, **options: object) -> tuple[str, str]:
    """Mean and worst error of a cell."""
    con = mwem_sql.connect()
    con.execute("SET VARIABLE demo_rows = $rows", {"rows": rows})
    con.execute(DEMO.read_text(encoding="utf-8"))
    found = []
    for seed in range(runs):
        mwem_sql.release(con, "census", PAIRS, seed=seed, output=f"run_{seed}", progress=False, **options)  # type: ignore[arg-type]
        error = mwem_sql.compare(con, "census", f"run_{seed}", PAIRS)["error"].to_numpy()
        found.append((error.mean(), error.max()))
    con.close()
    both = np.array(found)
    deviations = both.std(axis=0, ddof=1) / np.sqrt(runs)
    mean, worst = (f"{_short(m, 3)} ± {_short(d, 1)}" for m, d in zip(both.mean(axis=0), deviations, strict=True))
    return mean, worst


def _short(value: float, digits: int) -> str:
    """So many digits, and no exponent."""
    return f"{float(f'{value:.{digits}g}'):,g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    print(
        "\n| rows | epsilon | mean error, delta 0 | delta 1e-6 | worst error, delta 0 | delta 1e-6"
        " |\n|---|---|---|---|---|---|"
    )
    for rows, epsilon in [*((10_000, each) for each in EPSILONS), *((rows, 1) for rows in SIZES if rows != 10_000)]:
        (mean, worst), (mean_d, worst_d) = (errors(rows, runs, epsilon=epsilon, delta=delta) for delta in (0, "1e-6"))
        print(f"| {rows:,} | {epsilon} | {mean} | {mean_d} | {worst} | {worst_d} |", flush=True)
    print("\n| rounds, 10,000 rows, epsilon 1 | mean error | worst error |\n|---|---|---|")
    for rounds in ROUNDS:
        mean, worst = errors(10_000, runs, epsilon=1, rounds=rounds)
        print(f"| {rounds or 'left out'} | {mean} | {worst} |", flush=True)


if __name__ == "__main__":
    main()
