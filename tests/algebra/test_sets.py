"""Connected components of sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mwem_sql.algebra.sets import connected


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
