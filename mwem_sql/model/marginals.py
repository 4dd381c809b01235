"""Marginals of a junction tree over attributes that no clique has together: one pass of messages. Only reads the tree.

A message says of attributes behind a clique how their values are distributed, given each cell of a separator.
`marginals` gives any marginal, `three_way` very many of three attributes; `two_way` keeps those of all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats, Integers
from mwem_sql.algebra.table import Names, Table
from mwem_sql.model.tree import Tree

ROWS, COLUMNS, LEAD = "", "\0", "\0\0"
"""Axes of values, beside those of attributes: no attribute has such a name."""


def marginals(tree: Tree, wanted: Iterable[Names]) -> dict[Names, Table]:
    """Axes in the order asked for; maybe views of the weights. Brings up to date what it needs."""
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
    """A marginal over attributes of several cliques: each tells its parent of those behind it, given the separator."""
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
    """The distribution of values, a row each, given the cells of a separator: axes ROWS and those of the separator.

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


def merged(messages: Sequence[Message]) -> Message:
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
    joint_cells = table.contract(given, (ROWS, *separator)).cells
    return Table((ROWS, *separator), joint_cells / table.project(separator).cells)


def joint(table: Table, left: Table, right: Table, beside: Names = ()) -> Floats:
    """Weights of the values of two messages, for each cell of attributes that neither separator has."""
    rows = table.contract(left, (*beside, ROWS, *right.names[1:]))
    columns = Table((COLUMNS, *right.names[1:]), right.cells)
    return rows.contract(columns, (*beside, ROWS, COLUMNS)).cells


def message(table: Table, messages: Iterable[Message], separator: Names) -> Message:
    """All that a clique knows by some messages, for the neighbour that it shares the separator with."""
    passed = []
    for group in map(merged, by_separator(messages)):
        given = conditional(table, group.given, separator)
        passed.append(Message(given=given, attributes=group.attributes, places=group.places, close=group.close))
    return merged(passed)


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
            given=Table((ROWS, name), np.eye(sizes[number])),
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
        for place, one in enumerate(messages):
            message_of[one.attributes] = place
            row_of[one.places] = np.arange(len(one.places))
        base = len(messages)
        codes, which = np.unique(message_of[members[met]] @ np.array([base**2, base, 1]), return_inverse=True)
        ways = [(code // base**2, code // base % base, code % base) for code in codes.tolist()]
        by_way = np.split(met[np.argsort(which.ravel(), kind="stable")], np.cumsum(np.bincount(which.ravel()))[:-1])
        rows = [
            [row_of[starts[members[part, axis], None] + np.arange(size)] for axis, size in enumerate(shape)]
            for part in by_way
        ]
        given = [[messages[place].given for place in way] for way in ways]
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
