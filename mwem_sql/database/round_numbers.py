"""Round numbers around what was seen: bounds that are no row's own value, and bins with round ends.

Owns what counts as round: 1, 2 and 5 times a power of ten; for dates and times, periods of the calendar. Must not read a table.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal

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
    """Round bounds around two values. An end that is round itself stays if `keep_` says that many rows share it."""
    rounded = _calendar if scale.family in {"date", "timestamp", "timestamptz"} else _numbers
    below, above = rounded(scale, low, high, keep_low=keep_low, keep_high=keep_high)
    least, most = scale.limits
    return max(least, below), min(most, above)


def bins(scale: Scale, low: Tick, high: Tick, most: int = MOST_BINS) -> int | None:
    """Into how many parts a range is cut, so that their ends are round where they can be; None where its values are few."""
    if scale.family in {"integer", "date"} and high - low < LISTED:
        return None
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
    smallest = Decimal(1).scaleb(-scale.digits) if scale.discrete else Decimal(0)
    step = max(_round_step(span / _STEPS_OF_A_SPAN), smallest)
    below, above = math.floor(least / step), math.ceil(most / step)
    if below * step == least and not keep_low:
        below -= 1
    if above * step == most and not keep_high:
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


def _value(scale: Scale, tick: Tick) -> Decimal:
    return Decimal(repr(tick)).scaleb(-scale.digits)


def _tick(scale: Scale, value: Decimal) -> Tick:
    return int(value.scaleb(scale.digits)) if scale.discrete else float(value)


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
