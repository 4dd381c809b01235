"""Node trees: how PostgreSQL writes down a parsed rule or expression (`pg_node_tree`), read back exactly. Looks nothing up, judges nothing.

    node   {TAG :field value :field value ...}
    list   (value value ...)
    value  a node, a list, a word, `<>` for nothing, or the bytes of a constant: 4 [ 1 0 0 0 0 0 0 0 ]

In a tree every function, operator, type and column stands by its number, so that no name, search path or way of printing comes into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

# As pg_strtok() cuts: a backslash makes the next character an ordinary one.
_TOKEN = re.compile(r"[(){}]|(?:\\.|[^\s(){}\\])+", re.DOTALL)


class NotATreeError(ValueError):
    """A text that PostgreSQL would not have written."""


@dataclass(frozen=True)
class Node:
    """A node. `fields` are as PostgreSQL names them, without the colon."""

    tag: str
    fields: dict[str, Value]

    def number(self, field: str) -> int:
        """A number, or a NotATreeError: a field that is not there must not pass for 0."""
        value = self.fields.get(field)
        if not isinstance(value, str):
            raise NotATreeError(f"{self.tag} has no number {field}")
        return int(value)

    def nodes(self, field: str) -> list[Node]:
        """The nodes of a list, or one node as a list of one; nothing is an empty list."""
        value = self.fields[field]
        listed = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(item, Node) for item in listed):
            raise NotATreeError(f"{self.tag} has something other than nodes in {field}")
        return [item for item in listed if isinstance(item, Node)]

    def walk(self) -> Iterator[Node]:
        """The node and all below it."""
        waiting: list[Value] = [self]
        while waiting:
            value = waiting.pop()
            if isinstance(value, Node):
                yield value
                waiting += value.fields.values()
            elif isinstance(value, list):
                waiting += value


Value: TypeAlias = "Node | list[Value] | str | bytes | None"


def parsed(text: str) -> Value:
    """The value that a text stands for."""
    tokens = _TOKEN.findall(text)
    try:
        value, place = _value(tokens, 0)
    except (IndexError, ValueError, RecursionError) as reason:
        raise NotATreeError("not a tree of nodes, or too deep a one") from reason
    if place != len(tokens):
        raise NotATreeError("something follows the tree")
    return value


def _value(tokens: list[str], place: int) -> tuple[Value, int]:
    word = tokens[place]
    if word == "{":
        return _node(tokens, place + 1)
    if word == "(":
        return _list(tokens, place + 1)
    if word in {")", "}"}:
        raise NotATreeError("a bracket without its other half")
    if place + 1 < len(tokens) and tokens[place + 1] == "[":
        end = tokens.index("]", place)
        numbers = [int(number) % 256 for number in tokens[place + 2 : end]]
        return bytes(numbers), end + 1
    return (None if word == "<>" else re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL)), place + 1


def _list(tokens: list[str], place: int) -> tuple[list[Value], int]:
    items: list[Value] = []
    while tokens[place] != ")":
        item, place = _value(tokens, place)
        items.append(item)
    return items, place + 1


def _node(tokens: list[str], place: int) -> tuple[Node, int]:
    tag = tokens[place]
    fields: dict[str, Value] = {}
    place += 1
    while tokens[place] != "}":
        label = tokens[place]
        if not label.startswith(":") or label[1:] in fields:
            raise NotATreeError("a field without a name, or twice")
        # The value is what follows, even if it looks like a label: a column may be called ":x".
        fields[label[1:]], place = _value(tokens, place + 1)
    return Node(tag, fields), place + 1
