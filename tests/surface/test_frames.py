"""Frames as workloads, and as tables after `load`. pandas and Polars themselves: `pytest -m integrations`."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from chance import sampled
from conftest import Connection

import mwem_sql
from mwem_sql.errors import OptionError, OutputError, TableError

ROWS = {"predicate": ["age > 40", None], "group_by": [None, ["sex"]]}


class Stream:
    """Anything with Arrow's own interface: Polars, pandas, Ibis and others have it."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def frames() -> list[Any]:
    table = pa.table(ROWS)
    text = pa.table({"predicate": pa.array(ROWS["predicate"]).dictionary_encode(), "group_by": [None, "sex"]})
    return [table, Stream(table), Stream(text), ROWS, table.to_batches()[0], table.to_reader()]


@pytest.mark.parametrize("number", sampled(range(6), 2))
def test_a_workload(con: Connection, number: int) -> None:
    made = mwem_sql.release(con, "people", frames()[number], 1, rounds=1)
    assert made.queries == 2
    assert mwem_sql.plan(con, "people", frames()[number], 1).num_rows > 0
    assert made.answer(frames()[number]).num_rows == 3


def test_a_relation_of_duckdb_is_a_workload(con: Connection) -> None:
    assert mwem_sql.release(con, "people", con.sql("FROM mwem_marginals('people', 1)"), 1, rounds=1).queries == 4


@pytest.mark.parametrize("workload", [3, None, ["age > 40"], [{"predicate": "age > 40"}]])
def test_no_workload(shared: Connection, workload: object) -> None:
    with pytest.raises(OptionError, match=r"must be a table name, a Workload or a frame"):
        mwem_sql.release(shared, "people", workload, 1)


def test_an_index_without_a_name_is_left_out(con: Connection) -> None:
    assert mwem_sql.load(con, pa.table({"x": [1], "id": [7], "__index_level_0__": [5]}), "t") == "memory.main.t"
    assert con.execute("FROM t").fetchall() == [(1, 7)]


def test_load_makes_a_table_and_commits(con: Connection) -> None:
    con.execute("CREATE SCHEMA s; USE s")
    con.execute("BEGIN")
    assert mwem_sql.load(con, Stream(pa.table({"a b": [1, None], "c": ["x", "y"]})), "t") == "memory.s.t"
    con.execute("ROLLBACK")
    assert con.execute('SELECT "a b", c FROM memory.s.t ORDER BY c').fetchall() == [(1, "x"), (None, "y")]
    assert mwem_sql.load(con, pa.table({"x": [1]}), 'main."d.e"') == "memory.main.d.e"


def test_load_does_not_replace(con: Connection) -> None:
    with pytest.raises(
        TableError, match=r"^load: table \('people'\) exists\. Hint: choose another name, or add to it with append=True"
    ):
        mwem_sql.load(con, pa.table({"x": [1]}), "people")
    with pytest.raises(TableError, match=r"does not exist\. Hint: leave append out"):
        mwem_sql.load(con, pa.table({"x": [1]}), "nobody", append=True)
    with pytest.raises(OutputError, match=r"^load: output .* does not exist"):
        mwem_sql.load(con, pa.table({"x": [1]}), "nowhere.t")
    assert con.execute("SELECT count(*) FROM people").fetchall() == [(400,)]


def test_load_adds_by_name_under_the_constraints_of_the_table(con: Connection) -> None:
    con.execute("CREATE TABLE t (age INTEGER CHECK (age < 100), sex ENUM ('F', 'M'))")
    mwem_sql.load(con, pa.table({"sex": ["F"], "age": [3]}), "t", append=True)
    assert con.execute("FROM t").fetchall() == [(3, "F")]
    for rows in ({"age": [777]}, {"sex": ["secret"]}, {"age": ["secret"]}, {"other": [1]}):
        with pytest.raises(TableError, match=r"^load: table \('t'\) cannot take the frame") as refused:
            mwem_sql.load(con, pa.table(rows), "t", append=True)
        assert refused.value.__cause__ is None
        assert "secret" not in str(refused.value) and "777" not in str(refused.value)
    assert con.execute("FROM t").fetchall() == [(3, "F")]


def test_categories_are_no_domain(con: Connection) -> None:
    mwem_sql.load(con, pa.table({"city": pa.array(["Bern", "Genf"]).dictionary_encode()}), "t")
    assert con.execute("SELECT typeof(city) FROM t LIMIT 1").fetchall() == [("VARCHAR",)]
    assert all(row["attribute"] != "city" or row["cells"] is None for row in mwem_sql.domain(con, "t").to_pylist())


@pytest.mark.parametrize("frame", ["people.csv", None, [1], object()])
def test_load_takes_frames_only(shared: Connection, frame: object) -> None:
    with pytest.raises(OptionError, match=r"^load: frame \(\w+\) must be a frame of pandas, Polars or Arrow"):
        mwem_sql.load(shared, frame, "t")


def test_nothing_is_left_behind(con: Connection) -> None:
    mwem_sql.load(con, pa.table({"x": [1]}), "t")
    with pytest.raises(duckdb.CatalogException):
        con.execute("FROM __mwem_frame")
