"""Messages between the cliques of a tree: what a clique knows of attributes that it does not hold.

Owns how a distribution passes through a clique, for the values of many attributes at once. Which marginals are made of the messages
is the business of `two_way` and `three_way`; nothing here changes a clique.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats, Integers
from mwem_sql.algebra.factor import Factor
from mwem_sql.model.tree import Names


@dataclass(frozen=True, eq=False)
class Side:
    """Values that a clique knows through some of its attributes: their distribution, a row per value, for each cell of `through`.

    `attributes` are the numbers of the attributes that have these values, and `places` where whoever asks keeps each value.
    `close` says whether more than a trace of an attribute depends on `through`.
    """

    through: Names
    given: Floats
    attributes: Integers
    places: Integers
    close: Flags


def grouped(sides: Sequence[Side]) -> list[list[Side]]:
    """Those that are known through the same attributes together: given them, they are independent."""
    groups: dict[Names, list[Side]] = {}
    for side in sides:
        groups.setdefault(side.through, []).append(side)
    return list(groups.values())


def merged(sides: Sequence[Side]) -> Side:
    """Sides that are known through the same attributes, as one."""
    if len(sides) == 1:
        return sides[0]
    fields = zip(*((side.given, side.attributes, side.places, side.close) for side in sides), strict=True)
    return Side(sides[0].through, *map(np.concatenate, fields))


def message(clique: Factor, sides: Sequence[Side], through: Names) -> Side:
    """All that a clique knows through some sides, for a neighbour that it shares `through` with."""
    return merged([passed(clique, merged(group), through) for group in grouped(sides)])


def passed(clique: Factor, side: Side, through: Names) -> Side:
    """The same values, given other attributes of the clique."""
    common, summed = _summed(clique, side, through)
    order = [*common, *(name for name in through if name not in common)]
    given = summed.transpose(1, 0, 2).reshape(len(side.given), *(clique.size(name) for name in order))
    given = given.transpose(0, *(1 + order.index(name) for name in through)).reshape(len(side.given), -1)
    return replace(side, through=through, given=given / clique.marginal(through).reshape(-1))


def joint(clique: Factor, left: Side, right: Side, beside: Names = ()) -> Floats:
    """Weights of the values of two sides, for each cell of attributes that neither is known through."""
    common, summed = _summed(clique, left, (*beside, *right.through))
    order = [*common, *(name for name in right.through if name not in common)]
    across = _arranged(clique, right, order).reshape(len(right.given), -1)
    cells = prod(map(clique.size, beside))
    rows = (
        summed.reshape(len(summed), len(left.given), cells, -1)
        .transpose(2, 1, 0, 3)
        .reshape(cells * len(left.given), -1)
    )
    return np.asarray(rows @ across.T)


def _summed(clique: Factor, side: Side, through: Names) -> tuple[Names, Floats]:
    """Weights of the cells of `through` together with each value: what it has in common with the side, value, the rest."""
    common = tuple(name for name in side.through if name in through)
    left = [name for name in side.through if name not in common]
    right = [name for name in through if name not in common]
    first = prod(clique.size(name) for name in common)
    weights = clique.marginal([*common, *left, *right]).reshape(first, prod(clique.size(name) for name in left), -1)
    given = _arranged(clique, side, [*common, *left]).reshape(len(side.given), first, -1).transpose(1, 0, 2)
    return common, np.matmul(given, weights)


def _arranged(clique: Factor, side: Side, order: Sequence[str]) -> Floats:
    """What is given with its axes in another order, behind that of the values."""
    given = side.given.reshape(len(side.given), *(clique.size(name) for name in side.through))
    return given.transpose(0, *(1 + side.through.index(name) for name in order))
