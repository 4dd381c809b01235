"""What attributes are inside the classes that a workload tells apart.

Measured, written into rows, and answered from.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from chance import sampled
from conftest import Connection, Open
from thresholds import few_sets

# The README's table and workload.
PEOPLE = """
    CREATE TABLE people (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99), sex ENUM ('F', 'M') NOT NULL,
        city VARCHAR CHECK (city IN ('Bern', 'Basel', 'Genf')), pay DOUBLE CHECK (pay >= 0 AND pay < 1e6));
    INSERT INTO people SELECT i * 7 % 100, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END,
        ['Bern', 'Basel', 'Genf'][1 + i % 3],
        (i * 7 % 100) * 1000 + i % 977 FROM range(10000) AS t(i);
    CREATE TABLE workload (predicate VARCHAR, group_by VARCHAR[]);
    INSERT INTO workload VALUES (NULL, ['sex', 'city']), ('age >= 65', NULL),
        ('pay > 50000 AND sex = ''F''', NULL), ('age BETWEEN 18 AND 64', ['sex']);
"""


def one(con: Connection, sql: str) -> Any:
    return con.execute(sql).fetchall()[0][0]


@pytest.fixture
def people(connect: Open) -> Connection:
    con = connect()
    con.execute(PEOPLE)
    return con


@pytest.mark.parametrize("options", sampled(["", ", delta := 1e-9", ", total := 10000"], 1))
def test_the_readme_table_is_ordinary(people: Connection, options: str) -> None:
    """Without details avg(pay) is about 298,000 for 49,979, and 830 pays are NULL where none is."""
    people.execute(f"CALL mwem_release('people', workload, 1, seed := 1{options})")
    assert one(people, "SELECT avg(pay) FROM people_synthetic") == pytest.approx(49_979, rel=0.15)
    assert one(people, "SELECT max(pay) FROM people_synthetic WHERE pay < 1e6") < 1e6
    assert one(people, "SELECT count(*) FROM people_synthetic WHERE pay > 150000") < 100
    assert one(people, "SELECT count(*) - count(pay) FROM people_synthetic") == 0
    assert one(people, "SELECT avg(age) FROM people_synthetic") == pytest.approx(49.5, abs=1.5)


def test_nulls_that_are_there_stay_in_rows_and_answers(people: Connection) -> None:
    people.execute("UPDATE people SET pay = NULL WHERE age % 4 = 0")
    people.execute("CALL mwem_release('people', workload, 1, seed := 1)")
    assert one(people, "SELECT count(*) - count(pay) FROM people_synthetic") == pytest.approx(2500, abs=250)
    assert one(people, "SELECT mwem_count('people_synthetic', 'pay IS NULL')") == pytest.approx(2500, abs=250)


def test_later_questions_know_what_is_inside_classes(people: Connection) -> None:
    people.execute("CALL mwem_release('people', workload, 5, seed := 1)")
    for predicate in ("pay < 25000", "pay BETWEEN 60000 AND 90000", "pay >= 90000 OR pay IS NULL", "pay > 200000"):
        true = one(people, f"SELECT count(*) FROM people WHERE {predicate}")
        assert one(people, f"SELECT mwem_count('people_synthetic', '{predicate}')") == pytest.approx(true, abs=250)
        assert one(people, f"SELECT count(*) FROM people_synthetic WHERE {predicate}") == pytest.approx(true, abs=250)
    spread = dict(people.execute("SELECT pay, weight FROM mwem_weights('people_synthetic', ['pay'])").fetchall())
    assert sum(spread.values()) == pytest.approx(10_000, abs=50)
    assert spread[None] < 10


def test_they_move_no_answer_to_the_workload(people: Connection) -> None:
    people.execute("CALL mwem_release('people', workload, 1, seed := 1)")
    answers = "SELECT answer FROM mwem_answer('people_synthetic', workload)"
    told = [row[0] for row in people.execute(answers).fetchall()]
    grid = json.loads(one(people, "SELECT grid FROM mwem.releases"))
    assert {name for name, own in grid.items() if own.pop("weights", None)} == {"age", "pay"}
    people.execute("UPDATE mwem.releases SET grid = ?", [json.dumps(grid)])
    assert [row[0] for row in people.execute(answers).fetchall()] == pytest.approx(told, rel=1e-9)


def test_a_table_that_is_restored_is_ordinary_too(people: Connection) -> None:
    people.execute("CALL mwem_release('people', workload, 1, seed := 1)")
    before = one(people, "SELECT avg(pay) FROM people_synthetic")
    people.execute("DROP TABLE people_synthetic")
    people.execute("CALL mwem_release('people', workload, 1, seed := 1)")
    assert one(people, "SELECT avg(pay) FROM people_synthetic") == pytest.approx(before, rel=0.02)


def test_lists_and_whole_numbers_and_dates(connect: Open) -> None:
    con = connect()
    con.execute(
        """CREATE TABLE t (town VARCHAR NOT NULL CHECK (town IN ('a', 'b', 'c', 'd', 'e')),
               score INTEGER CHECK (score BETWEEN 0 AND 90000),
               day DATE NOT NULL CHECK (day BETWEEN DATE '1900-01-01' AND DATE '2099-12-31'));
           INSERT INTO t SELECT ['a', 'b', 'c', 'c', 'c'][1 + i % 5], 40 * (i % 100),
               DATE '2000-01-01' + (i % 365)::INTEGER FROM range(20000) r(i);
           CREATE TABLE w AS
               SELECT unnest(['town = ''a''', 'score > 2000', 'day >= DATE ''2000-07-01''']) AS predicate"""
    )
    con.execute("CALL mwem_release('t', w, 1, seed := 1)")
    towns = dict(con.execute("SELECT town, count(*) FROM t_synthetic GROUP BY ALL").fetchall())
    assert towns["c"] == pytest.approx(12_000, abs=600)
    assert towns.get("d", 0) + towns.get("e", 0) < 600
    assert one(con, "SELECT avg(score) FROM t_synthetic") == pytest.approx(1980, rel=0.25)
    assert one(con, "SELECT count(*) - count(score) FROM t_synthetic") == 0
    assert one(con, "SELECT count(*) FROM t_synthetic WHERE year(day) NOT BETWEEN 1998 AND 2002") < 600


@pytest.mark.parametrize(
    "options",
    sampled(
        ["rounds := 3", "average := true", "rounds := 3, average := true, fit := 'replay', start := 'histogram'"], 1
    ),
)
def test_the_papers_figure_has_none(people: Connection, options: str) -> None:
    people.execute(f"CALL mwem_release('people', workload, 1, {options})")
    assert one(people, "SELECT count(*) FROM mwem.measurements WHERE purpose = 'detail'") == 0
    assert dict(people.execute(f"FROM mwem_plan('people', workload, 1, {options})").fetchall())["details"] == "none"


def test_what_is_told_apart_by_the_workload_takes_no_share(people: Connection) -> None:
    people.execute("CREATE TABLE all_values AS SELECT ['sex', 'city'] AS group_by UNION ALL SELECT ['age']")
    found = dict(people.execute("FROM mwem_plan('people', all_values, 1)").fetchall())
    assert (found["details"], found["first"]) == ("none", "2 distributions, 98% of the budget")


def test_rounds_have_details_too(people: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    few_sets(monkeypatch, 1)
    people.execute("CALL mwem_release('people', workload, 2, seed := 1)")
    purposes = dict(people.execute("SELECT purpose, count(*) FROM mwem.measurements GROUP BY ALL").fetchall())
    assert purposes["round"] and purposes["first"] and purposes["detail"]
    assert one(people, "SELECT avg(pay) FROM people_synthetic") == pytest.approx(49_979, rel=0.15)
    assert one(people, "SELECT count(*) - count(pay) FROM people_synthetic") == 0


def test_a_column_that_is_named_like_a_detail(connect: Open) -> None:
    con = connect()
    con.execute(
        """CREATE TABLE t (x INTEGER NOT NULL CHECK (x BETWEEN 0 AND 9),
               "x in detail" INTEGER NOT NULL CHECK ("x in detail" BETWEEN 0 AND 9));
           INSERT INTO t SELECT 7, 2 FROM range(1000);
           CREATE TABLE w AS SELECT unnest(['x > 4', '"x in detail" > 4']) AS predicate"""
    )
    con.execute("CALL mwem_release('t', w, 10, seed := 1)")
    assert con.execute('SELECT mode(x), mode("x in detail") FROM t_synthetic').fetchall() == [(7, 2)]


def test_a_domain_of_one_value_and_null(connect: Open) -> None:
    con = connect()
    con.execute(
        """CREATE TABLE t (x INTEGER CHECK (x BETWEEN 3 AND 3), y BOOLEAN NOT NULL);
           INSERT INTO t SELECT CASE WHEN i % 2 = 0 THEN 3 END, i % 3 = 0 FROM range(1000) r(i);
           CREATE TABLE w AS SELECT unnest(['y', 'x > 2 AND y']) AS predicate"""
    )
    con.execute("CALL mwem_release('t', w, 10, seed := 1)")
    assert one(con, "SELECT count(x) FROM t_synthetic") == pytest.approx(500, abs=60)
