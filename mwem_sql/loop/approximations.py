"""What the state answers to every query of a workload, q(A): kept from round to round, and computed again only where the state has changed.

Owns the choice between the ways to do so for very many queries. Public all of it. Changes no state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats, Integers
from mwem_sql.loop.alike import Alike, Asked
from mwem_sql.model.marginals import TwoWay, three_way
from mwem_sql.model.state import State
from mwem_sql.model.tree import Tree

MANY = 1000
"""Queries from which on they are answered from two-way marginals where possible. Smaller: small workloads pay for a matrix over all classes."""
BULK = 50
"""Three-way marginals of one shape from which on they are worked out together. Smaller: messages through a whole tree for a few of them."""
LARGEST = 8000
"""Classes of all attributes together up to which all two-way marginals are kept: a matrix of half a gigabyte."""


class Approximations:
    """The answers of a state to the queries as they are: up to their bounds. They may lag behind it by `lag` records per marginal."""

    def __init__(self, asked: Asked, lag: float = 0.0) -> None:
        self._asked = asked
        self._lag = lag
        shapes = [group.shape for group in asked.groups if group.shape]
        plain = {place for group in asked.groups if group.shape for place in np.unique(group.members).tolist()}
        is_worth_it = len(asked.queries) > MANY or any(len(shape) == 2 for shape in shapes)
        self._pairs: TwoWay | None = None
        if is_worth_it and int(asked.sizes.sum()) <= LARGEST:
            sizes = dict(zip(asked.names, asked.sizes.tolist(), strict=True))
            self._pairs = TwoWay(sizes, {asked.names[place] for place in plain})
        self._answers: dict[int, Floats] = {}
        self._total = 0.0
        self._splits = 0
        self._seen = 0

    def news(self, state: State, *, everything: bool = False) -> tuple[Integers, list[Floats]]:
        """The queries whose answers are not what they were, or `everything`; and vectors that hold their answers one after the other.

        They are on loan: the next call writes to them.
        """
        is_first = self._total == 0
        changed = self._changed(state)
        is_rescaled = is_first or abs(state.total - self._total) > self._lag
        if is_rescaled:
            for kept in self._answers.values():
                np.multiply(kept, state.total / self._total, out=kept)
            self._total = state.total
        numbers: list[Integers] = [np.empty(0, dtype=np.int64)]
        answers: list[Floats] = []
        for group in self._asked.groups:
            stale = np.arange(len(group.numbers)) if is_first else group.touched(changed)
            where = np.arange(len(group.numbers)) if is_rescaled or everything else stale
            for part, products in self._parts(state, group, where):
                numbers.append(group.numbers[part])
                if products is None:
                    answers += self._from_state(state, group, part, stale)
                elif isinstance(products, Tree):
                    assert group.shape is not None
                    marginals = three_way(products, self._asked.index, group.members[part], group.shape)
                    answers.append(marginals * state.total)
                else:
                    answers.append(self._products(group, part, products) * state.total)
        return np.concatenate(numbers), answers

    def _changed(self, state: State) -> Flags:
        """Pairs of attributes whose joint distribution is not what it was; on the diagonal, attributes."""
        if self._pairs is not None:
            for name in state.partitions.splits[self._splits :]:
                self._pairs.regroup(name, state.partitions[name])
            self._splits = len(state.partitions.splits)
            return self._pairs.refresh(state.trees, self._lag / state.total)
        changed = np.zeros((len(self._asked.index), len(self._asked.index)), dtype=np.bool_)
        seen = self._seen
        for tree in state.trees:
            if tree.stamp > seen:
                places = [self._asked.index[name] for name in tree.attributes]
                changed[places, :] = changed[:, places] = True
                self._seen = max(self._seen, tree.stamp)
        return changed

    def _parts(
        self, state: State, group: Alike, where: Integers
    ) -> Iterator[tuple[Integers, list[tuple[int, ...]] | Tree | None]]:
        """Some queries of a group, by how they are products of one- and two-way marginals; if they are not, with their tree, or None."""
        if not len(where):
            return
        if group.shape is None or self._pairs is None:
            yield where, None
            return
        if len(group.shape) <= 2:
            yield where, [tuple(range(len(group.shape)))]
            return
        trees = np.empty(len(self._asked.index), dtype=np.int64)
        for number, tree in enumerate(state.trees):
            trees[[self._asked.index[name] for name in tree.attributes]] = number
        # Which of the attributes share a tree, as one number: few are possible.
        links = list(combinations(range(len(group.shape)), 2))
        owners = trees[group.members[where]]
        pattern = np.zeros(len(where), dtype=np.int64)
        for bit, (one, other) in enumerate(links):
            pattern |= (owners[:, one] == owners[:, other]).astype(np.int64) << bit
        for kind in np.unique(pattern):
            together = [link for bit, link in enumerate(links) if kind >> bit & 1]
            joined = [axis for link in together for axis in link]
            alone = [(axis,) for axis in range(len(group.shape)) if axis not in joined]
            alike = pattern == kind
            if len(set(joined)) == len(joined):
                yield where[alike], [*together, *alone]
            elif len(group.shape) > 3 or len(group.numbers) < BULK:
                yield where[alike], None
            else:
                for number in np.unique(owners[alike, 0]).tolist():
                    tree = state.trees[number]
                    is_whole = state.partitions.coarse.isdisjoint(tree.attributes)
                    yield where[alike & (owners[:, 0] == number)], tree if is_whole else None

    def _from_state(self, state: State, group: Alike, where: Integers, stale: Integers) -> list[Floats]:
        """Answers that only the state can give; those that are not stale are remembered."""
        numbers = group.numbers[where].tolist()
        old = set(group.numbers[stale].tolist())
        new = [number for number in numbers if number in old or number not in self._answers]
        shares = state.answers([self._asked.queries[number].shares for number in new])
        for number, bound, answer in zip(new, self._asked.bounds[new].tolist(), shares, strict=True):
            self._answers[number] = answer * bound if bound > 1 else answer
        return [self._answers[number] for number in numbers]

    def _products(self, group: Alike, where: Integers, parts: Sequence[tuple[int, ...]]) -> Floats:
        """Products of one- and two-way marginals, as shares."""
        assert self._pairs is not None and group.shape is not None
        begins = self._pairs.starts[group.members[where]]
        out = np.ones(1)
        for axes in parts:
            places = [begins[:, axis, None] + np.arange(group.shape[axis]) for axis in axes]
            marginal = self._pairs.one[places[0]]
            if len(axes) == 2:
                marginal = marginal[:, :, None] * self._pairs.one[places[1]][:, None, :]
                marginal += self._pairs.excess[places[0][:, :, None], places[1][:, None, :]]
            shape = [size if axis in axes else 1 for axis, size in enumerate(group.shape)]
            out = out * marginal.reshape(len(where), *shape)
        return out.reshape(-1)
