"""Very many three-way marginals of a tree at once.

The ways from three attributes meet in one clique, and each of the three is in it or behind another neighbour of it. So messages
run through the tree once in both directions, for all attributes together; what a clique shares with three of its neighbours,
or has of its own, is summed out once for all marginals that meet there by the same ways. Only reads the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import TypeAlias

import numpy as np

from mwem_sql.algebra.arrays import Floats, Integers
from mwem_sql.algebra.factor import Factor
from mwem_sql.model.messages import Side, joint, message
from mwem_sql.model.tree import Names, Tree

Rows: TypeAlias = Sequence[Integers]
Way: TypeAlias = tuple[int, int, int]

AT_A_TIME = 1 << 19
"""Numbers that are multiplied at a time: what a cache holds, or nearly."""
WASTE = 4
"""Times its own cells that a clique's marginals may have, each with what a neighbour is known through, before they are worked out together."""
SPARSE = 8
"""Times as many marginals that are worked out as are asked for, where that is one product for all of them."""


def three_way(tree: Tree, index: Mapping[str, int], members: Integers, shape: Sequence[int]) -> Floats:
    """Marginals of three attributes each, a row of numbers by `index`, all of that shape: as shares, one after the other."""
    tops = np.zeros(max(index.values()) + 1, dtype=np.int64)
    for name, top in tree.layout.tops.items():
        tops[index[name]] = top
    meeting = _meetings(tree, tops[members])
    order = np.argsort(meeting, kind="stable")
    ends = np.cumsum(np.bincount(meeting, minlength=len(tree.cliques)))
    out = np.empty((len(members), prod(shape)))
    starts = _starts(tree, index)
    side_of, row_of = np.zeros(len(tops), dtype=np.int64), np.zeros(starts[-1], dtype=np.int64)
    for number, sides in _sides(tree, index, starts):
        met = order[ends[number - 1] if number else 0 : ends[number]]
        if not len(met):
            continue
        for place, side in enumerate(sides):
            side_of[side.attributes] = place
            row_of[side.places] = np.arange(len(side.places))
        ways, which = np.unique(side_of[members[met]] @ np.array([len(sides) ** 2, len(sides), 1]), return_inverse=True)
        by_way = np.split(met[np.argsort(which, kind="stable")], np.cumsum(np.bincount(which.reshape(-1)))[:-1])
        chosen = [(way // len(sides) ** 2, way // len(sides) % len(sides), way % len(sides)) for way in ways.tolist()]
        rows = [
            [row_of[starts[members[part, axis], None] + np.arange(size)] for axis, size in enumerate(shape)]
            for part in by_way
        ]
        for place, marginals in _meet(tree.cliques[number], sides, chosen, rows):
            out[by_way[place]] = marginals.reshape(len(by_way[place]), -1) / tree.total
    return out.reshape(-1)


def _meet(
    clique: Factor, sides: Sequence[Side], chosen: Sequence[Way], rows: Sequence[Rows]
) -> Iterator[tuple[int, Floats]]:
    """For each way to meet, by place, the weights of some values of its three sides."""
    unions = [_union(*(sides[place].through for place in way)) for way in chosen]
    # The ways of each neighbour; of attributes that are all its own, which come first, a clique has the weights.
    own_sides = len(clique.attributes)
    leaders: dict[int, list[int]] = {}
    for number, way in enumerate(chosen):
        leaders.setdefault(next((place for place in way if place >= own_sides), -1), []).append(number)
    apart = []
    for leader, numbers in leaders.items():
        if leader >= 0 and sum(_count(clique, unions[number]) for number in numbers) > WASTE * clique.weights.size:
            yield from _meet_all(clique, sides, leader, {number: chosen[number] for number in numbers}, rows)
        else:
            apart += numbers
    joints = clique.marginals({unions[number] for number in apart}) if apart else {}
    for number in apart:
        union = unions[number]
        given = [_on(clique, sides[place], sides[place].given, union) for place in chosen[number]]
        yield number, _met(given, joints[union].reshape(-1), rows[number])


def _meet_all(
    clique: Factor, sides: Sequence[Side], leader: int, chosen: Mapping[int, Way], rows: Sequence[Rows]
) -> Iterator[tuple[int, Floats]]:
    """The same for all ways of one side: each of its values is a clique of its own, whose marginals are summed out together."""
    lead = sides[leader]
    others = {
        number: [sides[place] for place in sorted(way, key=lambda place: place != leader)[1:]]
        for number, way in chosen.items()
    }
    unions = {number: ("", *_union(one.through, other.through)) for number, (one, other) in others.items()}
    found = {
        number: np.empty((len(lead.given), len(one.given), len(other.given))) for number, (one, other) in others.items()
    }
    step = max(1, AT_A_TIME // clique.weights.size)
    for begin in range(0, len(lead.given), step):
        some = slice(begin, begin + step)
        values = _on(clique, lead, lead.given[some], clique.attributes) * clique.weights
        all_ = Factor(("", *clique.attributes), (len(values), *clique.shape), values.reshape(-1), 0.0)
        weights = all_.marginals(set(unions.values()))
        for number, (one, other) in others.items():
            part = weights[unions[number]]
            own = Factor(unions[number], part.shape, part.reshape(-1), 0.0)
            found[number][some] = joint(own, one, other, beside=("",)).reshape(len(values), len(one.given), -1)
    for number, way in chosen.items():
        dense = np.moveaxis(found[number], 0, way.index(leader))
        yield number, _picked(dense, rows[number])


def _picked(dense: Floats, rows: Rows) -> Floats:
    return np.asarray(dense[rows[0][:, :, None, None], rows[1][:, None, :, None], rows[2][:, None, None, :]])


def _on(clique: Factor, side: Side, given: Floats, attributes: Names) -> Floats:
    """What a side gives of some values, for each cell of attributes that it is known through and others."""
    return given[:, _cells(attributes, tuple(map(clique.size, attributes)), side.through)]


def _count(clique: Factor, attributes: Names) -> int:
    return prod(map(clique.size, attributes))


def _met(given: Sequence[Floats], weights: Floats, rows: Rows) -> Floats:
    """Joint weights of three attributes each, whose values are some rows of what is given for cells with these weights."""
    count, sizes = len(rows[0]), [own.shape[1] for own in rows]
    out = np.empty((count, *sizes))
    if prod(map(len, given)) <= SPARSE * out.size:
        # Nearly all that meet in this way are asked for: they are one matrix product.
        dense = np.empty(tuple(map(len, given)))
        step = max(1, AT_A_TIME // (len(given[1]) * weights.size))
        for begin in range(0, len(given[0]), step):
            some = slice(begin, begin + step)
            both = (given[0][some, None, :] * weights) * given[1]
            dense[some] = (both.reshape(-1, weights.size) @ given[2].T).reshape(-1, *dense.shape[1:])
        return _picked(dense, rows)
    step = max(1, AT_A_TIME // (sizes[0] * sizes[1] * weights.size))
    for begin in range(0, count, step):
        one, two, three = (side[own[begin : begin + step]] for side, own in zip(given, rows, strict=True))
        both = (one[:, :, None, :] * weights) * two[:, None, :, :]
        out[begin : begin + step] = (both.reshape(len(one), -1, weights.size) @ three.transpose(0, 2, 1)).reshape(
            -1, *sizes
        )
    return out


def _meetings(tree: Tree, tops: Integers) -> Integers:
    """For every three cliques, the one in which the ways between them meet: the deepest of the three common ancestors."""
    parents, depths = tree.layout.parents, np.array(tree.layout.depths)
    common = np.zeros((len(parents), len(parents)), dtype=np.int64)
    for number, parent in enumerate(parents):
        common[number, :number] = common[:number, number] = common[parent, :number] if number else 0
        common[number, number] = number
    found = np.stack([common[tops[:, one], tops[:, other]] for one, other in ((0, 1), (0, 2), (1, 2))], axis=1)
    return np.asarray(np.take_along_axis(found, depths[found].argmax(axis=1)[:, None], axis=1)[:, 0])


def _starts(tree: Tree, index: Mapping[str, int]) -> Integers:
    """Where each attribute's values begin in a row of all of them, by number; and behind the last, where they end."""
    sizes = np.zeros(max(index.values()) + 1, dtype=np.int64)
    for clique in tree.cliques:
        sizes[[index[name] for name in clique.attributes]] = clique.shape
    return np.append(0, np.cumsum(sizes))


def _sides(tree: Tree, index: Mapping[str, int], starts: Integers) -> Iterator[tuple[int, list[Side]]]:
    """Each clique with all attributes of the tree: its own one by one, then the others by neighbour."""
    layout = tree.layout
    children = [[other for other in beside if other > number] for number, beside in enumerate(layout.neighbours)]
    shared = [tuple(sorted(layout.separator(number))) if number else () for number in range(len(layout.cliques))]
    own = [[_own(name, index[name], starts) for name in clique.attributes] for clique in tree.cliques]

    def told(teller: int, others: Sequence[Side], through: Names) -> Side:
        """What a clique tells a neighbour of attributes that the two do not share."""
        known = [side for side in own[teller] if side.through[0] not in through]
        return message(tree.cliques[teller], [*known, *others], through)

    up: dict[int, Side] = {}
    for number in range(len(layout.cliques) - 1, 0, -1):
        up[number] = told(number, [up[child] for child in children[number]], shared[number])
    down: dict[int, Side] = {}
    for number in range(len(layout.cliques)):
        above = [down[number]] if number else []
        for child in children[number]:
            others = [up[other] for other in children[number] if other != child]
            down[child] = told(number, [*above, *others], shared[child])
        yield number, [*own[number], *above, *(up[child] for child in children[number])]


def _own(name: str, number: int, starts: Integers) -> Side:
    """An attribute of a clique, known as such."""
    places = np.arange(starts[number], starts[number + 1])
    return Side((name,), np.eye(len(places)), np.array([number]), places, np.ones(1, dtype=np.bool_))


def _union(*sets: Names) -> Names:
    return tuple(sorted(set().union(*sets)))


@lru_cache(maxsize=1 << 14)
def _cells(attributes: Names, shape: tuple[int, ...], kept: Names) -> Integers:
    """Of each cell, the one of some of its attributes that it lies in."""
    codes = dict(zip(attributes, np.unravel_index(np.arange(prod(shape)), shape), strict=True))
    out = np.zeros(prod(shape), dtype=np.int64)
    for name in kept:
        out = out * shape[attributes.index(name)] + codes[name]
    return out
