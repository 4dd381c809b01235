"""Public totals are the same wherever the rows are: a table beside us, and nothing there is read for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from servers import superuser

import mwem_sql
from mwem_sql.errors import DomainError
from mwem_sql.workload import Workload

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore::FutureWarning")]

ROWS = pa.table({"region": ["N", "N", "N", "S", "S"] * 80, "age": pa.array([*range(100)] * 4, pa.int32())})


def compared(con: duckdb.DuckDBPyConnection, there: str) -> None:
    con.execute(
        """CREATE TABLE votes_domain (attribute VARCHAR, "values" VARCHAR[], low INTEGER, high INTEGER);
           INSERT INTO votes_domain VALUES ('region', ['N', 'S'], NULL, NULL), ('age', NULL, 0, 99);
           CREATE TABLE votes_known AS FROM (VALUES ('N', NULL, 240), ('S', NULL, 160), (NULL, 'age < 18', 72),
               (NULL, NULL, 400)) k(region, predicate, rows)"""
    )
    workload = Workload.from_rows([{"group_by": ["region", "age"]}])
    options = {"domain": "votes_domain", "known": "votes_known"}
    made = mwem_sql.release(con, there, workload, 1.0, output="o", **options)
    asked = Workload.from_predicates(["region = 'S'", "age < 18", "age >= 18 OR age IS NULL"])
    found = mwem_sql.answer(con, "o", asked).to_pylist()
    assert [(row["answer"], row["low"], row["high"]) for row in found] == [(rows,) * 3 for rows in (160, 72, 328)]
    assert made.rows == 400
    con.execute("INSERT INTO votes_known VALUES ('N', 'age < 18', 73)")
    with pytest.raises(DomainError, match="at most 72"):
        mwem_sql.release(con, there, workload, 1.0, output="p", **options)


def test_postgresql(connect: Any, postgresql: int) -> None:
    con = connect()
    with superuser(postgresql) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS votes")
        cursor.adbc_ingest("votes", ROWS, mode="replace")
        cursor.execute("GRANT SELECT ON votes TO reader")
        connection.commit()
    mwem_sql.attach(con, "w", f"postgresql://reader@127.0.0.1:{postgresql}/postgres")
    compared(con, "w.public.votes")


def test_spark(connect: Any, spark: Any, tmp_path: Path) -> None:
    con = connect()
    folder = tmp_path / "votes"
    folder.mkdir()
    pq.write_table(ROWS, folder / "0.parquet")
    mwem_sql.attach(con, "w", spark)
    compared(con, f'w.parquet."{folder}"')
