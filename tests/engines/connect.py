"""Spark Connect: releases from a server in a process of its own, and a JVM that is killed in mid-release.

Prints what a test reads.

A program of its own: a process that has a classic Spark session cannot have a remote one.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import servers
from random_tables import into_parquet, make
from test_differential import compared
from test_example import PEOPLE, printed

import mwem_sql
from mwem_sql.boundary.files import keys_of
from mwem_sql.errors import MwemError
from mwem_sql.scan.engines.spark import FilesSnapshot, Spark


def identities(address: str, folder: Path) -> dict[str, Any]:
    """One folder under many spellings, tables renamed into each other, and settings of the user, through a server."""
    engine = Spark.of_remote(address, None)
    session = engine._session
    people = folder / "anywhere"
    (folder / "link").symlink_to(people)
    spellings = [
        f"{people}",
        f"{people}/",
        f"file:{people}",
        f"file://{people}",
        f"{folder}/link",
        f"{folder}/./link/../anywhere",
    ]
    found = [engine.describe(["parquet", spelling], "test") for spelling in spellings]
    write = pq.write_table
    for value in ("1", "[x]{a,b}*"):
        (folder / "parted" / f"k={value}").mkdir(parents=True)
        write(pa.table({"age": pa.array([1], pa.int32())}), folder / "parted" / f"k={value}" / "0.parquet")
    refused = []
    for spelling in (
        f"{people}*",
        f"{folder}/{{anywhere,none}}",
        f"viewfs:{people}",
        f"{people}/none",
        f"{folder}/parted",
    ):
        try:
            engine.describe(["parquet", spelling], "test")
        except MwemError as error:
            refused.append(str(error))
    for name, account in (("a", "aaaa"), ("b", "bbbb")):
        session.sql(f"CREATE TABLE {name} (age INT) USING parquet").collect()
        engine.mark(["default", name], "account", account)
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        session.sql(f"ALTER TABLE {old} RENAME TO {new}").collect()
    for name, value in (
        ("ansi.enabled", "true"),
        ("caseSensitive", "true"),
        ("sources.validatePartitionColumns", "true"),
    ):
        session.conf.set(f"spark.sql.{name}", value)
    session.sql(
        f"CREATE TABLE parted (age INT, k INT) USING parquet PARTITIONED BY (k) LOCATION '{folder}/parted'"
    ).collect()
    session.sql("MSCK REPAIR TABLE parted").collect()
    session.sql("CREATE TEMPORARY VIEW parted AS SELECT 1 AS age").collect()
    with engine.snapshot() as snapshot:
        facts = snapshot.describe(["PARTED"], "test")
        text = f"SELECT COUNT(*) AS n, COUNT(k) AS known FROM {facts.rows.sql('spark')}"
        (row,) = [row for batch in snapshot.run(text, 1) for row in batch.to_pylist()]
    marks = [engine.describe(["default", name], "test").mark for name in ("a", "b")]
    engine.close()
    own = {key for path in people.iterdir() for key in keys_of(str(path))}
    return {
        "accounts": len({facts.keys for facts in found}), "same files": own <= set(found[0].keys[0]),
        "refused": refused, "marks": marks,
        "settled": [*((column.name, column.type) for column in facts.columns), *row.values()], "left": 5 - len(refused),
    }  # fmt: skip


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
        facts |= identities(address, folder)
        into_parquet(make(5), folder / "people")
        con.execute(
            "CREATE TABLE people_domain (attribute VARCHAR, low VARCHAR, high VARCHAR); "
            "INSERT INTO people_domain VALUES ('person', '0', '40')"
        )
        con.execute("CREATE TABLE workload AS SELECT 'person > 20' AS predicate")
        options = "rows := 5, domain := 'people_domain', output := 'OUTPUT'"
        call = f"""CALL mwem_release('w.parquet."{folder}/people"', workload, 1, {options})"""
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
