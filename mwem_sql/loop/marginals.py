"""The marginals that a workload's cuboids add up to: a marginal over fewer attributes costs as much privacy and has less noise. Public all of it."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from mwem_sql.algebra.arrays import Floats, Integers
from mwem_sql.algebra.linear import Block
from mwem_sql.algebra.queries import Queries

MOST_ADDED = 20_000
"""Marginals that are added to a workload, those of fewer parts first; and partitions."""
MOST_CELLS = 4_000_000
"""Of all marginals that are added, together; and of all partitions."""


def with_marginals(
    queries: Queries, weights: Floats, most_added: int = MOST_ADDED, most_cells: int = MOST_CELLS
) -> tuple[Queries, Floats]:
    """A workload and what its cuboids add up to, over fewer attributes, with the largest weight of those."""
    parts = _Parts(queries)
    sets = parts.sets(queries, weights)
    batches, importance, count, cells = [queries], [weights], 0, 0
    for width in range(1, max((rows.shape[1] for rows, _ in sets), default=0) + 1):
        if len(parts.blocks) ** width >= 2**62 or any(comb(rows.shape[1], width) > most_added for rows, _ in sets):
            break
        places = [(rows, own, list(some)) for rows, own in sets for some in combinations(range(rows.shape[1]), width)]
        codes = np.concatenate([parts.code(rows[:, some]) for rows, _, some in places])
        codes, which = np.unique(codes, return_inverse=True)
        largest = np.zeros(len(codes))
        np.maximum.at(largest, which.reshape(-1), np.concatenate([own for _, own, _ in places]))
        asked = parts.asked(queries, width)
        new = ~np.isin(codes, list(asked))
        rows = parts.decode(codes[new], width)
        count += len(rows)
        cells += int(parts.sizes[rows].prod(axis=1).sum())
        if count > most_added or cells > most_cells:
            break
        batches.append(Queries(parts.blocks, rows.reshape(-1), np.full(len(rows), width)))
        importance.append(largest[new])
    return Queries.joined(batches), np.concatenate(importance)


class _Parts:
    """The blocks of a workload's cuboids, equal ones once: each puts every record in one of several cells."""

    def __init__(self, queries: Queries) -> None:
        numbers: dict[bytes, int] = {}
        self.blocks: list[Block] = []
        # Of each block the number of its part, or -1 if it is none.
        self._of_block = np.full(len(queries.blocks), -1, dtype=np.int64)
        for place, block in enumerate(queries.blocks):
            if block.size > 1 and block.counts_all:
                self._of_block[place] = numbers.setdefault(block.key, len(self.blocks))
                if len(numbers) > len(self.blocks):
                    self.blocks.append(block)
        self.sizes = np.array([block.size for block in self.blocks], dtype=np.float64)

    def sets(self, queries: Queries, weights: Floats) -> list[tuple[Integers, Floats]]:
        """The parts of each cuboid, and its weight; by number of parts."""
        widths = np.unique(queries.counts[queries.counts > 0]).tolist()
        found = [(rows, weights[numbers]) for numbers, rows in (self._cuboids(queries, width) for width in widths)]
        return [(rows, own) for rows, own in found if len(rows)]

    def asked(self, queries: Queries, width: int) -> dict[int, int]:
        """The cuboids of so many parts, by code."""
        numbers, rows = self._cuboids(queries, width)
        return dict(zip(self.code(rows).tolist(), numbers.tolist(), strict=True))

    def code(self, rows: Integers) -> Integers:
        """A number for each set of parts."""
        codes = np.zeros(len(rows), dtype=np.int64)
        for column in np.sort(rows, axis=1).T:
            codes = codes * len(self.blocks) + column
        return codes

    def decode(self, codes: Integers, width: int) -> Integers:
        """The sets of parts again."""
        return codes[:, None] // len(self.blocks) ** np.arange(width - 1, -1, -1) % len(self.blocks)

    def _cuboids(self, queries: Queries, width: int) -> tuple[Integers, Integers]:
        """The queries of so many blocks all of which are parts, and a row of those for each."""
        numbers, members = queries.of_count(width)
        rows = self._of_block[members]
        whole = (rows >= 0).all(axis=1)
        return numbers[whole], rows[whole]
