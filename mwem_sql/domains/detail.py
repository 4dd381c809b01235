"""Classes finer than the workload's, on which the own distribution of an attribute is measured. Public all of it.

A workload that asks `pay > 50000` tells two classes apart, and NULL is in one of them. What is written into synthetic rows, and later
questions, need more: how pay is spread inside a class. Here the public domain is cut into even parts, and NULL is a cell of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import Block, LinearQuery, tell_apart
from mwem_sql.domains.classes import Classes, Ints, part_edges, with_outer

PARTS = 256
"""Even parts of a domain, at most; a class that is no wider than one is not cut. More: values lie closer, in one more round of more noise, and a
row's part is found by more comparisons (`codes.MAX_TREE`). `benchmarks/ordinary.py` measures it."""
MOST_PARTS = 2**14
"""Parts of all attributes together. With more attributes than this has room for, each gets fewer."""


@dataclass(frozen=True, eq=False)
class Detail:
    """An attribute's cells: parts of the workload's classes. `classes` are these on pieces that are cut further, `cells` has the cell of each piece.

    `name` stands for the attribute's cells among the attributes of a scan. NULL, where there is one, is the last cell, and nothing else is in it.
    """

    name: str
    classes: Classes
    cells: Ints

    @property
    def scanned(self) -> Classes:
        """The cells as classes that a row is put in."""
        return Classes(self.classes.pieces, self.cells)

    @property
    def count(self) -> int:
        return self.scanned.count

    @property
    def has_null(self) -> bool:
        return self.classes.attribute.nullable

    @property
    def parents(self) -> Ints:
        """The class that each cell is in."""
        return self.classes.codes[self.scanned.representatives]

    @property
    def query(self) -> LinearQuery:
        return LinearQuery((Block((self.name,), np.arange(self.count, dtype=np.int32), self.count),))

    def told(self, groups: Ints, labels: Ints, rows: Floats) -> Classes:
        """The classes of a state that has them in `groups`, with what was measured: `rows` of each cell; cells of one label were not told apart."""
        own, codes = self.classes.pieces, groups[self.classes.codes]
        told = tell_apart(codes, labels[self.cells])
        sums = np.bincount(told[self.scanned.representatives], rows)
        # What is a single point on a continuous range has no length.
        sizes = np.where(np.bincount(told, own.sizes)[told] > 0, own.sizes, 1.0)
        weights = sizes * (sums / np.bincount(told, sizes))[told]
        if own.listed:
            return Classes(own, codes, weights)
        joined = Classes(own, told).joined().pieces
        place = joined.holding(own.lows)
        firsts = np.unique(place, return_index=True)[1]
        return Classes(joined, codes[firsts], np.bincount(place, weights).astype(np.float64, copy=False))

    def cells_of(self, stored: Classes) -> Ints:
        """Of each piece of the classes that `told` gives, a cell that it is made of."""
        own = self.classes.pieces
        return self.cells if own.listed else self.cells[own.holding(stored.pieces.lows)]


def details_of(classes: Mapping[str, Classes]) -> dict[str, Detail]:
    """Of each attribute whose classes can be told finer, its cells."""
    parts = min(PARTS, max(1, MOST_PARTS // max(1, len(classes))))
    out = {}
    for name, own in classes.items():
        finer = _cut(own, parts)
        if finer.count > own.count:
            cells = finer.codes
            inside = own.codes if own.pieces.listed else own.holding(finer.pieces)
            out[name] = Detail(_free(f"{name} in detail", classes), Classes(finer.pieces, inside), cells)
    return out


def _cut(own: Classes, parts: int) -> Classes:
    """The same classes in parts, those of them that are wider than one; and NULL by itself."""
    pieces, known = own.pieces, own.pieces.known
    if pieces.listed:
        part = np.arange(known) * min(parts, known) // known
        codes = own.codes
    else:
        edges = np.array(with_outer(own.attribute, part_edges(own.attribute, parts)), dtype=pieces.lows.dtype)
        pieces = pieces.cut(np.union1d(pieces.lows, edges))
        known, codes = pieces.known, own.holding(pieces)
        part = np.searchsorted(edges, pieces.lows, side="right") - 1
    sizes = np.bincount(codes[:known], pieces.sizes[:known], minlength=own.count)
    part = np.where((sizes > sizes.sum() / parts)[codes[:known]], part, -1)
    if own.attribute.nullable:
        part = np.append(part, -2)
    return Classes(pieces, tell_apart(codes, part)).joined()


def _free(name: str, taken: Mapping[str, object]) -> str:
    return name if name not in taken else _free(f"{name}, again", taken)
