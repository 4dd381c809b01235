"""The queries of a workload in groups that are worked on together: of hundreds of thousands none is looked at by itself.

Owns the numbering from 0 and the arrays of each group. Public all of it. Knows no state and no round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats, Integers
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.queries import Queries, distinct_rows


@dataclass(frozen=True, eq=False)
class Alike:
    """Queries over the same number of attributes; if they are plain marginals, of the same shape, too.

    `span` are their numbers again, as a slice where they are neighbours. `members` has a row of attributes for each.
    `sets` has each row once, in any order of its attributes; `set_of` says which is whose. `links` are every two attributes of each
    set, as places in a matrix over attributes; of a single one, on its diagonal. `at` leads back, from such a place to the query, if each
    has one of its own. `cells` are those of a plain marginal; of the others, `changes` says how often what is asked changes
    along each attribute from a class to the next, and sets differ in that, too.
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


class Asked:
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

    def _groups(self) -> Iterator[Alike]:
        ranks, changes = self.queries.attribute_ranks(self.index), self.queries.changes()
        for width in np.unique(self.queries.widths).tolist():
            numbers, rows = self.queries.of_width(width, ranks)
            is_plain = self.queries.are_marginals[numbers]
            shapes, _, shape_of = distinct_rows(self.sizes[rows[is_plain]], int(self.sizes.max(initial=0)) + 1)
            for shape in range(len(shapes)):
                plain = np.flatnonzero(is_plain)[shape_of == shape]
                yield self._alike(numbers[plain], rows[plain], None)
            if not is_plain.all():
                _, turns = self.queries.of_width(width, changes)
                yield self._alike(numbers[~is_plain], rows[~is_plain], turns[~is_plain])

    def _alike(self, numbers: Integers, members: Integers, changes: Integers | None) -> Alike:
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
        if is_distinct and len(links) == 1 and (changes is None or len(np.unique(links[0])) == len(numbers)):
            at = np.full(len(self.index) ** 2, -1, dtype=np.int64)
            at[links[0]] = np.arange(len(numbers))
        shape = None if changes is not None else tuple(self.sizes[members[0]].tolist())
        return Alike(
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
