"""Answers of a stored release: against DuckDB's own evaluation of the same SQL on the released weights."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from conftest import Connection
from hypothesis import given, settings
from hypothesis import strategies as st
from released import CITIES, OF_CITIES, weighed

import mwem_sql

ATTRIBUTES = ("age", "sex", "city", "ok")


atoms = st.one_of(
    st.builds("age {} {}".format, st.sampled_from(["<", "<=", "<>", ">", ">="]), st.integers(-2, 14)),
    st.builds("age = {}".format, st.integers(0, 11)),
    st.builds("age BETWEEN {} AND {}".format, st.integers(-1, 12), st.integers(-1, 12)),
    st.builds("age % {} = {}".format, st.integers(1, 4), st.integers(0, 3)),
    st.builds("age IN ({}, {})".format, st.integers(0, 11), st.integers(0, 11)),
    st.sampled_from(
        [
            "sex = 'F'",
            "sex > 'M'",
            "city LIKE 'B%'",
            "city IS NULL",
            "ok",
            "ok IS NULL",
            "age IS NOT NULL",
            "coalesce(ok, sex = 'M')",
            "len(city) + age > 9",
            "true",
            "false",
        ]
    ),
)


predicates = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module", params=[False, True], ids=["last", "average"])
def released(request: pytest.FixtureRequest) -> Iterator[Connection]:
    with weighed(CITIES, OF_CITIES, average=request.param) as con:
        yield con


def test_weights_are_all_combinations_and_sum_to_the_total(released: Connection) -> None:
    rows = released.execute(
        "SELECT count(*), sum(weight), min(weight) > 0, count(DISTINCT (age, sex, city, ok)) FROM weights"
    ).fetchall()
    total = released.execute("SELECT mwem_count('t_synthetic', 'true')").fetchall()[0][0]
    assert rows == [(13 * 2 * 3 * 3, pytest.approx(total), True, 13 * 2 * 3 * 3)]
    described = released.execute("SELECT column_name, column_type FROM (DESCRIBE weights)").fetchall()
    assert described == [
        ("age", "INTEGER"),
        ("sex", "ENUM('M', 'F')"),
        ("city", "VARCHAR"),
        ("ok", "BOOLEAN"),
        ("weight", "DOUBLE"),
    ]


@settings(max_examples=8, deadline=None)
@given(st.lists(predicates, min_size=1, max_size=25))
def test_counts_are_the_weights_where_the_predicate_is_true(released: Connection, asked: list[str]) -> None:
    """Most of these split the release's classes; values of a class share its weight equally."""
    released.execute("CREATE OR REPLACE TABLE asked (n INTEGER, p VARCHAR)")
    released.executemany("INSERT INTO asked VALUES (?, ?)", list(enumerate(asked)))
    found = released.execute("SELECT mwem_count('t_synthetic', p) FROM asked ORDER BY n").fetchall()
    sums = ", ".join(f"coalesce(sum(weight) FILTER (WHERE {text}), 0)" for text in asked)
    (wanted,) = released.execute(f"SELECT {sums} FROM weights").fetchall()
    assert [answer for (answer,) in found] == pytest.approx(list(wanted), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("group_by", [["sex"], ["city", "sex"], ["ok", "age"], ["age", "sex", "city", "ok"]])
def test_grouped_answers_are_the_weights_by_group(released: Connection, group_by: list[str]) -> None:
    found = released.execute(
        "WITH w AS (SELECT ? AS group_by, 'age < 7' AS predicate) SELECT query, cell, answer FROM "
        "mwem_answer('t_synthetic', w)",
        [group_by],
    ).fetchall()
    listed = ", ".join(group_by)
    wanted = released.execute(
        f"SELECT [{', '.join(f'{name}::VARCHAR' for name in group_by)}], sum(weight) FROM weights WHERE age < 7 GROUP "
        f"BY {listed}"
    ).fetchall()
    assert {query for query, _, _ in found} == {1}
    assert {tuple(cell): answer for _, cell, answer in found} == pytest.approx(
        {tuple(cell): sum_ for cell, sum_ in wanted}, rel=1e-9, abs=1e-6
    )
    assert len(found) == len(wanted)


def test_a_group_by_of_expressions(released: Connection) -> None:
    found = released.execute(
        "WITH w AS (SELECT 'sex, age // 4' AS group_by) SELECT cell, answer FROM mwem_answer('t_synthetic', w)"
    ).fetchall()
    wanted = released.execute(
        "SELECT sex::VARCHAR, (age // 4)::VARCHAR, sum(weight) FROM weights GROUP BY ALL"
    ).fetchall()
    assert {tuple(cell): answer for cell, answer in found} == pytest.approx(
        {(sex, tens): weight for sex, tens, weight in wanted}, rel=1e-9
    )


def test_answers_come_in_the_order_of_the_workload(released: Connection) -> None:
    released.execute(
        "CREATE OR REPLACE TABLE asked AS SELECT 'age = ' || i AS predicate, 'q' || i AS name FROM range(11, -1, -1) "
        "t(i)"
    )
    rows = released.execute("SELECT query, name, cell FROM mwem_answer('t_synthetic', asked)").fetchall()
    assert rows == [(k + 1, f"q{11 - k}", None) for k in range(12)]


def test_a_release_answers_its_own_workload_as_its_state_does(released: Connection) -> None:
    again = mwem_sql.release(
        released,
        "t",
        OF_CITIES,
        3,
        rounds=4,
        average=released.execute("SELECT max(state) > 0 FROM mwem.factors").fetchall()[0][0],
    )
    assert again.reused
    answers = again.answer(OF_CITIES)
    assert answers.column("query").to_pylist() == [1, 2, 3] + [4] * 9
    grouped = [row for row in answers.to_pylist() if row["query"] == 4]
    assert [row["cell"] for row in grouped] == [
        [city, ok] for city in ("Bern", "Genf", None) for ok in ("false", "true", None)
    ]


def test_one_column_of_weights_is_a_sum_of_many(released: Connection) -> None:
    for name in ATTRIBUTES:
        alone = dict(released.execute(f"FROM mwem_weights('t_synthetic', '{name}')").fetchall())
        assert alone == pytest.approx(
            dict(released.execute(f"SELECT {name}, sum(weight) FROM weights GROUP BY 1").fetchall()), rel=1e-9
        )


def test_what_cannot_be_asked(released: Connection) -> None:
    for statement, wanted in [
        (
            "FROM mwem_weights('t_synthetic', ['size'])",
            (
                "mwem_weights: t_synthetic was made without size. Hint: it has 'age', 'sex', 'city', 'ok'; to have "
                "size, "
                "release"
            ),
        ),
        ("FROM mwem_weights('t_synthetic', 'age, age')", "must be one or more, each once"),
        (
            "SELECT mwem_count('t_synthetic', 'size > 1')",
            "reads size, and t_synthetic was made without size. Hint: it has age, sex, city, ok; to have size",
        ),
        ("SELECT mwem_count('t_synthetic', 'age > (SELECT 1)')", "has a subquery"),
        ("FROM mwem_answer('t_synthetic', weights)", "is not a column of a workload"),
        (
            "WITH w AS (SELECT ['size'] AS group_by) FROM mwem_answer('t_synthetic', w)",
            "group_by reads size, and t_synthetic was made without size. Hint: it has 'age', 'sex'",
        ),
        (
            "WITH w AS (SELECT 'x' AS predicate WHERE false) FROM mwem_answer('t_synthetic', w)",
            "the workload has no rows",
        ),
    ]:
        with pytest.raises(duckdb.Error) as caught:
            released.execute(statement).fetchall()
        assert wanted in str(caught.value)


def test_too_many_combinations_of_weights(con: Connection) -> None:
    con.execute(
        """CREATE TABLE wide (a INTEGER CHECK (a BETWEEN 0 AND 2999), b INTEGER CHECK (b BETWEEN 0 AND 2999));
           CREATE TABLE w AS SELECT unnest(['a % 2 = 0', 'b % 2 = 0']) AS predicate"""
    )
    mwem_sql.release(con, "wide", "w", 1, rows=3)
    with pytest.raises(
        duckdb.Error,
        match=r"attributes \(\['a', 'b'\]\) have 9,006,001 value combinations, more than 5,000,000\. Hint: name fewer",
    ):
        con.execute("FROM mwem_weights('wide_synthetic', ['a', 'b'])")
