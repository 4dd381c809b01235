"""Compiled workloads for tests, and their answers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from mwem_sql.compile.compiled import Compiled
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes
from mwem_sql.domains.domain import Domain
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.scan import execution
from mwem_sql.scan.pushdown import plan_pushdown
from mwem_sql.workload import Workload

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


TYPES = {
    "a": "INTEGER",
    "w": "BIGINT",
    "s": "VARCHAR",
    "e": "ENUM('lo', 'mid', 'hi')",
    "b": "BOOLEAN",
    "f": "DOUBLE",
    "d": "DATE",
    "p": "DECIMAL(5,2)",
    "ts": "TIMESTAMP",
}


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
    found = execution.true_answers(con.cursor(), pushdown)
    assert found.dtype == np.int64
    return [answer.tolist() for answer in np.split(found, pushdown.starts[1:])]


row_values = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-2, 11),
        "w": st.none()
        | st.sampled_from([-(2**63), -6, -5, -4, 0, 1, 99, 1000, 1001, 1_999_999, 2_000_000, 2_000_001, 2**63 - 1]),
        "s": st.none() | st.sampled_from(["x", "y", "zz", "", "unknown", "X"]),
        "e": st.sampled_from(["lo", "mid", "hi"]),
        "b": st.none() | st.sampled_from(["false", "true"]),
        "f": st.none()
        | st.sampled_from(["nan", "inf", "-inf", -1.0, -0.0, 0.0, 5e-324, 0.5, 0.25, 0.1, 2.5, 2.6, -1.5, 1e300]),
        "d": st.none()
        | st.dates(dt.date(2019, 12, 30), dt.date(2020, 4, 2))
        | st.sampled_from(["infinity", "-infinity"]),
        "p": st.none() | st.integers(-3, 103).map(lambda ticks: ticks / 100),
        "ts": st.none()
        | st.sampled_from(
            [
                "2019-12-31 23:00:00",
                "2020-01-01 00:00:00",
                "2020-01-01 00:00:00.000001",
                "2020-01-01 12:00:00",
                "2020-01-01 12:00:00.000001",
                "2020-01-02 00:00:00",
                "2020-01-03 00:00:00",
                "infinity",
                "-infinity",
            ]
        ),
    }
)


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
    ("a", "d"): ["a = month(d)", "coalesce(a, day(d)) > 2"],
    ("a", "b"): ["CASE WHEN b THEN a > 3 ELSE a = 1 END", "b = (a > 2)"],
    ("a", "s"): ["a > length(s)", "(a, s) IN ((1, 'x'), (2, 'zz'))"],
    ("s", "e"): ["s = e::VARCHAR", "s || e LIKE 'x%o'", "s < e"],
}


OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM", "BETWEEN", "NOT BETWEEN",
             "IN", "NOT IN", "IS NULL", "IS NOT NULL")  # fmt: skip


@st.composite
def comparisons(draw: st.DrawFn, column: str, constant: st.SearchStrategy[str]) -> str:
    """A column compared with constants."""
    operator = draw(st.sampled_from(OPERATORS))
    if "NULL" in operator:
        return f"{column} {operator}"
    if "BETWEEN" in operator:
        return f"{column} {operator} {draw(constant)} AND {draw(constant)}"
    if "IN" in operator.split():
        return f"{column} {operator} ({', '.join(draw(st.lists(constant, min_size=1, max_size=3)))})"
    return f"{column} {operator} {draw(constant)}" if draw(st.booleans()) else f"{draw(constant)} {operator} {column}"


@st.composite
def atoms(draw: st.DrawFn, columns: Sequence[str]) -> str:
    joint = [text for pair, texts in JOINT.items() if set(pair) <= set(columns) for text in texts]
    if joint and draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(joint))
    column = draw(st.sampled_from(columns))
    if column in ATOMS and draw(st.booleans()):
        return draw(st.sampled_from(ATOMS[column]))
    return draw(comparisons(column, st.sampled_from(CONSTANTS[column])))


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


def compiled_from(
    sandbox: Sandbox, *texts: str, domain: Domain = DOMAIN, finer_than: dict[str, Classes] | None = None
) -> Compiled:
    return compile_workload(domain, Workload.from_predicates(texts), sandbox, finer_than)


def declare(
    con: duckdb.DuckDBPyConnection, rows: str, columns: str = "attribute, low, high", domain: str | None = None
) -> dict[str, Attribute]:
    """The domain of `t` with a domain table."""
    con.execute(
        "CREATE TABLE IF NOT EXISTS t (c INTEGER, s VARCHAR, x DOUBLE, d DATE, ts TIMESTAMP, p DECIMAL(5,2), "
        "n INTEGER NOT NULL)"
    )
    con.execute(f"CREATE OR REPLACE TABLE {domain or 't_domain'} AS SELECT * FROM (VALUES {rows}) AS v({columns})")
    return {attribute.name: attribute for attribute in Domain.from_schema(con, "t", domain)}
