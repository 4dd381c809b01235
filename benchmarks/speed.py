"""Whether anything got slower: each work over what it cannot be faster than, in processor seconds, against speed.json.

    python benchmarks/speed.py [--quick] [--keep] [work ...]

    binary      a release of all one- and two-way marginals of 1000 BOOLEANs, 1000 rounds; over a float32 X.T @ X
    cuboids     true answers of the 92 cuboids of one to three of eight columns, 10M rows; over a bare GROUP BY ALL
    predicates  a release of 10,000 predicates over six columns, half of them with OR, 10M rows; over count_if of them
    small       the same release of 100,000 rows; over sqlglot's parser on the predicates
    thousands   a release of 3,000 of them from 1,000 rows, whole; over sqlglot's parser on the predicates
    imported    `import mwem_sql`; over `import duckdb` and a query
    shell       `mwem-sql -c 'select 1'`; over the same
    first       the first release of a process, with all imports; over the same
    release     a release of one predicate in a process that has made one; over the same
    crowded     the same in a database of 1,000 tables
    answer      mwem_answer to 4,096 prefixes that the release was made for; over count_if of them on the released rows
    again       the same when it was asked before; over the same
    count       a mwem_count of a new predicate; over a bare query
    interval    the same with its interval, mwem_count_interval; over the same
    load        a mwem_count among those that two threads ask at once; over the same

Each work runs in a process of its own, with one thread of BLAS: other work on the machine moves ratios least this way.
`--quick` takes 300 BOOLEANs, and of all else a tenth. Exits with 1 if a ratio or a peak of memory is worse by more than
a tenth: then run that work again. `--keep` writes what was measured to speed.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import threading
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
from mwem_sql.releases.kept import KEPT

FIGURES = Path(__file__).with_suffix(".json")
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


def bare_process(work: str = "import duckdb; duckdb.sql('FROM range(1)')") -> float:
    """Processor seconds of a process that imports duckdb and runs a query, or does other work; it prints nothing."""
    text = f"{work}\nimport sys, time; print(time.process_time(), file=sys.stderr)"
    runs = [subprocess.run([sys.executable, "-c", text], check=True, capture_output=True) for _ in range(4)]
    return min(float(run.stderr) for run in runs)


def imported(_scale: int) -> Figures:
    return {"seconds": bare_process("import mwem_sql"), "limit": bare_process()}


def shell(_scale: int) -> Figures:
    said = "from mwem_sql.cli import main; main(['-c', 'select 1'])"
    return {"seconds": bare_process(said), "limit": bare_process()}


def people() -> duckdb.DuckDBPyConnection:
    con = mwem_sql.connect()
    con.execute("CREATE TABLE t (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99))")
    con.execute("INSERT INTO t FROM range(100); CREATE TABLE workload AS SELECT 'age < 40' AS predicate")
    return con


def release(_scale: int, repeats: int = 6, tables: int = 0) -> Figures:
    con = people()
    for number in range(tables):
        con.execute(f"CREATE TABLE x{number} (a INTEGER, b VARCHAR)")
    calls = [f"CALL mwem_release('t', workload, 1, output := 'o{number}')" for number in range(repeats)]
    seconds = min(processor(lambda call=call: con.execute(call).fetchall()) for call in calls)
    return {"seconds": seconds, "limit": bare_process()}


def first(scale: int) -> Figures:
    return release(scale, repeats=1) | {"seconds": time.process_time()}


def answer(scale: int, *, is_again: bool = False) -> Figures:
    size = 4096 // scale
    con = mwem_sql.connect()
    con.execute(f"CREATE TABLE t (x INTEGER NOT NULL CHECK (x BETWEEN 0 AND {size - 1}))")
    con.execute(f"INSERT INTO t SELECT (i * i) % {size} FROM range(100000) r(i)")
    con.execute(f"CREATE TABLE workload AS SELECT format('x <= {{}}', i) AS predicate FROM range({size}) r(i)")
    con.execute("CALL mwem_release('t', workload, 1)").fetchall()
    ask = lambda: con.execute("FROM mwem_answer('t_synthetic', workload)").fetchall()  # noqa: E731
    ask()
    seconds = processor(ask, 3) if is_again else min(processor(lambda: (KEPT.clear(), ask())) for _ in range(3))
    counts = ", ".join(f"count_if(x <= {number})" for number in range(min(size, BATCH)))
    limit = processor(lambda: con.execute(f"SELECT {counts} FROM t_synthetic").fetchall(), 3) * max(1, size / BATCH)
    return {"seconds": seconds, "limit": limit}


def again(scale: int) -> Figures:
    return answer(scale, is_again=True)


def asked(statement: str, threads: int, seconds: float) -> float:
    """Processor seconds of one of the questions that some threads ask as fast as they can.

    Each has another number in it than those before; what was asked is forgotten when all numbers were.
    """
    con = people()
    con.execute("CALL mwem_release('t', workload, 1)").fetchall()
    numbers, counts = itertools.count(1), [0] * threads
    for _ in range(3):
        con.execute(statement.format(next(numbers) % 99)).fetchall()
    began, end = time.process_time(), time.perf_counter() + seconds

    def ask(thread: int) -> None:
        cursor = con.cursor()
        while time.perf_counter() < end:
            number = next(numbers) % 99
            if number == 0:
                KEPT.clear()
            cursor.execute(statement.format(number)).fetchall()
            counts[thread] += 1

    running = [threading.Thread(target=ask, args=(thread,)) for thread in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    return (time.process_time() - began) / sum(counts)


COUNT = "SELECT mwem_count('t_synthetic', 'age < {}')"
INTERVAL = "SELECT mwem_count_interval('t_synthetic', 'age < {}')"
BARE = "SELECT count(*) FROM t WHERE age < {}"


def count(scale: int) -> Figures:
    return {"seconds": asked(COUNT, 1, 5 / scale), "limit": asked(BARE, 1, 1)}


def interval(scale: int) -> Figures:
    return {"seconds": asked(INTERVAL, 1, 5 / scale), "limit": asked(BARE, 1, 1)}


def load(scale: int) -> Figures:
    return {"seconds": asked(COUNT, 2, 10 / scale), "limit": asked(BARE, 1, 1)}


def crowded(scale: int) -> Figures:
    return release(scale, tables=1000)


def thousands(scale: int) -> Figures:
    texts = six_predicates(3000 // scale)
    con = mwem_sql.connect()
    six_columns(con, 1000)
    con.execute("CREATE TABLE workload AS SELECT unnest(?) AS predicate", [texts])
    seconds = processor(lambda: con.execute("CALL mwem_release('t', workload, 1)").fetchall())
    return {"seconds": seconds, "limit": processor(lambda: [sqlglot.parse_one(text) for text in texts])}


WORKS = {
    work.__name__: work
    for work in (
        binary, cuboids, predicates, small, thousands, imported, shell, first, release, crowded, answer, again,
        count, interval, load,
    )
}  # fmt: skip


def measured(work: str, scale: int) -> Figures:
    """One run in a process of its own."""
    command = [sys.executable, __file__, "--run", str(scale), work]
    # Modules are compiled once, as on a user's machine.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
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
    kept = json.loads(FIGURES.read_text())
    slower, of_size = [], kept["quick" if options.quick else "full"]
    print(f"{'':10}", *(f"{word:>9}" for word in ("ratio", "kept", "ms", "limit", "MB", "kept")))
    for work in options.works or WORKS:
        now, before = measured(work, 10 if options.quick else 1), of_size.get(work, UNKNOWN)
        listed = worse(now, before)
        slower += listed
        shown = (now["ratio"], before["ratio"], 1000 * now["seconds"], 1000 * now["limit"], now["peak"], before["peak"])
        print(f"{work:10}", *(f"{figure:9.2f}" for figure in shown), "worse: " * bool(listed) + ", ".join(listed))
        of_size[work] = {"ratio": now["ratio"], "peak": now["peak"]}
    if options.keep:
        FIGURES.write_text(json.dumps(kept, indent=2) + "\n")
    sys.exit(bool(slower))


if __name__ == "__main__":
    main()
