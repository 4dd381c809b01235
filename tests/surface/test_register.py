"""Which connections the surface reaches, how it goes away again, and what it leaves in a file."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from chance import sampled
from conftest import PEOPLE, Connection, Open

import mwem_sql
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.session import Session
from mwem_sql.releases import tables
from mwem_sql.releases.request import Request
from mwem_sql.releases.run import run_release

ROOT = Path(__file__).resolve().parents[2]
CALL = "CALL mwem_release('people', workload, 1, rounds := 1)"
REUSED = 11  # column of the summary


def python(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A process of its own, where a crash of DuckDB is seen."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False, cwd=ROOT,
    )  # fmt: skip


def test_the_connection_itself_and_its_cursors(con: Connection) -> None:
    assert con.execute(CALL).fetchall()[0][REUSED] is False
    assert con.cursor().execute(CALL).fetchall()[0][REUSED] is True
    assert con.cursor().cursor().execute(CALL).fetchall()[0][REUSED] is True


def test_register_gives_the_connection_back_and_may_be_repeated(
    con: Connection, entries: Callable[[Connection], int]
) -> None:
    assert mwem_sql.register(con) is con
    cursor = con.cursor()
    assert mwem_sql.register(cursor) is cursor
    con.execute(CALL).fetchall()
    assert cursor.execute(CALL).fetchall()[0][REUSED] is True
    assert entries(con) == 1


def test_a_cursor_that_registered_may_be_closed(connect: Open) -> None:
    con = connect(registered=False)
    cursor = con.cursor()
    mwem_sql.register(cursor)
    cursor.close()
    mwem_sql.register(con)
    con.execute(PEOPLE)
    assert len(con.execute(CALL).fetchall()) == 1


def test_a_second_connection_to_the_same_file(
    connect: Open, tmp_path: Path, entries: Callable[[Connection], int]
) -> None:
    first = connect(tmp_path / "a.duckdb")
    first.execute(PEOPLE)
    second = connect(tmp_path / "a.duckdb", registered=False)
    assert second.execute(CALL).fetchall()[0][REUSED] is False
    mwem_sql.register(second)
    first.close()
    assert second.execute(CALL).fetchall()[0][REUSED] is True
    assert entries(second) == 1


@pytest.mark.thorough
def test_the_connection_that_registered_is_closed_while_another_goes_on(tmp_path: Path) -> None:
    done = python(
        """
        import sys, duckdb, mwem_sql
        sys.path.insert(0, "tests")
        from conftest import PEOPLE
        first = mwem_sql.connect(sys.argv[1])
        first.execute(PEOPLE)
        second = duckdb.connect(sys.argv[1])
        second.execute("SET enable_progress_bar = false")  # it would be drawn over what is printed here
        second.execute("SET enable_progress_bar = false")  # DuckDB 1.4 prints it where it takes longer
        first.close()
        del first
        print(second.execute("CALL mwem_release('people', workload, 1, rounds := 1)").fetchall()[0][1])
        print(second.execute("SELECT mwem_count('people_synthetic', 'age > 50') >= 0").fetchall())
        second.close()
        """,
        tmp_path / "a.duckdb",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["a.main.people_synthetic", "[(True,)]"]


@pytest.mark.thorough
def test_a_connection_left_open_at_exit_is_no_leak(tmp_path: Path) -> None:
    done = python(
        """
        import sys, mwem_sql
        con = mwem_sql.connect(sys.argv[1])
        other = mwem_sql.register(con.cursor())
        print(con.execute("SELECT count(*) FROM mwem_ledger()").fetchall())
        """,
        tmp_path / "a.duckdb",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[(0,)]\n", "")


def test_when_nobody_is_left_the_message_says_what_to_do() -> None:
    cursor = mwem_sql.connect().cursor()  # the connection itself is garbage at once
    gc.collect()
    try:
        with pytest.raises(
            duckdb.Error, match=r"the connection that register\(\) was called on is gone. Hint: keep it open, or call"
        ):
            cursor.execute("FROM mwem_ledger()").fetchall()
        mwem_sql.register(cursor)
        assert cursor.execute("FROM mwem_ledger()").fetchall() == []
    finally:
        cursor.close()


def test_registering_does_not_keep_a_file_open(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    mwem_sql.connect(path).close()
    done = python("import sys, duckdb; duckdb.connect(sys.argv[1]).close()", path)
    assert (done.returncode, done.stderr) == (0, "")


def test_connections_that_register_at_once(connect: Open, tmp_path: Path) -> None:
    connections = [connect(tmp_path / "a.duckdb", registered=False) for _ in range(6)]
    errors: list[Exception] = []

    def register(con: Connection) -> None:
        try:
            mwem_sql.register(con).execute("FROM mwem_ledger()").fetchall()
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=register, args=(con,)) for con in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize("same", sampled([True, False], 1))
def test_threads_with_cursors_of_their_own(
    con: Connection, entries: Callable[[Connection], int], *, same: bool
) -> None:
    """Identical calls at once make one release; different ones do not get in each other's way."""
    rows: list[tuple[object, ...]] = []
    errors: list[Exception] = []

    def call(cursor: Connection, name: str) -> None:
        try:
            rows.extend(
                cursor.execute("CALL mwem_release('people', workload, 1, rounds := 1, output := ?)", [name]).fetchall()
            )
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=call, args=(con.cursor(), "one" if same else f"out{k}")) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    wanted = 1 if same else 6
    assert len(rows) == 6
    assert len({row[0] for row in rows}) == wanted
    assert sorted(bool(row[REUSED]) for row in rows) == [False] * wanted + [True] * (6 - wanted)
    assert entries(con) == wanted
    assert con.execute("SELECT count(*), count(DISTINCT release), min(release) FROM mwem.releases").fetchall() == [
        (wanted, wanted, 1)
    ]
    assert con.execute("SELECT DISTINCT status FROM mwem.ledger").fetchall() == [("done",)]


@pytest.mark.parametrize(
    ("statement", "runs"),
    sampled([
        ("CALL {}", 1), ("FROM {}", 1), ("SELECT rows, rounds, private FROM {}", 1), ("SELECT count(*) FROM {}", 1),
        ("CREATE TABLE s AS FROM {}", 1),
        ("SELECT * FROM {}, range(3)", 1), ("SELECT * FROM range(5000) JOIN {} ON true", 1),
        ("SELECT max(rows), min(output), sum(epsilon) FROM {}", 1),
        ("SELECT * FROM {} WHERE rows > 0 AND epsilon < 2 ORDER BY seconds", 1),
        ("SELECT (SELECT rows FROM {}) FROM range(9)", 1),
        ("WITH r AS MATERIALIZED (FROM {}) SELECT * FROM r a, r b", 1), ("FROM {0} UNION ALL FROM {0}", 2),
        ("EXPLAIN CALL {}", 0), ("EXPLAIN FROM {}", 0), ("DESCRIBE FROM {}", 0), ("CREATE VIEW v AS FROM {}", 0),
        ("PREPARE p AS FROM {}", 0),
    ], 4),
)  # fmt: skip
def test_how_often_a_statement_runs_it(
    con: Connection, monkeypatch: pytest.MonkeyPatch, statement: str, runs: int
) -> None:
    """A second run would be free, but only because the first one was stored."""
    seen: list[object] = []

    def counted(session: Session, request: Request) -> tuple[Name, dict[str, Any]]:
        seen.append(request)
        return run_release(session, request)

    monkeypatch.setattr(tables, "run_release", counted)
    con.execute(statement.format("mwem_release('people', workload, 1, rounds := 1, rows := 3)")).fetchall()
    assert len(seen) == runs


def test_a_lazy_relation_runs_once_however_often_it_is_shown(
    con: Connection, entries: Callable[[Connection], int]
) -> None:
    relation = con.sql("FROM mwem_release('people', workload, 1, rounds := 1)")
    for _ in range(3):
        assert "people" in str(relation)
    relation.fetchall()
    assert entries(con) == 1


def test_bound_parameters(con: Connection, entries: Callable[[Connection], int]) -> None:
    positional = "CALL mwem_release(?, workload, ?, rounds := ?, output := ?)"
    named = "CALL mwem_release($table, workload, $epsilon, rounds := $rounds, output := $output)"
    first = con.execute(positional, ["people", 0.5, 1, "o"]).fetchall()[0]
    second = con.execute(named, {"table": "people", "epsilon": "0.5", "rounds": 1, "output": "o"}).fetchall()[0]
    assert first[1] == "memory.main.o"
    assert (first[REUSED], second[REUSED]) == (False, True)
    con.execute("PREPARE again AS FROM mwem_release('people', workload, $1, rounds := 1, output := 'o')")
    assert con.execute("EXECUTE again(0.5)").fetchall()[0][REUSED] is True
    by_name = con.execute(
        "CALL mwem_release('people', ?, 0.5, rounds := 1, output := 'o')", ["main.workload"]
    ).fetchall()[0]
    assert by_name[REUSED] is True
    assert entries(con) == 1
    assert len(con.execute("FROM mwem_answer(?, ?)", ["o", "workload"]).fetchall()) == 10
    assert len(con.execute("FROM mwem_weights(?, ?)", ["o", ["sex"]]).fetchall()) == 2
    assert len(con.execute("SELECT mwem_count($o, $p)", {"o": "o", "p": "sex = 'F'"}).fetchall()) == 1


def test_after_use_of_another_database(connect: Open, tmp_path: Path) -> None:
    con = connect(tmp_path / "a.duckdb")
    con.execute(PEOPLE)
    con.execute("ATTACH ':memory:' AS other; USE other")
    with pytest.raises(duckdb.Error, match="mwem_ledger"):
        con.execute("FROM mwem_ledger()")
    row = con.execute("CALL a.main.mwem_release('a.main.people', a.main.workload, 1, rounds := 1)").fetchall()[0]
    assert row[1] == "a.main.people_synthetic"
    mwem_sql.register(con)
    assert con.execute("SELECT mwem_count('a.people_synthetic', 'age > 50') >= 0").fetchall() == [(True,)]


def test_a_read_only_database_answers_but_cannot_be_released(connect: Open, tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    con = connect(path)
    con.execute(PEOPLE)
    con.execute(CALL).fetchall()
    mwem_sql.unregister(con)
    con.close()
    con = connect(path, read_only=True)
    assert con.execute("SELECT mwem_count('people_synthetic', 'age > 50') >= 0").fetchall() == [(True,)]
    assert con.execute(CALL).fetchall()[0][REUSED] is True
    with pytest.raises(
        duckdb.Error, match=r"is in a file that has a ledger of its own, which is attached READ_ONLY\. Hint: attach it"
    ):
        con.execute("CALL mwem_release('people', workload, 1, output := 'other')")
    mwem_sql.unregister(con)
    with pytest.raises(duckdb.Error, match="mwem_count"):
        con.execute("SELECT mwem_count('people_synthetic', 'true')")


def test_unregister(con: Connection) -> None:
    con.execute(CALL).fetchall()
    mwem_sql.unregister(con)
    left = con.execute("SELECT function_name FROM duckdb_functions() WHERE function_name LIKE 'mwem%'").fetchall()
    assert left == []
    assert con.execute("SELECT count(*) FROM mwem.ledger").fetchall() == [(1,)]
    mwem_sql.unregister(con)
    mwem_sql.register(con)
    assert con.execute(CALL).fetchall()[0][REUSED] is True


def test_unregister_after_use_of_another_schema(con: Connection) -> None:
    con.execute("CREATE SCHEMA s; USE s")
    mwem_sql.unregister(con)
    assert con.execute("SELECT count(*) FROM duckdb_functions() WHERE function_name LIKE 'mwem%'").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "leaves", sampled(["con.close()", "import os; os._exit(0)"], 1), ids=["closed", "killed with a write-ahead log"]
)
def test_a_file_opens_cleanly_in_plain_duckdb(tmp_path: Path, leaves: str) -> None:
    path = tmp_path / "a.duckdb"
    made = python(
        f"""
        import sys, mwem_sql
        sys.path.insert(0, "tests")
        from conftest import PEOPLE
        con = mwem_sql.connect(sys.argv[1])
        con.execute(PEOPLE)
        con.execute("CALL mwem_release('people', workload, 1, rounds := 1, rows := 9)").fetchall()
        assert "sklearn" not in sys.modules  # a second and more of every start: opendp.prelude would import it
        {leaves}
        """,
        path,
    )
    assert (made.returncode, made.stderr) == (0, "")
    seen = python(
        """
        import sys, duckdb
        con = duckdb.connect(sys.argv[1])
        tables = con.execute("SELECT schema_name || '.' || table_name FROM duckdb_tables() ORDER BY 1").fetchall()
        print(*(table for (table,) in tables))
        print(con.execute("SELECT count(*) FROM people_synthetic").fetchall()[0][0])
        print(con.execute("SELECT table_name, epsilon, status FROM mwem.ledger").fetchall()[0])
        con.execute("CHECKPOINT")
        try:
            con.execute("CALL mwem_release('people', workload, 1)")
        except duckdb.Error as error:
            print("_mwem_release" in str(error))
        assert "mwem_sql" not in sys.modules
        con.close()
        """,
        path,
    )
    assert (seen.returncode, seen.stderr) == (0, "")
    tables = (
        "main.people main.people_synthetic main.workload mwem.bounds mwem.certificates mwem.draws mwem.factors "
        "mwem.journal mwem.journal_head mwem.measurements mwem.releases mwem.requests mwem.schema_version "
        "mwem.withdrawals mwem.workloads"
    )
    assert seen.stdout.splitlines() == [tables, "9", "('people', 1.0, 'done')", "True"]


def test_no_python_in_a_message(con: Connection) -> None:
    """DuckDB 1.5 would show the stack of an exception that a function raises."""
    for statement in (
        "CALL mwem_release('nobody', workload, 1)",
        "SELECT mwem_count('nobody', 'true')",
        "FROM mwem_weights('nobody', ['x'])",
    ):
        with pytest.raises(duckdb.Error) as caught:
            con.execute(statement).fetchall()
        assert str(caught.value).startswith("Invalid Input Error: mwem_")
        assert "Python exception" not in str(caught.value)
        assert ".py" not in str(caught.value)
