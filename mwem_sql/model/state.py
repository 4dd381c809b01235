"""The approximation A: a factored distribution over groups of classes, which are split as measurements need it.

Owns how questions about classes are answered, when groups are split, how junction trees make room for attributes that
have to be together, the multiplicative-weights step, and the table that a state is stored as. It sees public classes
and released measurements only, and knows nothing of SQL, noise or budgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import isfinite, log, prod

import numpy as np
import pyarrow as pa

from mwem_sql.algebra.arrays import Flags, Floats, Places
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.partition import Partition
from mwem_sql.algebra.queries import FEW_CELLS, MANY_BOXES, Boxes, Queries
from mwem_sql.algebra.sets import connected
from mwem_sql.algebra.table import Names, Table, independent, tables_from_arrow, tables_to_arrow
from mwem_sql.model.cliques import Clique, Room, added_cells, make_room, maximal, rearrange, total_cells
from mwem_sql.model.marginals import marginals
from mwem_sql.model.partitions import JOINT_GROUPS, Partitions, base_shares
from mwem_sql.model.support import Support
from mwem_sql.model.tree import LOWEST_LOG, SMALLEST_FLOAT, WEIGHT_FLOOR, Potential, Tree

SUMS_AGREE = 1e-6
"""Of the total: by so much the sums of a stored table's rows may differ, which were added up in another order."""
MANY_QUERIES = 20
"""Queries over the same attributes, of several cells each, from which on one marginal over classes answers them."""
MOST_RUN_CELLS = 2**20
"""Combinations of runs of classes in one group up to which very many queries are answered from prefix sums."""


class State:
    """Junction trees over disjoint sets of attributes; the distribution is their product, scaled to `total`.

    Attributes that no measured query has in common, directly or through others, are in different trees; a tree of one
    clique is the paper's form. The values of an attribute in a tree are the cells of its partition, groups; inside a
    group weight follows the base measure. Attributes of one group are never a reason to join anything.
    """

    def __init__(
        self,
        trees: Iterable[Tree],
        attributes: Sequence[str],
        total: float,
        partitions: Mapping[str, Partition] | None = None,
        support: Support[State] | None = None,
    ) -> None:
        """For the class methods below. Without partitions each value in a tree is a class."""
        self._trees = list(trees)
        self.attributes = tuple(attributes)
        self._total = _positive(total)
        self._tree = {name: tree for tree in self._trees for name in tree.attributes}
        names = sorted(chain.from_iterable(tree.attributes for tree in self._trees))
        if names != sorted(self.attributes) or len(names) != len(self._tree):
            raise ValueError("a state has every attribute in one tree")
        self._sizes = {
            name: tree.potentials[top].table.size(name)
            for tree in self._trees
            for name, top in tree.layout.tops.items()
        }
        self.partitions = Partitions(partitions or {name: Partition.whole(size) for name, size in self._sizes.items()})
        # What is possible; None for everything.
        self.support = support
        # Of the last batch of very many queries, by attributes.
        self._boxes: dict[Names, Boxes] = {}

    @classmethod
    def uniform(cls, sizes: Mapping[str, Floats], total: float) -> State:
        """Weight in proportion to the classes' base measure, their numbers of values or lengths; each class a group."""
        trees = []
        for name, size in sizes.items():
            base = base_shares(size)
            potential = Potential(Table((name,), base * _positive(total)), log(base.min()))
            trees.append(Tree([potential], [], total))
        return cls(trees, tuple(sizes), total)

    @classmethod
    def unsplit(cls, sizes: Mapping[str, Floats], total: float, support: Support[State] | None = None) -> State:
        """The same distribution, with all classes of an attribute in one group; or that of a support."""
        if support is not None:
            state = support.state.copy()
            state.partitions.most = JOINT_GROUPS
            state.rescale(total)
            state.keep_within(support)
            return state
        single = cls.uniform(dict.fromkeys(sizes, np.ones(1)), total)
        partitions = {name: Partition.single(base_shares(size)) for name, size in sizes.items()}
        return cls(single.trees, tuple(sizes), total, partitions)

    @classmethod
    def of(cls, tables: Sequence[Table], attributes: Sequence[str] | None = None) -> State:
        """A state on the memory of positive tables that agree where they overlap. `attributes` gives an order."""
        if not tables:
            raise ValueError("a state has at least one row in its table")
        total = float(tables[0].cells.sum())
        if any(abs(table.cells.sum() - total) > SUMS_AGREE * total for table in tables):
            raise ValueError("all factors of a state have the same sum")
        trees = []
        for group in connected([table.names for table in tables]):
            members = [tables[number] for number in group]
            sets = [frozenset(table.names) for table in members]
            if len(set(maximal(sets))) < len(members):
                raise ValueError("a state has no factor inside another")
            potentials = [Potential(table, log(table.cells.min() / table.cells.sum())) for table in members]
            trees.append(Tree(potentials, sets if len(members) > 1 or len(sets[0]) > 1 else [], total))
        order = dict.fromkeys(chain.from_iterable(table.names for table in tables))
        return cls([tree for tree in trees if tree.attributes], tuple(attributes or order), total)

    @classmethod
    def from_table(cls, table: pa.Table, attributes: Sequence[str] | None = None) -> State:
        """Reads the table's memory in place, where its lists hold doubles."""
        return cls.of(tables_from_arrow(table), attributes)

    def table(self) -> pa.Table:
        """One row per clique, over groups, on the state's memory: it takes new memory when it next changes."""
        # A state without attributes still has a total.
        return tables_to_arrow(self.tables or [Table((), np.array(self._total))])

    def copy(self) -> State:
        """Shares the weights with the original until one of the two changes them."""
        trees = [tree.copy() for tree in self._trees]
        return State(trees, self.attributes, self._total, self.partitions, self.support)

    def merged(self) -> State:
        """A copy that has one class for each group: merges classes that no measurement distinguishes."""
        return State([tree.copy() for tree in self._trees], self.attributes, self._total)

    @property
    def total(self) -> float:
        return self._total

    @property
    def trees(self) -> list[Tree]:
        """For reading. Each has its total: what counts is the shares of it."""
        return self._trees

    @property
    def tables(self) -> list[Table]:
        """The weights of all cliques of all trees, up to date. For reading."""
        for tree in self._trees:
            tree.calibrate()
            tree.rescale(self._total)
        return [potential.table for tree in self._trees for potential in tree.potentials]

    @property
    def cells(self) -> int:
        """Of groups: what takes memory."""
        return sum(tree.cells for tree in self._trees)

    def shape(self, attributes: Iterable[str]) -> tuple[int, ...]:
        """Numbers of groups."""
        return tuple([self._sizes[name] for name in attributes])

    def rescale(self, total: float) -> None:
        # The trees follow when someone looks at them.
        self._total = _positive(total)

    def trees_of(self, attributes: Iterable[str]) -> list[Tree]:
        """The trees that hold these attributes. For reading."""
        return list(dict.fromkeys(map(self._tree.__getitem__, attributes)))

    def marginal(self, attributes: Sequence[str]) -> Floats:
        """Axes in that order, an entry per class; sums to the total."""
        return self.partitions.spread(self.group_marginal(attributes), attributes)

    def group_marginal(self, attributes: Sequence[str]) -> Floats:
        """Axes in that order, an entry per group; sums to the total."""
        names = tuple(attributes)
        return np.array(self._marginals([names])[names].cells).reshape(self.shape(names))

    def answer(self, query: LinearQuery) -> Floats:
        """One number per cell of a query on classes."""
        return self.answers([query])[0]

    def answers(self, queries: Sequence[LinearQuery], *, many_boxes: int = MANY_BOXES) -> list[Floats]:
        """One array per query on classes; what queries have in common is computed once."""
        batch, out = Queries.of(queries), dict[int, Floats]()
        is_left = np.ones(len(batch), dtype=np.bool_)
        for attributes, numbers in batch.many_boxes(many_boxes).items():
            if prod(len(self.partitions[name].runs) for name in attributes) <= MOST_RUN_CELLS:
                out.update(zip(numbers.tolist(), self._box_answers(batch.take(numbers), attributes), strict=True))
                is_left[numbers] = False
        on_classes = [self.partitions.coarse.isdisjoint(block.attributes) for block in batch.blocks]
        is_few = (
            is_left & (batch.cells > 1) & (batch.cells <= FEW_CELLS) & ~batch.are_all(np.array(on_classes, np.bool_))
        )
        for attributes, numbers in batch.by_attributes(is_few, MANY_QUERIES).items():
            if batch.domain_cells[numbers[0]] <= MOST_RUN_CELLS:
                answers = batch.take(numbers).answers(self.marginal(attributes), prefix_sums=False)
                out.update(zip(numbers.tolist(), answers, strict=True))
                is_left[numbers] = False
        others = np.flatnonzero(is_left).tolist()
        coarse = [self.partitions.coarser(queries[number]) for number in others]
        for number, query, answer in zip(others, coarse, self.group_answers(coarse), strict=True):
            out[number] = answer if query is queries[number] else self.partitions.answer(queries[number], answer)
        return [out[number] for number in range(len(queries))]

    def group_answers(self, queries: Sequence[LinearQuery]) -> list[Floats]:
        """One array per query on groups."""
        split = [self._parts(query.blocks) for query in queries]
        answers_of = self._answer_parts(dict.fromkeys(part for parts in split for _, part in parts))
        similar: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for number, (query, parts) in enumerate(zip(queries, split, strict=True)):
            similar.setdefault((query.shape, *[axes for axes, _ in parts]), []).append(number)
        answers: dict[int, Floats] = {}
        for (shape, *places), numbers in similar.items():
            tables = []
            for part, axes in enumerate(places):
                cells = np.stack([answers_of[split[number][part][1]] for number in numbers])
                long = [axis for axis in axes if shape[axis] != 1]
                tables.append(
                    Table(("", *map(str, long)), cells.reshape(len(numbers), *(shape[axis] for axis in long)))
                )
            tables = tables or [Table(("",), np.full(len(numbers), self._total))]
            # Without axes of size 1: a query may have more blocks than numpy allows axes.
            names = ("", *(str(axis) for axis, size in enumerate(shape) if size != 1))
            together = independent(tables, names, self._total).cells
            answers.update(zip(numbers, together.reshape(len(numbers), -1), strict=True))
        return [answers[number] for number in range(len(queries))]

    def refine(self, query: LinearQuery) -> set[str]:
        """Split groups whose classes a query distinguishes; of which attributes. The distribution stays as it is."""
        split = set()
        for block in query.blocks:
            for axis, name in enumerate(block.attributes):
                if name in self.partitions.coarse and self._refine(name, self.partitions.refined(name, block, axis)):
                    split.add(name)
        return split

    def follow(self, other: State) -> None:
        """Split groups as in another one, which came out of a copy."""
        for name in self.partitions.coarse.copy():
            self._refine(name, other.partitions[name])

    def split(self, attribute: str, parents: Places, shares: Floats) -> None:
        """Give an attribute more groups, each a class: group i has its share of what group `parents[i]` had."""
        self._split(attribute, Partition.whole(len(parents)), parents, shares)

    def cells_with(self, attributes: Sequence[str], split: Mapping[str, int] | None = None) -> int:
        """Cells of the state if a query over these attributes were measured, after a split to so many groups."""
        more = {name: count for name, count in (split or {}).items() if count > self._sizes[name]}
        sizes = {**self._sizes, **more} if more else self._sizes
        needed = frozenset(name for name in attributes if sizes[name] > 1)
        trees, rooms = self._plan(needed, sizes)
        cells = self.cells
        for tree in self.trees_of(more):
            for number in {number for name in more.keys() & tree.attributes for number in tree.layout.holders[name]}:
                cells += total_cells([tree.layout.cliques[number]], sizes) - tree.potentials[number].cells
        return cells + (added_cells([tree.layout for tree in trees], rooms, needed, sizes) if rooms else 0)

    def join(self, attributes: Sequence[str]) -> None:
        """Make room for these attributes in one clique; the distribution stays as it is."""
        needed = frozenset(name for name in attributes if self._sizes[name] > 1)
        trees, rooms = self._plan(needed, self._sizes)
        if rooms:
            layout = rearrange([tree.layout for tree in trees], rooms, needed)
            old = {clique for tree in trees for clique in tree.layout.cliques}
            # Long axes last: that makes for long inner loops in every sum.
            new = [
                tuple(sorted(clique, key=lambda name: (self._sizes[name], name)))
                for clique in layout.cliques if clique not in old
            ]  # fmt: skip
            for tree, room in zip(trees, rooms, strict=True):
                tree.rescale(self._total)
                tree.refocus(room.old)
            tables = self._marginals(new)
            potentials = [Potential.of(tables[names], self._total) for names in new]
            joined = Tree.joined(trees, layout, potentials, needed)
            self._tree.update(dict.fromkeys(joined.attributes, joined))
            self._trees = [*(tree for tree in self._trees if tree not in trees), joined]
            self._mark(potentials)
        elif needed:
            self._tree[min(needed)].need(needed)

    def update(self, query: LinearQuery, measured: Floats) -> None:
        """One step of the paper: A(x) *= exp(sum over cells c of q_c(x) (m_c - q_c(A)) / 2n), renormalised to n."""
        self.replay([(query, measured)], passes=1)

    def replay(self, measurements: Sequence[tuple[LinearQuery, Floats]], passes: int = 100) -> None:
        """Update with all measurements in order, over and over."""
        for query, _ in measurements:
            self.refine(query)
        checked = [(self.partitions.exact(query), one_per_cell(query, measured)) for query, measured in measurements]
        for query, _ in checked:
            self.join(query.attributes)
        checked = [(query, self.possible_values(query, measured)) for query, measured in checked]
        # No step moves weight between attributes of one group.
        movable = [(query, measured) for query, measured in checked if self.several(query.attributes)]
        for query, measured in movable * passes:
            tree, home, marginal = self._home(query.attributes)
            error = np.clip((measured - query.answer(marginal.cells)) / (2 * self._total), -1e150, 1e150)
            exponent = query.spread(error)
            self._grow(tree, home, marginal, np.exp(np.maximum(exponent - exponent.max(), LOWEST_LOG)))

    def match(self, query: LinearQuery, values: Floats) -> None:
        """Give each cell of a partition its value, in proportion everywhere inside: the step that fits at once.

        The values sum to the total; one that is 0 becomes very small.
        """
        self.refine(query)
        self.match_groups(self.partitions.exact(query), values)

    def match_groups(self, query: LinearQuery, values: Floats) -> None:
        """The same for a partition of groups."""
        self.join(query.attributes)
        if not self.several(query.attributes):
            return
        tree, home, marginal = self._home(query.attributes)
        wanted = self.possible_values(query, one_per_cell(query, values))
        wanted = np.maximum(wanted, WEIGHT_FLOOR * self._total)
        here = query.answer(marginal.cells)
        # A cell that no class is in has nothing to grow.
        growth = np.divide(wanted, here, out=np.ones_like(wanted), where=here > SMALLEST_FLOAT * np.maximum(wanted, 1))
        self._grow(tree, home, marginal, query.spread(growth))

    def take(self, query: LinearQuery, weights: Floats) -> None:
        """Give class combinations of a partition's attributes their weights, as far as it distinguishes them."""
        self.refine(query)
        for axis, name in enumerate(query.attributes):
            weights = self.partitions[name].gather(weights, axis)
        self.match_groups(LinearQuery((self.partitions.identity(query.attributes),)), weights.reshape(-1))

    def restrict(self, attributes: Sequence[str], is_kept: Flags) -> float:
        """Keep some group combinations of some attributes only: the distribution given these. The share that they had.

        What is not kept becomes very small. The attributes take one clique together.
        """
        self.join(attributes)
        names = self.several(attributes)
        kept = is_kept.reshape(self.shape(names))
        if not names:
            return float(kept.sum())
        tree, home, marginal = self._home(attributes)
        share = float(marginal.cells[kept].sum() / self._total)
        self._grow(tree, home, marginal, np.where(kept, 1.0, WEIGHT_FLOOR))
        return share

    def keep_within(self, support: Support[State]) -> None:
        """No record is where a support has none, whatever is measured later."""
        self.support = support
        self.follow(support.state)
        self._mark(chain.from_iterable(tree.potentials for tree in self._trees))

    def possible_values(self, query: LinearQuery, values: Floats) -> Floats:
        """Values for the cells of a query on groups, 0 for those in which no record can be."""
        return values if self.support is None else self.support.values(query, values, self.partitions)

    def _mark(self, potentials: Iterable[Potential]) -> None:
        """Keep the weights of the impossible cells of some cliques at the floor from now on."""
        if self.support is not None:
            for potential in potentials:
                potential.forbid(self.support.impossible(potential.table.names, self.partitions))

    def several(self, attributes: Iterable[str]) -> list[str]:
        """Those of several groups."""
        return [name for name in attributes if self._sizes[name] > 1]

    def _home(self, attributes: Sequence[str]) -> tuple[Tree, int, Table]:
        """The tree and the clique that have these attributes together, and their marginal."""
        names = self.several(attributes)
        tree = self._tree[names[0]]
        tree.rescale(self._total)
        home = tree.home(names)
        assert home is not None
        return tree, home, tree.reach(home).project(names)

    def _grow(self, tree: Tree, home: int, marginal: Table, growth: Floats) -> None:
        """Multiply the weights of a clique by numbers for the cells of a marginal of it, and renormalise."""
        # The new sum comes before any weight is touched, so that renormalising takes no further pass.
        scale = self._total / float(np.vdot(marginal.cells, growth))
        tree.multiply(home, Table(marginal.names, (growth * scale).reshape(marginal.shape)))

    def _refine(self, name: str, finer: Partition) -> bool:
        """Give an attribute groups that are parts of those that it has; whether they are more."""
        old = self.partitions[name]
        if finer.count == old.count:
            return False
        parents = old.codes[finer.representatives]
        self._split(name, finer, parents, finer.sums / old.sums[parents])
        return True

    def _split(self, name: str, finer: Partition, parents: Places, shares: Floats) -> None:
        """Group i of a finer partition has its share of what group `parents[i]` had."""
        tree = self._tree[name]
        tree.split(name, parents, shares)
        self._sizes[name] = finer.count
        self.partitions.split(name, finer)
        self._mark(map(tree.potentials.__getitem__, tree.layout.holders[name]))

    def _plan(self, needed: Clique, sizes: Mapping[str, int]) -> tuple[list[Tree], list[Room]]:
        """The trees that measuring a query over these attributes would replace by one, and where; maybe none."""
        trees = self.trees_of(sorted(needed))
        if not trees or (len(trees) == 1 and trees[0].home(needed) is not None):
            return [], []
        return trees, [make_room(tree.layout, needed.intersection(tree.attributes), tree.sets, sizes) for tree in trees]

    def _parts(self, blocks: tuple[Block, ...]) -> list[tuple[tuple[int, ...], tuple[Block, ...]]]:
        """A product as parts that have no tree in common: positions of the blocks, and the blocks."""
        groups = connected([{self._tree[name] for name in block.attributes} for block in blocks])
        return [(tuple(group), tuple([blocks[position] for position in group])) for group in groups]

    def _answer_parts(self, parts: Iterable[tuple[Block, ...]]) -> dict[tuple[Block, ...], Floats]:
        similar: dict[tuple[Names, ...], list[tuple[Block, ...]]] = {}
        for part in parts:
            similar.setdefault(tuple([block.attributes for block in part]), []).append(part)
        flat = {names: tuple(chain.from_iterable(names)) for names in similar}
        tables = self._marginals(set(flat.values()))
        answers_of: dict[tuple[Block, ...], Floats] = {}
        for names, group in similar.items():
            answers = Queries.of(map(LinearQuery, group)).answers(tables[flat[names]].cells, prefix_sums=False)
            answers_of.update(zip(group, answers, strict=True))
        return answers_of

    def _marginals(self, wanted: Iterable[Names]) -> dict[Names, Table]:
        """By what is wanted, tables in that order, without axes of one group; they may be views of the weights."""
        long = {names: tuple(self.several(names)) for names in wanted}
        parts = {
            names: [(tree, tuple(name for name in axes if name in tree.attributes)) for tree in self.trees_of(axes)]
            for names, axes in long.items()
        }
        by_tree: dict[Tree, set[Names]] = {}
        for tree, axes in chain.from_iterable(parts.values()):
            tree.rescale(self._total)
            by_tree.setdefault(tree, set()).add(axes)
        tables = {tree: marginals(tree, sets) for tree, sets in by_tree.items()}
        return {
            names: independent([tables[tree][axes] for tree, axes in pieces], long[names], self._total)
            for names, pieces in parts.items()
        }

    def _box_answers(self, queries: Queries, attributes: Names) -> list[Floats]:
        """Answers from prefix sums over classes or, where these are in groups, over their runs."""
        boxes = self._boxes.get(attributes)
        if boxes is None or not boxes.queries.same_as(queries):
            boxes = self._boxes[attributes] = Boxes(queries)
        weights = self.group_marginal(attributes)
        if self.partitions.coarse.isdisjoint(attributes):
            return boxes.answers(weights)
        for axis, name in enumerate(attributes):
            weights = self.partitions[name].spread_to_runs(weights, axis)
        return boxes.answers(weights, [self.partitions[name].boundaries for name in attributes])


def one_per_cell(query: LinearQuery, measured: Floats) -> Floats:
    values = np.asarray(measured, dtype=np.float64)
    if values.shape != (query.cells,) or not np.isfinite(values).all():
        raise ValueError("a measurement has one finite number per cell of its query")
    return values


def _positive(total: float) -> float:
    if not (isfinite(total) and total > 0):
        raise ValueError("a state's total is positive")
    return total
