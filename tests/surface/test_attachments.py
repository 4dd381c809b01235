"""mwem_attach, mwem_detach and mwem_sources, with a DuckDB file that is opened apart: it needs no server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from chance import sampled

import mwem_sql
from mwem_sql.errors import OptionError, TableError
from mwem_sql.scan import engines

Open = Callable[..., duckdb.DuckDBPyConnection]


@pytest.fixture
def private(tmp_path: Path) -> Path:
    path = tmp_path / "private.duckdb"
    with duckdb.connect(str(path)) as own:
        own.execute(
            """CREATE TABLE people (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99), sex ENUM ('F', 'M') NOT NULL);
               INSERT INTO people SELECT i % 100, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END FROM range(300) AS t(i);
               CREATE VIEW old AS SELECT age FROM people WHERE age >= 50"""
        )
    return path


@pytest.fixture
def con(connect: Open, tmp_path: Path, private: Path) -> duckdb.DuckDBPyConnection:
    con = connect(tmp_path / "curator.duckdb")
    con.execute("CREATE TABLE workload AS SELECT unnest(['age > 40', 'age < 20']) AS predicate")
    con.execute("CALL mwem_attach('w', ?)", [str(private)])
    return con


def test_a_file_apart_is_released_into_the_curators_database(con: duckdb.DuckDBPyConnection, private: Path) -> None:
    rows = con.execute("SELECT output, private FROM mwem_release('w.people', workload, 1, rows := 5)").fetchall()
    assert rows == [("curator.main.people_synthetic", True)]
    assert con.execute("SELECT reused FROM mwem_release('w.main.people', workload, 1, rows := 5)").fetchall() == [
        (True,)
    ]
    seen = con.execute("SELECT true_answer FROM mwem_compare('w.people', 'people_synthetic', workload)").fetchall()
    assert seen == [(177.0,), (60.0,)]
    ledger = con.execute("SELECT database_name, table_name, action FROM mwem_ledger() ORDER BY started").fetchall()
    assert ledger == [(str(private), "people", "mwem_release"), (str(private), "people", "mwem_compare")]
    assert con.execute("FROM mwem_sources()").fetchall() == [("w", "duckdb", str(private), "curator", None)]


def test_nothing_of_the_callers_instance_is_in_it(
    con: duckdb.DuckDBPyConnection, private: Path, tmp_path: Path
) -> None:
    con.execute("CREATE TABLE secret AS SELECT 1 AS x")
    with pytest.raises(duckdb.Error, match=r"table \('\"secret\"'\) does not exist for this call"):
        con.execute("FROM mwem_domain('w.secret')")
    con.execute("CALL mwem_detach('w')")
    con.execute(f"COPY (SELECT 1 AS x) TO '{tmp_path}/some.parquet'")
    with duckdb.connect(str(private)) as own:
        own.execute(f"CREATE VIEW outside AS FROM '{tmp_path}/some.parquet'")
    con.execute("CALL mwem_attach('w', ?)", [str(private)])
    with pytest.raises(duckdb.Error, match=r"mwem_domain: .*outside"):
        con.execute("FROM mwem_domain('w.outside')")
    assert con.execute("SELECT count(*) FROM duckdb_databases() WHERE path = ?", [str(private)]).fetchall() == [(0,)]


def test_accounts_go_by_the_file_and_not_by_the_alias(
    con: duckdb.DuckDBPyConnection, private: Path, tmp_path: Path
) -> None:
    con.execute("CALL mwem_budget('w.people', 1)").fetchall()
    con.execute("CALL mwem_release('w.people', workload, 0.5, rows := 5)").fetchall()
    con.execute("CALL mwem_detach('w')").fetchall()
    link = tmp_path / "link.duckdb"
    link.symlink_to(private)
    con.execute("CALL mwem_attach('other', ?)", [str(link)])
    with pytest.raises(duckdb.Error, match=r"0\.5 of 1 is left"):
        con.execute("CALL mwem_release('other.old', workload, 0.6, rows := 5)")
    con.execute("CALL mwem_detach('other')").fetchall()
    con.execute(f"ATTACH '{private}' AS direct (READ_ONLY)")  # the same rows by another way
    with pytest.raises(duckdb.Error, match=r"0\.5 of 1 is left"):
        con.execute("CALL mwem_release('direct.people', workload, 0.6, rows := 5, output := 'o')")


@pytest.mark.parametrize(
    "before",
    sampled(
        [
            "CALL mwem_budget('people', 1)",
            "CALL mwem_budget('people', 1); ALTER TABLE people RENAME TO crowd; CREATE VIEW people AS FROM crowd",
            (
                "CALL mwem_budget('people', 1); CREATE TABLE copied AS FROM people; ALTER TABLE people RENAME TO x; "
                "ALTER "
                "TABLE copied RENAME TO people"
            ),
            "CALL mwem_policy(require_caps := true)",
            "CALL mwem_release('people', asked, 1, rows := 5)",
        ],
        2,
    ),
)
def test_a_file_with_a_ledger_answers_for_its_tables_itself(
    connect: Open, con: duckdb.DuckDBPyConnection, private: Path, before: str
) -> None:
    """A cap, a policy or what was spent there can neither be kept nor counted where the file is only read."""
    con.execute("CALL mwem_detach('w')").fetchall()
    there = connect(private)
    there.execute(f"CREATE TABLE asked AS SELECT 'age > 40' AS predicate; {before}").fetchall()
    there.close()
    con.execute("CALL mwem_attach('w', ?)", [str(private)])
    for call in ("CALL mwem_release('w.people', workload, 0.5, rows := 5)", "CALL mwem_budget('w.people', 9)"):
        with pytest.raises(duckdb.Error, match="that has a ledger of its own, and is opened to be read only"):
            con.execute(call)
    con.execute("CALL mwem_detach('w')").fetchall()
    con.execute(f"ATTACH '{private}' AS direct (READ_ONLY)")
    with pytest.raises(duckdb.Error, match="that has a ledger of its own, which is attached READ_ONLY"):
        con.execute("CALL mwem_budget('direct.people', 9)")


@pytest.mark.parametrize(
    "change",
    sampled(
        [
            "ALTER TABLE people RENAME TO crowd",
            "CREATE TABLE crowd AS FROM people",
            (
                "ALTER TABLE people RENAME TO x; ALTER TABLE others RENAME TO people; ALTER TABLE x RENAME TO others; "
                "CREATE TABLE crowd AS FROM others"
            ),
        ],
        1,
    ),
)
def test_tables_of_a_file_that_cannot_be_marked_are_one_account(
    con: duckdb.DuckDBPyConnection, private: Path, tmp_path: Path, change: str
) -> None:
    con.execute("CALL mwem_detach('w')").fetchall()
    with duckdb.connect(str(private)) as there:
        there.execute("CREATE TABLE others AS FROM people LIMIT 0; DROP VIEW old")
    con.execute("CALL mwem_attach('w', ?)", [str(private)])
    con.execute("CALL mwem_budget('w.people', 1)").fetchall()
    con.execute("CALL mwem_release('w.people', workload, 0.5, rows := 5)").fetchall()
    con.execute("CALL mwem_detach('w')").fetchall()
    with duckdb.connect(str(private)) as there:
        there.execute(change)
    moved = tmp_path / "moved.duckdb"
    private.rename(moved)
    con.execute("CREATE TABLE d AS SELECT 'age' AS attribute, 0 AS low, 99 AS high")
    con.execute("CALL mwem_attach('w', ?)", [str(moved)])
    call = "CALL mwem_release('{}', workload, 0.6, rows := 5, output := 'curator.main.o', domain := 'd')"
    with pytest.raises(duckdb.Error, match=r"does not fit the cap on crowd: 0\.5 of 1 is left"):
        con.execute(call.format("w.crowd"))
    shown = con.execute("SELECT epsilon_spent, also_charged_as FROM mwem_budget('w.crowd', 1)").fetchall()
    assert shown == [(0.5, f"{private}.main.people (epsilon 0.5)")]
    con.execute("CALL mwem_detach('w')").fetchall()
    con.execute(f"ATTACH '{moved}' AS direct")  # writable: its ledger would be its own, but the curator's is attached
    with pytest.raises(duckdb.Error, match=r"does not fit the cap on crowd: 0\.5 of 1 is left"):
        con.execute(call.format("direct.crowd"))
    hard = tmp_path / "hard.duckdb"
    con.execute("DETACH direct")
    hard.hardlink_to(moved)
    con.execute("CALL mwem_attach('w', ?)", [str(hard)])
    with pytest.raises(duckdb.Error, match=r"does not fit the cap on crowd: 0\.5 of 1 is left"):
        con.execute(call.format("w.crowd"))


def test_a_cap_per_person_needs_a_column_that_can_be_marked(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error, match=r"unit \('age'\) is known by its name alone.*ATTACH its file writable"):
        con.execute("CALL mwem_budget('w.people', 1, unit := 'age', rows_per_unit := 3)")
    assert con.execute("FROM mwem_ledger()").fetchall() == []


def test_what_cannot_be_attached_is_refused(con: duckdb.DuckDBPyConnection, private: Path, tmp_path: Path) -> None:
    con.execute("CREATE SCHEMA pub; ATTACH ':memory:' AS elsewhere")
    refused: list[tuple[str, list[Any], str]] = [
        ("mwem_attach('w', ?)", [str(private)], r"alias \('w'\) is the name of a database, schema or source"),
        ("mwem_attach('pub', ?)", [str(private)], r"alias \('pub'\) is the name of a database, schema or source"),
        ("mwem_attach('elsewhere', ?)", [str(private)], r"alias \('elsewhere'\) is the name of"),
        ("mwem_attach('a.b', ?)", [str(private)], r"alias \('a\.b'\) must be a plain name"),
        ("mwem_attach('x', ?)", [str(tmp_path / "none")], r"source \('.*none'\) is not a file"),
        ("mwem_attach('x', ?)", [str(tmp_path / "curator.duckdb")], r"cannot be opened as a DuckDB file of its own"),
        ("mwem_attach('x', 'mysql://host/db')", [],
        r"source \('mysql://\.\.\.'\) is not of a kind that can be attached"),
        ("mwem_attach('x', ?, ledger := 'nowhere')", [str(private)], r"ledger \('nowhere'\) is not an attached DuckDB"),
        ("mwem_attach('x', ?, ledger := 'elsewhere')", [str(private)], r"is not the one that this source has as 'w'"),
        ("mwem_attach('x', ?, timeout := -1)", [str(private)], r"timeout \(-1\) must be a number of seconds above 0"),
        ("mwem_attach('x', NULL)", [], "source must be text"),
        ("mwem_attach('x', 'postgresql://a:b@c/d')", [], "source has a password or token in it"),
        ("mwem_detach('x')", [], r"alias \('x'\) is not that of an attached source"),
    ]  # fmt: skip
    for call, parameters, message in refused:
        with pytest.raises(duckdb.Error, match=message):
            con.execute(f"CALL {call}", parameters)
    with pytest.raises(OptionError, match=r"source \('int'\) is not of a kind that can be attached"):
        mwem_sql.attach(con, "x", 5)
    assert con.execute("SELECT alias FROM mwem_sources()").fetchall() == [("w",)]


def test_a_driver_that_is_not_there_is_named(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(engines, "import_module", missing)
    with pytest.raises(
        duckdb.Error, match=r"the driver for postgresql is not installed\. Hint: pip install 'mwem-sql\[engines\]'"
    ):
        con.execute("CALL mwem_attach('x', 'postgresql://host/db')")


def test_a_source_is_its_instances_alone(connect: Open, con: duckdb.DuckDBPyConnection) -> None:  # noqa: ARG001
    other = connect()
    assert other.execute("FROM mwem_sources()").fetchall() == []
    with pytest.raises(duckdb.Error, match=r"table \('w\.people'\) does not exist for this call"):
        other.execute("FROM mwem_domain('w.people')")


def test_detached_in_mid_course_it_is_not_another(con: duckdb.DuckDBPyConnection, private: Path) -> None:
    mwem_sql.detach(con, "w")
    with pytest.raises(TableError, match="does not exist for this call"):
        mwem_sql.release(con, "w.people", "workload", epsilon=1)
    mwem_sql.attach(con, "w", private, timeout=60)
    assert mwem_sql.release(con, "w.people", "workload", epsilon=1, rows=5).rows == 5
