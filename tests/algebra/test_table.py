"""Tables: sums, products and orders of axes against einsum, with inner loops of every length; what is stored."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

from mwem_sql.algebra.table import (
    FACTOR_SCHEMA,
    LONG,
    Table,
    independent,
    tables_from_arrow,
    tables_to_arrow,
)  # fmt: skip

SHAPE = {"a": 3, "b": 2, "c": 1, "d": 4, "e": 2}
# Inner loops of 512 cells or more over the last axis, the last two, ... and all; of `SHAPE`, over fewer cells.
LOOPS = [SHAPE, *(SHAPE | {name: LONG // size for name, size in sizes.items()} for sizes in (
    {"e": 1}, {"d": 2}, {"b": 8}, {"a": 16},
))]  # fmt: skip


def make(*names: str, seed: int = 5, shape: Mapping[str, int] = SHAPE) -> Table:
    names = names or tuple(shape)
    return Table(names, np.random.default_rng(seed).uniform(0.1, 1.1, [shape[name] for name in names]))


def orders() -> list[tuple[str, ...]]:
    return [names for size in range(6) for names in itertools.permutations(SHAPE, size)]


@pytest.mark.parametrize("shape", LOOPS)
@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_projections_in_every_order(shape: Mapping[str, int], kind: type) -> None:
    table = Table(tuple(shape), (100 * make(shape=shape).cells).astype(kind))
    together = table.projections(orders())
    for names in orders():
        expected = np.einsum(table.cells, list(range(5)), [list(SHAPE).index(name) for name in names])
        for found in (table.project(names), together[names]):
            assert found.names == names
            assert found.cells.dtype == kind
            np.testing.assert_allclose(found.cells, expected, rtol=1e-13)


@pytest.mark.parametrize("shape", LOOPS)
def test_multiply_in_every_order(shape: Mapping[str, int]) -> None:
    for names in orders():
        table, by = make(shape=shape), make(*names, seed=6, shape=shape) if names else Table((), np.array(2.5))
        expected = np.einsum(f"abcde,{''.join(names)}->abcde", table.cells, by.cells)
        before, out = table.cells.copy(), np.empty_like(table.cells)
        np.testing.assert_allclose(table.multiply(by).cells, expected, rtol=1e-15)
        np.testing.assert_array_equal(table.cells, before)
        found = table.multiply(by, out=out)
        assert np.shares_memory(found.cells, out)
        np.testing.assert_allclose(out, expected, rtol=1e-15)


@pytest.mark.parametrize(("left", "right"), [("abd", "bde"), ("ab", "de"), ("abde", "b"), ("e", "bade"), ("a", "a")])
def test_contract_keeps_any_axes_in_any_order(left: str, right: str) -> None:
    one, other = make(*left), make(*right, seed=7)
    union = sorted({*left, *right})
    for size in range(len(union) + 1):
        for kept in itertools.permutations(union, size):
            found = one.contract(other, kept)
            assert found.names == kept
            expected = np.einsum(f"{left},{right}->{''.join(kept)}", one.cells, other.cells)
            np.testing.assert_allclose(found.cells, expected, rtol=1e-12)


def test_align_and_independent() -> None:
    one, other = make("d", "a"), make("b", seed=8)
    assert one.align(("a", "b", "d")).shape == (3, 1, 4)
    np.testing.assert_array_equal(one.align(("a", "b", "d"))[:, 0], one.cells.T)
    scaled = [Table(table.names, table.cells * (10 / table.cells.sum())) for table in (one, other)]
    found = independent(scaled, ("a", "b", "d"), 10.0)
    np.testing.assert_allclose(found.cells, np.einsum("da,b->abd", scaled[0].cells, scaled[1].cells) / 10)
    assert found.cells.sum() == pytest.approx(10)
    np.testing.assert_array_equal(independent(scaled[:1], ("a", "d"), 10.0).cells, scaled[0].cells.T)


def test_what_is_stored_shares_memory() -> None:
    table = make()
    arrow = tables_to_arrow([table, make("a")])
    assert arrow.schema == FACTOR_SCHEMA
    assert arrow["factor"].to_pylist() == [0, 1]
    assert np.shares_memory(arrow["weights"].chunk(0).values.to_numpy(), table.cells)
    assert not table.cells.flags.writeable
    first, second = tables_from_arrow(arrow)
    assert np.shares_memory(first.cells, table.cells)
    assert not first.cells.flags.writeable
    assert (first.names, first.shape) == (table.names, table.shape)
    np.testing.assert_array_equal(second.cells, make("a").cells)


def test_table_from_elsewhere() -> None:
    """DuckDB gives lists with 32-bit offsets, in one chunk, and slices of them."""
    weights = pa.array([[9.0], [1.0, 2.0, 3.0, 4.0], [5.0, 5.0]], pa.list_(pa.float64()))
    table = pa.table({"factor": [7, 8, 9], "attributes": [["z"], ["a", "b"], ["c"]], "shape": [[1], [2, 2], [2]]})
    tables = tables_from_arrow(table.append_column("weights", weights).slice(1))
    assert [(one.names, one.shape, one.cells.ravel().tolist()) for one in tables] == [
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
        tables_from_arrow(pa.Table.from_pydict(rows, schema=FACTOR_SCHEMA))
