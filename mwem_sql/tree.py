"""A connected part of the state: factors over overlapping cliques of attributes that agree on what they share.

Owns messages between neighbours and marginals across them. The distribution is the weights of one clique, the focus,
times the conditional weights of every other clique given what it shares with its neighbour on the way to the focus. An
update of the focus therefore leaves all other cliques as they are: they are brought up to date when someone looks at them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, KeysView, Sequence
from itertools import pairwise
from string import ascii_letters

import numpy as np

from mwem_sql.compiler.linear import Floats
from mwem_sql.factor import Factor
from mwem_sql.graph import Clique, Layout, lay_out

Names = tuple[str, ...]


class Tree:
    """Cliques over connected attributes. `sets` are those that a measurement needs side by side; they are in a clique each."""

    def __init__(self, factors: Iterable[Factor], sets: Iterable[Clique], total: float) -> None:
        """Factors that agree on what they share, each summing to the total; a ValueError if they form no tree."""
        own = {frozenset(factor.attributes): factor for factor in factors}
        self.layout: Layout = lay_out(list(own))
        self.cliques = [own[clique] for clique in self.layout.cliques]
        self.sets = tuple(sets)
        self.total = total
        self._focus = 0
        self._fresh = set(range(len(self.cliques)))
        # Goes up when the distribution changes; a new total is the same distribution.
        self.version = 0
        # What the last fit was to, and how well it went: the fit's own note, void once the cliques are others.
        self.fitted: object = None

    @property
    def attributes(self) -> KeysView[str]:
        return self.layout.tops.keys()

    @property
    def cells(self) -> int:
        return sum(clique.weights.size for clique in self.cliques)

    def copy(self) -> Tree:
        """Shares the weights with the original until one of the two changes them."""
        twin = object.__new__(Tree)
        twin.__dict__.update(self.__dict__)
        twin.cliques = [clique.share() for clique in self.cliques]
        twin._fresh = set(self._fresh)
        return twin

    def home(self, attributes: Collection[str]) -> int | None:
        """The smallest clique that holds all of these attributes."""
        found = self.layout.holding(attributes) if attributes else range(1)
        return min(found, key=lambda number: (self.cliques[number].weights.size, number), default=None)

    def need(self, attributes: Clique) -> None:
        """Note that a measurement needs these attributes, which are in a clique, side by side."""
        if not any(attributes <= own for own in self.sets):
            self.sets = (*(own for own in self.sets if not own <= attributes), attributes)

    def reach(self, number: int) -> Factor:
        """One clique, brought up to date."""
        if number not in self._fresh:
            path = self.layout.path(self._focus, number)
            for before, after in pairwise(path):
                self._pass(before, after)
        return self.cliques[number]

    def multiply(self, number: int, attributes: Sequence[str], by: Floats) -> None:
        """Multiply a clique that is up to date; `by` keeps its sum at the total. All others fall behind."""
        self.cliques[number].multiply(attributes, by)
        self.cliques[number].lift(self.total)
        self._focus = number
        self._fresh = {number}
        self.version += 1

    def replace(self, cliques: Sequence[Factor]) -> None:
        """Take other weights for all cliques, which agree on what they share."""
        self.cliques = list(cliques)
        self._fresh = set(range(len(self.cliques)))
        self.version += 1

    def rescale(self, total: float) -> None:
        growth = total / self.total
        for clique in self.cliques:
            clique.weights = clique.weights * growth
        self.total = total

    def calibrate(self) -> None:
        """Bring all cliques up to date: after it, neighbours agree on what they share."""
        if len(self._fresh) == len(self.cliques):
            return
        self.reach(0)
        for number in range(1, len(self.cliques)):
            self._pass(self.layout.parents[number], number)

    def walk(self, start: int) -> Iterator[tuple[Factor, Names]]:
        """All cliques from one on, each with what it shares with those before it."""
        links: list[list[int]] = [[] for _ in self.cliques]
        for number, parent in enumerate(self.layout.parents):
            if parent >= 0:
                links[number].append(parent)
                links[parent].append(number)
        waiting = [(start, start)]
        while waiting:
            number, before = waiting.pop()
            shared = self.layout.cliques[number] & self.layout.cliques[before] if number != start else frozenset()
            clique = self.cliques[number]
            yield clique, tuple(name for name in clique.attributes if name in shared)
            waiting += [(other, number) for other in links[number] if other != before]

    def marginals(self, wanted: Iterable[Names]) -> dict[Names, Floats]:
        """Axes in the order asked for; maybe views of the weights."""
        self.calibrate()
        inside: dict[int, list[Names]] = {}
        found: dict[Names, Floats] = {}
        for names in wanted:
            home = self.home(names)
            if home is None:
                found[names] = self._across(names)
            else:
                inside.setdefault(home, []).append(names)
        for home, sets in inside.items():
            found.update(self.cliques[home].marginals(sets))
        return found

    def _pass(self, before: int, after: int) -> None:
        """Bring one clique up to date with a neighbour that is."""
        if after in self._fresh:
            return
        shared = sorted(self.layout.cliques[before] & self.layout.cliques[after])
        clique = self.cliques[after]
        # Measured against its own weights, not against the last message: errors of rounding then never add up.
        clique.multiply(shared, self.cliques[before].marginal(shared) / clique.marginal(shared))
        clique.lift(self.total)
        self._fresh.add(after)

    def _across(self, names: Names) -> Floats:
        """A marginal over attributes of several cliques.

        One of them gets messages from all sides: the distribution of what is asked for behind a separator, given that.
        """
        nodes = self.layout.paths_up(self.layout.tops[name] for name in names)
        messages: dict[int, list[tuple[Names, Floats]]] = {number: [] for number in nodes}
        wanted = set(names)
        axes: Names = ()
        table = np.array(self.total)
        for number in nodes:
            shared = self.layout.separator(number) if number != nodes[-1] else frozenset()
            arrived = messages[number]
            asked = wanted.union(shared, *(own for own, _ in arrived))
            axes = tuple(name for name in self.cliques[number].attributes if name in asked)
            table = self.cliques[number].marginal(axes)
            if number != nodes[-1]:
                behind = tuple(place for place, name in enumerate(axes) if name not in shared)
                table = table / table.sum(axis=behind, keepdims=True)
            for place, (own, message) in enumerate(arrived):
                later = wanted.union(shared, *(own for own, _ in arrived[place + 1 :]))
                axes, table = _contract(axes, table, own, message, later)
            if number != nodes[-1]:
                messages[self.layout.parents[number]].append((axes, table))
        return table.transpose([axes.index(name) for name in names])


def _contract(left: Names, one: Floats, right: Names, other: Floats, kept: Collection[str]) -> tuple[Names, Floats]:
    """The product of two tables, summed over what need not be kept."""
    letters = dict(zip(dict.fromkeys(left + right), ascii_letters, strict=False))
    out = tuple(name for name in letters if name in kept)
    first, second, result = ("".join(letters[name] for name in names) for names in (left, right, out))
    return out, np.asarray(np.einsum(f"{first},{second}->{result}", one, other, optimize=True))
