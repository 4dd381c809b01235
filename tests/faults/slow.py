"""A release that takes minutes, to be interrupted: `python slow.py DATABASE scan|rounds|compile sql|python`. Says
`begun` when it is under way."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time

import duckdb

import mwem_sql

LONG = {
    # three million rows of twenty microseconds
    "scan": """
        CREATE TABLE people AS SELECT i % 100 AS age FROM range(3000000) t(i);
        CREATE VIEW private AS SELECT age + length(md5(concat(repeat('x', 10000), age))) - 32 AS age FROM people;
        CREATE TABLE private_domain AS SELECT 'age' AS attribute, 0 AS low, 99 AS high;
        CREATE TABLE workload AS SELECT 'age > 40' AS predicate""",
    "rounds": """
        CREATE TABLE private AS SELECT i % 5 AS a, i % 7 AS b, i % 11 AS c, i % 13 AS d FROM range(1000) t(i);
        CREATE TABLE private_domain AS SELECT unnest(['a', 'b', 'c', 'd']) AS attribute, 0 AS low, 29 AS high;
        CREATE TABLE workload AS SELECT concat('a = ', i % 30, ' AND b = ', i // 30 % 30, ' AND c < ',
        i % 29 + 1) AS predicate FROM range(3000) t(i)""",
    "compile": """
        CREATE TABLE private AS SELECT 1 AS a;
        CREATE TABLE private_domain AS SELECT 'a' AS attribute, 0 AS low, 99998 AS high;
        CREATE TABLE workload AS SELECT concat('a * a % ', 1000 + i, ' < 500') AS predicate FROM range(3000) t(i)""",
}  # fmt: skip


def main(path: str, what: str, how: str) -> None:
    # A shell that runs a suite in the background has all of it ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    con = mwem_sql.connect(path)
    con.execute(LONG[what])
    logging.getLogger("mwem_sql").setLevel(logging.INFO)
    probe = con.cursor()

    def tell() -> None:
        while what != "compile":
            time.sleep(0.1)
            if (
                probe.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'journal'").fetchall() == [(1,)]
                and probe.execute("FROM mwem.ledger").fetchall()
            ):
                break
        time.sleep(1)
        print("begun", flush=True)

    threading.Thread(target=tell, daemon=True).start()
    try:
        if how == "sql":
            con.execute("CALL mwem_release('private', workload, 1, rounds := 1000)").fetchall()
        else:
            mwem_sql.release(con, "private", "workload", 1, rounds=1000)
    except (duckdb.Error, RuntimeError, KeyboardInterrupt, mwem_sql.CancelledError) as error:
        print(type(error).__name__, error, flush=True)
    print(*(status for (status,) in con.execute("SELECT status FROM mwem_ledger()").fetchall()), "left", flush=True)
    con.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
