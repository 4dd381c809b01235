"""Which classes the state distinguishes: a partition of each attribute's classes into groups.

A group is split only when a measured query needs it. Inside a group weight follows the base measure: no step of the
loop moves weight within a group. A state over groups therefore answers every question about classes as one over classes
would. Here is all that translates between the two; trees and fits see groups only.

A comparison of two attributes distinguishes nearly all classes of both. It splits each into `most` groups, and
counts a pair of groups by the share of it for which it is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.partition import Partition
from mwem_sql.algebra.table import Names
from mwem_sql.model.tree import WEIGHT_FLOOR

JOINT_GROUPS = 64
"""Groups into which a joint count or sum splits an attribute at most. More: nearer to what it counts, in a model of
more cells. `python benchmarks/floors.py --works predicates`"""


def base_shares(sizes: Floats) -> Floats:
    """Classes' base measure as shares of all of it; none is 0."""
    base = np.array(sizes, dtype=np.float64)
    if base.ndim != 1 or not base.size or not np.isfinite(base).all() or base.min() <= 0:
        raise ValueError("an attribute has classes of positive size")
    base /= base.max()  # lengths may be too large to add up
    return np.asarray(np.maximum(base / base.sum(), WEIGHT_FLOOR))


class Partitions(dict[str, Partition]):
    """Those of all attributes: translates queries on classes to queries on groups, and answers back."""

    def __init__(self, partitions: Mapping[str, Partition]) -> None:
        super().__init__(partitions)
        # Groups of an attribute, about, for joint counts and sums; None for as many as these distinguish.
        self.most: int | None = partitions.most if isinstance(partitions, Partitions) else JOINT_GROUPS
        # Attributes with more classes than groups; of these, those of several groups; all, in the order of splits.
        self.coarse = {name for name, partition in partitions.items() if not partition.is_whole}
        self.partial = {name for name in self.coarse if partitions[name].count > 1}
        self.splits = list(partitions)
        # Blocks on groups as long as the partitions are the same, and identities by attributes.
        self._averages: dict[Block, tuple[list[Partition], Block]] = {}
        self._identities: dict[Names, Block] = {}

    def split(self, name: str, finer: Partition) -> None:
        """Give an attribute more groups."""
        self[name] = finer
        self.splits.append(name)
        self.partial.add(name)
        if finer.is_whole:
            self.partial.discard(name)
            self.coarse.discard(name)

    def refined(self, name: str, block: Block, axis: int) -> Partition:
        """The groups of an attribute, the axis of a block, once that is measured."""
        return self[name].refine(block.slices(axis) if self.most is None else block.parts(axis, self.most))

    def distinguishes(self, block: Block) -> bool:
        """Whether each combination of groups is counted as a whole."""
        if self.most is None or not block.is_joint or self.coarse.isdisjoint(block.attributes):
            return True
        axes = enumerate(block.attributes)
        return all(self[name].refine(block.slices(axis)).count == self[name].count for axis, name in axes)

    def exact(self, query: LinearQuery) -> LinearQuery:
        """A query that distinguishes no classes of a group, on groups and on the attributes that it depends on.

        A joint block of one cell may: it counts by shares of groups.
        """
        blocks = tuple(map(self._exact_block, query.blocks))
        return query if blocks == query.blocks else LinearQuery(blocks)

    def coarser(self, query: LinearQuery) -> LinearQuery:
        """The query on groups that stands for any query on classes; the query itself where groups are classes."""
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
        if block.size == 1 and not self.distinguishes(block):
            return self._coarser_block(block)
        axes = list(zip(block.attributes, block.changes, strict=True))
        firsts = np.ix_(*(self[name].representatives if changes else [0] for name, changes in axes))
        same = tuple(axis for axis, (_, changes) in enumerate(axes) if not changes)
        labels = np.squeeze(block.labels[firsts], axis=same)
        values = None if block.values is None else np.squeeze(block.values[firsts], axis=same)
        return Block(
            tuple(name for name, changes in axes if changes), labels, block.size, values=values, unit=block.unit
        )

    def _coarser_block(self, block: Block) -> Block:
        """A block's average over each group if it has one cell, otherwise all groups."""
        if self.coarse.isdisjoint(block.attributes):
            return block
        if block.size > 1:
            return self.identity(block.attributes)
        partitions = [self[name] for name in block.attributes]
        before, average = self._averages.get(block, (None, block))
        if before != partitions:
            adds = _averages(block, partitions)
            average = Block(block.attributes, np.zeros(adds.shape, dtype=np.int32), 1, values=adds, unit=block.unit)
            self._averages[block] = partitions, average
        return average


def _averages(block: Block, partitions: Sequence[Partition]) -> Floats:
    """What a record of each group adds to the one cell of a block, on average."""
    if block.values is None and len(partitions) == 1:
        runs = block.runs
        return partitions[0].coverage(runs.begins[runs.numbers >= 0], runs.ends[runs.numbers >= 0])
    adds = (block.labels >= 0).astype(np.float64)
    if block.values is not None:
        adds *= block.values
    for axis, partition in enumerate(partitions):
        adds = adds if partition.is_whole else partition.average(adds, axis)
    return adds
