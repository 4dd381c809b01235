"""Where what an expression says of a column changes: found on the column's values, not by reading the expression. Reads no private row.

A bin is how finely a column is measured, never what a value is. So a condition is not evaluated at one value of a bin: the bin is cut
where the condition changes, and `price - 3333 > 0` is cut where `price > 3333` is. Values that can be counted are all looked at. Of
others many are, spread over the range and at round numbers; where two neighbours differ, the place is searched for between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mwem_sql.compile.evaluate import Terms, check_evaluations, run_typed, unanswerable
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import MAX_VALUES, is_long
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import MwemError
from mwem_sql.language.ticks import Scale
from mwem_sql.platform.sandbox import BATCH, Sandbox

COUNTED: Final = 2**22
"""Values of a column that are all looked at. More: each expression takes longer; fewer: more is left to samples."""
SAMPLES: Final = (2**16, 2**20)
"""Values of a longer column that are looked at, at first, and where as many others show that these were too few."""
_DENSE: Final = 4
"""Samples per change, on average, below which more samples are taken at once. Larger: fewer searches that are in vain."""
_PARTS: Final = 16  # parts of a gap between two neighbours that are looked at in one step of the search
_DAY: Final = 86_400_000_000  # ticks of a timestamp
_ROUND_TIMES: Final = (1_000_000, 60_000_000, 3_600_000_000, _DAY)

Ticks = npt.NDArray[Any]  # int64, or float64 of a column of real numbers
Key = tuple[str, str]


def find_changes(domain: Domain, terms: Terms, sandbox: Sandbox) -> dict[str, Ticks]:
    """Of each long column, where a piece must begin so that every condition and group over it says one thing of a piece.

    Not of comparisons with constants, which change at these, nor of the column itself, whose groups are its bins. Of what is
    summed up, where it begins or ceases to be NULL.
    """
    asked: dict[str, list[Key]] = {}
    for (role, sql), leaf in terms.items():
        is_open = leaf.compared is None and not leaf.is_column
        if is_open and len(leaf.columns) == 1 and is_long(domain[leaf.columns[0]]):
            key = ("truth", f"({sql}) IS NULL") if role == "factor" else (role, sql)
            asked.setdefault(leaf.columns[0], []).append(key)
    return {name: _Column(domain, domain[name], sandbox).changes(keys) for name, keys in asked.items()}


class _Column:
    """A long column on which expressions are evaluated."""

    def __init__(self, domain: Domain, attribute: Attribute, sandbox: Sandbox) -> None:
        self._domain = domain
        self._attribute = attribute
        self._sandbox = sandbox
        self._random = np.random.default_rng(0)
        self._numbers: dict[Key, dict[object, int]] = {}  # of each expression, of what it said in any evaluation

    def changes(self, keys: Sequence[Key]) -> Ticks:
        """Where at least one of some expressions changes."""
        count = self._attribute.count
        if count is not None and count <= COUNTED:
            check_evaluations(self._attribute.name, keys, count)
            values = np.arange(self._attribute.least, self._attribute.most + 1, dtype=np.int64)
            found = [values[1:][told[1:] != told[:-1]] for told in self._evaluate(keys, values)]
        else:
            found = [self._searched(key) for key in keys]
        for key, own in zip(keys, found, strict=True):
            if len(own) > MAX_VALUES:
                raise self._too_many(key)
        places = np.unique(np.concatenate(found))
        if len(places) > MAX_VALUES:
            raise self._too_many(keys[0])
        return places

    def _searched(self, key: Key) -> Ticks:
        """The same of one expression where values cannot be counted, checked on others than those that it was found on."""
        for count in SAMPLES:
            values = self._samples(count)
            (told,) = self._evaluate([key], values)
            before = np.flatnonzero(told[1:] != told[:-1])
            if len(before) > MAX_VALUES:
                break
            if _DENSE * len(before) > len(values):
                continue
            places = self._between(key, values[before], values[before + 1])
            runs = np.concatenate([told[:1], told[before + 1]])
            others = self._spread(count)
            (again,) = self._evaluate([key], others)
            if (again == runs[np.searchsorted(places, others, side="right")]).all():
                return places
        raise self._too_many(key)

    def _between(self, key: Key, lows: Ticks, highs: Ticks) -> Ticks:
        """Between pairs of values on which an expression differs, the first value on which it is not what it is on the lower one."""
        ranks_low, ranks_high = _ranks(self._attribute.ordered, lows), _ranks(self._attribute.ordered, highs)
        parts = np.arange(1, _PARTS)
        while (is_open := ranks_high - ranks_low > 1).any():
            low, gaps = ranks_low[is_open], (ranks_high - ranks_low)[is_open]
            # In two steps: the product of a gap and a part may be more than an int64 holds.
            inner = low[:, None] + gaps[:, None] // _PARTS * parts + gaps[:, None] % _PARTS * parts // _PARTS
            points = np.column_stack([low, inner])
            (told,) = self._evaluate([key], _values(self._attribute.ordered, points.ravel()))
            same = told.reshape(points.shape) == told.reshape(points.shape)[:, :1]
            # The last of the leading ones that are like the lower end, and the one after it.
            last = np.where(same.all(axis=1), _PARTS, same.argmin(axis=1)) - 1
            ends = np.column_stack([points, ranks_high[is_open]])
            rows = np.arange(len(points))
            ranks_low[is_open], ranks_high[is_open] = ends[rows, last], ends[rows, last + 1]
        return _values(self._attribute.ordered, ranks_high)

    def _samples(self, count: int) -> Ticks:
        """Values that a column may have: spread over its range, round ones, near 0, and both ends."""
        low, high, scale = self._ends
        spread, powers = self._spread(count), 2.0 ** np.arange(-60, 63)
        near = np.concatenate([-powers, [0], powers])
        near = near[(near >= low) & (near <= high)].astype(spread.dtype)
        listed = [
            spread,
            _round_numbers(scale, low, high, count),
            near,
            np.array([self._attribute.least, low, high, self._attribute.most], dtype=spread.dtype),
        ]
        return np.unique(scale.nearest(np.concatenate(listed)))

    def _spread(self, count: int) -> Ticks:
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

    def _evaluate(self, keys: Sequence[Key], values: Ticks) -> list[npt.NDArray[Any]]:
        """What expressions say of values, as numbers: equal ones where they say the same, in this evaluation and in others."""
        one = pa.array(np.zeros(len(values), dtype=np.int32))
        arrow = self._attribute.ordered.arrow(values)
        self._sandbox.load("grid", {"__one": ("INTEGER", one), self._attribute.name: (self._attribute.type, arrow)})
        out = []
        for begin in range(0, len(keys), BATCH):
            some = keys[begin : begin + BATCH]
            for key, array in zip(some, run_typed(self._sandbox, some), strict=True):
                coded = array.combine_chunks().dictionary_encode(null_encoding="encode")
                if len(coded.dictionary) > MAX_VALUES + 1:  # each of them begins at another value
                    raise self._too_many(key)
                known = self._numbers.setdefault(key, {})
                numbers = [known.setdefault(said, len(known)) for said in coded.dictionary.to_pylist()]
                out.append(np.array(numbers)[coded.indices.to_numpy(zero_copy_only=False)])
        return out

    def _too_many(self, key: Key) -> MwemError:
        return unanswerable(
            self._domain, key, f"changes at too many values of {self._attribute.name} to cut its range there"
        )


def _round_numbers(scale: Scale, low: Any, high: Any, most: int) -> Ticks:
    """The finest grid of round values that has not too many between two bounds."""
    if scale.family in {"timestamp", "timestamptz"}:
        steps: Sequence[float] = (*_ROUND_TIMES, *(_DAY * 10**k for k in range(1, 9)))
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


def _ranks(scale: Scale, values: Ticks) -> npt.NDArray[np.int64]:
    """Whole numbers in the order of values, one apart for neighbours."""
    if scale.discrete:
        return values.astype(np.int64)
    if scale.type == "FLOAT":
        bits = (values.astype(np.float32) + np.float32(0)).view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(2**31) - bits, bits)
    bits = (values + 0.0).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _values(scale: Scale, ranks: npt.NDArray[np.int64]) -> Ticks:
    """The inverse of `_ranks`."""
    if scale.discrete:
        return ranks
    if scale.type == "FLOAT":
        return np.where(ranks < 0, -(2**31) - ranks, ranks).astype(np.int32).view(np.float32).astype(np.float64)
    return np.where(ranks < 0, np.iinfo(np.int64).min - ranks, ranks).view(np.float64)
