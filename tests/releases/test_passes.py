"""Passes over tables: what is asked of kernels, and whose classes a message is on."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pytest
from level_plans import SETUP, planned

import mwem_sql
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.releases import passes
from mwem_sql.workload import Query

PAIRS = """CREATE TABLE workload AS SELECT * FROM (VALUES
    ('person', ['old']), ('visit', ['home', 'person.old']), ('drug', ['strong', 'visit.home'])) w("of", group_by)"""


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect() as con:
        con.execute(SETUP)
        con.execute("INSERT INTO person SELECT i, i % 3 = 0, i % 100 FROM range(600) t(i)")
        con.execute("INSERT INTO visit SELECT 3 * pid + i, pid, old FROM person, range(3) t(i) WHERE old OR i = 0")
        con.execute("INSERT INTO drug SELECT vid, home FROM visit, range(2) t(i) WHERE home OR i = 0")
        yield con


def test_what_goes_up_and_down_again_asks_kernels_nothing(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last table is measured, kernels are asked for certificates and numbers of units alone."""
    con.execute(PAIRS)
    events = list[str]()
    for name in ("measure", "select", "certify"):
        method = getattr(Kernel, name)

        def noted(*arguments: object, _name: str = name, _method: object = method, **options: object) -> object:
            events.append(_name)
            return _method(*arguments, **options)  # type: ignore[operator]

        monkeypatch.setattr(Kernel, name, noted)
    fitted = passes._fitted

    def up(*arguments: object) -> object:
        events.append("up")
        return fitted(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(passes, "_fitted", up)
    mwem_sql.release(con, ["person", "visit", "drug"], "workload", 5, rows_per_unit={"visit": 3, "drug": 6}, seed=1)
    assert events.count("up") == 2
    first, last = events.index("up"), len(events) - events[::-1].index("up")
    assert events[first:last] == ["up", "up"]
    # The numbers of units of the two tables below.
    assert set(events[last:]) == {"certify", "measure"} and events[last:].count("measure") == 2


def test_columns_of_a_parent_follow_what_its_children_were_measured_to_be(con: duckdb.DuckDBPyConnection) -> None:
    """Nobody asks how many visits the old have: what visits say of it, their persons' rows say, too."""
    con.execute(PAIRS)
    mwem_sql.release(con, ["person", "visit", "drug"], "workload", 200, rows_per_unit={"visit": 3, "drug": 6}, seed=1)
    select = "SELECT count(*) FROM visit{0} v JOIN person{0} p USING (pid) WHERE old"
    (synthetic,), (private,) = (con.execute(select.format(text)).fetchone() or (0,) for text in ("_synthetic", ""))
    assert private == 600 and synthetic == pytest.approx(private, abs=12)
    ((rows,),) = con.execute("SELECT count(*) FROM person_synthetic WHERE old").fetchall()
    assert rows == pytest.approx(200, abs=3)


def test_a_table_fits_its_measurements_whatever_the_rows_above_it_became(con: duckdb.DuckDBPyConnection) -> None:
    """Where numbers depend on columns, visits begin with other persons than they end with."""
    con.execute(
        """DELETE FROM drug;
           DELETE FROM visit;
           INSERT INTO person SELECT i, i % 3 = 0, i * 37 % 100 FROM range(600, 9000) t(i);
           INSERT INTO visit SELECT row_number() OVER (), pid, age >= 60 AND (age + i) % 3 > 0
           FROM person, range(4) t(i) WHERE i < if(age >= 60, 3, 1) + old::INTEGER;
           CREATE TABLE workload AS SELECT * FROM (VALUES ('person', 'age >= 60', ['old']),
           ('visit', NULL, ['home', 'old']), ('visit', 'age >= 60', ['home'])) w("of", predicate, group_by)"""
    )
    _, visit = mwem_sql.release(con, ["person", "visit"], "workload", 1, rows_per_unit=4, seed=1)
    select = "SELECT home, old, count(*) FROM visit{0} JOIN person{0} USING (pid) GROUP BY ALL"
    synthetic, private = (
        {row[:-1]: row[-1] for row in con.execute(select.format(text)).fetchall()} for text in ("_synthetic", "")
    )
    # Of a joint distribution; Laplace noise is beyond eight scales once in 3,000 times.
    reach = 8 * min(visit.measurements.column("scale").to_pylist())
    assert reach < 0.01 * visit.rows
    assert all(synthetic[cell] == pytest.approx(rows, abs=reach) for cell, rows in private.items())


def test_classes_of_a_table_are_those_of_its_parents(con: duckdb.DuckDBPyConnection) -> None:
    tree = planned(
        con,
        Query("age >= 65", of="person"),
        Query("home AND person.age < 18", of="visit"),
        Query("strong AND visit.home AND person.old", of="drug"),
    )
    person, visit, drug = (one.plan.compiled for one in tree.levels)
    up = passes.ascent(person, visit)
    assert up.names == {"person.age": "age", "person.old": "old"}
    # The parent's classes are finer: below 18, from 18 to 64, and from 65 on.
    (places,) = (up.places["person.age"],)
    assert len(places) == person.classes["age"].count == 3 and len(np.unique(places)) == 2
    assert up.number.attributes == ("visit",) and up.number.values is not None
    assert sorted(up.number.values.tolist()) == [0, 1, 2, 3, 4]
    # What the table two above is called is the same in both.
    assert passes.ascent(visit, drug).names == {"visit.home": "home", "person.old": "person.old"}
