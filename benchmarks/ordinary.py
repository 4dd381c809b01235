"""How ordinary a synthetic table is: its columns beside the true ones, where the workload asks for no more than a
threshold; and what that costs the workload.

python benchmarks/ordinary.py --runs 20 --shares 0 0.05 0.1

`people` is the README's table; `jobs` has a long tail, many zeros, a tenth of NULLs, and dates in two clusters. A
column's distance is the mean absolute difference of quantiles, in percent of its declared range (1-Wasserstein). Share
0 is a release without details.
"""

from __future__ import annotations

import argparse
import functools
import sys
from fractions import Fraction
from unittest import mock

import numpy as np

import mwem_sql
from mwem_sql.domains import detail as details

TABLES = {
    "people": (
        """CREATE TABLE people (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99), sex ENUM ('F', 'M') NOT NULL,
            city VARCHAR CHECK (city IN ('Bern', 'Basel', 'Genf')), pay DOUBLE CHECK (pay >= 0 AND pay < 1e6));
        INSERT INTO people SELECT i * 7 % 100, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END, ['Bern', 'Basel',
        'Genf'][1 + i % 3],
            (i * 7 % 100) * 1000 + i % 977 FROM range(10000) AS t(i);""",
        """(NULL, ['sex', 'city']), ('age >= 65', NULL), ('pay > 50000 AND sex = ''F''', NULL),
        ('age BETWEEN 18 AND 64', ['sex'])""",
        {"age": 99.0, "pay": 1e6},
    ),
    "jobs": (
        """CREATE TABLE jobs (wage DOUBLE NOT NULL CHECK (wage BETWEEN 0 AND 100000),
        bonus INTEGER CHECK (bonus BETWEEN 0 AND 50000),
            since DATE NOT NULL CHECK (since BETWEEN DATE '1950-01-01' AND DATE '2049-12-31'), kind ENUM ('a', 'b',
            'c') NOT NULL);
        SELECT setseed(0.5);
        INSERT INTO jobs SELECT least(100000, 4000 * exp(0.7 * z)),
        CASE WHEN u < 0.1 THEN NULL WHEN u < 0.7 THEN 0 ELSE least(50000, 900 * exp(v * 3))::INT END,
            DATE '1990-01-01' + (CASE WHEN u < 0.5 THEN 0 ELSE 9000 END + 500 * v)::INT, ['a', 'b',
            'c'][1 + (z > 0)::INT + (v > 0.5)::INT]
            FROM (SELECT random() AS u, random() AS v, sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) AS z
            FROM range(20000));""",
        """('wage > 5000', ['kind']), ('bonus > 0 AND wage > 8000', NULL), ('since >= DATE ''2000-01-01''', ['kind']),
        (NULL, ['kind'])""",
        {"wage": 1e5, "bonus": 5e4, "since": 36524.0},
    ),
}


def run(table: str, epsilon: float, seed: int, rounds: str) -> dict[str, float]:
    """Mean error of the workload, and of each column its distance and how far its NULLs are off, in rows."""
    create, workload, ranges = TABLES[table]
    con = mwem_sql.connect(":memory:")
    for statement in create.split(";\n"):
        con.execute(statement)
    con.execute("CREATE TABLE workload (predicate VARCHAR, group_by VARCHAR[])")
    con.execute(f"INSERT INTO workload VALUES {workload}")
    con.execute(f"CALL mwem_release('{table}', workload, {epsilon}, seed := {seed}{rounds})")
    found = {
        "workload": (
            con.execute(f"SELECT avg(error) FROM mwem_compare('{table}', '{table}_synthetic', workload)").fetchall()[0][
                0
            ]
        )
    }
    for column, width in ranges.items():
        value = f"{column} - DATE '1950-01-01'" if column == "since" else column
        true, made = (
            np.sort(
                np.array(
                    con.execute(f"SELECT {value} FROM {name} WHERE {column} IS NOT NULL").fetchnumpy().popitem()[1],
                    dtype=np.float64,
                )
            )
            for name in (table, f"{table}_synthetic")
        )
        at = (np.arange(1000) + 0.5) / 1000
        found[f"{column} %"] = 100 * float(np.abs(np.quantile(true, at) - np.quantile(made, at)).mean()) / width
        nulls = [
            con.execute(f"SELECT count(*) - count({column}) FROM {name}").fetchall()[0][0]
            for name in (f"{table}_synthetic", table)
        ]
        found[f"{column} NULLs"] = nulls[0] - nulls[1]
        if column == "pay":
            found["avg(pay)"] = float(made.mean())
    con.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.05])
    parser.add_argument("--parts", type=int, nargs="+", default=[details.PARTS])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.5])
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--options", default="", help="of mwem_release, such as ', delta := 1e-9'")
    args = parser.parse_args()
    for table in args.tables:
        for epsilon in args.epsilons:
            for parts in args.parts:
                finer = functools.partial(details.details_of, parts=parts)
                for share in args.shares:
                    with (
                        mock.patch.dict("mwem_sql.loop.plan.SHARES", detail=Fraction(share).limit_denominator(1000)),
                        mock.patch("mwem_sql.releases.plan.details_of", finer if share else lambda _: {}),
                    ):
                        runs = [run(table, epsilon, seed, args.options) for seed in range(args.runs)]
                    told = ", ".join(
                        f"{name} {np.mean(own):.4g} +- {np.std(own):.2g}"
                        for name in runs[0]
                        for own in [[each[name] for each in runs]]
                    )
                    sys.stdout.write(f"{table}, epsilon {epsilon:g}, {parts} parts, share {share:g}: {told}\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
