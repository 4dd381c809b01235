"""Partitions in the place of counts: every record is in one cell of each, and the count that was asked for can be read off."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import oracle
import pytest
from chance import examples
from conftest import Connection
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.loop import count_partitions, strategy
from mwem_sql.loop.count_partitions import Counts
from mwem_sql.loop.strategy import extend

SHAPE = {"a": 9, "b": 5, "c": 2, "d": 3}


def condition(names: str, counted: np.ndarray) -> Block:
    return Block(tuple(names), np.where(counted, 0, -1).astype(np.int32), 1)


def between(name: str, low: int, high: int) -> Block:
    classes = np.arange(SHAPE[name])
    return condition(name, (low <= classes) & (classes <= high))


@st.composite
def counts(draw: st.DrawFn) -> LinearQuery:
    """Conditions on some attributes each, neither all nor nothing."""
    blocks = []
    for names in draw(st.lists(st.sampled_from(["a", "b", "cd"]), min_size=1, max_size=3, unique=True)):
        shape = [SHAPE[name] for name in names]
        counted = np.array(
            draw(st.lists(st.booleans(), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
        ).reshape(shape)
        counted.flat[0], counted.flat[-1] = draw(st.sampled_from([(True, False), (False, True)]))
        blocks.append(condition(names, counted))
    return LinearQuery(tuple(blocks))


def dense(query: LinearQuery) -> np.ndarray:
    return oracle.dense_query(query, SHAPE)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(counts(), min_size=1, max_size=4))
def test_a_record_is_in_one_cell_of_whatever_may_be_measured(asked: list[LinearQuery]) -> None:
    """The sensitivity of a partition, as of a marginal, is 1: for its noise and for its score."""
    for query in extend(asked, np.ones(len(asked)), SHAPE).queries:
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
    found = extend(asked, np.array([1.0, 2.0, 3.0]), SHAPE, rounds=1)
    assert [query.attributes for query in found.queries[:3]] == [("c",), ("b",), ("a",)]
    assert found.queries[1] == asked[1]
    assert found.weights[:3].tolist() == [1.0, 2.0, 3.0]
    # The count on c and the grid of its two classes are one; a count of one class has no closer look.
    assert [(query.attributes, query.cells) for query in found.queries[3:]] == [(("a",), k) for k in (2, 4, 8, 9)]


def test_only_counts_become_partitions() -> None:
    """Not sums, parities, cuboids of a part of the records, the total, or a condition that all or none fulfil."""
    sums = Block(("b",), np.zeros(5, np.int32), 1, np.arange(5))
    part = Block(("b",), np.array([0, 1, -1, -1, 0], np.int32), 2)
    everything, nothing = condition("a", np.ones(9, bool)), condition("a", np.zeros(9, bool))
    asked = [
        LinearQuery(()),
        LinearQuery((sums,)),
        LinearQuery((part, between("a", 1, 2))),
        LinearQuery((everything,)),
        LinearQuery((nothing,)),
    ]
    assert list(extend(asked, np.ones(len(asked)), SHAPE, rounds=1).queries) == asked


@pytest.mark.parametrize(
    ("module", "limit", "most"),
    [(count_partitions, "MOST_HELD", 44), (count_partitions, "MOST_SUMMED", 45), (strategy, "MOST_ADDED", 1)],
)
def test_counts_stay_counts_where_partitions_would_cost_too_much(
    monkeypatch: pytest.MonkeyPatch, module: object, limit: str, most: int
) -> None:
    monkeypatch.setattr(module, limit, most)
    asked = [LinearQuery((between("a", low, 5), between("b", 1, 2))) for low in (1, 2)]
    assert list(extend(asked, np.ones(2), SHAPE, rounds=2).queries) == asked


def test_of_many_conditions_a_count_stays_a_count() -> None:
    asked = [LinearQuery(tuple(Block((f"x{k}",), np.array([0, -1, -1], np.int32), 1) for k in range(6)))]
    assert extend(asked, np.ones(1), {f"x{k}": 3 for k in range(6)}).queries[0] == asked[0]


@pytest.mark.parametrize(("limit", "most"), [("MOST_ADDED", 5), ("MOST_CELLS", 40)])
def test_what_is_added_is_bounded(monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    monkeypatch.setattr(strategy, limit, most)
    asked = [LinearQuery((between("a", 1, 5), between("b", 1, 2)))]
    added = extend(asked, np.ones(1), SHAPE, rounds=0).queries[1:]
    assert added
    assert (len(added) if limit == "MOST_ADDED" else sum(query.cells for query in added)) <= most
    assert all(one.cells <= other.cells for one, other in pairwise(added) if one.attributes == other.attributes)


def test_counts_that_there_are_rounds_enough_for_have_no_grids_beside_them() -> None:
    """What was asked for is what is measured: with no noise to speak of, every count is then exact."""
    asked = [LinearQuery((between("a", low, 5), between("b", 1, 2))) for low in (1, 2, 3)]
    assert len(extend(asked, np.ones(3), SHAPE, rounds=3).queries) == 3
    assert len(extend(asked, np.ones(3), SHAPE, rounds=2).queries) > 3
    assert len(extend(asked, np.ones(3), SHAPE).queries) > 3


@pytest.mark.thorough
def test_without_noise_ten_rounds_answer_ten_predicates(con: Connection) -> None:
    con.execute(
        "CREATE TABLE t (x INTEGER NOT NULL CHECK (x BETWEEN 0 AND 99), y INTEGER NOT NULL CHECK (y BETWEEN 0 AND 19), z ENUM ('a', 'b', 'ab') NOT NULL)"
    )
    con.execute(
        "INSERT INTO t SELECT (hash(i) % 100) * (hash(i, 1) % 100) // 100, (hash(i, 2) % 20 + hash(i) % 20) // 2, ['a', 'b', 'ab'][1 + i % 3] FROM range(3000) AS r(i)"
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
