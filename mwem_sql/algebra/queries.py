"""Queries: a batch of linear queries as arrays. Hundreds of thousands are a few arrays; one is a batch of one. Public all of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from math import prod
from typing import overload

import numpy as np

from mwem_sql.algebra.arrays import Array, Flags, Floats, Integers
from mwem_sql.algebra.linear import Block, LinearQuery


class Queries(Sequence[LinearQuery]):
    """Query i is the product of the `blocks` that its row of `members` numbers: `counts[i]` of them.

    Every block is there once. A single query is made when somebody asks for it by its number.
    """

    def __init__(self, blocks: Sequence[Block], members: Integers, counts: Integers) -> None:
        self.blocks = tuple(blocks)
        self.members = members
        self.counts = counts
        self._ends = np.cumsum(counts)

    @classmethod
    def of(cls, queries: Iterable[LinearQuery]) -> Queries:
        """The same queries as a batch; blocks are the same if they are the same object."""
        if isinstance(queries, Queries):
            return queries
        products = [query.blocks for query in queries]
        numbers: dict[Block, int] = {}
        members = _numbered(chain.from_iterable(products), numbers)
        return cls(list(numbers), members, np.fromiter(map(len, products), np.int64, len(products)))

    @classmethod
    def joined(cls, batches: Sequence[Queries]) -> Queries:
        """One batch after the other."""
        numbers: dict[Block, int] = {}
        ranks = [_numbered(batch.blocks, numbers) for batch in batches]
        members = [rank[batch.members] for rank, batch in zip(ranks, batches, strict=True)]
        return cls(
            list(numbers),
            np.concatenate([np.empty(0, dtype=np.int64), *members]),
            np.concatenate([np.empty(0, dtype=np.int64), *(batch.counts for batch in batches)]),
        )

    def __len__(self) -> int:
        return len(self.counts)

    @overload
    def __getitem__(self, number: int) -> LinearQuery: ...

    @overload
    def __getitem__(self, number: slice) -> Queries: ...

    def __getitem__(self, number: int | slice) -> LinearQuery | Queries:
        if isinstance(number, slice):
            return self.take(np.arange(len(self))[number])
        return LinearQuery(tuple([self.blocks[k] for k in self.members_of(number).tolist()]))

    def __iter__(self) -> Iterator[LinearQuery]:
        begin, members = 0, self.members.tolist()
        for end in self._ends.tolist():
            yield LinearQuery(tuple([self.blocks[k] for k in members[begin:end]]))
            begin = end

    def members_of(self, number: int) -> Integers:
        """The numbers of a query's blocks."""
        end = int(self._ends[number])
        return self.members[end - int(self.counts[number]) : end]

    def take(self, numbers: Integers | Sequence[int]) -> Queries:
        """Some of the queries, in that order."""
        rows = np.asarray(numbers, dtype=np.int64)
        counts = self.counts[rows]
        members = self.members[_places(self._ends[rows] - counts, counts)]
        used, members = np.unique(members, return_inverse=True)
        return Queries([self.blocks[k] for k in used.tolist()], members.reshape(-1), counts)

    @cached_property
    def cells(self) -> Integers:
        """Of each query, how many answers it has."""
        return self._product(np.array([block.size for block in self.blocks], dtype=np.int64))

    @cached_property
    def domain_cells(self) -> Floats:
        """Of each query, the class combinations of its attributes."""
        return self._product(np.array([block.extent for block in self.blocks], dtype=np.float64))

    @cached_property
    def model_cells(self) -> Floats:
        """Of each query, at most how many class combinations it distinguishes: what a factor must hold to measure it."""
        return self._product(
            np.array([prod(1 + changes for changes in block.changes) for block in self.blocks], dtype=np.float64)
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
    def units(self) -> Floats:
        """Of each query, what an answer of 1 stands for."""
        return self._product(np.array([block.unit for block in self.blocks], dtype=np.float64))

    @cached_property
    def are_marginals(self) -> Flags:
        """Whether a query is the whole marginal of its attributes."""
        whole = [len(block.attributes) == 1 and block.is_identity for block in self.blocks]
        return self.are_all(np.array(whole, dtype=np.bool_)) & (self.counts > 0)

    def attribute_ranks(self, rank: Mapping[str, int]) -> Integers:
        """The ranks of all attributes of each query, one query after the other."""
        return self._listed([[rank[name] for name in block.attributes] for block in self.blocks])

    def changes(self) -> Integers:
        """For each of these attributes, how often what a query adds changes from a class to the next."""
        return self._listed([block.changes for block in self.blocks])

    def firsts(self) -> Integers:
        """Of each query, the number of the first that asks the same, in any order of blocks, attributes and cells."""
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
        return numbers, self.members[(self._ends - self.counts)[numbers][:, None] + np.arange(count)]

    def of_width(self, width: int, by_attribute: Integers) -> tuple[Integers, Integers]:
        """The queries of so many attributes, and a row for each of what is listed for every query's attributes."""
        numbers = np.flatnonzero(self.widths == width)
        begins = (np.cumsum(self.widths) - self.widths)[numbers]
        return numbers, by_attribute[begins[:, None] + np.arange(width)]

    def are_all(self, block_flags: Flags) -> Flags:
        """Whether all blocks of a query are flagged."""
        return self._product(block_flags.astype(np.int64)).astype(np.bool_)

    def substituted(self, replacements: Sequence[Sequence[Block]]) -> Queries:
        """The queries with each block replaced by the product of others, or by nothing."""
        numbers: dict[Block, int] = {}
        rows = [_numbered(blocks, numbers) for blocks in replacements]
        counts = np.array(list(map(len, replacements)), dtype=np.int64)
        return Queries(list(numbers), self._listed(rows), self._reduced(np.add, counts))

    def _listed(self, by_block: Sequence[Sequence[int] | Integers]) -> Integers:
        """The numbers of all queries' blocks, one after the other."""
        sizes = np.array(list(map(len, by_block)), dtype=np.int64)
        numbers = np.array(list(chain.from_iterable(by_block)), dtype=np.int64)
        return np.asarray(numbers[_places((np.cumsum(sizes) - sizes)[self.members], sizes[self.members])])

    def _product(self, by_block: Array) -> Array:
        return self._reduced(np.multiply, by_block)

    def _reduced(self, operation: np.ufunc, by_block: Array) -> Array:
        """One number per query from those of its blocks."""
        out = np.full(len(self.counts), operation.identity, dtype=by_block.dtype)
        some = self.counts > 0
        if some.any():
            out[some] = operation.reduceat(by_block[self.members], (self._ends - self.counts)[some])
        return out


def _numbered(blocks: Iterable[Block], numbers: dict[Block, int]) -> Integers:
    """The number of each block; a block that has none gets the next."""
    return np.array([numbers.setdefault(block, len(numbers)) for block in blocks], dtype=np.int64)


def _places(begins: Integers, counts: Integers) -> Integers:
    """Ranges of places, each from where it begins, one after the other."""
    return np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))


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
