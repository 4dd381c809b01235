"""Bounds around what was seen: round, outside, and never a single row's own value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mwem_sql.database import round_numbers
from mwem_sql.database.ticks import Scale, scale_of


def scale(kind: str) -> Scale:
    found = scale_of(kind)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "seen", "shared", "wanted", "bins"),
    [
        ("DOUBLE", (0.17, 80.0), False, ("0", "90"), 18),
        ("DOUBLE", (0.0, 512.3292), False, ("0", "600"), 12),
        ("DOUBLE", (-0.5, 0.5), True, ("-0.6", "0.6"), 12),
        ("DOUBLE", (3.0, 3.0), False, ("2.5", "3.5"), 20),
        ("DOUBLE", (0.0, 0.0), False, ("0", "0.2"), 20),
        ("INTEGER", (1, 3), True, ("1", "3"), None),
        ("INTEGER", (1, 3), False, ("0", "4"), None),
        ("INTEGER", (17, 90), True, ("10", "90"), None),
        ("INTEGER", (0, 99_999), False, ("0", "100000"), 20),
        ("UTINYINT", (0, 255), False, ("0", "255"), 20),
        ("DECIMAL(8,2)", (1999, 123_456), False, ("0.00", "1400.00"), 14),
        ("DATE", (18_262, 18_262), False, ("2019-12-31", "2020-01-02"), None),
        ("DATE", (18_265, 18_400), False, ("2020-01-01", "2020-05-31"), 20),
        ("DATE", (-10_000, 18_262), False, ("1940-01-01", "2029-12-31"), 20),
        ("TIMESTAMP", (10**15, 10**15 + 10**9), False, ("2001-09-09 01:00:00", "2001-09-09 03:00:00"), 20),
    ],
)
def test_bounds(kind: str, seen: tuple[float, float], shared: bool, wanted: tuple[str, str], bins: int | None) -> None:
    own = scale(kind)
    ends = round_numbers.outwards(own, *seen, keep_low=shared, keep_high=shared)
    assert tuple(round_numbers.text(own, end) for end in ends) == wanted
    assert round_numbers.bins(own, *ends) == bins


@given(st.data())
def test_bounds_lie_outside(data: st.DataObject) -> None:
    own = scale(data.draw(st.sampled_from(["DOUBLE", "BIGINT", "DECIMAL(10,3)", "DATE", "TIMESTAMP"])))
    least, most = own.limits
    number = st.integers(int(least), int(most)) if own.discrete else st.floats(-1e100, 1e100)
    low, high = sorted([data.draw(number), data.draw(number)])
    below, above = round_numbers.outwards(own, low, high, keep_low=False, keep_high=False)
    assert below <= low <= high <= above
    assert below < low or low in {0, least}
    assert above > high or high in {0, most}
    bins = round_numbers.bins(own, below, above)
    assert bins is None or 1 <= bins <= round_numbers.MOST_BINS
