"""Private tables that several test files release, and what is asked of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

import mwem_sql
from mwem_sql.workload import Query, Workload

CITIES = """
    CREATE TABLE t (
        age INTEGER CHECK (age BETWEEN 0 AND 11), sex ENUM ('M', 'F') NOT NULL, city VARCHAR CHECK (city IN ('Bern',
            'Genf')), ok BOOLEAN
    );
    INSERT INTO t
    SELECT CASE WHEN i % 13 < 12 THEN i % 13 END, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END, ['Bern', 'Genf',
        NULL][1 + i % 3], [true, false, NULL][1 + i % 5 % 3]
    FROM range(300) r(i)
"""
OF_CITIES = Workload.from_predicates(["age > 6", "age BETWEEN 3 AND 5 AND sex = 'F'", "ok"]) + Workload(
    (Query(group_by=("city", "ok")),)
)
PAY = """
    CREATE TABLE t (age INTEGER CHECK (age BETWEEN 0 AND 11), sex ENUM ('M', 'F') NOT NULL, ok BOOLEAN,
        pay INTEGER NOT NULL CHECK (pay BETWEEN 0 AND 99));
    INSERT INTO t SELECT CASE WHEN i % 13 < 12 THEN i % 13 END, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END,
        [true, false, NULL][1 + i % 5 % 3], i % 60 FROM range(300) r(i)
"""
COLUMNS = {CITIES: ["age", "sex", "city", "ok"], PAY: ["age", "sex", "ok", "pay"]}


@contextmanager
def weighed(table: str, workload: Workload, *, average: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """A release of `CITIES` or `PAY`, and the weight of each combination of values as the table `weights`."""
    with mwem_sql.connect() as con:
        con.execute(table)
        made = mwem_sql.release(con, "t", workload, 3, rounds=4, average=average)
        con.execute("CREATE TABLE weights AS FROM mwem_weights(?, ?)", [made.output, COLUMNS[table]])
        yield con
