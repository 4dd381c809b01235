"""Where a condition may not say the same of all values off the domain, which one value stands for.

`code > 5` is true of some values off the list [3, 7] and false of others; `city LIKE 'village%'` may be either of a
city that is on no list. `price > 50` is true of all prices above the bound 99. Where there is doubt, a question lies
between the two answers that the condition would give. Reads no private row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mwem_sql.compile.evaluate import Evaluated, Key, LeafValues, Terms, Ticks, load_values, run_typed, truth_of
from mwem_sql.domains.classes import Pieces
from mwem_sql.errors import PredicateError
from mwem_sql.language.conditions import Leaf, unquoted
from mwem_sql.platform.sandbox import Sandbox

_DECADES: Final = 19  # powers of ten beyond a bound at which a condition is evaluated
_BESIDE: Final = 8  # values between two of them, and right beside the bound

Flags = npt.NDArray[np.bool_]


def with_doubts(
    terms: Terms, values: Evaluated, pieces: Mapping[str, Pieces], ticks: Ticks, sandbox: Sandbox
) -> dict[Key, LeafValues]:
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
    for (name, only_compares), keys in alone.items():
        doubts = _doubts(pieces[name], keys, sandbox, only_compares=only_compares)
        for key, doubt in zip(keys, doubts, strict=True):
            if doubt.any():
                out[key] = _doubted(values[key], pieces, {name: doubt})
    return out


def _is_certain(leaf: Leaf, pieces: Pieces, ticks: Ticks) -> bool:
    """Whether a condition compares with values of the domain only: it is the same for all values off it."""
    attribute = pieces.attribute
    if leaf.compared is None:
        return False
    if attribute.values is not None:
        return not leaf.compared or (
            leaf.test is not None and leaf.test[0] in {"=", "<>", "in"} and _is_listed(leaf, pieces)
        )
    assert attribute.low is not None and attribute.high is not None
    constants = [ticks[attribute.name].get(text) for text in leaf.compared]
    return all(tick is not None and attribute.low <= tick <= attribute.high for tick in constants)


def _is_listed(leaf: Leaf, pieces: Pieces) -> bool:
    """Whether all constants of a condition are on the list."""
    texts = set(map(unquoted, leaf.compared or ()))
    listed = set(pieces.attribute.values or ())
    scale = pieces.attribute.scale
    if scale is not None and scale.family in {"integer", "decimal", "real"}:  # 5 is 5.0
        return {_number(text) for text in texts} <= {_number(text) for text in listed}
    return texts <= listed


def _number(text: str) -> Decimal | str:
    try:
        return Decimal(text)
    except InvalidOperation:
        return text


def _doubts(pieces: Pieces, keys: Sequence[Key], sandbox: Sandbox, *, only_compares: bool) -> list[Flags]:
    """Of each condition, the pieces off the domain on whose values it differs.

    On values off a list it does, unless it only compares with texts of the list.
    """
    attribute = pieces.attribute
    outer = np.flatnonzero(pieces.is_outer)
    if attribute.values is None:
        sides = [_beyond(pieces, int(piece)) for piece in outer]
        arrow = attribute.ordered.arrow(np.concatenate(sides))
    elif attribute.type == "VARCHAR" and only_compares:
        # It changes at the texts of the list: before the first, and right behind each.
        behind = [f"{text} " for text in ("", *attribute.values) if f"{text} " not in attribute.values]
        sides = [np.array([attribute.other, *behind], dtype=object)]
        arrow = pa.array(sides[0], pa.string())
    else:
        return [pieces.is_outer for _ in keys]
    load_values(sandbox, attribute, arrow)
    ends = np.cumsum([len(side) for side in sides])[:-1]
    out = []
    for key in keys:
        doubt = np.zeros(pieces.non_null, dtype=np.bool_)
        try:
            (results,) = run_typed(sandbox, [key])
            doubt[outer] = [bool((side != side[0]).any()) for side in np.split(truth_of(results), ends)]
        except PredicateError:  # it fails on some value out there
            doubt[outer] = True
        out.append(doubt)
    return out


def _beyond(pieces: Pieces, piece: int) -> npt.NDArray[Any]:
    """Values on one side of the bounds: right beside it, and ever further away."""
    attribute, scale = pieces.attribute, pieces.attribute.ordered
    is_below = pieces.highs[piece] < attribute.low
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


def _doubted(item: LeafValues, pieces: Mapping[str, Pieces], doubts: Mapping[str, Flags]) -> LeafValues:
    """Values in doubt wherever one of their columns is."""
    shape = tuple(len(pieces[name]) for name in item.columns)
    doubt = np.zeros(shape, dtype=np.bool_)
    for axis, name in enumerate(item.columns):
        if name in doubts:
            flags = np.zeros(shape[axis], dtype=np.bool_)  # with NULL, if there is one
            flags[: pieces[name].non_null] = doubts[name]
            doubt |= flags.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return replace(item, doubt=doubt)
