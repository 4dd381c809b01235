"""Spark Connect: releases from a server in a process of its own, and a JVM that is killed in mid-release. Prints what a test reads.

A program of its own: a process that has a classic Spark session cannot have a remote one.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import servers
from random_tables import into_parquet, make
from test_differential import compared
from test_example import PEOPLE, printed

import mwem_sql
from mwem_sql.private.engines.spark import FilesSnapshot


def main() -> None:
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    con = mwem_sql.connect()
    con.execute("SET TimeZone = 'UTC'")
    facts: dict[str, Any] = {}
    with servers.spark_connect(folder) as (address, server):
        con.execute(f"CALL mwem_attach('w', '{address}')")
        facts["source"] = con.execute("SELECT kind, source FROM mwem_sources()").fetchall()

        def load(case: Any) -> str:
            into_parquet(case, folder / "rows")
            return f'w.parquet."{folder}/rows"'

        facts["compared"] = compared(con, load, 2, rows=50)
        (folder / "anywhere").mkdir()
        pq.write_table(PEOPLE, folder / "anywhere" / "0.parquet")
        facts["example"] = printed(folder, address, f'parquet."{folder}/anywhere"')
        into_parquet(make(5), folder / "people")
        con.execute(
            "CREATE TABLE people_domain (attribute VARCHAR, low VARCHAR, high VARCHAR); INSERT INTO people_domain VALUES ('person', '0', '40')"
        )
        con.execute("CREATE TABLE workload AS SELECT 'person > 20' AS predicate")
        call = f"""CALL mwem_release('w.parquet."{folder}/people"', workload, 1, rows := 5, domain := 'people_domain', output := 'OUTPUT')"""
        facts["released"] = con.execute(call.replace("OUTPUT", "first")).fetchall()[0][2]
        run, reads = FilesSnapshot.run, []

        def killed(self: FilesSnapshot, statement: str, rows: int) -> Any:
            reads.append(statement)
            server.kill()
            server.wait()
            return run(self, statement, rows)

        FilesSnapshot.run = killed  # type: ignore[method-assign]
        try:
            con.execute(call.replace("OUTPUT", "second"))
        except duckdb.Error as error:
            facts["error"] = str(error)
        facts["reads"] = len(reads)
        facts["ledger"] = con.execute("SELECT output, status FROM mwem_ledger() ORDER BY started").fetchall()
        facts["tables"] = con.execute("SELECT table_name FROM duckdb_tables() WHERE table_name = 'second'").fetchall()
        try:  # nobody listens there now: refused, and not waited for
            con.execute(f"CALL mwem_attach('again', '{address}')")
        except duckdb.Error as error:
            facts["gone"] = str(error)
        print(json.dumps(facts), flush=True)
    con.close()


if __name__ == "__main__":
    main()
