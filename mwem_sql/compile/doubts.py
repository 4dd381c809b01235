"""Where a condition may not say the same of all values off the domain, which one value stands for. Reads no private row.

`code > 5` is true of some values off the list [3, 7] and false of others; `city LIKE 'village%'` may be either of a city that is on no list. `price > 50`
is true of all prices above the bound 99. Where there is doubt, a question lies between the two answers that the condition would give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mwem_sql.compile.evaluate import Terms, Ticks, Values, run_typed, truth_of
from mwem_sql.domains.classes import Pieces
from mwem_sql.errors import PredicateError
from mwem_sql.language.conditions import Leaf, unquoted
from mwem_sql.platform.sandbox import BATCH, Sandbox

_DECADES: Final = 19  # powers of ten beyond a bound at which a condition is looked at
_BESIDE: Final = 8  # values between two of them, and right beside the bound

_NUMBERS: Final = {"integer", "decimal", "real"}

Key = tuple[str, str]
Flags = npt.NDArray[np.bool_]


def with_doubts(
    terms: Terms, values: Mapping[Key, Values], pieces: Mapping[str, Pieces], ticks: Ticks, sandbox: Sandbox
) -> dict[Key, Values]:
    """The same values; those of conditions with where they are in doubt."""
    out = dict(values)
    alone: dict[tuple[str, bool], list[Key]] = {}
    for key, leaf in terms.items():
        outer = [name for name in leaf.columns if pieces[name].is_outer.any()]
        if key[0] != "truth" or not outer:
            continue
        if len(leaf.columns) > 1:
            out[key] = _doubted(values[key], pieces, {name: pieces[name].is_outer for name in outer})
        elif not _is_certain(leaf, pieces[outer[0]], ticks):
            only_compares = leaf.compared is not None and _is_listed(leaf, pieces[outer[0]])
            alone.setdefault((outer[0], only_compares), []).append(key)
    for (name, _), keys in alone.items():
        for begin in range(0, len(keys), BATCH):
            some = keys[begin : begin + BATCH]
            for key, doubt in zip(
                some, _looked_at(pieces[name], some, [terms[key] for key in some], sandbox), strict=True
            ):
                if doubt.any():
                    out[key] = _doubted(values[key], pieces, {name: doubt})
    return out


def _is_certain(leaf: Leaf, own: Pieces, ticks: Ticks) -> bool:
    """Whether a condition compares with values of the domain only: it is the same for all values off it."""
    attribute = own.attribute
    if leaf.compared is None:
        return False
    if attribute.values is not None:
        return not leaf.compared or (
            leaf.test is not None and leaf.test[0] in {"=", "<>", "in"} and _is_listed(leaf, own)
        )
    assert attribute.low is not None and attribute.high is not None
    places = [ticks[attribute.name].get(text) for text in leaf.compared]
    return all(place is not None and attribute.low <= place <= attribute.high for place in places)


def _is_listed(leaf: Leaf, own: Pieces) -> bool:
    """Whether all constants of a condition are on the list."""
    texts = set(map(unquoted, leaf.compared or ()))
    listed = set(own.attribute.values or ())
    scale = own.attribute.scale
    if scale is not None and scale.family in _NUMBERS:  # 5 is 5.0
        return {_number(text) for text in texts} <= {_number(text) for text in listed}
    return texts <= listed


def _number(text: str) -> Decimal | str:
    try:
        return Decimal(text)
    except InvalidOperation:
        return text


def _looked_at(own: Pieces, keys: Sequence[Key], leaves: Sequence[Leaf], sandbox: Sandbox) -> list[Flags]:
    """Of each condition, the pieces off the domain on whose values it differs; on values off a list it does unless it only compares."""
    attribute = own.attribute
    outer = np.flatnonzero(own.is_outer)
    if attribute.values is None:
        sides = [_beyond(own, int(piece)) for piece in outer]
        arrow = attribute.ordered.arrow(np.concatenate(sides))
    elif attribute.type == "VARCHAR" and all(leaf.compared is not None and _is_listed(leaf, own) for leaf in leaves):
        # What only compares with texts of the list changes at these: before the first, and right behind each.
        behind = [f"{text} " for text in ("", *attribute.values) if f"{text} " not in attribute.values]
        sides = [np.array([attribute.other, *behind], dtype=object)]
        arrow = pa.array(sides[0], pa.string())
    else:
        return [own.is_outer for _ in keys]
    one = pa.array(np.zeros(len(arrow), dtype=np.int32))
    sandbox.load("grid", {"__one": ("INTEGER", one), attribute.name: (attribute.type, arrow)})
    ends = np.cumsum([len(side) for side in sides])[:-1]
    out = []
    for key in keys:
        doubt = np.zeros(own.known, dtype=np.bool_)
        try:
            told = np.split(truth_of(run_typed(sandbox, [key])[0]), ends)
            doubt[outer] = [bool((side != side[0]).any()) for side in told]
        except PredicateError:  # it fails on some value out there
            doubt[outer] = True
        out.append(doubt)
    return out


def _beyond(own: Pieces, piece: int) -> npt.NDArray[Any]:
    """Values on one side of the bounds: right beside it, and ever further away."""
    attribute, scale = own.attribute, own.attribute.ordered
    is_below = own.highs[piece] < attribute.low
    start, end = (attribute.least, scale.limits[0]) if is_below else (attribute.most, scale.limits[1])
    kind = np.int64 if scale.discrete else np.float64
    # Beside each power of ten some others: of powers alone, all are even, and end in 0.
    beside = np.random.default_rng(0).integers(1, 1000, (_DECADES, _BESIDE))
    powers = np.array([10**k for k in range(_DECADES)], dtype=kind)
    away = np.concatenate(
        [powers, np.arange(1, _BESIDE), (powers[:-1, None] * (1 + beside[:-1] / 111)).ravel().astype(kind)]
    )
    away = away * (-1 if is_below else 1)
    inside = [tick for tick in (start + away).tolist() if min(start, end) <= tick <= max(start, end)]
    return np.array([start, *inside, end], dtype=kind)


def _doubted(item: Values, pieces: Mapping[str, Pieces], doubts: Mapping[str, Flags]) -> Values:
    """Values in doubt wherever one of their columns is."""
    shape = tuple(len(pieces[name]) for name in item.columns)
    doubt = np.zeros(shape, dtype=np.bool_)
    for axis, name in enumerate(item.columns):
        if name in doubts:
            own = np.zeros(shape[axis], dtype=np.bool_)  # with NULL, if there is one
            own[: pieces[name].known] = doubts[name]
            doubt |= own.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return replace(item, doubt=doubt)
