"""The aggregates as text and as DuckDB runs them; codes that no value can break; units that are bounded.

A file of tests/golden has sections: `-- ddl`, `-- workload` (a query for its rows), `-- unit` (a column and a number, if any),
one `-- scan` for each aggregate, and `-- answers`, counted by hand: a line per query, its cells in order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql import catalog, engine
from mwem_sql.attribute import Attribute
from mwem_sql.catalog import Name
from mwem_sql.compiler import pushdown
from mwem_sql.compiler.classes import Classes, value_pieces
from mwem_sql.compiler.compile import Compiled, compile_workload
from mwem_sql.compiler.pushdown import Scan, Unit, plan_scans
from mwem_sql.compiler.sandbox import Sandbox
from mwem_sql.domain import Domain, read_domain
from mwem_sql.session import Session
from mwem_sql.workload import Query, Workload

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.sql"))
HERE = catalog.Place("memory", "main")
TABLE = Name("memory", "main", "t")


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        yield con


@pytest.fixture(scope="module")
def kept() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        yield con


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


def scans_of(compiled: Compiled, unit: Unit | None = None, table: Name = TABLE) -> list[Scan]:
    return plan_scans(table, compiled.classes, {frozenset(query.linear.attributes) for query in compiled.queries}, unit)


def answers(con: duckdb.DuckDBPyConnection, compiled: Compiled, scans: list[Scan]) -> list[list[int]]:
    return [found.tolist() for found in engine.true_answers(con.cursor(), scans, [query.linear for query in compiled.queries])]


def sections(file: Path) -> dict[str, list[str]]:
    parts = re.split(r"^-- (ddl|workload|unit|scan|answers)\n", file.read_text(), flags=re.MULTILINE)[1:]
    out: dict[str, list[str]] = {}
    for kind, body in zip(parts[::2], parts[1::2], strict=True):
        out.setdefault(kind, []).append(body.strip())
    return out


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_golden(con: duckdb.DuckDBPyConnection, file: Path) -> None:
    given = sections(file)
    compiled, scans = planned(con, given)
    assert [scan.query.sql("duckdb", pretty=True) for scan in scans] == given["scan"]
    assert answers(con, compiled, scans) == [json.loads(line) for line in given["answers"][0].splitlines()]


def planned(con: duckdb.DuckDBPyConnection, given: dict[str, list[str]]) -> tuple[Compiled, list[Scan]]:
    con.execute(given["ddl"][0])
    relation = catalog.describe(con.cursor(), "t", HERE, "f")
    workload = Workload.from_arrow(con.sql(given["workload"][0]).to_arrow_table())
    with Sandbox(Session.of(con).settings) as sandbox:
        compiled = compile_workload(read_domain(con.cursor(), relation, None, HERE, sandbox), workload, sandbox)
    column, rows = given["unit"][0].split() if "unit" in given else ("", "0")
    return compiled, scans_of(compiled, Unit(column, int(rows)) if column else None, relation.name)


def test_there_are_golden_files() -> None:
    assert len(GOLDEN) >= 6


# Every type with what is hardest about it: ends of the type, infinities, NaN, text that is in no list.
TOTAL = {
    "TINYINT": (0, 9, ["-128", "127"]), "UTINYINT": (1, 9, ["0", "255"]), "INTEGER": (-3, 9, ["-2147483648", "2147483647"]),
    "BIGINT": (0, 10**6, ["-9223372036854775808", "9223372036854775807"]), "UBIGINT": (5, 10**6, ["0", "18446744073709551615"]),
    "HUGEINT": (0, 99, ["-170141183460469231731687303715884105728", "170141183460469231731687303715884105727"]),
    "UHUGEINT": (3, 99, ["0", "340282366920938463463374607431768211455"]),
    "DECIMAL(5,2)": (-50, 50, ["-999.99", "999.99"]), "DECIMAL(38,5)": (0, 500, ["-" + "9" * 33, "9" * 33]),
    "FLOAT": (0.0, 1.0, ["nan", "inf", "-inf", "-0.0", "3.4e38", "1e-45"]), "DOUBLE": (0.0, 1.0, ["nan", "inf", "-inf", "-0.0", "1.7e308", "5e-324"]),
    "DATE": (0, 300, ["infinity", "-infinity", "5877642-06-25 (BC)", "5881580-07-10"]),
    "TIMESTAMP": (0, 300, ["infinity", "-infinity", "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806"]),
    "TIMESTAMP WITH TIME ZONE": (0, 300, ["infinity", "-infinity", "290309-12-22 (BC) 00:00:00+00", "294247-01-10 04:00:54.775806+00"]),
}  # fmt: skip
LISTED = {
    "VARCHAR": (["a", "b", "", "it's"], ["A", " ", "unknown", "\\", "é", "a" * 1000, '"', "NULL"]),
    "INTEGER": (["1", "2"], ["-2147483648", "0", "2147483647"]), "DOUBLE": (["0.0", "1.5"], ["nan", "inf", "-inf", "1e300"]),
    "BOOLEAN": (["true"], ["false"]), "ENUM('x', 'y', '')": (["y", ""], ["x"]), "DATE": (["2020-01-01"], ["infinity", "5881580-07-10"]),
    "TIMESTAMP WITH TIME ZONE": (["2020-01-01 00:00:00+00"], ["infinity", "294247-01-10 04:00:54.775806+00", "290309-12-22 (BC) 00:00:00+00"]),
    "UUID": (["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], ["ffffffff-ffff-ffff-ffff-ffffffffffff"]), "INTERVAL": (["1 month"], ["30 days", "-5 years"]),
    "TIME": (["10:00:00"], ["24:00:00"]), "INTEGER[]": (["[1, 2]"], ["[]", "[1, NULL]"]), "BLOB": (["\\x00a"], ["\\xFF"]), "DECIMAL(5,2)": (["1.50"], ["-999.99"]),
}  # fmt: skip


def counts(con: duckdb.DuckDBPyConnection, attribute: Attribute, texts: list[str | None]) -> dict[str | None, int]:
    """Rows of a table of one column, by the classes of all values of its attribute."""
    con.execute(f"CREATE OR REPLACE TABLE t (c {attribute.type})")
    con.executemany("INSERT INTO t VALUES (?)", [[text] for text in texts])
    pieces = value_pieces(attribute)
    classes = Classes(pieces, np.arange(len(pieces), dtype=np.int32))
    (scan,) = plan_scans(TABLE, {"c": classes}, [frozenset({"c"})])
    found = engine._run(con.cursor(), [scan])
    assert found is not None
    codes, numbers = found[0]
    assert numbers.sum() == len(texts)
    sums = np.bincount(codes, weights=numbers).astype(int)
    return {pieces.label(code): int(count) for code, count in enumerate(sums) if count}


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("kind", TOTAL)
def test_numbers_are_clamped_and_none_is_lost(con: duckdb.DuckDBPyConnection, kind: str, nullable: bool) -> None:
    low, high, beyond = TOTAL[kind]
    grid = {"bins": 100} if kind in {"FLOAT", "DOUBLE"} else {"step": 10**5} if high == 10**6 else {}
    attribute = Attribute("c", kind, nullable, low=low, high=high, **grid)
    first, last = value_pieces(attribute).label(0), value_pieces(attribute).label(value_pieces(attribute).known - 1)
    found = counts(con, attribute, [*beyond, None, attribute.text(low), attribute.text(high)])
    below = [text for text in beyond if text.startswith("-") or text in {"0", "1e-45", "5e-324"} or "BC" in text]
    expected = {first: 1 + len(below), last: 1 + len(beyond) - len(below)}
    expected[None if nullable else first] = expected.get(None if nullable else first, 0) + 1
    assert found == expected


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("kind", LISTED)
def test_unknown_values_are_null_and_none_is_lost(con: duckdb.DuckDBPyConnection, kind: str, nullable: bool) -> None:
    values, unknown = LISTED[kind]
    attribute = Attribute("c", kind, nullable, tuple(values))
    found = counts(con, attribute, [*values, *values, *unknown, None])
    expected: dict[str | None, int] = dict.fromkeys(values, 2)
    other = None if nullable else values[0]
    expected[other] = expected.get(other, 0) + len(unknown) + 1
    assert found == expected


@settings(deadline=None, max_examples=40)
@given(values=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6), min_size=2, max_size=6, unique=True), data=st.data())
def test_any_text(kept: duckdb.DuckDBPyConnection, values: list[str], data: st.DataObject) -> None:
    listed = values[: data.draw(st.integers(1, len(values)))]
    found = counts(kept, Attribute("c", "VARCHAR", nullable=True, values=tuple(listed)), values)
    assert found == dict.fromkeys(listed, 1) | ({None: len(values) - len(listed)} if len(values) > len(listed) else {})


@pytest.mark.parametrize("order", ["'a', 'A'", "'A', 'a'"])
def test_values_that_compare_as_equal_do_not_share_a_fate(con: duckdb.DuckDBPyConnection, order: str) -> None:
    """One row 'A' must not move the rows 'a' to another class: that would be a change of more than one."""
    attribute = Attribute("c", "VARCHAR", nullable=True, values=("a",))
    classes = {"c": Classes(value_pieces(attribute), np.arange(2, dtype=np.int32))}
    for table, setting in (("c VARCHAR COLLATE NOCASE", "''"), ("c VARCHAR", "nocase")):
        con.execute(f"SET default_collation = {setting}; CREATE OR REPLACE TABLE t ({table}); INSERT INTO t SELECT unnest([{order}])")
        found = engine._run(con.cursor(), plan_scans(TABLE, classes, [frozenset({"c"})]))
        assert found is not None
        assert sorted(zip(*map(np.ndarray.tolist, found[0]), strict=True)) == [(0, 1), (1, 1)]


def test_zero_has_no_sign(con: duckdb.DuckDBPyConnection) -> None:
    assert counts(con, Attribute("c", "DOUBLE", nullable=True, values=("0.0", "1.0")), ["-0.0", "0.0", "-0.0"]) == {"0.0": 3}


def test_time_zones_do_not_matter(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("SET TimeZone = 'Asia/Tokyo'")
    attribute = Attribute("c", "TIMESTAMP WITH TIME ZONE", nullable=True, values=("2020-01-01 00:00:00+00", "2020-01-01 12:00:00.5+00"))
    assert counts(con, attribute, ["2020-01-01 09:00:00", "2020-01-01 13:00:00.5+01"]) == dict.fromkeys(attribute.values, 1)


def test_names_of_ours_in_the_table(con: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    names = ("age", "v0", "c0", "__count", "v1", "__groups", "__bounded", "all")
    columns = ", ".join(f'(i * {k + 1}) % 3 AS "{name}"' for k, name in enumerate(names))
    con.execute(f"CREATE TABLE t AS SELECT {columns} FROM range(30) r(i)")
    domain = Domain("t", names, tuple(Attribute(name, "INTEGER", nullable=False, low=0, high=2) for name in names))
    for asked in (("age",), ("age", "all"), ("__count", "c0"), ("v1", "v0")):
        compiled = compile_workload(domain, Workload((Query(group_by=asked),)), sandbox)
        for unit in (None, Unit("v0", 100)):
            columns = ", ".join(f'"{name}"' for name in asked)
            expected = con.execute(f"SELECT {columns}, count(*) FROM t GROUP BY ALL").fetchall()
            cells = [tuple(map(int, cell)) for cell in compiled.queries[0].cells()]
            found = dict(zip(cells, answers(con, compiled, scans_of(compiled, unit))[0], strict=True))
            assert {cell: count for cell, count in found.items() if count} == {row[:-1]: row[-1] for row in expected}


PEOPLE = Domain("t", ("a", "s", "person"), (Attribute("a", "INTEGER", nullable=True, low=0, high=9), Attribute("s", "VARCHAR", nullable=True, values=("x", "y"))))
people = st.lists(st.tuples(st.none() | st.integers(0, 9), st.none() | st.sampled_from(["x", "y", "?"]), st.none() | st.integers(0, 3)), max_size=20)


def load(con: duckdb.DuckDBPyConnection, rows: list[tuple[Any, ...]]) -> None:
    con.execute("CREATE OR REPLACE TABLE t (a INTEGER, s VARCHAR, person INTEGER)")
    if rows:
        con.executemany("INSERT INTO t VALUES (?, ?, ?)", [list(row) for row in rows])


@settings(deadline=None, max_examples=25)
@given(rows=people, most=st.integers(1, 3), person=st.integers(0, 3))
def test_units_are_bounded(kept: duckdb.DuckDBPyConnection, sandbox: Sandbox, rows: list[tuple[Any, ...]], most: int, person: int) -> None:
    compiled = compile_workload(PEOPLE, Workload((Query(group_by=("a", "s")),)), sandbox)
    unit = Unit("person", most)

    def ask(wanted: list[tuple[Any, ...]]) -> np.ndarray[Any, Any]:
        load(kept, wanted)
        return np.array(answers(kept, compiled, scans_of(compiled, unit))[0])

    whole = ask(rows)
    units = {row[2] for row in rows} - {None}
    per_unit = {unit: ask([row for row in rows if row[2] == unit]) for unit in units}
    assert all(found.sum() == min(most, sum(row[2] == unit for row in rows)) for unit, found in per_unit.items())
    # No unit's rows depend on another's, and rows without a unit do not count.
    assert (whole == sum(per_unit.values(), np.zeros_like(whole))).all()
    assert (ask(rows[::-1]) == whole).all()
    assert np.abs(whole - ask([row for row in rows if row[2] != person])).sum() <= most


def test_all_scans_keep_the_same_rows(con: duckdb.DuckDBPyConnection, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row of each person; a scan over a alone and one over s alone must see the same rows as one over both."""
    drawn = np.random.default_rng(5).integers(0, [10, 3, 60], (300, 3)).tolist()
    load(con, [(a, "xy?"[s], person) for a, s, person in drawn])
    compiled = compile_workload(PEOPLE, Workload((Query(group_by=("a", "s")), Query(group_by=("a",)), Query(group_by=("s",)))), sandbox)
    unit = Unit("person", 1)
    both = answers(con, compiled, scans_of(compiled, unit))
    joint = np.array(both[0]).reshape(11, 3)
    assert (joint.sum(axis=1).tolist(), joint.sum(axis=0).tolist()) == (both[1], both[2])
    assert joint.sum() == len({person for _, _, person in drawn})
    monkeypatch.setattr(pushdown, "MAX_SCAN_CELLS", 1)
    apart = scans_of(compiled, unit)
    assert [scan.attributes for scan in apart] == [("a", "s"), ("a",), ("s",)]
    for number in (1, 2):
        (alone,) = engine.true_answers(con.cursor(), [apart[number]], [compiled.queries[number].linear])
        assert alone.tolist() == both[number]


def test_scans_cover_all_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    attributes = {name: Attribute(name, "INTEGER", nullable=False, low=0, high=9) for name in "abcdef"}
    classes = {name: Classes(value_pieces(item), np.arange(10, dtype=np.int32)) for name, item in attributes.items()}
    sets = [frozenset(names) for names in ("ab", "bc", "cd", "ef", "a", "abc", "")]
    (one,) = plan_scans(TABLE, classes, sets)
    assert one.attributes == tuple("abcdef")
    monkeypatch.setattr(pushdown, "MAX_SCAN_CELLS", 10**3)
    several = plan_scans(TABLE, classes, sets)
    assert [scan.attributes for scan in several] == [("a", "b", "c"), ("c", "d"), ("e", "f")]
    assert all(any(wanted <= set(scan.attributes) for scan in several) for wanted in sets)
    assert all(len(scan.decode) == len(scan.attributes) for scan in several)
    (nothing,) = plan_scans(TABLE, classes, [frozenset()])
    assert nothing.query.sql("duckdb") == 'SELECT COUNT(*) AS __count FROM "memory"."main"."t"'
