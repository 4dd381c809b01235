"""Three-way marginals in bulk are those that the tree gives one by one."""

from __future__ import annotations

from itertools import combinations, permutations
from unittest import mock

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.model import three_way as module
from mwem_sql.model.state import State
from mwem_sql.model.three_way import three_way
from mwem_sql.model.tree import Tree


def random_tree(seed: int, count: int, sizes: tuple[int, ...]) -> Tree:
    """A tree over some attributes, joined by random pairs and triples, with random weights."""
    generator = np.random.default_rng(seed)
    names = [f"a{number}" for number in range(count)]
    state = State.uniform({name: np.ones(sizes[number % len(sizes)]) for number, name in enumerate(names)}, 1000.0)
    for number in range(1, count):
        state.join([names[number], names[int(generator.integers(number))]])
    state.join(generator.choice(names, 3, replace=False).tolist())
    (tree,) = state.trees
    for number, clique in enumerate(tree.cliques):
        tree.reach(number)
        by = generator.uniform(0.2, 5.0, clique.shape)
        by *= tree.total / float((by.ravel() * clique.weights).sum())
        tree.multiply(number, clique.attributes, by)
    tree.calibrate()
    return tree


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(0, 10**6), st.integers(3, 9), st.sampled_from([(2,), (3,), (2, 2, 3)]), st.sampled_from([0, 4, 10**9])
)
def test_bulk_is_one_by_one(seed: int, count: int, sizes: tuple[int, ...], waste: int) -> None:
    tree = random_tree(seed, count, sizes)
    with mock.patch.object(module, "WASTE", waste):  # all ways together, or each apart
        compare(tree, sizes)


def compare(tree: Tree, sizes: tuple[int, ...]) -> None:
    index = {name: 7 + 2 * number for number, name in enumerate(sorted(tree.attributes, reverse=True))}
    names_of = {number: name for name, number in index.items()}
    size = {name: sizes[int(name[1:]) % len(sizes)] for name in index}
    asked = [row for some in combinations(index.values(), 3) for row in permutations(some)]
    for shape in {tuple(size[names_of[number]] for number in row) for row in asked}:
        rows = [row for row in asked if tuple(size[names_of[number]] for number in row) == shape]
        found = three_way(tree, index, np.array(rows), shape).reshape(len(rows), *shape)
        for row, marginal in zip(rows, found, strict=True):
            names = tuple(names_of[number] for number in row)
            expected = tree.marginals([names])[names].reshape(shape) / tree.total
            assert marginal == pytest.approx(expected, abs=1e-12)
