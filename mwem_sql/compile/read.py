"""A workload's rows as parts: conditions, groups and factors, each read once however many rows have it.

A workload of 100,000 predicates has some thousand parts and a few dozen shapes, and parsing is what costs. So a text is
taken apart at OR and AND, and parts that differ in their constants only are parsed once. That happens only where it is
plainly safe: words, quoted names, numbers, strings and simple operators. Any other text is parsed as a whole.
Evaluates nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mwem_sql.domains.domain import Domain
from mwem_sql.errors import PredicateError, WorkloadError, did_you_mean, literal, refuse
from mwem_sql.language import conditions, predicate
from mwem_sql.language.conditions import Compound, Condition, Leaf, Part
from mwem_sql.language.dialect import fold, quoted
from mwem_sql.language.measures import Measure, read_measure
from mwem_sql.language.predicate import MAX_DEPTH, MAX_TEXT, Columns
from mwem_sql.workload import Workload

_AND = re.compile(r"\b[aA][nN][dD]\b")
# A constant; or a name, a word, a sign; and the space behind it. What touches a constant may be part of it: E'a', 5e.
_TOKEN = re.compile(
    r"""(?:((?<![\w"'])'(?:[^']|'')*'|(?<![\w"'.])[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w"'.]))"""
    r"""|("(?:[^"]|"")*"|[^\W\d]\w*|<>|<=|>=|!=|::|\|\||//(?!\*)|-(?![->])|/(?!\*)|[+*%<>=(),.]|(?=[ \t\r\n])))"""
    r"""([ \t\r\n]*)"""
)
# Words that a constant or a parenthesis may follow without being an argument or the parameter of a type.
_KEYWORDS = {"and", "or", "not", "in", "between", "like", "ilike", "is", "case", "when", "then", "else", "escape"}
# What closes which of the things that are open; AND closes BETWEEN.
_CLOSES = {")": {"(", "arguments", "cast"}, "end": {"case"}}
_CASTS = {"cast", "try_cast"}
_JOINS = ("and", "or")
# A list of columns as a workload's text has it.
_NAME = re.compile(r'"((?:[^"]|"")*)"')
_NAMES = re.compile(rf"{_NAME.pattern}(?:, {_NAME.pattern})*")
_TAKEN = re.compile(r"mwem:|77[0-9]{9}")
# Names in a row, none of them quoted.
_WORDS = re.compile(r"[^\W\d]\w*(?:, [^\W\d]\w*)*")
_MARK = re.compile(r"'mwem:(\d+)'|\b77(\d{9})\b")

MOST_SHAPES = 10_000
"""Shapes that are remembered with a release. More: memory, some kilobytes each; fewer: texts are parsed again."""

Parts = tuple[Part, ...]
Ways: TypeAlias = set[str | tuple[int, ...]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Reading:
    """What each row of a workload asks, part by part."""

    workload: Workload
    """The rows; group_by lists that have expressions in them are SQL text."""
    parts: list[Parts]
    measures: dict[str, Measure]
    """By their text."""
    counts: dict[int, Parts]
    """By row, of averages: the parts of the count that the sum is divided by."""
    examples: set[str]
    """For every way in which predicates were read that was not checked before, one predicate."""
    ways: Ways
    """These ways."""
    lists: set[str]
    """group_by lists that were read as a whole: other ones have words only, each of which is in one of these."""


def read_workload(domain: Domain, workload: Workload, shapes: Shapes | None = None) -> Reading:
    """Refuses what a workload may not say. `shapes` are those that were read before over the same columns."""
    workload = _with_names(domain, _with_lists_as_text(domain, workload))
    reader = Reader(domain.spelling, domain.table, shapes)
    texts = dict.fromkeys(query.measure for query in workload if query.measure is not None)
    measures = {text: read_measure(text, domain.spelling, domain.table) for text in texts}
    factors = {text: tuple(reader.part("factor", leaf) for leaf in each.factors) for text, each in measures.items()}
    columns: dict[str, Part] = {}
    lists: dict[str, Parts] = {}
    words: dict[str, Part] = {}
    wholes: set[str] = set()
    parts: list[Parts] = []
    counts: dict[int, Parts] = {}
    for row, query in enumerate(workload):
        rows = reader.read(query.predicate) if query.predicate is not None else ()
        if query.group_by is not None and query.verbatim:
            for name in query.group_by:
                if name not in columns:
                    columns[name] = reader.part("group", conditions.leaf(domain.spelling.tree(name).unnest()))
            rows += tuple([columns[name] for name in query.group_by])
        elif query.group_by is not None:
            (text,) = query.group_by
            if text not in lists:
                listed = text.split(", ") if _WORDS.fullmatch(text) else []
                if not listed or not words.keys() >= set(listed):
                    trees = predicate.parse_list(text, domain.spelling, "group_by", domain.table)
                    lists[text] = tuple(reader.part("group", conditions.leaf(tree.unnest())) for tree in trees)
                    # What a word between commas is does not depend on the others.
                    words |= zip(listed, lists[text], strict=True) if len(listed) == len(trees) else ()
                    wholes.add(text)
                else:
                    lists[text] = tuple([words[word] for word in listed])
            rows += lists[text]
        if query.measure is not None and measures[query.measure].is_average:
            counts[row] = rows + tuple(reader.part("present", part.what) for part in factors[query.measure])
        parts.append(rows + factors[query.measure] if query.measure is not None else rows)
    return Reading(
        workload=workload,
        parts=parts,
        measures=measures,
        counts=counts,
        examples=set(reader.examples),
        ways=reader.ways,
        lists=wholes,
    )


def columns_read(domain: Domain, workload: Workload) -> set[str]:
    """The columns that a workload depends on."""
    return {name for parts in read_workload(domain, workload).parts for part in parts for name in part.columns}


def _with_lists_as_text(domain: Domain, workload: Workload) -> Workload:
    """The same rows; lists such as ['sex', 'floor(age / 10)'], which have more than names in them, are SQL text."""
    lists = dict.fromkeys(query.group_by for query in workload if query.group_by is not None and query.verbatim)
    expressions = {item for items in lists for item in items}
    expressions = {item for item in expressions if fold(item) not in domain.spelling}
    if not expressions:
        return workload
    texts = {
        items: ", ".join(_item(domain, item) for item in items) for items in lists if not expressions.isdisjoint(items)
    }
    return Workload(
        tuple(
            query._replace(group_by=(texts[query.group_by],), verbatim=False, name=query.label)
            if query.verbatim and query.group_by in texts
            else query
            for query in workload
        )
    )


def _with_names(domain: Domain, workload: Workload) -> Workload:
    """The same rows; texts that list nothing but quoted columns are these names, which need no parser."""
    lists = dict.fromkeys(query.group_by[0] for query in workload if query.group_by is not None and not query.verbatim)
    names = {text: _names(domain, text) for text in lists if _NAMES.fullmatch(text)}
    if not any(names.values()):
        return workload
    return Workload(
        tuple(
            query._replace(group_by=columns, verbatim=True, name=query.label)
            if query.group_by is not None and not query.verbatim and (columns := names.get(query.group_by[0]))
            else query
            for query in workload
        )
    )


def _names(domain: Domain, text: str) -> tuple[str, ...] | None:
    """The names that a text lists; None if one is no column's."""
    names = tuple([name.replace('""', '"') for name in _NAME.findall(text)])
    return names if all(fold(name) in domain.spelling for name in names) else None


def _item(domain: Domain, item: str) -> str:
    """An item that is a column's name is that column, whatever it looks like; any other is an expression."""
    if fold(item) in domain.spelling:
        return quoted(domain.spelling[fold(item)])
    try:
        predicate.parse(item, domain.spelling, "group_by", domain.table)
    except WorkloadError:
        if re.search(r"[^\w\s]", item):
            raise
        raise _unknown(domain, item) from None  # without any operator, it was meant as a name
    return f"({item}\n)"  # a newline ends a comment that it may close with


def _unknown(domain: Domain, item: str) -> WorkloadError:
    listed = ", ".join(map(literal, domain.columns))
    near = did_you_mean(item, domain.columns)
    error = refuse(
        PredicateError,
        "workload",
        f"group_by names the unknown column {item!r}",
        f"{near}{domain.table} has the columns {listed}; an SQL expression over them may be an item, too",
    )
    assert isinstance(error, PredicateError)
    error.reader, error.column = "group_by", item
    return error


@dataclass(frozen=True)
class Conjunct:
    """A part of a text: as it stands there, with marks for its constants, and the constants."""

    text: str
    shape: str
    constants: tuple[str, ...]


def take_apart(text: str) -> list[list[Conjunct]] | None:
    """The parts that OR joins at the top of a text, each as the parts that AND joins; None if it is not plain."""
    if len(text) > MAX_TEXT or _TAKEN.search(text):
        return None
    disjuncts: list[list[Conjunct]] = [[]]
    shape: list[str] = []
    constants: list[str] = []
    opened: list[str] = []  # what has no end yet, innermost last
    before = ""
    begin = position = 0  # of the conjunct and of the token
    for constant, sign, space in _TOKEN.findall(text):
        end = position + len(constant) + len(sign)
        word = sign.lower()
        if constant:
            if before == "constant":
                return None
            # A type's name before a text may depend on it (TIMESTAMP '...+01' has a time zone), but a DATE is one
            # whatever the day.
            is_bound = before == "::" or (_is_name(before) and before != "date") or "arguments" in opened
            # What is cast is a constant like any other; behind it is a type, and perhaps a format.
            is_bound |= "cast" in opened and before != "("
            shape.append(constant if is_bound else _mark(constant, constants))
        elif word in _JOINS and not opened:
            disjuncts[-1].append(Conjunct(text[begin:position], "".join(shape), tuple(constants)))
            disjuncts += [[]] if word == "or" else []
            shape, constants, begin = [], [], end
        else:
            if not _is_nested(word, before, opened):
                return None
            shape.append(sign)
        shape.append(space)
        before = "constant" if constant else word
        position = end + len(space)
    if opened or position < len(text):
        return None
    disjuncts[-1].append(Conjunct(text[begin:], "".join(shape), tuple(constants)))
    return disjuncts


def _mark(constant: str, constants: list[str]) -> str:
    """What stands for a constant in a shape."""
    constants.append(constant)
    number = len(constants) - 1
    return f"'mwem:{number}'" if constant[0] == "'" else f"77{number:09d}"


def _is_nested(word: str, before: str, opened: list[str]) -> bool:
    """Keep count of what a word or sign opens and closes; whether that can be."""
    if word == "(":
        if before[:1] == '"':
            return False
        opened.append("cast" if before in _CASTS else "arguments" if _is_name(before) else "(")
    elif word in {"case", "between"}:
        opened.append(word)
    elif word in _CLOSES:
        return bool(opened) and opened.pop() in _CLOSES[word]
    elif word == "and" and opened[-1] == "between":
        opened.pop()
    return len(opened) <= MAX_DEPTH


def _is_name(word: str) -> bool:
    return word.isidentifier() and word not in _KEYWORDS


class Shapes:
    """Shapes that were read over the columns of one domain, and the ways of reading that were checked against DuckDB.

    Whoever keeps it keeps it with the domain and with the settings under which was checked.
    """

    def __init__(self, most: int = MOST_SHAPES) -> None:
        self._most = most
        self.forms: dict[tuple[str, bool], tuple[_Form, ...] | None] = {}
        self.checked: Ways = set()

    def bounded(self) -> Shapes:
        """The same; empty once there are too many."""
        if len(self.forms) + len(self.checked) > self._most:
            self.forms, self.checked = {}, set()
        return self


class Reader:
    """Reads the predicates of one workload: each part once, and parts of one shape with one parse."""

    def __init__(self, columns: Columns, table: str, shapes: Shapes | None = None) -> None:
        self._columns = columns
        self._table = table
        self._conjuncts: dict[str, Parts] = {}
        self._wholes: dict[str, Parts] = {}
        shapes = (shapes or Shapes()).bounded()
        self._forms, self._checked = shapes.forms, shapes.checked
        # Shapes as they stand in texts, and how many conjuncts the parts of an OR have: a text is read in these ways.
        self.ways: Ways = set()
        self._parts: dict[tuple[str, Condition], Part] = {}
        self.examples: list[str] = []

    def read(self, text: str) -> Parts:
        """What must be true for the text to be true."""
        try:
            # A conjunct that was read before is complete by itself, so an AND between two of them stands in no quotes,
            # BETWEEN or CASE.
            return tuple([part for conjunct in _AND.split(text) for part in self._conjuncts[conjunct]])
        except KeyError:
            if text not in self._wholes:
                self._wholes[text] = self._read(text)
            return self._wholes[text]

    def part(self, role: str, what: Condition) -> Part:
        """One part for all that ask the same."""
        part = self._parts.get((role, what))
        if part is None:
            part = self._parts[role, what] = Part(role, what, what.columns)
        return part

    def _read(self, text: str) -> Parts:
        disjuncts = take_apart(text) or []
        parts = self._conjunction(disjuncts[0]) if len(disjuncts) == 1 else self._disjunction(disjuncts)
        if parts is None:
            self.examples.append(text)
            return tuple(self.part("truth", condition) for condition in self._parse(text))
        ways = {conjunct.shape for conjuncts in disjuncts for conjunct in conjuncts} | {tuple(map(len, disjuncts))}
        ways -= self._checked
        if not ways <= self.ways:
            self.ways |= ways
            self.examples.append(text)
        return parts

    def _conjunction(self, conjuncts: Sequence[Conjunct]) -> Parts | None:
        """The parts of all conjuncts; None if a shape is refused or loses a constant."""
        out: Parts = ()
        for conjunct in conjuncts:
            parts = self._conjuncts.get(conjunct.text)
            if parts is None:
                filled = self._fill(conjunct, at_and=True)
                if filled is None:
                    return None
                parts = self._conjuncts[conjunct.text] = tuple([self.part("truth", each) for each in filled])
            out += parts
        return out

    def _disjunction(self, disjuncts: Sequence[Sequence[Conjunct]]) -> Parts | None:
        """One part, an OR of several; None if two neighbours are about one column, because they are one leaf then."""
        either: Condition | None = None
        for conjuncts in disjuncts:
            both: Condition | None = None
            for conjunct in conjuncts:
                filled = self._fill(conjunct, at_and=False)
                both = None if filled is None else _joined("and", both, filled[0])
                if both is None:
                    return None
            assert both is not None
            either = _joined("or", either, both)
            if either is None:
                return None
        return None if either is None else (self.part("truth", either),)

    def _fill(self, conjunct: Conjunct, *, at_and: bool) -> list[Condition] | None:
        """A conjunct's conditions by its shape: apart at the AND inside its brackets, or one; None if that fails."""
        key = conjunct.shape.strip(), at_and
        if key not in self._forms:
            self._forms[key] = self._form(*key, len(conjunct.constants))
        forms = self._forms[key]
        return None if forms is None else [form.fill(conjunct.constants) for form in forms]

    def _form(self, shape: str, at_and: bool, count: int) -> tuple[_Form, ...] | None:
        try:
            forms = tuple(map(_Form, self._parse(shape, at_and=at_and)))
        except PredicateError:
            return None  # the text itself will be refused, in its own words
        return forms if sorted(slot for form in forms for slot in form.slots) == list(range(count)) else None

    def _parse(self, text: str, *, at_and: bool = True) -> Iterator[Condition]:
        tree = predicate.parse(text, self._columns, "predicate", self._table)
        return map(conditions.condition, conditions.conjuncts(tree) if at_and else [tree])


def _joined(connective: str, one: Condition | None, other: Condition) -> Condition | None:
    """Two conditions as one, as `conditions.condition` has it; None if they are about one column, or about none."""
    if one is None:
        return other
    joined = Compound(connective, (one, other))
    return joined if len(joined.columns) > 1 else None


class _Form:
    """A condition with slots for constants. `slots` has each as often as the SQL has it."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self.slots: list[int]
        if isinstance(condition, Compound):
            self._parts = tuple(map(_Form, condition.parts))
            self.slots = [slot for part in self._parts for slot in part.slots]
            return
        tested, compared = (condition.test or ("", ()))[1], condition.compared or ()
        self._tested = len(tested)
        self._templates = tuple(map(_template, (condition.sql, *tested, *compared)))
        self.slots = [int(mark[1] or mark[2]) for mark in _MARK.finditer(condition.sql)]

    def fill(self, constants: tuple[str, ...]) -> Condition:
        old = self._condition
        if isinstance(old, Compound):
            return Compound(old.connective, tuple(part.fill(constants) for part in self._parts))
        sql, *others = (template.format(*constants) for template in self._templates)
        test = None if old.test is None else (old.test[0], tuple(others[: self._tested]))
        compared = None if old.compared is None else tuple(others[self._tested :])
        return Leaf(sql=sql, columns=old.columns, compared=compared, test=test, is_column=old.is_column)


def _template(sql: str) -> str:
    """A format string with a numbered slot for each mark."""
    return _MARK.sub(lambda mark: f"{{{int(mark[1] or mark[2])}}}", sql.replace("{", "{{").replace("}", "}}"))
