"""The sandbox: the user's settings, none of the user's data, and text that may grow."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import duckdb
import pyarrow as pa
import pytest
from compilers import DOMAIN, compiled_from

from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.errors import MwemError
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Workload


def test_settings_change_the_meaning() -> None:
    divided = Workload.from_predicates(["a / 2 = 2"])
    sizes = []
    for setting in (False, True):
        with Sandbox({"integer_division": setting}) as sandbox:
            sizes.append(compile_workload(DOMAIN, divided, sandbox).classes["a"].sizes.tolist())
    assert sizes == [[10.0, 1.0], [9.0, 2.0]]
    with Sandbox({"TimeZone": "America/New_York", "default_collation": "nocase", "threads": 7}) as sandbox:
        assert compiled_from(sandbox, "s = 'X'").classes["s"].count == 2


def test_the_sandbox_reaches_nothing() -> None:
    for statement, reason in (
        ("SELECT * FROM read_text('/etc/passwd')", "disabled"),
        ("SET enable_external_access = true", "locked|Cannot"),
    ):
        with Sandbox() as sandbox, pytest.raises(duckdb.Error, match=reason):
            sandbox._con.execute(statement)


def test_the_sandbox_takes_slices() -> None:
    """What makes much for each row is evaluated on few rows at a time, in their order."""
    values = pa.array([f"v{k}" for k in range(500)])
    with Sandbox() as sandbox:
        sandbox.load("t", {"city": ("VARCHAR", values)})
        lengths, plain = sandbox.evaluate("t", ["length(repeat(city, 100000))", "city"])
        assert plain.to_pylist() == values.to_pylist()
        assert lengths.to_pylist() == [100_000 * len(value) for value in values.to_pylist()]
        with pytest.raises(duckdb.Error, match=r"it may make [0-9,]+ characters of text for each of 500 values"):
            sandbox.evaluate("t", ["length(repeat(city, 10000000))"])
        with pytest.raises(
            duckdb.Error, match="for each of 500 values, more than 16,777,216 for one or 1,073,741,824 for all"
        ):
            sandbox.evaluate("t", ["length(repeat(city, 1000000))"])
        assert sandbox.evaluate("t", []) == []
        sandbox.load("none", {"city": ("VARCHAR", pa.array([], pa.string()))})
        assert [len(array) for array in sandbox.evaluate("none", ["repeat(city, 9)"])] == [0]


def test_an_instance_waits_for_the_next_call_without_what_it_was_told() -> None:
    with Sandbox({"TimeZone": "UTC"}) as first:
        first.load("t", {"a": ("INTEGER", pa.array([1]))})
        kept = first._con
    with Sandbox({"TimeZone": "UTC"}) as second, Sandbox({"TimeZone": "Asia/Tokyo"}) as other:
        assert second._con is kept and other._con is not kept
        assert kept.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
    with suppress(MwemError), Sandbox({"TimeZone": "UTC"}) as third:
        third.load("t", {"a": ("INTEGER", pa.array([1]))})
        with suppress(duckdb.Error):
            third.load("u", {"a": ("INTEGER", pa.array(["x"]))})
        raise MwemError
    with suppress(ValueError), Sandbox({"TimeZone": "UTC"}) as fourth:
        assert fourth._con is kept
        assert kept.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
        assert kept.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]
        raise ValueError
    with pytest.raises(duckdb.Error, match="closed"):
        kept.execute("SELECT 1")


def test_a_process_that_was_forked_leaves_them_alone() -> None:
    """Spark is started by a fork with Python code behind it; there, to close an instance of the parent's would
    crash."""
    code = """
import subprocess, sys
import mwem_sql
con = mwem_sql.connect()
con.execute("SET enable_progress_bar = false")  # it is shown where a statement takes seconds
con.execute("CREATE TABLE t (a INTEGER CHECK (a BETWEEN 0 AND 9)); CREATE TABLE w AS SELECT 'a > 4' AS predicate")
con.execute("FROM mwem_plan('t', w, 1)").fetchall()
command = [sys.executable, "-c", "print(7)"]
print(subprocess.run(command, preexec_fn=lambda: None, capture_output=True, text=True).stdout)
print(len(con.execute("FROM mwem_plan('t', w, 1)").fetchall()) > 9)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["7", "True"], "")
