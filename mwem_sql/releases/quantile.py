"""Quantiles of a column with intervals, from the counts of what lies at most at, and above, each of some values.

Released values only, so that it costs no privacy. The quantile of a share s is the least value v with at least the
share s of the rows at most at v: with C(v) rows at most at v and A(v) above, D(v) = (1 - s) C(v) - s A(v) is not
negative there, and negative at every value before. Rows without a value are in neither; those off an open list may be
in either.

How often an interval misses. Values lie in stretches that no measurement distinguishes, and rows are counted at the
ends of these, all in one call. `low` is where the first stretch begins at whose end D may be 0 or more, by the upper
end of its interval; `high` is where the first one ends from whose end on D is so for certain, by the lower ends of all.
Let the true quantile lie in stretch k. D grows with v, so that it is 0 or more at the end of k, and negative at the end
of k - 1. `low` is too high only if the upper end at k misses: D is above it. `high` is too low only if the lower end at
k - 1 misses: D is below it. Both stretches are fixed by the data, and not by noise; noise is as likely to go up as
down, so that each of the two has half of what an interval of D may miss. So the quantile is missed no more often than D
is at one end, however many ends are looked at.

An interval of D is made of those of C and A, which share the chance to miss (`WINDOW` of it). Where D is itself a sum
of what was measured, its noise says more: it is less than that of C and A together. That has the rest of the
chance, and is looked at where the first leaves a doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from mwem_sql.algebra.arrays import Flags, Floats
from mwem_sql.algebra.chance import WINDOW, Chance
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.sets import distinct
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes
from mwem_sql.errors import OptionError, did_you_mean, refuse
from mwem_sql.judge.intervals import RANK, Status, noise_alone
from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold
from mwem_sql.language.ticks import cast
from mwem_sql.releases.answer import Answerer, Judged
from mwem_sql.releases.request import read_number
from mwem_sql.workload import Workload

MOST_STRETCHES = 500
"""Stretches at whose ends rows are counted. More: ends of intervals are finer where a column has thousands
of values, and a call takes longer (500: about 1.2 s of a processor; 100: 0.3 s)."""
COUNT_SLACK = 1e-9
"""By how much sums of the same weights may differ by rounding, in rows, or in parts of all rows."""


Differences: TypeAlias = Callable[[int, float], tuple[float, float]]
"""Between what D is at the end of a stretch, for a share; endless if nothing measured says it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Stretches:
    """Neighbouring values of an attribute that counts do not distinguish.

    The first and the last of each stretch, as ticks; of listed values, as indices of `texts`, which are in order.
    `points` are the values that the attribute has, where these are listed.
    """

    attribute: Attribute
    lows: npt.NDArray[Any]
    highs: npt.NDArray[Any]
    points: npt.NDArray[Any] | None = None
    texts: Sequence[str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether there may be values off a list, whose rank among the others nobody knows."""
        return self.texts is not None and self.attribute.open

    def text(self, tick: float) -> str:
        return self.attribute.text(tick) if self.texts is None else self.texts[int(tick)]

    def literal(self, tick: float) -> exp.Expr:
        """A constant that DuckDB compares as a value of the type.

        A text is cast, but by an ENUM, which would be a text.
        """
        constant = exp.Literal.string(self.text(tick))
        return cast(constant, self.attribute.type) if self.attribute.scale is None else constant

    def first(self, number: int) -> str | None:
        """The least value of a stretch; None for all values below the domain, the bound for all above."""
        tick, (low, high) = self.lows[number].item(), self._bounds
        return None if tick < low else self._rounder(min(tick, high), is_first=True)

    def last(self, number: int) -> str | None:
        """The greatest value of a stretch; None for all values above the domain, the bound for all below."""
        tick, (low, high) = self.highs[number].item(), self._bounds
        return None if tick > high else self._rounder(max(tick, low), is_first=False)

    @property
    def _bounds(self) -> tuple[float, float]:
        if self.texts is not None:
            return 0, len(self.texts) - 1
        assert self.attribute.low is not None and self.attribute.high is not None
        return self.attribute.low, self.attribute.high

    @property
    def _is_discrete(self) -> bool:
        return self.texts is not None or self.attribute.ordered.discrete

    def _rounder(self, tick: float, *, is_first: bool) -> str:
        """A value. Of real numbers the neighbour if that is shorter: 2000.0 and not 1999.9999999999998."""
        if self._is_discrete:
            return self.text(tick)
        scale, (low, high) = self.attribute.ordered, self._bounds
        neighbour = min(max(scale.before(tick) if is_first else scale.after(tick), low), high)
        return min(self.text(tick), self.text(neighbour), key=len)

    def inside(self, number: int, share: float) -> str:
        """The value of a stretch that so much of it lies at most at: evenly, or by the values that there are."""
        low, high = self.lows[number].item(), self.highs[number].item()
        if self.points is not None:
            points = self.points[(self.points >= low) & (self.points <= high)]
            tick = points[min(len(points), max(1, ceil(share * len(points)))) - 1].item()
        elif self._is_discrete:
            count = high - low + 1
            tick = low + min(count, max(1, ceil(share * count))) - 1
        else:
            tick = float(self.attribute.ordered.nearest(np.array(low + share * (high - low))))
        low, high = self._bounds
        return self.text(min(max(tick, low), high))


@dataclass(frozen=True, eq=False)
class _Counted:
    """Rows at most at the end of each stretch but the last, and above.

    All rows with a value, and those off an open list: what the model says, and between what they are.
    """

    model: Floats
    low: Floats
    high: Floats
    measured: list[Status]

    @property
    def _ends(self) -> int:
        return len(self.model) - 2

    @property
    def rows(self) -> float:
        return float(self.model[-2])

    @property
    def off_list(self) -> float:
        """Rows off an open list, at most."""
        return float(self.high[-1])

    def at_most(self, counts: Floats) -> Floats:
        return counts[: self._ends : 2]

    def above(self, counts: Floats) -> Floats:
        return counts[1 : self._ends : 2]

    def differences(self, share: float) -> tuple[Floats, Floats, Floats]:
        """D at the end of each stretch but the last: what the model says, at least and at most.

        Rows off an open list may all be at most at a value, or above.
        """
        return (
            (1 - share) * self.at_most(self.model) - share * self.above(self.model),
            (1 - share) * self.at_most(self.low) - share * (self.above(self.high) + self.off_list),
            (1 - share) * (self.at_most(self.high) + self.off_list) - share * self.above(self.low),
        )

    @property
    def may_have(self) -> Flags:
        """Whether any row may be at most at the end of each stretch but the last."""
        return np.asarray(self.at_most(self.high) + self.off_list > 0)

    def worst(self, first: int, last: int) -> Status:
        """How the ends of some stretches were measured, from that before the first on."""
        looked_at = self.measured[2 * max(0, first - 1) : min(self._ends, 2 * last + 2)]
        return max(looked_at, key=lambda status: RANK[status], default="never")


def _differences(judged: Judged, miss: float) -> Differences:
    """D as a sum of what was measured: narrower than what C and A say, one by one."""
    queries = [query.linear for query in judged.queries]

    def between(number: int, share: float) -> tuple[float, float]:
        query = _weighted(queries[2 * number], queries[2 * number + 1], share)
        return (-inf, inf) if query is None else noise_alone(judged.evidence, query, miss)

    return between


def _weighted(at_most: LinearQuery, above: LinearQuery, share: float) -> LinearQuery | None:
    """One query for D; None if the two counts are about more than one group of attributes in different ways."""
    pairs = list(zip(at_most.blocks, above.blocks, strict=False))
    differ = [k for k, (one, other) in enumerate(pairs) if one is not other]
    if len(at_most.blocks) != len(above.blocks) or len(differ) != 1:
        return None
    one, other = pairs[differ[0]]
    if one.attributes != other.attributes:
        return None
    is_below, is_above = one.labels >= 0, other.labels >= 0
    labels = np.where(is_below | is_above, 0, -1).astype(np.int32)
    values = np.where(is_below, 1 - share, -share)
    blocks = list(at_most.blocks)
    blocks[differ[0]] = Block(one.attributes, labels, 1, values=values)
    return LinearQuery(tuple(blocks))


def quantiles(
    ready: Answerer, attribute: Attribute, shares: Sequence[float], given: str | None, confidence: float
) -> list[dict[str, Any]]:
    """A row for each share, in their order; values of the attribute as text."""
    stretches = _stretches(ready, attribute, given)
    workload = Workload.from_predicates(_conditions(stretches, given))
    chance = Chance(1 - confidence)
    # C and A, and what is off an open list, have equal parts.
    window = chance.part("counts", WINDOW)
    judged = ready.judged(workload, 1 - window.take("each count", 1 / (3 if stretches.is_open else 2)))
    # True counts are whole numbers.
    low = np.ceil([intervals.low[0] - COUNT_SLACK for intervals in judged.intervals])
    high = np.floor([intervals.high[0] + COUNT_SLACK for intervals in judged.intervals])
    if not stretches.is_open:
        high[-1] = 0
    model = np.array([values[0] for values in judged.answers])
    counted = _Counted(model, low, high, [intervals.measured[0] for intervals in judged.intervals])
    is_measured = "directly" in counted.measured[:-2]
    differences = _differences(judged, chance.rest("differences")) if is_measured else None
    return [_row(stretches, share, counted, differences) for share in shares]


def ordered_attribute(ready: Answerer, column: object, function: str) -> Attribute:
    """The attribute of a column that has an order."""
    domain, output = ready.stored.domain, ready.stored.name.table
    attribute = domain.attribute(domain.spelling.get(fold(column), "")) if isinstance(column, str) else None
    if attribute is None:
        what = f"attribute ({column!r}) is not in {output}"
        hint = f"{did_you_mean(column, domain.columns)}it has {', '.join(domain.columns)}"
        raise refuse(OptionError, function, what, hint)
    if attribute.scale is None and not attribute.type.startswith("ENUM("):
        ordered = [each.name for each in domain if each.scale is not None or each.type.startswith("ENUM(")]
        what = f"attribute ({column!r}) is of type {attribute.type}, whose values have no order"
        hint = f"name a number, date, timestamp or ENUM: {', '.join(ordered) or f'{output} has none'}"
        raise refuse(OptionError, function, what, hint)
    return attribute


def read_shares(value: object, function: str) -> list[float]:
    """One share, or a list of them."""
    listed = value if isinstance(value, list) else [value]
    out = []
    for item in listed:
        number = read_number(item)
        if number is None or not 0 < number < 1:
            what = f"share ({item!r}) must be above 0 and below 1"
            raise refuse(OptionError, function, what, "write 0.5 for the median, [0.25, 0.5, 0.75] for the quartiles")
        out.append(float(number))
    most = 1000
    if not 0 < len(out) <= most:
        what = f"share has {len(out):,} items, and must have 1 to {most:,}"
        raise refuse(OptionError, function, what, "write [0.25, 0.5, 0.75]")
    return out


def _stretches(ready: Answerer, attribute: Attribute, given: str | None) -> _Stretches:
    """They begin where a stored class or piece does, and where the condition changes.

    If these are too many, several neighbours are one stretch: which, follows from their number.
    """
    # The condition is read by itself, so that one with a parenthesis too many is refused.
    condition = None if given is None else ready.compile(Workload.from_predicates([given])).classes.get(attribute.name)
    if attribute.values is not None:
        texts = _sorted(ready, attribute)
        indices = np.arange(len(texts))
        lows = indices[:: _thinning(len(texts))]
        highs = np.append(lows[1:] - 1, len(texts) - 1)
        return _Stretches(attribute=attribute, lows=lows, highs=highs, points=indices, texts=texts)
    stored = ready.stored.classes[attribute.name]
    pieces = stored.pieces
    begins = pieces.lows[: pieces.non_null][_is_begin(stored)]
    if condition is not None:
        begins = distinct(begins, condition.pieces.lows)
    lows = begins[:: _thinning(len(begins))]
    ends = [attribute.ordered.before(low) for low in lows[1:].tolist()]
    highs = np.array([*ends, pieces.highs[-1]], dtype=lows.dtype)
    points = pieces.points if pieces.listed else None
    return _Stretches(attribute=attribute, lows=lows, highs=highs, points=points, texts=None)


def _thinning(begins: int) -> int:
    return -(-begins // MOST_STRETCHES)


def _is_begin(classes: Classes) -> npt.NDArray[np.bool_]:
    """Of each piece but NULL, whether it differs from the one before it."""
    count = classes.pieces.non_null
    if not classes.pieces.listed:
        return np.ones(count, dtype=np.bool_)
    weights = classes.densities[:count]
    return np.asarray((np.diff(classes.codes[:count], prepend=-1) != 0) | (np.diff(weights, prepend=np.nan) != 0))


def _sorted(ready: Answerer, attribute: Attribute) -> list[str]:
    """Listed values in the order of their type."""
    listed = pa.array(attribute.values, pa.string())
    with ready.sandbox() as sandbox:
        sandbox.load("listed", {attribute.name: (attribute.type, listed)})
        column = exp.Ordered(this=exp.column(attribute.name, quoted=True))
        rank = exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=[column]))
        (ranks,) = sandbox.evaluate("listed", [dialect.sql(rank)])
    return [text for _, text in sorted(zip(ranks.to_pylist(), attribute.values or (), strict=True))]


def _conditions(stretches: _Stretches, given: str | None) -> list[str]:
    """What is counted: of each stretch but the last the rows at most at its end, and above.

    Then all rows with a value, and those off an open list.
    """
    attribute = stretches.attribute
    column = exp.column(attribute.name, quoted=True)
    listed = None
    if stretches.is_open and stretches.texts is not None:
        # Where others lie nobody can say.
        listed = exp.In(this=column.copy(), expressions=[stretches.literal(k) for k in range(len(stretches.texts))])
    has_value = exp.Not(this=exp.Is(this=column.copy(), expression=exp.null()))
    ends = [stretches.literal(high) for high in stretches.highs[:-1].tolist()]
    parts: list[exp.Expr] = [kind(this=column.copy(), expression=end) for end in ends for kind in (exp.LTE, exp.GT)]
    parts = [part if listed is None else exp.and_(part, listed.copy()) for part in (*parts, has_value)]
    parts.append(exp.false() if listed is None else exp.and_(has_value.copy(), exp.Not(this=listed.copy())))
    texts = [dialect.sql(part) for part in parts]
    # A newline ends a comment that a condition may close with.
    return texts if given is None else [f"({given}\n) AND {text}" for text in texts]


def _row(stretches: _Stretches, share: float, counted: _Counted, differences: Differences | None) -> dict[str, Any]:
    if counted.rows <= 0:
        # As the model has no weight that is 0, no value of the domain meets the condition.
        return {"share": share, "answer": None, "low": None, "high": None, "measured": counted.measured[-2]}
    model, least, most = counted.differences(share)
    number, at_most = _first(model >= -COUNT_SLACK * counted.rows), counted.at_most(counted.model)
    first, last = _window(least, most, counted.may_have)
    if differences is not None:
        for k in range(max(0, first - 1), min(last + 1, len(model))):
            low, high = differences(k, share)
            least[k] = max(least[k], low - share * counted.off_list)
            most[k] = min(most[k], high + (1 - share) * counted.off_list)
        first, last = _window(least, most, counted.may_have)
    # The model has other noise, and may have parts of rows.
    first, last = min(first, number), max(last, number)
    before = float(at_most[number - 1]) if number else 0.0
    here = float(at_most[number]) if number < len(at_most) else counted.rows
    inside = (share * counted.rows - before) / (here - before) if here > before else 1.0
    # All that is off a list may be below its first value, or above its last.
    sure, off_list = float(counted.low[-2]), counted.off_list
    is_below = off_list > 0 and first == 0 and (1 - share) * off_list >= share * sure
    is_above = off_list > 0 and (1 - share) * sure < share * off_list
    return {
        "share": share,
        "answer": stretches.inside(number, inside),
        "low": None if is_below else stretches.first(first),
        "high": None if is_above else stretches.last(last),
        "measured": counted.worst(first, last),
    }


def _window(least: Floats, most: Floats, may_have: Flags) -> tuple[int, int]:
    """The first and the last stretch that the quantile may lie in.

    At the end of the last one, D is not negative. Of no row there is no quantile: one is at most at it at least.
    """
    reaches = np.flatnonzero(least < 0)
    return _first((most >= 0) & may_have), int(reaches[-1]) + 1 if len(reaches) else 0


def _first(flags: npt.NDArray[np.bool_]) -> int:
    """The first that is true; behind the last if none is."""
    return int(flags.argmax()) if flags.any() else len(flags)
