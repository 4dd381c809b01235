"""A simplified block answers as before, without attributes that do not matter, and as a product where it is one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import blocks, domains, seeds

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.compile.merge import counts_all, simplified


@settings(deadline=None, max_examples=60)
@given(domains(), seeds, st.data())
def test_it_answers_as_before(sizes: dict[str, np.ndarray], seed: int, data: st.DataObject) -> None:
    shape = {name: len(own) for name, own in sizes.items()}
    block = data.draw(blocks(shape, list(shape)))
    weights = np.random.default_rng(seed).random(tuple(shape.values()))
    found = LinearQuery(tuple(simplified(block)))

    def answer(query: LinearQuery) -> np.ndarray:
        dropped = tuple(axis for axis, name in enumerate(shape) if name not in query.attributes)
        kept = [name for name in shape if name in query.attributes]
        marginal = weights.sum(axis=dropped)
        return query.answer(marginal.transpose([kept.index(name) for name in query.attributes]))

    assert answer(found) == pytest.approx(answer(LinearQuery((block,))), rel=1e-9)


def test_what_does_not_matter_is_dropped_and_a_product_is_taken_apart() -> None:
    counted = np.zeros((2, 3, 4), dtype=np.int32) - 1
    counted[1, :, 1:3] = 0
    found = simplified(Block(("a", "b", "c"), counted, 1))
    assert {block.attributes: block.labels.tolist() for block in found} == {("a",): [-1, 0], ("c",): [-1, 0, 0, -1]}
    diagonal = Block(("a", "b"), np.eye(2, dtype=np.int32) - 1, 1)
    assert [block.labels.tolist() for block in simplified(diagonal)] == [diagonal.labels.tolist()]


def test_counting_everything_needs_no_attribute() -> None:
    (block,) = simplified(Block(("a", "b"), np.zeros((2, 3), dtype=np.int32), 1))
    assert block.attributes == ()
    assert counts_all(block)
    assert not counts_all(simplified(Block(("a",), np.array([0, -1], dtype=np.int32), 1))[0])
