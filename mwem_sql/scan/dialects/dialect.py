"""Dialect: what a scan needs of an engine's SQL, and the public facts that every dialect starts from. Runs nothing.

A dialect writes the class of a value, groups, bounded units and sums as sqlglot trees, and prints them. What it writes
is total: no row can make it raise. Every dialect gives the same classes for the same values, so that answers do not
depend on where the rows are.

The base has SQL that many engines share. One primitive carries it: a function of a value that is constant between given
starts (`Dialect.steps`). Values are compared with typed constants, texts byte by byte. A code is never NULL: unknown
and missing values have theirs. The engine makes all codes, so that one row for each combination of classes leaves it,
never one for each row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes
from mwem_sql.errors import OptionError, refuse, refuse_domain
from mwem_sql.language.ticks import Scale, Tick, cast, scale_of

COUNT = "__count"
"""The last column of a statement that groups."""
LARGEST_SUM = 2**63 - 1
"""Where sums saturate, on either side of 0: what an int64 holds."""
TEXT_TYPES = ("VARCHAR", "UUID")
"""Types that are compared by the bytes of their texts, as labels of an ENUM are."""


LONGEST_TEXT = 200
"""Characters of a text that is a category. Longer ones are not found by a release. More: larger lists in SQL."""


class PrivateRows(Protocol):
    """What a scan reads: a table, or the SELECT of a private relation."""

    def tree(self) -> exp.Expr: ...


@dataclass(frozen=True)
class Unit:
    """Whose rows are protected together, and how many of them are read.

    `others` are the further columns, with their types, of a key of several.
    """

    column: str
    rows: int
    type: str = "BIGINT"
    others: tuple[tuple[str, str], ...] = ()

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The columns that identify it, with their types."""
        return ((self.column, self.type), *self.others)

    @property
    def known(self) -> exp.Expr:
        """Whether a row is of a unit."""
        return exp.and_(*(has_value(exp.column(name, quoted=True)) for name, _ in self.columns))


@dataclass(frozen=True, eq=False)
class ColumnReading:
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
    return np.flatnonzero(np.diff(classes.codes[: classes.pieces.non_null], prepend=-1))


def has_value(column: exp.Expr) -> exp.Expr:
    """Whether a column is not NULL."""
    return exp.Not(this=is_null(column))


class Dialect:
    """SQL of CASE, comparisons, GROUP BY and COUNT. Engines differ in the methods without an underscore.

    `streams`: whether a scan may hand over a code for every row, as the pairwise product needs. Only where the rows
    are in this process: over a wire go counts of public cells. `most_groups` is how many cells a GROUP BY may have that
    unites attribute sets to save scans.
    """

    name: str
    streams = False
    most_groups: int | None = 2**20

    def is_text(self, classes: Classes) -> bool:
        """Whether the code of a value is looked up in a list: done for groups, not for rows."""
        return classes.attribute.values is not None

    def is_wide(self, classes: Classes) -> bool:  # noqa: ARG002  the engine makes all codes
        return False

    def reading(self, classes: Classes) -> ColumnReading:
        return ColumnReading(missing(classes))

    def source(self, table: PrivateRows, columns: Sequence[Classes], unit: Unit | None) -> exp.Expr:
        """The private relation, or at most `unit.rows` rows of each unit.

        A unit's rows are ranked by a hash of the unit and of their codes, which are all that a scan reads of them:
        every scan keeps rows with the same codes, and no unit's choice depends on another's. Rows without a unit are
        left out.
        """
        if unit is None:
            return table.tree()
        key = self.unit_key(unit)
        ranked = [self.whole_code(classes) for classes in columns]
        order = [exp.Ordered(this=item) for item in (self.hash([*key, *ranked]), *ranked)]
        partition = [column.copy() for column in key]
        rank = exp.Window(this=exp.RowNumber(), partition_by=partition, order=exp.Order(expressions=order))
        names = dict.fromkeys(classes.attribute.name for classes in columns)
        kept = [exp.column(name, quoted=True) for name in names]
        inner = (
            exp.select(*kept, exp.alias_(rank, "__rank")).from_(table.tree())
            .where(unit.known)
        )  # fmt: skip
        bounded = (
            exp.select(*(column.copy() for column in kept)).from_(inner.subquery("__ranked"))
            .where(exp.LTE(this=exp.column("__rank"), expression=exp.Literal.number(unit.rows)))
        )  # fmt: skip
        return bounded.subquery("__bounded")

    def unit_key(self, unit: Unit) -> list[exp.Expr]:
        """What distinguishes units: the bytes of a text, or values of a type that all engines print the same way."""
        return [self._unit_column(name, kind) for name, kind in unit.columns]

    def _unit_column(self, name: str, kind: str) -> exp.Expr:
        column = exp.column(name, quoted=True)
        if kind in TEXT_TYPES:
            return self.text(column, kind)
        scale = scale_of(kind)
        if scale is None or scale.family not in {"integer", "date"}:
            raise refuse(
                OptionError,
                "mwem_release",
                f"unit ({name!r}) is of type {kind}, of which engines print the same value in different ways",
                "identify units by a whole number, text, date or UUID",
            )
        return column

    def value_counts(self, table: PrivateRows, column: str, unit: Unit | None) -> exp.Select:
        """How many units have each text of a column, and of how many rows where there is no unit: text and count.

        Of a unit that has more texts than rows are used, those with the least hashes count: no unit's choice depends on
        another's. Texts of more than `LONGEST_TEXT` characters are not counted, nor is NULL.
        """
        cell = exp.column(column, quoted=True)
        text = self.text(cell.copy(), "VARCHAR")
        length = exp.LTE(this=exp.Length(this=cell.copy()), expression=exp.Literal.number(LONGEST_TEXT))
        rows = exp.select().from_(table.tree()).where(has_value(cell), length)
        if unit is None:
            return self._counted(
                [exp.column("t", table="__texts")], rows.select(exp.alias_(text, "t")).subquery("__texts")
            )
        names = [f"u{number}" if number else "u" for number in range(len(unit.columns))]
        keys = [exp.alias_(key, name) for key, name in zip(self.unit_key(unit), names, strict=True)]
        pairs = rows.where(unit.known).distinct().select(*keys, exp.alias_(text, "t")).subquery("__pairs")
        key, value = [exp.column(name, table="__pairs") for name in names], exp.column("t", table="__pairs")
        order = [exp.Ordered(this=item) for item in (self.hash([*key, value]), value.copy())]
        partition = [column.copy() for column in key]
        rank = exp.Window(this=exp.RowNumber(), partition_by=partition, order=exp.Order(expressions=order))
        ranked = exp.select(value.copy(), exp.alias_(rank, "r")).from_(pairs).subquery("__ranked")
        kept = exp.LTE(this=exp.column("r", table="__ranked"), expression=exp.Literal.number(unit.rows))
        bounded = exp.select(exp.column("t", table="__ranked")).from_(ranked).where(kept).subquery("__texts")
        return self._counted([exp.column("t", table="__texts")], bounded)

    def grouped(self, source: exp.Expr, columns: Sequence[Classes]) -> exp.Select:
        """Group by codes; where one is looked up in a list, by the value, and then turn the groups into codes."""
        query = self._counted([self._key(classes) for classes in columns], source.copy())
        if any(map(self.is_text, columns)):
            keys = [exp.column(f"c{k}", table="__groups") for k in range(len(columns))]
            codes = [self._of_key(classes, key) for classes, key in zip(columns, keys, strict=True)]
            query = self._counted(codes, query.subquery("__groups"), exp.column(COUNT, table="__groups"))
        return query

    def _counted(self, keys: Sequence[exp.Expr], source: exp.Expr, counts: exp.Expr | None = None) -> exp.Select:
        """How many rows of a source have each combination of keys, or the sums of `counts`.

        In a subquery: a column of the table with the same name as a key cannot shadow it.
        """
        inner = [exp.alias_(key, f"v{k}", copy=False) for k, key in enumerate(keys)]
        count = self.count(None)
        if counts is not None:
            inner.append(exp.alias_(counts, "n"))
            count = cast(self.added(exp.column("n", table="__codes")), "BIGINT")
        names = [exp.column(f"v{k}", table="__codes") for k in range(len(keys))]
        shown = [exp.alias_(name.copy(), f"c{k}") for k, name in enumerate(names)]
        rows = exp.select(*inner, copy=False).from_(source, copy=False).subquery("__codes", copy=False)
        return exp.select(*shown, exp.alias_(count, COUNT)).from_(rows, copy=False).group_by(*names)

    def coded(self, source: exp.Expr, columns: Sequence[Classes]) -> exp.Select:
        raise NotImplementedError  # rows are not streamed over a wire, see `streams`

    def whole_code(self, classes: Classes) -> exp.Expr:
        return self._of_key(classes, self._key(classes)) if self.is_text(classes) else self._bounded(classes)

    def _key(self, classes: Classes) -> exp.Expr:
        """What to group by so that a group has one code."""
        column = exp.column(classes.attribute.name, quoted=True)
        if not self.is_text(classes):
            return self.whole_code(classes)
        return self.text(column, classes.attribute.type) if classes.attribute.type in TEXT_TYPES else column

    def _of_key(self, classes: Classes, key: exp.Expr) -> exp.Expr:
        """The code of a key."""
        attribute = classes.attribute
        if attribute.values is None:
            return key
        if attribute.type.startswith("ENUM("):
            key = self.text(key, attribute.type)
        codes = dict(zip(attribute.values, classes.codes.tolist(), strict=False))
        if attribute.type == "BOOLEAN":
            code_of = {text == "true": codes.get(text, other(classes)) for text in ("true", "false")}
            cases = [
                exp.If(this=exp.EQ(this=key.copy(), expression=exp.convert(value)), true=exp.Literal.number(code))
                for value, code in code_of.items()
            ]
            return _narrow(exp.Case(ifs=cases, default=exp.Literal.number(missing(classes))), classes)
        if not codes:  # an open list of nothing
            return _narrow(choose(is_null(key), missing(classes), other(classes)), classes)
        # A binary search among all values that are listed, and one comparison.
        texts = sorted(codes, key=_order(attribute))
        constants = [self.constant(text, attribute.type) for text in texts]
        tests = [exp.EQ(this=key.copy(), expression=constant.copy()) for constant in constants]
        leaves = [choose(test, codes[text], other(classes)) for test, text in zip(tests, texts, strict=True)]
        return _narrow(choose(is_null(key), missing(classes), search(key, constants, leaves)), classes)

    def _bounded(self, classes: Classes) -> exp.Expr:
        """The code of a value between bounds; what is outside is taken for the nearest. NaN is above all numbers."""
        attribute = classes.attribute
        column = exp.column(attribute.name, quoted=True)
        runs = first_of_runs(classes)
        starts, codes = classes.pieces.lows[runs].tolist(), classes.codes[runs].tolist()
        code = self.steps(column, attribute.ordered, starts, codes)
        return _narrow(choose(is_null(column), missing(classes), code), classes)

    def steps(self, value: exp.Expr, scale: Scale, starts: Sequence[Tick], results: Sequence[int]) -> exp.Expr:
        """`results[i]` for the last start that is not above a value; the first for what is below all of them."""
        constants = [self.constant(scale.text(tick), scale.type) for tick in starts]
        return search(value, constants, [exp.Literal.number(result) for result in results])

    def lookup(self, table: Sequence[int], index: exp.Expr, kind: str) -> exp.Expr:  # noqa: ARG002  one type serves
        """`table[index]`, counted from 0: constant between the indexes where the table changes."""
        values = np.array(table, dtype=np.int64)
        starts = np.flatnonzero(np.diff(values, prepend=~values[:1]))
        return self.steps(index, Scale("BIGINT", "integer"), starts.tolist(), values[starts].tolist())

    def count(self, test: exp.Expr | None) -> exp.Expr:
        if test is None:
            return exp.Count(this=exp.Star(), big_int=True)
        return exp.Count(this=exp.Case(ifs=[exp.If(this=test, true=exp.Literal.number(1))]), big_int=True)

    def added(self, counts: exp.Expr) -> exp.Expr:
        """Counts of groups, added up."""
        return exp.Sum(this=counts)

    def total(self, amount: exp.Expr) -> exp.Expr:
        """A sum that saturates at what an int64 holds: of DECIMAL(38, 0), which 10^19 rows do not fill."""
        whole = exp.Coalesce(this=exp.Sum(this=cast(amount, "DECIMAL(38,0)")), expressions=[exp.Literal.number(0)])
        most, least = (cast(exp.Literal.string(str(end)), "DECIMAL(38,0)") for end in (LARGEST_SUM, -LARGEST_SUM))
        cases = [
            exp.If(this=exp.GT(this=whole.copy(), expression=most), true=exp.Literal.number(LARGEST_SUM)),
            exp.If(this=exp.LT(this=whole.copy(), expression=least), true=exp.Literal.number(-LARGEST_SUM)),
        ]
        return exp.Case(ifs=cases, default=cast(whole, "BIGINT"))

    def constant(self, text: str, type_text: str) -> exp.Expr:
        """A value as a typed constant. Texts and labels of an ENUM are compared as texts."""
        if type_text in TEXT_TYPES or type_text.startswith("ENUM("):
            return exp.Literal.string(text)
        scale = scale_of(type_text)
        if scale is None:
            raise _unsupported(type_text)
        if scale.family == "integer":
            return exp.Literal.number(text)
        return cast(exp.Literal.string(text), type_text)

    def text(self, value: exp.Expr, type_text: str) -> exp.Expr:  # noqa: ARG002
        """A text that is compared by its bytes, in UTF-8."""
        return value

    def hash(self, values: Sequence[exp.Expr]) -> exp.Expr:
        """MD5 of whole numbers, dates or texts, as texts with a space between them: engines agree on it."""
        joined: exp.Expr = cast(values[0].copy(), "VARCHAR")
        for value in values[1:]:
            spaced = exp.DPipe(this=joined, expression=exp.Literal.string(" "))
            joined = exp.DPipe(this=spaced, expression=cast(value.copy(), "VARCHAR"))
        return exp.MD5(this=joined)

    def finite(self, value: exp.Expr, scale: Scale) -> exp.Expr | None:
        """Whether a value is neither infinite nor NaN; None where the type has no such values."""
        if scale.family != "real":
            return None
        low, high = (self.constant(text, scale.type) for text in ("-Infinity", "Infinity"))
        return exp.and_(exp.GT(this=value, expression=low), exp.LT(this=value.copy(), expression=high))

    def sql(self, tree: exp.Expr, *, pretty: bool = False) -> str:
        return tree.sql(self.name, pretty=pretty)


def is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=value.copy(), expression=exp.null())


def choose(test: exp.Expr, code: int | None, otherwise: exp.Expr | int) -> exp.Expr:
    """One code where a test is true; NULL for None."""
    first, second = (exp.convert(item) if not isinstance(item, exp.Expr) else item for item in (code, otherwise))
    return exp.Case(ifs=[exp.If(this=test, true=first)], default=second)


def _narrow(code: exp.Expr, classes: Classes) -> exp.Expr:
    """A code in a type that is no wider than needed: it goes over the wire."""
    return cast(code, "SMALLINT" if classes.count <= 2**15 else "INTEGER")


def search(value: exp.Expr, starts: Sequence[exp.Expr], leaves: Sequence[exp.Expr]) -> exp.Expr:
    """The leaf of the last start that is not above a value, by a balanced tree of comparisons."""
    if len(leaves) == 1:
        return leaves[0]
    middle = len(leaves) // 2
    test = exp.GTE(this=value.copy(), expression=starts[middle].copy())
    above, below = search(value, starts[middle:], leaves[middle:]), search(value, starts[:middle], leaves[:middle])
    return exp.Case(ifs=[exp.If(this=test, true=above)], default=below)


def _order(attribute: Attribute) -> Callable[[str], Any]:
    """How an engine orders the listed values of an attribute, which are texts as DuckDB prints them."""
    scale = attribute.scale
    if scale is None:
        if attribute.type not in TEXT_TYPES and not attribute.type.startswith("ENUM("):
            raise _unsupported(attribute.type)
        return str.encode
    if scale.family == "real":
        return lambda text: (math.isnan(float(text)), float(text) if not math.isnan(float(text)) else 0.0)
    if scale.family in {"integer", "decimal"}:
        return Decimal
    if not all(re.match(r"\d{4}-", text) for text in attribute.values or ()):
        what = f"attribute {attribute.name} lists a date or time that has no year of four digits"
        raise refuse_domain(f"{what}, which engines write in different ways", "leave the value out")
    return str


def _unsupported(type_text: str) -> Exception:
    return refuse_domain(
        f"values of type {type_text} are not compared in the same way by all engines",
        "cast the column in a view, to a number, text, date or timestamp",
    )
