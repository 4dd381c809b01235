"""Questions that tell nothing, or not what was meant, are refused before anything is charged."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from chance import sampled
from conftest import Connection

import mwem_sql

TABLE = """
    CREATE TABLE t (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99), x DOUBLE, d DATE,
        city VARCHAR NOT NULL CHECK (city IN ('Bern', 'Zürich', 'Genf')), o VARCHAR);
    INSERT INTO t SELECT i % 100, i % 90, '2020-03-04', 'Bern', 'aa' FROM range(300) r(i);
    CREATE TABLE t_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR, bins INTEGER,
        open BOOLEAN);
    INSERT INTO t_domain VALUES ('x', NULL, '0', '90', 18, false), ('d', NULL, '2020-01-01', '2020-12-31', 12, false),
        ('o', ['aa', 'bb'], NULL, NULL, NULL, true);
    CREATE TABLE w (predicate VARCHAR, group_by VARCHAR, measure VARCHAR)"""


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    with mwem_sql.connect() as con:
        con.execute(TABLE)
        yield con


def planned(con: Connection, *row: str | None) -> dict[str, str]:
    con.execute("DELETE FROM w")
    con.execute("INSERT INTO w VALUES (?, ?, ?)", [*row, *[None] * (3 - len(row))])
    con.execute("INSERT INTO w (predicate) VALUES ('age > 4')")
    return dict(con.execute("SELECT item, value FROM mwem_plan('t', w, 1)").fetchall())


@pytest.mark.parametrize(
    ("text", "known", "hint"),
    sampled(
        [
            (
                "city = 'Zurich'",
                "false or NULL",
                "did you mean 'Zürich'? city has no value 'Zurich', but 'Bern', 'Zürich', 'Genf'",
            ),
            ("age > 40 AND city = 'Paris'", "false or NULL", "city has no value 'Paris', but 'Bern', 'Zürich', 'Genf'"),
            ("city IN ('Paris', 'Rom')", "false or NULL", "city has no value 'Paris'"),
            ("age = 120", "false or NULL", "age has no value 120, but whole numbers from 0 to 99"),
            (
                "o = 'cc'",
                "false or NULL",
                "o has no value 'cc', but 'aa', 'bb'; add it to the domain table if it is possible",
            ),
            ("age = 4 AND age = 120", "false or NULL", "age has no value 120, but whole numbers from 0 to 99"),
            ("age + 1", "true", "write a condition, such as age + 1 > 0; 'true' counts all rows"),
        ],
        3,
    ),
)
def test_a_mistake_is_refused_wherever_it_stands(con: Connection, text: str, known: str, hint: str) -> None:
    for row in ((text,), (text, "city"), (text, None, "age")):
        with pytest.raises(duckdb.Error) as caught:
            planned(con, *row)
        message = (
            f"workload: predicate ({text!r}) is {known} for every value of the public domain, so its answer is known"
            f" already. Hint: {hint}"
        )
        assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    sampled(
        [
            None,
            "true",
            "1 = 1",
            "1 = 0",
            "1 = 1 AND age > 3",
            "age <= 99",
            "age BETWEEN 0 AND 99",
            "city IN ('Bern', 'Zurich')",
            "city <> 'Zurich'",
            "city = 'Bern' OR city = 'Zürich' OR city = 'Genf'",
            "age % 2",
            "x IS NOT NULL",
        ],
        5,
    ),
)
def test_what_may_be_meant_is_answered(con: Connection, text: str | None) -> None:
    assert "warning" not in planned(con, text, "city")


def test_what_no_value_is_though_each_part_is_possible_is_named(con: Connection) -> None:
    wanted = "predicate 'age = 4 AND age = 5' is never true on the declared domain"
    assert planned(con, "age = 4 AND age = 5")["warning"] == wanted


def test_ranges_outside_the_domain_are_named(con: Connection) -> None:
    wanted = "predicate 'age > 200' is never true on the declared domain"
    assert planned(con, "age > 200")["warning"] == wanted
    assert con.execute("SELECT warning FROM mwem_release('t', w, 1)").fetchall() == [(wanted,)]
