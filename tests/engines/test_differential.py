"""The same rows give the same true answers wherever they are.

`python tests/engines/test_differential.py postgres 100000` is the campaign.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from random_tables import Case, into_duckdb, into_parquet, into_postgresql, make
from servers import SETUP, superuser

import mwem_sql
from mwem_sql.boundary import relations
from mwem_sql.boundary.relations import Relation
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.errors import MwemError
from mwem_sql.platform.catalog import Name, Place
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.scan import execution
from mwem_sql.scan.dialects import DIALECTS
from mwem_sql.scan.dialects.dialect import Unit
from mwem_sql.scan.pushdown import plan_pushdown

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore::FutureWarning")]

Load = Callable[[Case], str]
"""Puts the rows of a case into an engine, and says under which name they are private."""


def compared(con: duckdb.DuckDBPyConnection, load: Load, seed: int, rows: int = 500) -> int:
    """Answer a random workload here and there; how many answers were compared."""
    case = make(seed, rows)
    with Sandbox({"TimeZone": "UTC"}) as sandbox:
        try:
            compiled = compile_workload(case.domain, case.workload, sandbox)
        except MwemError:  # a random measure or domain that nobody could release
            return 0
    queries = [query.linear for query in compiled.queries]
    into_duckdb(con, case, "rows")
    here = plan_pushdown(Name("memory", "main", "rows"), compiled.classes, queries)
    expected = execution.true_answers(con.cursor(), here)
    relation = relations.describe(con.cursor(), load(case), Place("memory", "main"), "test")
    found = answers(con, relation, compiled.classes, queries)
    different = np.flatnonzero(found != expected)
    shown = [
        compiled.queries[int(np.searchsorted(here.starts, place, side="right")) - 1].label for place in different[:5]
    ]
    assert not different.size, (seed, shown, found[different[:5]], expected[different[:5]])
    # At most as many rows of a person as there are: all rows, ranked.
    bounded = answers(con, relation, compiled.classes, queries, Unit("person", rows, "INTEGER"))
    assert (bounded == expected).all(), seed
    logging.getLogger("engines").info("seed %d: %d answers", seed, expected.size)
    NON_ZERO.append(int(np.count_nonzero(expected)))
    return expected.size


NON_ZERO: list[int] = []
"""Of the answers of each table, those that are not 0."""


UNITS: list[list[int]] = []
"""The counts of units, call by call."""


def answers(
    con: duckdb.DuckDBPyConnection, relation: Relation, classes: Any, queries: Any, unit: Unit | None = None
) -> Any:
    pushdown = plan_pushdown(relation, classes, queries, unit, DIALECTS[relation.dialect])
    rows = execution.engine_of(con.cursor(), relation)
    found, units = pushdown.apart(execution.true_answers(rows, pushdown, execution.as_described(relation, "test")))
    UNITS.append(units.tolist())
    return found


@pytest.fixture
def con(connect: Any) -> duckdb.DuckDBPyConnection:
    con: duckdb.DuckDBPyConnection = connect()
    con.execute("SET TimeZone = 'UTC'")
    return con


def in_postgresql(con: duckdb.DuckDBPyConnection, port: int, cursor: Any) -> Load:
    mwem_sql.attach(con, "w", f"postgresql://reader@127.0.0.1:{port}/postgres")

    def load(case: Case) -> str:
        into_postgresql(cursor, case, "rows")
        cursor.execute('GRANT SELECT ON "rows" TO reader')
        return "w.public.rows"

    return load


def in_spark(con: duckdb.DuckDBPyConnection, session: Any, folder: Path, alias: str = "w") -> Load:
    mwem_sql.attach(con, alias, session)
    number = iter(range(10**9))

    def load(case: Case) -> str:
        own = folder / str(next(number))
        into_parquet(case, own)
        return f'{alias}.parquet."{own}"'

    return load


def in_file(con: duckdb.DuckDBPyConnection, folder: Path) -> Load:
    number = iter(range(10**9))

    def load(case: Case) -> str:
        k = next(number)
        with duckdb.connect(str(folder / f"{k}.duckdb")) as own:
            into_duckdb(own, case, "rows")
        if k:
            mwem_sql.detach(con, "w")
        mwem_sql.attach(con, "w", folder / f"{k}.duckdb")
        return "w.rows"

    return load


tables = pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 6), marks=pytest.mark.thorough)])


@tables
def test_postgresql_agrees_with_duckdb(con: duckdb.DuckDBPyConnection, postgresql: int, seeds: range) -> None:
    with superuser(postgresql) as connection, connection.cursor() as cursor:
        load = in_postgresql(con, postgresql, cursor)
        assert sum(compared(con, load, seed) for seed in seeds) > 300 * len(seeds)


@pytest.mark.parametrize("ansi", ["true", pytest.param("false", marks=pytest.mark.thorough)])
def test_spark_agrees_with_duckdb(con: duckdb.DuckDBPyConnection, spark: Any, tmp_path: Path, ansi: str) -> None:
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    load = in_spark(con, spark, tmp_path)
    assert sum(compared(con, load, seed) for seed in ((2,) if ansi == "true" else (3,))) > 100


@tables
def test_a_file_of_its_own_agrees_with_duckdb(con: duckdb.DuckDBPyConnection, tmp_path: Path, seeds: range) -> None:
    load = in_file(con, tmp_path)
    assert sum(compared(con, load, seed) for seed in seeds) > 300 * len(seeds)


@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.thorough)])
def test_postgresql_and_spark_keep_the_same_rows_of_a_unit(
    con: duckdb.DuckDBPyConnection, postgresql: int, spark: Any, tmp_path: Path, seed: int
) -> None:
    """Each counts two rows of a person, of those that have more: the same two."""
    with superuser(postgresql) as connection, connection.cursor() as cursor:
        loads = {"w": in_postgresql(con, postgresql, cursor), "v": in_spark(con, spark, tmp_path, "v")}
        case = make(seed, 300, queries=10)
        with Sandbox({"TimeZone": "UTC"}) as sandbox:
            compiled = compile_workload(case.domain, case.workload, sandbox)
        queries = [query.linear for query in compiled.queries]
        places = [
            relations.describe(con.cursor(), load(case), Place("memory", "main"), "test") for load in loads.values()
        ]
        unit = Unit("person", 2, "INTEGER")
        here, there = (answers(con, relation, compiled.classes, queries, unit) for relation in places)
        assert (here == there).all()
        assert UNITS[-2] == UNITS[-1] and UNITS[-1][1] > 0
        whole = answers(con, places[0], compiled.classes, queries)
        assert (here != whole).any(), "nothing was cut"


def main() -> None:
    """Compare answers until there are as many as asked for."""
    import servers  # noqa: PLC0415

    logging.basicConfig()
    logging.getLogger("engines").setLevel("INFO")
    kind, wanted = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    first, done, tables = seed, 0, 0
    folder = Path(tempfile.mkdtemp(prefix="mwem-differential-"))
    con = mwem_sql.connect()
    con.execute("SET TimeZone = 'UTC'")
    if kind == "postgres":
        with servers.postgresql() as port, superuser(port) as connection, connection.cursor() as cursor:
            for statement in SETUP:
                cursor.execute(statement)
            load = in_postgresql(con, port, cursor)
            while done < wanted:
                done, seed, tables = done + compared(con, load, seed), seed + 1, tables + 1
            mwem_sql.detach(con, "w")
    elif kind == "spark":
        with servers.spark(folder) as session:
            for ansi in ("true", "false"):
                session.conf.set("spark.sql.ansi.enabled", ansi)
                load = in_spark(con, session, folder / ansi)
                while done < wanted / (2 if ansi == "true" else 1):
                    done, seed, tables = done + compared(con, load, seed), seed + 1, tables + 1
                mwem_sql.detach(con, "w")
    else:
        load = in_file(con, folder)
        while done < wanted:
            done, seed, tables = done + compared(con, load, seed), seed + 1, tables + 1
    con.close()
    print(
        f"{kind}: {done:,} answers of {tables} tables compared, {sum(NON_ZERO):,} of them not 0, seeds {first} to "
        f"{seed - 1}: all the same"
    )


if __name__ == "__main__":
    main()
