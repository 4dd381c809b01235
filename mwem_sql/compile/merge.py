"""Classes that nothing in a workload distinguishes are one. Pure array work on public values.

Twice: pieces on which every leaf agrees are one fine class, and fine classes on which every block agrees are one coarse
class. Owns how leaves and blocks follow, and what a block comes down to then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra import partition
from mwem_sql.algebra.arrays import Labels
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.partition import Encoding, Partition, Runs, refine, signatures
from mwem_sql.algebra.queries import Queries
from mwem_sql.compile.build import Builder
from mwem_sql.compile.compiled import Cell
from mwem_sql.compile.evaluate import Evaluated, LeafValues
from mwem_sql.domains.classes import Classes, Pieces


def fine_classes(
    pieces: Mapping[str, Pieces], values: Evaluated, finer_than: Mapping[str, Classes]
) -> dict[str, Classes]:
    """Pieces on which every leaf takes the same values are one class, which is part of one in `finer_than`."""
    arrays = [
        (item.columns, _whole_numbers(array))
        for item in values.values()
        for array in (item.encoding, item.reach, item.doubt)
        if array is not None
    ]
    rows = signatures({name: len(each) for name, each in pieces.items()}, arrays)
    return {name: Classes(each, refine(_within(finer_than, name, each), rows[name])) for name, each in pieces.items()}


def on_classes(item: LeafValues, fine: Mapping[str, Classes]) -> LeafValues:
    """A leaf's values on classes, of one piece each: they are the same on all others."""
    if len(item.columns) == 1:
        first = fine[item.columns[0]].representatives
        reach = None if item.reach is None else item.reach[first]
        doubt = None if item.doubt is None else item.doubt[first]
        encoding = partition.take(item.encoding, first)
        return LeafValues(item.columns, encoding, labels=item.labels, reach=reach, doubt=doubt)
    array, doubt = item.array, item.doubt
    for axis, name in enumerate(item.columns):
        array = array.take(fine[name].representatives, axis=axis)
        doubt = None if doubt is None else doubt.take(fine[name].representatives, axis=axis)
    return LeafValues(item.columns, array, labels=item.labels, doubt=doubt)


def coarse_classes(
    blocks: Iterable[Block], fine: Mapping[str, Classes], finer_than: Mapping[str, Classes]
) -> dict[str, Classes]:
    """Fine classes that no block distinguishes are one: the coarsest partition that answers the workload exactly."""
    arrays = [
        (block.attributes, array) for block in blocks for array in (block.encoding, block.values) if array is not None
    ]
    rows = signatures({name: classes.count for name, classes in fine.items()}, arrays)
    out = {}
    for name, classes in fine.items():
        within = _within(finer_than, name, classes.pieces)[classes.representatives]
        out[name] = classes.merge(Partition(within, classes.sizes).refine(rows[name]))
    return out


def _within(finer_than: Mapping[str, Classes], name: str, pieces: Pieces) -> Labels:
    """The class that each piece must stay in: a release's, or one for all."""
    return finer_than[name].holding(pieces) if name in finer_than else np.zeros(len(pieces), dtype=np.int32)


def _whole_numbers(encoding: Encoding) -> Encoding:
    """Numbers of a measure by their rank; all others are whole numbers."""
    if isinstance(encoding, Runs) or encoding.dtype.kind != "f":
        return encoding
    return np.unique(encoding, return_inverse=True)[1].reshape(encoding.shape)


class Coarsening:
    """Queries over coarse classes in the place of fine ones; a block that several queries share is replaced once.

    `cells` are the group_by values of the cells of each new block.
    """

    def __init__(self, builder: Builder, coarse: Mapping[str, Classes]) -> None:
        self.builder = builder
        fine = builder.fine
        # Of attributes that have fewer classes now, a fine class of each. Both are numbered by first appearance.
        self._firsts: dict[str, npt.NDArray[np.intp]] = {
            name: fine[name].codes[classes.representatives].astype(np.intp)
            for name, classes in coarse.items()
            if classes.count < fine[name].count
        }
        self._blocks: dict[Block, tuple[Block, ...]] = {}
        self.cells: dict[Block, tuple[Cell, ...]] = {}

    def batch(self, queries: Queries) -> Queries:
        return queries.substituted(list(map(self._replaced, queries.blocks)))

    def query(self, query: LinearQuery) -> LinearQuery:
        return LinearQuery(tuple([new for block in query.blocks for new in self._replaced(block)]))

    def _replaced(self, block: Block) -> tuple[Block, ...]:
        if block not in self._blocks:
            cells = self.builder.cells[block]
            blocks = simplified(self._on_coarse(block))
            if cells == ((),):
                blocks = [each for each in blocks if not counts_all(each)]
            self._blocks[block] = tuple(blocks)
            self.cells |= zip(blocks, (cells, *[((),)] * len(blocks)), strict=False)
        return self._blocks[block]

    def _on_coarse(self, block: Block) -> Block:
        labels, values = block.encoding, block.values
        for axis, name in enumerate(block.attributes):
            first = self._firsts.get(name)
            if first is not None:
                is_long = len(labels.shape) == 1
                labels = partition.take(labels, first) if is_long else partition.decode(labels).take(first, axis=axis)
                values = None if values is None else values.take(first, axis=axis)
        return Block(block.attributes, labels, block.size, values=values, unit=block.unit)


def simplified(block: Block) -> list[Block]:
    """A block without attributes that do not matter to it, and as several where it is their product."""
    return _split(_drop_constant(block))


def counts_all(block: Block) -> bool:
    return not block.attributes and block.values is None and block.size == 1 and bool((block.labels == 0).all())


def _drop_constant(block: Block) -> Block:
    """Without the attributes along which nothing changes."""
    if len(block.shape) == 1 and block.values is None and block.changes[0]:
        return block
    names, labels, values = list(block.attributes), block.labels, block.values
    for axis in reversed(range(len(names))):
        if _is_constant(labels, axis) and (values is None or _is_constant(values, axis)):
            labels = np.asarray(labels.take(0, axis=axis))
            values = None if values is None else np.asarray(values.take(0, axis=axis))
            del names[axis]
    return Block(tuple(names), labels, block.size, values=values, unit=block.unit)


def _is_constant(array: npt.NDArray[Any], axis: int) -> bool:
    first = array.swapaxes(0, axis)
    return bool((first == first[:1]).all())


def _split(block: Block) -> list[Block]:
    """A scalar block as a product of smaller ones, where its counted cells form a product."""
    if block.size != 1 or block.values is not None or len(block.attributes) < 2:
        return [block]
    counted = block.labels == 0
    total = np.count_nonzero(counted)
    for axis, name in enumerate(block.attributes):
        others = tuple(k for k in range(counted.ndim) if k != axis)
        alone, rest = counted.any(axis=others), counted.any(axis=axis)
        # What is counted lies in the product of the two, and so is that product if it has as many cells.
        if np.count_nonzero(alone) * np.count_nonzero(rest) == total:
            names = tuple(other for other in block.attributes if other != name)
            one = Block((name,), np.where(alone, 0, -1).astype(np.int32), 1)
            return [one, *_split(Block(names, np.where(rest, 0, -1).astype(np.int32), 1))]
    return [block]
