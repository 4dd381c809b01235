"""What many queries are made of, as arrays: of hundreds of thousands none is asked by itself. Public all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Array, Flags, Floats, Integers
from mwem_sql.algebra.linear import Block, LinearQuery


@dataclass(frozen=True, eq=False)
class Facts:
    """The distinct `blocks` of some queries; `members` are the numbers of each query's own, `counts[i]` of them for query i."""

    blocks: list[Block]
    members: Integers
    counts: Integers

    @classmethod
    def of(cls, queries: Sequence[LinearQuery]) -> Facts:
        owned = [query.blocks for query in queries]
        flat = list(chain.from_iterable(owned))
        _, first, members = np.unique(
            np.fromiter(map(id, flat), np.int64, len(flat)), return_index=True, return_inverse=True
        )
        counts = np.fromiter(map(len, owned), np.int64, len(owned))
        return cls([flat[place] for place in first.tolist()], members.reshape(-1), counts)

    @cached_property
    def cells(self) -> Integers:
        """Of each query, how many answers it has."""
        return self._product(np.array([block.size for block in self.blocks], dtype=np.int64))

    @cached_property
    def domain_cells(self) -> Floats:
        """Of each query, the class combinations of its attributes."""
        return self._product(np.array([block.extent for block in self.blocks], dtype=np.float64))

    @cached_property
    def told_cells(self) -> Floats:
        """Of each query, at most how many of them it tells apart: what a factor must hold to measure it."""
        return self._product(
            np.array([prod(1 + own for own in block.changes) for block in self.blocks], dtype=np.float64)
        )

    @cached_property
    def widths(self) -> Integers:
        """Of each query, how many attributes it has."""
        return self._reduced(np.add, np.array([len(block.attributes) for block in self.blocks], dtype=np.int64))

    @cached_property
    def bounds(self) -> Integers:
        """Of each query, the most that a record adds to a cell."""
        return self._product(np.array([block.bound for block in self.blocks], dtype=np.int64))

    @cached_property
    def plain(self) -> Flags:
        """Whether a query is the whole marginal of its attributes."""
        whole = [len(block.attributes) == 1 and block.is_identity for block in self.blocks]
        return self._product(np.array(whole, dtype=np.int64)).astype(np.bool_) & (self.counts > 0)

    def places(self, rank: Mapping[str, int]) -> tuple[Integers, Integers]:
        """How many attributes each query has, and the ranks of them all, one query after the other."""
        return self.widths, self._listed([[rank[name] for name in block.attributes] for block in self.blocks])

    def changes(self) -> Integers:
        """For each of these attributes, how often what is asked changes from a class to the next."""
        return self._listed([block.changes for block in self.blocks])

    def firsts(self) -> Integers:
        """Of each query, the number of the first that asks the same, whatever the order of blocks, attributes and cells."""
        _, ids = np.unique(np.array([block.key for block in self.blocks], dtype=object), return_inverse=True)
        out = np.arange(len(self.counts))
        for count in np.unique(self.counts).tolist():
            numbers, rows = self.of_count(count)
            _, first, which = distinct_rows(np.sort(ids[rows], axis=1), len(self.blocks))
            out[numbers] = numbers[first[which]]
        return out

    def of_count(self, count: int) -> tuple[Integers, Integers]:
        """The queries of so many blocks, and a row with the numbers of its blocks for each."""
        numbers = np.flatnonzero(self.counts == count)
        begins = (np.cumsum(self.counts) - self.counts)[numbers]
        return numbers, self.members[begins[:, None] + np.arange(count)]

    def _listed(self, own: Sequence[Sequence[int]]) -> Integers:
        """The numbers of all queries' blocks, one after the other."""
        sizes = np.array(list(map(len, own)), dtype=np.int64)
        taken = sizes[self.members]
        begins = np.cumsum(sizes)[self.members] - np.cumsum(taken)
        numbers = np.array(list(chain.from_iterable(own)), dtype=np.int64)
        return np.asarray(numbers[np.repeat(begins, taken) + np.arange(int(taken.sum()))])

    def _product(self, each: Array) -> Array:
        return self._reduced(np.multiply, each)

    def _reduced(self, operation: np.ufunc, each: Array) -> Array:
        """One number per query from those of its blocks."""
        out = np.full(len(self.counts), operation.identity, dtype=each.dtype)
        some = self.counts > 0
        if some.any():
            out[some] = operation.reduceat(each[self.members], (np.cumsum(self.counts) - self.counts)[some])
        return out


def distinct_rows(rows: Integers, size: int) -> tuple[Integers, Integers, Integers]:
    """Each row once, the place of the first like it, and for each row which of them it is. Numbers are below `size`."""
    if size ** rows.shape[1] < 2**62:
        codes = np.zeros(len(rows), dtype=np.int64)
        for column in rows.T:
            codes = codes * size + column
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    else:
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return rows[first], first, which.reshape(-1)
