"""Conditions that compare one column with constants: what they say changes at the constants only, so it is asked there only.

Reads no private row. A workload of ten thousand constants has ten thousand conditions on as many pieces; all that each of them says is
told by the few pieces around its own constants, by the first one, and by NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from mwem_sql.algebra.arrays import Places
from mwem_sql.algebra.partition import Runs, encode
from mwem_sql.compile.evaluate import TRUE, Terms, Ticks, Values, load_grid, run_typed, truth_of
from mwem_sql.domains.classes import Pieces
from mwem_sql.domains.domain import Domain
from mwem_sql.language import dialect
from mwem_sql.language.conditions import Leaf, unquoted
from mwem_sql.language.ticks import Scale, Tick, is_finite, try_cast
from mwem_sql.platform.sandbox import Sandbox, batches

FEW = 1024
"""Pieces of a column on which conditions are simply evaluated; and those that a batch of conditions asks about."""
EXACT = 2**24
"""Numbers up to which every type tells neighbours apart: beyond, a comparison may change some way off the constant."""

_MARK = "mwem:constant"
_INTEGER_DIGITS = 18
_DECIMAL_DIGITS = 15
_OPERATORS = {
    "=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip

Key = tuple[str, str]


def find_ticks(domain: Domain, used: Sequence[str], terms: Terms, sandbox: Sandbox) -> dict[str, dict[str, Tick]]:
    """Where constants lie among the values of the ordered columns that they are compared with."""
    constants: dict[str, list[str]] = {name: [] for name in used}
    for leaf in terms.values():
        if leaf.compared is not None:
            constants[leaf.columns[0]].extend(leaf.compared)
    return {
        name: _ticks(domain[name].ordered, constants[name], sandbox) for name in used if domain[name].values is None
    }


def _ticks(scale: Scale, constants: Sequence[str], sandbox: Sandbox) -> dict[str, Tick]:
    """Where constants lie among the type's values. One that lies nowhere, or cannot be evaluated, cuts nothing."""
    known: dict[str, object] = {text: _plain_number(scale, text) for text in constants}
    asked = [text for text, tick in known.items() if tick is None]
    # One tree for all of them, with a mark in the place of the constant.
    template = dialect.sql(scale.measure(try_cast(exp.Literal.string(_MARK), scale.type)))
    tried = sandbox.tried([template.replace(f"'{_MARK}'", f"({text})") for text in asked])
    known.update(zip(asked, tried, strict=True))
    return {text: tick for text, tick in known.items() if is_finite(tick)}


def _plain_number(scale: Scale, text: str) -> Tick | None:
    """What a number as it is written means beside a column, where that leaves no doubt; None otherwise.

    Beside an integer column, a short integer. Beside a decimal, a short one with no more places. Beside a DOUBLE, a short decimal:
    DuckDB divides two whole numbers that a double holds exactly, which gives the nearest double, and so does Python.
    """
    digits = text.removeprefix("-")
    if scale.family == "integer" and digits.isdecimal() and len(digits) <= _INTEGER_DIGITS:
        return int(text)
    if not digits.replace(".", "", 1).isdecimal() or len(digits) > _DECIMAL_DIGITS:
        return None
    if scale.family == "decimal" and scale.width <= _INTEGER_DIGITS and len(digits.partition(".")[2]) <= scale.digits:
        return int(Decimal(text).scaleb(scale.digits))
    return float(text) if scale.type == "DOUBLE" else None


def compare(terms: Terms, pieces: Mapping[str, Pieces], ticks: Ticks, sandbox: Sandbox) -> dict[Key, Values]:
    """The values of columns by themselves, and of conditions whose meaning leaves no doubt or that are asked at their constants."""
    by_column: dict[str, dict[Key, Leaf]] = {}
    out: dict[Key, Values] = {}
    for key, leaf in terms.items():
        if len(leaf.columns) == 1 and key[0] == "truth":
            by_column.setdefault(leaf.columns[0], {})[key] = leaf
        elif key[0] == "group" and leaf.is_column:
            out[key] = _column(leaf, pieces[leaf.columns[0]])
    for name, leaves in by_column.items():
        own = pieces[name]
        if own.attribute.values is not None:
            out |= _listed(own, leaves, sandbox)
        else:
            out |= _Ordered(own, ticks[name]).values(leaves, sandbox)
    return out


def _column(leaf: Leaf, own: Pieces) -> Values:
    first = np.unique(own.bins, return_index=True)[1]
    return Values(leaf.columns, own.bins, [own.label(int(piece)) for piece in first])


def _listed(own: Pieces, leaves: Mapping[Key, Leaf], sandbox: Sandbox) -> dict[Key, Values]:
    """Listed texts, compared with some of them."""
    attribute = own.attribute
    assert attribute.values is not None
    if sandbox.collates or not (attribute.type == "VARCHAR" or attribute.type.startswith("ENUM(")):
        return {}
    place = {text: number for number, text in enumerate(attribute.values)}
    out = {}
    for key, leaf in leaves.items():
        operator, constants = leaf.test or ("", ())
        texts = [unquoted(text) for text in constants if text[0] == "'"]
        if operator in {"=", "<>", "in"} and len(texts) == len(constants) and all(text in place for text in texts):
            found = [place[text] for text in texts]
            around = _around(own, chain(found, (number + 1 for number in found)))
            out[key] = _found(leaf, own, around, _compared(around, operator, found))
    return out


class _Ordered:
    """The pieces of a column with bounds, and where the constants that it is compared with lie among them."""

    def __init__(self, own: Pieces, ticks: Mapping[str, Tick]) -> None:
        self._own = own
        self._ticks = ticks
        scale = own.attribute.ordered
        least, most = scale.limits  # of what the type's columns may hold, and so that one more is an int64
        # The truth of a comparison can only change at the constant or right beside it: from piece to piece as far as one past that.
        inside = [min(max(tick, least), most) for tick in ticks.values()]
        lows = np.array([scale.before(tick) for tick in inside], dtype=own.points.dtype)
        highs = np.array([scale.after(scale.after(tick)) for tick in inside], dtype=own.points.dtype)
        firsts = np.searchsorted(own.points, lows).tolist()
        lasts = np.searchsorted(own.points, highs, side="right").tolist()
        self._near = {text: range(first, last + 1) for text, first, last in zip(ticks, firsts, lasts, strict=True)}

    def values(self, leaves: Mapping[Key, Leaf], sandbox: Sandbox) -> dict[Key, Values]:
        own, scale = self._own, self._own.attribute.ordered
        out: dict[Key, Values] = {}
        asked: dict[Key, Places] = {}
        is_exact = self._is_exact()
        for key, leaf in leaves.items():
            operator, constants = leaf.test or ("", ())
            if operator and all(text in self._ticks and _plain_number(scale, text) is not None for text in constants):
                around = self._around(constants)
                points = own.points[np.minimum(around, own.known - 1)]
                truth = _compared(points, operator, [self._ticks[text] for text in constants])
                out[key] = _found(leaf, own, around, truth)
            elif leaf.compared is not None and len(own) > FEW and is_exact:
                asked[key] = self._around(leaf.compared)
        # Conditions with constants near each other, so that together they ask about few pieces.
        nearest = sorted(asked, key=lambda key: asked[key][1:2].tolist())
        for keys in batches(nearest, lambda key: len(asked[key]), FEW):
            union = np.unique(np.concatenate([asked[key] for key in keys]))
            load_grid(sandbox, leaves[keys[0]].columns, union[None], {own.attribute.name: own})
            for key, array in zip(keys, run_typed(sandbox, keys), strict=True):
                numbers = truth_of(array)[np.searchsorted(union, asked[key])]
                out[key] = Values(leaves[key].columns, Runs.at(asked[key], numbers, len(own)))
        return out

    def _around(self, constants: Sequence[str]) -> Places:
        return _around(self._own, chain.from_iterable(self._near.get(text, ()) for text in constants))

    def _is_exact(self) -> bool:
        """Whether what a comparison says changes right beside its constant, whatever type that has."""
        attribute = self._own.attribute
        assert attribute.low is not None and attribute.high is not None
        if attribute.ordered.family not in {"integer", "decimal"} or not self._own.listed:
            return True
        return max(-attribute.low, attribute.high) <= EXACT


def _around(own: Pieces, places: Any) -> Places:
    """Some pieces with the first and NULL, each once; without what is beyond the last."""
    wanted = {place for place in places if place < own.known} | {0}
    if own.attribute.nullable:
        wanted.add(own.known)
    return np.array(sorted(wanted), dtype=np.intp)


def _found(leaf: Leaf, own: Pieces, around: Places, truth: npt.NDArray[np.bool_]) -> Values:
    """A condition from its truth on some pieces; that on NULL is not looked at."""
    numbers = np.where(around >= own.known, 1, np.where(truth, TRUE, 0)).astype(np.int8)
    found = Runs.at(around, numbers, len(own))
    return Values(leaf.columns, found if found.saves_memory else encode(found.array()))


def _compared(points: npt.NDArray[Any], operator: str, constants: Sequence[Tick]) -> npt.NDArray[np.bool_]:
    if operator == "in":
        return np.isin(points, constants)
    if operator == "between":
        return np.asarray((points >= constants[0]) & (points <= constants[1]))
    return np.asarray(_OPERATORS[operator](points, constants[0]))
