"""The demo: a census with real dependence, and the story told about it."""

from __future__ import annotations

import contextlib
import math
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from command import COMMAND, PATIENCE, ROOT, call, environment

from mwem_sql.platform.metadata import read_sql


def information(con: duckdb.DuckDBPyConnection, first: str, second: str) -> float:
    """Mutual information of two columns, in nats."""
    rows = con.table("census").aggregate(f"{first}, {second}, count(*)").fetchall()
    total = sum(n for *_, n in rows)
    one: dict[object, int] = {}
    two: dict[object, int] = {}
    for a, b, n in rows:
        one[a] = one.get(a, 0) + n
        two[b] = two.get(b, 0) + n
    return math.fsum(n / total * math.log(n * total / (one[a] * two[b])) for a, b, n in rows)


@pytest.fixture(scope="module")
def census() -> Iterator[duckdb.DuckDBPyConnection]:
    with contextlib.closing(duckdb.connect()) as con:
        con.execute(read_sql("demo.sql"))
        yield con


def test_the_demo_census_has_real_dependence(census: duckdb.DuckDBPyConnection) -> None:
    assert census.table("census").aggregate("count(*)").fetchall() == [(50_000,)]
    # Were two columns independent, 2n times their information would be chi-squared with at most 25 degrees of freedom:
    # 300 (0.003 nats) has a probability below 1e-40.
    for pair in ("education income", "sex occupation", "education occupation", "marital income", "sex marital"):
        assert information(census, *pair.split()) > 0.003, pair


def test_the_demo_census_declares_its_domain_and_uses_all_of_it(census: duckdb.DuckDBPyConnection) -> None:
    constraints = census.execute(
        "SELECT constraint_type, count(*) FROM duckdb_constraints() WHERE table_name = 'census' GROUP BY ALL ORDER BY "
        "ALL"
    ).fetchall()
    assert constraints == [("CHECK", 2), ("NOT NULL", 7)]
    columns = census.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'census'"
    ).fetchall()
    for name, kind in columns:
        used = census.table("census").aggregate(f"count(DISTINCT {name})").fetchall()
        assert kind == "INTEGER" or used == [(kind.count("', '") + 1,)], name


def test_the_demo_workload_has_marginals_and_predicates(census: duckdb.DuckDBPyConnection) -> None:
    rows = census.execute("SELECT predicate, group_by FROM workload").fetchall()
    assert all((predicate is None) != (group_by is None) for predicate, group_by in rows)
    assert {len(group_by) for _, group_by in rows if group_by} == {2}
    for predicate in (predicate for predicate, _ in rows if predicate):
        selected = census.table("census").filter(predicate).aggregate("count(*)").fetchall()[0][0]
        assert 500 < selected < 49_500, predicate


def test_the_demo_census_is_the_same_each_time_and_has_as_many_rows_as_asked() -> None:
    prints = []
    for _ in range(2):
        with contextlib.closing(duckdb.connect()) as con:
            con.execute("SET VARIABLE demo_rows = 500")
            con.execute(read_sql("demo.sql"))
            prints.append(
                con.execute(
                    "SELECT count(*), md5(string_agg(c::VARCHAR, ';' ORDER BY c.rowid)) FROM census c"
                ).fetchall()
            )
    assert prints[0] == prints[1]
    assert prints[0][0][0] == 500


def test_the_demo_tells_its_story(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = str(tmp_path / "demo.duckdb")
    code, out, err = call(capsys, "demo", "--rows", "3000", "--epsilon", "2", "--seed", "1", "--database", path)
    assert (code, err) == (0, "")
    assert "CALL mwem_release('census', workload, 2.0, seed := 1);" in out
    assert "NOT private" in out
    assert "made up" in out
    assert "Doctorate, >50K" in out
    assert "█" in out
    assert "rows on\naverage" in out
    assert "\033" not in out
    assert [line for line in out.splitlines() if len(line) > 80] == []
    with contextlib.closing(duckdb.connect(path, read_only=True)) as con:
        (rows,) = con.execute("SELECT count(*) FROM census_synthetic").fetchall()[0]
        assert 2000 < rows < 4000


def test_the_demo_does_not_touch_a_table_that_is_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(tmp_path / "mine.duckdb")
    assert call(capsys, path, "-c", "CREATE TABLE census AS SELECT 42 AS precious")[0] == 0
    code, _, err = call(capsys, "demo", "--database", path)
    assert code == 1
    assert "census" in err
    assert "already exists" in err
    assert call(capsys, path, "--csv", "-c", "FROM census") == (0, "precious\n42\n", "")


def test_the_demo_passes_a_refusal_on(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "demo", "--rows", "10", "--epsilon", "-1")
    assert code == 1
    assert "mwem_release: " in err
    assert "Traceback" not in err


@pytest.mark.thorough
def test_ctrl_c_during_a_release_ends_the_demo() -> None:
    with subprocess.Popen(
        [*COMMAND, "demo", "--rows", "5000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while b"CALL mwem_release" not in process.stdout.readline():
            assert process.poll() is None
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 128 + signal.SIGINT
        assert b"Traceback" not in process.stderr.read()
