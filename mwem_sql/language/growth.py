"""How much text an expression may make of one row, at most. Knows the syntax only; evaluates nothing.

A few functions make long texts of short ones, or compare every character with every other, and nesting multiplies:
`repeat(hex(lpad(city, 9999)), 9999)` is 1.6 GB. DuckDB neither counts such text against a memory limit nor can be
interrupted inside one of these calls, so what is too much is refused before it runs, by this bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf

from sqlglot import exp

from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold, function_name

PLAIN = 500  # characters of an expression that, without any of the functions below, makes too little text to be counted
_SCALAR = 40  # characters of a number, a date, a truth value

_TO_SIZE = {"lpad", "rpad"}
_TIMES_SIZE = {"repeat"}
_FORMATS = {"format", "printf"}
_PRODUCTS = {
    "damerau_levenshtein", "editdist3", "jaro_similarity", "jaro_winkler_similarity", "levenshtein", "regexp_extract",
    "regexp_full_match", "regexp_matches", "regexp_replace", "replace",
}  # fmt: skip
# By how much each makes a text longer, at most.
_WIDER = {
    "bin": 32, "to_binary": 32, "hex": 8, "to_hex": 8, "base64": 6, "to_base64": 6, "url_encode": 12,
    "regexp_escape": 2,
}  # fmt: skip
_GROWING = _TO_SIZE | _TIMES_SIZE | _FORMATS | _PRODUCTS | set(_WIDER)
# A width that is not written out: {:{}} or %*d.
_WIDTH_FROM_ARGUMENT = re.compile(r"\{[^}]*\{|%[^a-zA-Z%]*\*")
_TEXTLESS = (exp.Predicate, exp.Connector, exp.Not, exp.Binary)
_TEXTS = (exp.DPipe, exp.Collate)


def characters(texts: Sequence[str], longest: Mapping[str, float]) -> list[float]:
    """For each expression a bound on what all its parts make of one row: 0 for little, `inf` where there is none.

    `longest` are the longest values of the columns, by folded name.
    """
    suspects = [text for text in texts if len(text) > PLAIN]
    folded = "\0".join(texts).lower()
    if any(name in folded for name in _GROWING):
        suspects = [text for text in texts if len(text) > PLAIN or any(name in text.lower() for name in _GROWING)]
    made = {text: _made(dialect.expression(text), longest) for text in suspects}
    return [made.get(text, 0) for text in texts]


def _made(tree: exp.Expr, longest: Mapping[str, float]) -> float:
    """What all parts of an expression make together, from the innermost ones outwards."""
    lengths: dict[int, float] = {}
    made = 0.0
    for node in reversed(list(tree.walk())):
        parts = [lengths[id(child)] for child in _arguments(node)]
        if isinstance(node, exp.Column):
            lengths[id(node)] = longest.get(fold(node.name), _SCALAR)
        elif isinstance(node, exp.Condition) and isinstance(node.this, str) and not isinstance(node, exp.Func):
            lengths[id(node)] = len(node.this.encode())  # a constant is made once, not for every row
        else:
            lengths[id(node)] = _length(node, parts)
            made += lengths[id(node)]
    return made


def _arguments(node: exp.Expr) -> Iterator[exp.Expr]:
    """What a node is made of, without the name of a function: a keyword is one in quotes, "replace"(...)."""
    return (
        child
        for child in node.iter_expressions()
        if not isinstance(node, exp.Func) or child is not node.this or not isinstance(child, exp.Identifier)
    )


def _length(node: exp.Expr, parts: list[float]) -> float:
    if isinstance(node, _TEXTLESS) and not isinstance(node, _TEXTS):
        return _SCALAR
    if isinstance(node, exp.Func):
        return _called(function_name(node), list(_arguments(node)), parts)
    return sum(parts) + _SCALAR


def _called(name: str, arguments: list[exp.Expr], lengths: list[float]) -> float:
    together = sum(lengths) + _SCALAR
    if name in _TO_SIZE | _TIMES_SIZE and len(arguments) > 1:
        size = arguments[1].unnest()
        count = float(size.name) if isinstance(size, exp.Literal) and not size.is_string else inf
        return max(count, together) if name in _TO_SIZE else max(1, lengths[0]) * count
    if name in _FORMATS and arguments:
        template = arguments[0].unnest()
        if not isinstance(template, exp.Literal) or _WIDTH_FROM_ARGUMENT.search(template.name):
            return inf
        widths = sum(map(float, re.findall(r"\d+", template.name)))
        return together * (1 + template.name.count("{") + template.name.count("%")) + widths
    if name in _PRODUCTS and len(lengths) > 1:
        return 2 * (1 + lengths[0]) * (1 + sum(lengths[1:]))
    return together * _WIDER.get(name, 1)
