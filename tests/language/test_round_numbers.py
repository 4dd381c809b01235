"""Bounds around what was seen: round, outside, and never a single row's own value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
from chance import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mwem_sql.language import round_numbers
from mwem_sql.language.ticks import Scale, Tick, scale_of


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
        ("DOUBLE", (3.0, 3.0), True, ("3", "3"), 1),
        ("DOUBLE", (-0.0, 0.0), True, ("0", "0"), 1),
        ("DOUBLE", (5e-324, 5e-324), False, ("0", "2e-323"), 20),
        ("DOUBLE", (1.7e308, 1.7e308), False, ("8e+307", "8.988465674311579e+307"), 20),
        ("FLOAT", (0.10000000149011612, 0.10000000149011612), True, ("0.1", "0.1"), 1),
        ("FLOAT", (0.10000000149011612, 0.5), False, ("0.05", "0.55"), 10),
        ("INTEGER", (-11_900, 1_260_000), False, ("-20000", "1400000"), 20),
        ("INTEGER", (-1_260_000, 11_900), False, ("-1400000", "20000"), 20),
        ("DOUBLE", (-0.001, 5.0), False, ("-0.002", "6"), 20),
        ("INTEGER", (1, 3), True, ("1", "3"), None),
        ("INTEGER", (1, 3), False, ("0", "4"), None),
        ("INTEGER", (17, 90), True, ("10", "90"), None),
        ("INTEGER", (0, 99_999), False, ("0", "100000"), 20),
        ("UTINYINT", (0, 255), False, ("0", "255"), 20),
        ("DECIMAL(8,2)", (1999, 123_456), False, ("0.00", "1400.00"), 14),
        ("DECIMAL(8,2)", (300, 300), True, ("3.00", "3.00"), 1),
        ("BIGINT", (2**63 - 1, 2**63 - 1), False, ("4500000000000000000", "4611686018427387903"), 20),
        ("DATE", (105_000_000, 105_000_000), False, ("9999-12-30", "9999-12-31"), None),
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


KINDS = (
    "DOUBLE", "FLOAT", "TINYINT", "BIGINT", "UBIGINT", "HUGEINT", "DECIMAL(4,4)", "DECIMAL(10,3)", "DECIMAL(38,10)",
    "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE",
)  # fmt: skip
LARGEST = 1.7976931348623157e308
NEXT_TO_ONE = 1.0000000000000002
NEXT_TO_ONE_FLOAT = 1.00000011920928955078125


@st.composite
def ends_seen(draw: st.DrawFn) -> tuple[str, Tick, Tick, bool, bool]:
    """The least and the greatest value of a column, some of them beyond all bounds, and whether each is shared."""
    kind = draw(st.sampled_from(KINDS))
    count = scale(kind)
    least, most = count.limits
    width: Literal[32, 64] = 32 if kind == "FLOAT" else 64
    numbers = st.floats(allow_nan=False, allow_infinity=False, width=width)
    ticks: st.SearchStrategy[Tick] = st.integers(int(least) - 9, int(most) + 9) if count.discrete else numbers
    low = draw(ticks)
    high = draw(ticks | st.just(low) | st.just(count.after(low)) | st.just(count.before(low)))
    return kind, min(low, high), max(low, high), draw(st.booleans()), draw(st.booleans())


@settings(max_examples=examples(400))
@given(ends_seen())
@example(("DOUBLE", 5e-324, 5e-324, False, False))  # 4e-324 and 6e-324 are 5e-324
@example(("DOUBLE", -5e-324, 5e-324, False, False))
@example(("DOUBLE", 5e-324, 1e-323, True, False))
@example(("DOUBLE", 1.0, NEXT_TO_ONE, False, False))  # no round number is between them
@example(("DOUBLE", NEXT_TO_ONE, NEXT_TO_ONE, False, False))
@example(("DOUBLE", -0.0, 0.0, False, False))
@example(("DOUBLE", -1.0, -0.0, False, True))
@example(("DOUBLE", LARGEST, LARGEST, False, False))  # a domain ends at half of it
@example(("DOUBLE", -LARGEST, LARGEST, True, True))
@example(("DOUBLE", 3.0, 3.0, True, True))  # a column with one value
@example(("FLOAT", 1.0, NEXT_TO_ONE_FLOAT, False, False))
@example(("FLOAT", 1.401298464324817e-45, 1.401298464324817e-45, False, False))
@example(("DECIMAL(10,3)", 3000, 3000, True, True))
@example(("BIGINT", 2**63 - 1, 2**63 - 1, False, False))
@example(("BIGINT", -(2**63), 2**63 - 1, False, True))
@example(("DATE", 105_000_000, 105_000_000, False, False))  # DuckDB's calendar has more years than Python's
@example(("TIMESTAMP", -(2**62), 2**62, True, False))
def test_bounds_lie_outside(seen: tuple[str, Tick, Tick, bool, bool]) -> None:
    kind, low, high, keep_low, keep_high = seen
    count = scale(kind)
    least, most = count.limits
    ends = round_numbers.outwards(count, low, high, keep_low=keep_low, keep_high=keep_high)
    below, above = (count.nearest(np.array([end], dtype=object if count.discrete else float)).item() for end in ends)
    low, high = (min(max(least, end), most) for end in (low, high))
    assert least <= below <= low <= high <= above <= most
    assert below < low or keep_low or low in {0, least}
    assert above > high or keep_high or high in {0, most}
    bins = round_numbers.bins(count, *ends)
    assert bins is None or 1 <= bins <= round_numbers.MOST_BINS
    assert all(scale_reads(count, round_numbers.text(count, end)) == end for end in ends)


def scale_reads(count: Scale, text: str) -> Tick:
    """The tick of a bound that a person wrote."""
    if count.family in {"date", "timestamp", "timestamptz"}:
        moment = datetime.fromisoformat(text.removesuffix("+00")) - datetime(1970, 1, 1)  # noqa: DTZ001
        return moment.days if count.family == "date" else moment // timedelta(microseconds=1)
    return float(text) if count.family == "real" else int(Decimal(text).scaleb(count.digits))


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, list[Tick]]:
    """Rows of a column: evenly spread, or mostly at one end of their range, with a few far away."""
    kind = draw(st.sampled_from(KINDS))
    least, most = scale(kind).limits
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    width = 10.0 ** draw(st.integers(-3, 6))
    rows = generator.lognormal(0, draw(st.sampled_from([0.1, 1.0, 3.0])), 400) * width + draw(
        st.sampled_from([0.0, -width])
    )
    rows = np.append(rows, draw(st.lists(st.floats(-1e9, 1e9), max_size=3)))
    if scale(kind).discrete:
        rows = np.rint(np.clip(rows, float(least) * 0.99, float(most) * 0.99)).astype(np.int64)
    return kind, sorted(rows.tolist())


@settings(deadline=None, max_examples=150)
@given(columns())
def test_bins_at_round_numbers_share_the_rows(column: tuple[str, list[Tick]]) -> None:
    kind, rows = column
    own, values = scale(kind), np.array(rows)
    low, high = round_numbers.outwards(own, rows[0], rows[-1], keep_low=False, keep_high=False)
    asked: list[int] = []

    def above(ticks: Sequence[Tick]) -> list[int]:
        asked.append(len(ticks))
        return [int((values >= tick).sum()) for tick in ticks]

    found, counts = np.unique(values, return_counts=True)
    share = round_numbers.FULLEST / round_numbers.MOST_BINS * len(rows)
    alone = [(value, own.after(value)) for value in found[counts > share].tolist()]
    edges = round_numbers.edges(own, low, high, len(rows), above, alone=alone)
    assert all(low < first < second for first, second in pairwise([*edges, math.inf]))
    assert all(edge <= high for edge in edges)
    assert len(asked) <= 25 and max(asked) <= 200  # scans, and what each asks for
    begins = [low, *edges]
    inside = np.diff([*np.searchsorted(values, begins), len(values)])
    others = len(rows) - counts[counts > share].sum()
    singles = {begin for begin, _ in alone}
    # What is left too full has no round number in it: its values are as close as the type has them.
    for begin, end, count in zip(begins, [*edges, high], inside, strict=True):
        if begin not in singles and count > max(1, round_numbers.FULLEST * others / round_numbers.MOST_BINS):
            assert round_numbers._cuts(own, begin, end) == []
    assert len(edges) <= round_numbers.MOST_EDGES + 2 * len(alone) + round_numbers.MOST_BINS


@pytest.mark.parametrize(
    ("kind", "low", "high", "wanted"),
    [
        (
            "DATE",
            17_897,
            18_261,
            [
                "2019-02-01",
                "2019-03-01",
                "2019-04-01",
                "2019-05-01",
                "2019-06-01",
                "2019-07-01",
                "2019-08-01",
                "2019-09-01",
                "2019-10-01",
                "2019-11-01",
                "2019-12-01",
            ],
        ),
        (
            "DATE",
            18_262,
            18_381,
            [
                "2020-01-11",
                "2020-01-21",
                "2020-02-01",
                "2020-02-11",
                "2020-02-21",
                "2020-03-01",
                "2020-03-11",
                "2020-03-21",
                "2020-04-01",
                "2020-04-11",
                "2020-04-21",
            ],
        ),
        (
            "DATE",
            -3_653,
            18_261,
            [
                "1965-01-01",
                "1970-01-01",
                "1975-01-01",
                "1980-01-01",
                "1985-01-01",
                "1990-01-01",
                "1995-01-01",
                "2000-01-01",
                "2005-01-01",
                "2010-01-01",
                "2015-01-01",
            ],
        ),
        (
            "TIMESTAMP",
            10**15 - 10**15 % 3_600_000_000,
            10**15 - 10**15 % 3_600_000_000 + 7_200_000_000,
            [f"2001-09-09 0{h}:{m:02}:00" for h in (1, 2) for m in range(0, 60, 5)][1:],
        ),
    ],
)
def test_the_calendar_has_round_dates(kind: str, low: int, high: int, wanted: list[str]) -> None:
    own, rows = scale(kind), 1000
    edges = round_numbers.edges(
        own, low, high, rows, lambda ticks: [rows * (high - int(t)) // (high - low) for t in ticks]
    )
    assert [round_numbers.text(own, edge) for edge in edges] == wanted


def test_an_outlier_does_not_set_the_bins() -> None:
    """One value of 58 made 12 equal bins of which one had everything."""
    values = np.append(np.arange(1000) / 1000, 58.0)
    own = scale("DOUBLE")
    low, high = round_numbers.outwards(own, 0.0, 58.0, keep_low=False, keep_high=False)
    edges = round_numbers.edges(
        own, low, high, 1001, lambda ticks: [int((values >= tick).sum()) for tick in ticks], least=5
    )
    assert (low, high, edges) == (0, 60, [round(k * 0.05, 2) for k in range(1, 21)])
    # However far away it is: from there, scans go by powers of ten.
    values[-1] = 1e300
    asked: list[int] = []

    def above(ticks: Sequence[Tick]) -> list[int]:
        asked.append(len(ticks))
        return [int((values >= tick).sum()) for tick in ticks]

    low, high = round_numbers.outwards(own, 0.0, 1e300, keep_low=False, keep_high=False)
    assert round_numbers.edges(own, low, high, 1001, above, least=5) == edges
    assert len(asked) < 20
