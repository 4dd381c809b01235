"""Scans: all of them keep the same rows, and count what DuckDB counts."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import PLANS, force
from pushdowns import PEOPLE, TABLE, answers, grid, load, planned, whole

from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes, value_pieces
from mwem_sql.domains.domain import Domain
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.scan.dialects.dialect import Unit
from mwem_sql.scan.pushdown import plan_pushdown
from mwem_sql.workload import Query, Workload


@pytest.fixture(params=[plan for plan in PLANS if "histograms" not in plan])
def plan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    force(monkeypatch, request.param)
    return str(request.param)


def test_all_scans_keep_the_same_rows(plain: duckdb.DuckDBPyConnection, sandbox: Sandbox, plan: str) -> None:
    """One row of each person; a scan over a alone and one over s alone must see the same rows as one over both."""
    drawn = np.random.default_rng(5).integers(0, [10, 3, 60], (300, 3)).tolist()
    load(plain, [(a, "xy?"[s], person) for a, s, person in drawn])
    asked = Workload(
        (Query(group_by=("a", "s")), Query(group_by=("a",)), Query(group_by=("s",)), Query("a > 4"), Query("true"))
    )
    compiled = compile_workload(PEOPLE, asked, sandbox)
    found = planned(compiled, Unit("person", 1))
    assert sum(len(part.statements) for part in found.parts) == {"group by per set": 4, "aggregates": 3}.get(plan, 2)
    both = answers(plain, found)
    joint = np.array(both[0]).reshape(11, 3)
    assert (joint.sum(axis=1).tolist(), joint.sum(axis=0).tolist()) == (both[1], both[2])
    assert joint[5:10].sum() == both[3][0]
    assert joint.sum() == both[4][0] == sum(both[5]) == len({person for _, _, person in drawn})


WIDE = Domain(
    "t", ("e", "b", "n", "x", "s", "d"),
    (
        Attribute("e", "ENUM('x', 'y', 'z')", nullable=True, values=("z", "x")),
        Attribute("b", "BOOLEAN", nullable=False, values=("false", "true")),
        Attribute("n", "INTEGER", nullable=True, low=0, high=99),
        Attribute("x", "DOUBLE", nullable=False, low=0.0, high=1.0),
        Attribute("s", "VARCHAR", nullable=True, values=("p", "q", "it's")),
        Attribute("d", "DATE", nullable=True, low=18262, high=18300),
    ),
)  # fmt: skip


wide_rows = st.lists(
    st.tuples(
        st.sampled_from(["x", "y", "z", None]), st.sampled_from(["true", "false", None]),
        st.none() | st.integers(-3, 103).map(str),
        st.sampled_from(["0.5", "nan", "inf", "-inf", "0.25", "-0.0", None]),
        st.sampled_from(["p", "q", "it's", "P", "", None]),
        st.sampled_from(["2020-01-01", "2020-01-20", "infinity", "1999-01-01", None]),
    ),
    max_size=25,
)  # fmt: skip


# What each asks of the rows once odd values are mapped as documented.
MAPPED = """
    SELECT CASE WHEN e IN ('z', 'x') THEN e END AS e, coalesce(b, false) AS b,
           CASE WHEN n IS NOT NULL THEN greatest(least(n, 99), 0) END AS n,
           CASE WHEN x IS NULL OR x < 0 THEN 0.0 WHEN x > 1 THEN 1.0 ELSE x END AS x,
           CASE WHEN s IN ('p', 'q', 'it''s') THEN s END AS s,
           CASE WHEN d IS NOT NULL THEN greatest(least(d, '2020-02-08'::DATE), '2020-01-01'::DATE) END AS d FROM t
"""


PREDICATES = [
    "e = 'x'", "e IS NULL", "b", "NOT b", "n % 2 = 0", "n BETWEEN 10 AND 40", "n IS NULL", "x > 0.25", "s LIKE '%s'",
    "s IS NULL", "d < '2020-01-15'",
    "dayofyear(d) % 3 = 1", "b OR n > 50", "e = 'z' OR s = 'p'", "n > 3 AND x <= 0.5 AND b", "false", "true",
    "s IS NULL AND e IS NOT NULL",
]  # fmt: skip


@settings(deadline=None, max_examples=examples(30))
@given(
    rows=wide_rows,
    texts=st.lists(st.sampled_from(PREDICATES), min_size=1, max_size=6),
    cuboids=st.lists(st.lists(st.sampled_from("ebs"), min_size=1, max_size=2, unique=True), max_size=3),
)
def test_all_plans_agree_with_duckdb(
    duck: duckdb.DuckDBPyConnection,
    sandbox: Sandbox,
    rows: list[tuple[Any, ...]],
    texts: list[str],
    cuboids: list[list[str]],
) -> None:
    duck.execute("CREATE OR REPLACE TABLE t (e ENUM('x', 'y', 'z'), b BOOLEAN, n INTEGER, x DOUBLE, s VARCHAR, d DATE)")
    if rows:
        duck.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", [list(row) for row in rows])
    sums = [
        Query(measure="CASE WHEN b THEN 1 ELSE -1 END"),
        Query("e = 'x'", measure="n * CASE WHEN b THEN 3 ELSE -2 END"),
        Query("x > 0.25 OR n > 30", measure="10 * n"),
    ]
    asked = [*map(Query, texts), *(Query(group_by=tuple(names)) for names in cuboids), *sums]
    compiled = compile_workload(WIDE, Workload(tuple(asked)), sandbox)
    expected = []
    for query in compiled.queries:
        if query.source.measure is not None:
            total = duck.execute(
                f"SELECT sum({query.source.measure}) FROM ({MAPPED}) WHERE {query.source.predicate or 'true'}"
            ).fetchall()[0][0]
            expected.append([round((total or 0) / query.linear.unit)])
        elif query.source.predicate is not None:
            expected.append(
                [duck.execute(f"SELECT count(*) FROM ({MAPPED}) WHERE {query.source.predicate}").fetchall()[0][0]]
            )
        else:
            assert query.source.group_by is not None
            listed = ", ".join(f"{name}::VARCHAR" for name in query.source.group_by)
            groups = {
                tuple(row[:-1]): row[-1]
                for row in duck.execute(f"SELECT {listed}, count(*) FROM ({MAPPED}) GROUP BY ALL").fetchall()
            }
            expected.append([groups.get(tuple(cell or ()), 0) for cell in query.cells()])
    assert answers(duck, planned(compiled)) == expected
    for plan in PLANS:
        with pytest.MonkeyPatch.context() as patch:
            force(patch, plan)
            assert answers(duck, planned(compiled)) == expected, plan


def test_an_enum_of_256_values_that_is_mapped(plain: duckdb.DuckDBPyConnection) -> None:
    """The last code of a UTINYINT has no successor of that type."""
    values = tuple(str(value) for value in range(256))
    plain.execute(
        f"CREATE TABLE t (c ENUM({', '.join(map(repr, values))})); INSERT INTO t VALUES ('255'), ('0'), ('254')"
    )
    kind = plain.execute("SELECT data_type FROM duckdb_columns() WHERE table_name = 't'").fetchall()[0][0]
    classes = {
        "c": Classes(
            value_pieces(Attribute("c", kind, nullable=False, values=values)), (np.arange(256) % 2).astype(np.int32)
        )
    }
    for plan in PLANS:
        with pytest.MonkeyPatch.context() as patch:
            force(patch, plan)
            assert answers(plain, plan_pushdown(TABLE, classes, whole(classes, "c"))) == [[2, 1]]


def test_nothing_to_group_by_is_a_count() -> None:
    (part,) = plan_pushdown(TABLE, grid({"a": 3}), [LinearQuery(())]).parts
    assert [statement.sql("duckdb") for statement in part.statements] == [
        'SELECT COUNT(*) AS c0 FROM (SELECT * FROM "memory"."main"."t") AS __codes'
    ]
