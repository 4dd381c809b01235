"""The tree of halves: every level halves one attribute, and sums of a level are those of its parts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.loop.halves import Halves, rounds_of

SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)


@settings(max_examples=examples(80), deadline=None)
@given(SHAPES)
def test_each_level_halves_one_attribute_and_the_last_has_single_cells(shape: tuple[int, ...]) -> None:
    tree = Halves(shape)
    cells = int(np.prod(shape))
    assert sorted(tree.order) == list(range(cells))
    assert len(tree.starts[0]) == 1
    assert len(tree.starts[-1]) == cells
    assert len(tree.levels) == rounds_of(shape)
    assert (tree.levels[-1], tree.levels) == (len(tree.starts) - 1, sorted(set(tree.levels)))
    for level, (above, below) in enumerate(pairwise(tree.starts), start=1):
        assert np.bincount(tree.parents[level], minlength=len(above)).max() <= 2
        assert set(above) <= set(below)
    # A node is a box of neighbouring classes: its cells are as many as the product of its extents.
    for starts in tree.starts:
        for begin, end in pairwise([*starts.tolist(), cells]):
            places = np.unravel_index(tree.order[begin:end], shape)
            assert np.prod([own.max() - own.min() + 1 for own in places]) == end - begin


@settings(max_examples=20, deadline=None)
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_sums_of_a_level_are_those_of_the_nodes_below(shape: tuple[int, ...], seed: int) -> None:
    tree = Halves(shape)
    cells = np.random.default_rng(seed).random(int(np.prod(shape)))
    for level in range(1, len(tree.starts)):
        below = np.bincount(tree.parents[level], tree.sums(cells, level))
        np.testing.assert_allclose(below, tree.sums(cells, level - 1))
    np.testing.assert_allclose(tree.sums(cells, 0), [cells.sum()])
