"""Columns of odd types in a private table: in nobody's way if nothing asks about them; refused in the plan, or counted
without failing, if something does."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import duckdb
import pytest
from chance import sampled

from mwem_sql.errors import MwemError
from mwem_sql.kernel.budget import Budget
from mwem_sql.platform.session import Session
from mwem_sql.releases.plan import make_plan
from mwem_sql.releases.request import Request
from mwem_sql.scan import execution
from mwem_sql.workload import Workload

COLUMNS = {
    "MAP(VARCHAR, INTEGER)": ["MAP {'a': 1}"], "UNION(n INTEGER, s VARCHAR)": ["'x'"], "VARIANT": ["1::VARIANT"],
    "GEOMETRY": ["'POINT (1 2)'::GEOMETRY"], "BIT": ["'101'"],
    "BLOB": ["'\\xFF'", "''"], "INTERVAL": ["INTERVAL 2147483647 MONTHS", "to_microseconds(9223372036854775807)"],
    "TIME": ["'24:00:00'", "'00:00:00'"],
    "TIMETZ": ["'24:00:00-15:59:59'"], "TIME_NS": ["'23:59:59.999999999'"],
    "HUGEINT": ["(-170141183460469231731687303715884105728)", "170141183460469231731687303715884105727"],
    "UHUGEINT": ["340282366920938463463374607431768211455"], "INTEGER[]": ["[1, NULL]"], "INTEGER[2]": ["[1, 2]"],
    "STRUCT(x VARCHAR)": ["{x: 'y'}"],
    "UUID": ["'ffffffff-ffff-ffff-ffff-ffffffffffff'"], "JSON": ["'[1]'"],
    "TIMESTAMP_S": ["'infinity'", "'290309-12-22 (BC) 00:00:00'"],
    "TIMESTAMP_MS": ["'infinity'", "'294247-01-10 04:00:54'"], "TIMESTAMP_NS": ["'infinity'", "'1677-09-22 00:00:00'"],
    "TIMESTAMP": ["'infinity'", "'-infinity'", "'290309-12-22 (BC) 00:00:00'", "make_timestamp(9223372036854775806)",
    "make_timestamp(-9223372036854775806)"],
    "TIMESTAMPTZ": ["'infinity'", "'-infinity'", "'290309-12-22 (BC) 00:00:00+00'", "'294247-01-10 04:00:54.775806+00'",
    "make_timestamp(9223372036854775806)"],
    "DATE": ["'infinity'", "'-infinity'", "'5877642-06-25 (BC)'", "'5881580-07-10'"],
    "DOUBLE": ["'nan'", "'inf'", "'-inf'", "1.7e308", "5e-324"], "FLOAT": ["'nan'", "'-inf'", "3.4e38"],
    "DECIMAL(38,10)": ["'9999999999999999999999999999.9999999999'", "'-9999999999999999999999999999.9999999999'"],
    "UBIGINT": ["18446744073709551615"],
    "BIGINT": ["(-9223372036854775808)", "9223372036854775807"], "VARCHAR": ["chr(0)", "repeat('x', 100000)", "'é'"],
    "ENUM('a', 'b')": ["'b'"], "BOOLEAN": ["true"],
}  # fmt: skip
DOMAINS = [
    ("['1', 'x', 'true', '2020-01-01', 'a', '24:00:00', '101']", "NULL, NULL", "true"),
    ("['2020-01-01 00:00:00+00', 'infinity']", "NULL, NULL", "false"),
    ("NULL", "'-4000000000000000000', '4000000000000000000'", "NULL"), ("NULL", "'-5', '5'", "NULL"),
    ("NULL", "'2020-01-01', '2020-12-31'", "NULL"),
]  # fmt: skip
"""What may be declared of a column: a list, open or not, or bounds."""
ASKED: list[list[dict[str, str]]] = [
    [{"group_by": "x"}, {"predicate": "x IS NULL"}, {"predicate": "a > 1 AND x IS NOT NULL"}], [{"measure": "x"}]
]  # fmt: skip


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as con:
        yield con


def _made(con: duckdb.DuckDBPyConnection, kind: str) -> bool:
    """A table t(a, x) with odd values of a type; whether this version has it."""
    try:
        con.execute(f"CREATE OR REPLACE TABLE t (a INTEGER, x {kind})")
        for value in COLUMNS[kind]:
            con.execute(f"INSERT INTO t SELECT 1, {value}")
    except duckdb.Error:
        return False
    con.execute("INSERT INTO t VALUES (2, NULL)")
    return True


def _look(con: duckdb.DuckDBPyConnection, queries: list[dict[str, str]]) -> int | str:
    """The rows that are counted, or the reason that the plan refuses; anything else fails after the charge."""
    request = Request(table="t", workload=Workload.from_rows(queries), budget=Budget(Fraction(1)), rounds=1)
    try:
        plan = make_plan(Session.of(con), request)
    except MwemError as refused:
        return str(refused)
    return int(execution.true_answers(con.cursor(), plan.pushdown).max())


@pytest.mark.parametrize("kind", sampled(COLUMNS, 2))
def test_columns_of_odd_types(con: duckdb.DuckDBPyConnection, kind: str) -> None:
    if not _made(con, kind):
        pytest.skip("this version of DuckDB has no such type, or not that value of it")
    con.execute(
        'CREATE TABLE t_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR, open BOOLEAN)'
    )
    con.execute("INSERT INTO t_domain (attribute, low, high) VALUES ('a', '0', '3')")
    assert _look(con, [{"predicate": "a >= 0"}, {"group_by": "a"}]) == len(COLUMNS[kind]) + 1  # not asked about
    for values, bounds, is_open in DOMAINS:
        con.execute("DELETE FROM t_domain WHERE attribute = 'x'")
        con.execute(f"INSERT INTO t_domain VALUES ('x', {values}, {bounds}, {is_open})")
        for queries in ASKED:
            assert _look(con, queries)  # a reason, or rows
