"""Several tables of Spark, by keys that `mwem_keys` declares: rows that join, one account, neighbours."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import servers
from home_worlds import HomeWorld, Rows, compare, inserts, look, neighbours, random_rows, world
from neighbours import Seen

import mwem_sql

pytest.importorskip("pyspark", reason=servers.MISSING)

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore::FutureWarning")]

KEYS = "CREATE TABLE mwem_keys (table_name VARCHAR, columns VARCHAR[], refers_to VARCHAR, refers_columns VARCHAR[])"
DOMAIN = """FROM (VALUES ('a', NULL, '0', '2', false), ('b', ['x', 'y'], NULL, NULL, true))
    t(attribute, "values", low, high, nullable)"""


@pytest.fixture
def con(spark: Any) -> Iterator[duckdb.DuckDBPyConnection]:
    spark.sql("CREATE DATABASE IF NOT EXISTS tree")
    with mwem_sql.connect() as con:
        con.execute(KEYS)
        mwem_sql.attach(con, "w", spark)
        yield con
        mwem_sql.detach(con, "w")
    spark.sql("DROP DATABASE tree CASCADE")


def test_tables_that_join(con: duckdb.DuckDBPyConnection, spark: Any, tmp_path: Path) -> None:
    """A row whose key another row has, too, is in no table."""
    spark.sql(
        """CREATE TABLE tree.person USING parquet AS
           SELECT concat('p', id) AS pid, if(id % 2 = 0, 'F', 'M') AS sex FROM range(300) UNION ALL SELECT 'p7', 'F'"""
    )
    spark.sql(
        """CREATE TABLE tree.visit USING parquet AS SELECT pid, n AS line, if(sex = 'F', 'a', 'b') AS kind
           FROM tree.person LATERAL VIEW explode(array(1, 2)) AS n WHERE pid <> 'p7'"""
    )
    con.execute(
        """INSERT INTO mwem_keys VALUES ('Visit', ['pid'], 'person', ['pid']);
           CREATE TABLE person_domain AS SELECT 'sex' AS attribute, ['F', 'M'] AS "values";
           CREATE TABLE visit_domain AS SELECT 'kind' AS attribute, ['a', 'b'] AS "values";
           CREATE TABLE workload AS SELECT 'visit' AS "of", ['kind', 'sex'] AS group_by"""
    )
    mwem_sql.release(con, ["w.tree.visit", "w.tree.person"], "workload", 10**5, rows_per_unit=2)
    rows = "SELECT sex, kind, count(*) FROM visit_synthetic JOIN person_synthetic USING (pid) GROUP BY ALL ORDER BY ALL"
    assert con.execute(rows).fetchall() == [("F", "a", 300), ("M", "b", 298)]
    marks = [
        {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES tree.{table}").collect()}["mwem.account"]
        for table in ("person", "visit")
    ]
    assert len(set(marks)) == 1
    con.execute(f"COPY (SELECT 1 AS pid) TO '{tmp_path}/0.parquet'")
    tables = [f'w.parquet."{tmp_path}"', "w.tree.person"]
    with pytest.raises(mwem_sql.MwemError, match="are named by their path, and keys are declared between tables"):
        mwem_sql.release(con, tables, "workload", 1, rows_per_unit=2, version="2")
    con.execute("INSERT INTO mwem_keys VALUES ('visit', ['line'], 'person', ['line'])")
    with pytest.raises(mwem_sql.MwemError, match="has two paths to its unit"):
        mwem_sql.release(con, ["w.tree.visit", "w.tree.person"], "workload", 1, rows_per_unit=2, version="2")


@pytest.mark.parametrize("worlds", [1, pytest.param(15, marks=pytest.mark.thorough)])
def test_neighbours_of_trees(con: duckdb.DuckDBPyConnection, spark: Any, worlds: int) -> None:
    def see(made: HomeWorld, rows: Rows) -> Seen:
        for name, columns in made.columns.items():
            spark.sql(f"DROP TABLE IF EXISTS tree.{name}")
            types = made.types("STRING")
            spark.sql(f"CREATE TABLE tree.{name} ({', '.join(f'{c} {types[c]}' for c in columns)}) USING parquet")
        for statement in inserts(made, rows):
            spark.sql(statement.replace("INSERT INTO ", "INSERT INTO tree.", 1))
        con.execute("DELETE FROM mwem_keys")
        for name, (leading, other) in made.foreign.items():
            con.execute("INSERT INTO mwem_keys VALUES (?, ?, ?, ?)", [name, leading, other, leading])
            con.execute(f"CREATE OR REPLACE TABLE {name}_domain AS {DOMAIN}")
        con.execute(f"CREATE OR REPLACE TABLE home_domain AS {DOMAIN}")
        return look(con, made, "w.tree.")

    met: Counter[str] = Counter()
    reached = 0.0
    for seed in range(worlds):
        chance = random.Random(seed)
        made = replace(world(chance, ""), extra="declared", views=(), is_composite=True, is_wide=True)
        rows = {name: listed[:6] for name, listed in random_rows(chance, made, dangling=True).items()}
        reached = max(reached, compare(made, [rows, *neighbours(made, rows)], see, met, (seed, made)))
    print(f"\n{worlds} trees: {dict(met)}; answers move by at most {reached:.3f} of what is allowed")
    assert met["released"] >= worlds
