"""Quantiles of a stored release: those of its weights, and intervals that hold over releases."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

import numpy as np
import pytest
from conftest import Connection
from hypothesis import given, settings
from hypothesis import strategies as st
from released import PAY, weighed
from thresholds import lower

import mwem_sql
from mwem_sql.domains.attribute import Attribute
from mwem_sql.releases.quantile import _Counted, _row, _Stretches
from mwem_sql.workload import Query, Workload

ASKED = Workload((Query(group_by=("age",)), Query(group_by=("sex", "ok")), Query(predicate="pay < 30")))


@pytest.fixture(scope="module", params=[False, True], ids=["last", "average"])
def released(request: pytest.FixtureRequest) -> Iterator[Connection]:
    with weighed(PAY, ASKED, average=request.param) as con:
        yield con


conditions = st.sampled_from(
    [None, "sex = 'F'", "ok IS NULL", "age BETWEEN 3 AND 8", "age > 2 OR ok", "pay >= 30", "pay % 2 = 0 AND sex = 'M'"]
)


@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from(["age", "pay", "sex"]), st.lists(st.floats(0.01, 0.99), min_size=1, max_size=4, unique=True),
    conditions
)  # fmt: skip
def test_a_quantile_is_that_of_the_weights(
    released: Connection, column: str, shares: list[float], condition: str | None
) -> None:
    found = mwem_sql.quantile(released, "t_synthetic", column, shares, given=condition).to_pylist()
    below = released.execute(
        f"SELECT {column}, sum(sum(weight)) OVER (ORDER BY {column}) / sum(sum(weight)) OVER () FROM weights WHERE "
        f"{column} IS NOT NULL AND ({condition or 'true'}) GROUP BY 1 ORDER BY 1"
    ).fetchall()
    last = below[-1][0]
    order = [value for (value,) in released.execute(f"SELECT DISTINCT {column} FROM weights ORDER BY 1").fetchall()]
    for share, row in zip(shares, found, strict=True):
        # Where a sum of weights is the share but for rounding, it may be the value or the next.
        possible = {
            next(value for value, up_to in below if up_to >= share + slack or value == last) for slack in (-1e-6, 1e-6)
        }
        assert row["share"] == share
        assert row["answer"] in possible
        assert order.index(row["low"]) <= order.index(row["answer"]) <= order.index(row["high"])


COLUMNS = ("a", "b", "c", "d", "e")
SURE = 0.99


@pytest.mark.parametrize(
    "releases", [3, pytest.param(6, marks=pytest.mark.thorough), pytest.param(20, marks=pytest.mark.campaign)]
)
def test_intervals_hold_over_releases(releases: int) -> None:
    """Noise of columns that are asked apart is independent, and so is that of releases: misses are no more than
    chance allows.
    """
    listed = ", ".join(f"{name} INTEGER NOT NULL CHECK ({name} BETWEEN 0 AND 29)" for name in COLUMNS)
    generator = np.random.default_rng(7)
    missed, widths, direct = 0, [], 0
    with mwem_sql.connect() as con:
        con.execute(f"CREATE TABLE t ({listed})")
        rows = np.minimum(generator.geometric([0.2, 0.14, 0.1, 0.08, 0.06], (500, 5)) - 1, 29)
        con.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows.tolist())
        workload = Workload(tuple(Query(group_by=(name,)) for name in COLUMNS))
        for number in range(releases):
            mwem_sql.release(con, "t", workload, 0.6, version=str(number), certify=0)
            share = (0.12, 0.88, 0.5)[number % 3]
            for name in COLUMNS:
                (row,) = mwem_sql.quantile(con, "t_synthetic", name, share, confidence=SURE).to_pylist()
                ((truth,),) = con.execute(f"SELECT quantile_disc({name}, ?) FROM t", [share]).fetchall()
                missed += not row["low"] <= truth <= row["high"]
                widths.append(row["high"] - row["low"])
                direct += row["measured"] == "directly"
    asked = releases * len(COLUMNS)
    allowed = next(k for k in range(asked) if _beyond(k, asked, 1 - SURE) < 1e-6)
    print(f"\n{asked - missed} of {asked} covered, half of them no wider than {np.median(widths):g}")
    assert missed <= allowed
    # They are no wider than noise calls for: of 30 values it takes some.
    assert direct == asked
    assert np.median(widths) < 20


def _beyond(most: int, count: int, chance: float) -> float:
    """The chance that more than `most` of `count` happen."""
    return sum(comb(count, k) * chance**k * (1 - chance) ** (count - k) for k in range(most + 1, count + 1))


def stretches(ends: list[int]) -> _Stretches:
    lows = np.array([0, *(end + 1 for end in ends[:-1])])
    return _Stretches(attribute=Attribute("x", "INTEGER", False, low=0, high=ends[-1]), lows=lows, highs=np.array(ends))


def counted(low: list[float], model: list[float], high: list[float], rows: float) -> _Counted:
    """Rows at most at each end but the last; above, the rest of exactly so many."""

    def both(counts: list[float], others: list[float], off: float) -> np.ndarray:
        return np.array(
            [part for own, other in zip(counts, others, strict=True) for part in (own, rows - other)] + [rows, off]
        )

    return _Counted(both(model, model, 0), both(low, high, 0), both(high, low, 0), ["directly"] * (2 * len(model) + 2))


def test_high_is_where_all_lower_ends_reach() -> None:
    """Lower ends need not grow: the last that does not reach decides. Upper ends: the first that does."""
    own = counted([10, 60, 40, 70], [20, 65, 66, 75], [30, 70, 49, 80], 100)
    row = _row(stretches([9, 19, 29, 39, 49]), 0.5, own, None)
    assert (row["low"], row["high"]) == ("10", "39")
    assert row["answer"] == "16"  # two thirds of the stretch from 10 to 19


def test_what_is_off_an_open_list_may_be_anywhere() -> None:
    own = counted([10, 50, 60, 90], [10, 50, 60, 90], [10, 50, 60, 90], 100)
    surely = _row(stretches([9, 19, 29, 39, 49]), 0.55, own, None)
    off_list = _Counted(own.model, own.low, np.append(own.high[:-1], 30.0), own.measured)
    openly = _row(stretches([9, 19, 29, 39, 49]), 0.55, off_list, None)
    assert (surely["low"], surely["high"]) == ("20", "29")
    assert (openly["low"], openly["high"]) == ("10", "39")
    assert surely["answer"] == openly["answer"]


def test_values_off_the_domain_have_no_end() -> None:
    """Below or above the bounds, or off a list: the interval is open on that side, and the answer is within the
    domain.
    """
    with mwem_sql.connect() as con:
        con.execute("""
            CREATE TABLE t (x INTEGER NOT NULL, y DOUBLE NOT NULL, k INTEGER NOT NULL);
            INSERT INTO t SELECT i % 120, CASE WHEN i % 10 = 0 THEN -50 WHEN i % 10 = 1 THEN 5000 ELSE i % 1000 END,
                [2, 10, 33, 77][1 + i % 4] FROM range(12000) r(i);
            CREATE TABLE t_domain (attribute VARCHAR, low VARCHAR, high VARCHAR, bins INTEGER, "values" VARCHAR[]);
            INSERT INTO t_domain VALUES ('x', '10', '99', NULL, NULL), ('y', '0', '1000', 20, NULL), ('k', NULL, NULL,
                NULL, ['33', '2', '10'])
        """)
        mwem_sql.release(con, "t", Workload(tuple(Query(group_by=(name,)) for name in "xyk")), 1000)

        def ends(column: str, share: float) -> tuple[object, object, object]:
            (row,) = mwem_sql.quantile(con, "t_synthetic", column, share).to_pylist()
            return row["low"], row["answer"], row["high"]

        assert [ends("x", share) for share in (0.05, 0.501, 0.95)] == [(None, 10, 10), (60, 60, 60), (99, 99, None)]
        assert ends("y", 0.05) == (None, 0.0, 0.0)
        assert ends("y", 0.95) == (1000.0, 1000.0, None)
        # A quarter of the rows is off the list: they may be anywhere, so that little is known of a quantile, and
        # nothing of the last.
        assert [ends("k", share) for share in (0.1, 0.4, 0.6, 0.95)] == [
            (None, 2, 2),
            (2, 10, 10),
            (10, 10, 33),
            (33, 33, None),
        ]


def test_a_column_of_many_values_is_asked_in_fewer_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends of intervals are coarser then, and still hold what the finer ones do."""
    with mwem_sql.connect() as con:
        con.execute(
            "CREATE TABLE t (x INTEGER NOT NULL CHECK (x BETWEEN 0 AND 99)); INSERT INTO t SELECT i * i % 100 FROM "
            "range(5000) r(i)"
        )
        mwem_sql.release(con, "t", Workload((Query(group_by=("x",)),)), 10_000)
        (fine,) = mwem_sql.quantile(con, "t_synthetic", "x", 0.6).to_pylist()
        lower(monkeypatch, MOST_STRETCHES=10)
        (coarse,) = mwem_sql.quantile(con, "t_synthetic", "x", 0.6).to_pylist()
    assert (fine["answer"], fine["low"], fine["high"]) == (44, 44, 44)
    assert (coarse["low"], coarse["high"]) == (40, 49)


def test_real_numbers_end_at_round_ones_and_one_stretch_says_nothing() -> None:
    with mwem_sql.connect() as con:
        con.execute(
            "CREATE TABLE t (x DOUBLE NOT NULL, y DOUBLE NOT NULL); CREATE TABLE t_domain AS FROM (VALUES ('x', 0.0, "
            "100.0, 20), ('y', 0.0, 1.0, 1)) d(attribute, low, high, bins)"
        )
        con.execute("INSERT INTO t SELECT i % 100 + 0.25, 0.5 FROM range(5000) r(i)")
        mwem_sql.release(con, "t", Workload((Query(group_by=("x",)), Query(group_by=("y",)))), 100)
        (row,) = mwem_sql.quantile(con, "t_synthetic", "x", 0.52).to_pylist()
        assert (row["low"], row["high"], row["measured"]) == (50.0, 55.0, "directly")
        assert 51.5 < row["answer"] < 52.5
        (row,) = mwem_sql.quantile(con, "t_synthetic", "x", 0.5, given="x > 62.5 AND x < 64.75").to_pylist()
        assert (row["low"], row["high"]) == (62.5, 64.75)
        (row,) = mwem_sql.quantile(con, "t_synthetic", "y", 0.5).to_pylist()
        assert (row["low"], row["high"]) == (0.0, 1.0)
