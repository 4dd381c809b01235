"""One factor of the state: the weights of all class combinations of some attributes, and the two passes over them.

Marginals and multiplication are where a release spends its time on the public side; everything here is about long
inner loops and few passes. What the weights mean is the state's business.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from math import inf, log, prod

import numpy as np
import pyarrow as pa

from mwem_sql.algebra.arrays import Floats, Places
from mwem_sql.algebra.marginals import marginals, split, spread, sum_out

PLANS = 1 << 16
"""Ways to sum or spread over some axes that are remembered: for small factors working one out takes longer than following it."""
LOWEST = log(1e-300)
TINY = float(np.finfo(np.float64).tiny)
FLOOR = 1e-260
"""A weight that falls below exp(LOWEST), as a share of the total, comes back to FLOOR: from 0 it could never rise
again. The gap between the two keeps the check for it rare."""
_CLOCK = count(1)

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
    `lowest` is the logarithm of a lower bound on the weights as shares of the total. `stamp` goes up, over all factors,
    with every change of the distribution; a new total is the same distribution. `hidden` is what changed without that.
    """

    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    weights: Floats
    lowest: float
    stamp: int = field(default_factory=_CLOCK.__next__)
    hidden: float = 0.0

    def marginal(self, attributes: Sequence[str]) -> Floats:
        """Axes in the order asked for; a view of the weights where nothing is summed out."""
        kept, order = _axes(self.attributes, tuple(attributes))
        return sum_out(self.weights, self.shape, kept).transpose(order)

    def marginals(self, wanted: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], Floats]:
        """Many at once, each summed from the smallest array that has it; maybe views."""
        wanted = set(wanted)
        if len(wanted) == 1:
            return {names: self.marginal(names) for names in wanted}
        return marginals(self.weights, self.attributes, self.shape, wanted)

    def size(self, attribute: str) -> int:
        return self.shape[self.attributes.index(attribute)]

    def multiply(self, attributes: Sequence[str], by: Floats) -> None:
        """Multiply each weight by the positive entry of `by` (axes `attributes`) for its cell."""
        self.stamp, self.hidden = next(_CLOCK), 0.0
        self.lowest += log(max(by.min(), TINY))
        heads, tails, order = _spread_shape(self.attributes, self.shape, tuple(attributes))
        by = by.transpose(order).reshape(heads + tails)
        cells = self.weights.reshape(self.shape)
        if heads:
            # In one row what a long inner loop runs over.
            if prod(tails) > 1:
                by = np.broadcast_to(by, heads + self.shape[len(heads) :])
            by = by.reshape(*heads, -1)
            cells = cells.reshape(*self.shape[: len(heads)], -1)
        out = cells if cells.flags.writeable else None
        self.weights = np.multiply(cells, by, out=out).reshape(-1)

    def split(self, attribute: str, parents: Places, shares: Floats, total: float) -> Factor:
        """The same distribution on more classes: new class i has its share of what class `parents[i]` had."""
        axis = self.attributes.index(attribute)
        cells = spread(self.weights.reshape(self.shape), axis, parents, shares)
        out = Factor(self.attributes, cells.shape, cells.reshape(-1), self.lowest + log(max(shares.min(), TINY)))
        out.lift(total)
        return out

    def lift(self, total: float) -> None:
        """Keep the weights away from 0, once the bound says that one may have come near it."""
        if self.lowest < LOWEST:
            self.weights = np.maximum(self.weights, FLOOR * total)
            self.lowest = log(self.weights.min() / total)

    def share(self) -> Factor:
        """Another factor on the same memory; neither writes to it from now on."""
        self.weights.flags.writeable = False
        return Factor(self.attributes, self.shape, self.weights, self.lowest, self.stamp, self.hidden)


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
        if len(names) != len(shape) or cells.size != prod(shape.as_py()) or not ((cells > 0) & (cells < inf)).all():
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


def base_shares(sizes: Floats) -> Floats:
    """Classes' base measure as shares of all of it; none is 0."""
    base = np.array(sizes, dtype=np.float64)
    if base.ndim != 1 or not base.size or not np.isfinite(base).all() or base.min() <= 0:
        raise ValueError("an attribute has classes of positive size")
    base /= base.max()  # lengths may be too large to add up
    return np.asarray(np.maximum(base / base.sum(), FLOOR))


@lru_cache(maxsize=PLANS)
def _axes(attributes: tuple[str, ...], asked: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes asked for, ascending, and the places among them in the order asked for."""
    axes = [attributes.index(name) for name in asked]
    kept = sorted(axes)
    return tuple(kept), tuple(kept.index(axis) for axis in axes)


@lru_cache(maxsize=PLANS)
def _spread_shape(
    attributes: tuple[str, ...], shape: tuple[int, ...], given: tuple[str, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The shape of an array over some axes as one over all, before and after the split, and the order of its axes for that."""
    axes = [attributes.index(name) for name in given]
    full = tuple(size if axis in axes else 1 for axis, size in enumerate(shape))
    place = split(shape)
    return full[:place], full[place:], tuple(sorted(range(len(axes)), key=axes.__getitem__))
