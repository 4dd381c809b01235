"""The two-way marginals of a whole state as shares of the total, to score every pair in every round. Only reads the trees.

Kept as the one-way marginals and what each pair has beyond their product: most pairs have nothing. What changed in a tree
is worked out from the cliques that changed outwards, as far as anything depends on them: messages run along the tree for all
attributes at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats
from mwem_sql.algebra.factor import Factor
from mwem_sql.model.cliques import Clique
from mwem_sql.model.grid import Grid
from mwem_sql.model.messages import Side, grouped, joint, merged, message, passed
from mwem_sql.model.tree import Names, Tree

WIDE = 512
"""Cells of a separator beyond which all pairs of a tree are worked out again, and attributes one by one: to ask what depends on it would cost more."""


class TwoWay:
    """One-way marginals, and the excess of two-way marginals over their products, by place: an attribute's values in a row.

    An attribute's values are its classes; or, if these are not in `read`, the groups of them that the state has.
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
        self._sides: dict[Names, list[Side]] = {}
        # Of each attribute, the groups that its cliques have, and its values; the grid between the two where they differ.
        self._read = sizes.keys() if read is None else read
        self._groups, self._values = self.sizes.copy(), self.sizes.copy()
        self._coarse: dict[str, Grid] = {}

    def regrid(self, name: str, grid: Grid) -> None:
        """Follow an attribute whose classes are in other groups by now."""
        place = self.index[name]
        if self._groups[place] > 1:  # or it is in no clique with others yet
            self._sides = {names: sides for names, sides in self._sides.items() if name not in names}
        self._groups[place] = grid.count
        self._coarse.pop(name, None)
        if name not in self._read:
            self._values[place] = grid.count
            # As no share is: weights of other groups are a change whatever they are.
            self.one[self._places(name)] = -1.0
        elif not grid.is_whole:
            self._coarse[name] = grid

    def refresh(self, trees: Iterable[Tree], lag: float) -> Flags:
        """Follow the trees, to within `lag` in the sum over a pair's cells. Which pairs changed; on the diagonal, which attributes."""
        changed = np.zeros_like(self._close)
        regions: list[tuple[Tree, list[int]]] = []
        latest = self._seen
        for tree in trees:
            if tree.stamp <= self._seen:
                continue
            tree.settle(lag)
            moved = [number for number, clique in enumerate(tree.cliques) if clique.stamp > self._seen]
            if moved:
                latest = max(latest, tree.stamp)
                regions += [(tree, region) for region in tree.layout.connected(moved)]
        self._seen = latest
        for tree, region in regions:
            own = self._one_way(tree, region, lag)
            changed[own, :] = changed[:, own] = True
        for tree, region in regions:
            if len(tree.attributes) > 1:
                self._follow(tree, region, lag, changed)
        return changed

    def _follow(self, tree: Tree, region: Sequence[int], lag: float, changed: Flags) -> None:
        """Work out all pairs that have a clique of the region on the way from one to the other."""
        layout = tree.layout
        if any(self._cells(separator) > WIDE for separator in self._borders(tree, region)):
            region = range(len(layout.cliques))
        # Whatever was close to the region before is looked at again, so that nothing stays that no longer holds.
        own = list({self.index[name] for number in region for name in layout.cliques[number]})
        once = np.any(self._close[own], axis=0).tolist()
        former = set(layout.spanning([*region, *(top for name, top in layout.tops.items() if once[self.index[name]])]))
        sides: dict[int, list[Side]] = {number: [] for number in region}
        tops: dict[str, int] = {}
        for number in region:
            names = tuple(name for name in tree.cliques[number].attributes if tops.setdefault(name, number) == number)
            sides[number] += self._own(names)
            for other in layout.neighbours[number]:
                if other not in sides:
                    sides[number].append(self._branch(tree, number, other, former, lag))
        for number in reversed(region):
            self._write(tree.cliques[number], grouped(sides[number]), tree.total, changed)
            if number != region[0]:
                shared = tuple(sorted(layout.separator(number)))
                sides[layout.parents[number]].append(message(tree.cliques[number], sides[number], shared))

    def _one_way(self, tree: Tree, region: Sequence[int], lag: float) -> list[int]:
        """Write the marginals of the region's attributes that differ by more than `lag`; their numbers."""
        found: dict[str, Floats] = {}
        for number in region:
            names = [(name,) for name in tree.cliques[number].attributes if name not in found]
            if names:
                found.update((name, marginal) for (name,), marginal in tree.cliques[number].marginals(names).items())
        moved = []
        for name, marginal in found.items():
            share = marginal / tree.total
            if name in self._coarse:
                share = self._coarse[name].spread(share, 0)
            if float(np.abs(share - self.one[self._places(name)]).sum()) > lag:
                self.one[self._places(name)] = share
                moved.append(self.index[name])
        return moved

    def _places(self, name: str) -> slice:
        start = self.starts[self.index[name]]
        return slice(start, start + self._values[self.index[name]])

    def _cells(self, names: Iterable[str]) -> int:
        return prod(int(self._groups[self.index[name]]) for name in names)

    @staticmethod
    def _borders(tree: Tree, region: Sequence[int]) -> Iterator[Clique]:
        inside = set(region)
        for number in region:
            for other in tree.layout.neighbours[number]:
                if other not in inside:
                    yield tree.layout.cliques[number] & tree.layout.cliques[other]

    def _own(self, names: Names) -> Sequence[Side]:
        """Attributes of a clique that it knows as such: all as one side, or one by one if they have many cells."""
        if names not in self._sides:
            if len(names) > 1 and self._cells(names) > WIDE:
                self._sides[names] = [side for name in names for side in self._own((name,))]
            elif names:
                sizes = [int(self._groups[self.index[name]]) for name in names]
                codes = np.unravel_index(np.arange(prod(sizes)), sizes)
                given = []
                for name, size, code in zip(names, sizes, codes, strict=True):
                    alike = (np.arange(size)[:, None] == code).astype(np.float64)
                    given.append(self._coarse[name].spread(alike, 0) if name in self._coarse else alike)
                attributes = np.array([self.index[name] for name in names])
                places = np.concatenate([np.r_[self._places(name)] for name in names])
                close = np.ones(len(names), dtype=np.bool_)
                self._sides[names] = [Side(names, np.concatenate(given), attributes, places, close)]
            else:
                self._sides[names] = []
        return self._sides[names]

    def _branch(self, tree: Tree, start: int, first: int, former: Collection[int], lag: float) -> Side:
        """What lies beyond the region, through what a clique of it shares with one outside; as far as it depends on that."""
        layout = tree.layout
        shared = tuple(sorted(layout.cliques[start] & layout.cliques[first]))
        border = tree.cliques[start].marginal(shared).reshape(-1) / tree.total
        nothing = np.empty(0, dtype=np.int64)
        # The other way round on the way out: the distribution of what is shared, given what the next clique has in common.
        waiting = [
            (start, first, Side(shared, np.eye(border.size), nothing, nothing, np.empty(0, dtype=np.bool_)), True)
        ]
        found: list[Side] = []
        joints, close = [np.empty((border.size, 0))], [np.empty(0, dtype=np.bool_)]
        while waiting:
            before, number, outward, near = waiting.pop()
            clique = tree.cliques[number]
            for side in self._own(tuple(name for name in clique.attributes if name not in layout.cliques[before])):
                found.append(side)
                joints.append(joint(clique, outward, side) / tree.total)
                close.append(np.full(len(side.attributes), near))
            for other in layout.neighbours[number]:
                if other == before:
                    continue
                common = tuple(sorted(layout.cliques[number] & layout.cliques[other]))
                further = passed(clique, outward, common)
                weights = clique.marginal(common).reshape(-1) / tree.total
                depends = near and float(np.abs(further.given - border[:, None]).sum(axis=0) @ weights) > lag
                if depends or other in former:
                    waiting.append((number, other, further, depends))
        return Side(
            shared, (np.concatenate(joints, axis=1) / border[:, None]).T, np.concatenate([nothing, *(side.attributes for side in found)]),
            np.concatenate([nothing, *(side.places for side in found)]), np.concatenate(close),
        )  # fmt: skip

    def _write(self, clique: Factor, groups: Sequence[Sequence[Side]], total: float, changed: Flags) -> None:
        """All pairs of attributes that a clique knows through different sides."""
        known = [merged(group) for group in groups]
        pairs = list(combinations(known, 2))
        for group in groups:
            pairs += [(side, merged(group[place + 1 :])) for place, side in enumerate(group[:-1])]
            # Attributes that are seen as one side are pairs, too.
            pairs += [
                (side, side)
                for side in group
                if len(side.attributes) > 1 and side is self._sides.get(side.through, [None])[0]
            ]
        for left, right in pairs:
            excess = joint(clique, left, right) / total - np.outer(self.one[left.places], self.one[right.places])
            self.excess[left.places[:, None], right.places] = excess
            self.excess[right.places[:, None], left.places] = excess.T
            close = np.outer(left.close, right.close)
            rows, columns = left.attributes[:, None], right.attributes[:, None]
            self._close[rows, right.attributes] = close
            self._close[columns, left.attributes] = close.T
            changed[rows, right.attributes] = True
            changed[columns, left.attributes] = True
