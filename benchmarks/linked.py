"""Several tables by their keys, beside what could be done without: error by table, coverage, keys, time.

    python benchmarks/linked.py [--data DIR] [--works tpch households] [--epsilons 0.3 1 3] [--runs 3]
        [--questions 1000] [--ways together independent flat]

`tpch` reads customer, orders and lineitem of TPC-H as Parquet files in DIR (its generator: DuckDB's extension `tpch`,
scale 0.1); `households` are made here: 6,000 households of 1 to 7 persons, whose columns depend on their household's.
The questions are counts of the rows of one table, with conditions on up to two columns of each table from it to the
root, drawn once; bounds are so coarse that six columns of TPC-H together stay within what one question may have, ten
million cells. `numbers` are counts of the root's rows to which so many rows lead, by a condition on one of its columns.
`keys` is the share of the lowest table's synthetic rows whose keys lead to a row up to the root.
The unit is a row of the root. Errors are means over the questions of a table, in parts of its rows:

    together     one release of all tables, at epsilon
    independent  a release of each table's columns, each at its part of epsilon, and the unit's key; answers multiply
    flat         one release of the join of all tables, at epsilon; it answers for the lowest table alone
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import report
from results import Spread

import mwem_sql

QUESTIONS = 1_000
MOST_CONDITIONS = 2
MOST_NUMBERS = 10
OF_ALL = ("numbers", "numbers covered", "keys", "seconds")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
CALENDAR = "DATE '1992-01-01' AND DATE '1998-12-31'"


@dataclass(frozen=True, kw_only=True)
class Level:
    """A table: how many rows of one unit are used, and the conditions that questions may have, by column."""

    name: str
    rows: int
    conditions: Mapping[str, Callable[[np.random.Generator], str]]


@dataclass(frozen=True, kw_only=True)
class Work:
    """Tables from the root down, what makes them, and a view of the lowest table with all columns and the unit."""

    name: str
    levels: tuple[Level, ...]
    script: str
    unit: str
    """The root's key, which `joins` have."""
    joins: Mapping[str, str]
    """By table, its rows with the columns of all tables above it and the unit, as a SELECT."""

    @property
    def with_numbers(self) -> str:
        """The rows of the root, and how many rows of the next table lead to each, under that table's name."""
        root, child = (level.name for level in self.levels[:2])
        grouped = f"SELECT {self.unit}, count(*) AS number FROM ({self.joins[child]}) GROUP BY ALL"
        return (
            f"SELECT one.*, coalesce(number, 0) AS {child} FROM ({self.joins[root]}) AS one"
            f" LEFT JOIN ({grouped}) USING ({self.unit})"
        )

    def keys_kept(self, con: duckdb.DuckDBPyConnection) -> float:
        """Of the synthetic rows of the lowest table, the share that its keys join to a row of every table above."""
        name, select = self.levels[-1].name, self.joins[self.levels[-1].name]
        for level in self.levels:
            select = re.sub(rf"\b{level.name}\b", f"{level.name}_synthetic", select)
        joined, rows = (counts(con, text, ["true"])[0] for text in (select, f"FROM {name}_synthetic"))
        return float(joined / rows)


def one_of(column: str, *values: str) -> Callable[[np.random.Generator], str]:
    return lambda draw: f"{column} = '{draw.choice(values)}'"


def within(column: str, low: float, high: float, step: float) -> Callable[[np.random.Generator], str]:
    def text(draw: np.random.Generator) -> str:
        first, last = np.sort(draw.choice(int((high - low) / step) + 1, 2, replace=False)) * step + low
        return f"{column} BETWEEN {first:g} AND {last:g}"

    return text


def since(column: str) -> Callable[[np.random.Generator], str]:
    return lambda draw: f"{column} < DATE '{draw.integers(1993, 1999)}-01-01'"


TPCH = Work(
    name="tpch",
    unit="c_custkey",
    levels=(
        Level(
            name="customer",
            rows=1,
            conditions={
                "c_mktsegment": one_of("c_mktsegment", "AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"),
                "c_nationkey": within("c_nationkey", 0, 24, 4),
                "c_acctbal": within("c_acctbal", -1000, 9_000, 2_000),
            },
        ),
        Level(
            name="orders",
            rows=30,
            conditions={
                "o_orderstatus": one_of("o_orderstatus", "F", "O", "P"),
                "o_orderpriority": one_of("o_orderpriority", *PRIORITIES),
                "o_totalprice": within("o_totalprice", 0, 600_000, 50_000),
                "o_orderdate": since("o_orderdate"),
            },
        ),
        Level(
            name="lineitem",
            rows=120,
            conditions={
                "l_returnflag": one_of("l_returnflag", "A", "N", "R"),
                "l_linestatus": one_of("l_linestatus", "F", "O"),
                "l_shipmode": one_of("l_shipmode", "AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"),
                "l_quantity": within("l_quantity", 1, 50, 10),
                "l_discount": within("l_discount", 0, 0.1, 0.02),
            },
        ),
    ),
    script=f"""
        CREATE TYPE segment AS ENUM ('AUTOMOBILE', 'BUILDING', 'FURNITURE', 'HOUSEHOLD', 'MACHINERY');
        CREATE TYPE status AS ENUM ('F', 'O', 'P');
        CREATE TYPE priority AS ENUM ('1-URGENT', '2-HIGH', '3-MEDIUM', '4-NOT SPECIFIED', '5-LOW');
        CREATE TYPE flag AS ENUM ('A', 'N', 'R');
        CREATE TYPE line AS ENUM ('F', 'O');
        CREATE TYPE mode AS ENUM ('AIR', 'FOB', 'MAIL', 'RAIL', 'REG AIR', 'SHIP', 'TRUCK');
        CREATE TABLE customer (
            c_custkey INTEGER PRIMARY KEY, c_mktsegment segment NOT NULL,
            c_nationkey INTEGER NOT NULL CHECK (c_nationkey BETWEEN 0 AND 24),
            c_acctbal DECIMAL(15, 2) NOT NULL CHECK (c_acctbal BETWEEN -1000 AND 10000));
        CREATE TABLE orders (
            o_orderkey INTEGER PRIMARY KEY, o_custkey INTEGER NOT NULL REFERENCES customer (c_custkey),
            o_orderstatus status NOT NULL, o_orderpriority priority NOT NULL,
            o_totalprice DECIMAL(15, 2) NOT NULL CHECK (o_totalprice BETWEEN 0 AND 600000),
            o_orderdate DATE NOT NULL CHECK (o_orderdate BETWEEN {CALENDAR}));
        CREATE TABLE lineitem (
            l_orderkey INTEGER NOT NULL REFERENCES orders (o_orderkey), l_linenumber INTEGER NOT NULL,
            l_returnflag flag NOT NULL, l_linestatus line NOT NULL, l_shipmode mode NOT NULL,
            l_quantity DECIMAL(15, 2) NOT NULL CHECK (l_quantity BETWEEN 1 AND 50),
            l_discount DECIMAL(15, 2) NOT NULL CHECK (l_discount BETWEEN 0 AND 0.1),
            PRIMARY KEY (l_orderkey, l_linenumber));
        INSERT INTO customer BY NAME SELECT COLUMNS('c_custkey|segment|nation|acctbal') FROM 'DATA/customer.parquet';
        INSERT INTO orders BY NAME
        SELECT COLUMNS('orderkey|custkey|orderst|orderpr|total|date') FROM 'DATA/orders.parquet';
        INSERT INTO lineitem BY NAME
        SELECT COLUMNS('orderkey|linenumber|flag|linestatus|mode|quantity|discount') FROM 'DATA/lineitem.parquet';
    """,
    joins={
        "customer": "SELECT * FROM customer",
        "orders": "SELECT * FROM orders JOIN customer ON o_custkey = c_custkey",
        "lineitem": "SELECT * FROM lineitem JOIN orders ON l_orderkey = o_orderkey"
        " JOIN customer ON o_custkey = c_custkey",
    },
)

HOUSEHOLDS = Work(
    name="households",
    unit="household",
    levels=(
        Level(
            name="households",
            rows=1,
            conditions={
                "region": one_of("region", "North", "East", "South", "West", "Islands"),
                "tenure": one_of("tenure", "own", "rent", "other"),
                "rooms": within("rooms", 1, 9, 1),
            },
        ),
        Level(
            name="persons",
            rows=7,
            conditions={
                "age": within("age", 0, 95, 5),
                "work": one_of("work", "none", "school", "office", "trade", "home"),
                "sick": one_of("sick", "no", "yes"),
            },
        ),
    ),
    script="",
    joins={
        "households": "SELECT * FROM households",
        "persons": "SELECT * FROM persons JOIN households USING (household)",
    },
)


def make_households(con: duckdb.DuckDBPyConnection) -> None:
    """Households, whose persons are older where rooms are few, sick in one region, and at work by age."""
    con.execute("""
        CREATE TYPE region AS ENUM ('North', 'East', 'South', 'West', 'Islands');
        CREATE TYPE tenure AS ENUM ('own', 'rent', 'other');
        CREATE TYPE work AS ENUM ('none', 'school', 'office', 'trade', 'home');
        CREATE TYPE sick AS ENUM ('no', 'yes');
        CREATE TABLE households (
            household INTEGER PRIMARY KEY, region region NOT NULL, tenure tenure NOT NULL,
            rooms INTEGER NOT NULL CHECK (rooms BETWEEN 1 AND 9));
        CREATE TABLE persons (
            household INTEGER NOT NULL REFERENCES households (household),
            age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 95), work work NOT NULL, sick sick NOT NULL);
    """)
    draw, many = np.random.default_rng(11), 6_000
    region, rooms = draw.choice(5, many, p=[0.35, 0.25, 0.2, 0.15, 0.05]), 1 + draw.binomial(8, 0.4, many)
    tenure = np.where(draw.random(many) < rooms / 10, 0, draw.choice([1, 2], many, p=[0.85, 0.15]))
    size = 1 + draw.binomial(6, np.clip(rooms / 14, 0, 1))
    home = np.repeat(np.arange(many), size)
    age = np.clip(draw.normal(62 - 5 * rooms[home], 20), 0, 95).astype(int)
    work = np.select([age < 6, age < 19, age > 66], [0, 1, 0], 2 + draw.choice(3, len(home), p=[0.5, 0.35, 0.15]))
    sick = draw.random(len(home)) < np.where(region[home] == 3, 0.3, 0.05) + age / 400
    names = {
        "region": ("North", "East", "South", "West", "Islands"), "tenure": ("own", "rent", "other"),
        "work": ("none", "school", "office", "trade", "home"), "sick": ("no", "yes"),
    }  # fmt: skip

    def texts(column: str, codes: np.ndarray) -> np.ndarray:
        return np.array(names[column])[codes.astype(int)]

    parents = {"household": np.arange(many), "region": texts("region", region), "tenure": texts("tenure", tenure)}
    children = {"household": home, "age": age, "work": texts("work", work), "sick": texts("sick", sick)}
    con.register("parents", {**parents, "rooms": rooms})
    con.register("children", children)
    con.execute("INSERT INTO households BY NAME FROM parents; INSERT INTO persons BY NAME FROM children")


WORKS = {work.name: work for work in (TPCH, HOUSEHOLDS)}


@dataclass(frozen=True)
class Question:
    """A count of the rows of a table, with its conditions by table."""

    level: int
    parts: tuple[tuple[str, ...], ...]

    @property
    def predicate(self) -> str:
        return " AND ".join(text for part in self.parts for text in part)


def questions(work: Work, count: int) -> list[Question]:
    draw = np.random.default_rng(5)

    def part(level: Level) -> tuple[str, ...]:
        columns = draw.choice(list(level.conditions), draw.integers(0, MOST_CONDITIONS + 1), replace=False)
        return tuple(level.conditions[column](draw) for column in columns)

    out: dict[str, Question] = {}
    while len(out) < count:
        level = int(draw.integers(len(work.levels)))
        asked = Question(level, tuple(part(each) for each in work.levels[: level + 1]))
        if asked.predicate:
            out[f"{level} {asked.predicate}"] = asked
    return list(out.values())


def counts(con: duckdb.DuckDBPyConnection, select: str, predicates: Sequence[str]) -> np.ndarray:
    """True counts, some at a time."""
    out: list[int] = []
    for start in range(0, len(predicates), 100):
        listed = ", ".join(f"count_if({text})" for text in predicates[start : start + 100])
        out += con.execute(f"SELECT {listed} FROM ({select})").fetchall()[0]
    return np.array(out, dtype=float)


def numbers(work: Work) -> list[str]:
    """Rows of the root to which so many rows of the next table lead, by each of its columns."""
    root, child = work.levels[:2]
    draw = np.random.default_rng(6)
    conditions = [condition(draw) for condition in root.conditions.values() for _ in range(3)]
    most = min(child.rows, MOST_NUMBERS)
    return [f"{child.name} >= {number} AND {text}" for text in conditions for number in range(1, most + 1)]


class Truth:
    """The true counts of all questions, by table, and the rows of each."""

    def __init__(self, con: duckdb.DuckDBPyConnection, work: Work, asked: Sequence[Question]) -> None:
        self.asked, self.work = asked, work
        places = range(len(work.levels))
        self.of = [np.array([k for k, each in enumerate(asked) if each.level == level]) for level in places]
        self.rows = [int(counts(con, work.joins[level.name], ["true"])[0]) for level in work.levels]
        self.numbers = numbers(work)
        self.true_numbers = counts(con, work.with_numbers, self.numbers)
        self.true = [
            counts(con, work.joins[level.name], [asked[k].predicate for k in numbers])
            for level, numbers in zip(work.levels, self.of, strict=True)
        ]

    def predicates(self, level: int) -> list[str]:
        return [self.asked[k].predicate for k in self.of[level]]

    def error(self, level: int, answers: np.ndarray) -> float:
        return float(np.abs(answers - self.true[level]).mean()) / self.rows[level]


def answered(con: duckdb.DuckDBPyConnection, output: str, predicates: Sequence[str]) -> dict[str, np.ndarray]:
    rows = mwem_sql.answer(con, output, mwem_sql.Workload.from_predicates(predicates))
    return {name: rows.column(name).to_numpy() for name in ("answer", "low", "high")}


@contextmanager
def database(work: Work, data: Path | None) -> Iterator[duckdb.DuckDBPyConnection]:
    con = mwem_sql.connect()
    try:
        if work.script:
            con.execute(work.script.replace("DATA", str(data)))
        else:
            make_households(con)
        yield con
    finally:
        con.close()


def together(con: duckdb.DuckDBPyConnection, truth: Truth, epsilon: float, seed: int) -> dict[str, float]:
    """One release of all tables: errors and coverage by table, seconds, and whether every key has its row."""
    work = truth.work
    rows = [{"of": work.levels[each.level].name, "predicate": each.predicate} for each in truth.asked]
    begin = time.process_time()
    names = [level.name for level in work.levels]
    mwem_sql.release(
        con, names, mwem_sql.Workload.from_rows(rows), epsilon, seed=seed,
        unit=names[0], rows_per_unit={level.name: level.rows for level in work.levels[1:]},
        version=f"{epsilon:g}, {seed}",
    )  # fmt: skip
    out = {"seconds": time.process_time() - begin, "keys": work.keys_kept(con)}
    for number, level in enumerate(work.levels):
        found = answered(con, f"{level.name}_synthetic", truth.predicates(number))
        out[level.name] = truth.error(number, found["answer"])
        inside = (found["low"] - 1e-9 <= truth.true[number]) & (truth.true[number] <= found["high"] + 1e-9)
        out[f"{level.name} covered"] = float(inside.mean())
    found = answered(con, f"{names[0]}_synthetic", truth.numbers)
    out["numbers"] = float(np.abs(found["answer"] - truth.true_numbers).mean()) / truth.rows[0]
    inside = (found["low"] - 1e-9 <= truth.true_numbers) & (truth.true_numbers <= found["high"] + 1e-9)
    out["numbers covered"] = float(inside.mean())
    return out


def independent(con: duckdb.DuckDBPyConnection, truth: Truth, epsilon: float, seed: int) -> dict[str, float]:
    """Each table by itself, with the unit's key; a question about several is the product of its parts."""
    work, outputs = truth.work, list[str]()
    begin = time.process_time()
    for number, level in enumerate(work.levels):
        texts = {" AND ".join(each.parts[number]) for each in truth.asked if len(each.parts) > number}
        workload = mwem_sql.Workload.from_predicates(sorted(texts - {""}))
        columns = ", ".join((work.unit, *level.conditions))
        con.execute(f"CREATE OR REPLACE TABLE alone_{level.name} AS SELECT {columns} FROM ({work.joins[level.name]})")
        options = {} if level.rows == 1 else {"unit": work.unit, "rows_per_unit": level.rows}
        outputs.append(f"alone_{level.name}_{seed}_{epsilon:g}".replace(".", "_"))
        domain = f"{level.name}_alone_domain"
        mwem_sql.release(
            con, f"alone_{level.name}", workload, epsilon / len(work.levels), seed=seed, output=outputs[-1],
            domain=domain, **options,
        )  # fmt: skip
    out = {"seconds": time.process_time() - begin}
    shares: list[dict[str, float]] = []
    for number, output in enumerate(outputs):
        texts = sorted({" AND ".join(each.parts[number]) for each in truth.asked if len(each.parts) > number} - {""})
        found = answered(con, output, ["true", *texts])["answer"]
        shares.append({"": 1.0, **dict(zip(texts, found[1:] / max(found[0], 1), strict=True)), "true": found[0]})
    for number, level in enumerate(work.levels):
        asked = [[" AND ".join(part) for part in truth.asked[q].parts] for q in truth.of[number]]
        answers = [
            shares[number]["true"] * np.prod([shares[k][text] for k, text in enumerate(texts)]) for texts in asked
        ]
        out[level.name] = truth.error(number, np.array(answers))
    return out


def flat(con: duckdb.DuckDBPyConnection, truth: Truth, epsilon: float, seed: int) -> dict[str, float]:
    """The join of all tables as one table."""
    work, last = truth.work, len(truth.work.levels) - 1
    level = work.levels[last]
    columns = ", ".join((work.unit, *(column for each in work.levels for column in each.conditions)))
    con.execute(f"CREATE OR REPLACE TABLE flat AS SELECT {columns} FROM ({work.joins[level.name]})")
    begin = time.process_time()
    predicates = truth.predicates(last)
    output = f"flat_{seed}_{epsilon:g}".replace(".", "_")
    mwem_sql.release(
        con, "flat", mwem_sql.Workload.from_predicates(predicates), epsilon, seed=seed, output=output,
        domain="flat_domain", unit=work.unit, rows_per_unit=level.rows,
    )  # fmt: skip
    return {
        "seconds": time.process_time() - begin,
        level.name: truth.error(last, answered(con, output, predicates)["answer"]),
    }


def declare(con: duckdb.DuckDBPyConnection, work: Work) -> None:
    """The domains of the tables without keys, from those of the schema."""
    con.execute("CREATE TABLE flat_domain (attribute VARCHAR, low VARCHAR, high VARCHAR)")
    for level in work.levels:
        con.execute(
            "INSERT INTO flat_domain SELECT attribute, low, high FROM mwem_domain(?) WHERE list_contains(?, attribute)"
            " AND low IS NOT NULL",
            [level.name, list(level.conditions)],
        )
        columns = ", ".join(f"'{column}'" for column in level.conditions)
        con.execute(f"CREATE TABLE {level.name}_alone_domain AS FROM flat_domain WHERE attribute IN ({columns})")


WAYS = {"together": together, "independent": independent, "flat": flat}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1, 3])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    options = parser.parse_args()
    rows = partial(print, flush=True)
    for name in options.works:
        work = WORKS[name]
        with database(work, options.data) as con:
            declare(con, work)
            truth = Truth(con, work, questions(work, options.questions))
            names = [level.name for level in work.levels]
            rows(report.table([name, "epsilon", *names, *(f"{each} covered" for each in names), *OF_ALL], []))
            for epsilon in options.epsilons:
                for way in options.ways:
                    runs = [WAYS[way](con, truth, epsilon, seed) for seed in range(options.runs)]
                    figures = [*names, *(f"{each} covered" for each in names), *OF_ALL]
                    cells = []
                    for figure in figures:
                        spread = Spread.of(run[figure] for run in runs) if figure in runs[0] else None
                        cells.append(
                            f"{report.number(spread.mean)} ± {report.number(spread.deviation / options.runs**0.5)}"
                            if spread
                            else ""
                        )
                    rows(report.row([way, f"{epsilon:g}", *cells]))
        rows("")


if __name__ == "__main__":
    main()
