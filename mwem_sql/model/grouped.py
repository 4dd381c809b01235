"""A state over groups of classes that is asked about classes: translates questions and answers. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.boxes import Boxes, many_boxes
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.model.grid import Grid
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State

MOST_RUN_CELLS = 2**20
"""Combinations of stretches of classes in one group, up to which very many queries over them are answered from prefix sums."""


class Grouped:
    """A state over groups that is asked about classes."""

    def __init__(self, state: State | Mixture, grids: Mapping[str, Grid]) -> None:
        """The state's classes are the grids' groups."""
        self.state = state
        self.grids = dict(grids)
        self.coarse = {name for name, grid in grids.items() if not grid.is_whole}
        # Blocks on groups as long as the grids are the same; and identities, by attributes.
        self._averages: dict[int, tuple[Block, tuple[Grid, ...], Block]] = {}
        self._identities: dict[tuple[str, ...], Block] = {}
        # What was last asked in very many queries, by attributes.
        self._boxes: dict[tuple[str, ...], Boxes] = {}

    @property
    def attributes(self) -> tuple[str, ...]:
        return self.state.attributes

    @property
    def total(self) -> float:
        return self.state.total

    @property
    def cells(self) -> int:
        """Of groups: what is held in memory."""
        return self.state.cells

    def marginal(self, attributes: Sequence[str]) -> Floats:
        """Axes in that order, an entry per class; sums to the total."""
        out = self.state.marginal(attributes)
        for axis, name in enumerate(attributes):
            if name in self.coarse:
                out = self.grids[name].spread(out, axis)
        return out

    def answer(self, query: LinearQuery) -> Floats:
        """One number per cell of a query on classes."""
        return self.answers([query])[0]

    def answers(self, queries: Sequence[LinearQuery]) -> list[Floats]:
        """One array per query; what queries have in common is computed once."""
        out: dict[int, Floats] = {}
        for attributes, numbers in many_boxes(queries).items():
            if prod(self.grids[name].runs for name in attributes) <= MOST_RUN_CELLS:
                boxes = [queries[number] for number in numbers]
                out.update(zip(numbers, self._summed(boxes, attributes), strict=True))
        others = [number for number in range(len(queries)) if number not in out]
        out.update(zip(others, self._each([queries[number] for number in others]), strict=True))
        return [out[number] for number in range(len(queries))]

    def _summed(self, queries: list[LinearQuery], attributes: tuple[str, ...]) -> list[Floats]:
        """Answers from prefix sums over classes or, where these are in groups, over stretches of those: as many as there are, whatever the classes."""
        boxes = self._boxes.get(attributes)
        if boxes is None or boxes.queries != queries:
            boxes = self._boxes[attributes] = Boxes(queries)
        if self.coarse.isdisjoint(attributes):
            return boxes.answers(self.marginal(attributes))
        weights = self.state.marginal(attributes)
        for axis, name in enumerate(attributes):
            weights = self.grids[name].spread_to_runs(weights, axis)
        return boxes.spread(weights, [self.grids[name].places for name in attributes])

    def _each(self, queries: Sequence[LinearQuery]) -> list[Floats]:
        """The same, each by itself."""
        asked = [
            query if self.coarse.isdisjoint(query.attributes) else LinearQuery(tuple(map(self._asked, query.blocks)))
            for query in queries
        ]
        found = self.state.answers(asked)
        return [
            answer if own is query else self._told(query, answer)
            for query, own, answer in zip(queries, asked, found, strict=True)
        ]

    def _asked(self, block: Block) -> Block:
        """What the state is asked for a block: its average over each group if it has one cell, otherwise all groups."""
        if self.coarse.isdisjoint(block.attributes):
            return block
        grids = tuple([self.grids[name] for name in block.attributes])
        if block.size > 1:
            shape = [grid.count for grid in grids]
            known = self._identities.get(block.attributes)
            if known is None or known.shape != tuple(shape):
                labels = np.arange(prod(shape), dtype=np.int32).reshape(shape)
                known = self._identities[block.attributes] = Block(block.attributes, labels, labels.size)
            return known
        held = self._averages.get(id(block))
        if held is None or held[1] != grids:
            adds = self._added(block, grids)
            own = Block(block.attributes, np.zeros(adds.shape, dtype=np.int32), 1, adds, block.unit)
            held = self._averages[id(block)] = (block, grids, own)
        return held[2]

    @staticmethod
    def _added(block: Block, grids: Sequence[Grid]) -> Floats:
        """What a record of each group adds to the one cell of a block, on average."""
        if block.values is None and len(grids) == 1:
            begins, ends, cells = block.stretches
            return grids[0].counted(begins[cells >= 0], ends[cells >= 0])
        adds = (block.labels >= 0).astype(np.float64)
        if block.values is not None:
            adds *= block.values
        for axis, grid in enumerate(grids):
            adds = adds if grid.is_whole else grid.average(adds, axis)
        return adds

    def _told(self, query: LinearQuery, answer: Floats) -> Floats:
        """The answer to a query from the answer to what was asked for it."""
        out, done = answer, 1
        for block in query.blocks:
            if block.size > 1 and not self.coarse.isdisjoint(block.attributes):
                grids = [self.grids[name] for name in block.attributes]
                out = out.reshape(done, *(grid.count for grid in grids), -1)
                for axis, grid in enumerate(grids, start=1):
                    out = out if grid.is_whole else grid.spread(out, axis)
                out = block.apply(out.reshape(done, block.extent, -1))
            done *= block.size
        return out.reshape(-1)
