"""What is added to a workload: what its cuboids add up to, once each, with the weight that it deserves."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations, islice
from typing import Any

import numpy as np
import oracle
import pytest

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.partition import Runs
from mwem_sql.loop import strategy
from mwem_sql.loop.derived import MOST_HELD
from mwem_sql.loop.plan import SHARES, Alternatives, Planned
from mwem_sql.loop.strategy import (
    MOST_COMPARED,
    Setting,
    Strategy,
    are_parities,
    choose,
    default_rounds,
    extend,
    is_better_at_once,
    strategies,
    together,
    whole_domain,
)

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
    assert is_better_at_once(cells=4, share=0.5)
    assert not is_better_at_once(cells=5, share=0.5)
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
    assert found is not None and found.rounds is None
    assert sets(found.queries) == ["a", "bc", "cd"]
    assert all(block.is_identity for query in found.queries for block in query.blocks)
    assert [(line.number, line.importance, line.cells, line.how) for line in found.lines] == [
        (0, 1.0, 2, "by cells"),
        (1, 8.0, 12, "refined"),
        (2, 1.0, 8, "by cells"),
    ]
    assert [line.steps for line in found.lines] == [1, 1, 1]


def test_attributes_that_nobody_joins_take_everything() -> None:
    found = together([cuboid("a"), LinearQuery((condition("c"),))], np.ones(2), SHAPE, 10**6)
    assert found is not None
    assert found.lines == (
        Planned(purpose="round", number=0, cells=2, how="by cells"),
        Planned(purpose="round", number=1, cells=4, how="refined"),
    )


def test_many_sets_are_left_to_rounds() -> None:
    asked = [cuboid("ab"), cuboid("bc"), cuboid("cd")]
    assert together(asked, np.ones(3), SHAPE, 10**6, most=3) is not None
    assert together(asked, np.ones(3), SHAPE, 10**6, most=2) is None


@pytest.mark.parametrize("more", [0, 1])
def test_sets_with_many_sets_inside_are_left_to_rounds(more: int) -> None:
    """All of them are parts of one, so that one set would be refined; but they are too many to see that."""
    names = "abcdefghijk"
    inside = chain.from_iterable(combinations(names, size) for size in range(len(names), 0, -1))
    shape = dict.fromkeys(names, 2)
    asked = [strategy.whole_domain(dict.fromkeys(some, 2)) for some in islice(inside, MOST_COMPARED + more)]
    assert (together(asked, np.ones(len(asked)), shape, 10**6) is None) is bool(more)


@pytest.mark.parametrize("more", [0, 1])
def test_a_large_set_is_left_to_rounds(more: int) -> None:
    shape = {"a": MOST_HELD + more}
    above = LinearQuery((Block(("a",), Runs(np.array([0, 1]), np.array([-1, 0], np.int32), (shape["a"],)), 1),))
    assert (together([above], np.ones(1), shape, 10**9) is None) is bool(more)


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
    assert sorted(sets([found.queries[line.number] for line in found.lines])) == ["a", "b", "c", "d"]
    assert list(extend(asked, np.ones(4), SHAPE, rounds=2).queries[:4]) == asked


def test_what_is_always_measured_has_a_part_beside_the_sets() -> None:
    asked = [cuboid("ab"), cuboid("cd"), condition_of("c")]
    found = together(asked, np.ones(3), SHAPE, 10**6, [2])
    assert found is not None
    assert sets(found.queries) == ["ab", "cd", "c"]
    assert [own.cells for own in found.queries] == [6, 8, 2]  # a count as a partition: what it counts, and the rest
    assert [(line.purpose, line.number, line.cells, line.workload) for line in found.lines] == [
        ("always", 2, 1, 2),  # its cells are those that were asked for
        ("round", 0, 6, None),
        ("round", 1, 8, None),
    ]


def test_a_set_that_is_told_cell_by_cell_is_not_refined_too() -> None:
    found = together([cuboid("ab"), cuboid("dc")], np.ones(2), SHAPE, 10**6, [1])
    assert found is not None
    assert sets(found.queries) == ["ab", "dc"]
    assert [(line.purpose, line.number) for line in found.lines] == [("always", 1), ("round", 0)]
    everything = together([cuboid("dc")], np.ones(1), SHAPE, 10**6, [0])
    assert everything is not None
    assert [line.purpose for line in everything.lines] == ["always"]


def test_a_model_of_what_is_always_measured_tells_apart_no_more_than_that() -> None:
    assert strategy.cells_with([condition_of("b"), condition_of("c")], SHAPE, 10**6) == 2 + 2 + 1 + 1
    joint = LinearQuery(condition_of("b").blocks + condition_of("c").blocks)
    assert strategy.cells_with([joint, cuboid("ac")], SHAPE, 10**6) == 3 * 0 + 2 * 4 + 2 * 4 + 1
    assert strategy.cells_with([joint, cuboid("ac")], SHAPE, 10) > 10


QUERIES = [cuboid("ab"), cuboid("bc"), cuboid("a")]
SMALL_SHAPE = {"a": 2, "b": 3, "c": 4}


def setting(queries: list[LinearQuery] = QUERIES, **options: Any) -> Setting:
    given = {"queries": queries, "weights": np.ones(len(queries)), "shape": SMALL_SHAPE, "max_cells": 10**6}
    return Setting(**given | options)


def lines(found: Strategy, purpose: str) -> list[Planned]:
    return [line for line in found.lines if line.purpose == purpose]


@pytest.mark.parametrize("options", [{"rounds": 4}, {"rounds": 4, "average": True}, {"start": "histogram"}])
def test_what_is_always_measured_has_a_line_ahead_of_rounds(options: dict[str, object]) -> None:
    found = choose(setting(always=[0, 2], **options))
    assert found.rounds == (4 if "rounds" in options else default_rounds(1, 3))
    always = lines(found, "always")
    assert [(line.number, line.workload, line.cells) for line in always] == [(0, 0, 6), (2, 2, 2)]
    # The theorem wants them known equally well, whatever their cells.
    wanted = [1.0, 1.0] if "average" in options else [6, 2]
    assert [line.importance**2 * line.cells for line in always] == pytest.approx(wanted)


def test_sets_that_are_always_measured_leave_nothing_to_refine() -> None:
    for always, refined in (([0, 1, 2], 0), ([0, 1], 0), ([0], 1), ([], 2)):  # a is asked about in ab
        assert len(lines(choose(setting(always=always)), "round")) == refined


def test_a_distribution_that_is_always_measured_is_not_refined_first() -> None:
    """Nor is one that the partition around a count is: an attribute of two classes."""
    queries = [*QUERIES, condition_of("b"), condition_of("d")]
    for always, first in (([], "abcd"), ([2], "bcd"), ([3], "abcd"), ([4], "abc")):
        found = choose(setting(queries, shape=SHAPE, always=always, most_sets=0))
        assert "".join(sets([found.queries[line.number] for line in lines(found, "first")])) == first


def test_first_distributions_give_way_to_what_is_always_measured() -> None:
    """Single attributes have 9 cells; beside a joint distribution of all classes there is no room for them."""
    for max_cells, always, has_room in ((17, [1], True), (13, [1], False), (13, [], True)):
        found = choose(setting(max_cells=max_cells, always=always, most_sets=0))
        assert bool(lines(found, "first")) is has_room


@pytest.mark.parametrize(
    ("queries", "attributes", "rounds"), [(1, 1, 1), (3, 3, 3), (100, 1, 2), (100, 3, 6), (100, 25, 50), (20, 25, 20)]
)
def test_default_rounds(queries: int, attributes: int, rounds: int) -> None:
    assert default_rounds(queries, attributes) == rounds


def parity(*names: str) -> LinearQuery:
    zero = np.zeros(2, dtype=np.int32)
    return LinearQuery(tuple(Block((name,), zero, 1, values=np.array([1, -1])) for name in names))


PARITIES = setting([parity(*names) for names in combinations("abcd", 2)], shape=dict.fromkeys("abcd", 2))
SETS = setting([LinearQuery((Block(("a",), np.array([0, -1, -1, -1], dtype=np.int32), 1),))], shape={"a": 4})


def test_the_first_strategy_that_applies_is_taken() -> None:
    histogram = choose(PARITIES)
    assert histogram.lines == (Planned(purpose="round", number=0, cells=16, how="with prior"),)
    assert (histogram.rounds, histogram.queries[0].cells) == (None, 16)
    refined = choose(SETS)
    assert refined.rounds is None
    assert [line.how for line in refined.lines] == ["refined"]
    assert [found is None for found in strategies(SETS)] == [True, True, False, False]


def test_a_histogram_of_parities_tells_what_is_always_measured() -> None:
    assert lines(choose(replace(PARITIES, always=[0])), "always") == []


@pytest.mark.parametrize("plain", [PARITIES, SETS], ids=["parities", "sets"])
@pytest.mark.parametrize("option", [{"rounds": 3}, {"start": "histogram"}, {"fit": "replay"}, {"average": True}])
def test_an_option_that_speaks_of_rounds_gets_them(plain: Setting, option: dict[str, Any]) -> None:
    found = choose(replace(plain, **option))
    assert found.rounds is not None
    assert found.selecting == SHARES["paper" if "average" in option else "select"]
    assert (found.alternatives is not None) is (option.keys() <= {"start", "fit"})
    assert found.alternatives is None or not found.alternatives.at_once


def test_a_histogram_that_the_model_has_no_room_for_is_not_taken() -> None:
    assert choose(replace(PARITIES, max_cells=15)).rounds is not None


def test_a_histogram_may_take_the_place_of_rounds_over_a_small_domain() -> None:
    """Of 24 cells, of cuboids alone, that the model has room for."""
    assert choose(setting(most_sets=0)).histogram
    for other in ({"rounds": 3}, {"max_cells": 23}, {"start": "histogram"}, {"always": [0]}):
        assert not choose(setting(most_sets=0, **other)).histogram
    assert not choose(setting([*QUERIES, condition_of("b")], most_sets=0)).histogram


def test_rounds_for_cuboids_are_planned_as_for_their_pairs() -> None:
    """A round may select a pair in the place of a triple: more that is asked is no reason for fewer rounds."""
    shape = dict.fromkeys("abcdef", 4)

    def planned(queries: list[LinearQuery]) -> Alternatives:
        found = choose(setting(queries, shape=shape, most_sets=0)).alternatives
        assert found is not None
        return found

    of_pairs, of_triples = (
        planned([whole_domain(dict.fromkeys(names, 4)) for names in combinations(shape, width)]) for width in (2, 3)
    )
    assert (of_pairs.cells, of_pairs.marginals) == (pytest.approx(8), 1.0)
    assert (of_triples.cells, of_triples.marginals) == (pytest.approx(8), 1.5)


def test_counts_of_three_conditions_are_no_cuboids() -> None:
    conditions = [tuple(block for name in names for block in condition_of(name).blocks) for names in ("abc", "bcd")]
    found = choose(setting([*map(LinearQuery, conditions)], shape=SHAPE, most_sets=0)).alternatives
    assert found is not None
    assert found.marginals == 1.0


def comparison(*shape: int) -> LinearQuery:
    one, other = np.indices(shape)
    return LinearQuery((Block(("a", "b"), np.where(one > other, 0, -1).astype(np.int32), 1),))


def test_columns_that_are_compared_have_no_joint_distribution() -> None:
    """Beside one set, a comparison is measured as it is, last; of columns of few values, a set is refined."""
    one = LinearQuery((Block(("c",), np.array([0, -1, -1, -1], dtype=np.int32), 1),))
    for sizes, wanted in (((2, 3, 4), ["refined", "refined"]), ((200, 300, 4), ["refined", "as it is"])):
        shape = dict(zip("abc", sizes, strict=True))
        setting = Setting(queries=[comparison(*sizes[:2]), one], weights=np.ones(2), shape=shape, max_cells=10**7)
        found = choose(setting)
        assert [line.how for line in found.lines] == wanted
        assert found.rounds is None
    last = found.lines[-1]
    assert (last.workload, last.purpose) == (0, "round")
    # Both sides of it are counted: a partition costs as much as a count.
    assert found.queries[last.number].cells == 2
    # Beside it, no condition on two columns has a set, however few values these have.
    either = LinearQuery((Block(("b", "c"), np.where(np.arange(1200).reshape(300, 4) < 9, 0, -1).astype(np.int32), 1),))
    found = choose(replace(setting, queries=[comparison(200, 300), one, either], weights=np.ones(3)))
    assert [line.how for line in found.lines] == ["refined", "as it is", "as it is"]
    # Where the model has no room for it beside the set, and without a set, n decides.
    for other in (
        replace(setting, max_cells=100),
        replace(setting, queries=[comparison(200, 300)], weights=np.ones(1)),
    ):
        assert choose(other).rounds is not None
