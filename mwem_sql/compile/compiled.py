"""A workload in linear form: a batch of arrays, one query per row, and single rows to be shown. All of it is public."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, product
from typing import overload

import numpy as np
import pyarrow as pa

from mwem_sql.algebra.arrays import Floats, Integers
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.queries import Queries
from mwem_sql.algebra.sets import distinct
from mwem_sql.domains.classes import Classes
from mwem_sql.domains.domain import Domain
from mwem_sql.workload import Query, Workload

PART_OF_AVERAGE = 1 / 5
"""The weight of each of the two queries that an average asks, beside 1 of a query that is asked as it is. Larger:
averages are known better, sums and counts worse. `python benchmarks/floors.py --works sums averages`"""
Cell = tuple[str | None, ...]
"""The group_by values of a cell."""


@dataclass(frozen=True, kw_only=True)
class CompiledQuery:
    """A query of the workload in linear form. `groups` are, per block, the group_by values of its cells.

    An average is the sum that `linear` asks for, divided by the count that `over` asks for, cell by cell.
    A sum over bins counts each record with the mean of its bin; `reach` asks how far all of them may be from that
    together. A condition that is in doubt of values off the domain lies between the two queries of `hull`: it is false
    of these, or true.
    """

    number: int
    source: Query
    linear: LinearQuery
    groups: tuple[tuple[Cell, ...], ...] = ()
    positions: tuple[int, ...] = ()
    over: CompiledQuery | None = None
    reach: LinearQuery | None = None
    hull: tuple[LinearQuery, LinearQuery] | None = None

    @property
    def label(self) -> str:
        return self.source.label

    @property
    def row_number(self) -> int:
        """The row of the workload as users count, from 1: their column `query`. Inside, rows are numbered from 0."""
        return self.number + 1

    def cells(self) -> Iterator[list[str | None] | None]:
        """The group_by values of every answer, in the answers' order; None for a scalar query."""
        if self.source.group_by is None:
            yield None
            return
        for parts in product(*self.groups):
            flat = [value for part in parts for value in part]
            yield [flat[position] for position in self.positions]


def cells_of(queries: Sequence[CompiledQuery]) -> pa.ListArray:
    """The same of several queries, one after the other. A block's values are there once, however many queries have it.

    Queries of as many values and cells block by block are worked out together.
    """
    values: list[str | None] = []
    places: dict[Block, Integers] = {}
    kinds: dict[tuple[tuple[tuple[int, ...], ...], tuple[int, ...]], list[int]] = {}
    listed: list[Integers | None] = [None] * len(queries)
    for number, query in enumerate(queries):
        if query.source.group_by is None:
            continue
        for block, cells in zip(query.linear.blocks, query.groups, strict=True):
            if block not in places:
                places[block] = len(values) + np.arange(len(cells) * len(cells[0])).reshape(len(cells), -1)
                values += chain.from_iterable(cells)
        shapes = tuple([places[block].shape for block in query.linear.blocks])
        kinds.setdefault((shapes, query.positions), []).append(number)
    for (shapes, positions), numbers in kinds.items():
        out = np.zeros((len(numbers), 1, 0), dtype=np.int64)
        for place, (count, _) in enumerate(shapes):
            each = np.stack([places[queries[number].linear.blocks[place]] for number in numbers])
            pair = out.repeat(count, axis=1), np.tile(each, (1, out.shape[1], 1))
            out = np.concatenate(pair, axis=2)
        for number, rows in zip(numbers, out[:, :, list(positions)], strict=True):
            listed[number] = rows
    widths = np.concatenate(
        [np.zeros(0, np.int64), *([0] if rows is None else np.full(len(rows), rows.shape[1]) for rows in listed)]
    )
    is_scalar = np.concatenate(
        [np.zeros(0, np.bool_), *(np.full(1 if rows is None else len(rows), rows is None) for rows in listed)]
    )
    flat = np.concatenate([np.zeros(0, np.int64), *(rows.reshape(-1) for rows in listed if rows is not None)])
    offsets = pa.array(np.append(0, np.cumsum(widths)), pa.int32())
    return pa.ListArray.from_arrays(
        offsets, pa.array(values, pa.string()).take(pa.array(flat)), mask=pa.array(is_scalar)
    )


@dataclass(frozen=True, eq=False)
class Rows(Sequence[CompiledQuery]):
    """The rows of a workload, each made when somebody asks for it: of hundreds of thousands few are ever shown.

    `groups` are the group_by values of the cells of each block. `special` are rows that are more than that, by number:
    averages, sums over bins, conditions in doubt, and groups in another order than the table's columns.
    """

    workload: Workload
    linear: Queries
    groups: Mapping[Block, tuple[Cell, ...]]
    special: Mapping[int, CompiledQuery] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.linear)

    @overload
    def __getitem__(self, number: int) -> CompiledQuery: ...

    @overload
    def __getitem__(self, number: slice) -> list[CompiledQuery]: ...

    def __getitem__(self, number: int | slice) -> CompiledQuery | list[CompiledQuery]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        return self.special.get(number) or self.plain(number)

    def plain(self, number: int) -> CompiledQuery:
        """The row as the batch has it."""
        source = self.workload.queries[number]
        if source.group_by is None:
            return CompiledQuery(number=number, source=source, linear=self.linear[number])
        linear = self.linear[number]
        groups = tuple([self.groups[block] for block in linear.blocks])
        positions = tuple(range(sum(len(cells[0]) for cells in groups)))
        return CompiledQuery(number=number, source=source, linear=linear, groups=groups, positions=positions)


@dataclass(frozen=True, eq=False, kw_only=True)
class Distinct:
    """One query for each thing that a workload asks, and its weight: the largest among the rows that ask it.

    `of_row` is its number for each row. An average asks two things, its sum and its count.
    """

    queries: Queries
    weights: Floats
    of_row: Integers
    rows: Integers
    """Of each, the first row that asks it."""
    of_count: Mapping[int, int]
    """Of each row that is an average, the number of its count."""
    always: list[int]
    """Those that are measured in any case: a row asks for them always."""


@dataclass(frozen=True, eq=False)
class Compiled:
    """What the private side and the loop need of a workload."""

    domain: Domain
    classes: dict[str, Classes]
    queries: Rows
    cuts: tuple[LinearQuery | None, ...] = ()
    """The conditions that cut classes though nobody asks for them; None for one in doubt of values off the domain."""

    @property
    def linear(self) -> Queries:
        """The query of each row."""
        return self.queries.linear

    @cached_property
    def distinct(self) -> Distinct:
        sources = self.queries.workload.queries
        averages = sorted(row for row, query in self.queries.special.items() if query.over is not None)
        overs = [query.over.linear for row in averages if (query := self.queries[row]).over is not None]
        # The count of an average follows its sum.
        rows = np.insert(np.arange(len(self.linear)), np.array(averages, dtype=np.int64) + 1, averages)
        is_count = np.zeros(len(rows), dtype=np.bool_)
        is_count[np.array(averages, dtype=np.int64) + 1 + np.arange(len(averages))] = True
        order = rows.copy()
        order[is_count] = len(self.linear) + np.arange(len(averages))
        everything = Queries.joined([self.linear, Queries.of(overs)]).take(order) if overs else self.linear
        firsts = everything.firsts()
        weight_of_row = np.fromiter((query.weight for query in sources), np.float64, len(sources))
        weight_of_row[averages] *= PART_OF_AVERAGE
        weights = np.zeros(len(rows))
        np.maximum.at(weights, firsts, weight_of_row[rows])
        kept, number = np.unique(firsts, return_inverse=True)
        always = np.fromiter((query.always for query in sources), np.bool_, len(sources))[rows]
        return Distinct(
            queries=everything.take(kept) if len(kept) < len(rows) else everything,
            weights=weights[kept],
            of_row=number.reshape(-1)[~is_count],
            rows=rows[kept],
            of_count=dict(zip(averages, number.reshape(-1)[is_count].tolist(), strict=True)),
            always=distinct(number.reshape(-1)[always]).tolist(),
        )

    def first_row(self, number: int) -> CompiledQuery:
        """The first row that asks one of the distinct queries; the count of an average where that is what it asks."""
        row = int(self.distinct.rows[number])
        query = self.queries[row]
        return query.over if query.over is not None and self.distinct.of_row[row] != number else query

    @cached_property
    def published(self) -> Domain:
        """What is released: the workload's attributes, rules and totals of these, and what is computed of them."""
        whole, names = self.domain, self.classes.keys()
        computed = tuple(each for each in whole.computed if names >= set(each.columns))
        shown = {*names, *(each.name for each in computed)}
        return Domain(
            whole.table,
            tuple(name for name in whole.columns if name in shown),
            tuple(attribute for attribute in whole if attribute.name in names),
            rules=tuple(rule for rule in whole.rules if names >= set(whole.columns_of(rule))),
            computed=computed,
            totals=whole.totals_about(names),
            above=whole.above,
            link=whole.link,
        )

    @property
    def sizes(self) -> dict[str, Floats]:
        return {name: classes.sizes for name, classes in self.classes.items()}
