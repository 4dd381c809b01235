"""Compiled workloads against DuckDB: the same answers, the coarsest classes, no listing where none is needed."""

from __future__ import annotations

import datetime as dt
import gc
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import TokenType, exp
from sqlglot.parser import binary_range_parser

from mwem_sql.compiler import blocks, templates
from mwem_sql.compiler.pipeline import Compiled, compile_workload
from mwem_sql.compiler.pushdown import plan_pushdown
from mwem_sql.database import dialect
from mwem_sql.database.catalog import Name
from mwem_sql.database.sandbox import Sandbox
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import CellsError, DomainError, PredicateError, WorkloadError
from mwem_sql.private import engine
from mwem_sql.workload import Query, Workload

TABLE = Name("memory", "main", "t")
DAY = (dt.date(2020, 1, 1) - dt.date(1970, 1, 1)).days
DOMAIN = Domain(
    "t",
    ("a", "w", "s", "e", "b", "f", "d", "p", "ts", "nothing"),
    (
        Attribute("a", "INTEGER", nullable=True, low=0, high=9),
        Attribute("w", "BIGINT", nullable=True, low=-5, high=2_000_000),
        Attribute("s", "VARCHAR", nullable=True, values=("x", "y", "zz", "")),
        Attribute("e", "ENUM('lo', 'mid', 'hi')", nullable=False, values=("lo", "mid", "hi")),
        Attribute("b", "BOOLEAN", nullable=True, values=("false", "true")),
        Attribute("f", "DOUBLE", nullable=True, low=-1.0, high=2.5),
        Attribute("d", "DATE", nullable=True, low=DAY, high=DAY + 90),
        Attribute("p", "DECIMAL(5,2)", nullable=False, low=0, high=100),
        Attribute("ts", "TIMESTAMP", nullable=True, low=DAY * 86_400 * 10**6, high=(DAY + 1) * 86_400 * 10**6),
    ),
)
TYPES = {"a": "INTEGER", "w": "BIGINT", "s": "VARCHAR", "e": "ENUM('lo', 'mid', 'hi')", "b": "BOOLEAN", "f": "DOUBLE", "d": "DATE",
         "p": "DECIMAL(5,2)", "ts": "TIMESTAMP"}  # fmt: skip


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as con:
        yield con


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


def table(con: duckdb.DuckDBPyConnection, name: str, columns: dict[str, str], rows: Sequence[dict[str, Any]]) -> None:
    """A table of any rows; values as DuckDB reads their text."""
    arrived = pa.table(
        {
            column: pa.array([None if row[column] is None else str(row[column]) for row in rows], pa.string())
            for column in columns
        }
    )
    casts = ", ".join(f'"{column}"::{kind} AS "{column}"' for column, kind in columns.items())
    con.from_arrow(arrived).query("arrived", f'CREATE OR REPLACE TABLE "{name}" AS SELECT {casts} FROM arrived')


def inside(attribute: Attribute, value: Any) -> Any:
    """A value as DESIGN section 1 maps it: clamped to the bounds, or NULL (the first value, if it is NOT NULL)."""
    if attribute.values is not None:
        known = value is not None and str(value) in attribute.values
        return value if known else None if attribute.nullable else attribute.values[0]
    low, high = attribute.text(attribute.low), attribute.text(attribute.high)
    if value is None:
        return None if attribute.nullable else low
    if str(value) in {"nan", "inf", "infinity"}:
        return high
    if str(value) in {"-inf", "-infinity"}:
        return low
    order = type(value) if not isinstance(value, (dt.date, dt.datetime)) else str
    if order(value) < order(low):
        return low
    return high if order(value) > order(high) else value


def answers(con: duckdb.DuckDBPyConnection, compiled: Compiled, name: Name = TABLE) -> list[list[int]]:
    """The private side's true answers."""
    pushdown = plan_pushdown(name, compiled.classes, [query.linear for query in compiled.queries])
    found = engine.true_answers(con.cursor(), pushdown)
    assert found.dtype == np.int64
    return [answer.tolist() for answer in np.split(found, pushdown.starts[1:])]


def by_cell(compiled: Compiled, number: int, answer: list[int]) -> dict[tuple[str | None, ...], int]:
    cells = [tuple(cell or ()) for cell in compiled.queries[number].cells()]
    assert len(set(cells)) == len(cells) == len(answer)
    return dict(zip(cells, answer, strict=True))


row_values = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-2, 11),
        "w": st.none() | st.sampled_from([-(2**63), -6, -5, -4, 0, 1, 99, 1000, 1001, 1_999_999, 2_000_000, 2_000_001, 2**63 - 1]),
        "s": st.none() | st.sampled_from(["x", "y", "zz", "", "unknown", "X"]),
        "e": st.sampled_from(["lo", "mid", "hi"]),
        "b": st.none() | st.sampled_from(["false", "true"]),
        "f": st.none() | st.sampled_from(["nan", "inf", "-inf", -1.0, -0.0, 0.0, 5e-324, 0.5, 0.25, 0.1, 2.5, 2.6, -1.5, 1e300]),
        "d": st.none() | st.dates(dt.date(2019, 12, 30), dt.date(2020, 4, 2)) | st.sampled_from(["infinity", "-infinity"]),
        "p": st.none() | st.integers(-3, 103).map(lambda ticks: ticks / 100),
        "ts": st.none() | st.sampled_from([
            dt.datetime(2019, 12, 31, 23), dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 0, 1), dt.datetime(2020, 1, 1, 12),  # noqa: DTZ001
            dt.datetime(2020, 1, 1, 12, 0, 0, 1), dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 3), "infinity", "-infinity",  # noqa: DTZ001
        ]),
    }
)  # fmt: skip

CONSTANTS = {
    "a": ["0", "3", "9", "-1", "10", "4.5", "'7'", "NULL", "2 + 2"],
    "w": ["-5", "2000000", "0", "1000", "1000.5", "-6", "3000000", "1e3", "99999999999999999999"],
    "f": ["0", "-0.0", "0.5", "0.1", "-1", "2.5", "3", "0.25::FLOAT", "'nan'", "'inf'", "5e-324"],
    "d": ["'2020-01-01'", "DATE '2020-02-29'", "'2020-03-31'", "TIMESTAMP '2020-02-01 12:00:00'", "'2021-01-01'"],
    "p": ["0", "1", "0.5", "0.505", "0.25::DOUBLE", "2"],
    "ts": ["'2020-01-01'", "TIMESTAMP '2020-01-01 12:00:00'", "DATE '2020-01-02'", "'2019-01-01'", "'infinity'"],
    "s": ["'x'", "'y'", "''", "'unknown'", "NULL"],
    "e": ["'mid'", "'lo'"],
    "b": ["true", "NULL"],
}
ATOMS = {
    "a": ["a % 3 = 1", "a + 2 > 5", "abs(a - 4) < 2", "a::VARCHAR LIKE '%1'"],
    "s": ["s LIKE 'z%'", "s ILIKE 'X'", "length(s) > 1", "s || 'q' = 'xq'", "s ~ 'z'", "upper(s) IN ('X', 'ZZ')"],
    "e": ["e LIKE '%i%'", "e::VARCHAR < 'm'", "e > 'lo'::ENUM('lo', 'mid', 'hi')"],
    "b": ["b", "b IS TRUE", "b IS NOT FALSE", "CASE WHEN b THEN NULL ELSE true END"],
    "d": ["month(d) = 2", "d + INTERVAL 1 MONTH > DATE '2020-03-15'", "dayofweek(d) = 1", "extract(day FROM d) > 28"],
    "p": ["p * 100 % 7 = 0", "round(p, 1) = 0.3"],
}
JOINT = {
    ("a", "p"): ["a * 0.1 > p", "p = a", "CASE WHEN a > 3 THEN p > 0.5 ELSE p < 0.2 END"],
    ("a", "d"): ["a = month(d)", "coalesce(a, day(d)) > 2"], ("a", "b"): ["CASE WHEN b THEN a > 3 ELSE a = 1 END", "b = (a > 2)"],
    ("a", "s"): ["a > length(s)", "(a, s) IN ((1, 'x'), (2, 'zz'))"], ("s", "e"): ["s = e::VARCHAR", "s || e LIKE 'x%o'", "s < e"],
}  # fmt: skip


@st.composite
def atoms(draw: st.DrawFn, columns: Sequence[str]) -> str:
    joint = [text for pair, texts in JOINT.items() if set(pair) <= set(columns) for text in texts]
    if joint and draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(joint))
    column = draw(st.sampled_from(columns))
    if column in ATOMS and draw(st.booleans()):
        return draw(st.sampled_from(ATOMS[column]))
    constant = st.sampled_from(CONSTANTS[column])
    operator = draw(
        st.sampled_from(
            [
                "=",
                "<>",
                "<",
                "<=",
                ">",
                ">=",
                "IS DISTINCT FROM",
                "IS NOT DISTINCT FROM",
                "BETWEEN",
                "IN",
                "NOT IN",
                "IS NULL",
                "IS NOT NULL",
            ]
        )
    )
    if operator in {"IS NULL", "IS NOT NULL"}:
        return f"{column} {operator}"
    if operator == "BETWEEN":
        return f"{column} BETWEEN {draw(constant)} AND {draw(constant)}"
    if operator in {"IN", "NOT IN"}:
        return f"{column} {operator} ({', '.join(draw(st.lists(constant, min_size=1, max_size=3)))})"
    return f"{column} {operator} {draw(constant)}" if draw(st.booleans()) else f"{draw(constant)} {operator} {column}"


@st.composite
def predicates(draw: st.DrawFn) -> str:
    """A predicate over up to three columns."""
    columns = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3, unique=True))
    nested = st.recursive(
        atoms(columns),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
                lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
            ),
            inner.map(lambda part: f"NOT ({part})"),
        ),
        max_leaves=4,
    )
    return draw(st.sampled_from([" AND ", "\nand ", " OR "])).join(draw(st.lists(nested, min_size=1, max_size=3)))


groupings = st.lists(
    st.sampled_from(
        ["a", "s", "e", "b", "month(d)", "a % 2", "length(s)", "a > 3", "round(p, 1)", "coalesce(s, e::VARCHAR)"]
    ),
    min_size=1,
    max_size=3,
)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(row_values, max_size=12), st.lists(predicates(), min_size=1, max_size=6),
    st.lists(st.tuples(groupings, st.none() | predicates()), max_size=2),
)  # fmt: skip
def test_answers_are_duckdbs(
    con: duckdb.DuckDBPyConnection,
    sandbox: Sandbox,
    rows: list[dict[str, Any]],
    texts: list[str],
    cuboids: list[tuple[list[str], str | None]],
) -> None:
    """The differential test: codes and blocks on the private side, the text itself on a copy with its values inside the domain."""
    table(con, "t", TYPES, rows)
    table(con, "copy", TYPES, [{name: inside(DOMAIN[name], value) for name, value in row.items()} for row in rows])
    asked = [Query(text) for text in texts]
    asked += [Query(text, group_by=(", ".join(groups),), verbatim=False) for groups, text in cuboids]
    compiled = compile_workload(DOMAIN, Workload(tuple(asked)), sandbox)
    found = answers(con, compiled)
    counted = con.execute(f"SELECT {', '.join(f'count(*) FILTER ({text})' for text in texts)} FROM copy").fetchall()[0]
    assert [answer for (answer,) in found[: len(texts)]] == list(counted)
    for number, (groups, text) in enumerate(cuboids, start=len(texts)):
        shown = ", ".join(f"CAST({group} AS VARCHAR)" for group in groups)
        expected = con.execute(f"SELECT {shown}, count(*) FROM copy WHERE {text or 'true'} GROUP BY ALL").fetchall()
        cells = by_cell(compiled, number, found[number])
        assert {cell: count for cell, count in cells.items() if count} == {row[:-1]: row[-1] for row in expected}


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
        Query,
        predicate=st.recursive(
            st.sampled_from(["a > 2", "a IN (1, 3)", "a IS NULL", "a <> 0", "s = 'x'", "s <> 'y'", "b", "NOT b", "a = 1 OR b", "b IS NULL", "a > length(s)",
                             "s IS NULL", "a > 9", "true"]),
            lambda inner: st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
            max_leaves=3,
        ),
        measure=st.none() | st.sampled_from(["CASE WHEN a > 1 THEN 1 ELSE -1 END", "CASE WHEN b THEN 1 WHEN s = 'x' THEN -1 ELSE 0 END",
                                             "a", "a // 2 * 1.25", "coalesce(a, 7) * length(s)", "CASE WHEN s = 'x' THEN a ELSE -0.5 END"]),
        group_by=st.none() | st.sampled_from(["a", "a > 1, s", "s, b", "coalesce(a, 0), b"]).map(lambda text: (text,)),
        verbatim=st.just(False),
    )
)  # fmt: skip


def asked_of(con: duckdb.DuckDBPyConnection, query: Query) -> list[Any]:
    """What DuckDB says a query adds for every combination of values of the small domain: nothing, or a number and a cell."""
    measure, groups = query.measure or "1", f"row({query.group_by[0]})" if query.group_by else "0"
    adds = f"coalesce(CASE WHEN {query.predicate} THEN {measure} ELSE 0 END, 0)"
    rows = con.execute(f"SELECT {adds}, ({groups})::VARCHAR FROM small ORDER BY n").fetchall()
    return [None if added == 0 else (added, cell) for added, cell in rows]


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(small_queries, min_size=1, max_size=3))
def test_classes_are_the_coarsest(con: duckdb.DuckDBPyConnection, sandbox: Sandbox, queries: list[Query]) -> None:
    """Two values are in one class if and only if no query tells them apart, whatever the other columns are."""
    combinations = [
        dict(zip(SMALL_VALUES, values, strict=True)) for values in itertools.product(*SMALL_VALUES.values())
    ]
    rows = [{"n": n, **values} for n, values in enumerate(combinations)]
    table(con, "small", {"n": "INTEGER", "a": "INTEGER", "s": "VARCHAR", "b": "BOOLEAN"}, rows)
    shape = [len(values) for values in SMALL_VALUES.values()]
    said = np.empty((len(queries), len(rows)), dtype=object)
    for k, query in enumerate(queries):
        said[k] = asked_of(con, query)
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


WIDE = {
    "BIGINT": (-5, 5_000_000, [-5, -4, 0, 77, 4_999_999, 5_000_000, -6, 5_000_001, 77.5]),
    "HUGEINT": (0, 10**18, [0, 1, 10**17, 10**18, 10**18 + 1, -1, 10**30]),
    "UBIGINT": (0, 10**18, [0, 1, 10**17, 10**18, 2**64 - 1]),
    "DECIMAL(18,3)": (
        -(10**12),
        10**12,
        ["-1000000000", "0", "0.001", "0.0005", "1e9::DECIMAL(18,3)", "1000000000.001"],
    ),
    "DOUBLE": (-1e9, 1e9, ["-1e9", "0.0", "-0.0", "0.1", "1e9", "'inf'", "'nan'", "1e10", "5e-324"]),
    "FLOAT": (-1.0, 1.0, ["-1", "0.1", "0.1::FLOAT", "1", "2"]),
    # 'infinity' and a TIMESTAMP in one BETWEEN is an error of DuckDB 1.5's own.
    "DATE": (-700_000, 700_000, ["'infinity'", "'1970-01-01'", "DATE '2020-02-29'", "TIMESTAMP '2020-02-29 12:00:00'"]),
    "TIMESTAMP": (
        0,
        10**15,
        ["'1970-01-01'", "'1970-01-01 00:00:00.000001'", "DATE '1980-01-01'", "TIMESTAMP '2001-09-09 01:46:40'"],
    ),
    "TIMESTAMP WITH TIME ZONE": (
        0,
        10**15,
        ["'1970-01-01 00:00:00+00'", "'1980-01-01 02:00:00+02'", "'2001-09-09 01:46:40+00'"],
    ),
}


@pytest.mark.parametrize("kind", WIDE)
def test_wide_ranges_are_cut_at_constants_only(con: duckdb.DuckDBPyConnection, sandbox: Sandbox, kind: str) -> None:
    """Every comparison with every constant, on rows at, beside and beyond all of them."""
    low, high, constants = WIDE[kind]
    attribute = Attribute("c", kind, nullable=True, low=low, high=high)
    domain = Domain("wide", ("c",), (attribute,))
    texts = [f"c {operator} {constant}" for operator in ("<", "<=", "=", "<>", ">=", ">") for constant in constants]
    texts += [f"NOT c BETWEEN {one} AND {other}" for one, other in itertools.pairwise(constants)] + ["c IS NULL"]
    compiled = compile_workload(domain, Workload.from_predicates(texts), sandbox)
    found = compiled.classes["c"]
    assert len(found.pieces) <= 4 * len(constants) + 2
    scale = attribute.ordered
    ticks = {low, high, scale.after(low), scale.before(high)}
    for constant in constants:
        for tick in sandbox.tried([scale.measure(dialect_try_cast(str(constant), kind))]):
            if isinstance(tick, (int, float)) and math.isfinite(tick):
                ticks |= {scale.before(tick), tick, scale.after(tick), scale.after(scale.after(tick))}
    in_range = [scale.text(tick) for tick in sorted(ticks) if low <= tick <= high]
    beyond = {
        "DOUBLE": ["nan", "inf", "-inf", "-0.0"],
        "FLOAT": ["nan", "-inf", "3e38"],
        "DATE": ["infinity", "-infinity"],
    }.get(kind, [])
    ends = {"nan": high, "inf": high, "infinity": high, "3e38": high, "-inf": low, "-infinity": low}
    table(con, "wide", {"c": kind}, [{"c": value} for value in [*in_range, *beyond, None]])
    clamped = [scale.text(ends[value]) if value in ends else value for value in beyond]
    table(con, "narrow", {"c": kind}, [{"c": value} for value in [*in_range, *clamped, None]])
    expected = con.execute(f"SELECT {', '.join(f'count(*) FILTER ({text})' for text in texts)} FROM narrow").fetchall()[
        0
    ]
    assert dict(
        zip(texts, (answer for (answer,) in answers(con, compiled, TABLE.beside("wide"))), strict=True)
    ) == dict(zip(texts, expected, strict=True))


def dialect_try_cast(constant: str, kind: str) -> Any:
    (tree,) = dialect.parse(f"TRY_CAST({constant} AS {kind})")
    assert tree is not None
    return tree


def compiled_from(
    sandbox: Sandbox, *texts: str, domain: Domain = DOMAIN, finer_than: dict[str, Classes] | None = None
) -> Compiled:
    return compile_workload(domain, Workload.from_predicates(texts), sandbox, finer_than)


def test_few_classes_where_little_is_asked(sandbox: Sandbox) -> None:
    found = compiled_from(sandbox, "w BETWEEN 100 AND 199", "f > 0.5", "s = 'x'", "a > 3", "d < '2020-02-01'").classes
    assert {name: own.count for name, own in found.items()} == {"a": 2, "w": 2, "s": 2, "f": 2, "d": 2}
    assert [len(found[name].pieces) for name in ("w", "f")] == [4, 3]  # below, inside, above, NULL; below, above, NULL
    sizes = found["w"].sizes
    assert sizes[1] == 100
    assert sizes.sum() == pytest.approx(2_000_006 * 1.01)
    assert found["a"].sizes.tolist() == [5.0, 6.0]


SAME = [
    ("a > 3", "NOT a <= 3", "a >= 4", "3 < a", "a > 3 AND true", "a > 3.5", "a IN (4, 5, 6, 7, 8, 9)", "a > 3 AND a > 1", "a BETWEEN 4 AND 100",
     "a > 3 AND (e = 'lo' OR e <> 'lo')", "a > 3 AND e IS NOT NULL", "CASE WHEN a > 3 THEN true END", "(a > 3) IS TRUE"),
    ("a > 3 AND s = 'x'", "s = 'x' AND a > 3", "NOT (a <= 3 OR s <> 'x')", "s LIKE 'x' AND 3 < a"),
    ("a > 3 OR b", "b OR a > 3", "NOT (NOT b AND a <= 3)"),
    ("true", "1 = 1", "a IS NULL OR a IS NOT NULL", "e IS NOT NULL"),
    ("false", "a > 100", "NULL", "a = NULL", "a > 3 AND a < 3", "s = 'nothing' AND a > 3", "e IS NULL"),
    ("f > 0", "f > -0.0", "NOT f <= 0"),
    ("w > 1000 AND w < 1002", "w = 1001"),
]  # fmt: skip


def test_queries_that_say_the_same_are_one(sandbox: Sandbox) -> None:
    texts = [text for group in SAME for text in group]
    queries, weights = compiled_from(sandbox, *texts).distinct
    assert [query.source.predicate for query in queries] == [group[0] for group in SAME]
    assert weights.tolist() == [1.0] * len(SAME)


def test_queries_share_blocks(sandbox: Sandbox) -> None:
    """A block for each thing that is asked of a column, however many queries ask it, in whatever words."""

    def count(compiled: Compiled) -> int:
        return len({id(block) for query in compiled.queries for block in query.linear.blocks})

    columns = tuple(f"b{k}" for k in range(30))
    domain = Domain(
        "t", columns, tuple(Attribute(name, "BOOLEAN", nullable=False, values=("false", "true")) for name in columns)
    )
    marginals = compile_workload(domain, Workload.marginals(domain, 1) + Workload.marginals(domain, 2), sandbox)
    assert len(marginals.distinct[0]) == 30 + 30 * 29 // 2
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
    assert len(asked.distinct[0]) == 2
    assert count(asked) == 2


def test_the_collector_stays_as_it_was(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gc.isenabled()
    compiled_from(sandbox, "a > 3")
    assert gc.isenabled()
    monkeypatch.setattr(blocks, "MAX_CELLS", 1)
    with pytest.raises(CellsError):
        compiled_from(sandbox, "a > 3")
    assert gc.isenabled()
    monkeypatch.undo()
    gc.disable()
    try:
        compiled_from(sandbox, "a > 3")
        assert not gc.isenabled()
    finally:
        gc.enable()


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
    queries, weights = compile_workload(DOMAIN, asked, sandbox).distinct
    assert [query.number for query in queries] == [1, 3, 4]
    assert weights.tolist() == [3.0, 1.0, 2.0]


def test_group_by_columns_and_expressions(con: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    table(
        con,
        "t",
        TYPES,
        [
            dict.fromkeys(TYPES, None) | {"a": 1, "s": "x", "e": "mid"},
            dict.fromkeys(TYPES, None) | {"a": 99, "s": "?", "e": "hi"},
        ],
    )
    asked = Workload((Query(group_by=("E", "s")), Query(group_by=("a % 2, a % 2",), verbatim=False), Query("s = 'x'", group_by=("s", "e")),
                      Query("false", group_by=("e",)), Query(group_by=("a",) * 9)))  # fmt: skip
    compiled = compile_workload(DOMAIN, asked, sandbox)
    found = answers(con, compiled)
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


def test_bins_and_steps(con: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
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
        con,
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
    found = answers(con, compiled)
    assert by_cell(compiled, 0, found[0]) == {
        ("[0.0, 0.25)",): 3, ("[0.25, 0.5)",): 1, ("[0.5, 0.75)",): 0, ("[0.75, 1.0]",): 2, (None,): 1,
    }  # fmt: skip
    assert by_cell(compiled, 1, found[1]) == {("0",): 4, ("4",): 1, ("8",): 2}
    assert found[2:4] == [[3], [4]]
    assert found[4] == [4, 0, 3]
    assert found[5] == [4, 1, 0, 2]


def test_measures_are_signs(con: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    table(
        con,
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
    found = answers(con, compiled)
    assert found[:6] == [[0], [1], [4], [-4], [0], [0]]
    assert by_cell(compiled, 6, found[6]) == {("false",): -1, ("true",): 0, (None,): 1}


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(row_values, max_size=8),
    st.lists(predicates(), min_size=1, max_size=3),
    st.lists(predicates(), min_size=1, max_size=3),
)
def test_finer_than(
    con: duckdb.DuckDBPyConnection, sandbox: Sandbox, rows: list[dict[str, Any]], first: list[str], second: list[str]
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
    table(con, "t", TYPES, rows)
    table(con, "copy", TYPES, [{name: inside(DOMAIN[name], value) for name, value in row.items()} for row in rows])
    counted = con.execute(f"SELECT {', '.join(f'count(*) FILTER ({text})' for text in second)} FROM copy").fetchall()[0]
    assert [answer for (answer,) in answers(con, compiled)] == list(counted)


def _code_of(coarse: Classes, finer: Classes, piece: int) -> tuple[int, ...]:
    """The classes of `coarse` at both ends of a piece of `finer`."""
    if piece >= finer.pieces.known:
        return (int(coarse.codes[-1]),)
    if not len(finer.pieces.lows):
        return (int(coarse.codes[piece]),)
    ends = (finer.pieces.lows[piece], finer.pieces.highs[piece])
    return tuple(int(coarse.codes[np.searchsorted(coarse.pieces.lows, end, side="right") - 1]) for end in ends)


MANY = Domain("t", tuple("abcdxy"), tuple(Attribute(name, "INTEGER", nullable=False, low=0, high=99) for name in "abcd")
              + tuple(Attribute(name, "INTEGER", nullable=False, low=0, high=1999) for name in "xy"))  # fmt: skip


@pytest.mark.parametrize(
    ("query", "kind", "message"),
    [
        (Query(group_by=tuple("abcd")), CellsError, "workload: query 'a, b, c, d' needs 100,000,000 cells over a, b, c, d, more than 10,000,000. Hint: group by fewer"),
        (Query("a + b + c + d > 3"), CellsError, "workload: '\"a\" + \"b\" + \"c\" + \"d\" > 3' joins a, b, c, d value by value, 100,000,000 combinations, more than 1,000,000"),
        (Query("x > y", name="mine"), CellsError, "workload: '\"x\" > \"y\"' joins x, y value by value, 4,000,000 combinations, more than 1,000,000. Hint: declare step"),
        (Query(measure="CASE WHEN a = 3 THEN 'nan'::DOUBLE ELSE 1 END"), WorkloadError, "workload: measure ("),
        (Query(measure="a * 1e31"), WorkloadError, "workload: measure ('1e31') is not a number, or beyond 1e+30, for some value of the domain. Hint: it must be bounded"),
        (Query(measure="sum(a) + sum(a)"), PredicateError, "workload: measure ('sum(a) + sum(a)') has the aggregate sum"),
        (Query("CAST(chr(64 + a) AS INTEGER) > 1"), PredicateError, "workload: expression ('CAST(CHR(64 + \"a\") AS INT) > 1') cannot be evaluated on the public domain: Conversion"),
        (Query("lower(a, b) = 1"), PredicateError, "workload: expression ('LOWER(\"a\", \"b\") = 1') cannot be evaluated on the public domain: Binder Error"),
        (Query("a > > 3"), PredicateError, "workload: expression ('a > > 3') cannot be evaluated on the public domain: Parser Error: syntax error"),
        (Query("a IN (1,,2)"), PredicateError, "workload: expression ('a IN (1,,2)') cannot be evaluated on the public domain: Parser Error: syntax error"),
        (Query("a = 'many'"), PredicateError, "workload: expression ('\"a\" = \\'many\\'') cannot be evaluated on the public domain: Conversion"),
        (Query(group_by=("q",)), WorkloadError, "workload: group_by names the unknown column 'q'. Hint: t has the columns a, b, c, d, x, y; an SQL expression"),
        (Query(group_by=("a,, b",), verbatim=False), PredicateError, "workload: "),
    ],
)  # fmt: skip
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
        ("f * 2 > 1", "attribute f has endlessly many values, and a query needs them one by one"),
        (
            "w % 2 = 0",
            r"attribute w has 2,000,007 values, and a query needs them one by one \(at most 100,000\). Hint: declare step, bins",
        ),
        ("f > a", "attribute f has endlessly many values"),
    ):
        with pytest.raises(DomainError, match=f"^domain: {message}"):
            compiled_from(sandbox, text)
    with pytest.raises(DomainError, match="attribute f has endlessly many values"):
        compile_workload(DOMAIN, Workload((Query(group_by=("f",)),)), sandbox)


@pytest.mark.parametrize(
    "query",
    [Query("s ~ 'z'"), Query("s ~ 'z' AND a > 3"), Query("s ~ 'z'", group_by=("e",)), Query(group_by=("s ~ 'z', e",), verbatim=False),
     Query(measure="CASE WHEN s ~ 'z' THEN 1 ELSE -1 END"), Query("a > 2", measure="CASE WHEN s ~ 'z' THEN 1 ELSE 0 END")],
)  # fmt: skip
def test_a_text_that_is_read_in_two_ways_is_refused(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, query: Query
) -> None:
    """`~` means another thing in DuckDB 2 than in 1: with the other version's reading the net must hold."""
    compile_workload(DOMAIN, Workload((query,)), sandbox)
    other = exp.RegexpFullMatch if int(duckdb.__version__.split(".")[0]) >= 2 else exp.RegexpLike
    monkeypatch.setitem(dialect.Verbatim.Parser.RANGE_PARSERS, TokenType.TILDE, binary_range_parser(other))
    with pytest.raises(
        PredicateError,
        match=r"^workload: query \(.*~.*\) is read in two ways by the parser and by DuckDB. Hint: write it with plain",
    ):
        compile_workload(DOMAIN, Workload((Query("b"), query)), sandbox)


def test_a_text_that_is_split_wrongly_is_refused(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that overlooks OR takes `a = 1 OR b AND s = 'x'` apart at AND; so does one that has learned the parts before."""
    texts = ["a = 1 OR b AND s = 'x'", "e = 'lo' AND s = 'x'", "(a = 1)OR(b)AND(s = 'x')"]
    compiled_from(sandbox, *texts)
    monkeypatch.setattr(templates, "_STRUCTURE", templates._STRUCTURE - {"or"})
    templates._gap.cache_clear()
    for text in (texts[0], texts[2]):
        with pytest.raises(PredicateError, match="is read in two ways"):
            compiled_from(sandbox, text, texts[1])
        with pytest.raises(PredicateError, match="is read in two ways"):
            compiled_from(sandbox, "a = 2 OR b", texts[1], text)
    templates._gap.cache_clear()


def test_a_wrong_cut_is_noticed(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Public rows are drawn from inside the pieces, so a constant that was missed shows."""
    monkeypatch.setattr("mwem_sql.compiler.cuts._ticks", lambda *_: {})
    with pytest.raises(PredicateError, match="is read in two ways"):
        compiled_from(sandbox, "w > 1000000")


def test_settings_change_the_meaning() -> None:
    divided = Workload.from_predicates(["a / 2 = 2"])
    sizes = []
    for setting in (False, True):
        with Sandbox({"integer_division": setting}) as sandbox:
            sizes.append(compile_workload(DOMAIN, divided, sandbox).classes["a"].sizes.tolist())
    assert sizes == [[10.0, 1.0], [9.0, 2.0]]
    with Sandbox({"TimeZone": "America/New_York", "default_collation": "nocase", "threads": 7}) as sandbox:
        assert compiled_from(sandbox, "s = 'X'").classes["s"].count == 2


def test_the_sandbox_reaches_nothing() -> None:
    for statement, reason in (
        ("SELECT * FROM read_text('/etc/passwd')", "disabled"),
        ("SET enable_external_access = true", "locked|Cannot"),
    ):
        with Sandbox() as sandbox, pytest.raises(duckdb.Error, match=reason):
            sandbox._con.execute(statement)


def test_odd_names_and_a_qualified_column(con: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    name = TABLE.beside('my "t"')
    domain = Domain(
        'my "t"',
        ("a b", "select", "grid"),
        tuple(Attribute(column, "INTEGER", nullable=True, low=0, high=3) for column in ("a b", "select", "grid")),
    )
    con.execute(f'CREATE OR REPLACE TABLE {name.quoted()} AS SELECT 1 AS "a b", 2 AS "select", 3 AS "grid"')
    compiled = compiled_from(
        sandbox, '"a b" < "select" AND "A B" = 1', '"my ""t""".grid = 3', '"my ""t""" . "select" > 1', domain=domain
    )
    assert answers(con, compiled, name) == [[1], [1], [1]]


def test_a_group_that_stands_twice_keeps_its_places(con: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    con.execute("CREATE TABLE twice (a BOOLEAN NOT NULL, b ENUM ('x', 'y') NOT NULL)")
    asked = Workload.from_rows([{"group_by": ["b", "a", "b"]}, {"group_by": ["a", "b"]}])
    first, second = compile_workload(Domain.from_schema(con, "twice"), asked, sandbox).queries
    assert set(map(tuple, first.cells())) == {(b, a, b) for a in ("false", "true") for b in "xy"}  # type: ignore[arg-type]
    assert set(map(tuple, second.cells())) == {(a, b) for a in ("false", "true") for b in "xy"}  # type: ignore[arg-type]


def test_groups_of_one_block_keep_their_order(con: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    """An expression over two columns stands between others over one of them."""
    con.execute("CREATE TABLE ordered (a BOOLEAN NOT NULL, b ENUM ('x', 'y') NOT NULL)")
    asked = Workload((Query(group_by=("b, concat(a, b), b, a",), verbatim=False),))
    (query,) = compile_workload(Domain.from_schema(con, "ordered"), asked, sandbox).queries
    assert set(map(tuple, query.cells())) == {(b, f"{a}{b}", b, a) for a in ("false", "true") for b in "xy"}  # type: ignore[arg-type]
