"""What is added to a workload: what its cuboids add up to, once each, with the weight that it deserves."""

from __future__ import annotations

import itertools

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.mwem import strategy
from mwem_sql.mwem.marginals import with_marginals
from mwem_sql.mwem.strategy import First, are_parities, extend, is_told_at_once, together
from mwem_sql.queries.linear import Block, LinearQuery

SHAPE = {"a": 2, "b": 3, "c": 4, "d": 2}
BLOCKS = {name: Block((name,), np.arange(size, dtype=np.int32), size) for name, size in SHAPE.items()}


def condition_of(name: str) -> LinearQuery:
    """A count of the first class."""
    return LinearQuery((Block((name,), np.where(np.arange(SHAPE[name]), -1, 0).astype(np.int32), 1),))


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
    assert (found.queries, found.first) == (asked, [])


@pytest.mark.parametrize(
    ("limit", "most", "widest"),
    [("most_added", 4, 1), ("most_added", 10, 2), ("most_cells", 11, 1), ("most_cells", 10**6, 4)],
)
def test_what_is_added_is_bounded_and_narrow_ones_come_first(limit: str, most: int, widest: int) -> None:
    found, weights = with_marginals([cuboid("abcd")], np.ones(1), **{limit: most})
    assert {len(query.attributes) for query in found[1:]} == set(range(1, widest + 1)) - {4}
    assert len(weights) == len(found)


def test_very_many_cuboids_are_no_walk_over_each() -> None:
    """All pairs of 400 attributes: what takes a microsecond or two for each, and not a hundred."""
    blocks = [Block((f"x{k}",), np.arange(2, dtype=np.int32), 2) for k in range(400)]
    asked = [LinearQuery(pair) for pair in itertools.combinations(blocks, 2)]
    found = extend(asked, np.ones(len(asked)), {f"x{k}": 2 for k in range(400)})
    assert len(found.queries) == len(asked) + 400
    assert [own.query for own in found.first] == list(range(len(asked), len(asked) + 400))


def test_parities_over_a_small_domain_are_told_at_once() -> None:
    sign = [Block((name,), np.zeros(2, np.int32), 1, np.array([1, -1])) for name in "ad"]
    parities = [LinearQuery((sign[0],)), LinearQuery(tuple(sign))]
    assert is_told_at_once(cells=4, share=0.5)
    assert not is_told_at_once(cells=5, share=0.5)
    assert are_parities(parities)
    summed = Block(("b",), np.zeros(3, np.int32), 1, np.array([1, -1, 2]))
    part = Block(("b",), np.array([0, 0, -1], np.int32), 1, np.array([1, -1, 1]))
    for other in (
        cuboid("a"),
        LinearQuery((summed,)),
        LinearQuery((part,)),
        LinearQuery((Block(("a",), np.array([0, -1], np.int32), 1),)),
    ):
        assert not are_parities([*parities, other])
    assert not are_parities([LinearQuery(())])


def condition(name: str) -> Block:
    return Block((name,), np.where(np.arange(SHAPE[name]) > 0, 0, -1).astype(np.int32), 1)


def test_few_sets_of_attributes_are_refined() -> None:
    asked = [cuboid("a"), LinearQuery((condition("b"), condition("c"))), cuboid("cd"), cuboid("c"), LinearQuery(())]
    found = together(asked, np.array([1.0, 8.0, 1.0, 1.0, 1.0]), SHAPE, 10**6)
    assert found is not None and found.whole
    assert sets(found.queries) == ["a", "bc", "cd"]
    assert all(block.is_identity for query in found.queries for block in query.blocks)
    parts = {names: own.part for names, own in zip(sets(found.queries), found.first, strict=True)}
    assert sum(parts.values()) == pytest.approx(1)
    # The optimum of cells * weight^2 / share^2, summed up.
    assert parts["bc"] / parts["cd"] == pytest.approx((12 * 8**2 / 8) ** (1 / 3))
    assert [own.by_cells for own in found.first] == [True, False, True]


def test_attributes_that_nobody_joins_take_everything() -> None:
    found = together([cuboid("a"), LinearQuery((condition("c"),))], np.ones(2), SHAPE, 10**6)
    assert found is not None
    whole = 2 ** (1 / 3) + 4 ** (1 / 3)
    assert found.first == [
        First(0, pytest.approx(2 ** (1 / 3) / whole), True),
        First(1, pytest.approx(4 ** (1 / 3) / whole)),
    ]


@pytest.mark.parametrize(("limit", "most"), [("MOST_SETS", 2), ("MOST_HELD", 11), ("MOST_ASKED", 2)])
def test_many_or_large_sets_are_left_to_rounds(monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    asked = [cuboid("ab"), cuboid("bc"), cuboid("cd")]
    assert together(asked, np.ones(3), SHAPE, 10**6) is not None
    monkeypatch.setattr(strategy, limit, most)
    assert together(asked, np.ones(3), SHAPE, 10**6) is None


def test_sets_that_the_model_has_no_room_for_together_are_left_to_rounds() -> None:
    """In a ring of four, cliques of three are needed."""
    asked = [cuboid("ab"), cuboid("bc"), cuboid("cd"), cuboid("ad")]
    assert together(asked, np.ones(4), SHAPE, 28) is None
    assert together(asked, np.ones(4), SHAPE, 60) is not None
    assert together([LinearQuery(())], np.ones(1), SHAPE, 28) is None


def test_a_sum_that_joins_attributes_has_a_partition_of_what_is_summed_beside_it() -> None:
    summed = Block(("c",), np.zeros(4, np.int32), 1, np.array([0, 1, 5, 9]))
    part = Block(("b",), np.array([0, 1, -1], np.int32), 2)
    asked = [
        LinearQuery((BLOCKS["a"], summed)),
        LinearQuery((part, summed)),
        LinearQuery((condition("d"), summed)),
        LinearQuery((summed,)),
    ]
    found = extend(asked, np.array([1.0, 2.0, 3.0, 4.0]), SHAPE)
    beside = {
        "".join(query.attributes): (query.shape, weight)
        for query, weight in zip(found.queries, found.weights, strict=True)
        if len(query.attributes) > 1 and query.bound == 1
    }
    assert beside == {"ac": ((2, 4), 1.0), "bc": ((3, 4), 2.0), "dc": ((2, 4), 3.0)}
    for query in found.queries[4:]:
        np.testing.assert_array_equal(oracle.dense_query(query, SHAPE).sum(axis=0), 1)
    assert sorted(sets([found.queries[own.query] for own in found.first])) == ["a", "b", "c", "d"]
    assert extend(asked, np.ones(4), SHAPE, rounds=2).queries[:4] == asked


def test_what_is_always_measured_has_a_part_beside_the_sets() -> None:
    asked = [cuboid("ab"), cuboid("cd"), condition_of("c")]
    found = together(asked, np.ones(3), SHAPE, 10**6, [2])
    assert found is not None
    assert sets(found.queries) == ["ab", "cd", "c"]
    assert [own.cells for own in found.queries] == [6, 8, 2]  # a count as a partition: what it counts, and the rest
    whole = 6 ** (1 / 3) + 8 ** (1 / 3) + 1
    assert [own.part for own in found.first] == pytest.approx([6 ** (1 / 3) / whole, 8 ** (1 / 3) / whole])
    assert found.always == [strategy.Always(2, pytest.approx(1 / whole), 2)]


def test_a_set_that_is_told_cell_by_cell_is_not_refined_too() -> None:
    found = together([cuboid("ab"), cuboid("dc")], np.ones(2), SHAPE, 10**6, [1])
    assert found is not None
    assert sets(found.queries) == ["ab", "dc"]
    assert [own.query for own in found.first] == [0]
    assert found.always == [strategy.Always(1, pytest.approx(2 / (2 + 6 ** (1 / 3))), 1)]
    everything = together([cuboid("dc")], np.ones(1), SHAPE, 10**6, [0])
    assert everything is not None and everything.first == [] and everything.always[0].part == 1


def test_a_model_of_what_is_always_measured_tells_apart_no_more_than_that() -> None:
    assert strategy.cells_with([condition_of("b"), condition_of("c")], SHAPE, 10**6) == 2 + 2 + 1 + 1
    joint = LinearQuery(condition_of("b").blocks + condition_of("c").blocks)
    assert strategy.cells_with([joint, cuboid("ac")], SHAPE, 10**6) == 3 * 0 + 2 * 4 + 2 * 4 + 1
    assert strategy.cells_with([joint, cuboid("ac")], SHAPE, 10) > 10
