"""The tables of the schema mwem: made all at once, and their columns as the scripts declare them."""

from __future__ import annotations

import duckdb
import pytest
from conftest import Connection

from mwem_sql.platform import metadata
from mwem_sql.platform.metadata import prepare
from mwem_sql.platform.resources import read_sql


@pytest.mark.parametrize("script", ["ledger.sql", "metadata.sql"])
def test_our_tables_appear_all_at_once(plain: Connection, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Else a process that is killed here leaves some of them."""
    monkeypatch.setattr(metadata, "read_sql", lambda name: read_sql(name) + "SELECT error('killed')")
    with pytest.raises(duckdb.Error, match="killed"):
        prepare(plain, "memory", script)
    assert plain.execute("SELECT count(*) FROM duckdb_schemas() WHERE schema_name = 'mwem'").fetchall() == [(0,)]


def test_columns_are_read_off_the_script() -> None:
    columns = metadata.declared("metadata.sql", "releases")
    assert columns["release"] == metadata.Column("INT", nullable=False, later=False)
    assert columns["version"] == metadata.Column("TEXT", nullable=True, later=False)
    assert columns["again"] == metadata.Column("INT", nullable=True, later=True)
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
        ("ledger.sql", "ledger"),
        ("ledger.sql", "budgets"),
        ("ledger.sql", "journal"),
        ("ledger.sql", "names"),
    ],
)
def test_duckdb_reads_the_same_columns(plain: Connection, script: tuple[str, str]) -> None:
    prepare(plain, "memory", script[0])
    made = plain.execute(
        "SELECT column_name, is_nullable FROM duckdb_columns() WHERE table_name = ?", [script[1]]
    ).fetchall()
    assert sorted(made) == sorted((name, column.nullable) for name, column in metadata.declared(*script).items())


CAP = {
    "database_name": "", "schema_name": "main", "table_name": "t", "epsilon": 1.0, "delta": 0.0, "epsilon_exact": "1", "delta_exact": "0",
}  # fmt: skip


def test_a_row_may_lack_what_was_added_later_and_nothing_else() -> None:
    metadata.check_types(CAP, "ledger.sql", "budgets")
    metadata.check_types({**CAP, "unit": None, "rows_per_unit": 3}, "ledger.sql", "budgets")
    with pytest.raises(KeyError):
        metadata.check_types({name: value for name, value in CAP.items() if name != "epsilon"}, "ledger.sql", "budgets")


@pytest.mark.parametrize(
    "change", [{"epsilon": None}, {"epsilon": "1"}, {"table_name": 5}, {"unit": 5}, {"rows_per_unit": "3"}]
)
def test_a_row_of_another_type_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        metadata.check_types({**CAP, **change}, "ledger.sql", "budgets")
