"""What the state answers to every query of a workload, q(A), kept from round to round.

Owns the groups of queries that are worked on together (of hundreds of thousands none is looked at by itself), and the
choice between the ways to answer very many. An answer is computed again only where the state has changed. Public all of
it. Changes no state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats, Integers
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.queries import Queries, distinct_rows
from mwem_sql.algebra.sets import distinct
from mwem_sql.model.marginals import TwoWay, three_way
from mwem_sql.model.state import State
from mwem_sql.model.tree import Tree


@dataclass(frozen=True, eq=False, kw_only=True)
class Group:
    """Queries over the same number of attributes; if they are plain marginals, of the same shape, too.

    `span` are their numbers again, as a slice where they are neighbours. `members` has a row of attributes for each.
    `sets` has each row once, in any order of its attributes; `set_of` says which is whose. `links` are every two
    attributes of each set, as places in a matrix over attributes; of a single one, on its diagonal. `at` leads back,
    from such a place to the query, if each has one of its own. `cells` are those of a plain marginal; of the others,
    `changes` says how often what is asked changes along each attribute from a class to the next, and sets differ in
    that, too.
    """

    numbers: Integers
    span: slice | Integers
    members: Integers
    shape: tuple[int, ...] | None
    sets: Integers
    cells: Floats | None
    changes: Integers | None
    set_of: Integers | slice
    links: list[Integers]
    at: Integers | None

    def linked(self, places: Integers) -> Integers:
        """The queries, by place in the group, whose link is one of these."""
        assert self.at is not None
        queries = self.at[places]
        return queries[queries >= 0]

    def touched(self, flags: Flags) -> Integers:
        """The queries, by place in the group, one of whose links is flagged."""
        if self.at is not None:
            return self.linked(np.flatnonzero(flags))
        sets = np.zeros(len(self.sets), dtype=np.bool_)
        for link in self.links:
            sets |= flags.take(link)
        return np.flatnonzero(sets[self.set_of])


class GroupedQueries:
    """All queries of a workload, by number from 0, and the attributes that they are about, by place."""

    def __init__(self, queries: Sequence[LinearQuery], sizes: Mapping[str, int]) -> None:
        """`sizes` are the class counts of all attributes."""
        self.queries = Queries.of(queries)
        self.names = list(sizes)
        self.index = {name: place for place, name in enumerate(sizes)}
        self.sizes = np.array(list(sizes.values()), dtype=np.int64)
        # Of each query, its cells and the most that a record adds to one of them.
        self.cells, self.bounds = self.queries.cells, self.queries.bounds
        self.groups = list(self._groups())

    def _groups(self) -> Iterator[Group]:
        ranks, changes = self.queries.attribute_ranks(self.index), self.queries.changes()
        for width in np.unique(self.queries.widths).tolist():
            numbers, rows = self.queries.of_width(width, ranks)
            is_plain = self.queries.are_marginals[numbers]
            shapes, _, shape_of = distinct_rows(self.sizes[rows[is_plain]], int(self.sizes.max(initial=0)) + 1)
            for shape in range(len(shapes)):
                plain = np.flatnonzero(is_plain)[shape_of == shape]
                yield self._group(numbers[plain], rows[plain], None)
            if not is_plain.all():
                _, turns = self.queries.of_width(width, changes)
                yield self._group(numbers[~is_plain], rows[~is_plain], turns[~is_plain])

    def _group(self, numbers: Integers, members: Integers, changes: Integers | None) -> Group:
        width = members.shape[1]
        ordered, most = np.sort(members, axis=1), len(self.index)
        if changes is not None:
            ordered = np.append(ordered, np.take_along_axis(changes, np.argsort(members, axis=1), axis=1), axis=1)
            most = max(most, 1 + int(changes.max(initial=0)))
        sets, _, which = distinct_rows(ordered, most)
        is_distinct = len(sets) == len(numbers)
        if is_distinct:
            sets = ordered
        sets, turns = sets[:, :width], sets[:, width:]
        links = [
            sets[:, one] * len(self.index) + sets[:, other]
            for one, other in (combinations(range(width), 2) if width != 1 else [(0, 0)])
        ]
        at = None
        if is_distinct and len(links) == 1 and (changes is None or len(distinct(links[0])) == len(numbers)):
            at = np.full(len(self.index) ** 2, -1, dtype=np.int64)
            at[links[0]] = np.arange(len(numbers))
        shape = None if changes is not None else tuple(self.sizes[members[0]].tolist())
        return Group(
            numbers=numbers,
            span=slice(numbers[0], numbers[-1] + 1) if np.ptp(numbers) + 1 == len(numbers) else numbers,
            members=members,
            shape=shape,
            sets=sets,
            cells=None if shape is None else np.array([np.prod(shape, dtype=np.float64)]),
            changes=None if shape is not None else turns,
            set_of=slice(None) if is_distinct else which,
            links=links,
            at=at,
        )


TWO_WAY_FROM = 1000
"""Queries from which on two-way marginals answer them where possible. Smaller: small workloads pay for a matrix over
all classes."""
BULK = 50
"""Three-way marginals of one shape from which on they are worked out together. Smaller: messages through a whole tree
for a few of them."""
LARGEST = 8000
"""Classes of all attributes together up to which all two-way marginals are kept: a matrix of half a gigabyte."""


class Approximations:
    """The answers of a state to the queries, in parts of their bounds, at most `lag` records per marginal behind."""

    def __init__(
        self, queries: GroupedQueries, lag: float = 0.0, *, two_way_from: int = TWO_WAY_FROM, bulk: int = BULK
    ) -> None:
        self._queries = queries
        self._lag = lag
        self._bulk = bulk
        shapes = [group.shape for group in queries.groups if group.shape]
        plain = {place for group in queries.groups if group.shape for place in distinct(group.members).tolist()}
        is_worth_it = len(queries.queries) > two_way_from or any(len(shape) == 2 for shape in shapes)
        self._pairs: TwoWay | None = None
        if is_worth_it and int(queries.sizes.sum()) <= LARGEST:
            sizes = dict(zip(queries.names, queries.sizes.tolist(), strict=True))
            self._pairs = TwoWay(sizes, {queries.names[place] for place in plain})
        self._answers: dict[int, Floats] = {}
        # By query, whether its answer was not worked out, or not given, since it changed.
        self._is_stale = np.ones(len(queries.queries), dtype=np.bool_)
        self._is_due = self._is_stale.copy()
        self._total = 0.0
        self._splits = 0
        self._seen = 0

    def news(
        self, state: State, *, wanted: Flags | None = None, everything: bool = False
    ) -> tuple[Integers, list[Floats]]:
        """The queries whose answers have changed, or all; and vectors that hold these answers one after the other.

        What is not wanted is given later, once it is. The vectors are on loan: the next call writes to them.
        """
        changed = self._changed(state)
        if self._total == 0 or abs(state.total - self._total) > self._lag:
            for kept in self._answers.values():
                np.multiply(kept, state.total / self._total, out=kept)
            self._total, everything = state.total, True
        if everything:
            self._is_due[:] = True
        numbers: list[Integers] = [np.empty(0, dtype=np.int64)]
        answers: list[Floats] = []
        for group in self._queries.groups:
            stale = group.numbers[group.touched(changed)]
            self._is_stale[stale] = self._is_due[stale] = True
            due = self._is_due[group.span] if wanted is None else self._is_due[group.span] & wanted[group.span]
            for part, products in self._parts(state, group, np.flatnonzero(due)):
                numbers.append(group.numbers[part])
                self._is_due[numbers[-1]] = False
                if products is None:
                    answers += self._from_state(state, group, part)
                elif isinstance(products, Tree):
                    assert group.shape is not None
                    marginals = three_way(products, self._queries.index, group.members[part], group.shape)
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
        changed = np.zeros((len(self._queries.index), len(self._queries.index)), dtype=np.bool_)
        seen = self._seen
        for tree in state.trees:
            if tree.stamp > seen:
                places = [self._queries.index[name] for name in tree.attributes]
                changed[places, :] = changed[:, places] = True
                self._seen = max(self._seen, tree.stamp)
        return changed

    def _parts(
        self, state: State, group: Group, where: Integers
    ) -> Iterator[tuple[Integers, list[tuple[int, ...]] | Tree | None]]:
        """Some queries of a group, by how they are products of one- and two-way marginals.

        Queries that are no such products come with their tree, or with None.
        """
        if not len(where):
            return
        if group.shape is None or self._pairs is None:
            yield where, None
            return
        if len(group.shape) <= 2:
            yield where, [tuple(range(len(group.shape)))]
            return
        trees = np.empty(len(self._queries.index), dtype=np.int64)
        for number, tree in enumerate(state.trees):
            trees[[self._queries.index[name] for name in tree.attributes]] = number
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
            is_kind = pattern == kind
            if len(set(joined)) == len(joined):
                yield where[is_kind], [*together, *alone]
            elif len(group.shape) > 3 or len(group.numbers) < self._bulk:
                yield where[is_kind], None
            else:
                for number in distinct(owners[is_kind, 0]).tolist():
                    tree = state.trees[number]
                    is_whole = state.partitions.coarse.isdisjoint(tree.attributes)
                    yield where[is_kind & (owners[:, 0] == number)], tree if is_whole else None

    def _from_state(self, state: State, group: Group, where: Integers) -> list[Floats]:
        """Answers that only the state can give; those that are not stale are remembered."""
        numbers = group.numbers[where].tolist()
        new = [number for number in numbers if self._is_stale[number] or number not in self._answers]
        shares = state.answers([self._queries.queries[number].shares for number in new])
        for number, bound, answer in zip(new, self._queries.bounds[new].tolist(), shares, strict=True):
            self._answers[number] = answer * bound if bound > 1 else answer
        self._is_stale[new] = False
        return [self._answers[number] for number in numbers]

    def _products(self, group: Group, where: Integers, parts: Sequence[tuple[int, ...]]) -> Floats:
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
