"""The approximation of the loop: a state over groups of classes, which are split as measurements need it.

Owns when groups are split and how measurements are expressed on them; the state moves the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.model.fit import TOLERANCE
from mwem_sql.model.grid import Grid
from mwem_sql.model.grouped import Grouped
from mwem_sql.model.state import Measurement, State
from mwem_sql.model.targets import Fitted, Target
from mwem_sql.model.tree import Tree


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
