"""Marginals across cliques: messages against einsum, triples against asking the tree for each."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.algebra.table import Table
from mwem_sql.model.marginals import (
    ROWS,
    Message,
    by_separator,
    conditional,
    joint,
    marginals,
    merged,
    message,
    three_way,
)  # fmt: skip
from mwem_sql.model.state import State
from mwem_sql.model.tree import Tree


def known(separator: tuple[str, ...], given: np.ndarray, number: int) -> Message:
    return Message(
        given=Table((ROWS, *separator), given),
        attributes=np.array([number]),
        places=10 * number + np.arange(len(given)),
        close=np.ones(1, dtype=np.bool_),
    )


GENERATOR = np.random.default_rng(5)
WEIGHTS = GENERATOR.uniform(1, 2, (2, 3, 4))
CLIQUE = Table(("a", "b", "c"), WEIGHTS)
# An attribute d of two values behind a and b, another one e of three values behind c.
D = GENERATOR.uniform(1, 2, (2, 2, 3))
D /= D.sum(axis=0)
E = GENERATOR.uniform(1, 2, (3, 4))
E /= E.sum(axis=0)
BEHIND_AB = known(("a", "b"), D, 7)
BEHIND_C = known(("c",), E, 8)


def test_values_are_passed_through_a_clique() -> None:
    found = conditional(CLIQUE, BEHIND_AB.given, ("c", "b"))
    np.testing.assert_allclose(found.cells, np.einsum("dab,abc->dcb", D, WEIGHTS) / WEIGHTS.sum(axis=0).T)
    assert found.names == (ROWS, "c", "b")


def test_two_messages_meet_in_a_clique_for_each_cell_beside() -> None:
    found = joint(CLIQUE, BEHIND_AB.given, BEHIND_C.given)
    np.testing.assert_allclose(found, np.einsum("dab,abc,ec->de", D, WEIGHTS, E))
    behind_b = known(("b",), GENERATOR.uniform(1, 2, (2, 3)), 9)
    found = joint(CLIQUE, behind_b.given, BEHIND_C.given, beside=("a",))
    np.testing.assert_allclose(found, np.einsum("db,abc,ec->ade", behind_b.given.cells, WEIGHTS, E))


def test_a_message_has_all_that_arrived_once() -> None:
    other = known(("c",), E[::-1], 9)
    assert [len(group) for group in by_separator([BEHIND_C, BEHIND_AB, other])] == [2, 1]
    found = message(CLIQUE, [BEHIND_C, BEHIND_AB, other], ("a",))
    assert found.separator == ("a",)
    assert found.attributes.tolist() == [8, 9, 7]
    assert found.places.tolist() == [80, 81, 82, 90, 91, 92, 70, 71]
    np.testing.assert_allclose(found.given.cells[:3], conditional(CLIQUE, BEHIND_C.given, ("a",)).cells)
    np.testing.assert_allclose(found.given.cells[6:], conditional(CLIQUE, BEHIND_AB.given, ("a",)).cells)
    assert merged([other]) is other


def random_tree(seed: int, count: int, sizes: tuple[int, ...], wide: int) -> Tree:
    """A tree over some attributes, joined by random pairs and triples, with random weights."""
    generator = np.random.default_rng(seed)
    names = [f"a{number}" for number in range(count)]
    state = State.uniform({name: np.ones(sizes[number % len(sizes)]) for number, name in enumerate(names)}, 1000.0)
    for number in range(1, count):
        state.join([names[number], names[int(generator.integers(number))]])
    state.join(generator.choice(names, min(wide, count), replace=False).tolist())
    (tree,) = state.trees
    for number in range(len(tree.potentials)):
        table = tree.reach(number)
        by = generator.uniform(0.2, 5.0, table.shape)
        by *= tree.total / float((by * table.cells).sum())
        tree.multiply(number, Table(table.names, by))
    tree.calibrate()
    return tree


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 9), st.sampled_from([(2,), (3,), (2, 2, 3)]), st.sampled_from([3, 7]))
def test_bulk_is_one_by_one(seed: int, count: int, sizes: tuple[int, ...], wide: int) -> None:
    """In small cliques, and in one that is larger than all marginals that meet there together."""
    compare(random_tree(seed, count, sizes, wide), sizes)


def compare(tree: Tree, sizes: tuple[int, ...]) -> None:
    index = {name: 7 + 2 * number for number, name in enumerate(sorted(tree.attributes, reverse=True))}
    names_of = {number: name for name, number in index.items()}
    size = {name: sizes[int(name[1:]) % len(sizes)] for name in index}
    asked = [row for some in combinations(index.values(), 3) for row in permutations(some)]
    for shape in {tuple(size[names_of[number]] for number in row) for row in asked}:
        rows = [row for row in asked if tuple(size[names_of[number]] for number in row) == shape]
        found = three_way(tree, index, np.array(rows), shape).reshape(len(rows), *shape)
        for row, one in zip(rows, found, strict=True):
            names = tuple(names_of[number] for number in row)
            expected = marginals(tree, [names])[names].cells / tree.total
            assert one == pytest.approx(expected, abs=1e-12)
