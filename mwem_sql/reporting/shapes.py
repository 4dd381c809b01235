"""What a state says of attributes, coarse enough to be drawn: each attribute in a few bars, pairs as a table of them.

Sees a stored release only. Numbers are cut into even bars of their declared range, or at the edges that are declared;
of long lists the largest values are shown, and the rest as one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, log10
from typing import TypeAlias

import numpy as np
from sqlglot import exp

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.table import shares_within
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes, part_edges
from mwem_sql.language import dialect, round_numbers
from mwem_sql.releases.store import Stored
from mwem_sql.workload import Workload

MOST_BARS = 32
"""Bars of an attribute's own picture. More: they get thinner than a phone can show."""
MOST_CELLS = 14
"""Rows and columns of a pair's picture."""
MOST_LETTERS = 15
"""Letters of a bar's name."""
DAY = 86_400_000_000
"""Microseconds, the ticks of a TIMESTAMP."""


@dataclass(frozen=True, eq=False)
class Bars:
    """How the classes of an attribute are spread over bars: `shares[bar, class]`, each column sums to 1. `predicates` say which rows are in a bar."""

    labels: list[str]
    shares: Floats
    ordered: bool
    predicates: list[exp.Expr]

    @classmethod
    def of(cls, classes: Classes, rows: Floats, most: int) -> Bars:
        """At most `most` bars; `rows` of each class decide which values of a long list are shown."""
        inside = shares_within(classes.codes, np.maximum(classes.densities, 1e-300))
        ordered = classes.attribute.values is None
        labels, of_piece, predicates = (
            _even(classes, most) if ordered else _largest(classes, inside * rows[classes.codes], most)
        )
        shares = np.zeros((len(labels), classes.count))
        for bar, parts in enumerate(of_piece):
            np.add.at(shares[bar], classes.codes, parts * inside)
        return cls(labels, shares, ordered, predicates)


_Bars: TypeAlias = tuple[list[str], Floats, list[exp.Expr]]
"""Names of bars, by bar what it has of each piece, and the rows that are in it."""


def _largest(classes: Classes, rows: Floats, most: int) -> _Bars:
    """The values of a list, the largest first where not all are shown. By bar, what it has of each piece."""
    count = len(classes.pieces)
    shown = np.arange(count) if count <= most else np.sort(np.argsort(-rows, kind="stable")[: most - 1])
    labels = [_label(classes, piece) for piece in shown.tolist()]
    of_piece = np.zeros((len(shown) + (count > most), count))
    of_piece[np.arange(len(shown)), shown] = 1.0
    if count > most:
        labels.append(f"{count - len(shown):,} others")
        of_piece[-1] = 1.0 - of_piece[:-1].sum(axis=0)
    predicates = [_has(classes, piece) for piece in shown.tolist()]
    if count > most:
        # Not true where any other is; of a NULL among these others none of them is true or false.
        any_other = exp.or_(*(each.copy() for each in predicates))
        predicates.append(exp.Coalesce(this=exp.not_(any_other), expressions=[exp.true()]))
    return labels, of_piece, predicates


def _has(classes: Classes, piece: int) -> exp.Expr:
    """Whether a row has the value of a piece of a list, one off the list, or NULL."""
    attribute, column = classes.attribute, exp.column(classes.attribute.name, quoted=True)
    listed = attribute.values or ()
    if piece < len(listed):
        return exp.EQ(this=column, expression=exp.Literal.string(listed[piece]))
    if piece >= classes.pieces.known:
        return exp.Is(this=column, expression=exp.null())
    return exp.not_(exp.In(this=column, expressions=[exp.Literal.string(value) for value in listed]))


def _even(classes: Classes, most: int) -> _Bars:
    """Bars of a declared range, even ones or the bins whose edges are listed, and one each for what is below, above and NULL. By bar, what it has of each piece, whose values are taken for equally likely."""
    pieces, attribute = classes.pieces, classes.attribute
    scale, discrete, inside = attribute.ordered, attribute.ordered.discrete, ~pieces.is_outer
    assert attribute.low is not None and attribute.high is not None
    low, high = float(attribute.low), float(attribute.high) + discrete
    lows, ends = pieces.lows[inside].astype(np.float64), pieces.highs[inside].astype(np.float64) + discrete
    bars = most - attribute.nullable - attribute.outer
    # Whole numbers in bars of as many each: of fewer values, a bar would be lower.
    if attribute.edges is not None:
        edges = np.append(np.array(part_edges(attribute, bars), dtype=np.float64), high)
    elif discrete:
        edges = np.append(np.arange(low, high, np.ceil((high - low) / bars)), high)
    else:
        edges = np.linspace(low, high, _parts(attribute, bars) + 1)
    starts, stops = edges[:-1, None], edges[1:, None]
    width = np.maximum(ends - lows, 0.0)
    overlap = np.clip(np.minimum(ends, stops) - np.maximum(lows, starts), 0.0, None)
    # A single point of a continuous range has no width: it is in the bar that holds it.
    holds = (lows >= starts) & ((lows < stops) | (np.arange(len(edges) - 1)[:, None] == len(edges) - 2))
    among = np.where(width > 0, overlap / np.where(width > 0, width, 1.0), holds / np.maximum(holds.sum(axis=0), 1))
    labels = [_range(attribute, start, stop - discrete, stop - start) for start, stop in itertools.pairwise(edges)]
    column, kind = exp.column(attribute.name, quoted=True), int if discrete else float
    predicates: list[exp.Expr] = []
    for start, stop in itertools.pairwise(edges.tolist()):
        last = scale.before(kind(stop)) if discrete or stop < edges[-1] else kind(stop)
        ends_at = exp.LTE(this=column.copy(), expression=scale.literal(last))
        predicates.append(exp.and_(exp.GTE(this=column.copy(), expression=scale.literal(kind(start))), ends_at))
    alone = [*np.flatnonzero(pieces.is_outer).tolist(), *[pieces.known] * attribute.nullable]
    of_piece = np.zeros((len(labels) + len(alone), len(pieces)))
    of_piece[: len(labels), : pieces.known][:, inside] = among
    for piece in alone:
        of_piece[len(labels), piece] = 1.0
        labels.append(_label(classes, piece))
        predicates.append(_beyond(classes, piece))
    return labels, of_piece, predicates


def _beyond(classes: Classes, piece: int) -> exp.Expr:
    """Whether a row has NULL, or a value on the side of the bounds that a piece is on."""
    attribute, column = classes.attribute, exp.column(classes.attribute.name, quoted=True)
    if piece >= classes.pieces.known:
        return exp.Is(this=column, expression=exp.null())
    assert attribute.low is not None and attribute.high is not None
    if classes.pieces.highs[piece] < attribute.low:
        return exp.LT(this=column, expression=attribute.ordered.literal(attribute.low))
    return exp.GT(this=column, expression=attribute.ordered.literal(attribute.high))


def _parts(attribute: Attribute, most: int) -> int:
    """Bars of a continuous range: its own bins where they are few enough, or such that they end at round numbers."""
    assert attribute.low is not None and attribute.high is not None
    if attribute.bins is not None and attribute.bins <= most:
        return attribute.bins
    return round_numbers.bins(attribute.ordered, attribute.low, attribute.high, most) or most


def _range(attribute: Attribute, first: float, last: float, width: float) -> str:
    """What a bar is called: where a long name would be cut, only where it begins."""
    one, other = _tick(attribute, first, width), _tick(attribute, last, width)
    if one == other:
        return one
    both = f"{one} to {other}"
    return both if len(both) <= MOST_LETTERS else f"{one} on"


def _tick(attribute: Attribute, value: float, width: float) -> str:
    """A value as a person would write it beside bars of some width: no more digits, no hours beside days."""
    family = attribute.ordered.family
    if family == "real":
        digits = max(0, 1 - floor(log10(width))) if width > 0 else 6
        return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"
    text = attribute.text(int(value))
    return text[: len("2026-01-01")] if family.startswith("timestamp") and width >= DAY else text


def _label(classes: Classes, piece: int) -> str:
    text = classes.pieces.label(piece)
    return "NULL" if text is None else text


def one_way(stored: Stored) -> dict[str, tuple[Bars, Floats]]:
    """Of each attribute its bars, and the rows in them."""
    state, out = stored.state(), {}
    for name, classes in stored.classes.items():
        rows = state.marginal([name])
        bars = Bars.of(classes, rows, MOST_BARS)
        out[name] = bars, bars.shares @ rows
    return out


def workload(drawn: Mapping[str, tuple[Bars, Floats]]) -> Workload | None:
    """How many rows each bar of some attributes has, as questions; None without any bar."""
    texts = [dialect.sql(predicate) for bars, _ in drawn.values() for predicate in bars.predicates]
    return Workload.from_predicates(texts) if texts else None


def two_way(stored: Stored, pairs: list[tuple[str, str]]) -> dict[tuple[str, str], tuple[Bars, Bars, Floats]]:
    """Of each pair of attributes the bars of both, and the rows in each combination."""
    state, out = stored.state(), {}
    for first, second in pairs:
        rows = state.marginal([first, second])
        down = Bars.of(stored.classes[first], rows.sum(axis=1), MOST_CELLS)
        across = Bars.of(stored.classes[second], rows.sum(axis=0), MOST_CELLS)
        out[first, second] = down, across, down.shares @ rows @ across.shares.T
    return out
