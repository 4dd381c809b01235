"""The bound on what expressions make: never below what DuckDB makes of them, and of use where nothing grows."""

from __future__ import annotations

from math import inf

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.language.growth import characters

CITY = "Zürich"


LONGEST = {"city": len(CITY.encode())}


def bound(text: str) -> float:
    return characters([text], LONGEST)[0]


grown = st.recursive(
    st.sampled_from(["city", "'äb'", "city || 'x'", "7::VARCHAR"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.integers(0, 9)).map(lambda made: f"repeat({made[0]}, {made[1]})"),
        st.tuples(st.sampled_from(["lpad", "rpad"]), inner, st.integers(0, 50)).map(
            lambda made: f"{made[0]}({made[1]}, {made[2]}, 'yz')"
        ),
        st.tuples(inner, inner).map(lambda made: f"replace({made[0]}, 'x', {made[1]})"),
        st.tuples(inner, inner).map(lambda made: f"regexp_replace({made[0]}, '(.)', '\\1' || {made[1]}, 'g')"),
        st.tuples(
            st.sampled_from(["hex", "bin", "url_encode", "lower", "upper", "reverse", "regexp_escape", "md5"]), inner
        ).map(lambda made: f"{made[0]}({made[1]})"),
        inner.map(lambda made: f"to_base64(encode({made}))"),
        st.tuples(inner, st.integers(1, 30)).map(lambda made: f"format('{{0:>{made[1]}}}{{0}}', {made[0]})"),
        st.tuples(inner, st.integers(1, 30)).map(lambda made: f"printf('%-{made[1]}s', {made[0]})"),
        st.tuples(inner, inner).map(lambda made: f"concat({made[0]}, {made[1]})"),
        st.tuples(inner, inner).map(lambda made: f"CASE WHEN city > 'a' THEN {made[0]} ELSE {made[1]} END"),
        inner.map(lambda made: f"({made}) COLLATE NOCASE"),
    ),
    max_leaves=4,
)


@settings(deadline=None, max_examples=60)
@given(grown)
def test_the_bound_holds(text: str) -> None:
    if 0 < bound(text) <= 10**6:
        ((made,),) = duckdb.execute(f"SELECT strlen({text}) FROM (SELECT ? AS city)", [CITY]).fetchall()
        assert made <= bound(text)


@pytest.mark.parametrize(
    "text",
    [
        "repeat(city, length(city))",
        "repeat(city, -1)",
        "lpad(city, 3 + 4, 'x')",
        "format(city)",
        "format('{:{}}', city, 3)",
        "printf('%*d', 3, 3)",
    ],
)
def test_a_size_that_is_no_constant_has_no_bound(text: str) -> None:
    assert bound(text) == inf


def test_what_does_not_grow_costs_nothing() -> None:
    assert bound("lower(city) = 'x' AND length(city) > 3") == 0
    assert bound(" OR ".join(f"city = 'c{k}'" for k in range(300))) < 10**5
    assert bound(f"city IN ({', '.join(map(repr, map(str, range(9000))))})") < 10**3
    assert bound("lpad(city, 5, '0') = '00001'") < 10**3
