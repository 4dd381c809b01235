"""What a release leaves behind, and that it can be read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from chance import sampled
from conftest import PEOPLE, Connection, Open

import mwem_sql
from mwem_sql.errors import OutputError, TableError
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.platform.catalog import Name, Place
from mwem_sql.releases import grid, reuse, store
from mwem_sql.synthesis.values import SyntheticRows
from mwem_sql.workload import Workload

HERE = Place("memory", "main")
NO_DOMAIN = json.dumps({"table": "t", "columns": [], "attributes": []})


def load(con: Connection, text: str = "people_synthetic") -> store.Stored:
    return store.load(con.cursor(), text, HERE, "mwem_answer")


@pytest.mark.parametrize("average", [False, True])
def test_a_state_comes_back_as_it_was(con: Connection, *, average: bool) -> None:
    made = mwem_sql.release(con, "people", "workload", 1, rounds=3, average=average)
    state = load(con).state()
    assert isinstance(state, Mixture if average else State)
    assert state.attributes == ("age", "sex", "member", "city")
    assert state.table().equals(made.factors)
    ((total, cells),) = con.execute("SELECT total, cells FROM mwem.releases").fetchall()
    assert state.cells == cells
    assert average or state.total == pytest.approx(total, rel=1e-12)


def test_classes_survive_as_json(connect: Open) -> None:
    con = connect()
    con.execute(
        """CREATE TABLE t (i INTEGER CHECK (i BETWEEN 0 AND 4000000), d DOUBLE NOT NULL CHECK (d BETWEEN -1e-3
            AND 1e17), s VARCHAR CHECK (s IN ('é', '"')));
           CREATE TABLE w AS SELECT unnest(['i > 70000', 'd > 0.1', 's = ''é''']) AS predicate"""
    )
    mwem_sql.release(con, "t", "w", 1, rows=3)
    found = load(con, "t_synthetic").classes
    again = grid.from_json(load(con, "t_synthetic").domain, json.loads(json.dumps(grid.to_json(found))))
    for name, own in found.items():
        other = again[name]
        assert own.attribute == other.attribute
        for part in ("lows", "highs", "points", "bins"):
            left, right = getattr(own.pieces, part), getattr(other.pieces, part)
            assert left.dtype == right.dtype
            assert np.array_equal(left, right)
        assert np.array_equal(own.codes, other.codes)
    assert found["d"].pieces.lows.dtype == np.float64
    assert found["i"].pieces.lows.dtype == np.int64


def test_the_newest_is_loaded_and_all_are_kept(con: Connection) -> None:
    for version in "abc":
        mwem_sql.release(con, "people", "workload", 1, rounds=1, rows=5, version=version)
    assert load(con).facts["version"] == "c"
    assert [
        facts["version"] for facts in store.releases_of(con.cursor(), Name("memory", "main", "people_synthetic"))
    ] == ["c", "b", "a"]
    assert con.execute("SELECT count(DISTINCT release) FROM mwem.factors").fetchall() == [(3,)]


@pytest.mark.parametrize(
    "text",
    sampled(
        [
            "people_synthetic",
            "PEOPLE_synthetic",
            "main.people_synthetic",
            "memory.people_synthetic",
            '"memory"."main"."people_synthetic"',
        ],
        2,
    ),
)
def test_an_output_is_found_by_any_name(con: Connection, text: str) -> None:
    mwem_sql.release(con, "people", "workload", 1, rounds=1, rows=5)
    assert load(con, text).facts["release"] == 1
    con.execute("DROP TABLE people_synthetic")
    assert load(con, text).facts["release"] == 1


@pytest.mark.parametrize(
    "text", sampled(["people", "nothing", "nowhere.main.people_synthetic", "other.people_synthetic"], 2)
)
def test_anything_else_is_not_a_release(con: Connection, text: str) -> None:
    con.execute("CREATE SCHEMA other; CREATE TABLE other.people_synthetic AS SELECT 1 AS x")
    with pytest.raises(TableError, match="is not a release of mwem_release"):
        load(con, text)
    mwem_sql.release(con, "people", "workload", 1, rounds=1, rows=5)
    with pytest.raises(TableError, match="is not a release of mwem_release"):
        load(con, text)


def test_a_file_is_understood_under_another_name(connect: Open, tmp_path: Path) -> None:
    con = connect(tmp_path / "private.duckdb")
    con.execute(PEOPLE)
    made = mwem_sql.release(con, "people", "workload", 1, rounds=1, rows=5)
    con.close()
    (tmp_path / "private.duckdb").rename(tmp_path / "other name.duckdb")
    con = connect(tmp_path / "other name.duckdb")
    assert con.execute("SELECT count(*) FROM mwem_answer('people_synthetic', workload)").fetchall() == [(10,)]
    assert (
        store.load(con.cursor(), "people_synthetic", Place("other name", "main"), "f")
        .state()
        .table()
        .equals(made.factors)
    )
    assert con.execute("SELECT output FROM mwem.releases").fetchall() == [("private.main.people_synthetic",)]
    again = mwem_sql.release(con, "people", "workload", 1, rounds=1, rows=5)
    assert (again.reused, again.output) == (True, "other name.main.people_synthetic")
    assert con.execute("SELECT database_name FROM mwem_ledger()").fetchall() == [("other name",)]


def batches(*, broken: bool) -> Iterator[pa.RecordBatch]:
    for first in range(0, 10_000, 1000):
        yield pa.record_batch([pa.array(range(first, first + 1000))], names=["c0"])
    if broken:
        raise ValueError("the generator broke")


@pytest.mark.parametrize("broken", [True, False])
def test_nothing_is_half_written(con: Connection, *, broken: bool) -> None:
    """Rows that break off after ten batches, or factors, which come last: what was written before goes away again."""
    name = Name("memory", "main", "o")
    mwem_sql.release(con, "people", "workload", 1, rounds=1, rows=5, output="o")
    facts = {key: value for key, value in store.releases_of(con.cursor(), name)[0].items() if key != "release"}
    facts |= {"domain": NO_DOMAIN, "grid": "{}"}
    stored = store.load(con.cursor(), "o", HERE, "f")
    measurements, factors = (
        store.measurements_of(con.cursor(), stored),
        stored.factors if broken else pa.table({"nonsense": [1]}),
    )
    rows = SyntheticRows(
        {"x": "INTEGER"}, pa.RecordBatchReader.from_batches(pa.schema({"c0": pa.int64()}), batches(broken=broken))
    )
    tables = {
        "measurements": measurements,
        "workloads": store.workload_rows(Workload.from_predicates(["true"])),
        "factors": factors,
    }
    with pytest.raises(duckdb.Error, match="the generator broke" if broken else "nonsense"):
        store.write(con.cursor(), [store.Content(facts=facts, rows=rows, tables=tables, off=[], name=name)])
    assert con.execute("SELECT count(*) FROM o").fetchall() == [(5,)]
    assert con.execute("SELECT count(*) FROM mwem.releases").fetchall() == [(1,)]
    assert con.execute("SELECT count(DISTINCT release) FROM mwem.measurements").fetchall() == [(1,)]


def test_batches_are_written_in_their_order(con: Connection) -> None:
    rows = SyntheticRows(
        {"a b": "SMALLINT"}, pa.RecordBatchReader.from_batches(pa.schema({"c0": pa.int64()}), batches(broken=False))
    )
    mwem_sql.release(con, "people", "workload", 1, rounds=1, rows=5, output="o")
    facts = store.releases_of(con.cursor(), Name("memory", "main", "o"))[0]
    store.write_table(con.cursor(), Name("memory", "main", "O o"), facts | {"domain": NO_DOMAIN, "grid": "{}"}, rows)
    assert con.execute('SELECT "a b" FROM "O o"').fetchnumpy()["a b"].tolist() == list(range(10_000))


@pytest.mark.parametrize(
    ("text", "wanted"),
    sampled([
        ("o", "memory.s.o"), ("main.o", "memory.main.o"), ("MAIN.o", "memory.main.o"), ("pub.o", "pub.main.o"),
        ("pub.deep.o", "pub.deep.o"),
        ('pub."a.b"', "pub.main.a.b"), ("twice.o", "memory.twice.o"), ("x y", "memory.s.x y"),
        ('"q""q"', 'memory.s.q"q'),
    ], 4),
)  # fmt: skip
def test_where_an_output_goes(con: Connection, text: str, wanted: str) -> None:
    con.execute(
        "ATTACH ':memory:' AS pub; CREATE SCHEMA pub.deep; CREATE SCHEMA s; CREATE SCHEMA twice; ATTACH ':memory:' AS "
        "twice"
    )
    assert str(reuse.output_name(con.cursor(), text, Name("memory", "s", "t"), "f")) == wanted


@pytest.mark.parametrize(
    "text", ["nowhere.o", "nowhere.main.o", "memory.nowhere.o", "temp.o", "system.main.o", "a.b.c.d", "memory.mwem.o"]
)
def test_where_an_output_cannot_go(con: Connection, text: str) -> None:
    con.execute("CREATE SCHEMA mwem")
    with pytest.raises(OutputError, match="Hint: "):
        reuse.output_name(con.cursor(), text, Name("memory", "main", "t"), "f")


@pytest.mark.parametrize(
    "change",
    sampled([
        "UPDATE mwem.releases SET domain = '{}'", "UPDATE mwem.releases SET grid = '[1]'",
        "ALTER TABLE mwem.releases DROP COLUMN cells", "DELETE FROM mwem.factors",
        "ALTER TABLE mwem.releases ALTER COLUMN rows TYPE VARCHAR", "UPDATE mwem.factors SET weights = [1.0]",
        "UPDATE mwem.factors SET weights = [w - 1e9 FOR w IN weights]",
        "UPDATE mwem.factors SET attributes = ['nobody']", "ALTER TABLE mwem.factors DROP COLUMN shape",
        "DELETE FROM mwem.bounds", "DROP TABLE mwem.factors", ("UPDATE mwem.factors SET weights = ['nan'::DOUBLE FOR w "
                                                              "IN weights]"),
    ], 4),
)  # fmt: skip
def test_a_damaged_release_is_said_to_be_damaged(con: Connection, change: str) -> None:
    mwem_sql.release(con, "people", "workload", 1, rounds=1, rows=5)
    con.execute(change)
    with pytest.raises(
        duckdb.Error,
        match=r"mwem: what is stored of output \(memory.main.people_synthetic\) .* cannot be read\. Hint: it was "
        r"changed by hand",
    ):
        con.execute("FROM mwem_answer('people_synthetic', workload)")
