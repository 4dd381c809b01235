"""What a start is worth: the error with `start := 'past'` over that without, under the same seeds.

    python benchmarks/past.py --data DIR [--runs 5] [--epsilons 0.1 1 10] [--half choose] [--starts month release ...]

`choose` has halves of the Texan excerpt of the American Community Survey and of a generated survey, `report` that
of Massachusetts; all pairs are asked for. The starts: `month`, other rows of the same table (of Massachusetts: Texas);
`release`, a release of these at the same epsilon; and three that are wrong: `shuffled`, every column by itself, so that
nothing goes together; `renamed`, the values of every column mixed up; `crossed`, columns that are each right and go
together as they never did. What is printed is the mean over pairs of the L1 error over n, without a start, and of the
others the mean ratio to it with its standard error.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import regret_marginals
import tables
from tables import Table

import mwem_sql

STARTS = ("month", "release", "shuffled", "renamed", "crossed")
INCOMES = [0, 1, 5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 40_000, 50_000, 60_000, 80_000, 100_000, 150_000]
DENSITIES = np.geomspace(16.3, 52_864.7, 12)[1:].tolist()


def _listed(*values: str) -> tuple[int, Callable[[str], int]]:
    return len(values), lambda value: values.index(value) if value in values else len(values) - 1


def _cut(ends: list[float]) -> tuple[int, Callable[[str], int]]:
    """N, and what lies between ends."""
    return len(ends) + 2, lambda value: 0 if value == "N" else 1 + int(np.searchsorted(ends, float(value), "right"))


COLUMNS: dict[str, tuple[int, Callable[[str], int]]] = {
    "AGEP": _cut([float(age) for age in range(5, 96, 5)]), "SEX": _listed("1", "2"), "MSP": _listed(*"N123456"),
    "HISP": _listed(*"01234"), "RAC1P": _listed(*"123456789"), "NOC": _listed(*"N0123456"),
    "NPF": _listed(*"N2345678"), "HOUSING_TYPE": _listed(*"123"), "OWN_RENT": _listed(*"012"),
    "DENSITY": _cut(DENSITIES), "INDP_CAT": _listed("N", *map(str, range(18))),
    "EDU": _listed("N", *map(str, range(1, 13))), "PINCP": _cut(list(map(float, INCOMES))),
    "POVPIP": _cut([float(part) for part in (0, 50, 100, 150, 200, 250, 300, 350, 400, 450, 501)]),
    "DVET": _listed(*"N123456"), "DREM": _listed(*"N12"), "DPHY": _listed(*"N12"), "DEYE": _listed(*"12"),
    "DEAR": _listed(*"12"),
}  # fmt: skip


def excerpt(directory: Path, state: str) -> Table:
    with (directory / "acs" / f"{state}2019.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    codes = [[code(row[column]) for column, (_, code) in COLUMNS.items()] for row in rows]
    return Table(state, {column: size for column, (size, _) in COLUMNS.items()}, np.array(codes))


def halves(table: Table, seed: int) -> tuple[Table, Table]:
    order = np.random.default_rng(seed).permutation(table.rows)
    first, second = order[: table.rows // 2], order[table.rows // 2 :]
    return Table(table.name, table.sizes, table.codes[first]), Table(table.name, table.sizes, table.codes[second])


def wrong(kind: str, past: Table, seed: int) -> Table:
    draw, codes = np.random.default_rng(seed), past.codes.copy()
    hidden = draw.normal(size=past.rows)
    for place, size in enumerate(past.shape):
        if kind == "shuffled":
            codes[:, place] = draw.permutation(codes[:, place])
        elif kind == "renamed":
            codes[:, place] = draw.permutation(size)[codes[:, place]]
        else:
            order = np.argsort(hidden * draw.choice([-1, 1]) + draw.normal(size=past.rows) / 2)
            codes[order, place] = np.sort(past.codes[:, place])
    return Table(past.name, past.sizes, codes)


def ratios(past: Table, now: Table, epsilon: float, seed: int, starts: list[str]) -> Iterator[tuple[str, float]]:
    """The error without a start, and those with each of some."""
    sets = list(itertools.combinations(now.sizes, 2))
    workload, con = mwem_sql.Workload.from_rows({"group_by": list(names)} for names in sets), now.connect()

    def error(**options: object) -> float:
        with tables.released(con, workload, epsilon, rows=1, seed=seed, **options) as (made, _):
            return regret_marginals.mean_l1(now, sets, now.state(con, made.output))

    yield "none", error()
    for start in starts:
        rows = past if start in {"month", "release"} else wrong(start, past, seed)
        con.from_arrow(pa.table(dict(zip(rows.sizes, rows.codes.T, strict=True)))).create(f"past_{start}")
        if start == "release":
            declared = [[name, 0, size - 1] for name, size in past.sizes.items()]
            con.execute("CREATE TABLE past_release_domain (attribute VARCHAR, low INTEGER, high INTEGER)")
            con.executemany("INSERT INTO past_release_domain VALUES (?, ?, ?)", declared)
            mwem_sql.release(con, "past_release", workload, epsilon, seed=seed)
        yield start, error(start="past_release_synthetic" if start == "release" else f"past_{start}")


def cases(directory: Path, half: str, seed: int) -> Iterator[tuple[str, Table, Table]]:
    if half == "report":
        yield "acs/ma", excerpt(directory, "tx"), excerpt(directory, "ma")
    else:
        yield "half of acs/tx", *halves(excerpt(directory, "tx"), seed)
        yield "half of households", *halves(regret_marginals.households(), seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--half", choices=["choose", "report"], default="choose")
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=list(STARTS))
    options = parser.parse_args()
    sys.stdout.write(f"| table | epsilon | without | {' | '.join(options.starts)} |\n")
    sys.stdout.write("|---" * (3 + len(options.starts)) + "|\n")
    for epsilon in options.epsilons:
        errors: dict[str, dict[str, list[float]]] = {}
        for seed in range(options.runs):
            for name, past, now in cases(options.data, options.half, seed):
                for start, error in ratios(past, now, epsilon, seed, options.starts):
                    errors.setdefault(name, {}).setdefault(start, []).append(error)
        for name, of_table in errors.items():
            without = np.array(of_table["none"])
            each = [np.array(of_table[start]) / without for start in options.starts]
            spread = [f"{ratio.mean():.2f} ± {ratio.std() / len(ratio) ** 0.5:.2f}" for ratio in each]
            sys.stdout.write(f"| {name} | {epsilon:g} | {without.mean():.3f} | {' | '.join(spread)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
