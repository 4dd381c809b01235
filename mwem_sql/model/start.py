"""A start: what public rows of before say of the attributes, for a run to begin with instead of the even distribution.

Owns the tree of pairs that it keeps of how attributes go together (Chow and Liu: of all trees the one with the largest
mutual information), and how a state takes it. Rows are public, as codes of the problem's classes. Knows no SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.table import Names, Table
from mwem_sql.model.state import State
from mwem_sql.model.support import Support

Codes = npt.NDArray[np.int32]

SPREAD_ROWS = 1.0
"""Rows that every table of counts gets in addition, spread evenly: what no row of before has is rare, not impossible.
More: a start of few rows says less."""
MOST_PAIR_CELLS = 2**14
"""Class combinations of a pair that is kept. More: a larger model, and less room for what is measured."""
MOST_PAIRED = 120
"""Attributes whose pairs are compared, those of the largest entropy. More: 1/2 of the square of it in tables."""
FIT_SWEEPS, FIT_CLOSE = 100, 1e-9
"""Proportional fitting of a pair to what its attributes are alone: at most so often, and until rows differ by this
share."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Start:
    """Shares of rows of before: by attribute, and of the pairs of a tree of attributes."""

    one_ways: Mapping[str, Floats]
    pairs: Sequence[Table] = ()

    @classmethod
    def of(cls, codes: Mapping[str, Codes], sizes: Mapping[str, int]) -> Start:
        """From rows: of each attribute the class of every row, or -1 for values that have no class here."""
        one_ways = {name: shares_of(codes, sizes, (name,)).cells for name in codes}
        present = [name for name in codes if (codes[name] >= 0).any() and sizes[name] > 1]
        paired = set(sorted(present, key=lambda name: -_entropy(one_ways[name]))[:MOST_PAIRED])
        pairs = [
            shares_of(codes, sizes, pair)
            for pair in combinations([name for name in present if name in paired], 2)
            if prod(sizes[name] for name in pair) <= MOST_PAIR_CELLS
        ]
        return cls(one_ways=one_ways, pairs=_tree(pairs))

    def base(self, sizes: Mapping[str, Floats]) -> dict[str, Floats]:
        """The base measure of all classes: that of before where there is one."""
        return {name: self.one_ways.get(name, size) for name, size in sizes.items()}

    def state(self, sizes: Mapping[str, Floats], total: float, support: Support[State] | None = None) -> State:
        """The distribution of before, scaled to a total; attributes that it does not have are even."""
        state = State.unsplit(self.base(sizes), total, support)
        if support is not None:
            for name, shares in self.one_ways.items():
                state.take(every_cell((name,), shares.shape), shares * total)
        self.join(state)
        return state

    def join(self, state: State) -> None:
        """Let attributes of a state go together as before, and each by itself be as it is in the state.

        Attributes of a pair must not be in one tree yet.
        """
        for pair in self.pairs:
            rows, columns = (state.marginal([name]) for name in pair.names)
            state.take(every_cell(pair.names, pair.shape), _fitted(pair.cells, rows, columns))


def shares_of(codes: Mapping[str, Codes], sizes: Mapping[str, int], names: Names) -> Table:
    """The shares of the classes of some attributes, among rows that have one of each."""
    has_class = np.all([codes[name] >= 0 for name in names], axis=0)
    shape = [sizes[name] for name in names]
    places = np.ravel_multi_index([codes[name][has_class] for name in names], shape)
    counts = np.bincount(places, minlength=prod(shape)).reshape(shape) + SPREAD_ROWS / prod(shape)
    return Table(names, counts / counts.sum())


def _entropy(shares: Floats) -> float:
    return float(-(shares * np.log(shares)).sum())


def _information(pair: Table) -> float:
    """The mutual information of two attributes."""
    rows, columns = pair.cells.sum(axis=1), pair.cells.sum(axis=0)
    return _entropy(rows) + _entropy(columns) - _entropy(pair.cells)


def _tree(pairs: Iterable[Table]) -> list[Table]:
    """Kruskal's algorithm for the tree of largest mutual information."""
    group: dict[str, frozenset[str]] = {}
    kept = []
    for pair in sorted(pairs, key=_information, reverse=True):
        one, other = (group.get(name, frozenset([name])) for name in pair.names)
        if one != other:
            kept.append(pair)
            group.update(dict.fromkeys(one | other, one | other))
    return kept


def _fitted(cells: Floats, rows: Floats, columns: Floats) -> Floats:
    """Cells with these sums, by proportional fitting: how they go together stays."""
    for _ in range(FIT_SWEEPS):
        cells = cells * (rows / cells.sum(axis=1))[:, None]
        cells = cells * (columns / cells.sum(axis=0))
        if np.abs(cells.sum(axis=1) - rows).sum() <= FIT_CLOSE * rows.sum():
            break
    return cells


def every_cell(names: Names, shape: Sequence[int]) -> LinearQuery:
    """All class combinations of some attributes."""
    blocks = [Block((name,), np.arange(size, dtype=np.int32), size) for name, size in zip(names, shape, strict=True)]
    return LinearQuery(tuple(blocks))
