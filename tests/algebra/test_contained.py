"""How cells make up others, against dense matrices over all class combinations."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mwem_sql.algebra.contained import contained
from mwem_sql.algebra.linear import Block, LinearQuery

SIZES = {"a": 3, "b": 4, "c": 2}


def random_block(names: tuple[str, ...], generator: np.random.Generator, valued: bool) -> Block:
    shape = [SIZES[name] for name in names]
    size = int(generator.integers(1, 4))
    labels = generator.integers(-1, size, shape).astype(np.int32)
    values = generator.integers(0, 4, shape) if valued else None
    return Block(names, labels, size, values)


def dense(blocks: tuple[Block, ...]) -> np.ndarray:
    """A row per cell, a column per class combination of a, b and c."""
    query = LinearQuery(blocks)
    out = np.zeros((query.cells, *SIZES.values()))
    for place in product(*map(range, SIZES.values())):
        at = dict(zip(SIZES, place, strict=True))
        cell, adds = 0, 1.0
        for block in blocks:
            own = tuple(at[name] for name in block.attributes)
            label = int(block.labels[own])
            cell = -1 if label < 0 or cell < 0 else cell * block.size + label
            adds *= 1 if block.values is None else block.values[own]
        if cell >= 0:
            out[(cell, *place)] = adds
    return out.reshape(query.cells, -1)


SHAPES = [
    ((("a",),), (("a",),)), ((("a",), ("b",)), (("b",), ("a",))), ((("a", "b"),), (("a",), ("b",))), ((("a",),), (("b", "a"),)),
    ((("b",), ("a", "c")), (("a", "b", "c"),)), ((("a",), ("c",)), (("a",),)), ((), (("a",), ("b",))), ((("a", "b"),), ()),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_against_dense_matrices(seed: int) -> None:
    generator = np.random.default_rng(seed)
    asked_names, measured_names = SHAPES[seed % len(SHAPES)]
    valued = bool(seed % 3 == 0)
    measured = tuple(random_block(names, generator, False) for names in measured_names)
    asked = tuple(random_block(names, generator, valued) for names in asked_names)
    if seed % 2 and all(names in measured_names for names in asked_names):
        # Coarser than what was measured: sums of its cells.
        for k, names in enumerate(asked_names):
            block = measured[measured_names.index(names)]
            labels = np.where(block.labels >= 0, block.labels // 2, -1).astype(np.int32)
            asked = (*asked[:k], Block(names, labels, (block.size + 1) // 2), *asked[k + 1 :])
    found = contained(asked, measured, SIZES)
    assert found is not None
    ask, told = dense(asked), dense(measured)
    counted = told.sum(axis=0) > 0
    for c, row in enumerate(ask):
        if not row.any():
            continue  # a cell that counts nothing
        parts = [row[cell > 0] / cell[cell > 0] for cell in told if (cell > 0).any()]
        is_open = bool((row[~counted] != 0).any())
        assert found.is_exact[c] == (not is_open and all(own.min() == own.max() for own in parts))
        assert found.is_open[c] == is_open
    rows = generator.integers(0, 9, ask.shape[1]).astype(np.float64)
    low, high, truth = found.low(told @ rows), found.high(told @ rows), ask @ rows
    assert found.is_bounded
    assert (low <= truth + 1e-9).all()
    assert ((truth <= high + 1e-9) | found.is_open).all()
    assert np.allclose(low[found.is_exact], truth[found.is_exact])


def test_what_is_negative_has_no_bounds() -> None:
    signs = Block(("a",), np.zeros(3, dtype=np.int32), 1, np.array([1, -1, 1]))
    whole = Block(("a",), np.zeros(3, dtype=np.int32), 1)
    cells = Block(("a",), np.arange(3, dtype=np.int32), 3)
    assert not contained((whole,), (signs,), SIZES).is_bounded  # type: ignore[union-attr]
    exact = contained((signs,), (cells,), SIZES)
    assert exact is not None
    assert exact.is_exact.all()
    assert exact.low(np.array([5.0, 2.0, 1.0])).tolist() == [4.0]


def test_a_measured_sum_tells_itself_and_its_multiples() -> None:
    values = np.array([2, 5, 9])
    once, twice = (Block(("a",), np.zeros(3, dtype=np.int32), 1, values * k) for k in (1, 2))
    found = contained((twice,), (once,), SIZES)
    assert found is not None
    assert found.is_exact.all()
    assert found.low(np.array([100.0])).tolist() == [200.0]
    count = contained((Block(("a",), np.zeros(3, dtype=np.int32), 1),), (once,), SIZES)
    assert count is not None
    assert not count.is_exact.any()
    assert count.low(np.array([90.0]))[0] == pytest.approx(10)
    assert count.high(np.array([90.0]))[0] == pytest.approx(45)


def test_what_is_too_much_is_not_worked_out() -> None:
    wide = {"a": 3000, "b": 3000}
    blocks = [Block((name,), np.zeros(3000, dtype=np.int32), 1) for name in wide]
    joint = Block(("a", "b"), np.zeros((3000, 3000), dtype=np.int32), 1)
    assert contained(blocks, (joint,), wide) is None
    assert contained(blocks, blocks, wide) is not None
