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
from mwem_sql.boundary.levels import above, below, level_rows, read_levels, unit_columns
from mwem_sql.platform.catalog import Place
from mwem_sql.scan.dialects.duckdb import DUCKDB

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
        relation = level_rows(levels, place, MOST, DUCKDB.text)
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
    assert [column.name for column in unit_columns(levels, 3)] == ["person.pid"]
    assert [column.name for column in level_rows(levels, 1, MOST, DUCKDB.text).columns] == [
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


COMPOSITE = """
    CREATE TABLE person (site VARCHAR, pid INTEGER, sex VARCHAR, PRIMARY KEY (pid, site));
    CREATE TABLE visit (site VARCHAR, pid INTEGER, line INTEGER, kind VARCHAR, PRIMARY KEY (site, pid, line),
        UNIQUE (pid, kind), FOREIGN KEY (pid, site) REFERENCES person (pid, site));
    CREATE TABLE drug (site VARCHAR, pid INTEGER, line INTEGER, days INTEGER,
        FOREIGN KEY (site, pid, line) REFERENCES visit (site, pid, line))
"""


def test_keys_of_several_columns(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("DROP TABLE pass; DROP TABLE drug; DROP TABLE visit; DROP TABLE person;" + COMPOSITE)
    levels = read_levels(con, ["person", "visit", "drug"], HERE)
    assert [level.joining for level in levels] == [("pid", "site"), ("site", "pid", "line"), ("site", "pid", "line")]
    assert [column.name for column in unit_columns(levels, 2)] == ["person.pid", "person.site"]
    # A key of several columns that no table refers to is one of numbers only where nobody asks about them.
    assert len(levels[1].keys) == 2
    assert [len(levels[1].keeping(read).keys) for read in ({"line"}, {"kind"})] == [2, 1]
    con.execute(
        """INSERT INTO person VALUES ('x', 1, 'F'), ('y', 1, 'M');
           INSERT INTO visit VALUES ('x', 1, 1, 'a'), ('x', 1, 2, 'b'), ('y', 1, 1, 'c');
           INSERT INTO drug VALUES ('x', 1, 1, 7), ('x', 1, 1, 8), ('y', 1, 1, 9), ('y', 1, NULL, 9)"""
    )
    found = {}
    for place, level in enumerate(levels):
        tree = level_rows(levels, place, MOST, DUCKDB.text).tree()
        found[level.name] = Counter(con.execute(f"SELECT * FROM {tree.sql('duckdb')}").fetchall())
    assert found["person"] == Counter([("x", 1, "F", 2), ("y", 1, "M", 1)])
    assert found["visit"] == Counter(
        [("x", 1, 1, "a", "x", 1, "F", 2), ("x", 1, 2, "b", "x", 1, "F", 0), ("y", 1, 1, "c", "y", 1, "M", 1)]
    )
    assert sorted(row[3] for row in found["drug"].elements()) == [7, 8, 9]


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        (
            """CREATE TABLE c (a INTEGER PRIMARY KEY, b INTEGER, FOREIGN KEY (a, b) REFERENCES p (a, b));
               CREATE TABLE d (a INTEGER REFERENCES c (a))""",
            "a part of the key to its parent",
        ),
        (
            """CREATE TABLE c (a INTEGER PRIMARY KEY); CREATE TABLE d (a INTEGER REFERENCES c (a));
               CREATE TABLE mwem_keys (table_name VARCHAR, columns VARCHAR[], refers_to VARCHAR,
                   refers_columns VARCHAR[]);
               INSERT INTO mwem_keys VALUES ('c', ['a', 'a'], 'p', ['a', 'b'])""",
            "has a column twice",
        ),
    ],
)
def test_keys_that_numbers_could_not_keep(con: duckdb.DuckDBPyConnection, tables: str, named: str) -> None:
    con.execute("CREATE TABLE p (a INTEGER, b INTEGER, PRIMARY KEY (a, b));" + tables)
    with pytest.raises(mwem_sql.MwemError, match=named):
        read_levels(con, ["p", "c", "d"], HERE)
