"""A connected part of the state: factors over overlapping cliques of attributes that agree on what they share.

Owns messages between neighbours and marginals across them. The distribution is the weights of one clique, the focus,
times the conditional weights of every other clique given what it shares with its neighbour on the way to the focus. An
update of the focus therefore leaves all other cliques as they are: they are brought up to date when someone looks at them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping, Sequence
from itertools import chain, pairwise
from string import ascii_letters

import numpy as np

from mwem_sql.algebra.arrays import Floats, Places
from mwem_sql.algebra.factor import Factor
from mwem_sql.model.cliques import Clique
from mwem_sql.model.layout import Layout, lay_out
from mwem_sql.model.targets import Note, Target

Names = tuple[str, ...]

ROUNDING = 1e-14
"""The difference between two marginals, as a share of the total, up to which they are the same for those who look at them."""


class Tree:
    """Cliques over connected attributes. `sets` are those that a measurement needs side by side; they are in a clique each."""

    def __init__(
        self, factors: Iterable[Factor], sets: Iterable[Clique], total: float, layout: Layout | None = None
    ) -> None:
        """Factors that agree on what they share, each summing to the total; a ValueError if they form no tree."""
        own = {frozenset(factor.attributes): factor for factor in factors}
        self.layout = layout or lay_out(list(own))
        self.cliques = [own[clique] for clique in self.layout.cliques]
        self.place = {clique: number for number, clique in enumerate(self.layout.cliques)}
        self.cells = sum(clique.weights.size for clique in self.cliques)
        self.sets = tuple(sets)
        self.total = total
        # That of its clique which changed last.
        self.stamp = max(clique.stamp for clique in self.cliques)
        self._focus = 0
        self._fresh = set(range(len(self.cliques)))
        # Places at which weights changed since the others were last brought up to date: none, one or several.
        self._moves = 0
        # The most by which anybody who looks lets cliques differ from what their neighbours say.
        self.lag = 0.0
        # The fit's own notes: what each clique is fitted to, and its misfit after its last fit.
        self.targets: dict[Clique, tuple[Target, ...]] = {}
        self.fitted: dict[Clique, Note] = {}
        self.misfit = 0.0
        self.checked = total

    @classmethod
    def joined(
        cls, trees: Sequence[Tree], layout: Layout, new: Mapping[Clique, Factor], needed: Clique, total: float
    ) -> Tree:
        """Several trees, focused on the place, as one in which some cliques are new; the distribution must be the same."""
        held = {frozenset(factor.attributes): factor for tree in trees for factor in tree.cliques}
        whole = cls([*held.values(), *new.values()], chain.from_iterable(tree.sets for tree in trees), total, layout)
        whole.need(needed)
        whole._fresh = {whole.place[clique] for clique in new}
        for tree in trees:
            whole._fresh |= {whole.place[clique] for clique in tree.fresh if clique in whole.place}
            whole.lag = max(whole.lag, tree.lag)
            whole.targets.update((clique, targets) for clique, targets in tree.targets.items() if clique in whole.place)
            whole.fitted.update((clique, note) for clique, note in tree.fitted.items() if clique in whole.place)
        for tree in trees:
            for clique in tree.targets.keys() - whole.targets.keys():
                for target in tree.targets[clique]:
                    whole.take(target)
        whole._focus = min(whole._fresh)
        return whole

    def take(self, target: Target) -> None:
        """Note a target, whose clique has to be fitted again."""
        number = self.home([name for name in target.query.attributes if name in self.attributes])
        assert number is not None
        clique = self.layout.cliques[number]
        self.targets[clique] = (*self.targets.get(clique, ()), target)
        self.fitted.pop(clique, None)

    def drop(self, target: Target) -> None:
        """Forget a target."""
        for clique, targets in list(self.targets.items()):
            if any(own is target for own in targets):
                self.fitted.pop(clique, None)
                self.targets[clique] = tuple(own for own in targets if own is not target)
                if not self.targets[clique]:
                    del self.targets[clique]

    @property
    def attributes(self) -> KeysView[str]:
        return self.layout.tops.keys()

    @property
    def fresh(self) -> list[Clique]:
        """The cliques that are up to date with the focus."""
        return [self.layout.cliques[number] for number in self._fresh]

    def copy(self) -> Tree:
        """Shares the weights with the original until one of the two changes them."""
        twin = object.__new__(Tree)
        twin.__dict__.update(self.__dict__)
        twin.cliques = [clique.share() for clique in self.cliques]
        twin._fresh = set(self._fresh)
        twin.targets, twin.fitted = dict(self.targets), dict(self.fitted)
        return twin

    def home(self, attributes: Collection[str]) -> int | None:
        """The smallest clique that holds all of these attributes."""
        found = self.layout.holding(attributes) if attributes else range(1)
        return min(found, key=lambda number: (self.cliques[number].weights.size, number), default=None)

    def need(self, attributes: Clique) -> None:
        """Note that a measurement needs these attributes, which are in a clique, side by side."""
        if not any(attributes <= own for own in self.sets):
            self.sets = (*(own for own in self.sets if not own <= attributes), attributes)

    def split(self, attribute: str, parents: Places, shares: Floats) -> None:
        """Give an attribute more classes; the distribution stays as it is. Targets of the old ones must be dropped before a fit."""
        for number in self.layout.holders[attribute]:
            self.cliques[number] = self.cliques[number].split(attribute, parents, shares, self.total)
            self.stamp = max(self.stamp, self.cliques[number].stamp)
        self.cells = sum(clique.weights.size for clique in self.cliques)

    def reach(self, number: int) -> Factor:
        """One clique, brought up to date."""
        if number not in self._fresh:
            path = self.layout.path(self._focus, number)
            for before, after in pairwise(path):
                self._pass(before, after)
        return self.cliques[number]

    def refocus(self, numbers: Sequence[int]) -> list[Factor]:
        """Some cliques side by side, each after its parent, made to agree on what they share.

        What they lag behind others, by no more than the last `settle` allowed, is forgotten; after changes since then, nothing.
        """
        if self._moves:
            self.calibrate()
        self._focus, self._fresh = numbers[0], {numbers[0]}
        for number in numbers[1:]:
            self._pass(self.layout.parents[number], number)
        return [self.cliques[number] for number in numbers]

    def multiply(self, number: int, attributes: Sequence[str], by: Floats) -> None:
        """Multiply a clique that is up to date; `by` keeps its sum at the total. All others fall behind."""
        self.cliques[number].multiply(attributes, by)
        self.cliques[number].lift(self.total)
        self.stamp = self.cliques[number].stamp
        self._move(number)
        self._fresh = {number}

    def replace(self, cliques: Mapping[int, Factor]) -> None:
        """Take other weights for some cliques, side by side, which agree on what they share. All others fall behind."""
        for number, clique in cliques.items():
            self.cliques[number] = clique
            self.stamp = max(self.stamp, clique.stamp)
        self._move(next(iter(cliques)))
        self._fresh = set(cliques)

    def rescale(self, total: float) -> None:
        if total == self.total:
            return
        growth = total / self.total
        for clique in self.cliques:
            clique.weights = clique.weights * growth
        self.total = total

    def calibrate(self) -> None:
        """Bring all cliques up to date: after it, neighbours agree on what they share."""
        self.settle(-1.0)

    def settle(self, lag: float) -> list[int]:
        """Bring up to date all cliques whose neighbours say otherwise by more than `lag`, as a share of the total; which."""
        done: list[int] = []
        self.lag = max(lag, self.lag)
        if lag >= 0 and not self._moves:
            return done
        if self._moves > 1:
            lag = -1.0  # what lags behind need not be next to what has changed last
        waiting = list(self._fresh) if len(self._fresh) < len(self.cliques) else []
        while waiting:
            number = waiting.pop()
            reached = [other for other in self.layout.neighbours[number] if self._pass(number, other, lag)]
            waiting += reached
            done += reached
        self._moves = 0
        return done

    def walk(self, start: int) -> Iterator[tuple[Factor, Names]]:
        """All cliques from one on, each with what it shares with those before it."""
        waiting = [(start, start)]
        while waiting:
            number, before = waiting.pop()
            shared = self.layout.cliques[number] & self.layout.cliques[before] if number != start else frozenset()
            clique = self.cliques[number]
            yield clique, tuple(name for name in clique.attributes if name in shared)
            waiting += [(other, number) for other in self.layout.neighbours[number] if other != before]

    def marginals(self, wanted: Iterable[Names]) -> dict[Names, Floats]:
        """Axes in the order asked for; maybe views of the weights. Brings up to date what it needs."""
        inside: dict[int, list[Names]] = {}
        found: dict[Names, Floats] = {}
        for names in wanted:
            home = self.home(names)
            if home is None:
                found[names] = self._across(names)
            else:
                inside.setdefault(home, []).append(names)
        for home, sets in inside.items():
            found.update(self.reach(home).marginals(sets))
        return found

    def _move(self, number: int) -> None:
        self._moves = 2 if self._moves and number != self._focus else max(self._moves, 1)
        self._focus = number

    def _pass(self, before: int, after: int, lag: float = -1.0) -> bool:
        """Bring one clique up to date with a neighbour that is, if they differ by more than `lag`; whether it was done."""
        if after in self._fresh:
            return False
        shared = sorted(self.layout.cliques[before] & self.layout.cliques[after])
        clique = self.cliques[after]
        # Measured against its own weights, not against the last message: errors of rounding then never add up.
        new, own = self.cliques[before].marginal(shared), clique.marginal(shared)
        difference = float(np.abs(new - own).sum()) / self.total
        if difference <= lag:
            return False
        stamp, hidden = clique.stamp, clique.hidden + difference
        clique.multiply(shared, new / own)
        clique.lift(self.total)
        # A change this small keeps its old stamp, so that nobody works anything out again; `hidden` adds such changes up.
        if hidden <= max(self.lag, ROUNDING):
            clique.stamp, clique.hidden = stamp, hidden
        self.stamp = max(self.stamp, clique.stamp)
        self._fresh.add(after)
        return True

    def _across(self, names: Names) -> Floats:
        """A marginal over attributes of several cliques.

        One of them gets messages from all sides: the distribution of what is asked for behind a separator, given that.
        """
        nodes = self.layout.between(names)[::-1]
        messages: dict[int, list[tuple[Names, Floats]]] = {number: [] for number in nodes}
        wanted = set(names)
        axes: Names = ()
        table = np.array(self.total)
        for number in nodes:
            shared = self.layout.separator(number) if number != nodes[-1] else frozenset()
            arrived = messages[number]
            asked = wanted.union(shared, *(own for own, _ in arrived))
            clique = self.reach(number)
            axes = tuple(name for name in clique.attributes if name in asked)
            table = clique.marginal(axes)
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
