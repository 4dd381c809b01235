"""How `mwem_plan` grows with the constants of a workload, and a release in rounds: processor seconds and peak memory,
each case in a process of its own.

python benchmarks/wide.py 1000 10000
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time

import duckdb

import mwem_sql

TABLE = (
    """CREATE TABLE t (
    age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99), pay DOUBLE CHECK (pay >= 0 AND pay < 1e6),
    n INTEGER NOT NULL CHECK (n BETWEEN 0 AND 99999), d DATE NOT NULL CHECK (d BETWEEN DATE '1900-01-01'
    AND DATE '2099-12-31'),
    """
    + ", ".join(f"c{k} INTEGER NOT NULL CHECK (c{k} BETWEEN 0 AND 98)" for k in range(12))
    + ")"
)
# By what each is about, a predicate for the number i of a workload of `size`, as DuckDB formats it.
PREDICATES = {
    "two columns": "format('age >= {} AND pay > {}', i % 97, i * (1000000 // size) + 0.5)",
    "one column": "format('n <= {}', i * 100000 // size)",
    "dates": "format('d >= DATE ''{}''', DATE '1900-01-01' + (i * 73000 // size)::INTEGER)",
    "between": "format('pay BETWEEN {} AND {}', hash(i) % 900000, hash(i) % 900000 + hash(-i) % 90000)",
    "lists of three": "format('n IN ({}, {}, {})', hash(i) % 100000, hash(i, 1) % 100000, hash(i, 2) % 100000)",
    "or": "format('age >= {} OR pay > {}', i % 97, i * (1000000 // size) + 0.5)",
    "value by value": "format('n % {} = 0', i + 2)",
}
# The same for a release: of twelve sets of attributes, so that rounds select.
RELEASED = {
    "twelve sets, released": "format('c{} >= {} AND pay > {}', i % 12, i // 12 % 97, i * (1000000 // size) + 0.5)"
}
ROWS = f"""INSERT INTO t SELECT i % 100, hash(i) % 1000000, i % 100000, DATE '2000-01-01',
{", ".join(f"hash(i, {k}) % 99" for k in range(12))}
    FROM range(20000) AS r(i)"""


def measure(kind: str, size: int, out: multiprocessing.SimpleQueue[str]) -> None:
    con = mwem_sql.connect(":memory:")
    con.execute("SET enable_progress_bar = false")
    con.execute(TABLE)
    con.execute(
        f"CREATE TABLE workload AS SELECT {(PREDICATES | RELEASED)[kind]} AS predicate FROM range({size}) AS r(i),"
        f" (SELECT {size} AS size)"
    )
    before = time.process_time()
    try:
        if kind in RELEASED:
            con.execute(ROWS)
            con.sql("FROM mwem_release('t', workload, 0.5)").fetchall()
        else:
            con.sql("FROM mwem_plan('t', workload, 0.5)").fetchall()
    except duckdb.Error:
        done = "refused, "
    else:
        done = ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    out.put(f"{done}{time.process_time() - before:.1f} s, {peak:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", type=int, nargs="+")
    sizes = parser.parse_args().sizes
    context = multiprocessing.get_context("spawn")
    lines = [["predicates", *(f"{size:,}" for size in sizes)], ["---"] * (1 + len(sizes))]
    for kind in PREDICATES | RELEASED:
        lines.append([kind])
        for size in sizes:
            out = context.SimpleQueue()
            process = context.Process(target=measure, args=(kind, size, out))
            process.start()
            lines[-1].append(out.get())
            process.join()
    sys.stdout.write("".join(f"| {' | '.join(line)} |\n" for line in lines))


if __name__ == "__main__":
    main()
