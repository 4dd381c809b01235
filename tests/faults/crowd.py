"""Many releases at once against one cap: `python tests/faults/crowd.py threads|processes ASKED ADMITTED [same]`.

Each asks for 1/ADMITTED of the cap. Threads have cursors of their own; processes queue for the file, which DuckDB lets
one of them open at a time. `same`: all of them ask for the very same release. Prints one JSON object: how many calls
had which end, and what the ledger says.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb

import mwem_sql

sys.path.insert(0, str(Path(__file__).resolve().parent))
from crash import in_child

TABLE = """
    CREATE TABLE t (x BOOLEAN NOT NULL); INSERT INTO t SELECT i % 2 = 0 FROM range(40) r(i);
    CREATE TABLE w AS SELECT 'x' AS predicate"""


def make(path: Path, admitted: int) -> None:
    con = mwem_sql.connect(path)
    con.execute(TABLE)
    con.execute("CALL mwem_budget('t', ?)", [str(admitted / 10)]).fetchall()
    con.close()


def ask(con: duckdb.DuckDBPyConnection, number: int) -> str:
    try:
        row = con.execute(f"CALL mwem_release('t', w, 0.1, rounds := 1, rows := 5, output := 'o{number}')").fetchall()[
            0
        ]
    except duckdb.Error as error:
        return "refused" if "does not fit the cap" in str(error) else str(error)
    return "reused" if row[11] else "made"


def wait_for(path: Path) -> duckdb.DuckDBPyConnection:
    """Try until the file is free; now and then, because a DuckDB that is opened in vain costs as much as one that is
    used."""
    while True:
        with suppress(duckdb.IOException):
            return mwem_sql.connect(path)
        time.sleep(random.uniform(0.5, 4))


def in_process(path: Path, number: int) -> str:
    con = wait_for(path)
    try:
        return ask(con, number)
    finally:
        con.close()


def verdict(path: Path) -> dict[str, Any]:
    con = mwem_sql.connect(path)
    entries = con.execute(
        "SELECT count(*), sum(epsilon_exact::VARCHAR = '1/10'), list(DISTINCT status), (SELECT bool_and(intact) FROM "
        "mwem_ledger()) FROM mwem.ledger"
    ).fetchall()
    outputs = con.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE 'o%' AND schema_name = 'main'"
    ).fetchall()[0][0]
    left = con.execute("SELECT DISTINCT epsilon_left FROM mwem_ledger()").fetchall()
    con.close()
    return {
        "entries": entries[0][0],
        "status": entries[0][2],
        "intact": entries[0][3],
        "outputs": outputs,
        "left": left[0][0],
    }


def main(kind: str, asked: str, admitted: str, same: str = "") -> dict[str, Any]:
    ends: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "t.duckdb"
        in_child(lambda: make(path, int(admitted)))
        numbers = [0 if same else k for k in range(int(asked))]
        if kind == "processes":
            threads = [
                threading.Thread(target=lambda k=k: ends.append(in_child(lambda: in_process(path, k))[1]))
                for k in numbers
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            con = mwem_sql.connect(path)
            ready = threading.Barrier(len(numbers))

            def run(cursor: duckdb.DuckDBPyConnection, number: int) -> None:
                ready.wait()
                ends.append(ask(cursor, number))

            threads = [threading.Thread(target=run, args=(con.cursor(), k)) for k in numbers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            con.close()
        return {**Counter(ends), **in_child(lambda: verdict(path))[1]}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
