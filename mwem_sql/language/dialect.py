"""How SQL text is read here: sqlglot takes it apart, DuckDB gives it its meaning.

Function calls stay as they were written: sqlglot would turn many into nodes of its own and print those in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.parser import binary_range_parser
from sqlglot.parsers.duckdb import DuckDBParser

# Calls whose arguments are separated by keywords.
_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM", "OVERLAY")


class Verbatim(DuckDB):
    """DuckDB's SQL, in which only syntax is understood and no function is known by name."""

    class Parser(DuckDBParser):
        FUNCTIONS = {}  # noqa: RUF012  a class variable of sqlglot's
        FUNCTION_PARSERS = {name: DuckDBParser.FUNCTION_PARSERS[name] for name in _SYNTAX}  # noqa: RUF012
        # `~` matches the whole string before DuckDB 2.0, and a part of it since; not every sqlglot knows.
        RANGE_PARSERS = {  # noqa: RUF012
            **DuckDBParser.RANGE_PARSERS,
            TokenType.TILDE: binary_range_parser(
                exp.RegexpLike if int(duckdb.__version__.split(".")[0]) >= 2 else exp.RegexpFullMatch
            ),
        }


# The version decides what some operators mean.
DIALECT = Dialect.get_or_raise(f"verbatim, version={'.'.join(duckdb.__version__.split('.')[:2])}")


def parse(text: str) -> Sequence[exp.Expr | None]:
    """The statements of a text; raises sqlglot's errors."""
    return sqlglot.parse(text, dialect=DIALECT)


def expression(text: str) -> exp.Expr:
    """The tree of a text that is one statement; raises sqlglot's errors."""
    return sqlglot.parse_one(text, dialect=DIALECT)


def sql(tree: exp.Expr) -> str:
    return tree.sql(DIALECT)


def fold(name: str) -> str:
    """What DuckDB compares of an identifier: it ignores the case of ASCII letters, and of no others."""
    return name.lower() if name.isascii() else name.encode().lower().decode()


def quoted(name: str) -> str:
    """An identifier in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def name(text: str) -> str:
    """An identifier as it can be pasted: in double quotes where it would not be read as one, or as another."""
    try:
        tree = parse(text)
    except SqlglotError:
        tree = ()
    is_plain = len(tree) == 1 and isinstance(tree[0], exp.Column) and tree[0].sql(DIALECT) == text
    return text if is_plain else quoted(text)


def function_name(node: exp.Func) -> str:
    """A function's name as it was called, in lower case."""
    return (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
