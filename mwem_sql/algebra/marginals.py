"""Marginals of a dense array with an axis per attribute: many at once, each summed from the smallest array that has it; and on finer classes.

Pure array work, on weights and on counts alike; everything here is about long inner loops and few passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from mwem_sql.algebra.arrays import Floats, Numbers, Places

LONG = 512
"""Cells that an inner loop should have: numpy takes some 20 ns to start one."""


def marginals(
    cells: Numbers, attributes: Sequence[str], shape: Sequence[int], wanted: Iterable[tuple[str, ...]]
) -> dict[tuple[str, ...], Numbers]:
    """Marginals of a flat, row-major array over `attributes`, axes in the order asked for; maybe views."""
    axes = {names: [attributes.index(name) for name in names] for names in wanted}
    found = sum_out_all(cells, dict(enumerate(shape)), list(set(map(frozenset, axes.values()))))
    return {
        names: found[frozenset(asked)].transpose([sorted(asked).index(axis) for axis in asked])
        for names, asked in axes.items()
    }


def shares_within(parents: Places, base: Floats) -> Floats:
    """The share that each class has, by base measure, of the coarser class that it is part of."""
    return np.asarray(base / np.bincount(parents, base)[parents])


def spread(weights: Floats, axis: int, parents: Places, shares: Floats) -> Floats:
    """Weights on finer classes along an axis: class i gets its share of what class `parents[i]` has."""
    out = weights.take(parents, axis=axis)
    out *= shares.reshape(-1, *[1] * (out.ndim - axis - 1))
    return np.asarray(out)


def split(shape: Sequence[int]) -> int:
    """Where the trailing axes begin that together make a long inner loop."""
    split, cells = len(shape), 1
    while split and cells < LONG:
        split -= 1
        cells *= shape[split]
    return split


@lru_cache(maxsize=1 << 16)
def _reductions(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Where the long inner loop begins, and which axes before and behind it are summed out.

    Remembered: for a small array working it out takes longer than the sum.
    """
    place = split(shape)
    head = tuple(axis for axis in range(place) if axis not in axes)
    tail = tuple(axis for axis in range(place, len(shape)) if axis not in axes)
    return place, head, tail


def sum_out(weights: Numbers, shape: tuple[int, ...], axes: tuple[int, ...]) -> Numbers:
    """Sum over all axes but these; they keep their order."""
    if len(axes) == len(shape):
        return weights.reshape(shape)
    place, head, tail = _reductions(shape, axes)
    if not place:
        return np.asarray(np.add.reduce(weights.reshape(shape), axis=tail))
    if len(tail) == len(shape) - place:
        rows = np.add.reduce(weights.reshape(*shape[:place], -1), axis=-1)
        return np.asarray(np.add.reduce(rows, axis=head))
    # The leading axes first, in one pass with the whole tail as inner loop: what is left then is small.
    cells = weights.reshape(*shape[:place], -1)
    if head:
        cells = np.add.reduce(cells, axis=head)
    cells = cells.reshape(*cells.shape[:-1], *shape[place:])
    return np.asarray(np.add.reduce(cells, axis=tuple(axis - len(head) for axis in tail)))


def sum_out_all(
    weights: Numbers, sizes: Mapping[int, int], wanted: Sequence[frozenset[int]]
) -> dict[frozenset[int], Numbers]:
    """Marginals for several sets of axes of an array whose axes are the keys of `sizes`, in that order.

    Sums out what no set keeps; then the sets without the longest axis that only some keep go on without it.
    """
    axes = frozenset().union(*wanted)
    weights = sum_out(weights, tuple(sizes.values()), tuple(place for place, axis in enumerate(sizes) if axis in axes))
    sizes = {axis: size for axis, size in sizes.items() if axis in axes}
    if len(wanted) == 1:
        return {axes: weights}
    longest = max((axis for axis in axes if not all(axis in kept for kept in wanted)), key=sizes.__getitem__)
    found = sum_out_all(weights, sizes, [kept for kept in wanted if longest not in kept])
    return found | sum_out_all(weights, sizes, [kept for kept in wanted if longest in kept])
