"""All queries at once, whichever way is taken, as each by itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import blocks, seeds

import mwem_sql
from mwem_sql.algebra import answers as module
from mwem_sql.algebra import boxes
from mwem_sql.algebra.answers import answer_all
from mwem_sql.algebra.linear import Block, LinearQuery

SHAPE = {"a": 3, "b": 2, "c": 1, "d": 4, "e": 2}


@settings(deadline=None, max_examples=examples(100))
@given(
    st.data(),
    st.sampled_from([["a"], ["d", "a"], ["b", "e", "d", "c", "a"]]),
    seeds,
    st.integers(1, 60),
    st.integers(1, 4),
)
def test_all_are_answered_as_each(data: st.DataObject, names: list[str], seed: int, numbers: int, many: int) -> None:
    """Products of blocks that join attributes in different ways, in matrix products of any size, from few boxes on."""
    queries = []
    for _ in range(data.draw(st.integers(0, 6))):
        cuts = data.draw(st.sets(st.integers(1, len(names) - 1))) if len(names) > 1 else set()
        groups = [names[start:end] for start, end in itertools.pairwise([0, *sorted(cuts), len(names)])]
        queries.append(LinearQuery(tuple(data.draw(blocks(SHAPE, group)) for group in groups)))
    counts = np.random.default_rng(seed).integers(0, 100, [SHAPE[name] for name in names])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROW_NUMBERS", numbers)
        patch.setattr(boxes, "MANY_BOXES", many)
        exact, about, without = (
            answer_all(queries, counts),
            answer_all(queries, counts / 7),
            answer_all(queries, counts.ravel() / 7, prefix_sums=False),
        )
    for query, one, two, three in zip(queries, exact, about, without, strict=True):
        assert one.dtype == np.int64
        np.testing.assert_array_equal(one, query.answer(counts))
        np.testing.assert_allclose(two, query.answer(counts / 7), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(three, query.answer(counts / 7), rtol=1e-12, atol=1e-12)


def test_one_cell_with_signs() -> None:
    query = LinearQuery((Block(("a",), np.array([0, -1, 0], np.int32), 1, np.array([1, 1, -1], np.int8)),))
    assert [answer.tolist() for answer in answer_all([query, query], np.array([5.0, 7.0, 2.0]))] == [[3.0], [3.0]]


def test_how_many_rows() -> None:
    assert answer_all([LinearQuery(())], np.array(5.0))[0].tolist() == [5.0]


def test_a_count_of_nothing_is_not_below_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a difference of prefix sums it would be, by an error of rounding."""
    monkeypatch.setattr(boxes, "MANY_BOXES", 1)
    weights = np.random.default_rng(0).lognormal(0, 5, (50, 50))
    weights[20:40, 20:40] = 0.0

    def stretch(name: str, low: int, high: int) -> Block:
        return Block((name,), np.where((np.arange(50) >= low) & (np.arange(50) < high), 0, -1).astype(np.int32), 1)

    queries = [
        LinearQuery((stretch("a", 20, high), stretch("b", low, 40))) for high in range(21, 40) for low in range(20, 40)
    ]
    assert min(answer.min() for answer in boxes.Boxes(queries).answers(weights)) < 0
    assert min(answer.min() for answer in answer_all(queries, weights)) == 0


def test_many_answers_are_those_of_each() -> None:
    """Differences of one table of sums, and never below 0."""
    with mwem_sql.connect(":memory:") as con:
        con.execute(
            "CREATE TABLE t (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99), pay DOUBLE NOT NULL CHECK (pay >= 0 AND pay < 1e6))"
        )
        con.execute("INSERT INTO t SELECT i % 100, i * 400 FROM range(2000) AS r(i)")
        con.execute(
            "CREATE TABLE workload AS SELECT 'age >= ' || i % 90 || ' AND pay > ' || i * 5000 || '.5' AS predicate FROM range(200) AS r(i)"
        )
        con.sql("CALL mwem_release('t', workload, 1.0, seed := 1)").fetchall()
        found = con.sql("SELECT name, answer FROM mwem_answer('t_synthetic', workload) ORDER BY query").fetchall()
        few = [con.execute("SELECT mwem_count('t_synthetic', ?)", [name]).fetchall()[0][0] for name, _ in found[::20]]
    assert len(found) == 200
    assert min(answer for _, answer in found) >= 0
    np.testing.assert_allclose(few, [answer for _, answer in found[::20]], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("large", [2**52, 2**53, 2**53 + 1, 2**60])
def test_counts_that_float64_does_not_have_stay_exact(large: int) -> None:
    query = LinearQuery((Block(("a",), np.array([0, 0, -1], np.int32), 1),))
    assert answer_all([query], np.array([large, 1, 0]))[0].tolist() == [large + 1]
