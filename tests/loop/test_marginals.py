"""Marginals that cuboids add up to: all of them, exact, and not too many."""

from __future__ import annotations

import itertools

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.queries import Queries
from mwem_sql.loop.marginals import with_marginals
from mwem_sql.loop.strategy import extend

SHAPE = {"a": 2, "b": 3, "c": 4, "d": 2}


BLOCKS = {name: Block((name,), np.arange(size, dtype=np.int32), size) for name, size in SHAPE.items()}


def cuboid(names: str) -> LinearQuery:
    """Blocks of its own: equal ones need not be the same object."""
    return LinearQuery(
        tuple(Block(BLOCKS[name].attributes, BLOCKS[name].labels.copy(), BLOCKS[name].size) for name in names)
    )


def sets(queries: list[LinearQuery]) -> list[str]:
    return ["".join(query.attributes) for query in queries]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["".join(s) for k in range(1, 5) for s in itertools.permutations("abcd", k)]),
        min_size=1,
        max_size=6,
        unique_by=lambda s: "".join(sorted(s)),
    ),
    st.integers(0, 99),
)
def test_all_that_cuboids_add_up_to(asked: list[str], seed: int) -> None:
    weights = np.random.default_rng(seed).uniform(0.1, 5, len(asked))
    found = extend([cuboid(names) for names in asked], weights, SHAPE)
    assert sets(found.queries[: len(asked)]) == asked
    np.testing.assert_array_equal(found.weights[: len(asked)], weights)
    added = sets(found.queries[len(asked) :])
    subsets = {
        frozenset(s) for names in asked for k in range(1, len(names) + 1) for s in itertools.combinations(names, k)
    }
    assert sorted(map(sorted, added)) == sorted(map(sorted, subsets - set(map(frozenset, asked))))
    for names, weight in zip(added, found.weights[len(asked) :], strict=True):
        assert weight == max(own for own, whole in zip(weights, asked, strict=True) if set(names) <= set(whole))
    assert sorted(sets([found.queries[own.query] for own in found.first])) == sorted(set("".join(asked)))
    whole = sum(SHAPE[name] ** (1 / 3) for name in set("".join(asked)))
    for own in found.first:
        assert own.part == pytest.approx(found.queries[own.query].cells ** (1 / 3) / whole)
    assert extend([cuboid(names) for names in asked], weights, SHAPE, rounds=3).first == []


def test_an_added_marginal_is_what_the_cuboid_adds_up_to() -> None:
    found = extend([cuboid("cab")], np.ones(1), SHAPE)
    whole = oracle.dense_query(found.queries[0], SHAPE).reshape(4, 2, 3, -1)
    for query in found.queries[1:]:
        axes = tuple(axis for axis, name in enumerate("cab") if name not in query.attributes)
        expected = whole.sum(axis=axes).reshape(query.cells, -1)
        order = ["cab".index(name) for name in query.attributes]
        assert order == sorted(order)
        np.testing.assert_array_equal(oracle.dense_query(query, SHAPE), expected)


def test_only_cuboids_of_every_record_add_up() -> None:
    """Not counts, parities, sums, groups of a part of the records, nor the total."""
    part = Block(("b",), np.array([0, 1, -1], np.int32), 2)
    sign = Block(("a",), np.zeros(2, np.int32), 1, np.array([1, -1]))
    summed = Block(("b",), np.arange(3, dtype=np.int32), 3, np.array([1, 2, 3]))
    asked = [
        LinearQuery(()),
        LinearQuery((part,)),
        LinearQuery((sign,)),
        LinearQuery((BLOCKS["a"], part)),
        LinearQuery((BLOCKS["a"], summed)),
    ]
    found = extend(asked, np.ones(len(asked)), SHAPE, rounds=len(asked))
    assert (list(found.queries), found.first) == (asked, [])


@pytest.mark.parametrize(
    ("limit", "most", "widest"),
    [("most_added", 4, 1), ("most_added", 10, 2), ("most_cells", 11, 1), ("most_cells", 10**6, 4)],
)
def test_what_is_added_is_bounded_and_narrow_ones_come_first(limit: str, most: int, widest: int) -> None:
    found, weights = with_marginals(Queries.of([cuboid("abcd")]), np.ones(1), **{limit: most})
    assert {len(query.attributes) for query in found[1:]} == set(range(1, widest + 1)) - {4}
    assert len(weights) == len(found)


def test_very_many_cuboids_are_no_walk_over_each() -> None:
    """All pairs of 400 attributes: what takes a microsecond or two for each, and not a hundred."""
    blocks = [Block((f"x{k}",), np.arange(2, dtype=np.int32), 2) for k in range(400)]
    asked = [LinearQuery(pair) for pair in itertools.combinations(blocks, 2)]
    found = extend(asked, np.ones(len(asked)), {f"x{k}": 2 for k in range(400)})
    assert len(found.queries) == len(asked) + 400
    assert [own.query for own in found.first] == list(range(len(asked), len(asked) + 400))
