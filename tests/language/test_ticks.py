"""Every ordered type through DuckDB and back."""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from mwem_sql.language.ticks import Scale, Tick, as_text, cast, scale_of

TYPES = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
    "DECIMAL(4,0)", "DECIMAL(5,2)", "DECIMAL(18,3)", "DECIMAL(38,10)", "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE",
    "FLOAT", "DOUBLE",
)  # fmt: skip


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("SET TimeZone = 'America/New_York'")
    return con


def scale_for(kind: str) -> Scale:
    scale = scale_of(kind)
    assert scale is not None
    return scale


def row(con: duckdb.DuckDBPyConnection, *expressions: exp.Expr) -> tuple[object, ...]:
    return con.execute(exp.select(*expressions).sql("duckdb")).fetchall()[0]


@st.composite
def scaled(draw: st.DrawFn) -> tuple[Scale, Tick]:
    scale = scale_for(draw(st.sampled_from(TYPES)))
    low, high = scale.limits
    if scale.discrete:
        near = st.integers(max(int(low), -3), 3)
        return scale, draw(st.one_of(near, st.integers(int(low), int(high)), st.sampled_from([int(low), int(high)])))
    return scale, draw(st.floats(low, high, width=32 if scale.type == "FLOAT" else 64))


@settings(deadline=None, max_examples=120)
@given(scaled())
def test_text_literal_and_measure_are_inverse(con: duckdb.DuckDBPyConnection, case: tuple[Scale, Tick]) -> None:
    scale, tick = case
    literal = scale.literal(tick)
    kind, measured, from_text = row(
        con, exp.Anonymous(this="typeof", expressions=[literal.copy()]), scale.measure(literal.copy()),
        scale.measure(cast(exp.Literal.string(scale.text(tick)), scale.type)),
    )  # fmt: skip
    assert kind == scale.type
    assert measured == from_text == tick
    assert type(measured) is type(tick)


@settings(deadline=None, max_examples=120)
@given(scaled())
@example((scale_for("DOUBLE"), 0.0))
@example((scale_for("DOUBLE"), -0.0))
@example((scale_for("FLOAT"), 0.0))
def test_neighbours_are_next_to_each_other(con: duckdb.DuckDBPyConnection, case: tuple[Scale, Tick]) -> None:
    scale, tick = case
    low, high = scale.limits
    for below, above in ((scale.before(tick), tick), (tick, scale.after(tick))):
        if below < low or above > high:
            continue
        assert row(con, exp.LT(this=scale.literal(below), expression=scale.literal(above))) == (True,)
        assert scale.after(below) == above
        assert scale.before(above) == below
        if scale.discrete:
            assert above - below == 1
        else:
            middle = np.float32((below + above) / 2) if scale.type == "FLOAT" else (below + above) / 2
            assert middle in {below, above}


@pytest.mark.parametrize("kind", TYPES)
def test_arrow_values_measure_to_their_ticks(con: duckdb.DuckDBPyConnection, kind: str) -> None:
    scale = scale_for(kind)
    low, high = scale.limits
    if scale.discrete:
        ticks = np.array([low, low + 1, max(int(low), -1), 0, 1, 99, high - 1, high], dtype=np.int64)
    else:
        ticks = np.array([low, -1.5, 0.0, 0.25, high], dtype=np.float64)
    table = pa.table({"n": np.arange(len(ticks)), "v": scale.arrow(ticks)})
    read = exp.select(scale.measure(cast(exp.column("v"), kind))).from_("arrived").order_by("n")
    found = con.from_arrow(table).query("arrived", read.sql("duckdb")).fetchall()
    assert [value for (value,) in found] == ticks.tolist()


@pytest.mark.parametrize("kind", TYPES)
def test_limits_can_be_written_and_their_distance_counted(con: duckdb.DuckDBPyConnection, kind: str) -> None:
    scale = scale_for(kind)
    low, high = scale.limits
    assert row(con, scale.measure(scale.literal(low)), scale.measure(scale.literal(high))) == (low, high)
    assert math.isfinite(high - low)
    assert not scale.discrete or high - low + 1 < 2**63


@pytest.mark.parametrize(
    ("kind", "value"),
    [("HUGEINT", "170141183460469231731687303715884105727"), ("UBIGINT", "18446744073709551615"),
     ("DECIMAL(38,10)", "1234567890123456789012345678"), ("TIMESTAMP", "infinity"), ("DOUBLE", None), ("DATE", None)],
)  # fmt: skip
def test_what_no_int64_counts_measures_as_null(con: duckdb.DuckDBPyConnection, kind: str, value: str | None) -> None:
    given = exp.null() if value is None else exp.Literal.string(value)
    assert row(con, scale_for(kind).measure(cast(given, kind))) == (None,)


@pytest.mark.parametrize(
    "kind", ["VARCHAR", "BOOLEAN", "TIME", "INTERVAL", "UUID", "ENUM('a', 'b')", "INTEGER[]", "TIMESTAMP_NS"]
)
def test_other_types_have_no_scale(kind: str) -> None:
    assert scale_of(kind) is None


def test_text_of_a_value_depends_on_the_value_alone(con: duckdb.DuckDBPyConnection) -> None:
    other = con.cursor()
    other.execute("SET TimeZone = 'Asia/Tokyo'")
    instant = cast(exp.Literal.string("2024-03-10 02:30:00.5+00"), "TIMESTAMPTZ")
    printed = as_text(instant, "TIMESTAMP WITH TIME ZONE")
    assert row(con, printed.copy()) == row(other, printed.copy()) == ("2024-03-10 02:30:00.5+00",)
    for kind in ("DOUBLE", "FLOAT"):
        assert row(con, as_text(cast(exp.Literal.string("-0.0"), kind), kind)) == ("0.0",)
        assert row(con, as_text(cast(exp.Literal.string("-1.5"), kind), kind)) == ("-1.5",)
    for kind in ("DOUBLE", "TIMESTAMP WITH TIME ZONE"):
        assert row(con, as_text(cast(exp.null(), kind), kind)) == (None,)


def test_cast_keeps_odd_enum_values(con: duckdb.DuckDBPyConnection) -> None:
    values = ["it's", "a,b", "", 'x"y', "b\\s", "é", "two\nlines", "\\a", "ENUM('z')"]
    literals = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
    for value in values:
        assert row(con, cast(cast(exp.Literal.string(value), f"ENUM({literals})"), "VARCHAR")) == (value,)
