"""What scans cost on each engine, beside that engine's own SQL: processor time of client and server together, and bytes
to the client.

python benchmarks/engines.py --rows 1000000 --engines duckdb,file,postgres,spark [--write results.json]
python benchmarks/engines_report.py results.json docs  # the tables, the fit and the plot of docs/scale.md
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "engines"))

import servers

import mwem_sql
from mwem_sql.boundary import relations
from mwem_sql.compile.compiled import Compiled
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.scan import execution
from mwem_sql.scan.dialects import DIALECTS
from mwem_sql.scan.pushdown import plan_pushdown
from mwem_sql.workload import Query, Workload

SIZES = {"a": 2, "b": 5, "c": 7, "d": 8, "e": 3, "f": 4, "g": 10, "h": 6}
LISTED = "abcd"  # texts; the others are whole numbers
PREDICATES = 10_000
SAMPLE = 50
TICK = os.sysconf("SC_CLK_TCK")
ROWS = """
    SELECT {columns}, (hash(i, 9) % 1000000)::DOUBLE / 7 AS pay FROM range({start}, {stop}) AS t(i)"""


def rows_sql(start: int, stop: int) -> str:
    """Rows of which some ten thousand of the 403,200 combinations occur: columns follow a common cause."""
    columns = []
    for k, (name, size) in enumerate(SIZES.items()):
        value = f"((hash(i, 1) % 40) * {k + 3} + (hash(i, {k + 2}) % 2) * (hash(i, {k + 20}) % {size})) % {size}"
        columns.append(f"'v' || ({value}) AS {name}" if name in LISTED else f"({value})::SMALLINT AS {name}")
    return ROWS.format(columns=", ".join(columns), start=start, stop=stop)


def domain() -> Domain:
    attributes = [
        (
            Attribute(name, "VARCHAR", nullable=False, values=tuple(f"v{k}" for k in range(size)))
            if name in LISTED
            else Attribute(name, "SMALLINT", nullable=False, low=0, high=size - 1)
        )
        for name, size in SIZES.items()
    ]
    attributes.append(Attribute("pay", "DOUBLE", nullable=False, low=0.0, high=150_000.0))
    return Domain("rows", tuple(own.name for own in attributes), tuple(attributes))


def workloads() -> dict[str, Compiled]:
    cuboids = [Query(group_by=names) for k in (1, 2, 3) for names in combinations(SIZES, k)]
    predicates = [Query(f"pay < {k * 142857 / PREDICATES!r} AND a = 'v{k % 2}'") for k in range(1, PREDICATES + 1)]
    with Sandbox({"TimeZone": "UTC"}) as sandbox:
        return {
            "cuboids": compile_workload(domain(), Workload(tuple(cuboids)), sandbox),
            "predicates": compile_workload(domain(), Workload(tuple(predicates)), sandbox),
        }


def processor(root: int | None) -> float:
    """Seconds of a processor that this process, and the server with all that it started, have used so far."""
    own = time.process_time()
    if root is None:
        return own
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
        used[int(folder.name)] = sum(map(int, fields[11:15])) / TICK
    total = own
    for number, seconds in used.items():
        above = number
        while above and above != root:
            above = parents.get(above, 0)
        total += seconds if above == root else 0.0
    return total


class Where:
    """One engine: its connection, the private name of its rows, how to run its own SQL, and the server's process."""

    def __init__(self, name: str, private: str, bare: Callable[[str], object], root: int | None = None) -> None:
        self.name, self.private, self.bare, self.root = name, private, bare, root

    def took(self, work: Callable[[], object]) -> float:
        before = processor(self.root)
        work()
        return processor(self.root) - before


@contextmanager
def in_duckdb(con: duckdb.DuckDBPyConnection, rows: int, _folder: Path) -> Iterator[Where]:
    con.execute("CREATE OR REPLACE TABLE rows AS " + rows_sql(0, rows))
    yield Where("duckdb", "curator.main.rows", lambda text: con.cursor().sql(text).to_arrow_table())


@contextmanager
def in_file(con: duckdb.DuckDBPyConnection, rows: int, folder: Path) -> Iterator[Where]:
    with duckdb.connect(str(folder / "apart.duckdb")) as own:
        own.execute("CREATE TABLE rows AS " + rows_sql(0, rows))
    mwem_sql.attach(con, "apart", folder / "apart.duckdb")
    bare = con.cursor()  # the same file cannot be opened twice: bare SQL runs on a copy in this instance
    bare.execute("CREATE OR REPLACE TABLE copy AS " + rows_sql(0, rows))
    yield Where(
        "file", "apart.rows", lambda text: bare.cursor().sql(text.replace("FROM rows", "FROM copy")).to_arrow_table()
    )
    mwem_sql.detach(con, "apart")


def postgresql_process(port: int) -> int:
    """The server's first process."""
    lines = {path: path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")}
    return next(
        int(path.parent.name)
        for path, line in lines.items()
        if f"-p\0{port}\0".encode() in line and b"postgres" in line
    )


@contextmanager
def in_postgresql(con: duckdb.DuckDBPyConnection, rows: int, _folder: Path) -> Iterator[Where]:
    from adbc_driver_postgresql import dbapi  # noqa: PLC0415

    with servers.postgresql() as port:
        uri = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            for start in range(0, rows, 1_000_000):
                made = con.cursor().sql(rows_sql(start, min(rows, start + 1_000_000))).to_arrow_table()
                cursor.adbc_ingest("rows", made, mode="create_append")
            cursor.execute("ANALYZE rows")
            cursor.execute("SELECT pg_postmaster_start_time()::text AS t")
            cursor.fetch_arrow_table()
            root = postgresql_process(port)

            def bare(text: str) -> object:
                with dbapi.connect(uri, autocommit=True) as own, own.cursor() as inner:
                    inner.execute(text)
                    return inner.fetch_arrow_table()

            mwem_sql.attach(con, "pg", uri)
            yield Where("postgres", "pg.public.rows", bare, root)
            mwem_sql.detach(con, "pg")


@contextmanager
def in_spark(con: duckdb.DuckDBPyConnection, rows: int, folder: Path) -> Iterator[Where]:
    (folder / "rows").mkdir()
    step = max(1, -(-rows // 8))
    for start in range(0, rows, step):
        made = rows_sql(start, min(rows, start + step))
        con.cursor().execute(f"COPY ({made}) TO '{folder}/rows/{start}.parquet'")
    with servers.spark(folder) as session:
        session.read.parquet(str(folder / "rows")).createOrReplaceTempView("rows")
        root = int(session.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # noqa: SLF001
        session.sql("SELECT count(*) FROM rows").toArrow()
        mwem_sql.attach(con, "spark", session)
        yield Where("spark", f'spark.parquet."{folder}/rows"', lambda text: session.sql(text).toArrow(), root)
        mwem_sql.detach(con, "spark")


ENGINES = {"duckdb": in_duckdb, "file": in_file, "postgres": in_postgresql, "spark": in_spark}


class Counted:
    """An engine whose batches are weighed on their way."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.timeout, self.bytes, self.statements = inner, None, 0, 0

    @contextmanager
    def snapshot(self) -> Iterator[Any]:
        with self.inner.snapshot() as snapshot:
            run = snapshot.run

            def weighed(statement: str, rows: int) -> Iterator[pa.RecordBatch]:
                self.statements += 1
                for batch in run(statement, rows):
                    self.bytes += batch.nbytes
                    yield batch

            snapshot.run = weighed
            yield snapshot


def measured(con: duckdb.DuckDBPyConnection, place: Where, made: dict[str, Compiled], repeat: int) -> dict[str, Any]:
    from mwem_sql.scan.engines.duckdb import SameInstance  # noqa: PLC0415

    relation = relations.describe(con.cursor(), place.private, Place.of(con.cursor()), "benchmark")
    columns = ", ".join(SIZES)
    tests = ", ".join(
        f"count(CASE WHEN pay < {k * 142857 / PREDICATES!r} AND a = 'v{k % 2}' THEN 1 END) AS n{k}"
        for k in range(1, SAMPLE + 1)
    )
    bare = {
        "cuboids": (f"SELECT {columns}, count(*) AS n FROM rows GROUP BY {columns}", 1),
        "predicates": (f"SELECT {tests} FROM rows", PREDICATES / SAMPLE),
    }
    out: dict[str, Any] = {"engine": place.name}
    for work, compiled in made.items():
        queries = [query.linear for query in compiled.queries]
        pushdown = plan_pushdown(relation, compiled.classes, queries, None, DIALECTS[relation.dialect])
        rows = execution.engine_of(con.cursor(), relation)
        counted = Counted(SameInstance(rows) if isinstance(rows, duckdb.DuckDBPyConnection) else rows)
        held = execution.as_described(relation, "benchmark")
        statement, scale = bare[work]
        ours, own = [], []
        for _ in range(repeat):  # in turns: what else the machine does meets both
            ours.append(place.took(lambda: execution.true_answers(counted, pushdown, held)))  # type: ignore[arg-type]  # noqa: B023
            own.append(place.took(lambda: place.bare(statement)) * scale)  # noqa: B023
        out[work] = {"ours": ours, "bare": own, "bytes": counted.bytes // repeat, "scans": counted.statements // repeat}
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--repeat", type=int, default=4)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    made = workloads()
    found = []
    for name in options.engines.split(","):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mwem-engines-")))
            con = stack.enter_context(mwem_sql.connect(str(folder / "curator.duckdb")))
            place = stack.enter_context(ENGINES[name](con, options.rows, folder))
            row = {"rows": options.rows, **measured(con, place, made, options.repeat)}
            found.append(row)
            for work in made:
                own = row[work]
                ours, bare = min(own["ours"]), min(own["bare"])
                print(
                    f"{name:9} {options.rows:>12,} rows  {work:10}  ours {ours:8.3f} s  bare {bare:10.3f} s  "
                    f"ratio {ours / bare:7.4f}  {own['bytes']:>10,} bytes  {own['scans']} scans",
                    flush=True,
                )
    if options.write:
        earlier = json.loads(options.write.read_text(encoding="utf-8")) if options.write.exists() else []
        options.write.write_text(json.dumps([*earlier, *found], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
