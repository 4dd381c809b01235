"""PostgreSQL: what its catalog declares and what is refused, one account for one table, secrets, and failures."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest
from interruptions import interrupted
from servers import MISSING, superuser

import mwem_sql
from mwem_sql.errors import BudgetError, EngineError, TableError

pytest.importorskip("adbc_driver_postgresql", reason=MISSING)

from mwem_sql.scan.engines.postgresql import TransactionSnapshot

pytestmark = pytest.mark.engines

TABLES = """
    CREATE SCHEMA s;
    CREATE TYPE s.sex AS ENUM ('M', 'F');
    CREATE DOMAIN s.score AS numeric(6, 2) NOT NULL CHECK (VALUE >= 0 AND VALUE <= 100);
    CREATE TABLE s.people (
        age integer CHECK (age BETWEEN 0 AND 99), sex s.sex NOT NULL, city varchar(20) CHECK (city IN ('Bern',
        'Basel')),
        letter char(3) CHECK (letter IN ('a', 'b')), mark s.score, pay double precision CHECK (pay >= 0 AND pay < 1e6),
        day date CHECK (day BETWEEN '2020-01-01' AND '2020-12-31'), yes boolean, small smallint CHECK (small > 0
        AND small < 10),
        double_age integer GENERATED ALWAYS AS (age * 2) STORED CHECK (double_age >= 0 AND double_age <= 198),
        doc json, "Odd ""name" integer CHECK ("Odd ""name" IN (1, 2))
    );
    INSERT INTO s.people (age, sex, city, letter, mark, pay, day, yes)
    SELECT i % 100, (CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END)::s.sex, (ARRAY['Bern', 'Basel', NULL])[1 + i % 3], 'a',
    i % 100, i,
        DATE '2020-01-01' + i % 366, i % 2 = 0 FROM generate_series(0, 999) AS i;
    CREATE VIEW s.old AS SELECT age, sex, lower(city::text) AS lower_city, city AS town FROM s.people WHERE age > 50;
    CREATE VIEW s.older AS SELECT age FROM s.old WHERE age > 60;
    CREATE VIEW s.counted AS SELECT age, count(*) AS n FROM s.people GROUP BY age;
    CREATE VIEW s.ranked AS SELECT age, row_number() OVER () AS n FROM s.people;
    CREATE VIEW s.joined AS SELECT a.age FROM s.people AS a, s.people AS b;
    CREATE VIEW s.timed AS SELECT age, clock_timestamp() AS now FROM s.people;
    CREATE FUNCTION s.peek(integer) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM s.people';
    CREATE VIEW s.peeking AS SELECT age, s.peek(age) AS n FROM s.people;
    CREATE OPERATOR s.+ (FUNCTION = s.peek, RIGHTARG = integer);
    CREATE VIEW s.operating AS SELECT age, OPERATOR(s.+) age AS n FROM s.people;
    CREATE MATERIALIZED VIEW s.kept AS SELECT age FROM s.people;
    CREATE TABLE s.secured (x boolean NOT NULL);
    ALTER TABLE s.secured ENABLE ROW LEVEL SECURITY;
    CREATE VIEW s.over_secured AS SELECT x FROM s.secured;
    CREATE TABLE s.closed (x boolean NOT NULL);
    CREATE TABLE s.parts (k integer NOT NULL CHECK (k >= 0 AND k <= 9), x boolean NOT NULL) PARTITION BY RANGE (k);
    CREATE TABLE s.part_1 PARTITION OF s.parts FOR VALUES FROM (0) TO (5);
    CREATE TABLE s.part_2 PARTITION OF s.parts FOR VALUES FROM (5) TO (10);
    INSERT INTO s.parts SELECT i % 10, i % 3 = 0 FROM generate_series(1, 500) AS i;
    GRANT USAGE ON SCHEMA s TO reader;
    GRANT SELECT ON s.people, s.old, s.older, s.counted, s.ranked, s.joined, s.timed, s.peeking, s.operating, s.kept,
    s.secured, s.over_secured, s.parts, s.part_1, s.part_2 TO reader
"""


@pytest.fixture
def admin(postgresql: int) -> Iterator[Any]:
    with superuser(postgresql) as connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS s CASCADE")
        for statement in TABLES.split(";\n"):
            cursor.execute(statement)
        yield cursor


@pytest.fixture
def con(connect: Any, admin: Any, postgresql: int) -> duckdb.DuckDBPyConnection:  # noqa: ARG001
    con: duckdb.DuckDBPyConnection = connect()
    con.execute("CREATE TABLE workload AS SELECT unnest(['age > 40 AND pay < 500', 'sex = ''F''']) AS predicate")
    con.execute(f"CALL mwem_attach('w', 'postgresql://reader@127.0.0.1:{postgresql}/postgres')")
    return con


def refused(con: duckdb.DuckDBPyConnection, name: str) -> str:
    with pytest.raises(duckdb.Error) as caught:
        con.execute(f"FROM mwem_domain('{name}')")
    return str(caught.value)


def statuses(con: duckdb.DuckDBPyConnection) -> list[Any]:
    return con.execute("SELECT table_name, epsilon, status FROM mwem_ledger() ORDER BY started").fetchall()


def test_the_catalog_declares_the_domain(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT attribute, type, \"values\", low, high, nullable FROM mwem_domain('w.s.people')"
    ).fetchall()
    assert rows == [
        ("age", "INTEGER", None, "0", "99", True), ("sex", "ENUM('M', 'F')", ["M", "F"], None, None, False),
        ("city", "VARCHAR", ["Bern", "Basel"], None, None, True), ("letter", "VARCHAR", ["a", "b"], None, None, True),
        ("mark", "DECIMAL(6,2)", None, "0.00", "100.00", False),
        ("pay", "DOUBLE", None, "0.0", "999999.9999999999", True),
        ("day", "DATE", None, "2020-01-01", "2020-12-31", True),
        ("yes", "BOOLEAN", ["false", "true"], None, None, True),
        ("small", "SMALLINT", None, "1", "9", True), ("double_age", "INTEGER", None, "0", "198", True),
        ('Odd "name', "INTEGER", ["1", "2"], None, None, True),
    ]  # fmt: skip
    seen = con.execute("SELECT attribute, declared FROM mwem_domain('w.s.old') WHERE declared IS NOT NULL").fetchall()
    assert seen == [("age", "CHECK"), ("sex", "ENUM"), ("town", "CHECK")]


def test_every_function_takes_a_table_of_the_source(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE asked AS FROM mwem_marginals('w.s.parts', 1)")
    con.execute("FROM mwem_ranges('w.s.people', 'age', 3)").fetchall()
    con.execute("FROM mwem_plan('w.s.parts', asked, 1.0)").fetchall()
    con.execute("CALL mwem_budget('w.s.parts', 100)").fetchall()
    rows = con.execute("SELECT output, private FROM mwem_release('w.s.parts', asked, 50)").fetchall()
    assert rows == [("memory.main.parts_synthetic", True)]
    true = con.execute("SELECT true_answer FROM mwem_compare('w.s.parts', 'parts_synthetic', asked)").fetchall()
    assert sum(answer for (answer,) in true) == 2 * 500
    assert con.execute("SELECT count(*) FROM mwem_suggest_domain('w.s.parts')").fetchall() == [(2,)]
    assert con.execute("SELECT reused FROM mwem_release('w.s.parts', asked, 50)").fetchall() == [(True,)]


def test_suggestions_are_those_of_the_rows(con: duckdb.DuckDBPyConnection, admin: Any) -> None:
    """The same questions as of rows that are here, but for the view, which nobody can make from here."""
    admin.execute(
        """CREATE TABLE s.visits AS SELECT i / 8 AS person, (1 + i % 5)::double precision AS rating,
            (i % 800)::double precision AS minutes,
            (i % 800)::numeric(8, 2) AS cost, CASE WHEN i = 7 THEN 58 ELSE (i % 997) / 997.0
            END::double precision AS share,
            (ARRAY[10, 20, 50, 1000])[1 + i % 4] AS coin, DATE '2020-01-01' + i % 900 AS day,
            TIMESTAMP '2020-01-01' + INTERVAL '1 hour' * (i % 900) AS moment,
            CASE WHEN i % 10 = 0 THEN 'N' ELSE (i % 30)::text END AS score, CASE WHEN i % 9 > 0 THEN 0 ELSE 1 + i
            END AS gain,
            CASE WHEN i % 7 = 0 THEN 'NaN'::double precision ELSE i % 4 END AS odd FROM generate_series(0, 3999) AS i"""
    )
    admin.execute("GRANT SELECT ON s.visits TO reader")
    rows = con.execute(
        """SELECT attribute, len("values"), low, high, step, bins, len(edges), read_as, rows_per_unit FROM """
        """mwem_suggest_domain('w.s.visits')"""
    ).fetchall()
    none = (None, None)
    assert rows == [
        ("person", None, None, None, None, None, None, None, 8), ("rating", 5, None, None, None, None, None, *none),
        ("minutes", None, "0", "800", None, 16, None, *none), ("cost", None, "0", "800", None, 16, None, *none),
        ("share", None, "0", "60", None, None, 20, *none), ("coin", 4, None, None, None, None, None, *none),
        ("day", None, "2019-01-01", "2022-12-31", None, None, 11, *none),
        ("moment", None, "2019-12-31 00:00:00", "2020-02-08 00:00:00", None, None, 24, *none),
        ("score", 28, None, None, None, None, None, *none),
        ("gain", None, "0", "4000", None, None, 8, *none), ("odd", 4, None, None, None, None, None, *none),
    ]  # fmt: skip
    (script, *_), *_ = con.execute("SELECT script FROM mwem_suggest_domain('w.s.visits')").fetchall()
    for statement in duckdb.extract_statements(script):
        con.execute(statement).fetchall()
    assert con.execute("SELECT count(*) > 0 FROM visits_synthetic").fetchall() == [(True,)]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("counted", "aggregates"), ("ranked", "uses windows"), ("joined", "joins"), ("timed", "calls clock_timestamp"),
        ("peeking", r"calls \w+"),
        ("operating", ""), ("kept", "is a materialized view, whose rows are computed"),
        ("secured", "has row-level security"),
        ("over_secured", "has row-level security"), ("closed", "may not be read by this role"),
        ("nothing", "does not exist in the source"),
    ],
)  # fmt: skip
def test_what_is_no_row_wise_relation_is_refused(con: duckdb.DuckDBPyConnection, table: str, reason: str) -> None:
    with pytest.raises(duckdb.Error, match=rf"mwem_domain: (table|view) .*{reason}"):
        con.execute(f"FROM mwem_domain('w.s.{table}')")
    assert con.execute("FROM mwem_ledger()").fetchall() == []


def test_one_table_is_one_account_by_whatever_name(con: duckdb.DuckDBPyConnection, admin: Any, postgresql: int) -> None:
    con.execute(f"CALL mwem_attach('again', 'postgresql://postgres@localhost:{postgresql}/postgres')")
    con.execute("CALL mwem_budget('w.s.people', 1)")
    con.execute("CREATE TABLE asked AS SELECT 'age > 70' AS predicate")
    con.execute("CALL mwem_release('w.s.people', asked, 0.5, rows := 5)").fetchall()
    assert con.execute("SELECT reused FROM mwem_release('again.s.people', asked, 0.5, rows := 5)").fetchall() == [
        (True,)
    ]
    con.execute("CALL mwem_release('again.s.older', asked, 0.25, rows := 5)").fetchall()
    admin.execute("ALTER TABLE s.people RENAME TO citizens")
    with pytest.raises(duckdb.Error, match=r"0\.25 of 1 is left"):
        con.execute("CALL mwem_release('w.s.citizens', asked, 0.5, rows := 5)")
    names = con.execute("SELECT DISTINCT database_name FROM mwem_ledger()").fetchall()
    assert [name.rpartition(":")[2] for (name,) in names] == [f"{postgresql}/postgres"] * len(names)


def test_a_unit_is_a_column_and_not_a_name(con: duckdb.DuckDBPyConnection, admin: Any) -> None:
    """Two columns that exchange their names; and a table that is made again, as nightly jobs do, whose names decide."""
    made = "CREATE TABLE s.visits AS SELECT 7 AS person, i AS room, i % 2 = 0 AS x FROM generate_series(1, 40) AS i"
    admin.execute(made)
    con.execute("CREATE TABLE asked AS SELECT 'x' AS predicate")
    admin.execute("GRANT SELECT ON s.visits TO reader")
    con.execute("CALL mwem_budget('w.s.visits', 1, unit := 'person', rows_per_unit := 3)")
    call = (
        "CALL mwem_release('w.s.visits', asked, 0.25, rows := 5, unit := 'person', rows_per_unit := 3, output := '{}')"
    )
    for old, new in (("person", "y"), ("room", "person"), ("y", "room")):
        admin.execute(f"ALTER TABLE s.visits RENAME {old} TO {new}")
    with pytest.raises(duckdb.Error, match="cannot be counted under the cap on visits"):
        con.execute(call.format("o"))
    for number in range(2):
        for output in ("a", "b"):
            if output == "a":
                for statement in ("DROP TABLE s.visits", made, "GRANT SELECT ON s.visits TO reader"):
                    admin.execute(statement)
            con.execute(call.format(f"{output}{number}")).fetchall()
    with pytest.raises(duckdb.Error, match="0 of 1 is left"):
        con.execute(call.format("o"))
    assert con.execute("SELECT count(DISTINCT unit_id), bool_and(intact) FROM mwem.ledger, "
                       "mwem_ledger()").fetchall() == [(1, True)]  # fmt: skip


def test_partitions_are_charged_to_their_table(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE asked AS SELECT 'x' AS predicate; CALL mwem_budget('w.s.parts', 1)")
    con.execute("CALL mwem_release('w.s.part_1', asked, 0.9, rows := 5)").fetchall()
    with pytest.raises(duckdb.Error, match=r"0\.1 of 1 is left"):
        con.execute("CALL mwem_release('w.s.part_2', asked, 0.9, rows := 5)")


def test_the_ledger_is_where_attach_says(con: duckdb.DuckDBPyConnection, postgresql: int, tmp_path: Any) -> None:
    con.execute(f"ATTACH '{tmp_path}/curator.duckdb' AS curator")
    source = f"postgresql://reader@127.0.0.1:{postgresql}/postgres"
    with pytest.raises(
        duckdb.Error, match=r"ledger \('curator'\) is not the one that this source has as 'w', 'memory'"
    ):
        con.execute(f"CALL mwem_attach('v', '{source}', ledger := 'curator')")
    con.execute("CALL mwem_detach('w')")
    con.execute(f"CALL mwem_attach('v', '{source}', ledger := 'curator', timeout := 60)")
    con.execute("CALL mwem_release('v.s.people', workload, 1, rows := 5, output := 'o')").fetchall()
    assert con.execute("SELECT count(*) FROM curator.mwem.ledger").fetchall() == [(1,)]
    assert con.execute("SELECT kind, ledger, timeout FROM mwem_sources()").fetchall() == [
        ("postgresql", "curator", 60.0)
    ]
    with pytest.raises(duckdb.Error, match="is not that of an attached source"):
        con.execute("CALL mwem_detach('w')")


def test_no_secret_is_shown(con: duckdb.DuckDBPyConnection, postgresql: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "hunter2secret"
    texts = [
        f"postgresql://reader:{secret}@127.0.0.1:{postgresql}/postgres",
        f"postgresql://127.0.0.1:{postgresql}/postgres?user=reader&password={secret}",
        f"host=127.0.0.1 password={secret}", f"sc://127.0.0.1:1/;token={secret}",
    ]  # fmt: skip
    for text in texts:
        with pytest.raises(duckdb.Error, match="source has a password or token in it") as caught:
            con.execute("CALL mwem_attach('x', ?)", [text])
        assert secret not in str(caught.value)
    with pytest.raises(EngineError, match="cannot be reached") as failed:
        mwem_sql.attach(con, "x", f"postgresql://reader:{secret}@127.0.0.1:1/postgres?connect_timeout=2")
    assert secret not in str(failed.value) and failed.value.__cause__ is None
    mwem_sql.attach(con, "x", texts[0])  # in Python it may have one; this server trusts everybody
    con.execute("CALL mwem_release('x.s.people', workload, 1, rows := 5)").fetchall()
    kept = con.execute("SELECT sources::VARCHAR FROM mwem_sources() AS sources").fetchall()
    kept += con.execute("SELECT entry::VARCHAR FROM mwem_ledger() AS entry").fetchall()
    kept += con.execute("SELECT j::VARCHAR FROM mwem.journal AS j").fetchall()
    assert kept and not any(secret in text for (text,) in kept) and secret not in caplog.text


def test_an_adbc_connection_is_a_source(con: duckdb.DuckDBPyConnection, postgresql: int) -> None:
    with superuser(postgresql) as own:
        mwem_sql.attach(con, "mine", own)
        r = mwem_sql.release(con, "mine.s.people", "workload", epsilon=1, rows=5)
        mwem_sql.detach(con, "mine")
        with own.cursor() as cursor:  # the user's own goes on
            cursor.execute("SELECT 1 AS one")
            assert r.rows == 5 and cursor.fetch_arrow_table().to_pylist() == [{"one": 1}]


# Failures after the debit: a failed entry, nothing written, one sentence, and no second reading.


def fails(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], sentence: str,
    repair: Callable[[], object] = lambda: None,
) -> None:  # fmt: skip
    """Have something happen just before the first scan of a release, and see what is left of it."""
    run, reads = TransactionSnapshot.run, []

    def once(self: TransactionSnapshot, statement: str, rows: int) -> Any:
        reads.append(statement)
        act()
        return run(self, statement, rows)

    monkeypatch.setattr(TransactionSnapshot, "run", once)
    with pytest.raises(duckdb.Error) as caught:
        con.execute("CALL mwem_release('w.s.people', workload, 1, rows := 5)")
    assert sentence in str(caught.value)
    assert len(reads) == 1
    assert statuses(con) == [("people", 1.0, "failed")]
    assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'people_synthetic'").fetchall() == [
        (0,)
    ]
    monkeypatch.undo()
    goes_on(con, repair)


def goes_on(con: duckdb.DuckDBPyConnection, repair: Callable[[], object] = lambda: None) -> None:
    """The same call, for the same debit."""
    repair()
    con.execute("CALL mwem_release('w.s.people', workload, 1, rows := 5)").fetchall()
    assert statuses(con) == [("people", 1.0, "done")]


WITHHELD = "engine: the private table could not be read. Hint: the cause is withheld"


def test_a_killed_backend(con: duckdb.DuckDBPyConnection, admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fails(
        con, monkeypatch,
        lambda: admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'"),
        WITHHELD
    )  # fmt: skip


def test_a_statement_that_takes_too_long(
    con: duckdb.DuckDBPyConnection, admin: Any, postgresql: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    con.execute("CALL mwem_detach('w')")
    con.execute(f"CALL mwem_attach('w', 'postgresql://reader@127.0.0.1:{postgresql}/postgres', timeout := 2)")
    admin.execute("INSERT INTO s.people (age, sex, mark) SELECT 1, 'F', 1 FROM generate_series(1, 1000)")
    slow = TransactionSnapshot.run

    def sleep(self: TransactionSnapshot, statement: str, rows: int) -> Any:  # noqa: ARG001
        return slow(self, "SELECT pg_sleep(600)::text", rows)

    monkeypatch.setattr(TransactionSnapshot, "run", sleep)
    with pytest.raises(duckdb.Error, match="the private table could not be read"):
        con.execute("CALL mwem_release('w.s.people', workload, 1, rows := 5)")
    assert statuses(con) == [("people", 1.0, "failed")]


def test_a_right_that_was_taken_back(
    con: duckdb.DuckDBPyConnection, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(
        con, monkeypatch, lambda: admin.execute("REVOKE SELECT ON s.people FROM reader"), WITHHELD,
        lambda: admin.execute("GRANT SELECT ON s.people TO reader"),
    )  # fmt: skip


@pytest.mark.parametrize("stored", [False, True])
def test_a_release_goes_on_from_its_draws(con: duckdb.DuckDBPyConnection, admin: Any, *, stored: bool) -> None:
    """Of rows that were written in between, too, but not of another definition."""
    ask = "CALL mwem_release('w.s.people', workload, 1, rows := 5)"
    with interrupted(2, stored=stored), pytest.raises((duckdb.Error, KeyboardInterrupt)):
        con.execute(ask)
    ((drawn,),) = con.execute("SELECT count(*) FROM mwem.draws").fetchall()
    assert drawn == 2 + stored
    admin.execute("ALTER TABLE s.people ADD COLUMN more integer")
    with pytest.raises(duckdb.Error, match="has stored is of another step"):
        con.execute(ask)
    admin.execute("ALTER TABLE s.people DROP COLUMN more")
    admin.execute("INSERT INTO s.people (age, sex, mark) VALUES (1, 'F', 1)")
    goes_on(con)
    assert con.execute("FROM mwem.draws").fetchall() == []


def test_a_schema_that_changed_between_charge_and_scan(
    con: duckdb.DuckDBPyConnection, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once described within the transaction, a table is locked against DDL; before that a change is seen."""
    describe = TransactionSnapshot.describe
    seen: list[str] = []

    def later(self: TransactionSnapshot, parts: Any, function: str) -> Any:
        seen.append(function)
        if len(seen) == 2:  # that of the plan came first, on a connection of its own
            admin.execute("ALTER TABLE s.people ADD COLUMN more integer")
        return describe(self, parts, function)

    monkeypatch.setattr(TransactionSnapshot, "describe", later)
    with pytest.raises(duckdb.Error, match="the private table or its files were replaced or written to"):
        con.execute("CALL mwem_release('w.s.people', workload, 1, rows := 5)")
    assert statuses(con) == [("people", 1.0, "failed")]
    monkeypatch.undo()
    goes_on(con)


def test_a_call_can_be_stopped(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    run, started = TransactionSnapshot.run, threading.Event()

    def sleep(self: TransactionSnapshot, statement: str, rows: int) -> Any:  # noqa: ARG001
        started.set()
        return run(self, "SELECT pg_sleep(600)::text", rows)

    monkeypatch.setattr(TransactionSnapshot, "run", sleep)
    stopper = threading.Thread(target=lambda: started.wait() and mwem_sql.cancel())
    stopper.start()
    with pytest.raises(duckdb.Error, match="the call was stopped"):
        con.execute("CALL mwem_release('w.s.people', workload, 1, rows := 5)")
    stopper.join()
    assert statuses(con) == [("people", 1.0, "failed")]


def test_a_server_that_does_not_answer_is_not_charged(con: duckdb.DuckDBPyConnection, postgresql: int) -> None:
    with pytest.raises(duckdb.Error, match=r"mwem_attach: source \(postgresql\) cannot be reached"):
        con.execute("CALL mwem_attach('x', 'postgresql://nobody@127.0.0.1:1/postgres?connect_timeout=2')")
    with pytest.raises((BudgetError, TableError, EngineError)):
        mwem_sql.release(con, "w.s.closed", "workload", epsilon=1)
    assert statuses(con) == [] and postgresql


def test_statements_hold_no_private_value(
    con: duckdb.DuckDBPyConnection, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the server logs is the same whatever is in the table."""
    run, texts = TransactionSnapshot.run, [[], []]  # type: ignore[var-annotated]
    for k, own in enumerate(texts):

        def noted(self: TransactionSnapshot, statement: str, rows: int, own: list[str] = own) -> Any:
            own.append(statement)
            return run(self, statement, rows)

        monkeypatch.setattr(TransactionSnapshot, "run", noted)
        con.execute(f"CALL mwem_release('w.s.people', workload, 1, rows := 5, version := '{k}')").fetchall()
        admin.execute("UPDATE s.people SET age = 77, city = NULL, pay = 1")
    assert texts[0] == texts[1] != []
