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
