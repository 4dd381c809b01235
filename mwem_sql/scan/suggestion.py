"""A domain read off the private rows, for a person to review. Not private, on purpose: only the curator may see it.

Owns what is suggested of a column, the words that say why, and which columns are left out. Must not ask the rows
itself, which `scan/profile.py` does, nor write the script that a person reviews: that is `explain/suggest.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Final

import duckdb
from sqlglot import exp

from mwem_sql.boundary.relations import Relation
from mwem_sql.language import round_numbers
from mwem_sql.language.ticks import Scale, Tick, scale_of, try_cast
from mwem_sql.platform.catalog import Column
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.scan.engines.duckdb import as_engine
from mwem_sql.scan.engines.protocol import RowEngine
from mwem_sql.scan.execution import as_described
from mwem_sql.scan.profile import ColumnValues, Profile, Span

SUGGESTED_VALUES: Final = 100
"""Values that are listed of a column without an order."""
LISTED_NUMBERS: Final = 20
"""Different numbers or dates that are listed one by one, where a range would have many others between them."""
FEWEST_ROWS: Final = 5
SMALLEST_SHARE: Final = 1 / 500
"""A value is suggested if so many rows, and such a share of all rows, have it: names and keys are no categories."""
LEAST_COVERED: Final = 1 / 20
"""The share of rows that listed values must have together. With less, nearly all rows would be NULL, and what is listed
would be those of a few people. Also the share of a text column that must be numbers."""
FULLEST_EVEN: Final = 4
"""Times its part of the rows that one of equal bins may have. Less: more columns have bins of different widths."""
FEWEST_CUT: Final = 100
"""Rows of a column whose bins may be of different widths: of fewer, edges would be about single rows."""
NAMED_UNITS: Final = 20
"""Values from which on a column that is called after a unit (`person`) is an id; of others, `SUGGESTED_VALUES`."""
EVEN_IDS: Final = 0.4
"""The variance of how many rows have a value, as a part of its mean, below which values are as frequent as each other
by design: by chance it is about 1."""
MANY_IDS: Final = 10
"""Times the rows of a value that there are values of an id, unless its name says that it is one."""
MOST_OF_AN_ID: Final = 20
"""Times the mean number of rows per value that the most frequent value of an id may have."""

_SINGLE_SHARE: Final = round_numbers.FULLEST / round_numbers.MOST_BINS
"""The share of rows from which on one value is a bin by itself."""
_MISSING = {
    "", "n", "na", "n/a", "n.a.", "nan", "null", "none", "nil", "?", "-", "--", ".", "..", "*", "missing", "unknown",
    "#n/a",
}  # fmt: skip
"""Texts, in small letters, that stand for a missing number."""
_NEGATIVE_CODES = re.compile(r"-(7+|8+|9+)(\.0+)?")
_ID_WORDS = {"id", "ids", "uuid", "guid", "pid", "uid", "ssn", "serialno"}
_UNIT_WORDS = {
    "person", "patient", "customer", "client", "user", "member", "subject", "respondent", "participant", "household",
    "employee", "student", "pupil", "account", "device", "visitor", "voter", "citizen", "driver", "donor",
}  # fmt: skip
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CALENDAR = {"date", "timestamp", "timestamptz"}
_BOUNDS = "Which values are possible? Those beyond are counted apart, and shown as the nearest bound."
_LIST = "Are these all that are possible? Others are counted as one, and shown as NULL."


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A row of a domain table; `reason`: what was seen and done; `note`: what a person should think of.

    `missing` has a reason where nothing is suggested. `read_as` is SQL that gives the column's values where the column
    itself has them in another type, or with codes in them: the domain is that of a view. `rows_per_unit` is the largest
    number of rows of one value, where the column is proposed as the unit.
    """

    attribute: str
    values: list[str] | None = None
    low: str | None = None
    high: str | None = None
    bins: int | None = None
    edges: list[str] | None = None
    nullable: bool = False
    open: bool = False
    reason: str = ""
    note: str = ""
    missing: str = ""
    read_as: str | None = None
    rows_per_unit: int | None = None


def suggest_domain(
    rows: RowEngine | duckdb.DuckDBPyConnection, relation: Relation, declared: Collection[str] = ()
) -> list[Suggestion]:
    """A suggestion for every column that is not declared. Of several ids, the one with most rows per value is the unit.

    Privacy:
        None: bounds, values, edges, largest numbers of rows and whether there are NULLs are those of the private rows.
        Bounds are rounded outwards and rare values are left out, so that hardly a line has the value of one person in
        it; but no budget covers any of it.
    """
    with as_engine(rows).snapshot() as snapshot, Sandbox() as sandbox:
        as_described(relation, "mwem_suggest_domain")(snapshot)
        suggester = _Suggester(Profile(snapshot, relation, sandbox), has_views=relation.source is None)
        suggestions = [suggester.suggest(column) for column in relation.columns if column.name not in declared]
    ids = [each for each in suggestions if each.rows_per_unit]
    unit = max(ids, key=lambda each: each.rows_per_unit or 0, default=None)
    return [each if each is unit else replace(each, rows_per_unit=None) for each in suggestions]


class _Suggester:
    """What to suggest of columns. `has_views`: whether the caller can make a view of the rows: they are here."""

    def __init__(self, profile: Profile, *, has_views: bool) -> None:
        self._profile = profile
        self._has_views = has_views
        self._enough = max(FEWEST_ROWS, int(profile.rows * SMALLEST_SHARE))

    def suggest(self, column: Column) -> Suggestion:
        values = ColumnValues(name=column.name, type=column.type, value=exp.column(column.name, quoted=True))
        scale = scale_of(column.type)
        rows, distinct = self._profile.counts(values)
        if not rows:
            return Suggestion(attribute=column.name, missing="no row has a value in it")
        # An id is a DOUBLE where a program that has no other NULL has written it.
        is_id_type = scale is None or scale.family == "integer"
        if is_id_type or (names_id(column.name) and self._has_views and column.type == "DOUBLE"):
            if distinct == rows > SUGGESTED_VALUES:
                return Suggestion(
                    attribute=column.name, missing="every row has another value, so it is a key and no category"
                )
            most = self._rows_per_id(values, rows, distinct)
            if most is not None:
                reason = f"an id of {distinct:,} values, each in about as many rows, {most:,} at most"
                return Suggestion(attribute=column.name, missing=reason, rows_per_unit=most)
        if scale is not None:
            return self._ordered(values, scale)
        numbers = self._numbers(values, distinct) if column.type == "VARCHAR" and self._has_views else None
        return self._listed(values, rows, distinct) if numbers is None else self._ordered(*numbers)

    def _rows_per_id(self, column: ColumnValues, rows: int, distinct: int) -> int | None:
        """The largest number of rows of one value, if there are many values, each about as often as the others."""
        fewest = NAMED_UNITS if _names_unit(column.name) else SUGGESTED_VALUES
        mean, is_named = rows / distinct, names_id(column.name)
        if distinct <= fewest or distinct < mean * (1 if is_named else MANY_IDS) or distinct == rows:
            return None
        most, squares = self._profile.rows_per_value(column)
        is_even = mean >= 2 and squares / distinct - mean**2 < EVEN_IDS * mean
        return most if is_even or (is_named and most <= MOST_OF_AN_ID * mean) else None

    def _numbers(self, column: ColumnValues, distinct: int) -> tuple[ColumnValues, Scale] | None:
        """A text column as numbers, if all else stands for a missing one; None if it is text, or a few codes."""
        facts = self._profile.text(column, len(_MISSING))
        codes = facts.others
        if facts.zeros or facts.numbers < max(2, facts.rows * LEAST_COVERED) or distinct - len(codes) < 2:
            return None
        if len(codes) > 1 and not all(code.strip().lower() in _MISSING for code in codes):
            return None
        if not codes and distinct <= LISTED_NUMBERS:  # 1 and 2 for men and women: a list
            return None
        scale = scale_of("DOUBLE" if facts.fractions or facts.large else "BIGINT")
        assert scale is not None
        text = column.value.copy()
        for code in codes:
            if code.strip().lower() == "nan" or "inf" in code.lower():  # a DOUBLE, and no number
                text = exp.Nullif(this=text, expression=exp.Literal.string(code))
        value = try_cast(text, scale.type)
        words = "numbers written as text"
        return ColumnValues(name=column.name, type=scale.type, value=value, codes=tuple(codes), words=words), scale

    def _ordered(self, column: ColumnValues, scale: Scale) -> Suggestion:
        span = self._profile.span(column, scale)
        if span is not None and span.low < 0 <= span.high and scale.family not in _CALENDAR and self._has_views:
            column = self._without_codes(column)
            span = self._profile.span(column, scale)
        if span is None:
            return Suggestion(attribute=column.name, missing="no row has a finite value in it")
        code = f" Does {_quoted(column.codes)} stand for a missing value?" if column.codes else ""
        draft = Suggestion(attribute=column.name, nullable=span.rows < self._profile.rows, read_as=column.read_as)
        few = self._few(column, scale, span)
        if few is not None:
            reason = f"{_in_words(column, scale, span)}, {len(few)} different ones; an open list of them"
            return replace(draft, values=few, open=True, reason=reason, note=_LIST + code)
        return self._bounded(column, scale, span, replace(draft, note=_BOUNDS + code))

    def _without_codes(self, column: ColumnValues) -> ColumnValues:
        """The same with NULL for -9, -99 and the like, if no other value is below 0."""
        texts = [text for text, _ in self._profile.frequent(column, 4, is_negative=True)]
        if not 1 <= len(texts) <= 3 or not all(_NEGATIVE_CODES.fullmatch(text) for text in texts):
            return column
        value, codes = column.value.copy(), [text.partition(".")[0] for text in texts]
        for code in codes:
            value = exp.Nullif(this=value, expression=exp.Literal.number(code))
        return replace(column, value=value, codes=(*column.codes, *codes))

    def _few(self, column: ColumnValues, scale: Scale, span: Span) -> list[str] | None:
        """All values, in order, if they are few, none of them is rare and there are gaps between them; else None."""
        if not 2 <= span.distinct <= LISTED_NUMBERS:
            return None
        if span.is_whole and (span.high - span.low) / 10**scale.digits + 1 < 2 * span.distinct:
            return None
        frequent = self._profile.frequent(column, LISTED_NUMBERS + 1)
        ticks = [tick for tick in self._profile.ticks(scale, [text for text, _ in frequent]) if tick is not None]
        least, most = scale.limits
        if len(ticks) < len(frequent) or not all(least <= tick <= most for tick in ticks):
            return None
        is_common = all(rows >= self._enough for _, rows in frequent)
        return [round_numbers.text(scale, tick) for tick in sorted(ticks)] if is_common else None

    def _bounded(self, column: ColumnValues, scale: Scale, span: Span, draft: Suggestion) -> Suggestion:
        """Round bounds, and how the range between them is cut."""
        words = _in_words(column, scale, span)
        is_whole, column_scale = span.is_whole and scale.family in {"real", "decimal"}, scale
        unit = 10**column_scale.digits
        if is_whole:  # in a type that has others
            scale, span = _whole(), replace(span, low=int(span.low) // unit, high=int(span.high) // unit)
        at_low, at_high = self._profile.having(column, span.texts)
        low, high = round_numbers.outwards(
            scale, span.low, span.high, keep_low=at_low >= self._enough, keep_high=at_high >= self._enough
        )
        least, most = scale.limits
        if scale.discrete and least <= span.low and span.high <= most:
            # An end that very many rows have is where values end by design: 501 for all that is more.
            many = max(self._enough, _SINGLE_SHARE * span.rows)
            low, high = (span.low if at_low >= many else low), (span.high if at_high >= many else high)
        draft = replace(draft, low=round_numbers.text(scale, low), high=round_numbers.text(scale, high))
        parts = round_numbers.bins(scale, low, high)
        if parts is None and is_whole and (high - low < LISTED_NUMBERS or not self._has_views):
            numbers = range(int(low), int(high) + 1)
            is_real = column_scale.family == "real"
            listed = [column_scale.text(float(number) if is_real else number * unit) for number in numbers]
            reason = f"{words}; an open list of them"
            note = _LIST + draft.note.removeprefix(_BOUNDS)
            return replace(draft, low=None, high=None, values=listed, open=True, reason=reason, note=note)
        if is_whole and self._has_views:
            words += ", which the view reads as BIGINT"
            draft = replace(draft, read_as=try_cast(column.value.copy(), scale.type).sql("duckdb"))
        if parts is None:
            return replace(draft, reason=f"{words}; each is a value of its own")
        even = replace(draft, bins=parts, reason=f"{words}; {parts} equal bins" if parts > 1 else f"{words}; one bin")
        if span.rows < FEWEST_CUT or parts == 1 or span.low > most or span.high < least:
            return even
        return self._cut(column, (scale, low, high), span, even, words)

    def _cut(
        self, column: ColumnValues, ends: tuple[Scale, Tick, Tick], span: Span, even: Suggestion, words: str
    ) -> Suggestion:
        """Equal bins where no bin has far more rows than others, else bins that begin at round numbers."""
        scale, low, high = ends
        alone = self._alone(column, scale, span)
        above = self._profile.above(column, scale)
        if not alone and scale.family not in _CALENDAR:
            assert even.bins is not None
            over = [span.rows, *above(round_numbers.even(scale, low, high, even.bins)[1:]), 0]
            if max(here - there for here, there in pairwise(over)) <= FULLEST_EVEN * span.rows / even.bins:
                return even
        pairs = [pair for pair, _ in alone]
        edges = round_numbers.edges(scale, low, high, span.rows, above, alone=pairs, least=self._enough)
        if not edges:
            return even
        if alone:
            shares = (
                f"{round_numbers.text(scale, tick)} in {_per_cent(rows / span.rows)}" for (tick, _), rows in alone
            )
            words += f", {' and '.join(shares)} of the rows"
        elif scale.family not in _CALENDAR:
            words += ", most of them in a small part of their range"
        reason = (
            f"{words}; {len(edges) + 1} bins that begin at round {'dates' if scale.family in _CALENDAR else 'numbers'}"
        )
        return replace(even, bins=None, edges=[round_numbers.text(scale, edge) for edge in edges], reason=reason)

    def _alone(self, column: ColumnValues, scale: Scale, span: Span) -> list[tuple[tuple[Tick, Tick], int]]:
        """Values that many rows have: where the bin of each begins and where the next does, and the rows."""
        frequent = self._profile.frequent(column, int(1 / _SINGLE_SHARE) + 1, int(_SINGLE_SHARE * span.rows) + 1)
        texts = [text for text, _ in frequent]
        after = _step_after(scale, texts)
        ticks = zip(self._profile.ticks(scale, texts), frequent, strict=True)
        return [((tick, after(tick)), rows) for tick, (_, rows) in ticks if tick is not None]

    def _listed(self, column: ColumnValues, rows: int, distinct: int) -> Suggestion:
        frequent = self._profile.frequent(column, SUGGESTED_VALUES, self._enough)
        values = [value for value, _ in frequent]
        share = sum(count for _, count in frequent) / rows
        if share < LEAST_COVERED:
            few = "hardly any" if values else "none"
            different = f"{distinct:,} different values" if distinct > 1 else "one value"
            reason = f"{different}, {few} of them in {self._enough:,} rows or more"
            return Suggestion(attribute=column.name, missing=reason)
        if len(values) == distinct:
            values = sorted(values)
            reason = (
                f"{distinct:,} different values; an open list of them" if distinct > 1 else "one value; an open list"
            )
        else:
            reason = (
                f"{distinct:,} different values; an open list of the {len(values)} that {self._enough:,} rows or more"
            )
            reason += f" have, {_per_cent(share)} of the rows"
        note = f"{_LIST} Take out what could name a person."
        nullable = rows < self._profile.rows
        return Suggestion(attribute=column.name, values=values, nullable=nullable, open=True, reason=reason, note=note)


def _whole() -> Scale:
    scale = scale_of("BIGINT")
    assert scale is not None
    return scale


def _names_unit(column: str) -> bool:
    """Whether a column is called after a unit: `person`, `person_id`, `userId`."""
    words = [word.lower() for word in _WORDS.findall(column)] or [""]
    is_glued = words[-1].removesuffix("id") in _UNIT_WORDS
    return is_glued or (words[-1] in _ID_WORDS and any(word in _UNIT_WORDS for word in words))


def names_id(column: str) -> bool:
    """Whether a column's name says that it tells rows or units apart."""
    words = [word.lower() for word in _WORDS.findall(column)] or [""]
    return words[-1] in _ID_WORDS or _names_unit(column)


def _in_words(column: ColumnValues, scale: Scale, span: Span) -> str:
    """What values are."""
    if scale.family in _CALENDAR:
        return "dates" if scale.family == "date" else "dates with times"
    words = f"whole {column.words}" if span.is_whole else column.words
    if span.is_whole and scale.family in {"real", "decimal"}:
        words += f" in a column of the type {column.type}"
    return words + (f", with {_quoted(column.codes)} for a missing one" if column.codes else "")


def _step_after(scale: Scale, texts: Sequence[str]) -> Callable[[Tick], Tick]:
    """What comes after a value, by the last digit that any of some texts has; of a moment, a second later."""
    if scale.family in {"timestamp", "timestamptz"}:
        return lambda tick: tick + 10**6
    if scale.discrete:
        return lambda tick: tick + 1
    digits = max((len(text.partition(".")[2].rstrip("0")) for text in texts if "e" not in text.lower()), default=0)
    step = Decimal(1).scaleb(-min(digits, 6))  # six digits of a longer fraction
    return lambda tick: float(Decimal(repr(tick)) + step)


def _per_cent(share: float) -> str:
    """In words: not 100% where some are missing."""
    return f"{share:.0%}" if share in {0, 1} or 0.01 <= share < 0.99 else f"{int(1000 * share) / 10:g}%"


def _quoted(codes: Sequence[str]) -> str:
    return " or ".join(f"'{code}'" for code in codes)
