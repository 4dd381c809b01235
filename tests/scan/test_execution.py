"""The private side: exact counts over all public cells, one snapshot, and errors that say nothing."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import duckdb
import numpy as np
import pytest
from chance import sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import PLANS, force
from pushdowns import grid, whole
from sqlglot import exp
from strategies import seeds

from mwem_sql.compile.compiled import Compiled
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import EngineError
from mwem_sql.language.ticks import cast
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.scan import execution
from mwem_sql.scan.pushdown import Pushdown, plan_pushdown
from mwem_sql.workload import Query, Workload

TABLE = Name("memory", "main", "t")
DOMAIN = Domain(
    "t",
    ("a", "b"),
    (
        Attribute("a", "INTEGER", nullable=False, low=0, high=3),
        Attribute("b", "BOOLEAN", nullable=True, values=("false", "true")),
    ),
)
FIXED = (
    "engine: the private table could not be read. Hint: the cause is withheld because it may quote a private value; "
    "ask the table's owner to run a plain SELECT count(*) on it"
)


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    asked = Workload(
        (
            Query(group_by=("a", "b")),
            Query("a > 1"),
            Query("true"),
            Query(measure="CASE WHEN b THEN 1 ELSE -1 END"),
            Query("false"),
        )
    )
    with Sandbox() as sandbox:
        return compile_workload(DOMAIN, asked, sandbox)


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    force(monkeypatch, request.param)
    return str(request.param)


def planned(compiled: Compiled, table: Name = TABLE) -> Pushdown:
    return plan_pushdown(table, compiled.classes, [query.linear for query in compiled.queries])


def answers(con: duckdb.DuckDBPyConnection, compiled: Compiled, table: Name = TABLE) -> list[list[int]]:
    pushdown = planned(compiled, table)
    found = execution.true_answers(con.cursor(), pushdown)
    assert found.dtype == np.int64
    assert pushdown.cells.tolist() == [query.linear.cells for query in compiled.queries]
    return [answer.tolist() for answer in np.split(found, pushdown.starts[1:])]


@pytest.mark.usefixtures("plan")
def test_all_public_cells(plain: duckdb.DuckDBPyConnection, compiled: Compiled) -> None:
    plain.execute("CREATE TABLE t AS SELECT * FROM (VALUES (0, true), (0, true), (3, NULL), (2, false)) v(a, b)")
    assert answers(plain, compiled) == [[0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1], [2], [4], [0], [0]]


@pytest.mark.usefixtures("plan")
def test_an_empty_table_has_zeros(plain: duckdb.DuckDBPyConnection, compiled: Compiled) -> None:
    plain.execute("CREATE TABLE t (a INTEGER, b BOOLEAN)")
    assert answers(plain, compiled) == [[0] * 12, [0], [0], [0], [0]]


@pytest.mark.parametrize("plan", sampled([plan for plan in PLANS if plan.endswith(("by", "set", "histograms"))], 2))
def test_many_rows_are_counted_exactly(
    plain: duckdb.DuckDBPyConnection, compiled: Compiled, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a double has digits for: what DuckDB counted is replaced by a large number of the same rows."""
    force(monkeypatch, plan)
    plain.execute("CREATE TABLE t AS SELECT 3 AS a, true AS b")
    pushdown = planned(compiled)
    large = 2**60 + 1
    for part in pushdown.parts:
        for count in [count for statement in part.statements for count in statement.find_all(exp.Count)]:
            count.replace(exp.Max(this=cast(exp.Literal.number(large), "BIGINT")))
    found = np.split(execution.true_answers(plain.cursor(), pushdown), pushdown.starts[1:])
    assert [answer.sum() for answer in found] == [large, large, large, large, 0]


def test_sums_of_aggregates_saturate(
    plain: duckdb.DuckDBPyConnection, compiled: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, "aggregates")
    plain.execute("CREATE TABLE t AS SELECT 3 AS a, true AS b FROM range(3)")
    pushdown = planned(compiled)
    for part in pushdown.parts:
        for total in [total for statement in part.statements for total in statement.find_all(exp.Sum)]:
            total.set("this", cast(exp.Literal.number(-(2**63) // 2 - 1), "BIGINT"))
    found = np.split(execution.true_answers(plain.cursor(), pushdown), pushdown.starts[1:])
    assert found[3].tolist() == [-(2**63) + 1]


@pytest.mark.parametrize("rows", [1, 7, 4096])
def test_blocks_of_the_product_add_up(rows: int) -> None:
    """A block is used again for the next batch, and marginals of one shape are copied in portions of some cells."""
    assert execution.BLOCK_ROWS < 2**24  # below which a float32 counts exactly
    shape = (4, 3, 4)
    drawn = np.random.default_rng(1).integers(0, shape, (5000, 3)).T
    pairs = execution.PairCounts(shape, most_rows=rows)
    assert pairs.rows == rows
    for begin in range(0, drawn.shape[1], rows):
        pairs.add(list(drawn[:, begin : begin + rows]))
    pairs.finish()
    wanted = np.array([(0, 0, 1), (1, 1, -1), (2, 2, 1), (3, 0, 2)])
    starts = np.array([0, 12, 15, 27])
    out = np.zeros(27 + 16, dtype=np.int64)
    pairs.copy_marginals(wanted, starts, out, at_once=rows)
    for (_, one, other), found in zip(wanted.tolist(), np.split(out, starts[1:]), strict=True):
        axes = [axis for axis in (one, other) if axis >= 0]
        codes = np.ravel_multi_index(tuple(drawn[axes]), [shape[axis] for axis in axes])
        assert found.tolist() == np.bincount(codes, minlength=len(found)).tolist()


def test_rows_are_read_in_batches(
    plain: duckdb.DuckDBPyConnection, compiled: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a product, three; the last has one row."""
    force(monkeypatch, "product")
    rows = 2 * execution.BLOCK_ROWS + 1
    plain.execute(f"CREATE TABLE t AS SELECT (i % 4)::INTEGER AS a, i % 3 = 1 AS b FROM range({rows}) r(i)")
    joint, above, everything, *_ = answers(plain, compiled)
    counted = plain.execute("SELECT count(*) FROM t GROUP BY a, b ORDER BY a, b").fetchall()
    assert [count for count in joint if count] == [count for (count,) in counted]
    assert [tuple(above)] == plain.execute("SELECT count(*) FROM t WHERE a > 1").fetchall()
    assert everything == [rows]


def test_groups_are_read_in_batches(plain: duckdb.DuckDBPyConnection) -> None:
    """Of more groups than one batch has, each of another number of rows."""
    side = math.isqrt(execution.GROUPS) + 1
    plain.execute(
        f"CREATE TABLE t AS SELECT (g // {side})::INTEGER AS a, (g % {side})::INTEGER AS b FROM range({side**2}) r(g), "
        "range(1 + g % 2)"
    )
    classes = grid({"a": side, "b": side})
    pushdown = plan_pushdown(TABLE, classes, whole(classes, "ab"))
    found = execution.true_answers(plain.cursor(), pushdown)
    np.testing.assert_array_equal(found, 1 + np.arange(side**2) % 2)


@pytest.mark.usefixtures("plan")
def test_a_memory_limit_is_respected(compiled: Compiled, tmp_path: Path) -> None:
    """Four million rows are 20 MB of codes; nothing that grows with them is held."""
    with duckdb.connect(str(tmp_path / "large.duckdb"), config={"memory_limit": "40MB", "threads": 1}) as con:
        con.execute("CREATE TABLE t AS SELECT (i % 4)::INTEGER AS a, i % 3 = 1 AS b FROM range(4000000) r(i)")
        assert answers(con, compiled, Name("large", "main", "t"))[2] == [4_000_000]


PRIVATE = "Smith, 555-1234"


def check_nothing_is_said(caught: pytest.ExceptionInfo[EngineError]) -> None:
    assert str(caught.value) == FIXED
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert PRIVATE not in repr(caught.value.args)


@pytest.mark.usefixtures("plan")
def test_a_failing_row_says_nothing(plain: duckdb.DuckDBPyConnection, compiled: Compiled) -> None:
    plain.execute(
        "CREATE TABLE hidden (name VARCHAR, b BOOLEAN); CREATE VIEW t AS SELECT CAST(name AS INTEGER) AS a, b FROM "
        "hidden"
    )
    plain.execute("INSERT INTO hidden VALUES ('1', true)")
    assert answers(plain, compiled)[2] == [1]
    plain.execute("INSERT INTO hidden VALUES (?, true)", [PRIVATE])
    with pytest.raises(duckdb.Error, match=PRIVATE):
        plain.execute("SELECT sum(a) FROM t").fetchall()
    cursor = plain.cursor()
    with pytest.raises(EngineError) as caught:
        execution.true_answers(cursor, planned(compiled))
    check_nothing_is_said(caught)
    assert cursor.execute("SELECT 1").fetchall() == [(1,)]  # no transaction is left open


@pytest.mark.usefixtures("plan")
def test_other_failures_say_nothing(plain: duckdb.DuckDBPyConnection, compiled: Compiled, tmp_path: Path) -> None:
    file = tmp_path / "people.parquet"
    plain.execute(
        f"COPY (SELECT 1 AS a, true AS b, '{PRIVATE}' AS name) TO '{file}'; CREATE VIEW t AS SELECT * FROM '{file}'"
    )
    assert answers(plain, compiled)[2] == [1]
    file.unlink()
    with pytest.raises(EngineError) as caught:
        answers(plain, compiled)
    check_nothing_is_said(caught)
    plain.execute("DROP VIEW t")
    with pytest.raises(EngineError) as caught:
        answers(plain, compiled)
    check_nothing_is_said(caught)
    closed = plain.cursor()
    closed.close()
    with pytest.raises(EngineError) as caught:
        execution.true_answers(closed, planned(compiled))
    check_nothing_is_said(caught)


@pytest.mark.usefixtures("plan")
def test_a_failing_function_says_nothing(plain: duckdb.DuckDBPyConnection, compiled: Compiled) -> None:
    def shout(name: str) -> int:
        raise RuntimeError(name)

    plain.create_function("shout", shout, ["VARCHAR"], "INTEGER")
    plain.execute("CREATE TABLE hidden (name VARCHAR); CREATE VIEW t AS SELECT shout(name) AS a, true AS b FROM hidden")
    plain.execute("INSERT INTO hidden VALUES (?)", [PRIVATE])
    with pytest.raises(EngineError) as caught:
        answers(plain, compiled)
    check_nothing_is_said(caught)


@pytest.mark.usefixtures("plan")
def test_all_scans_read_one_snapshot(tmp_path: Path, compiled: Compiled) -> None:
    """Rows that arrive between two scans are in none of them."""
    with duckdb.connect(str(tmp_path / "busy.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT (i % 4)::INTEGER AS a, i % 3 = 0 AS b FROM range(20000) r(i)")
        stop = threading.Event()
        writer = threading.Thread(target=write_until, args=(con.cursor(), stop))
        writer.start()
        try:
            seen = []
            for _ in range(15):
                joint, _, total, _, _ = answers(con, compiled, Name("busy", "main", "t"))
                assert sum(joint) == total[0]
                seen.append(total[0])
        finally:
            stop.set()
            writer.join()
        assert len(set(seen)) > 1  # rows did arrive meanwhile


def write_until(con: duckdb.DuckDBPyConnection, stop: threading.Event) -> None:
    while not stop.is_set():
        con.execute("INSERT INTO t VALUES (1, true)")


@pytest.mark.usefixtures("plan")
def test_nothing_is_written_and_no_transaction_is_left(plain: duckdb.DuckDBPyConnection, compiled: Compiled) -> None:
    plain.execute("CREATE TABLE t (a INTEGER, b BOOLEAN)")
    cursor = plain.cursor()
    for _ in range(2):
        execution.true_answers(cursor, planned(compiled))
    cursor.execute("BEGIN")
    cursor.execute("COMMIT")


@settings(deadline=None, max_examples=60)
@given(seeds, st.lists(st.integers(1, 5), min_size=1, max_size=5), st.lists(st.integers(0, 40), max_size=4))
def test_every_marginal_is_that_of_the_rows(seed: int, shape: list[int], batches: list[int]) -> None:
    """Attributes of one class too, batches without rows, and no batch at all."""
    generator = np.random.default_rng(seed)
    pairs = execution.PairCounts(shape)
    rows = [np.stack([generator.integers(0, size, count) for size in shape]).astype(np.int32) for count in batches]
    for codes in rows:
        pairs.add(list(codes))
    pairs.finish()
    every = np.concatenate([np.zeros((len(shape), 0), dtype=np.int32), *rows], axis=1)
    wanted = [(one, other) for one in range(len(shape)) for other in (-1, *range(len(shape))) if other != one]
    expected = []
    for one, other in wanted:
        names = [one] if other < 0 else [one, other]
        counted = np.zeros([shape[name] for name in names], dtype=np.int64)
        np.add.at(counted, tuple(every[name] for name in names), 1)
        assert pairs.marginal(names).tolist() == counted.tolist()
        expected.append(counted.ravel())
    starts = np.cumsum([0, *map(len, expected)])
    out = np.full(starts[-1], -1, dtype=np.int64)
    asked = np.array([(number, one, other) for number, (one, other) in enumerate(wanted)], dtype=np.int64)
    pairs.copy_marginals(asked, starts[:-1], out)
    assert out.tolist() == np.concatenate(expected).tolist()
