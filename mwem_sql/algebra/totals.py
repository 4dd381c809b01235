"""Public counts as partitions: what disjoint and nested counts say together, and where they contradict each other.

Pure array work on the groups that the counts distinguish. A count that cuts across the cells of one partition begins
another; what partitions say together is for a fit (model/projection.py). Knows neither SQL nor budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats, Numbers
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.partition import Partition, signatures
from mwem_sql.algebra.table import Names, Table

Possible = Callable[[Names, Mapping[str, Partition]], Flags | None]
"""Which combinations of groups of some attributes a record can have; None for all."""


class ContradictionError(ValueError):
    """A count that cannot be what it is said to be, if the others are. `number` is None for the count of all rows."""

    def __init__(self, number: int | None, rows: float, least: float, most: float) -> None:
        super().__init__(f"count {number} is {rows}, and the others leave {least} to {most}")
        self.number, self.rows, self.least, self.most = number, rows, least, most


class TooManyCellsError(ValueError):
    """A count over so many class combinations that it is not worked out."""

    def __init__(self, number: int, cells: int) -> None:
        super().__init__(f"count {number} has {cells} class combinations")
        self.number, self.cells = number, cells


@dataclass(frozen=True, eq=False, kw_only=True)
class CountedPartition:
    """A partition of all records with the rows of each cell; the last cell is what nothing is said of, if `rest`."""

    query: LinearQuery
    rows: Floats
    """Of the cells but for the rest."""
    rest: bool

    def values(self, total: float) -> Floats:
        """The rows of each cell in a table of so many."""
        return np.append(self.rows, max(0.0, total - self.rows.sum())) if self.rest else self.rows

    def scaled(self, share: float) -> CountedPartition:
        """The same of a table that has a share of the rows of each cell."""
        return replace(self, rows=self.rows * share)

    @property
    def without_rest(self) -> LinearQuery:
        """The cells but for the rest."""
        if not self.rest:
            return self.query
        (block,) = self.query.blocks
        labels = np.where(block.labels == len(self.rows), -1, block.labels).astype(np.int32)
        return LinearQuery((Block(block.attributes, labels, len(self.rows)),))


@dataclass(frozen=True, eq=False, kw_only=True)
class Totals:
    """What public counts say."""

    partitions: tuple[CountedPartition, ...] = ()
    total: float | None = None
    """The number of all rows, if they say it."""

    @property
    def fewest(self) -> float:
        """Rows that there are at least."""
        return max((float(partition.rows.sum()) for partition in self.partitions), default=0.0)

    @classmethod
    def of(
        cls,
        counts: Sequence[LinearQuery],
        rows: Sequence[float],
        sizes: Mapping[str, int],
        *,
        most_cells: int,
        total: float | None = None,
        possible: Possible | None = None,
    ) -> Totals:
        """From counts of one cell each. Larger ones come first, so that what is inside another one divides it.

        Raises ContradictionError where no table has them all, as far as disjoint and nested counts show it.
        """
        space = _Space(_groups(counts, sizes), sizes, most_cells, possible)
        growing: list[_Growing] = []
        for number in sorted(range(len(counts)), key=lambda number: -_extent(counts[number])):
            mask = space.mask(counts[number])
            if not space.has_room(mask.names):
                raise TooManyCellsError(number, space.cells(mask.names))
            if any(each.take(number, mask, rows[number]) for each in growing):
                continue
            said = [each.total for each in growing if each.total is not None]
            growing.append(_Growing(space, said[0] if said else total))
            growing[-1].take(number, mask, rows[number])
        totals = [rows for rows in (total, *(each.total for each in growing)) if rows is not None]
        n = totals[0] if totals else None
        for other in totals:
            if other != totals[0]:
                raise ContradictionError(None, other, totals[0], totals[0])
        for each in growing:
            if n is not None and each.total is None and sum(filter(None, each.rows)) > n:
                raise ContradictionError(None, n, sum(filter(None, each.rows)), inf)
        return cls(partitions=tuple(each.partition(n) for each in growing if each.names), total=n)


class _Space:
    """The groups of each attribute that counts distinguish, and which combinations of them a record can have."""

    def __init__(
        self, groups: Mapping[str, Partition], sizes: Mapping[str, int], most_cells: int, possible: Possible | None
    ) -> None:
        self.groups, self._sizes, self._most, self._possible = groups, sizes, most_cells, possible
        self._flags: dict[Names, Flags] = {}

    def cells(self, names: Names) -> int:
        return prod(self._sizes[name] for name in names)

    def has_room(self, names: Names) -> bool:
        return self.cells(names) <= self._most

    def shape(self, names: Names) -> tuple[int, ...]:
        return tuple(self.groups[name].count for name in names)

    def possible(self, names: Names) -> Flags:
        if names not in self._flags:
            flags = self._possible(names, self.groups) if names and self._possible is not None else None
            self._flags[names] = np.ones(self.shape(names), dtype=np.bool_) if flags is None else flags
        return self._flags[names]

    def mask(self, count: LinearQuery) -> Table:
        """The group combinations that a count counts."""
        on_groups = count.on({name: self.groups[name].representatives for name in count.attributes})
        return Table(count.attributes, on_groups.spread(np.ones(1)) != 0)

    def expanded(self, table: Table, names: Names) -> Numbers:
        return table.expand(names, self.shape(names))


class _Growing:
    """A partition in the making: of each cell its rows; None for the one that nothing is said of."""

    def __init__(self, space: _Space, total: float | None) -> None:
        self._space = space
        self.names: Names = ()
        self._labels: Numbers = np.zeros((), dtype=np.int32)
        self.rows: list[float | None] = [total]

    @property
    def total(self) -> float | None:
        return None if None in self.rows else sum(filter(None, self.rows))

    def take(self, number: int, mask: Table, rows: float) -> bool:
        """Take a count that is part of one cell, or several whole cells; whether it is."""
        names = (*self.names, *(name for name in mask.names if name not in self.names))
        if not self._space.has_room(names):
            return False
        labels = self._space.expanded(Table(self.names, self._labels), names)
        counted = self._space.expanded(mask, names)
        possible = self._space.possible(names)
        inside, all_ = (
            np.bincount(labels[flags], minlength=len(self.rows)) for flags in (possible & counted, possible)
        )
        cells = np.flatnonzero(inside).tolist()
        together = sum(self.rows[cell] or 0.0 for cell in cells)
        is_open = any(self.rows[cell] is None for cell in cells)
        if (inside == all_)[cells].all():
            # Whole cells, or none: what they have together. At most one has nothing said of it.
            if rows < together or (rows > together and not is_open):
                raise ContradictionError(number, rows, together, inf if is_open else together)
            for cell in cells:
                if self.rows[cell] is None:
                    self.rows[cell] = rows - together
            return True
        if len(cells) > 1:
            return False
        (cell,) = cells
        before = self.rows[cell]
        if before is not None and rows > before:
            raise ContradictionError(number, rows, 0, before)
        self.names = names
        self._labels = np.where(counted & (labels == cell), len(self.rows), labels).astype(np.int32)
        self.rows[cell] = None if before is None else before - rows
        self.rows.append(rows)
        return True

    def partition(self, total: float | None) -> CountedPartition:
        """In its last form; with a total nothing is left of which nothing is said."""
        rows, labels = list(self.rows), self._labels
        if total is not None and None in rows:
            rows[rows.index(None)] = total - sum(filter(None, rows))
        rest = None in rows
        if rest:  # the last cell
            last, cell = len(rows) - 1, rows.index(None)
            order = np.arange(len(rows), dtype=np.int32)
            order[[cell, last]] = order[[last, cell]]
            labels, rows[cell] = order[labels], rows[last]
            rows.pop()
        codes = np.ix_(*(self._space.groups[name].codes for name in self.names))
        query = LinearQuery((Block(self.names, labels[codes], len(self.rows)),))
        return CountedPartition(query=query, rows=np.array(rows, dtype=np.float64), rest=rest)


def _groups(counts: Sequence[LinearQuery], sizes: Mapping[str, int]) -> dict[str, Partition]:
    """The classes of each attribute that counts are about, those together that no count distinguishes."""
    blocks = dict.fromkeys(block for count in counts for block in count.blocks if block.attributes)
    used = {name: sizes[name] for name in dict.fromkeys(name for block in blocks for name in block.attributes)}
    marks = signatures(used, ((block.attributes, block.encoding) for block in blocks))
    return {name: _numbered(rows) for name, rows in marks.items()}


def _numbered(signature: Numbers) -> Partition:
    """Equal rows are a cell; cells are numbered by first appearance."""
    _, first, codes = np.unique(signature, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    return Partition(order[codes.reshape(-1)].astype(np.int32), np.ones(len(codes.reshape(-1))))


def _extent(count: LinearQuery) -> float:
    """The part of all class combinations that a count counts."""
    return prod(_share(block.labels.reshape(-1)) for block in count.blocks)


def _share(labels: Iterable[int]) -> float:
    return float(np.mean(np.asarray(labels) >= 0))
