"""Small tables: all 3-way marginals of a few attributes, the mean over them of the L1 error divided by n.

Compared with independent one-ways, which know nothing of how attributes go together, and with an even table of the
right size. `households` and `visits` are generated: some 1,300 rows, nine attributes of 2 to 91 values. As with the
shapes, each table is in one half only.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import report
import tables
from results import Case, Results
from textbook.curator import Curator
from textbook.oneways import marginal, oneways

import mwem_sql

HALVES = {"choose": ("households", "mildew", "rochdale"), "report": ("visits", "czech")}
GENERATED = ("households", "visits")
EPSILONS = (0.1, 1.0)
WAYS = {"plain": "plain call", "one-ways": "independent one-ways", "even": "even"}
ORDER = 3
ROWS = 1300  # of the generated tables: a small study


def cases(half: str, runs: int, textbook_runs: int, *, real: bool) -> list[Case]:
    return [
        {"experiment": "marginals", "data": name, "epsilon": epsilon, "way": way, "run": run}
        for name in HALVES[half]
        if real or name in GENERATED
        for epsilon in EPSILONS
        for way in WAYS
        for run in range(runs if way == "plain" else textbook_runs)
    ]


@lru_cache(maxsize=2)
def read(name: str, directory: Path | None) -> tables.Table:
    return {"households": households, "visits": visits}[name]() if name in GENERATED else tables.read(name, directory)


@lru_cache(maxsize=1)
def connected(name: str, directory: Path | None) -> duckdb.DuckDBPyConnection:
    return read(name, directory).connect()


def measure(asked: Case, directory: Path | None) -> dict[str, Any]:
    table, epsilon = read(asked["data"], directory), asked["epsilon"]
    sets = list(itertools.combinations(table.sizes, ORDER))
    generator, begin = np.random.default_rng(), time.process_time()
    histograms = [table.histogram(names=[name]) for name in table.sizes]
    places = {name: place for place, name in enumerate(table.sizes)}
    if asked["way"] == "plain":
        con = connected(asked["data"], directory)
        workload = mwem_sql.Workload.from_rows({"group_by": list(names)} for names in sets)
        with tables.released(con, workload, epsilon, rows=1) as (made, seconds):
            return {"error": mean_l1(table, sets, table.state(con, made.output)), "seconds": seconds}
    if asked["way"] == "one-ways":
        estimates = oneways(histograms, epsilon, generator)
    else:
        total = max(
            float(Curator(histograms[0], generator).counts(np.zeros(len(histograms[0]), dtype=np.int64), epsilon)[0]),
            1.0,
        )
        estimates = [np.full(len(own), total / len(own)) for own in histograms]
    found = mean_l1(table, sets, lambda names: marginal(estimates, [places[name] for name in names]))
    return {"error": found, "seconds": time.process_time() - begin}


def mean_l1(table: tables.Table, sets: Sequence[Sequence[str]], answer: Callable[[Sequence[str]], np.ndarray]) -> float:
    """The mean over marginals of the sum over cells of |answer - count|, of the rows: 2 where nothing is right."""
    return float(np.mean([np.abs(answer(names) - table.histogram(names=names)).sum() for names in sets])) / table.rows


def text(results: Results, asked: list[Case]) -> str:
    lines = []
    for name, epsilon in dict.fromkeys((case["data"], case["epsilon"]) for case in asked):
        found = {way: results.spread(asked, "error", data=name, epsilon=epsilon, way=way) for way in WAYS}
        better = min(found["one-ways"].mean, found["even"].mean)
        lines.append(
            [
                name,
                epsilon,
                *(f"{one.mean:.3g} ± {one.deviation:.1g}" for one in found.values()),
                f"{found['plain'].mean / better:.2f}",
            ]
        )
    head = (
        f"All {ORDER}-way marginals of small tables, mean L1 error of the rows, mean ± standard deviation over"
        " runs.\n\n"
    )
    return head + report.table(["table", "epsilon", *WAYS.values(), "plain call over the better"], lines)


def households() -> tables.Table:
    """A survey: class and age drive the rest, as they do."""
    draw = np.random.default_rng(1)
    rank = draw.choice(3, ROWS, p=[0.25, 0.2, 0.55])
    age = np.clip(draw.normal(38 - 5 * rank, 14), 0, 90).astype(int)
    young = draw.random(ROWS) < 0.08
    age[young] = draw.integers(0, 12, young.sum())
    sex = (draw.random(ROWS) < 0.64 - 0.06 * (rank == 0)).astype(int)
    partner = (draw.random(ROWS) < np.where(age < 18, 0, np.where(age < 30, 0.3, 0.6))).astype(int)
    children = np.minimum(draw.poisson(np.where(partner == 1, 0.9, 0.1)), 8)
    parents = np.minimum(draw.poisson(np.where(age < 14, 1.5, 0.12)), 6)
    income = np.clip(draw.lognormal(3.2 - 0.75 * rank + 0.1 * partner, 0.45), 0, 89).astype(int)
    region = draw.choice(4, ROWS, p=[0.2, 0.1, 0.65, 0.05])
    region = np.where(draw.random(ROWS) < 0.2 * (rank == 0), 1, region)
    owns = (draw.random(ROWS) < 1 / (1 + np.exp(-(income - 18) / 6 - 0.8 * partner))).astype(int)
    sizes = {
        "rank": 3,
        "age": 91,
        "sex": 2,
        "partner": 2,
        "children": 9,
        "parents": 7,
        "income": 90,
        "region": 4,
        "owns": 2,
    }
    return tables.Table(
        "households", sizes, np.stack([rank, age, sex, partner, children, parents, income, region, owns], axis=1)
    )


def visits() -> tables.Table:
    """A shop's visits: a few habits, long tails, and most of it zero."""
    draw = np.random.default_rng(2)
    habit = draw.choice(4, ROWS, p=[0.45, 0.3, 0.15, 0.1])
    hour = np.where(habit == 1, draw.normal(20, 2, ROWS), draw.normal(13, 4, ROWS)).astype(int) % 24
    weekday = np.where(habit == 2, draw.integers(5, 7, ROWS), draw.integers(0, 7, ROWS))
    device = np.where(draw.random(ROWS) < 0.8, np.array([0, 1, 1, 2])[habit], draw.integers(0, 3, ROWS))
    page = np.minimum(draw.zipf(1.6, ROWS) - 1 + 5 * habit, 39)
    source = np.where(draw.random(ROWS) < 0.6, habit, draw.integers(0, 6, ROWS))
    stay = np.clip(draw.exponential(4 + 8 * (habit == 3)), 0, 59).astype(int)
    again = (draw.random(ROWS) < 0.2 + 0.2 * habit).astype(int)
    country = np.minimum(draw.geometric(0.4, ROWS) - 1, 11)
    spent = np.where(draw.random(ROWS) < 0.02 * stay, np.clip(draw.lognormal(2.8, 0.7, ROWS), 1, 90), 0).astype(int)
    sizes = {
        "hour": 24,
        "weekday": 7,
        "device": 3,
        "page": 40,
        "source": 6,
        "stay": 60,
        "again": 2,
        "country": 12,
        "spent": 91,
    }
    return tables.Table(
        "visits", sizes, np.stack([hour, weekday, device, page, source, stay, again, country, spent], axis=1)
    )
