"""Which classes the state tells apart: groups of them, split only when a measured query needs it.

The compiler's classes are the finest grid. Inside a group weight follows the base measure: no measurement has said
otherwise, and no step of the loop moves weight within a group. A state over groups therefore answers every question
about classes as one over classes would. Here is all that translates between the two; trees and fits see groups only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Floats, Labels, Places
from mwem_sql.algebra.linear import Block, LinearQuery, tell_apart
from mwem_sql.algebra.table import Names, shares_within, spread
from mwem_sql.model.tree import FLOOR


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
        """Runs of neighbouring classes in one group. A query that changes c times along them makes at most c more."""
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
        """Of each place before, between and after classes: the run of the next class, and the share of it before.

        After the last class, that is the last run.
        """
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
        return shares_within(self.groups, self.base)

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
        return spread(weights, axis, self.groups, self.shares)

    def spread_to_runs(self, weights: Floats, axis: int) -> Floats:
        """From weights of groups along an axis to those of stretches."""
        return spread(weights, axis, self.groups[self.run_begins], self.run_shares)

    def gather(self, weights: Floats, axis: int) -> Floats:
        """From weights of classes along an axis to those of groups."""
        order, starts = self._order
        return np.asarray(np.add.reduceat(weights.take(order, axis=axis), starts, axis=axis))

    def counted(self, begins: Places, ends: Places) -> Floats:
        """The share of each group in some disjoint runs of classes: `average` of a count, without its classes."""
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
        return self.gather(adds * self.shares.reshape(-1, *[1] * (adds.ndim - axis - 1)), axis)


def base_shares(sizes: Floats) -> Floats:
    """Classes' base measure as shares of all of it; none is 0."""
    base = np.array(sizes, dtype=np.float64)
    if base.ndim != 1 or not base.size or not np.isfinite(base).all() or base.min() <= 0:
        raise ValueError("an attribute has classes of positive size")
    base /= base.max()  # lengths may be too large to add up
    return np.asarray(np.maximum(base / base.sum(), FLOOR))


class Grids(dict[str, Grid]):
    """The grids of all attributes: translates queries on classes to queries on groups, and answers back."""

    def __init__(self, grids: Mapping[str, Grid]) -> None:
        super().__init__(grids)
        # Attributes with more classes than groups; of these, those of several groups; all, whenever one got a grid.
        self.coarse = {name for name, grid in grids.items() if not grid.is_whole}
        self.partial = {name for name in self.coarse if grids[name].count > 1}
        self.splits = list(grids)
        # Blocks on groups as long as the grids are the same, and identities by attributes.
        self._averages: dict[Block, tuple[list[Grid], Block]] = {}
        self._identities: dict[Names, Block] = {}

    def split(self, name: str, finer: Grid) -> None:
        """Give an attribute a grid of more groups."""
        self[name] = finer
        self.splits.append(name)
        self.partial.add(name)
        if finer.is_whole:
            self.partial.discard(name)
            self.coarse.discard(name)

    def exact(self, query: LinearQuery) -> LinearQuery:
        """A query that tells no classes of a group apart, on groups; without attributes along which it is constant."""
        blocks = tuple(map(self._exact_block, query.blocks))
        return query if blocks == query.blocks else LinearQuery(blocks)

    def coarser(self, query: LinearQuery) -> LinearQuery:
        """What groups are asked for any query on classes; the query itself where they are classes."""
        if self.coarse.isdisjoint(query.attributes):
            return query
        return LinearQuery(tuple(map(self._coarser_block, query.blocks)))

    def answer(self, query: LinearQuery, answer: Floats) -> Floats:
        """The answer to a query on classes from the answer to its `coarser` one."""
        out, done = answer, 1
        for block in query.blocks:
            if block.size > 1 and not self.coarse.isdisjoint(block.attributes):
                out = out.reshape(done, *self.shape(block.attributes), -1)
                out = block.apply(self.spread(out, block.attributes, first=1).reshape(done, block.extent, -1))
            done *= block.size
        return out.reshape(-1)

    def shape(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple([self[name].count for name in names])

    def spread(self, weights: Floats, names: Sequence[str], first: int = 0) -> Floats:
        """From weights of groups along the axes of these attributes, from axis `first` on, to those of classes."""
        for axis, name in enumerate(names, start=first):
            if name in self.coarse:
                weights = self[name].spread(weights, axis)
        return weights

    def identity(self, names: Names) -> Block:
        """All combinations of groups."""
        shape = self.shape(names)
        block = self._identities.get(names)
        if block is None or block.shape != shape:
            labels = np.arange(prod(shape), dtype=np.int32).reshape(shape)
            block = self._identities[names] = Block(names, labels, labels.size)
        return block

    def _exact_block(self, block: Block) -> Block:
        if self.coarse.isdisjoint(block.attributes) and 0 not in block.changes:
            return block
        axes = list(zip(block.attributes, block.changes, strict=True))
        firsts = np.ix_(*(self[name].firsts if changes else [0] for name, changes in axes))
        same = tuple(axis for axis, (_, changes) in enumerate(axes) if not changes)
        labels = np.squeeze(block.labels[firsts], axis=same)
        values = None if block.values is None else np.squeeze(block.values[firsts], axis=same)
        return Block(tuple(name for name, changes in axes if changes), labels, block.size, values, block.unit)

    def _coarser_block(self, block: Block) -> Block:
        """A block's average over each group if it has one cell, otherwise all groups."""
        if self.coarse.isdisjoint(block.attributes):
            return block
        if block.size > 1:
            return self.identity(block.attributes)
        grids = [self[name] for name in block.attributes]
        kept = self._averages.get(block)
        if kept is None or kept[0] != grids:
            adds = _averages(block, grids)
            average = Block(block.attributes, np.zeros(adds.shape, dtype=np.int32), 1, adds, block.unit)
            kept = self._averages[block] = (grids, average)
        return kept[1]


def _averages(block: Block, grids: Sequence[Grid]) -> Floats:
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
