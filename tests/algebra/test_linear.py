"""Compiled queries against their dense matrices."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import domains, queries, seeds

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.queries import Queries


def labels(*values: object) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def signs(*values: object) -> np.ndarray:
    return np.array(values, dtype=np.int8)


@st.composite
def cases(draw: st.DrawFn) -> tuple[LinearQuery, dict[str, int], np.random.Generator]:
    """A query and the shape of just its attributes, in its order."""
    shape = {name: len(size) for name, size in draw(domains()).items()}
    query = draw(queries(shape))
    return query, {name: shape[name] for name in query.attributes}, np.random.default_rng(draw(seeds))


def test_dense_query_by_hand() -> None:
    """`SELECT b, SUM(sign) WHERE a IN (0, 2) GROUP BY b`, written out."""
    query = LinearQuery((Block(("a",), labels(0, -1, 0), 1, values=signs(1, 1, -1)), Block(("b",), labels(0, 1), 2)))
    expected = [[1, 0, 0, 0, -1, 0], [0, 1, 0, 0, 0, -1]]
    assert oracle.dense_query(query, {"a": 3, "b": 2}).tolist() == expected


@settings(deadline=None)
@given(cases())
def test_answer_is_the_matrix_and_spread_its_transpose(
    case: tuple[LinearQuery, dict[str, int], np.random.Generator],
) -> None:
    query, shape, generator = case
    matrix = oracle.dense_query(query, shape)
    marginal = generator.random(tuple(shape.values()))
    before = marginal.copy()
    np.testing.assert_allclose(query.answer(marginal), matrix @ marginal.ravel(), rtol=1e-12, atol=1e-12)
    cells = generator.normal(size=query.cells)
    spread = query.spread(cells)
    assert spread.shape == tuple(shape.values())
    np.testing.assert_allclose(spread.ravel(), matrix.T @ cells, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(marginal, before)


@settings(deadline=None)
@given(cases())
def test_sizes(case: tuple[LinearQuery, dict[str, int], np.random.Generator]) -> None:
    query, shape, _ = case
    assert oracle.dense_query(query, shape).shape == (query.cells, query.domain_cells)


def test_no_block_counts_rows() -> None:
    query = LinearQuery(())
    assert query.answer(np.array(7.0)).tolist() == [7.0]
    assert query.spread(np.array([2.0])).tolist() == 2.0
    assert (query.attributes, query.cells, query.domain_cells) == ((), 1, 1)


@settings(deadline=None)
@given(cases(), st.data())
def test_key_ignores_how_a_query_is_written(
    case: tuple[LinearQuery, dict[str, int], np.random.Generator], data: st.DataObject
) -> None:
    query, _, generator = case
    rewritten = []
    for block in data.draw(st.permutations(query.blocks)):
        axes = data.draw(st.permutations(range(block.labels.ndim)))
        renumbered = np.append(generator.permutation(block.size), -1).astype(np.int32)[block.labels]
        values = np.ones(block.labels.shape, np.int8) if block.values is None else block.values
        values = np.where(block.labels >= 0, values, generator.choice([-1, 0, 1], values.shape)).astype(np.int8)
        names = tuple(block.attributes[axis] for axis in axes)
        rewritten.append(
            Block(names, np.asarray(renumbered.transpose(axes)), block.size, values=values.transpose(axes))
        )
    assert Queries.of([query, LinearQuery(tuple(rewritten))]).firsts().tolist() == [0, 0]


def test_key_tells_queries_apart() -> None:
    different = [
        Block(("a",), labels(0, 0, -1), 1),
        Block(("b",), labels(0, 0, -1), 1),
        Block(("a",), labels(0, 0, 0), 1),
        Block(("a",), labels(0, 1, -1), 2),
        Block(("a",), labels(0, 0, -1), 1, values=signs(1, -1, 1)),
        Block(("a",), labels(0, 0, -1), 1, values=signs(-1, -1, 1)),
        Block(("a", "b"), labels([0, 0], [0, -1]), 1),
    ]
    asked = [
        *(LinearQuery((block,)) for block in different),
        LinearQuery(()),
        LinearQuery(different[:2]),
        LinearQuery(different[1::-1]),
        LinearQuery(()),
    ]
    alone = len(different)
    assert Queries.of(asked).firsts().tolist() == [*range(alone + 2), alone + 1, alone]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="one label axis per attribute"):
        Block(("a", "b"), labels(0, 1), 2)
    with pytest.raises(ValueError, match="shape of its labels"):
        Block(("a",), labels(0, 1), 2, values=signs(1, 1, 1))


def test_a_comparison_of_many_classes_falls_into_even_parts() -> None:
    """Classes of which it says the same whatever the other attribute is stay by themselves."""
    one, other = np.indices((100, 40))
    block = Block(("a", "b"), np.where(one > other, 0, -1).astype(np.int32), 1)
    rows = block.parts(0, 8)
    assert len(np.unique(block.kinds(0))) == 41
    assert len(np.unique(rows)) <= 8
    # a = 0 is above no b, and a from 40 on is above all.
    assert np.unique(rows[40:]).size == 1
    assert (rows == rows[0]).sum() == 1
    assert (rows == rows[40]).sum() == 60
    assert (np.diff(rows[1:40]) >= 0).all()
    # Few are as they are, and so is what groups by two attributes.
    np.testing.assert_array_equal(block.parts(1, 40), block.slices(1))
    cuboid = Block(("a", "b"), np.arange(4000, dtype=np.int32).reshape(100, 40), 4000)
    assert not cuboid.is_joint
    np.testing.assert_array_equal(cuboid.parts(0, 8), cuboid.slices(0))


def test_single_cells_are_the_cells_in_order() -> None:
    query = LinearQuery(
        (Block(("a",), labels(0, 1, -1, 0), 2), Block(("b",), labels(0, 0, 0), 1, values=labels(3, 0, 5)))
    )
    marginal = np.random.default_rng(0).random((4, 3))
    parts = query.single_cells()
    assert [part.cells for part in parts] == [1, 1]
    np.testing.assert_allclose([part.answer(marginal)[0] for part in parts], query.answer(marginal))
