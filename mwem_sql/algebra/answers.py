"""Answers to many queries over the same attributes, from one marginal over them: of weights or of counts.

Owns the choice between the ways to do it. Knows nothing of where the marginal comes from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Array, Floats
from mwem_sql.algebra.boxes import Boxes, many_boxes
from mwem_sql.algebra.linear import Block, LinearQuery

MOST_WHOLE = 2.0**53
"""Whole numbers up to here are float64."""
FEW_CELLS = 16
"""Cells of a query that is a row of a matrix product. More: products of mostly zeros; fewer: more queries one by one."""
ROW_NUMBERS = 1 << 20
"""Numbers that the rows of one matrix product may hold: 8 MB. More take memory, fewer take more products."""


def answer_all(queries: Sequence[LinearQuery], marginal: Array, *, prefix_sums: bool = True) -> list[Array]:
    """One array per query. The marginal is row-major over the attributes of each of them, in that order; none of it is negative.

    Very many counts of neighbouring classes are differences of prefix sums; queries of few cells are rows of a matrix product, of
    integers where float64 has every sum exactly; all others are answered one by one. Prefix sums need the marginal's axes, and take longer to
    set up than a product: whoever asks the same queries again and again does without, or keeps the `Boxes`. Integers wrap around beyond int64.
    """
    out: dict[int, Array] = {}
    for numbers in many_boxes(queries).values() if prefix_sums else ():
        found = Boxes([queries[number] for number in numbers]).answers(marginal)
        # Of weights, a difference of sums may be below 0 where there is nothing.
        out.update((number, np.maximum(answer, 0)) for number, answer in zip(numbers, found, strict=True))
    similar: dict[tuple[tuple[tuple[str, ...], int], ...], list[int]] = {}
    is_whole = marginal.dtype.kind != "f"
    # Below the first float64 that is not followed by the next whole number.
    most = MOST_WHOLE / max(1.0, float(np.abs(marginal).sum(dtype=np.float64))) if is_whole else math.inf
    for number, query in enumerate(queries):
        if number not in out and query.blocks and query.cells <= FEW_CELLS and query.bound < most:
            similar.setdefault(tuple([(block.attributes, block.size) for block in query.blocks]), []).append(number)
    for numbers in similar.values():
        products = _multiplied([queries[number].blocks for number in numbers], marginal)
        out.update(zip(numbers, np.rint(products).astype(np.int64) if is_whole else products, strict=True))
    return [out[number] if number in out else query.answer(marginal) for number, query in enumerate(queries)]


def _multiplied(products: Sequence[tuple[Block, ...]], marginal: Array) -> Array:
    """A row of answers for each product of blocks, all over the same attributes and with as many cells, block by block."""
    extents, cells = [block.extent for block in products[0]], [block.size for block in products[0]]
    step = max(1, ROW_NUMBERS // (prod(cells) * max(extents[0], prod(extents[1:]))))
    answers = []
    for start in range(0, len(products), step):
        first, *others = zip(*products[start : start + step], strict=True)
        out = _rows(first) @ marginal.reshape(extents[0], -1)
        for extent, blocks in zip(extents[1:], others, strict=True):
            count = len(blocks)
            out = (_rows(blocks)[:, None] @ out.reshape(count, -1, extent, out.shape[-1] // extent)).reshape(
                count, -1, out.shape[-1] // extent
            )
        answers.append(out.reshape(len(first), -1))
    return np.concatenate(answers)


def _rows(blocks: Sequence[Block]) -> Floats:
    """Of each block, what a record of each class combination adds to each of its cells: blocks of as many cells each."""
    labels = np.stack([block.labels.ravel() for block in blocks])[:, None]
    rows: Floats = (labels == np.arange(blocks[0].size)[:, None]).astype(np.float64)
    for place, block in enumerate(blocks):
        if block.values is not None:
            rows[place] *= block.values.ravel()
    return rows
