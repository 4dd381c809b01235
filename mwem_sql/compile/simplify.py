"""A block as what it comes down to: without attributes that do not matter to it, and taken apart where it is a product."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.linear import Block


def simplified(block: Block) -> list[Block]:
    return _split(_drop_constant(block))


def counts_all(block: Block) -> bool:
    return not block.attributes and block.values is None and block.size == 1 and bool((block.labels == 0).all())


def _drop_constant(block: Block) -> Block:
    """Without the attributes along which nothing changes."""
    if len(block.shape) == 1 and block.values is None and block.changes[0]:
        return block
    names, labels, values = list(block.attributes), block.labels, block.values
    for axis in reversed(range(len(names))):
        if _is_constant(labels, axis) and (values is None or _is_constant(values, axis)):
            labels = np.asarray(labels.take(0, axis=axis))
            values = None if values is None else np.asarray(values.take(0, axis=axis))
            del names[axis]
    return Block(tuple(names), labels, block.size, values, block.unit)


def _is_constant(array: npt.NDArray[Any], axis: int) -> bool:
    first = array.swapaxes(0, axis)
    return bool((first == first[:1]).all())


def _split(block: Block) -> list[Block]:
    """A scalar block as a product of smaller ones, where its counted cells form a product."""
    if block.size != 1 or block.values is not None or len(block.attributes) < 2:
        return [block]
    counted = block.labels == 0
    total = np.count_nonzero(counted)
    for axis, name in enumerate(block.attributes):
        others = tuple(k for k in range(counted.ndim) if k != axis)
        alone, rest = counted.any(axis=others), counted.any(axis=axis)
        # What is counted lies in the product of the two, and so is that product if it has as many cells.
        if np.count_nonzero(alone) * np.count_nonzero(rest) == total:
            names = tuple(other for other in block.attributes if other != name)
            one = Block((name,), np.where(alone, 0, -1).astype(np.int32), 1)
            return [one, *_split(Block(names, np.where(rest, 0, -1).astype(np.int32), 1))]
    return [block]
