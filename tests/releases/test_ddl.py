"""Statements for outputs with keys, run."""

from __future__ import annotations

import duckdb

from mwem_sql.platform.catalog import Name
from mwem_sql.releases import ddl
from mwem_sql.synthesis.values import TableKey


def test_keys_are_declared() -> None:
    types = {"id": "BIGINT", "other id": "BIGINT", "sex": "ENUM('F', 'M')"}
    keys = [TableKey("PRIMARY KEY", ("id",)), TableKey("UNIQUE", ("other id",))]
    leads = [TableKey("FOREIGN KEY", ("id",), ("the parent", ("other id",)))]
    with duckdb.connect() as con:
        con.execute(ddl.create(Name("memory", "main", "the parent"), types, keys))
        con.execute(ddl.create(Name("memory", "main", "child"), {"id": "BIGINT"}, leads))
        rows = con.execute(
            "SELECT table_name, constraint_type, constraint_column_names FROM duckdb_constraints() ORDER BY ALL"
        ).fetchall()
        assert rows == [
            ("child", "FOREIGN KEY", ["id"]), ("child", "NOT NULL", ["id"]),
            ("the parent", "NOT NULL", ["id"]), ("the parent", "NOT NULL", ["other id"]),
            ("the parent", "PRIMARY KEY", ["id"]), ("the parent", "UNIQUE", ["other id"]),
        ]  # fmt: skip
        for name in ("child", "the parent", "the parent"):
            con.execute(ddl.drop(Name("memory", "main", name)))
        assert con.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
