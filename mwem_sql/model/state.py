"""The approximation: trees of factors over disjoint sets of attributes, whose product, scaled to a total, is the distribution.

Owns how queries are answered from it and the multiplicative-weights step. It sees public classes and released
measurements only, and knows nothing of SQL, noise or budgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import inf, isfinite, log, sqrt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mwem_sql.model.cliques import Clique, Room, added_cells, connected, make_room, maximal, rearrange, total_cells
from mwem_sql.model.factor import (
    FLOOR,
    LOWEST,
    SCHEMA,
    TINY,
    Factor,
    factors_from_table,
    factors_to_table,
    outer,
)
from mwem_sql.model.fit import LAG, TOLERANCE, Fitted, Target, finish, fit, is_fitted
from mwem_sql.model.tree import Tree
from mwem_sql.queries.answers import answer_all
from mwem_sql.queries.arrays import Floats, Places
from mwem_sql.queries.linear import Block, LinearQuery

__all__ = ["SCHEMA", "Measurement", "Mixture", "State", "base_shares"]

Measurement = tuple[LinearQuery, Floats]
Part = tuple[Block, ...]
# Rows of a stored table may have been added up in another order.
SUMS_AGREE = 1e-6
AT_ONCE = 32
"""Cells of a new measurement from which on it is fitted at once before the descent: of few, the descent finds as much in its first steps."""
EMPTIED = 0.1
"""Of what a cell has: what is left of it at least when a new measurement is fitted at once. Later measurements may say otherwise."""


class State:
    """Trees of factors over disjoint sets of attributes; the distribution is their product, scaled to `total`.

    Attributes that no measured query has in common, directly or through others, are in different trees; a tree of one
    factor is the paper's form. Attributes of one class are never a reason to join anything: they tell nothing apart.
    """

    def __init__(self, trees: Iterable[Tree], attributes: Sequence[str], total: float) -> None:
        """For this module; callers have `uniform` and `from_table`."""
        held = list(trees)
        self.attributes = tuple(attributes)
        self._total = _positive(total)
        # What the state was last fitted to.
        self._targets: dict[int, Target] = {}
        self._tree = {name: tree for tree in held for name in tree.attributes}
        self._trees = held
        self._classes = {
            name: size for tree in held for factor in tree.cliques
            for name, size in zip(factor.attributes, factor.shape, strict=True)
        }  # fmt: skip
        names = sorted(chain.from_iterable(tree.attributes for tree in held))
        if names != sorted(self.attributes) or len(names) != len(self._tree):
            raise ValueError("a state has every attribute in one tree")

    @classmethod
    def uniform(cls, sizes: Mapping[str, Floats], total: float) -> State:
        """Weight in proportion to the classes' base measure: the number of values in each, or its length."""
        trees = []
        for name, size in sizes.items():
            base = base_shares(size)
            factor = Factor((name,), base.shape, base * _positive(total), log(base.min()))
            trees.append(Tree([factor], [], total))
        return cls(trees, tuple(sizes), total)

    @property
    def total(self) -> float:
        return self._total

    @property
    def trees(self) -> list[Tree]:
        """For reading: only the state changes them. Their totals are their own: what counts is the shares of it."""
        return self._trees

    @property
    def factors(self) -> list[Factor]:
        """All cliques of all trees, up to date. For reading: only the state changes them."""
        for tree in self.trees:
            tree.calibrate()
            tree.rescale(self._total)
        return [clique for tree in self.trees for clique in tree.cliques]

    @property
    def cells(self) -> int:
        return sum(tree.cells for tree in self.trees)

    def rescale(self, total: float) -> None:
        # The trees follow when someone looks at them.
        self._total = _positive(total)

    def copy(self) -> State:
        """Shares the weights with the original until one of the two changes them."""
        twin = State([tree.copy() for tree in self.trees], self.attributes, self._total)
        twin._targets = self._targets
        return twin

    def shape(self, attributes: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._classes[name] for name in attributes)

    def marginal(self, attributes: Sequence[str]) -> Floats:
        """Axes in that order; sums to the total."""
        names = tuple(attributes)
        return self._marginals([names])[names].reshape(self.shape(names)).copy()

    def answer(self, query: LinearQuery) -> Floats:
        """One number per cell."""
        return self.answers([query])[0]

    def answers(self, queries: Sequence[LinearQuery]) -> list[Floats]:
        """One array per query; what queries have in common is computed once."""
        split = [self._parts(query) for query in queries]
        known = self._answer_parts(dict.fromkeys(part for parts in split for _, part in parts))
        alike: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for number, (query, parts) in enumerate(zip(queries, split, strict=True)):
            alike.setdefault((query.shape, *(axes for axes, _ in parts)), []).append(number)
        answers: dict[int, Floats] = {}
        for (shape, *places), numbers in alike.items():
            pieces = [
                ((0, *(axis + 1 for axis in axes)), np.stack([known[split[number][part][1]] for number in numbers]))
                for part, axes in enumerate(places)
            ]
            pieces = pieces or [((0,), np.full(len(numbers), self._total))]
            together = outer(pieces, (len(numbers), *shape), self._total)
            answers.update(zip(numbers, together.reshape(len(numbers), -1), strict=True))
        return [answers[number] for number in range(len(queries))]

    def cells_with(self, attributes: Sequence[str], split: Mapping[str, int] | None = None) -> int:
        """Cells of the whole state if a query over these attributes were measured, after attributes are split to so many classes."""
        more = {name: count for name, count in (split or {}).items() if count > self._classes[name]}
        classes = {**self._classes, **more} if more else self._classes
        needed = frozenset(name for name in attributes if classes[name] > 1)
        trees, rooms = self._plan(needed, classes)
        cells = self.cells
        for tree in self.trees_of(more):
            for number in {number for name in more.keys() & tree.attributes for number in tree.layout.holders[name]}:
                cells += total_cells([tree.layout.cliques[number]], classes) - tree.cliques[number].weights.size
        return cells + (added_cells([tree.layout for tree in trees], rooms, needed, classes) if rooms else 0)

    def split(self, attribute: str, parents: Places, shares: Floats) -> None:
        """Give an attribute more classes: new class i has its share of what class `parents[i]` had.

        What was measured on the old ones is fitted again once it is given on the new ones.
        """
        self._tree[attribute].split(attribute, parents, shares)
        self._classes[attribute] = len(parents)

    def join(self, attributes: Sequence[str]) -> None:
        """Make room for these attributes in one clique; the distribution stays as it is."""
        needed = frozenset(name for name in attributes if self._classes[name] > 1)
        trees, rooms = self._plan(needed, self._classes)
        if rooms:
            layout = rearrange([tree.layout for tree in trees], rooms, needed)
            held = {clique for tree in trees for clique in tree.layout.cliques}
            # Long axes last: that makes for long inner loops in every sum.
            order = {
                clique: tuple(sorted(clique, key=lambda name: (self._classes[name], name)))
                for clique in layout.cliques if clique not in held
            }  # fmt: skip
            for tree, room in zip(trees, rooms, strict=True):
                tree.rescale(self._total)
                tree.refocus(room.old)
            weights = self._marginals(order.values())
            new = {clique: self._new_factor(names, weights[names]) for clique, names in order.items()}
            joined = Tree.joined(trees, layout, new, needed, self._total)
            self._tree.update(dict.fromkeys(joined.attributes, joined))
            self._trees = [*(tree for tree in self._trees if tree not in trees), joined]
        elif needed:
            self._tree[min(needed)].need(needed)

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
                self.match(
                    target.query,
                    np.maximum(np.clip(here, target.values - noise, target.values + noise), EMPTIED * here),
                )
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
        return cls(
            [tree for tree in trees if tree.attributes],
            tuple(dict.fromkeys(named)) if attributes is None else attributes,
            total,
        )

    def trees_of(self, attributes: Iterable[str]) -> list[Tree]:
        """The trees that hold these attributes. For reading: only the state changes them."""
        return list({id(tree): tree for tree in map(self._tree.__getitem__, attributes)}.values())

    def _plan(self, needed: Clique, classes: Mapping[str, int]) -> tuple[list[Tree], list[Room]]:
        """The trees that measuring a query over these attributes would replace by one, and where; maybe none."""
        trees = self.trees_of(sorted(needed))
        if not trees or (len(trees) == 1 and trees[0].home(needed) is not None):
            return [], []
        return trees, [
            make_room(tree.layout, needed.intersection(tree.attributes), tree.sets, classes) for tree in trees
        ]

    def _new_factor(self, names: tuple[str, ...], weights: Floats) -> Factor:
        cells = np.array(weights, dtype=np.float64).reshape(-1)
        factor = Factor(names, self.shape(names), cells, -inf)
        factor.lift(self._total)
        return factor

    def _telling(self, query: LinearQuery) -> list[str]:
        return [name for name in query.attributes if self._classes[name] > 1]

    def _parts(self, query: LinearQuery) -> list[tuple[tuple[int, ...], Part]]:
        """The query as a product of parts that have no factor in common: positions of the blocks, and the blocks."""
        parts: list[tuple[set[int], tuple[int, ...]]] = []
        for position, block in enumerate(query.blocks):
            touched = {id(self._tree[name]) for name in block.attributes}
            members: tuple[int, ...] = (position,)
            for part in [part for part in parts if not touched.isdisjoint(part[0])]:
                parts.remove(part)
                touched |= part[0]
                members = part[1] + members
            parts.append((touched, members))
        return [(tuple(sorted(members)), tuple(query.blocks[i] for i in sorted(members))) for _, members in parts]

    def _answer_parts(self, parts: Iterable[Part]) -> dict[Part, Floats]:
        alike: dict[tuple[str, ...], list[LinearQuery]] = {}
        for query in map(LinearQuery, parts):
            alike.setdefault(query.attributes, []).append(query)
        marginals = self._marginals(alike)
        known: dict[Part, Floats] = {}
        for names, queries in alike.items():
            answers = answer_all(queries, marginals[names], prefix_sums=False)
            known.update(zip([query.blocks for query in queries], answers, strict=True))
        return known

    def _marginals(self, wanted: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], Floats]:
        """Row-major in the order asked for, without axes of one class; arrays may be views of the weights."""
        parts = {
            names: [(tree, tuple(n for n in names if n in tree.attributes)) for tree in self.trees_of(names)]
            for names in wanted
        }
        held: dict[int, tuple[Tree, set[tuple[str, ...]]]] = {}
        for tree, own in chain.from_iterable(parts.values()):
            tree.rescale(self._total)
            held.setdefault(id(tree), (tree, set()))[1].add(own)
        marginals = {key: tree.marginals(sets) for key, (tree, sets) in held.items()}
        found = {}
        for names, pieces in parts.items():
            placed = [([names.index(n) for n in own], marginals[id(tree)][own]) for tree, own in pieces]
            found[names] = outer(placed, self.shape(names), self._total)
        return found

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


class Mixture:
    """The average of several states over the same attributes: the paper's avg of A_0 .. A_{T-1}. For reading only."""

    def __init__(self, states: Sequence[State]) -> None:
        self.states = tuple(states)
        if not self.states:
            raise ValueError("a mixture has at least one state")
        self.attributes = self.states[0].attributes
        if any(s.attributes != self.attributes or s.shape(s.attributes) != self.shape(self.attributes) for s in states):
            raise ValueError("the states of a mixture have the same attributes and classes")

    @property
    def total(self) -> float:
        return sum(state.total for state in self.states) / len(self.states)

    @property
    def cells(self) -> int:
        return sum(state.cells for state in self.states)

    def shape(self, attributes: Sequence[str]) -> tuple[int, ...]:
        return self.states[0].shape(attributes)

    def marginal(self, attributes: Sequence[str]) -> Floats:
        return _mean([state.marginal(attributes) for state in self.states])

    def answer(self, query: LinearQuery) -> Floats:
        return self.answers([query])[0]

    def answers(self, queries: Sequence[LinearQuery]) -> list[Floats]:
        return [_mean(answers) for answers in zip(*(state.answers(queries) for state in self.states), strict=True)]

    def table(self) -> pa.Table:
        """The states' tables one after the other, with the state's number in front."""
        tables = []
        for number, state in enumerate(self.states):
            table = state.table()
            tables.append(table.add_column(0, "state", pa.array([number] * table.num_rows, pa.int32())))
        return pa.concat_tables(tables)

    @classmethod
    def from_table(cls, table: pa.Table, attributes: Sequence[str] | None = None) -> Mixture:
        """`attributes` gives their order; without it, it is that of the first state's rows."""
        states: list[State] = []
        for number in pc.unique(table["state"]).sort():
            states.append(State.from_table(table.filter(pc.equal(table["state"], number)), attributes))
            attributes = states[0].attributes
        return cls(states)


def base_shares(sizes: Floats) -> Floats:
    """Classes' base measure as shares of all of it; none is 0."""
    base = np.array(sizes, dtype=np.float64)
    if base.ndim != 1 or not base.size or not np.isfinite(base).all() or base.min() <= 0:
        raise ValueError("an attribute has classes of positive size")
    base /= base.max()  # lengths may be too large to add up
    return np.asarray(np.maximum(base / base.sum(), FLOOR))


def _mean(arrays: Sequence[Floats]) -> Floats:
    return np.asarray(sum(arrays[1:], start=arrays[0]) / len(arrays))


def _one_per_cell(query: LinearQuery, measured: Floats) -> Floats:
    values = np.asarray(measured, dtype=np.float64)
    if values.shape != (query.cells,) or not np.isfinite(values).all():
        raise ValueError("a measurement has one finite number per cell of its query")
    return values


def _positive(total: float) -> float:
    if not (isfinite(total) and total > 0):
        raise ValueError("a state's total is positive")
    return total
