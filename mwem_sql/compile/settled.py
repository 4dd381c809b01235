"""Queries on coarse classes: the drafts of `blocks` without what does not matter to them. Pure array work on public values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra import stretches
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.compile.blocks import Cell, CompiledQuery, Draft
from mwem_sql.compile.simplify import counts_all, simplified
from mwem_sql.domains.classes import Classes
from mwem_sql.language.conditions import Part
from mwem_sql.workload import Query


class Settler:
    """Puts drafts on coarse classes; a block that several queries share is put there once."""

    def __init__(self, fine: Mapping[str, Classes], coarse: Mapping[str, Classes]) -> None:
        # Of attributes that have fewer classes by now, a fine class of each. Both are numbered by first appearance over pieces.
        self._firsts: dict[str, npt.NDArray[np.intp]] = {
            name: fine[name].codes[own.representatives].astype(np.intp)
            for name, own in coarse.items()
            if own.count < fine[name].count
        }
        self._settled: dict[int, tuple[tuple[Block, ...], tuple[tuple[Cell, ...], ...]]] = {}

    def settle(self, number: int, query: Query, parts: Sequence[Part], draft: Draft) -> CompiledQuery:
        """The draft on coarse classes, without attributes that do not matter to it."""
        blocks: tuple[Block, ...] = ()
        groups: tuple[tuple[Cell, ...], ...] = ()
        for drafted in draft:
            settled = self._settled.get(id(drafted.block))
            if settled is None:
                settled = self._settled[id(drafted.block)] = self._settle(drafted.block, drafted.cells)
            blocks += settled[0]
            groups += settled[1]
        if query.group_by is None:
            return CompiledQuery(number, query, LinearQuery(blocks), (), ())
        return CompiledQuery(number, query, LinearQuery(blocks), groups, _positions(parts, draft))

    def _settle(self, block: Block, cells: tuple[Cell, ...]) -> tuple[tuple[Block, ...], tuple[tuple[Cell, ...], ...]]:
        labels, values = block.held, block.values
        for axis, name in enumerate(block.attributes):
            first = self._firsts.get(name)
            if first is not None:
                is_long = len(labels.shape) == 1
                labels = stretches.take(labels, first) if is_long else stretches.plain(labels).take(first, axis=axis)
                values = None if values is None else values.take(first, axis=axis)
        parts = simplified(Block(block.attributes, labels, block.size, values, block.unit))
        if cells == ((),):
            parts = [part for part in parts if not counts_all(part)]
        return tuple(parts), (cells, *[((),)] * (len(parts) - 1))[: len(parts)]


def _positions(parts: Sequence[Part], draft: Draft) -> tuple[int, ...]:
    """Where each group_by value of a row stands among those of the blocks."""
    listed = [part.columns for part in parts if part.role == "group"]
    if listed == [drafted.block.attributes for drafted in draft]:
        return _inverse(range(len(listed)))  # as most are: a column each, in the table's order
    block_of = {name: drafted.rank for drafted in draft for name in drafted.block.attributes}
    return _inverse(tuple(sorted(range(len(listed)), key=lambda k: block_of[listed[k][0]] if listed[k] else ())))


@lru_cache(maxsize=1000)
def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))
