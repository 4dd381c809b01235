"""Every way of declaring a domain, and every wrong one."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from chance import sampled
from compilers import declare

from mwem_sql.domains.domain import Domain
from mwem_sql.errors import DomainError, TableError


def test_views_inherit(scratch: duckdb.DuckDBPyConnection) -> None:
    scratch.execute(
        """CREATE TABLE t (age INTEGER NOT NULL CHECK (age BETWEEN 17 AND 90), sex ENUM('F', 'M') CHECK (sex <> 'M'));
           CREATE VIEW v AS SELECT age AS years, sex, age + 1 AS next FROM t WHERE age > 20"""
    )
    found = Domain.from_schema(scratch, "v")
    assert [(item.name, item.low, item.high, item.values, item.nullable) for item in found] == [
        ("years", 17, 90, None, False),
        ("sex", None, None, ("F",), True),
    ]


def test_a_missing_domain_says_how_to_declare_it(scratch: duckdb.DuckDBPyConnection) -> None:
    scratch.execute("CREATE TABLE t (c INTEGER)")
    with pytest.raises(
        DomainError,
        match=r"^domain: column c of t has no public domain, so it cannot be queried. Hint: declare it in the schema",
    ):
        Domain.from_schema(scratch, "t")["c"]


def test_the_domain_table_comes_before_the_schema(scratch: duckdb.DuckDBPyConnection) -> None:
    scratch.execute("CREATE TABLE t (c INTEGER CHECK (c BETWEEN 0 AND 99), s ENUM('a', 'b', 'c'), b BOOLEAN)")
    found = declare(scratch, "('c', NULL, 10, 19), ('s', ['b'], NULL, NULL)", 'attribute, "values", low, high')
    assert (found["c"].low, found["c"].high, found["c"].source) == (10, 19, "table t_domain")
    assert (found["s"].values, found["b"].values) == (("b",), ("false", "true"))
    other = declare(scratch, "('c', 20, 29)", domain="elsewhere")
    assert (other["c"].low, other["s"].values) == (20, ("a", "b", "c"))


def test_domain_tables_are_found_beside_the_table(scratch: duckdb.DuckDBPyConnection) -> None:
    scratch.execute(
        """CREATE TABLE t (c INTEGER); CREATE TABLE t_domain AS SELECT 'c' AS attribute, 1 AS low, 2 AS high;
           CREATE VIEW v AS SELECT * FROM t; CREATE TABLE v_domain AS SELECT 'c' AS attribute, 3 AS low, 4 AS high;
               USE memory.main"""
    )
    assert Domain.from_schema(scratch, "scratch.t")["c"].high == 2
    assert Domain.from_schema(scratch, "scratch.v")["c"].high == 4
    assert Domain.from_schema(scratch, "scratch.v", "scratch.t_domain")["c"].high == 2
    scratch.execute("USE memory.scratch")
    with pytest.raises(
        TableError,
        match=r"^domain: domain table \('nowhere'\) does not exist for this call. Hint: create it with the columns",
    ):
        Domain.from_schema(scratch, "t", "nowhere")


@pytest.mark.parametrize("private", ["t", "v", "f"])
@pytest.mark.parametrize(
    "query",
    sampled(
        [
            "SELECT 'c' AS attribute, min(c) AS low, max(c) AS high FROM {}",
            "SELECT 'c' AS attribute, 0 AS low, (SELECT max(c) FROM {}) AS high",
            "SELECT 'c' AS attribute, 0 AS low, most() AS high",
        ],
        1,
    ),
)
def test_a_domain_that_reads_the_private_table_is_refused(
    scratch: duckdb.DuckDBPyConnection, tmp_path: Path, private: str, query: str
) -> None:
    scratch.execute(
        f"""CREATE TABLE t (c INTEGER); CREATE VIEW v AS SELECT c FROM t;
            COPY (SELECT 1 AS c) TO '{tmp_path / "f.parquet"}';
            CREATE VIEW f AS SELECT c FROM '{tmp_path / "f.parquet"}';
            CREATE OR REPLACE MACRO most() AS (SELECT max(c) FROM {private});
            CREATE VIEW bounds AS {query.format(private)}; CREATE VIEW outside AS SELECT * FROM bounds"""
    )
    for domain in ("bounds", "outside"):
        with pytest.raises(
            TableError,
            match=rf"^domain: domain table \('{domain}'\) is a view, and what a view reads may be private."
            " Hint: write its rows out",
        ):
            Domain.from_schema(scratch, private, domain)


def test_the_table_itself_is_no_domain_table(scratch: duckdb.DuckDBPyConnection) -> None:
    scratch.execute("CREATE TABLE t (attribute VARCHAR, low INTEGER, high INTEGER)")
    with pytest.raises(TableError, match="is the private table itself"):
        Domain.from_schema(scratch, "t", "t")


def test_no_private_row_is_read(scratch: duckdb.DuckDBPyConnection) -> None:
    """Reading any row of the view raises; the domain is the same whatever rows there are."""
    scratch.execute(
        """CREATE TABLE t (text VARCHAR, age INTEGER CHECK (age BETWEEN 0 AND 9));
           CREATE VIEW v AS SELECT CAST(text AS INTEGER) AS c, age FROM t WHERE CAST(text AS INTEGER) > 0;
           CREATE TABLE v_domain AS SELECT 'c' AS attribute, 3 AS low, 4 AS high"""
    )
    before = Domain.from_schema(scratch, "v")
    scratch.execute("INSERT INTO t VALUES ('a row was read', 5)")
    with pytest.raises(duckdb.Error, match="a row was read"):
        scratch.execute("FROM v").fetchall()
    assert Domain.from_schema(scratch, "v") == before
    assert [(item.name, item.low, item.high) for item in before] == [("c", 3, 4), ("age", 0, 9)]
