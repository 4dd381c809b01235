"""Very many three-way marginals of a tree at once.

The ways from three attributes meet in one clique, and each of the three is in it or behind another neighbour of it. So messages
run through the tree once in both directions, for all attributes together; what a clique shares with three of its neighbours,
or has of its own, is summed out once for all marginals that meet there by the same ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mwem_sql.model.factor import Factor
from mwem_sql.model.tree import Names, Tree
from mwem_sql.model.two_way import Given, joint, passed
from mwem_sql.queries.linear import Floats

Numbers = npt.NDArray[np.int64]
Rows: TypeAlias = Sequence[Numbers]
Way: TypeAlias = tuple[int, int, int]

BATCH = 1 << 19
"""Numbers that are multiplied at a time: what a cache holds, or nearly."""
WASTE = 4
"""Times its own cells that a clique's marginals may have, each with what a neighbour is known through, before they are worked out together."""
SPARSE = 8
"""Times as many marginals that are worked out as are asked for, where that is one product for all of them."""


@dataclass(frozen=True, eq=False)
class Side(Given):
    """All values of some attributes, by number, of which each has so many; a clique's `own` is known as such."""

    attributes: tuple[int, ...]
    sizes: tuple[int, ...]
    is_own: bool = False


def three_way(tree: Tree, index: Mapping[str, int], members: Numbers, shape: Sequence[int]) -> Floats:
    """Marginals of three attributes each, a row of numbers by `index`, all of that shape: as shares, one after the other."""
    tops = np.zeros(max(index.values()) + 1, dtype=np.int64)
    for name, top in tree.layout.tops.items():
        tops[index[name]] = top
    meeting = _meetings(tree, tops[members])
    order = np.argsort(meeting, kind="stable")
    ends = np.cumsum(np.bincount(meeting, minlength=len(tree.cliques)))
    out = np.empty((len(members), prod(shape)))
    side_of, first_row = np.zeros((2, len(tops)), dtype=np.int64)
    for number, sides in _sides(tree, index):
        met = order[ends[number - 1] if number else 0 : ends[number]]
        if not len(met):
            continue
        for place, side in enumerate(sides):
            side_of[list(side.attributes)] = place
            first_row[list(side.attributes)] = np.cumsum(side.sizes) - side.sizes
        ways, which = np.unique(side_of[members[met]] @ np.array([len(sides) ** 2, len(sides), 1]), return_inverse=True)
        by_way = np.split(met[np.argsort(which, kind="stable")], np.cumsum(np.bincount(which.reshape(-1)))[:-1])
        chosen = [(way // len(sides) ** 2, way // len(sides) % len(sides), way % len(sides)) for way in ways.tolist()]
        rows = [
            [first_row[members[part, axis], None] + np.arange(size) for axis, size in enumerate(shape)]
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
    # The ways of each neighbour; of attributes that are all its own, a clique has the weights.
    leaders: dict[int, list[int]] = {}
    for number, way in enumerate(chosen):
        leaders.setdefault(next((place for place in way if not sides[place].is_own), -1), []).append(number)
    apart = []
    for leader, numbers in leaders.items():
        if leader >= 0 and sum(_count(clique, unions[number]) for number in numbers) > WASTE * clique.weights.size:
            yield from _meet_all(clique, sides, leader, {number: chosen[number] for number in numbers}, rows)
        else:
            apart += numbers
    joints = clique.marginals({unions[number] for number in apart}) if apart else {}
    for number in apart:
        union = unions[number]
        own = [sides[place] for place in chosen[number]]
        yield number, _met([_on(clique, side, union) for side in own], joints[union].reshape(-1), rows[number])


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
    step = max(1, BATCH // clique.weights.size)
    for begin in range(0, len(lead.given), step):
        some = slice(begin, begin + step)
        values = _on(clique, replace(lead, given=lead.given[some]), clique.attributes) * clique.weights
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


def _on(clique: Factor, side: Side, attributes: Names) -> Floats:
    """What a side gives, for each cell of attributes that it is known through and others."""
    return side.given[:, _cells(attributes, tuple(map(clique.size, attributes)), side.through)]


def _count(clique: Factor, attributes: Names) -> int:
    return prod(map(clique.size, attributes))


def _met(given: Sequence[Floats], weights: Floats, rows: Rows) -> Floats:
    """Joint weights of three attributes each, whose values are some rows of what is given for cells with these weights."""
    count, sizes = len(rows[0]), [own.shape[1] for own in rows]
    out = np.empty((count, *sizes))
    if prod(map(len, given)) <= SPARSE * out.size:
        # Nearly all that meet in this way are asked for: they are one matrix product.
        dense = np.empty(tuple(map(len, given)))
        step = max(1, BATCH // (len(given[1]) * weights.size))
        for begin in range(0, len(given[0]), step):
            some = slice(begin, begin + step)
            both = (given[0][some, None, :] * weights) * given[1]
            dense[some] = (both.reshape(-1, weights.size) @ given[2].T).reshape(-1, *dense.shape[1:])
        return _picked(dense, rows)
    step = max(1, BATCH // (sizes[0] * sizes[1] * weights.size))
    for begin in range(0, count, step):
        one, two, three = (side[own[begin : begin + step]] for side, own in zip(given, rows, strict=True))
        both = (one[:, :, None, :] * weights) * two[:, None, :, :]
        out[begin : begin + step] = (both.reshape(len(one), -1, weights.size) @ three.transpose(0, 2, 1)).reshape(
            -1, *sizes
        )
    return out


def _meetings(tree: Tree, tops: Numbers) -> Numbers:
    """For every three cliques, the one in which the ways between them meet: the deepest of the three common ancestors."""
    parents, depths = tree.layout.parents, np.array(tree.layout.depths)
    common = np.zeros((len(parents), len(parents)), dtype=np.int64)
    for number, parent in enumerate(parents):
        common[number, :number] = common[:number, number] = common[parent, :number] if number else 0
        common[number, number] = number
    found = np.stack([common[tops[:, one], tops[:, other]] for one, other in ((0, 1), (0, 2), (1, 2))], axis=1)
    return np.asarray(np.take_along_axis(found, depths[found].argmax(axis=1)[:, None], axis=1)[:, 0])


def _sides(tree: Tree, index: Mapping[str, int]) -> Iterator[tuple[int, list[Side]]]:
    """Each clique with all attributes of the tree: its own one by one, the others by neighbour."""
    layout = tree.layout
    children = [[other for other in beside if other > number] for number, beside in enumerate(layout.neighbours)]
    shared = [tuple(sorted(layout.separator(number))) if number else () for number in range(len(layout.cliques))]
    up: dict[int, Side] = {}
    for number in range(len(layout.cliques) - 1, 0, -1):
        up[number] = _message(
            tree.cliques[number],
            [*_own(tree.cliques[number], index), *(up[child] for child in children[number])],
            shared[number],
        )
    down: dict[int, Side] = {}
    for number, clique in enumerate(tree.cliques):
        own, above = _own(clique, index), [down[number]] if number else []
        for child in children[number]:
            others = [up[other] for other in children[number] if other != child]
            down[child] = _message(clique, [*own, *above, *others], shared[child])
        yield number, [*own, *above, *(up[child] for child in children[number])]


def _own(clique: Factor, index: Mapping[str, int]) -> list[Side]:
    return [
        Side((name,), np.eye(size), (index[name],), (size,), is_own=True)
        for name, size in zip(clique.attributes, clique.shape, strict=True)
    ]


def _message(clique: Factor, sides: Sequence[Side], through: Names) -> Side:
    """All that a clique knows of attributes that are not in a separator, given that."""
    behind = [side for side in sides if not (side.is_own and side.through[0] in through)]
    given = [np.empty((0, _count(clique, through)))]
    given += [passed(clique, side, through) for side in behind]
    attributes, sizes = (
        tuple(chain.from_iterable(own))
        for own in ([side.attributes for side in behind], [side.sizes for side in behind])
    )
    return Side(through, np.concatenate(given), attributes, sizes)


def _union(*sets: Names) -> Names:
    return tuple(sorted(set().union(*sets)))


@lru_cache(maxsize=1 << 14)
def _cells(attributes: Names, shape: tuple[int, ...], kept: Names) -> Numbers:
    """Of each cell, the one of some of its attributes that it lies in."""
    codes = dict(zip(attributes, np.unravel_index(np.arange(prod(shape)), shape), strict=True))
    out = np.zeros(prod(shape), dtype=np.int64)
    for name in kept:
        out = out * shape[attributes.index(name)] + codes[name]
    return out
