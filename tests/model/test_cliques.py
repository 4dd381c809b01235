"""Cliques of a triangulated graph, the tree that joins them, and room in it for new ones."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.algebra.sets import connected
from mwem_sql.model.cliques import (
    added_cells,
    cells,
    lay_out,
    make_room,
    maximal,
    rearrange,
    total_cells,
    triangulate,
)  # fmt: skip

Sets = list[tuple[str, ...]]


NAMES = "abcdefg"


quick = settings(deadline=None, max_examples=60)


@st.composite
def set_systems(draw: st.DrawFn) -> tuple[dict[str, int], Sets]:
    """Class counts, and sets of up to three attributes: chains, stars, cycles, several parts."""
    sizes = {name: draw(st.integers(2, 3)) for name in NAMES[: draw(st.integers(1, 7))]}
    one = st.lists(st.sampled_from(list(sizes)), min_size=1, max_size=3, unique=True)
    return sizes, [tuple(names) for names in draw(st.lists(one, max_size=9))]


@quick
@given(set_systems())
def test_triangulation(case: tuple[dict[str, int], Sets]) -> None:
    sizes, sets = case
    cliques = triangulate(sets, sizes)
    assert all(any(set(names) <= clique for clique in cliques) for names in sets)
    assert not any(one < other for one in cliques for other in cliques)
    for group in connected(cliques):
        layout = lay_out([cliques[number] for number in group])
        for number, parent in enumerate(layout.parents):
            assert parent < number
        for name, holders in layout.holders.items():
            # Side by side: all but the first have a parent that holds the attribute, too.
            assert layout.tops[name] == min(holders)
            assert all(layout.parents[number] in holders for number in holders - {min(holders)})
    back = triangulate([names[::-1] for names in reversed(sets)], sizes)
    assert sorted(map(sorted, back)) == sorted(map(sorted, cliques))


@quick
@given(set_systems())
def test_chordal_graphs_gain_no_edge(case: tuple[dict[str, int], Sets]) -> None:
    sizes, sets = case
    cliques = triangulate(sets, sizes)
    again = triangulate(cliques, sizes)
    assert set(again) == set(cliques)


def test_a_cycle_is_cut_where_classes_are_few() -> None:
    sizes = {"a": 2, "b": 50, "c": 2, "d": 50}
    cliques = triangulate(["ab", "bc", "cd", "da"], sizes)
    assert set(cliques) == {frozenset("abc"), frozenset("acd")}
    assert total_cells(cliques, sizes) == 400
    assert cells("abcd", sizes) == 10_000


def test_no_tree() -> None:
    cycle = [frozenset("ab"), frozenset("bc"), frozenset("ca")]
    with pytest.raises(ValueError, match="side by side"):
        lay_out(cycle)
    with pytest.raises(ValueError, match="side by side"):
        lay_out([frozenset("a"), frozenset("b")])
    assert maximal([*cycle, frozenset("a"), frozenset("ab")]) == sorted(cycle, key=sorted)


CHAIN = [frozenset(pair) for pair in ("ab", "bc", "cd", "de")]


def test_ways_through_a_tree() -> None:
    chain = lay_out(CHAIN)
    number = {clique: place for place, clique in enumerate(chain.cliques)}
    ends = [number[frozenset("ab")], number[frozenset("de")]]
    for order in (ends, ends[::-1]):
        path = chain.path(*order)
        assert sorted(path) == [0, 1, 2, 3]
        assert [path[0], path[-1]] == order
    assert {chain.cliques[place] for place in chain.between("bd")} == {frozenset("bc"), frozenset("cd")}
    assert chain.holding("cd") == {number[frozenset("cd")]}
    assert [len(group) for group in chain.connected({number[frozenset("ab")], number[frozenset("de")]})] == [1, 1]


@pytest.mark.parametrize("names", ["".join(some) for size in (2, 3) for some in combinations("abcde", size)])
def test_room_for_a_clique_costs_what_was_predicted(names: str) -> None:
    """Every set of two or three of five attributes, on a chain: it is in a clique, and cells grow as predicted."""
    sizes = {"a": 2, "b": 3, "c": 5, "d": 7, "e": 11}
    before, needed = lay_out(CHAIN), frozenset(names)
    room = make_room(before, needed, CHAIN, sizes)
    added = added_cells([before], [room], needed, sizes)
    after = rearrange([before], [room], needed)
    assert any(needed <= clique for clique in after.cliques)
    assert all(any(old <= clique for clique in after.cliques) for old in CHAIN)
    assert total_cells(after.cliques, sizes) - total_cells(before.cliques, sizes) == added
    lay_out(after.cliques)  # a tree still
