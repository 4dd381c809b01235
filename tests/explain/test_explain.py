"""What mwem_plan tells."""

from __future__ import annotations

import re

import duckdb
import pytest
from conftest import Connection
from sqlglot import exp
from thresholds import few_sets

from mwem_sql.explain.explain import aggregates
from mwem_sql.scan.dialects import DUCKDB
from mwem_sql.scan.parts import Aggregates


def plan(con: Connection, options: str = "") -> dict[str, str]:
    return dict(con.execute(f"FROM mwem_plan('people', workload, 1{options})").fetchall())


def test_the_facts_in_reading_order(con: Connection) -> None:
    found = plan(con)
    assert list(found) == [
        "table", "expect", "told apart", "serves", "advice", "protects", "epsilon", "delta", "composition", "rounds",
        "total", "start", "queries", "attributes", "domain cells",
        "widest query", "candidates", "first", "details", "certificate", "selecting", "selection scale", "noise scale",
        "noise if pure", "scans", "plan", "estimate", "aggregate",
    ]  # fmt: skip
    assert found["table"] == "memory.main.people"
    assert found["protects"] == "one row"
    assert found["composition"] == "pure epsilon, Laplace noise"
    assert found["rounds"] == "of refining: 3, or fewer"
    assert found["total"] == "private, from all that is measured"
    assert found["candidates"] == "none: all that is asked about is refined"
    assert found["first"] == "3 distributions, 93% of the budget"
    assert re.fullmatch(r"inside classes, 5% of the budget: age \d+ \(parts, or fewer\)", found["details"])
    assert (found["selecting"], found["selection scale"]) == ("0% of a round", "nothing to select")
    assert found["queries"] == "3 rows, 3 distinct"
    assert found["attributes"] == "age 2, sex 2, member 2, city 4 (classes)"
    assert found["domain cells"] == "32"
    assert found["widest query"] == "8 cells: sex, city"


def test_a_part_says_how_and_at_what_cost(con: Connection) -> None:
    found = plan(con)
    assert found["scans"] == "1"
    assert (
        found["plan"]
        == "one GROUP BY of all touched columns, 5 columns (age, sex, member, city, age in detail), rolled up to 4 "
        "attribute sets"
    )
    assert re.fullmatch(
        r"1 histogram of 3,232 cells; relative cost per row \d+ \(1 is to sum up a column\)", found["estimate"]
    )


def test_every_plan_can_be_read(con: Connection) -> None:
    names = [f"b{k}" for k in range(40)]
    con.execute(
        f"CREATE TABLE wide ({', '.join(f'{name} BOOLEAN NOT NULL' for name in names)}, x INTEGER CHECK (x BETWEEN 0 "
        "AND 299), y INTEGER CHECK (y BETWEEN 0 AND 299))"
    )
    con.execute(
        "CREATE TABLE asked AS SELECT group_by FROM mwem_marginals('wide', 2) WHERE NOT list_has_any(group_by, ['x', "
        "'y']) UNION ALL SELECT ['x', 'y']"
    )
    rows = con.execute("SELECT item, value FROM mwem_plan('wide', asked, 1)").fetchall()
    told = [value for item, value in rows if item == "plan"]
    assert [text.split(" (")[0] for text in told] == [
        "a GROUP BY of 2 columns",
        "a streamed pairwise product of 40 columns",
    ]
    assert [value.split(";")[0] for item, value in rows if item == "estimate"] == [
        "1 histogram of 90,601 cells",
        "80 classes, 6,400 pairs",
    ]


def test_long_and_many_statements_are_cut() -> None:
    statement = exp.select("a").from_("t")
    part, text = Aggregates((statement,) * 1003, (), 0.0), "SELECT\n  a\nFROM t"
    assert list(aggregates(part, DUCKDB)) == [text] * 3 + ["... and 1,000 more like these"]
    assert list(aggregates(part, DUCKDB, statements=1003)) == [text] * 1003
    assert next(aggregates(part, DUCKDB, characters=len(text))) == text
    assert next(aggregates(part, DUCKDB, characters=len(text) - 1)) == "SELECT\n  a\nFROM \n... (1 characters more)"


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
    assert [f"{scale:.6g} per cell of a count" for (scale,) in scales] == [found["noise scale"]]


def test_delta_shows_both_predictions(con: Connection) -> None:
    many, few = plan(con, ", delta := 1e-6, rounds := 50"), plan(con, ", delta := 1e-6, rounds := 1")
    assert many["composition"] == "zCDP, Gaussian noise"
    assert few["composition"] == "pure epsilon, Laplace noise"
    assert "noise if zCDP" in many
    assert "noise if zCDP" in few


def test_rounds_that_are_given_are_all_there_is(con: Connection) -> None:
    found = plan(con, ", rounds := 4")
    assert (found["rounds"], found["first"], found["total"]) == (
        "4",
        "0 distributions, 0% of the budget",
        "private, 2% of the budget",
    )


def test_rounds_select_where_many_sets_are_asked_about(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    few_sets(monkeypatch, 2)
    found = plan(con)
    assert found["rounds"] == "0"
    assert plan(con, ", fit := 'replay'")["rounds"] == "3"
    assert found["total"] == "private, 2% of the budget, and from the distributions that are measured first"
    assert found["candidates"] == (
        "7, with what cuboids add up to and partitions around counts; or all queries at once, by n"
    )
    assert found["first"] == "4 distributions, 0% of the budget"
    assert found["selecting"] == "15% of a round"


def test_the_average_is_shared_as_in_the_paper(con: Connection) -> None:
    found = plan(con, ", average := true")
    assert (found["rounds"], found["selecting"], found["candidates"][:2]) == ("3", "50% of a round", "3,")


def test_a_refusal_is_that_of_the_release(con: Connection) -> None:
    with pytest.raises(duckdb.Error, match=r"unit \('who'\) is not a column of people"):
        plan(con, ", unit := 'who', rows_per_unit := 1")


def test_the_largest_measure_and_its_noise(con: Connection) -> None:
    """Hidden counts of 1 have the scale of the plan; a sum has it times its largest value."""
    con.execute("CREATE OR REPLACE TABLE workload AS SELECT unnest(['age', 'age * 0.5']) AS measure")
    assert plan(con)["largest measure"] == "up to 99, in steps of 1, added up from parts: sum(age)"
    found = plan(con, ", total := 400, rounds := 2")
    counts, sums = (
        float(re.search(r"([\d.]+) per cell", found[item])[1]) for item in ("noise scale", "largest measure")
    )
    assert found["largest measure"].startswith("up to 99, in steps of 1, noise scale ") and found[
        "largest measure"
    ].endswith(": sum(age)")
    assert sums == pytest.approx(99 * counts, rel=1e-5)
