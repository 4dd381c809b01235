"""What is suggested declares what is in the table, in round numbers and without rare values."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from mwem_sql.boundary import relations
from mwem_sql.database.catalog import Place
from mwem_sql.private.suggest import Suggestion, suggest_domain


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        yield con


def suggested(con: duckdb.DuckDBPyConnection, *declared: str) -> dict[str, Suggestion]:
    relation = relations.describe(con.cursor(), "t", Place("memory", "main"), "f")
    return {each.attribute: each for each in suggest_domain(con.cursor(), relation, declared)}


def test_suggestions_are_round_and_common(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        """CREATE TABLE t (id INTEGER, "my age" INTEGER, sex VARCHAR, name VARCHAR, d DATE, x DOUBLE, empty INTEGER, class INTEGER, rare VARCHAR, town VARCHAR, mail VARCHAR);
           INSERT INTO t SELECT i, 20 + i % 51, CASE WHEN i % 2 = 0 THEN 'it''s' ELSE 'M' END, 'name ' || i, DATE '2020-01-05' + (i % 9)::INTEGER,
               i / 4, NULL, 1 + i % 3, CASE WHEN i < 3 THEN 'prince' ELSE 'other' END, CASE WHEN i % 2 = 0 THEN 'n' || i WHEN i % 3 = 0 THEN 'Genf' ELSE 'Bern' END, 'm' || greatest(i, 6)
           FROM range(200) r(i);
           INSERT INTO t (sex, x, d) VALUES ('M', 'nan', 'infinity'), ('M', 'inf', NULL), ('M', NULL, NULL)"""
    )
    found = suggested(con)
    shown = {
        name: (each.values, each.low, each.high, each.bins, each.nullable, each.open)
        for name, each in found.items()
        if not each.missing
    }
    assert shown == {
        "my age": (None, "10", "80", None, True, False),  # 20 and 70 are round, but less than five rows have them
        "sex": (["M", "it's"], None, None, None, False, False),
        "d": (None, "2020-01-05", "2020-01-13", None, True, False),
        "x": (None, "0", "50", 10, True, False),
        "class": (None, "1", "3", None, True, False),
        "rare": (["other"], None, None, None, True, True),
        "town": (["Bern", "Genf"], None, None, None, True, True),
    }
    assert {name: each.missing for name, each in found.items() if each.missing} == {
        "id": "every row has another value, so it is a key and no category",
        "name": "every row has another value, so it is a key and no category",
        "empty": "no row has a value in it",
        "mail": "194 different values, hardly any of them in 5 rows or more",
    }
    assert suggested(con, "x", "sex").keys() == found.keys() - {"x", "sex"}
