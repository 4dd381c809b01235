"""Levels: the tree that keys make, and its rows; a unit less changes each level by its rows and no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
from chance import examples
from hypothesis import given, settings
from strategies import seeds

import mwem_sql
from mwem_sql.boundary.levels import above, below, level_rows, read_levels, unit_column
from mwem_sql.platform.catalog import Place

HERE = Place("memory", "main")
SCHEMA = """
    CREATE TABLE person (pid VARCHAR PRIMARY KEY, sex VARCHAR);
    CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid VARCHAR COLLATE NOCASE REFERENCES person (pid), kind VARCHAR);
    CREATE TABLE drug (vid INTEGER REFERENCES visit (vid), days INTEGER);
    CREATE TABLE pass (pid VARCHAR PRIMARY KEY REFERENCES person (pid), gold BOOLEAN)
"""
MOST = {"visit": 3, "drug": 2, "pass": 1}


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect() as con:
        con.execute(SCHEMA)
        yield con


def rows(con: duckdb.DuckDBPyConnection) -> dict[str, Counter[tuple[object, ...]]]:
    """The rows of every level."""
    levels = read_levels(con, ["drug", "visit", "person", "pass"], HERE)
    out = {}
    for place, level in enumerate(levels):
        relation = level_rows(levels, place, MOST)
        names = ", ".join(f'"{column.name}"' for column in relation.columns)
        out[level.name] = Counter(con.execute(f"SELECT {names} FROM {relation.tree().sql('duckdb')}").fetchall())
    return out


def test_the_tree(con: duckdb.DuckDBPyConnection) -> None:
    levels = read_levels(con, ["drug", "visit", "person", "pass"], HERE)
    names = [level.name for level in levels]
    assert names == ["person", "visit", "pass", "drug"]
    assert [level.parent for level in levels] == [None, 0, 0, 1]
    assert [level.joining for level in levels] == [("pid",), ("vid", "pid"), ("pid",), ("vid",)]
    assert (above(levels, 3), below(levels, 0), below(levels, 3)) == ([1, 0], [1, 2], [])
    assert unit_column(levels).name == "person.pid"
    assert [column.name for column in level_rows(levels, 1, MOST).columns] == [
        "vid", "pid", "kind", "person.pid", "person.sex", "drug",
    ]  # fmt: skip


def test_the_rows(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        """INSERT INTO person VALUES ('a', 'F'), ('A', 'M'), ('b', NULL);
           INSERT INTO visit VALUES (1, 'a', 'x'), (2, 'a', 'x'), (3, 'a', 'y'), (4, 'a', 'y'), (5, 'A', 'x');
           INSERT INTO visit VALUES (6, NULL, 'z');
           INSERT INTO drug VALUES (1, 7), (1, 8), (1, 9), (NULL, 1); INSERT INTO pass VALUES ('b', true)"""
    )
    found = rows(con)
    # Four visits count as three; 'a' and 'A' are two persons, whatever a collation says.
    assert found["person"] == Counter([("a", "F", 3, 0), ("A", "M", 1, 0), ("b", None, 0, 1)])
    assert found["visit"] == Counter(
        [(1, "a", "x", "a", "F", 2), (2, "a", "x", "a", "F", 0), (3, "a", "y", "a", "F", 0), (4, "a", "y", "a", "F", 0),
         (5, "A", "x", "A", "M", 0)]
    )  # fmt: skip
    assert sum(found["drug"].values()) == 3


@settings(deadline=None, max_examples=examples(25))
@given(seeds)
def test_a_unit_less_takes_its_rows_from_each_level_and_no_others(seed: int) -> None:
    """Neighbours differ by one person and all that leads to it."""
    with duckdb.connect() as con:
        con.execute(SCHEMA)
        con.execute("SELECT setseed(?)", [seed / 2**32])
        con.execute(
            """INSERT INTO person SELECT 'p' || i, ['F', 'M', NULL][1 + (random() * 2.9)::INT % 3] FROM range(6) t(i);
               INSERT INTO visit
               SELECT i, if(random() < 0.1, NULL, 'p' || (random() * 5)::INT), 'k' || (random() * 2)::INT
               FROM range(15) t(i);
               INSERT INTO drug
               SELECT if(random() < 0.1, NULL, (random() * 14)::INT), (random() * 3)::INT FROM range(25);
               INSERT INTO pass SELECT pid, random() < 0.5 FROM person WHERE random() < 0.5"""
        )
        before = rows(con)
        con.execute("CREATE TEMP TABLE gone AS SELECT vid FROM visit WHERE pid = 'p0'")
        for statement in (
            "DELETE FROM drug WHERE vid IN (FROM gone)", "DELETE FROM visit WHERE pid = 'p0'",
            "DELETE FROM pass WHERE pid = 'p0'", "DELETE FROM person WHERE pid = 'p0'",
        ):  # fmt: skip
            con.execute(statement)
        after = rows(con)
        for table, unit in {"person": 0, "visit": 3, "drug": -2, "pass": 0}.items():
            assert not after[table] - before[table]
            assert all(row[unit] == "p0" for row in before[table] - after[table])
