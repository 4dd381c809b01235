"""Which values of a column the rows of a view can have: what its WHERE conditions say, as a set of values.

    condition   condition AND condition, condition OR condition
                column = constant, column IN (constant, ...), column IS NULL, column IS NOT DISTINCT FROM constant
                column < constant and so on, column BETWEEN constant AND constant
    constant    an expression without columns, of the column's type, or a text that stands for such a value

What else a condition says is not understood, and may be any value: a scope is never smaller than what rows have. A row
on which a condition fails is left out (`views`), so that it is in every scope. Constants are evaluated in the sandbox.
Reads no row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from mwem_sql.language.dialect import fold
from mwem_sql.language.ticks import Scale, cast, scale_of
from mwem_sql.platform.sandbox import Sandbox

Key = int | str
"""A value: its tick, or the text of a type without ticks. Texts are in the order of their code points, which is that
of their bytes in UTF-8."""
Stretch = tuple[Key | None, Key | None]
"""All values from the first up to, and without, the second; without a bound where that is None."""

_TEXT, _BOOLEAN = "VARCHAR", "BOOLEAN"
_LOSSY = "UHUGEINT"
"""DuckDB compares it with a HUGEINT as DOUBLE, of which many whole numbers are one."""
_FAMILIES = {"integer", "date", "timestamp"}
_SIDES: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
"""A comparison read from the right."""


@dataclass(frozen=True)
class Scope:
    """A set of values of a column: stretches in order, which do not touch, and whether NULL is one of them."""

    stretches: tuple[Stretch, ...] = ()
    null: bool = False

    @classmethod
    def of(cls, stretches: Iterable[Stretch], *, null: bool = False) -> Scope:
        """With any stretches: empty ones go, and those that touch are one."""
        out: list[Stretch] = []
        for low, high in sorted(filter(_is_some, stretches), key=lambda stretch: _rank(stretch[0])):
            if out and (low is None or out[-1][1] is None or low <= out[-1][1]):  # type: ignore[operator]
                out[-1] = out[-1][0], None if None in (out[-1][1], high) else max(out[-1][1], high)  # type: ignore[type-var]
            else:
                out.append((low, high))
        return cls(tuple(out), null)

    def __or__(self, other: Scope) -> Scope:
        return Scope.of((*self.stretches, *other.stretches), null=self.null or other.null)

    def __and__(self, other: Scope) -> Scope:
        both = [_common(one, another) for one in self.stretches for another in other.stretches]
        return Scope.of(both, null=self.null and other.null)

    def is_disjoint(self, other: Scope) -> bool:
        return self & other == Scope()

    @property
    def begins_below(self) -> bool:
        """Whether there is no least value."""
        return self.stretches[:1] != () and self.stretches[0][0] is None

    def exact(self) -> str:
        """As it is written down: JSON, with null where NULL is in it."""
        return json.dumps([*([None] if self.null else []), *self.stretches])

    @classmethod
    def read(cls, text: str) -> Scope:
        parts = json.loads(text)
        return cls.of([(low, high) for low, high in filter(None, parts)], null=None in parts)

    def words(self, type_text: str) -> str:
        """For people: '2025-01', '2025-01-01 to 2025-01-31'."""
        parts = [_words(stretch, scale_of(type_text)) for stretch in self.stretches]
        return ", ".join([*parts, *(["NULL"] if self.null else [])]) or "no value"


EVERYTHING = Scope(((None, None),), null=True)


def is_comparable(type_text: str) -> bool:
    """Whether values of a type are understood: texts, ENUM, BOOLEAN, whole numbers, dates and timestamps."""
    scale = scale_of(type_text)
    return type_text in {_TEXT, _BOOLEAN} or type_text.startswith("ENUM(") or (
        scale is not None and scale.family in _FAMILIES
    )  # fmt: skip


def kind_of(type_text: str) -> str:
    """What stays the same of a type while its scopes mean the same: labels may be added to an ENUM."""
    scale = scale_of(type_text)
    return scale.family if scale is not None else type_text.partition("(")[0]


def scope_of(conditions: Sequence[exp.Expr], column: str, type_text: str, settings: Mapping[str, object]) -> Scope:
    """The values of a column that rows which meet all conditions can have."""
    with Sandbox(settings) as sandbox:
        reader = _Reader(column, type_text, sandbox)
        return reduce(lambda scope, tree: scope & reader.read(tree), conditions, EVERYTHING)


@dataclass(frozen=True)
class _Reader:
    """Reads conditions on one column."""

    column: str
    kind: str
    sandbox: Sandbox

    def read(self, tree: exp.Expr) -> Scope:
        tree = tree.unnest()
        if isinstance(tree, exp.And):
            return self.read(tree.this) & self.read(tree.expression)
        if isinstance(tree, exp.Or):
            return self.read(tree.this) | self.read(tree.expression)
        if isinstance(tree, exp.Is) and self._is_column(tree.this) and isinstance(tree.expression, exp.Null):
            return Scope(null=True)
        if isinstance(tree, exp.In) and self._is_column(tree.this):
            return reduce(Scope.__or__, self._compared_all([(exp.EQ, each) for each in tree.expressions]), Scope())
        if isinstance(tree, exp.Between) and self._is_column(tree.this) and not tree.args.get("symmetric"):
            pairs = [(exp.GTE, tree.args["low"]), (exp.LTE, tree.args["high"])]
            return reduce(Scope.__and__, self._compared_all(pairs))
        if isinstance(tree, (exp.EQ, exp.NullSafeEQ, *_SIDES)):
            if self._is_column(tree.this):
                return self._compared(type(tree), tree.expression)
            if self._is_column(tree.expression):
                return self._compared(_SIDES.get(type(tree), type(tree)), tree.this)
        return EVERYTHING

    def _is_column(self, tree: exp.Expr) -> bool:
        tree = tree.unnest()
        return isinstance(tree, exp.Column) and fold(tree.name) == fold(self.column)

    def _compared_all(self, pairs: Sequence[tuple[type[exp.Expr], exp.Expr]]) -> list[Scope]:
        """Comparisons that DuckDB makes in one type, that of all constants: understood if they have the same."""
        kinds = set(self.sandbox.tried([_typeof(constant) for _, constant in pairs])) if pairs else set()
        scopes = [self._compared(operator, constant) for operator, constant in pairs]
        return scopes if len(kinds) == 1 and EVERYTHING not in scopes else [EVERYTHING]

    def _compared(self, operator: type[exp.Expr], constant: exp.Expr) -> Scope:
        value = self._value(constant.unnest())
        if value is None or (operator in _SIDES and not self._is_ordered):
            return EVERYTHING
        after: Key = value + 1 if isinstance(value, int) else f"{value}\0"
        stretches: dict[type[exp.Expr], Stretch] = {
            exp.LT: (None, value), exp.LTE: (None, after), exp.GT: (after, None), exp.GTE: (value, None),
        }  # fmt: skip
        return Scope.of([stretches.get(operator, (value, after))])

    @property
    def _is_ordered(self) -> bool:
        """An ENUM is in the order of its labels, which is not that of texts."""
        return self.kind == _TEXT or scale_of(self.kind) is not None

    def _value(self, constant: exp.Expr) -> Key | None:
        """The value of the column that a constant is equal to, and to no other; None where that is not certain."""
        if any(isinstance(node, (exp.Column, exp.Placeholder, exp.Collate)) for node in constant.walk()):
            return None
        typed = cast(constant.copy(), self.kind)
        beside, value, tick = self.sandbox.tried([_typeof(constant), cast(typed, _TEXT), self._tick(typed)])
        is_text = isinstance(constant, exp.Literal) and constant.is_string
        if not isinstance(value, str) or not (is_text or self._is_injective(str(beside))):
            return None
        # DuckDB converts both sides of a comparison by rules of its own, which depend on their types.
        column = cast(exp.Literal.string(value), self.kind)
        if self.sandbox.tried([exp.EQ(this=column, expression=constant.copy())]) != [True]:
            return None
        scale = scale_of(self.kind)
        if scale is None:
            return value
        least, most = scale.limits
        return tick if isinstance(tick, int) and least < tick < most else None

    def _tick(self, value: exp.Expr) -> exp.Expr:
        scale = scale_of(self.kind)
        return exp.null() if scale is None else scale.measure(value.copy())

    def _is_injective(self, beside: str) -> bool:
        """Whether, beside a constant of this type, no two values of the column are compared as equal ones."""
        scale, other = scale_of(self.kind), scale_of(beside)
        if scale is None or other is None:
            return beside == self.kind or (beside == _TEXT and self.kind.startswith("ENUM("))
        if _LOSSY in {self.kind, beside}:
            return False
        return scale.family == other.family or {scale.family, other.family} == {"date", "timestamp"}


def _typeof(constant: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="typeof", expressions=[constant.copy()])


def _is_some(stretch: Stretch) -> bool:
    low, high = stretch
    return low is None or high is None or low < high  # type: ignore[operator]


def _rank(low: Key | None) -> tuple[bool, Key]:
    return (low is not None, 0 if low is None else low)


def _common(one: Stretch, other: Stretch) -> Stretch:
    lows = [low for low in (one[0], other[0]) if low is not None]
    highs = [high for high in (one[1], other[1]) if high is not None]
    return max(lows, default=None), min(highs, default=None)


def _words(stretch: Stretch, scale: Scale | None) -> str:
    low, high = stretch
    if scale is not None:
        least = "" if low is None else scale.text(int(low))
        most = "" if high is None else scale.text(int(high) - 1)
        starts, ends = f"from {least}", f"up to {most}"
    else:
        least, most = str(low or "").removesuffix("\0"), str(high or "").removesuffix("\0")
        starts = f"after {least}" if str(low).endswith("\0") else f"from {least}"
        ends = f"up to {most}" if str(high).endswith("\0") else f"before {most}"
    if low is None or high is None:
        return "all values" if low == high else ends if low is None else starts
    if least == most:
        return least
    is_closed = starts.startswith("from") and ends.startswith("up to")
    return f"{least} to {most}" if is_closed else f"{starts} {ends}"
