"""Class codes of synthetic rows, which follow the weights of a state much more closely than independent draws would.

Attributes are drawn one after the other, clique by clique: the rows that agree in what was drawn before are shared out to
the classes of the next to within 1, so that a cell of a clique has its expected number to within a few rows. Across trees, whose joint is a product, the cells are dealt evenly to the rows. Which value of a class a row gets, and the
table it goes to, are for the caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
import numpy.typing as npt

from mwem_sql.compiler.linear import Floats
from mwem_sql.factor import Factor
from mwem_sql.state import Mixture, State
from mwem_sql.tree import Tree

Codes = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]

GOLDEN = (5**0.5 - 1) / 2


def draw_codes(state: State | Mixture, rows: int, generator: np.random.Generator) -> dict[str, Codes]:
    """The class of each row in each attribute. The order of rows is random: it carries nothing."""
    states = state.states if isinstance(state, Mixture) else (state,)
    shares = systematic_counts(np.ones(len(states)), rows, generator)
    drawn = [_draw(one, int(share), generator) for one, share in zip(states, shares, strict=True)]
    order = generator.permutation(rows)
    return {name: np.concatenate([codes[name] for codes in drawn])[order] for name in state.attributes}


def uniform_choice(sizes: Floats, count: int, generator: np.random.Generator) -> Indices:
    """`count` indices in proportion to `sizes`, each to within 1 of its due number; in random order."""
    return generator.permutation(np.repeat(np.arange(len(sizes)), systematic_counts(sizes, count, generator)))


def systematic_counts(weights: Floats, count: int, generator: np.random.Generator) -> Indices:
    """Integers that sum to `count`, each within 1 of its share by weight and equal to it on average."""
    # One offset for all bounds: every run of neighbours is within 1 of its share, too.
    bounds = np.cumsum(weights)
    ends = np.floor(bounds * (count / bounds[-1]) + generator.random()).astype(np.int64)
    ends[-1] = count
    return np.asarray(np.diff(np.minimum(ends, count), prepend=0))


def _draw(state: State, rows: int, generator: np.random.Generator) -> dict[str, Codes]:
    """Codes of one state's rows, in an order that is far from random.

    A clique's cells, sorted, are dealt to the rows by the ranks of a golden-ratio sequence: any run of neighbouring
    rows gets an even selection of them. Rows are kept sorted by the cliques dealt last, so that the rows that agree
    in those are neighbours. The largest cliques go first: after one of them every row may be alone in its cell.
    """
    order = np.arange(rows)
    codes: dict[str, Codes] = {}
    for factor, given, name in _attributes(state):
        sizes = state.shape(given)
        weights = factor.marginal([*given, name]).reshape(prod(sizes), -1)
        group = np.zeros(rows, dtype=np.int64)
        if given:
            group = np.ravel_multi_index([codes[other] for other in given], sizes).astype(np.int64)
            order = order[np.argsort(_narrow(group[order], prod(sizes)), kind="stable")]
        members = np.bincount(group, minlength=prod(sizes))
        counts = _group_counts(weights, members, generator)
        # Sorted by group and class, as the rows are by group; inside a group the classes are then dealt to the rows.
        classes = np.repeat(np.tile(np.arange(weights.shape[1]), len(weights)), counts.ravel())
        codes[name] = np.empty(rows, dtype=np.int32)
        codes[name][order] = classes[_golden_ranks(members, generator)] if codes else classes
        order = order[np.argsort(_narrow(codes[name][order], weights.shape[1]), kind="stable")]
    return codes


def _attributes(state: State) -> Iterator[tuple[Factor, tuple[str, ...], str]]:
    """All attributes in the order of drawing, each with a factor that has it and the attributes there drawn before it."""
    for factor, shared in _cliques(state):
        given = shared
        for name in factor.attributes:
            if name not in shared:
                yield factor, given, name
                given = (*given, name)


def _cliques(state: State) -> Iterator[tuple[Factor, tuple[str, ...]]]:
    """All factors in the order of drawing, each with the attributes that are drawn before it."""

    def largest(tree: Tree) -> int:
        return max(range(len(tree.cliques)), key=lambda number: tree.cliques[number].weights.size)

    starts = [(tree, largest(tree)) for tree in state.trees]
    for tree, start in sorted(starts, key=lambda pair: -pair[0].cliques[pair[1]].weights.size):
        tree.calibrate()
        yield from tree.walk(start)


def _group_counts(weights: Floats, sizes: Indices, generator: np.random.Generator) -> Indices:
    """Integers that sum to `sizes` in each row, each within 1 of its share by weight in that row."""
    bounds = np.cumsum(weights, axis=1)
    # Offsets spread evenly over the rows: small rows with the same shares must not all be rounded the same way.
    offsets = (np.cumsum(sizes > 0) * GOLDEN + generator.random()) % 1
    ends = np.floor(bounds * (sizes / bounds[:, -1])[:, None] + offsets[:, None]).astype(np.int64)
    ends[:, -1] = sizes
    return np.asarray(np.diff(np.minimum(ends, sizes[:, None]), prepend=0, axis=1))


def _golden_ranks(sizes: Indices, generator: np.random.Generator) -> Indices:
    """For each position, sorted by group, another one of its group: all of them once, every run of them evenly spread."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    positions = np.arange(len(groups))
    # Rotated at random inside its group, every position is as likely as every other.
    turns = np.repeat((np.arange(len(sizes)) * GOLDEN + generator.random()) % 1 * sizes, sizes).astype(np.int64)
    ranks = np.empty_like(positions)
    ranks[np.argsort(groups + positions * GOLDEN % 1)] = (positions - starts + turns) % np.maximum(np.repeat(sizes, sizes), 1)
    return starts + ranks


def _narrow(cells: npt.NDArray[np.integer], size: int) -> npt.NDArray[np.integer]:
    """The same numbers in 16 bits where they fit: numpy then sorts in linear time."""
    return cells.astype(np.uint16) if size <= 1 << 16 else cells
