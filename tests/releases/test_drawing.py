"""Rows of joined tables, drawn from states: numbers, keys, columns in their order, and tables above by two steps."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pytest

import mwem_sql
from mwem_sql.algebra.partition import Partition
from mwem_sql.model.state import State
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.releases.drawing import Drawing, grouped, link_of

HERE = Place("memory", "main")


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect() as con:
        con.execute(
            """CREATE TABLE a (x INTEGER PRIMARY KEY, p BOOLEAN NOT NULL);
               CREATE TABLE b (y INTEGER PRIMARY KEY, x INTEGER REFERENCES a (x), q BOOLEAN NOT NULL);
               CREATE TABLE c (y INTEGER REFERENCES b (y), r BOOLEAN NOT NULL);
               INSERT INTO a SELECT i, i % 2 = 0 FROM range(40) t(i);
               INSERT INTO b SELECT 2 * x + i, x, p FROM a, range(2) t(i) WHERE p OR i = 0;
               INSERT INTO c SELECT y, q FROM b WHERE q;
               CREATE TABLE asked AS SELECT * FROM (VALUES ('a', ['p', 'b']), ('b', ['q', 'p', 'c']),
               ('c', ['r', 'a.p'])) t("of", group_by)"""
        )
        mwem_sql.release(con, ["a", "b", "c"], "asked", 10**6, rows_per_unit={"b": 2, "c": 2})
        yield con


def test_tables_are_drawn_one_after_the_other(con: duckdb.DuckDBPyConnection) -> None:
    drawing = Drawing(Session.of(con), seed=3)
    stored = [store.load(con.cursor(), f"{name}_synthetic", HERE, "f") for name in "abc"]
    for one in stored:
        state = one.state()
        assert isinstance(state, State)
        if link_of(one.domain).parent is None:
            drawing.draw_root(one.domain, state, one.classes, 40)
            continue
        parents = drawing.parents(one.domain)
        codes = drawing.codes(one.domain, one.classes, parents)
        assert {len(of_rows) for of_rows in codes.values()} == {len(parents)}
        drawing.draw(one.domain, state, one.classes, codes, parents)
    tables = {}
    for name, one in zip("abc", stored, strict=True):
        rows = drawing.rows(one.domain)
        tables[name] = rows.reader.read_all().rename_columns(list(rows.types)).to_pydict()
    assert list(tables["a"]) == ["x", "p"] and list(tables["b"]) == ["y", "x", "q"] and list(tables["c"]) == ["y", "r"]
    p, q = dict(zip(tables["a"]["x"], tables["a"]["p"], strict=True)), tables["b"]["q"]
    assert sorted(p) == list(range(1, 41)) and tables["b"]["y"] == list(range(1, 61))
    assert [p[x] for x in tables["b"]["x"]] == q
    # Two steps up: c leads to b, and b to a.
    lead = dict(zip(tables["b"]["y"], tables["b"]["x"], strict=True))
    assert [p[lead[y]] for y in tables["c"]["y"]] == tables["c"]["r"] == [True] * 40


def test_classes_that_a_release_has_merged() -> None:
    codes = {"x": np.array([0, 1, 2], dtype=np.int32)}
    merged = grouped(codes, {"x": Partition(np.array([0, 0, 1], dtype=np.int32), np.ones(3))})
    assert merged["x"].tolist() == [0, 0, 1]
