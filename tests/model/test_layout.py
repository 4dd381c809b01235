"""Trees of cliques: attributes side by side, and room for new cliques."""

from __future__ import annotations

from itertools import combinations

import pytest

from mwem_sql.model.cliques import maximal, total_cells
from mwem_sql.model.layout import added_cells, lay_out, make_room, rearrange


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
    """Every set of two or three of five attributes, on a chain: it is there afterwards, and cells grow by as many as was said."""
    sizes = {"a": 2, "b": 3, "c": 5, "d": 7, "e": 11}
    before, needed = lay_out(CHAIN), frozenset(names)
    room = make_room(before, needed, CHAIN, sizes)
    added = added_cells([before], [room], needed, sizes)
    after = rearrange([before], [room], needed)
    assert any(needed <= clique for clique in after.cliques)
    assert all(any(old <= clique for clique in after.cliques) for old in CHAIN)
    assert total_cells(after.cliques, sizes) - total_cells(before.cliques, sizes) == added
    lay_out(after.cliques)  # a tree still
