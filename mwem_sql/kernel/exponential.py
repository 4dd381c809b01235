"""Very many scores in buckets, to select from by the exponential mechanism.

A draw costs what changed since the last one.
Holds private scores for the kernel. `docs/selection-proof.md` has the proof that the draws are exact.
"""

from __future__ import annotations

import math
import secrets
from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mwem_sql.algebra.arrays import Flags, Floats, Integers
from mwem_sql.kernel.scales import SATURATION

# The largest exponent: e^-700 is still a normal double.
LOWEST: Final = 700
# Scales that the reference is above the best score: it may rise by as much, and fall by LOWEST, before all are sorted
# again.
_MARGIN: Final = 8
_DEEPEST: Final = 2 * LOWEST
# Cells or scores that are worked on at a time: they stay in a cache.
BATCH: Final = 2**15


class Scores:
    """An integer for each candidate, and which of them may be selected.

    The bucket of a score is its distance in scales, rounded down, from a reference that none of the open ones exceeds.
    """

    def __init__(self, count: int) -> None:
        """All 0, and none of them open."""
        self.values: Integers = np.zeros(count, dtype=np.int64)
        self.is_open: Flags = np.zeros(count, dtype=np.bool_)
        self._dirty: Flags = np.zeros(count, dtype=np.bool_)
        self._buckets: NDArray[np.int16] = np.full(count, -1, dtype=np.int16)  # -1: closed
        self._counts: Integers = np.zeros(_DEEPEST + 1, dtype=np.int64)
        self._scale, self._reference = 0.0, 0

    @classmethod
    def of(cls, values: Integers) -> Scores:
        """All open."""
        scores = cls(values.size)
        scores.write(slice(None), values)
        scores.open(np.ones(values.size, dtype=np.bool_))
        return scores

    def write(self, places: Integers | slice, values: Integers) -> None:
        self.values[places] = np.clip(values, -SATURATION, SATURATION)
        self._dirty[places] = True

    def open(self, is_open: Flags) -> None:
        """From now on exactly these may be selected."""
        self._dirty |= self.is_open != is_open
        self.is_open = is_open.copy()

    def draw(self, scale: float) -> int:
        """Select an open candidate j with probability in proportion to exp(-min((top - score_j) / scale, LOWEST))."""
        self._sort(scale)
        first = int(np.flatnonzero(self._counts)[0])
        last = first + LOWEST
        cap = math.inf
        counts = self._counts[first:last].tolist()
        if self._counts[last:].any():
            cap = self._depths(self.values[self._buckets == first].max(keepdims=True))[0] + LOWEST
            counts.append(int(self._counts[last:].sum()))
        sums = list(accumulate(count * weight for count, weight in zip(counts, bucket_weights(), strict=False)))
        while True:
            bucket = first + bisect_right(sums, secrets.randbelow(sums[-1]))
            inside = np.flatnonzero(self._buckets >= last if bucket == last else self._buckets == bucket)
            chosen = int(inside[secrets.randbelow(inside.size)])
            accept = math.exp(bucket - min(float(self._depths(self.values[chosen : chosen + 1])[0]), cap))
            # A double from 1/4 to 1 is a multiple of 2^-54, so this flip is exact.
            if secrets.randbelow(2**54) < int(accept * 2.0**54):
                return chosen

    def _sort(self, scale: float) -> None:
        """Bring the buckets up to date: those of what changed, or all if the reference no longer serves."""
        changed = np.flatnonzero(self._dirty)
        self._dirty[:] = False
        best = self.values[changed].max(where=self.is_open[changed], initial=-SATURATION)
        if scale == self._scale and best <= self._reference:
            self._place(changed)
            if self._counts[:LOWEST].any():
                return
        self._scale = scale
        top = int(self.values.max(where=self.is_open, initial=-SATURATION))
        self._reference = top + int(min(_MARGIN * scale, SATURATION - top))
        self._place(slice(None))

    def _place(self, places: Integers | slice) -> None:
        values, is_open, former = self.values[places], self.is_open[places], self._buckets[places]
        self._counts -= np.bincount(former[former >= 0], minlength=self._counts.size)
        buckets = np.empty(values.size, dtype=np.int16)
        for start in range(0, values.size, BATCH):
            part = slice(start, start + BATCH)
            buckets[part] = np.minimum(self._depths(np.minimum(values[part], self._reference)), _DEEPEST)
        buckets[~is_open] = -1
        self._buckets[places] = buckets
        self._counts += np.bincount(buckets[is_open], minlength=self._counts.size)

    def _depths(self, values: Integers) -> Floats:
        """How far scores are below the reference, in units of the scale."""
        return np.asarray((self._reference - values) / self._scale)


@lru_cache(maxsize=1)
def bucket_weights() -> list[int]:
    """Integers in proportion to exp(0), exp(-1) .. exp(-LOWEST), each to a relative 2^-52.

    Doubles are fractions: scaled by one power of 2 they are integers, and from there on nothing is rounded.
    """
    exact = [Fraction(math.exp(-depth)) for depth in range(LOWEST + 1)]
    unit = max(weight.denominator for weight in exact)
    return [int(weight * unit) for weight in exact]
