"""The comparison: true answers beside released ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import Connection

import mwem_sql
from mwem_sql.workload import Query, Workload

TABLE = """
    CREATE TABLE t (
        age INTEGER CHECK (age BETWEEN 0 AND 11), sex ENUM ('M', 'F') NOT NULL, city VARCHAR CHECK (city IN ('Bern',
            'Genf')), ok BOOLEAN
    );
    INSERT INTO t
    SELECT CASE WHEN i % 13 < 12 THEN i % 13 END, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END, ['Bern', 'Genf',
        NULL][1 + i % 3], [true, false, NULL][1 + i % 5 % 3]
    FROM range(300) r(i)
"""


ASKED = Workload.from_predicates(["age > 6", "age BETWEEN 3 AND 5 AND sex = 'F'", "ok"]) + Workload(
    (Query(group_by=("city", "ok")),)
)


@pytest.fixture(scope="module", params=[False, True], ids=["last", "average"])
def released(request: pytest.FixtureRequest) -> Iterator[Connection]:
    con = mwem_sql.connect()
    con.execute(TABLE)
    mwem_sql.release(con, "t", ASKED, 3, rounds=4, average=request.param)
    con.execute("CREATE TABLE weights AS FROM mwem_weights('t_synthetic', ['age', 'sex', 'city', 'ok'])")
    yield con
    con.close()


def test_a_list_may_have_expressions(released: Connection) -> None:
    released.execute("CREATE OR REPLACE TABLE asked AS SELECT ['sex', 'age // 6'] AS group_by")
    found = released.execute("SELECT cell, true_answer FROM mwem_compare('t', 't_synthetic', asked)").fetchall()
    true = released.execute("SELECT [sex::VARCHAR, (age // 6)::VARCHAR], count(*) FROM t GROUP BY ALL").fetchall()
    assert sorted(map(str, found)) == sorted(str((cell, float(rows))) for cell, rows in true)


def test_the_comparison_has_the_truth(released: Connection) -> None:
    mwem_sql.release(released, "t", ASKED, 3, rounds=4, output="compared", seed=1)
    released.execute(
        "CREATE OR REPLACE TABLE asked AS SELECT unnest(['age > 6', 'age % 2 = 1', 'ok IS NULL', 'sex = ''F'' AND city "
        "= ''Bern''']) AS predicate"
    )
    found = released.execute(
        "SELECT name, true_answer, answer, error FROM mwem_compare('t', 'compared', asked)"
    ).fetchall()
    for name, truth, answer, error in found:
        assert released.execute(f"SELECT count(*) FROM t WHERE {name}").fetchall() == [(truth,)]
        assert error == pytest.approx(abs(truth - answer))
