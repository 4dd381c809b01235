"""Parents: what the rows of the tables above say of a level's attributes, and how a level is made to agree with them.

Owns the state that a level begins with, and the last step of its fit: the parents win. They were fitted to what the
level was measured to be (model/children.py). What the level's state says of their attributes, alone and together,
becomes what their rows say, each as often as it has children. How the level's own
attributes depend on them stays: proportional fitting multiplies weights by numbers for the parents' cells. Codes are
classes of released rows. Knows no SQL, noise or budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.sets import connected
from mwem_sql.algebra.table import Names, Table
from mwem_sql.model.cliques import Clique, maximal
from mwem_sql.model.start import Codes, Start, every_cell, shares_of
from mwem_sql.model.state import State
from mwem_sql.model.support import Support

AGREE_SWEEPS: Final = 100
"""Proportional fitting to what all cliques hold of the parents: at most so often. More: closer where sets overlap."""
AGREE_CLOSE: Final = 1e-9
"""The difference to what the rows say, as a share of the total, up to which a state agrees with them."""


@dataclass(frozen=True, eq=False)
class Parents:
    """Of each row that a level is to have, the class of its parent in each of the parents' attributes."""

    rows: int
    codes: Mapping[str, Codes]

    @property
    def total(self) -> float:
        """What a state of the level sums to; a state without rows has one all the same."""
        return float(max(1, self.rows))

    def state(self, sizes: Mapping[str, np.ndarray], support: Support[State] | None = None) -> State:
        """What a level begins with: the parents' attributes as in their rows, in a tree of pairs; others are even."""
        counts = {name: len(sizes[name]) for name in self.codes}
        return Start.of(self.codes, counts).state(sizes, self.total, support)

    def agree(self, state: State, max_cells: int) -> None:
        """Make a state of the level agree with the parents' rows, in their number and on the sets that it holds.

        Parents' attributes on which attributes of the level depend together come into one clique where there is room:
        up to as many cells as there are rows.
        """
        state.rescale(self.total)
        for names in list(self._boundaries(state)):
            if prod(len(state.partitions[name].codes) for name in names) > max(1, self.rows):
                continue
            counts = {name: len(state.partitions[name].codes) for name in names}
            if state.cells_with(names, counts) <= max_cells:
                state.join(names)
        margins = list(self.margins(state))
        for _ in range(AGREE_SWEEPS):
            farthest = 0.0
            for query, wanted in margins:
                off = float(np.abs(state.answer(query) - wanted).sum()) / self.total
                if off > AGREE_CLOSE:
                    state.take(query, wanted.reshape([block.size for block in query.blocks]))
                farthest = max(farthest, off)
            if farthest <= AGREE_CLOSE:
                return

    def margins(self, state: State) -> Iterator[tuple[LinearQuery, Floats]]:
        """What the rows say of the largest sets of the parents' attributes that a state's cliques hold."""
        for names in self._sets(state):
            margin = self._margin(state, names)
            yield every_cell(margin.names, margin.shape), margin.cells.reshape(-1) * self.total

    def _margin(self, state: State, names: Names) -> Table:
        return shares_of(self.codes, {name: len(state.partitions[name].codes) for name in names}, names)

    def _boundaries(self, state: State) -> Iterator[Names]:
        """The parents' attributes that attributes of the level, connected with one another, are in a clique with."""
        for tree in state.trees:
            cliques = tree.layout.cliques
            rest = [clique.difference(self.codes) for clique in cliques]
            inside = [clique for clique, names in zip(cliques, rest, strict=True) if names]
            for group in connected([names for names in rest if names]):
                shared = frozenset().union(*(inside[number].intersection(self.codes) for number in group))
                if len(shared) > 1:
                    yield tuple(name for name in self.codes if name in shared)

    def _sets(self, state: State) -> list[Names]:
        """The largest sets of the parents' attributes that the cliques hold."""
        sets: list[Clique] = [clique.intersection(self.codes) for tree in state.trees for clique in tree.layout.cliques]
        return [tuple(name for name in self.codes if name in one) for one in maximal(filter(None, sets))]
