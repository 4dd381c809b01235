"""Pictures as SVG text: bars, columns, a heat map, dots along the rounds. Knows numbers and labels, nothing of releases.

Colours are classes of the page's style sheet, so that a picture is right in light and in dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import accumulate
from math import log10
from typing import TypeAlias
from unicodedata import east_asian_width

import numpy as np

from mwem_sql.algebra.arrays import Floats

WIDTH = 340
"""Units of a picture's own width; the page scales it to the room there is."""
LINE = 17
"""Units between two bars."""
LETTER = 6
"""Units that a letter is wide, about."""


def rounded(value: float) -> str:
    """A number for people: whole from ten on, three digits below."""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.3g}"


def _rows(value: float) -> str:
    """A number of rows: a part of less than a tenth of a row is none."""
    return rounded(round(value, 1))


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    inside = "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}">{inside}</svg>'


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'


def _shortened(text: str, letters: int) -> str:
    """Its beginning, in as much room as so many small letters take."""
    if sum(map(_wide, text)) <= letters:
        return text
    return text[: next(k for k, end in enumerate(accumulate(map(_wide, text))) if end > letters - 1)] + "…"


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


def _range(end: tuple[float, float] | None) -> str:
    return "" if end is None else f" ({_rows(end[0])} to {_rows(end[1])})"


def bars(labels: Sequence[str], values: Floats, title: str, ends: Ends = ()) -> str:
    """A bar for each label, from the top down, with its number and its error bar."""
    ends = ends or [None] * len(labels)
    most, parts = _highest(values, ends), []
    for k, (label, value, end) in enumerate(zip(labels, values.tolist(), ends, strict=True)):
        top = k * LINE
        parts.append(_text(112, top + 12, _shortened(label, 18), "end"))
        parts.append(
            f'<rect class="bar" x="118" y="{top + 3}" width="{165 * value / most:.1f}" height="{LINE - 6}">'
            f"<title>{escape(label)}: {_rows(value)}{_range(end)}</title></rect>"
        )
        right = value
        if end is not None:
            low, right = (min(most, max(0.0, own)) for own in end)
            x, y = (118 + 165 * low / most, 118 + 165 * right / most), top + 3 + (LINE - 6) / 2
            parts.append(f'<path class="error" d="M{x[0]:.1f} {y - 3:g}v6M{x[0]:.1f} {y:g}H{x[1]:.1f}M{x[1]:.1f} {y - 3:g}v6"/>')  # fmt: skip
        parts.append(_text(122 + 165 * max(value, right) / most, top + 12, _rows(value), kind="quiet"))
    return _svg(LINE * len(labels) + 2, parts, title)


def columns(labels: Sequence[str], values: Floats, title: str, ends: Ends = ()) -> str:
    """A column for each value of an ordered attribute, with its error bar; the first and the last are labelled."""
    ends = ends or [None] * len(labels)
    most, wide = _highest(values, ends), WIDTH / max(1, len(labels))
    parts = [
        f'<rect class="bar" x="{k * wide + 0.5:.2f}" y="{110 - 96 * value / most:.2f}" width="{max(0.5, wide - 1):.2f}" height="{96 * value / most:.2f}">'
        f"<title>{escape(label)}: {_rows(value)}{_range(end)}</title></rect>"
        for k, (label, value, end) in enumerate(zip(labels, values.tolist(), ends, strict=True))
    ]
    tick = min(3.0, wide / 3)
    for k, end in enumerate(ends):
        if end is not None:
            x, y = (k + 0.5) * wide, [110 - 96 * min(most, max(0.0, own)) / most for own in end]
            parts.append(f'<path class="error" d="M{x - tick:.1f} {y[0]:.1f}h{2 * tick:.1f}M{x:.1f} {y[0]:.1f}V{y[1]:.1f}M{x - tick:.1f} {y[1]:.1f}h{2 * tick:.1f}"/>')  # fmt: skip
    parts.append(f'<line class="axis" x1="0" x2="{WIDTH}" y1="110.5" y2="110.5"/>')
    parts.append(_text(0, 124, _shortened(labels[0], 18), kind="quiet"))
    last = labels[-1] if labels[-1] != "NULL" else f"{labels[-2]}, then NULL"
    parts.append(_text(WIDTH, 124, _shortened(last, 36), "end", "quiet"))
    parts.append(_text(WIDTH, 10, f"highest: {_rows(float(values.max(initial=0.0)))}", "end", "quiet"))
    return _svg(128, parts, title)


def heat(rows: Sequence[str], across: Sequence[str], values: Floats, title: str) -> str:
    """A cell for each combination: the stronger, the more rows (by the square root, so that small ones can be seen)."""
    most, left = max(float(values.max(initial=0.0)), 1e-9), 96
    wide, high = (WIDTH - left) / len(across), max(12.0, 150 / len(rows))
    parts = []
    for i, row in enumerate(rows):
        parts.append(_text(left - 4, (i + 0.5) * high + 4, _shortened(row, 14), "end"))
        for j, column in enumerate(across):
            share = np.sqrt(max(0.0, float(values[i, j])) / most)
            parts.append(
                f'<rect class="bar" x="{left + j * wide:.2f}" y="{i * high:.2f}" width="{max(0.5, wide - 1):.2f}" height="{high - 1:.2f}" '
                f'fill-opacity="{0.04 + 0.96 * share:.3f}"><title>{escape(row)}, {escape(column)}: {_rows(float(values[i, j]))}</title></rect>'
            )
    foot = len(rows) * high
    longest = max(sum(map(_wide, label)) for label in across)
    if longest * LETTER <= wide:
        parts += [_text(left + (j + 0.5) * wide, foot + 12, label, "middle", "quiet") for j, label in enumerate(across)]
        return _svg(foot + 18, parts, title)
    for j, label in enumerate(across):  # aslant, so that each column has its name
        turned = f'transform="translate({left + (j + 0.5) * wide + 4:.1f} {foot + 10:.1f}) rotate(-40)"'
        parts.append(f"<g {turned}>{_text(0, 0, _shortened(label, 15), 'end', 'quiet')}</g>")
    return _svg(foot + 26 + min(longest, 15) * LETTER * 0.64, parts, title)


def matrix(names: Sequence[str], shades: Sequence[Sequence[tuple[str, str]]], title: str) -> str:
    """A square for each pair of names, below the diagonal: its class of the style sheet, and what it stands for."""
    left, longest = 112.0, min(15.0, max(sum(map(_wide, name)) for name in names))
    foot_room = 26 + longest * LETTER * 0.64
    size = min(26.0, (WIDTH - left - 8) / max(1, len(names)))
    parts = []
    for i, name in enumerate(names):
        parts.append(_text(left - 4, (i + 0.5) * size + 4, _shortened(name, 15), "end"))
        for j, (kind, said) in enumerate(shades[i][: i + 1]):
            pair = name if i == j else f"{name}, {names[j]}"
            parts.append(
                f'<rect class="{kind}" x="{left + j * size:.1f}" y="{i * size:.1f}" width="{size - 1:.1f}" height="{size - 1:.1f}">'
                f"<title>{escape(pair)}: {escape(said)}</title></rect>"
            )
    foot = len(names) * size
    for j, name in enumerate(names):
        turned = f'transform="translate({left + (j + 0.5) * size + 4:.1f} {foot + 10:.1f}) rotate(-40)"'
        parts.append(f"<g {turned}>{_text(0, 0, _shortened(name, 15), 'end', 'quiet')}</g>")
    return _svg(foot + foot_room, parts, title)


def dots(values: Sequence[float], labels: Sequence[str], mark: float, title: str, said: str) -> str:
    """A dot per step on a logarithmic scale with its numbers; `mark` is a line to compare with, and `said` what it is."""
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
        f'<line class="axis" x1="{left}" x2="{WIDTH}" y1="112" y2="112"/>',
        f'<line class="mark" x1="{left}" x2="{WIDTH}" y1="{height(mark):.1f}" y2="{height(mark):.1f}"/>',
        *(
            _text(left - 6, height(value) + 4, rounded(float(f"{value:.2g}")), "end", "quiet")
            for value in (mark, *ends)
        ),
        _text(left, 126, "first", kind="quiet"),
        _text((left + WIDTH) / 2, 126, said, "middle", "warm"),
        _text(WIDTH, 126, "last", "end", "quiet"),
    ]
    for k, (value, label) in enumerate(zip(shown.tolist(), labels, strict=True)):
        x = left + (WIDTH - left) * (k + 0.5) / len(shown)
        parts.append(
            f'<circle class="dot" cx="{x:.1f}" cy="{height(value):.1f}" r="3"><title>{escape(label)}: {rounded(value)}</title></circle>'
        )
    return _svg(130, parts, title)
