"""Cliques of a triangulated graph and the junction tree that joins them; and how the tree makes room for new cliques.

Attributes are vertices, and those that share a measured query are neighbours. Pure combinatorics on names and numbers
of groups: sees no weights.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import chain, combinations
from math import prod

from mwem_sql.algebra.table import Names

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
    for name, others in neighbours.items():
        others.discard(name)
    choices = [maximal(_eliminate(neighbours, sizes, least_fill=rule)) for rule in (True, False)]
    return min(choices, key=lambda cliques: total_cells(cliques, sizes))


def _eliminate(neighbours: Mapping[str, set[str]], sizes: Sizes, *, least_fill: bool) -> list[Clique]:
    graph = {name: set(beside) for name, beside in neighbours.items()}

    def cost(name: str) -> tuple[int, int, str]:
        beside = graph[name]
        clique = cells(beside, sizes) * sizes[name]
        fill = sum(sizes[a] * sizes[b] for a, b in combinations(beside, 2) if b not in graph[a]) if least_fill else 0
        # The name last: the order in which attributes were declared must not matter.
        return fill, clique, name

    costs = {name: cost(name) for name in graph}
    cliques = []
    while graph:
        name = min(costs.values())[2]
        beside = graph.pop(name)
        del costs[name]
        cliques.append(frozenset(beside | {name}))
        stale = set(beside)
        for a in beside:
            graph[a].discard(name)
            added = beside - graph[a] - {a}
            if added:
                graph[a] |= added
                stale |= graph[a]
        for a in stale:
            costs[a] = cost(a)
    return cliques


def maximal(cliques: Iterable[Clique]) -> list[Clique]:
    """Those that are not inside another one, in the order of their names; of equal ones, one."""
    kept: list[Clique] = []
    holders: dict[str, list[int]] = {}
    for clique in sorted(set(cliques), key=lambda clique: (-len(clique), sorted(clique))):
        rarest = min((holders.get(name, []) for name in clique), key=len, default=[])
        if not any(clique <= kept[number] for number in rarest):
            for name in clique:
                holders.setdefault(name, []).append(len(kept))
            kept.append(clique)
    return sorted(kept, key=sorted)


@dataclass(frozen=True, eq=False)
class Layout:
    """Cliques, each after its parent; the root has -1."""

    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]

    @cached_property
    def depths(self) -> list[int]:
        depths: list[int] = []
        for parent in self.parents:
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
        return depths

    @cached_property
    def holders(self) -> dict[str, set[int]]:
        """The cliques that hold an attribute."""
        holders: dict[str, set[int]] = {}
        for number, clique in enumerate(self.cliques):
            for name in clique:
                holders.setdefault(name, set()).add(number)
        return holders

    @cached_property
    def tops(self) -> dict[str, int]:
        """The first clique of an attribute."""
        return {name: min(numbers) for name, numbers in self.holders.items()}

    @cached_property
    def neighbours(self) -> list[list[int]]:
        links: list[list[int]] = [[] for _ in self.cliques]
        for number, parent in enumerate(self.parents):
            if parent >= 0:
                links[number].append(parent)
                links[parent].append(number)
        return links

    @cached_property
    def separators(self) -> list[Names]:
        """What each clique shares with its parent."""
        return [
            tuple(sorted(clique & self.cliques[parent])) if parent >= 0 else ()
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        ]

    def separator(self, one: int, other: int) -> Names:
        """What two neighbours share. The one with the higher number is the child."""
        return self.separators[max(one, other)]

    def holding(self, attributes: Iterable[str]) -> set[int]:
        """The cliques that hold all of these attributes, of which there is at least one."""
        return set.intersection(*(self.holders[name] for name in attributes))

    def path(self, start: int, end: int) -> list[int]:
        """The cliques from one to another, both included."""
        left, right = [start], [end]
        while left[-1] != right[-1]:
            if self.depths[left[-1]] >= self.depths[right[-1]]:
                left.append(self.parents[left[-1]])
            else:
                right.append(self.parents[right[-1]])
        return left + right[-2::-1]

    def spanning(self, numbers: Iterable[int]) -> list[int]:
        """The smallest subtree that has these cliques, every clique after its parent; the first one is its root."""
        seen = set(numbers)
        ends = [-number for number in seen]
        heapify(ends)
        order = []
        while len(ends) > 1:
            # Parents have lower numbers: no clique of the subtree that is still to come lies behind the highest.
            order.append(-heappop(ends))
            parent = self.parents[order[-1]]
            if parent not in seen:
                seen.add(parent)
                heappush(ends, -parent)
        return [*(-end for end in ends), *reversed(order)]

    def connected(self, numbers: Collection[int]) -> list[list[int]]:
        """These cliques in groups of neighbours, every clique after its parent."""
        groups: list[list[int]] = []
        group_of: dict[int, list[int]] = {}
        for number in sorted(numbers):
            if self.parents[number] not in group_of:
                groups.append([])
            group_of[number] = group_of.get(self.parents[number], groups[-1])
            group_of[number].append(number)
        return groups

    def between(self, attributes: Iterable[str]) -> list[int]:
        """The smallest subtree that has all of these attributes, every clique after its parent."""
        wanted = frozenset(attributes)
        subtree = self.spanning(self.tops[name] for name in wanted)
        # An attribute's first clique may be far from where the others are.
        while len(subtree) > 1 and (len(subtree) == 2 or self.parents[subtree[2]] != subtree[0]):
            if not wanted & self.cliques[subtree[0]] <= self.cliques[subtree[1]]:
                break
            del subtree[0]
        return subtree


@dataclass(frozen=True, eq=False)
class Room:
    """How a tree makes room for attributes: some cliques, side by side, and those that replace them; or None."""

    old: Sequence[int]
    new: Sequence[Clique] | None


def lay_out(cliques: Sequence[Clique]) -> Layout:
    """The tree in which neighbours have most in common; the cliques may come out in another order.

    A ValueError if there is none with all cliques of an attribute side by side, or if the cliques are not connected.
    """
    links: dict[Clique, list[Clique]] = {clique: [] for clique in cliques}
    _link_closest(cliques, links)
    return _rooted(links, cliques[0])


def make_room(layout: Layout, needed: Clique, sets: Iterable[Clique], sizes: Sizes) -> Room:
    """Where some attributes of a tree must be in one clique: only the cliques that lie between theirs are cut anew.

    `sets` are those that a measurement needs side by side.
    """
    between = layout.between(needed)
    inside = [layout.cliques[number] for number in between]
    if len(between) == 1:
        return Room(between, [] if inside[0] <= needed else None)
    span = frozenset[str]().union(*inside)
    kept = [one for one in sets if one <= span and any(one <= clique for clique in inside)]
    # What they share with cliques outside must stay in one clique.
    for number in between:
        kept += [
            layout.cliques[number] & layout.cliques[other]
            for other in layout.neighbours[number]
            if other not in between
        ]
    choices = [
        triangulate([needed, *kept], sizes),
        *(_stretched(layout, between, needed, name) for name in sorted(needed)),
    ]
    return Room(between, min(choices, key=lambda cliques: total_cells(cliques, sizes)))


def _stretched(layout: Layout, between: Sequence[int], needed: Clique, host: str) -> list[Clique]:
    """Cliques that lie between some attributes, each of which is added to all on its way to one of them."""
    grown = {number: set(layout.cliques[number]) for number in between}
    holders = {name: [number for number in between if name in layout.cliques[number]] for name in needed}
    for name in needed:
        for number in min((layout.path(holders[host][0], holder) for holder in holders[name]), key=len):
            grown[number].add(name)
    return maximal(map(frozenset, grown.values()))


def added_cells(layouts: Sequence[Layout], rooms: Sequence[Room], needed: Clique, sizes: Sizes) -> int:
    """By how many cells `rearrange` lets the trees grow."""
    added = 0
    beside: set[Clique] = set()
    for layout, room in zip(layouts, rooms, strict=True):
        if room.new is not None:
            added -= total_cells((layout.cliques[number] for number in room.old), sizes)
            beside.update(
                layout.cliques[other]
                for number in room.old
                for other in layout.neighbours[number]
                if other not in room.old
            )
    news = maximal([needed, *chain.from_iterable(room.new or () for room in rooms)])
    return added + total_cells((new for new in news if not any(new <= other for other in beside)), sizes)


def rearrange(layouts: Sequence[Layout], rooms: Sequence[Room], needed: Clique) -> Layout:
    """One tree of several, each with room for its part of `needed`, which is in one clique then."""
    news = maximal([needed, *chain.from_iterable(room.new or () for room in rooms)])
    links: dict[Clique, list[Clique]] = {clique: [] for clique in news}
    core = list(news)
    loose: list[tuple[Clique, Clique]] = []
    for layout, room in zip(layouts, rooms, strict=True):
        gone = frozenset(room.old if room.new is not None else ())
        if room.new is None:
            core.append(layout.cliques[room.old[0]])
        for number, (clique, parent) in enumerate(zip(layout.cliques, layout.parents, strict=True)):
            if number not in gone:
                links.setdefault(clique, [])
            if parent < 0 or (number in gone and parent in gone):
                continue
            above = layout.cliques[parent]
            if number in gone or parent in gone:
                loose.append((above if number in gone else clique, clique & above))
            else:
                links.setdefault(above, []).append(clique)
                links[clique].append(above)
    _link_closest(core, links)
    for clique, shared in loose:
        host = next(new for new in news if shared <= new)
        links[host].append(clique)
        links[clique].append(host)
    start = news[0]
    for new in news:
        # Once cut, a clique may be no more than what it shares with a neighbour.
        host = next((other for other in links[new] if new <= other), new)
        if host is not new:
            others = [other for other in links.pop(new) if other != host]
            links[host] = [other for other in links[host] if other != new] + others
            for other in others:
                links[other][links[other].index(new)] = host
            start = host if start == new else start
    return _rooted(links, start)


def _link_closest(cliques: Sequence[Clique], links: Mapping[Clique, list[Clique]]) -> None:
    """Join cliques to a tree in which neighbours have most in common."""
    holders: dict[str, list[int]] = {}
    for number, clique in enumerate(cliques):
        for name in clique:
            holders.setdefault(name, []).append(number)
    common: list[dict[int, int]] = [{} for _ in cliques]
    for members in holders.values():
        for a in members:
            for b in members:
                common[a][b] = common[a].get(b, 0) + 1
    for number, parent in _grow(common):
        if parent >= 0:
            links[cliques[number]].append(cliques[parent])
            links[cliques[parent]].append(cliques[number])


def _rooted(links: Mapping[Clique, Sequence[Clique]], start: Clique) -> Layout:
    order, parents = [start], [-1]
    for number, clique in enumerate(order):
        above = order[parents[number]] if number else None
        children = [other for other in links[clique] if other != above]
        order += children
        parents += [number] * len(children)
    layout = Layout(tuple(order), tuple(parents))
    shared = sum(map(len, layout.separators))
    if len(order) < len(links) or shared != sum(map(len, order)) - len(layout.holders):
        raise ValueError("cliques form a tree in which those of an attribute are side by side")
    return layout


def _grow(common: Sequence[Mapping[int, int]]) -> Iterator[tuple[int, int]]:
    """Prim's algorithm for the tree of largest weight: its vertices and their parents."""
    seen: set[int] = set()
    waiting = [(0, 0, -1)]
    while waiting:
        _, number, parent = heappop(waiting)
        if number in seen:
            continue
        seen.add(number)
        yield number, parent
        for other, count in common[number].items():
            if other not in seen:
                heappush(waiting, (-count, other, number))
