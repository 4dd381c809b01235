"""Runs against the arrays that they encode, and partitions against matrices of members and cells."""

from __future__ import annotations

import numpy as np
import oracle
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import partitions, seeds

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.partition import (
    SHORT,
    Partition,
    Runs,
    conjunction,
    decode,
    encode,
    equal,
    refine,
    signatures,
    take,
)
from mwem_sql.algebra.table import Table
from mwem_sql.model.partitions import base_shares

numbers = st.lists(st.integers(-1, 2), min_size=1, max_size=30)
pairs = st.integers(1, 12).flatmap(
    lambda size: st.lists(st.lists(st.integers(-1, 2), min_size=size, max_size=size), min_size=1, max_size=6)
)


def array(values: object) -> np.ndarray:
    return np.array(values, dtype=np.int32)


@given(numbers, st.data())
def test_runs_are_the_array(values: list[int], data: st.DataObject) -> None:
    runs = Runs.of(array(values))
    assert runs.array().tolist() == values
    assert (runs.numbers[1:] != runs.numbers[:-1]).all()
    places = sorted(data.draw(st.sets(st.integers(0, len(values) - 1), min_size=1)))
    for encoding in (runs, array(values)):
        assert decode(take(encoding, np.array(places))).tolist() == [values[place] for place in places]
        assert decode(equal(encoding, 0)).tolist() == [value == 0 for value in values]


@given(pairs, st.integers(0, 63))
def test_where_all_are_true(rows: list[list[int]], kinds: int) -> None:
    """In whatever encoding each of them is."""
    truths = [array(row) > 0 for row in rows]
    encodings = [Runs.of(truth) if kinds >> place & 1 else truth for place, truth in enumerate(truths)]
    assert decode(conjunction(encodings)).tolist() == np.logical_and.reduce(truths).tolist()


def test_what_is_encoded() -> None:
    prefix = (np.arange(4 * SHORT) < SHORT).astype(np.int32) - 1
    irregular = np.random.default_rng(0).integers(-1, 3, 4 * SHORT).astype(np.int32)
    many = np.arange(4 * SHORT, dtype=np.int32)
    assert isinstance(encode(prefix), Runs)
    assert isinstance(encode(prefix.reshape(4, -1)), Runs)
    assert encode(prefix[:SHORT]).tolist() == prefix[:SHORT].tolist()
    assert encode(irregular).dtype == np.int8
    assert encode(many) is many
    for own in (prefix, prefix.reshape(4, -1), irregular, many):
        np.testing.assert_array_equal(decode(encode(own)), own)


@given(pairs, st.integers(0, 63), st.sampled_from([1, 10, 2**16]))
def test_signatures_tell_apart_what_differs(rows: list[list[int]], kinds: int, summed: int) -> None:
    size = len(rows[0])
    arrays = [(("a",), Runs.of(array(row)) if kinds >> place & 1 else array(row)) for place, row in enumerate(rows)]
    table = (np.add.outer(np.arange(size) % 3, np.arange(2)) % 2).astype(np.int32)
    arrays += [(("a", "b"), table), (("b", "a"), Runs.of(table.T.copy())), (("b", "a"), table.T.copy())]
    found = signatures({"a": size, "b": 2}, arrays, at_once=summed)
    none = np.zeros(size, dtype=np.int32)
    expected = refine(none, np.concatenate([array(rows).T, table], axis=1))
    assert refine(none, found["a"]).tolist() == expected.tolist()
    assert refine(none[:2], found["b"]).tolist() == refine(none[:2], table.T).tolist()


@settings(deadline=None)
@given(st.data())
def test_a_block_is_the_same_in_any_encoding(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=2)))
    size = data.draw(st.integers(1, 3))
    generator = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    labels = np.sort(generator.integers(-1, size, shape).astype(np.int32), axis=-1)
    values = generator.integers(-2, 3, shape) if data.draw(st.booleans()) else None
    names = tuple("ab"[: len(shape)])
    dense = Block(names, labels, size, values=values)
    coded = Block(names, labels, size, values=values)
    coded.__dict__["encoding"] = Runs.of(labels)  # as if it were long enough to be encoded
    assert isinstance(coded.encoding, Runs)
    assert not isinstance(dense.encoding, Runs)
    np.testing.assert_array_equal(coded.labels, labels)
    assert (coded.shape, coded.extent, coded.changes, coded.bound, coded.counts_all) == (
        dense.shape,
        dense.extent,
        dense.changes,
        dense.bound,
        dense.counts_all,
    )
    assert coded.key == dense.key
    for axis in range(len(shape)):
        np.testing.assert_array_equal(coded.slices(axis), dense.slices(axis))
    sizes = dict(zip(names, shape, strict=True))
    matrix = oracle.dense_query(LinearQuery((dense,)), sizes)
    weights = generator.integers(0, 9, shape)
    own = LinearQuery((coded,))
    assert own.answer(weights).dtype == np.int64
    np.testing.assert_array_equal(own.answer(weights), matrix @ weights.ravel())
    cells = generator.normal(size=size)
    np.testing.assert_allclose(own.spread(cells).ravel(), matrix.T @ cells)
    beside = LinearQuery((Block(("x",), array([0, 1]), 2), coded, Block(("y",), array([1, 0, -1]), 2)))
    wide = {"x": 2, **sizes, "y": 3}
    marginal = generator.random(tuple(wide.values()))
    np.testing.assert_allclose(beside.answer(marginal), oracle.dense_query(beside, wide) @ marginal.ravel())


quick = settings(deadline=None, max_examples=60)


@quick
@given(seeds, st.integers(1, 12))
def test_a_partition(seed: int, size: int) -> None:
    """Spreading undoes nothing but the sums inside a group, and averages are what the spread weights would give."""
    generator = np.random.default_rng(seed)
    own = Partition.single(base_shares(generator.choice([1e-300, 0.5, 1, 7e100], size)))
    runs = 1
    for _ in range(3):
        block = Block(("x",), generator.integers(-1, 2, size).astype(np.int32), 2)
        runs += block.changes[0]
        finer = own.refine(block.slices(0))
        assert own.count <= finer.count <= len(finer.runs) <= runs
        assert finer.is_whole == (finer.count == size)
        assert [finer.codes[k] for k in finer.representatives] == list(range(finer.count))
        own = finer
    weights, adds = generator.random((2, own.count, 3)), generator.normal(size=(4, size))
    spread = own.spread(weights, 1)
    np.testing.assert_allclose(
        np.stack([spread[:, own.codes == k].sum(1) for k in range(own.count)], 1), weights, rtol=1e-12
    )
    np.testing.assert_allclose(
        np.einsum("ag,bgc->abc", own.average(adds, 1), weights),
        np.einsum("ax,bxc->abc", adds, spread),
        rtol=1e-9,
        atol=1e-12,
    )


@settings(max_examples=examples(100), deadline=None)
@given(partitions(9), st.lists(st.integers(-1, 0), min_size=9, max_size=9))
def test_a_count_on_groups_is_its_average(own: Partition, labels: list[int]) -> None:
    block = Block(("x",), np.array(labels, np.int32), 1)
    is_counted = block.runs.numbers >= 0
    found = own.coverage(block.runs.begins[is_counted], block.runs.ends[is_counted])
    np.testing.assert_allclose(found, own.average((block.labels >= 0).astype(np.float64), 0), atol=1e-12)


@quick
@given(partitions(9), seeds)
def test_a_partition_against_its_matrix(own: Partition, seed: int) -> None:
    """Spread, gather, average and merge are products with a matrix: a row per cell, a column per member."""
    generator = np.random.default_rng(seed)
    matrix = (own.codes == np.arange(own.count)[:, None]).astype(np.float64)
    np.testing.assert_allclose(own.sums, matrix @ own.base)
    np.testing.assert_allclose(own.shares, own.base / (matrix.T @ (matrix @ own.base)))
    members, cells = generator.random((2, 9, 3)), generator.random((2, own.count, 3))
    np.testing.assert_allclose(own.gather(members, 1), np.einsum("gx,axc->agc", matrix, members))
    np.testing.assert_allclose(own.spread(cells, 1), np.einsum("gx,agc->axc", matrix * own.shares, cells))
    np.testing.assert_allclose(own.gather(own.spread(cells, 1), 1), cells)
    np.testing.assert_allclose(
        own.spread_to_runs(cells, 1), np.add.reduceat(own.spread(cells, 1), own.runs.begins, axis=1)
    )
    coarser = Partition.single(own.sums).refine(generator.integers(0, 2, own.count))
    merged = own.merge(coarser)
    np.testing.assert_allclose(merged.sums, coarser.sums)
    np.testing.assert_allclose(merged.gather(members, 1), coarser.gather(own.gather(members, 1), 1))
    assert own.refine(merged.codes).codes.tolist() == own.codes.tolist()
    assert Partition.whole(9).is_whole and Partition.whole(9).runs.array().tolist() == list(range(9))


def test_finer_classes_share_what_there_was_by_base_measure() -> None:
    parents, base = np.array([1, 0, 1, 2]), np.array([1.0, 5.0, 3.0, 2.0])
    partition = Partition(parents, base)
    assert partition.shares.tolist() == [0.25, 1.0, 0.75, 1.0]
    weights = np.arange(12.0).reshape(2, 3, 2)
    found = partition.spread(weights, 1)
    assert found.shape == (2, 4, 2)
    np.testing.assert_allclose(found[:, 0], weights[:, 1] / 4)
    np.testing.assert_allclose(found[:, [1, 3]], weights[:, [0, 2]])
    np.testing.assert_allclose(found.sum(axis=1), weights.sum(axis=1))
    assert weights.tolist() == np.arange(12.0).reshape(2, 3, 2).tolist()
    split = Table(("x", "y", "z"), weights).split("y", parents, partition.shares)
    np.testing.assert_array_equal(split.cells, found)
