"""Arrays in less room against the arrays themselves."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.algebra import stretches
from mwem_sql.algebra.linear import Block, LinearQuery, tell_apart
from mwem_sql.algebra.stretches import SHORT, Signatures, Stretches, both, equal, hold, plain, take

numbers = st.lists(st.integers(-1, 2), min_size=1, max_size=30)
pairs = st.integers(1, 12).flatmap(
    lambda size: st.lists(st.lists(st.integers(-1, 2), min_size=size, max_size=size), min_size=1, max_size=6)
)


def array(values: object) -> np.ndarray:
    return np.array(values, dtype=np.int32)


@given(numbers, st.data())
def test_they_are_the_array(values: list[int], data: st.DataObject) -> None:
    own = Stretches.of(array(values))
    assert own.array().tolist() == values
    assert (own.numbers[1:] != own.numbers[:-1]).all()
    places = sorted(data.draw(st.sets(st.integers(0, len(values) - 1), min_size=1)))
    for held in (own, array(values)):
        assert plain(take(held, np.array(places))).tolist() == [values[place] for place in places]
        assert plain(equal(held, 0)).tolist() == [value == 0 for value in values]


@given(pairs, st.integers(0, 63))
def test_where_all_are_true(rows: list[list[int]], kinds: int) -> None:
    """In whatever form each of them is held."""
    truths = [array(row) > 0 for row in rows]
    held = [Stretches.of(truth) if kinds >> place & 1 else truth for place, truth in enumerate(truths)]
    assert plain(both(held)).tolist() == np.logical_and.reduce(truths).tolist()


def test_what_is_held() -> None:
    prefix = (np.arange(4 * SHORT) < SHORT).astype(np.int32) - 1
    irregular = np.random.default_rng(0).integers(-1, 3, 4 * SHORT).astype(np.int32)
    many = np.arange(4 * SHORT, dtype=np.int32)
    assert isinstance(hold(prefix), Stretches)
    assert isinstance(hold(prefix.reshape(4, -1)), Stretches)
    assert hold(prefix[:SHORT]).tolist() == prefix[:SHORT].tolist()
    assert hold(irregular).dtype == np.int8
    assert hold(many) is many
    for own in (prefix, prefix.reshape(4, -1), irregular, many):
        np.testing.assert_array_equal(plain(hold(own)), own)


@given(pairs, st.integers(0, 63))
def test_signatures_tell_apart_what_differs(rows: list[list[int]], kinds: int) -> None:
    size = len(rows[0])
    signatures = Signatures(size)
    for place, row in enumerate(rows):
        signatures.add(Stretches.of(array(row)) if kinds >> place & 1 else array(row))
    table = np.add.outer(np.arange(size) % 3, np.arange(2)) % 2
    signatures.add(table.astype(np.int32), axis=0)
    signatures.add(table.T.astype(np.int32).copy(), axis=1)
    none = np.zeros(size, dtype=np.int32)
    expected = tell_apart(none, np.concatenate([array(rows).T, table], axis=1))
    assert tell_apart(none, signatures.rows()).tolist() == expected.tolist()


@settings(deadline=None)
@given(st.data())
def test_a_block_is_the_same_however_it_is_held(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=2)))
    size = data.draw(st.integers(1, 3))
    generator = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    labels = np.sort(generator.integers(-1, size, shape).astype(np.int32), axis=-1)
    values = generator.integers(-2, 3, shape) if data.draw(st.booleans()) else None
    names = tuple("ab"[: len(shape)])
    dense = Block(names, labels, size, values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "SHORT", 0)
        patch.setattr(stretches, "_FEWER", 1)
        coded = Block(names, labels, size, values)
    assert isinstance(coded.held, Stretches)
    assert not isinstance(dense.held, Stretches)
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
