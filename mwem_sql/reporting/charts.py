"""Pictures of a release as SVG text, and the bars that attributes are drawn in.

`Bars` say what a state has of an attribute, coarse enough to be drawn. Numbers are cut into even bars of their declared
range, or at the edges that are declared; of long lists the largest values are shown, and the rest as one. Pictures know
numbers and labels only: bars, columns, a heat map, a matrix of pairs, dots along the rounds. Colours are classes of the
page's style sheet, so that a picture is right in light and in dark. Sees a stored release only.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from math import floor, log10
from typing import NamedTuple, TypeAlias
from unicodedata import east_asian_width

import numpy as np
from sqlglot import exp

from mwem_sql.algebra.arrays import Floats
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes, part_edges
from mwem_sql.language import round_numbers
from mwem_sql.language.ticks import Tick
from mwem_sql.releases.store import Stored

PICTURE_WIDTH = 340
"""Units of a picture's width; the page scales it to the room there is."""
LINE = 17
"""Units between two bars."""
LETTER = 6
"""Units that a letter is wide, about."""
MOST_BARS = 32
"""Bars of an attribute's picture. More: they get thinner than a phone can show."""
MOST_SQUARES = 14
"""Rows, and columns, of a pair's picture. More: its squares get smaller than a finger."""


@dataclass(frozen=True, eq=False)
class Bars:
    """How the classes of an attribute are distributed over bars: `shares[bar, class]`, each column sums to 1.

    `predicates` say which rows are in a bar.
    """

    labels: list[str]
    shares: Floats
    ordered: bool
    predicates: list[exp.Expr]

    @classmethod
    def of(cls, classes: Classes, rows: Floats, most: int) -> Bars:
        """At most `most` bars; `rows` of each class decide which values of a long list are shown."""
        ordered = classes.attribute.values is None
        several = list(_even(classes, most) if ordered else _largest(classes, classes.spread(rows, 0), most))
        shares = [np.bincount(classes.codes, bar.parts * classes.shares, classes.count) for bar in several]
        return cls([bar.label for bar in several], np.array(shares), ordered, [bar.predicate for bar in several])


class _Bar(NamedTuple):
    """A bar's name, the part of each piece that is in it, and the rows that are."""

    label: str
    parts: Floats
    predicate: exp.Expr


def _largest(classes: Classes, rows: Floats, most: int) -> Iterator[_Bar]:
    """The values of a list; of a long one those with most rows, in the list's order, and one bar for the others."""
    count = len(classes.pieces)
    shown = np.arange(count) if count <= most else np.sort(np.argsort(-rows, kind="stable")[: most - 1])
    several = [_alone(classes, piece) for piece in shown.tolist()]
    yield from several
    if count > most:
        # Not true where any other is; of a NULL among these others none of them is true or false.
        any_other = exp.or_(*(bar.predicate.copy() for bar in several))
        others = exp.Coalesce(this=exp.not_(any_other), expressions=[exp.true()])
        is_other = np.isin(np.arange(count), shown, invert=True)
        yield _Bar(f"{count - len(shown):,} others", is_other.astype(np.float64), others)


def _alone(classes: Classes, piece: int) -> _Bar:
    """The bar of a single piece: a value of a list, what is off the domain on one side, or NULL."""
    attribute, pieces = classes.attribute, classes.pieces
    column, listed = exp.column(attribute.name, quoted=True), attribute.values
    predicate: exp.Expr
    if piece >= pieces.non_null:
        predicate = exp.Is(this=column, expression=exp.null())
    elif listed is not None and piece < len(listed):
        predicate = exp.EQ(this=column, expression=exp.Literal.string(listed[piece]))
    elif listed is not None:
        predicate = exp.not_(exp.In(this=column, expressions=[exp.Literal.string(value) for value in listed]))
    else:
        low, high = _bounds(attribute)
        is_below = pieces.highs[piece] < low
        side, bound = (exp.LT, low) if is_below else (exp.GT, high)
        predicate = side(this=column, expression=attribute.ordered.literal(bound))
    label = pieces.label(piece)
    return _Bar("NULL" if label is None else label, (np.arange(len(pieces)) == piece).astype(np.float64), predicate)


def _bounds(attribute: Attribute) -> tuple[Tick, Tick]:
    assert attribute.low is not None and attribute.high is not None
    return attribute.low, attribute.high


def _even(classes: Classes, most: int) -> Iterator[_Bar]:
    """Bars of a declared range, even ones or the bins whose edges are listed; one each for below, above and NULL.

    The values of a piece are taken for equally likely.
    """
    pieces, attribute = classes.pieces, classes.attribute
    scale, discrete, inside = attribute.ordered, attribute.ordered.discrete, ~pieces.is_outer
    low, high = map(float, _bounds(attribute))
    high += discrete
    lows, ends = pieces.lows[inside].astype(np.float64), pieces.highs[inside].astype(np.float64) + discrete
    count = most - attribute.nullable - attribute.outer
    # Whole numbers in bars of as many each: of fewer values, a bar would be lower.
    if attribute.edges is not None:
        edges = np.append(np.array(part_edges(attribute, count), dtype=np.float64), high)
    elif discrete:
        edges = np.append(np.arange(low, high, np.ceil((high - low) / count)), high)
    else:
        edges = np.linspace(low, high, _parts(attribute, count) + 1)
    column, kind, width = exp.column(attribute.name, quoted=True), int if discrete else float, ends - lows
    for bar, (start, stop) in enumerate(itertools.pairwise(edges.tolist())):
        is_last = bar == len(edges) - 2
        overlap = np.clip(np.minimum(ends, stop) - np.maximum(lows, start), 0.0, None)
        # A single point of a continuous range has no width: it is in the bar that holds it.
        holds = (lows >= start) & ((lows < stop) | is_last)
        parts = np.zeros(len(pieces))
        parts[: pieces.non_null][inside] = np.where(width > 0, overlap / np.where(width > 0, width, 1.0), holds)
        last = kind(stop) if is_last and not discrete else scale.before(kind(stop))
        begins = exp.GTE(this=column.copy(), expression=scale.literal(kind(start)))
        within = exp.and_(begins, exp.LTE(this=column.copy(), expression=scale.literal(last)))
        yield _Bar(_range(attribute, start, stop - discrete, stop - start), parts, within)
    for piece in [*np.flatnonzero(pieces.is_outer).tolist(), *[pieces.non_null] * attribute.nullable]:
        yield _alone(classes, piece)


def _parts(attribute: Attribute, most: int) -> int:
    """Bars of a continuous range: its own bins where they are few enough, or such that they end at round numbers."""
    if attribute.bins is not None and attribute.bins <= most:
        return attribute.bins
    return round_numbers.bins(attribute.ordered, *_bounds(attribute), most) or most


def _range(attribute: Attribute, first: float, last: float, width: float) -> str:
    """What a bar is called: where a long name would be cut, only where it begins."""
    one, other = _tick(attribute, first, width), _tick(attribute, last, width)
    if one == other:
        return one
    both = f"{one} to {other}"
    return both if len(both) <= 15 else f"{one} on"


def _tick(attribute: Attribute, value: float, width: float) -> str:
    """A value as a person would write it beside bars of some width: no more digits, no hours beside days."""
    family = attribute.ordered.family
    if family == "real":
        digits = max(0, 1 - floor(log10(width))) if width > 0 else 6
        return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"
    text = attribute.text(int(value))
    day = 86_400_000_000  # microseconds
    return text[: len("2026-01-01")] if family.startswith("timestamp") and width >= day else text


OneWay: TypeAlias = tuple[Bars, Floats]
"""The bars of an attribute, and the rows in them."""


def one_way(stored: Stored, names: Collection[str] | None = None) -> dict[str, OneWay]:
    """The picture of each attribute, or of some."""
    state, out = stored.state(), {}
    for name, classes in stored.classes.items():
        if names is None or name in names:
            rows = state.marginal([name])
            bars = Bars.of(classes, rows, MOST_BARS)
            out[name] = replace(bars, labels=_labels(stored, name, bars.labels)), bars.shares @ rows
    return out


def _labels(stored: Stored, name: str, labels: list[str]) -> list[str]:
    """What bars are called: the last of a number of rows below stands for more, too."""
    link = stored.domain.link
    if link is None or name not in link.below or stored.domain[name].most <= 1:
        return labels
    first, _, _ = labels[-1].partition(" to ")
    return [*labels[:-1], f"{first.removesuffix(' on')} or more"]


def two_way(stored: Stored, pairs: list[tuple[str, str]]) -> dict[tuple[str, str], tuple[Bars, Bars, Floats]]:
    """Of each pair of attributes the bars of both, and the rows in each combination."""
    state, out = stored.state(), {}
    for first, second in pairs:
        rows = state.marginal([first, second])
        down = Bars.of(stored.classes[first], rows.sum(axis=1), MOST_SQUARES)
        across = Bars.of(stored.classes[second], rows.sum(axis=0), MOST_SQUARES)
        out[first, second] = down, across, down.shares @ rows @ across.shares.T
    return out


def rounded(value: float) -> str:
    """A number for people: whole from ten on, three digits below."""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.3g}"


def _rows(value: float) -> str:
    """A number of rows: a part of less than a tenth of a row is none."""
    return rounded(round(value, 1))


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    inside = "".join(parts)
    return f'<svg viewBox="0 0 {PICTURE_WIDTH} {height:g}" role="img" aria-label="{escape(title)}">{inside}</svg>'


def _rect(at: tuple[float, float], size: tuple[float, float], title: str, kind: str = "bar", more: str = "") -> str:
    """A rectangle that says what it is; `kind` is its class of the style sheet."""
    box = f'x="{at[0]:.2f}" y="{at[1]:.2f}" width="{size[0]:.2f}" height="{size[1]:.2f}"'
    return f'<rect class="{kind}" {box}{more}><title>{escape(title)}</title></rect>'


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'


def _shortened(text: str, letters: int) -> str:
    """Its beginning, in as much room as so many small letters take."""
    if sum(map(_wide, text)) <= letters:
        return text
    return text[: next(k for k, end in enumerate(itertools.accumulate(map(_wide, text))) if end > letters - 1)] + "…"


def _wide(letter: str) -> float:
    """How wide a letter is beside a small one: signs of East Asia are twice that."""
    if letter in "WMm@" or east_asian_width(letter) in "WF":
        return 1.9
    return 1.3 if letter.isupper() else 1.15 if letter.isdigit() else 1.0


Ends: TypeAlias = Sequence[tuple[float, float] | None]
"""Of each bar, between which two numbers the truth is; None where that is not known."""


def _highest(values: Floats, ends: Ends) -> float:
    """The largest number that a picture shows. An error bar that is much longer than all bars leaves the picture."""
    most = max(float(values.max(initial=0.0)), 1e-9)
    return min(3 * most, max([most, *(end[1] for end in ends if end is not None)]))


def _between(end: tuple[float, float] | None) -> str:
    return "" if end is None else f" ({_rows(end[0])} to {_rows(end[1])})"


def bars(labels: Sequence[str], values: Floats, heading: str, ends: Ends = ()) -> str:
    """A bar for each label, from the top down, with its number and its error bar."""
    ends = ends or [None] * len(labels)
    most, parts = _highest(values, ends), []
    for k, (label, value, end) in enumerate(zip(labels, values.tolist(), ends, strict=True)):
        top = k * LINE
        parts.append(_text(112, top + 12, _shortened(label, 18), "end"))
        title = f"{label}: {_rows(value)}{_between(end)}"
        parts.append(_rect((118, top + 3), (165 * value / most, LINE - 6), title))
        right = value
        if end is not None:
            low, right = (min(most, max(0.0, count)) for count in end)
            x, y = (118 + 165 * low / most, 118 + 165 * right / most), top + 3 + (LINE - 6) / 2
            line = f"M{x[0]:.1f} {y - 3:g}v6M{x[0]:.1f} {y:g}H{x[1]:.1f}M{x[1]:.1f} {y - 3:g}v6"
            parts.append(f'<path class="error" d="{line}"/>')
        parts.append(_text(122 + 165 * max(value, right) / most, top + 12, _rows(value), kind="quiet"))
    return _svg(LINE * len(labels) + 2, parts, heading)


def columns(labels: Sequence[str], values: Floats, title: str, ends: Ends = ()) -> str:
    """A column for each value of an ordered attribute, with its error bar; the first and the last are labelled."""
    ends = ends or [None] * len(labels)
    most, wide = _highest(values, ends), PICTURE_WIDTH / max(1, len(labels))
    parts = [
        _rect(
            (k * wide + 0.5, 110 - 96 * value / most),
            (max(0.5, wide - 1), 96 * value / most),
            f"{label}: {_rows(value)}{_between(end)}",
        )
        for k, (label, value, end) in enumerate(zip(labels, values.tolist(), ends, strict=True))
    ]
    tick = min(3.0, wide / 3)
    for k, end in enumerate(ends):
        if end is not None:
            x, y = (k + 0.5) * wide, [110 - 96 * min(most, max(0.0, count)) / most for count in end]
            low, high = (f"M{x - tick:.1f} {each:.1f}h{2 * tick:.1f}" for each in y)
            parts.append(f'<path class="error" d="{low}M{x:.1f} {y[0]:.1f}V{y[1]:.1f}{high}"/>')
    parts.append(f'<line class="axis" x1="0" x2="{PICTURE_WIDTH}" y1="110.5" y2="110.5"/>')
    parts.append(_text(0, 124, _shortened(labels[0], 18), kind="quiet"))
    last = labels[-1] if labels[-1] != "NULL" else f"{labels[-2]}, then NULL"
    parts.append(_text(PICTURE_WIDTH, 124, _shortened(last, 36), "end", "quiet"))
    parts.append(_text(PICTURE_WIDTH, 10, f"highest: {_rows(float(values.max(initial=0.0)))}", "end", "quiet"))
    return _svg(128, parts, title)


def heat(rows: Sequence[str], across: Sequence[str], values: Floats, title: str) -> str:
    """A cell for each combination: the stronger, the more rows (by the square root, so that small ones can be seen)."""
    most, left = max(float(values.max(initial=0.0)), 1e-9), 96
    wide, high = (PICTURE_WIDTH - left) / len(across), max(12.0, 150 / len(rows))
    parts = []
    for i, row in enumerate(rows):
        parts.append(_text(left - 4, (i + 0.5) * high + 4, _shortened(row, 14), "end"))
        for j, column in enumerate(across):
            share = np.sqrt(max(0.0, float(values[i, j])) / most)
            said = f"{row}, {column}: {_rows(float(values[i, j]))}"
            shade = f' fill-opacity="{0.04 + 0.96 * share:.3f}"'
            parts.append(_rect((left + j * wide, i * high), (max(0.5, wide - 1), high - 1), said, more=shade))
    foot = len(rows) * high
    if _widest(across) * LETTER <= wide:
        parts += [_text(left + (j + 0.5) * wide, foot + 12, label, "middle", "quiet") for j, label in enumerate(across)]
        return _svg(foot + 18, parts, title)
    return _svg(foot + _aslant_height(across), [*parts, *_aslant(across, left, wide, foot)], title)


def _widest(labels: Sequence[str]) -> float:
    return max(sum(map(_wide, label)) for label in labels)


def _aslant(labels: Sequence[str], left: float, wide: float, foot: float) -> Iterator[str]:
    """The names of columns below them, aslant, so that each has room for its name."""
    for j, label in enumerate(labels):
        turned = f'transform="translate({left + (j + 0.5) * wide + 4:.1f} {foot + 10:.1f}) rotate(-40)"'
        yield f"<g {turned}>{_text(0, 0, _shortened(label, 15), 'end', 'quiet')}</g>"


def _aslant_height(labels: Sequence[str]) -> float:
    return 26 + min(15.0, _widest(labels)) * LETTER * 0.64


def matrix(names: Sequence[str], shades: Sequence[Sequence[tuple[str, str]]], title: str) -> str:
    """A square for each pair of names, below the diagonal: its class of the style sheet, and what it stands for."""
    left = 112.0
    size = min(26.0, (PICTURE_WIDTH - left - 8) / max(1, len(names)))
    parts = []
    for i, name in enumerate(names):
        parts.append(_text(left - 4, (i + 0.5) * size + 4, _shortened(name, 15), "end"))
        for j, (kind, said) in enumerate(shades[i][: i + 1]):
            pair = name if i == j else f"{name}, {names[j]}"
            parts.append(_rect((left + j * size, i * size), (size - 1, size - 1), f"{pair}: {said}", kind))
    foot = len(names) * size
    return _svg(foot + _aslant_height(names), [*parts, *_aslant(names, left, size, foot)], title)


@dataclass(frozen=True, kw_only=True)
class TableBox:
    """A table in a picture of several: how deep it is below the root, and what is said of it."""

    name: str
    parent: int | None
    depth: int
    rows: str
    words: str
    is_this: bool


def tree(nodes: Sequence[TableBox], title: str) -> str:
    """A box for each table below the one that its rows lead to. `parent` is a place among the nodes before it."""
    high, wide, line = 30, 186, 42
    parts = []
    for k, node in enumerate(nodes):
        x, y = _indent(node), 2 + k * line
        if node.parent is not None:
            above = _indent(nodes[node.parent]) + 12, 2 + node.parent * line + high
            parts.append(f'<path class="link" d="M{above[0]} {above[1]}V{y + high / 2:g}H{x}"/>')
        said = f"{node.name}: {node.rows} {node.words}".strip()
        parts.append(_rect((x, y), (wide, high), said, "box this" if node.is_this else "box", ' rx="5"'))
        parts.append(_text(x + 10, y + 19, _shortened(node.name, 26), kind="name"))
        parts.append(_text(x + wide + 8, y + (13 if node.words else 19), node.rows))
        if node.words:
            room = int((PICTURE_WIDTH - x - wide - 8) / LETTER)
            parts.append(_text(x + wide + 8, y + 26, _shortened(node.words, room), kind="quiet"))
    return _svg(len(nodes) * line - 8, parts, title)


def _indent(node: TableBox) -> int:
    return 2 + 18 * min(node.depth, 4)


def dots(values: Sequence[float], labels: Sequence[str], mark: float, title: str, said: str) -> str:
    """A dot per step on a logarithmic scale with its numbers.

    `mark` is a line to compare with, and `said` what it is.
    """
    shown = np.clip(np.asarray(values, dtype=np.float64), 1e-2, None)
    top, bottom = (
        log10(max(float(shown.max(initial=mark)), mark)) + 0.1,
        log10(min(float(shown.min(initial=mark)), mark)) - 0.1,
    )

    def height(value: float) -> float:
        return 8 + 100 * (top - log10(value)) / (top - bottom)

    left = 54  # room for 0.00044
    ends = [
        value for value in (shown.max(initial=mark), shown.min(initial=mark)) if abs(height(value) - height(mark)) > 11
    ]
    parts = [
        f'<line class="axis" x1="{left}" x2="{PICTURE_WIDTH}" y1="112" y2="112"/>',
        f'<line class="mark" x1="{left}" x2="{PICTURE_WIDTH}" y1="{height(mark):.1f}" y2="{height(mark):.1f}"/>',
        *(
            _text(left - 6, height(value) + 4, rounded(float(f"{value:.2g}")), "end", "quiet")
            for value in (mark, *ends)
        ),
        _text(left, 126, "first", kind="quiet"),
        _text((left + PICTURE_WIDTH) / 2, 126, said, "middle", "warm"),
        _text(PICTURE_WIDTH, 126, "last", "end", "quiet"),
    ]
    for k, (value, label) in enumerate(zip(shown.tolist(), labels, strict=True)):
        x = left + (PICTURE_WIDTH - left) * (k + 0.5) / len(shown)
        circle = f'cx="{x:.1f}" cy="{height(value):.1f}" r="3"'
        parts.append(f'<circle class="dot" {circle}><title>{escape(label)}: {rounded(value)}</title></circle>')
    return _svg(130, parts, title)
