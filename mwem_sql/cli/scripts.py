"""Scripts: SQL text from a file, an option or stdin, taken apart into statements and run up to the first error.

Owns where a statement begins and ends, and its line in messages. Must not show results: that is the console's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import duckdb

from mwem_sql.cli.console import Console


def split_script(script: str, line: int = 1) -> tuple[list[tuple[int, str]], str]:
    """Take a script apart: statements that a `;` ends, each with its line, and the rest. The script starts on `line`.

    DuckDB's own tokens decide what is a quote, a dollar quote or a comment; it reports none inside one that is open.
    """
    data = script.encode()  # offsets are in bytes
    statements: list[tuple[int, str]] = []
    first, end = -1, 0
    for offset, kind in duckdb.tokenize(script):
        if data[offset] == ord(";"):
            end = offset + 1
            if first >= 0:
                statements.append((line + data.count(b"\n", 0, first), data[first:end].decode()))
            first = -1
        elif first < 0 and not str(kind).endswith("comment"):
            first = offset
    return statements, data[end:].decode()


def read(file: str) -> tuple[str, str]:
    """Read a script for argparse: what to call it in messages, and its text."""
    try:
        return ("<stdin>", sys.stdin.read()) if file == "-" else (file, Path(file).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeError) as error:
        raise argparse.ArgumentTypeError(error) from None


def run_script(console: Console, text: str, source: str) -> bool:
    """Run a script up to its first error. Its last `;` may be missing."""
    statements, rest = split_script(text := text + "\n;")
    if rest := rest.lstrip():  # an open quote or comment: DuckDB says which
        statements.append((1 + text.removesuffix(rest).count("\n"), rest))
    return all(console.run(each, f"{source}:{line}: " if source else "") for line, each in statements)
