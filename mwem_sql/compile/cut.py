"""Where the range of a column is cut, so that every expression of the workload says one thing of a piece.

A bin is how finely a column is measured, never what a value is. So a condition is not evaluated at one value of a bin:
the bin is cut where the condition changes, and `price - 3333 > 0` is cut where `price > 3333` is. Comparisons change at
their constants. Other expressions are evaluated: at all values, if these can be counted, else at many, evenly spaced
and at round numbers; between two neighbours that differ, the change is searched for. Reads no private row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from mwem_sql.algebra.sets import distinct
from mwem_sql.compile.evaluate import (
    Key,
    Terms,
    Ticks,
    check_evaluations,
    load_grid,
    load_values,
    run_typed,
    unanswerable,
)  # fmt: skip
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import MAX_VALUES, Classes, Pieces, cut_pieces, is_long, value_pieces
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import MwemError, PredicateError
from mwem_sql.language import dialect
from mwem_sql.language.ticks import Scale, Tick, is_finite, try_cast
from mwem_sql.platform.sandbox import Sandbox

COUNTED: Final = 2**22
"""Values of a column that are all evaluated. More: each expression takes longer; fewer: more is left to samples."""
SAMPLES: Final = (2**16, 2**20)
"""Values of a longer column that are evaluated, at first, and where as many others show that these were too few."""
_DENSE: Final = 4
"""Samples per change, on average, below which more samples are taken at once. Larger: fewer searches in vain."""
_PARTS: Final = 16  # parts of a gap between two neighbours that are evaluated in one step of the search

TickArray = npt.NDArray[Any]  # ticks: int64, or float64 of a column of real numbers


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
    ticks: dict[str, object] = {text: scale.tick_of(text) for text in constants}
    others = [text for text, tick in ticks.items() if tick is None]
    if not others:
        return {text: tick for text, tick in ticks.items() if is_finite(tick)}
    # One tree for all of them, with a mark in the place of the constant.
    mark = exp.Literal.string("mwem:constant")
    template = dialect.sql(scale.measure(try_cast(mark, scale.type)))
    evaluated = sandbox.tried([template.replace(mark.sql(), f"({text})") for text in others])
    ticks.update(zip(others, evaluated, strict=True))
    return {text: tick for text, tick in ticks.items() if is_finite(tick)}


def find_changes(domain: Domain, terms: Terms, sandbox: Sandbox) -> dict[str, TickArray]:
    """Of each long column, where a piece must begin so that every condition and group says one thing of a piece.

    Not of comparisons with constants, which change at these, nor of the column itself, whose groups are its bins. Of
    what is summed up, where it begins or ceases to be NULL.
    """
    keys: dict[str, list[Key]] = {}
    for (role, sql), leaf in terms.items():
        is_open = leaf.compared is None and not leaf.is_column
        if is_open and len(leaf.columns) == 1 and is_long(domain[leaf.columns[0]]):
            key = ("truth", f"({sql}) IS NULL") if role == "factor" else (role, sql)
            keys.setdefault(leaf.columns[0], []).append(key)
    return {name: _Column(domain, domain[name], sandbox).changes(some) for name, some in keys.items()}


class _Column:
    """A long column on which expressions are evaluated."""

    def __init__(self, domain: Domain, attribute: Attribute, sandbox: Sandbox) -> None:
        self._domain = domain
        self._attribute = attribute
        self._sandbox = sandbox
        self._random = np.random.default_rng(0)
        self._numbers: dict[Key, dict[object, int]] = {}  # of each expression, of its results in all evaluations

    def changes(self, keys: Sequence[Key]) -> TickArray:
        """Where at least one of some expressions changes."""
        count = self._attribute.count
        if count is not None and count <= COUNTED:
            check_evaluations(self._attribute.name, keys, count)
            values = np.arange(self._attribute.least, self._attribute.most + 1, dtype=np.int64)
            each = [values[1:][results[1:] != results[:-1]] for results in self._evaluate(keys, values)]
        else:
            each = [self._search(key) for key in keys]
        for key, changes in zip(keys, each, strict=True):
            if len(changes) > MAX_VALUES:
                raise self._too_many(key)
        together = distinct(*each)
        if len(together) > MAX_VALUES:
            raise self._too_many(keys[0])
        return together

    def _search(self, key: Key) -> TickArray:
        """The same of one expression where values cannot be counted; checked on other values than the search had."""
        for count in SAMPLES:
            values = self._samples(count)
            (results,) = self._evaluate([key], values)
            before = np.flatnonzero(results[1:] != results[:-1])
            if len(before) > MAX_VALUES:
                break
            if _DENSE * len(before) > len(values):
                continue
            changes = self._between(key, values[before], values[before + 1])
            runs = np.concatenate([results[:1], results[before + 1]])
            others = self._evenly(count)
            (again,) = self._evaluate([key], others)
            if (again == runs[np.searchsorted(changes, others, side="right")]).all():
                return changes
        raise self._too_many(key)

    def _between(self, key: Key, lows: TickArray, highs: TickArray) -> TickArray:
        """Between pairs of values on which an expression differs, the first value that differs from the lower one."""
        ranks_low, ranks_high = _ranks(self._attribute.ordered, lows), _ranks(self._attribute.ordered, highs)
        parts = np.arange(1, _PARTS)
        while (is_open := ranks_high - ranks_low > 1).any():
            low, gaps = ranks_low[is_open], (ranks_high - ranks_low)[is_open]
            # In two steps: the product of a gap and a part may be more than an int64 holds.
            inner = low[:, None] + gaps[:, None] // _PARTS * parts + gaps[:, None] % _PARTS * parts // _PARTS
            points = np.column_stack([low, inner])
            (results,) = self._evaluate([key], _values(self._attribute.ordered, points.ravel()))
            same = results.reshape(points.shape) == results.reshape(points.shape)[:, :1]
            # The last of the leading ones that are like the lower end, and the one after it.
            last = np.where(same.all(axis=1), _PARTS, same.argmin(axis=1)) - 1
            ends = np.column_stack([points, ranks_high[is_open]])
            rows = np.arange(len(points))
            ranks_low[is_open], ranks_high[is_open] = ends[rows, last], ends[rows, last + 1]
        return _values(self._attribute.ordered, ranks_high)

    def _samples(self, count: int) -> TickArray:
        """Values that a column may have: evenly spaced ones, round ones, near 0, and both ends."""
        low, high, scale = self._ends
        spaced, powers = self._evenly(count), 2.0 ** np.arange(-60, 63)
        near = np.concatenate([-powers, [0], powers])
        near = near[(near >= low) & (near <= high)].astype(spaced.dtype)
        listed = [
            spaced,
            _round_numbers(scale, low, high, count),
            near,
            np.array([self._attribute.least, low, high, self._attribute.most], dtype=spaced.dtype),
        ]
        return distinct(scale.nearest(np.concatenate(listed)))

    def _evenly(self, count: int) -> TickArray:
        """One value in each of many equal parts of the range."""
        low, high, scale = self._ends
        shares = (np.arange(count) + self._random.random(count)) / count
        inside = low * (1 - shares) + high * shares
        if scale.discrete:
            inside = np.clip(np.rint(inside.astype(np.longdouble)), low, high).astype(np.int64)
        return np.asarray(np.clip(scale.nearest(inside), low, high))

    @property
    def _ends(self) -> tuple[Any, Any, Scale]:
        assert self._attribute.low is not None and self._attribute.high is not None
        return self._attribute.low, self._attribute.high, self._attribute.ordered

    def _evaluate(self, keys: Sequence[Key], values: TickArray) -> list[npt.NDArray[Any]]:
        """What expressions say of values, as numbers: equal ones for equal results, in this evaluation or another."""
        load_values(self._sandbox, self._attribute, self._attribute.ordered.arrow(values))
        out = []
        for key, array in zip(keys, run_typed(self._sandbox, keys), strict=True):
            coded = array.combine_chunks().dictionary_encode(null_encoding="encode")
            if len(coded.dictionary) > MAX_VALUES + 1:  # each of them begins at another value
                raise self._too_many(key)
            numbers = self._numbers.setdefault(key, {})
            listed = [numbers.setdefault(result, len(numbers)) for result in coded.dictionary.to_pylist()]
            out.append(np.array(listed)[coded.indices.to_numpy(zero_copy_only=False)])
        return out

    def _too_many(self, key: Key) -> MwemError:
        return unanswerable(
            self._domain, key, f"changes at too many values of {self._attribute.name} to cut its range there"
        )


def _round_numbers(scale: Scale, low: Any, high: Any, most: int) -> TickArray:
    """The finest grid of round values that has not too many between two bounds."""
    if scale.family in {"timestamp", "timestamptz"}:
        second = 1_000_000
        steps: Sequence[float] = (second, 60 * second, 3600 * second, *(86_400 * second * 10**k for k in range(9)))
    else:
        steps = [10.0**k for k in range(0 if scale.discrete else -12, 39)]
    step = next((step for step in steps if (high - low) / step < most), None)
    if step is None:
        return np.array([low], dtype=np.int64 if scale.discrete else np.float64)
    if scale.discrete:
        return np.arange(-(-int(low) // int(step)), int(high) // int(step) + 1, dtype=np.int64) * int(step)
    numbers = np.arange(np.floor(low / step), np.ceil(high / step) + 1)  # one too many at either end is put on the end
    # Divided by a whole number, a decimal fraction is the double that its text is read as.
    return np.clip(numbers / round(1 / step) if step < 1 else numbers * step, low, high)


def _ranks(scale: Scale, values: TickArray) -> npt.NDArray[np.int64]:
    """Whole numbers in the order of values, one apart for neighbours."""
    if scale.discrete:
        return values.astype(np.int64)
    if scale.type == "FLOAT":
        bits = (values.astype(np.float32) + np.float32(0)).view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(2**31) - bits, bits)
    bits = (values + 0.0).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _values(scale: Scale, ranks: npt.NDArray[np.int64]) -> TickArray:
    """The inverse of `_ranks`."""
    if scale.discrete:
        return ranks
    if scale.type == "FLOAT":
        return np.where(ranks < 0, -(2**31) - ranks, ranks).astype(np.int32).view(np.float32).astype(np.float64)
    return np.where(ranks < 0, np.iinfo(np.int64).min - ranks, ranks).view(np.float64)


def cut(
    domain: Domain,
    used: Sequence[str],
    terms: Terms,
    ticks: Ticks,
    *,
    changes: Mapping[str, npt.NDArray[Any]],
    finer_than: Mapping[str, Classes],
) -> dict[str, Pieces]:
    """Each used column's pieces: its values or bins where they must be apart, else what lies between cuts."""
    joined = {name: key for key, leaf in terms.items() if len(leaf.columns) > 1 for name in leaf.columns}
    by_bin = {
        leaf.columns[0] for (role, _), leaf in terms.items() if leaf.is_column or (role == "factor" and leaf.columns)
    }
    out = {}
    for name in used:
        attribute = domain[name]
        if not is_long(attribute):
            out[name] = value_pieces(attribute)
            continue
        begins: list[Tick] = changes[name].tolist() if name in changes else []
        if name in finer_than:
            begins += finer_than[name].pieces.lows.tolist()
        if name in joined:
            if attribute.count is None or attribute.count > MAX_VALUES:
                many = "endlessly many" if attribute.count is None else f"{attribute.count:,}"
                why = f"joins {name} with another column value by value, and it has {many}, more than {MAX_VALUES:,}"
                raise unanswerable(domain, joined[name], why)
            begins += range(int(attribute.least), int(attribute.most) + 1)
        out[name] = (value_pieces if name in by_bin else cut_pieces)(attribute, ticks[name].values(), begins)
    return out


def with_stand_ins(terms: Terms, pieces: Mapping[str, Pieces], sandbox: Sandbox) -> dict[str, Pieces]:
    """The same pieces; the other values of an open list are NULL where an expression fails on their stand-in.

    So does `code::INTEGER` of a VARCHAR.
    """
    failing: set[str] = set()
    for key, leaf in terms.items():
        names = [name for name in leaf.columns if pieces[name].attribute.values and pieces[name].attribute.open]
        if leaf.test is None and not leaf.is_column and not failing.issuperset(names):
            members = [[len(pieces[name].attribute.values or ()) if name in names else 0] for name in leaf.columns]
            load_grid(sandbox, leaf.columns, np.array(members, dtype=np.intp), pieces)
            try:
                list(run_typed(sandbox, [key]))
            except PredicateError:
                failing.update(names)
    return {name: replace(each, has_stand_in=False) if name in failing else each for name, each in pieces.items()}
