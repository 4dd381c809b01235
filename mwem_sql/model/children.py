"""Children: what the measurements of a level say of the table that its rows lead to.

A measurement of a level, with the level's own attributes summed out, is one of its parent: of the parent's attributes,
each row counted as often as it has children. So it is a target of the parent's fit like any other, with the noise that
it has. Owns how attributes are summed out of a measurement. From released values alone; knows no SQL and no budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from mwem_sql.algebra.arrays import Floats, Places
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.algebra.sets import connected
from mwem_sql.model.fit import Target
from mwem_sql.model.state import State


@dataclass(frozen=True, eq=False, kw_only=True)
class Ascent:
    """How a level's attributes are those of its parent."""

    names: Mapping[str, str]
    """By attribute of the level that the parent has, too: what the parent calls it."""
    places: Mapping[str, Places]
    """By the same: the level's class for each class of the parent."""
    number: Block
    """A parent's row, as often as it has children."""

    def targets(self, measurements: Iterable[Measurement], state: State, most_cells: int) -> Iterator[Target]:
        """What measurements of the level say of its parent, as far as the parent's state has room for it."""
        for measurement in measurements:
            for kept in (frozenset(self.names), frozenset[str]()):
                summed = sum_out(measurement, kept)
                if summed is None:
                    continue
                query = LinearQuery((*map(self._above, summed.query.blocks), self.number))
                if _has_room(query, state, most_cells):
                    yield Target(query.shares, summed.values / query.bound, summed.variance / query.bound**2)
                    break

    def _above(self, block: Block) -> Block:
        there = block.on(self.places)
        names = tuple(self.names[name] for name in block.attributes)
        return Block(names, there.encoding, there.size, values=there.values, unit=there.unit)


def sum_out(measurement: Measurement, kept: frozenset[str]) -> Target | None:
    """A measurement without all but some attributes, each of its cells a sum of measured ones.

    None where it does not say what the sum over the others is.
    """
    query, values = measurement.query, measurement.values.reshape(measurement.query.shape).astype(np.float64)
    counts, blocks = np.ones(query.shape), list[Block]()
    for axis, block in enumerate(query.blocks):
        summed = _without(block, kept)
        if summed is None:
            return None
        rest, parts = summed
        if rest.attributes:
            blocks.append(rest)
        values, counts = (_sum(each, axis, parts, rest.size) for each in (values, counts))
    return Target(LinearQuery(tuple(blocks)), values.reshape(-1), counts.reshape(-1) * measurement.variance)


def _without(block: Block, kept: frozenset[str]) -> tuple[Block, Places] | None:
    """A block over what is kept of its attributes, and the part that each of its cells goes to, or -1.

    Classes of what is kept that have a cell in common cannot be told apart; those of which some are in no cell are not
    counted.
    """
    if kept.issuperset(block.attributes):
        return block, np.arange(block.size)
    if block.values is not None:
        return None
    if kept.isdisjoint(block.attributes):
        return (
            (Block((), np.zeros((), dtype=np.int32), 1), np.zeros(block.size, np.int64)) if block.counts_all else None
        )
    order = sorted(range(len(block.attributes)), key=lambda axis: block.attributes[axis] not in kept)
    names = tuple(block.attributes[axis] for axis in order if block.attributes[axis] in kept)
    labels = np.transpose(block.labels, order)
    rows, which = np.unique(labels.reshape(int(np.prod(labels.shape[: len(names)])), -1), axis=0, return_inverse=True)
    cells = [np.unique(row).tolist() for row in rows]
    parts, part_of_row = np.full(block.size, -1, dtype=np.int64), np.full(len(rows), -1, dtype=np.int32)
    complete = [group for group in connected(cells) if not any(-1 in cells[row] for row in group)]
    for part, group in enumerate(complete):
        part_of_row[group] = part
        parts[list({cell for row in group for cell in cells[row]})] = part
    if not complete:
        return None
    return Block(names, part_of_row[which.reshape(-1)].reshape(labels.shape[: len(names)]), len(complete)), parts


def _sum(values: Floats, axis: int, parts: Places, size: int) -> Floats:
    out = np.zeros((size, *np.delete(values.shape, axis)))
    np.add.at(out, parts[parts >= 0], np.moveaxis(values, axis, 0)[parts >= 0])
    return np.moveaxis(out, 0, axis)


def _has_room(query: LinearQuery, state: State, most_cells: int) -> bool:
    """Whether a state has room for a query, which it then makes. For an attribute alone there is: it is there."""
    state.refine(query)
    has_room = len(query.attributes) == 1 or state.cells_with(query.attributes) <= most_cells
    if has_room:
        state.join(query.attributes)
    return has_room
