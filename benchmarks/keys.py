"""How long the scan of a view along a key takes, beside DuckDB's own GROUP BY over the same join.

python benchmarks/keys.py --rows 10_000_000 --parents 1_000_000 --runs 5

Runs take turns, and medians of processor time are compared: other work may share the machine. The public join has no
unit. With a unit every scan ranks the rows of each, as it does in a flat table: that is what it is compared with.
"""

from __future__ import annotations

import argparse
import statistics
import time
from fractions import Fraction

import duckdb

import mwem_sql
from mwem_sql.kernel.budget import Budget
from mwem_sql.platform.session import Session
from mwem_sql.releases.plan import make_plan
from mwem_sql.releases.request import Request
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--parents", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    with mwem_sql.connect(":memory:") as con:
        for statement in (SETUP + ";" + ROWS.format(rows=given.rows, parents=given.parents)).split(";"):
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
            times = [(seconds(con, ours), seconds(con, theirs)) for _ in range(given.runs)]
            one, other = (statistics.median(side) for side in zip(*times, strict=True))
            ratios = sorted(a / b for a, b in times)
            print(f"{name}: {one:.2f} s over {other:.2f} s: {one / other:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
