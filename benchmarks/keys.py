"""How long scans along keys take, of a view and of a release of several tables, beside an engine's own GROUP BY.

python benchmarks/keys.py --rows 10_000_000 --parents 1_000_000 --runs 5 --engines views,duckdb,postgres,spark

Runs take turns, and medians of processor time are compared, of client and server together: other work may share the
machine. The public join has no unit. With a unit every scan ranks the rows of each, as it does in a flat table: that is
what it is compared with. A level below the root is shown without ranks, too: then it is a GROUP BY over a join.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import duckdb

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "engines"))

import servers
from engines import Where, postgresql_process

import mwem_sql
from mwem_sql.kernel.budget import Budget
from mwem_sql.platform.session import Session
from mwem_sql.releases.levels import TablesRequest, plan_tree
from mwem_sql.releases.plan import make_plan
from mwem_sql.releases.request import Request
from mwem_sql.scan.dialects import DIALECTS
from mwem_sql.scan.pushdown import plan_pushdown
from mwem_sql.workload import Workload

SETUP = """
    CREATE TABLE person (pid INTEGER PRIMARY KEY, sex VARCHAR CHECK (sex IN ('F', 'M')),
        age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99));
    CREATE TABLE code (code INTEGER PRIMARY KEY, chapter INTEGER NOT NULL CHECK (chapter BETWEEN 0 AND 19));
    CREATE TABLE visit (pid INTEGER, code INTEGER, kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 4));
    CREATE TABLE mwem_keys (table_name VARCHAR, columns VARCHAR[], refers_to VARCHAR, refers_columns VARCHAR[]);
    INSERT INTO mwem_keys VALUES ('visit', ['pid'], 'person', ['pid']);
    CALL mwem_public('code');
    CREATE VIEW stay AS SELECT v.kind, p.sex, p.age FROM visit v JOIN person p USING (pid);
    CREATE TABLE flat (pid INTEGER, kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 4),
        sex VARCHAR CHECK (sex IN ('F', 'M')), age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99));
    CREATE VIEW coded AS SELECT v.kind, c.chapter FROM visit v JOIN code c USING (code)
"""
ROWS = """
    INSERT INTO person SELECT i, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END, hash(i) % 100 FROM range({parents}) t(i);
    INSERT INTO code SELECT i, hash(i) % 20 FROM range({parents}) t(i);
    INSERT INTO visit SELECT hash(i) % {parents}, hash(i + 7) % {parents}, i % 5 FROM range({rows}) t(i);
    INSERT INTO flat SELECT v.pid, v.kind, p.sex, p.age FROM visit v JOIN person p USING (pid)
"""
TREE_ROWS = """
    INSERT INTO tree.person SELECT i, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END, hash(i) % 100
    FROM range({parents}) t(i);
    INSERT INTO tree.visit SELECT hash(i) % {parents}, i % 5 FROM range({rows}) t(i)
"""
SERVER_ROWS = """
    INSERT INTO tree.person SELECT i, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END, i * 7919 % 100
    FROM generate_series(0, {parents} - 1) t(i);
    INSERT INTO tree.visit SELECT i::bigint * 7919 % {parents}, i % 5 FROM generate_series(0, {rows} - 1) t(i);
    ALTER TABLE tree.visit ADD FOREIGN KEY (pid) REFERENCES tree.person (pid);
    VACUUM ANALYZE tree.person;
    VACUUM ANALYZE tree.visit
"""
CODED = "SELECT kind, chapter, count(*) FROM visit JOIN code USING (code) GROUP BY ALL"
STAY = "SELECT kind, sex, age, count(*) FROM visit JOIN person USING (pid) GROUP BY ALL"


def statements(con: duckdb.DuckDBPyConnection, view: str, columns: list[str], unit: str | None) -> list[str]:
    """The scans of a release that asks for one marginal; without the one that counts units."""
    workload = Workload.from_rows([{"group_by": ", ".join(columns)}])
    request = Request(
        table=view, workload=workload, budget=Budget(Fraction(1)), rounds=1, unit=unit, rows_per_unit=5 if unit else 1
    )
    plan = make_plan(Session.of(con), request)
    part = plan.pushdown.parts[0]
    return [statement.sql("duckdb") for statement in part.statements]


def seconds(con: duckdb.DuckDBPyConnection, texts: list[str]) -> float:
    """Of all processors together."""
    started = time.process_time()
    for text in texts:
        con.execute(text).fetchall()
    return time.process_time() - started


TREE = """
    CREATE SCHEMA tree;
    CREATE TABLE tree.person (pid integer PRIMARY KEY, sex text NOT NULL CHECK (sex IN ('F', 'M')),
        age integer NOT NULL CHECK (age BETWEEN 0 AND 99));
    CREATE TABLE tree.visit (pid integer REFERENCES tree.person (pid),
        kind integer NOT NULL CHECK (kind BETWEEN 0 AND 4))
"""
NUMBERS = """SELECT sex, n, count(*) FROM (SELECT sex, least(coalesce(v.n, 0), 5) AS n FROM tree.person LEFT JOIN
    (SELECT pid, count(*) AS n FROM tree.visit GROUP BY pid) v ON v.pid = person.pid) t GROUP BY sex, n"""
JOINED = "SELECT kind, sex, age, count(*) FROM tree.visit JOIN tree.person USING (pid) GROUP BY kind, sex, age"
RANKED = """SELECT kind, sex, age, count(*) FROM (SELECT kind, sex, age, row_number() OVER (PARTITION BY pid ORDER BY
    {hash}) AS r FROM tree.visit JOIN tree.person USING (pid)) t WHERE r <= 5 GROUP BY kind, sex, age"""
HASHES = {
    "duckdb": "hash(pid, kind, sex, age), kind, sex, age",
    "postgres": "md5(concat(pid, ' ', kind, ' ', sex, ' ', age)), kind, sex, age",
    "spark": "xxhash64(pid, kind, sex, age), kind, sex, age",
}


def level_statements(con: duckdb.DuckDBPyConnection, prefix: str) -> tuple[str, str, str]:
    """The scans of two tables: of the root; of the table below, with rows of a unit and without."""
    rows = [{"of": "person", "group_by": "sex, visit"}, {"of": "visit", "group_by": "kind, sex, age"}]
    options = {"rows_per_unit": 5}
    request = TablesRequest.parse([f"{prefix}person", f"{prefix}visit"], Workload.from_rows(rows), 1, options)
    texts = []
    for one in plan_tree(Session.of(con), request).levels:
        plan, dialect = one.plan, DIALECTS[one.plan.relation.dialect]
        plain = plan_pushdown(plan.relation, plan.compiled.classes, plan.problem.kernel_queries, None, dialect)
        texts += [dialect.sql(pushdown.parts[0].statements[0]) for pushdown in (plain, plan.pushdown)]
    root, _, joined, ranked = texts
    return root, ranked, joined


def compare_levels(
    place: Where, con: duckdb.DuckDBPyConnection, prefix: str, runs: int, run: Callable[[str], object]
) -> None:
    """The engine's own SQL runs with its own settings, ours as a release runs it."""
    root, ranked, joined = level_statements(con, prefix)
    pairs = {
        "persons with numbers of visits, over the same": (root, NUMBERS),
        "visits with persons, over the same": (joined, JOINED),
        "visits with persons, 5 of each, over the same": (ranked, RANKED.format(hash=HASHES[place.name])),
    }
    for name, (ours, theirs) in pairs.items():
        times = [(place.took(partial(run, ours)), place.took(partial(place.bare, theirs))) for _ in range(runs)]
        show(f"{place.name}, {name}", times)


def in_duckdb(rows: int, parents: int, runs: int) -> None:
    with mwem_sql.connect(":memory:") as con:
        for statement in (TREE + ";" + TREE_ROWS.format(rows=rows, parents=parents)).split(";"):
            con.execute(statement)
        place = Where("duckdb", "", lambda text: con.cursor().sql(text).to_arrow_table())
        compare_levels(place, con, "tree.", runs, place.bare)


def in_postgresql(rows: int, parents: int, runs: int) -> None:
    from adbc_driver_postgresql import dbapi  # noqa: PLC0415

    from mwem_sql.scan.engines.postgresql import PostgreSQL  # noqa: PLC0415

    with servers.postgresql() as port, mwem_sql.connect(":memory:") as con:
        uri = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            texts = (
                TREE.replace("REFERENCES tree.person (pid)", "") + ";" + SERVER_ROWS.format(rows=rows, parents=parents)
            )
            for statement in texts.split(";"):
                cursor.execute(statement)

        def bare(text: str) -> object:
            with dbapi.connect(uri, autocommit=True) as own, own.cursor() as inner:
                inner.execute(text)
                return inner.fetch_arrow_table()

        mwem_sql.attach(con, "pg", uri)
        engine = PostgreSQL.of_uri(uri, None)

        def ours(text: str) -> object:
            with engine.snapshot() as snapshot:
                return list(snapshot.run(text, 1))

        compare_levels(Where("postgres", "", bare, postgresql_process(port)), con, "pg.tree.", runs, ours)
        mwem_sql.detach(con, "pg")


KEYS = """
    CREATE TABLE mwem_keys (table_name VARCHAR, columns VARCHAR[], refers_to VARCHAR, refers_columns VARCHAR[]);
    INSERT INTO mwem_keys VALUES ('visit', ['pid'], 'person', ['pid']);
    CREATE TABLE person_domain AS SELECT * FROM (VALUES ('sex', ['F', 'M'], NULL, NULL), ('age', NULL, 0, 99))
        t(attribute, "values", low, high);
    CREATE TABLE visit_domain AS SELECT 'kind' AS attribute, 0 AS low, 4 AS high
"""
SPARK_ROWS = """
    CREATE DATABASE tree;
    CREATE TABLE tree.person USING parquet AS
    SELECT CAST(id AS INT) AS pid, if(id % 3 = 0, 'F', 'M') AS sex, CAST(id * 7919 % 100 AS INT) AS age
    FROM range({parents});
    CREATE TABLE tree.visit USING parquet AS
    SELECT CAST(id * 7919 % {parents} AS INT) AS pid, CAST(id % 5 AS INT) AS kind FROM range({rows})
"""
ONCE = """(SELECT pid, any_value(sex) AS sex, any_value(age) AS age FROM tree.person WHERE pid IS NOT NULL
    GROUP BY pid HAVING count(*) = 1) person"""


def in_spark(rows: int, parents: int, runs: int) -> None:
    """Spark keeps no key: our statements ask that no other row has one, and Spark's own are shown with that, too."""
    from mwem_sql.scan.engines.spark import Spark  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder, servers.spark(Path(folder)) as session, mwem_sql.connect() as con:
        for statement in SPARK_ROWS.format(rows=rows, parents=parents).split(";"):
            session.sql(statement)
        con.execute(KEYS)
        mwem_sql.attach(con, "s", session)
        root = int(session.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # noqa: SLF001
        place = Where("spark", "", lambda text: session.sql(text).toArrow(), root)
        engine = Spark.of_session(session, None)
        with engine.snapshot() as snapshot:
            snapshot.describe_all([["tree", "person"], ["tree", "visit"]], "benchmark")

            def ours(text: str) -> object:
                return list(snapshot.run(text, 1))

            compare_levels(place, con, "s.tree.", runs, ours)
            for name, texts in unique_too(con).items():
                times = [
                    (place.took(partial(ours, texts[0])), place.took(partial(place.bare, texts[1])))
                    for _ in range(runs)
                ]
                show(f"{place.name}, {name}", times)
        mwem_sql.detach(con, "s")


def unique_too(con: duckdb.DuckDBPyConnection) -> dict[str, tuple[str, str]]:
    """Our scans beside Spark's own of the same rows: those whose key no other row has."""
    root, ranked, joined = level_statements(con, "s.tree.")
    own = [text.replace("tree.person", ONCE, 1) for text in (NUMBERS, JOINED, RANKED.format(hash=HASHES["spark"]))]
    names = ("persons with numbers of visits", "visits with persons", "visits with persons, 5 of each")
    return {
        f"{name}, over the same of keys that are there once": pair
        for name, pair in zip(names, zip((root, joined, ranked), own, strict=True), strict=True)
    }


def show(name: str, times: list[tuple[float, float]]) -> None:
    one, other = (statistics.median(side) for side in zip(*times, strict=True))
    ratios = sorted(a / b for a, b in times)
    print(
        f"{name}: {one:.2f} s over {other:.2f} s: {one / other:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--parents", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--engines", default="views,duckdb,postgres")
    given = parser.parse_args()
    engines = {"views": in_views, "duckdb": in_duckdb, "postgres": in_postgresql, "spark": in_spark}
    for name in given.engines.split(","):
        engines[name](given.rows, given.parents, given.runs)


def in_views(rows: int, parents: int, runs: int) -> None:
    with mwem_sql.connect(":memory:") as con:
        for statement in (SETUP + ";" + ROWS.format(rows=rows, parents=parents)).split(";"):
            con.execute(statement)
        asked = ["kind", "sex", "age"]
        by_person = statements(con, "stay", asked, "person")
        pairs = {
            "join of a public table, no unit, over a bare GROUP BY": (
                statements(con, "coded", ["kind", "chapter"], None), [CODED],
            ),
            "join by person, over the flat table by pid": (by_person, statements(con, "flat", asked, "pid")),
            "join by person, over a bare GROUP BY": (by_person, [STAY]),
        }  # fmt: skip
        for name, (ours, theirs) in pairs.items():
            assert len(ours) == 1
            times = [(seconds(con, ours), seconds(con, theirs)) for _ in range(runs)]
            show(name, times)


if __name__ == "__main__":
    main()
