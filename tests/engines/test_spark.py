"""Spark: tables and files, a fixed list of files, what is refused, and failures in mid-release; Spark Connect in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import servers
import test_example

import mwem_sql

pytest.importorskip("pyspark", reason=servers.MISSING)

from mwem_sql.private.engines.spark import FilesSnapshot

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore::FutureWarning")]

WITHHELD = "engine: the private table could not be read. Hint: the cause is withheld"
CHANGED = "engine: the private table or its files were replaced or written to while they were read"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two files of 100 people each."""
    folder = tmp_path / "people"
    folder.mkdir()
    for k in range(2):
        people = {"age": [i % 100 for i in range(100)], "sex": ["F" if i % 3 else "M" for i in range(100)]}
        pq.write_table(pa.table(people), folder / f"{k}.parquet")
    return folder


@pytest.fixture
def con(connect: Any, spark: Any) -> duckdb.DuckDBPyConnection:
    con: duckdb.DuckDBPyConnection = connect()
    con.execute("CREATE TABLE workload AS SELECT unnest(['age > 40', 'sex = ''F''']) AS predicate")
    con.execute(
        'CREATE TABLE people_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR, nullable BOOLEAN)'
    )
    con.execute(
        "INSERT INTO people_domain VALUES ('age', NULL, '0', '99', false), ('sex', ['F', 'M'], NULL, NULL, false)"
    )
    mwem_sql.attach(con, "w", spark)
    return con


def release(con: duckdb.DuckDBPyConnection, name: str, output: str = "o") -> None:
    con.execute(
        f"CALL mwem_release('{name}', workload, 1, rows := 5, domain := 'people_domain', output := '{output}')"
    ).fetchall()


def truth(con: duckdb.DuckDBPyConnection, name: str) -> list[Any]:
    return [
        answer for (answer,) in con.execute(f"SELECT true_answer FROM mwem_compare('{name}', 'o', workload)").fetchall()
    ]


def test_tables_and_files_are_private_tables_and_share_an_account(
    con: duckdb.DuckDBPyConnection, spark: Any, tmp_path: Path
) -> None:
    spark.sql("DROP TABLE IF EXISTS people")
    spark.sql("CREATE TABLE people (age INT, code CHAR(3), sex STRING) USING PARQUET PARTITIONED BY (sex)")
    for sex in ("F", "M"):
        spark.sql(f"INSERT INTO people PARTITION (sex = '{sex}') SELECT id % 100, 'x' FROM range(0, 200, 1, 3)")
    release(con, "w.people")
    assert con.execute("SELECT attribute FROM mwem_domain('w.default.people')").fetchall() == [("age",), ("sex",)]
    assert truth(con, "w.people") == [2 * 118, 200]
    con.execute("CALL mwem_budget('w.default.people', 1.5)").fetchall()
    place = (
        spark.sql("DESCRIBE TABLE EXTENDED people").where("col_name = 'Location'").collect()[0][1].removeprefix("file:")
    )
    with pytest.raises(duckdb.Error, match=r"0\.5 of 1\.5 is left"):
        release(con, f'w.parquet."{place}"', "p")
    assert con.execute("SELECT kind, ledger FROM mwem_sources()").fetchall() == [("spark", "memory")]
    spark.sql("CREATE OR REPLACE VIEW seen AS SELECT * FROM people")
    with pytest.raises(duckdb.Error, match=r"table \(seen\) is of type VIEW, whose rows may be computed"):
        release(con, "w.seen", "p")
    with pytest.raises(duckdb.Error, match=r"table \(nothing\) does not exist in the source"):
        release(con, "w.nothing", "p")
    with pytest.raises(duckdb.Error, match=r"files \('.*none'\) are not there, or not parquet"):
        release(con, f'w.parquet."{tmp_path}/none"', "p")


def test_one_job_for_each_scan(con: duckdb.DuckDBPyConnection, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, statements = FilesSnapshot.run, []
    monkeypatch.setattr(FilesSnapshot, "run", lambda self, text, rows: statements.append(text) or run(self, text, rows))
    release(con, f'w.parquet."{files}"')
    planned = con.execute(f"""SELECT value FROM mwem_plan('w.parquet."{files}"', workload, 1, domain := 'people_domain') WHERE item = 'scans'""").fetchall()  # fmt: skip
    assert [(str(len(statements)),)] == planned


@pytest.mark.parametrize("is_gone", [True, False])
def test_files_that_vanish_or_change_in_mid_release(
    con: duckdb.DuckDBPyConnection, files: Path, monkeypatch: pytest.MonkeyPatch, is_gone: bool
) -> None:
    def act(folder: Path) -> None:
        (folder / "1.parquet").unlink()
        if not is_gone:
            pq.write_table(pa.table({"age": [1], "sex": ["F"]}), folder / "1.parquet")

    run, done = FilesSnapshot.run, []

    def changed(self: FilesSnapshot, statement: str, rows: int) -> Any:
        if not done:
            done.append(act(files))
        return run(self, statement, rows)

    monkeypatch.setattr(FilesSnapshot, "run", changed)
    with pytest.raises(duckdb.Error) as caught:
        release(con, f'w.parquet."{files}"')
    # Whether Spark notices by itself depends on what it has of the file already.
    assert any(sentence in str(caught.value) for sentence in (WITHHELD, CHANGED))
    assert con.execute("SELECT status FROM mwem_ledger()").fetchall() == [("failed",)]
    assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'o'").fetchall() == [(0,)]


def test_files_that_come_later_are_not_read(
    con: duckdb.DuckDBPyConnection, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release(con, f'w.parquet."{files}"')
    run = FilesSnapshot.run

    def later(self: FilesSnapshot, statement: str, rows: int) -> Any:
        pq.write_table(pa.table({"age": [99] * 50, "sex": ["F"] * 50}), files / "2.parquet")
        return run(self, statement, rows)

    monkeypatch.setattr(FilesSnapshot, "run", later)
    assert truth(con, f'w.parquet."{files}"') == [2 * 59, 2 * 66]


def test_spark_connect_and_a_jvm_that_is_killed(tmp_path: Path) -> None:
    if not servers.has_spark():
        pytest.skip(servers.MISSING)
    folder = Path(__file__).parent
    found = subprocess.run([sys.executable, folder / "connect.py", tmp_path], capture_output=True, text=True, check=False, timeout=900)  # fmt: skip
    assert found.stdout.strip(), found.stderr[-2000:]
    facts = json.loads(found.stdout.splitlines()[-1])
    assert facts["source"][0][0] == "spark" and facts["source"][0][1].startswith("sc://127.0.0.1:")
    assert facts["compared"] > 50 and facts["released"] == 5
    assert WITHHELD in facts["error"] and facts["reads"] == 1
    assert [status for _, status in facts["ledger"]] == ["done", "failed"] and facts["tables"] == []
    assert "does not answer" in facts["gone"]
    assert facts["example"] == test_example.PRINTED
