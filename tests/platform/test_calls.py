"""Calls: how they are stopped (by one Ctrl-C, from another thread, under a profiler), who learns how far they are, and
that memory stays flat over many of them.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from chance import sampled
from conftest import Connection

import mwem_sql
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.platform import calls
from mwem_sql.platform.calls import Progress, announce, frozen, listening
from mwem_sql.releases import kept

HERE = Path(__file__).resolve().parent


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}


def test_one_ctrl_c_counts_once() -> None:
    """The listener may have stopped a call, and the call may have ended, before the signal's handler runs: then it has
    nothing more to say."""
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
    wake_up._writer.send(bytes([signal.SIGINT]))
    caller.join()
    assert ended[0].startswith("f: the call was stopped")
    calls._on_signal(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):  # the next one is the caller's own
        calls._on_signal(signal.SIGINT, None)
    wake_up.close()


@pytest.mark.parametrize("how", ["sql", "python"])
def test_cancel_from_another_thread(con: Connection, how: str) -> None:
    con.execute(
        "CREATE TABLE many AS SELECT concat('age = ', i % 100, ' AND city = ''Bern'' AND member = ', i >= 100) AS "
        "predicate FROM range(200) t(i)"
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


def test_a_listener_learns_of_calls_while_its_block_runs(caplog: pytest.LogCaptureFixture) -> None:
    received: list[Progress] = []
    progress = Progress(table="people", phase="rounds", done=2, of=5, query="sex, age")
    with caplog.at_level(logging.INFO, logger="mwem_sql"):
        announce("people", "rounds", done=2, of=5, query="sex, age")
        with listening(received.append):
            announce("people", "rounds", done=2, of=5, query="sex, age")
        announce("people", "rounds", done=2, of=5, query="sex, age")
    assert received == [progress]
    assert [record.message for record in caplog.records] == ["people: rounds 2 of 5"] * 3
    assert caplog.records[0].__dict__["mwem"] == {
        "table": "people",
        "phase": "rounds",
        "done": 2,
        "of": 5,
        "query": "sex, age",
    }


def test_a_listener_that_fails_costs_nothing() -> None:
    def fail(_: Progress) -> None:
        raise RuntimeError("no terminal")

    received: list[Progress] = []
    with listening(fail), listening(received.append):
        announce("people", "reading")
    assert len(received) == 1


class Circle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture
def numbers() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect(":memory:") as con:
        con.execute(
            "CREATE TABLE t (n INTEGER NOT NULL CHECK (n BETWEEN 0 AND 255), pay INTEGER NOT NULL CHECK (pay BETWEEN "
            "0 AND 99))"
        )
        con.execute("INSERT INTO t SELECT i % 256, i % 100 FROM range(1000) AS r(i)")
        con.execute("CREATE TABLE workload (predicate VARCHAR, measure VARCHAR)")
        con.execute(
            "INSERT INTO workload SELECT 'n <= ' || i, CASE WHEN i % 20 = 0 THEN 'avg(pay)' END FROM range(100) AS r(i)"
        )
        yield con


def alive(*kinds: type) -> int:
    return sum(isinstance(item, kinds) for item in gc.get_objects())


CALLS = [
    "FROM mwem_plan('t', workload, 0.5)", "CALL mwem_release('t', workload, 0.5, version := 'next')",
    "FROM mwem_answer('t_synthetic', workload)", "FROM mwem_compare('t', 't_synthetic', workload)",
]  # fmt: skip


@pytest.mark.parametrize("call", sampled(CALLS, 2))
def test_no_query_outlives_its_call(numbers: duckdb.DuckDBPyConnection, call: str) -> None:
    """Not even without the collector: they are in no cycle. What is kept for the next question can be let go."""
    numbers.sql("CALL mwem_release('t', workload, 0.5)").fetchall()
    kept.KEPT.clear()
    gc.collect()
    before = alive(LinearQuery, Block)
    gc.disable()
    try:
        numbers.sql(call).fetchall()
        kept.KEPT.clear()
        assert alive(LinearQuery, Block) == before
    finally:
        gc.enable()


@pytest.mark.parametrize("releases", [5, pytest.param(30, marks=pytest.mark.thorough)])
def test_releases_do_not_pile_up(numbers: duckdb.DuckDBPyConnection, releases: int) -> None:
    """Statements are trees whose nodes know their parents; of all releases at most as many are there as a quarter of
    all objects."""
    counts = []
    for number in range(releases):
        numbers.sql(f"CALL mwem_release('t', workload, 0.5, version := '{number}')").fetchall()
        counts.append(len(gc.get_objects()))
    assert max(counts) < 1.3 * counts[2]


@pytest.mark.thorough
def test_what_was_frozen_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there is a quarter more than there was; a little stays for some time."""
    gc.collect()
    monkeypatch.setattr(calls._Collection, "blocks", sys.getallocatedblocks())
    much = round(0.3 * sys.getallocatedblocks())
    for count, left in ((10, 10), (10, 20), (much, 0), (10, 10), (much, 0)):
        circles = [Circle() for _ in range(count)]
        with frozen():
            del circles
        assert alive(Circle) == left


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        circles = [Circle() for _ in range(len(gc.get_objects()))]
        with frozen():
            del circles
        assert not gc.isenabled()
        assert alive(Circle) > 0
    finally:
        gc.enable()
        gc.collect()
