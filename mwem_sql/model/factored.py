"""A distribution as a product: trees of factors over disjoint sets of attributes, scaled to a total.

Owns how queries are answered from it, and how trees make room for attributes that have to be together. Nothing here changes
the distribution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import inf, isfinite

import numpy as np

from mwem_sql.algebra.answers import answer_all
from mwem_sql.algebra.arrays import Floats, Places
from mwem_sql.algebra.factor import Factor, outer
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.model.cliques import Clique, total_cells
from mwem_sql.model.layout import Room, added_cells, make_room, rearrange
from mwem_sql.model.tree import Tree

Part = tuple[Block, ...]


class Factored:
    """Trees of factors over disjoint sets of attributes; the distribution is their product, scaled to `total`.

    Attributes that no measured query has in common, directly or through others, are in different trees; a tree of one
    factor is the paper's form. Attributes of one class are never a reason to join anything: they tell nothing apart.
    """

    def __init__(self, trees: Iterable[Tree], attributes: Sequence[str], total: float) -> None:
        """For the state, whose callers have `uniform` and `from_table`."""
        held = list(trees)
        self.attributes = tuple(attributes)
        self._total = positive(total)
        self._tree = {name: tree for tree in held for name in tree.attributes}
        self._trees = held
        self._classes = {
            name: size for tree in held for factor in tree.cliques
            for name, size in zip(factor.attributes, factor.shape, strict=True)
        }  # fmt: skip
        names = sorted(chain.from_iterable(tree.attributes for tree in held))
        if names != sorted(self.attributes) or len(names) != len(self._tree):
            raise ValueError("a state has every attribute in one tree")

    @property
    def total(self) -> float:
        return self._total

    @property
    def trees(self) -> list[Tree]:
        """For reading: only the state changes them. Their totals are their own: what counts is the shares of it."""
        return self._trees

    @property
    def factors(self) -> list[Factor]:
        """All cliques of all trees, up to date. For reading: only the state changes them."""
        for tree in self.trees:
            tree.calibrate()
            tree.rescale(self._total)
        return [clique for tree in self.trees for clique in tree.cliques]

    @property
    def cells(self) -> int:
        return sum(tree.cells for tree in self.trees)

    def rescale(self, total: float) -> None:
        # The trees follow when someone looks at them.
        self._total = positive(total)

    def shape(self, attributes: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._classes[name] for name in attributes)

    def marginal(self, attributes: Sequence[str]) -> Floats:
        """Axes in that order; sums to the total."""
        names = tuple(attributes)
        return self._marginals([names])[names].reshape(self.shape(names)).copy()

    def answer(self, query: LinearQuery) -> Floats:
        """One number per cell."""
        return self.answers([query])[0]

    def answers(self, queries: Sequence[LinearQuery]) -> list[Floats]:
        """One array per query; what queries have in common is computed once."""
        split = [self._parts(query) for query in queries]
        known = self._answer_parts(dict.fromkeys(part for parts in split for _, part in parts))
        alike: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for number, (query, parts) in enumerate(zip(queries, split, strict=True)):
            shape = tuple([block.size for block in query.blocks])
            alike.setdefault((shape, *[axes for axes, _ in parts]), []).append(number)
        answers: dict[int, Floats] = {}
        for (shape, *places), numbers in alike.items():
            pieces = [
                ((0, *(axis + 1 for axis in axes)), np.stack([known[split[number][part][1]] for number in numbers]))
                for part, axes in enumerate(places)
            ]
            pieces = pieces or [((0,), np.full(len(numbers), self._total))]
            together = outer(pieces, (len(numbers), *shape), self._total)
            answers.update(zip(numbers, together.reshape(len(numbers), -1), strict=True))
        return [answers[number] for number in range(len(queries))]

    def cells_with(self, attributes: Sequence[str], split: Mapping[str, int] | None = None) -> int:
        """Cells of the whole state if a query over these attributes were measured, after attributes are split to so many classes."""
        more = {name: count for name, count in (split or {}).items() if count > self._classes[name]}
        classes = {**self._classes, **more} if more else self._classes
        needed = frozenset(name for name in attributes if classes[name] > 1)
        trees, rooms = self._plan(needed, classes)
        cells = self.cells
        for tree in self.trees_of(more):
            for number in {number for name in more.keys() & tree.attributes for number in tree.layout.holders[name]}:
                cells += total_cells([tree.layout.cliques[number]], classes) - tree.cliques[number].weights.size
        return cells + (added_cells([tree.layout for tree in trees], rooms, needed, classes) if rooms else 0)

    def split(self, attribute: str, parents: Places, shares: Floats) -> None:
        """Give an attribute more classes: new class i has its share of what class `parents[i]` had.

        What was measured on the old ones is fitted again once it is given on the new ones.
        """
        self._tree[attribute].split(attribute, parents, shares)
        self._classes[attribute] = len(parents)

    def join(self, attributes: Sequence[str]) -> None:
        """Make room for these attributes in one clique; the distribution stays as it is."""
        needed = frozenset(name for name in attributes if self._classes[name] > 1)
        trees, rooms = self._plan(needed, self._classes)
        if rooms:
            layout = rearrange([tree.layout for tree in trees], rooms, needed)
            held = {clique for tree in trees for clique in tree.layout.cliques}
            # Long axes last: that makes for long inner loops in every sum.
            order = {
                clique: tuple(sorted(clique, key=lambda name: (self._classes[name], name)))
                for clique in layout.cliques if clique not in held
            }  # fmt: skip
            for tree, room in zip(trees, rooms, strict=True):
                tree.rescale(self._total)
                tree.refocus(room.old)
            weights = self._marginals(order.values())
            new = {clique: self._new_factor(names, weights[names]) for clique, names in order.items()}
            joined = Tree.joined(trees, layout, new, needed, self._total)
            self._tree.update(dict.fromkeys(joined.attributes, joined))
            self._trees = [*(tree for tree in self._trees if tree not in trees), joined]
        elif needed:
            self._tree[min(needed)].need(needed)

    def trees_of(self, attributes: Iterable[str]) -> list[Tree]:
        """The trees that hold these attributes. For reading: only the state changes them."""
        return list({id(tree): tree for tree in map(self._tree.__getitem__, attributes)}.values())

    def _plan(self, needed: Clique, classes: Mapping[str, int]) -> tuple[list[Tree], list[Room]]:
        """The trees that measuring a query over these attributes would replace by one, and where; maybe none."""
        trees = self.trees_of(sorted(needed))
        if not trees or (len(trees) == 1 and trees[0].home(needed) is not None):
            return [], []
        return trees, [
            make_room(tree.layout, needed.intersection(tree.attributes), tree.sets, classes) for tree in trees
        ]

    def _new_factor(self, names: tuple[str, ...], weights: Floats) -> Factor:
        cells = np.array(weights, dtype=np.float64).reshape(-1)
        factor = Factor(names, self.shape(names), cells, -inf)
        factor.lift(self._total)
        return factor

    def _parts(self, query: LinearQuery) -> list[tuple[tuple[int, ...], Part]]:
        """The query as a product of parts that have no factor in common: positions of the blocks, and the blocks."""
        parts: list[tuple[set[int], tuple[int, ...]]] = []
        for position, block in enumerate(query.blocks):
            touched = {id(self._tree[name]) for name in block.attributes}
            members: tuple[int, ...] = (position,)
            for part in [part for part in parts if not touched.isdisjoint(part[0])]:
                parts.remove(part)
                touched |= part[0]
                members = part[1] + members
            parts.append((touched, members))
        return [(tuple(sorted(members)), tuple(query.blocks[i] for i in sorted(members))) for _, members in parts]

    def _answer_parts(self, parts: Iterable[Part]) -> dict[Part, Floats]:
        alike: dict[tuple[tuple[str, ...], ...], list[Part]] = {}
        for part in parts:
            alike.setdefault(tuple([block.attributes for block in part]), []).append(part)
        flat = {names: tuple(chain.from_iterable(names)) for names in alike}
        marginals = self._marginals(set(flat.values()))
        known: dict[Part, Floats] = {}
        for names, group in alike.items():
            answers = answer_all(list(map(LinearQuery, group)), marginals[flat[names]], prefix_sums=False)
            known.update(zip(group, answers, strict=True))
        return known

    def _marginals(self, wanted: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], Floats]:
        """Row-major in the order asked for, without axes of one class; arrays may be views of the weights."""
        parts = {
            names: [(tree, tuple(n for n in names if n in tree.attributes)) for tree in self.trees_of(names)]
            for names in wanted
        }
        held: dict[int, tuple[Tree, set[tuple[str, ...]]]] = {}
        for tree, own in chain.from_iterable(parts.values()):
            tree.rescale(self._total)
            held.setdefault(id(tree), (tree, set()))[1].add(own)
        marginals = {key: tree.marginals(sets) for key, (tree, sets) in held.items()}
        found = {}
        for names, pieces in parts.items():
            placed = [([names.index(n) for n in own], marginals[id(tree)][own]) for tree, own in pieces]
            found[names] = outer(placed, self.shape(names), self._total)
        return found


def positive(total: float) -> float:
    if not (isfinite(total) and total > 0):
        raise ValueError("a state's total is positive")
    return total
