"""Marginals that cuboids add up to: all of them, exact, and not too many."""

from __future__ import annotations

import itertools
from itertools import pairwise

import numpy as np
import oracle
import pytest
from chance import examples
from conftest import Connection
from hypothesis import given, settings
from hypothesis import strategies as st
from thresholds import lower

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.queries import Queries
from mwem_sql.loop.derived import Counts, with_marginals
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
    assert sorted(sets([found.queries[line.number] for line in found.lines])) == sorted(set("".join(asked)))
    assert all(line.cells == found.queries[line.number].cells for line in found.lines)
    assert extend([cuboid(names) for names in asked], weights, SHAPE, rounds=3).lines == ()


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
    sign = Block(("a",), np.zeros(2, np.int32), 1, values=np.array([1, -1]))
    summed = Block(("b",), np.arange(3, dtype=np.int32), 3, values=np.array([1, 2, 3]))
    asked = [
        LinearQuery(()),
        LinearQuery((part,)),
        LinearQuery((sign,)),
        LinearQuery((BLOCKS["a"], part)),
        LinearQuery((BLOCKS["a"], summed)),
    ]
    found = extend(asked, np.ones(len(asked)), SHAPE, rounds=len(asked))
    assert (list(found.queries), found.lines) == (asked, ())


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
    assert [line.number for line in found.lines] == list(range(len(asked), len(asked) + 400))


COUNTED_SHAPE = {"a": 9, "b": 5, "c": 2, "d": 3}


def condition(names: str, counted: np.ndarray) -> Block:
    return Block(tuple(names), np.where(counted, 0, -1).astype(np.int32), 1)


def between(name: str, low: int, high: int) -> Block:
    classes = np.arange(COUNTED_SHAPE[name])
    return condition(name, (low <= classes) & (classes <= high))


@st.composite
def counts(draw: st.DrawFn) -> LinearQuery:
    """Conditions on some attributes each, neither all nor nothing."""
    blocks = []
    for names in draw(st.lists(st.sampled_from(["a", "b", "cd"]), min_size=1, max_size=3, unique=True)):
        shape = [COUNTED_SHAPE[name] for name in names]
        counted = np.array(
            draw(st.lists(st.booleans(), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
        ).reshape(shape)
        counted.flat[0], counted.flat[-1] = draw(st.sampled_from([(True, False), (False, True)]))
        blocks.append(condition(names, counted))
    return LinearQuery(tuple(blocks))


def dense(query: LinearQuery) -> np.ndarray:
    return oracle.dense_query(query, COUNTED_SHAPE)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(counts(), min_size=1, max_size=4))
def test_a_record_is_in_one_cell_of_whatever_may_be_measured(asked: list[LinearQuery]) -> None:
    """The sensitivity of a partition, as of a marginal, is 1: for its noise and for its score."""
    for query in extend(asked, np.ones(len(asked)), COUNTED_SHAPE).queries:
        assert query.bound == 1
        np.testing.assert_array_equal(dense(query).sum(axis=0), 1)


@settings(max_examples=examples(100), deadline=None)
@given(counts())
def test_the_count_is_the_first_cell_of_its_partition_and_the_first_cells_of_a_closer_look(query: LinearQuery) -> None:
    own = Counts([query], np.ones(1))
    ((number, partition),) = own.partitions()
    assert number == 0
    np.testing.assert_array_equal(dense(partition)[:1], dense(query))
    for _, closer in own.closer():
        assert closer.cells > partition.cells
        pieces = tuple(
            slice(0, finer.size - coarse.size + 1)
            for finer, coarse in zip(closer.blocks, partition.blocks, strict=True)
        )
        inside = dense(closer).reshape(*closer.shape, -1)[pieces].reshape(-1, dense(query).shape[1])
        np.testing.assert_array_equal(inside.sum(axis=0), dense(query)[0])


def test_a_range_is_told_from_what_is_below_and_above_and_cut_into_even_pieces() -> None:
    own = Counts([LinearQuery((between("a", 1, 7),))], np.ones(1))
    assert [query.blocks[0].labels.tolist() for _, query in own.partitions()] == [[1, 0, 0, 0, 0, 0, 0, 0, 2]]
    assert [query.blocks[0].labels.tolist() for _, query in own.closer()] == [[4, 0, 0, 1, 1, 2, 2, 3, 5]]


def test_grids_of_one_and_two_attributes_double_up_to_the_classes() -> None:
    asked = [LinearQuery((between("a", 0, 3), between("b", 1, 2))), LinearQuery((between("a", 2, 3),))]
    found = [(weight, query) for weight, query in Counts(asked, np.array([1.0, 3.0])).grids()]
    levels = {"a": [2, 4, 8, 9], "b": [2, 4, 5]}
    expected = [(3.0, ("a",), (k,)) for k in levels["a"]] + [(1.0, ("b",), (k,)) for k in levels["b"]]
    expected += [(1.0, ("a", "b"), (k, j)) for k in levels["a"] for j in levels["b"]]
    assert sorted((weight, query.attributes, query.shape) for weight, query in found) == sorted(expected)
    for _, query in found:
        for block in query.blocks:
            assert block.labels.tolist() == sorted(block.labels.tolist())
            sizes = np.bincount(block.labels)
            assert sizes.max() - sizes.min() <= 1


def test_a_workload_keeps_its_places_and_equal_partitions_are_there_once() -> None:
    asked = [
        LinearQuery((between("c", 1, 1),)),
        LinearQuery((Block(("b",), np.arange(5, dtype=np.int32), 5),)),
        LinearQuery((between("a", 3, 3),)),
    ]
    found = extend(asked, np.array([1.0, 2.0, 3.0]), COUNTED_SHAPE, rounds=1)
    assert [query.attributes for query in found.queries[:3]] == [("c",), ("b",), ("a",)]
    assert found.queries[1] == asked[1]
    assert found.weights[:3].tolist() == [1.0, 2.0, 3.0]
    # The count on c and the grid of its two classes are one; a count of one class has no closer look.
    assert [(query.attributes, query.cells) for query in found.queries[3:]] == [(("a",), k) for k in (2, 4, 8, 9)]


def test_only_counts_become_partitions() -> None:
    """Not sums, parities, cuboids of a part of the records, the total, or a condition that all or none fulfil."""
    sums = Block(("b",), np.zeros(5, np.int32), 1, values=np.arange(5))
    part = Block(("b",), np.array([0, 1, -1, -1, 0], np.int32), 2)
    everything, nothing = condition("a", np.ones(9, bool)), condition("a", np.zeros(9, bool))
    asked = [
        LinearQuery(()),
        LinearQuery((sums,)),
        LinearQuery((part, between("a", 1, 2))),
        LinearQuery((everything,)),
        LinearQuery((nothing,)),
    ]
    assert list(extend(asked, np.ones(len(asked)), COUNTED_SHAPE, rounds=1).queries) == asked


@pytest.mark.parametrize(("limit", "cells"), [("most_held", 45), ("most_summed", 90)])
def test_counts_stay_counts_where_their_partitions_have_many_cells(limit: str, cells: int) -> None:
    """Two counts over 9 times 5 classes."""
    asked = [LinearQuery((between("a", low, 5), between("b", 1, 2))) for low in (1, 2)]
    assert len(list(Counts(asked, np.ones(2), **{limit: cells}).partitions())) == 2
    assert list(Counts(asked, np.ones(2), **{limit: cells - 1}).partitions()) == []


def test_very_many_counts_stay_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch, MOST_ADDED=1)
    asked = [LinearQuery((between("a", low, 5), between("b", 1, 2))) for low in (1, 2)]
    assert list(extend(asked, np.ones(2), COUNTED_SHAPE, rounds=2).queries) == asked


def test_of_many_conditions_a_count_stays_a_count() -> None:
    asked = [LinearQuery(tuple(Block((f"x{k}",), np.array([0, -1, -1], np.int32), 1) for k in range(6)))]
    assert extend(asked, np.ones(1), {f"x{k}": 3 for k in range(6)}).queries[0] == asked[0]


@pytest.mark.parametrize(("most", "cells", "expected"), [(5, 4_000, (5, 25)), (20, 40, (8, 38)), (20, 37, (7, 34))])
def test_what_is_added_is_bounded(
    monkeypatch: pytest.MonkeyPatch, most: int, cells: int, expected: tuple[int, int]
) -> None:
    """By queries, or by their cells."""
    lower(monkeypatch, MOST_ADDED=most, MOST_CELLS=cells)
    asked = [LinearQuery((between("a", 1, 5), between("b", 1, 2)))]
    added = extend(asked, np.ones(1), COUNTED_SHAPE, rounds=0).queries[1:]
    assert (len(added), sum(query.cells for query in added)) == expected
    assert all(one.cells <= other.cells for one, other in pairwise(added) if one.attributes == other.attributes)


def test_counts_that_there_are_rounds_enough_for_have_no_grids_beside_them() -> None:
    """What was asked for is what is measured: with no noise to speak of, every count is then exact."""
    asked = [LinearQuery((between("a", low, 5), between("b", 1, 2))) for low in (1, 2, 3)]
    assert len(extend(asked, np.ones(3), COUNTED_SHAPE, rounds=3).queries) == 3
    assert len(extend(asked, np.ones(3), COUNTED_SHAPE, rounds=2).queries) > 3
    assert len(extend(asked, np.ones(3), COUNTED_SHAPE).queries) > 3


@pytest.mark.thorough
def test_without_noise_ten_rounds_answer_ten_predicates(con: Connection) -> None:
    con.execute(
        "CREATE TABLE t (x INTEGER NOT NULL CHECK (x BETWEEN 0 AND 99), y INTEGER NOT NULL CHECK (y BETWEEN 0 AND "
        "19), z ENUM ('a', 'b', 'ab') NOT NULL)"
    )
    con.execute(
        "INSERT INTO t SELECT (hash(i) % 100) * (hash(i, 1) % 100) // 100, (hash(i, 2) % 20 + hash(i) % 20) // 2, "
        "['a', 'b', 'ab'][1 + i % 3] FROM range(3000) AS r(i)"
    )
    predicates = [
        "x > 50",
        "x BETWEEN 10 AND 20 AND y > 4",
        "y = 7",
        "z LIKE 'a%'",
        "z = 'b' AND x < 40",
        "y < 3",
        "x % 10 = 0",
        "z = 'ab' AND y > 10",
        "x + y < 30",
        "x > 90",
    ]
    con.execute("CREATE TABLE ten AS SELECT unnest(?) AS predicate", [predicates])
    for rounds in (10, None):
        con.execute(
            "FROM mwem_release('t', ten, 1e6, rounds := ?, output := ?, rows := 1)", [rounds, f"o_{rounds}"]
        ).fetchall()
        ((worst,),) = con.execute(
            f"SELECT max(abs(true_answer - answer)) FROM mwem_compare('t', 'o_{rounds}', ten)"
        ).fetchall()
        assert worst < 1e-4 * 3000
