"""Reuse: the same request is free, any other is told from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chance import sampled
from conftest import PEOPLE, Connection

import mwem_sql
from mwem_sql.errors import (
    OutputError,
)
from mwem_sql.releases.reuse import MOST_QUERIES, changes, in_short
from mwem_sql.workload import Query, Workload

Entries = Callable[[Connection], int]


ONE = Workload.from_predicates(["age > 40"])


def test_the_same_request_from_sql_and_python_is_one(con: Connection, entries: Entries) -> None:
    con.execute("SET TimeZone = 'Asia/Tokyo'")
    con.execute("CALL mwem_release('people', workload, 0.5, rounds := 2, version := 'a', total := 400)").fetchall()
    by_name = mwem_sql.release(con, "main.people", "workload", 0.5, rounds=2, version="a", total=400)
    arrow = con.sql("FROM workload").to_arrow_table()
    by_rows = mwem_sql.release(
        con, "people", arrow, "0.50", rounds="2", version="a", total=400.0, output="people_synthetic"
    )
    assert (by_name.reused, by_rows.reused) == (True, True)
    assert entries(con) == 1
    con.execute("SET TimeZone = 'UTC'")
    with pytest.raises(OutputError, match="holds a release of another request"):
        mwem_sql.release(con, "people", "workload", 0.5, rounds=2, version="a", total=400)


@pytest.mark.parametrize(
    "change",
    sampled(
        [
            "INSERT INTO people SELECT 1, 'F', true, NULL FROM range(1000)",
            "DELETE FROM people",
            "DROP TABLE people",
            "DROP TABLE people; CREATE TABLE people (x INTEGER)",
            "DROP TABLE people; CREATE VIEW people AS SELECT count(*) AS age FROM range(9)",
            "DROP TABLE people_synthetic",
            "DROP TABLE people; DROP TABLE people_synthetic",
            "DROP TABLE people_synthetic; CREATE SCHEMA people_synthetic",
        ],
        2,
    ),
)
def test_a_stored_release_is_free_whatever_happened(con: Connection, entries: Entries, change: str) -> None:
    first = mwem_sql.release(con, "people", "workload", 1, rounds=1, rows=50, seed=3)
    drawn = con.execute("FROM people_synthetic").fetchall()
    con.execute(change)
    again = mwem_sql.release(con, "people", "workload", 1, rounds=1, rows=50, seed=3)
    assert (again.release, again.rows, again.reused, first.reused) == (1, 50, True, False)
    assert con.execute("FROM people_synthetic").fetchall() == drawn
    assert entries(con) == 1


def test_a_dropped_table_of_another_schema_and_database(con: Connection) -> None:
    con.execute("ATTACH ':memory:' AS vault; CREATE SCHEMA vault.hr; CREATE SCHEMA s")
    names = ["vault.hr.people", "s.people", "vault.people"]
    for name in names:
        con.execute(f"CREATE TABLE {name} (age INTEGER CHECK (age BETWEEN 0 AND 99))")
        mwem_sql.release(con, name, ONE, 1, rows=5)
        con.execute(f"DROP TABLE {name}")
    for name in names:
        assert mwem_sql.release(con, name, ONE, 1, rows=5).reused is True


def test_the_domain_table_is_part_of_the_request(con: Connection, entries: Entries) -> None:
    con.execute("CREATE TABLE people_domain AS SELECT 'age' AS attribute, 0 AS low, 99 AS high")
    mwem_sql.release(con, "people", ONE, 1, rounds=1)
    assert mwem_sql.release(con, "people", ONE, 1, rounds=1).reused is True
    con.execute("UPDATE people_domain SET high = 120")
    with pytest.raises(OutputError, match="holds a release of another request"):
        mwem_sql.release(con, "people", ONE, 1, rounds=1)
    assert entries(con) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"epsilon": 1.5}, {"delta": 1e-9}, {"rounds": 2}, {"rows": 6}, {"total": 100},
        {"unit": "age", "rows_per_unit": 1}, {"start": "histogram"},
        {"average": True}, {"fit": "replay"}, {"max_cells": 50}, {"seed": 1},
        {"workload": Workload.from_predicates(["age > 41"])}, {"domain": "narrow"}, {"table": "copy"},
    ],
    ids=lambda other: next(iter(other)),
)  # fmt: skip
def test_every_part_of_a_request_tells_it_from_others(strict_release: Connection, other: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"table": "people", "workload": ONE, "epsilon": 1, "rounds": 1, "rows": 5, "output": "o"}
    assert mwem_sql.release(strict_release, **asked).reused is True
    with pytest.raises(OutputError, match="holds a release of another request"):
        mwem_sql.release(strict_release, **{**asked, **other})


@pytest.fixture(scope="module")
def strict_release() -> Iterator[Connection]:
    con = mwem_sql.connect()
    con.execute(PEOPLE)
    con.execute(
        "CREATE TABLE narrow AS SELECT 'age' AS attribute, 0 AS low, 50 AS high; CREATE TABLE copy AS FROM people"
    )
    mwem_sql.release(con, "people", ONE, 1, rounds=1, rows=5, output="o")
    yield con
    con.close()


def test_an_older_version_keeps_its_own_state(con: Connection) -> None:
    old = mwem_sql.release(con, "people", ONE, 1000, version="old")
    con.execute("DELETE FROM people")
    new = mwem_sql.release(con, "people", ONE, 1000, version="new")
    again = mwem_sql.release(con, "people", ONE, 1000, version="old")
    assert (old.release, new.release, again.release, again.reused) == (1, 2, 1, True)
    assert again.factors.equals(old.factors)
    assert not again.factors.equals(new.factors)
    con.execute("DROP TABLE people_synthetic")
    mwem_sql.release(con, "people", ONE, 1000, version="old")
    assert con.execute("SELECT count(*) FROM people_synthetic").fetchall() == [
        (new.rows,)
    ]  # the table is the newest version's


ASKED = {
    "workload": [["age > 4"], ["age > 5"], ["sex"]],
    "epsilon": "1",
    "delta": "0",
    "table": ["", "main", "t"],
    "declared": None,
    "settings": {"TimeZone": "UTC", "default_collation": ""},
}
QUERIES = [Query(predicate="age > 4"), Query(predicate="age > 5"), Query(group_by=("sex",))]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"epsilon": "2", "rounds": 3}, "epsilon (1, now 2); rounds (left out, now 3)"),
        ({"declared": ["('age', 0, 99)"]}, "the domain table"),
        ({"table": ["", "main", "u"]}, "the private table"),
        ({"settings": {"TimeZone": "Asia/Tokyo", "default_collation": ""}}, "TimeZone (UTC, now Asia/Tokyo)"),
        ({"workload": [["age > 4"], ["age > 5"], ["race"]]}, "query 3 ('sex'); 1 queries of before are not in it"),
        ({"workload": [["new"], ["age > 4"], ["age > 5"], ["sex"]]}, "query 1 ('age > 4')"),
        ({"workload": [["age > 4"], ["sex"]]}, "1 queries of before are not in it"),
        ({"workload": [["a"], ["b"], ["c"], ["d"], ["e"]]},
            ("query 1 ('age > 4'); query 2 ('age > 5'); query 3 ('sex'); 2 more queries; 3 queries of before are not "
             "in "
            "it")),
        ({"seed": 7}, "seed (left out, now given)"),
        ({"workload": [["q"]] * (MOST_QUERIES + 1)}, f"the workload, of {MOST_QUERIES + 1:,} rows now"),
    ],
)  # fmt: skip
def test_what_changed(changed: dict[str, object], told: str) -> None:
    now = {**ASKED, **changed}
    queries = (QUERIES + QUERIES * (len(now["workload"]) // 3))[: len(now["workload"])]  # type: ignore[arg-type]
    assert changes(in_short(ASKED), in_short(now), queries) == f". What changed: {told}"


def test_another_seed_is_not_told() -> None:
    one, two = in_short({**ASKED, "seed": 123_456_789}), in_short({**ASKED, "seed": 987_654_321})
    assert "123" not in json.loads(one)["seed"]
    assert changes(one, two, QUERIES) == ". What changed: the seed"


@pytest.mark.parametrize("stored", [None, "", "{}", "[]", "7", '{"workload": 3}'])
def test_what_is_older_or_damaged_tells_nothing(stored: object) -> None:
    assert changes(stored, in_short(ASKED), QUERIES) == ""
