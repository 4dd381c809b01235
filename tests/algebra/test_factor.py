"""The passes over a factor's weights, with inner loops cut at every length."""

from __future__ import annotations

import itertools
from math import log

import numpy as np
import pyarrow as pa
import pytest

from mwem_sql.algebra import factor as module
from mwem_sql.algebra import marginals
from mwem_sql.algebra.factor import SCHEMA, Factor, factors_from_table, factors_to_table

SHAPE = {"a": 3, "b": 2, "c": 1, "d": 4, "e": 2}


@pytest.fixture(params=[1, 2, 5, 9, 17, 512])
def long(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginals, "LONG", request.param)


def make() -> Factor:
    weights = np.random.default_rng(5).random(48) + 0.1
    return Factor(tuple(SHAPE), tuple(SHAPE.values()), weights, log(weights.min() / weights.sum()))


def tensor(factor: Factor) -> np.ndarray:
    return factor.weights.reshape(factor.shape)


def orders() -> list[tuple[str, ...]]:
    return [names for size in range(6) for names in itertools.permutations(SHAPE, size)]


@pytest.mark.usefixtures("long")
def test_marginals_in_every_order() -> None:
    factor = make()
    together = factor.marginals(orders())
    for names in orders():
        expected = np.einsum(tensor(factor), list(range(5)), [list(SHAPE).index(name) for name in names])
        np.testing.assert_allclose(factor.marginal(names), expected, rtol=1e-13)
        np.testing.assert_allclose(together[names], expected, rtol=1e-13)


@pytest.mark.usefixtures("long")
def test_multiply_in_every_order() -> None:
    for names in orders():
        factor = make()
        by = np.random.default_rng(6).random([SHAPE[name] for name in names])
        letters = "".join(names)
        expected = np.einsum(f"abcde,{letters}->abcde", tensor(factor), by)
        memory = factor.weights
        factor.multiply(names, by)
        np.testing.assert_allclose(tensor(factor), expected, rtol=1e-15)
        assert factor.weights.base is memory or factor.weights is memory


def test_shared_weights_are_replaced_not_written() -> None:
    factor = make()
    other = factor.share()
    assert other.weights is factor.weights
    before = other.weights.copy()
    factor.multiply(["a"], np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(other.weights, before)
    assert (factor.weights != before).any()


def test_lift() -> None:
    """Weights near 0 come back to the floor; others, and weights that the bound vouches for, stay."""
    factor = Factor(("a",), (3,), np.array([0.0, 1e-305, 10.0]), -1.0)
    factor.lift(10.0)
    assert factor.weights.tolist() == [0.0, 1e-305, 10.0]
    factor.lowest = -1000.0
    factor.lift(10.0)
    assert factor.weights.tolist() == [10 * module.FLOOR, 10 * module.FLOOR, 10.0]
    assert factor.lowest == pytest.approx(log(module.FLOOR))


def test_table_shares_memory() -> None:
    factor = make()
    table = factors_to_table([factor, make()])
    assert table.schema == SCHEMA
    assert table["factor"].to_pylist() == [0, 1]
    arrow = table["weights"].chunk(0).values.to_numpy()
    assert np.shares_memory(arrow, factor.weights)
    back = factors_from_table(table)
    assert np.shares_memory(back[0].weights, factor.weights)
    assert (back[0].attributes, back[0].shape) == (factor.attributes, factor.shape)
    before = arrow.copy()
    factor.multiply(["a"], np.array([1.0, 2.0, 3.0]))
    back[0].multiply(["b"], np.array([1.0, 2.0]))
    np.testing.assert_array_equal(arrow, before)


def test_table_from_elsewhere() -> None:
    """DuckDB gives lists with 32-bit offsets, in one chunk, and slices of them."""
    weights = pa.array([[9.0], [1.0, 2.0, 3.0, 4.0], [5.0, 5.0]], pa.list_(pa.float64()))
    table = pa.table({"factor": [7, 8, 9], "attributes": [["z"], ["a", "b"], ["c"]], "shape": [[1], [2, 2], [2]]})
    factors = factors_from_table(table.append_column("weights", weights).slice(1))
    assert [(f.attributes, f.shape, f.weights.tolist()) for f in factors] == [
        (("a", "b"), (2, 2), [1.0, 2.0, 3.0, 4.0]),
        (("c",), (2,), [5.0, 5.0]),
    ]


@pytest.mark.parametrize(
    ("names", "shape", "weights"),
    [(["a"], [2], [1.0]), (["a", "b"], [2], [1.0, 1.0]), (["a"], [2], [1.0, 0.0]), (["a"], [2], [1.0, float("nan")])],
)
def test_table_refusals(names: list[str], shape: list[int], weights: list[float]) -> None:
    rows = {"factor": [0], "attributes": [names], "shape": [shape], "weights": [weights]}
    with pytest.raises(ValueError, match="a positive weight for each cell"):
        factors_from_table(pa.Table.from_pydict(rows, schema=SCHEMA))
