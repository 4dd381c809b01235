"""Marginals of a junction tree over attributes that no clique has together: one pass of messages. Only reads the tree.

A message says of attributes behind a clique how their values are distributed, given each cell of a separator.
`marginals` gives any marginal, `three_way` very many of three attributes; `two_way` keeps those of all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats, Integers
from mwem_sql.algebra.table import Names, Table
from mwem_sql.model.tree import Tree

ROWS, COLUMNS = "", "\0"
"""Axes of values, beside those of attributes: no attribute has such a name."""
AT_A_TIME = 1 << 19
"""Numbers that are multiplied at a time: what a cache holds, or nearly."""
WASTE = 4
"""Times its own cells that a clique's marginals may have, each with a neighbour's separator, before they are worked out
together."""
SPARSE = 8
"""Times as many marginals that are worked out as are wanted, where that is one product for all of them."""

Rows: TypeAlias = Sequence[Integers]
Way: TypeAlias = tuple[int, int, int]


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
        tables = [one.given for one in messages]
        for place, weights in _meet(tree.potentials[number].table, tables, ways, rows):
            out[by_way[place]] = weights.reshape(len(by_way[place]), -1) / tree.total
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


def _meet(
    table: Table, given: Sequence[Table], ways: Sequence[Way], rows: Sequence[Rows]
) -> Iterator[tuple[int, Floats]]:
    """For each way to meet, by place, the weights of some values of its three messages."""
    unions = [_union(*(given[place] for place in way)) for way in ways]
    # The ways of each neighbour; of attributes that are all its own, which come first, a clique has the weights.
    leaders: dict[int, list[int]] = {}
    for number, way in enumerate(ways):
        leaders.setdefault(next((place for place in way if place >= len(table.names)), -1), []).append(number)
    apart = []
    for leader, numbers in leaders.items():
        if leader >= 0 and sum(prod(table.sizes(unions[number])) for number in numbers) > WASTE * table.cells.size:
            yield from _meet_all(table, given, leader, {number: ways[number] for number in numbers}, rows)
        else:
            apart += numbers
    joints = table.projections({unions[number] for number in apart}) if apart else {}
    for number in apart:
        union = joints[unions[number]]
        wide = [
            np.broadcast_to(given[place].align((ROWS, *union.names)), (len(given[place].cells), *union.shape)).reshape(
                -1, union.cells.size
            )
            for place in ways[number]
        ]
        yield number, _met(wide, union.cells.reshape(-1), rows[number])


def _meet_all(
    table: Table, given: Sequence[Table], leader: int, ways: Mapping[int, Way], rows: Sequence[Rows]
) -> Iterator[tuple[int, Floats]]:
    """The same for all ways of one message: each value of it is a table, whose marginals are summed out together."""
    lead = given[leader].align((ROWS, *table.names))
    others = {
        number: [given[place] for place in sorted(way, key=lambda place: place != leader)[1:]]
        for number, way in ways.items()
    }
    unions = {number: ("lead\0", *_union(*both)) for number, both in others.items()}
    dense = {number: np.empty((len(lead), len(one.cells), len(other.cells))) for number, (one, other) in others.items()}
    step = max(1, AT_A_TIME // table.cells.size)
    for begin in range(0, len(lead), step):
        some = slice(begin, begin + step)
        sums = Table(("lead\0", *table.names), lead[some] * table.cells).projections(set(unions.values()))
        for number, (one, other) in others.items():
            dense[number][some] = joint(sums[unions[number]], one, other, beside=("lead\0",))
    for number, way in ways.items():
        yield number, _picked(np.moveaxis(dense[number], 0, way.index(leader)), rows[number])


def _met(given: Sequence[Floats], weights: Floats, rows: Rows) -> Floats:
    """Joint weights of three attributes each: their values are rows of what is given for cells with these weights."""
    count, sizes = len(rows[0]), [one.shape[1] for one in rows]
    out = np.empty((count, *sizes))
    if prod(map(len, given)) <= SPARSE * out.size:
        # Nearly all that meet in this way are wanted: they are one matrix product.
        dense = np.empty(tuple(map(len, given)))
        step = max(1, AT_A_TIME // (len(given[1]) * weights.size))
        for begin in range(0, len(given[0]), step):
            some = slice(begin, begin + step)
            both = (given[0][some, None, :] * weights) * given[1]
            dense[some] = (both.reshape(-1, weights.size) @ given[2].T).reshape(-1, *dense.shape[1:])
        return _picked(dense, rows)
    step = max(1, AT_A_TIME // (sizes[0] * sizes[1] * weights.size))
    for begin in range(0, count, step):
        one, two, three = (side[picks[begin : begin + step]] for side, picks in zip(given, rows, strict=True))
        both = ((one[:, :, None, :] * weights) * two[:, None, :, :]).reshape(len(one), -1, weights.size)
        out[begin : begin + step] = (both @ three.transpose(0, 2, 1)).reshape(-1, *sizes)
    return out


def _picked(dense: Floats, rows: Rows) -> Floats:
    return np.asarray(dense[rows[0][:, :, None, None], rows[1][:, None, :, None], rows[2][:, None, None, :]])


def _union(*given: Table) -> Names:
    """The attributes of several separators."""
    return tuple(sorted(set().union(*(one.names[1:] for one in given))))
