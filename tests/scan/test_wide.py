"""Wide workloads: a condition's cost depends on its constants, not on those of all others. Counts steps and bytes."""

from __future__ import annotations

import tracemalloc

import duckdb
import pytest
from chance import sampled
from thresholds import lower
from wide import DOMAIN, SHAPES, compiled_from, wide

import mwem_sql
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.errors import CellsError
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Query, Workload


@pytest.mark.parametrize("shape", sampled([shape for shape in SHAPES if shape != "decimals"], 1))
def test_room_grows_with_the_constants(shape: str, sandbox: Sandbox) -> None:
    """Twice as many conditions take about twice the memory; an array of classes for each would take four times."""
    compiled_from(sandbox, wide(shape, 10))  # what is made once and stays
    peaks = []
    for count in (700, 1_400):
        tracemalloc.start()
        compiled = compiled_from(sandbox, wide(shape, count))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(compiled.queries) == count
    assert peaks[1] < 2.6 * peaks[0]


REFUSED = {
    "joins columns": (
        [Query(f"age >= {k % 90} OR pay > {k}.5") for k in range(3_000)],
        (r"^workload: 3,000 queries, such as 'age >= 0 OR pay > 0.5' over age, pay, are worked out cell by cell: "
         r"[\d,]+ cells, more than 536,870,912. "
        r"Hint: join conditions on several columns by AND instead of OR, use fewer constants in all, or ask fewer "
        r"such queries at a time$"),
    ),
    "sums under conditions": (
        [Query(f"n <= {k - 3000}", measure="n") for k in range(6_000)],
        (r"^workload: 6,000 queries, such as 'sum\(n\) WHERE n <= -3000' over n, are worked out cell by cell: "
         r"36,012,000 cells, more than 33,554,432. "
        r"Hint: declare step or bins in a domain table, use fewer constants in all, or ask fewer such queries at a "
        r"time$"),
    ),
    "asks values": (
        [Query(f"n % {k} = 1") for k in range(1, 50_000)],
        (r"^workload: 49,999 expressions such as '\"n\" % 1 = 1' are evaluated value by value on 6,002 values of n, "
         r"more than 268,435,456 times in all. "
        r"Hint: ask fewer, declare fewer values, or compare the column with constants \(=, IN, <, BETWEEN\)$"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_too_much_is_refused_at_once(kind: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first block is made, and before the first value is asked."""
    monkeypatch.setattr("mwem_sql.compile.build.Builder._block", lambda *_: pytest.fail("a block was made"))
    if kind == "asks values":
        monkeypatch.setattr(Sandbox, "evaluate", lambda *_: pytest.fail("a value was asked"))
    queries, message = REFUSED[kind]
    with pytest.raises(CellsError, match=message):
        compile_workload(DOMAIN, Workload(tuple(queries)), sandbox)


def test_one_of_each_is_not_too_much(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group_by of each column, however many values it has: cells times queries count, not cells."""
    lower(monkeypatch, MAX_VALUED=5_000)
    compile_workload(DOMAIN, Workload((Query(group_by=("n",)), Query(group_by=("w",)), Query(measure="far"))), sandbox)
    with pytest.raises(CellsError, match="cell by cell"):
        compile_workload(DOMAIN, Workload((Query(group_by=("n",)), Query("n > 3", group_by=("n",)))), sandbox)


def test_a_refusal_costs_nothing() -> None:
    with mwem_sql.connect(":memory:") as con:
        con.execute(
            "CREATE TABLE t (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99), pay DOUBLE NOT NULL CHECK (pay >= 0 "
            "AND pay < 1e6))"
        )
        con.execute(
            "CREATE TABLE workload AS SELECT 'age >= ' || i % 90 || ' OR pay > ' || i AS predicate FROM range(3000) "
            "AS r(i)"
        )
        for call in ("FROM mwem_plan('t', workload, 0.5)", "CALL mwem_release('t', workload, 0.5)"):
            with pytest.raises(duckdb.Error, match="are worked out cell by cell"):
                con.sql(call).fetchall()
        assert con.sql("FROM mwem_ledger()").fetchall() == []
