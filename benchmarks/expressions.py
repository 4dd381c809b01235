"""Does an interval hold, whatever the question is written as? Expressions over columns in bins, by kind: asked in the
workload, and asked later.

Seven tables: two of people and one of adults (`--data`), and four that are made here: goods with prices, a log with
times, visits of patients (a unit), and goods of which new ones arrived after the domain was written. Domains are those
that `mwem_suggest_domain` proposes. The constants of each expression are drawn anew for each release. Refused is
refused before the charge, by `mwem_plan`.

python benchmarks/expressions.py --data DIR --releases 12
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

import mwem_sql
from mwem_sql import Workload

EPSILONS = (0.3, 1.0, 3.0)
ASKED_TOGETHER = 6


@dataclass(frozen=True)
class Table:
    """Rows, and which of its columns are numbers, dates, times and texts."""

    name: str
    sql: str
    numbers: Sequence[str]
    dates: Sequence[str] = ()
    times: Sequence[str] = ()
    texts: Sequence[str] = ()
    later: str = ""
    unit: str = ""


def tables(data: Path) -> Iterator[Table]:
    yield Table(
        "goods",
        """SELECT (300 * exp(3.2 * pow(i * 7919 % 10007 / 10007, 2)))::INTEGER AS price,
        round(0.2 + 4 * pow(i * 104729 % 9973 / 9973, 3), 2) AS carat,
        ['Fair', 'Good', 'Very Good', 'Premium', 'Ideal'][1 + (i * i % 97 % 5)::INTEGER] AS cut,
        (hash(i) % 500 + hash(i + 1) % 300)::INTEGER AS depth FROM range(20000) t(i)""",
        ("price", "carat", "depth"), texts=("cut",),
    )  # fmt: skip
    yield Table(
        "log",
        """SELECT TIMESTAMP '2023-01-01 00:00:00' + to_seconds((i * 4001 % 31536000)::BIGINT) AS ts,
        DATE '2020-01-01' + (i * 37 % 1400)::INTEGER AS day,
        (20 + 30 * sin(i / 900) + i * 17 % 23)::DOUBLE AS load, (hash(i) % 70 * (hash(i + 1) % 70))::INTEGER AS size,
        ['GET', 'POST', 'put'][1 + i % 3] AS verb FROM range(15000) t(i)""",
        ("load", "size"), dates=("day",), times=("ts",), texts=("verb",),
    )  # fmt: skip
    yield Table(
        "visits",
        """SELECT i // 5 AS patient, (18 + hash(i) % 40 + hash(i + 2) % 30)::INTEGER AS age,
        round(40 + 60 * pow(i * 271 % 1013 / 1013, 2), 1) AS weight,
        DATE '2024-01-01' + (i * 11 % 366)::INTEGER AS seen,
        ['ward', 'home', 'icu'][1 + i % 3] AS place FROM range(10000) t(i)""",
        ("age", "weight"), dates=("seen",), texts=("place",), unit="patient",
    )  # fmt: skip
    yield Table(
        "arrivals",
        """SELECT (hash(i) % 2000 + hash(i + 1) % 2000)::INTEGER AS price, ['pen', 'book', 'ink'][1 + i % 3] AS kind,
        (hash(i) % 25 + hash(i + 3) % 25) / 4 AS weight FROM range(9000) t(i)""",
        ("price", "weight"), texts=("kind",),
        later="""INSERT INTO arrivals
        SELECT 3500 + i * 7 % 6000, ['lamp', 'pen'][1 + i % 2], 20 + i % 9 FROM range(3000) t(i)""",
    )  # fmt: skip
    if data.is_dir():
        adult = f"SELECT * FROM read_csv('{data}/adult_train.csv')"
        yield Table("adult", adult, ("age", "fnlwgt", "hours-per-week"), texts=("workclass", "marital-status"))
        for name in ("ma2019", "tx2019"):
            read = f"read_csv('{data}/acs/{name}.csv', nullstr := 'N', sample_size := -1)"
            people = (
                "SELECT AGEP, PINCP::INTEGER AS PINCP, POVPIP, RAC1P::VARCHAR AS RAC1P, 'm' || coalesce(MSP::VARCHAR,"
                f" 'N') AS MSP FROM {read}"
            )
            yield Table(name, people, ("AGEP", "PINCP", "POVPIP"), texts=("MSP",))


KINDS = {
    "plain comparisons": ["{n} > {c}", "{n} BETWEEN {c} AND {c} + {w}", "{n} <> {c}"],
    "arithmetic": ["{n} - {c} > 0", "{n} * 2 > {c} * 2", "{n} / 3 > {c} / 3", "-{n} < -({c})"],
    "functions of one column": ["sqrt(abs({n})) > sqrt(abs({c}))", "ln(abs({n}) + 1) < ln(abs({c}) + 1)",
    "abs({n} - {c}) < {w}", "greatest({n}, {c}) = {n}"],
    "two columns": ["{n} > {m}", "{n} + {m} > {c}", "{n} > {m} * 2", "{n} > {c} OR {m} > {d}"],
    "rounding": ["round({n}) = round({c})", "floor({n} / 10) = floor({c} / 10)", "ceil({n}) > {c}",
    "round({n}, -1) <= {c}"],
    "modulo": ["{n} % 2 = 0", "{n} % 7 > 3", "{n}::BIGINT % 10 = 5"],
    "casts": ["{n}::INTEGER > {c}", "{n}::VARCHAR LIKE '1%'", "{n}::DOUBLE >= {c}", "length({n}::BIGINT::VARCHAR) = 3"],
    "dates": ["month({a}) = 3", "year({a}) = 2023", "dayofweek({a}) = 1", "day({a}) <= 15",
    "date_trunc('month', {a}) = DATE '2024-02-01'", "{a} + INTERVAL 10 DAY > DATE '2023-06-01'"],
    "times": ["hour({s}) = 9", "month({s}) = 5", "hour({s}) BETWEEN 8 AND 17", "{s}::DATE = DATE '2023-07-04'",
    "date_part('week', {s}) < 20"],
    "text functions": ["upper({t}) = upper({v})", "length({t}) > 4", "{t} LIKE 'P%'",
    "substr({t}, 1, 1) = substr({v}, 1, 1)", "{t} || 'x' = {v} || 'x'", "contains({t}, 'o')"],
    "sums and averages": ["sum {n}", "sum {n} + {m}", "avg {n}", "sum {n} * 2"],
}  # fmt: skip
"""Columns: n and m are numbers, a a date, s a time, t a text. c and d are values that rows have, w a width,
v a text."""


@dataclass
class Counts:
    """What became of the questions of one kind."""

    asked: int = 0
    refused: int = 0
    covered: int = 0
    answered: int = 0
    without_ends: int = 0
    by_kind: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    missed: list[str] = field(default_factory=list)


class Campaign:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.counts: dict[tuple[str, bool], Counts] = defaultdict(Counts)

    def expression(self, con: duckdb.DuckDBPyConnection, table: Table, template: str) -> str | None:
        """The template over columns of the table; None if it has none of that kind."""
        kinds = {"n": table.numbers, "m": table.numbers, "a": table.dates, "s": table.times, "t": table.texts}
        if any(f"{{{letter}}}" in template and not columns for letter, columns in kinds.items()):
            return None
        chosen = {letter: self.chance.choice(columns) if columns else "" for letter, columns in kinds.items()}
        if "{m}" in template:
            chosen["n"], chosen["m"] = self.chance.sample(list(table.numbers), 2)
        filled = {letter: f'"{column}"' for letter, column in chosen.items()}
        for letter, column in (("c", "n"), ("d", "m"), ("v", "t")):
            if f"{{{letter}}}" in template:
                place = self.chance.randrange(1000)
                (value,) = con.execute(
                    f"SELECT {filled[column]} FROM {table.name}"
                    f" WHERE {filled[column]} IS NOT NULL LIMIT 1 OFFSET {place}"
                ).fetchall()[0]
                filled[letter] = repr(value) if not isinstance(value, str) else "'" + value.replace("'", "''") + "'"
        return template.format(**filled, w=self.chance.choice([3, 20, 500]))

    def run(self, table: Table, releases: int) -> None:
        with mwem_sql.connect() as con:
            con.execute(f"CREATE TABLE {table.name} AS {table.sql}")
            domain = mwem_sql.suggest_domain(con, table.name).to_pylist()
            con.execute(
                f'CREATE TABLE {table.name}_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR,'
                " bins INTEGER, edges VARCHAR[], nullable BOOLEAN, open BOOLEAN)"
            )
            for row in domain:
                if row["values"] is not None or row["low"] is not None:
                    given = [
                        row[name]
                        for name in ("attribute", "values", "low", "high", "bins", "edges", "nullable", "open")
                    ]
                    con.execute(f"INSERT INTO {table.name}_domain VALUES (?, ?, ?, ?, ?, ?, ?, ?)", given)
            if table.later:
                con.execute(table.later)
            for number in range(releases):
                self.release(con, table, EPSILONS[number % len(EPSILONS)], number)
                print(f"{table.name}: release {number + 1} of {releases}", file=sys.stderr)

    def release(self, con: duckdb.DuckDBPyConnection, table: Table, epsilon: float, number: int) -> None:
        """One release with some expressions in its workload, and others asked later."""
        made: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
        for kind, templates in KINDS.items():
            for template in templates:
                later = self.chance.random() < 0.5
                text = self.expression(con, table, template)
                if text is not None:
                    self.counts[kind, later].asked += 1
                    made[later].append((kind, text))
        columns = [*table.numbers, *table.dates, *table.times, *table.texts]
        groups = [{"group_by": [column]} for column in columns]
        unit = {"unit": table.unit, "rows_per_unit": 5} if table.unit else {}
        asked = []
        for kind, text in made[False]:
            try:
                mwem_sql.plan(con, table.name, Workload.from_rows([*groups, row_of(text)]), epsilon, **unit)
                asked.append((kind, text))
            except mwem_sql.MwemError:
                self.counts[kind, False].refused += 1
        self.chance.shuffle(asked)
        for begin in range(0, len(asked), ASKED_TOGETHER):
            some = asked[begin : begin + ASKED_TOGETHER]
            workload = Workload.from_rows([*groups, *(row_of(text) for _, text in some)])
            output = f"{table.name}_{number}_{begin}"
            mwem_sql.release(con, table.name, workload, epsilon, output=output, rows=100, **unit)
            for kind, text in some:
                self.judge(con, table, output, kind, text, later=False)
            if not begin:
                for kind, text in made[True]:
                    self.judge(con, table, output, kind, text, later=True)

    def judge(self, con: duckdb.DuckDBPyConnection, table: Table, output: str, kind: str, text: str, *,
    later: bool) -> None:  # fmt: skip
        """Whether the true answer is in the interval."""
        counts = self.counts[kind, later]
        row = row_of(text)
        try:
            (found,) = mwem_sql.answer(con, output, Workload.from_rows([row])).to_pylist()
        except mwem_sql.MwemError:
            counts.refused += 1
            return
        shown = row.get("measure") or f"count_if({text})"
        (truth,) = con.execute(f"SELECT coalesce({shown}, 0) FROM {table.name}").fetchall()[0]
        counts.answered += 1
        counts.by_kind[found["measured"]] += 1
        slack = 1e-9 * max(1.0, abs(truth))
        low, high = (
            (-math.inf if found["low"] is None else found["low"]),
            (math.inf if found["high"] is None else found["high"]),
        )
        counts.without_ends += found["low"] is None
        if low - slack <= truth <= high + slack:
            counts.covered += 1
        else:
            counts.missed.append(f"{table.name}: {text}: {truth} not in {low:g} to {high:g}, {found['measured']}")


def row_of(text: str) -> dict[str, object]:
    for word in ("sum", "avg"):
        if text.startswith(f"{word} "):
            return {"measure": f"{word}({text.removeprefix(f'{word} ')})"}
    return {"predicate": text}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--releases", type=int, default=6)
    parser.add_argument("--tables", nargs="*", default=None)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    campaign = Campaign(given.seed)
    for table in tables(given.data):
        if given.tables is None or table.name in given.tables:
            campaign.run(table, given.releases)
    print("| kind | asked | questions | refused | answered | directly | in part | never | without ends | covered |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for (kind, later), own in sorted(
        campaign.counts.items(), key=lambda item: (list(KINDS).index(item[0][0]), item[0][1])
    ):
        share = own.covered / own.answered if own.answered else math.nan
        error = math.sqrt(share * (1 - share) / own.answered) if own.answered else math.nan
        kinds = " | ".join(f"{own.by_kind[name]:,}" for name in ("directly", "in part", "never"))
        print(
            f"| {kind} | {'later' if later else 'in the workload'} | {own.asked:,} | {own.refused:,}"
            f" | {own.answered:,} | {kinds} | {own.without_ends:,} | {share:.2%} ± {error:.2%} |"
        )
    for own in campaign.counts.values():
        for line in own.missed[:5]:
            print(f"missed: {line}", file=sys.stderr)


if __name__ == "__main__":
    main()
