"""The Python surface."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from conftest import PEOPLE, Connection, Open

import mwem_sql
from mwem_sql import Domain, Query, Workload
from mwem_sql.errors import WorkloadError


def test_it_needs_no_registration(connect: Open) -> None:
    con = connect(registered=False)
    con.execute(PEOPLE)
    assert mwem_sql.release(con, "people", "workload", 1, rounds=1).rows > 0


def test_factors_and_measurements_are_arrow(con: Connection) -> None:
    made = mwem_sql.release(con, "people", "workload", 1, rounds=2)
    assert made.factors.schema.names == ["factor", "attributes", "shape", "weights"]
    assert made.factors.schema.field("weights").type == pa.large_list(pa.float64())
    for row in made.factors.to_pylist():
        assert np.prod(row["shape"]) == len(row["weights"])
    assert {name for row in made.factors.to_pylist() for name in row["attributes"]} == {"age", "sex", "member", "city"}
    assert made.measurements.schema.names == [
        "step",
        "purpose",
        "query",
        "name",
        "noise",
        "scale",
        "resolution",
        "values",
        "blocks",
    ]
    assert made.measurements.column("purpose").to_pylist() == ["total", "round", "round"]


def test_an_average_has_its_states_in_front(con: Connection) -> None:
    made = mwem_sql.release(con, "people", "workload", 1, rounds=3, average=True)
    assert made.factors.schema.names == ["state", "factor", "attributes", "shape", "weights"]
    assert set(made.factors.column("state").to_pylist()) == {0, 1, 2}


def test_answers_are_those_of_sql(con: Connection) -> None:
    made = mwem_sql.release(con, "people", "workload", 1, rounds=3)
    found = made.answer("workload")
    assert found.schema.names == ["query", "name", "cell", "answer", "low", "high", "measured", "note"]
    assert list(found.to_pydict().values()) == [
        list(column)
        for column in zip(*con.execute("FROM mwem_answer('people_synthetic', workload)").fetchall(), strict=True)
    ]


def test_a_workload_in_every_form(con: Connection) -> None:
    con.execute("CALL mwem_release('people', workload, 1, rounds := 1)").fetchall()
    arrow = con.sql("FROM workload").to_arrow_table()
    written = Workload.from_predicates(["age > 40", "sex = 'F' AND member"]) + Workload(
        (Query(group_by=("sex", "city")),)
    )
    forms: list[str | Workload | pa.Table] = [
        written,
        Workload.from_rows(arrow.to_pylist()),
        arrow,
        "workload",
        "memory.main.workload",
    ]
    for workload in forms:
        made = mwem_sql.release(con, "people", workload, 1, rounds=1)
        assert made.reused is True
        assert made.answer(workload).num_rows == 10


def test_workloads_are_built_from_a_domain(con: Connection) -> None:
    domain = Domain.from_schema(con, "people")
    made = mwem_sql.release(con, "people", Workload.marginals(domain, 2), 1, rounds=2)
    assert made.queries == 6


def test_after_use_of_another_schema(con: Connection) -> None:
    con.execute("CREATE SCHEMA s; USE s; CREATE TABLE people (x BOOLEAN NOT NULL)")
    assert mwem_sql.release(con, "people", Workload.from_predicates(["x"]), 1).output == "memory.s.people_synthetic"
    assert mwem_sql.release(con, "main.people", "workload", 1, rounds=1).output == "memory.main.people_synthetic"


def test_a_question_about_something_that_was_not_released(con: Connection) -> None:
    made = mwem_sql.release(con, "people", Workload.from_predicates(["age > 40"]), 1)
    with pytest.raises(WorkloadError, match="was made without sex"):
        made.answer(Workload.from_predicates(["sex = 'F'"]))


def test_names_with_dots(con: Connection) -> None:
    con.execute('CREATE SCHEMA "a.b"')
    made = mwem_sql.release(con, "people", "workload", 1, rounds=1, output='"a.b"."c.d"')
    assert made.output == "memory.a.b.c.d"
    assert made.answer("workload").num_rows == 10
    assert con.execute('SELECT count(*) FROM "a.b"."c.d"').fetchall() == [(made.rows,)]


def test_connect_is_duckdb_and_register() -> None:
    con = mwem_sql.connect(config={"threads": 1})
    try:
        assert con.execute("SELECT current_setting('threads')").fetchall() == [(1,)]
        con.execute(PEOPLE)
        assert (
            len(con.execute("CALL mwem_release('people', workload, 1, rounds := 1)").fetchall()) == 1
        )  # one thread is enough
    finally:
        con.close()
