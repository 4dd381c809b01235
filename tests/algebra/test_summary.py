"""Many queries as arrays say of each what it says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.summary import Facts, distinct_rows

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
def test_facts_are_those_of_each_query(queries: Sequence[LinearQuery]) -> None:
    facts = Facts.of(queries)
    rank = {name: place for place, name in enumerate(NAMES)}
    widths, places = facts.places(rank)
    assert facts.cells.tolist() == [query.cells for query in queries]
    assert facts.domain_cells.tolist() == [query.domain_cells for query in queries]
    assert facts.bounds.tolist() == [query.bound for query in queries]
    assert widths.tolist() == [len(query.attributes) for query in queries]
    assert places.tolist() == [rank[name] for query in queries for name in query.attributes]
    assert facts.changes().tolist() == [
        changes for query in queries for block in query.blocks for changes in block.changes
    ]
    assert facts.told_cells.tolist() == [
        prod(1 + changes for block in query.blocks for changes in block.changes) for query in queries
    ]
    assert facts.plain.tolist() == [
        bool(query.blocks) and all(len(block.attributes) == 1 and block.is_identity for block in query.blocks)
        for query in queries
    ]
    keys = [sorted(block.key for block in query.blocks) for query in queries]
    assert facts.firsts().tolist() == [keys.index(key) for key in keys]


def test_rows_with_numbers_too_large_for_one_code() -> None:
    rows = np.array([[5, 2**40], [1, 7], [5, 2**40], [1, 8]])
    found, first, which = distinct_rows(rows, 2**41)
    assert found[which].tolist() == rows.tolist()
    assert rows[first].tolist() == found.tolist()
    assert len(found) == 3
