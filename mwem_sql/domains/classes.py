"""Pieces, the finest public grid of an attribute, and classes: the partition of pieces that a workload needs.

A piece is one value, one bin, or all values between two neighbouring constants of the workload. Pieces that no query
distinguishes form one class, which has its size (its base measure) and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mwem_sql.algebra.arrays import Floats, Labels
from mwem_sql.algebra.partition import Partition
from mwem_sql.domains.attribute import Attribute
from mwem_sql.errors import refuse_domain
from mwem_sql.language import round_numbers
from mwem_sql.language.ticks import Tick

MAX_VALUES = 100_000
"""Values of one attribute that are listed one by one. More: expressions that are evaluated on each take longer."""
NULL_SHARE, POINT_SHARE = 0.01, 1e-4
"""Base measure of NULL and of a single point, as a share of a continuous attribute's length: they have no length.
Larger: more of the weight that nothing was measured about goes to them."""

MAX_EXACT = 2.0**52
"""Up to here real numbers count one by one."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Pieces:
    """The pieces of one attribute, in order of value; the NULL piece, if any, is last.

    For an attribute with bounds, piece i holds the ticks `lows[i]` to `highs[i]`, both included, and is evaluated at
    `points[i]`; for one with a list of values all three are empty. `bins[i]` is the group_by cell of piece i. Values
    off an open list are evaluated as NULL where they have no stand-in.
    """

    attribute: Attribute
    lows: npt.NDArray[Any]
    highs: npt.NDArray[Any]
    points: npt.NDArray[Any]
    bins: Labels
    has_stand_in: bool = True

    @classmethod
    def spanning(cls, attribute: Attribute, lows: npt.NDArray[Any], highs: npt.NDArray[Any], bins: Labels) -> Pieces:
        """Pieces of an attribute with bounds, each to be evaluated in its middle."""
        middle = lows + (highs - lows) // 2 if attribute.ordered.discrete else lows + (highs - lows) / 2
        return cls(attribute=attribute, lows=lows, highs=highs, points=np.clip(middle, lows, highs), bins=bins)

    def __len__(self) -> int:
        return self.non_null + int(self.attribute.nullable)

    @property
    def non_null(self) -> int:
        """Pieces other than NULL: of a list its values and, where it is open, all others together."""
        values = self.attribute.values
        return len(self.lows) if values is None else len(values) + int(self.attribute.open)

    @cached_property
    def sizes(self) -> Floats:
        """Base measure: number of values, or length where they cannot be counted; 1 for each bin with listed edges.

        Whoever lists edges says where values are: incomes by 10,000 and then by 100,000 are not taken to be mostly
        above 100,000.
        """
        attribute = self.attribute
        if attribute.values is not None:
            sizes = np.ones(self.non_null)
            sizes[self.is_outer] = POINT_SHARE * max(1, len(attribute.values))
            return self.with_null(sizes, 1.0)
        sizes = self._bins_covered() if attribute.edges is not None else self.lengths.copy()
        null = 1.0 if attribute.ordered.discrete and self.listed else NULL_SHARE * (sizes.sum() or 1.0)
        sizes[self.is_outer] = POINT_SHARE * (sizes.sum() or 1.0)
        return self.with_null(sizes, null)

    def _bins_covered(self) -> Floats:
        """How many bins each piece covers, parts of them counted by their length."""
        high = self.attribute.high
        assert high is not None
        extra = int(self.attribute.ordered.discrete)
        ends = np.array([*bin_edges(self.attribute), high + extra], dtype=np.float64)
        bins = np.arange(len(ends), dtype=np.float64)
        covered: Floats = np.interp(self.highs + extra, ends, bins) - np.interp(self.lows, ends, bins)
        if ends[-1] == ends[-2]:  # the last bin is one real number, and has no length
            last = int(np.searchsorted(self.lows, high, side="right")) - 1
            covered[last] = bins[-1] - np.interp(self.lows[last], ends[:-1], bins[:-1])
        return covered

    @cached_property
    def lengths(self) -> Floats:
        """How long each piece with bounds is: its number of values, or its length where they cannot be counted."""
        lengths: Floats = self.highs.astype(np.float64) - self.lows + int(self.attribute.ordered.discrete)
        return lengths

    @cached_property
    def is_outer(self) -> npt.NDArray[np.bool_]:
        """Which pieces, NULL aside, hold values off the domain: off a list, or beyond a bound."""
        low, high, values = self.attribute.low, self.attribute.high, self.attribute.values
        if values is not None:
            return np.arange(self.non_null) >= len(values)
        return (self.highs < low) | (self.lows > high)

    def with_null(self, numbers: npt.NDArray[Any], null: float) -> npt.NDArray[Any]:
        """What holds for NULL behind what holds for all other pieces, if there is a NULL."""
        return np.append(numbers, null) if self.attribute.nullable else numbers

    def holding(self, ticks: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """The piece that each of some ticks lies in; and the NULL piece, if there is one, behind them."""
        return self.with_null(np.clip(np.searchsorted(self.lows, ticks, side="right") - 1, 0, None), self.non_null)

    def cut(self, lows: npt.NDArray[Any]) -> Pieces:
        """More pieces of an attribute with bounds: those that begin at `lows`, where all of these begin, too."""
        return Pieces.spanning(self.attribute, lows, piece_ends(self.attribute, lows), self.bins[self.holding(lows)])

    @property
    def listed(self) -> bool:
        """Every piece is a single value of the domain."""
        attribute = self.attribute
        return attribute.values is not None or bool((self.lows == self.highs).all())

    def values(self) -> pa.Array:
        """A value of each piece, as text or in the attribute's own type, NULL last."""
        attribute = self.attribute
        if attribute.values is None:
            values = attribute.ordered.arrow(self.points)
        else:
            other = attribute.other if attribute.open and self.has_stand_in else None
            values = pa.array([*attribute.values, *[other] * attribute.open], pa.string())
        return pa.concat_arrays([values, pa.nulls(1, values.type)]) if attribute.nullable else values

    def inside(self, most: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
        """Values of each piece, and where those of each begin.

        All of them if they are not too many, else evenly spaced ones with both ends.
        """
        if self.attribute.count is not None and self.attribute.count <= most:
            return np.arange(int(self.lows[0]), int(self.highs[-1]) + 1), (self.lows - self.lows[0]).astype(np.intp)
        count = int(np.clip(most // max(1, self.non_null), 2, 65))
        shares = np.linspace(0, 1, count)
        values = self.lows[:, None] * (1 - shares) + self.highs[:, None] * shares
        if self.attribute.ordered.discrete:
            values = np.rint(values).astype(np.int64)
        values = np.clip(self.attribute.ordered.nearest(values), self.lows[:, None], self.highs[:, None])
        return values.reshape(-1), np.arange(self.non_null) * count

    def probe(self, pieces: npt.NDArray[np.intp], generator: np.random.Generator) -> pa.Array:
        """A value of each of some pieces on which it may be evaluated: that of a bin is the bin's own."""
        if self.attribute.has_bins or self.attribute.values is not None:
            return self.values().take(pa.array(pieces))
        return self._shown(pieces, self._inside(pieces, generator))

    def draw(self, pieces: npt.NDArray[np.intp], slopes: Floats, generator: np.random.Generator) -> pa.Array:
        """A value of each of some pieces with bounds, and with slopes as in `Classes.slopes`; at most a bound."""
        ticks = np.clip(self._inside(pieces, generator, slopes), self.attribute.low, self.attribute.high)
        return self._shown(pieces, ticks)

    def _shown(self, pieces: npt.NDArray[np.intp], ticks: npt.NDArray[Any]) -> pa.Array:
        """Ticks as values, and NULL for those of the NULL piece."""
        rows = pa.array(np.arange(len(pieces)), mask=pieces >= self.non_null)
        return pa.array(self.attribute.ordered.arrow(ticks)).take(rows)

    def _inside(
        self, pieces: npt.NDArray[np.intp], generator: np.random.Generator, slopes: Floats | None = None
    ) -> npt.NDArray[Any]:
        """A tick of each of some pieces with bounds, all equally likely without slopes; of the NULL piece any."""
        attribute = self.attribute
        inside = np.minimum(pieces, self.non_null - 1)
        if self.listed:
            return self.points[inside]
        lows, highs, shares = self.lows[inside], self.highs[inside], generator.random(len(pieces))
        if slopes is not None:
            shares = _sloped(shares, slopes[inside])
        if attribute.ordered.discrete:
            # Of a range wider than a real number has digits, any tick.
            is_wide = self.lengths[inside] > MAX_EXACT
            ticks = lows + np.floor(shares * np.where(is_wide, 1, self.lengths[inside])).astype(np.int64)
            if is_wide.any():
                ticks = np.where(is_wide, generator.integers(lows, highs, endpoint=True), ticks)
        else:
            ticks = attribute.ordered.nearest(lows + (highs - lows) * shares)
        return np.asarray(np.clip(self._on_steps(ticks, lows, highs), lows, highs))

    def _on_steps(self, ticks: npt.NDArray[Any], lows: npt.NDArray[Any], highs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The step below each of some ticks, or the first inside its piece; the tick itself where no step is inside."""
        attribute = self.attribute
        if attribute.step is None:
            return ticks
        low, step = attribute.low, attribute.step
        first, last = np.ceil((lows - low) / step - 1e-9), np.floor((highs - low) / step + 1e-9)
        number = np.clip(np.floor((ticks - low) / step), first, last)
        return np.where(first <= last, attribute.on_steps(number.astype(np.int64)), ticks)

    def label(self, piece: int) -> str | None:
        """The group_by cell of a piece in words: its value, or the bounds of its bin or interval; None for NULL."""
        if self.attribute.has_bins and piece < self.non_null and not self.is_outer[piece]:
            inside = np.flatnonzero(self.bins[: self.non_null] == self.bins[piece])
            return self._interval(inside[0], inside[-1])
        return self.label_alone(piece)

    def label_alone(self, piece: int) -> str | None:
        """A piece in words, be it part of a bin or several bins."""
        if piece >= self.non_null:
            return None
        attribute = self.attribute
        if attribute.values is not None:
            return attribute.other_label if self.is_outer[piece] else attribute.values[piece]
        if self.is_outer[piece]:
            assert attribute.low is not None and attribute.high is not None
            is_below = self.highs[piece] < attribute.low
            return f"below {attribute.text(attribute.low)}" if is_below else f"above {attribute.text(attribute.high)}"
        if self.listed and not attribute.has_bins:
            return attribute.text(self.points[piece].item())
        return self._interval(piece, piece)

    def _interval(self, first: int | np.intp, last: int | np.intp) -> str:
        """The bounds of neighbouring pieces."""
        attribute, low, high = self.attribute, self.lows[first].item(), self.highs[last].item()
        if attribute.ordered.discrete or high == attribute.high:
            return f"[{attribute.text(low)}, {attribute.text(high)}]"
        return f"[{attribute.text(low)}, {attribute.text(attribute.ordered.after(high))})"


@dataclass(frozen=True, eq=False, init=False)
class Classes(Partition):
    """A partition of an attribute's pieces: `codes[i]` is the class of piece i, numbered by first appearance.

    `weights` are what was measured of the pieces: those of a class share what it has by them; by base measure where
    there are none.
    """

    pieces: Pieces
    weights: Floats | None

    def __init__(self, pieces: Pieces, codes: Labels, weights: Floats | None = None) -> None:
        # Not by assignment: a partition is frozen. No share is of nothing.
        base = np.maximum(pieces.sizes if weights is None else weights, 1e-300)
        self.__dict__.update(pieces=pieces, codes=codes, weights=weights, base=base)

    @property
    def attribute(self) -> Attribute:
        return self.pieces.attribute

    @cached_property
    def sizes(self) -> Floats:
        """The base measure of each class, always positive."""
        return self._summed(self.pieces.sizes)

    def within(self, coarser: Classes) -> Partition:
        """These classes as members of `coarser`, by what was measured there, or by base measure."""
        sizes = self.sizes if coarser.weights is None else self._summed(coarser.weigh(self.pieces))
        return Partition(coarser.holding(self.pieces)[self.representatives], sizes)

    def _summed(self, weights: Floats) -> Floats:
        sums, lengths = (
            np.bincount(self.codes, weights=each, minlength=self.count) for each in (weights, self.pieces.sizes)
        )
        total = sums.sum()
        # A class of single points on a continuous range has no length of its own.
        is_point = lengths <= lengths.sum() * 1e-12
        return np.where(
            is_point, POINT_SHARE * total if total > 0 else 1.0, np.maximum(sums, np.finfo(np.float64).tiny)
        )

    @property
    def densities(self) -> Floats:
        """What the pieces of a class share it by."""
        return self.pieces.sizes if self.weights is None else self.weights

    def weigh(self, finer: Pieces) -> Floats:
        """The same of other pieces: inside one of these, by base measure."""
        pieces = self.pieces
        assert self.weights is not None
        if pieces.attribute.values is not None or (pieces.listed and finer.listed):
            return self.weights
        # What lies below the beginning of each piece, and between beginnings in proportion.
        extra = int(pieces.attribute.ordered.discrete)
        begins = np.append(pieces.lows, pieces.highs[-1] + extra).astype(np.float64)
        below = np.concatenate([[0.0], np.cumsum(self.weights[: pieces.non_null])])
        weights = np.interp(finer.highs + extra, begins, below) - np.interp(finer.lows, begins, below)
        return pieces.with_null(weights, self.weights[-1])

    def slopes(self, rows: Floats) -> Floats:
        """How steeply the density of rows rises through each piece with bounds, by that of its neighbours.

        From -2, where the end of a piece has none, to 2, where its beginning has none. `rows` are those of each class.
        The density changes as little as it does to either side; a piece that is higher or lower than both neighbours
        is even.
        """
        pieces = self.pieces
        out, inside = np.zeros(pieces.non_null), np.flatnonzero(~pieces.is_outer & (pieces.lengths > 0))
        if len(inside) < 3:  # two pieces show no trend
            return out
        lengths = pieces.lengths[inside]
        density = rows[self.codes[inside]] * self.shares[inside] / lengths
        rises = np.diff(density) / np.diff(pieces.lows[inside] + lengths / 2)
        before, after = np.append(rises[0], rises), np.append(rises, rises[-1])
        rise = np.where(before * after > 0, np.sign(before) * np.minimum(np.abs(before), np.abs(after)), 0.0)
        limited = np.clip(rise * lengths, -2 * density, 2 * density)
        out[inside] = np.divide(limited, density, out=np.zeros_like(density), where=density > 0)
        return out

    def holding(self, finer: Pieces) -> Labels:
        """The class that each of other pieces, which are no wider than one of these, lies in."""
        if finer.attribute.values is not None:
            return self.codes
        return self.codes[self.pieces.holding(finer.points)]

    def merge(self, coarser: Partition) -> Classes:
        return Classes(self.pieces, coarser.codes[self.codes], self.weights)

    def joined(self) -> Classes:
        """The same classes on longer pieces: neighbours between cuts that ended up in one class are one piece."""
        pieces, count = self.pieces, self.pieces.non_null
        if pieces.listed:
            return self
        is_first = (np.diff(self.codes[:count], prepend=-1) != 0) | (np.diff(pieces.bins[:count], prepend=-1) != 0)
        first = np.flatnonzero(is_first)
        last = np.append(first[1:], count) - 1
        keep = pieces.with_null(first, count)
        longer = Pieces.spanning(pieces.attribute, pieces.lows[first], pieces.highs[last], pieces.bins[keep])
        return Classes(longer, self.codes[keep])


def _sloped(shares: Floats, slopes: Floats) -> Floats:
    """Numbers with the density 1 + slope * (x - 1/2) between 0 and 1, from numbers that are even there."""
    start = 1 - slopes / 2
    return 2 * shares / (start + np.sqrt(start**2 + 2 * slopes * shares))


def is_long(attribute: Attribute) -> bool:
    """Whether the values of an attribute are not pieces of their own: they lie in bins, or are too many."""
    if attribute.values is not None:
        return False
    return attribute.has_bins or attribute.cells is None or attribute.cells > MAX_VALUES


def value_pieces(attribute: Attribute, cuts: Iterable[Tick] = (), begins: Iterable[Tick] = ()) -> Pieces:
    """Every value or bin its own piece; `cuts` and `begins` matter to bins only."""
    count = attribute.cells
    if count is None or count > MAX_VALUES:
        many = "endlessly many values" if count is None else f"{count:,} values"
        raise refuse_domain(
            f"attribute {attribute.name} has {many}, and a query needs them one by one (at most {MAX_VALUES:,})",
            "declare step, bins or values in a domain table, or ask comparisons with constants only",
        )
    if attribute.values is not None:
        none = np.empty(0, dtype=np.int64)
        return Pieces(attribute=attribute, lows=none, highs=none, points=none, bins=np.arange(count, dtype=np.int32))
    assert attribute.low is not None and attribute.high is not None
    scale = attribute.ordered
    if attribute.has_bins:
        return _between(attribute, cuts, bin_edges(attribute), begins)
    points = scale.nearest(attribute.least + np.arange(count - int(attribute.nullable)))
    highs, bins = piece_ends(attribute, points), np.arange(count, dtype=np.int32)
    return Pieces(attribute=attribute, lows=points, highs=highs, points=points, bins=bins)


def cut_pieces(attribute: Attribute, cuts: Iterable[Tick], begins: Iterable[Tick] = ()) -> Pieces:
    """Pieces between neighbouring cuts, each cut and its two neighbours a piece; others begin at `begins`."""
    assert attribute.low is not None
    return _between(attribute, cuts, [attribute.low], begins)


def bin_edges(attribute: Attribute) -> list[Tick]:
    """Where the bins of an attribute begin, even or listed ones, or steps; the first at its lower bound."""
    assert attribute.has_bins and attribute.low is not None
    if attribute.bins is not None:
        return even_edges(attribute, attribute.bins)
    if attribute.edges is not None:
        return sorted({attribute.low, *attribute.edges})
    return sorted(set(attribute.on_steps(np.arange(attribute.steps)).tolist()))


def part_edges(attribute: Attribute, most: int) -> list[Tick]:
    """Where parts of a range begin, at most so many: its bins, neighbours joined if they are more, or even parts."""
    if attribute.bins is not None or not attribute.has_bins:
        return even_edges(attribute, min(most, attribute.bins or most))
    edges = bin_edges(attribute)
    parts = min(most, len(edges))
    return [edges[part * len(edges) // parts] for part in range(parts)]


def even_edges(attribute: Attribute, parts: int) -> list[Tick]:
    """Where even parts of a range begin."""
    assert attribute.low is not None and attribute.high is not None
    return round_numbers.even(attribute.ordered, attribute.low, attribute.high, parts)


def with_outer(attribute: Attribute, edges: Sequence[Tick]) -> list[Tick]:
    """Beginnings of bins, and of what lies beyond the bounds."""
    assert attribute.high is not None
    beyond = {attribute.most} if attribute.most > attribute.high else set()
    return sorted({attribute.least, *edges, *beyond})


def _between(attribute: Attribute, cuts: Iterable[Tick], edges: Sequence[Tick], begins: Iterable[Tick]) -> Pieces:
    """Pieces that begin at each cut, one past it and one before it, at `begins`, and at `edges` of bins."""
    assert attribute.low is not None and attribute.high is not None
    scale = attribute.ordered
    edges = with_outer(attribute, edges)
    begin = {*edges, *begins}
    for cut in set(cuts):
        # The truth of a comparison can only change at the constant or right beside it.
        begin |= {scale.before(cut), cut, scale.after(cut), scale.after(scale.after(cut))}
    dtype = np.int64 if scale.discrete else np.float64
    lows = np.array(sorted(tick for tick in begin if attribute.least <= tick <= attribute.most), dtype=dtype)
    highs = piece_ends(attribute, lows)
    bins = np.searchsorted(np.array(edges, dtype=dtype), lows, side="right") - 1
    if attribute.nullable:
        bins = np.append(bins, len(edges))
    return Pieces.spanning(attribute, lows, highs, bins.astype(np.int32))


def piece_ends(attribute: Attribute, lows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Where pieces end that begin at `lows`: right before the next, the last at the attribute's end."""
    scale = attribute.ordered
    before = lows[1:] - 1 if scale.discrete else [scale.before(low) for low in lows[1:].tolist()]
    return np.append(before, attribute.most).astype(lows.dtype)
