"""A grid translates between classes and groups of them."""

from __future__ import annotations

import numpy as np
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds

from mwem_sql.algebra.linear import Block
from mwem_sql.model.grid import Grid

quick = settings(deadline=None, max_examples=60)


@st.composite
def grids(draw: st.DrawFn, size: int) -> Grid:
    """Groups of classes, not all of them neighbours, numbered by first appearance."""
    drawn = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    order = list(dict.fromkeys(drawn))
    sizes = np.array(draw(st.lists(st.floats(0.1, 10), min_size=size, max_size=size)))
    return Grid(np.array([order.index(group) for group in drawn], np.int32), sizes / sizes.sum())


@quick
@given(seeds, st.integers(1, 12))
def test_a_grid(seed: int, size: int) -> None:
    """Spreading undoes nothing but the sums inside a group, and averages are what the spread weights would give."""
    generator = np.random.default_rng(seed)
    grid = Grid.single(generator.choice([1e-300, 0.5, 1, 7e100], size))
    runs = 1
    for _ in range(3):
        block = Block(("x",), generator.integers(-1, 2, size).astype(np.int32), 2)
        runs += block.changes[0]
        finer = grid.split(block, 0)
        assert grid.count <= finer.count <= finer.runs <= runs
        assert finer.is_whole == (finer.count == size)
        assert [finer.groups[k] for k in finer.firsts] == list(range(finer.count))
        grid = finer
    weights, adds = generator.random((2, grid.count, 3)), generator.normal(size=(4, size))
    spread = grid.spread(weights, 1)
    np.testing.assert_allclose(
        np.stack([spread[:, grid.groups == k].sum(1) for k in range(grid.count)], 1), weights, rtol=1e-12
    )
    np.testing.assert_allclose(
        np.einsum("ag,bgc->abc", grid.average(adds, 1), weights),
        np.einsum("ax,bxc->abc", adds, spread),
        rtol=1e-9,
        atol=1e-12,
    )


@settings(max_examples=examples(100), deadline=None)
@given(grids(9), st.lists(st.integers(-1, 0), min_size=9, max_size=9))
def test_a_count_on_groups_is_its_average(grid: Grid, labels: list[int]) -> None:
    block = Block(("x",), np.array(labels, np.int32), 1)
    begins, ends, cells = block.stretches
    found = grid.counted(begins[cells >= 0], ends[cells >= 0])
    np.testing.assert_allclose(found, grid.average((block.labels >= 0).astype(np.float64), 0), atol=1e-12)
