"""The limit of no noise: ten predicates on Adult in ten rounds with epsilon 1e6. Each can be measured once, so each
answer should be exact.

How far off the worst one is, of n, tells whether every query's turn comes and whether the fit ends where the
measurements are.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import report
from results import Case, Results
from tables import released

import mwem_sql

# Each asks for a pair of attributes of its own, or a rare value: none follows from the others.
PREDICATES = (
    "age BETWEEN 25 AND 34 AND education = 'Bachelors'",
    "age > 50 AND hours > 50",
    "hours < 35 AND sex = 'Female'",
    "gain > 5000 AND age > 40",
    "gain > 0 AND hours >= 45",
    "education = 'HS-grad' AND income = '>50K'",
    "marital = 'Divorced' AND sex = 'Female' AND age >= 40",
    "workclass = 'Private' AND hours BETWEEN 36 AND 44",
    "age < 30 AND marital = 'Never-married'",
    "race LIKE 'A%'",
)
EPSILON = 1e6  # noise of a thousandth of a row and less
WANTED = 1e-4  # of n: an answer that is further off is not exact


def cases(runs: int) -> list[Case]:
    return [
        {
            "experiment": "limit",
            "data": "adult",
            "queries": PREDICATES,
            "way": "plain",
            "rounds": len(PREDICATES),
            "epsilon": EPSILON,
            "run": run,
        }
        for run in range(runs)
    ]


@lru_cache(maxsize=1)
def connected(directory: Path) -> duckdb.DuckDBPyConnection:
    """Numbers with bounds, words as ENUMs: as a curator would declare them."""
    con = mwem_sql.connect()
    con.execute("SET threads = 1")
    con.execute("CREATE TEMP TABLE raw AS FROM read_csv(?)", [str(directory / "adult_train.csv")])
    words = {
        "workclass": "workclass",
        "education": "education",
        "marital": "marital-status",
        "race": "race",
        "sex": "sex",
        "income": "income",
    }
    for name, column in words.items():
        con.execute(f'CREATE TYPE {name}_values AS ENUM (SELECT DISTINCT "{column}" FROM raw ORDER BY 1)')
    declared = ", ".join(f"{name} {name}_values NOT NULL" for name in words)
    con.execute(f"""CREATE TABLE private (
        age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 90), hours INTEGER NOT NULL CHECK (hours BETWEEN 0 AND 99),
        gain INTEGER NOT NULL CHECK (gain BETWEEN 0 AND 99999), {declared})""")
    listed = ", ".join(f'"{column}"' for column in words.values())
    con.execute(f'INSERT INTO private SELECT age, "hours-per-week", "capital-gain", {listed} FROM raw')
    return con


def measure(asked: Case, directory: Path) -> dict[str, Any]:
    con = connected(directory)
    workload = mwem_sql.Workload.from_predicates(PREDICATES)
    truth = con.execute(
        f"SELECT {', '.join(f'count_if({text})' for text in PREDICATES)}, count(*) FROM private"
    ).fetchall()[0]
    with released(con, workload, asked["epsilon"], rounds=asked["rounds"], rows=1) as (made, seconds):
        answers = made.answer(workload)["answer"].to_pylist()
    return {
        "off": [abs(answer - exact) / truth[-1] for answer, exact in zip(answers, truth, strict=False)],
        "seconds": seconds,
    }


def text(results: Results, asked: list[Case]) -> str:
    runs = [found["off"] for found in results.of(asked)]
    worst = [max(run[place] for run in runs) for place in range(len(PREDICATES))]
    lines = [
        [f"`{predicate}`", f"{100 * off:.4f}%", "" if off <= WANTED else "not exact"]
        for predicate, off in zip(PREDICATES, worst, strict=True)
    ]
    head = (
        f"The limit of no noise: {len(PREDICATES)} predicates on Adult, as many rounds, epsilon {EPSILON:.0e},"
        f" {len(runs)} runs; at most {100 * WANTED}% of n is wanted.\n\n"
    )
    return head + report.table(["predicate", "off by, of n, in the worst run", ""], lines)
