"""Queries: a batch of linear queries as arrays, with its verbs: take, group, find equal ones, answer. Public all of it.

Hundreds of thousands of queries are a few arrays; a `LinearQuery` is a row of them. A batch over the attributes of one
marginal is answered from that marginal, by prefix sums, by matrix products or one by one (`Queries.answers`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, product
from math import inf, prod
from typing import overload

import numpy as np

from mwem_sql.algebra.arrays import Array, Flags, Floats, Integers, Places
from mwem_sql.algebra.linear import Block, LinearQuery

FEW_CELLS = 16
"""Cells of a query that is a row of a matrix product. More: products of mostly zeros; fewer: more queries one by
one."""
ROW_NUMBERS = 1 << 20
"""Numbers in the rows of one matrix product: 8 MB. More take memory, fewer take more products."""
ROW_RUNS = 1 << 16
"""Runs of the blocks that are summed up at once: 6 MB. More take memory, fewer take more prefix sums."""
MANY_BOXES = 100
"""Queries over the same attributes from which on prefix sums answer them. Fewer: setting up costs more than it
saves."""
MOST_ATTRIBUTES = 2
"""Attributes of a query that prefix sums answer. A box has a corner for each way to be low or high: each attribute
doubles the work."""
MOST_RUNS = 40
"""Runs of neighbouring classes in a block that prefix sums answer. A query has a box for each combination of runs, so
more cost more than its cells."""


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

    def same_as(self, other: Queries) -> bool:
        """Whether both have the same blocks in the same rows."""
        return (
            self.blocks == other.blocks
            and np.array_equal(self.members, other.members)
            and np.array_equal(self.counts, other.counts)
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
        end = int(self._ends[number])
        members = self.members[end - int(self.counts[number]) : end]
        return LinearQuery(tuple([self.blocks[k] for k in members.tolist()]))

    def __iter__(self) -> Iterator[LinearQuery]:
        begin, members = 0, self.members.tolist()
        for end in self._ends.tolist():
            yield LinearQuery(tuple([self.blocks[k] for k in members[begin:end]]))
            begin = end

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
        """Of each query, the cells that a clique needs to measure it: classes that it distinguishes, at most."""
        return self._product(
            np.array([prod(1 + changes for changes in block.changes) for block in self.blocks], dtype=np.float64)
        )

    @cached_property
    def widths(self) -> Integers:
        """Of each query, how many attributes it has."""
        return self._reduced(np.add, np.array([len(block.attributes) for block in self.blocks], dtype=np.int64))

    def by_attribute(self, numbers: Floats, factor: Callable[[Block], float]) -> dict[str, float]:
        """A number of each query, times a factor of its block, added up over those that are about an attribute."""
        out: dict[str, float] = {}
        by_block = np.bincount(self.members, np.repeat(numbers, self.counts), len(self.blocks))
        for block, number in zip(self.blocks, by_block.tolist(), strict=True):
            for name in block.attributes:
                out[name] = out.get(name, 0.0) + number * factor(block)
        return out

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

    @cached_property
    def are_boxes(self) -> Flags:
        """Whether a query is a sum over few boxes: products of runs of neighbouring classes."""
        flags = [
            block.values is None and len(block.shape) == 1 and block.changes[0] < MOST_RUNS for block in self.blocks
        ]
        return self.are_all(np.array(flags, dtype=np.bool_)) & (self.counts > 0) & (self.counts <= MOST_ATTRIBUTES)

    def by_attributes(self, flags: Flags, least: int = 1) -> dict[tuple[str, ...], Integers]:
        """Numbers of the flagged queries by their attributes, in order, where there are at least so many."""
        out: dict[tuple[str, ...], Integers] = {}
        if np.count_nonzero(flags) < least:
            return out
        names = list(dict.fromkeys(chain.from_iterable(block.attributes for block in self.blocks)))
        ranks = self.attribute_ranks({name: rank for rank, name in enumerate(names)})
        for width in np.unique(self.widths[flags]).tolist():
            numbers, rows = self.of_width(width, ranks)
            numbers, rows = numbers[flags[numbers]], rows[flags[numbers]]
            for row, same in _grouped(numbers, rows, len(names)):
                if len(same) >= least:
                    out[tuple([names[rank] for rank in row])] = same
        return out

    def by_kind(self, flags: Flags, kind: Callable[[Block], Hashable]) -> Iterator[tuple[Integers, Integers]]:
        """The flagged queries whose blocks are of the same kinds: their numbers, and a row of block numbers each."""
        kinds: dict[Hashable, int] = {}
        kind_of = np.array([kinds.setdefault(kind(block), len(kinds)) for block in self.blocks], dtype=np.int64)
        for count in np.unique(self.counts[flags]).tolist():
            numbers, members = self.of_count(count)
            numbers, members = numbers[flags[numbers]], members[flags[numbers]]
            for _, places in _grouped(np.arange(len(numbers)), kind_of[members], len(kinds)):
                yield numbers[places], members[places]

    def many_boxes(self, least: int = MANY_BOXES) -> dict[tuple[str, ...], Integers]:
        """Numbers of the queries that are worth answering from prefix sums, by their attributes."""
        return self.by_attributes(self.are_boxes, least) if len(self) >= least else {}

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

    def answers(
        self,
        marginal: Array,
        *,
        prefix_sums: bool = True,
        many_boxes: int = MANY_BOXES,
        row_numbers: int = ROW_NUMBERS,
    ) -> list[Array]:
        """One array per query. The marginal is row-major over the attributes of each of them, in that order.

        No entry of it is negative. Very many counts of neighbouring classes are differences of prefix sums; queries of
        few cells are rows of a matrix product, of integers where float64 has every sum exactly; all others are answered
        one by one. A run-length block costs its runs, not its class combinations. Other prefix sums need the marginal's
        axes, and take longer to set up than a product: whoever asks the same queries again and again does without, or
        keeps the `Boxes`. Integers wrap around beyond int64.
        """
        if len(self) == 1:
            return [self[0].answer(marginal)]
        out: dict[int, Array] = {}
        is_left = np.ones(len(self), dtype=np.bool_)
        for numbers in self.many_boxes(many_boxes).values() if prefix_sums else ():
            boxes = Boxes(self.take(numbers)).answers(marginal)
            # Of weights, a difference of sums may be below 0 where there is nothing.
            out.update((number, np.maximum(answer, 0)) for number, answer in zip(numbers.tolist(), boxes, strict=True))
            is_left[numbers] = False
        for numbers in self._run_length(is_left):
            # All of them are over the marginal's attributes: along one axis of all class combinations.
            sums = Boxes(self.take(numbers)).answers(marginal.ravel())
            out.update((number, np.maximum(answer, 0)) for number, answer in zip(numbers.tolist(), sums, strict=True))
            is_left[numbers] = False
        is_whole = marginal.dtype.kind != "f"
        # Below 2^53 every whole number is a float64.
        most = 2.0**53 / max(1.0, float(np.abs(marginal).sum(dtype=np.float64))) if is_whole else inf
        is_left &= (self.counts > 0) & (self.cells <= FEW_CELLS) & (self.bounds < most)
        for numbers, members in self.by_kind(is_left, lambda block: (block.attributes, block.size)):
            answers = self._multiplied(members, marginal, row_numbers)
            answers = np.rint(answers).astype(np.int64) if is_whole else answers
            out.update(zip(numbers.tolist(), answers, strict=True))
        return [out[number] if number in out else self[number].answer(marginal) for number in range(len(self))]

    def _run_length(self, flags: Flags) -> list[Integers]:
        """Numbers of the flagged queries of one run-length block each, in portions of about `ROW_RUNS` runs."""
        is_run_length = np.array([block.is_run_length for block in self.blocks], dtype=np.bool_)
        numbers = np.flatnonzero(flags & (self.counts == 1) & self.are_all(is_run_length))
        runs = np.array(
            [len(self.blocks[k].runs) for k in self.members[self._ends[numbers] - 1].tolist()], dtype=np.int64
        )
        portions = np.cumsum(runs) // ROW_RUNS
        return np.split(numbers, np.flatnonzero(np.diff(portions)) + 1) if numbers.size else []

    def _multiplied(self, members: Integers, marginal: Array, row_numbers: int) -> Floats:
        """A row of answers for each product of blocks, all over the same attributes, with equal cells per block."""
        extents, cells = zip(*((self.blocks[k].extent, self.blocks[k].size) for k in members[0].tolist()), strict=True)
        step = max(1, row_numbers // (prod(cells) * max(extents[0], prod(extents[1:]))))
        answers = []
        for start in range(0, len(members), step):
            count = len(members[start : start + step])
            columns = [[self.blocks[k] for k in column] for column in members[start : start + step].T.tolist()]
            out = _rows(columns[0]) @ marginal.reshape(extents[0], -1)
            for extent, blocks in zip(extents[1:], columns[1:], strict=True):
                after = out.shape[-1] // extent
                out = (_rows(blocks)[:, None] @ out.reshape(count, -1, extent, after)).reshape(count, -1, after)
            answers.append(out.reshape(count, -1))
        return np.concatenate(answers)

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


def _rows(blocks: Sequence[Block]) -> Floats:
    """Of each block, what a record of each class combination adds to each cell: blocks of as many cells each."""
    labels = np.stack([block.labels.ravel() for block in blocks])[:, None]
    rows: Floats = (labels == np.arange(blocks[0].size)[:, None]).astype(np.float64)
    for number, block in enumerate(blocks):
        if block.values is not None:
            rows[number] *= block.values.ravel()
    return rows


def _grouped(numbers: Integers, rows: Integers, size: int) -> Iterator[tuple[list[int], Integers]]:
    """Each distinct row, and which of the numbers have it."""
    keys, _, which = distinct_rows(rows, size)
    ends = np.cumsum(np.bincount(which))
    return zip(keys.tolist(), np.split(numbers[np.argsort(which, kind="stable")], ends[:-1]), strict=True)


def distinct_rows(rows: Integers, size: int) -> tuple[Integers, Integers, Integers]:
    """Each row once, the position of the first like it, and of each row which it is. Numbers are below `size`."""
    if size ** rows.shape[1] < 2**62:
        codes = np.zeros(len(rows), dtype=np.int64)
        for column in rows.T:
            codes = codes * size + column
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    else:
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return rows[first], first, which.reshape(-1)


class Boxes:
    """Queries over the same attributes in the same order, each a sum over boxes: differences of prefix sums."""

    def __init__(self, queries: Queries) -> None:
        """All of them are such that `are_boxes` says so."""
        self.queries = queries
        members = queries.members.reshape(len(queries), -1)
        blocks = [_runs(block) for block in queries.blocks]
        counts, sizes = np.array([runs.shape[1] for runs in blocks]), np.array([block.size for block in queries.blocks])
        runs, begins = np.concatenate(blocks, axis=1), np.cumsum(counts) - counts
        boxes = counts[members].prod(axis=1)
        query = np.repeat(np.arange(len(queries)), boxes)
        rest = np.arange(len(query)) - np.repeat(np.cumsum(boxes) - boxes, boxes)
        self._ends = np.cumsum(queries.cells)
        cells, step = (self._ends - queries.cells)[query], np.ones(len(query), dtype=np.int64)
        # Along each attribute, where all boxes begin and where they end.
        self._sides: list[Integers] = []
        for axis in range(members.shape[1] - 1, -1, -1):
            block = members[query, axis]
            rest, run = np.divmod(rest, counts[block])
            chosen = runs[:, begins[block] + run]
            self._sides.insert(0, chosen[:2])
            cells += chosen[2] * step
            step *= sizes[block]
        self._cells = cells

    def answers(self, marginal: Array, boundaries: Sequence[tuple[Places, Floats]] | None = None) -> list[Array]:
        """One array per query, from a marginal over the classes of their attributes, or over runs of classes.

        Inside a run each class has its share of the weight: `boundaries` are those of each attribute's `Partition`.
        Prefix sums are linear along a run, so that no array over classes is needed.
        """
        sums = _prefixes(marginal)
        boxes = np.zeros(len(self._cells), dtype=marginal.dtype)
        for sign, corner in self._corners():
            if boundaries is None:
                boxes += sign * sums[corner]
                continue
            axes = [(run[side], share[side]) for (run, share), side in zip(boundaries, corner, strict=True)]
            for beyond in product((0, 1), repeat=len(axes)):
                weights = prod(share if after else 1 - share for after, (_, share) in zip(beyond, axes, strict=True))
                at = tuple(run + after for after, (run, _) in zip(beyond, axes, strict=True))
                np.add(boxes, sign * weights * sums[at], out=boxes)
        out = np.zeros(int(self._ends[-1]), dtype=boxes.dtype)
        np.add.at(out, self._cells, boxes)
        return np.split(out, self._ends[:-1])

    def _corners(self) -> Iterator[tuple[int, tuple[Integers, ...]]]:
        """Of all boxes the corners at one side of each attribute, and whether what is before them is added or not."""
        for sides in product((0, 1), repeat=len(self._sides)):
            yield (-1) ** sides.count(0), tuple(ends[side] for side, ends in zip(sides, self._sides, strict=True))


def _prefixes(marginal: Array) -> Array:
    sums = np.zeros([size + 1 for size in marginal.shape], dtype=marginal.dtype)
    sums[(slice(1, None),) * marginal.ndim] = marginal
    for axis in range(marginal.ndim):
        np.cumsum(sums, axis=axis, out=sums)
    return sums


def _runs(block: Block) -> Integers:
    """The runs of neighbouring classes in a cell: a row of where they begin, one of their ends, one of cells."""
    runs = block.runs
    return np.array([runs.begins, runs.ends, runs.numbers], dtype=np.int64)[:, runs.numbers >= 0]
