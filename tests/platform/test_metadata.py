"""The tables of the schema mwem: made all at once, and their columns as the scripts declare them. Every SQL file of the
repository is read and says what it is for.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import duckdb
import pytest
from conftest import Connection

from mwem_sql.platform import metadata
from mwem_sql.platform.metadata import prepare, read_sql


@pytest.mark.parametrize("script", ["ledger.sql", "metadata.sql"])
def test_our_tables_appear_all_at_once(plain: Connection, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Else a process that is killed here leaves some of them."""
    monkeypatch.setattr(metadata, "read_sql", lambda name: read_sql(name) + "SELECT error('killed')")
    with pytest.raises(duckdb.Error, match="killed"):
        prepare(plain, "memory", script)
    assert plain.execute("SELECT count(*) FROM duckdb_schemas() WHERE schema_name = 'mwem'").fetchall() == [(0,)]


def test_columns_are_read_off_the_script() -> None:
    columns = metadata.declared("metadata.sql", "releases")
    assert columns["release"] == metadata.ColumnType("INT", nullable=False)
    assert columns["version"] == metadata.ColumnType("TEXT", nullable=True)
    assert list(metadata.declared("metadata.sql", "measurements"))[-2:] == ["values", "blocks"]  # no field of a STRUCT


@pytest.mark.parametrize(
    "script",
    [
        ("metadata.sql", "releases"),
        ("metadata.sql", "measurements"),
        ("metadata.sql", "factors"),
        ("metadata.sql", "bounds"),
        ("metadata.sql", "certificates"),
        ("metadata.sql", "workloads"),
        ("metadata.sql", "withdrawals"),
        ("ledger.sql", "journal"),
        ("ledger.sql", "journal_head"),
    ],
)
def test_duckdb_reads_the_same_columns(plain: Connection, script: tuple[str, str]) -> None:
    prepare(plain, "memory", script[0])
    made = plain.execute(
        "SELECT column_name, is_nullable FROM duckdb_columns() WHERE table_name = ?", [script[1]]
    ).fetchall()
    assert sorted(made) == sorted((name, column.nullable) for name, column in metadata.declared(*script).items())


HEAD = {"number": 1, "checksum": "x"}


@pytest.mark.parametrize(
    ("change", "error"),
    [({"number": None}, TypeError), ({"number": "1"}, TypeError), ({"checksum": 5}, TypeError), ({}, None)],
)
def test_a_row_of_another_type_is_refused(change: dict[str, object], error: type[Exception] | None) -> None:
    with pytest.raises(error) if error else nullcontext():
        metadata.check_types({**HEAD, **change}, "ledger.sql", "journal_head")
    with pytest.raises(KeyError):
        metadata.check_types({"number": 1}, "ledger.sql", "journal_head")


# Formats. Files of other formats are made by hand: there is no other version whose files could be read.


def test_a_new_schema_has_the_number_of_the_format(plain: Connection) -> None:
    for script in ("ledger.sql", "metadata.sql"):
        prepare(plain, "memory", script)
        assert plain.execute("FROM memory.mwem.schema_version").fetchall() == [(metadata.FORMAT,)]
    assert metadata.tables(plain)["memory"] >= {"journal", "releases", "schema_version"}


def test_a_schema_of_the_users_has_no_format(plain: Connection) -> None:
    plain.execute("CREATE SCHEMA mwem; CREATE TABLE mwem.mine (x INTEGER)")
    assert metadata.tables(plain) == {"memory": {"mine"}}


OLDER = {
    "1": ("ledger", ("CREATE TABLE old.mwem.schema_version AS SELECT 1 AS version; CREATE TABLE old.mwem.ledger AS "
                    "SELECT 'people' AS table_name, 0.5 AS epsilon")),
    "2": ("releases", ("CREATE TABLE old.mwem.schema_version AS SELECT unnest([1, 2]) AS version; CREATE TABLE "
                      "old.mwem.releases AS SELECT 'people' AS table_name, 0.5 AS epsilon")),
    "none": ("ledger", "CREATE TABLE old.mwem.ledger AS SELECT 'people' AS table_name, 0.5 AS epsilon"),
    "9": ("journal", ("CREATE TABLE old.mwem.schema_version AS SELECT 9 AS version; CREATE TABLE old.mwem.journal AS "
                     "SELECT 'people' AS table_name, 0.5 AS epsilon; CREATE VIEW old.mwem.ledger AS FROM "
                     "old.mwem.journal")),
}  # fmt: skip


@pytest.mark.parametrize("number", OLDER)
def test_another_format_is_refused_and_can_be_exported(
    con: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    """One sentence with the number, the rule and a command that works when it is pasted. Nothing is charged
    meanwhile."""
    monkeypatch.chdir(tmp_path)
    kept, script = OLDER[number]
    con.execute(f"ATTACH '{tmp_path / 'old.duckdb'}' AS old; CREATE SCHEMA old.mwem; {script}")
    for call in (
        "CALL mwem_release('people', workload, 1, rounds := 1)", "FROM mwem_ledger()", "CALL mwem_budget('people', 1)",
        "FROM mwem_answer('nothing', workload)", "CALL mwem_policy(require_caps := true)",
    ):  # fmt: skip
        with pytest.raises(
            duckdb.Error,
            match=rf"mwem: the schema mwem of database \(old\) has format {number}, and this version of mwem_sql "
            rf"reads and writes format 8 only\. Hint: COPY",
        ) as refused:
            con.execute(call)
    command = re.search(r"Hint: (COPY .*?) exports", str(refused.value))
    assert command is not None
    con.execute(command[1])
    assert con.execute(f"FROM 'old_{kept}.csv'").fetchall() == [("people", 0.5)]
    con.execute("DETACH old")
    assert con.execute("FROM mwem_ledger()").fetchall() == []
    con.execute("CALL mwem_release('people', workload, 1, rounds := 1)").fetchall()


FILES = sorted(path.name for path in (Path(__file__).resolve().parents[2] / "sql").glob("*.sql"))


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_whole_and_has_a_header(name: str) -> None:
    text = read_sql(name)
    assert text.startswith("--")
    assert text.endswith("\n")


def test_a_file_that_is_not_there_is_no_empty_text() -> None:
    assert "macros.sql" in FILES
    with pytest.raises(FileNotFoundError):
        read_sql("nothing.sql")
