"""From request to stored output: what is refused, when it is charged, what is written, and what is free."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import PEOPLE, Connection, Open

import mwem_sql
from mwem_sql.accounting import split
from mwem_sql.accounting.accountant import Accountant
from mwem_sql.accounting.scales import zcdp_epsilon
from mwem_sql.errors import (
    BudgetError,
    CellsError,
    DomainError,
    EngineError,
    MwemError,
    OptionError,
    OutputError,
    PredicateError,
    TableError,
    WorkloadError,
)
from mwem_sql.mwem import strategy
from mwem_sql.mwem.regimes import default_rounds
from mwem_sql.workload import Workload

Entries = Callable[[Connection], int]
ONE = Workload.from_predicates(["age > 40"])


@contextmanager
def during_a_run(act: Callable[[], object]) -> Iterator[None]:
    """Do something in the middle of a release, after the debit and before anything is stored."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            assert "round" in record.getMessage()
            act()

    logger, handler = logging.getLogger("mwem_sql"), Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def statuses(con: Connection) -> list[str]:
    return [status for (status,) in con.cursor().execute("SELECT status FROM mwem.ledger ORDER BY started").fetchall()]


def tables(con: Connection) -> set[str]:
    rows = con.cursor().execute("SELECT schema_name || '.' || table_name FROM duckdb_tables()").fetchall()
    return {name for (name,) in rows}


# Every refusal is a MwemError in Python and the same sentence in SQL; nothing is charged, nothing is written.

BAD: list[tuple[type[MwemError], str, str, dict[str, Any]]] = [
    (TableError, "nobody", "age > 40", {}),
    (TableError, "joined", "age > 40", {}),
    (TableError, "counted", "age > 40", {}),
    (TableError, "ranked", "age > 40", {}),
    (TableError, "fleeting", "age > 40", {}),
    (TableError, "people", "age > 40", {"domain": "peeking"}),
    (TableError, "people", "age > 40", {"domain": "nothing"}),
    (DomainError, "people", "age > 40", {"domain": "wrong"}),
    (DomainError, "people", "name = 'x'", {}),
    (OptionError, "people", "age > 40", {"epsilon": "0"}),
    (OptionError, "people", "age > 40", {"epsilon": "-1"}),
    (OptionError, "people", "age > 40", {"epsilon": "nan"}),
    (OptionError, "people", "age > 40", {"epsilon": "inf"}),
    (OptionError, "people", "age > 40", {"epsilon": "abc"}),
    (OptionError, "people", "age > 40", {"epsilon": None}),
    (OptionError, "people", "age > 40", {"epsilon": "1e-9"}),
    (OptionError, "people", "age > 40", {"delta": "2"}),
    (OptionError, "people", "age > 40", {"rounds": 0}),
    (OptionError, "people", "age > 40", {"rounds": 1.5}),
    (OptionError, "people", "age > 40", {"rounds": 10**12}),
    (OptionError, "people", "age > 40", {"rounds": "many"}),
    (OptionError, "people", "age > 40", {"rows": 0}),
    (OptionError, "people", "age > 40", {"total": 0}),
    (OptionError, "people", "age > 40", {"total": 1e12}),
    (OptionError, "people", "age > 40", {"unit": "person"}),
    (OptionError, "people", "age > 40", {"rows_per_unit": 3}),
    (OptionError, "people", "age > 40", {"start": "warm"}),
    (OptionError, "people", "age > 40", {"average": 1}),
    (OptionError, "people", "age > 40", {"seed": -1}),
    (OutputError, "people", "age > 40", {"output": "workload"}),
    (OutputError, "people", "age > 40", {"output": "a.b.c.d"}),
    (OutputError, "people", "age > 40", {"output": "nowhere.main.x"}),
    (OutputError, "people", "age > 40", {"output": "temp.main.x"}),
    (WorkloadError, "people", "true", {}),
    (PredicateError, "people", "size > 1", {}),
    (PredicateError, "people", "age > 1 AND (", {}),
    (PredicateError, "people", "age > (SELECT 1)", {}),
    (PredicateError, "people", "age > max(age)", {}),
    (PredicateError, "people", "age > row_number() OVER ()", {}),
    (PredicateError, "people", "age > random()", {}),
    (PredicateError, "people", "now() > '2020-01-01'", {}),
    (PredicateError, "people", "getenv('HOME') = 'x'", {}),
    (PredicateError, "people", "_mwem_instance('x') = 'x'", {}),
    (CellsError, "wide", "a + b + c > 5", {}),
    (CellsError, "wide", "a = 1 AND b = 1 AND c = 1 AND d = 1", {"start": "histogram"}),
]


@pytest.fixture(scope="module")
def strict() -> Iterator[Connection]:
    con = mwem_sql.connect()
    con.execute(PEOPLE)
    con.execute(
        """ALTER TABLE people ADD COLUMN name VARCHAR;
           CREATE VIEW joined AS SELECT p.age FROM people p, workload;
           CREATE VIEW counted AS SELECT age, count(*) AS n FROM people GROUP BY age;
           CREATE VIEW ranked AS SELECT age, row_number() OVER () AS n FROM people;
           CREATE VIEW peeking AS SELECT 'age' AS attribute, min(name::INTEGER) AS low, 9 AS high FROM people;
           CREATE TABLE wrong AS SELECT 'age' AS attribute, 9 AS low, 1 AS high;
           CREATE TEMP TABLE fleeting AS FROM people;
           CREATE TABLE wide (a INTEGER CHECK (a BETWEEN 0 AND 999), b INTEGER CHECK (b BETWEEN 0 AND 999),
                              c INTEGER CHECK (c BETWEEN 0 AND 999), d INTEGER CHECK (d BETWEEN 0 AND 999));
           CREATE TABLE asked (predicate VARCHAR)"""
    )
    yield con
    con.close()


@pytest.mark.parametrize(("kind", "table", "predicate", "options"), BAD, ids=lambda value: str(value)[:40])
def test_bad_input(
    strict: Connection, kind: type[MwemError], table: str, predicate: str, options: dict[str, Any]
) -> None:
    con = strict
    con.execute("DELETE FROM asked")
    con.execute("INSERT INTO asked VALUES (?)", [predicate])
    before = tables(con)
    given = {"epsilon": "1", **options}
    if predicate.startswith("a = 1"):
        # Each query is small; the histogram of all attributes together is not.
        con.execute("DELETE FROM asked")
        con.execute(
            "INSERT INTO asked SELECT c || ' = ' || i FROM (VALUES ('a'), ('b'), ('c'), ('d')) t(c), range(60) r(i)"
        )

    with pytest.raises(MwemError) as caught:
        mwem_sql.release(con, table, "asked", **given)
    sentence = str(caught.value)
    assert type(caught.value) is kind
    assert "Hint: " in sentence

    listed = "".join(f", {name} := ${name}" for name in given if name != "epsilon")
    with pytest.raises(duckdb.Error) as raised:
        con.execute(f"CALL mwem_release($table, asked, $epsilon{listed})", {"table": table, **given})
    assert str(raised.value) == f"Invalid Input Error: {sentence}"
    assert tables(con) == before
    assert not any(name.startswith("mwem.") for name in before)


def test_what_only_python_can_get_wrong(con: Connection) -> None:
    con.execute("CREATE VIEW leaking AS SELECT 'age > ' || max(age) AS predicate FROM people")
    for kind, workload, options, wanted in [
        (
            TableError,
            "leaking",
            {},
            "workload ('leaking') is a view, and what a view reads may be private. Hint: write its rows out",
        ),
        (TableError, "people", {}, "workload ('people') is the private table itself"),
        (
            TableError,
            "nothing",
            {},
            "workload ('nothing') does not exist for this call. Hint: create it as a table and COMMIT",
        ),
        (OptionError, 5, {}, "workload (int) must be a table name, a Workload or an Arrow table"),
        (
            OptionError,
            ONE,
            {"roundz": 3},
            "option roundz is unknown. Hint: did you mean 'rounds'? the options are average, delta, domain, fit, max_cells, output, rounds,",
        ),
        (OptionError, ONE, {"epsilon": [1]}, "epsilon ([1]) must be a positive finite number"),
        (OptionError, ONE, {"rounds": True}, "rounds (True) must be a whole number"),
        (OptionError, ONE, {"output": True}, "output (True) must be text"),
    ]:
        with pytest.raises(MwemError) as caught:
            mwem_sql.release(con, "people", workload, **{"epsilon": 1, **options})  # type: ignore[arg-type]
        assert type(caught.value) is kind
        assert wanted in str(caught.value)
    assert tables(con) == {"main.people", "main.workload"}


def test_a_table_of_another_transaction_is_seen_when_it_is_committed(con: Connection) -> None:
    con.execute(
        "BEGIN; CREATE TABLE late AS FROM people; CREATE TABLE late_domain AS SELECT 'age' AS attribute, 0 AS low, 9 AS high"
    )
    with pytest.raises(
        TableError, match="one whose transaction is still open cannot be seen here: create it as a table and COMMIT"
    ):
        mwem_sql.release(con, "late", ONE, 1)
    con.execute("COMMIT")
    assert mwem_sql.release(con, "late", ONE, 1).attributes == 1


# The debit.


def test_debited_once_and_done(con: Connection) -> None:
    made = mwem_sql.release(con, "people", "workload", 0.3, rounds=1)
    assert (made.reused, made.private, made.rounds, made.queries) == (False, True, 1, 3)
    rows = con.execute(
        "SELECT table_name, output, epsilon, delta, epsilon_exact, private, status, finished >= started, action FROM mwem.ledger"
    ).fetchall()
    assert rows == [("people", "memory.main.people_synthetic", 0.3, 0.0, "3/10", True, "done", True, "mwem_release")]


def test_debited_before_a_private_row_is_read(con: Connection) -> None:
    """A view that fails on a row stays charged, and the message does not quote the row."""
    con.execute(
        """CREATE TABLE raw AS SELECT CASE WHEN i = 7 THEN 'Smith' ELSE i::VARCHAR END AS age FROM range(20) t(i);
           CREATE VIEW read AS SELECT CAST(age AS INTEGER) AS age FROM raw;
           CREATE TABLE read_domain AS SELECT 'age' AS attribute, 0 AS low, 99 AS high"""
    )
    for tries in ("1", "2"):
        with pytest.raises(
            EngineError, match=r"the private table could not be read\. Hint: the cause is withheld"
        ) as caught:
            mwem_sql.release(con, "read", ONE, 1, version=tries)
        assert "Smith" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert statuses(con) == ["failed"] * int(tries)
    with pytest.raises(duckdb.Error, match="the cause is withheld") as raised:
        con.execute("WITH w AS (SELECT 'age > 4' AS predicate) FROM mwem_release('read', w, 1)")
    assert "Smith" not in str(raised.value)
    assert con.execute("SELECT sum(epsilon) FROM mwem.ledger WHERE table_name = 'raw'").fetchall() == [(3.0,)]
    assert "main.read_synthetic" not in tables(con)
    assert "mwem.releases" not in tables(con)


def test_an_open_entry_is_there_while_it_runs(con: Connection) -> None:
    seen: list[list[str]] = []
    with during_a_run(lambda: seen.append(statuses(con))):
        mwem_sql.release(con, "people", "workload", 1, rounds=2)
    assert seen == [["open"], ["open"]]
    assert statuses(con) == ["done"]


def test_an_interrupted_release_stays_charged(con: Connection) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with during_a_run(interrupt), pytest.raises(KeyboardInterrupt):
        mwem_sql.release(con, "people", ONE, 1)
    assert statuses(con) == ["failed"]
    assert "main.people_synthetic" not in tables(con)
    for _ in range(2):
        with pytest.raises(
            BudgetError,
            match=r"this request was charged on .* UTC \(epsilon 1\) and did not come to its end \(failed\); .* Hint: give a new version",
        ):
            mwem_sql.release(con, "people", ONE, 1)
    assert statuses(con) == ["failed"]
    assert mwem_sql.release(con, "people", ONE, 1, output="elsewhere").reused is False
    assert mwem_sql.release(con, "people", ONE, 1, version="again").reused is False
    assert statuses(con) == ["failed", "done", "done"]


def test_an_interrupted_experiment_may_be_repeated(con: Connection) -> None:
    """Nothing was charged for seeded noise."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    with during_a_run(interrupt), pytest.raises(KeyboardInterrupt):
        mwem_sql.release(con, "people", ONE, 1, seed=1)
    assert mwem_sql.release(con, "people", ONE, 1, seed=1).reused is False


# Storing: all or nothing.


def test_a_table_that_appears_in_between_is_not_touched(con: Connection) -> None:
    def appear() -> None:
        con.cursor().execute("CREATE TABLE people_synthetic AS SELECT 'mine' AS whose")

    with (
        during_a_run(appear),
        pytest.raises(OutputError, match=r"could not be written \(.* already exists.*the budget of this call is spent"),
    ):
        mwem_sql.release(con, "people", ONE, 1, rounds=1)
    assert con.execute("FROM people_synthetic").fetchall() == [("mine",)]
    for table in ("releases", "measurements", "factors"):
        assert con.execute(f"SELECT count(*) FROM mwem.{table}").fetchall() == [(0,)]
    assert statuses(con) == ["failed"]


def test_an_output_database_that_goes_away(con: Connection) -> None:
    con.execute("ATTACH ':memory:' AS pub")
    with (
        during_a_run(lambda: con.cursor().execute("DETACH pub")),
        pytest.raises(OutputError, match="could not be written"),
    ):
        mwem_sql.release(con, "people", ONE, 1, rounds=1, output="pub.main.x")
    assert statuses(con) == ["failed"]


def test_a_newer_version_replaces_its_own_table_only_when_it_is_stored(con: Connection) -> None:
    mwem_sql.release(con, "people", ONE, 1, rows=5)

    def check() -> None:
        assert con.cursor().execute("SELECT count(*) FROM people_synthetic").fetchall() == [(5,)]

    with during_a_run(check):
        mwem_sql.release(con, "people", ONE, 1, rows=6, version="2")
    assert con.execute("SELECT count(*) FROM people_synthetic").fetchall() == [(6,)]


def test_inside_a_transaction_that_is_rolled_back(con: Connection) -> None:
    con.execute("BEGIN")
    con.execute("INSERT INTO people SELECT 1, 'F', true, NULL FROM range(100000)")
    made = mwem_sql.release(con, "people", ONE, 1000, rounds=1)
    con.execute("ROLLBACK")
    assert made.rows == 400  # what is not committed is not read
    assert con.execute("SELECT count(*) FROM people_synthetic").fetchall() == [(400,)]
    assert statuses(con) == ["done"]


# Reuse: decided on the request alone.


def test_the_same_request_from_sql_and_python_is_one(con: Connection, entries: Entries) -> None:
    con.execute("SET TimeZone = 'Asia/Tokyo'")
    con.execute("CALL mwem_release('people', workload, 0.5, rounds := 2, version := 'a', total := 400)").fetchall()
    by_name = mwem_sql.release(con, "main.people", "workload", 0.5, rounds=2, version="a", total=400)
    arrow = con.sql("FROM workload").to_arrow_table()
    by_rows = mwem_sql.release(
        con, "people", arrow, "0.50", rounds="2", version="a", total=400.0, output="people_synthetic"
    )
    assert (by_name.reused, by_rows.reused) == (True, True)
    assert entries(con) == 1
    con.execute("SET TimeZone = 'UTC'")
    with pytest.raises(OutputError, match="holds a release of another request"):
        mwem_sql.release(con, "people", "workload", 0.5, rounds=2, version="a", total=400)


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO people SELECT 1, 'F', true, NULL FROM range(1000)",
        "DELETE FROM people",
        "DROP TABLE people",
        "DROP TABLE people; CREATE TABLE people (x INTEGER)",
        "DROP TABLE people; CREATE VIEW people AS SELECT count(*) AS age FROM range(9)",
        "DROP TABLE people_synthetic",
        "DROP TABLE people; DROP TABLE people_synthetic",
        "DROP TABLE people_synthetic; CREATE SCHEMA people_synthetic",
    ],
)
def test_a_stored_release_is_free_whatever_happened(con: Connection, entries: Entries, change: str) -> None:
    first = mwem_sql.release(con, "people", "workload", 1, rounds=1, rows=50, seed=3)
    drawn = con.execute("FROM people_synthetic").fetchall()
    con.execute(change)
    again = mwem_sql.release(con, "people", "workload", 1, rounds=1, rows=50, seed=3)
    assert (again.release, again.rows, again.reused, first.reused) == (1, 50, True, False)
    assert con.execute("FROM people_synthetic").fetchall() == drawn
    assert entries(con) == 1


def test_a_dropped_table_of_another_schema_and_database(con: Connection) -> None:
    con.execute("ATTACH ':memory:' AS vault; CREATE SCHEMA vault.hr; CREATE SCHEMA s")
    names = ["vault.hr.people", "s.people", "vault.people"]
    for name in names:
        con.execute(f"CREATE TABLE {name} (age INTEGER CHECK (age BETWEEN 0 AND 99))")
        mwem_sql.release(con, name, ONE, 1, rows=5)
        con.execute(f"DROP TABLE {name}")
    for name in names:
        assert mwem_sql.release(con, name, ONE, 1, rows=5).reused is True


def test_the_domain_table_is_part_of_the_request(con: Connection, entries: Entries) -> None:
    con.execute("CREATE TABLE people_domain AS SELECT 'age' AS attribute, 0 AS low, 99 AS high")
    mwem_sql.release(con, "people", ONE, 1, rounds=1)
    assert mwem_sql.release(con, "people", ONE, 1, rounds=1).reused is True
    con.execute("UPDATE people_domain SET high = 120")
    with pytest.raises(OutputError, match="holds a release of another request"):
        mwem_sql.release(con, "people", ONE, 1, rounds=1)
    assert entries(con) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"epsilon": 1.5}, {"delta": 1e-9}, {"rounds": 2}, {"rows": 6}, {"total": 100}, {"unit": "age"}, {"start": "histogram"},
        {"average": True}, {"fit": "replay"}, {"max_cells": 50}, {"seed": 1}, {"workload": Workload.from_predicates(["age > 41"])}, {"domain": "narrow"}, {"table": "copy"},
    ],
    ids=lambda other: next(iter(other)),
)  # fmt: skip
def test_every_part_of_a_request_tells_it_from_others(strict_release: Connection, other: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"table": "people", "workload": ONE, "epsilon": 1, "rounds": 1, "rows": 5, "output": "o"}
    assert mwem_sql.release(strict_release, **asked).reused is True
    with pytest.raises(OutputError, match="holds a release of another request"):
        mwem_sql.release(strict_release, **{**asked, **other})


@pytest.fixture(scope="module")
def strict_release() -> Iterator[Connection]:
    con = mwem_sql.connect()
    con.execute(PEOPLE)
    con.execute(
        "CREATE TABLE narrow AS SELECT 'age' AS attribute, 0 AS low, 50 AS high; CREATE TABLE copy AS FROM people"
    )
    mwem_sql.release(con, "people", ONE, 1, rounds=1, rows=5, output="o")
    yield con
    con.close()


def test_an_older_version_keeps_its_own_state(con: Connection) -> None:
    old = mwem_sql.release(con, "people", ONE, 1000, version="old")
    con.execute("DELETE FROM people")
    new = mwem_sql.release(con, "people", ONE, 1000, version="new")
    again = mwem_sql.release(con, "people", ONE, 1000, version="old")
    assert (old.release, new.release, again.release, again.reused) == (1, 2, 1, True)
    assert again.factors.equals(old.factors)
    assert not again.factors.equals(new.factors)
    con.execute("DROP TABLE people_synthetic")
    mwem_sql.release(con, "people", ONE, 1000, version="old")
    assert con.execute("SELECT count(*) FROM people_synthetic").fetchall() == [
        (new.rows,)
    ]  # the table is the newest version's


# Output.


def test_the_default_number_of_rows_is_the_released_total(con: Connection) -> None:
    made = mwem_sql.release(con, "people", "workload", 1, rounds=2)
    ((total,),) = con.execute("SELECT total FROM mwem.releases").fetchall()
    assert made.rows == max(1, round(total)) == con.execute("SELECT count(*) FROM people_synthetic").fetchall()[0][0]


def test_a_tiny_epsilon_needs_rows(con: Connection) -> None:
    with pytest.raises(OptionError, match="the number of rows would be noise"):
        mwem_sql.release(con, "people", ONE, 1e-7)
    assert mwem_sql.release(con, "people", ONE, 1e-7, rows=3).rows == 3
    assert mwem_sql.release(con, "people", ONE, 1e-7, total=30, output="o").rows == 30


def test_metadata_holds_what_was_measured(con: Connection) -> None:
    made = mwem_sql.release(con, "people", "workload", 1, rounds=6)
    rows = con.execute(
        'SELECT step, purpose, query, name, len("values"), noise, scale FROM mwem.measurements ORDER BY step'
    ).fetchall()
    assert [row[0] for row in rows] == [1, 2, 3, 4, 5, 6, 7]
    assert [row[1] for row in rows] == ["total", *["round"] * 5, "again"]
    assert rows[0][2:5] == (None, "total", 1)
    # The three of the workload, counts with what they leave out; what the cuboid adds up to.
    asked = [
        (1, "age > 40", 2),
        (2, "sex = 'F' AND member", 4),
        (3, "sex, city", 8),
        (None, "sex", 2),
        (None, "city", 4),
    ]
    assert {row[2:5] for row in rows[1:]} == set(asked)
    assert {row[5] for row in rows} == {"laplace"}
    assert made.rounds == 6


def test_the_distributions_that_come_first_are_told_apart(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategy, "MOST_SETS", 2)
    made = mwem_sql.release(con, "people", "workload", 1)
    rows = con.execute("SELECT purpose, query, name FROM mwem.measurements ORDER BY step").fetchall()
    assert rows[:5] == [
        ("total", None, "total"),
        ("first", None, "age"),
        ("first", None, "sex"),
        ("first", None, "member"),
        ("first", None, "city"),
    ]
    rounds = [row for row in rows[5:] if row[0] != "detail"]
    assert {purpose for purpose, _, _ in rounds} == {"round"}
    assert made.rounds == len(rounds) <= 3


def test_few_sets_of_attributes_are_refined_and_nothing_is_selected(con: Connection) -> None:
    made = mwem_sql.release(con, "people", "workload", 1)
    rows = con.execute("SELECT purpose, query, name FROM mwem.measurements ORDER BY step").fetchall()
    assert [row for row in rows if row[0] != "detail"] == [
        ("round", None, name) for name in ("age", "sex, member", "sex, city")
    ]
    assert {row for row in rows if row[0] == "detail"} == {("detail", None, "age")}
    assert made.rounds == 3


def test_rounds_that_measured_again_are_counted_and_logged(con: Connection, caplog: pytest.LogCaptureFixture) -> None:
    """With room for the one-way marginals alone, all rounds but one per attribute have nothing new to ask."""
    con.execute("CREATE OR REPLACE TABLE workload AS SELECT unnest([['sex'], ['city']]) AS group_by")
    with caplog.at_level("INFO", logger="mwem_sql"):
        made = mwem_sql.release(con, "people", "workload", 1, rounds=5)
    assert con.execute("SELECT rounds, again FROM mwem.releases").fetchall() == [(5, 3)]
    assert "3 of 5 rounds measured again what is in the model" in caplog.text
    caplog.clear()
    with caplog.at_level("INFO", logger="mwem_sql"):
        mwem_sql.release(con, "people", "workload", 1, rounds=2, output="other")
    assert "again" not in caplog.text
    assert made.rounds == 5


def test_parities_of_a_small_table_take_one_histogram(con: Connection) -> None:
    con.execute(
        "CREATE TABLE bits AS SELECT range % 2 = 0 AS a, range % 3 = 0 AS b, range % 5 = 0 AS c FROM range(300)"
    )
    con.execute(
        "ALTER TABLE bits ALTER a SET NOT NULL; ALTER TABLE bits ALTER b SET NOT NULL; ALTER TABLE bits ALTER c SET NOT NULL"
    )
    con.execute("CREATE TABLE asked AS FROM mwem_parities('bits', 3)")
    made = mwem_sql.release(con, "bits", "asked", 1)
    rows = con.execute('SELECT purpose, query, name, len("values") FROM mwem.measurements').fetchall()
    assert rows == [("round", None, "a, b, c", 8)]
    assert made.rounds == 1
    shown = dict(con.execute("FROM mwem_plan('bits', asked, 1)").fetchall())
    assert (shown["candidates"], shown["selection scale"]) == ("one histogram of the whole domain", "nothing to select")
    assert mwem_sql.release(con, "bits", "asked", 1, rounds=3, output="other").rounds == 3
    # Not where a call says how it is to be done.
    for options in ("fit := 'replay'", "average := true", "start := 'histogram'"):
        shown = dict(con.execute(f"FROM mwem_plan('bits', asked, 1, {options})").fetchall())
        assert shown["candidates"] != "one histogram of the whole domain"


def test_duplicates_of_a_query_are_measured_once_and_answered_each(con: Connection) -> None:
    asked = Workload.from_predicates(["age > 40", "NOT age <= 40", "40 < age"])
    made = mwem_sql.release(con, "people", asked, 1)
    assert (made.queries, made.rounds) == (3, 1)
    assert len(set(made.answer(asked).column("answer").to_pylist())) == 1


@pytest.mark.parametrize(
    ("queries", "attributes", "rounds"), [(1, 1, 1), (3, 3, 3), (100, 1, 4), (100, 3, 6), (100, 25, 50), (20, 25, 20)]
)
def test_default_rounds(queries: int, attributes: int, rounds: int) -> None:
    assert default_rounds(queries, attributes) == rounds


def test_a_private_view_over_a_file(con: Connection, tmp_path: Path) -> None:
    con.execute("COPY people TO ? (FORMAT parquet)", [str(tmp_path / "p.parquet")])
    con.execute(f"CREATE VIEW filed AS FROM '{tmp_path / 'p.parquet'}'")
    con.execute("CREATE TABLE filed_domain AS SELECT 'age' AS attribute, 0 AS low, 99 AS high")
    assert mwem_sql.release(con, "filed", ONE, 1000).rows == 400
    assert con.execute("SELECT table_name FROM mwem.ledger").fetchall() == [("filed",)]


# The accountant, on every path through a real release.


@pytest.mark.parametrize(
    ("epsilon", "options"),
    [
        ("0.3", {"rounds": 3}),
        ("0.1", {"rounds": 7}),  # more rounds than queries
        ("1", {"total": 400}),
        ("0.7", {"start": "histogram", "rounds": 2}),
        ("0.7", {"start": "histogram", "rounds": 2, "total": 10}),
        ("1", {"average": True, "rounds": 3}),
        ("1", {"delta": 1e-6, "rounds": 40}),
        ("1", {"delta": 1e-6, "rounds": 30, "start": "histogram", "unit": "age", "rows_per_unit": 3}),
        ("1", {"delta": 1e-9, "rounds": 2}),
        ("0.9", {"unit": "age", "rows_per_unit": 5, "rounds": 2}),
        ("1e-3", {"seed": 1, "rounds": 2}),
    ],
)
def test_the_maps_stay_within_epsilon(
    con: Connection, monkeypatch: pytest.MonkeyPatch, epsilon: str, options: dict[str, Any]
) -> None:
    opened: list[Accountant] = []

    class Recorded(Accountant):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            opened.append(self)

    monkeypatch.setattr(split, "Accountant", Recorded)
    made = mwem_sql.release(con, "people", "workload", epsilon, rows=5, **options)
    (account,) = opened
    assert account.spent == account.limit
    assert 0 < account.mapped <= account.spent
    if account.kind == "pure":
        assert account.limit == Fraction(epsilon)
    else:
        assert Fraction(zcdp_epsilon(account.mapped, account.budget.delta)) <= Fraction(epsilon)
    # Each selection and each measurement has taken its share: nearly all of it, or scales are too large.
    assert account.mapped > account.spent * Fraction(99, 100)
    assert con.execute("SELECT epsilon, epsilon_exact, delta FROM mwem.ledger").fetchall() == [
        (float(epsilon), str(Fraction(epsilon)), options.get("delta", 0.0))
    ]
    assert made.epsilon == float(epsilon)


def test_a_cap_is_checked_before_anything_is_read(con: Connection) -> None:
    con.execute("CALL mwem_budget('people', 0.5)").fetchall()
    with pytest.raises(BudgetError, match=r"0\.5 of 0\.5 is left"):
        mwem_sql.release(con, "people", ONE, 1)
    with pytest.raises(BudgetError, match="a seeded release of people is refused"):
        mwem_sql.release(con, "people", ONE, 0.1, seed=1)
    assert statuses(con) == []
    assert "main.people_synthetic" not in tables(con)
    assert "mwem.releases" not in tables(con)


def test_the_output_may_be_in_a_database_of_its_own(connect: Open, tmp_path: Path) -> None:
    con = connect(tmp_path / "private.duckdb")
    con.execute(PEOPLE)
    con.execute(f"ATTACH '{tmp_path / 'pub.duckdb'}' AS pub")
    mwem_sql.release(con, "people", ONE, 1, rows=4, output="pub.main.people_synthetic")
    con.close()
    published = connect(tmp_path / "pub.duckdb")
    assert published.execute("SELECT count(*) FROM people_synthetic").fetchall() == [(4,)]
    assert published.execute("SELECT mwem_count('people_synthetic', 'age > 40') >= 0").fetchall() == [(True,)]
    assert {name for name in tables(published) if name.startswith("mwem.")} == {
        "mwem.factors", "mwem.measurements", "mwem.releases", "mwem.schema_version",
    }  # fmt: skip


@pytest.mark.parametrize(
    "macro", ["count_star() AS 7", "least(a, b) AS 1000000", "GREATEST(a, b) AS a", "hash(a, b) AS 1"]
)
def test_a_macro_does_not_change_what_a_scan_computes(con: Connection, macro: str) -> None:
    """DuckDB would take the macro for its own function: bounds that do not hold, counts that are none. Refused before anything is charged."""
    con.execute(
        f"CREATE MACRO {macro}; CREATE MACRO lower(a) AS 'x'; CREATE TABLE w AS SELECT 'age * 2' AS measure, 'sex' AS group_by"
    )
    with pytest.raises(
        TableError,
        match=r"macro \('\w+'\) has the name of a function of DuckDB's that private rows may be read with\. Hint: drop the macro",
    ):
        mwem_sql.release(con, "people", "w", 1, unit="city", rows_per_unit=2)
    assert con.execute("FROM mwem_ledger()").fetchall() == []
