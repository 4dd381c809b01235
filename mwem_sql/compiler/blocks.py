"""From evaluated leaves to blocks: classes that every leaf agrees on, each query's blocks on them, and the coarsest classes.

Pure array work on public values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mwem_sql.compiler.classes import Classes, Ints, Pieces, refine
from mwem_sql.compiler.evaluate import TRUE, Values
from mwem_sql.compiler.linear import Block, LinearQuery
from mwem_sql.compiler.measures import LEVELS, Measure, to_grid
from mwem_sql.compiler.predicate import Condition, Leaf
from mwem_sql.errors import CellsError, refuse
from mwem_sql.workload import Query

MAX_CELLS = 10_000_000  # cells of the whole state, and so of one query's attributes together
_CHUNK = 512  # signatures compared at a time

Cell = tuple[str | None, ...]
Evaluated = Mapping[tuple[str, str], Values]


@dataclass(frozen=True, eq=False)
class Parsed:
    """A query's texts as checked trees: what must be true, what it is grouped by, what is summed up."""

    conjuncts: tuple[Condition, ...]
    groups: tuple[Leaf, ...]
    measure: Measure | None


@dataclass(frozen=True, eq=False)
class CompiledQuery:
    """A query of the workload in linear form. `groups` are, per block, the group_by values of its cells.

    An average is the sum that `linear` asks for, divided by the count that `over` asks for, cell by cell.
    """

    number: int
    source: Query
    linear: LinearQuery
    groups: tuple[tuple[Cell, ...], ...]
    positions: tuple[int, ...]
    over: CompiledQuery | None = None

    @property
    def label(self) -> str:
        return self.source.label

    def cells(self) -> Iterator[list[str | None] | None]:
        """The group_by values of every answer, in the answers' order; None for a scalar query."""
        if self.source.group_by is None:
            yield None
            return
        for parts in product(*self.groups):
            flat = [value for part in parts for value in part]
            yield [flat[position] for position in self.positions]


# A role (truth, group, factor or known), what plays it, and for a group its place in the row.
Part = tuple[str, Condition, int]
# A query over fine classes: its blocks with the group_by values of their cells, and where those stand in the row.
Drafted = tuple[Block, tuple[Cell, ...]]


@dataclass(frozen=True, eq=False)
class Draft:
    blocks: tuple[Drafted, ...]
    positions: tuple[int, ...]


def fine_classes(
    pieces: Mapping[str, Pieces], values: Evaluated, finer_than: Mapping[str, Classes] | None
) -> dict[str, Classes]:
    """Pieces on which every leaf takes the same values are one class."""
    rows: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in pieces}
    for item in values.values():
        for axis, name in enumerate(item.columns):
            rows[name].append(np.moveaxis(item.array, axis, 0).reshape(len(pieces[name]), -1))
    out = {}
    for name, own in pieces.items():
        codes = np.zeros(len(own), dtype=np.int32)
        if finer_than is not None and name in finer_than:
            codes = _inside(own, finer_than[name])
        for start in range(0, len(rows[name]), _CHUNK):
            codes = refine(codes, np.concatenate(rows[name][start : start + _CHUNK], axis=1))
        out[name] = Classes(own, refine(codes, np.zeros((len(own), 1), np.int8)))
    return out


def _inside(own: Pieces, coarser: Classes) -> Ints:
    """The class of `coarser` that each piece lies in."""
    if own.attribute.values is not None or not len(coarser.pieces.lows):
        return coarser.codes
    found = np.searchsorted(coarser.pieces.lows, own.points, side="right") - 1
    codes = coarser.codes[np.clip(found, 0, None)]
    return np.append(codes, coarser.codes[-1]).astype(np.int32) if own.attribute.nullable else codes


def on_classes(item: Values, fine: Mapping[str, Classes]) -> Values:
    array = item.array
    for axis, name in enumerate(item.columns):
        array = array.take(fine[name].representatives, axis=axis)
    return Values(item.columns, array, item.labels)


class Builder:
    """Builds the blocks of all queries; queries that ask the same of a column share one block."""

    def __init__(self, values: Evaluated, fine: Mapping[str, Classes]) -> None:
        self._values = values
        self._fine = fine
        self._rank = {name: k for k, name in enumerate(fine)}
        self._blocks: dict[tuple[object, ...], Drafted] = {}
        self._settled: dict[int, tuple[tuple[Block, ...], tuple[tuple[Cell, ...], ...]]] = {}

    def draft(self, query: Query, parsed: Parsed, *, counting: bool = False) -> Draft:
        """The query as asked; or, for the average of a measure, how many records it is known for."""
        factors = () if parsed.measure is None else parsed.measure.factors
        parts = [
            *(("truth", condition, 0) for condition in parsed.conjuncts),
            *(("group", leaf, place) for place, leaf in enumerate(parsed.groups)),
            *(("known" if counting else "factor", leaf, 0) for leaf in factors),
        ]
        blocks = []
        order: list[int] = []
        for columns, own in self._components(parts):
            asked = tuple((role, what) for role, what, _ in own)
            key = (columns, asked)
            if key not in self._blocks:
                self._blocks[key] = self._block(query, columns, asked)
            blocks.append(self._blocks[key])
            order += [place for role, _, place in own if role == "group"]
        if factors:
            blocks = _within_levels(blocks)
        if any((block.labels < 0).all() for block, _ in blocks):
            # Nothing is counted, whatever the other blocks say; what is left is their cells.
            grouped = [(Block(block.attributes, np.full_like(block.labels, -1), block.size), own) for block, own in blocks if own != ((),)]
            blocks = grouped or [(Block((), np.array(-1, dtype=np.int32), 1), ((),))]
        return Draft(tuple(blocks), tuple(sorted(range(len(order)), key=order.__getitem__)))

    def _components(self, parts: Sequence[Part]) -> list[tuple[tuple[str, ...], list[Part]]]:
        """Parts with a column in common go together, in the table's order; those without columns are a group of their own."""
        groups: dict[tuple[str, ...], list[Part]] = {}
        for part in parts:
            columns = part[1].columns
            if columns in groups:
                groups[columns].append(part)
                continue
            touched = [names for names in groups if set(names) & set(columns)]
            merged = tuple(sorted(set(columns).union(*touched), key=self._rank.__getitem__))
            moved = [other for names in touched for other in groups.pop(names)]
            groups[merged] = [*moved, part]
        return sorted(groups.items(), key=lambda item: [self._rank[name] for name in item[0]])

    def _block(self, query: Query, columns: tuple[str, ...], own: Sequence[tuple[str, Condition]]) -> Drafted:
        shape = tuple(self._fine[name].count for name in columns)
        if prod(shape) > MAX_CELLS:
            raise too_many(query.label, columns, prod(shape))
        mask = np.ones(shape, dtype=bool)
        counted = np.ones(shape, dtype=bool)
        numbers: npt.NDArray[np.float64] | None = None
        labels = np.zeros(shape, dtype=np.int64)
        cells: list[Cell] = [()]
        for role, what in own:
            if role == "truth":
                mask &= _truth(what, self._values, columns, shape) == TRUE
                continue
            assert isinstance(what, Leaf)
            item = self._values["group" if role == "group" else "factor", what.sql]
            if role == "group":
                labels, cells = _grouped(labels, cells, item, columns)
            elif role == "known":
                counted &= ~np.isnan(_spread(item, columns, shape))
            else:
                numbers = _spread(item, columns, shape) * (1.0 if numbers is None else numbers)
        counted &= mask
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
        return block, tuple(cells[k] for k in used.tolist()) or (cells[0],)

    def coarse_classes(self, drafts: Sequence[Draft], finer_than: Mapping[str, Classes] | None) -> dict[str, Classes]:
        """Fine classes that no block tells apart are one class: the coarsest partition that answers the workload exactly."""
        listed: dict[str, list[tuple[Block, int]]] = {name: [] for name in self._fine}
        for block in {id(block): block for draft in drafts for block, _ in draft.blocks}.values():
            for axis, name in enumerate(block.attributes):
                listed[name].append((block, axis))
        out = {}
        for name, own in self._fine.items():
            codes = np.zeros(own.count, dtype=np.int32)
            if finer_than is not None and name in finer_than:
                codes = _inside(own.pieces, finer_than[name])[own.representatives]
            for start in range(0, len(listed[name]), _CHUNK):
                signatures = [
                    np.moveaxis(array, axis, 0).reshape(own.count, -1).astype(np.int32)
                    for block, axis in listed[name][start : start + _CHUNK]
                    for array in ((block.labels,) if block.values is None else (block.labels, block.values))
                ]
                codes = refine(codes, np.concatenate(signatures, axis=1))
            by_piece = codes[own.codes]
            out[name] = Classes(own.pieces, refine(np.zeros_like(by_piece), by_piece[:, None]))
        return out

    def settle(self, number: int, query: Query, draft: Draft, coarse: Mapping[str, Classes]) -> CompiledQuery:
        """The draft on coarse classes, without attributes that do not matter to it."""
        blocks: list[Block] = []
        groups: list[tuple[Cell, ...]] = []
        for block, cells in draft.blocks:
            if id(block) not in self._settled:
                self._settled[id(block)] = self._settle(block, cells, coarse)
            parts, labels = self._settled[id(block)]
            blocks += parts
            groups += labels
        return CompiledQuery(number, query, LinearQuery(tuple(blocks)), tuple(groups), draft.positions)

    def _settle(
        self, block: Block, cells: tuple[Cell, ...], coarse: Mapping[str, Classes]
    ) -> tuple[tuple[Block, ...], tuple[tuple[Cell, ...], ...]]:
        labels, values = block.labels, block.values
        for axis, name in enumerate(block.attributes):
            # Coarse classes are numbered by first appearance over pieces, and so are fine ones.
            first = self._fine[name].codes[coarse[name].representatives]
            labels = labels.take(first, axis=axis)
            values = None if values is None else values.take(first, axis=axis)
        parts = _split(_drop_constant(replace(block, labels=labels, values=values)))
        if cells == ((),):
            parts = [part for part in parts if not _counts_all(part)]
        return tuple(parts), (cells, *[((),)] * (len(parts) - 1))[: len(parts)]


def _within_levels(blocks: list[Drafted]) -> list[Drafted]:
    """The same blocks, the largest values of them on a coarser grid, so that their product is on one of `LEVELS`."""
    while prod(block.bound for block, _ in blocks) > LEVELS:
        largest = max(range(len(blocks)), key=lambda k: blocks[k][0].bound)
        block, cells = blocks[largest]
        assert block.values is not None
        halved = np.rint(block.values / 2).astype(np.int64)
        blocks[largest] = (replace(block, values=halved, unit=block.unit * 2), cells)
    return blocks


def _grouped(
    labels: npt.NDArray[np.int64], cells: Sequence[Cell], item: Values, columns: tuple[str, ...]
) -> tuple[npt.NDArray[np.int64], list[Cell]]:
    """Cells split by one more expression; only the combinations that some class has."""
    split = labels * len(item.labels) + _spread(item, columns, labels.shape)
    used, numbered = np.unique(split, return_inverse=True)
    listed = [(*cells[k // len(item.labels)], item.labels[k % len(item.labels)]) for k in used.tolist()]
    return numbered.reshape(labels.shape), listed


def _truth(
    condition: Condition, values: Evaluated, columns: tuple[str, ...], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Three-valued truth of a condition on the classes of `columns`."""
    if isinstance(condition, Leaf):
        return _spread(values["truth", condition.sql], columns, shape)
    parts = [_truth(part, values, columns, shape) for part in condition.parts]
    if condition.connective == "not":
        return np.asarray(TRUE - parts[0])
    return np.asarray((np.minimum if condition.connective == "and" else np.maximum)(*parts))


def _spread(item: Values, columns: tuple[str, ...], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A leaf's values broadcast to all of a block's columns."""
    order = sorted(range(len(item.columns)), key=lambda axis: columns.index(item.columns[axis]))
    array = item.array.transpose(order)
    wide = [size if name in item.columns else 1 for name, size in zip(columns, shape, strict=True)]
    return np.broadcast_to(array.reshape(wide), shape)


def _counts_all(block: Block) -> bool:
    return not block.attributes and block.values is None and block.size == 1 and bool((block.labels == 0).all())


def _drop_constant(block: Block) -> Block:
    """Without the attributes along which nothing changes."""
    names, labels, values = list(block.attributes), block.labels, block.values
    for axis in reversed(range(len(names))):
        same = (labels == labels.take([0], axis=axis)).all()
        if same and (values is None or (values == values.take([0], axis=axis)).all()):
            labels = np.asarray(labels.take(0, axis=axis))
            values = None if values is None else np.asarray(values.take(0, axis=axis))
            del names[axis]
    return Block(tuple(names), labels, block.size, values, block.unit)


def _split(block: Block) -> list[Block]:
    """A scalar block as a product of smaller ones, where its counted cells form a product."""
    if block.size != 1 or block.values is not None or len(block.attributes) < 2:
        return [block]
    counted = block.labels == 0
    for axis, name in enumerate(block.attributes):
        others = tuple(k for k in range(counted.ndim) if k != axis)
        alone, rest = counted.any(axis=others), counted.any(axis=axis)
        if (counted == np.expand_dims(rest, axis) & alone.reshape([-1 if k == axis else 1 for k in range(counted.ndim)])).all():
            names = tuple(other for other in block.attributes if other != name)
            one = Block((name,), np.where(alone, 0, -1).astype(np.int32), 1)
            return [one, *_split(Block(names, np.where(rest, 0, -1).astype(np.int32), 1))]
    return [block]


def too_many(label: str, columns: Sequence[str], cells: int) -> CellsError:
    error = refuse(
        CellsError, "workload",
        f"query {label!r} needs {cells:,} cells over {', '.join(columns)}, more than {MAX_CELLS:,}",
        "group by fewer columns, or by coarser expressions",
    )
    assert isinstance(error, CellsError)
    return error


