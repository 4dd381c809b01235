"""Prints by how many MB memory grows while ten million synthetic rows are written. Its argument is a folder."""

from __future__ import annotations

import sys
import threading
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
from strategies import tree_of

from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.domain import Domain
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.releases.store import write_table
from mwem_sql.synthesis.values import draw_rows
from mwem_sql.workload import Workload

CLASSES = 20
ROWS = 10_000_000


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def main() -> None:
    names = [f"a{number}" for number in range(14)]
    texts = ", ".join(f"'value {number}'" for number in range(CLASSES))
    con = duckdb.connect(str(Path(sys.argv[1]) / "x.duckdb"))
    con.execute("SET memory_limit = '200MiB'")
    con.execute(f"CREATE TABLE t ({', '.join(f'{name} ENUM ({texts}) NOT NULL' for name in names)})")
    domain = Domain.from_schema(con, "t")
    with Sandbox({"TimeZone": "UTC"}) as sandbox:
        classes = compile_workload(domain, Workload.marginals(domain, 1), sandbox).classes
    state = tree_of(dict.fromkeys(names, CLASSES), list(pairwise(names)), 0)
    before, most, done = resident(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            most[0] = max(most[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    write_table(con, Name("x", "main", "o"), draw_rows(state, classes, ROWS, np.random.default_rng(0)))
    done.set()
    watcher.join()
    assert con.execute("SELECT count(*) FROM o").fetchall() == [(ROWS,)]
    print(most[0] - before)
    con.close()


if __name__ == "__main__":
    main()
