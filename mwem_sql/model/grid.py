"""Which classes the state tells apart: groups of them, split only when a measured query needs it.

The compiler's classes are the finest grid. Inside a group weight follows the base measure: no measurement has said
otherwise, and no step of the loop moves weight within a group. A state over groups therefore answers every question about classes
as one over classes would. Here is all that translates the weights of one attribute; trees, factors and fits see groups only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mwem_sql.algebra.arrays import Floats, Labels, Places
from mwem_sql.algebra.factor import base_shares
from mwem_sql.algebra.linear import Block, tell_apart
from mwem_sql.algebra.marginals import shares_within, spread


@dataclass(frozen=True, eq=False)
class Grid:
    """A partition of an attribute's classes: `groups[i]` is the group of class i, numbered by first appearance.

    `base` is the classes' base measure: what they share a group's weight by.
    """

    groups: Labels
    base: Floats

    @classmethod
    def single(cls, sizes: Floats) -> Grid:
        """All classes in one group."""
        return cls(np.zeros(len(sizes), dtype=np.int32), base_shares(sizes))

    @classmethod
    def whole(cls, classes: int) -> Grid:
        """Each class a group."""
        return cls(np.arange(classes, dtype=np.int32), np.ones(classes))

    @cached_property
    def count(self) -> int:
        return int(self.groups.max()) + 1

    @property
    def is_whole(self) -> bool:
        return self.count == len(self.groups)

    @cached_property
    def runs(self) -> int:
        """Stretches of neighbouring classes in one group. A query that changes c times along them makes at most c more."""
        return 1 + int(np.count_nonzero(np.diff(self.groups)))

    @cached_property
    def run_begins(self) -> Places:
        return np.append(0, np.flatnonzero(np.diff(self.groups)) + 1)

    @cached_property
    def run_shares(self) -> Floats:
        """Each stretch's share of its group."""
        return np.add.reduceat(self.shares, self.run_begins)

    @cached_property
    def places(self) -> tuple[Places, Floats]:
        """Of each place before, between and after classes: the stretch of the class that follows, or the last one, and which share of it comes before."""
        run = np.repeat(np.arange(self.runs), np.diff(self.run_begins, append=len(self.groups)))
        before = np.cumsum(self.shares) - self.shares
        inside = (before - before[self.run_begins][run]) / self.run_shares[run]
        return np.append(run, self.runs - 1), np.append(inside, 1.0)

    @cached_property
    def firsts(self) -> Places:
        """A class of each group, to stand for all of them."""
        return np.unique(self.groups, return_index=True)[1]

    @cached_property
    def sums(self) -> Floats:
        return np.bincount(self.groups, self.base).astype(np.float64, copy=False)

    @cached_property
    def shares(self) -> Floats:
        """Each class's share of its group."""
        return shares_within(self.groups, self.base)

    @cached_property
    def _order(self) -> tuple[Places, Places]:
        """Classes sorted by group, and where each group begins."""
        order = np.argsort(self.groups, kind="stable")
        return order, np.searchsorted(self.groups[order], np.arange(self.count))

    def split(self, block: Block, axis: int) -> Grid:
        """With the groups apart that a block tells apart."""
        return Grid(tell_apart(self.groups, block.slices(axis)), self.base)

    def spread(self, weights: Floats, axis: int) -> Floats:
        """From weights of groups along an axis to those of classes."""
        return spread(weights, axis, self.groups, self.shares)

    def spread_to_runs(self, weights: Floats, axis: int) -> Floats:
        """From weights of groups along an axis to those of stretches."""
        return spread(weights, axis, self.groups[self.run_begins], self.run_shares)

    def gather(self, weights: Floats, axis: int) -> Floats:
        """From weights of classes along an axis to those of groups."""
        order, starts = self._order
        return np.asarray(np.add.reduceat(weights.take(order, axis=axis), starts, axis=axis))

    def counted(self, begins: Places, ends: Places) -> Floats:
        """The share of each group that is in some stretches of neighbouring classes, which have none in common: `average` of a count, without its classes."""
        runs, inside = self.places
        # What comes before a place is a part of its own run and all runs before that.
        steps, parts = np.zeros(self.runs + 1), np.zeros(self.runs)
        for places, sign in ((begins, -1.0), (ends, 1.0)):
            np.add.at(steps, runs[places], sign)
            np.add.at(parts, runs[places], sign * inside[places])
        whole = np.cumsum(steps[::-1])[::-1][1:]
        return np.bincount(
            self.groups[self.run_begins], (whole + parts) * self.run_shares, minlength=self.count
        ).astype(np.float64, copy=False)

    def average(self, adds: Floats, axis: int) -> Floats:
        """From what a record of each class adds along an axis to what one of each group adds on average."""
        return self.gather(adds * self.shares.reshape(-1, *[1] * (adds.ndim - axis - 1)), axis)
