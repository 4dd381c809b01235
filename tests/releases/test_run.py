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
from chance import sampled
from conftest import PEOPLE, Connection, Open
from thresholds import few_sets

import mwem_sql
from mwem_sql.errors import (
    BudgetError,
    EngineError,
    OutputError,
    TableError,
)
from mwem_sql.kernel import composition
from mwem_sql.kernel.accountant import Accountant
from mwem_sql.kernel.scales import zcdp_epsilon
from mwem_sql.workload import Workload

ONE = Workload.from_predicates(["age > 40"])


@contextmanager
def during_a_run(act: Callable[[], object]) -> Iterator[None]:
    """Do something in the middle of a release, after the debit and before anything is stored."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if ": rounds " in record.getMessage():
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


def test_debited_once_and_done(con: Connection) -> None:
    made = mwem_sql.release(con, "people", "workload", 0.3, rounds=1)
    assert (made.reused, made.private, made.rounds, made.queries) == (False, True, 1, 3)
    rows = con.execute(
        "SELECT table_name, output, epsilon, delta, epsilon_exact, private, status, finished >= started, action FROM "
        "mwem.ledger"
    ).fetchall()
    assert rows == [("people", "memory.main.people_synthetic", 0.3, 0.0, "3/10", True, "done", True, "mwem_release")]


def test_debited_before_a_private_row_is_read(con: Connection, tmp_path: Path) -> None:
    """A file whose pages are damaged stays charged, and the message does not quote a row."""
    path = tmp_path / "damaged.parquet"
    con.execute(f"COPY (SELECT 7 + i % 9 AS age FROM range(9999) t(i)) TO '{path}'")
    with path.open("r+b") as file:  # behind the magic, far from the footer
        file.seek(4)
        file.write(b"Smith" * 20)
    con.execute(f"CREATE VIEW read AS SELECT age FROM '{path}'")
    con.execute("CREATE TABLE read_domain AS SELECT 'age' AS attribute, 0 AS low, 99 AS high")
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
    assert con.execute("SELECT sum(epsilon) FROM mwem.ledger WHERE table_name = 'read'").fetchall() == [(3.0,)]
    assert "main.read_synthetic" not in tables(con)
    assert "mwem.releases" not in tables(con)


def test_an_open_entry_is_there_while_it_runs(con: Connection) -> None:
    seen: list[list[str]] = []
    with during_a_run(lambda: seen.append(statuses(con))):
        mwem_sql.release(con, "people", "workload", 1, rounds=2)
    assert seen == [["open"], ["open"]]
    assert statuses(con) == ["done"]


def test_an_interrupted_release_stays_charged_and_goes_on(con: Connection) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with during_a_run(interrupt), pytest.raises(KeyboardInterrupt):
        mwem_sql.release(con, "people", ONE, 1)
    assert statuses(con) == ["failed"]
    assert "main.people_synthetic" not in tables(con)
    assert mwem_sql.release(con, "people", ONE, 1, output="elsewhere").reused is False
    assert statuses(con) == ["failed", "done"]
    made = mwem_sql.release(con, "people", ONE, 1)
    assert made.reused is False
    assert statuses(con) == ["done", "done"]
    assert mwem_sql.release(con, "people", ONE, 1).reused is True


def test_an_interrupted_experiment_may_be_repeated(con: Connection) -> None:
    """Nothing was charged for seeded noise."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    with during_a_run(interrupt), pytest.raises(KeyboardInterrupt):
        mwem_sql.release(con, "people", ONE, 1, seed=1)
    assert mwem_sql.release(con, "people", ONE, 1, seed=1).reused is False


def test_a_table_that_appears_in_between_is_not_touched(con: Connection) -> None:
    def appear() -> None:
        con.cursor().execute("CREATE TABLE people_synthetic AS SELECT 'mine' AS whose")

    with (
        during_a_run(appear),
        pytest.raises(OutputError, match=r"could not be written \(.* already exists.*call again, at no further cost"),
    ):
        mwem_sql.release(con, "people", ONE, 1, rounds=1)
    assert con.execute("FROM people_synthetic").fetchall() == [("mine",)]
    for table in ("releases", "measurements", "factors"):
        assert con.execute(f"SELECT count(*) FROM mwem.{table}").fetchall() == [(0,)]
    assert statuses(con) == ["failed"]
    con.execute("DROP TABLE people_synthetic")
    assert mwem_sql.release(con, "people", ONE, 1, rounds=1).reused is False
    assert statuses(con) == ["done"]


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


def test_the_default_number_of_rows_is_the_released_total(con: Connection) -> None:
    made = mwem_sql.release(con, "people", "workload", 1, rounds=2)
    ((total,),) = con.execute("SELECT total FROM mwem.releases").fetchall()
    assert made.rows == max(1, round(total)) == con.execute("SELECT count(*) FROM people_synthetic").fetchall()[0][0]


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
    few_sets(monkeypatch, 2)
    made = mwem_sql.release(con, "people", "workload", 100, fit="replay")
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
    assert 1 <= made.rounds == len(rounds) <= 3


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


def test_duplicates_of_a_query_are_measured_once_and_answered_each(con: Connection) -> None:
    asked = Workload.from_predicates(["age > 40", "NOT age <= 40", "40 < age"])
    made = mwem_sql.release(con, "people", asked, 1)
    assert (made.queries, made.rounds) == (3, 1)
    assert len(set(made.answer(asked).column("answer").to_pylist())) == 1


def test_a_private_view_over_a_file(con: Connection, tmp_path: Path) -> None:
    con.execute("COPY people TO ? (FORMAT parquet)", [str(tmp_path / "p.parquet")])
    con.execute(f"CREATE VIEW filed AS FROM '{tmp_path / 'p.parquet'}'")
    con.execute("CREATE TABLE filed_domain AS SELECT 'age' AS attribute, 0 AS low, 99 AS high")
    assert mwem_sql.release(con, "filed", ONE, 1000).rows == 400
    assert con.execute("SELECT table_name FROM mwem.ledger").fetchall() == [("filed",)]


@pytest.mark.parametrize(
    ("epsilon", "options"),
    sampled(
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
        3,
    ),
)
def test_the_maps_stay_within_epsilon(
    con: Connection, monkeypatch: pytest.MonkeyPatch, epsilon: str, options: dict[str, Any]
) -> None:
    opened: list[Accountant] = []

    class Recorded(Accountant):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            opened.append(self)

    monkeypatch.setattr(composition, "Accountant", Recorded)
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
        "mwem.bounds", "mwem.certificates", "mwem.factors", "mwem.measurements", "mwem.releases", "mwem.schema_version",
        "mwem.withdrawals",
        "mwem.workloads",
    }  # fmt: skip


@pytest.mark.parametrize(
    "macro", ["count_star() AS 7", "least(a, b) AS 1000000", "GREATEST(a, b) AS a", "hash(a, b) AS 1"]
)
def test_a_macro_does_not_change_what_a_scan_computes(con: Connection, macro: str) -> None:
    """DuckDB would take the macro for its own function: bounds that do not hold, counts that are none. Refused
    before anything is charged.
    """
    con.execute(
        f"CREATE MACRO {macro}; CREATE MACRO lower(a) AS 'x'; CREATE TABLE w AS SELECT 'age * 2' AS measure, 'sex' AS "
        "group_by"
    )
    with pytest.raises(
        TableError,
        match=r"macro \('\w+'\) has the name of a function of DuckDB's that private rows may be read with\. Hint: drop "
        r"the macro",
    ):
        mwem_sql.release(con, "people", "w", 1, unit="city", rows_per_unit=2)
    assert con.execute("FROM mwem_ledger()").fetchall() == []
