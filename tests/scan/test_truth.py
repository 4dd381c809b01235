"""What SQL says on a private table: many queries in few statements, and one that fails does not take others with it."""

from __future__ import annotations

import pytest
from conftest import Connection
from sqlglot import exp

from mwem_sql.compile.statements import statements
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.scan import truth
from mwem_sql.workload import Query, Workload

DOMAIN = Domain(
    "people",
    ("age", "sex", "city"),
    (
        Attribute("age", "INTEGER", nullable=True, low=0, high=99),
        Attribute("sex", "ENUM('F', 'M')", nullable=False, values=("F", "M")),
        Attribute("city", "VARCHAR", nullable=True, values=("Bern", "Genf")),
    ),
)
ROWS = exp.to_table("people")


def asked(con: Connection, *queries: Query) -> list[truth.Cells | None]:
    return truth.answers(con.cursor(), ROWS, list(statements(DOMAIN, Workload(queries))))


@pytest.mark.parametrize(
    "predicate",
    [
        "age > 40",
        "age > 40 OR city IS NULL AND NOT (sex = 'M' OR age < 3)",
        "NOT (city = 'Bern' AND sex = 'F')",
        "age % 7 = length(city) - 1",
        "true",
        "city LIKE 'B%' -- and not 'Genf'\n",
    ],
)
def test_it_is_what_a_person_would_run(con: Connection, predicate: str) -> None:
    def run(what: str, by: str = "") -> list[tuple[object, ...]]:
        return con.execute(f"SELECT {by}{what} FROM people WHERE {predicate}\n GROUP BY ALL").fetchall()

    found = asked(con, *(Query(predicate, measure) for measure in (None, "age * 2", "sum(age)", "avg(age * 0.5)")))
    wanted = [run(what) for what in ("count(*)", "sum(age * 2)", "sum(age)", "avg(age * 0.5)")]
    assert found == [{(): pytest.approx(float(rows[0][0]))} for rows in wanted]  # type: ignore[arg-type]
    (grouped,) = asked(con, Query(predicate, "avg(age)", ("city, age // 50",), verbatim=False))
    assert grouped == {
        tuple(row[:-1]): pytest.approx(row[-1]) for row in run("avg(age)", "city, (age // 50)::VARCHAR, ")
    }


def test_many_are_few_statements(con: Connection) -> None:
    executed = 0

    class Counting:
        def __init__(self) -> None:
            self.cursor = con.cursor()

        def execute(self, sql: str) -> Connection:
            nonlocal executed
            executed += 1
            return self.cursor.execute(sql)

    queries = list(statements(DOMAIN, Workload.from_predicates([f"age > {k % 100}" for k in range(1000)])))
    found = truth.answers(Counting(), ROWS, queries)  # type: ignore[arg-type]
    assert found == [{(): 4.0 * (99 - k % 100)} for k in range(1000)]
    assert executed == 1000 // truth.COUNTS_AT_ONCE + 2  # with a BEGIN and a ROLLBACK


def test_one_that_fails_is_the_only_one_without_an_answer(con: Connection) -> None:
    fails = Query("CAST(city AS INTEGER) = 3")
    by_groups = Query("CAST(city AS INTEGER) = 3", group_by=("sex",))
    found = asked(con, Query("age > 40"), fails, by_groups, Query("sex = 'F'"), Query(group_by=("sex",)))
    assert found == [{(): 236.0}, None, None, {(): 134.0}, {("F",): 134.0, ("M",): 266.0}]


def test_a_division_that_is_guarded_does_not_fail(con: Connection) -> None:
    guarded = "CASE WHEN city IN ('1', '2') THEN CAST(city AS INTEGER) ELSE 0 END = 1"
    assert asked(con, Query(guarded), Query("city = '1'", "CAST(city AS INTEGER)")) == [{(): 0.0}, {}]
