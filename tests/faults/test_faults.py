"""Faults lose nothing: processes killed at any step, disks that are full, crowds at one cap, calls that are stopped.

Each runs in processes of their own (crash.py, crowd.py, slow.py), which can also be run by hand. `pytest -m campaign`
runs the long ones.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import Connection, Open
from faults.crash import PERSONS, RELEASES

from mwem_sql.accounting import journal

HERE = Path(__file__).resolve().parent


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}


OUTCOMES = {"nothing", "debit", "draws", "complete"}


def run(script: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr
    print(script, *arguments, done.stdout)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ("steps", "200", "table"),
        ("steps", "250", "tables"),
        pytest.param(("steps", "70"), marks=pytest.mark.thorough),
        *(
            pytest.param(each, marks=pytest.mark.campaign)
            for each in (*(("steps", "1", name) for name in RELEASES), ("random", "300"), ("full", "24"), ("locked",))
        ),
    ],
)
def test_what_a_dead_process_leaves(arguments: tuple[str, ...]) -> None:
    for name, seen in run("crash.py", *arguments).items():
        assert seen.pop("steps") > 100
        assert set(seen) <= OUTCOMES
        if arguments[:2] == ("steps", "1"):
            assert set(seen) == OUTCOMES - ({"draws"} if name == "seeded" else set())


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("kind", "asked", "admitted"),
    [("threads", 64, 10), ("processes", 64, 10)],
)
def test_a_crowd_at_one_cap(kind: str, asked: int, admitted: int) -> None:
    seen = run("crowd.py", kind, str(asked), str(admitted))
    assert seen == {
        "made": admitted,
        "refused": asked - admitted,
        "entries": admitted,
        "status": ["done"],
        "intact": True,
        "outputs": admitted,
        "left": 0.0,
    }


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_the_same_request_many_times_is_one_release(kind: str) -> None:
    seen = run("crowd.py", kind, "5", "10", "same")
    assert seen == {"made": 1, "reused": 4, "entries": 1, "status": ["done"], "intact": True, "outputs": 1, "left": 0.9}


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_several_tables_many_times_are_charged_once_for_all(kind: str) -> None:
    """All outputs of a list or none; one account for lists that share tables, and an entry for each that is made."""
    entries = {"status": ["done"], "intact": True, "outputs": 2}
    seen = run("crowd.py", kind, "6", "10", "tables")
    assert seen == {"made": 1, "reused": 5, "entries": 1, "left": 0.9, **entries}
    seen = run("crowd.py", kind, "12", "5", "versions")
    assert seen == {"made": 5, "refused": 7, "entries": 5, "left": 0.0, **entries}
    seen = run("crowd.py", kind, "9", "10", "overlapping")
    assert seen.pop("outputs") in {2, 3}
    assert seen == {"made": 1, "reused": 2, "taken": 6, "entries": 1, "left": 0.9, "status": ["done"], "intact": True}


def at_once(con: Connection, calls: list[str]) -> list[Any]:
    """How each of the calls ended: whether it was reused, or its error."""
    ready, ends = threading.Barrier(len(calls)), []

    def ask(cursor: Connection, call: str) -> None:
        ready.wait()
        try:
            ends.append(cursor.execute(call).fetchall()[0][11])
        except duckdb.Error as error:
            ends.append(str(error))

    threads = [threading.Thread(target=ask, args=(con.cursor(), call)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


CALL = "CALL mwem_release('people', workload, 0.1, rounds := 1, rows := 5, output := 'o{}')"


@pytest.mark.parametrize("locked", [False, pytest.param(True, marks=pytest.mark.campaign)])
def test_a_crowd_of_threads(con: Connection, monkeypatch: pytest.MonkeyPatch, *, locked: bool) -> None:
    """DuckDB's snapshots alone would let two read the same sum: it is the journal's next number that only one can have,
    lock or no lock."""
    con.execute(CALL.format("")).fetchall()
    con.execute("CALL mwem_budget('people', 0.3)").fetchall()
    if not locked:
        monkeypatch.setattr(journal, "lock", lambda _: threading.Lock())
    ends = at_once(con, [CALL.format(number) for number in range(8)])
    assert ends.count(False) == 2
    assert sum("0 of 0.3 is left" in str(end) for end in ends) == 6
    assert con.execute("SELECT count(*), sum(epsilon), bool_and(status = 'done') FROM mwem.ledger").fetchall() == [
        (3, pytest.approx(0.3), True)
    ]


def test_identical_calls_at_once_are_one_release(con: Connection) -> None:
    ends = at_once(con, [CALL.format("")] * 6)
    assert sorted(ends) == [False] + [True] * 5
    assert con.execute("SELECT count(*) FROM mwem.ledger").fetchall() == [(1,)]


def test_overlapping_lists_at_once_are_one_release(con: Connection) -> None:
    """Of lists that share a table one is made; none is charged for outputs that it cannot have."""
    con.execute(PERSONS)
    con.execute("CREATE TABLE pass (pid INTEGER REFERENCES person (pid), gold BOOLEAN NOT NULL)")
    con.execute("CREATE TABLE passes AS SELECT 'gold' AS predicate; CALL mwem_budget('person', 1, unit := 'person')")
    lists = {"['person', 'visit']": "questions", "['visit', 'person']": "questions", "['pass', 'person']": "passes"}
    ends = at_once(con, [f"CALL mwem_release({one}, {asked}, 0.6, rows_per_unit := 2)" for one, asked in lists.items()])
    assert ends.count(False) == 1
    others = [end for end in ends if end is not False]
    assert all(end is True or "holds a release of another request" in end for end in others), ends
    assert con.execute("SELECT epsilon, status FROM mwem_ledger() WHERE epsilon > 0").fetchall() == [(0.6, "done")]
    made = con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE '%_synthetic'").fetchall()
    assert made == [(2,)] == con.execute("SELECT count(*) FROM mwem.releases").fetchall()


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("scan", "sql"),
        *(
            pytest.param(what, how, marks=pytest.mark.campaign)
            for what in ("scan", "rounds", "compile")
            for how in ("sql", "python")
        ),
    ],
)  # fmt: skip
def test_ctrl_c_in_a_script(tmp_path: Path, what: str, how: str) -> None:
    with subprocess.Popen(
        [sys.executable, str(HERE / "slow.py"), str(tmp_path / "a.duckdb"), what, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        told = process.stdout.readline()
        rest = process.stdout.read()
        assert process.wait(60) == 0
    assert told.startswith(
        "KeyboardInterrupt"
        if how == "python"
        else "InvalidInputException Invalid Input Error: mwem_release: the call was stopped"
    )
    # Failed, not done: it was stopped in the middle of what would take a minute.
    assert rest == ("left\n" if what == "compile" else "failed left\n")


GOES_AWAY = {
    "the registering connection is closed": "con.close(); time.sleep(1); print('still here', flush=True)",
    "the process exits": "sys.exit(0)",
    "the process exits in a hurry": "os._exit(0)",
}


@pytest.mark.parametrize(
    "leaves",
    [
        pytest.param(text, id=name, marks=() if "exits" in name and "hurry" not in name else pytest.mark.campaign)
        for name, text in GOES_AWAY.items()
    ],
)
def test_going_away_in_the_middle_of_a_release_crashes_nothing(tmp_path: Path, connect: Open, leaves: str) -> None:
    script = f"""
import os, sys, threading, time, duckdb, mwem_sql
sys.path.insert(0, {str(HERE)!r})
from slow import LONG
con = mwem_sql.connect({str(tmp_path / "a.duckdb")!r})
con.execute(LONG["rounds"])
other = duckdb.connect({str(tmp_path / "a.duckdb")!r})
def work():
    try:
        other.execute("CALL mwem_release('private', workload, 1, rounds := 1000)").fetchall()
    except BaseException as error:
        print(type(error).__name__, flush=True)
threading.Thread(target=work, daemon=True).start()
while True:
    time.sleep(0.1)
    if con.execute("SELECT count(*) FROM mwem_ledger()").fetchall() == [(1,)]:
        break
{leaves}
mwem_sql.cancel()
time.sleep(1)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    assert "Fatal" not in done.stderr
    con = connect(tmp_path / "a.duckdb")
    assert con.execute(
        "SELECT count(*), bool_and(status IN ('open', 'failed')), bool_and(intact) FROM mwem_ledger()"
    ).fetchall() == [(1, True, True)]
    assert con.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE table_name IN ('private_synthetic', 'releases')"
    ).fetchall() == [(0,)]
