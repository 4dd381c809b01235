"""Dialect: what a scan needs of an engine's SQL, and the public facts that every dialect starts from. Runs nothing.

A dialect writes the class of a value, groups, bounded units and sums as sqlglot trees, and prints them. What it writes
is total: no row can make it raise. Every dialect gives the same classes for the same values, so that answers do not
depend on where the rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from mwem_sql.domains.classes import Classes
from mwem_sql.language.ticks import Scale

COUNT = "__count"
"""The last column of a statement that groups."""
LARGEST_SUM = 2**63 - 1
"""Where sums saturate, on either side of 0: what an int64 holds."""


class PrivateRows(Protocol):
    """What a scan reads: a table, or a private relation written out."""

    def tree(self) -> exp.Expr: ...


@dataclass(frozen=True)
class Unit:
    """Whose rows are protected together, and how many of them are read."""

    column: str
    rows: int
    type: str = "BIGINT"

    @property
    def is_text(self) -> bool:
        return self.type.startswith("VARCHAR")


@dataclass(frozen=True, eq=False)
class Reading:
    """How a column of a result is read: NULL is the class `missing`, anything else a code.

    Of a column with too many cuts for SQL it is a tick instead, and has the class `codes[i]` of the last run that
    begins, at `starts[i]`, no later.
    """

    missing: int
    starts: npt.NDArray[Any] | None = None
    codes: npt.NDArray[np.int32] | None = None


def missing(classes: Classes) -> int:
    """The class of NULL. Where no NULL can be, that of values off the list, or else of the first ones."""
    return int(classes.codes[-1]) if classes.attribute.nullable else other(classes)


def other(classes: Classes) -> int:
    """The class of values off a list. Where none can be, that of NULL, or else of the first values."""
    attribute = classes.attribute
    if attribute.values is None or not attribute.open:
        return int(classes.codes[-1 if attribute.nullable else 0])
    return int(classes.codes[len(attribute.values)])


def first_of_runs(classes: Classes) -> npt.NDArray[np.intp]:
    """The first piece of each run of neighbouring pieces in one class, NULL aside."""
    return np.flatnonzero(np.diff(classes.codes[: classes.pieces.known], prepend=-1))


def has_value(column: exp.Expr) -> exp.Expr:
    """Whether a column is not NULL."""
    return exp.Not(this=exp.Is(this=column.copy(), expression=exp.null()))


class Dialect(Protocol):
    """How one engine's SQL says what a scan needs.

    `streams`: whether a scan may hand over a code for every row, as the pairwise product needs. Only where the rows
    are in this process: over a wire go counts of public cells. `most_groups` is how many cells a GROUP BY may have that
    unites attribute sets to save scans.
    """

    @property
    def name(self) -> str: ...
    @property
    def streams(self) -> bool: ...
    @property
    def most_groups(self) -> int | None: ...
    def is_text(self, classes: Classes) -> bool: ...
    def is_wide(self, classes: Classes) -> bool: ...
    def reading(self, classes: Classes) -> Reading: ...
    def source(self, table: PrivateRows, columns: Sequence[Classes], unit: Unit | None) -> exp.Expr: ...
    def unit_key(self, unit: Unit) -> exp.Expr: ...
    def grouped(self, source: exp.Expr, columns: Sequence[Classes]) -> exp.Select: ...
    def coded(self, source: exp.Expr, columns: Sequence[Classes]) -> exp.Select: ...
    def whole_code(self, classes: Classes) -> exp.Expr: ...
    def lookup(self, table: Sequence[int], index: exp.Expr, kind: str) -> exp.Expr: ...
    def count(self, test: exp.Expr | None) -> exp.Expr: ...
    def total(self, amount: exp.Expr) -> exp.Expr: ...
    def finite(self, value: exp.Expr, scale: Scale) -> exp.Expr | None: ...
    def constant(self, text: str, type_text: str) -> exp.Expr: ...
    def sql(self, tree: exp.Expr, *, pretty: bool = False) -> str: ...
