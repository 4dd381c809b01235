"""From evaluated leaves to blocks: what each query asks of the fine classes of its columns, in few blocks.

Owns how parts of a query are put together, how many cells that may take, and what a query needs beside its answers: the
count of an average, the reach of a sum, the hull of a condition in doubt. Pure array work on public values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra import partition
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.partition import Encoding, Runs, encode
from mwem_sql.algebra.queries import Queries
from mwem_sql.compile.compiled import Cell
from mwem_sql.compile.evaluate import TRUE, Evaluated, LeafValues
from mwem_sql.compile.read import Parts, Reading
from mwem_sql.domains.classes import Classes
from mwem_sql.errors import CellsError, MwemError, refuse_query
from mwem_sql.language import conditions
from mwem_sql.language.conditions import Condition, Leaf, Part
from mwem_sql.language.measures import LEVELS, to_grid
from mwem_sql.workload import Query

MAX_JOINED = 2**29
"""Cells of all conditions that join columns, together. Each is gone through several times: more take minutes."""
MAX_VALUED = 2**25
"""Cells of all groups and measures that have conditions on the same columns, together. Each takes 4 to 12 bytes."""
MAX_CELLS = 10_000_000
"""Cells of the whole state, and so of one query's attributes together: 80 MB of weights."""

# By columns, what is asked of them and the first query that asks it.
_Examples = dict[tuple[str, ...], dict[Parts, Query]]


class Builder:
    """Builds queries over fine classes; queries that ask the same of a column share one block.

    `cells` are the group_by values of each block's cells.
    """

    def __init__(
        self, values: Evaluated, fine: Mapping[str, Classes], cells: dict[Block, tuple[Cell, ...]] | None = None
    ) -> None:
        self.values = values
        self.fine = fine
        self.cells = {} if cells is None else cells
        self._rank = {name: k for k, name in enumerate(fine)}
        self._true: dict[Part, npt.NDArray[np.bool_]] = {}
        self._cuts: dict[Part, Encoding] = {}
        self._counting: dict[tuple[tuple[str, ...], bytes], Block] = {}
        self._blocks: dict[Parts, Block] = {}
        self._empty: set[Block] = set()  # those that count no record

    def with_values(self, values: Evaluated) -> Builder:
        """The same for other values of the same leaves."""
        return Builder(values, self.fine, self.cells)

    def batch(self, workload: Sequence[Query], parsed: Sequence[Parts]) -> Queries:
        """All queries of a workload. What queries have in common is worked out once.

        Refuses, before the first block is made, queries that take too many cells together. A condition on one column
        takes as much room as it has constants. What joins columns, and groups and measures under conditions of their
        own, is worked out cell by cell: cells times queries.
        """
        numbers: dict[Parts, int] = {}
        columns: list[tuple[str, ...]] = []
        examples: list[Query] = []
        members: list[int] = []
        counts: list[int] = []
        for query, parts in zip(workload, parsed, strict=True):
            together = self._together(parts)
            counts.append(len(together))
            for names, some in together.items():
                number = numbers.get(some)
                if number is None:
                    number = numbers[some] = len(numbers)
                    columns.append(names)
                    examples.append(query)
                members.append(number)
        distinct = list(zip(examples, columns, numbers, strict=True))
        self._check(distinct)
        blocks = [self._block(*each) for each in distinct]
        queries = self._in_order(blocks, np.array(members, dtype=np.int64), np.array(counts, dtype=np.int64))
        has_measure = np.fromiter((query.measure is not None for query in workload), np.bool_, len(counts))
        counting = np.array([block not in self._empty for block in queries.blocks], dtype=np.bool_)
        rows = np.flatnonzero(has_measure | ~queries.are_all(counting))
        if not rows.size:
            return queries
        others = Queries.of([self.query(workload[row], parsed[row]) for row in rows.tolist()])
        order = np.arange(len(queries))
        order[rows] = len(queries) + np.arange(len(rows))
        return Queries.joined([queries, others]).take(order)

    def _in_order(
        self, blocks: Sequence[Block], members: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
    ) -> Queries:
        """The blocks of a query are in the order of their columns in the table."""
        rank = np.argsort(sorted(range(len(blocks)), key=lambda number: self.rank(blocks[number])))
        rows = np.repeat(np.arange(len(counts)), counts)
        # Conditions in other words may be the same block.
        distinct = {block: number for number, block in enumerate(dict.fromkeys(blocks))}
        numbers = np.array([distinct[block] for block in blocks], dtype=np.int64)
        return Queries(list(distinct), numbers[members[np.lexsort((rank[members], rows))]], counts)

    def _check(self, distinct: Iterable[tuple[Query, tuple[str, ...], Parts]]) -> None:
        joined: _Examples = {}
        valued: _Examples = {}
        for query, columns, parts in distinct:
            if not is_cuts(columns, parts):
                kind = joined if all(part.role == "truth" for part in parts) else valued
                kind.setdefault(columns, {})[parts] = query
        self._check_cells(joined, MAX_JOINED, "join conditions on several columns by AND instead of OR")
        self._check_cells(valued, MAX_VALUED, "declare step or bins in a domain table")

    def _check_cells(self, examples: _Examples, most: int, cure: str) -> None:
        # One for a set of columns is what any workload may have.
        many = {columns: queries for columns, queries in examples.items() if len(queries) > 1}
        cells = {names: len(some) * prod(self.fine[name].count for name in names) for names, some in many.items()}
        total = sum(cells.values())
        if total > most:
            columns = max(cells, key=cells.__getitem__)
            example = next(iter(many[columns].values()))
            count = sum(map(len, many.values()))
            raise refuse_query(
                f"{count:,} queries, such as {example.label!r} over {', '.join(columns)}, are worked out cell by cell:"
                f" {total:,} cells, more than {most:,}",
                f"{cure}, use fewer constants in all, or ask fewer such queries at a time",
                CellsError,
            )

    def query(self, query: Query, parts: Parts) -> LinearQuery:
        """One query of a workload."""
        blocks = [self._block(query, columns, some) for columns, some in self._together(parts).items()]
        counts = self._empty.isdisjoint(blocks)
        blocks.sort(key=self.rank)
        if query.measure is not None:
            self._halve(blocks)
        if not counts:
            # Nothing is counted, whatever the other blocks say; what is left is their cells.
            blocks = [self._without_records(block) for block in blocks if self.cells[block] != ((),)]
            blocks = blocks or [self._with_cells(Block((), np.array(-1, dtype=np.int32), 1), ((),))]
        return LinearQuery(tuple(blocks))

    def rank(self, block: Block) -> tuple[int, ...]:
        """By which the blocks of a query are sorted."""
        return tuple(self._rank[name] for name in block.attributes)

    def positions(self, parts: Parts, query: LinearQuery) -> tuple[int, ...]:
        """Where each group_by value of a row stands among those of the blocks."""
        columns = [part.columns for part in parts if part.role == "group"]
        ranks = {name: self.rank(block) for block in query.blocks for name in block.attributes}
        order = sorted(range(len(columns)), key=lambda k: ranks[columns[k][0]] if columns[k] else ())
        return tuple(sorted(range(len(order)), key=order.__getitem__))

    def _with_cells(self, block: Block, cells: tuple[Cell, ...]) -> Block:
        self.cells[block] = cells
        return block

    def _without_records(self, block: Block) -> Block:
        nothing = np.full(block.shape, -1, dtype=np.int32)
        return self._with_cells(Block(block.attributes, nothing, block.size), self.cells[block])

    def _halve(self, blocks: list[Block]) -> None:
        """Put the largest values of blocks on a coarser grid until their product is on one of `LEVELS`."""
        while prod(block.bound for block in blocks) > LEVELS:
            largest = max(range(len(blocks)), key=lambda k: blocks[k].bound)
            block = blocks[largest]
            assert block.values is not None
            values = np.rint(block.values / 2).astype(np.int64)
            halved = Block(block.attributes, block.encoding, block.size, values=values, unit=block.unit * 2)
            blocks[largest] = self._with_cells(halved, self.cells[block])

    def _together(self, parts: Parts) -> dict[tuple[str, ...], Parts]:
        """Parts that make one block, by its columns."""
        together: dict[tuple[str, ...], Parts] = {}
        joins = False
        for part in parts:
            columns = part.columns
            together[columns] = (*together[columns], part) if columns in together else (part,)
            joins = joins or len(columns) > 1
        return self._joined(parts) if joins else together

    def _joined(self, parts: Parts) -> dict[tuple[str, ...], Parts]:
        """Parts with a column in common go together, those without columns by themselves; each in their order."""
        united: list[set[str]] = []
        for columns in dict.fromkeys(part.columns for part in parts):
            touched = [names for names in united if not names.isdisjoint(columns)]
            united = [names for names in united if names not in touched] + [set(columns).union(*touched)]
        return {
            tuple(sorted(names, key=self._rank.__getitem__)): tuple(
                part for part in parts if (names.issuperset(part.columns) if part.columns else not names)
            )
            for names in united
        }

    def _block(self, query: Query, columns: tuple[str, ...], parts: Parts) -> Block:
        block = self._blocks.get(parts)
        if block is None:
            block = self._blocks[parts] = self._built(query, columns, parts)
        return block

    def _built(self, query: Query, columns: tuple[str, ...], parts: Parts) -> Block:
        shape = tuple([self.fine[name].count for name in columns])
        if prod(shape) > MAX_CELLS:
            raise too_many(query.label, columns, prod(shape))
        if is_cuts(columns, parts):
            return self._count(columns, partition.conjunction([self._where(part) for part in parts]))
        mask = np.ones(shape, dtype=bool)
        others = []
        for part in parts:
            if part.role == "truth":
                mask &= _broadcast(self._is_true(part), part.columns, columns, shape)
            else:
                others.append(part)
        if not others:
            return self._count(columns, mask)
        counted = mask.copy()
        numbers: npt.NDArray[np.float64] | None = None
        labels = np.zeros(shape, dtype=np.int64)
        cells: list[Cell] = [()]
        for part in others:
            assert isinstance(part.what, Leaf)
            item = self.values["group" if part.role == "group" else "factor", part.what.sql]
            array = _broadcast(item.array, item.columns, columns, shape)
            if part.role == "group":
                labels, cells = _grouped(labels, cells, array, item.labels)
            elif part.role == "present":
                counted &= ~np.isnan(array)
            else:
                numbers = array * (1.0 if numbers is None else numbers)
        values, unit = None, 1.0
        if numbers is not None:
            values, unit = to_grid(np.where(counted, np.nan_to_num(numbers), 0.0))
            counted &= values != 0
            values = np.where(counted, values, 1)
            if unit == 1 and (values == 1).all():
                values = None
        # A cell that a predicate lets in stays one, whatever is summed up in it.
        used, numbered = np.unique(labels[mask], return_inverse=True)
        final = np.full(shape, -1, dtype=np.int32)
        final[mask] = numbered
        final[~counted] = -1
        block = Block(columns, final, max(1, len(used)), values=values, unit=unit)
        if not counted.any():
            self._empty.add(block)
        return self._with_cells(block, tuple(cells[k] for k in used.tolist()) or (cells[0],))

    def _is_true(self, part: Part) -> npt.NDArray[np.bool_]:
        """Where a condition is true, on the classes of its columns."""
        if part not in self._true:
            shape = tuple(self.fine[name].count for name in part.columns)
            self._true[part] = _truth(part.what, self.values, part.columns, shape) == TRUE
        return self._true[part]

    def _where(self, part: Part) -> Encoding:
        """The same for a condition on one column, in run-length encoding."""
        if part not in self._cuts:
            assert isinstance(part.what, Leaf)
            self._cuts[part] = partition.equal(self.values["truth", part.what.sql].encoding, TRUE)
        return self._cuts[part]

    def _count(self, columns: tuple[str, ...], mask: Encoding) -> Block:
        """The block that counts the records for which `mask` is true: one for all queries, whatever their words are."""
        runs = mask if isinstance(mask, Runs) else Runs.of(mask)
        key = (columns, blake2b(np.append(runs.begins, runs.numbers[0]).tobytes(), digest_size=16).digest())
        if key not in self._counting:
            labels: Encoding = Runs(runs.begins, runs.numbers.astype(np.int32) - 1, runs.shape)
            if not isinstance(mask, Runs):
                labels = mask.astype(np.int32) - 1
            block = self._counting[key] = self._with_cells(Block(columns, labels, 1), ((),))
            if not runs.numbers.any():
                self._empty.add(block)
        return self._counting[key]


def is_cuts(columns: tuple[str, ...], parts: Parts) -> bool:
    """Whether parts only count the records for which conditions on one column are true."""
    return len(columns) == 1 and all(part.role == "truth" for part in parts)


def _grouped(
    labels: npt.NDArray[np.int64], cells: Sequence[Cell], numbers: npt.NDArray[Any], texts: Sequence[str | None]
) -> tuple[npt.NDArray[np.int64], list[Cell]]:
    """Cells split by one more expression, its values numbered; only the combinations that some class has."""
    used, numbered = np.unique(labels * len(texts) + numbers, return_inverse=True)
    listed = [(*cells[k // len(texts)], texts[k % len(texts)]) for k in used.tolist()]
    return numbered.reshape(labels.shape), listed


def _truth(
    condition: Condition, values: Evaluated, columns: tuple[str, ...], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Three-valued truth of a condition on the classes of `columns`."""
    if isinstance(condition, Leaf):
        item = values["truth", condition.sql]
        return _broadcast(item.array, item.columns, columns, shape)
    parts = [_truth(part, values, columns, shape) for part in condition.parts]
    if condition.connective == "not":
        return np.asarray(TRUE - parts[0])
    return np.asarray((np.minimum if condition.connective == "and" else np.maximum)(*parts))


def _broadcast(
    array: npt.NDArray[Any], names: tuple[str, ...], columns: tuple[str, ...], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Values on the classes of some columns, `names`, broadcast to all of a block's columns."""
    if names == columns:
        return array
    order = sorted(range(len(names)), key=lambda axis: columns.index(names[axis]))
    wide = [size if name in names else 1 for name, size in zip(columns, shape, strict=True)]
    return np.broadcast_to(array.transpose(order).reshape(wide), shape)


def too_many(label: str, columns: Sequence[str], cells: int) -> MwemError:
    return refuse_query(
        f"query {label!r} needs {cells:,} cells over {', '.join(columns)}, more than {MAX_CELLS:,}",
        "group by fewer columns, or by coarser expressions",
        CellsError,
    )


def counts_of_averages(reading: Reading, builder: Builder) -> dict[int, LinearQuery]:
    """By row, of averages: the count that the sum is divided by."""
    queries = reading.workload.queries
    return {row: builder.query(queries[row], parts) for row, parts in reading.counts.items()}


def reaches(reading: Reading, builder: Builder) -> dict[int, LinearQuery]:
    """By row, of sums over bins: how far the records of each class may be from what they are counted with."""
    if not reading.measures:
        return {}
    one, several = (builder.with_values(_far(builder.values, add=add)) for add in (False, True))
    out = {}
    for row, (query, parts) in enumerate(zip(reading.workload, reading.parts, strict=True)):
        far = [part for part in parts if part.role == "factor" and _has_reach(builder.values, part)]
        if far:
            # Of a product of several such factors, all that it may be.
            out[row] = (one if len(far) == 1 else several).query(query, parts)
    return out


def _has_reach(values: Evaluated, part: Part) -> bool:
    assert isinstance(part.what, Leaf)
    reach = values["factor", part.what.sql].reach
    return reach is not None and bool(reach.any())


def _far(values: Evaluated, *, add: bool) -> Evaluated:
    """Measures by how far they may be from their means; those that are not, and with `add` all, by their size."""
    out = dict(values)
    for (role, sql), item in values.items():
        if role == "factor":
            size = np.abs(item.array)
            far = size if item.reach is None or not item.reach.any() else item.reach + (size if add else 0 * size)
            out[role, sql] = LeafValues(item.columns, far)
    return out


def hulls(reading: Reading, builder: Builder) -> dict[int, tuple[LinearQuery, LinearQuery]]:
    """By row, of queries with conditions in doubt: as if these were false wherever they are in doubt, and true."""
    if all(item.doubt is None for item in builder.values.values()):
        return {}
    no, yes = (builder.with_values(_decided(builder.values, truth)) for truth in (0, TRUE))
    out = {}
    for row, (query, parts) in enumerate(zip(reading.workload, reading.parts, strict=True)):
        leaves = [leaf for part in parts if part.role == "truth" for leaf in conditions.leaves(part.what)]
        if any(builder.values["truth", leaf.sql].doubt is not None for leaf in leaves):
            draft, low, high = (each.query(query, parts) for each in (builder, no, yes))
            # A group of the same column as a condition has other cells if other rows are counted.
            cells = [[builder.cells[block] for block in each.blocks] for each in (draft, low, high)]
            if cells[0] == cells[1] == cells[2]:
                out[row] = low, high
    return out


def _decided(values: Evaluated, truth: int) -> Evaluated:
    """The same where nothing is in doubt."""
    return {
        key: item
        if item.doubt is None
        else LeafValues(item.columns, encode(np.where(item.doubt, truth, item.array).astype(np.int8)))
        for key, item in values.items()
    }


def rows_out_of_order(parsed: Sequence[Parts], builder: Builder) -> Iterator[int]:
    """Rows whose group_by values are not in the order of the table's columns, one each."""
    rank = {name: number for number, name in enumerate(builder.fine)}
    distinct = dict.fromkeys(chain.from_iterable(parsed))
    groups = {part for part in distinct if part.role == "group"}
    # Parts of several columns, or of none, join or move blocks.
    odd = {part for part in distinct if len(part.columns) != 1}
    ranks = {part: rank[part.columns[0]] for part in groups - odd}
    for row, parts in enumerate(parsed if groups else ()):
        listed = [ranks.get(part, -1) for part in parts if part in groups]
        if listed and (listed != sorted(set(listed)) or not odd.isdisjoint(parts)):
            yield row
