"""Cliques of a triangulated graph, and the tree that joins them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.model.cliques import cells, connected, total_cells, triangulate
from mwem_sql.model.layout import lay_out

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
