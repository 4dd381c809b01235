"""The queries of a workload as SQL statements: what a person would run on the private table.

For `mwem_compare` alone, which is not private. A release never asks in this way: here an expression meets values that
are in no domain, and may fail on them. Runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce

from sqlglot import exp

from mwem_sql.compile.read import Parts, read_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.language.conditions import Condition, Leaf
from mwem_sql.workload import Workload


@dataclass(frozen=True, eq=False, kw_only=True)
class Statement:
    """A query: what it groups by, the rows that it is about, and what it adds up or averages; None counts them."""

    groups: tuple[exp.Expr, ...]
    condition: exp.Expr | None
    measure: exp.Expr | None
    is_average: bool
    by_bins: bool
    """It groups by a column with bins, or with values off its domain in one cell: SQL has no such groups."""

    @property
    def aggregate(self) -> exp.Expr:
        """What it asks of all rows, without its groups."""
        if self.measure is None:
            counted = exp.Star() if self.condition is None else self.condition
            return exp.Anonymous(this="count" if self.condition is None else "count_if", expressions=[counted.copy()])
        value: exp.Expr = exp.cast(self.measure.copy(), "DOUBLE")
        if self.condition is not None:
            value = exp.Case(ifs=[exp.If(this=self.condition.copy(), true=value)])
        return exp.Anonymous(this="avg" if self.is_average else "sum", expressions=[value])

    def grouped(self, rows: exp.Expr) -> exp.Select:
        """The groups, as text, and what is asked of each."""
        listed = [exp.cast(group.copy(), "VARCHAR") for group in self.groups]
        select = exp.select(*listed, replace(self, condition=None).aggregate).from_(rows)
        if self.condition is not None:
            select = select.where(self.condition.copy())
        select.set("group", exp.Group(all=True))
        return select


def statements(domain: Domain, workload: Workload) -> Iterator[Statement]:
    """Each query of a workload that was compiled against this domain."""
    reading = read_workload(domain, workload)
    for query, parts in zip(workload, reading.parts, strict=True):
        conditions = [_condition(part.what) for part in parts if part.role == "truth"]
        groups = list(_leaves(parts, "group"))
        factors = [_text(leaf) for leaf in _leaves(parts, "factor")]
        yield Statement(
            groups=tuple(map(_text, groups)),
            condition=_joined(exp.And, conditions) if conditions else None,
            measure=_joined(exp.Mul, factors) if factors else None,
            is_average=query.measure is not None and reading.measures[query.measure].is_average,
            by_bins=any(leaf.is_column and _has_cells(domain[leaf.columns[0]]) for leaf in groups),
        )


def _has_cells(attribute: Attribute) -> bool:
    """Whether its values are counted together in some cells."""
    return attribute.has_bins or attribute.open


def _leaves(parts: Parts, role: str) -> Iterator[Leaf]:
    for part in parts:
        if part.role == role:
            assert isinstance(part.what, Leaf)
            yield part.what


def _condition(condition: Condition) -> exp.Expr:
    if isinstance(condition, Leaf):
        return exp.cast(_text(condition), "BOOLEAN")  # a number is a condition, too: WHERE age
    inner = list(map(_condition, condition.parts))
    if condition.connective == "not":
        return exp.Paren(this=exp.Not(this=inner[0]))
    return exp.Paren(this=_joined(exp.And if condition.connective == "and" else exp.Or, inner))


def _text(leaf: Leaf) -> exp.Expr:
    """A leaf was printed when it was read, and is not parsed again."""
    return exp.Paren(this=exp.Var(this=leaf.sql))


def _joined(operator: type[exp.Binary], operands: Iterable[exp.Expr]) -> exp.Expr:
    return reduce(lambda one, other: operator(this=one, expression=other), operands)
