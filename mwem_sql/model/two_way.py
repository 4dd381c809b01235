"""The two-way marginals of a whole state as shares of the total, to score every pair in every round. Only reads it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats
from mwem_sql.algebra.table import Names, Table
from mwem_sql.model.grid import Grid
from mwem_sql.model.marginals import ROWS, Message, by_separator, collect, conditional, joint, merged
from mwem_sql.model.tree import Tree

WIDE = 512
"""Cells of a separator beyond which all pairs of a tree are worked out again, and attributes one by one: to ask what
depends on it would cost more."""


class TwoWay:
    """One-way marginals, and the excess of two-way marginals over their products, as shares.

    By place: an attribute's values in a row. Most pairs have no excess. What changed in a tree is worked out from the
    cliques that changed outwards, as far as anything depends on them. An attribute's values are its classes; or, if it
    is not in `read`, the groups of them that the state has.
    """

    def __init__(self, sizes: Mapping[str, int], read: Collection[str] | None = None) -> None:
        """All zero until the first refresh. `sizes` are class counts; without `read` all classes are."""
        self.index = {name: number for number, name in enumerate(sizes)}
        self.sizes = np.array(list(sizes.values()), dtype=np.int64)
        self.starts = np.cumsum(self.sizes) - self.sizes
        classes = int(self.sizes.sum())
        self.one = np.zeros(classes)
        self.excess = np.zeros((classes, classes))
        self._close = np.zeros((len(sizes), len(sizes)), dtype=np.bool_)
        self._seen = 0
        self._inside: dict[Names, list[Message]] = {}
        # Of each attribute, the groups in its cliques, and its values; the grid between the two where they differ.
        self._read = sizes.keys() if read is None else read
        self._groups, self._values = self.sizes.copy(), self.sizes.copy()
        self._coarse: dict[str, Grid] = {}

    def regrid(self, name: str, grid: Grid) -> None:
        """Follow an attribute whose classes are in other groups by now."""
        place = self.index[name]
        if self._groups[place] > 1:  # or it is in no clique with others yet
            self._inside = {names: messages for names, messages in self._inside.items() if name not in names}
        self._groups[place] = grid.count
        self._coarse.pop(name, None)
        if name not in self._read:
            self._values[place] = grid.count
            # As no share is: weights of other groups are a change whatever they are.
            self.one[self._places(name)] = -1.0
        elif not grid.is_whole:
            self._coarse[name] = grid

    def refresh(self, trees: Iterable[Tree], lag: float) -> Flags:
        """Follow the trees, to within `lag` in the sum over a pair's cells.

        Which pairs changed; on the diagonal, which attributes.
        """
        changed = np.zeros_like(self._close)
        regions: list[tuple[Tree, list[int]]] = []
        latest = self._seen
        for tree in trees:
            if tree.stamp <= self._seen:
                continue
            tree.settle(lag)
            moved = [number for number, potential in enumerate(tree.potentials) if potential.stamp > self._seen]
            if moved:
                latest = max(latest, tree.stamp)
                regions += [(tree, region) for region in tree.layout.connected(moved)]
        self._seen = latest
        for tree, region in regions:
            attributes = self._one_way(tree, region, lag)
            changed[attributes, :] = changed[:, attributes] = True
        for tree, region in regions:
            if len(tree.attributes) > 1:
                self._follow(tree, region, lag, changed)
        return changed

    def _one_way(self, tree: Tree, region: Sequence[int], lag: float) -> list[int]:
        """Write the marginals of the region's attributes that differ by more than `lag`; their numbers."""
        tables: dict[Names, Table] = {}
        for number in region:
            table = tree.potentials[number].table
            wanted = [(name,) for name in table.names if (name,) not in tables]
            if wanted:
                tables.update(table.projections(wanted))
        moved = []
        for (name,), marginal in tables.items():
            share = marginal.cells / tree.total
            if name in self._coarse:
                share = self._coarse[name].spread(share, 0)
            if float(np.abs(share - self.one[self._places(name)]).sum()) > lag:
                self.one[self._places(name)] = share
                moved.append(self.index[name])
        return moved

    def _follow(self, tree: Tree, region: Sequence[int], lag: float, changed: Flags) -> None:
        """Work out all pairs that have a clique of the region on the way from one to the other."""
        layout = tree.layout
        borders = self._borders(tree, region)
        if any(self._cells(layout.separator(*border)) > WIDE for border in borders):
            region, borders = range(len(layout.cliques)), []
        # Whatever was close to the region before is looked at again, so that nothing stays that no longer holds.
        attributes = list({self.index[name] for number in region for name in layout.cliques[number]})
        once = np.any(self._close[attributes], axis=0).tolist()
        former = set(layout.spanning([*region, *(top for name, top in layout.tops.items() if once[self.index[name]])]))
        outside: dict[int, dict[int, Message]] = {}
        for number, other in borders:
            outside.setdefault(number, {})[other] = self._branch(tree, number, other, former, lag)
        tops: dict[str, int] = {}
        inside = {}
        for number in region:
            names = tree.potentials[number].table.names
            inside[number] = self._messages(tuple(name for name in names if tops.setdefault(name, number) == number))
        for number, messages in collect(tree, region, inside.__getitem__, outside, both_ways=False):
            self._write(tree.potentials[number].table, by_separator(messages), tree.total, changed)

    @staticmethod
    def _borders(tree: Tree, region: Sequence[int]) -> list[tuple[int, int]]:
        """Cliques of the region with their neighbours outside."""
        members = set(region)
        return [
            (number, other) for number in region for other in tree.layout.neighbours[number] if other not in members
        ]

    def _places(self, name: str) -> slice:
        start = self.starts[self.index[name]]
        return slice(start, start + self._values[self.index[name]])

    def _cells(self, names: Iterable[str]) -> int:
        return prod(int(self._groups[self.index[name]]) for name in names)

    def _messages(self, names: Names) -> Sequence[Message]:
        """Attributes of a clique: all as one message, or one by one if they have many cells."""
        if names not in self._inside:
            if len(names) > 1 and self._cells(names) > WIDE:
                self._inside[names] = [one for name in names for one in self._messages((name,))]
            elif names:
                sizes = [int(self._groups[self.index[name]]) for name in names]
                given = []
                for name, size in zip(names, sizes, strict=True):
                    values = self._coarse[name].spread(np.eye(size), 0) if name in self._coarse else np.eye(size)
                    given.append(
                        np.broadcast_to(Table((ROWS, name), values).align((ROWS, *names)), (len(values), *sizes))
                    )
                self._inside[names] = [
                    Message(
                        given=Table((ROWS, *names), np.concatenate(given)),
                        attributes=np.array([self.index[name] for name in names]),
                        places=np.concatenate([np.r_[self._places(name)] for name in names]),
                        close=np.ones(len(names), dtype=np.bool_),
                    )
                ]
            else:
                self._inside[names] = []
        return self._inside[names]

    def _branch(self, tree: Tree, start: int, first: int, former: Collection[int], lag: float) -> Message:
        """What lies beyond the region, given the separator of a clique and one outside; as far as it depends on it."""
        layout = tree.layout
        separator = layout.separator(start, first)
        border = tree.potentials[start].table.project(separator)
        shares = border.cells.reshape(-1) / tree.total
        # The other way round on the way out: the distribution of the border's cells, given the next separator.
        outward = Table((ROWS, *separator), np.eye(shares.size).reshape(-1, *border.shape))
        waiting = [(start, first, outward, True)]
        branches: list[tuple[Message, Floats, bool]] = []
        while waiting:
            before, number, outward, near = waiting.pop()
            table = tree.potentials[number].table
            names = tuple(name for name in table.names if name not in layout.cliques[before])
            branches += [(one, joint(table, one.given, outward) / tree.total, near) for one in self._messages(names)]
            for other in layout.neighbours[number]:
                if other == before:
                    continue
                common = layout.separator(number, other)
                further = conditional(table, outward, common)
                weights = table.project(common).cells.reshape(-1) / tree.total
                moves = np.abs(further.cells.reshape(shares.size, -1) - shares[:, None]).sum(axis=0)
                depends = near and float(moves @ weights) > lag
                if depends or other in former:
                    waiting.append((number, other, further, depends))
        nothing = np.empty(0, dtype=np.int64)
        rows = np.concatenate([np.empty((0, shares.size)), *(cells for _, cells, _ in branches)]) / shares
        return Message(
            given=Table((ROWS, *separator), rows.reshape(-1, *border.shape)),
            attributes=np.concatenate([nothing, *(one.attributes for one, _, _ in branches)]),
            places=np.concatenate([nothing, *(one.places for one, _, _ in branches)]),
            close=np.concatenate([nothing > 0, *(np.full(len(one.attributes), near) for one, _, near in branches)]),
        )

    def _write(self, table: Table, groups: Sequence[Sequence[Message]], total: float, changed: Flags) -> None:
        """All pairs of attributes that a clique knows by different messages."""
        pairs = list(combinations(map(merged, groups), 2))
        for group in groups:
            pairs += [(one, merged(group[place + 1 :])) for place, one in enumerate(group[:-1])]
            # Attributes that come in one message are pairs, too.
            pairs += [
                (one, one)
                for one in group
                if len(one.attributes) > 1 and one is self._inside.get(one.separator, [None])[0]
            ]
        for left, right in pairs:
            weights = joint(table, left.given, right.given)
            excess = weights / total - np.outer(self.one[left.places], self.one[right.places])
            self.excess[left.places[:, None], right.places] = excess
            self.excess[right.places[:, None], left.places] = excess.T
            close = np.outer(left.close, right.close)
            rows, columns = left.attributes[:, None], right.attributes[:, None]
            self._close[rows, right.attributes] = close
            self._close[columns, left.attributes] = close.T
            changed[rows, right.attributes] = True
            changed[columns, left.attributes] = True
