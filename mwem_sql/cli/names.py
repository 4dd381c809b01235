"""Names that a person may type: tables, columns, functions and their options.

Asks the catalog and the text of our own macros. Reads no row of a table.
"""

from __future__ import annotations

import re
from functools import cache

import duckdb

from mwem_sql.platform.resources import read_sql

_HEAD = re.compile(r"^CREATE OR REPLACE MACRO (\w+)\(([^)]*)\)", re.MULTILINE)
_OPTION = re.compile(r"\b(\w+)\s*:=")
_CALL = re.compile(r"\b(mwem_\w+)\s*\(")
_COMMENT = re.compile(r"'(?:[^']|'')*'|--[^\n]*")


@cache
def options() -> dict[str, tuple[str, ...]]:
    """The options of each of our functions, in order."""
    return {name: tuple(_OPTION.findall(parameters)) for name, parameters in _HEAD.findall(read_sql("macros.sql"))}


def tables(con: duckdb.DuckDBPyConnection) -> list[str]:
    return _column(
        con, "SELECT DISTINCT table_name FROM information_schema.tables WHERE table_schema <> 'mwem' ORDER BY 1"
    )


def columns(con: duckdb.DuckDBPyConnection) -> list[str]:
    return _column(
        con, "SELECT DISTINCT column_name FROM information_schema.columns WHERE table_schema <> 'mwem' ORDER BY 1"
    )


@cache
def keywords() -> list[str]:
    with duckdb.connect(":memory:") as con:
        return [word.upper() for word in _column(con, "SELECT keyword_name FROM duckdb_keywords() ORDER BY 1")]


def _column(con: duckdb.DuckDBPyConnection, query: str) -> list[str]:
    return [str(row[0]) for row in con.cursor().execute(query).fetchall()]


def called(text: str) -> str | None:
    """Which of our functions the end of a text is inside of, if any."""
    plain = _COMMENT.sub("''", text)
    for match in reversed(list(_CALL.finditer(plain))):
        inside = plain[match.end() :]
        if inside.count("(") >= inside.count(")"):
            return match[1] if match[1] in options() else None
    return None
