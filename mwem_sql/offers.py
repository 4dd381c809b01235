"""The candidates of a round: which of them the model has room for, and what the state answers to each.

Both are kept from round to round and computed again only where the state has changed. Public all of it: the
workload, the classes and the state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from mwem_sql.compiler.linear import Floats, LinearQuery
from mwem_sql.pairs import one_way, two_way
from mwem_sql.state import State
from mwem_sql.tree import Tree

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

FEW = 1000
"""Attribute sets for which a round may work out the triangulation; of more, only those that surely fit are offered."""
LARGEST = 8000
"""Classes of all attributes together up to which all two-way marginals are kept: a matrix of half a gigabyte."""


class Offers:
    """All queries of a workload, by number from 0; one state after the other asks about them."""

    def __init__(self, queries: Sequence[LinearQuery], sizes: Mapping[str, int], max_cells: int) -> None:
        """`sizes` are the class counts of all attributes; `max_cells` is for the whole state."""
        self._queries = queries
        self._max_cells = max_cells
        self._names = list(sizes)
        self._index = {name: place for place, name in enumerate(sizes)}
        self._sizes = np.array(list(sizes.values()), dtype=np.int64)
        self._starts = dict(zip(sizes, (np.cumsum(self._sizes) - self._sizes).tolist(), strict=True))
        sets: dict[frozenset[str], int] = {}
        self._set_of = np.array(
            [sets.setdefault(frozenset(n for n in q.attributes if sizes[n] > 1), len(sets)) for q in queries], dtype=np.int64
        )
        self._sets = [tuple(sorted(one)) for one in sets]
        self._widths: dict[int, tuple[Numbers, Numbers]] = {}
        for width in {len(one) for one in self._sets}:
            which = np.array([number for number, one in enumerate(self._sets) if len(one) == width], dtype=np.int64)
            members = np.array([[self._index[n] for n in self._sets[k]] for k in which], dtype=np.int64).reshape(len(which), width)
            self._widths[width] = (which, members)
        self._cells = np.array([query.cells for query in queries], dtype=np.int64)
        self._ends = np.cumsum(self._cells)
        # As shares of the total, so that a new total changes nothing here.
        self._flat = np.zeros(int(self._cells.sum()))
        self._seen: dict[str, tuple[int, int]] = {}
        self._kept: list[Tree] = []
        self._exact: dict[int, tuple[object, int]] = {}
        self._plan_pairs()

    def fitting(self, state: State) -> Flags:
        """For each query, whether the state would keep to its limit if it were measured."""
        room = self._max_cells - state.cells
        tree_of, together, tree_cells = self._structure(state)
        fits = np.zeros(len(self._sets), dtype=np.bool_)
        for which, members in self._widths.values():
            own = self._sizes[members].astype(np.float64).prod(axis=1)
            trees = tree_of[members]
            spans = np.zeros(len(which), dtype=np.bool_)
            apart = np.zeros(len(which), dtype=np.bool_)
            for one, other in combinations(range(members.shape[1]), 2):
                same = trees[:, one] == trees[:, other]
                spans |= same & ~together[members[:, one], members[:, other]]
                apart |= ~same
            # At worst a set that spans several cliques of a tree is added to all of them.
            worst = np.where(spans, tree_cells[trees].sum(axis=1) * own + own, apart * own)
            fits[which] = worst <= max(room, 0)
            open_ = which[worst > max(room, 0)]
            if len(open_) <= FEW:
                fits[open_] = [self._cells_with(state, int(number)) <= self._max_cells for number in open_]
        return np.asarray(fits[self._set_of])

    def answers(self, state: State, numbers: Numbers) -> Floats:
        """The answers to these queries (ascending), one after the other in one vector."""
        if not len(numbers):
            return np.empty(0)
        first = not self._kept
        changed = self._changed(state)
        if first or changed:
            self._refresh_pairs(state, changed)
            # The first time also queries of no attribute, which never change.
            stale = [n for n in self._rest if first or not changed.isdisjoint(self._queries[n].attributes)]
            for number, answer in zip(stale, state.answers([self._queries[n] for n in stale]), strict=True):
                self._flat[self._ends[number] - self._cells[number] : self._ends[number]] = answer / state.total
        # Runs of neighbours are copied as they are: with many cells an index for each would cost more than the answers.
        cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
        firsts, lasts = numbers[np.concatenate([[0], cuts])], numbers[np.concatenate([cuts - 1, [-1]])]
        runs = zip((self._ends - self._cells)[firsts].tolist(), self._ends[lasts].tolist(), strict=True)
        found = np.concatenate([self._flat[begin:end] for begin, end in runs])
        found *= state.total
        return np.asarray(found)

    def _structure(self, state: State) -> tuple[Numbers, Flags, Floats]:
        """Each attribute's tree, whether two attributes are in a clique together, and the cells of each tree."""
        trees = state.trees
        tree_of = np.zeros(len(self._names), dtype=np.int64)
        together = np.eye(len(self._names), dtype=np.bool_)
        for number, tree in enumerate(trees):
            tree_of[[self._index[name] for name in tree.attributes]] = number
            for clique in tree.layout.cliques if len(tree.attributes) > 1 else ():
                own = np.array([self._index[name] for name in clique])
                together[own[:, None], own] = True
        return tree_of, together, np.array([tree.cells for tree in trees], dtype=np.float64)

    def _cells_with(self, state: State, number: int) -> int:
        """Kept while the trees of the set's attributes have the same cliques."""
        others = state.cells
        layouts = tuple(tree.layout for tree in state.trees_of(self._sets[number]))
        known = self._exact.get(number)
        if known is None or known[0] != layouts:
            known = (layouts, state.cells_with(self._sets[number]) - others)
            self._exact[number] = known
        return others + known[1]

    def _changed(self, state: State) -> set[str]:
        """Attributes whose tree is not what it was; they are taken to be seen now."""
        seen = {name: (id(tree), tree.version) for tree in state.trees for name in tree.attributes}
        changed = {name for name, stamp in seen.items() if self._seen.get(name) != stamp}
        self._seen = seen
        # A tree that is gone must not be taken for a new one at its address.
        self._kept = state.trees
        return changed

    def _plan_pairs(self) -> None:
        """Find the queries that are plain marginals of one or two attributes: entries of a matrix."""
        classes = int(self._sizes.sum())
        plain = [
            number for number, query in enumerate(self._queries)
            if len(query.blocks) in {1, 2} and classes <= LARGEST and all(len(b.attributes) == 1 and b.is_identity for b in query.blocks)
        ]  # fmt: skip
        self._rest = sorted(set(range(len(self._queries))) - set(plain))
        shapes: dict[tuple[int, ...], list[int]] = {}
        for number in plain:
            shapes.setdefault(self._queries[number].shape, []).append(number)
        self._one = np.zeros(classes)
        self._two = np.zeros((classes, classes)) if any(len(shape) == 2 for shape in shapes) else np.zeros((0, classes))
        # Entries of the matrix or, behind it, of the vector.
        places, targets = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for shape, numbers in shapes.items():
            begins = np.array([[self._starts[block.attributes[0]] for block in self._queries[n].blocks] for n in numbers])
            inside = np.arange(shape[0])
            if len(shape) == 1:
                entries = self._two.size + begins[:, :1] + inside
            else:
                across = (begins[:, :1] + inside)[:, :, None] * classes
                entries = across + (begins[:, 1:] + np.arange(shape[1]))[:, None, :]
            first = (self._ends - self._cells)[numbers]
            places.append(entries.reshape(-1))
            targets.append((first[:, None] + np.arange(int(np.prod(shape)))).reshape(-1))
        order = np.argsort(np.concatenate(targets), kind="stable")
        self._places = np.concatenate(places)[order]
        self._targets = np.concatenate(targets)[order]

    def _refresh_pairs(self, state: State, changed: Collection[str]) -> None:
        if not self._places.size:
            return
        trees = [tree for tree in state.trees if not tree.attributes.isdisjoint(changed)]
        for tree in trees:
            one_way(tree, self._starts, self._one)
        if self._two.size:
            rows = np.concatenate([np.arange(self._starts[n], self._starts[n] + self._sizes[self._index[n]]) for n in self._names if n in changed])
            fresh = np.outer(self._one[rows], self._one)
            if len(rows) == len(self._one):
                self._two[:] = fresh
            else:
                self._two[rows] = fresh
                self._two[:, rows] = fresh.T
            for tree in trees:
                if len(tree.attributes) > 1:
                    two_way(tree, self._starts, self._two)
        split = self._places < self._two.size
        self._flat[self._targets[split]] = self._two.reshape(-1)[self._places[split]]
        self._flat[self._targets[~split]] = self._one[self._places[~split] - self._two.size]
