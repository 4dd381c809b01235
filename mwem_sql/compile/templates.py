"""Predicates read part by part: a text is taken apart at OR and AND, and parts that differ in their constants only are parsed once.

A workload of 100,000 predicates has some thousand parts and a few dozen shapes, and parsing is what costs. A text is taken apart
only where that is plainly safe: words, quoted names, numbers, strings and simple operators. Anything else is parsed as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mwem_sql.errors import PredicateError
from mwem_sql.language import conditions, predicate
from mwem_sql.language.conditions import Compound, Condition, Leaf, Part
from mwem_sql.language.predicate import MAX_DEPTH, MAX_TEXT

_AND = re.compile(r"\b[aA][nN][dD]\b")
_CONSTANT = re.compile(
    r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w'.])[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w'.]))"""
)
_TOKEN = re.compile(
    r"""[ \t\r\n]+|[^\W\d]\w*|"(?:[^"]|"")*"|<>|<=|>=|!=|::|\|\||//(?!\*)|-(?![->])|/(?!\*)|[+*%<>=(),.]"""
)
# Words that a constant or a parenthesis may follow without being an argument or the parameter of a type.
_KEYWORDS = {"and", "or", "not", "in", "between", "like", "ilike", "is", "case", "when", "then", "else", "escape"}
# Words and signs that open something, and what closes which of them; AND closes BETWEEN.
_OPENS = {"(", "arguments", "case", "between"}
_CLOSES = {")": {"(", "arguments"}, "end": {"case"}}
_STRUCTURE = {")", "end", "case", "between", "and", "or"}
_TAKEN = re.compile(r"mwem:|77[0-9]{9}")
_MARK = re.compile(r"'mwem:(\d+)'|\b77(\d{9})\b")


@dataclass(frozen=True)
class Conjunct:
    """A part of a text: as it was written, with marks for its constants, and the constants."""

    text: str
    shape: str
    constants: tuple[str, ...]


def take_apart(text: str) -> list[list[Conjunct]] | None:
    """The parts that OR joins at the top of a text, each as the parts that AND joins; None where the text is not plain enough."""
    if len(text) > MAX_TEXT or _TAKEN.search(text):
        return None
    parts: list[list[Conjunct]] = [[]]
    shape: list[str] = []
    constants: list[str] = []
    opened: list[str] = []  # what has no end yet, innermost last
    position = begin = 0  # of the gap and of the part
    for between, constant in _gaps(text):
        gap = _gap(between)
        if gap is None or len(opened) > MAX_DEPTH or (constant and (gap.touches or (position and gap.blank))):
            return None
        done = 0
        for word, start, end in gap.structure:
            if word in _OPENS:
                opened.append(word)
            elif word in _CLOSES:
                if not opened or opened.pop() not in _CLOSES[word]:
                    return None
            elif word == "and" and opened and opened[-1] == "between":
                opened.pop()
            elif not opened:
                shape.append(between[done:start])
                parts[-1].append(Conjunct(text[begin : position + start], "".join(shape), tuple(constants)))
                parts += [[]] if word == "or" else []
                shape, constants, begin, done = [], [], position + end, end
        shape.append(between[done:])
        if constant and not gap.binds and "arguments" not in opened:
            shape.append(f"'mwem:{len(constants)}'" if constant[0] == "'" else f"77{len(constants):09d}")
            constants.append(constant)
        else:
            shape.append(constant)
        position += len(between) + len(constant)
    parts[-1].append(Conjunct(text[begin:], "".join(shape), tuple(constants)))
    return None if opened else parts


def _gaps(text: str) -> Iterator[tuple[str, str]]:
    """What stands before each constant, and the constant; at the end what follows the last, and nothing."""
    split = _CONSTANT.split(text)
    between = ""
    for before, found in zip(split[::2], [*split[1::2], ""], strict=True):
        between += before
        if found[:1] == '"':
            between += found  # a name
        else:
            yield between, found
            between = ""


@dataclass(frozen=True)
class _Gap:
    """What stands between two constants: its words and signs that open, close or join, and whether it binds or touches the next."""

    structure: tuple[tuple[str, int, int], ...]
    blank: bool
    binds: bool
    touches: bool


@lru_cache(maxsize=10_000)
def _gap(text: str) -> _Gap | None:
    structure: list[tuple[str, int, int]] = []
    before = ""
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return None
        start, position = token.span()
        found = token.group().lower()
        if found.isspace():
            continue
        if found == "(":
            if before == '"':
                return None
            structure.append(("arguments" if _is_name(before) else "(", start, position))
        elif found in _STRUCTURE:
            structure.append((found, start, position))
        before = '"' if found[0] == '"' else found
    touches = text[-1:].isalnum() or text[-1:] in {"_", '"'}
    # A type's name before a text may depend on it (TIMESTAMP '...+01' has a time zone), but a DATE is one whatever the day.
    binds = before == "::" or (_is_name(before) and before != "date")
    return _Gap(tuple(structure), before == "", binds, touches)


def _is_name(word: str) -> bool:
    return word.isidentifier() and word not in _KEYWORDS


class Reader:
    """Reads the predicates of one workload: each part once, and parts of one shape with one parse."""

    def __init__(self, columns: Mapping[str, str], table: str) -> None:
        self._columns = columns
        self._table = table
        self._conjuncts: dict[str, tuple[Part, ...]] = {}
        self._wholes: dict[str, tuple[Part, ...]] = {}
        self._forms: dict[tuple[str, bool], tuple[_Form, ...] | None] = {}
        # Shapes as they are written, and how many conjuncts the parts of an OR have: a text is read in these ways.
        self._ways: set[str | tuple[int, ...]] = set()
        self._parts: dict[tuple[str, Condition], Part] = {}
        # For every way in which texts were read, one text that was read so.
        self.examples: list[str] = []

    def read(self, text: str) -> tuple[Part, ...]:
        """What must be true for the text to be true."""
        try:
            # A known conjunct is complete by itself, so an AND between two of them stands in no quotes, BETWEEN or CASE.
            return tuple([part for conjunct in _AND.split(text) for part in self._conjuncts[conjunct]])
        except KeyError:
            if text not in self._wholes:
                self._wholes[text] = self._read(text)
            return self._wholes[text]

    def part(self, role: str, what: Condition) -> Part:
        """One part for all that ask the same."""
        found = self._parts.get((role, what))
        if found is None:
            found = self._parts[role, what] = Part(role, what, what.columns)
        return found

    def _read(self, text: str) -> tuple[Part, ...]:
        disjuncts = take_apart(text) or []
        found = self._conjunction(disjuncts[0]) if len(disjuncts) == 1 else self._disjunction(disjuncts)
        if found is None:
            self.examples.append(text)
            return tuple(self.part("truth", condition) for condition in self._parse(text))
        ways = {conjunct.shape for conjuncts in disjuncts for conjunct in conjuncts} | {tuple(map(len, disjuncts))}
        if not ways <= self._ways:
            self._ways |= ways
            self.examples.append(text)
        return found

    def _conjunction(self, conjuncts: Sequence[Conjunct]) -> tuple[Part, ...] | None:
        """The parts of all conjuncts; None if a shape is refused or loses a constant."""
        out: tuple[Part, ...] = ()
        for conjunct in conjuncts:
            parts = self._conjuncts.get(conjunct.text)
            if parts is None:
                filled = self._fill(conjunct, at_and=True)
                if filled is None:
                    return None
                parts = self._conjuncts[conjunct.text] = tuple([self.part("truth", each) for each in filled])
            out += parts
        return out

    def _disjunction(self, disjuncts: Sequence[Sequence[Conjunct]]) -> tuple[Part, ...] | None:
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
        """The conditions of a conjunct by its shape: taken apart at the AND inside its brackets, or as one; None if that is not possible."""
        key = conjunct.shape.strip(), at_and
        if key not in self._forms:
            self._forms[key] = self._form(*key, len(conjunct.constants))
        forms = self._forms[key]
        return None if forms is None else [form.fill(conjunct.constants) for form in forms]

    def _form(self, shape: str, at_and: bool, places: int) -> tuple[_Form, ...] | None:
        try:
            forms = tuple(map(_Form, self._parse(shape, at_and=at_and)))
        except PredicateError:
            return None  # the text itself will be refused, in its own words
        return forms if sorted(slot for form in forms for slot in form.slots) == list(range(places)) else None

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
    """A condition with places for constants. `slots` are these places, each as often as the SQL has it."""

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
        return Leaf(sql, old.columns, compared, test, old.is_column)


def _template(sql: str) -> str:
    """A format string with a numbered place for each mark."""
    return _MARK.sub(lambda mark: f"{{{int(mark[1] or mark[2])}}}", sql.replace("{", "{{").replace("}", "}}"))
