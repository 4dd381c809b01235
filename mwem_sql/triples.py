"""Very many three-way marginals of a tree at once.

The ways from three attributes meet in one clique, and each of the three is in it or behind another neighbour of it. So messages
run through the tree once in both directions, for all attributes together; what a clique shares with three of its neighbours,
or has of its own, is summed out once for all marginals that meet there by the same ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from math import prod

import numpy as np
import numpy.typing as npt

from mwem_sql.compiler.linear import Floats
from mwem_sql.factor import Factor
from mwem_sql.tree import Names, Tree

Numbers = npt.NDArray[np.int64]

BATCH = 1 << 19
"""Numbers that are multiplied at a time: what a cache holds, or nearly."""
SPARSE = 8
"""Times as many marginals that are worked out as are asked for, where that is one product for all of them."""


@dataclass(frozen=True, eq=False)
class Side:
    """Attributes, by number, that a clique knows through some of its own: a row for each of their values, its share in each cell of these."""

    through: Names
    attributes: tuple[int, ...]
    given: Floats
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
        ways = side_of[members[met]] @ np.array([len(sides) ** 2, len(sides), 1])
        kinds, which = np.unique(ways, return_inverse=True)
        marginals = _joints(tree.cliques[number], sides, kinds)
        by_kind = np.split(met[np.argsort(which, kind="stable")], np.cumsum(np.bincount(which.reshape(-1)))[:-1])
        for (own, weights, cells), part in zip(marginals, by_kind, strict=True):
            given = [side.given[:, codes] for side, codes in zip(own, cells, strict=True)]
            rows = [first_row[members[part, axis], None] + np.arange(size) for axis, size in enumerate(shape)]
            out[part] = _met(given, weights / tree.total, rows).reshape(len(part), -1)
    return out.reshape(-1)


def _met(given: Sequence[Floats], weights: Floats, rows: Sequence[Numbers]) -> Floats:
    """Joint shares of three attributes each, whose values are some rows of what is given for cells with these weights."""
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
        return np.asarray(dense[rows[0][:, :, None, None], rows[1][:, None, :, None], rows[2][:, None, None, :]])
    step = max(1, BATCH // (sizes[0] * sizes[1] * weights.size))
    for begin in range(0, count, step):
        one, two, three = (side[own[begin : begin + step]] for side, own in zip(given, rows, strict=True))
        both = (one[:, :, None, :] * weights) * two[:, None, :, :]
        out[begin : begin + step] = (both.reshape(len(one), -1, weights.size) @ three.transpose(0, 2, 1)).reshape(-1, *sizes)
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
        up[number] = _message(tree.cliques[number], [*_own(tree.cliques[number], index), *(up[child] for child in children[number])], shared[number])
    down: dict[int, Side] = {}
    for number, clique in enumerate(tree.cliques):
        own, above = _own(clique, index), [down[number]] if number else []
        for child in children[number]:
            others = [up[other] for other in children[number] if other != child]
            down[child] = _message(clique, [*own, *above, *others], shared[child])
        yield number, [*own, *above, *(up[child] for child in children[number])]


def _own(clique: Factor, index: Mapping[str, int]) -> list[Side]:
    return [Side((name,), (index[name],), np.eye(size), (size,), is_own=True) for name, size in zip(clique.attributes, clique.shape, strict=True)]


def _message(clique: Factor, sides: Sequence[Side], through: Names) -> Side:
    """All that a clique knows of attributes that are not in a separator, given that."""
    behind = [side for side in sides if not (side.is_own and side.through[0] in through)]
    given = [np.empty((0, prod(clique.size(name) for name in through)))]
    joints = clique.marginals({_union(side.through, through) for side in behind}) if behind else {}
    for side in behind:
        union = _union(side.through, through)
        shape = tuple(clique.size(name) for name in union)
        joint = np.zeros((side.given.shape[1], given[0].shape[1]))
        joint[_cells(union, shape, side.through), _cells(union, shape, through)] = joints[union].reshape(-1)
        given.append(side.given @ (joint / joint.sum(axis=0)))
    attributes, sizes = (tuple(chain.from_iterable(own)) for own in ([side.attributes for side in behind], [side.sizes for side in behind]))
    return Side(through, attributes, np.concatenate(given), sizes)


def _joints(clique: Factor, sides: Sequence[Side], kinds: Numbers) -> Iterator[tuple[list[Side], Floats, list[Numbers]]]:
    """For each way to meet, its three sides, the weights of what they are known through, and where each is in these."""
    chosen = [[sides[kind // len(sides) ** 2], sides[kind // len(sides) % len(sides)], sides[kind % len(sides)]] for kind in kinds.tolist()]
    unions = [_union(*(side.through for side in own)) for own in chosen]
    joints = clique.marginals(set(unions))
    for own, union in zip(chosen, unions, strict=True):
        shape = tuple(clique.size(name) for name in union)
        yield own, joints[union].reshape(-1), [_cells(union, shape, side.through) for side in own]


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
