"""Names and expressions in one list, so that marginals and a person's own groups go into one table."""

from __future__ import annotations

import duckdb
import pytest
from conftest import Connection

import mwem_sql


def test_marginals_and_expressions_in_one_table(con: Connection) -> None:
    con.execute("CREATE TABLE w AS FROM mwem_marginals('people', 2)")
    con.execute("INSERT INTO w (group_by) VALUES (['sex', 'age // 10']), (['City'])")
    con.execute("INSERT INTO w (predicate) VALUES ('age > 40')")
    con.execute("CALL mwem_release('people', w, 1, rounds := 1)")
    named = con.execute(
        "SELECT DISTINCT query, name FROM mwem_answer('people_synthetic', w) WHERE query > 6 ORDER BY ALL"
    )
    assert named.fetchall() == [(7, "sex, age // 10"), (8, "City"), (9, "age > 40")]
    asked = mwem_sql.Workload.from_rows([{"group_by": ["sex", "age // 10"]}, {"group_by": "sex, age // 10"}])
    answers = mwem_sql.release(con, "people", "w", 1, rounds=1).answer(asked).to_pylist()
    half = len(answers) // 2
    assert [row["answer"] for row in answers[:half]] == [row["answer"] for row in answers[half:]]


def test_a_list_in_a_column_of_text(con: Connection) -> None:
    """What DuckDB makes of a VARCHAR[] that goes into a VARCHAR."""
    con.execute('ALTER TABLE people ADD COLUMN "it\'s, so" BOOLEAN')
    con.execute("CREATE TABLE w (group_by VARCHAR)")
    con.execute("INSERT INTO w SELECT group_by FROM mwem_marginals('people', 2)")
    con.execute("INSERT INTO w VALUES ('sex, age // 10')")
    read = mwem_sql.Workload.from_arrow(con.sql("FROM w").to_arrow_table())
    wanted = mwem_sql.Workload.marginals(mwem_sql.Domain.from_schema(con, "people"), 2)
    assert [query.group_by for query in read][:-1] == [query.group_by for query in wanted]
    assert {query.verbatim for query in read.queries[:-1]} == {True}
    assert not read.queries[-1].verbatim


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("agee", "workload: group_by names the unknown column 'agee'. Hint: did you mean 'age'? people has the columns 'age', 'sex'"),
        ("my age", "group_by names the unknown column 'my age'. Hint: people has"),
        ("agee // 10", "group_by ('agee // 10') reads the unknown column agee. Hint: did you mean age?"),
        ("flor(age)", "calls flor, which is not on the list of deterministic scalar functions. Hint: did you mean floor? use a"),
        ("age, sex", "group_by ('age, sex') is not valid SQL"),
    ],
)  # fmt: skip
def test_neither_name_nor_expression(shared: Connection, item: str, message: str) -> None:
    shared.execute("CREATE OR REPLACE TABLE w AS SELECT [?] AS group_by", [item])
    with pytest.raises(duckdb.Error) as caught:
        shared.execute("FROM mwem_plan('people', w, 1)").fetchall()
    assert message in str(caught.value)
