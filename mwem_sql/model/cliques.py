"""Which sets of attributes the state keeps weights for: the cliques of a triangulated graph.

Attributes are vertices, and those that share a measured query are neighbours. Pure combinatorics on names and class counts; how
cliques are joined to a tree is the layout's business.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from math import prod

Clique = frozenset[str]
Sizes = Mapping[str, int]


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
