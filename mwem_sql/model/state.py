"""The approximation A: a factored distribution that follows measurements.

Owns the multiplicative-weights step, the fit of all measurements, and the table that a state is stored as. It sees public classes and
released measurements only, and knows nothing of SQL, noise or budgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import inf, log, sqrt

import numpy as np
import pyarrow as pa

from mwem_sql.algebra.arrays import Flags, Floats
from mwem_sql.algebra.factor import FLOOR, LOWEST, TINY, Factor, base_shares, factors_from_table, factors_to_table
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.model.cliques import connected, maximal
from mwem_sql.model.factored import Factored, positive
from mwem_sql.model.fit import LAG, TOLERANCE, finish, fit, is_fitted
from mwem_sql.model.targets import Fitted, Target
from mwem_sql.model.tree import Tree

Measurement = tuple[LinearQuery, Floats]
# Rows of a stored table may have been added up in another order.
SUMS_AGREE = 1e-6
AT_ONCE = 32
"""Cells of a new measurement from which on it is fitted at once before the descent: of few, the descent finds as much in its first steps."""
EMPTIED = 0.1
"""Of what a cell has: what is left of it at least when a new measurement is fitted at once. Later measurements may say otherwise."""


class State(Factored):
    """A distribution that multiplicative weights move; made by `uniform` or `from_table`."""

    def __init__(self, trees: Iterable[Tree], attributes: Sequence[str], total: float) -> None:
        super().__init__(trees, attributes, total)
        # What it was last fitted to.
        self._targets: dict[int, Target] = {}

    @classmethod
    def uniform(cls, sizes: Mapping[str, Floats], total: float) -> State:
        """Weight in proportion to the classes' base measure: the number of values in each, or its length."""
        trees = []
        for name, size in sizes.items():
            base = base_shares(size)
            factor = Factor((name,), base.shape, base * positive(total), log(base.min()))
            trees.append(Tree([factor], [], total))
        return cls(trees, tuple(sizes), total)

    def copy(self) -> State:
        """Shares the weights with the original until one of the two changes them."""
        twin = State([tree.copy() for tree in self.trees], self.attributes, self._total)
        twin._targets = self._targets
        return twin

    def update(self, query: LinearQuery, measured: Floats) -> None:
        """One step of the paper: A(x) *= exp(sum over cells c of q_c(x) (m_c - q_c(A)) / 2n), renormalised to n."""
        self.replay([(query, measured)], passes=1)

    def replay(self, measurements: Sequence[Measurement], passes: int = 100, tolerance: float | None = 0.0) -> int:
        """Update with all measurements in order, over and over; returns the most passes that a tree took.

        A tree is done when a pass lowers its squared misfit by no more than `tolerance` times that of the pass
        before; the misfit is what the updates of a pass find. With None it makes all `passes`, as the paper does.
        """
        checked = [(query, _one_per_cell(query, measured)) for query, measured in measurements]
        for query, _ in checked:
            self.join(query.attributes)
        apart: dict[int, list[Measurement]] = {}
        for query, measured in checked:
            for name in self._telling(query)[:1]:
                apart.setdefault(id(self._tree[name]), []).append((query, measured))
        return max((self._replay(group, passes, tolerance) for group in apart.values()), default=0)

    def match(self, query: LinearQuery, values: Floats) -> None:
        """Give each cell of a partition its value, in proportion everywhere inside: the step of multiplicative weights that fits at once.

        The values sum to the total; one that is 0 becomes very small.
        """
        self.join(query.attributes)
        names = self._telling(query)
        if not names:
            return
        tree = self._tree[names[0]]
        tree.rescale(self._total)
        home = tree.home(names)
        assert home is not None
        marginal = tree.reach(home).marginal(names)
        wanted = np.maximum(_one_per_cell(query, values), FLOOR * self._total)
        here = query.answer(marginal)
        # A cell that no class is in has nothing to grow.
        growth = query.spread(
            np.divide(wanted, here, out=np.ones_like(wanted), where=here > TINY * np.maximum(wanted, 1))
        )
        growth *= self._total / float(np.vdot(marginal, growth))
        tree.multiply(home, names, growth.reshape(self.shape(names)))

    def restrict(self, attributes: Sequence[str], is_kept: Flags) -> float:
        """Keep some class combinations of some attributes only: the distribution given that it is one of these. Returns the share that they had.

        What is not kept becomes very small. The attributes take one clique together.
        """
        self.join(attributes)
        names = [name for name in attributes if self._classes[name] > 1]
        kept = is_kept.reshape(self.shape(names))
        if not names:
            return float(kept.sum())
        tree = self._tree[names[0]]
        tree.rescale(self._total)
        home = tree.home(names)
        assert home is not None
        marginal = tree.reach(home).marginal(names)
        share = float(marginal[kept].sum() / self._total)
        growth = np.where(kept, 1.0, FLOOR)
        growth *= self._total / float(np.vdot(marginal, growth))
        tree.multiply(home, names, growth)
        return share

    def fit(self, targets: Sequence[Target], tolerance: float = TOLERANCE) -> Fitted:
        """Refit all measurements, each weighted by the inverse of its variance, until their misfit no longer falls."""
        known = {id(target): target for target in targets}
        for target in [target for key, target in self._targets.items() if key not in known]:
            for tree in self.trees_of(target.query.attributes):
                tree.drop(target)
        new = [target for key, target in known.items() if key not in self._targets]
        for target in new:
            _one_per_cell(target.query, target.values)
            self.join(target.query.attributes)
            for name in self._telling(target.query)[:1]:
                self._tree[name].take(target)
            if target.query.cells >= AT_ONCE and all(block.counts_all for block in target.query.blocks):
                # What is new fits at once, as far as noise does not explain it, and no cell is emptied; the descent goes on from there.
                here, noise = self.answer(target.query), np.sqrt(target.variances)
                near = np.clip(here, target.values - noise, target.values + noise)
                self.match(target.query, np.maximum(near, EMPTIED * here))
        self._targets = known
        misfit, steps = 0.0, 0
        lag = LAG * sqrt(min((target.sharpest for target in targets), default=0.0)) / self._total
        for tree in self.trees:
            if tree.targets:
                if not is_fitted(tree, self._total, lag):
                    tree.rescale(self._total)
                    steps = max(steps, fit(tree, lag, tolerance))
                misfit += tree.misfit
        for target in targets:
            if not self._telling(target.query):
                misfit += target.misfit(self.answer(target.query))
        return Fitted(misfit, steps)

    def finish(self) -> None:
        """Fit once more, and closely: there is no next fit that would go on from here."""
        for tree in self.trees:
            if tree.targets:
                tree.rescale(self._total)
                finish(tree)

    def table(self) -> pa.Table:
        """One row per factor, on the state's own memory: the state takes new memory when it next changes."""
        # A state without attributes still has a total.
        return factors_to_table(self.factors or [Factor((), (), np.array([self._total]), 0.0)])

    @classmethod
    def from_table(cls, table: pa.Table, attributes: Sequence[str] | None = None) -> State:
        """Reads the table's memory in place. `attributes` gives their order; without it, it is the table's."""
        factors = factors_from_table(table)
        if not factors:
            raise ValueError("a state has at least one row in its table")
        total = float(factors[0].weights.sum())
        if any(abs(factor.weights.sum() - total) > SUMS_AGREE * total for factor in factors):
            raise ValueError("all factors of a state have the same sum")
        trees = []
        for group in connected([frozenset(factor.attributes) for factor in factors]):
            own = [factors[number] for number in group]
            sets = [frozenset(factor.attributes) for factor in own]
            if len(set(maximal(sets))) < len(own):
                raise ValueError("a state has no factor inside another")
            trees.append(Tree(own, sets if len(own) > 1 or len(sets[0]) > 1 else [], total))
        named = chain.from_iterable(factor.attributes for factor in factors)
        order = tuple(dict.fromkeys(named)) if attributes is None else attributes
        return cls([tree for tree in trees if tree.attributes], order, total)

    def _telling(self, query: LinearQuery) -> list[str]:
        return [name for name in query.attributes if self._classes[name] > 1]

    def _replay(self, measurements: list[Measurement], passes: int, tolerance: float | None) -> int:
        before = inf
        for done in range(1, passes + 1):
            misfit = sum(self._step(query, measured) for query, measured in measurements)
            if tolerance is not None and misfit >= (1 - tolerance) * before:
                return done
            before = misfit
        return passes

    def _step(self, query: LinearQuery, measured: Floats) -> float:
        """One update inside the clique that holds the query; returns the squared misfit it found, in units of 2n."""
        names = self._telling(query)
        tree = self._tree[names[0]]
        tree.rescale(self._total)
        home = tree.home(names)
        assert home is not None
        marginal = tree.reach(home).marginal(names)
        error = np.clip((measured - query.answer(marginal)) / (2 * self._total), -1e150, 1e150)
        exponent = query.spread(error)
        growth = np.exp(np.maximum(exponent - exponent.max(), LOWEST))
        # The new sum is known before any weight is touched, so that renormalising takes no pass of its own.
        scale = self._total / float(np.vdot(marginal, growth))
        tree.multiply(home, names, (growth * scale).reshape(self.shape(names)))
        return float(error @ error)


def _one_per_cell(query: LinearQuery, measured: Floats) -> Floats:
    values = np.asarray(measured, dtype=np.float64)
    if values.shape != (query.cells,) or not np.isfinite(values).all():
        raise ValueError("a measurement has one finite number per cell of its query")
    return values
