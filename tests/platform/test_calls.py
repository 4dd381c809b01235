"""Calls that are stopped: by one Ctrl-C, from another thread, and under a profiler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import pytest
from conftest import Connection

import mwem_sql
from mwem_sql.platform import calls

HERE = Path(__file__).resolve().parent


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}


def test_one_ctrl_c_is_heard_once() -> None:
    """The listener may have stopped a call, and the call may have ended, before the signal's handler runs: then it has nothing more to say."""
    wake_up = calls._WakeUp(calls._on_wake_up)
    ended: list[str] = []
    begun = threading.Event()

    def work() -> None:
        begun.set()
        while True:
            time.sleep(0.001)

    def call() -> None:
        try:
            calls.run("f", work)
        except mwem_sql.CancelledError as error:
            ended.append(str(error))

    caller = threading.Thread(target=call)
    caller.start()
    begun.wait()
    wake_up._mouth.send(bytes([signal.SIGINT]))
    caller.join()
    assert ended[0].startswith("f: the call was stopped")
    calls._on_signal(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):  # the next one is the caller's own
        calls._on_signal(signal.SIGINT, None)
    wake_up.close()


@pytest.mark.parametrize("how", ["sql", "python"])
def test_cancel_from_another_thread(con: Connection, how: str) -> None:
    con.execute(
        "CREATE TABLE many AS SELECT concat('age = ', i % 100, ' AND city = ''Bern'' AND member = ', i >= 100) AS predicate FROM range(200) t(i)"
    )
    ends: list[str] = []

    def work(cursor: Connection) -> None:
        try:
            if how == "sql":
                cursor.execute("CALL mwem_release('people', many, 1, rounds := 100000)").fetchall()
            else:
                mwem_sql.release(cursor, "people", "many", 1, rounds=100000)
        except (duckdb.Error, mwem_sql.CancelledError) as error:
            ends.append(str(error))

    assert mwem_sql.cancel() == 0
    thread = threading.Thread(target=work, args=(con.cursor(),))
    thread.start()
    while not con.execute("SELECT count(*) FROM mwem_ledger() WHERE status = 'open'").fetchall()[0][0]:
        time.sleep(0.05)
    assert mwem_sql.cancel() == 1
    thread.join(30)
    assert len(ends) == 1
    assert "mwem_release: the call was stopped. Hint: mwem_ledger() tells" in ends[0]
    assert con.execute("SELECT status, intact FROM mwem_ledger()").fetchall() == [("failed", True)]
    assert mwem_sql.cancel() == 0
    assert con.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE table_name IN ('people_synthetic', 'releases')"
    ).fetchall() == [(0,)]


PROFILED = """
import cProfile, threading, time, mwem_sql
con = mwem_sql.connect()
con.execute("CREATE TABLE t (a BOOLEAN NOT NULL, b BOOLEAN NOT NULL)")
con.execute("INSERT INTO t SELECT i % 2 = 0, i % 3 = 0 FROM range(100) r(i)")
workload = mwem_sql.Workload.from_predicates(["a", "b", "a AND b"])

def stop():
    while not mwem_sql.cancel():
        time.sleep(0.01)

threading.Thread(target=stop).start()
try:
    mwem_sql.release(con, "t", workload, 1, rounds=100000)
except mwem_sql.CancelledError:
    print(cProfile.Profile().runcall(mwem_sql.release, con, "t", workload, 1, rounds=2, version=2).rounds)
"""


@pytest.mark.thorough
def test_a_profiler_may_watch() -> None:
    """Python that looks for an exception that was taken back gets no further under a profiler."""
    done = subprocess.run(
        [sys.executable, "-c", PROFILED], capture_output=True, text=True, timeout=120, env=ENVIRONMENT, check=False
    )
    assert done.stdout == "2\n", done.stderr
