"""Compiled workloads against DuckDB: the same answers, the coarsest classes, no listing where none is needed."""

from __future__ import annotations

import gc
from typing import Any

import duckdb
import pytest
from chance import examples
from compilers import DOMAIN, TABLE, TYPES, answers, compiled_from, inside, predicates, row_values, table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mwem_sql.compile.compiled import Compiled
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import CellsError, DomainError, PredicateError, WorkloadError
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Query, Workload


def by_cell(compiled: Compiled, number: int, answer: list[int]) -> dict[tuple[str | None, ...], int]:
    cells = [tuple(cell or ()) for cell in compiled.queries[number].cells()]
    assert len(set(cells)) == len(cells) == len(answer)
    return dict(zip(cells, answer, strict=True))


groupings = st.lists(
    st.sampled_from(
        ["a", "s", "e", "b", "month(d)", "a % 2", "length(s)", "a > 3", "round(p, 1)", "coalesce(s, e::VARCHAR)"]
    ),
    min_size=1,
    max_size=3,
)


@settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(row_values, max_size=12), st.lists(predicates(), min_size=1, max_size=6),
    st.lists(st.tuples(groupings, st.none() | predicates()), max_size=2),
)  # fmt: skip
def test_answers_are_duckdbs(
    duck: duckdb.DuckDBPyConnection,
    sandbox: Sandbox,
    rows: list[dict[str, Any]],
    texts: list[str],
    cuboids: list[tuple[list[str], str | None]],
) -> None:
    """Codes and blocks on the private side answer as the text itself does on a copy inside the domain."""
    table(duck, "t", TYPES, rows)
    table(duck, "copy", TYPES, [{name: inside(DOMAIN[name], value) for name, value in row.items()} for row in rows])
    asked = [Query(text) for text in texts]
    asked += [Query(text, group_by=(", ".join(groups),), verbatim=False) for groups, text in cuboids]
    compiled = compile_workload(DOMAIN, Workload(tuple(asked)), sandbox)
    found = answers(duck, compiled)
    counted = duck.execute(f"SELECT {', '.join(f'count(*) FILTER ({text})' for text in texts)} FROM copy").fetchall()[0]
    assert [answer for (answer,) in found[: len(texts)]] == list(counted)
    for number, (groups, text) in enumerate(cuboids, start=len(texts)):
        shown = ", ".join(f"CAST({group} AS VARCHAR)" for group in groups)
        expected = duck.execute(f"SELECT {shown}, count(*) FROM copy WHERE {text or 'true'} GROUP BY ALL").fetchall()
        cells = by_cell(compiled, number, found[number])
        assert {cell: count for cell, count in cells.items() if count} == {row[:-1]: row[-1] for row in expected}


def test_the_collector_stays_as_it_was(sandbox: Sandbox) -> None:
    assert gc.isenabled()
    compiled_from(sandbox, "a > 3")
    assert gc.isenabled()
    with pytest.raises(DomainError):
        compiled_from(sandbox, "a > nothing")
    assert gc.isenabled()
    gc.disable()
    try:
        compiled_from(sandbox, "a > 3")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_group_by_columns_and_expressions(duck: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    table(
        duck,
        "t",
        TYPES,
        [
            dict.fromkeys(TYPES, None) | {"a": 1, "s": "x", "e": "mid"},
            dict.fromkeys(TYPES, None) | {"a": 99, "s": "?", "e": "hi"},
        ],
    )
    asked = Workload(
        (
            Query(group_by=("E", "s")),
            Query(group_by=("a % 2, a % 2",), verbatim=False),
            Query("s = 'x'", group_by=("s", "e")),
            Query("false", group_by=("e",)),
            Query(group_by=("a",) * 9),
        )
    )
    compiled = compile_workload(DOMAIN, asked, sandbox)
    found = answers(duck, compiled)
    first = by_cell(compiled, 0, found[0])
    assert len(first) == 3 * 5
    assert {cell for cell, count in first.items() if count} == {("mid", "x"), ("hi", None)}
    assert by_cell(compiled, 1, found[1]) == {("0", "0"): 0, ("1", "1"): 2, (None, None): 0}
    assert by_cell(compiled, 2, found[2]) == {("x", "lo"): 0, ("x", "mid"): 1, ("x", "hi"): 0}
    assert by_cell(compiled, 3, found[3]) == {("lo",): 0, ("mid",): 0, ("hi",): 0}
    assert {cell: count for cell, count in by_cell(compiled, 4, found[4]).items() if count} == {
        ("1",) * 9: 1,
        ("9",) * 9: 1,
    }
    assert len(found[4]) == 11


def test_bins_and_steps(duck: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    domain = Domain(
        "t",
        ("x", "n", "y", "q"),
        (
            Attribute("x", "DOUBLE", nullable=True, low=0.0, high=1.0, bins=4),
            Attribute("n", "INTEGER", nullable=False, low=0, high=9, step=4),
            Attribute("y", "FLOAT", nullable=False, low=0.0, high=1.0, bins=3),
            Attribute("q", "DOUBLE", nullable=False, low=0.0, high=0.3, step=0.1),
        ),
    )
    rows = [
        (0, 0, 0, 0),
        (0.25, 3, 0.1, 0.05),
        (0.2499, 4, 0.9, 0.1),
        (1, 9, 1, 0.3),
        ("nan", 100, "nan", 7),
        (None, None, None, None),
        (-3, -3, -3, -3),
    ]
    table(
        duck,
        "t",
        {"x": "DOUBLE", "n": "INTEGER", "y": "FLOAT", "q": "DOUBLE"},
        [dict(zip("xnyq", row, strict=True)) for row in rows],
    )
    asked = Workload(
        (
            Query(group_by=("x",)),
            Query(group_by=("n",)),
            Query("x < 0.25"),
            Query("x <= 0.25"),
            Query(group_by=("y",)),
            Query(group_by=("q",)),
        )
    )
    compiled = compile_workload(domain, asked, sandbox)
    found = answers(duck, compiled)
    assert by_cell(compiled, 0, found[0]) == {
        ("[0.0, 0.25)",): 3, ("[0.25, 0.5)",): 1, ("[0.5, 0.75)",): 0, ("[0.75, 1.0]",): 2, (None,): 1,
    }  # fmt: skip
    assert by_cell(compiled, 1, found[1]) == {("[0, 3]",): 4, ("[4, 7]",): 1, ("[8, 9]",): 2}
    assert found[2:4] == [[3], [4]]
    assert found[4] == [4, 0, 3]
    assert found[5] == [4, 1, 0, 2]


def test_measures_are_signs(duck: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    table(
        duck,
        "t",
        TYPES,
        [
            dict.fromkeys(TYPES, None) | {"a": a, "b": b, "e": "lo"}
            for a, b in ((1, "true"), (5, "true"), (9, None), (None, "false"))
        ],
    )
    signs = [
        "CASE WHEN a > 3 THEN 1 ELSE -1 END",
        "CASE WHEN b THEN 1 WHEN NOT b THEN -1 END",
        "1",
        "-1",
        "CASE WHEN a > 3 THEN 1 ELSE -1 END * CASE WHEN b THEN 1 ELSE -1 END",
    ]
    asked = Workload(
        (
            *(Query(measure=sign) for sign in signs),
            Query("b", measure=signs[0]),
            Query(measure=signs[0], group_by=("b",)),
        )
    )
    compiled = compile_workload(DOMAIN, asked, sandbox)
    found = answers(duck, compiled)
    assert found[:6] == [[0], [1], [4], [-4], [0], [0]]
    assert by_cell(compiled, 6, found[6]) == {("false",): -1, ("true",): 0, (None,): 1}


MANY = Domain("t", tuple("abcdxy"), tuple(Attribute(name, "INTEGER", nullable=False, low=0, high=99) for name in "abcd")
              + tuple(Attribute(name, "INTEGER", nullable=False, low=0, high=1999) for name in "xy"))  # fmt: skip


@pytest.mark.parametrize(
    ("query", "kind", "message"),
    [
        (
            Query(group_by=tuple("abcd")),
            CellsError,
            (
                "workload: query 'a, b, c, d' needs 100,000,000 cells over a, b, c, d, more than 10,000,000. Hint: "
                "group by fewer"
            ),
        ),
        (
            Query("a + b + c + d > 3"),
            CellsError,
            (
                'workload: \'"a" + "b" + "c" + "d" > 3\' joins a, b, c, d value by value, 100,000,000 combinations, '
                "more than 1,000,000"
            ),
        ),
        (
            Query("x > y", name="mine"),
            CellsError,
            (
                'workload: \'"x" > "y"\' joins x, y value by value, 4,000,000 combinations, more than 1,000,000. '
                "Hint: make it a column: CREATE VIEW"
            ),
        ),
        (Query(measure="CASE WHEN a = 3 THEN 'nan'::DOUBLE ELSE 1 END"), WorkloadError, "workload: measure ("),
        (
            Query(measure="a * 1e31"),
            WorkloadError,
            (
                "workload: measure ('1e31') is not a number, or beyond 1e+30, for some value of the domain. Hint: it "
                "must be bounded"
            ),
        ),
        (
            Query(measure="sum(a) + sum(a)"),
            PredicateError,
            "workload: measure ('sum(a) + sum(a)') has the aggregate sum",
        ),
        (
            Query("CAST(chr(64 + a) AS INTEGER) > 1"),
            PredicateError,
            (
                "workload: expression ('CAST(CHR(64 + \"a\") AS INT) > 1') cannot be evaluated on the public domain: "
                "Conversion"
            ),
        ),
        (
            Query("lower(a, b) = 1"),
            PredicateError,
            'workload: expression (\'LOWER("a", "b") = 1\') cannot be evaluated on the public domain: Binder Error',
        ),
        (
            Query("a > > 3"),
            PredicateError,
            "workload: expression ('a > > 3') cannot be evaluated on the public domain: Parser Error: syntax error",
        ),
        (
            Query("a IN (1,,2)"),
            PredicateError,
            "workload: expression ('a IN (1,,2)') cannot be evaluated on the public domain: Parser Error: syntax error",
        ),
        (
            Query("a = 'many'"),
            PredicateError,
            "workload: expression ('\"a\" = \\'many\\'') cannot be evaluated on the public domain: Conversion",
        ),
        (
            Query(group_by=("q",)),
            WorkloadError,
            (
                "workload: group_by names the unknown column 'q'. Hint: t has the columns 'a', 'b', 'c', 'd', 'x', "
                "'y'; an SQL expression"
            ),
        ),
        (Query(group_by=("a,, b",), verbatim=False), PredicateError, "workload: "),
    ],
)
def test_refusals(sandbox: Sandbox, query: Query, kind: type[WorkloadError], message: str) -> None:
    with pytest.raises(kind) as caught:
        compile_workload(MANY, Workload((Query("b > 3"), query)), sandbox)
    assert str(caught.value).startswith(message)
    assert "Hint: " in str(caught.value)


def test_refusals_of_domains(sandbox: Sandbox) -> None:
    for text, message in (
        (
            "nothing > 3",
            "column nothing of t has no public domain, so it cannot be queried. Hint: declare it in the schema",
        ),
    ):
        with pytest.raises(DomainError, match=f"^domain: {message}"):
            compiled_from(sandbox, text)
    with pytest.raises(DomainError, match="attribute f has endlessly many values"):
        compile_workload(DOMAIN, Workload((Query(group_by=("f",)),)), sandbox)


def test_odd_names_and_a_qualified_column(duck: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    name = TABLE.beside('my "t"')
    domain = Domain(
        'my "t"',
        ("a b", "select", "grid"),
        tuple(Attribute(column, "INTEGER", nullable=True, low=0, high=3) for column in ("a b", "select", "grid")),
    )
    duck.execute(f'CREATE OR REPLACE TABLE {name.quoted()} AS SELECT 1 AS "a b", 2 AS "select", 3 AS "grid"')
    compiled = compiled_from(
        sandbox, '"a b" < "select" AND "A B" = 1', '"my ""t""".grid = 3', '"my ""t""" . "select" > 1', domain=domain
    )
    assert answers(duck, compiled, name) == [[1], [1], [1]]
