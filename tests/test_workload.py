"""Rows of a workload, their refusals, and the builders."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from decimal import Decimal
from itertools import combinations

import duckdb
import pyarrow as pa
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import a_query

from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import DomainError, OptionError, WorkloadError
from mwem_sql.workload import Query, Workload

DOMAIN = Domain(
    "adult",
    ("age", "Sex", "x", "d", "ts", "tz", "p", "b", "on off", "f", "half", "raw"),
    (
        Attribute("age", "INTEGER", nullable=True, low=17, high=90),
        Attribute("Sex", "ENUM('it''s', 'M')", nullable=False, values=("it's", "M")),
        Attribute("x", "DOUBLE", nullable=True, low=-0.5, high=1e6),
        Attribute("d", "DATE", nullable=True, low=0, high=30),
        Attribute("ts", "TIMESTAMP", nullable=True, low=0, high=10**9),
        Attribute("tz", "TIMESTAMP WITH TIME ZONE", nullable=True, low=0, high=10**9),
        Attribute("p", "DECIMAL(5,2)", nullable=True, low=-500, high=500),
        Attribute("b", "BOOLEAN", nullable=False, values=("false", "true")),
        Attribute("on off", "INTEGER", nullable=False, low=0, high=1),
        Attribute("f", "FLOAT", nullable=False, low=0.0, high=0.5),
        Attribute("half", "DOUBLE", nullable=False, low=0.0, high=1.0, bins=2),
    ),
)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        yield con


def test_rows() -> None:
    (query,) = Workload.from_rows(
        [{"Predicate": "age > 3", "NAME": "old", "weight": 2, "group_by": ["Sex", "b"], "measure": None}]
    )
    assert query == Query("age > 3", None, ("Sex", "b"), verbatim=True, name="old", weight=2)
    (query,) = Workload.from_rows([{"group_by": "Sex, date_trunc('month', d)", "weight": None}])
    assert query == Query(group_by=("Sex, date_trunc('month', d)",), verbatim=False)
    assert Workload.from_predicates("age > 3") == Workload.from_predicates(["age > 3"]) == Workload((Query("age > 3"),))
    assert len(Workload.from_predicates(["a", "b"]) + Workload.from_predicates(["c"])) == 3


def test_always() -> None:
    rows = [{"predicate": "age > 3", "always": always} for always in (True, False, None)]
    assert [query.always for query in Workload.from_rows(rows)] == [True, False, False]
    assert [query.always for query in Workload.from_predicates(["age > 3", "b"], always=True)] == [True, True]
    mixed = Workload.from_predicates("b", always=True) + Workload.from_predicates("age > 3")
    assert Workload.from_arrow(mixed.to_arrow()) == Workload(
        tuple(Query(q.predicate, name=q.label, always=q.always) for q in mixed)
    )
    assert "always" not in Workload.from_predicates("b").to_arrow().column_names


@pytest.mark.parametrize("always", ["yes", 1, 0.0, [True]])
def test_always_is_a_boolean(always: object) -> None:
    with pytest.raises(
        WorkloadError, match=r"row 1 has always \(.*\), which must be true or false\. Hint: always is a BOOLEAN"
    ):
        Workload.from_rows([{"predicate": "b", "always": always}])


@pytest.mark.parametrize("weight", [0.5, 3, Decimal("2.5"), None])
def test_weights(weight: object) -> None:
    (query,) = Workload.from_rows([{"predicate": "true", "weight": weight}])
    assert query.weight == (1.0 if weight is None else float(weight))
    assert not isinstance(query.weight, Decimal)


def test_labels() -> None:
    asked = [
        Query("age > 3"), Query(group_by=("a", "b")), Query("c", group_by=("a", "b")), Query(measure="m"),
        Query("c", measure="m", group_by=("a",)), Query("c", name="mine"), Query("c", measure="m"),
    ]  # fmt: skip
    assert [query.label for query in asked] == [
        "age > 3", "a, b", "a, b WHERE c", "sum(m)", "a: sum(m) WHERE c", "mine", "sum(m) WHERE c",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"predicat": "age > 3"},
            (
                "column predicat is not a column of a workload. Hint: did you mean predicate? a workload has any of "
                "predicate, measure, group_by"
            ),
        ),
        (
            {"predicate": None},
            "row 2 has a NULL predicate and no group_by, so it asks nothing. Hint: write a predicate",
        ),
        ({}, "row 2 has a NULL predicate and no group_by"),
        ({"predicate": 5}, "predicate (5) of row 2 is not text. Hint: predicate is a VARCHAR"),
        ({"predicate": "a", "measure": 1.5}, "measure (1.5) of row 2 is not text"),
        ({"predicate": "a", "name": ["x"]}, "name (['x']) of row 2 is not text"),
        (
            {"group_by": 3},
            (
                "row 2 has a group_by (3) that is neither text nor a list of names. Hint: write ['sex', 'race'] or "
                "'sex, race'"
            ),
        ),
        ({"group_by": []}, "row 2 has an empty group_by list. Hint: name columns, or leave it NULL"),
        ({"group_by": ["a", None]}, "row 2 has a group_by list (['a', None]) with something other than names in it"),
        (
            {"predicate": "a", "weight": 0},
            "row 2 has the weight 0, which must be a positive finite number. Hint: leave it NULL for 1",
        ),
        ({"predicate": "a", "weight": -1.5}, "row 2 has the weight -1.5"),
        ({"predicate": "a", "weight": math.nan}, "row 2 has the weight nan"),
        ({"predicate": "a", "weight": math.inf}, "row 2 has the weight inf"),
        ({"predicate": "a", "weight": "2"}, "row 2 has the weight '2'"),
    ],
)
def test_wrong_rows(row: dict[str, object], message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        Workload.from_rows([{"predicate": "true"}, row])
    assert str(caught.value).startswith(f"workload: {message}")
    assert " Hint: " in str(caught.value)


def test_queries_check_themselves() -> None:
    with pytest.raises(WorkloadError, match=r"^workload: a row has a NULL predicate"):
        Query()
    with pytest.raises(WorkloadError, match=r"^workload: predicate \(3\) of row 1 is not text"):
        Workload.from_predicates([3])


def test_an_empty_workload_is_refused() -> None:
    for made in (
        lambda: Workload(()),
        lambda: Workload.from_rows([]),
        lambda: Workload.from_arrow(pa.table({"predicate": pa.array([], pa.string())})),
    ):
        with pytest.raises(WorkloadError, match=r"^workload: the workload has no rows. Hint: add at least one query"):
            made()


def test_rows_as_duckdb_sends_them(con: duckdb.DuckDBPyConnection) -> None:
    made = """SELECT 'age > 3' AS predicate, ['Sex'] AS group_by, 2.5 AS weight UNION ALL SELECT NULL, ['b'], NULL"""
    expected = Workload((Query("age > 3", group_by=("Sex",), weight=2.5), Query(group_by=("b",))))
    assert Workload.from_arrow(con.sql(made).to_arrow_table()) == expected
    rows = con.execute(f"SELECT to_json(w)::VARCHAR FROM ({made}) AS w").fetchall()
    assert Workload.from_json(row for (row,) in rows) == expected
    with pytest.raises(WorkloadError, match="row 1 has the weight nan"):
        Workload.from_json([json.dumps({"predicate": "a", "weight": math.nan})])


def test_marginals() -> None:
    listed = [name for name in DOMAIN.columns if name not in {"x", "f", "raw"}]
    for k in (1, 2, 3):
        made = Workload.marginals(DOMAIN, k)
        assert [query.group_by for query in made] == list(combinations(listed, k))
        assert {(query.predicate, query.measure, query.verbatim, query.weight) for query in made} == {
            (None, None, True, 1.0)
        }
    for k in (0, len(listed) + 1, -1, 1.5, "2"):
        with pytest.raises(
            OptionError,
            match=rf"^mwem_marginals: order \({k!r}\) must be from 1 to 9, the number of attributes with a list",
        ):
            Workload.marginals(DOMAIN, k)


@pytest.mark.parametrize("column", ["age", "x", "d", "ts", "tz", "p", "on off", "f"])
def test_ranges_are_ordered_and_within_bounds(con: duckdb.DuckDBPyConnection, column: str) -> None:
    attribute = DOMAIN[column]
    made = Workload.ranges(DOMAIN, [column], 50, seed=7)
    assert len(made) == 50
    assert made == Workload.ranges(DOMAIN, [column.upper()], 50, seed=7)
    assert made != Workload.ranges(DOMAIN, [column], 50, seed=8)
    low, high = (attribute.ordered.literal(tick).sql("duckdb") for tick in (attribute.low, attribute.high))
    quoted = f'"{column}"'
    checks = []
    for query in made:
        start, end = query.predicate.removeprefix(f"{quoted} BETWEEN ").split(" AND ")
        checks.append(f"({low} <= {start} AND {start} <= {end}::{attribute.type} AND {end} <= {high})")
    assert con.execute(f"SELECT {' AND '.join(checks)}").fetchall() == [(True,)]
    assert con.execute(
        f"SELECT bool_or({' OR '.join(query.predicate for query in made)})"
        f" FROM (SELECT {low} AS {quoted} UNION ALL SELECT {high})"
    )


def test_ranges_over_several_columns() -> None:
    made = Workload.ranges(DOMAIN, ["age", "p"], 5, seed=1)
    for query in made:
        assert query.predicate is not None
        assert query.predicate.count("BETWEEN") == 2
        assert '"age" BETWEEN' in query.predicate
        assert ' AND "p" BETWEEN' in query.predicate
    assert Workload.ranges(DOMAIN, ["age"], 20) != Workload.ranges(DOMAIN, ["age"], 20)


@pytest.mark.parametrize(
    ("columns", "count", "seed", "message"),
    [
        (["age"], 0, None, "mwem_ranges: count (0) must be from 1 to 2,000,000"),
        (["age"], 2.5, None, "mwem_ranges: count (2.5) must be from 1"),
        ([], 3, None, "mwem_ranges: no column is named"),
        (["Sex"], 3, None, "mwem_ranges: attribute Sex has a list of values, not bounds"),
        (
            ["nothing"],
            3,
            None,
            "mwem_ranges: column ('nothing') is not a column of adult. Hint: the columns are 'age', 'Sex'",
        ),
        (["age", "AGE"], 3, None, "mwem_ranges: column ('age') is named twice"),
        (["age"], 3, -1, "mwem_ranges: seed (-1) must be a whole number, not negative"),
        (["age"], 3, "x", "mwem_ranges: seed ('x') must be a whole number"),
    ],
)
def test_wrong_ranges(columns: list[str], count: int, seed: int | None, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        Workload.ranges(DOMAIN, columns, count, seed)
    assert str(caught.value).startswith(message)


def test_a_column_without_a_domain_has_no_ranges() -> None:
    with pytest.raises(DomainError, match="column raw of adult has no public domain"):
        Workload.ranges(DOMAIN, ["raw"], 1)


def test_parities_are_products_of_signs(con: duckdb.DuckDBPyConnection) -> None:
    made = Workload.parities(DOMAIN, 3)
    binary = ["Sex", "b", "on off"]
    assert [query.name for query in made] == [
        f"parity of {', '.join(names)}" for k in (1, 2, 3) for names in combinations(binary, k)
    ]  # fmt: skip
    rows = """(SELECT s.v::ENUM('it''s', 'M') AS "Sex", b.v AS b, o.v AS "on off" FROM (VALUES ('it''s'), ('M')) s(v),
        (VALUES (false), (true)) b(v),
               (VALUES (0), (1)) o(v))"""
    first = {"Sex": "\"Sex\" = 'it''s'", "b": "NOT b", "on off": '"on off" = 0'}
    for query in made:
        names = query.name.removeprefix("parity of ").split(", ")
        expected = " * ".join(f"(CASE WHEN {first[name]} THEN 1 ELSE -1 END)" for name in names)
        assert con.execute(f"SELECT DISTINCT ({query.measure}) = {expected} FROM {rows}").fetchall() == [(True,)]
        assert con.execute(f"SELECT DISTINCT {query.measure} AS sign FROM {rows} ORDER BY sign").fetchall() == [
            (-1,),
            (1,),
        ]


def test_parities_of_chosen_columns() -> None:
    assert [query.name for query in Workload.parities(DOMAIN, 1, ["B", "sex"])] == ["parity of b", "parity of Sex"]
    for columns, message in (
        (["age"], "attribute age has 75 values or bins. Hint: a parity takes attributes of two values, NOT NULL"),
        (["x"], "attribute x has endless values or bins"),
        (["half"], "attribute half has 2 values or bins"),
        (["b", "b"], r"column \('b'\) is named twice"),
        ([], r"order \(1\) must be from 1 to 0"),
    ):
        with pytest.raises(OptionError, match=f"^mwem_parities: {message}"):
            Workload.parities(DOMAIN, 1, columns)
    with pytest.raises(
        OptionError,
        match=r"^mwem_parities: order \(4\) must be from 1 to 3, the number of attributes with two values, NOT NULL",
    ):
        Workload.parities(DOMAIN, 4)


texts = st.text(st.characters(exclude_characters="\0;", exclude_categories=["Cs"]), max_size=5)


some_queries = st.one_of(
    st.builds(
        a_query,
        predicate=texts,
        name=texts | st.none(),
        weight=st.floats(0.1, 9),
        group_by=st.none() | st.lists(texts, min_size=1).map(tuple),
    ),
    st.builds(a_query, measure=texts, group_by=texts.map(lambda text: (text,)), verbatim=st.just(False)),
)


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(some_queries, min_size=1, max_size=4))
def test_arrow_round_trip(queries: list[Query]) -> None:
    """The same queries under the same names; lists become text where one row has text."""
    before = Workload(tuple(queries))
    after = Workload.from_arrow(before.to_arrow())
    listed = all(query.verbatim for query in before)
    for old, new in zip(before, after, strict=True):
        assert (new.predicate, new.measure, new.weight, new.label) == (
            old.predicate,
            old.measure,
            old.weight,
            old.label,
        )
        if listed or old.group_by is None or not old.verbatim:
            assert new.group_by == old.group_by
            assert new.verbatim == old.verbatim or old.group_by is None
        else:
            assert new.group_by == (", ".join('"' + name.replace('"', '""') + '"' for name in old.group_by),)
            assert not new.verbatim
    assert Workload.from_arrow(after.to_arrow()) == after


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x = '\udfff'"])
def test_texts_that_are_no_text_are_refused(text: str) -> None:
    for row in (
        {"predicate": text},
        {"measure": text},
        {"group_by": text},
        {"group_by": ["a", text]},
        {"predicate": "a", "name": text},
    ):
        with pytest.raises(
            WorkloadError,
            match=r"^workload: .* with? a NUL or half of a surrogate pair in it|has a NUL or half of a surrogate "
            r"pair in it. Hint: write",
        ):
            Workload.from_rows([row])


def test_a_clause_is_read_as_it_is_pasted() -> None:
    pasted = [
        "WHERE age > 3",
        "\n  where age > 3 ;\n",
        "/* a tool */ -- and more\n WHERE age > 3",
        "age > 3;",
        "age > 3",
    ]
    assert [" ".join((query.predicate or "").split()) for query in Workload.from_predicates(pasted)] == [
        "age > 3"
    ] * len(pasted)
    kept = [";", " ; ", "city = 'a;'", "whereabouts > 3", '"where" > 3', "age > 3; -- done"]
    assert [query.predicate for query in Workload.from_predicates(kept)] == kept
