"""Many releases at once against one cap: `python tests/faults/crowd.py threads|processes ASKED ADMITTED [CALLS]`.

Each asks for 1/ADMITTED of the cap. Threads have cursors of their own; processes queue for the file, which DuckDB lets
one of them open at a time. CALLS is a key of `CALLS`: `same` is the very same release, `tables` the same of two
tables, `versions` are versions of it, and `overlapping` are lists that share tables, whose outputs only one of them can
have. Prints one JSON object: how many calls had which end, and what the ledger says.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb

import mwem_sql

sys.path.insert(0, str(Path(__file__).resolve().parent))
from crash import in_child

TABLE = """
    CREATE TABLE t (x BOOLEAN NOT NULL); INSERT INTO t SELECT i % 2 = 0 FROM range(40) r(i);
    CREATE TABLE w AS SELECT 'x' AS predicate;
    CREATE TABLE p (i INTEGER PRIMARY KEY, x BOOLEAN NOT NULL);
    CREATE TABLE q (i INTEGER REFERENCES p (i), y BOOLEAN NOT NULL);
    CREATE TABLE s (i INTEGER REFERENCES p (i), z BOOLEAN NOT NULL);
    INSERT INTO p SELECT i, i % 2 = 0 FROM range(40) r(i);
    INSERT INTO q SELECT i % 40, true FROM range(60) r(i); INSERT INTO s FROM q;
    CREATE TABLE y AS SELECT 'y' AS predicate; CREATE TABLE z AS SELECT 'z' AS predicate;
    CREATE TABLE yz AS FROM y UNION ALL FROM z"""
LISTS = [("['p', 'q']", "y"), ("['s', 'p']", "z"), ("['q', 'p', 's']", "yz")]
CALLS: dict[str, Callable[[int], str]] = {
    "": lambda number: f"CALL mwem_release('t', w, 0.1, rounds := 1, rows := 5, output := 'o{number}')",
    "same": lambda _: "CALL mwem_release('t', w, 0.1, rounds := 1, rows := 5, output := 'o0')",
    "tables": lambda _: "CALL mwem_release(['p', 'q'], y, 0.1, rows_per_unit := 2)",
    "versions": lambda number: f"CALL mwem_release(['p', 'q'], y, 0.1, rows_per_unit := 2, version := '{number}')",
    "overlapping": lambda number: "CALL mwem_release({}, {}, 0.1, rows_per_unit := 2)".format(*LISTS[number % 3]),
}
ENDS = {"does not fit the cap": "refused", "holds a release of another request": "taken"}


def make(path: Path, admitted: int) -> None:
    con = mwem_sql.connect(path)
    con.execute(TABLE)
    con.execute("CALL mwem_budget('t', ?)", [str(admitted / 10)]).fetchall()
    con.execute("CALL mwem_budget('p', ?, unit := 'p')", [str(admitted / 10)]).fetchall()
    con.close()


def ask(con: duckdb.DuckDBPyConnection, call: str) -> str:
    try:
        row = con.execute(call).fetchall()[0]
    except duckdb.Error as error:
        return next((end for text, end in ENDS.items() if text in str(error)), str(error))
    return "reused" if row[11] else "made"


def wait_for(path: Path) -> duckdb.DuckDBPyConnection:
    """Try until the file is free; now and then, because a DuckDB that is opened in vain costs as much as one that is
    used."""
    while True:
        with suppress(duckdb.IOException):
            return mwem_sql.connect(path)
        time.sleep(random.uniform(0.5, 4))


def in_process(path: Path, call: str) -> str:
    con = wait_for(path)
    try:
        return ask(con, call)
    finally:
        con.close()


def verdict(path: Path) -> dict[str, Any]:
    con = mwem_sql.connect(path)
    entries = con.execute(
        "SELECT count(*), sum(epsilon_exact::VARCHAR = '1/10'), list(DISTINCT status), (SELECT bool_and(intact) FROM "
        "mwem_ledger()) FROM mwem.ledger"
    ).fetchall()
    outputs = con.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'main' AND table_name SIMILAR TO "
        "'(o\\d+|._synthetic)'"
    ).fetchall()[0][0]
    left = con.execute("SELECT min(epsilon_left) FROM mwem_ledger() WHERE epsilon > 0").fetchall()
    con.close()
    return {
        "entries": entries[0][0],
        "status": entries[0][2],
        "intact": entries[0][3],
        "outputs": outputs,
        "left": left[0][0],
    }


def main(kind: str, asked: str, admitted: str, calls: str = "") -> dict[str, Any]:
    ends: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "t.duckdb"
        in_child(lambda: make(path, int(admitted)))
        listed = [CALLS[calls](number) for number in range(int(asked))]
        if kind == "processes":
            threads = [
                threading.Thread(target=lambda call=call: ends.append(in_child(lambda: in_process(path, call))[1]))
                for call in listed
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            con = mwem_sql.connect(path)
            ready = threading.Barrier(len(listed))

            def run(cursor: duckdb.DuckDBPyConnection, call: str) -> None:
                ready.wait()
                ends.append(ask(cursor, call))

            threads = [threading.Thread(target=run, args=(con.cursor(), call)) for call in listed]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            con.close()
        return {**Counter(ends), **in_child(lambda: verdict(path))[1]}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
