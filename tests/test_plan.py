"""What mwem_plan tells."""

from __future__ import annotations

import duckdb
import pytest
from conftest import Connection


def plan(con: Connection, options: str = "") -> dict[str, str]:
    return dict(con.execute(f"FROM mwem_plan('people', workload, 1{options})").fetchall())


def test_the_facts_in_reading_order(con: Connection) -> None:
    found = plan(con)
    assert list(found) == [
        "table", "protects", "epsilon", "delta", "composition", "rounds", "total", "start", "queries", "attributes", "domain cells",
        "widest query", "selection scale", "noise scale", "noise if pure", "scans", "aggregate",
    ]  # fmt: skip
    assert found["table"] == "memory.main.people"
    assert found["protects"] == "one row"
    assert found["composition"] == "pure epsilon, Laplace noise"
    assert found["rounds"].startswith("3 (chosen")
    assert found["total"] == "private, 5% of the budget"
    assert found["queries"] == "3 rows, 3 distinct"
    assert found["attributes"] == "age 2, sex 2, member 2, city 4 (classes)"
    assert found["domain cells"] == "32"
    assert found["widest query"] == "8 cells: sex, city"


def test_it_reads_and_writes_nothing(con: Connection) -> None:
    before = plan(con)
    con.execute("INSERT INTO people SELECT 1, 'F', true, 'Bern' FROM range(5000)")
    assert plan(con) == before
    con.execute("DELETE FROM people")
    assert plan(con) == before
    assert con.execute("SELECT count(*) FROM duckdb_schemas() WHERE schema_name = 'mwem'").fetchall() == [(0,)]


def test_the_aggregates_run(con: Connection) -> None:
    sql = plan(con)["aggregate"]
    assert con.execute(f"SELECT sum(__count) FROM ({sql})").fetchall() == [(400,)]


def test_the_noise_is_what_a_release_has(con: Connection) -> None:
    found = plan(con, ", rounds := 2, total := 400")
    con.execute("CALL mwem_release('people', workload, 1, rounds := 2, total := 400)").fetchall()
    scales = con.execute("SELECT DISTINCT scale FROM mwem.measurements").fetchall()
    assert [f"{scale:.6g} per cell" for (scale,) in scales] == [found["noise scale"]]


def test_delta_shows_both_predictions(con: Connection) -> None:
    many, few = plan(con, ", delta := 1e-6, rounds := 50"), plan(con, ", delta := 1e-6, rounds := 1")
    assert many["composition"] == "zCDP, Gaussian noise"
    assert few["composition"] == "pure epsilon, Laplace noise"
    assert "noise if zCDP" in many
    assert "noise if zCDP" in few


def test_a_refusal_is_that_of_the_release(con: Connection) -> None:
    with pytest.raises(duckdb.Error, match=r"unit \('who'\) is not a column of people"):
        plan(con, ", unit := 'who'")
