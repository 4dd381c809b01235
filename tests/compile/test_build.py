"""Blocks and classes: the coarsest that the queries allow, shared between queries, in the order that was asked for."""

from __future__ import annotations

import itertools
from typing import Any

import duckdb
import numpy as np
import pytest
from chance import examples
from compilers import DOMAIN, TYPES, answers, compiled_from, inside, predicates, row_values, table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import a_query

from mwem_sql.compile.compiled import PART_OF_AVERAGE, Compiled
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes
from mwem_sql.domains.domain import Domain
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Query, Workload

SMALL = Domain(
    "t",
    ("a", "s", "b"),
    (
        Attribute("a", "INTEGER", nullable=True, low=0, high=4),
        Attribute("s", "VARCHAR", nullable=False, values=("x", "y", "z")),
        Attribute("b", "BOOLEAN", nullable=True, values=("false", "true")),
    ),
)


SMALL_VALUES = {"a": [0, 1, 2, 3, 4, None], "s": ["x", "y", "z"], "b": ["false", "true", None]}


small_queries = st.one_of(
    st.builds(
        a_query,
        predicate=st.recursive(
            st.sampled_from(
                [
                    "a > 2",
                    "a IN (1, 3)",
                    "a IS NULL",
                    "a <> 0",
                    "s = 'x'",
                    "s <> 'y'",
                    "b",
                    "NOT b",
                    "a = 1 OR b",
                    "b IS NULL",
                    "a > length(s)",
                    "s IS NULL",
                    "a > 9",
                    "true",
                ]
            ),
            lambda inner: st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
                lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
            ),
            max_leaves=3,
        ),
        measure=st.none()
        | st.sampled_from(
            [
                "CASE WHEN a > 1 THEN 1 ELSE -1 END",
                "CASE WHEN b THEN 1 WHEN s = 'x' THEN -1 ELSE 0 END",
                "a",
                "a // 2 * 1.25",
                "coalesce(a, 7) * length(s)",
                "CASE WHEN s = 'x' THEN a ELSE -0.5 END",
            ]
        ),
        group_by=st.none() | st.sampled_from(["a", "a > 1, s", "s, b", "coalesce(a, 0), b"]).map(lambda text: (text,)),
        verbatim=st.just(False),
    )
)


def asked_of(duck: duckdb.DuckDBPyConnection, query: Query) -> list[Any]:
    """What a query adds for every combination of values of the small domain: nothing, or a number and a cell."""
    measure, groups = query.measure or "1", f"row({query.group_by[0]})" if query.group_by else "0"
    adds = f"coalesce(CASE WHEN {query.predicate} THEN {measure} ELSE 0 END, 0)"
    rows = duck.execute(f"SELECT {adds}, ({groups})::VARCHAR FROM small ORDER BY n").fetchall()
    return [None if added == 0 else (added, cell) for added, cell in rows]


@settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(small_queries, min_size=1, max_size=3))
def test_classes_are_the_coarsest(duck: duckdb.DuckDBPyConnection, sandbox: Sandbox, queries: list[Query]) -> None:
    """Two values are in one class if and only if no query tells them apart, whatever the other columns are."""
    combinations = [
        dict(zip(SMALL_VALUES, values, strict=True)) for values in itertools.product(*SMALL_VALUES.values())
    ]
    rows = [{"n": n, **values} for n, values in enumerate(combinations)]
    table(duck, "small", {"n": "INTEGER", "a": "INTEGER", "s": "VARCHAR", "b": "BOOLEAN"}, rows)
    shape = [len(values) for values in SMALL_VALUES.values()]
    said = np.empty((len(queries), len(rows)), dtype=object)
    for k, query in enumerate(queries):
        said[k] = asked_of(duck, query)
    said = said.reshape(len(queries), *shape)
    compiled = compile_workload(SMALL, Workload(tuple(queries)), sandbox)
    for axis, (name, values) in enumerate(SMALL_VALUES.items(), start=1):
        if name not in compiled.classes:
            continue
        profiles = [said.take(k, axis=axis).tolist() for k in range(len(values))]
        codes = compiled.classes[name].codes
        for one, other in itertools.combinations(range(len(values)), 2):
            assert (codes[one] == codes[other]) == (profiles[one] == profiles[other])
    # And an attribute that no query needs is in no query.
    for number, query in enumerate(compiled.queries):
        for axis, name in enumerate(SMALL_VALUES):
            same = all(
                said[number].take(k, axis=axis).tolist() == said[number].take(0, axis=axis).tolist()
                for k in range(shape[axis])
            )
            assert (name not in query.linear.attributes) == same


def test_few_classes_where_little_is_asked(sandbox: Sandbox) -> None:
    found = compiled_from(sandbox, "w BETWEEN 100 AND 199", "f > 0.5", "s = 'x'", "a > 3", "d < '2020-02-01'").classes
    assert {name: own.count for name, own in found.items()} == {"a": 2, "w": 2, "s": 2, "f": 2, "d": 2}
    assert [len(found[name].pieces) for name in ("w", "f")] == [4, 3]  # below, inside, above, NULL; below, above, NULL
    sizes = found["w"].sizes
    assert sizes[1] == 100
    assert sizes.sum() == pytest.approx(2_000_006 * 1.01)
    assert found["a"].sizes.tolist() == [5.0, 6.0]


SAME = [
    (
        "a > 3",
        "NOT a <= 3",
        "a >= 4",
        "3 < a",
        "a > 3 AND true",
        "a > 3.5",
        "a IN (4, 5, 6, 7, 8, 9)",
        "a > 3 AND a > 1",
        "a BETWEEN 4 AND 100",
        "a > 3 AND (e = 'lo' OR e <> 'lo')",
        "a > 3 AND e IS NOT NULL",
        "CASE WHEN a > 3 THEN true END",
        "(a > 3) IS TRUE",
    ),
    ("a > 3 AND s = 'x'", "s = 'x' AND a > 3", "NOT (a <= 3 OR s <> 'x')", "s LIKE 'x' AND 3 < a"),
    ("a > 3 OR b", "b OR a > 3", "NOT (NOT b AND a <= 3)"),
    ("true", "1 = 1", "a IS NULL OR a IS NOT NULL", "e IS NOT NULL"),
    ("false", "a > 100", "NULL", "a = NULL", "a > 3 AND a < 3", "s = 'nothing' AND a > 3", "e IS NULL"),
    ("f > 0", "f > -0.0", "NOT f <= 0"),
    ("w > 1000 AND w < 1002", "w = 1001"),
]


def test_queries_that_say_the_same_are_one(sandbox: Sandbox) -> None:
    texts = [text for group in SAME for text in group]
    compiled = compiled_from(sandbox, *texts)
    first = [compiled.first_row(number).source.predicate for number in range(len(compiled.distinct.queries))]
    assert first == [group[0] for group in SAME]
    assert compiled.distinct.weights.tolist() == [1.0] * len(SAME)


def test_queries_share_blocks(sandbox: Sandbox) -> None:
    """A block for each thing that is asked of a column, however many queries ask it, in whatever words."""

    def count(compiled: Compiled) -> int:
        return len({id(block) for query in compiled.queries for block in query.linear.blocks})

    columns = tuple(f"b{k}" for k in range(30))
    domain = Domain(
        "t", columns, tuple(Attribute(name, "BOOLEAN", nullable=False, values=("false", "true")) for name in columns)
    )
    marginals = compile_workload(domain, Workload.marginals(domain, 1) + Workload.marginals(domain, 2), sandbox)
    assert len(marginals.distinct.queries) == 30 + 30 * 29 // 2
    assert count(marginals) == 30
    words = [
        "a > 3 AND a <= 6",
        "a >= 4 AND a < 7",
        "a BETWEEN 4 AND 6",
        "a IN (4, 5, 6)",
        "NOT (a < 4 OR a > 6)",
        "(a - 5) ** 2 <= 1",
    ]
    asked = compiled_from(
        sandbox, *words, *(f"{text} AND s = 'x'" for text in words), *(f"s = 'x' AND {text}" for text in words)
    )
    assert len(asked.distinct.queries) == 2
    assert count(asked) == 2


def test_the_largest_weight_counts(sandbox: Sandbox) -> None:
    asked = Workload(
        (
            Query("a > 3", weight=0.5),
            Query("NOT a <= 3", weight=3),
            Query("b"),
            Query(group_by=("s", "e")),
            Query(group_by=("E", "S"), weight=2),
        )
    )
    distinct = compile_workload(DOMAIN, asked, sandbox).distinct
    assert distinct.rows.tolist() == [0, 2, 3]
    assert distinct.of_row.tolist() == [0, 0, 1, 2, 2]
    assert distinct.weights.tolist() == [3.0, 1.0, 2.0]


def test_an_average_is_one_question_of_two_queries(sandbox: Sandbox) -> None:
    asked = Workload((Query(measure="avg(a)", weight=6), Query(measure="avg(a)", group_by=("s",)), Query(measure="a")))
    distinct = compile_workload(DOMAIN, asked, sandbox).distinct
    # The sum is asked as it is, too, but with less weight; and so is no count.
    assert distinct.of_row.tolist() == [0, 2, 0]
    assert distinct.weights.tolist() == [6 * PART_OF_AVERAGE] * 2 + [PART_OF_AVERAGE] * 2
    once = compile_workload(DOMAIN, Workload((Query(measure="avg(a)"), Query(measure="a"))), sandbox).distinct
    assert once.weights.tolist() == [1, PART_OF_AVERAGE]


@settings(deadline=None, max_examples=examples(15), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(row_values, max_size=8),
    st.lists(predicates(), min_size=1, max_size=3),
    st.lists(predicates(), min_size=1, max_size=3),
)
def test_finer_than(
    duck: duckdb.DuckDBPyConnection, sandbox: Sandbox, rows: list[dict[str, Any]], first: list[str], second: list[str]
) -> None:
    """Every new class lies inside one given class, and the answers stay exact."""
    given_classes = compiled_from(sandbox, *first).classes
    compiled = compiled_from(sandbox, *second, finer_than=given_classes)
    for name, finer in compiled.classes.items():
        if name not in given_classes:
            continue
        parents = [_code_of(given_classes[name], finer, piece) for piece in range(len(finer.pieces))]
        inside_one = {
            code: {parent for own, parent in zip(finer.codes.tolist(), parents, strict=True) if own == code}
            for code in range(finer.count)
        }
        assert all(
            len(set.union(*found)) == 1
            for found in ([{item for pair in parents_of for item in pair}] for parents_of in inside_one.values())
        )
    table(duck, "t", TYPES, rows)
    table(duck, "copy", TYPES, [{name: inside(DOMAIN[name], value) for name, value in row.items()} for row in rows])
    counted = duck.execute(f"SELECT {', '.join(f'count(*) FILTER ({text})' for text in second)} FROM copy").fetchall()[
        0
    ]
    assert [answer for (answer,) in answers(duck, compiled)] == list(counted)


def _code_of(coarse: Classes, finer: Classes, piece: int) -> tuple[int, ...]:
    """The classes of `coarse` at both ends of a piece of `finer`."""
    if piece >= finer.pieces.non_null:
        return (int(coarse.codes[-1]),)
    if not len(finer.pieces.lows):
        return (int(coarse.codes[piece]),)
    ends = (finer.pieces.lows[piece], finer.pieces.highs[piece])
    return tuple(int(coarse.codes[np.searchsorted(coarse.pieces.lows, end, side="right") - 1]) for end in ends)


def test_a_group_that_stands_twice_keeps_its_places(duck: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    duck.execute("CREATE TABLE twice (a BOOLEAN NOT NULL, b ENUM ('x', 'y') NOT NULL)")
    asked = Workload.from_rows([{"group_by": ["b", "a", "b"]}, {"group_by": ["a", "b"]}])
    first, second = compile_workload(Domain.from_schema(duck, "twice"), asked, sandbox).queries
    assert set(map(tuple, first.cells())) == {(b, a, b) for a in ("false", "true") for b in "xy"}  # type: ignore[arg-type]
    assert set(map(tuple, second.cells())) == {(a, b) for a in ("false", "true") for b in "xy"}  # type: ignore[arg-type]


def test_groups_of_one_block_keep_their_order(duck: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    """An expression over two columns stands between others over one of them."""
    duck.execute("CREATE TABLE ordered (a BOOLEAN NOT NULL, b ENUM ('x', 'y') NOT NULL)")
    asked = Workload((Query(group_by=("b, concat(a, b), b, a",), verbatim=False),))
    (query,) = compile_workload(Domain.from_schema(duck, "ordered"), asked, sandbox).queries
    assert set(map(tuple, query.cells())) == {(b, f"{a}{b}", b, a) for a in ("false", "true") for b in "xy"}  # type: ignore[arg-type]
