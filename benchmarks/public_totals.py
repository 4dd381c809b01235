"""What public totals are worth: the error of all pairs with and without them, under the same seeds.

    python benchmarks/public_totals.py --data DIR [--half choose|report] [--runs 5] [--epsilons 0.1 1] [--delta 0]

`choose` has the Texan excerpt of the American Community Survey and Adult (`income`), `report` the excerpt of
Massachusetts. Public are n, the true counts of one column (the area; of Adult, sex), of two, and of their pair. What is
printed is the mean over pairs of the L1 error over n, for all pairs and for those with none of these columns, with its
standard error, and the ratio to the error without totals.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import duckdb
import nist_table
import regret_marginals
import report
import tables
from tables import Table

import mwem_sql

COLUMNS = {"income": ("sex", "education")}
AREAS = ("PUMA", "SEX")


def cases(directory: Path, half: str) -> list[tuple[Table, tuple[str, str]]]:
    excerpt = nist_table.Excerpt(directory / nist_table.HALVES[half], directory / nist_table.DICTIONARY)
    adult = [(tables.read(name, directory), columns) for name, columns in COLUMNS.items()] if half == "choose" else []
    return [(excerpt.coded, AREAS), *adult]


def declare(con: duckdb.DuckDBPyConnection, table: Table, known: Sequence[tuple[str, ...]]) -> None:
    """The true counts of some sets of columns, and of all rows, as the table of public totals."""
    con.execute(f"CREATE OR REPLACE TABLE private_known AS SELECT {table.rows} AS rows")
    for names in known:
        columns = ", ".join(f'"{name}"' for name in names)
        counts = f"SELECT {columns}, count(*) AS rows FROM private GROUP BY ALL"
        con.execute(f"CREATE OR REPLACE TABLE private_known AS FROM private_known UNION ALL BY NAME {counts}")


def errors(
    con: duckdb.DuckDBPyConnection, table: Table, columns: Sequence[str], runs: int, **options: float
) -> list[tuple[float, float, float]]:
    """Of each run the error of all pairs and of those without some columns, and its seconds."""
    pairs = list(itertools.combinations(table.sizes, 2))
    others = [pair for pair in pairs if set(columns).isdisjoint(pair)]
    workload = mwem_sql.Workload.from_rows({"group_by": list(pair)} for pair in pairs)
    out = []
    for seed in range(runs):
        with tables.released(con, workload, rows=1, seed=seed, **options) as (made, seconds):
            answer = table.state(con, made.output)
            out.append((*(regret_marginals.mean_l1(table, sets, answer) for sets in (pairs, others)), seconds))
    return out


def shown(found: list[float]) -> str:
    error = statistics.stdev(found) / math.sqrt(len(found)) if len(found) > 1 else 0.0
    return f"{statistics.fmean(found):.4f} ± {error:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--half", choices=nist_table.HALVES, default="choose")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--delta", type=float, default=0.0)
    options = parser.parse_args()
    head = ("data", "epsilon", "public", "all pairs", "ratio", "pairs without these columns", "ratio", "seconds")
    sys.stdout.write(report.table(head, []) + "\n")
    for (table, (one, other)), epsilon in itertools.product(cases(options.data, options.half), options.epsilons):
        ways = {
            "nothing": None, "n": [], one: [(one,)], f"{one}, {other}": [(one,), (other,)],
            f"{one} x {other}": [(one, other)],
        }  # fmt: skip
        base: list[tuple[float, ...]] = []
        for name, known in ways.items():
            con = table.connect()
            if known is not None:
                declare(con, table, known)
            runs = errors(con, table, (one, other), options.runs, epsilon=epsilon, delta=options.delta)
            found = list(zip(*runs, strict=True))
            base = base or found
            ratios = [f"{sum(mine) / sum(before):.3f}" for mine, before in zip(found, base, strict=True)]
            cells = (table.name, f"{epsilon:g}", name, shown(found[0]), ratios[0], shown(found[1]), ratios[1])
            sys.stdout.write(report.row((*cells, f"{statistics.fmean(found[2]):.1f}")) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
