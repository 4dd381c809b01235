"""No side door: what is published, logged, shown or raised carries no unnoised fact of the private table.

The canaries are values that occur in the private table and nowhere in its public domain, workload or options.
"""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import Connection, Open

import mwem_sql
from mwem_sql.errors import EngineError
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.noise import OpenDPNoise
from mwem_sql.scan.engines.duckdb import InstanceSnapshot

CANARIES = ("Xylophone-Quartz", "Zanzibar-7741", "271828.1828", "1987-03-29")
ROWS = 4_243  # a count that noise will not hit on, and that no public number is
TABLE = f"""
    CREATE TABLE people (name VARCHAR, pay DOUBLE, born DATE, age INTEGER CHECK (age BETWEEN 0 AND 99),
    sex ENUM ('F', 'M'));
    INSERT INTO people
    SELECT CASE i % 3 WHEN 0 THEN 'Xylophone-Quartz' WHEN 1 THEN 'Zanzibar-7741' ELSE 'Smith' END, 271828.1828,
    DATE '1987-03-29', i % 100,
           CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END
    FROM range({ROWS}) t(i);
    CREATE TABLE people_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR, open BOOLEAN);
    INSERT INTO people_domain VALUES
        ('name', ['Smith', 'Jones'], NULL, NULL, true), ('pay', NULL, '0', '1e6', NULL), ('born', NULL, '1900-01-01',
        '2020-12-31', NULL);
    CREATE TABLE workload (predicate VARCHAR, group_by VARCHAR[]);
    INSERT INTO workload VALUES
        ('name = ''Smith''', NULL), ('pay > 200000', NULL), ('born < DATE ''1980-01-01''', NULL), (NULL, ['sex',
        'name']), ('age > 50', NULL)"""


@pytest.fixture
def private(connect: Open, tmp_path: Path) -> Connection:
    con = connect(tmp_path / "private.duckdb")
    con.execute(TABLE)
    con.execute(f"ATTACH '{tmp_path / 'pub.duckdb'}' AS pub")
    return con


def carried(text: str) -> list[str]:
    return [canary for canary in (*CANARIES, str(ROWS), f"{ROWS:,}") if canary in text]


@pytest.mark.parametrize(
    "options",
    [
        ", unit := 'name', rows_per_unit := 2",
        *(
            pytest.param(other, marks=pytest.mark.campaign)
            for other in ("", ", average := true, delta := 1e-6", ", start := 'histogram', rows := 77")
        ),
    ],
)
def test_the_published_file_has_no_canary(private: Connection, tmp_path: Path, options: str) -> None:
    private.execute(
        f"CALL mwem_release('people', workload, 1, rounds := 4, output := 'pub.main.x'{options})"
    ).fetchall()
    private.execute("CHECKPOINT pub")
    known = {
        row[0]
        for row in private.execute(
            "SELECT schema_name || '.' || table_name FROM duckdb_tables() WHERE database_name = 'pub'"
        ).fetchall()
    }
    assert known == {
        "main.x",
        "mwem.releases",
        "mwem.measurements",
        "mwem.factors",
        "mwem.schema_version",
        "mwem.withdrawals",
        "mwem.workloads",
        "mwem.bounds",
        "mwem.certificates",
    }
    private.close()
    for path in tmp_path.glob("pub.duckdb*"):
        data = path.read_bytes()
        assert not [canary for canary in CANARIES if canary.encode() in data or canary.encode("utf-16-le") in data]
    private_bytes = b"".join(path.read_bytes() for path in tmp_path.glob("private.duckdb*"))
    assert b"Xylophone" in private_bytes  # the search finds what is there


def test_statistics_of_the_published_file_are_those_of_its_rows(private: Connection) -> None:
    """DuckDB keeps the least and the largest value of a column: of synthetic rows, those are drawn from the domain."""
    private.execute(
        "CALL mwem_release('people', workload, 1, rounds := 4, rows := 500, output := 'pub.main.x')"
    ).fetchall()
    statistics = str(private.execute("SELECT stats(COLUMNS(*)) FROM pub.main.x LIMIT 1").fetchall())
    assert not carried(statistics)
    assert not carried(
        str(
            private.execute(
                "SELECT * EXCLUDE (table_oid, database_oid) FROM duckdb_tables() WHERE database_name = 'pub'"
            ).fetchall()
        )
    )


def test_logs_at_every_level(private: Connection, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    logging.getLogger("mwem_sql").setLevel(1)
    summary = private.execute("CALL mwem_release('people', workload, 1, rounds := 4, rows := 500)").fetchall()
    assert caplog.records
    assert not carried(caplog.text)
    assert not carried(str(summary))
    assert not carried(str(private.execute("FROM mwem_ledger()").fetchall()))


def test_explain_analyze_and_profiles(private: Connection, tmp_path: Path) -> None:
    """The caller's profile has its own statement: the scans of the private table run on connections of the call's
    own."""
    plan = str(
        private.execute("EXPLAIN ANALYZE CALL mwem_release('people', workload, 1, rounds := 4, rows := 500)").fetchall()
    )
    assert not carried(plan)
    profile = tmp_path / "profile.json"
    private.execute(f"SET enable_profiling = 'json'; SET profiling_output = '{profile}'")
    private.execute("CALL mwem_release('people', workload, 1, rounds := 4, rows := 500, output := 'y')").fetchall()
    private.execute("RESET enable_profiling")
    assert not profile.exists() or not carried(profile.read_text(encoding="utf-8"))


def test_nothing_is_left_behind(private: Connection) -> None:
    before = private.execute("SELECT database_name, schema_name, table_name FROM duckdb_tables()").fetchall()
    private.execute("CALL mwem_release('people', workload, 1, rounds := 4, rows := 500)").fetchall()
    after = set(private.execute("SELECT database_name, schema_name, table_name FROM duckdb_tables()").fetchall()) - set(
        before
    )
    names = {
        "bounds",
        "certificates",
        "draws",
        "factors",
        "journal",
        "journal_head",
        "measurements",
        "people_synthetic",
        "releases",
        "requests",
        "schema_version",
        "withdrawals",
        "workloads",
    }
    assert {name for _, _, name in after} == names
    assert private.execute("FROM mwem.draws").fetchall() == []
    assert private.execute("FROM mwem.requests").fetchall() == []
    assert private.execute("SELECT count(*) FROM duckdb_temporary_files()").fetchall() == [(0,)]
    views = private.execute("SELECT schema_name || '.' || view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1")
    assert views.fetchall() == [("mwem.budgets",), ("mwem.ledger",)]


def test_reprs_and_tracebacks(private: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    made = Kernel.__init__

    def keep(self: Kernel, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options)
        shown.append(f"{self!r} {self} {arguments[2:]!r}")

    def fail(_: OpenDPNoise, values: Any, *__: Any) -> Any:
        raise ValueError(f"{values.tolist()} {ROWS} Xylophone-Quartz")

    monkeypatch.setattr(Kernel, "__init__", keep)
    release = mwem_sql.release(private, "people", "workload", 1, rounds=4, rows=500)
    assert shown
    assert not carried("".join(shown) + repr(release))
    monkeypatch.setattr(OpenDPNoise, "add_noise", fail)
    with pytest.raises(EngineError) as caught:
        mwem_sql.release(private, "people", "workload", 1, rounds=4, rows=500, output="z")
    assert not carried("".join(traceback.format_exception(caught.value)))


def test_a_fault_of_the_engine_says_nothing(private: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise duckdb.ConversionException("Could not convert string 'Xylophone-Quartz' to INT32")

    monkeypatch.setattr(InstanceSnapshot, "run", fail)
    with pytest.raises(duckdb.Error) as caught:
        private.execute("CALL mwem_release('people', workload, 1)")
    assert not carried(str(caught.value))


def test_order_says_nothing(connect: Open) -> None:
    """The same table in another order gives the very same release under a seed: rows, measurements and factors, order
    included."""
    outputs = []
    for order in ("i", "hash(i)"):
        con = connect()
        con.execute(TABLE)
        con.execute(
            f"CREATE OR REPLACE TABLE people AS SELECT * EXCLUDE (i) FROM (SELECT *, row_number() OVER () AS i FROM "
            f"people) ORDER BY {order}"
        )
        con.execute("DELETE FROM workload WHERE predicate LIKE 'age%' OR group_by IS NOT NULL")
        con.execute("CALL mwem_release('people', workload, 1, rounds := 3, seed := 5, rows := 200)").fetchall()
        tables = ("people_synthetic", "mwem.measurements", "mwem.factors")
        outputs.append([con.execute(f"FROM {table}").fetchall() for table in tables])
    assert outputs[0] == outputs[1]
    assert [row[1] for row in outputs[0][1]] == sorted(row[1] for row in outputs[0][1])  # in the order of the rounds
