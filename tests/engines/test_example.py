"""One script, changed in one line, releases the same table from DuckDB, PostgreSQL and Spark: examples/anywhere.py.

Spark's part is in connect.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import servers

SCRIPT = Path(__file__).parents[2] / "examples" / "anywhere.py"
PRINTED = ["[('F', True), ('M', True)]", "[(0.5, 'done')]"]
PEOPLE = pa.table(
    {"age": pa.array([i % 90 for i in range(600)], pa.int32()), "sex": ["F" if i % 3 else "M" for i in range(600)]}
)


def printed(folder: Path, source: str, table: str) -> list[str]:
    found = subprocess.run(
        [sys.executable, SCRIPT, source, table], cwd=folder, capture_output=True, text=True, check=False, timeout=600
    )
    assert found.returncode == 0, found.stderr[-2000:]
    return found.stdout.splitlines()


@pytest.mark.thorough
def test_from_a_duckdb_file(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "census.duckdb")) as con:
        con.execute("CREATE TABLE people (age INTEGER, sex VARCHAR)")
        con.from_arrow(PEOPLE).insert_into("people")
    assert printed(tmp_path, str(tmp_path / "census.duckdb"), "main.people") == PRINTED


@pytest.mark.engines
def test_from_postgresql(postgresql: int, tmp_path: Path) -> None:
    with servers.superuser(postgresql) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("people_anywhere", PEOPLE, mode="replace")
    uri = f"postgresql://postgres@127.0.0.1:{postgresql}/postgres"
    assert printed(tmp_path, uri, "public.people_anywhere") == PRINTED
