"""A mixture is the average of its states."""

from __future__ import annotations

import numpy as np
import oracle
import pyarrow as pa
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Floats, close, dense, domains, queries, seeds

from mwem_sql.algebra.table import FACTOR_SCHEMA
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State

quick = settings(deadline=None, max_examples=examples(60))


@quick
@given(st.lists(seeds, min_size=1, max_size=3), domains(3), st.data())
def test_mixture(several: list[int], sizes: dict[str, Floats], data: st.DataObject) -> None:
    shape = {name: len(size) for name, size in sizes.items()}
    kept = []
    for number, seed in enumerate(several):
        generator = np.random.default_rng(seed)
        state = State.uniform(sizes, 10.0 + number)
        query = data.draw(queries(shape))
        state.replay([(query, generator.random(query.cells) * 10)], passes=2)
        kept.append(state)
    mixture = Mixture(kept)
    average = np.mean([dense(state) for state in kept], axis=0)
    assert mixture.attributes == tuple(sizes)
    assert mixture.shape(tuple(sizes)) == tuple(shape.values())
    assert mixture.total == pytest.approx(average.sum())
    assert mixture.cells == sum(state.cells for state in kept)
    table = mixture.table()
    assert table.schema == FACTOR_SCHEMA.insert(0, pa.field("state", pa.int32()))
    asked = data.draw(st.lists(queries(shape), max_size=3))
    for one in (mixture, Mixture.from_table(table, mixture.attributes)):
        close(dense(one), average, 10.0)
        for query, answer in zip(asked, one.answers(asked), strict=True):
            close(answer, oracle.evaluate(oracle.dense_query(query, shape), average), 10.0)
            close(one.answer(query), answer, 10.0)


def test_mixture_of_states_with_different_factors() -> None:
    """Their tables list the attributes in different orders."""
    one, other = (State.uniform({"a": np.ones(3), "b": np.array([1.0, 4.0])}, 10.0) for _ in range(2))
    other.join(["a", "b"])
    assert State.from_table(other.table()).attributes == ("b", "a")
    back = Mixture.from_table(Mixture([one, other]).table())
    assert back.attributes == ("a", "b")
    close(dense(back), dense(one), 10.0)


def test_mixture_refusals() -> None:
    with pytest.raises(ValueError, match="at least one state"):
        Mixture([])
    one, other = State.uniform({"a": np.ones(2)}, 1.0), State.uniform({"a": np.ones(3)}, 1.0)
    with pytest.raises(ValueError, match="same attributes and classes"):
        Mixture([one, other])
