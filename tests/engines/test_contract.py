"""The contract of engines (`scan/engines/protocol.py`), tested on each; servers are behind the marker `engines`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from servers import superuser

from mwem_sql.boundary.sources import Facts
from mwem_sql.errors import TableError
from mwem_sql.scan.dialects import DIALECTS
from mwem_sql.scan.engines import open_engine
from mwem_sql.scan.engines.duckdb import SameInstance
from mwem_sql.scan.engines.protocol import Snapshot

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

Write = Callable[[], object]
"""Adds rows to the table behind an engine's back."""
Opened = Iterator[tuple[Any, list[str], Write | None]]


def apart(request: pytest.FixtureRequest, folder: Path) -> Opened:  # noqa: ARG001
    path = folder / "apart.duckdb"
    with duckdb.connect(str(path)) as own:
        own.execute("CREATE TABLE rows AS SELECT i::INTEGER AS x FROM range(10) AS t(i)")
    yield open_engine(path, None), ["main", "rows"], None  # nobody else can write while it is open


def postgres(request: pytest.FixtureRequest, folder: Path) -> Opened:  # noqa: ARG001
    port = request.getfixturevalue("postgresql")
    with superuser(port) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS contract")
        cursor.execute("CREATE TABLE contract AS SELECT generate_series(0, 9) AS x")
        uri = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        yield open_engine(uri, None), ["public", "contract"], lambda: cursor.execute("INSERT INTO contract VALUES (77)")


def spark(request: pytest.FixtureRequest, folder: Path) -> Opened:
    session = request.getfixturevalue("spark")
    (folder / "rows").mkdir()
    pq.write_table(pa.table({"x": pa.array(range(10), pa.int32())}), folder / "rows" / "0.parquet")
    more = pa.table({"x": pa.array([77], pa.int32())})
    rows = folder / "rows"
    yield open_engine(session, None), ["parquet", str(rows)], lambda: pq.write_table(more, rows / "1.parquet")


@pytest.fixture(
    params=[apart, pytest.param(postgres, marks=pytest.mark.engines), pytest.param(spark, marks=pytest.mark.engines)]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    for engine, parts, write in request.param(request, tmp_path):
        yield engine, parts, write
        engine.close()


def test_the_contract(place: tuple[Any, list[str], Write | None]) -> None:
    engine, parts, write = place
    facts = engine.describe(parts, "test")
    assert isinstance(facts, Facts) and facts == engine.describe(parts, "test")
    assert [(column.name, column.type) for column in facts.columns] == [("x", "INTEGER")]
    assert all(isinstance(name, tuple) and len(name) == 3 for tier in facts.keys for name in tier)
    assert engine.shown and engine.identity and engine.kind and engine.schema
    with pytest.raises(TableError):
        engine.describe([parts[0], "no_such/table"], "test")

    text = f"SELECT COUNT(*) AS n FROM {facts.rows.sql(DIALECTS[engine.dialect].name)}"
    with engine.snapshot() as snapshot:
        assert snapshot.home is None and snapshot.describe(parts, "test") == facts
        one_state(snapshot, text, write)
    with pytest.raises(ZeroDivisionError), engine.snapshot() as snapshot:
        raise ZeroDivisionError
    with engine.snapshot() as snapshot:  # a new one sees what was written since
        snapshot.describe(parts, "test")
        (batch,) = [batch for batch in snapshot.run(text, 1) if batch.num_rows]
        assert (batch.column(0).to_pylist()[0] > 10) == (write is not None)


def test_the_callers_own_instance_keeps_it_too(plain: duckdb.DuckDBPyConnection) -> None:
    plain.execute("CREATE TABLE rows AS SELECT i::INTEGER AS x FROM range(10) AS t(i)")
    own = plain.cursor()
    with SameInstance(own).snapshot() as snapshot:
        assert snapshot.home is own
        one_state(snapshot, "SELECT COUNT(*) AS n FROM rows", lambda: plain.execute("INSERT INTO rows VALUES (77)"))


def one_state(snapshot: Snapshot, text: str, write: Write | None) -> None:
    """Whatever others do, it is read as it was."""
    before = snapshot.state()
    for _ in range(2):
        batches = list(snapshot.run(text, 1))
        assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
        assert sum(batch.column(0).to_pylist()[0] for batch in batches if batch.num_rows) == 10
        if write is not None:
            write()
    assert snapshot.state() == before
    snapshot.interrupt()  # what is not running is left alone
