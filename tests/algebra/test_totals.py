"""Public counts as partitions, beside tables of which they are true."""

from __future__ import annotations

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.totals import ContradictionError, TooManyCellsError, Totals

SIZES = {"a": 4, "b": 3, "c": 6}


def count(**values: list[int]) -> LinearQuery:
    """Records that have one of these values of each attribute."""
    blocks = [
        Block((name,), np.where(np.isin(np.arange(SIZES[name]), listed), 0, -1).astype(np.int32), 1)
        for name, listed in values.items()
    ]
    return LinearQuery(tuple(blocks))


def totals(*pairs: tuple[LinearQuery, float], total: float | None = None, most_cells: int = 100) -> Totals:
    counts, rows = zip(*pairs, strict=True)
    return Totals.of(counts, rows, SIZES, most_cells=most_cells, total=total)


def random_count(generator: np.random.Generator) -> LinearQuery:
    names = sorted(generator.choice(list(SIZES), generator.integers(0, 4), replace=False).tolist())
    return count(
        **{name: generator.choice(SIZES[name], generator.integers(1, 3), replace=False).tolist() for name in names}
    )


@settings(max_examples=examples(200))
@given(st.integers(0, 2**32))
def test_counts_of_a_table_contradict_nothing_and_are_kept_one_and_all(seed: int) -> None:
    """Each is a sum of cells of one partition; all cells have the rows that the table has there."""
    generator = np.random.default_rng(seed)
    table = generator.poisson(2.0, tuple(SIZES.values())).astype(float)
    counts = [random_count(generator) for _ in range(generator.integers(1, 9))]

    def true(query: LinearQuery) -> np.ndarray:
        axes = tuple(axis for axis, name in enumerate(SIZES) if name not in query.attributes)
        order = [name for name in SIZES if name in query.attributes]
        return query.answer(table.sum(axis=axes).transpose([order.index(name) for name in query.attributes]))

    found = totals(*((query, float(true(query)[0])) for query in counts))
    if found.total is not None:
        assert found.total == table.sum()
    assert found.fewest <= table.sum()
    for partition in found.partitions:
        assert partition.query.counts_all
        assert (true(partition.query) == partition.values(table.sum())).all()
        assert (true(partition.without_rest) == partition.rows).all()
        assert partition.rest == (found.total is None and len(partition.rows) < partition.query.cells)
    for query in (query for query in counts if query.attributes):
        assert any(_is_sum_of_cells(query, partition.without_rest) for partition in found.partitions), query


def _is_sum_of_cells(query: LinearQuery, other: LinearQuery) -> bool:
    """Whether no cell of the other is counted in part, and all that is counted is in one."""
    if not set(query.attributes) <= set(other.attributes):
        return False
    (block,) = other.blocks
    counted = np.ones(block.shape, dtype=bool)
    for part in query.blocks:
        axis = block.attributes.index(part.attributes[0])
        counted &= (part.labels >= 0).reshape([-1 if k == axis else 1 for k in range(counted.ndim)])
    inside, outside = set(block.labels[counted].tolist()), set(block.labels[~counted].tolist())
    return -1 not in inside and inside.isdisjoint(outside)


def test_a_full_partition_says_how_many_rows_there_are() -> None:
    regions = [(count(a=[value]), 10.0 + value) for value in range(4)]
    assert totals(*regions).total == 46
    part = totals(*regions[:3])
    assert (part.total, part.fewest, part.partitions[0].rest) == (None, 33, True)
    assert part.partitions[0].values(40).tolist() == [*part.partitions[0].rows, 7]
    assert part.partitions[0].values(20)[-1] == 0  # never negative, whatever noise says of n
    assert totals(*regions[:3], total=40.0).partitions[0].rows.sum() == 40


def test_what_is_inside_another_count_divides_it_in_any_order() -> None:
    for order in (slice(None), slice(None, None, -1)):
        found = totals(*[(count(a=[0]), 10.0), (count(a=[0], b=[1]), 4.0), (count(a=[0, 1]), 25.0)][order])
        (partition,) = found.partitions
        assert sorted(partition.rows) == [4, 6, 15]


@pytest.mark.parametrize(
    ("pairs", "total", "number", "most"),
    [
        ([(count(a=[0]), 10.0), (count(a=[0]), 11.0)], None, 1, 10),
        ([(count(a=[0]), 10.0), (count(a=[0], b=[1]), 11.0)], None, 1, 10),
        ([(count(a=[0]), 10.0), (count(a=[1]), 5.0), (count(a=[0, 1]), 14.0)], None, 1, 4),
        ([(count(a=[0]), 10.0)], 9.0, 0, 9),
        ([(count(a=[v]), 1.0) for v in range(4)] + [(count(b=[v]), 1.0) for v in range(3)], None, None, 4),
        ([(count(a=[v]), 1.0) for v in range(4)], 5.0, 3, 2),
        ([(count(a=[]), 3.0)], None, 0, 0),
    ],
)  # fmt: skip
def test_counts_that_no_table_has_are_refused(
    pairs: list[tuple[LinearQuery, float]], total: float | None, number: int | None, most: float
) -> None:
    with pytest.raises(ContradictionError) as caught:
        totals(*pairs, total=total)
    if number is not None:
        assert (caught.value.number, caught.value.most) == (number, most)


def test_what_rules_forbid_has_no_rows() -> None:
    """And a count of all that is possible is a count of everything."""

    def possible(names: tuple[str, ...], partitions: object) -> np.ndarray | None:
        return np.arange(partitions["a"].count) == 0 if names == ("a",) else None  # type: ignore[index]

    with pytest.raises(ContradictionError, match="0 to 0"):
        Totals.of([count(a=[2])], [1.0], SIZES, most_cells=100, possible=possible)
    assert Totals.of([count(a=[0]), count(a=[2])], [7.0, 0.0], SIZES, most_cells=100, possible=possible).total == 7


def test_a_count_of_too_many_class_combinations_is_refused() -> None:
    with pytest.raises(TooManyCellsError, match="72 class combinations"):
        totals((count(a=[0], b=[0], c=[0]), 1.0), most_cells=71)
