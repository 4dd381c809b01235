"""A suggested domain declares what is in the table."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from mwem_sql.boundary import relations
from mwem_sql.database.catalog import Place
from mwem_sql.domains.domain import Domain
from mwem_sql.private.suggest import suggest_domain


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        yield con


def test_suggestions_declare_what_was_seen(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        """CREATE TABLE t ("my age" INTEGER, sex VARCHAR, name VARCHAR, d DATE, x DOUBLE, empty INTEGER, b BOOLEAN);
           INSERT INTO t SELECT 20 + i % 30, CASE WHEN i % 2 = 0 THEN 'it''s' ELSE 'M' END, 'name ' || i, DATE '2020-01-01' + (i % 9)::INTEGER, i / 4, NULL, true
           FROM range(200) r(i);
           INSERT INTO t (sex, x, d) VALUES ('M', 'nan', 'infinity'), ('M', 'inf', NULL), ('M', NULL, NULL);
           ALTER TABLE t ADD COLUMN town VARCHAR; UPDATE t SET town = CASE WHEN rowid % 2 = 0 THEN name WHEN rowid % 3 = 0 THEN 'Genf' ELSE 'Bern' END"""
    )
    relation = relations.describe(con.cursor(), "t", Place("memory", "main"), "f")
    rows = suggest_domain(con.cursor(), relation)
    assert [(row["attribute"], row["values"], row["low"], row["high"], row["nullable"]) for row in rows] == [
        ("my age", None, "20", "49", True), ("sex", ["M", "it's"], None, None, False), ("d", None, "2020-01-01", "2020-01-09", True),
        ("x", None, "0.0", "49.75", True), ("b", ["true"], None, None, True), ("town", ["Bern", "Genf"], None, None, True),
    ]  # fmt: skip
    con.execute(
        'CREATE TABLE t_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR, nullable BOOLEAN)'
    )
    for row in rows:
        if row["open"]:
            con.execute("ALTER TABLE t_domain ADD COLUMN open BOOLEAN")
        con.execute(row["ddl"])
    declared = Domain.from_schema(con, "t")
    assert [(item.name, item.values, item.nullable, item.open) for item in declared] == [
        ("my age", None, True, False), ("sex", ("M", "it's"), False, False), ("d", None, True, False), ("x", None, True, False),
        ("b", ("true",), True, False), ("town", ("Bern", "Genf"), True, True),
    ]  # fmt: skip
