"""Marginals of a junction tree over attributes that no clique has together: one pass of messages. Only reads the tree.

A message has the distribution of attributes behind a clique, given each cell of a separator. `marginals` gives any
marginal, `three_way` very many of three attributes; `TwoWay` keeps those of all pairs, to score every pair in every
round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats, Integers
from mwem_sql.algebra.partition import Partition
from mwem_sql.algebra.table import Names, Table
from mwem_sql.model.tree import Tree

ROW_AXIS, COLUMN_AXIS, LEAD = "", "\0", "\0\0"
"""Axes of values, beside those of attributes: no attribute has such a name."""
WIDE_SEPARATOR = 512
"""Cells of a separator beyond which all pairs of a tree are worked out again, and attributes one by one: to ask what
depends on it would cost more."""


def marginals(tree: Tree, wanted: Iterable[Names]) -> dict[Names, Table]:
    """Axes in the order of the names; maybe views of the weights. Brings up to date what it needs."""
    inside: dict[int, list[Names]] = {}
    tables: dict[Names, Table] = {}
    for names in wanted:
        home = tree.home(names)
        if home is None:
            tables[names] = _across(tree, names)
        else:
            inside.setdefault(home, []).append(names)
    for home, sets in inside.items():
        tables.update(tree.reach(home).projections(sets))
    return tables


def _across(tree: Tree, names: Names) -> Table:
    """A marginal over attributes of several cliques: each sends its parent those behind it, given the separator."""
    numbers = tree.layout.between(names)
    arrived: dict[int, list[Table]] = {number: [] for number in numbers}
    for number in reversed(numbers):
        messages, separator = arrived[number], tree.layout.separators[number] if number != numbers[0] else ()
        needed = [
            set(separator).union(names, *(later.names for later in messages[k:])) for k in range(len(messages) + 1)
        ]
        table = tree.reach(number)
        table = table.project([name for name in table.names if name in needed[0]])
        if separator:
            table = Table(table.names, table.cells / table.project(separator).align(table.names))
        for message, kept in zip(messages, needed[1:], strict=True):
            axes = dict.fromkeys(table.names + message.names)
            table = table.contract(message, tuple(name for name in axes if name in kept))
        if separator:
            arrived[tree.layout.parents[number]].append(table)
    return table.project(names)


@dataclass(frozen=True, eq=False, kw_only=True)
class Message:
    """The distribution of values, a row each, given the cells of a separator: axes ROW_AXIS and those of the separator.

    `attributes` are the numbers of the attributes that have these values, `places` where the receiver keeps each value.
    `close` says whether more than a trace of an attribute depends on the separator.
    """

    given: Table
    attributes: Integers
    places: Integers
    close: Flags

    @property
    def separator(self) -> Names:
        return self.given.names[1:]


def by_separator(messages: Iterable[Message]) -> list[list[Message]]:
    """Messages with the same separator together: given its cells, they are independent."""
    groups: dict[Names, list[Message]] = {}
    for message in messages:
        groups.setdefault(message.separator, []).append(message)
    return list(groups.values())


def merge(messages: Sequence[Message]) -> Message:
    """Messages with the same separator as one."""
    if len(messages) == 1:
        return messages[0]
    return Message(
        given=Table(messages[0].given.names, np.concatenate([one.given.cells for one in messages])),
        attributes=np.concatenate([one.attributes for one in messages]),
        places=np.concatenate([one.places for one in messages]),
        close=np.concatenate([one.close for one in messages]),
    )


def conditional(table: Table, given: Table, separator: Names) -> Table:
    """The same values, given other attributes of the clique."""
    joint_cells = table.contract(given, (ROW_AXIS, *separator)).cells
    return Table((ROW_AXIS, *separator), joint_cells / table.project(separator).cells)


def joint(table: Table, left: Table, right: Table, beside: Names = ()) -> Floats:
    """Weights of the values of two messages, for each cell of attributes that neither separator has."""
    rows = table.contract(left, (*beside, ROW_AXIS, *right.names[1:]))
    columns = Table((COLUMN_AXIS, *right.names[1:]), right.cells)
    return rows.contract(columns, (*beside, ROW_AXIS, COLUMN_AXIS)).cells


def message(table: Table, messages: Iterable[Message], separator: Names) -> Message:
    """All that a clique knows by some messages, for the neighbour that it shares the separator with."""
    groups = map(merge, by_separator(messages))
    return merge([replace(group, given=conditional(table, group.given, separator)) for group in groups])


def collect(
    tree: Tree,
    region: Sequence[int],
    inside: Callable[[int], Sequence[Message]],
    outside: Mapping[int, Mapping[int, Message]],
    *,
    both_ways: bool,
) -> Iterator[tuple[int, list[Message]]]:
    """The pass: cliques side by side, each with what it knows of itself, and all messages that arrive there.

    `inside` are the attributes of a clique; `outside` are messages by receiver and sender. Messages run up to the first
    clique, and a clique is given once those behind it have arrived: all pairs of attributes meet. With `both_ways` they
    then run down again, and a clique is given once all have arrived: all triples meet.
    """
    layout = tree.layout
    arrived = {number: dict(outside.get(number, {})) for number in region}

    def send(sender: int, receiver: int) -> None:
        separator = layout.separator(sender, receiver)
        messages = [one for one in inside(sender) if set(separator).isdisjoint(one.separator)]
        messages += [one for other, one in arrived[sender].items() if other != receiver]
        arrived[receiver][sender] = message(tree.potentials[sender].table, messages, separator)

    for number in reversed(region):
        if not both_ways:
            yield number, [*inside(number), *arrived[number].values()]
        if number != region[0]:
            send(number, layout.parents[number])
    for number in region if both_ways else ():
        if number != region[0]:
            send(layout.parents[number], number)
        yield number, [*inside(number), *arrived[number].values()]


def three_way(tree: Tree, index: Mapping[str, int], members: Integers, shape: Sequence[int]) -> Floats:
    """Marginals of three attributes each, a row of numbers by `index`, all of that shape: as shares, in a row.

    The ways from three attributes meet in one clique, and each of the three is in it or behind another neighbour of it.
    What is summed out there is for all marginals that meet by the same ways.
    """
    sizes, tops = (np.zeros(max(index.values()) + 1, dtype=np.int64) for _ in range(2))
    for name, top in tree.layout.tops.items():
        tops[index[name]], sizes[index[name]] = top, tree.potentials[top].table.size(name)
    starts = np.append(0, np.cumsum(sizes))
    meeting = _meetings(tree, tops[members])
    ends = np.cumsum(np.bincount(meeting, minlength=len(tree.potentials)))
    by_clique = np.split(np.argsort(meeting, kind="stable"), ends[:-1])
    out = np.empty((len(members), prod(shape)))
    message_of, row_of = np.zeros(len(tops), dtype=np.int64), np.zeros(starts[-1], dtype=np.int64)

    alone = {
        name: Message(
            given=Table((ROW_AXIS, name), np.eye(sizes[number])),
            attributes=np.array([number]),
            places=np.arange(starts[number], starts[number + 1]),
            close=np.ones(1, dtype=np.bool_),
        )
        for name, number in index.items()
        if name in tree.attributes
    }
    inside = [[alone[name] for name in potential.table.names] for potential in tree.potentials]
    for number, messages in collect(tree, range(len(inside)), inside.__getitem__, {}, both_ways=True):
        met = by_clique[number]
        if not len(met):
            continue
        for position, one in enumerate(messages):
            message_of[one.attributes] = position
            row_of[one.places] = np.arange(len(one.places))
        base = len(messages)
        codes, which = np.unique(message_of[members[met]] @ np.array([base**2, base, 1]), return_inverse=True)
        ways = [(code // base**2, code // base % base, code % base) for code in codes.tolist()]
        by_way = np.split(met[np.argsort(which.ravel(), kind="stable")], np.cumsum(np.bincount(which.ravel()))[:-1])
        rows = [
            [row_of[starts[members[part, axis], None] + np.arange(size)] for axis, size in enumerate(shape)]
            for part in by_way
        ]
        given = [[messages[position].given for position in way] for way in ways]
        tables = _parts(tree.potentials[number].table, [_union(*three) for three in given])
        for table, three, part, (first, second, third) in zip(tables, given, by_way, rows, strict=True):
            weights = _meet(table, *three)
            picks = first[:, :, None, None], second[:, None, :, None], third[:, None, None, :]
            out[part] = weights[picks].reshape(len(part), -1) / tree.total
    return out.reshape(-1)


def _meetings(tree: Tree, tops: Integers) -> Integers:
    """For every three cliques, the one in which the ways between them meet: the deepest common ancestor of two."""
    parents, depths = tree.layout.parents, np.array(tree.layout.depths)
    common = np.zeros((len(parents), len(parents)), dtype=np.int64)
    for number, parent in enumerate(parents):
        common[number, :number] = common[:number, number] = common[parent, :number] if number else 0
        common[number, number] = number
    ancestors = np.stack([common[tops[:, one], tops[:, other]] for one, other in ((0, 1), (0, 2), (1, 2))], axis=1)
    return np.asarray(np.take_along_axis(ancestors, depths[ancestors].argmax(axis=1)[:, None], axis=1)[:, 0])


def _parts(table: Table, sets: Sequence[Names]) -> list[Table]:
    """Tables that have these sets of attributes: marginals, where all of them together are no larger than the table."""
    small = {names for names in sets if prod(table.sizes(names)) * len(sets) <= table.cells.size}
    marginals_of = table.projections(small) if small else {}
    return [marginals_of.get(names, table) for names in sets]


def _union(*given: Table) -> Names:
    """The attributes of several separators."""
    return tuple(sorted(set().union(*(one.names[1:] for one in given))))


def _meet(table: Table, one: Table, two: Table, three: Table) -> Floats:
    """Weights of the values of three messages that meet in a clique."""
    separators = dict.fromkeys(two.names[1:] + three.names[1:])
    lead = Table((LEAD, *one.names[1:]), one.cells)
    return joint(table.contract(lead, (LEAD, *separators)), two, three, beside=(LEAD,))


class TwoWay:
    """One-way marginals, and the excess of two-way marginals over their products, as shares.

    By position: an attribute's values in a row. Most pairs have no excess. What changed in a tree is worked out from
    the cliques that changed outwards, as far as anything depends on them. An attribute's values are its classes;
    or, if it is not in `read`, the groups of them that the state has.
    """

    def __init__(
        self, sizes: Mapping[str, int], read: Collection[str] | None = None, *, wide: int = WIDE_SEPARATOR
    ) -> None:
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
        # Of each attribute, the groups in its cliques, and its values; the partition between the two.
        self._read = sizes.keys() if read is None else read
        self._wide = wide
        self._groups, self._values = self.sizes.copy(), self.sizes.copy()
        self._coarse: dict[str, Partition] = {}

    def regroup(self, name: str, partition: Partition) -> None:
        """Follow an attribute whose classes are in other groups by now."""
        number = self.index[name]
        if self._groups[number] > 1:  # or it is in no clique with others yet
            self._inside = {names: messages for names, messages in self._inside.items() if name not in names}
        self._groups[number] = partition.count
        self._coarse.pop(name, None)
        if name not in self._read:
            self._values[number] = partition.count
            # As no share is: weights of other groups are a change whatever they are.
            self.one[self._places(name)] = -1.0
        elif not partition.is_whole:
            self._coarse[name] = partition

    def refresh(self, trees: Iterable[Tree], lag: float) -> Flags:
        """Follow the trees, to within `lag` in the sum over a pair's cells; the pairs that changed, and attributes."""
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
        if any(self._cells(layout.separator(*border)) > self._wide for border in borders):
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
            if len(names) > 1 and self._cells(names) > self._wide:
                self._inside[names] = [one for name in names for one in self._messages((name,))]
            elif names:
                sizes = [int(self._groups[self.index[name]]) for name in names]
                given = []
                for name, size in zip(names, sizes, strict=True):
                    values = self._coarse[name].spread(np.eye(size), 0) if name in self._coarse else np.eye(size)
                    given.append(Table((ROW_AXIS, name), values).expand((ROW_AXIS, *names), (len(values), *sizes)))
                self._inside[names] = [
                    Message(
                        given=Table((ROW_AXIS, *names), np.concatenate(given)),
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
        outward = Table((ROW_AXIS, *separator), np.eye(shares.size).reshape(-1, *border.shape))
        waiting = [(start, first, outward, True)]
        branches: list[Message] = []
        while waiting:
            before, number, outward, near = waiting.pop()
            table = tree.potentials[number].table
            names = tuple(name for name in table.names if name not in layout.cliques[before])
            for one in self._messages(names):
                rows = joint(table, one.given, outward) / tree.total / shares
                given = Table((ROW_AXIS, *separator), rows.reshape(-1, *border.shape))
                branches.append(replace(one, given=given, close=np.full(len(one.attributes), near)))
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
        return merge(branches)

    def _write(self, table: Table, groups: Sequence[Sequence[Message]], total: float, changed: Flags) -> None:
        """All pairs of attributes that a clique knows by different messages."""
        pairs = list(combinations(map(merge, groups), 2))
        for group in groups:
            pairs += [(one, merge(group[position + 1 :])) for position, one in enumerate(group[:-1])]
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
