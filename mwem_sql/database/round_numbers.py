"""Round numbers around what was seen: bounds that are no row's own value, and bins with round ends.

Owns what counts as round: 1, 2 and 5 times a power of ten; for dates and times, periods of the calendar. Must not read a table.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np

from mwem_sql.database.ticks import Scale, Tick

MOST_BINS = 20
"""Bins of a suggested column, at most. More: finer values, and more noise on each of them."""
LISTED = 100
"""Values that a column of whole numbers or days may have without bins."""
_STEPS_OF_A_SPAN = 5
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  a tick of TIMESTAMP has no zone
_MICROSECOND = timedelta(microseconds=1)
# Periods of the calendar, and the days from which on a span is rounded to them.
_PERIODS = ((7305, "decade"), (730, "year"), (60, "month"), (2, "day"), (0, "hour"))
_LONGEST = {"decade": 3660, "year": 370, "month": 32, "day": 1, "hour": 1 / 24}
"""Days that bring the beginning of a period into the next one."""


def outwards(scale: Scale, low: Tick, high: Tick, *, keep_low: bool, keep_high: bool) -> tuple[Tick, Tick]:
    """Round bounds around two values. An end that is round itself stays if `keep_` says that many rows share it.

    Bounds are within the limits of the type's domains, so that a value outside them is outside the bounds, too.
    """
    rounded = _calendar if scale.family in {"date", "timestamp", "timestamptz"} else _numbers
    least, most = scale.limits
    low, high = (min(max(least, end), most) for end in (low, high))
    below, above = rounded(scale, low, high, keep_low=keep_low, keep_high=keep_high)
    return max(least, below), min(most, above)


def bins(scale: Scale, low: Tick, high: Tick, most: int = MOST_BINS) -> int | None:
    """Into how many parts a range is cut, so that their ends are round where they can be; None where its values are few."""
    if scale.family in {"integer", "date"} and high - low < LISTED:
        return None
    if low == high:
        return 1
    if scale.family in {"date", "timestamp", "timestamptz"}:
        return most
    span = _value(scale, high) - _value(scale, low)
    parts = (span / _round_step(span / number) for number in range(most, 0, -1))
    return next((int(part) for part in parts if part <= most and part == int(part)), most)


def text(scale: Scale, tick: Tick) -> str:
    """A bound as a person writes it: 90, not 90.0."""
    if scale.family == "real" and tick == int(tick) and abs(tick) < 10**15:
        return str(int(tick))
    return scale.text(tick)


def _numbers(scale: Scale, low: Tick, high: Tick, *, keep_low: bool, keep_high: bool) -> tuple[Tick, Tick]:
    least, most = _value(scale, low), _value(scale, high)
    span = most - least or abs(most) or Decimal(1)
    step = _round_step(max(span / _STEPS_OF_A_SPAN, _smallest(scale, low, high)))
    below, above = math.floor(least / step), math.ceil(most / step)
    # Compared as the type holds them: between two neighbours of a real type, a round number is one of the two.
    if not keep_low and _held(scale, below * step) == _held(scale, least):
        below -= 1
    if not keep_high and _held(scale, above * step) == _held(scale, most):
        above += 1
    if least >= 0:  # nothing is below zero that never was
        below = max(below, 0)
    if most <= 0 and least < 0:
        above = min(above, 0)
    return _tick(scale, below * step), _tick(scale, above * step)


def _round_step(size: Decimal) -> Decimal:
    """The largest of 1, 2 and 5 times a power of ten that is not above a size."""
    power = Decimal(1).scaleb(size.adjusted())
    return max(power * digit for digit in (1, 2, 5) if power * digit <= size)


def _smallest(scale: Scale, low: Tick, high: Tick) -> Decimal:
    """The size of the smallest step: a step less is another value of the type. `_round_step` takes off up to 3/5 of it."""
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
    period = next(name for days, name in _PERIODS if last - first >= timedelta(days=days))
    if scale.family == "date" and period == "hour":
        period = "day"
    begin = _begin(first, period)
    if begin == first and not keep_low and begin > datetime.min:  # noqa: DTZ901
        begin = _begin(begin - _MICROSECOND, period)
    try:
        end = _end(scale, last, period, keep=keep_high)
    except OverflowError:  # the calendar has no more
        end = datetime.max  # noqa: DTZ901
    return _count(scale, begin), _count(scale, end)


def _end(scale: Scale, last: datetime, period: str, *, keep: bool) -> datetime:
    """A round moment that is not before another one. The last day of a period is as round as the first."""
    until = timedelta(days=scale.family == "date")
    end = _begin(last, period)
    while end - until < last or (end - until == last and not keep):
        end = _begin(end + timedelta(days=_LONGEST[period]), period)
    return end - until


def _moment(scale: Scale, tick: int) -> datetime:
    return _EPOCH + (timedelta(days=tick) if scale.family == "date" else timedelta(microseconds=tick))


def _count(scale: Scale, moment: datetime) -> int:
    return (moment - _EPOCH).days if scale.family == "date" else (moment - _EPOCH) // _MICROSECOND


def _begin(moment: datetime, period: str) -> datetime:
    """When the period began that a moment is in."""
    year = max(1, moment.year - moment.year % 10) if period == "decade" else moment.year
    whole = datetime.combine(date(year, 1, 1), datetime.min.time())
    if period in {"decade", "year"}:
        return whole
    if period == "month":
        return whole.replace(month=moment.month)
    day = datetime.combine(moment.date(), datetime.min.time())
    return day if period == "day" else day + timedelta(hours=moment.hour)
