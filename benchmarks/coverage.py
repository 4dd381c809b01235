"""Whether intervals hold: unseeded releases of tables with known answers, and how many of their intervals have the true
answer in them.

    python benchmarks/coverage.py [--data DIR] [--runs 20] [--cases NAME ...] [--confidence 0.95] [--shares 0 0.02 0.05]

Each case is released `--runs` times and asked its workload, and questions that no release has seen (`later`). A row for
each case and each kind of answer: answers, the share of intervals that have the truth in them with its standard error
over releases, the median width of an interval, the median error of an answer, and the first over the second, and over
the mean error. Of what was measured directly also what noise alone would give: the median error of the estimates that
intervals lie around, and of these the median width of exact intervals over the median error. Then the certificate: how
often its figures are within their stated noise of the truth (95 of 100), the true figures and the noise. `--shares`
runs every case with each share for the certificate: what it costs and what it tells. DIR holds adult_train.csv and
czech_table.csv; without it, cases that need them are left out.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from adult import load, quoted

import mwem_sql
from mwem_sql.kernel.tails import cumulants, half_width, half_widths
from mwem_sql.platform.session import Session
from mwem_sql.releases.answer import answerer
from mwem_sql.workload import Query, Workload

PASSENGERS = """
CREATE TABLE t (class ENUM ('first', 'second', 'third') NOT NULL, sex ENUM ('F', 'M') NOT NULL,
    port ENUM ('C', 'Q', 'S') NOT NULL,
    age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 79), fare DOUBLE NOT NULL CHECK (fare BETWEEN 0 AND 500),
    kin INTEGER NOT NULL CHECK (kin BETWEEN 0 AND 9),
    alive BOOLEAN NOT NULL);
SELECT setseed(0.25);
INSERT INTO t SELECT ['first', 'second', 'third'][c], CASE WHEN u < 0.35 THEN 'F' ELSE 'M' END,
    ['C', 'Q', 'S'][1 + (v > 0.2)::INT + (v > 0.3)::INT],
    least(79, 20 + (12 * z)::INT + 6 * (3 - c)),
    least(500, CASE c WHEN 1 THEN 85 WHEN 2 THEN 21 ELSE 13 END * exp(0.5 * z)),
    least(9, floor(-1.2 * ln(1 - v)))::INT,
    (u < 0.3) <> (w < 0.2)
    FROM (SELECT random() AS u, random() AS v, random() AS w,
    abs(sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random())) AS z,
          CASE WHEN random() < 0.24 THEN 1 WHEN random() < 0.27 THEN 2 ELSE 3 END AS c FROM range(891));
CREATE TABLE t_domain (attribute VARCHAR, low VARCHAR, high VARCHAR, bins INTEGER);
INSERT INTO t_domain VALUES ('fare', '0', '500', 50);
"""


@dataclass(frozen=True)
class Case:
    """A table, what is asked at its release and later, and the release's options."""

    make: Callable[[duckdb.DuckDBPyConnection, Path | None], None]
    asked: Callable[[np.random.Generator], list[Query]]
    later: Callable[[np.random.Generator], list[Query]] = lambda _: []
    options: dict[str, Any] = field(default_factory=dict)
    needs_data: bool = True


def adult(con: duckdb.DuckDBPyConnection, directory: Path | None) -> None:
    assert directory is not None
    load(con, directory, "income")
    con.execute("ALTER TABLE adult RENAME TO t")


def numbers(con: duckdb.DuckDBPyConnection, directory: Path | None) -> None:
    assert directory is not None
    con.execute(
        """CREATE TABLE t (age INTEGER NOT NULL CHECK (age BETWEEN 17 AND 90),
        hours INTEGER NOT NULL CHECK (hours BETWEEN 1 AND 99),
        loss INTEGER NOT NULL CHECK (loss BETWEEN 0 AND 4356), sex ENUM ('Female', 'Male') NOT NULL)"""
    )
    con.execute(
        'INSERT INTO t SELECT age, "hours-per-week", "capital-loss", trim(sex) FROM read_csv(?)',
        [str(directory / "adult_train.csv")],
    )


def czech(con: duckdb.DuckDBPyConnection, directory: Path | None) -> None:
    assert directory is not None
    con.execute("CREATE TEMP TABLE raw AS FROM read_csv(?)", [str(directory / "czech_table.csv")])
    names = [row[0] for row in con.execute("SELECT column_name FROM (DESCRIBE raw)").fetchall() if row[0] != "count"]
    columns = ", ".join(f"a{k} BOOLEAN NOT NULL" for k in range(len(names)))
    con.execute(f"CREATE TABLE t ({columns})")
    listed = ", ".join(f"{quoted(name)}::VARCHAR = '1'" for name in names)
    con.execute(f'INSERT INTO t SELECT {listed} FROM raw, range("count")')


def passengers(con: duckdb.DuckDBPyConnection, _: Path | None) -> None:
    for statement in PASSENGERS.split(";\n"):
        con.execute(statement)


def cuboids(names: list[str], ways: int) -> list[Query]:
    return [Query(group_by=own) for own in itertools.combinations(names, ways)]


def ranges(columns: dict[str, tuple[int, int]], count: int, generator: np.random.Generator) -> list[Query]:
    out = []
    for _ in range(count):
        parts = []
        for name, (low, high) in columns.items():
            ends = sorted(generator.integers(low, high, 2, endpoint=True).tolist())
            parts.append(f"{name} BETWEEN {ends[0]} AND {ends[1]}")
        out.append(Query(" AND ".join(parts)))
    return out


ADULT = ["workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "income"]
BOTH = {"age": (17, 90), "hours": (1, 99)}
PEOPLE = ["class", "sex", "port", "alive", "kin"]


def filtered(generator: np.random.Generator) -> list[Query]:
    bounds = generator.integers(5, 70, 12).tolist()
    names = [("class",), ("sex",), ("port",), ("alive",), ("class", "sex"), ("sex", "alive")]
    return [Query(f"age >= {bound}", group_by=own) for bound, own in zip(bounds, 2 * names, strict=True)]


def mixed(_: np.random.Generator) -> list[Query]:
    sums = [
        Query(measure=text, group_by=(own,)) for text in ("fare", "avg(fare)", "kin", "avg(age)") for own in PEOPLE[:4]
    ]
    return sums + cuboids([*PEOPLE, "age"], 2)


def odd(_: np.random.Generator) -> list[Query]:
    return [
        Query(f"{name} = {value} AND age {sign} {bound}")
        for name, value in (("class", "'first'"), ("sex", "'F'"), ("port", "'S'"), ("alive", "true"))
        for sign, bound in ((">=", 40), ("<", 17))
    ] + [Query("age BETWEEN 21 AND 33")]


def fares(generator: np.random.Generator) -> list[Query]:
    return [
        *odd(generator),
        Query(measure="avg(fare)", group_by=("kin",)),
        Query("fare > 100"),
        Query("fare < 30", group_by=("class",)),
    ]


def later_adult(_: np.random.Generator) -> list[Query]:
    return [
        Query(group_by=("race",)),
        Query(group_by=("sex", "income")),
        Query("\"education\" LIKE '%B%' AND sex = 'Male'"),
    ]


def coarse(_: np.random.Generator) -> list[Query]:
    return [Query(text) for text in ("class IN ('first', 'second')", "port IN ('C', 'Q')", "kin >= 3", "sex = 'F'")]


def single_values(_: np.random.Generator) -> list[Query]:
    """Inside what was asked: measured with far more noise, which may be more than there are rows."""
    return [Query(group_by=("class",)), Query(group_by=("port",)), Query(group_by=("kin",))]


CASES = {
    "adult cubes": Case(adult, lambda _: cuboids(ADULT, 3), later_adult, {"epsilon": 1}),
    "adult cubes, delta": Case(adult, lambda _: cuboids(ADULT, 3), later_adult, {"epsilon": 1, "delta": 1e-6}),
    "adult cubes, 10 rounds": Case(adult, lambda _: cuboids(ADULT, 3), later_adult, {"epsilon": 1, "rounds": 10}),
    "ranges of one": Case(
        numbers,
        lambda g: ranges({"age": (17, 90)}, 100, g),
        lambda g: ranges({"age": (17, 90)}, 50, g),
        {"epsilon": 0.1},
    ),
    "ranges of one, wide": Case(
        numbers,
        lambda g: ranges({"loss": (0, 4356)}, 200, g),
        lambda g: ranges({"loss": (0, 4356)}, 50, g),
        {"epsilon": 0.5},
    ),
    "ranges of two": Case(numbers, lambda g: ranges(BOTH, 200, g), lambda g: ranges(BOTH, 50, g), {"epsilon": 0.5}),
    "ranges of two, delta": Case(
        numbers, lambda g: ranges(BOTH, 200, g), lambda g: ranges(BOTH, 50, g), {"epsilon": 0.5, "delta": 1e-6}
    ),
    "ranges of two, 20 rounds": Case(
        numbers, lambda g: ranges(BOTH, 200, g), lambda g: ranges(BOTH, 50, g), {"epsilon": 0.5, "rounds": 20}
    ),
    "czech, pairs": Case(czech, lambda _: cuboids([f"a{k}" for k in range(6)], 2), options={"epsilon": 0.5}),
    "czech, triples of histogram": Case(
        czech, lambda _: cuboids([f"a{k}" for k in range(6)], 3), options={"epsilon": 1, "start": "histogram"}
    ),
    "czech, average": Case(
        czech, lambda _: cuboids([f"a{k}" for k in range(6)], 2), options={"epsilon": 1, "rounds": 6, "average": True}
    ),
    "passengers, filtered": Case(passengers, filtered, odd, {"epsilon": 1}, needs_data=False),
    "passengers, single values": Case(passengers, coarse, single_values, {"epsilon": 0.1}, needs_data=False),
    "passengers, sums": Case(passengers, mixed, fares, {"epsilon": 1}, needs_data=False),
    "passengers, sums, delta": Case(passengers, mixed, fares, {"epsilon": 2, "delta": 1e-6}, needs_data=False),
    "passengers, sums, 8 rounds": Case(
        passengers, mixed, fares, {"epsilon": 2, "rounds": 8, "certify": 0.05}, needs_data=False
    ),
}


@dataclass
class Found:
    """What came out of all releases of a case: by kind of answer, whether it is covered, width and error; and of the
    certificate, figures beside the truth.
    """

    answers: dict[str, list[np.ndarray]] = field(default_factory=lambda: defaultdict(list))
    figures: dict[str, list[tuple[float, float, float]]] = field(default_factory=lambda: defaultdict(list))
    measured: list[int] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)


def run(case: Case, directory: Path | None, runs: int, confidence: float, share: float | None) -> Found:
    con, found, generator = mwem_sql.connect(), Found(), np.random.default_rng(0)
    case.make(con, directory)
    asked = Workload(tuple(case.asked(generator)))
    later = Workload(tuple(case.later(generator))) if case.later(generator) else None
    for name, own in (("asked", asked), ("later", later)):
        if own is not None:
            con.register("arrived", own.to_arrow())
            con.execute(f"CREATE TABLE {name} AS FROM arrived")
            con.unregister("arrived")
    given = dict(case.options) if share is None else {**case.options, "certify": share}
    for number in range(runs):
        release = mwem_sql.release(con, "t", "asked", output="released", version=str(number), **given)
        found.measured.append(release.measured or 0)
        for name, own in (("asked", asked), ("later", later)):
            if own is None:
                continue
            rows = con.execute(
                f"SELECT query, true_answer, answer, low, high, measured FROM mwem_compare('t', 'released', {name},"
                " confidence := ?)",
                [confidence],
            ).fetchnumpy()
            collect(found, name, rows, estimates(con, own, 1 - confidence))
            if name == "asked":
                certificate(con, found, rows, release.release, own)
    con.close()
    return found


def estimates(con: duckdb.DuckDBPyConnection, asked: Workload, miss: float) -> np.ndarray:
    """Of each cell that was measured directly, the estimate that its interval lies around, and the width of an exact
    interval of its noise.
    """
    ready = answerer(Session.of(con), "released", "coverage")
    judged = ready.judged(asked, 1 - miss)
    evidence, queries = judged.evidence, judged.queries
    out: dict[int, np.ndarray] = {}
    for numbers, question in evidence.questions([query.linear for query in queries]):
        exact = evidence.families.exact(question)
        width = 2 * half_widths(exact.estimates.variances, exact.estimates.fourths, miss)
        both = np.where(exact.is_exact, np.stack([exact.estimates.values, width]), np.nan)
        out.update(zip(numbers, np.split(both, len(numbers), axis=1), strict=True))
    for number, query in enumerate(queries):
        if query.over is not None:
            out[number] = np.full_like(out[number], np.nan)
    return np.concatenate([out[number] for number in range(len(queries))], axis=1)


def collect(found: Found, name: str, rows: dict[str, np.ndarray], told: np.ndarray) -> None:
    truth, answer, low, high = (
        np.ma.filled(rows[key], np.nan).astype(float) for key in ("true_answer", "answer", "low", "high")
    )
    known = ~np.isnan(truth) & ~np.isnan(answer)
    if name == "asked":
        found.errors.append(float(np.abs(truth - answer)[known].mean()))
    covered = (truth >= np.nan_to_num(low, nan=-np.inf) - 1e-9) & (truth <= np.nan_to_num(high, nan=np.inf) + 1e-9)
    for kind in ("directly", "in part", "never"):
        own = known & (rows["measured"] == kind)
        if own.any():
            label = kind if name == "asked" else f"{kind}, later"
            noise, exact = np.abs(told[0] - truth)[own], told[1][own]
            found.answers[label].append(
                np.stack([covered[own], (high - low)[own], np.abs(truth - answer)[own], noise, exact])
            )


def certificate(
    con: duckdb.DuckDBPyConnection, found: Found, rows: dict[str, np.ndarray], release: int, asked: Workload
) -> None:
    """Figures of counts beside the true ones; of averages and sums nothing is shown that could be compared."""
    if any(query.measure is not None for query in asked):
        return
    errors = np.abs(rows["true_answer"] - np.rint(rows["answer"]))
    sums, most = np.bincount(rows["query"], errors)[1:], np.zeros(int(rows["query"].max()) + 1)
    np.maximum.at(most, rows["query"], errors)
    flags = np.array(
        [
            row[0]
            for row in con.execute(
                "SELECT measured FROM mwem.bounds WHERE release = ? ORDER BY query", [release]
            ).fetchall()
        ]
    )
    kinds = {"laplace": "pure", "gaussian": "zcdp"}
    for part, queries, beyond, value, noise, scale in con.execute(
        "SELECT part, queries, beyond, value, noise, scale FROM mwem.certificates WHERE release = ?", [release]
    ).fetchall():
        own = flags if part == "directly" else ~flags
        if len(set(map(repr, asked))) != len(asked) or int(own.sum()) != queries:
            continue
        true = float(np.sort(most[1:][own])[-1 - beyond]) if part == "most" else float(sums[own].mean())
        found.figures[part].append((value, true, half_width(*cumulants(scale, kinds[noise]), 0.05)))


HEAD = """| work | `measured` | answers | covered | width | error | width / error | / mean error | noise | exact |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"""


def show(name: str, found: Found, runs: int) -> None:
    for kind, parts in found.answers.items():
        each = np.array([own[0].mean() for own in parts])
        covered, width, error, noise, exact = np.concatenate(parts, axis=1)
        wide, off, mean = np.median(width), np.median(error), np.mean(error)
        told = "|  |"
        if kind.startswith("directly") and not np.isnan(noise).all():
            own = float(np.nanmedian(noise))
            told = f"| {own:,.1f} | {np.nanmedian(exact) / max(own, 1e-9):.1f}"
        print(
            f"| {name} | {kind} | {covered.size:,} | {covered.mean():.2%} ± {each.std() / np.sqrt(len(each)):.2%} |"
            f" {wide:,.0f} | {off:,.1f} | {wide / max(off, 1e-9):.1f} | {wide / max(mean, 1e-9):.1f} {told} |"
        )
    for part, figures in found.figures.items():
        value, true, noise = np.array(figures).T
        inside = np.abs(value - true) <= noise
        print(
            f"    certificate of {name}, {part}: within its noise in {int(inside.sum())} of {len(figures)}, true"
            f" {true.mean():.1f}, noise (95 of 100) ± {noise.mean():.1f}"
        )
    print(
        f"    {name}: {runs} releases, {np.mean(found.measured):.1f} queries measured, mean error of an answer"
        f" {np.mean(found.errors):.2f} ± {np.std(found.errors) / np.sqrt(runs):.2f}"
    )
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--cases", nargs="*", choices=list(CASES))
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--shares", type=float, nargs="*")
    options = parser.parse_args()
    print(HEAD)
    for name, case in CASES.items():
        if (options.cases and name not in options.cases) or (case.needs_data and options.data is None):
            continue
        for share in options.shares or [None]:
            found = run(case, options.data, options.runs, options.confidence, share)
            show(name if share is None else f"{name}, share {share:g}", found, options.runs)


if __name__ == "__main__":
    main()
