"""Which sets of attributes the state keeps weights for: the cliques of a triangulated graph, and the tree that joins them.

Attributes are vertices, and those that share a measured query are neighbours. Pure combinatorics on names and class counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations
from math import prod

Clique = frozenset[str]
Sizes = Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Layout:
    """Cliques in an order in which each comes after its parent; -1 has none. `tops` gives the first clique of an attribute."""

    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]
    depths: tuple[int, ...]
    tops: Mapping[str, int]
    holders: Mapping[str, frozenset[int]]

    def separator(self, number: int) -> Clique:
        return self.cliques[number] & self.cliques[self.parents[number]]

    def holding(self, attributes: Iterable[str]) -> frozenset[int]:
        """The cliques that hold all of these attributes, of which there is at least one."""
        found = [self.holders[name] for name in attributes]
        return found[0].intersection(*found[1:])

    def path(self, start: int, end: int) -> list[int]:
        """The cliques from one to another, both included."""
        left, right = [start], [end]
        while left[-1] != right[-1]:
            if self.depths[left[-1]] >= self.depths[right[-1]]:
                left.append(self.parents[left[-1]])
            else:
                right.append(self.parents[right[-1]])
        return left + right[-2::-1]

    def paths_up(self, starts: Iterable[int]) -> list[int]:
        """The smallest subtree that has these cliques, every clique before its parent; the last one is its root."""
        ends = set(starts)
        found: set[int] = set(ends)
        while len(ends) > 1:
            deepest = max(ends, key=self.depths.__getitem__)
            ends.discard(deepest)
            ends.add(self.parents[deepest])
            found.add(self.parents[deepest])
        # The root comes out last: no other clique of the subtree is as shallow.
        return sorted(found, key=lambda number: -self.depths[number])


    def stretched(self, attributes: Clique) -> list[Clique]:
        """The cliques if these attributes were added to all that lie between theirs: quick, and rarely the fewest cells."""
        between = set(self.paths_up(self.tops[name] for name in attributes))
        return maximal(own | attributes if number in between else own for number, own in enumerate(self.cliques))


def cells(attributes: Iterable[str], sizes: Sizes) -> int:
    return prod(sizes[name] for name in attributes)


def total_cells(cliques: Iterable[Clique], sizes: Sizes) -> int:
    return sum(cells(clique, sizes) for clique in cliques)


def triangulate(sets: Iterable[Collection[str]], sizes: Sizes) -> list[Clique]:
    """Maximal cliques of a chordal graph in which each set is a clique.

    Greedy elimination under two rules, and of the two results the one with fewer cells: least weight of the edges that
    an elimination adds (class counts multiplied), or fewest cells of the clique that it makes.
    """
    neighbours: dict[str, set[str]] = {}
    for one in sets:
        for name in one:
            neighbours.setdefault(name, set()).update(one)
    for name, own in neighbours.items():
        own.discard(name)
    found = [maximal(_eliminate(neighbours, sizes, least_fill=rule)) for rule in (True, False)]
    return min(found, key=lambda cliques: total_cells(cliques, sizes))


def _eliminate(neighbours: Mapping[str, set[str]], sizes: Sizes, *, least_fill: bool) -> list[Clique]:
    graph = {name: set(own) for name, own in neighbours.items()}

    def cost(name: str) -> tuple[int, int, str]:
        own = graph[name]
        clique = cells(own, sizes) * sizes[name]
        fill = sum(sizes[a] * sizes[b] for a, b in combinations(own, 2) if b not in graph[a]) if least_fill else 0
        # The name last: the order in which attributes were declared must not matter.
        return fill, clique, name

    costs = {name: cost(name) for name in graph}
    found = []
    while graph:
        name = min(costs.values())[2]
        own = graph.pop(name)
        del costs[name]
        found.append(frozenset(own | {name}))
        stale = set(own)
        for a in own:
            graph[a].discard(name)
            added = own - graph[a] - {a}
            if added:
                graph[a] |= added
                stale |= graph[a]
        for a in stale:
            costs[a] = cost(a)
    return found


def maximal(cliques: Iterable[Clique]) -> list[Clique]:
    """Those that are not inside another one, in the order of their names; of equal ones, one."""
    found: list[Clique] = []
    holders: dict[str, list[int]] = {}
    for clique in sorted(set(cliques), key=lambda clique: (-len(clique), sorted(clique))):
        rarest = min((holders.get(name, []) for name in clique), key=len, default=[])
        if not any(clique <= found[number] for number in rarest):
            for name in clique:
                holders.setdefault(name, []).append(len(found))
            found.append(clique)
    return sorted(found, key=sorted)


def connected(sets: Sequence[Collection[str]]) -> list[list[int]]:
    """Numbers of the sets, grouped so that no attribute is in two groups; groups in the order of their first sets."""
    group: dict[str, list[int]] = {}
    groups: list[list[int]] = []
    for number, one in enumerate(sets):
        met = {id(group[name]): group[name] for name in one if name in group}
        joined = sorted([number, *(old for own in met.values() for old in own)])
        groups = [own for own in groups if id(own) not in met] + [joined]
        for old in joined:
            group.update(dict.fromkeys(sets[old], joined))
    return sorted(groups)


def lay_out(cliques: Sequence[Clique]) -> Layout:
    """The tree in which neighbours have most in common; the cliques may come out in another order.

    A ValueError if there is none with all cliques of an attribute side by side, or if the cliques are not connected.
    """
    holders: dict[str, list[int]] = {}
    for number, clique in enumerate(cliques):
        for name in clique:
            holders.setdefault(name, []).append(number)
    common: list[dict[int, int]] = [{} for _ in cliques]
    for own in holders.values():
        for a in own:
            for b in own:
                common[a][b] = common[a].get(b, 0) + 1
    order, parents, shared = _grow(common)
    if len(order) < len(cliques) or shared != sum(map(len, cliques)) - len(holders):
        raise ValueError("cliques form a tree in which those of an attribute are side by side")
    place = {number: position for position, number in enumerate(order)}
    up = [place[parent] if parent >= 0 else -1 for parent in parents]
    depths: list[int] = []
    for parent in up:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    return Layout(
        tuple(cliques[number] for number in order), tuple(up), tuple(depths),
        {name: min(place[number] for number in own) for name, own in holders.items()},
        {name: frozenset(place[number] for number in own) for name, own in holders.items()},
    )  # fmt: skip


def _grow(common: Sequence[Mapping[int, int]]) -> tuple[list[int], list[int], int]:
    """Prim's algorithm for the tree of largest weight: the order of its vertices, their parents, and the weight."""
    order, parents, weight = [], [], 0
    seen: set[int] = set()
    waiting = [(0, 0, -1)]
    while waiting:
        shared, number, parent = heappop(waiting)
        if number in seen:
            continue
        seen.add(number)
        order.append(number)
        parents.append(parent)
        weight -= shared
        for other, count in common[number].items():
            if other not in seen:
                heappush(waiting, (-count, other, number))
    return order, parents, weight
