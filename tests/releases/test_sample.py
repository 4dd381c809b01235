"""Rows of a stored release: as the model is distributed, also given a condition, whichever way they are drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from chance import sampled
from conftest import Connection
from released import PAY, weighed
from thresholds import lower

import mwem_sql
from mwem_sql.errors import OptionError
from mwem_sql.releases import sample
from mwem_sql.workload import Query, Workload

ASKED = Workload((Query(group_by=("age", "sex")), Query(group_by=("sex", "ok")), Query(predicate="pay < 30")))
ROWS = 20_000


@pytest.fixture(scope="module", params=[False, True], ids=["last", "average"])
def released(request: pytest.FixtureRequest) -> Iterator[Connection]:
    with weighed(PAY, ASKED, average=request.param) as con:
        yield con


CONDITIONS = [
    "sex = 'F'",
    "age BETWEEN 3 AND 8 AND pay >= 57",
    "age = 3 OR ok",
    "pay % 7 = 3 AND ok IS NULL",
    "age + pay > 70",
]


def distance(con: Connection, condition: str, rows: str) -> float:
    """The largest difference of shares, over all values of each column, and pairs of two, between sampled rows and
    the weights given the condition.
    """
    worst = 0.0
    for columns in ("age", "sex", "ok", "pay // 10", "age, sex", "sex, ok"):
        ((found,),) = con.execute(f"""
            WITH asked AS (SELECT ({columns}) AS k, sum(weight) / sum(sum(weight)) OVER ()
                AS p FROM weights WHERE {condition} GROUP BY 1),
                drawn AS (SELECT ({columns}) AS k, count(*) / sum(count(*)) OVER () AS p FROM {rows} GROUP BY 1)
            SELECT max(abs(coalesce(a.p, 0) - coalesce(d.p, 0))) FROM asked a FULL JOIN drawn d ON a.k IS
                NOT DISTINCT FROM d.k
        """).fetchall()
        worst = max(worst, found)
    return worst


@pytest.mark.parametrize("cells", [sample.MAX_CELLS, 0], ids=["restricted", "rejected"])
@pytest.mark.parametrize("condition", sampled(CONDITIONS, 3))
def test_rows_of_one_kind_are_as_the_model_says(
    released: Connection, monkeypatch: pytest.MonkeyPatch, condition: str, cells: int
) -> None:
    """By a state that is restricted, or, where that would be too large, by leaving rows out."""
    lower(monkeypatch, MAX_CELLS=cells)
    rows = mwem_sql.sample(released, "t_synthetic", rows=ROWS, given=condition, seed=5)
    released.register("drawn_rows", rows)
    assert rows.num_rows == ROWS
    assert released.execute(f"SELECT bool_and({condition}) FROM drawn_rows").fetchall() == [(True,)]
    # Five standard deviations of independent draws at a share of a half; systematic ones differ by less.
    assert distance(released, condition, "drawn_rows") < 5 * math.sqrt(0.25 / ROWS)


def test_all_rows_are_as_the_model_says(released: Connection) -> None:
    released.register("drawn_rows", mwem_sql.sample(released, "t_synthetic", rows=ROWS, seed=5))
    assert distance(released, "true", "drawn_rows") < 0.01


def test_a_seed_decides_and_sql_draws_the_same(released: Connection) -> None:
    asked = {"rows": 50, "given": "age > 4 AND sex = 'F'", "seed": 1}
    first = mwem_sql.sample(released, "t_synthetic", **asked)
    in_sql = released.sql("FROM mwem_sample('t_synthetic', rows := 50, given := 'age > 4 AND sex = ''F''', seed := 1)")
    assert first.equals(mwem_sql.sample(released, "t_synthetic", **asked))
    assert first.to_pylist() == in_sql.to_arrow_table().to_pylist()
    assert not first.equals(mwem_sql.sample(released, "t_synthetic", **{**asked, "seed": 2}))


def test_what_is_too_rare_to_be_found_is_given_up(released: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch, MAX_CELLS=0, MOST_DRAWN=2, LEAST_BATCH=64)
    with pytest.raises(OptionError, match=r"^mwem_sample: given \('age = 3 AND pay = 99'\) is true of next to no row"):
        mwem_sql.sample(released, "t_synthetic", rows=50, given="age = 3 AND pay = 99", seed=1)


def test_of_an_average_each_state_gives_what_it_has() -> None:
    """The first state is uniform, and has more of what is rare."""
    with mwem_sql.connect() as con:
        con.execute(
            "CREATE TABLE t (x INTEGER NOT NULL CHECK (x BETWEEN 0 AND 9), y BOOLEAN NOT NULL); INSERT INTO t SELECT "
            "CASE WHEN i % 50 > 0 THEN 3 ELSE 7 END, i % 50 > 0 FROM range(2000) r(i)"
        )
        workload = Workload((Query(group_by=("x",)), Query(group_by=("y",))))
        mwem_sql.release(con, "t", workload, 1000, rounds=12, average=True)
        ((expected,),) = con.execute(
            "SELECT sum(weight) FILTER (WHERE y) / sum(weight) FROM mwem_weights('t_synthetic', ['x', 'y']) WHERE x = 7"
        ).fetchall()
        ((everywhere,),) = con.execute(
            "SELECT sum(weight) FILTER (WHERE y) / sum(weight) FROM mwem_weights('t_synthetic', ['y'])"
        ).fetchall()
        rows = mwem_sql.sample(con, "t_synthetic", rows=4 * ROWS, given="x = 7", seed=1)
        tolerance = 5 * math.sqrt(expected * (1 - expected) / (4 * ROWS))
        assert sum(rows.column("y").to_pylist()) / (4 * ROWS) == pytest.approx(expected, abs=tolerance)
        assert abs(everywhere - expected) > tolerance


def test_values_inside_a_class_are_drawn_as_they_were_measured() -> None:
    """A condition that cuts a class keeps what is known of its pieces."""
    with mwem_sql.connect() as con:
        con.execute(
            "CREATE TABLE t (pay DOUBLE NOT NULL, ok BOOLEAN NOT NULL); CREATE TABLE t_domain AS SELECT 'pay' AS "
            "attribute, 0.0 AS low, 1000.0 AS high"
        )
        con.execute(
            "INSERT INTO t SELECT CASE WHEN i % 10 < 9 THEN 105 ELSE 505 END + (i % 4) / 4, i % 2 = 0 FROM range(4000) "
            "r(i)"
        )
        mwem_sql.release(con, "t", Workload.from_predicates(["pay < 800", "ok"]), 100)
        rows = mwem_sql.sample(con, "t_synthetic", rows=1000, given="pay BETWEEN 50 AND 600.5 AND ok", seed=1)
        pays = rows.column("pay").to_numpy()
        for low, share in ((95, 0.9), (495, 0.1)):
            drawn = ((pays > low) & (pays < low + 20)).mean()
            assert drawn == pytest.approx(share, abs=5 * math.sqrt(0.9 * 0.1 / 1000))
        assert rows.column("ok").to_pylist() == [True] * 1000
