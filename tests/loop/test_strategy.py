"""What is added to a workload: what its cuboids add up to, once each, with the weight that it deserves."""

from __future__ import annotations

import numpy as np
import oracle
import pytest

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.loop import strategy
from mwem_sql.loop.strategy import First, are_parities, extend, is_told_at_once, together

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


def test_parities_over_a_small_domain_are_told_at_once() -> None:
    sign = [Block((name,), np.zeros(2, np.int32), 1, values=np.array([1, -1])) for name in "ad"]
    parities = [LinearQuery((sign[0],)), LinearQuery(tuple(sign))]
    assert is_told_at_once(cells=4, share=0.5)
    assert not is_told_at_once(cells=5, share=0.5)
    assert are_parities(parities)
    summed = Block(("b",), np.zeros(3, np.int32), 1, values=np.array([1, -1, 2]))
    part = Block(("b",), np.array([0, 0, -1], np.int32), 1, values=np.array([1, -1, 1]))
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
    summed = Block(("c",), np.zeros(4, np.int32), 1, values=np.array([0, 1, 5, 9]))
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
    assert list(extend(asked, np.ones(4), SHAPE, rounds=2).queries[:4]) == asked


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
