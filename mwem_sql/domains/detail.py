"""Cells finer than the workload's classes, on which the distribution of one attribute is measured. Public all of it.

A workload that asks `pay > 50000` has two classes, and NULL is in one of them. What is written into synthetic rows, and
later questions, need more: the distribution of pay inside a class. Here the public domain is cut into even parts, and
NULL is a cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mwem_sql.algebra.arrays import Floats, Labels
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.partition import Partition, refine
from mwem_sql.algebra.sets import distinct
from mwem_sql.domains.classes import Classes, part_edges, with_outer

PARTS = 256
"""Even parts of a domain, at most; a class that is no wider than one is not cut. More: values lie closer, in one more
round of more noise, and SQL takes more comparisons to find a row's part (`codes.MAX_TREE`). `benchmarks/ordinary.py`
measures it."""
MOST_PARTS = 2**14
"""Parts of all attributes together. With more attributes than this has room for, each gets fewer."""


@dataclass(frozen=True, eq=False)
class Detail:
    """The workload's classes of an attribute, and their parts, `cells`, on the same pieces.

    `name` stands for the attribute's cells among the attributes of a scan. NULL, if it is a value, is the last cell, of
    nothing else.
    """

    name: str
    classes: Classes
    cells: Classes

    @property
    def count(self) -> int:
        return self.cells.count

    @property
    def has_null(self) -> bool:
        return self.classes.attribute.nullable

    @property
    def parents(self) -> Labels:
        """The class of each cell."""
        return self.classes.codes[self.cells.representatives]

    @property
    def query(self) -> LinearQuery:
        return LinearQuery((Block((self.name,), np.arange(self.count, dtype=np.int32), self.count),))

    def weigh(self, groups: Partition, labels: Labels, rows: Floats, kinds: Labels | None = None) -> Classes:
        """The classes in the `groups` of a state, with the measured `rows` of each cell as weights.

        No measurement distinguishes cells of one label, nor classes of one kind: neighbours in one group become one
        piece.
        """
        pieces, codes = self.classes.pieces, groups.codes[self.classes.codes]
        parts = refine(codes, labels[self.cells.codes])
        if kinds is not None:
            parts = refine(parts, kinds[self.classes.codes])
        sums = np.bincount(parts[self.cells.representatives], rows)
        # A single point on a continuous range has no length.
        sizes = np.where(np.bincount(parts, pieces.sizes)[parts] > 0, pieces.sizes, 1.0)
        weights = sizes * (sums / np.bincount(parts, sizes))[parts]
        if pieces.listed:
            return Classes(pieces, codes, weights)
        longer = Classes(pieces, parts).joined().pieces
        joined = Partition(longer.holding(pieces.lows).astype(np.int32), weights)
        return Classes(longer, codes[joined.representatives], joined.sums)

    def cells_of(self, stored: Classes) -> Labels:
        """Of each piece of the classes that `weigh` gives, a cell that it is made of."""
        pieces = self.classes.pieces
        return self.cells.codes if pieces.listed else self.cells.codes[pieces.holding(stored.pieces.lows)]


def details_of(
    classes: Mapping[str, Classes], *, parts: int = PARTS, most_parts: int = MOST_PARTS
) -> dict[str, Detail]:
    """The details of attributes that have wide classes, by name: each in `parts`, all in `most_parts` together."""
    parts = min(parts, max(1, most_parts // max(1, len(classes))))
    out = {}
    for name, whole in classes.items():
        finer = _cut(whole, parts)
        if finer.count > whole.count:
            inside = whole.codes if whole.pieces.listed else whole.holding(finer.pieces)
            out[name] = Detail(_free(f"{name} in detail", classes), Classes(finer.pieces, inside), finer)
    return out


def _cut(whole: Classes, parts: int) -> Classes:
    """The same classes in parts, those of them that are wider than one; and NULL by itself."""
    pieces, count = whole.pieces, whole.pieces.non_null
    if pieces.listed:
        part = np.arange(count) * min(parts, count) // count
        codes = whole.codes
    else:
        edges = np.array(with_outer(whole.attribute, part_edges(whole.attribute, parts)), dtype=pieces.lows.dtype)
        pieces = pieces.cut(distinct(pieces.lows, edges))
        count, codes = pieces.non_null, whole.holding(pieces)
        part = np.searchsorted(edges, pieces.lows, side="right") - 1
    sizes = np.bincount(codes[:count], pieces.sizes[:count], minlength=whole.count)
    part = np.where((sizes > sizes.sum() / parts)[codes[:count]], part, -1)
    if whole.attribute.nullable:
        part = np.append(part, -2)
    return Classes(pieces, refine(codes, part)).joined()


def _free(name: str, taken: Mapping[str, object]) -> str:
    return name if name not in taken else _free(f"{name}, again", taken)
