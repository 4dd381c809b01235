"""Queries on coarse classes: drafts over fine classes without what does not matter to them. Pure array work on public values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra import partition
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.queries import Queries
from mwem_sql.compile.blocks import Draft, Drafts
from mwem_sql.compile.compiled import Cell, CompiledQuery
from mwem_sql.compile.simplify import counts_all, simplified
from mwem_sql.domains.classes import Classes
from mwem_sql.language.conditions import Part
from mwem_sql.workload import Query


class Settler:
    """Puts drafts on coarse classes; a block that several queries share is put there once.

    `groups` are the group_by values of the cells of each block that was put there.
    """

    def __init__(self, fine: Mapping[str, Classes], coarse: Mapping[str, Classes]) -> None:
        # Of attributes that have fewer classes by now, a fine class of each. Both are numbered by first appearance over pieces.
        self._firsts: dict[str, npt.NDArray[np.intp]] = {
            name: fine[name].codes[classes.representatives].astype(np.intp)
            for name, classes in coarse.items()
            if classes.count < fine[name].count
        }
        self._blocks: dict[Block, tuple[Block, ...]] = {}
        self.groups: dict[Block, tuple[Cell, ...]] = {}

    def settle_all(self, drafts: Drafts) -> Queries:
        """The drafts on coarse classes, without attributes that do not matter to them."""
        blocks = drafts.queries.blocks
        return drafts.queries.substituted([self._settled(block, drafts.cells[block]) for block in blocks])

    def settle(self, number: int, query: Query, parts: Sequence[Part], draft: Draft) -> CompiledQuery:
        """The same of one draft."""
        blocks = tuple([block for each in draft for block in self._settled(each.block, each.cells)])
        if query.group_by is None:
            return CompiledQuery(number, query, LinearQuery(blocks), (), ())
        groups = tuple([self.groups[block] for block in blocks])
        return CompiledQuery(number, query, LinearQuery(blocks), groups, positions(parts, draft))

    def _settled(self, block: Block, cells: tuple[Cell, ...]) -> tuple[Block, ...]:
        if block not in self._blocks:
            found = self._settle(block, cells)
            self._blocks[block] = found
            self.groups |= zip(found, (cells, *[((),)] * len(found)), strict=False)
        return self._blocks[block]

    def _settle(self, block: Block, cells: tuple[Cell, ...]) -> tuple[Block, ...]:
        labels, values = block.encoding, block.values
        for axis, name in enumerate(block.attributes):
            first = self._firsts.get(name)
            if first is not None:
                is_long = len(labels.shape) == 1
                labels = partition.take(labels, first) if is_long else partition.decode(labels).take(first, axis=axis)
                values = None if values is None else values.take(first, axis=axis)
        parts = simplified(Block(block.attributes, labels, block.size, values, block.unit))
        return tuple(parts if cells != ((),) else [part for part in parts if not counts_all(part)])


def positions(parts: Sequence[Part], draft: Draft) -> tuple[int, ...]:
    """Where each group_by value of a row stands among those of the blocks."""
    listed = [part.columns for part in parts if part.role == "group"]
    block_of = {name: each.rank for each in draft for name in each.block.attributes}
    return _inverse(tuple(sorted(range(len(listed)), key=lambda k: block_of[listed[k][0]] if listed[k] else ())))


@lru_cache(maxsize=1000)
def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))
