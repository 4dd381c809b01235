"""The comparison: true answers beside released ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import Connection
from released import CITIES, OF_CITIES, weighed

import mwem_sql


@pytest.fixture(scope="module", params=[False, True], ids=["last", "average"])
def released(request: pytest.FixtureRequest) -> Iterator[Connection]:
    with weighed(CITIES, OF_CITIES, average=request.param) as con:
        yield con


def test_a_list_may_have_expressions(released: Connection) -> None:
    released.execute("CREATE OR REPLACE TABLE asked AS SELECT ['sex', 'age // 6'] AS group_by")
    found = released.execute("SELECT cell, true_answer FROM mwem_compare('t', 't_synthetic', asked)").fetchall()
    true = released.execute("SELECT [sex::VARCHAR, (age // 6)::VARCHAR], count(*) FROM t GROUP BY ALL").fetchall()
    assert sorted(map(str, found)) == sorted(str((cell, float(rows))) for cell, rows in true)


def test_the_comparison_has_the_truth(released: Connection) -> None:
    mwem_sql.release(released, "t", OF_CITIES, 3, rounds=4, output="compared", seed=1)
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
