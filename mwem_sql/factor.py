"""One factor of the state: the weights of all class combinations of some attributes, and the two passes over them.

Marginals and multiplication are where a release spends its time on the public side; everything here is about long
inner loops and few passes. What the weights mean is the state's business.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import log, prod

import numpy as np
import pyarrow as pa

from mwem_sql.compiler.linear import Block, Floats
from mwem_sql.rollup import marginals, split, sum_out

BATCH = 1 << 20
"""Numbers that a batch of scalar queries may hold at a time."""
LOWEST = log(1e-300)
TINY = float(np.finfo(np.float64).tiny)
FLOOR = 1e-260
"""A weight that falls below exp(LOWEST), as a share of the total, comes back to FLOOR: from 0 it could never rise
again. The gap between the two keeps the check for it rare."""


SCHEMA = pa.schema(
    {
        "factor": pa.int32(),
        "attributes": pa.list_(pa.string()),
        "shape": pa.list_(pa.int32()),
        "weights": pa.large_list(pa.float64()),
    }
)


@dataclass(slots=True)
class Factor:
    """Flat, row-major weights; their sum is the state's total.

    A read-only array is shared with another state or an Arrow table: it is replaced, never written to.
    `lowest` is the logarithm of a lower bound on the weights as shares of the total.
    """

    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    weights: Floats
    lowest: float

    def marginal(self, attributes: Sequence[str]) -> Floats:
        """Axes in the order asked for; a view of the weights where nothing is summed out."""
        axes = [self.attributes.index(name) for name in attributes]
        kept = sorted(axes)
        return sum_out(self.weights, self.shape, kept).transpose([kept.index(axis) for axis in axes])

    def marginals(self, wanted: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], Floats]:
        """Many at once, each summed from the smallest array that has it; maybe views."""
        return marginals(self.weights, self.attributes, self.shape, wanted)

    def size(self, attribute: str) -> int:
        return self.shape[self.attributes.index(attribute)]

    def multiply(self, attributes: Sequence[str], by: Floats) -> None:
        """Multiply each weight by the positive entry of `by` (axes `attributes`) for its cell."""
        self.lowest += log(max(by.min(), TINY))
        axes = [self.attributes.index(name) for name in attributes]
        by = by.transpose(sorted(range(len(axes)), key=axes.__getitem__))
        by = by.reshape([size if axis in axes else 1 for axis, size in enumerate(self.shape)])
        place = split(self.shape)
        head, tail = by.shape[:place], by.shape[place:]
        if prod(tail) > 1 and tail != self.shape[place:]:
            by = np.broadcast_to(by, head + self.shape[place:])
        cells = self.weights.reshape(*self.shape[:place], -1)
        out = cells if cells.flags.writeable else None
        self.weights = np.multiply(cells, by.reshape(*head, -1), out=out).reshape(-1)

    def lift(self, total: float) -> None:
        """Keep the weights away from 0, once the bound says that one may have come near it."""
        if self.lowest < LOWEST:
            self.weights = np.maximum(self.weights, FLOOR * total)
            self.lowest = log(self.weights.min() / total)

    def share(self) -> Factor:
        """Another factor on the same memory; neither writes to it from now on."""
        self.weights.flags.writeable = False
        return Factor(self.attributes, self.shape, self.weights, self.lowest)


def factors_to_table(factors: Sequence[Factor]) -> pa.Table:
    """One row each; the weights are the factors' own memory, which none of them writes to from now on."""
    shared = [factor.share() for factor in factors]
    weights = [pa.LargeListArray.from_arrays([0, factor.weights.size], factor.weights) for factor in shared]
    columns = [
        pa.array(range(len(shared)), SCHEMA.field("factor").type),
        pa.array([factor.attributes for factor in shared], SCHEMA.field("attributes").type),
        pa.array([factor.shape for factor in shared], SCHEMA.field("shape").type),
        pa.chunked_array(weights, SCHEMA.field("weights").type),
    ]
    return pa.table(columns, schema=SCHEMA)


def factors_from_table(table: pa.Table) -> list[Factor]:
    """The rows in their order, on the table's memory where its lists hold doubles."""
    factors = []
    for names, shape, weights in zip(*(table[column] for column in SCHEMA.names[1:]), strict=True):
        cells = weights.values.cast(pa.float64()).to_numpy()
        if len(names) != len(shape) or cells.size != prod(shape.as_py()) or not (cells > 0).all():
            raise ValueError("a factor has a positive weight for each cell of its shape")
        lowest = log(cells.min() / cells.sum())
        factors.append(Factor(tuple(names.as_py()), tuple(shape.as_py()), cells, lowest))
    return factors


def outer(pieces: Sequence[tuple[Collection[int], Floats]], sizes: Sequence[int], total: float) -> Floats:
    """The product of arrays over disjoint axes (ascending), each as a share of `total`; scaled to `total`.

    Row-major over `sizes`, in a shape without axes of size 1: a query may have more blocks than numpy allows axes.
    """
    if len(pieces) == 1:
        return pieces[0][1]
    out = np.array(total)
    for axes, piece in pieces:
        shape = [size if axis in axes else 1 for axis, size in enumerate(sizes) if size != 1]
        out = np.multiply(out, (piece / total).reshape(shape), order="C")
    return np.asarray(out)


def answer_scalars(queries: Sequence[tuple[Block, ...]], marginal: Floats) -> Floats:
    """One number per query: the sum of the marginal times a product of one-cell blocks, over the same attributes."""
    if not queries:
        return np.empty(0)
    sizes = [block.labels.size for block in queries[0]]
    step = max(1, BATCH // max(sizes[0], prod(sizes[1:])))
    answers = []
    for start in range(0, len(queries), step):
        blocks = list(zip(*queries[start : start + step], strict=True))
        out = _rows(blocks[0]) @ marginal.reshape(sizes[0], -1)
        for size, alike in zip(sizes[1:], blocks[1:], strict=True):
            out = np.einsum("qc,qcr->qr", _rows(alike), out.reshape(len(alike), size, -1))
        answers.append(out[:, 0])
    return np.concatenate(answers)


def _rows(blocks: Sequence[Block]) -> Floats:
    """What a record of each class combination adds to each of these one-cell blocks."""
    rows = (np.stack([block.labels.ravel() for block in blocks]) >= 0).astype(np.float64)
    for place, block in enumerate(blocks):
        if block.values is not None:
            rows[place] *= block.values.ravel()
    return rows
