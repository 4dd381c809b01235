"""A table of public totals: which rows each counts, and every wrong one."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from mwem_sql.domains.domain import Domain
from mwem_sql.errors import DomainError, MwemError, PredicateError, TableError


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(
            """CREATE TABLE votes (region VARCHAR CHECK (region IN ('N', 'S')), born DATE, "ROWS" INTEGER,
                   age INTEGER CHECK (age BETWEEN 0 AND 99), decade INTEGER GENERATED ALWAYS AS (age // 10))"""
        )
        yield con


def declared(con: duckdb.DuckDBPyConnection) -> list[tuple[str | None, int]]:
    return [(total.text, total.rows) for total in Domain.from_schema(con, "votes").totals]


def test_columns_and_a_predicate_say_together_which_rows_are_counted(con: duckdb.DuckDBPyConnection) -> None:
    """As GROUP BY ROLLUP gives them: NULL does not limit what is counted."""
    con.execute(
        """CREATE TABLE votes_known (Region VARCHAR, age BIGINT, predicate VARCHAR, rows DOUBLE);
           INSERT INTO votes_known VALUES ('N', 7, NULL, 3), ('O''Hara', NULL, 'age < 9 OR age > 20', 4),
               (NULL, NULL, NULL, 50), (NULL, NULL, 'decade = 2', 0), (NULL, NULL, 'decade = 2', 0)"""
    )
    assert declared(con) == [
        ("\"region\" = 'N' AND \"age\" = CAST('7' AS INT)", 3),
        ('"region" = \'O\'\'Hara\' AND ("age" < 9 OR "age" > 20)', 4),
        (None, 50),
        ('"decade" = 2', 0),  # once
    ]
    domain = Domain.from_schema(con, "votes")
    assert list(domain.columns_of_totals.values()) == [("region", "age"), ("region", "age"), (), ("age",)]
    assert [total.rows for total in domain.totals_about({"age"})] == [50, 0]
    assert Domain.from_json(domain.to_json()) == domain


def test_values_are_those_of_the_private_column(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE votes_known AS SELECT '2024-02-01' AS born, 5 AS rows")
    assert declared(con) == [("\"born\" = CAST('2024-02-01' AS DATE)", 5)]


def test_another_table_is_taken_by_its_name(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE census AS SELECT 12 AS rows; CREATE TABLE votes_known AS SELECT 13 AS rows")
    assert [total.rows for total in Domain.from_schema(con, "votes", totals="census").totals] == [12]
    with pytest.raises(TableError, match=r"table of public totals \('cen'\) does not exist .*the column rows"):
        Domain.from_schema(con, "votes", totals="cen")


@pytest.mark.parametrize(
    ("table", "kind", "words"),
    [
        ("TABLE votes_known AS SELECT 'N' AS region, 5 AS row", DomainError, "did you mean rows"),
        ("TABLE votes_known AS SELECT 5 AS count", DomainError, "none is called rows"),
        ("TABLE votes_known AS SELECT 'N' AS regoin, 5 AS rows", DomainError, "did you mean region"),
        ("TABLE votes_known AS SELECT 'N' AS region, -5 AS rows", DomainError, "counts -5 rows of .*is not a whole"),
        ("TABLE votes_known AS SELECT 'N' AS region, 5.5 AS rows", DomainError, "counts 5.5 rows"),
        ("TABLE votes_known AS SELECT NULL AS rows", DomainError, "counts NULL rows of all rows"),
        ("TABLE votes_known AS SELECT 'many' AS rows", DomainError, "counts many rows"),
        ("TABLE votes_known AS SELECT 'agee < 5' AS predicate, 5 AS rows", PredicateError, "known: total .*agee"),
        ("TABLE votes_known AS SELECT 'random() < 5' AS predicate, 5 AS rows", PredicateError, "known: total"),
        ("VIEW votes_known AS SELECT count(*) AS rows FROM votes", TableError, "is a view"),
        ("TABLE votes_known (n INTEGER, rows INTEGER AS (n + 1))", TableError, "generated"),
    ],
)
def test_what_is_no_table_of_totals_is_refused(
    con: duckdb.DuckDBPyConnection, table: str, kind: type[MwemError], words: str
) -> None:
    con.execute(f"CREATE {table}")
    with pytest.raises(kind, match=words):
        declared(con)
