"""Many queries as arrays say of each what it says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.queries import Queries, distinct_rows

NAMES = "abcde"


@st.composite
def blocks(draw: st.DrawFn, names: tuple[str, ...]) -> Block:
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    shape = (3,) * len(names)
    if draw(st.booleans()):
        return Block(names, np.arange(3 ** len(names), dtype=np.int32).reshape(shape), 3 ** len(names))
    values = generator.integers(-9, 9, shape) if draw(st.booleans()) else None
    return Block(names, generator.integers(-1, 2, shape).astype(np.int32), 2, values)


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
