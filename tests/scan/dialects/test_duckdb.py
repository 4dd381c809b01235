"""Codes of classes: every row has one, whatever stands in it, and a unit has as many rows as it may."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest
from chance import examples, sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import PLANS, force
from pushdowns import PEOPLE, TABLE, answers, load, planned, whole
from sqlglot import exp
from wide import compiled_from, wide

from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes, value_pieces
from mwem_sql.domains.domain import Domain
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.scan import execution
from mwem_sql.scan.dialects import duckdb as dialect
from mwem_sql.scan.dialects.dialect import Unit
from mwem_sql.scan.pushdown import plan_pushdown
from mwem_sql.workload import Query, Workload

# Every type with what is hardest about it: ends of the type, infinities, NaN, text that is in no list.
TOTAL = {
    "TINYINT": (0, 9, ["-128", "127"]), "UTINYINT": (1, 9, ["0", "255"]),
    "INTEGER": (-3, 9, ["-2147483648", "2147483647"]),
    "BIGINT": (0, 10**6, ["-9223372036854775808", "9223372036854775807"]),
    "UBIGINT": (5, 10**6, ["0", "18446744073709551615"]),
    "HUGEINT": (0, 99, ["-170141183460469231731687303715884105728", "170141183460469231731687303715884105727"]),
    "UHUGEINT": (3, 99, ["0", "340282366920938463463374607431768211455"]),
    "DECIMAL(5,2)": (-50, 50, ["-999.99", "999.99"]), "DECIMAL(38,5)": (0, 500, ["-" + "9" * 33, "9" * 33]),
    "FLOAT": (0.0, 1.0, ["nan", "inf", "-inf", "-0.0", "3.4e38", "1e-45"]),
    "DOUBLE": (0.0, 1.0, ["nan", "inf", "-inf", "-0.0", "1.7e308", "5e-324"]),
    "DATE": (0, 300, ["infinity", "-infinity", "5877642-06-25 (BC)", "5881580-07-10"]),
    "TIMESTAMP": (0, 300, ["infinity", "-infinity", "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806"]),
    "TIMESTAMP WITH TIME ZONE": (0, 300,
        ["infinity", "-infinity", "290309-12-22 (BC) 00:00:00+00", "294247-01-10 04:00:54.775806+00"]),
}  # fmt: skip


LISTED = {
    "VARCHAR": (["a", "b", "", "it's"], ["A", " ", "unknown", "\\", "é", "a" * 1000, '"', "NULL"]),
    "INTEGER": (["1", "2"], ["-2147483648", "0", "2147483647"]),
    "DOUBLE": (["0.0", "1.5"], ["nan", "inf", "-inf", "1e300"]),
    "BOOLEAN": (["true"], ["false"]), "ENUM('x', 'y', '')": (["y", ""], ["x"]),
    "DATE": (["2020-01-01"], ["infinity", "5881580-07-10"]),
    "TIMESTAMP WITH TIME ZONE": (["2020-01-01 00:00:00+00"],
        ["infinity", "294247-01-10 04:00:54.775806+00", "290309-12-22 (BC) 00:00:00+00"]),
    "UUID": (["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], ["ffffffff-ffff-ffff-ffff-ffffffffffff"]),
    "INTERVAL": (["1 month"], ["30 days", "-5 years"]),
    "TIME": (["10:00:00"], ["24:00:00"]), "INTEGER[]": (["[1, 2]"], ["[]", "[1, NULL]"]),
    "BLOB": (["\\x00a"], ["\\xFF"]), "DECIMAL(5,2)": (["1.50"], ["-999.99"]),
}  # fmt: skip


@pytest.fixture(params=[plan for plan in PLANS if "histograms" not in plan])
def plan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    force(monkeypatch, request.param)
    return str(request.param)


def counts(con: duckdb.DuckDBPyConnection, attribute: Attribute, texts: list[str | None]) -> dict[str | None, int]:
    """Rows of a table of one column, by the classes of all values of its attribute; the same by groups and by rows."""
    con.execute(f"CREATE OR REPLACE TABLE t (c {attribute.type})")
    con.executemany("INSERT INTO t VALUES (?)", [[text] for text in texts])
    pieces = value_pieces(attribute)
    classes = Classes(pieces, np.arange(len(pieces), dtype=np.int32))
    found = execution.true_answers(con.cursor(), plan_pushdown(TABLE, {"c": classes}, whole({"c": classes}, "c")))
    rows = exp.select(exp.alias_(dialect.DUCKDB.whole_code(classes), "code")).from_("t").sql("duckdb")
    by_row = con.execute(f"SELECT code, count(*) FROM ({rows}) GROUP BY ALL ORDER BY ALL").fetchall()
    assert by_row == [(code, count) for code, count in enumerate(found.tolist()) if count]
    assert found.sum() == len(texts)
    return {pieces.label(code): int(count) for code, count in enumerate(found) if count}


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("kind", sampled(TOTAL, 10))
def test_numbers_are_clamped_and_none_is_lost(plain: duckdb.DuckDBPyConnection, kind: str, nullable: bool) -> None:
    low, high, beyond = TOTAL[kind]
    grid = {"bins": 100} if kind in {"FLOAT", "DOUBLE"} else {"step": 10**5} if high == 10**6 else {}
    attribute = Attribute("c", kind, nullable, low=low, high=high, **grid)
    first, last = value_pieces(attribute).label(0), value_pieces(attribute).label(value_pieces(attribute).non_null - 1)
    found = counts(plain, attribute, [*beyond, None, attribute.text(low), attribute.text(high)])
    below = [text for text in beyond if text.startswith("-") or text in {"0", "1e-45", "5e-324"} or "BC" in text]
    expected = {first: 1 + len(below), last: 1 + len(beyond) - len(below)}
    expected[None if nullable else first] = expected.get(None if nullable else first, 0) + 1
    assert found == expected


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("kind", sampled(LISTED, 9))
def test_unknown_values_are_null_and_none_is_lost(plain: duckdb.DuckDBPyConnection, kind: str, nullable: bool) -> None:
    values, unknown = LISTED[kind]
    attribute = Attribute("c", kind, nullable, values=tuple(values))
    found = counts(plain, attribute, [*values, *values, *unknown, None])
    expected: dict[str | None, int] = dict.fromkeys(values, 2)
    other = None if nullable else values[0]
    expected[other] = expected.get(other, 0) + len(unknown) + 1
    assert found == expected


@settings(deadline=None, max_examples=examples(40))
@given(
    values=st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6),
        min_size=2,
        max_size=6,
        unique=True,
    ),
    data=st.data(),
)
def test_any_text(duck: duckdb.DuckDBPyConnection, values: list[str], data: st.DataObject) -> None:
    listed = values[: data.draw(st.integers(1, len(values)))]
    found = counts(duck, Attribute("c", "VARCHAR", nullable=True, values=tuple(listed)), values)
    assert found == dict.fromkeys(listed, 1) | ({None: len(values) - len(listed)} if len(values) > len(listed) else {})


@pytest.mark.usefixtures("plan")
@pytest.mark.parametrize("order", ["'a', 'A'", "'A', 'a'"])
def test_values_that_compare_as_equal_do_not_share_a_fate(plain: duckdb.DuckDBPyConnection, order: str) -> None:
    """One row 'A' must not move the rows 'a' to another class: that would be a change of more than one."""
    attribute = Attribute("c", "VARCHAR", nullable=True, values=("a",))
    classes = {"c": Classes(value_pieces(attribute), np.arange(2, dtype=np.int32))}
    for table, setting in (("c VARCHAR COLLATE NOCASE", "''"), ("c VARCHAR", "nocase")):
        plain.execute(
            f"SET default_collation = {setting}; CREATE OR REPLACE TABLE t ({table}); "
            f"INSERT INTO t SELECT unnest([{order}])"
        )
        assert answers(plain, plan_pushdown(TABLE, classes, whole(classes, "c"))) == [[1, 1]]


def test_zero_has_no_sign(plain: duckdb.DuckDBPyConnection) -> None:
    assert counts(plain, Attribute("c", "DOUBLE", nullable=True, values=("0.0", "1.0")), ["-0.0", "0.0", "-0.0"]) == {
        "0.0": 3
    }


def test_time_zones_do_not_matter(plain: duckdb.DuckDBPyConnection) -> None:
    plain.execute("SET TimeZone = 'Asia/Tokyo'")
    attribute = Attribute(
        "c", "TIMESTAMP WITH TIME ZONE", nullable=True, values=("2020-01-01 00:00:00+00", "2020-01-01 12:00:00.5+00")
    )
    assert counts(plain, attribute, ["2020-01-01 09:00:00", "2020-01-01 13:00:00.5+01"]) == dict.fromkeys(
        attribute.values, 1
    )


@pytest.mark.usefixtures("plan")
def test_names_of_ours_in_the_table(plain: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    names = ("age", "v0", "c0", "__count", "v1", "__groups", "__bounded", "__codes", "all")
    columns = ", ".join(f'(i * {k + 1}) % 3 AS "{name}"' for k, name in enumerate(names))
    plain.execute(f"CREATE TABLE t AS SELECT {columns} FROM range(30) r(i)")
    domain = Domain("t", names, tuple(Attribute(name, "INTEGER", nullable=False, low=0, high=2) for name in names))
    for asked in (("age",), ("age", "all"), ("__count", "c0"), ("v1", "v0")):
        compiled = compile_workload(domain, Workload((Query(group_by=asked),)), sandbox)
        for unit in (None, Unit("v0", 100)):
            columns = ", ".join(f'"{name}"' for name in asked)
            expected = plain.execute(f"SELECT {columns}, count(*) FROM t GROUP BY ALL").fetchall()
            cells = [tuple(map(int, cell)) for cell in compiled.queries[0].cells()]
            found = dict(zip(cells, answers(plain, planned(compiled, unit))[0], strict=True))
            assert {cell: count for cell, count in found.items() if count} == {row[:-1]: row[-1] for row in expected}


people = st.lists(
    st.tuples(
        st.none() | st.integers(0, 9), st.none() | st.sampled_from(["x", "y", "?"]), st.none() | st.integers(0, 3)
    ),
    max_size=20,
)


@settings(deadline=None, max_examples=examples(25))
@given(rows=people, most=st.integers(1, 3), person=st.integers(0, 3))
def test_units_are_bounded(
    duck: duckdb.DuckDBPyConnection, sandbox: Sandbox, rows: list[tuple[Any, ...]], most: int, person: int
) -> None:
    compiled = compile_workload(PEOPLE, Workload((Query(group_by=("a", "s")),)), sandbox)
    unit = Unit("person", most)

    def ask(wanted: list[tuple[Any, ...]]) -> np.ndarray[Any, Any]:
        load(duck, wanted)
        return np.array(answers(duck, planned(compiled, unit))[0])

    whole = ask(rows)
    units = {row[2] for row in rows} - {None}
    per_unit = {unit: ask([row for row in rows if row[2] == unit]) for unit in units}
    assert all(found.sum() == min(most, sum(row[2] == unit for row in rows)) for unit, found in per_unit.items())
    # No unit's rows depend on another's, and rows without a unit do not count.
    assert (whole == sum(per_unit.values(), np.zeros_like(whole))).all()
    assert (ask(rows[::-1]) == whole).all()
    assert np.abs(whole - ask([row for row in rows if row[2] != person])).sum() <= most


def test_codes_are_found_outside_of_sql(sandbox: Sandbox) -> None:
    """Of a column that is cut very often; clamped, NULL and NaN as ever."""
    texts = (
        [f"pay > {k}.5 AND age >= {k % 3}" for k in range(40)]
        + [f"p < {k} AND r >= {k}" for k in range(40)]
        + ["ts > '2020-01-09'", "w = 'v3'"]
    )
    with duckdb.connect() as con:
        con.execute("""
            CREATE TABLE t AS
            SELECT (i % 120)::INTEGER - 5 AS age, CASE WHEN i % 11 = 0 THEN NULL WHEN i % 97 = 0 THEN 'nan'::DOUBLE
            ELSE i % 60 - 10 END::DOUBLE AS pay,
                CASE WHEN i % 13 > 0 THEN (i % 45)::DECIMAL(9,2) END AS p, CASE WHEN i % 7 > 0 THEN (i % 50)::FLOAT
                END AS r,
                TIMESTAMP '2020-01-01' + INTERVAL (i % 30) DAY AS ts, 'v' || (i % 9) AS w
            FROM range(2000) AS r(i)
        """)
        compiled = compiled_from(sandbox, texts)
        queries = [query.linear for query in compiled.queries]
        plain = plan_pushdown(TABLE, compiled.classes, queries)
        outside = plan_pushdown(TABLE, compiled.classes, queries, dialect=dialect.DuckDBDialect(max_tree=20))
        assert not any(
            case.args["ifs"][0].this.find(exp.GTE)
            for part in outside.parts
            for own in part.statements
            for case in own.find_all(exp.Case)
            if len(list(case.find_all(exp.Case))) > 20
        )
        np.testing.assert_array_equal(
            execution.true_answers(con.cursor(), outside), execution.true_answers(con.cursor(), plain)
        )


def test_many_cuts_make_a_short_statement(sandbox: Sandbox) -> None:
    compiled = compiled_from(sandbox, wide("two columns", 2_000))
    plan = plan_pushdown(TABLE, compiled.classes, [query.linear for query in compiled.queries])
    assert sum(len(own.sql("duckdb")) for part in plan.parts for own in part.statements) < 20_000
