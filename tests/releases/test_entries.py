"""Releases that go on after any draw, of one table and of several: charged once, and as what they were charged for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from conftest import PEOPLE, Connection, Open
from faults.crash import PERSONS
from interruptions import interrupted, repeated

import mwem_sql
from mwem_sql.errors import BudgetError, OutputError
from mwem_sql.platform.calls import Progress, listening

HERE = Path(__file__).resolve().parent

Release = Callable[[Connection], Any]

RELEASES: dict[str, Release] = {
    "rounds": lambda con: mwem_sql.release(con, "people", "workload", 1, rounds=3),
    "plain": lambda con: mwem_sql.release(con, "people", "workload", 1, delta=1e-6, rows=40),
    "unit": lambda con: mwem_sql.release(con, "people", "workload", 1, unit="age", rows_per_unit=2),
    "discovered": lambda con: mwem_sql.release(con, "towns", "town", 1, delta=1e-6),
    "tables": lambda con: mwem_sql.release(con, ["person", "visit"], "questions", 1, rows_per_unit=3),
}
TOWNS = """
    CREATE TABLE towns AS SELECT 'town ' || (i % 3) AS name FROM range(900) t(i);
    CREATE TABLE towns_domain AS SELECT 'name' AS attribute, true AS discover;
    CREATE TABLE town AS SELECT ['name'] AS group_by"""


def everything(con: Connection) -> dict[str, list[Any]]:
    """All that is published."""
    names = con.execute(
        "SELECT schema_name || '.' || table_name FROM duckdb_tables() WHERE table_name LIKE '%_synthetic' OR "
        "table_name IN ('measurements', 'factors', 'bounds', 'certificates', 'workloads', 'releases')"
    ).fetchall()
    out = {name: con.sql(f"FROM {name}").to_arrow_table().to_pylist() for (name,) in names}
    for row in out.get("mwem.releases", []):
        row["entry"] = ""
    return out


def draws_of(con: Connection) -> list[tuple[Any, ...]]:
    return con.execute('SELECT number, step, "values" FROM mwem.draws ORDER BY number').fetchall()


def entries_of(con: Connection) -> list[tuple[Any, ...]]:
    return con.execute("SELECT epsilon, status FROM mwem.ledger ORDER BY started").fetchall()


@pytest.fixture
def made(connect: Open) -> Callable[[], Connection]:
    """Databases that are all alike."""

    def make() -> Connection:
        con = connect()
        con.execute(f"{PEOPLE}; {PERSONS}; {TOWNS}")
        return con

    return make


@pytest.mark.parametrize(
    ("name", "every"),
    [
        *((name, False) for name in ("rounds", "discovered", "tables")),
        *(pytest.param(name, True, marks=pytest.mark.thorough) for name in RELEASES),
    ],
)
def test_it_goes_on_from_every_draw(made: Callable[[], Connection], name: str, *, every: bool) -> None:
    """Interrupted before a draw is stored, and then right after that, it is the release that it would have been."""
    release = RELEASES[name]
    with repeated():
        whole = made()
        with interrupted(-1, stored=False) as count:
            release(whole)
        wanted, many = everything(whole), count[0]
        assert many >= 3
        for draw in range(many) if every else [many // 2]:
            con = made()
            for stored in (False, True):
                with interrupted(draw, stored=stored), pytest.raises(KeyboardInterrupt):
                    release(con)
                assert len(draws_of(con)) == draw + stored
                assert entries_of(con) == [(1.0, "failed")]
                assert not everything(con)
            now = release(con)
            assert everything(con) == wanted, (draw, name)
            assert (entries_of(con), draws_of(con)) == ([(1.0, "done")], [])
            if name != "tables":
                assert f"{draw + 1} draw{' is' if draw == 0 else 's are'} of an earlier call" in now.warning
            con.close()


def test_what_was_stored_stays_and_what_was_not_is_drawn_anew(made: Callable[[], Connection]) -> None:
    """With real noise: the measurements are the stored ones, and then others than those that were lost."""
    con, lost = made(), []
    release = RELEASES["rounds"]
    for _ in range(2):
        with interrupted(4, stored=False), pytest.raises(KeyboardInterrupt):
            release(con)
        lost.append(draws_of(con))
    assert lost[0] == lost[1]  # the second one has drawn nothing but what was lost, too
    with interrupted(6, stored=True), pytest.raises(KeyboardInterrupt):
        release(con)
    kept = draws_of(con)
    assert kept[:4] == lost[0]
    release(con)
    measured = con.execute('SELECT "values" FROM mwem.measurements ORDER BY step').fetchall()
    # The total; then a selection and what it measures, in turns.
    drawn = [np.frombuffer(values, np.int64).tolist() for _, _, values in kept]
    assert [values for (values,) in measured][: 1 + 3] == [drawn[0], *drawn[2::2]]


def test_nothing_is_shown_of_what_is_not_stored(made: Callable[[], Connection]) -> None:
    """When a round is announced, with the query that was selected, all of it is stored."""
    con, seen = made(), list[tuple[int, int]]()

    def hear(news: Progress) -> None:
        if news.phase == "rounds":
            ((count,),) = con.cursor().execute("SELECT count(*) FROM mwem.draws").fetchall()
            seen.append((news.done, count))

    with listening(hear):
        RELEASES["rounds"](con)
    assert seen == [(1, 3), (2, 5), (3, 7)]


def test_another_definition_is_refused_until_it_is_what_it_was(made: Callable[[], Connection]) -> None:
    con = made()
    con.execute("CREATE VIEW old AS SELECT * FROM people WHERE age > 20")
    ask = "CALL mwem_release('old', workload, 1, rounds := 1)"
    with interrupted(2, stored=True), pytest.raises(KeyboardInterrupt):
        mwem_sql.release(con, "old", "workload", 1, rounds=1)
    con.execute("CREATE OR REPLACE VIEW old AS SELECT * FROM people WHERE age > 30")
    with pytest.raises(duckdb.Error, match=r"draw \(1\) that an earlier call of this request has stored is of another"):
        con.execute(ask)
    assert entries_of(con) == [(1.0, "failed")]
    con.execute("CREATE OR REPLACE VIEW old AS SELECT * FROM people WHERE age > 20")
    assert con.execute(ask).fetchall()
    assert entries_of(con) == [(1.0, "done")]


def test_rows_that_were_not_charged_are_refused(made: Callable[[], Connection]) -> None:
    """A view of another partition is not what the entry counts for, drawn or not; a new version is charged."""
    con = made()
    con.execute("CREATE TABLE visits AS SELECT i % 2 AS month, i % 3 AS kind FROM range(90) t(i)")
    con.execute("CREATE TABLE january_domain AS SELECT 'kind' AS attribute, 0 AS low, 2 AS high")
    con.execute("CREATE TABLE kinds AS SELECT ['kind'] AS group_by; CREATE VIEW january AS FROM visits WHERE month = 0")
    con.execute("CALL mwem_budget('visits', 5)").fetchall()
    con.execute("CALL mwem_partition('visits', 'month')").fetchall()
    for draw, stored in ((0, False), (1, True)):
        with interrupted(draw, stored=stored), pytest.raises(KeyboardInterrupt):
            mwem_sql.release(con, "january", "kinds", 1)
        con.execute("CREATE OR REPLACE VIEW january AS FROM visits WHERE month = 1")
        with pytest.raises(BudgetError, match=r"is not what this request was charged for on .*: the unit, or the rows"):
            mwem_sql.release(con, "january", "kinds", 1)
        con.execute("CREATE OR REPLACE VIEW january AS FROM visits WHERE month = 0")
    con.execute("CALL mwem_partition('visits', NULL)").fetchall()  # what it counts for grows: nothing is in the way
    mwem_sql.release(con, "january", "kinds", 1)
    assert entries_of(con) == [(1.0, "done")]


def test_a_table_that_took_the_name_is_charged_itself(made: Callable[[], Connection]) -> None:
    con = made()
    con.execute(PEOPLE.split("CREATE TABLE workload")[0].replace("people", "twins"))
    mwem_sql.release(con, "twins", "workload", 1, rounds=1)
    with interrupted(2, stored=True), pytest.raises(KeyboardInterrupt):
        RELEASES["rounds"](con)
    con.execute("ALTER TABLE people RENAME TO before; ALTER TABLE twins RENAME TO people")
    RELEASES["rounds"](con)
    assert [status for _, status in entries_of(con)] == ["done", "failed", "done"]
    assert len(draws_of(con)) == 3


def test_no_cap_is_asked_again(made: Callable[[], Connection]) -> None:
    """What goes on was charged when the cap had room; what is new is not."""
    con = made()
    con.execute("CALL mwem_budget('people', 1)").fetchall()
    with interrupted(2, stored=True), pytest.raises(KeyboardInterrupt):
        RELEASES["rounds"](con)
    con.execute("CALL mwem_budget('people', 0.5)").fetchall()
    with pytest.raises(BudgetError, match="does not fit the cap"):
        mwem_sql.release(con, "people", "workload", 1, rounds=3, version="2")
    RELEASES["rounds"](con)
    assert entries_of(con) == [(1.0, "done")]


def test_a_seeded_one_begins_anew_and_is_the_same(made: Callable[[], Connection]) -> None:
    whole, con = made(), made()
    mwem_sql.release(whole, "people", "workload", 1, rounds=3, seed=5)
    with interrupted(4, stored=True), pytest.raises(KeyboardInterrupt):
        mwem_sql.release(con, "people", "workload", 1, rounds=3, seed=5)
    assert draws_of(con) == []
    mwem_sql.release(con, "people", "workload", 1, rounds=3, seed=5)
    assert everything(con) == everything(whole)


def test_a_release_that_is_there_and_was_not_closed_is_returned(
    made: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process that dies between storing and closing leaves it."""
    con = made()
    with monkeypatch.context() as patch:
        patch.setattr("mwem_sql.accounting.ledger.Ledger.close", lambda *_: None)
        RELEASES["rounds"](con)
    assert entries_of(con) == [(1.0, "open")]
    assert len(draws_of(con)) > 3
    assert RELEASES["rounds"](con).reused
    assert con.execute("SELECT status FROM mwem_ledger()").fetchall() == [("done",)]


def test_draws_that_cannot_be_stored_are_not_used(made: Callable[[], Connection]) -> None:
    con = made()

    def drop(news: Progress) -> None:
        if news.phase == "rounds":
            con.cursor().execute("DROP TABLE mwem.draws")

    with listening(drop), pytest.raises(OutputError, match=r"a draw could not be stored.*\(memory\).*no further cost"):
        RELEASES["rounds"](con)
    assert entries_of(con) == [(1.0, "failed")]
    assert not everything(con)


@pytest.mark.parametrize("outputs", [("people_synthetic",) * 4, ("a.main.x", "b.main.x", "a.main.x", "b.main.x")])
def test_calls_at_once_go_on_with_it_once(made: Callable[[], Connection], outputs: tuple[str, ...]) -> None:
    """Of one output, one goes on and the others find it. Of two that have the same name, one is charged anew."""
    con = made()
    con.execute("ATTACH ':memory:' AS a; ATTACH ':memory:' AS b")
    with interrupted(2, stored=True), pytest.raises(KeyboardInterrupt):
        mwem_sql.release(con, "people", "workload", 1, rounds=3, output=outputs[0])
    ready, ends = threading.Barrier(len(outputs)), list[Any]()

    def ask(cursor: Connection, output: str) -> None:
        ready.wait()
        ends.append(mwem_sql.release(cursor, "people", "workload", 1, rounds=3, output=output).reused)

    threads = [threading.Thread(target=ask, args=(con.cursor(), output)) for output in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    different = len(set(outputs))
    assert sorted(ends) == [False] * different + [True] * (len(outputs) - different)
    assert entries_of(con) == [(1.0, "done")] * different
    assert draws_of(con) == []


GOES_ON = f"""
import sys
sys.path.insert(0, {str(HERE.parent)!r})
sys.path.insert(0, {str(HERE)!r})
from interruptions import interrupted, repeated
from test_entries import RELEASES
import mwem_sql
con = mwem_sql.connect(sys.argv[1])
with repeated():
    for name in ("rounds", "tables"):
        with interrupted(int(sys.argv[2]), stored=True):
            try:
                RELEASES[name](con)
            except KeyboardInterrupt:
                pass
print(con.execute("SELECT list(epsilon), list(DISTINCT status) FROM mwem.ledger").fetchall())
"""


def test_another_process_goes_on(tmp_path: Path, connect: Open) -> None:
    """Whatever the order of its sets is: nothing that is asked follows from it."""
    path = str(tmp_path / "a.duckdb")
    con = connect(path)
    con.execute(f"{PEOPLE}; {PERSONS}; {TOWNS}")
    con.close()
    for number, draw in enumerate((3, -1)):
        done = subprocess.run(
            [sys.executable, "-c", GOES_ON, path, str(draw)],
            capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, "PYTHONHASHSEED": str(number)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert "['done']" in done.stdout, done.stdout
    assert json.loads(done.stdout.split("(")[1].split("]")[0] + "]") == [1.0] * 2
