"""Many queries as arrays say of each what it says of itself, and are answered as each by itself."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

import numpy as np
import pytest
import strategies
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import partitions, seeds

import mwem_sql
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.queries import MANY_BOXES, MOST_RUNS, Boxes, Queries, distinct_rows

NAMES = "abcde"
SHAPE = {"a": 3, "b": 2, "c": 1, "d": 4, "e": 2}
SIZES = (7, 4)


@st.composite
def blocks(draw: st.DrawFn, names: tuple[str, ...]) -> Block:
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    shape = (3,) * len(names)
    if draw(st.booleans()):
        return Block(names, np.arange(3 ** len(names), dtype=np.int32).reshape(shape), 3 ** len(names))
    values = generator.integers(-9, 9, shape) if draw(st.booleans()) else None
    return Block(names, generator.integers(-1, 2, shape).astype(np.int32), 2, values=values)


@st.composite
def query_lists(draw: st.DrawFn) -> list[LinearQuery]:
    sets = [("a",), ("b",), ("c", "d"), ("e",)]
    pool = {names: draw(st.lists(blocks(names), min_size=1, max_size=2)) for names in sets}
    chosen = draw(st.lists(st.lists(st.sampled_from(sets), unique=True, max_size=4), max_size=12))
    return [LinearQuery(tuple(draw(st.sampled_from(pool[names])) for names in own)) for own in chosen]


@given(query_lists())
def test_a_batch_says_of_each_query_what_it_says_of_itself(queries: Sequence[LinearQuery]) -> None:
    batch = Queries.of(queries)
    rank = {name: place for place, name in enumerate(NAMES)}
    widths, places = batch.widths, batch.attribute_ranks(rank)
    assert batch.cells.tolist() == [query.cells for query in queries]
    assert batch.domain_cells.tolist() == [query.domain_cells for query in queries]
    assert batch.bounds.tolist() == [query.bound for query in queries]
    assert widths.tolist() == [len(query.attributes) for query in queries]
    assert places.tolist() == [rank[name] for query in queries for name in query.attributes]
    assert batch.changes().tolist() == [
        changes for query in queries for block in query.blocks for changes in block.changes
    ]
    assert batch.model_cells.tolist() == [
        prod(1 + changes for block in query.blocks for changes in block.changes) for query in queries
    ]
    assert batch.are_marginals.tolist() == [
        bool(query.blocks) and all(len(block.attributes) == 1 and block.is_identity for block in query.blocks)
        for query in queries
    ]
    keys = [sorted(block.key for block in query.blocks) for query in queries]
    assert batch.firsts().tolist() == [keys.index(key) for key in keys]


@given(query_lists(), st.data())
def test_a_batch_is_a_sequence_of_its_queries(queries: list[LinearQuery], data: st.DataObject) -> None:
    batch = Queries.of(queries)
    assert list(batch) == queries == [batch[number] for number in range(len(queries))]
    numbers = data.draw(st.lists(st.integers(0, len(queries) - 1), max_size=9)) if queries else []
    some = batch.take(numbers)
    assert list(some) == [queries[number] for number in numbers]
    assert set(some.blocks) == {block for number in numbers for block in queries[number].blocks}
    both = Queries.joined([some, batch, batch[1:3]])
    assert list(both) == [*some, *queries, *queries[1:3]]
    assert len(both.blocks) == len(set(both.blocks)) == len(batch.blocks)


@given(query_lists())
def test_blocks_give_way_to_others(queries: list[LinearQuery]) -> None:
    """The third block to nothing, every other to itself and one more."""
    batch = Queries.of(queries)
    more = Block(("z",), np.arange(2, dtype=np.int32), 2)
    others = {block: () if place == 2 else (block, more) for place, block in enumerate(batch.blocks)}
    found = batch.substituted([others[block] for block in batch.blocks])
    assert [query.blocks for query in found] == [
        tuple(other for block in query.blocks for other in others[block]) for query in queries
    ]


def test_rows_with_numbers_too_large_for_one_code() -> None:
    rows = np.array([[5, 2**40], [1, 7], [5, 2**40], [1, 8]])
    found, first, which = distinct_rows(rows, 2**41)
    assert found[which].tolist() == rows.tolist()
    assert rows[first].tolist() == found.tolist()
    assert len(found) == 3


@given(query_lists())
def test_queries_are_grouped_by_their_attributes_in_order(queries: Sequence[LinearQuery]) -> None:
    expected: dict[tuple[str, ...], list[int]] = {}
    for number, query in enumerate(queries):
        if len(query.blocks) != 1:
            expected.setdefault(query.attributes, []).append(number)
    batch = Queries.of(queries)
    groups = batch.by_attributes(batch.counts != 1, least=2)
    assert {names: numbers.tolist() for names, numbers in groups.items()} == {
        names: numbers for names, numbers in expected.items() if len(numbers) > 1
    }
    assert batch.same_as(Queries.of(list(batch)))


@settings(deadline=None, max_examples=examples(100))
@given(
    st.data(),
    st.sampled_from([["a"], ["d", "a"], ["b", "e", "d", "c", "a"]]),
    seeds,
    st.integers(1, 60),
    st.integers(1, 4),
)
def test_all_are_answered_as_each(data: st.DataObject, names: list[str], seed: int, numbers: int, many: int) -> None:
    """Products of blocks that join attributes in different ways, in matrix products of any size, from few boxes on."""
    queries = []
    for _ in range(data.draw(st.integers(0, 6))):
        cuts = data.draw(st.sets(st.integers(1, len(names) - 1))) if len(names) > 1 else set()
        groups = [names[start:end] for start, end in itertools.pairwise([0, *sorted(cuts), len(names)])]
        queries.append(LinearQuery(tuple(data.draw(strategies.blocks(SHAPE, group)) for group in groups)))
    counts = np.random.default_rng(seed).integers(0, 100, [SHAPE[name] for name in names])
    batch = Queries.of(queries)
    exact = batch.answers(counts, many_boxes=many, row_numbers=numbers)
    about = batch.answers(counts / 7, many_boxes=many, row_numbers=numbers)
    without = batch.answers(counts.ravel() / 7, prefix_sums=False, row_numbers=numbers)
    for query, one, two, three in zip(queries, exact, about, without, strict=True):
        assert one.dtype == np.int64
        np.testing.assert_array_equal(one, query.answer(counts))
        np.testing.assert_allclose(two, query.answer(counts / 7), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(three, query.answer(counts / 7), rtol=1e-12, atol=1e-12)


def test_one_cell_with_signs() -> None:
    query = LinearQuery((Block(("a",), np.array([0, -1, 0], np.int32), 1, values=np.array([1, 1, -1], np.int8)),))
    assert [answer.tolist() for answer in Queries.of([query, query]).answers(np.array([5.0, 7.0, 2.0]))] == [
        [3.0],
        [3.0],
    ]


def test_how_many_rows() -> None:
    assert Queries.of([LinearQuery(())]).answers(np.array(5.0))[0].tolist() == [5.0]


def test_a_count_of_nothing_is_not_below_0() -> None:
    """As a difference of prefix sums it would be, by an error of rounding."""
    weights = np.random.default_rng(0).lognormal(0, 5, (50, 50))
    weights[20:40, 20:40] = 0.0

    def stretch(name: str, low: int, high: int) -> Block:
        return Block((name,), np.where((np.arange(50) >= low) & (np.arange(50) < high), 0, -1).astype(np.int32), 1)

    queries = [
        LinearQuery((stretch("a", 20, high), stretch("b", low, 40))) for high in range(21, 40) for low in range(20, 40)
    ]
    batch = Queries.of(queries)
    assert min(answer.min() for answer in Boxes(batch).answers(weights)) < 0
    assert len(queries) >= MANY_BOXES
    assert min(answer.min() for answer in batch.answers(weights)) == 0


def test_many_answers_are_those_of_each() -> None:
    """Differences of one table of sums, and never below 0."""
    with mwem_sql.connect(":memory:") as con:
        con.execute(
            "CREATE TABLE t (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99),"
            " pay DOUBLE NOT NULL CHECK (pay >= 0 AND pay < 1e6))"
        )
        con.execute("INSERT INTO t SELECT i % 100, i * 400 FROM range(2000) AS r(i)")
        con.execute(
            "CREATE TABLE workload AS"
            " SELECT 'age >= ' || i % 90 || ' AND pay > ' || i * 5000 || '.5' AS predicate FROM range(200) AS r(i)"
        )
        con.sql("CALL mwem_release('t', workload, 1.0, seed := 1)").fetchall()
        found = con.sql("SELECT name, answer FROM mwem_answer('t_synthetic', workload) ORDER BY query").fetchall()
        few = [con.execute("SELECT mwem_count('t_synthetic', ?)", [name]).fetchall()[0][0] for name, _ in found[::20]]
    assert len(found) == 200
    assert min(answer for _, answer in found) >= 0
    np.testing.assert_allclose(few, [answer for _, answer in found[::20]], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("large", [2**52, 2**53, 2**53 + 1, 2**60])
def test_counts_that_float64_does_not_have_stay_exact(large: int) -> None:
    query = LinearQuery((Block(("a",), np.array([0, 0, -1], np.int32), 1),))
    assert Queries.of([query, query]).answers(np.array([large, 1, 0]))[0].tolist() == [large + 1]


@st.composite
def box_queries(draw: st.DrawFn) -> list[LinearQuery]:
    axes = draw(st.sampled_from([(0,), (1, 0)]))
    labels = [st.lists(st.integers(-1, 3), min_size=SIZES[axis], max_size=SIZES[axis]) for axis in axes]
    drawn = draw(st.lists(st.tuples(*labels), min_size=1, max_size=5))
    return [
        LinearQuery(
            tuple(
                Block((f"x{axis}",), np.array(classes, np.int32), 4) for axis, classes in zip(axes, all_, strict=True)
            )
        )
        for all_ in drawn
    ]


@settings(max_examples=100, deadline=None)
@given(box_queries(), st.integers(0, 99))
def test_answers_are_those_of_the_queries_and_whole_numbers_stay_exact(asked: list[LinearQuery], seed: int) -> None:
    assert Queries.of(asked).are_boxes.all()
    shape = [block.labels.size for block in asked[0].blocks]
    marginal = np.random.default_rng(seed).integers(-(2**60), 2**60, shape)
    boxes = Boxes(Queries.of(asked))
    for query, whole, part in zip(asked, boxes.answers(marginal), boxes.answers(marginal / 2**60), strict=True):
        np.testing.assert_array_equal(whole, query.answer(marginal))
        np.testing.assert_allclose(part, query.answer(marginal / 2**60), atol=1e-12)


def test_what_is_no_sum_over_few_boxes_is_left_to_others() -> None:
    others = [
        LinearQuery(()),
        LinearQuery((Block(("a",), np.zeros(3, np.int32), 1, values=np.arange(3)),)),
        LinearQuery((Block(("a", "b"), np.zeros((3, 2), np.int32), 1),)),
        LinearQuery((Block(("a",), (np.arange(2 * MOST_RUNS) % 2).astype(np.int32), 2),)),
    ]
    assert not Queries.of(others).are_boxes.any()


def test_few_over_the_same_attributes_are_left_to_others() -> None:
    one, other = Block(("a",), np.zeros(3, np.int32), 1), Block(("b",), np.zeros(3, np.int32), 1)
    asked = Queries.of([LinearQuery((one,)), LinearQuery((other,)), LinearQuery(()), LinearQuery((one,))])
    assert asked.many_boxes() == {}
    assert {names: numbers.tolist() for names, numbers in asked.many_boxes(2).items()} == {("a",): [0, 3]}


@settings(max_examples=examples(100), deadline=None)
@given(box_queries(), st.data())
def test_sums_over_stretches_of_groups_are_those_over_classes(asked: list[LinearQuery], data: st.DataObject) -> None:
    own = [data.draw(partitions(block.labels.size)) for block in asked[0].blocks]
    weights = np.random.default_rng(data.draw(st.integers(0, 99))).uniform(0, 9, [partition.count for partition in own])
    classes, runs = weights, weights
    for axis, one in enumerate(own):
        classes, runs = one.spread(classes, axis), one.spread_to_runs(runs, axis)
    assert runs.shape == tuple(len(partition.runs) for partition in own)
    boxes = Boxes(Queries.of(asked))
    found, expected = boxes.answers(runs, [partition.boundaries for partition in own]), boxes.answers(classes)
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(expected), atol=1e-9)
