"""The plans as text and as DuckDB runs them; codes that no value can break; units that are bounded; which plan is chosen.

A file of tests/golden has sections: `-- ddl`, `-- workload` (a query for its rows), `-- unit` (a column and a number, if any),
`-- force` (a plan that would not be chosen for so few queries), a `-- plan` for each part, in words, with a `-- scan` for each of
its statements, and `-- answers`, counted by hand: a line per query, its cells in order.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from conftest import steps
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import PLANS, force
from sqlglot import exp

from mwem_sql.boundary import relations
from mwem_sql.compiler import codes, pushdown
from mwem_sql.compiler.codes import Unit
from mwem_sql.compiler.pipeline import Compiled, compile_workload
from mwem_sql.compiler.pushdown import Pushdown, plan_pushdown
from mwem_sql.compiler.scans import Aggregates, GroupBy, Product
from mwem_sql.database.catalog import Name, Place
from mwem_sql.database.sandbox import Sandbox
from mwem_sql.database.session import Session
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes, value_pieces
from mwem_sql.domains.domain import Domain, read_domain
from mwem_sql.private import engine
from mwem_sql.queries.linear import Block, LinearQuery
from mwem_sql.workload import Query, Workload

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.sql"))
HERE = Place("memory", "main")
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


def planned(compiled: Compiled, unit: Unit | None = None, table: Name = TABLE) -> Pushdown:
    return plan_pushdown(table, compiled.classes, [query.linear for query in compiled.queries], unit)


def answers(con: duckdb.DuckDBPyConnection, pushdown: Pushdown) -> list[list[int]]:
    found = engine.true_answers(con.cursor(), pushdown)
    assert found.dtype == np.int64
    return [answer.tolist() for answer in np.split(found, pushdown.starts[1:])]


def sections(file: Path) -> dict[str, list[str]]:
    parts = re.split(r"^-- (ddl|workload|unit|force|plan|scan|answers)\n", file.read_text(), flags=re.MULTILINE)[1:]
    out: dict[str, list[str]] = {}
    for kind, body in zip(parts[::2], parts[1::2], strict=True):
        out.setdefault(kind, []).append(body.strip())
    return out


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_golden(con: duckdb.DuckDBPyConnection, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = sections(file)
    if "force" in given:
        force(monkeypatch, given["force"][0])
    found = planned_from(con, given)
    assert [part.words for part in found.parts] == given["plan"]
    assert [statement.sql("duckdb", pretty=True) for part in found.parts for statement in part.statements] == given[
        "scan"
    ]
    assert answers(con, found) == [json.loads(line) for line in given["answers"][0].splitlines()]


def planned_from(con: duckdb.DuckDBPyConnection, given: dict[str, list[str]]) -> Pushdown:
    con.execute(given["ddl"][0])
    relation = relations.describe(con.cursor(), "t", HERE, "f")
    workload = Workload.from_arrow(con.sql(given["workload"][0]).to_arrow_table())
    with Sandbox(Session.of(con).settings) as sandbox:
        compiled = compile_workload(read_domain(con.cursor(), relation, None, HERE, sandbox), workload, sandbox)
    column, rows = given["unit"][0].split() if "unit" in given else ("", "0")
    return planned(compiled, Unit(column, int(rows)) if column else None, relation.name)


def test_there_are_golden_files() -> None:
    words = {word for file in GOLDEN for word in sections(file)["plan"]}
    for start in ("one GROUP BY of all", "a GROUP BY of", "aggregates", "a streamed pairwise product"):
        assert any(word.startswith(start) for word in words)


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


@pytest.fixture(params=[plan for plan in PLANS if "histograms" not in plan])
def plan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    force(monkeypatch, request.param)
    return str(request.param)


def whole(classes: dict[str, Classes], *sets: Iterable[str]) -> list[LinearQuery]:
    """The marginals of sets of attributes."""
    blocks = {name: Block((name,), np.arange(own.count, dtype=np.int32), own.count) for name, own in classes.items()}
    return [LinearQuery(tuple(blocks[name] for name in names)) for names in sets]


def counts(con: duckdb.DuckDBPyConnection, attribute: Attribute, texts: list[str | None]) -> dict[str | None, int]:
    """Rows of a table of one column, by the classes of all values of its attribute; the same by groups and by rows."""
    con.execute(f"CREATE OR REPLACE TABLE t (c {attribute.type})")
    con.executemany("INSERT INTO t VALUES (?)", [[text] for text in texts])
    pieces = value_pieces(attribute)
    classes = Classes(pieces, np.arange(len(pieces), dtype=np.int32))
    found = engine.true_answers(con.cursor(), plan_pushdown(TABLE, {"c": classes}, whole({"c": classes}, "c")))
    rows = exp.select(exp.alias_(codes.whole_code(classes), "code")).from_("t").sql("duckdb")
    by_row = con.execute(f"SELECT code, count(*) FROM ({rows}) GROUP BY ALL ORDER BY ALL").fetchall()
    assert by_row == [(code, count) for code, count in enumerate(found.tolist()) if count]
    assert found.sum() == len(texts)
    return {pieces.label(code): int(count) for code, count in enumerate(found) if count}


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
@given(
    values=st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6),
        min_size=2,
        max_size=6,
        unique=True,
    ),
    data=st.data(),
)
def test_any_text(kept: duckdb.DuckDBPyConnection, values: list[str], data: st.DataObject) -> None:
    listed = values[: data.draw(st.integers(1, len(values)))]
    found = counts(kept, Attribute("c", "VARCHAR", nullable=True, values=tuple(listed)), values)
    assert found == dict.fromkeys(listed, 1) | ({None: len(values) - len(listed)} if len(values) > len(listed) else {})


@pytest.mark.usefixtures("plan")
@pytest.mark.parametrize("order", ["'a', 'A'", "'A', 'a'"])
def test_values_that_compare_as_equal_do_not_share_a_fate(con: duckdb.DuckDBPyConnection, order: str) -> None:
    """One row 'A' must not move the rows 'a' to another class: that would be a change of more than one."""
    attribute = Attribute("c", "VARCHAR", nullable=True, values=("a",))
    classes = {"c": Classes(value_pieces(attribute), np.arange(2, dtype=np.int32))}
    for table, setting in (("c VARCHAR COLLATE NOCASE", "''"), ("c VARCHAR", "nocase")):
        con.execute(
            f"SET default_collation = {setting}; CREATE OR REPLACE TABLE t ({table}); INSERT INTO t SELECT unnest([{order}])"
        )
        assert answers(con, plan_pushdown(TABLE, classes, whole(classes, "c"))) == [[1, 1]]


def test_zero_has_no_sign(con: duckdb.DuckDBPyConnection) -> None:
    assert counts(con, Attribute("c", "DOUBLE", nullable=True, values=("0.0", "1.0")), ["-0.0", "0.0", "-0.0"]) == {
        "0.0": 3
    }


def test_time_zones_do_not_matter(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("SET TimeZone = 'Asia/Tokyo'")
    attribute = Attribute(
        "c", "TIMESTAMP WITH TIME ZONE", nullable=True, values=("2020-01-01 00:00:00+00", "2020-01-01 12:00:00.5+00")
    )
    assert counts(con, attribute, ["2020-01-01 09:00:00", "2020-01-01 13:00:00.5+01"]) == dict.fromkeys(
        attribute.values, 1
    )


@pytest.mark.usefixtures("plan")
def test_names_of_ours_in_the_table(con: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    names = ("age", "v0", "c0", "__count", "v1", "__groups", "__bounded", "__codes", "all")
    columns = ", ".join(f'(i * {k + 1}) % 3 AS "{name}"' for k, name in enumerate(names))
    con.execute(f"CREATE TABLE t AS SELECT {columns} FROM range(30) r(i)")
    domain = Domain("t", names, tuple(Attribute(name, "INTEGER", nullable=False, low=0, high=2) for name in names))
    for asked in (("age",), ("age", "all"), ("__count", "c0"), ("v1", "v0")):
        compiled = compile_workload(domain, Workload((Query(group_by=asked),)), sandbox)
        for unit in (None, Unit("v0", 100)):
            columns = ", ".join(f'"{name}"' for name in asked)
            expected = con.execute(f"SELECT {columns}, count(*) FROM t GROUP BY ALL").fetchall()
            cells = [tuple(map(int, cell)) for cell in compiled.queries[0].cells()]
            found = dict(zip(cells, answers(con, planned(compiled, unit))[0], strict=True))
            assert {cell: count for cell, count in found.items() if count} == {row[:-1]: row[-1] for row in expected}


PEOPLE = Domain(
    "t",
    ("a", "s", "person"),
    (
        Attribute("a", "INTEGER", nullable=True, low=0, high=9),
        Attribute("s", "VARCHAR", nullable=True, values=("x", "y")),
    ),
)
people = st.lists(
    st.tuples(
        st.none() | st.integers(0, 9), st.none() | st.sampled_from(["x", "y", "?"]), st.none() | st.integers(0, 3)
    ),
    max_size=20,
)


def load(con: duckdb.DuckDBPyConnection, rows: list[tuple[Any, ...]]) -> None:
    con.execute("CREATE OR REPLACE TABLE t (a INTEGER, s VARCHAR, person INTEGER)")
    if rows:
        con.executemany("INSERT INTO t VALUES (?, ?, ?)", [list(row) for row in rows])


@settings(deadline=None, max_examples=25)
@given(rows=people, most=st.integers(1, 3), person=st.integers(0, 3))
def test_units_are_bounded(
    kept: duckdb.DuckDBPyConnection, sandbox: Sandbox, rows: list[tuple[Any, ...]], most: int, person: int
) -> None:
    compiled = compile_workload(PEOPLE, Workload((Query(group_by=("a", "s")),)), sandbox)
    unit = Unit("person", most)

    def ask(wanted: list[tuple[Any, ...]]) -> np.ndarray[Any, Any]:
        load(kept, wanted)
        return np.array(answers(kept, planned(compiled, unit))[0])

    whole = ask(rows)
    units = {row[2] for row in rows} - {None}
    per_unit = {unit: ask([row for row in rows if row[2] == unit]) for unit in units}
    assert all(found.sum() == min(most, sum(row[2] == unit for row in rows)) for unit, found in per_unit.items())
    # No unit's rows depend on another's, and rows without a unit do not count.
    assert (whole == sum(per_unit.values(), np.zeros_like(whole))).all()
    assert (ask(rows[::-1]) == whole).all()
    assert np.abs(whole - ask([row for row in rows if row[2] != person])).sum() <= most


def test_all_scans_keep_the_same_rows(con: duckdb.DuckDBPyConnection, sandbox: Sandbox, plan: str) -> None:
    """One row of each person; a scan over a alone and one over s alone must see the same rows as one over both."""
    drawn = np.random.default_rng(5).integers(0, [10, 3, 60], (300, 3)).tolist()
    load(con, [(a, "xy?"[s], person) for a, s, person in drawn])
    asked = Workload(
        (Query(group_by=("a", "s")), Query(group_by=("a",)), Query(group_by=("s",)), Query("a > 4"), Query("true"))
    )
    compiled = compile_workload(PEOPLE, asked, sandbox)
    found = planned(compiled, Unit("person", 1))
    assert sum(len(part.statements) for part in found.parts) == {"group by per set": 3, "aggregates": 2}.get(plan, 1)
    both = answers(con, found)
    joint = np.array(both[0]).reshape(11, 3)
    assert (joint.sum(axis=1).tolist(), joint.sum(axis=0).tolist()) == (both[1], both[2])
    assert joint[5:10].sum() == both[3][0]
    assert joint.sum() == both[4][0] == len({person for _, _, person in drawn})


WIDE = Domain(
    "t", ("e", "b", "n", "x", "s", "d"),
    (
        Attribute("e", "ENUM('x', 'y', 'z')", nullable=True, values=("z", "x")), Attribute("b", "BOOLEAN", nullable=False, values=("false", "true")),
        Attribute("n", "INTEGER", nullable=True, low=0, high=99), Attribute("x", "DOUBLE", nullable=False, low=0.0, high=1.0),
        Attribute("s", "VARCHAR", nullable=True, values=("p", "q", "it's")), Attribute("d", "DATE", nullable=True, low=18262, high=18300),
    ),
)  # fmt: skip
wide_rows = st.lists(
    st.tuples(
        st.sampled_from(["x", "y", "z", None]), st.sampled_from(["true", "false", None]), st.none() | st.integers(-3, 103).map(str),
        st.sampled_from(["0.5", "nan", "inf", "-inf", "0.25", "-0.0", None]), st.sampled_from(["p", "q", "it's", "P", "", None]),
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
    "e = 'x'", "e IS NULL", "b", "NOT b", "n % 2 = 0", "n BETWEEN 10 AND 40", "n IS NULL", "x > 0.25", "s LIKE '%s'", "s IS NULL", "d < '2020-01-15'",
    "dayofyear(d) % 3 = 1", "b OR n > 50", "e = 'z' OR s = 'p'", "n > 3 AND x <= 0.5 AND b", "false", "true", "s IS NULL AND e IS NOT NULL",
]  # fmt: skip


@settings(deadline=None, max_examples=30)
@given(
    rows=wide_rows,
    texts=st.lists(st.sampled_from(PREDICATES), min_size=1, max_size=6),
    cuboids=st.lists(st.lists(st.sampled_from("ebs"), min_size=1, max_size=2, unique=True), max_size=3),
)
def test_all_plans_agree_with_duckdb(
    kept: duckdb.DuckDBPyConnection,
    sandbox: Sandbox,
    rows: list[tuple[Any, ...]],
    texts: list[str],
    cuboids: list[list[str]],
) -> None:
    kept.execute("CREATE OR REPLACE TABLE t (e ENUM('x', 'y', 'z'), b BOOLEAN, n INTEGER, x DOUBLE, s VARCHAR, d DATE)")
    if rows:
        kept.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", [list(row) for row in rows])
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
            total = kept.execute(
                f"SELECT sum({query.source.measure}) FROM ({MAPPED}) WHERE {query.source.predicate or 'true'}"
            ).fetchall()[0][0]
            expected.append([round((total or 0) / query.linear.unit)])
        elif query.source.predicate is not None:
            expected.append(
                [kept.execute(f"SELECT count(*) FROM ({MAPPED}) WHERE {query.source.predicate}").fetchall()[0][0]]
            )
        else:
            assert query.source.group_by is not None
            listed = ", ".join(f"{name}::VARCHAR" for name in query.source.group_by)
            groups = {
                tuple(row[:-1]): row[-1]
                for row in kept.execute(f"SELECT {listed}, count(*) FROM ({MAPPED}) GROUP BY ALL").fetchall()
            }
            expected.append([groups.get(tuple(cell or ()), 0) for cell in query.cells()])
    assert answers(kept, planned(compiled)) == expected
    for plan in PLANS:
        with pytest.MonkeyPatch.context() as patch:
            force(patch, plan)
            assert answers(kept, planned(compiled)) == expected, plan


def test_an_enum_of_256_values_that_is_mapped(con: duckdb.DuckDBPyConnection) -> None:
    """The last code of a UTINYINT has no successor of that type."""
    values = tuple(str(value) for value in range(256))
    con.execute(
        f"CREATE TABLE t (c ENUM({', '.join(map(repr, values))})); INSERT INTO t VALUES ('255'), ('0'), ('254')"
    )
    kind = con.execute("SELECT data_type FROM duckdb_columns() WHERE table_name = 't'").fetchall()[0][0]
    classes = {
        "c": Classes(
            value_pieces(Attribute("c", kind, nullable=False, values=values)), (np.arange(256) % 2).astype(np.int32)
        )
    }
    for plan in PLANS:
        with pytest.MonkeyPatch.context() as patch:
            force(patch, plan)
            assert answers(con, plan_pushdown(TABLE, classes, whole(classes, "c"))) == [[2, 1]]


def grid(sizes: dict[str, int]) -> dict[str, Classes]:
    attributes = {
        name: Attribute(name, "INTEGER", nullable=False, low=0, high=size - 1) for name, size in sizes.items()
    }
    return {
        name: Classes(value_pieces(item), np.arange(sizes[name], dtype=np.int32)) for name, item in attributes.items()
    }


def kinds(classes: dict[str, Classes], queries: list[LinearQuery], unit: Unit | None = None) -> list[type]:
    return [type(part) for part in plan_pushdown(TABLE, classes, queries, unit).parts]


def scalars(classes: dict[str, Classes], sets: list[tuple[str, ...]]) -> list[LinearQuery]:
    """One count for each set: rows in the first class of all its attributes."""
    blocks = {
        name: Block((name,), np.where(np.arange(own.count) == 0, 0, -1).astype(np.int32), 1)
        for name, own in classes.items()
    }
    return [LinearQuery(tuple(blocks[name] for name in names)) for names in sets]


def test_overlapping_sets_are_one_group_by() -> None:
    classes = grid(dict.fromkeys("abcdef", 4))
    (part,) = plan_pushdown(TABLE, classes, whole(classes, *combinations("abcdef", 2), "abc", "")).parts
    assert isinstance(part, GroupBy) and part.whole
    assert part.attributes == tuple("abcdef")
    assert [histogram.cells for histogram in part.histograms] == [4**6]


def test_more_cells_than_a_histogram_holds_are_rolled_up_from_the_groups() -> None:
    classes = grid(dict.fromkeys("abcdefghij", 20))
    queries = whole(classes, *map("".join, combinations("abcdefghij", 3)))
    (part,) = plan_pushdown(TABLE, classes, queries).parts
    assert isinstance(part, GroupBy) and part.whole
    assert len(part.histograms) > 1
    asked = [names for histogram in part.histograms for names in histogram.asked]
    assert sorted(asked) == sorted(query.attributes for query in queries)
    assert all(set(names) <= set(histogram.attributes) for histogram in part.histograms for names in histogram.asked)


def test_histograms_that_do_not_fit_together_take_several_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = grid(dict.fromkeys("abcdefghij", 20))
    queries = whole(classes, *map("".join, combinations("abcdefghij", 3)))
    monkeypatch.setattr(pushdown, "MAX_HELD_CELLS", 2**20)
    found = plan_pushdown(TABLE, classes, queries)
    assert len(found.parts) > 1
    for part in found.parts:
        assert isinstance(part, GroupBy)
        assert sum(histogram.cells for histogram in part.histograms) <= 2**20


def test_sets_with_nothing_in_common_are_grouped_apart() -> None:
    classes = grid(dict.fromkeys("abcd", 300))
    found = plan_pushdown(TABLE, classes, whole(classes, "ab", "cd", ""))
    assert [part.attributes for part in found.parts if isinstance(part, GroupBy)] == [("a", "b"), ("c", "d")]
    assert not any(part.whole for part in found.parts if isinstance(part, GroupBy))


NAMES = [f"a{k}" for k in range(60)]
TRIPLES = [
    tuple(NAMES[k] for k in sorted(np.random.default_rng(seed).choice(60, 3, replace=False))) for seed in range(300)
]


def test_scalar_queries_over_many_sets_are_aggregates() -> None:
    classes = grid(dict.fromkeys(NAMES, 4))
    (part,) = plan_pushdown(TABLE, classes, scalars(classes, TRIPLES)).parts
    assert isinstance(part, Aggregates)
    assert [len(places) for places in part.places] == [256, 44]


def test_very_many_pairs_are_a_product() -> None:
    classes = grid({f"b{k}": 2 for k in range(100)})
    queries = [*whole(classes, *((name,) for name in classes), *combinations(classes, 2), ())]
    (part,) = plan_pushdown(TABLE, classes, queries).parts
    assert isinstance(part, Product)
    assert len(part.plain) == 100 + 4950
    assert list(part.asked) == [()]


def test_a_mixed_workload_is_split() -> None:
    """Pairs of a hundred columns by the product, a cuboid of three by a GROUP BY, a condition on five by an aggregate."""
    classes = grid({f"b{k}": 2 for k in range(100)} | dict.fromkeys("xyz", 40) | dict.fromkeys("pqrst", 9))
    queries = [
        *whole(classes, *combinations(list(classes)[:100], 2), ("x", "y", "z")),
        *scalars(classes, [tuple("pqrst")]),
    ]
    assert kinds(classes, queries) == [GroupBy, Product, Aggregates]


def test_wide_attributes_do_not_fit_the_product() -> None:
    classes = grid({f"b{k}": 2 for k in range(100)} | {"x": 5000, "y": 5000})
    queries = whole(classes, *combinations(classes, 2))
    made = plan_pushdown(TABLE, classes, queries).parts
    products = [part for part in made if isinstance(part, Product)]
    assert [len(part.attributes) for part in products] == [100]
    assert any("x" in part.attributes for part in made if isinstance(part, GroupBy))


def test_texts_are_not_looked_up_for_every_row_if_it_can_be_helped() -> None:
    texts = {name: Attribute(name, "VARCHAR", nullable=True, values=("p", "q", "r")) for name in NAMES}
    classes = {name: Classes(value_pieces(item), np.arange(4, dtype=np.int32)) for name, item in texts.items()}
    assert set(kinds(classes, scalars(classes, TRIPLES))) == {GroupBy}


def test_ranking_the_rows_of_units_makes_statements_dear() -> None:
    classes = grid(dict.fromkeys("abcd", 300))
    queries = whole(classes, "ab", "cd")
    assert len(kinds(classes, queries)) == 2
    assert len(kinds(classes, queries, Unit("person", 1))) == 1


def test_planning_many_sets_grows_as_they_do() -> None:
    """All triples of columns; a step that is quadratic in the sets would take minutes for 60 columns."""

    def plan(columns: int) -> Pushdown:
        names = [f"b{k}" for k in range(columns)]
        classes = grid(dict.fromkeys(names, 2))
        return plan_pushdown(TABLE, classes, whole(classes, *combinations(names, 3)))

    # 4,060 sets over 1,140.
    assert steps(lambda: plan(30)) < 1.5 * (4060 / 1140) * steps(lambda: plan(20))
    found = plan(30)
    assert sum(
        len(numbers)
        for part in found.parts
        if isinstance(part, GroupBy)
        for histogram in part.histograms
        for numbers in histogram.asked.values()
    ) == math.comb(30, 3)


def test_nothing_to_group_by_is_a_count() -> None:
    (part,) = plan_pushdown(TABLE, grid({"a": 3}), [LinearQuery(())]).parts
    assert [statement.sql("duckdb") for statement in part.statements] == [
        'SELECT COUNT(*) AS c0 FROM (SELECT * FROM "memory"."main"."t") AS __codes'
    ]
