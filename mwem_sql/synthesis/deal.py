"""Class codes of synthetic rows, block by block: as many rows in each cell of a clique as its table says.

Tables are dealt to rows one after the other: the rows of a cell that a clique shares with those before it get the
clique's cells of that one, evenly with respect to what they got before; across trees, whose joint is a product, all
rows are one such cell. A block holds a fair part of every table and is random in its order, so memory depends on the
block and the state alone. Which value of a class a row gets, and the table it goes to, are for the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.arrays import Integers
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.synthesis.rounding import GOLDEN, CliqueCounts, golden_offsets, systematic_counts, whole_tables

Codes = npt.NDArray[np.unsignedinteger]

BLOCK = 1 << 24
"""Codes in a block: its rows times the attributes. Across cliques rows are even inside a block only, so that few blocks
are better; larger: a block takes more memory."""
DIGIT = 16
"""Bits of the numbers that numpy sorts in linear time."""


def draw_codes(
    state: State | Mixture, rows: int, generator: np.random.Generator, block: int = BLOCK
) -> Iterator[dict[str, Codes]]:
    """The class of each row in each attribute, in blocks of about `block` codes; at least one block.

    The order of rows is random: it carries nothing.
    """
    states = state.states if isinstance(state, Mixture) else (state,)
    left = systematic_counts(np.ones(len(states)), rows, generator)
    decks = [
        [_Deck(counts) for counts in whole_tables(one, count, generator)]
        for one, count in zip(states, left.tolist(), strict=True)
    ]
    blocks = max(1, -(-rows * len(state.attributes) // block))
    for number in range(blocks, 0, -1):
        size = int(left.sum()) // number
        order = generator.permutation(size)
        codes = {name: np.empty(size, _kind(*state.shape([name]))) for name in state.attributes}
        taken = fair_parts(left, np.zeros(len(left), dtype=np.int64), np.array([size]), generator)
        for of_state, part in zip(decks, np.split(order, np.cumsum(taken)[:-1]), strict=True):
            _deal(of_state, codes, part, generator)
        left -= taken
        yield codes


def fair_parts(counts: Integers, groups: Integers, sizes: Integers, generator: np.random.Generator) -> Integers:
    """Parts of counts that sum to `sizes` by group, each its share by count, rounded down or up.

    Groups are in order.
    """
    ends = np.cumsum(counts)
    totals = np.bincount(groups, counts, len(sizes)).astype(np.int64)
    # One offset for the bounds of a group: every run of neighbours gets its share, too.
    offsets = (golden_offsets(len(sizes), generator) * totals).astype(np.int64)
    inside = ends - (np.cumsum(totals) - totals)[groups]
    bounds = (inside * sizes[groups] + offsets[groups]) // np.maximum(totals, 1)[groups]
    bounds += (np.cumsum(sizes) - sizes)[groups]
    return np.diff(bounds, prepend=0)


def _deal(decks: Sequence[_Deck], codes: dict[str, Codes], order: Integers, generator: np.random.Generator) -> None:
    """Write the codes of the rows in `order`.

    Rows are kept sorted by what was dealt last, so that the rows that agree in that are neighbours: any run of
    neighbours gets an even selection of cells. The largest cliques go first: after one of them every row may be alone
    in its cell.
    """
    for number, deck in enumerate(decks):
        order = deck.deal(codes, order, generator, first=number == 0)


class _Deck:
    """The cells of a clique with rows to deal, sorted by what the clique shares with those dealt before it."""

    def __init__(self, counts: CliqueCounts) -> None:
        """A clique's cells without the empty ones."""
        rows, many = counts.table.cells, len(counts.shared)
        self.shared, self.sizes = counts.shared, rows.shape[:many]
        new, shape = counts.table.names[many:], rows.shape[many:]
        cells = np.flatnonzero(rows)
        self.left = rows.reshape(-1)[cells]
        self.groups, inside = np.divmod(cells, prod(shape))
        axes = np.unravel_index(inside, shape)
        self.codes = {name: axis.astype(_kind(size)) for name, axis, size in zip(new, axes, shape, strict=True)}
        self.keys, self.count = inside.astype(_kind(prod(shape))), prod(shape)

    def deal(
        self, codes: dict[str, Codes], order: Integers, generator: np.random.Generator, *, first: bool
    ) -> Integers:
        """Write the codes of the attributes that the clique adds; returns the rows sorted by them."""
        sizes = np.array([len(order)])
        if self.shared:
            cells = np.ravel_multi_index([codes[name][order] for name in self.shared], self.sizes)
            order = order[stable_order(cells, prod(self.sizes))]
            sizes = np.bincount(cells, minlength=prod(self.sizes))
        parts = fair_parts(self.left, self.groups, sizes, generator)
        self.left -= parts
        chosen = np.repeat(np.arange(len(parts)), parts)
        if not first:
            chosen = chosen[_even_order(sizes, generator)]
        for name, of_cell in self.codes.items():
            codes[name][order] = of_cell[chosen]
        return order if first else order[stable_order(self.keys[chosen], self.count)]


def _even_order(sizes: Integers, generator: np.random.Generator) -> Integers:
    """For each position, sorted by group, another one of its group: all of them once, every run of them even."""
    sizes = sizes[sizes > 0]
    steps = np.rint(sizes * GOLDEN).astype(np.int64)
    while (common := np.gcd(steps, sizes) > 1).any():
        steps += common
    turns = (golden_offsets(len(sizes), generator) * sizes).astype(np.int64)
    starts, sizes_, steps, turns = (np.repeat(each, sizes) for each in (np.cumsum(sizes) - sizes, sizes, steps, turns))
    return np.asarray(starts + ((np.arange(len(starts)) - starts) * steps + turns) % sizes_)


def stable_order(numbers: npt.NDArray[np.integer], count: int) -> Integers:
    """The positions of numbers below `count` in ascending order; equal ones keep theirs."""
    order = np.argsort(numbers.astype(np.uint16, copy=False), kind="stable")
    for shift in range(DIGIT, (count - 1).bit_length(), DIGIT):
        order = order[np.argsort((numbers >> shift)[order].astype(np.uint16), kind="stable")]
    return order


def _kind(count: int) -> type[np.unsignedinteger]:
    """The type for numbers below `count`: half of the time goes to moving them."""
    return np.uint16 if count <= 1 << DIGIT else np.uint32
