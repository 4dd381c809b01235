"""The contingency table of every pair of attributes, from batches of class codes. Part of the private side; runs no SQL.

A batch becomes a block of zeros and ones, a row per class, and the block times its transpose counts all pairs of
classes. float32 holds whole numbers below 2^24 exactly, so a block has fewer rows than that and blocks add up in int64. The
first class of each attribute is left out of the blocks and follows from the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_BLOCK = 2**25  # numbers of a block: 128 MB
_MOST_ROWS = 2**16
_GATHERED = 2**20  # cells copied at a time

Counts = npt.NDArray[np.int64]


class Pairs:
    """Counts of all pairs of classes of attributes with `shape[k]` classes each.

    Privacy:
        Holds private facts; the engine's own.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        # One more attribute, of a single class: a one-way marginal is one with that attribute.
        self._sizes = np.array([*shape, 1], dtype=np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes
        kept = int((self._sizes - 1).sum())
        self.rows = max(1, min(_MOST_ROWS, _BLOCK // max(1, kept)))
        self._block = np.empty((kept, self.rows), dtype=np.float32)
        self._product = np.zeros((kept, kept), dtype=np.int64)
        self._total = 0

    def add(self, codes: Sequence[npt.NDArray[np.integer]]) -> None:
        """Count a batch: codes of at most `rows` rows for each attribute."""
        block = self._block[:, : len(codes[0])]
        row = 0
        for own, size in zip(codes, self._sizes[:-1].tolist(), strict=True):
            if size == 2:
                block[row] = own
            else:
                np.equal(own, np.arange(1, size, dtype=own.dtype)[:, None], out=block[row : row + size - 1])
            row += size - 1
        self._product += (block @ block.T).astype(np.int64)
        self._total += block.shape[1]

    def finish(self) -> None:
        """Fill in the first classes: a row that is in no other class of an attribute is in its first."""
        first = self._starts
        kept = np.setdiff1d(np.arange(self._sizes.sum()), first)
        ends = np.cumsum(self._sizes - 1)

        def others(array: Counts) -> Counts:
            """Sums over the kept classes of each attribute, of which it may have none."""
            sums = np.concatenate([np.zeros_like(array, shape=(1, *array.shape[1:])), np.cumsum(array, axis=0)])
            return np.asarray(sums[ends] - sums[ends - (self._sizes - 1)])

        ones = np.empty(len(kept) + len(first), dtype=np.int64)
        ones[kept] = np.diagonal(self._product)
        ones[first] = self._total - others(ones[kept])
        table = np.empty((ones.size, ones.size), dtype=np.int64)
        table[np.ix_(kept, kept)] = self._product
        table[np.ix_(first, kept)] = ones[kept] - others(self._product)
        table[np.ix_(kept, first)] = table[np.ix_(first, kept)].T
        table[np.ix_(first, first)] = ones[first] - others(table[np.ix_(kept, first)])
        self._table = table

    def marginal(self, attributes: Sequence[int]) -> Counts:
        """The marginal of up to two attributes, in that order."""
        one, other = (self._starts[place] + np.arange(self._sizes[place]) for place in (*attributes, -1, -1)[:2])
        return self._table[np.ix_(one, other)].reshape([self._sizes[place] for place in attributes])

    def copy_marginals(self, wanted: Counts, starts: Counts, out: Counts) -> None:
        """Write whole marginals, those of one shape together; `wanted` has rows (query, attribute, attribute or -1)."""
        base = int(self._sizes.max()) + 1
        shapes = self._sizes[wanted[:, 1]] * base + self._sizes[wanted[:, 2]]
        for shape in np.unique(shapes).tolist():
            rows, columns = divmod(shape, base)
            alike = wanted[shapes == shape]
            step = max(1, _GATHERED // (rows * columns))
            for begin in range(0, len(alike), step):
                number, one, other = alike[begin : begin + step].T
                first = (self._starts[one][:, None] + np.arange(rows))[:, :, None]
                second = (self._starts[other][:, None] + np.arange(columns))[:, None, :]
                out[starts[number][:, None] + np.arange(rows * columns)] = self._table[first, second].reshape(
                    len(number), -1
                )
