"""Which values of a column the rows of a view can have: never fewer than they have, whatever the condition says."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import cache

import duckdb
import pytest
from chance import sampled
from hypothesis import given
from hypothesis import strategies as st

from mwem_sql.boundary.relations import describe
from mwem_sql.boundary.scope import EVERYTHING, Scope, is_comparable, kind_of, scope_of
from mwem_sql.errors import MwemError
from mwem_sql.platform.catalog import Place

HERE = Place("memory", "main")
TYPES = {
    "m": "VARCHAR", "d": "DATE", "e": "ENUM('b', 'a', 'B')", "i": "INTEGER", "big": "BIGINT", "ts": "TIMESTAMP",
    "f": "BOOLEAN",
}  # fmt: skip
TABLE = f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in TYPES.items())})"
VALUES = {
    "m": ["'a'", "'A'", "'b'", "'a '", "''", "'1'", "'01'", "'2025-01'", "'é'", "NULL"],
    "d": ["'2024-12-31'", "'2025-01-01'", "'2025-01-31'", "'2025-02-01'", "'infinity'", "'0001-01-01 (BC)'", "NULL"],
    "e": ["'a'", "'b'", "'B'", "NULL"],
    "i": ["0", "1", "2", "-3", "2147483647", "NULL"],
    "big": ["0", "9007199254740992", "9007199254740993", "-9223372036854775808", "9223372036854775807", "NULL"],
    "ts": ["'2025-01-01'", "'2025-01-31 23:59:59.999999'", "'2025-02-01'", "'-infinity'", "NULL"],
    "f": ["true", "false", "NULL"],
}
LEAST, MOST = {"'-infinity'", "-9223372036854775808", "'0001-01-01 (BC)'"}, {"'infinity'", "9223372036854775807"}
CONSTANTS = {
    "m": ["'a'", "'b'", "'a' COLLATE NOCASE", "lower('A')", "'2025-01'", "1", "'é'", "NULL"],
    "d": ["'2025-01-01'", "DATE '2025-01-31'", "TIMESTAMP '2025-02-01'", "TIMESTAMP '2025-01-31 12:00:00'",
          "DATE '2025-01-31' + INTERVAL 1 DAY", "'2025-01-31 12:00:00'", "'infinity'"],
    "e": ["'a'", "'b'", "'A' COLLATE NOCASE", "lower('A')", "'nothing'"],
    "i": ["1", "0.5", "1.0", "'1'", "2::DOUBLE", "3000000000", "true", "-3"],
    "big": ["9007199254740992", "9007199254740993::DOUBLE", "9007199254740992.0", "0", "9223372036854775807"],
    "ts": ["'2025-01-01'", "DATE '2025-02-01'", "TIMESTAMP '2025-01-31 23:59:59.999999'", "'2025-02-01'::TIMESTAMPTZ"],
    "f": ["true", "'true'", "1", "NOT true"],
}  # fmt: skip
UNDERSTOOD = [
    ("m = 'x'", "m", "x"),
    ("'x' = m", "m", "x"),
    ("m IN ('x', 'y') AND i > 3", "m", "x, y"),
    ("m IN ('x', 'y') AND i > 3", "i", "from 4"),
    ("m > 'x'", "m", "after x"),
    ("'x' <= m AND m < 'y'", "m", "from x before y"),
    ("m BETWEEN 'a' AND 'b'", "m", "a to b"),
    ("m <= 'a' OR m = 'c'", "m", "up to a, c"),
    ("m IS NULL OR m = 'x'", "m", "x, NULL"),
    ("m IS NOT DISTINCT FROM 'x'", "m", "x"),
    ("m = upper('x')", "m", "X"),
    ("(m = 'a' OR m = 'b') AND lower(m) <> 'a'", "m", "a, b"),
    ("d >= DATE '2025-01-01' AND d < DATE '2025-02-01'", "d", "2025-01-01 to 2025-01-31"),
    ("d >= '2025-01-01' AND d < '2025-02-01'", "d", "2025-01-01 to 2025-01-31"),
    ("d >= DATE '2025-01-01' AND d < DATE '2025-01-01' + INTERVAL 1 MONTH", "d", "2025-01-01 to 2025-01-31"),
    ("d < TIMESTAMP '2025-02-01'", "d", "up to 2025-01-31"),
    ("d IN ('2025-01-01', '2025-01-02', '2025-03-01')", "d", "2025-01-01 to 2025-01-02, 2025-03-01"),
    ("ts >= '2025-01-01' AND ts < '2025-02-01'", "ts", "2025-01-01 00:00:00 to 2025-01-31 23:59:59.999999"),
    ("e = 'a'", "e", "a"),
    ("e IN ('a', 'b')", "e", "a, b"),
    ("f = true", "f", "true"),
    ("i = '3'", "i", "3"),
    ("i < 3 AND i > 1", "i", "2"),
]
NOT_UNDERSTOOD = [
    ("lower(m) = 'x'", "m"), ("m LIKE '2025-%'", "m"), ("m = 'a' COLLATE NOCASE", "m"), ("m <> 'x'", "m"),
    ("m BETWEEN 'a' AND 'b' COLLATE NOCASE", "m"), ("m IN ('a', 'b' COLLATE NOCASE)", "m"), ("m = 1", "m"),
    ("m = 'a' OR i = 3", "m"), ("NOT (m = 'a')", "m"), ("m IN ('x', NULL)", "m"), ("m = NULL", "m"),
    ("m COLLATE NOCASE = 'a'", "m"), ("e < 'a'", "e"), ("e = 'nothing'", "e"), ("i = 1.0", "i"), ("f", "f"),
    ("d < TIMESTAMP '2025-01-31 12:00:00'", "d"), ("d::VARCHAR < '2025'", "d"),
    ("big = 9007199254740993::DOUBLE", "big"),
    ("ts < '2025-02-01'::TIMESTAMPTZ", "ts"), ("i = 1::UHUGEINT", "i"), ("month(d) = 1", "d"), ("i = '1' || '2'", "i"),
]  # fmt: skip


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(TABLE)
        yield con


def scope(con: duckdb.DuckDBPyConnection, condition: str, column: str) -> Scope:
    con.execute(f"CREATE OR REPLACE VIEW v AS SELECT 1 AS one FROM t WHERE {condition}")
    return scope_of(describe(con, "v", HERE, "f").conditions, column, TYPES[column], {})


@pytest.mark.parametrize(("condition", "column", "words"), sampled(UNDERSTOOD, 12))
def test_what_is_understood(con: duckdb.DuckDBPyConnection, condition: str, column: str, words: str) -> None:
    assert scope(con, condition, column).words(TYPES[column]) == words


@pytest.mark.parametrize(("condition", "column"), sampled(NOT_UNDERSTOOD, 10))
def test_whatever_else_a_condition_says_may_be_any_value(
    con: duckdb.DuckDBPyConnection, condition: str, column: str
) -> None:
    assert scope(con, condition, column) == EVERYTHING


def test_views_over_views_and_columns_by_the_names_of_the_table(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        """CREATE OR REPLACE VIEW inner_v AS SELECT m AS month, i + 1 AS m, d FROM t WHERE m >= '2025-01';
           CREATE OR REPLACE VIEW outer_v AS SELECT d AS x FROM inner_v WHERE month < '2025-02' AND m = 4"""
    )
    conditions = describe(con, "outer_v", HERE, "f").conditions
    assert scope_of(conditions, "m", "VARCHAR", {}).words("VARCHAR") == "from 2025-01 before 2025-02"
    assert scope_of(conditions, "i", "INTEGER", {}) == EVERYTHING


def test_names_are_those_of_a_from_clause_that_renames(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE OR REPLACE VIEW v AS SELECT b FROM t AS x(b, a) WHERE x.b = 'x' AND a = '2025-01-01'")
    conditions = describe(con, "v", HERE, "f").conditions
    assert scope_of(conditions, "m", "VARCHAR", {}).words("VARCHAR") == "x"
    assert scope_of(conditions, "d", "DATE", {}).words("DATE") == "2025-01-01"


def test_a_column_of_what_is_joined_says_nothing(con: duckdb.DuckDBPyConnection) -> None:
    """Of two columns of one name, only the table's own says which rows can be there."""
    con.execute(
        """CREATE TABLE person (i INTEGER PRIMARY KEY, m VARCHAR, kind BOOLEAN);
           CREATE TABLE visit (i INTEGER REFERENCES person (i), m VARCHAR);
           CREATE VIEW visits AS SELECT v.m FROM visit v JOIN person p USING (i)
           WHERE p.m = '2025-03' AND v.m >= '2025-01' AND (p.kind OR v.m = '2025-02')"""
    )
    conditions = describe(con, "visits", HERE, "f").conditions
    assert scope_of(conditions, "m", "VARCHAR", {}).words("VARCHAR") == "from 2025-01"


def _condition(chance: random.Random, depth: int = 2) -> str:
    if depth and chance.random() < 0.6:
        parts = [_condition(chance, depth - 1) for _ in range(2)]
        return chance.choice(["({} AND {})", "({} OR {})", "(NOT {} OR {})"]).format(*parts)
    column = chance.choice(list(TYPES))
    constants = chance.choices(CONSTANTS[column], k=2)
    return chance.choice(
        ["{c} = {a}", "{a} = {c}", "{c} < {a}", "{c} >= {a}", "{a} < {c}", "{c} <= {a}", "{c} > {a}", "{c} <> {a}",
         "{c} BETWEEN {a} AND {b}", "{c} NOT BETWEEN {a} AND {b}", "{c} IN ({a}, {b})", "{c} NOT IN ({a}, {b})",
         "{c} IS NULL", "{c} IS NOT NULL", "{c} IS NOT DISTINCT FROM {a}", "{c}::VARCHAR = {a}::VARCHAR"]
    ).format(c=column, a=constants[0], b=constants[1])  # fmt: skip


@cache
def _points() -> dict[tuple[str, str], tuple[str | None, Scope]]:
    """Of each value of each column, what it prints as, and the scope that has it alone."""
    out = {}
    with duckdb.connect() as con:
        con.execute(TABLE)
        for name, values in VALUES.items():
            for value in values:
                ((printed,),) = con.sql(f"SELECT CAST(CAST({value} AS {TYPES[name]}) AS VARCHAR)").fetchall()
                condition = f"{name} IS NULL" if value == "NULL" else f"{name} = {value}"
                out[name, value] = printed, scope(con, condition, name)
    return out


def violations(conditions: Iterable[str]) -> list[str]:
    """Rows of views, in scans as they are written, whose value is not in the scope."""
    out = []
    with duckdb.connect() as con:
        con.execute(TABLE)
        for seed in range(60):
            values = [random.Random(f"{seed} {name}").choice(VALUES[name]) for name in TYPES]
            con.execute(f"INSERT INTO t VALUES ({', '.join(values)})")
        for condition in conditions:
            try:
                con.execute(f"CREATE OR REPLACE VIEW v AS SELECT * FROM t WHERE {condition}")
                relation = describe(con, "v", HERE, "f")
            except (duckdb.Error, MwemError):  # DuckDB or the boundary has no such comparison
                continue
            texts = ", ".join(f"CAST({name} AS VARCHAR)" for name in TYPES)
            rows = con.sql(f"SELECT {texts} FROM {relation.tree().sql('duckdb')}").fetchall()
            for place, (name, kind) in enumerate(TYPES.items()):
                whole = scope_of(relation.conditions, name, kind, {})
                shown = {row[place] for row in rows}
                for value in VALUES[name] if whole != EVERYTHING else ():
                    printed, point = _points()[name, value]
                    if printed in shown and not _has(whole, value, point):
                        out.append(f"{condition}: {name} = {value} is not in {whole.words(kind)}")
    return out


def _has(whole: Scope, value: str, point: Scope) -> bool:
    """Whether a value is in a scope; of the least and the greatest, which have no tick, its ends say so."""
    if value in LEAST:
        return whole.begins_below
    return (
        whole.stretches[-1:] != () and whole.stretches[-1][1] is None if value in MOST else not point.is_disjoint(whole)
    )


def test_no_row_has_a_value_beyond_the_scope() -> None:
    assert violations(_condition(random.Random(seed)) for seed in range(25)) == []


@pytest.mark.thorough
def test_no_row_has_a_value_beyond_the_scope_of_many_conditions() -> None:
    assert violations(_condition(random.Random(seed)) for seed in range(1000, 4000)) == []


def test_a_reader_that_takes_conversions_for_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB compares a text with a number as a number: '01' is 1, too."""
    assert violations(["m = 1"]) == []
    monkeypatch.setattr("mwem_sql.boundary.scope._Reader._is_injective", lambda *_: True)
    assert violations(["m = 1"]) == ["m = 1: m = '01' is not in 1"]


ENDS = st.none() | st.integers(-4, 4)
SCOPES = st.builds(
    lambda stretches, null: Scope.of(stretches, null=null), st.lists(st.tuples(ENDS, ENDS), max_size=4), st.booleans()
)


def members(scope: Scope) -> set[int | None]:
    inside = {
        value
        for value in range(-6, 7)
        for low, high in scope.stretches
        if (low is None or low <= value) and (high is None or value < high)
    }
    return inside | ({None} if scope.null else set())


@given(SCOPES, SCOPES)
def test_a_scope_is_a_set(one: Scope, other: Scope) -> None:
    assert members(one | other) == members(one) | members(other)
    assert members(one & other) == members(one) & members(other)
    assert one.is_disjoint(other) == (not members(one) & members(other))
    assert Scope.read(one.exact()) == one
    assert (members(one) == members(other)) == (one == other)


def test_types_with_values_that_can_be_told_apart() -> None:
    assert all(map(is_comparable, TYPES.values()))
    assert not any(map(is_comparable, ["DOUBLE", "DECIMAL(5,2)", "TIMESTAMP WITH TIME ZONE", "INTEGER[]", "UUID"]))
    assert kind_of("ENUM('a')") == kind_of("ENUM('a', 'b')") != kind_of("VARCHAR")
    assert kind_of("INTEGER") == kind_of("BIGINT") != kind_of("DATE")
