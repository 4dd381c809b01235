"""Round numbers around what was seen: bounds that are no row's own value, and bins with round ends.

Owns what counts as round: 1, 2 and 5 times a power of ten; for dates and times, periods of the calendar. Must not read
a table: how many rows are above a number is asked of the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import numpy as np

from mwem_sql.language.ticks import EPOCH, MICROSECOND, Scale, Tick

MOST_BINS = 20
"""Bins of a suggested column, at most. More: finer values, and more noise on each of them."""
MOST_EDGES = 25
"""Bins of a suggested column whose widths differ, at most."""
FULLEST = 3
"""Times its even part of the rows that a bin may have before it is cut. Less: more and narrower bins."""
LISTED = 100
"""From the least to the greatest of whole numbers or days that need no bins: ages and per cents."""
_STEPS_OF_A_SPAN = 5
_MOST_CUTS = 24  # times that bins are cut further, each with one scan: from a span to a part in 10^15 of it
_TELLS_LITTLE = 0.01  # of the rows: an edge without which so few lie elsewhere may go
_DIGITS_AT_ONCE = 24  # powers of ten that are tried in one scan
_LEAST_REAL = 1e-30  # the smallest power of ten that a bin begins at
_PARTS_OF_A_BIN = 4  # that a bin with too many rows is cut into, or a few more
# Periods of the calendar, so many of a unit, and the days from which on a span is rounded to them.
_PERIODS = ((7305, ("year", 10)), (730, ("year", 1)), (60, ("month", 1)), (2, ("day", 1)), (0, ("second", 3600)))
# Periods that bins may be, the longest first, and about how many seconds a unit is.
_LENGTHS = {"year": 31_556_952, "month": 2_629_746, "day": 86_400, "second": 1}
_CUTS = (
    *(("year", number) for number in (100, 50, 20, 10, 5, 2, 1)),
    *(("month", number) for number in (6, 3, 1)), ("day", 10), ("day", 1),
    *(("second", number) for number in (43_200, 21_600, 10_800, 3_600, 1_800, 600, 300, 60, 30, 10, 5, 1)),
)  # fmt: skip

Above = Callable[[Sequence[Tick]], Sequence[int]]
"""How many rows have each of some values or a greater one."""


def outwards(scale: Scale, low: Tick, high: Tick, *, keep_low: bool, keep_high: bool) -> tuple[Tick, Tick]:
    """Round bounds around two values. An end that is round itself stays if `keep_` says that many rows share it.

    Bounds are within the limits of the type's domains, so that a value outside them is outside the bounds, too.
    """
    rounded = _calendar if _is_calendar(scale) else _numbers
    least, most = scale.limits
    low, high = (min(max(least, end), most) for end in (low, high))
    below, above = rounded(scale, low, high, keep_low=keep_low, keep_high=keep_high)
    return max(least, below), min(most, above)


def bins(scale: Scale, low: Tick, high: Tick, most: int = MOST_BINS) -> int | None:
    """Into how many parts a range is cut, so that their ends are round if possible; None where its values are few."""
    if scale.family in {"integer", "date"} and high - low <= LISTED:
        return None
    if low == high:
        return 1
    if _is_calendar(scale):
        return most
    span = _value(scale, high) - _value(scale, low)
    parts = (span / _round_step(span / number) for number in range(most, 0, -1))
    return next((int(part) for part in parts if part <= most and part == int(part)), most)


def even(scale: Scale, low: Tick, high: Tick, parts: int) -> list[Tick]:
    """Where even parts of a range begin, the first at `low`: fewer than asked for where the type has no more values."""
    if scale.discrete:
        width = int(high) - int(low) + 1
        return sorted({int(low) + k * width // parts for k in range(parts)})
    span, numbers = high - low, np.arange(parts)
    # Multiplied first, the edges are round where bounds are; but the widest range is as wide as the largest number.
    offsets = span * numbers / parts if span < np.finfo(np.float64).max / parts else span / parts * numbers
    return sorted(set(scale.nearest(low + offsets).tolist()))


def edges(
    scale: Scale,
    low: Tick,
    high: Tick,
    rows: int,
    above: Above,
    *,
    alone: Sequence[tuple[Tick, Tick]] = (),
    least: int = 1,
) -> list[Tick]:
    """Where bins begin, after the first at `low`: round numbers such that no bin has many more rows than others.

    `alone` are bins of one value that has very many rows, which no cut would change: where each begins, and the next
    after it. Their rows do not count: bins are for the others. Where less than `least` rows are, or few of all,
    neighbours are one bin.
    """
    fixed = {tick for pair in alone for tick in pair if low < tick <= high}
    single = {begin for begin, _ in alone}
    counts, useless = {low: rows}, set[Tick]()

    def learn(ticks: Sequence[Tick]) -> None:
        counts.update(zip(ticks, above(ticks), strict=True))

    learn(sorted({*_first(scale, low, high), *fixed} - {low}))
    for _ in range(_MOST_CUTS):
        begins = sorted(counts)
        ends = [*begins[1:], high]
        inside = _inside(counts, begins)
        most = FULLEST * _others(begins, inside, single) / MOST_BINS
        bins = zip(begins, ends, inside, strict=True)
        full = [(begin, end) for begin, end, count in bins if begin not in single and count > most]
        cuts = {cut for pair in full for cut in _cuts(scale, *pair)} - counts.keys()
        powers = {power for pair in full for power in _powers(scale, *pair)} - counts.keys() - cuts - useless
        if not cuts | powers:
            break
        learn(sorted(cuts | powers))
        # Powers of ten are there to find rows that are smaller by many digits: not where no more than a bin is between
        # them and 0.
        zero = counts.get(0, 0)
        for power in powers:
            if abs(counts[power] - zero) <= most:
                useless.add(power)
                del counts[power]
    return _merged(scale, counts, high, fixed=fixed, single=single, least=least)


def _others(begins: Sequence[Tick], inside: Sequence[int], single: set[Tick]) -> int:
    """Rows that are not in bins of one value."""
    return sum(count for begin, count in zip(begins, inside, strict=True) if begin not in single)


def _inside(counts: dict[Tick, int], begins: Sequence[Tick]) -> list[int]:
    """Rows of each bin, from those at or above its beginning."""
    above = [*(counts[begin] for begin in begins), 0]
    return [here - there for here, there in pairwise(above)]


def _merged(
    scale: Scale, counts: dict[Tick, int], high: Tick, *, fixed: set[Tick], single: set[Tick], least: int
) -> list[Tick]:
    """The beginnings of bins that are left when neighbours with few rows, or too many bins, are joined.

    First goes the edge that tells least: without it the fewest rows would lie elsewhere, if the rows of a bin lie
    evenly in it; of edges that tell about the same, the one with the finest digit.
    """
    begins = sorted(counts)
    rows = _others(begins, _inside(counts, begins), single)
    while True:
        inside, ends = _inside(counts, begins), [*begins[1:], high]
        few, many = list[tuple[int, int, int]](), list[tuple[int, int, int]]()
        for k in range(1, len(begins)):
            first, second = inside[k - 1 : k + 1]
            if begins[k] in fixed or first + second > max(FULLEST * rows / MOST_BINS, least):
                continue
            width = float(ends[k]) - float(begins[k - 1])
            share = (float(begins[k]) - float(begins[k - 1])) / width if width else 1.0
            moved = abs(first - (first + second) * share)
            edge = round(moved / max(1, rows) / _TELLS_LITTLE), -_fineness(scale, begins[k]), k
            is_little = moved <= max(rows * _TELLS_LITTLE, least)
            (few if is_little and first + second <= max(rows / MOST_BINS, least) else many).append(edge)
        if not few and (not many or len(begins) <= MOST_EDGES):
            return begins[1:]
        del begins[min(few or many)[2]]


def text(scale: Scale, tick: Tick) -> str:
    """A bound as a person writes it: 90, not 90.0."""
    if scale.family == "real" and tick == int(tick) and abs(tick) < 10**15:
        return str(int(tick))
    return scale.text(tick)


def _numbers(scale: Scale, low: Tick, high: Tick, *, keep_low: bool, keep_high: bool) -> tuple[Tick, Tick]:
    least, most = _value(scale, low), _value(scale, high)
    span = most - least or abs(most) or Decimal(1)
    smallest = _smallest(scale, low, high)
    step = _round_step(max(span / _STEPS_OF_A_SPAN, smallest))
    # On either side of zero, an end is as coarse as itself: losses of thousands beside incomes of millions.
    is_around = least < 0 < most
    down, up = (min(step, _round_step(max(abs(end), smallest))) if is_around else step for end in (least, most))
    below, above = math.floor(least / down), math.ceil(most / up)
    # Compared as the type holds them: between two neighbours of a real type, a round number is one of the two.
    if not keep_low and _held(scale, below * down) == _held(scale, least):
        below -= 1
    if not keep_high and _held(scale, above * up) == _held(scale, most):
        above += 1
    if least >= 0:  # nothing is below zero that never was
        below = max(below, 0)
    if most <= 0 and least < 0:
        above = min(above, 0)
    return _tick(scale, below * down), _tick(scale, above * up)


def _round_step(size: Decimal) -> Decimal:
    """The largest of 1, 2 and 5 times a power of ten that is not above a size."""
    power = Decimal(1).scaleb(size.adjusted())
    return max(power * digit for digit in (1, 2, 5) if power * digit <= size)


def _smallest(scale: Scale, low: Tick, high: Tick) -> Decimal:
    """The size of the smallest step: a step less is another value. `_round_step` takes off up to 3/5 of it."""
    if scale.discrete:
        return Decimal(1).scaleb(-scale.digits)
    largest = max(abs(low), abs(high))
    return 5 * Decimal(scale.after(largest) - largest)


def _value(scale: Scale, tick: Tick) -> Decimal:
    """The shortest number that the type takes for this value: 0.1 of a FLOAT, not 0.10000000149011612."""
    return Decimal(str(np.float32(tick)) if scale.type == "FLOAT" else repr(tick)).scaleb(-scale.digits)


def _tick(scale: Scale, value: Decimal) -> Tick:
    return int(value.scaleb(scale.digits)) if scale.discrete else float(value)


def _held(scale: Scale, value: Decimal) -> Tick:
    return scale.nearest(np.array([float(value)])).item() if scale.family == "real" else _tick(scale, value)


def _calendar(scale: Scale, low: Tick, high: Tick, *, keep_low: bool, keep_high: bool) -> tuple[Tick, Tick]:
    first, last = _moment(scale, int(low)), _moment(scale, int(high))
    unit, number = next(period for days, period in _PERIODS if last - first >= timedelta(days=days))
    is_date = scale.family == "date"
    if is_date and unit == "second":
        unit, number = "day", 1
    begin = _start(first, unit, number, 0)
    if begin == first and not keep_low:
        begin = _start(first, unit, number, -1)
    # The last day of a period is as round as the first of the next.
    before = timedelta(days=1) if is_date else timedelta(0)
    ends = [_start(last, unit, number, after) for after in ((1, 2) if is_date else (0, 1))]
    moments = [end - before for end in ends if end is not None]
    end = next((moment for moment in moments if moment > last or (moment == last and keep_high)), None)
    # None where the calendar has no more.
    return _count(scale, begin or datetime.min), _count(scale, end or datetime.max)  # noqa: DTZ901


def _moment(scale: Scale, tick: int) -> datetime:
    return EPOCH + (timedelta(days=tick) if scale.family == "date" else timedelta(microseconds=tick))


def _count(scale: Scale, moment: datetime) -> int:
    return (moment - EPOCH).days if scale.family == "date" else (moment - EPOCH) // MICROSECOND


def _is_calendar(scale: Scale) -> bool:
    return scale.family in {"date", "timestamp", "timestamptz"}


def _first(scale: Scale, low: Tick, high: Tick) -> list[Tick]:
    """Round numbers inside a range that cut it into even parts, as many as bins may be."""
    if _is_calendar(scale):
        for part in reversed(_CUTS):
            starts = _starts(scale, low, high, part, MOST_EDGES - 1)
            if starts is not None:
                return starts
        return []
    span = _value(scale, high) - _value(scale, low)
    return _multiples(scale, low, high, _round_step(span / MOST_BINS * Decimal("2.5"))) if span else []


def _cuts(scale: Scale, low: Tick, high: Tick) -> list[Tick]:
    """Round numbers inside a bin, few of them; none where there is no room."""
    if _is_calendar(scale):
        starts = [some for part in _CUTS if (some := _starts(scale, low, high, part, LISTED))]
        return next((some for some in starts if len(some) >= _PARTS_OF_A_BIN // 2), starts[0] if starts else [])
    span = _value(scale, high) - _value(scale, low)
    return _multiples(scale, low, high, _round_step(span / _PARTS_OF_A_BIN)) if span else []


def _powers(scale: Scale, low: Tick, high: Tick) -> list[Tick]:
    """Powers of ten in a bin that begins or ends at 0: values may be smaller than the bin by any number of digits."""
    if _is_calendar(scale) or (low != 0 and high != 0) or low == high:
        return []
    largest = (_value(scale, high) - _value(scale, low)).adjusted()
    sign = 1 if low == 0 else -1
    powers = (_tick(scale, Decimal(sign).scaleb(largest - k)) for k in range(_DIGITS_AT_ONCE))
    return [power for power in powers if low < power < high and (scale.discrete or abs(power) >= _LEAST_REAL)]


def _multiples(scale: Scale, low: Tick, high: Tick, step: Decimal) -> list[Tick]:
    """Multiples of a step between two values; none if the type cannot tell them apart."""
    if step < _smallest(scale, low, high):
        step = Decimal(1).scaleb(-scale.digits)
        if not scale.discrete or high - low > LISTED:
            return []
    least, most = _value(scale, low), _value(scale, high)
    numbers = range(math.floor(least / step) + 1, math.ceil(most / step))
    return [tick for tick in (_tick(scale, number * step) for number in numbers) if low < tick < high]


def _starts(scale: Scale, low: Tick, high: Tick, part: tuple[str, int], most: int) -> list[Tick] | None:
    """Where so many years, months, days or seconds begin between two moments; None if these are too many."""
    (unit, number), first, last = part, _moment(scale, int(low)), _moment(scale, int(high))
    length = number * _LENGTHS[unit]
    if (last - first).total_seconds() / length > most + 2 or (scale.family == "date" and unit == "second"):
        return None
    moments = (_start(first, unit, number, k) for k in range(most + 4))
    starts: list[Tick] = [_count(scale, moment) for moment in moments if moment is not None and first < moment < last]
    return starts if len(starts) <= most else None


def _start(moment: datetime, unit: str, number: int, after: int) -> datetime | None:
    """Where the period begins that a moment is in, or one after it; None where the calendar has none."""
    try:
        if unit == "year":
            return datetime(moment.year // number * number + after * number, 1, 1)  # noqa: DTZ001
        if unit == "month":
            months = (moment.year * 12 + moment.month - 1) // number * number + after * number
            return datetime(months // 12, months % 12 + 1, 1)  # noqa: DTZ001
        if unit == "day" and number > 1:  # thirds of a month, which begin on the 1st, 11th and 21st
            thirds = (moment.year * 12 + moment.month - 1) * 3 + min(2, (moment.day - 1) // 10) + after
            return datetime(thirds // 36, thirds // 3 % 12 + 1, thirds % 3 * 10 + 1)  # noqa: DTZ001
        if unit == "day":
            return datetime.fromordinal(moment.toordinal() + after)
        seconds = (moment - EPOCH) // timedelta(seconds=number) + after
        return EPOCH + timedelta(seconds=seconds * number)
    except (ValueError, OverflowError):
        return None


def _fineness(scale: Scale, tick: Tick) -> int:
    """How fine the last digit is that a number needs; of a moment, how many parts of a date and time."""
    if not _is_calendar(scale):
        value = _value(scale, tick)
        return -int(value.normalize().as_tuple().exponent) if value else -(10**6)
    moment = _moment(scale, int(tick))
    parts = (moment.month - 1, moment.day - 1, moment.hour, moment.minute, moment.second)
    return max((k for k, part in enumerate(parts, start=1) if part), default=0)
