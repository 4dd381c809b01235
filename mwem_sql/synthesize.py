"""Class codes of synthetic rows, which follow the weights of a state much more closely than independent draws would.

Inside a factor the expected counts are rounded, so that each cell has its expected number of rows to within 1. Across
factors, whose joint is a product, the cells are dealt evenly to the rows. Which value of a class a row gets, and the
table it goes to, are for the caller.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mwem_sql.compiler.linear import Floats
from mwem_sql.state import Mixture, State

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

    A factor's cells, sorted, are dealt to the rows by the ranks of a golden-ratio sequence: any run of neighbouring
    rows gets an even selection of them. Rows are kept sorted by the factors dealt last, so that the rows that agree
    in those are neighbours. The largest factor goes first: after it every row may be alone in its cell.
    """
    ranks = np.empty(rows, dtype=np.int64)
    ranks[np.argsort(np.arange(rows) * GOLDEN % 1)] = np.arange(rows)
    order = np.arange(rows)
    codes: dict[str, Codes] = {}
    for factor in sorted(state.factors, key=lambda factor: -factor.weights.size):
        cells = np.repeat(np.arange(factor.weights.size), systematic_counts(factor.weights, rows, generator))
        if codes:
            # Indices below 0 count from the end: the ranks are rotated at random.
            dealt = cells[ranks - generator.integers(max(rows, 1))]
            order = order[np.argsort(_narrow(dealt, factor.weights.size), kind="stable")]
        # In the new order the cells are sorted again.
        for name, code in zip(factor.attributes, np.unravel_index(cells, factor.shape), strict=True):
            codes[name] = np.empty(rows, dtype=np.int32)
            codes[name][order] = code
    return codes


def _narrow(cells: Indices, size: int) -> npt.NDArray[np.integer]:
    """The same numbers in 16 bits where they fit: numpy then sorts in linear time."""
    return cells.astype(np.uint16) if size <= 1 << 16 else cells
