"""Whether anything got slower: each work over what it cannot be faster than, in processor seconds, against speed.json.

    python benchmarks/speed.py [--quick] [--keep] [work ...]

    binary      a release of all one- and two-way marginals of 1000 BOOLEANs, 1000 rounds; over a float32 X.T @ X
    cuboids     true answers of the 92 cuboids of one to three of eight columns, 10M rows; over a bare GROUP BY ALL
    predicates  a release of 10,000 predicates over six columns, half of them with OR, 10M rows; over count_if of them
    small       the same release of 100,000 rows; over sqlglot's parser on the predicates
    first       the first release of a process, with all imports; over `import duckdb` and a query
    release     a release of one predicate in a process that has made one; over the same
    answer      mwem_answer to 4,096 prefixes; over count_if of them on the released rows

Each work runs in a process of its own, with one thread of BLAS: other work on the machine moves ratios least this way.
`--quick` takes 300 BOOLEANs, and of all else a tenth. Exits with 1 if a ratio or a peak of memory is worse by more than
a tenth: then run that work again. `--keep` writes what was measured to speed.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

import duckdb
import memory
import pushdown
import scaling_works
import sqlglot

import mwem_sql

KEPT = Path(__file__).with_suffix(".json")
WORSE = 1.1
"""Of a figure that is kept, from which on a work is reported."""
GROUPS = 20_000  # combinations of values that occur, about as many as in Adult
BATCH = 256  # predicates that are counted in one SELECT
NUMBERS = {"age": (17, 90), "hours": (1, 99), "gain": (0, 200)}
TEXTS = {"sex": "FM", "edu": "abcdefgh", "race": "vwxyz"}

Figures = dict[str, float]
UNKNOWN = {"ratio": inf, "peak": inf}


def processor(work: Callable[[], object], repeats: int = 1) -> float:
    """Processor seconds of this process; the least of some repeats."""
    return min(pushdown.Took.of(work).processor for _ in range(repeats))


def enum(values: str | list[str]) -> str:
    return f"ENUM ({', '.join(map(repr, values))}) NOT NULL"


def binary(scale: int) -> Figures:
    found = scaling_works.binary(1000 if scale == 1 else 300)
    return {"seconds": found["seconds"][1], "limit": found["product"][1]}


def cuboids(scale: int) -> Figures:
    columns = [f"c{k}" for k in range(len(pushdown.SIZES))]
    sized = list(zip(columns, pushdown.SIZES, strict=True))
    kinds = [f"{name} {enum([str(value) for value in range(size)])}" for name, size in sized]
    values = [f"least({size - 1}, random() * random() * {size})::INTEGER::VARCHAR AS {name}" for name, size in sized]
    with duckdb.connect() as con:
        con.execute(f"SELECT setseed(0.5); CREATE TABLE t ({', '.join(kinds)})")
        con.execute(f"CREATE TABLE g AS SELECT i, {', '.join(values)} FROM range({GROUPS}) r(i)")
        drawn = f"range({10_000_000 // scale}) JOIN g ON hash(range) % {GROUPS} = i"
        con.execute(f"INSERT INTO t SELECT {', '.join(columns)} FROM {drawn}")
        plan = pushdown.pushdown_of(con, "t", pushdown.cuboids(pushdown.Domain.from_schema(con, "t")))
        seconds = processor(lambda: pushdown.execution.true_answers(con.cursor(), plan), 5)
        return {"seconds": seconds, "limit": processor(lambda: pushdown.bare_group_by(con, "t", columns), 5)}


def six_columns(con: duckdb.DuckDBPyConnection, rows: int) -> None:
    kinds = [
        f"{name} INTEGER NOT NULL CHECK ({name} BETWEEN {ends[0]} AND {ends[1]})" for name, ends in NUMBERS.items()
    ]
    kinds += [f"{name} {enum(values)}" for name, values in TEXTS.items()]
    con.execute(f"CREATE TABLE t ({', '.join(kinds)})")
    drawn = [f"{low} + hash(i, {low}) % {high - low + 1}" for low, high in NUMBERS.values()]
    drawn += [f"substr('{text}', 1 + (hash(i, '{text}') % {len(text)})::INTEGER, 1)" for text in TEXTS.values()]
    con.execute(f"INSERT INTO t SELECT {', '.join(drawn)} FROM range({rows}) r(i)")


def six_predicates(count: int) -> list[str]:
    """Distinct predicates over one to three columns; every other one with OR."""
    draw = random.Random(1)

    def atom(name: str) -> str:
        if name in NUMBERS:
            return f"{name} {draw.choice(['<', '>', '<=', '>='])} {draw.randint(*NUMBERS[name])}"
        values = draw.sample(TEXTS[name], min(draw.randint(1, 3), len(TEXTS[name]) - 1))
        return f"{name} IN ({', '.join(map(repr, values))})"

    made: dict[str, None] = {}
    while len(made) < count:
        with_or = len(made) % 2
        names = draw.sample([*NUMBERS, *TEXTS], draw.randint(1 + with_or, 3))
        made[(" OR " if with_or else " AND ").join(map(atom, names))] = None
    return list(made)


def predicates(scale: int, rows: int = 10_000_000) -> Figures:
    texts = six_predicates(10_000 // scale)
    con = mwem_sql.connect()
    six_columns(con, rows // scale)
    con.execute("CREATE TABLE workload AS SELECT unnest(?) AS predicate", [texts])
    call = "CALL mwem_release('t', workload, 1, rounds := 5, rows := 1000)"
    seconds = processor(lambda: con.execute(call).fetchall())
    counts = ", ".join(f"count_if({text})" for text in texts[:BATCH])
    limit = processor(lambda: con.execute(f"SELECT {counts} FROM t").fetchall()) * len(texts) / BATCH
    return {"seconds": seconds, "limit": limit}


def small(scale: int) -> Figures:
    texts = six_predicates(500)
    limit = processor(lambda: [sqlglot.parse_one(text, dialect="duckdb") for text in texts]) * 10_000 / scale / 500
    return predicates(scale, 100_000) | {"limit": limit}


def bare_process() -> float:
    """Processor seconds of a process that imports duckdb and runs a query."""
    command = [sys.executable, "-c", "import duckdb, time; duckdb.sql('FROM range(1)'); print(time.process_time())"]
    return min(float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout) for _ in range(3))


def release(_scale: int, repeats: int = 6) -> Figures:
    con = mwem_sql.connect()
    con.execute("CREATE TABLE t (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99))")
    con.execute("INSERT INTO t FROM range(100); CREATE TABLE workload AS SELECT 'age < 40' AS predicate")
    calls = [f"CALL mwem_release('t', workload, 1, output := 'o{number}')" for number in range(repeats)]
    seconds = min(processor(lambda call=call: con.execute(call).fetchall()) for call in calls)
    return {"seconds": seconds, "limit": bare_process()}


def first(scale: int) -> Figures:
    return release(scale, repeats=1) | {"seconds": time.process_time()}


def answer(scale: int) -> Figures:
    size = 4096 // scale
    con = mwem_sql.connect()
    con.execute(f"CREATE TABLE t (x INTEGER NOT NULL CHECK (x BETWEEN 0 AND {size - 1}))")
    con.execute(f"INSERT INTO t SELECT (i * i) % {size} FROM range(100000) r(i)")
    con.execute(f"CREATE TABLE workload AS SELECT format('x <= {{}}', i) AS predicate FROM range({size}) r(i)")
    con.execute("CALL mwem_release('t', workload, 1)").fetchall()
    seconds = processor(lambda: con.execute("FROM mwem_answer('t_synthetic', workload)").fetchall(), 3)
    counts = ", ".join(f"count_if(x <= {number})" for number in range(min(size, BATCH)))
    limit = processor(lambda: con.execute(f"SELECT {counts} FROM t_synthetic").fetchall(), 3) * max(1, size / BATCH)
    return {"seconds": seconds, "limit": limit}


WORKS = {work.__name__: work for work in (binary, cuboids, predicates, small, first, release, answer)}


def measured(work: str, scale: int) -> Figures:
    """One run in a process of its own."""
    command = [sys.executable, __file__, "--run", str(scale), work]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    figures = json.loads(ran.stdout)
    return figures | {"ratio": round(figures["seconds"] / figures["limit"], 3)}


def worse(now: Figures, kept: Figures) -> list[str]:
    """Which figures are worse than those that are kept."""
    return [name for name in ("ratio", "peak") if now[name] > WORSE * kept[name]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("works", nargs="*", metavar="work", help=", ".join(WORKS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--run", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(WORKS[options.works[0]](options.run) | {"peak": memory.peak_megabytes()}))
        return
    kept = json.loads(KEPT.read_text())
    slower, of_size = [], kept["quick" if options.quick else "full"]
    print(f"{'':10}", *(f"{word:>9}" for word in ("ratio", "kept", "seconds", "limit", "MB", "kept")))
    for work in options.works or WORKS:
        now, before = measured(work, 10 if options.quick else 1), of_size.get(work, UNKNOWN)
        listed = worse(now, before)
        slower += listed
        shown = (now["ratio"], before["ratio"], now["seconds"], now["limit"], now["peak"], before["peak"])
        print(f"{work:10}", *(f"{figure:9.2f}" for figure in shown), "worse: " * bool(listed) + ", ".join(listed))
        of_size[work] = {"ratio": now["ratio"], "peak": now["peak"]}
    if options.keep:
        KEPT.write_text(json.dumps(kept, indent=2) + "\n")
    sys.exit(bool(slower))


if __name__ == "__main__":
    main()
