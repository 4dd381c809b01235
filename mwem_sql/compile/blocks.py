"""From evaluated leaves to blocks: what each query asks of the fine classes of its columns, as few blocks as that takes.

Owns how parts of a query are put together, and how many cells that may take. Pure array work on public values; `settled` has the
blocks on coarse classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra import partition
from mwem_sql.algebra.arrays import Integers
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.partition import Encoding, Runs
from mwem_sql.algebra.queries import Queries
from mwem_sql.compile.compiled import Cell
from mwem_sql.compile.evaluate import TRUE, Evaluated
from mwem_sql.domains.classes import Classes
from mwem_sql.errors import CellsError, MwemError, refuse_query
from mwem_sql.language.conditions import Condition, Leaf, Part
from mwem_sql.language.measures import LEVELS, to_grid
from mwem_sql.workload import Query

MAX_JOINED = 2**29
"""Cells of all conditions that join columns, together. Each is gone through several times: more take minutes."""
MAX_VALUED = 2**25
"""Cells of all groups and measures that have conditions on the same columns, together. Each is held in 4 to 12 bytes."""
MAX_CELLS = 10_000_000
"""Cells of the whole state, and so of one query's attributes together: 80 MB of weights."""

# By columns, what is asked of them and the first query that asks it.
_Examples = dict[tuple[str, ...], dict[tuple[Part, ...], Query]]


class Drafted(NamedTuple):
    """A block over fine classes, after its columns' places in the table, by which the blocks of a query are sorted."""

    rank: tuple[int, ...]
    block: Block
    cells: tuple[Cell, ...]
    counts: bool = True  # some record, at least

    @property
    def grouped(self) -> bool:
        return self.cells != ((),)


Draft = tuple[Drafted, ...]  # a query over fine classes


@dataclass(frozen=True, eq=False)
class Drafts:
    """Queries over fine classes, one for each row of a workload, and the group_by values of each of their blocks."""

    queries: Queries
    cells: dict[Block, tuple[Cell, ...]]

    @classmethod
    def of(cls, drafted: Sequence[Drafted], members: Integers, counts: Integers) -> Drafts:
        """The blocks of a query are in the order of their columns in the table."""
        rank = np.argsort(sorted(range(len(drafted)), key=lambda number: drafted[number].rank))
        rows = np.repeat(np.arange(len(counts)), counts)
        cells = {each.block: each.cells for each in drafted}
        # Conditions in other words may be the same block.
        number = {block: place for place, block in enumerate(cells)}
        block_of = np.array([number[each.block] for each in drafted], dtype=np.int64)
        return cls(Queries(list(cells), block_of[members[np.lexsort((rank[members], rows))]], counts), cells)

    def replaced(self, rows: Mapping[int, Draft]) -> Drafts:
        """With other drafts in the place of some."""
        if not rows:
            return self
        others = Queries.of([LinearQuery(tuple([each.block for each in draft])) for draft in rows.values()])
        order = np.arange(len(self.queries))
        order[list(rows)] = len(self.queries) + np.arange(len(rows))
        cells = self.cells | {each.block: each.cells for draft in rows.values() for each in draft}
        return Drafts(Queries.joined([self.queries, others]).take(order), cells)


class Builder:
    """Builds the blocks of all queries; queries that ask the same of a column share one block."""

    def __init__(self, values: Evaluated, fine: Mapping[str, Classes]) -> None:
        self.values = values
        self.fine = fine
        self._rank = {name: k for k, name in enumerate(fine)}
        self._true: dict[Part, npt.NDArray[np.bool_]] = {}
        self._cuts: dict[Part, Encoding] = {}
        self._counting: dict[tuple[tuple[str, ...], bytes], Drafted] = {}
        self._blocks: dict[tuple[Part, ...], Drafted] = {}

    def batch(self, workload: Sequence[Query], parsed: Sequence[Sequence[Part]]) -> Drafts:
        """All queries of a workload. What queries have in common is worked out once.

        Refuses, before the first block is made, queries that take too many cells together. A condition on one column takes as much room as it has
        constants. What joins columns, and groups and measures under conditions of their own, is worked out cell by cell: cells times queries.
        """
        numbers: dict[tuple[Part, ...], int] = {}
        columns: list[tuple[str, ...]] = []
        examples: list[Query] = []
        members: list[int] = []
        counts: list[int] = []
        for query, parts in zip(workload, parsed, strict=True):
            together = self._together(parts)
            counts.append(len(together))
            for names, own in together.items():
                number = numbers.get(own)
                if number is None:
                    number = numbers[own] = len(numbers)
                    columns.append(names)
                    examples.append(query)
                members.append(number)
        asked = list(zip(examples, columns, numbers, strict=True))
        self._check(asked)
        drafted = [self._drafted(*each) for each in asked]
        drafts = Drafts.of(drafted, np.array(members, dtype=np.int64), np.array(counts, dtype=np.int64))
        has_measure = np.fromiter((query.measure is not None for query in workload), np.bool_, len(counts))
        nothing = {each.block for each in drafted if not each.counts}
        counting = np.array([block not in nothing for block in drafts.queries.blocks], dtype=np.bool_)
        rows = np.flatnonzero(has_measure | ~drafts.queries.are_all(counting)).tolist()
        return drafts.replaced({row: self.draft(workload[row], parsed[row]) for row in rows})

    def _check(self, asked: Iterable[tuple[Query, tuple[str, ...], tuple[Part, ...]]]) -> None:
        joined: _Examples = {}
        valued: _Examples = {}
        for query, columns, own in asked:
            if not is_cuts(columns, own):
                kind = joined if all(part.role == "truth" for part in own) else valued
                kind.setdefault(columns, {})[own] = query
        self._check_cells(joined, MAX_JOINED, "join conditions on several columns by AND instead of OR")
        self._check_cells(valued, MAX_VALUED, "declare step or bins in a domain table")

    def _check_cells(self, examples: _Examples, most: int, cure: str) -> None:
        # One for a set of columns is what any workload may have.
        many = {columns: asked for columns, asked in examples.items() if len(asked) > 1}
        cells = {names: len(asked) * prod(self.fine[name].count for name in names) for names, asked in many.items()}
        if sum(cells.values()) > most:
            columns = max(cells, key=cells.__getitem__)
            example = next(iter(many[columns].values()))
            raise refuse_query(
                f"{sum(map(len, many.values())):,} queries, such as {example.label!r} over {', '.join(columns)}, are worked out cell by cell:"
                f" {sum(cells.values()):,} cells, more than {most:,}",
                f"{cure}, use fewer constants in all, or ask fewer such queries at a time",
                CellsError,
            )

    def draft(self, query: Query, parts: Sequence[Part]) -> Draft:
        blocks = [self._drafted(query, columns, own) for columns, own in self._together(parts).items()]
        counts = all(own.counts for own in blocks)
        blocks.sort()
        if query.measure is not None:
            blocks = _within_levels(blocks)
        if not counts:
            # Nothing is counted, whatever the other blocks say; what is left is their cells.
            blocks = [own._replace(block=_counting_nothing(own.block)) for own in blocks if own.grouped]
            blocks = blocks or [Drafted((), Block((), np.array(-1, dtype=np.int32), 1), ((),))]
        return tuple(blocks)

    def _drafted(self, query: Query, columns: tuple[str, ...], own: tuple[Part, ...]) -> Drafted:
        found = self._blocks.get(own)
        if found is None:
            found = self._blocks[own] = self._block(query, columns, own)
        return found

    def _together(self, parts: Sequence[Part]) -> dict[tuple[str, ...], tuple[Part, ...]]:
        """Parts that make one block, by its columns."""
        together: dict[tuple[str, ...], tuple[Part, ...]] = {}
        joins = False
        for part in parts:
            columns = part.columns
            together[columns] = (*together[columns], part) if columns in together else (part,)
            joins = joins or len(columns) > 1
        return self._joined(parts) if joins else together

    def _joined(self, parts: Sequence[Part]) -> dict[tuple[str, ...], tuple[Part, ...]]:
        """Parts with a column in common go together, those without columns by themselves; each in the order asked."""
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

    def _block(self, query: Query, columns: tuple[str, ...], own: Sequence[Part]) -> Drafted:
        shape = tuple([self.fine[name].count for name in columns])
        if prod(shape) > MAX_CELLS:
            raise too_many(query.label, columns, prod(shape))
        if is_cuts(columns, own):
            return self._count(columns, partition.conjunction([self._where(part) for part in own]))
        mask = np.ones(shape, dtype=bool)
        others = []
        for part in own:
            if part.role == "truth":
                mask &= _spread(self._is_true(part), part.columns, columns, shape)
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
            spread = _spread(item.array, item.columns, columns, shape)
            if part.role == "group":
                labels, cells = _grouped(labels, cells, spread, item.labels)
            elif part.role == "known":
                counted &= ~np.isnan(spread)
            else:
                numbers = spread * (1.0 if numbers is None else numbers)
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
        block = Block(columns, final, max(1, len(used)), values, unit)
        shown = tuple(cells[k] for k in used.tolist()) or (cells[0],)
        return Drafted(self._ranks(columns), block, shown, bool(counted.any()))

    def _is_true(self, part: Part) -> npt.NDArray[np.bool_]:
        """Where a condition is true, on the classes of its columns."""
        if part not in self._true:
            shape = tuple(self.fine[name].count for name in part.columns)
            self._true[part] = _truth(part.what, self.values, part.columns, shape) == TRUE
        return self._true[part]

    def _where(self, part: Part) -> Encoding:
        """The same for a condition on one column; ends of stretches are all that is kept of it."""
        if part not in self._cuts:
            assert isinstance(part.what, Leaf)
            self._cuts[part] = partition.equal(self.values["truth", part.what.sql].encoding, TRUE)
        return self._cuts[part]

    def _count(self, columns: tuple[str, ...], mask: Encoding) -> Drafted:
        """The block that counts the records for which `mask` is true: one for all queries that ask it, in whatever words."""
        short = mask if isinstance(mask, Runs) else Runs.of(mask)
        key = (columns, blake2b(np.append(short.begins, short.numbers[0]).tobytes(), digest_size=16).digest())
        if key not in self._counting:
            labels: Encoding = Runs(short.begins, short.numbers.astype(np.int32) - 1, short.shape)
            if not isinstance(mask, Runs):
                labels = mask.astype(np.int32) - 1
            block = Block(columns, labels, 1)
            self._counting[key] = Drafted(self._ranks(columns), block, ((),), bool(short.numbers.any()))
        return self._counting[key]

    def _ranks(self, columns: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self._rank[name] for name in columns)


def is_cuts(columns: tuple[str, ...], own: Sequence[Part]) -> bool:
    """Whether parts only count the records for which conditions on one column are true."""
    return len(columns) == 1 and all(part.role == "truth" for part in own)


def _counting_nothing(block: Block) -> Block:
    return Block(block.attributes, np.full(block.shape, -1, dtype=np.int32), block.size)


def _within_levels(blocks: list[Drafted]) -> list[Drafted]:
    """The same blocks, the largest values of them on a coarser grid, so that their product is on one of `LEVELS`."""
    while prod(drafted.block.bound for drafted in blocks) > LEVELS:
        largest = max(range(len(blocks)), key=lambda k: blocks[k].block.bound)
        block = blocks[largest].block
        assert block.values is not None
        halved = np.rint(block.values / 2).astype(np.int64)
        halved_block = Block(block.attributes, block.encoding, block.size, halved, block.unit * 2)
        blocks[largest] = blocks[largest]._replace(block=halved_block)
    return blocks


def _grouped(
    labels: npt.NDArray[np.int64], cells: Sequence[Cell], numbers: npt.NDArray[Any], shown: Sequence[str | None]
) -> tuple[npt.NDArray[np.int64], list[Cell]]:
    """Cells split by one more expression, its values numbered; only the combinations that some class has."""
    used, numbered = np.unique(labels * len(shown) + numbers, return_inverse=True)
    listed = [(*cells[k // len(shown)], shown[k % len(shown)]) for k in used.tolist()]
    return numbered.reshape(labels.shape), listed


def _truth(
    condition: Condition, values: Evaluated, columns: tuple[str, ...], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Three-valued truth of a condition on the classes of `columns`."""
    if isinstance(condition, Leaf):
        item = values["truth", condition.sql]
        return _spread(item.array, item.columns, columns, shape)
    parts = [_truth(part, values, columns, shape) for part in condition.parts]
    if condition.connective == "not":
        return np.asarray(TRUE - parts[0])
    return np.asarray((np.minimum if condition.connective == "and" else np.maximum)(*parts))


def _spread(
    array: npt.NDArray[Any], own: tuple[str, ...], columns: tuple[str, ...], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Values on the classes of some columns, `own`, broadcast to all of a block's columns."""
    if own == columns:
        return array
    order = sorted(range(len(own)), key=lambda axis: columns.index(own[axis]))
    wide = [size if name in own else 1 for name, size in zip(columns, shape, strict=True)]
    return np.broadcast_to(array.transpose(order).reshape(wide), shape)


def too_many(label: str, columns: Sequence[str], cells: int) -> MwemError:
    return refuse_query(
        f"query {label!r} needs {cells:,} cells over {', '.join(columns)}, more than {MAX_CELLS:,}",
        "group by fewer columns, or by coarser expressions",
        CellsError,
    )
