"""Texts that differ in their constants only: one shape, parsed once, filled with each text's own constants.

A workload of 100,000 predicates has some thousand shapes, and parsing is what costs. A text is abstracted only where that is
plainly safe: words, quoted names, numbers, strings and simple operators. Anything else is parsed as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from mwem_sql.compiler import predicate
from mwem_sql.compiler.predicate import Compound, Condition, Leaf
from mwem_sql.errors import PredicateError

_CONSTANT = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w'.])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w'.])""", re.ASCII)
_TOKEN = re.compile(r"""\s+|([A-Za-z_][A-Za-z0-9_]*)|("(?:[^"]|"")*"|<>|<=|>=|!=|::|\|\||//|[-+*/%<>=(),.])""")
# Words that a constant or a parenthesis may follow without being an argument or the parameter of a type.
_KEYWORDS = {"and", "or", "not", "in", "between", "like", "ilike", "is", "case", "when", "then", "else", "escape"}
_UNSAFE = re.compile(r"--|/\*|mwem:|77\d{9}")
# What makes the words of a shape no guide to its parts: another connective, or a text or quoted name that could hold one.
_MIXED = re.compile(r"""\b(?:or|case|xor)\b|'|"[^"]*\b(?:and|between)\b[^"]*\"""", re.IGNORECASE)
_MARK = re.compile(r"'mwem:(\d+)'|\b77(\d{9})\b")


@dataclass(frozen=True)
class Abstract:
    """A text as its shape, with marks for constants, and the constants as they were written."""

    shape: str
    constants: tuple[str, ...]


def abstract(text: str) -> Abstract | None:
    """The shape of a text, or None where it is not plain enough."""
    if len(text) > predicate.MAX_TEXT or _UNSAFE.search(text):
        return None
    parts: list[str] = []
    constants: list[str] = []
    arguments: list[bool] = []  # for each open parenthesis, whether it holds arguments
    position = 0
    for found in _CONSTANT.finditer(text):
        if found.group()[0] == '"':
            continue  # a name
        between = _between(text[position : found.start()])
        if between is None or between.touches or not between.enter(arguments):
            return None
        parts.append(between.text)
        constant = found.group()
        if between.binds or any(arguments):
            parts.append(constant)
        else:
            parts.append(f"'mwem:{len(constants)}'" if constant[0] == "'" else f"77{len(constants):09d}")
            constants.append(constant)
        position = found.end()
    last = _between(text[position:])
    if last is None or not last.enter(arguments) or not constants:
        return None
    return Abstract("".join([*parts, last.text]), tuple(constants))


@dataclass(frozen=True)
class _Between:
    """What stands between two constants: its text, its parentheses, and whether it binds or touches the next one."""

    text: str
    parentheses: tuple[bool | None, ...]
    binds: bool
    touches: bool

    def enter(self, arguments: list[bool]) -> bool:
        """Follow the parentheses; False if one is closed that was not opened."""
        for opens in self.parentheses:
            if opens is not None:
                arguments.append(opens)
            elif arguments:
                arguments.pop()
            else:
                return False
        return True


@lru_cache(maxsize=100_000)
def _between(text: str) -> _Between | None:
    parentheses: list[bool | None] = []
    before = ""
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return None
        word, operator = token.groups()
        if operator == "(":
            if before == '"':
                return None
            parentheses.append(before.isidentifier() and before not in _KEYWORDS)
        elif operator == ")":
            parentheses.append(None)
        if word or operator:
            before = '"' if token.group()[0] == '"' else token.group().lower()
        position = token.end()
    binds = before == "::" or (before.isidentifier() and before not in _KEYWORDS)
    touches = text[-1:].isalnum() or text[-1:] in {"_", '"'}
    return _Between(text, tuple(parentheses), binds, touches)


@dataclass(frozen=True)
class Template:
    """SQL with places for constants."""

    parts: tuple[str, ...]
    slots: tuple[int, ...]
    texts: tuple[bool, ...]

    @classmethod
    def of(cls, sql: str) -> Template:
        parts, slots, texts, position = [], [], [], 0
        for mark in _MARK.finditer(sql):
            parts.append(sql[position : mark.start()])
            slots.append(int(mark[1] or mark[2]))
            texts.append(mark[1] is not None)
            position = mark.end()
        return cls((*parts, sql[position:]), tuple(slots), tuple(texts))

    def fill_marks(self) -> str:
        """The same text with its marks numbered from 0."""
        marks = [f"'mwem:{k}'" if self.texts[k] else f"77{k:09d}" for k in range(len(self.slots))]
        return self._join(marks)

    def fill(self, constants: tuple[str, ...]) -> str:
        return self._join([constants[slot] for slot in self.slots])

    def _join(self, constants: list[str]) -> str:
        out = [self.parts[0]]
        for constant, part in zip(constants, self.parts[1:], strict=True):
            out += (constant, part)
        return "".join(out)


class Reader:
    """Reads the predicates of one workload, each shape once."""

    def __init__(self, columns: Mapping[str, str], table: str) -> None:
        self._columns = columns
        self._table = table
        self._shapes: dict[str, list[tuple[tuple[_Form, ...], tuple[int, ...]]] | None] = {}
        self._forms: dict[str, tuple[_Form, ...] | None] = {}
        self._texts: dict[str, tuple[Condition, ...]] = {}
        # For every way in which texts were read, one text that was read so.
        self.examples: list[str] = []

    def read(self, text: str) -> tuple[Condition, ...]:
        """The conditions that must all be true for the text to be true."""
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = self._read(text)
        return known

    def _read(self, text: str) -> tuple[Condition, ...]:
        found = abstract(text)
        if found is None:
            self.examples.append(text)
            return self._parse(text)
        if found.shape not in self._shapes:
            before = len(self._forms)
            self._shapes[found.shape] = self._shape(found)
            if len(self._forms) > before:
                self.examples.append(text)
        parts = self._shapes[found.shape]
        if parts is None:
            return self._parse(text)
        return tuple(
            form.fill(own)
            for forms, slots in parts
            for own in (tuple(found.constants[slot] for slot in slots),)
            for form in forms
        )

    def _parse(self, text: str) -> tuple[Condition, ...]:
        tree = predicate.parse(text, self._columns, "predicate", self._table)
        return tuple(map(predicate.condition, predicate.conjuncts(tree)))

    def _shape(self, found: Abstract) -> list[tuple[tuple[_Form, ...], tuple[int, ...]]] | None:
        """The conditions of a shape's parts, with the constants that each takes; None where a part is refused."""
        out = []
        for part in _conjuncts(found.shape):
            marked = Template.of(part)
            shape = marked.fill_marks()
            if shape not in self._forms:
                self._forms[shape] = self._form(shape, len(marked.slots))
            forms = self._forms[shape]
            if forms is None:
                return None
            out.append((forms, marked.slots))
        return out

    def _form(self, shape: str, places: int) -> tuple[_Form, ...] | None:
        """Conditions with places for constants; None if one got lost on the way or the shape is refused."""
        try:
            forms = tuple(map(_Form, self._parse(shape)))
        except PredicateError:
            return None  # the text itself will be refused, in its own words
        return forms if sorted(slot for form in forms for slot in form.slots()) == list(range(places)) else None


def _conjuncts(shape: str) -> list[str]:
    """The parts that AND joins at the top of a shape, where that can be told from its words alone."""
    if _MIXED.search(_MARK.sub("", shape)):
        return [shape]
    parts: list[str] = []
    for part in re.split(r"\band\b", shape, flags=re.IGNORECASE):
        if parts and re.search(r"\bbetween\s*-?\s*\S+\s*$", parts[-1], re.IGNORECASE):
            parts[-1] += f"AND{part}"
        else:
            parts.append(part)
    return parts if all(part.count("(") == part.count(")") for part in parts) else [shape]


class _Form:
    """A condition with places for constants."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._parts: tuple[_Form, ...] = ()
        self._templates: tuple[Template, ...] = ()
        if isinstance(condition, Compound):
            self._parts = tuple(map(_Form, condition.parts))
        else:
            tested = condition.test or ("", "")
            self._templates = tuple(map(Template.of, (condition.sql, tested[1], *(condition.compared or ()))))
        self._slots = tuple(dict.fromkeys(self.slots()))
        self._filled: dict[tuple[str, ...], Condition] = {}

    def slots(self) -> Iterator[int]:
        """The places of constants, each as often as the SQL has it."""
        if self._parts:
            for part in self._parts:
                yield from part.slots()
        else:
            yield from self._templates[0].slots

    def fill(self, constants: tuple[str, ...]) -> Condition:
        own = tuple(constants[slot] for slot in self._slots)
        known = self._filled.get(own)
        if known is None:
            known = self._filled[own] = self._fill(constants)
        return known

    def _fill(self, constants: tuple[str, ...]) -> Condition:
        if isinstance(self._condition, Compound):
            return Compound(self._condition.connective, tuple(part.fill(constants) for part in self._parts))
        sql, tested, *compared = (template.fill(constants) for template in self._templates)
        test = self._condition.test and (self._condition.test[0], tested)
        listed = None if self._condition.compared is None else tuple(compared)
        return Leaf(sql, self._condition.columns, listed, test, self._condition.is_column)
