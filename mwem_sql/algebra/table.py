"""`Table`, an array with named axes: project, align, multiply, contract. Everything that arranges axes is here.

Pure array work, on weights and on counts. Sums and products over large tables are where a release spends its time on
the public side: everything here is about long inner loops and few passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, prod
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from mwem_sql.algebra.arrays import Floats, Numbers, Places
from mwem_sql.algebra.partition import spread

Names: TypeAlias = tuple[str, ...]

LONG = 512
"""Cells that an inner loop should have: numpy takes some 20 ns to start one. Larger: fewer loops, over axes merged by
a copy."""
PLANS = 1 << 16
"""Arrangements of axes that are remembered: for a small table working one out takes longer than following it."""
FACTOR_SCHEMA = pa.schema(
    {
        "factor": pa.int32(),
        "attributes": pa.list_(pa.string()),
        "shape": pa.list_(pa.int32()),
        "weights": pa.large_list(pa.float64()),
    }
)
"""How tables of weights are stored: a row each."""


@dataclass(slots=True, eq=False)
class Table:
    """Cells with an axis for each name, row-major. Nothing here writes to them but `multiply` with `out`."""

    names: Names
    cells: Numbers

    @property
    def shape(self) -> tuple[int, ...]:
        return self.cells.shape

    def size(self, name: str) -> int:
        return int(self.cells.shape[self.names.index(name)])

    def sizes(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple([self.size(name) for name in names])

    def project(self, names: Sequence[str]) -> Table:
        """Sum out all other axes; in the order of `names`. A view where nothing is summed out."""
        wanted = tuple(names)
        if wanted == self.names:
            return self
        kept, order = _projection(self.names, wanted)
        return Table(wanted, _sum_out(self.cells, kept).transpose(order))

    def projections(self, wanted: Iterable[Names]) -> dict[Names, Table]:
        """Many at once, each summed from the smallest array that has it; maybe views."""
        wanted = list(wanted)
        if len(wanted) == 1:
            return {wanted[0]: self.project(wanted[0])}
        axes = {names: [self.names.index(name) for name in names] for names in wanted}
        sums = _sum_out_all(self.cells, tuple(range(len(self.names))), list(set(map(frozenset, axes.values()))))
        return {
            names: Table(names, sums[frozenset(order)].transpose([sorted(order).index(axis) for axis in order]))
            for names, order in axes.items()
        }

    def align(self, names: Names) -> Numbers:
        """A view of the cells with an axis for each of these names, of size 1 where the table has none of that name."""
        order, index = _alignment(self.names, names)
        return self.cells.transpose(order)[index]

    def expand(self, names: Names, shape: Sequence[int]) -> Numbers:
        """A view of the cells with these axes, repeated along those that the table has none of."""
        return np.broadcast_to(self.align(names), shape)

    def multiply(self, by: Table, out: Numbers | None = None) -> Table:
        """Each cell times the entry of `by` for it, in the array `out` if one is given."""
        wide, cells = by.align(self.names), self.cells
        head = _head(cells.shape)
        if not head:
            return Table(self.names, np.multiply(cells, wide, out=out))
        # In one row what a long inner loop runs over.
        if prod(wide.shape[head:]) > 1:
            wide = np.broadcast_to(wide, wide.shape[:head] + cells.shape[head:])
        wide = wide.reshape(*wide.shape[:head], -1)
        cells = cells.reshape(*cells.shape[:head], -1)
        out = None if out is None else out.reshape(cells.shape)
        return Table(self.names, np.multiply(cells, wide, out=out).reshape(self.cells.shape))

    def contract(self, other: Table, kept: Names) -> Table:
        """The product of two tables, summed over all axes but `kept`: a matrix product for each common kept cell."""
        left, right, out = _contraction(self.names, other.names, kept)
        one, two = self.project(left[0] + left[1] + left[2]), other.project(right[0] + right[1] + right[2])
        common, rows = one.shape[: len(left[0])], one.shape[len(left[0]) : len(left[0] + left[1])]
        columns = two.shape[len(right[0] + right[1]) :]
        batch, inner = prod(common), prod(one.shape[len(common) + len(rows) :])
        product = np.matmul(one.cells.reshape(batch, prod(rows), inner), two.cells.reshape(batch, inner, prod(columns)))
        return Table(out, product.reshape(common + rows + columns)).project(kept)

    def split(self, name: str, parents: Places, shares: Floats) -> Table:
        """More values along an axis: new value i has its share of what value `parents[i]` had."""
        return Table(self.names, spread(self.cells, self.names.index(name), parents, shares))


def independent(tables: Sequence[Table], names: Names, total: float) -> Table:
    """The joint table of several over disjoint axes that each sum to `total`, and so does it."""
    if len(tables) == 1:
        return tables[0].project(names)
    cells = np.array(total)
    for table in tables:
        cells = np.multiply(cells, Table(table.names, table.cells / total).align(names), order="C")
    return Table(names, np.asarray(cells))


def tables_to_arrow(tables: Sequence[Table]) -> pa.Table:
    """One row each, on the memory of the tables, which nobody may write to from now on."""
    for table in tables:
        table.cells.flags.writeable = False
    flat = [table.cells.reshape(-1) for table in tables]
    columns = [
        pa.array(range(len(tables)), FACTOR_SCHEMA.field("factor").type),
        pa.array([table.names for table in tables], FACTOR_SCHEMA.field("attributes").type),
        pa.array([table.shape for table in tables], FACTOR_SCHEMA.field("shape").type),
        pa.chunked_array(
            [pa.LargeListArray.from_arrays([0, cells.size], cells) for cells in flat],
            FACTOR_SCHEMA.field("weights").type,
        ),
    ]
    return pa.table(columns, schema=FACTOR_SCHEMA)


def tables_from_arrow(arrow: pa.Table) -> list[Table]:
    """The rows in their order, on the table's memory where its lists hold doubles; all weights must be positive."""
    tables = []
    all_names, all_shapes = arrow["attributes"].to_pylist(), arrow["shape"].to_pylist()
    for names, shape, weights in zip(all_names, all_shapes, arrow["weights"], strict=True):
        cells = weights.values.cast(pa.float64()).to_numpy()
        if len(names) != len(shape) or cells.size != prod(shape) or not ((cells > 0) & (cells < inf)).all():
            raise ValueError("a factor has a positive weight for each cell of its shape")
        tables.append(Table(tuple(names), cells.reshape(shape)))
    return tables


@lru_cache(maxsize=PLANS)
def _head(shape: tuple[int, ...]) -> int:
    """The number of axes before those that together make a long inner loop."""
    head, cells = len(shape), 1
    while head and cells < LONG:
        head -= 1
        cells *= shape[head]
    return head


@lru_cache(maxsize=PLANS)
def _projection(names: Names, wanted: Names) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of `wanted`, ascending, and their places among in the order of `names`."""
    axes = [names.index(name) for name in wanted]
    kept = sorted(axes)
    return tuple(kept), tuple(kept.index(axis) for axis in axes)


@lru_cache(maxsize=PLANS)
def _alignment(names: Names, wanted: Names) -> tuple[tuple[int, ...], tuple[slice | None, ...]]:
    """The order of axes in which `wanted` has them, and the index that puts axes of size 1 between them."""
    order = sorted(range(len(names)), key=lambda axis: wanted.index(names[axis]))
    return tuple(order), tuple(slice(None) if name in names else None for name in wanted)


@lru_cache(maxsize=PLANS)
def _contraction(
    left: Names, right: Names, kept: Names
) -> tuple[tuple[Names, Names, Names], tuple[Names, Names, Names], Names]:
    """The axes of both tables in the order that a matrix product takes, and those of the product.

    Of the left one: common and kept, kept, summed; of the right one: common and kept, summed, kept.
    """
    common = tuple(name for name in kept if name in left and name in right)
    rows = tuple(name for name in kept if name in left and name not in right)
    columns = tuple(name for name in kept if name in right and name not in left)
    summed = tuple(name for name in left if name in right and name not in kept)
    return (common, rows, summed), (common, summed, columns), common + rows + columns


@lru_cache(maxsize=PLANS)
def _reductions(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Where the long inner loop begins, and which axes before and behind it are summed out."""
    tail_at = _head(shape)
    head = tuple(axis for axis in range(tail_at) if axis not in axes)
    tail = tuple(axis for axis in range(tail_at, len(shape)) if axis not in axes)
    return tail_at, head, tail


def _sum_out(cells: Numbers, axes: tuple[int, ...]) -> Numbers:
    """Sum over all axes but these; they keep their order."""
    shape = cells.shape
    if len(axes) == len(shape):
        return cells
    tail_at, head, tail = _reductions(shape, axes)
    if not tail_at:
        return np.asarray(np.add.reduce(cells, axis=tail))
    if len(tail) == len(shape) - tail_at:
        rows = np.add.reduce(cells.reshape(*shape[:tail_at], -1), axis=-1)
        return np.asarray(np.add.reduce(rows, axis=head))
    # The leading axes first, in one pass with the whole tail as inner loop: what is left then is small.
    cells = cells.reshape(*shape[:tail_at], -1)
    if head:
        cells = np.add.reduce(cells, axis=head)
    cells = cells.reshape(*cells.shape[:-1], *shape[tail_at:])
    return np.asarray(np.add.reduce(cells, axis=tuple(axis - len(head) for axis in tail)))


def _sum_out_all(
    cells: Numbers, axes: tuple[int, ...], wanted: Sequence[frozenset[int]]
) -> Mapping[frozenset[int], Numbers]:
    """Marginals for several sets of axes of an array whose axes have these numbers.

    Sums out what no set keeps; then the sets without the longest axis that only some keep go on without it.
    """
    union = frozenset().union(*wanted)
    cells = _sum_out(cells, tuple(k for k, axis in enumerate(axes) if axis in union))
    if len(wanted) == 1:
        return {union: cells}
    axes = tuple(axis for axis in axes if axis in union)
    sizes = dict(zip(axes, cells.shape, strict=True))
    longest = max((axis for axis in union if not all(axis in kept for kept in wanted)), key=sizes.__getitem__)
    without, others = ([kept for kept in wanted if (longest in kept) == has] for has in (False, True))
    return {**_sum_out_all(cells, axes, without), **_sum_out_all(cells, axes, others)}
