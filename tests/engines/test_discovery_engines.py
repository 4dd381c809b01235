"""Values that a release finds are the same wherever the rows are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from servers import superuser

import mwem_sql
from mwem_sql.boundary import relations
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.scan import execution
from mwem_sql.scan.dialects import DIALECTS
from mwem_sql.scan.dialects.dialect import LONGEST_TEXT, Unit
from mwem_sql.workload import Workload

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore::FutureWarning")]

TEXTS = ["Bern", "bern", " Bern", "Bern ", "", "a\\b", "it's; --", "naïve", "nai\u0308ve", "日本", "🦀", "%", "NULL",
         "x" * LONGEST_TEXT]  # fmt: skip
ROWS: list[tuple[int, str | None]] = [
    *((person, text) for person in range(300) for text in TEXTS),
    *((person, None) for person in range(500)),
    *((person, f"village {person}") for person in range(300)),
    *((person, "y" * (LONGEST_TEXT + 1)) for person in range(400)),
    *((7, "hermitage") for _ in range(900)),
]


def counts(con: duckdb.DuckDBPyConnection, table: str, unit: Unit | None) -> dict[str, int]:
    relation = relations.describe(con.cursor(), table, Place("memory", "main"), "test")
    dialect = DIALECTS[relation.dialect]
    statement = dialect.sql(dialect.value_counts(relation, "city", unit))
    rows = execution.engine_of(con.cursor(), relation)
    (batches,) = execution.value_counts(rows, [statement], execution.as_described(relation, "test"))
    return {text: units for batch in batches for text, units in zip(*(each.to_pylist() for each in batch), strict=True)}


def compared(con: duckdb.DuckDBPyConnection, there: str) -> None:
    con.execute("CREATE TABLE visits (person INTEGER, city VARCHAR)")
    con.from_arrow(arrow()).query("arrived", "INSERT INTO visits FROM arrived")
    for unit in (None, Unit("person", 100, "INTEGER"), Unit("person", 3, "INTEGER")):
        here = counts(con, "visits", unit)
        assert counts(con, there, unit) == here
        assert None not in here and not any(len(text) > LONGEST_TEXT for text in here)
        if unit is not None:
            assert here.get("hermitage", 0) <= 1 and sum(here.values()) == 300 * min(unit.rows, len(TEXTS) + 1) + (
                unit.rows > len(TEXTS)
            )
    con.execute("CREATE TABLE found AS SELECT 'city' AS attribute, true AS discover")
    workload = Workload((mwem_sql.workload.Query(group_by=("city",)),))
    options = {"delta": 1e-6, "domain": "found", "unit": "person", "rows_per_unit": 20, "output": "o"}
    mwem_sql.release(con, there, workload, 100, **options)
    domain = store.load(con, "o", Session.of(con).place, "test").domain
    assert domain["city"].values == tuple(sorted(TEXTS, key=str.encode))
    answers = {row["cell"][0]: row["answer"] for row in mwem_sql.answer(con, "o", workload).to_pylist()}
    assert all(abs(answers[text] - 300) < 60 for text in TEXTS)


def arrow() -> pa.Table:
    people, cities = zip(*ROWS, strict=True)
    return pa.table({"person": pa.array(people, pa.int32()), "city": pa.array(cities, pa.string())})


def test_postgresql(connect: Any, postgresql: int) -> None:
    con = connect()
    with superuser(postgresql) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS visits")
        cursor.execute("CREATE TABLE visits (person INTEGER, city TEXT COLLATE ci)")
        cursor.adbc_ingest("arrived", arrow(), mode="replace")
        cursor.execute("INSERT INTO visits SELECT person, city FROM arrived")
        cursor.execute("GRANT SELECT ON visits TO reader")
        mwem_sql.attach(con, "w", f"postgresql://reader@127.0.0.1:{postgresql}/postgres")
        compared(con, "w.public.visits")
        cursor.execute("DROP TABLE visits")
        cursor.execute("DROP TABLE arrived")


def test_spark(connect: Any, spark: Any, tmp_path: Path) -> None:
    con = connect()
    folder = tmp_path / "visits"
    folder.mkdir()
    pq.write_table(arrow(), folder / "0.parquet")
    mwem_sql.attach(con, "w", spark)
    compared(con, f'w.parquet."{folder}"')
