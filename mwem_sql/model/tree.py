"""A junction tree: the weights of overlapping cliques of attributes, which agree on their separators.

Owns the messages between neighbours that change weights. The distribution is the weights of one clique, the focus,
times the conditional weights of every other clique given its separator on the way to the focus. An update of the
focus therefore leaves all other cliques as they are: they are brought up to date when someone reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain, count, pairwise
from math import log

import numpy as np

from mwem_sql.algebra.arrays import Floats, Places
from mwem_sql.algebra.table import Names, Table
from mwem_sql.model.cliques import Clique, Layout, lay_out

LOWEST_LOG = log(1e-300)
SMALLEST_FLOAT = float(np.finfo(np.float64).tiny)
WEIGHT_FLOOR = 1e-260
"""A weight that falls below exp(LOWEST_LOG), as a share of the total, comes back to WEIGHT_FLOOR: from 0 it could
never rise again. The gap between the two keeps the check for it rare."""
IMPOSSIBLE_DRIFT = 30.0
"""The logarithm of what impossible weights may be multiplied by, up or down, before they come back to WEIGHT_FLOOR:
it leaves them far below what counts as a weight (support.IMPOSSIBLE), and above 0."""
ROUNDING = 1e-14
"""The difference between two marginals, as a share of the total, up to which they are the same for their readers."""
_CLOCK = count(1)


@dataclass(slots=True, eq=False)
class Potential:
    """The positive weights of a clique; their sum is the tree's total.

    A read-only array is shared with another tree or an Arrow table: it is replaced, never written to.
    `lowest` is the logarithm of a lower bound on the weights as shares of the total. `stamp` goes up, over all
    potentials, with every change of the distribution; a new total is the same distribution. `hidden` is what changed
    without that. The weights of `impossible` cells stay near the floor, whatever they are multiplied by: `drift` is
    how far they may be off, as a logarithm.
    """

    table: Table
    lowest: float
    _: KW_ONLY
    stamp: int = field(default_factory=_CLOCK.__next__)
    hidden: float = 0.0
    impossible: Places | None = None
    drift: float = np.inf

    @classmethod
    def of(cls, table: Table, total: float) -> Potential:
        """Weights without a lower bound; next to 0 they come to the floor."""
        potential = cls(table, -np.inf)
        potential.lift(total)
        return potential

    @property
    def cells(self) -> int:
        return self.table.cells.size

    def multiply(self, by: Table, total: float) -> None:
        """Multiply each weight by the positive entry for its cell."""
        self.stamp, self.hidden = next(_CLOCK), 0.0
        least = log(max(by.cells.min(), SMALLEST_FLOAT))
        self.lowest += least
        cells = self.table.cells
        self.table = self.table.multiply(by, out=cells if cells.flags.writeable else None)
        if self.lowest < LOWEST_LOG:
            self.lift(total)
        elif self.impossible is not None:
            self.drift += max(-least, log(max(by.cells.max(), SMALLEST_FLOAT)))
            if self.drift > IMPOSSIBLE_DRIFT:
                np.put(self.table.cells, self.impossible, WEIGHT_FLOOR * total)
                self.drift = 0.0

    def forbid(self, impossible: Places | None) -> None:
        """Keep these cells at the floor, and no others, from the next change on."""
        self.impossible, self.drift = impossible, np.inf

    def absorb(self, message: Table, before: Table, total: float) -> None:
        """Follow a neighbour: `message` is its marginal of their separator, `before` the one of this clique."""
        self.multiply(Table(message.names, message.cells / before.cells), total)

    def split(self, attribute: str, parents: Places, shares: Floats, total: float) -> Potential:
        """The same distribution on more values: new value i has its share of what value `parents[i]` had."""
        lowest = self.lowest + log(max(shares.min(), SMALLEST_FLOAT))
        potential = Potential(self.table.split(attribute, parents, shares), lowest)
        potential.lift(total)
        return potential

    def lift(self, total: float) -> None:
        """Keep the weights away from 0, once the bound says that one may have come near it."""
        if self.lowest < LOWEST_LOG:
            cells = np.maximum(self.table.cells, WEIGHT_FLOOR * total, order="C")
            if self.impossible is not None:
                np.put(cells, self.impossible, total)  # the bound is of all others
            self.lowest = log(cells.min() / total)
            if self.impossible is not None:
                np.put(cells, self.impossible, WEIGHT_FLOOR * total)
                self.drift = 0.0
            self.table = Table(self.table.names, cells)

    def share(self) -> Potential:
        """Another one on the same memory; neither writes to it from now on."""
        self.table.cells.flags.writeable = False
        return replace(self)


def propagate(
    potentials: Sequence[Potential], parents: Sequence[int], separators: Sequence[Table], total: float
) -> list[Table]:
    """Make cliques agree after all of them were multiplied at will: messages run up to the first one, then down again.

    `separators` are the marginals that each clique and its parent agreed on before; the new ones are returned.
    """
    sums = list(separators)
    for number in range(len(potentials) - 1, 0, -1):
        sums[number] = potentials[number].table.project(separators[number].names)
        growth = sums[number].cells / separators[number].cells
        potentials[parents[number]].multiply(Table(sums[number].names, growth / growth.max()), total)
    root = potentials[0]
    root.multiply(Table((), np.array(total / root.table.cells.sum())), total)
    for number in range(1, len(potentials)):
        message = potentials[parents[number]].table.project(sums[number].names)
        potentials[number].absorb(message, sums[number], total)
        sums[number] = message
    return sums


class Tree:
    """Cliques over connected attributes. `sets` are those that a measurement needs in one clique."""

    def __init__(
        self, potentials: Iterable[Potential], sets: Iterable[Clique], total: float, layout: Layout | None = None
    ) -> None:
        """Potentials that agree on their separators, each summing to the total; a ValueError if they form no tree."""
        by_clique = {frozenset(potential.table.names): potential for potential in potentials}
        self.layout = layout or lay_out(list(by_clique))
        self.potentials = [by_clique[clique] for clique in self.layout.cliques]
        self.cells = sum(potential.cells for potential in self.potentials)
        self.sets = tuple(sets)
        self.total = total
        # That of its clique which changed last.
        self.stamp = max(potential.stamp for potential in self.potentials)
        # The others are conditional on the way to the focus; those that are fresh are up to date with it.
        self._focus = 0
        self.fresh = set(range(len(self.potentials)))
        # Places at which weights changed since the others were last brought up to date: none, one or several.
        self._moves = 0
        # The most by which anybody who looks lets cliques differ from what their neighbours say.
        self.lag = 0.0

    @classmethod
    def joined(cls, trees: Sequence[Tree], layout: Layout, new: Sequence[Potential], needed: Clique) -> Tree:
        """Several trees, focused where they change, as one with some new cliques; the distribution must be the same."""
        old = chain.from_iterable(tree.potentials for tree in trees)
        sets = chain.from_iterable(tree.sets for tree in trees)
        whole = cls([*old, *new], sets, trees[0].total, layout)
        whole.need(needed)
        fresh = {frozenset(potential.table.names) for potential in new}
        for tree in trees:
            fresh.update(tree.layout.cliques[number] for number in tree.fresh)
            whole.lag = max(whole.lag, tree.lag)
        whole.fresh = {number for number, clique in enumerate(layout.cliques) if clique in fresh}
        whole._focus = min(whole.fresh)
        return whole

    @property
    def attributes(self) -> KeysView[str]:
        return self.layout.tops.keys()

    def copy(self) -> Tree:
        """Shares the weights with the original until one of the two changes them."""
        twin = object.__new__(Tree)
        twin.__dict__.update(self.__dict__)
        twin.potentials = [potential.share() for potential in self.potentials]
        twin.fresh = set(self.fresh)
        return twin

    def home(self, attributes: Collection[str]) -> int | None:
        """The smallest clique that holds all of these attributes."""
        holders = self.layout.holding(attributes) if attributes else range(1)
        return min(holders, key=lambda number: (self.potentials[number].cells, number), default=None)

    def need(self, attributes: Clique) -> None:
        """Note that a measurement needs these attributes, which are in a clique, side by side."""
        if not any(attributes <= one for one in self.sets):
            self.sets = (*(one for one in self.sets if not one <= attributes), attributes)

    def split(self, attribute: str, parents: Places, shares: Floats) -> None:
        """Give an attribute more values; the distribution stays as it is."""
        for number in self.layout.holders[attribute]:
            self.potentials[number] = self.potentials[number].split(attribute, parents, shares, self.total)
            self.stamp = max(self.stamp, self.potentials[number].stamp)
        self.cells = sum(potential.cells for potential in self.potentials)

    def reach(self, number: int) -> Table:
        """The weights of one clique, brought up to date."""
        if number not in self.fresh:
            for before, after in pairwise(self.layout.path(self._focus, number)):
                self._pass(before, after)
        return self.potentials[number].table

    def refocus(self, numbers: Sequence[int]) -> list[Potential]:
        """Some cliques side by side, each after its parent, made to agree on their separators.

        What they lag behind others, by no more than the last `settle` allowed, is forgotten; after changes since then,
        nothing.
        """
        if self._moves:
            self.calibrate()
        self._focus, self.fresh = numbers[0], {numbers[0]}
        for number in numbers[1:]:
            self._pass(self.layout.parents[number], number)
        return [self.potentials[number] for number in numbers]

    def multiply(self, number: int, by: Table) -> None:
        """Multiply a clique that is up to date; `by` keeps its sum at the total. All others fall behind."""
        self.potentials[number].multiply(by, self.total)
        self.replace({number: self.potentials[number]})

    def replace(self, potentials: Mapping[int, Potential]) -> None:
        """Take other weights for some cliques, side by side, that agree on their separators. All others fall behind."""
        for number, potential in potentials.items():
            self.potentials[number] = potential
            self.stamp = max(self.stamp, potential.stamp)
        first = next(iter(potentials))
        self._moves = 2 if self._moves and first != self._focus else max(self._moves, 1)
        self._focus, self.fresh = first, set(potentials)

    def rescale(self, total: float) -> None:
        if total == self.total:
            return
        growth = total / self.total
        for potential in self.potentials:
            potential.table = Table(potential.table.names, potential.table.cells * growth)
        self.total = total

    def calibrate(self) -> None:
        """Bring all cliques up to date: after it, neighbours agree on their separators."""
        self.settle(-1.0)

    def settle(self, lag: float) -> list[int]:
        """Bring up to date all cliques whose neighbours differ by more than `lag`, as a share of the total; which."""
        done: list[int] = []
        self.lag = max(lag, self.lag)
        if lag >= 0 and not self._moves:
            return done
        if self._moves > 1:
            lag = -1.0  # what lags behind need not be next to what has changed last
        waiting = list(self.fresh) if len(self.fresh) < len(self.potentials) else []
        while waiting:
            number = waiting.pop()
            reached = [other for other in self.layout.neighbours[number] if self._pass(number, other, lag)]
            waiting += reached
            done += reached
        self._moves = 0
        return done

    def walk(self, start: int) -> Iterator[tuple[Table, Names]]:
        """All cliques from one on, each with what it shares with those before it."""
        waiting = [(start, start)]
        while waiting:
            number, before = waiting.pop()
            shared = self.layout.separator(number, before) if number != start else ()
            table = self.potentials[number].table
            yield table, tuple(name for name in table.names if name in shared)
            waiting += [(other, number) for other in self.layout.neighbours[number] if other != before]

    def _pass(self, before: int, after: int, lag: float = -1.0) -> bool:
        """Bring a clique up to date with a neighbour that is, if they differ by more than `lag`; whether they did."""
        if after in self.fresh:
            return False
        separator, potential = self.layout.separator(before, after), self.potentials[after]
        # Measured against the weights of the clique, not the last message: errors of rounding then never add up.
        message, here = self.potentials[before].table.project(separator), potential.table.project(separator)
        difference = float(np.abs(message.cells - here.cells).sum()) / self.total
        if difference <= lag:
            return False
        stamp, hidden = potential.stamp, potential.hidden + difference
        potential.absorb(message, here, self.total)
        # A change this small keeps its old stamp: no reader works anything out again. `hidden` adds such changes up.
        if hidden <= max(self.lag, ROUNDING):
            potential.stamp, potential.hidden = stamp, hidden
        self.stamp = max(self.stamp, potential.stamp)
        self.fresh.add(after)
        return True
