"""Distinct values of arrays, and connected components of sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mwem_sql.algebra.sets import connected, distinct


@given(st.lists(st.sets(st.integers(0, 9), max_size=3), max_size=8))
def test_components_share_no_member_and_cannot_be_split(sets: list[set[int]]) -> None:
    components = connected(sets)
    assert sorted(number for numbers in components for number in numbers) == list(range(len(sets)))
    assert [numbers[0] for numbers in components] == sorted(numbers[0] for numbers in components)
    unions = [set().union(*(sets[number] for number in numbers)) for numbers in components]
    assert sum(map(len, unions)) == len(set().union(*unions))
    for numbers in components:
        reached, rest = set(sets[numbers[0]]), list(numbers[1:])
        while rest:
            neighbour = next(number for number in rest if sets[number] & reached)
            reached |= sets[neighbour]
            rest.remove(neighbour)


def test_distinct_values_of_arrays_together() -> None:
    assert distinct(np.array([3, 1, 3]), np.array([2, 1])).tolist() == [1, 2, 3]
    assert distinct(np.array([[2, 1], [1, 0]])).tolist() == [0, 1, 2]
    assert distinct(np.array([], dtype=np.int64)).tolist() == []
    assert distinct(np.array([0.5, -1, 0.5])).tolist() == [-1, 0.5]
    assert distinct(np.array([7], dtype=np.int64)).dtype == np.int64
