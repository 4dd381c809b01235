"""Wide workloads: what a condition costs is told by its own constants, not by those of all others. Counts steps and bytes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence

import duckdb
import numpy as np
import pytest
from sqlglot import exp

import mwem_sql
from mwem_sql.compiler import codes, cuts
from mwem_sql.compiler.evaluate import cut, evaluate
from mwem_sql.compiler.pipeline import Compiled, compile_workload
from mwem_sql.compiler.pushdown import plan_pushdown
from mwem_sql.database.catalog import Name
from mwem_sql.database.conditions import Leaf, leaf
from mwem_sql.database.predicate import parse
from mwem_sql.database.sandbox import Sandbox
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import CellsError
from mwem_sql.private import engine
from mwem_sql.workload import Query, Workload

TABLE = Name("memory", "main", "t")
DAY = 18_262
DOMAIN = Domain(
    "t",
    ("age", "pay", "n", "far", "d", "p", "r", "ts", "w"),
    (
        Attribute("age", "INTEGER", nullable=False, low=0, high=99),
        Attribute("pay", "DOUBLE", nullable=True, low=0.0, high=1e6),
        Attribute("n", "INTEGER", nullable=True, low=-3_000, high=3_000),
        Attribute("far", "BIGINT", nullable=False, low=2**60, high=2**60 + 3_000),
        Attribute("d", "DATE", nullable=False, low=DAY, high=DAY + 3_000),
        Attribute("p", "DECIMAL(9,2)", nullable=True, low=0, high=90_000_000),
        Attribute("r", "FLOAT", nullable=True, low=0.0, high=2.0**20),
        Attribute("ts", "TIMESTAMP", nullable=False, low=DAY * 86_400 * 10**6, high=(DAY + 90) * 86_400 * 10**6),
        Attribute("w", "VARCHAR", nullable=True, values=tuple(f"v{k}" for k in range(3_000))),
    ),
)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


def compiled_from(sandbox: Sandbox, texts: Sequence[str]) -> Compiled:
    return compile_workload(DOMAIN, Workload.from_predicates(texts), sandbox)


SHAPES = {
    "two columns": "age >= {small} AND pay > {k}.5",
    "integers": "n <= {near}",
    "dates": "d >= DATE '2020-01-01' + {k}",
    "decimals": "p < {k}.255",
    "between": "pay BETWEEN {k} AND {k}.5",
    "lists": "pay IN ({k}, {k}.5, 7)",
    "texts": "w <> 'v{k}'",
}


def wide(shape: str, count: int) -> list[str]:
    return [SHAPES[shape].format(k=k, small=k % 90, near=k - 1_000) for k in range(count)]


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "decimals"])
def test_room_grows_with_the_constants(shape: str, sandbox: Sandbox) -> None:
    """Twice as many conditions take twice the room, or somewhat more; an array of classes for each would take four times as much."""
    compiled_from(sandbox, wide(shape, 10))  # what is made once and stays
    peaks = []
    for count in (1_400, 2_800):
        tracemalloc.start()
        compiled = compiled_from(sandbox, wide(shape, count))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(compiled.queries) == count
    assert peaks[1] < 2.6 * peaks[0]


@pytest.mark.parametrize("shape", ["dates", "decimals"])
def test_values_are_asked_near_the_constants(shape: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many values DuckDB evaluates conditions on grows with the conditions, not with their square."""
    asked: list[int] = []
    original = Sandbox.evaluate

    def counted(self: Sandbox, table: str, expressions: Sequence[str]) -> list[object]:
        if table == "grid":
            asked.append(self._rows[table] * len(expressions))
        return original(self, table, expressions)

    monkeypatch.setattr(Sandbox, "evaluate", counted)
    steps = []
    for count in (600, 1_200):
        asked.clear()
        compiled_from(sandbox, wide(shape, count))
        steps.append(sum(asked))
    assert 0 < steps[1] < 2.6 * steps[0]


CONDITIONS = {
    "pay": ["pay > 0.1", "pay = 3", "pay <= 12.30", "pay <> 0.3", "pay IN (0.1, 0.7, 5)", "pay BETWEEN 0.3 AND 900000.1", "pay < -5", "pay >= 1e5",
            "pay = 123456.7", "pay > '0.1'", "NOT (pay > 3 OR pay < 1)", "pay IS NULL", "pay > NULL", "pay < 1e300", "CASE WHEN pay > 8 THEN pay < 9 ELSE pay = 2 END"],
    "n": ["n < 2.5", "n >= -7", "n = 17", "n IN (-3000, 3000, 9)", "n > '12'", "n < 1e9", "n <= 2.4999", "n IS NOT DISTINCT FROM 4", "n BETWEEN 10 AND -10",
          "n < 9223372036854775807", "n > -9223372036854775808", "n <> 99999999999999999999999999", "n <= 999999999999999999"],
    "far": ["far > 1152921504606848000", "far > 1.1529215046068482e18", "far = 1152921504606847000.0", "far <= CAST(1152921504606848000 AS FLOAT)"],
    "d": ["d > DATE '2021-05-06'", "d >= '2022-01-01'", "d < TIMESTAMP '2021-05-06 13:00:00'", "d = DATE '2020-01-01' + 40", "d <> '2020-02-02'"],
    "p": ["p > 3", "p = 12.34", "p < 12.345", "p >= 899999.999", "p IN (1, 2.5, 2.505)", "p <= 1e3", "p > CAST(0.1 AS FLOAT)"],
    "r": ["r > 0.1", "r = 0.1", "r <= 0.3", "r >= 16.7", "r = 4", "r < CAST(0.1 AS DOUBLE)", "r IN (0.1, 0.7)"],
    "ts": ["ts > '2020-01-05 06:07:08.123456'", "ts < DATE '2020-02-02'", "ts = TIMESTAMP '2020-01-02'", "ts >= TIMESTAMP '2020-03-01 00:00:00.5'"],
    "w": ["w = 'v7'", "w <> 'v0'", "w IN ('v2999', 'v3', 'v4')", "w = 'other'", "w IS NULL"],
}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("few", [0, cuts.FEW])
def test_the_same_as_value_by_value(name: str, few: int, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuts, "FEW", few)
    leaves: list[Leaf] = [leaf(parse(text, DOMAIN.spelling, "predicate", "t")) for text in CONDITIONS[name]]
    terms = {("truth", own.sql): own for own in leaves}
    ticks = cuts.find_ticks(DOMAIN, [name], terms, sandbox)
    pieces = cut(DOMAIN, [name], terms, ticks, {})
    found = cuts.compare(terms, pieces, ticks, sandbox)
    assert few or len(found) == len(terms) or name in {"far", "w"}
    expected = evaluate({key: terms[key] for key in found}, pieces, sandbox)
    for key, own in found.items():
        np.testing.assert_array_equal(own.array, expected[key].array, err_msg=key[1])


def test_a_constant_some_way_off_where_it_changes_is_asked_value_by_value(sandbox: Sandbox) -> None:
    """Beyond what a double tells apart a comparison changes tens of values off; the listed values are asked one by one then."""
    text = "far > 1.1529215046068482e18"
    compiled = compiled_from(sandbox, [text])
    with duckdb.connect() as con:
        expected = con.execute(
            f"SELECT count(*) FROM range({2**60}, {2**60 + 3_001}) AS t(far) WHERE {text}"
        ).fetchall()[0][0]
    counted = compiled.queries[0].linear.answer(compiled.classes["far"].sizes)
    assert 0 < expected < 3_001
    assert counted.tolist() == [expected]


def test_codes_are_found_outside_of_sql(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a column that is cut very often; clamped, NULL and NaN as ever."""
    texts = (
        [f"pay > {k}.5 AND age >= {k % 3}" for k in range(40)]
        + [f"p < {k} AND r >= {k}" for k in range(40)]
        + ["ts > '2020-01-09'", "w = 'v3'"]
    )
    with duckdb.connect() as con:
        con.execute("""
            CREATE TABLE t AS
            SELECT (i % 120)::INTEGER - 5 AS age, CASE WHEN i % 11 = 0 THEN NULL WHEN i % 97 = 0 THEN 'nan'::DOUBLE ELSE i % 60 - 10 END::DOUBLE AS pay,
                CASE WHEN i % 13 > 0 THEN (i % 45)::DECIMAL(9,2) END AS p, CASE WHEN i % 7 > 0 THEN (i % 50)::FLOAT END AS r,
                TIMESTAMP '2020-01-01' + INTERVAL (i % 30) DAY AS ts, 'v' || (i % 9) AS w
            FROM range(2000) AS r(i)
        """)
        compiled = compiled_from(sandbox, texts)
        queries = [query.linear for query in compiled.queries]
        plain = plan_pushdown(TABLE, compiled.classes, queries)
        monkeypatch.setattr(codes, "MAX_TREE", 20)
        outside = plan_pushdown(TABLE, compiled.classes, queries)
        assert not any(
            case.args["ifs"][0].this.find(exp.GTE)
            for part in outside.parts
            for own in part.statements
            for case in own.find_all(exp.Case)
            if len(list(case.find_all(exp.Case))) > 20
        )
        np.testing.assert_array_equal(
            engine.true_answers(con.cursor(), outside), engine.true_answers(con.cursor(), plain)
        )


def test_many_cuts_make_a_short_statement(sandbox: Sandbox) -> None:
    compiled = compiled_from(sandbox, wide("two columns", 2_000))
    plan = plan_pushdown(TABLE, compiled.classes, [query.linear for query in compiled.queries])
    assert sum(len(own.sql("duckdb")) for part in plan.parts for own in part.statements) < 20_000


REFUSED = {
    "joins columns": (
        [Query(f"age >= {k % 90} OR pay > {k}.5") for k in range(3_000)],
        (r"^workload: 3,000 queries, such as 'age >= 0 OR pay > 0.5' over age, pay, are worked out cell by cell: [\d,]+ cells, more than 536,870,912. "
        r"Hint: join conditions on several columns by AND instead of OR, use fewer constants in all, or ask fewer such queries at a time$"),
    ),
    "sums under conditions": (
        [Query(f"n <= {k - 3000}", measure="n") for k in range(6_000)],
        (r"^workload: 6,000 queries, such as 'sum\(n\) WHERE n <= -3000' over n, are worked out cell by cell: 36,012,000 cells, more than 33,554,432. "
        r"Hint: declare step or bins in a domain table, use fewer constants in all, or ask fewer such queries at a time$"),
    ),
    "asks values": (
        [Query(f"n % {k} = 1") for k in range(1, 50_000)],
        (r"^workload: 49,999 expressions such as '\"n\" % 1 = 1' are evaluated value by value on 6,002 values of n, more than 268,435,456 times in all. "
        r"Hint: ask fewer, declare fewer values, or compare the column with constants \(=, IN, <, BETWEEN\)$"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_too_much_is_refused_at_once(kind: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first block is made, and before the first value is asked."""
    monkeypatch.setattr("mwem_sql.compiler.blocks.Builder.draft", lambda *_: pytest.fail("a block was made"))
    if kind == "asks values":
        monkeypatch.setattr(Sandbox, "evaluate", lambda *_: pytest.fail("a value was asked"))
    queries, message = REFUSED[kind]
    with pytest.raises(CellsError, match=message):
        compile_workload(DOMAIN, Workload(tuple(queries)), sandbox)


def test_one_of_each_is_not_too_much(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group_by of each column, however many values it has: cells times queries count, not cells."""
    monkeypatch.setattr("mwem_sql.compiler.blocks.MAX_VALUED", 5_000)
    compile_workload(DOMAIN, Workload((Query(group_by=("n",)), Query(group_by=("w",)), Query(measure="far"))), sandbox)
    with pytest.raises(CellsError, match="cell by cell"):
        compile_workload(DOMAIN, Workload((Query(group_by=("n",)), Query("n > 3", group_by=("n",)))), sandbox)


def test_a_refusal_costs_nothing() -> None:
    with mwem_sql.connect(":memory:") as con:
        con.execute(
            "CREATE TABLE t (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99), pay DOUBLE NOT NULL CHECK (pay >= 0 AND pay < 1e6))"
        )
        con.execute(
            "CREATE TABLE workload AS SELECT 'age >= ' || i % 90 || ' OR pay > ' || i AS predicate FROM range(3000) AS r(i)"
        )
        for call in ("FROM mwem_plan('t', workload, 0.5)", "CALL mwem_release('t', workload, 0.5)"):
            with pytest.raises(duckdb.Error, match="are worked out cell by cell"):
                con.sql(call).fetchall()
        assert con.sql("FROM mwem_ledger()").fetchall() == []


def test_many_answers_are_those_of_each() -> None:
    """Differences of one table of sums, and never below 0."""
    with mwem_sql.connect(":memory:") as con:
        con.execute(
            "CREATE TABLE t (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99), pay DOUBLE NOT NULL CHECK (pay >= 0 AND pay < 1e6))"
        )
        con.execute("INSERT INTO t SELECT i % 100, i * 400 FROM range(2000) AS r(i)")
        con.execute(
            "CREATE TABLE workload AS SELECT 'age >= ' || i % 90 || ' AND pay > ' || i * 5000 || '.5' AS predicate FROM range(200) AS r(i)"
        )
        con.sql("CALL mwem_release('t', workload, 1.0, seed := 1)").fetchall()
        found = con.sql("SELECT name, answer FROM mwem_answer('t_synthetic', workload) ORDER BY query").fetchall()
        few = [con.execute("SELECT mwem_count('t_synthetic', ?)", [name]).fetchall()[0][0] for name, _ in found[::20]]
    assert len(found) == 200
    assert min(answer for _, answer in found) >= 0
    np.testing.assert_allclose(few, [answer for _, answer in found[::20]], rtol=1e-9, atol=1e-9)
