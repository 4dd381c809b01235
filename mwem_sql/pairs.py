"""All two-way marginals of a tree of cliques in one sweep, as shares of the total, to score every pair in every round.

Messages run along the tree for all attributes at once: what a separator says about everything behind it is one matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

from mwem_sql.compiler.linear import Floats
from mwem_sql.factor import Factor
from mwem_sql.tree import Names, Tree

Places = npt.NDArray[np.int64]
Behind = tuple[Names, Places, Floats | None]
"""Attributes of a clique, places of values, and the distribution of those values given each cell of the attributes; None
where the values are the cells."""


def one_way(tree: Tree, starts: Mapping[str, int], out: Floats) -> None:
    """Write the marginal of every attribute from its start on."""
    found = tree.marginals([(name,) for name in tree.attributes])
    for (name,), marginal in found.items():
        out[starts[name] : starts[name] + marginal.size] = marginal / tree.total


def two_way(tree: Tree, starts: Mapping[str, int], out: Floats) -> None:
    """Write the marginal of every pair of the tree's attributes at the rows of one and the columns of the other."""
    tree.calibrate()
    sides = _sides(tree, starts)
    # From the root down: a pair of values behind the same separator is written for it, and then again further down.
    for clique, own in zip(tree.cliques, sides, strict=True):
        pairs = list(combinations_with_replacement(own, 2))
        joints = clique.marginals({_union(one[0], other[0]) for one, other in pairs})
        for (a, rows, left), (b, columns, right) in pairs:
            joint = _matrix(joints[_union(a, b)], clique, a, b) / tree.total
            block = _times(right, _times(left, joint).T).T
            out[np.ix_(rows, columns)] = block
            out[np.ix_(columns, rows)] = block.T


def _sides(tree: Tree, starts: Mapping[str, int]) -> list[list[Behind]]:
    """For each clique, what it knows of its own new attributes and of those behind each of its separators."""
    layout = tree.layout
    behind: list[dict[Names, list[tuple[Places, Floats]]]] = [{} for _ in tree.cliques]
    sides: list[list[Behind]] = [[] for _ in tree.cliques]
    for number in range(len(tree.cliques) - 1, -1, -1):
        clique = tree.cliques[number]
        own: list[Behind] = [
            ((name,), np.arange(starts[name], starts[name] + clique.size(name)), None)
            for name in clique.attributes
            if layout.tops[name] == number
        ]
        # Separators that are the same are one: given it, what lies behind is independent.
        for names, parts in behind[number].items():
            own.append((names, np.concatenate([places for places, _ in parts]), np.concatenate([given for _, given in parts])))
        sides[number] = own
        if number:
            shared = tuple(sorted(layout.separator(number)))
            joints = clique.marginals({_union(names, shared) for names, _, _ in own})
            given = clique.marginal(shared).reshape(-1)
            rows = [_times(left, _matrix(joints[_union(names, shared)], clique, names, shared) / given) for names, _, left in own]
            entry = (np.concatenate([places for _, places, _ in own]), np.concatenate(rows))
            behind[layout.parents[number]].setdefault(shared, []).append(entry)
    return sides


def _times(left: Floats | None, right: Floats) -> Floats:
    return right if left is None else left @ right


def _union(one: Names, other: Names) -> Names:
    return one + tuple(name for name in other if name not in one)


def _matrix(joint: Floats, clique: Factor, rows: Names, columns: Names) -> Floats:
    """A marginal over the union of two sets of attributes as a matrix over the cells of both; 0 where they contradict."""
    union = _union(rows, columns)
    width = int(np.prod([clique.size(name) for name in columns], dtype=np.int64))
    height = int(np.prod([clique.size(name) for name in rows], dtype=np.int64))
    if len(union) == len(rows) + len(columns):
        return joint.reshape(height, width)
    codes = np.unravel_index(np.arange(joint.size), joint.shape)
    where = dict(zip(union, codes, strict=True))
    out = np.zeros((height, width))
    at = [np.ravel_multi_index([where[n] for n in names], [clique.size(n) for n in names]) for names in (rows, columns)]
    out[at[0], at[1]] = joint.reshape(-1)
    return out
