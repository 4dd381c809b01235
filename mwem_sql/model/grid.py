"""Which classes the state tells apart: groups of them, split only when a measured query needs it.

The compiler's classes are the finest grid. Inside a group weight follows the base measure: no measurement has said
otherwise, and no step of the loop moves weight within a group. A state over groups therefore answers every question about classes
as one over classes would. Here is all that translates between the two; trees, factors and fits see groups only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from mwem_sql.model.fit import TOLERANCE, Fitted, Target
from mwem_sql.model.state import Measurement, Mixture, State, base_shares
from mwem_sql.model.tree import Tree
from mwem_sql.queries.arrays import Floats, Labels, Places
from mwem_sql.queries.boxes import Boxes, many_boxes
from mwem_sql.queries.linear import Block, LinearQuery, tell_apart

MOST_HELD = 2**20
"""Combinations of stretches of classes in one group, up to which very many queries over them are answered from prefix sums."""


@dataclass(frozen=True, eq=False)
class Grid:
    """A partition of an attribute's classes: `groups[i]` is the group of class i, numbered by first appearance.

    `base` is the classes' base measure: what they share a group's weight by.
    """

    groups: Labels
    base: Floats

    @classmethod
    def single(cls, sizes: Floats) -> Grid:
        """All classes in one group."""
        return cls(np.zeros(len(sizes), dtype=np.int32), base_shares(sizes))

    @classmethod
    def whole(cls, classes: int) -> Grid:
        """Each class a group."""
        return cls(np.arange(classes, dtype=np.int32), np.ones(classes))

    @cached_property
    def count(self) -> int:
        return int(self.groups.max()) + 1

    @property
    def is_whole(self) -> bool:
        return self.count == len(self.groups)

    @cached_property
    def runs(self) -> int:
        """Stretches of neighbouring classes in one group. A query that changes c times along them makes at most c more."""
        return 1 + int(np.count_nonzero(np.diff(self.groups)))

    @cached_property
    def run_begins(self) -> Places:
        return np.append(0, np.flatnonzero(np.diff(self.groups)) + 1)

    @cached_property
    def run_shares(self) -> Floats:
        """Each stretch's share of its group."""
        return np.add.reduceat(self.shares, self.run_begins)

    @cached_property
    def places(self) -> tuple[Places, Floats]:
        """Of each place before, between and after classes: the stretch of the class that follows, or the last one, and which share of it comes before."""
        run = np.repeat(np.arange(self.runs), np.diff(self.run_begins, append=len(self.groups)))
        before = np.cumsum(self.shares) - self.shares
        inside = (before - before[self.run_begins][run]) / self.run_shares[run]
        return np.append(run, self.runs - 1), np.append(inside, 1.0)

    @cached_property
    def firsts(self) -> Places:
        """A class of each group, to stand for all of them."""
        return np.unique(self.groups, return_index=True)[1]

    @cached_property
    def sums(self) -> Floats:
        return np.bincount(self.groups, self.base).astype(np.float64, copy=False)

    @cached_property
    def shares(self) -> Floats:
        """Each class's share of its group."""
        return np.asarray(self.base / self.sums[self.groups])

    @cached_property
    def _order(self) -> tuple[Places, Places]:
        """Classes sorted by group, and where each group begins."""
        order = np.argsort(self.groups, kind="stable")
        return order, np.searchsorted(self.groups[order], np.arange(self.count))

    def split(self, block: Block, axis: int) -> Grid:
        """With the groups apart that a block tells apart."""
        return Grid(tell_apart(self.groups, block.slices(axis)), self.base)

    def spread(self, weights: Floats, axis: int) -> Floats:
        """From weights of groups along an axis to those of classes."""
        return np.asarray(
            weights.take(self.groups, axis=axis) * self.shares.reshape(-1, *[1] * (weights.ndim - axis - 1))
        )

    def spread_to_runs(self, weights: Floats, axis: int) -> Floats:
        """From weights of groups along an axis to those of stretches."""
        shares = self.run_shares.reshape(-1, *[1] * (weights.ndim - axis - 1))
        return np.asarray(weights.take(self.groups[self.run_begins], axis=axis) * shares)

    def gather(self, weights: Floats, axis: int) -> Floats:
        """From weights of classes along an axis to those of groups."""
        order, starts = self._order
        return np.asarray(np.add.reduceat(weights.take(order, axis=axis), starts, axis=axis))

    def counted(self, begins: Places, ends: Places) -> Floats:
        """The share of each group that is in some stretches of neighbouring classes, which have none in common: `average` of a count, without its classes."""
        runs, inside = self.places
        # What comes before a place is a part of its own run and all runs before that.
        steps, parts = np.zeros(self.runs + 1), np.zeros(self.runs)
        for places, sign in ((begins, -1.0), (ends, 1.0)):
            np.add.at(steps, runs[places], sign)
            np.add.at(parts, runs[places], sign * inside[places])
        whole = np.cumsum(steps[::-1])[::-1][1:]
        return np.bincount(
            self.groups[self.run_begins], (whole + parts) * self.run_shares, minlength=self.count
        ).astype(np.float64, copy=False)

    def average(self, adds: Floats, axis: int) -> Floats:
        """From what a record of each class adds along an axis to what one of each group adds on average."""
        order, starts = self._order
        shares = self.shares.reshape(-1, *[1] * (adds.ndim - axis - 1))
        return np.asarray(np.add.reduceat((adds * shares).take(order, axis=axis), starts, axis=axis))


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
            if prod(self.grids[name].runs for name in attributes) <= MOST_HELD:
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


class Adaptive(Grouped):
    """The approximation of the loop: one group per attribute at first, split as measurements need it."""

    state: State

    def __init__(self, state: State, grids: Mapping[str, Grid]) -> None:
        super().__init__(state, grids)
        # Attributes, each time that they got a grid; what those who keep something about grids follow.
        self.regridded = list(grids)
        # Attributes of several groups that are not all classes.
        self.partial = {name for name in self.coarse if grids[name].count > 1}
        # What was last fitted, and the same on groups, as long as these are the same.
        self._targets: dict[int, tuple[Target, Target]] = {}

    @classmethod
    def uniform(cls, sizes: Mapping[str, Floats], total: float) -> Adaptive:
        """Weight in proportion to the classes' base measure: the number of values in each, or its length."""
        grids = {name: Grid.single(size) for name, size in sizes.items()}
        return cls(State.uniform(dict.fromkeys(sizes, np.ones(1)), total), grids)

    @classmethod
    def whole(cls, state: State) -> Adaptive:
        """A state whose groups are the classes."""
        return cls(state, {name: Grid.whole(*state.shape([name])) for name in state.attributes})

    @property
    def trees(self) -> list[Tree]:
        """For reading; over groups."""
        return self.state.trees

    def copy(self) -> Adaptive:
        """Shares the weights with the original until one of the two changes them."""
        return Adaptive(self.state.copy(), self.grids)

    def rescale(self, total: float) -> None:
        self.state.rescale(total)

    def refine(self, query: LinearQuery) -> set[str]:
        """Split groups whose classes a query tells apart, of which attributes is returned; the distribution stays as it is."""
        split = set()
        for block in query.blocks:
            for axis, name in enumerate(block.attributes):
                if name in self.coarse and self._take(name, self.grids[name].split(block, axis)):
                    split.add(name)
        return split

    def follow(self, other: Adaptive) -> None:
        """Split groups as in another one, which came out of a copy."""
        for name in self.coarse.copy():
            self._take(name, other.grids[name])

    def _take(self, name: str, finer: Grid) -> bool:
        """Give an attribute a grid whose groups are parts of those that it has; whether they are more."""
        old = self.grids[name]
        if finer.count == old.count:
            return False
        parents = old.groups[finer.firsts]
        self.state.split(name, parents, finer.sums / old.sums[parents])
        self.grids[name] = finer
        self.regridded.append(name)
        self._targets = {key: held for key, held in self._targets.items() if name not in held[0].query.attributes}
        self.partial.add(name)
        if finer.is_whole:
            self.partial.discard(name)
            self.coarse.discard(name)
        return True

    def cells_with(self, groups: Mapping[str, int]) -> int:
        """Cells of the whole state if a query over these attributes were measured that leaves them with so many groups."""
        return self.state.cells_with(list(groups), groups)

    def update(self, query: LinearQuery, measured: Floats) -> None:
        """One step of the paper: A(x) *= exp(sum over cells c of q_c(x) (m_c - q_c(A)) / 2n), renormalised to n."""
        self.replay([(query, measured)], passes=1)

    def replay(self, measurements: Sequence[Measurement], passes: int = 100, tolerance: float | None = 0.0) -> int:
        """Update with all measurements in order, over and over; returns the most passes that a tree took."""
        for query, _ in measurements:
            self.refine(query)
        return self.state.replay(
            [(self._expressed(query), values) for query, values in measurements], passes, tolerance
        )

    def match(self, query: LinearQuery, values: Floats) -> None:
        """Give each cell of a partition its value, in proportion everywhere inside."""
        self.refine(query)
        self.state.match(self._expressed(query), values)

    def take(self, query: LinearQuery, weights: Floats) -> None:
        """Give class combinations of a partition's attributes their weights, as far as it tells them apart: those of a group share what they have by base measure."""
        self.refine(query)
        for axis, name in enumerate(query.attributes):
            weights = self.grids[name].gather(weights, axis)
        labels = np.arange(weights.size, dtype=np.int32).reshape(weights.shape)
        self.state.match(LinearQuery((Block(query.attributes, labels, labels.size),)), weights.reshape(-1))

    def fit(self, targets: Sequence[Target], tolerance: float = TOLERANCE) -> Fitted:
        """Refit all measurements, each weighted by the inverse of its variance, until their misfit no longer falls."""
        for target in targets:
            if id(target) not in self._targets:
                self.refine(target.query)
        self._targets = {
            id(target): self._targets.get(id(target)) or (target, replace(target, query=self._expressed(target.query)))
            for target in targets
        }
        return self.state.fit([own for _, own in self._targets.values()], tolerance)

    def finish(self) -> None:
        """Fit once more, and closely: there is no next fit that would go on from here."""
        self.state.finish()

    def _expressed(self, query: LinearQuery) -> LinearQuery:
        """A query that tells no classes of a group apart, on groups; without attributes along which it is the same everywhere."""
        blocks = tuple(map(self._on_groups, query.blocks))
        return query if blocks == query.blocks else LinearQuery(blocks)

    def _on_groups(self, block: Block) -> Block:
        if self.coarse.isdisjoint(block.attributes) and 0 not in block.changes:
            return block
        firsts = [
            self.grids[name].firsts if changes else [0]
            for name, changes in zip(block.attributes, block.changes, strict=True)
        ]
        same = tuple(axis for axis, changes in enumerate(block.changes) if not changes)
        labels, values = (
            None if array is None else np.squeeze(array[np.ix_(*firsts)], axis=same)
            for array in (block.labels, block.values)
        )
        assert labels is not None
        names = tuple(name for name, changes in zip(block.attributes, block.changes, strict=True) if changes)
        return Block(names, labels, block.size, values, block.unit)
