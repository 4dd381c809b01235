"""Memory stays flat over many calls: queries are in no cycle, and what was frozen is collected now and then. Counts objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import duckdb
import pytest
from chance import sampled

import mwem_sql
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.platform import garbage
from mwem_sql.platform.garbage import frozen


class Circle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect(":memory:") as con:
        con.execute(
            "CREATE TABLE t (n INTEGER NOT NULL CHECK (n BETWEEN 0 AND 255), pay INTEGER NOT NULL CHECK (pay BETWEEN 0 AND 99))"
        )
        con.execute("INSERT INTO t SELECT i % 256, i % 100 FROM range(1000) AS r(i)")
        con.execute("CREATE TABLE workload (predicate VARCHAR, measure VARCHAR)")
        con.execute(
            "INSERT INTO workload SELECT 'n <= ' || i, CASE WHEN i % 20 = 0 THEN 'avg(pay)' END FROM range(100) AS r(i)"
        )
        yield con


def alive(*kinds: type) -> int:
    return sum(isinstance(item, kinds) for item in gc.get_objects())


CALLS = [
    "FROM mwem_plan('t', workload, 0.5)", "CALL mwem_release('t', workload, 0.5, version := 'next')",
    "FROM mwem_answer('t_synthetic', workload)", "FROM mwem_compare('t', 't_synthetic', workload)",
]  # fmt: skip


@pytest.mark.parametrize("call", sampled(CALLS, 2))
def test_no_query_outlives_its_call(con: duckdb.DuckDBPyConnection, call: str) -> None:
    """Not even without the collector: they are in no cycle."""
    con.sql("CALL mwem_release('t', workload, 0.5)").fetchall()
    gc.collect()
    before = alive(LinearQuery, Block)
    gc.disable()
    try:
        con.sql(call).fetchall()
        assert alive(LinearQuery, Block) == before
    finally:
        gc.enable()


@pytest.mark.parametrize("releases", [5, pytest.param(30, marks=pytest.mark.thorough)])
def test_releases_do_not_pile_up(con: duckdb.DuckDBPyConnection, releases: int) -> None:
    """Statements are trees whose nodes know their parents; of all releases at most as many are there as a quarter of all objects."""
    counts = []
    for number in range(releases):
        con.sql(f"CALL mwem_release('t', workload, 0.5, version := '{number}')").fetchall()
        counts.append(len(gc.get_objects()))
    assert max(counts) < 1.3 * counts[2]


@pytest.mark.thorough
def test_what_was_frozen_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there is a quarter more than there was; a little stays for some time."""
    gc.collect()
    monkeypatch.setattr(garbage._Last, "held", len(gc.get_objects()))
    much = round(0.3 * len(gc.get_objects()))
    for count, left in ((10, 10), (10, 20), (much, 0), (10, 10), (much, 0)):
        circles = [Circle() for _ in range(count)]
        with frozen():
            del circles
        assert alive(Circle) == left


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        circles = [Circle() for _ in range(len(gc.get_objects()))]
        with frozen():
            del circles
        assert not gc.isenabled()
        assert alive(Circle) > 0
    finally:
        gc.enable()
        gc.collect()
