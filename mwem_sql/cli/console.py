"""The console: a registered connection that runs statements and scripts, and prints results, messages and errors.

Owns where a statement of a script begins and ends; text tables, records, CSV, JSON, colours, hints beside DuckDB's
errors and what Ctrl-C says. Must not know where a statement comes from.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

import mwem_sql
from mwem_sql.errors import MwemError, did_you_mean
from mwem_sql.platform import calls
from mwem_sql.surface import progress_line
from mwem_sql.surface.spec import FUNCTIONS

STYLES = ("box", "record", "csv", "json")
SHOWN_ROWS = 40
KEPT_LETTERS = 12
"""Letters that a column may be cut to, so that none is left out. DuckDB's default leaves out that of mwem_answer."""


@dataclass
class Console:
    """A registered connection, and how to show what comes out of it."""

    con: duckdb.DuckDBPyConnection
    style: str = "box"
    interactive: bool = False

    def run(self, text: str, where: str = "") -> bool:
        """Run a statement once and show its result, or its error on stderr. True if it went well."""
        try:
            with progress_line.shown(None):
                table, total = fetch(self.con, text, SHOWN_ROWS if self.style in {"box", "record"} else None)
        except (duckdb.Error, MwemError, UnicodeError) as error:
            return self.fail(f"{where}{with_hint(str(error), text)}")
        if table.column_names:
            self.show(table, total)
        elif self.interactive:
            print("OK")
        return True

    def run_script(self, text: str, source: str) -> bool:
        """Run a script up to its first error. Its last `;` may be missing."""
        statements, rest = split_script(text := text + "\n;")
        if rest := rest.lstrip():  # an open quote or comment: DuckDB says which
            statements.append((1 + text.removesuffix(rest).count("\n"), rest))
        return all(self.run(each, f"{source}:{line}: " if source else "") for line, each in statements)

    def fail(self, message: str) -> bool:
        """Say on stderr that something went wrong, after what stdout already has."""
        sys.stdout.flush()
        text = message.rstrip()
        print(painted(text) if sys.stderr.isatty() else text, file=sys.stderr, flush=True)
        return False

    def show(self, table: pa.Table, total: int) -> None:
        """Print a fetched result; DuckDB writes the values, so that every type looks as it does there."""
        columns = table.column_names
        distinct = [f"{name}_{i}" if name in columns[:i] else name for i, name in enumerate(columns)]  # 1.x needs that
        is_exact = self.style in {"csv", "json"}
        relation = self.con.from_arrow((table if is_exact else rounded(table)).rename_columns(distinct))
        if self.style == "json":
            for (row,) in relation.set_alias("__mwem_row").project("to_json(__mwem_row)").fetchall():
                print(row)
            return
        texts = relation.project("COLUMNS(*)::VARCHAR").fetchall()
        if self.style == "csv":
            csv.writer(sys.stdout, lineterminator="\n").writerows([columns, *texts])
        elif columns[-1] == "script" and texts and texts[0][-1]:  # of mwem_suggest_domain: to be copied as it is
            print(texts[0][-1], end="")
        elif columns == ["explain_key", "explain_value"]:
            print(*(plan for _, plan in texts), sep="\n")
        elif columns == ["item", "value"] and self.style == "box":  # of mwem_plan
            print_plan(texts)
        elif self.style == "record" or (total == 1 and len(columns) > 6):  # a box would leave some out
            print_records(columns, texts)
        else:
            is_whole = fits(columns, [str(each) for each in relation.types], texts)
            relation.show(max_width=width(), max_rows=SHOWN_ROWS, max_col_width=KEPT_LETTERS if is_whole else None)
            if not is_whole and self.interactive:
                print("Some columns are left out: .mode record shows all of them.\n")
        if total > len(texts):
            print(f"These are the first {len(texts)} of {total:,} rows.\n")


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


def with_hint(message: str, statement: str) -> str:
    """The message, and below it which option was meant, if that can be told.

    An option of ours that is misspelt never reaches us: DuckDB refuses the call before.
    """
    refused = re.search(r"Macro (mwem_\w+)\(\) does not support the supplied arguments", message)
    if refused is not None and refused[1] in FUNCTIONS:
        function = FUNCTIONS[refused[1]]
        names = {parameter.name for parameter in function.signature}  # one without a default may be given by name, too
        call = statement[max(0, statement.lower().find(function.name)) :]
        for name in re.findall(r'\b(\w+)"?\s*(?::=|=>)', call):
            if name.lower() not in names:
                options = function.optional
                meant = f"{did_you_mean(name, options, shown=str)}it has {', '.join(options) or 'none'}"
                return f"{message.splitlines()[0]}\nHint: {function.name} has no option {name}; {meant}"
    column = re.search(r'Referenced column "(\w+)" (?:not found|was not found)', message)
    if column is not None and re.search(rf"\bmwem_\w+\(.*\b{column[1]}\s*=(?!=)", statement, re.DOTALL):
        return f"{message}\nHint: an option takes := and not =, {column[1]} := ..."
    if column is not None and re.search(rf"\bmwem_\w+\(\s*{column[1]}\s*[,)]", statement):
        return f"{message}\nHint: the first table is named as text, '{column[1]}'; a workload as it stands"
    return message


def fits(columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[str | None]]) -> bool:
    """Whether a box has room for all columns, if long ones are cut."""
    widths = [max(map(len, map(str, column))) for column in zip(columns, types, *rows, strict=True)]
    return sum(min(each, KEPT_LETTERS) + 3 for each in widths) < width()


def print_records(columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
    """Each row as a list of its columns."""
    for row in rows:
        for name, value in zip(columns, row, strict=True):
            print(f"  {name:>{max(map(len, columns))}}  {'NULL' if value is None else value}")
        print()


def print_plan(rows: Sequence[Sequence[str | None]]) -> None:
    """A plan to be read: each item with its text, wrapped. Its SQL is only counted: few want to read pages of it."""
    shown = [(str(item), str(value)) for item, value in rows if item not in {"plan", "estimate", "aggregate"}]
    left = max((len(item) for item, _ in shown), default=0) + 4
    for item, value in shown:
        lines = textwrap.wrap(value, max(20, width() - left - 1)) or [""]
        print(f"  {item:>{left - 4}}  " + f"\n{'':{left}}".join(lines))
    statements = sum(item == "aggregate" for item, _ in rows)
    if statements:
        show = "SELECT value FROM mwem_plan(...) WHERE item = 'aggregate'"
        print(f"\nLeft out are {statements} statements of SQL. To see them: {show}")
    print()


def rounded(table: pa.Table) -> pa.Table:
    """The same with floating point numbers in six digits; CSV and JSON have all of them.

    Below 1e-12 they are 0: they come from weights that are next to nothing.
    """
    for k, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            values = table.column(k).to_pylist()
            short = [each if each is None else 0.0 if abs(each) < 1e-12 else float(f"{each:.6g}") for each in values]
            table = table.set_column(k, field, pa.array(short, field.type))
    return table


def painted(message: str) -> str:
    """An error for a terminal: its kind in red, the marks under a mistake in yellow, the hint in cyan."""
    lines = message.split("\n")
    lines[0] = re.sub(r"^([^:]*:)", "\x1b[1;31m\\1\x1b[0m", lines[0], count=1)
    lines = [f"\x1b[33m{line}\x1b[0m" if re.fullmatch(r" *\^+ *", line) else line for line in lines]
    return re.sub(r"(Hint: |Did you mean )", "\x1b[36m\\1\x1b[0m", "\n".join(lines))


def fetch(con: duckdb.DuckDBPyConnection, text: str, limit: int | None = None) -> tuple[pa.Table, int]:
    """Run a statement once: its first `limit` rows, and how many there are. No columns if it is not one for rows."""

    def say() -> None:
        print("\nInterrupted. Ctrl-C again leaves at once.", file=sys.stderr, flush=True)

    with calls.interruptible(con, say, lambda: os._exit(130)):  # files survive an exit
        relation: Any = con.sql(text)
        if relation is None:
            return pa.table({}), 0
        method = "to_arrow_reader" if hasattr(relation, "to_arrow_reader") else "fetch_record_batch"  # its name in 1.4
        reader = getattr(relation, method)(10_000)
        batches, total = [], 0
        try:
            for batch in reader:
                if limit is None or total < limit:
                    batches.append(batch)
                total += batch.num_rows
        except OSError as error:  # how an Arrow stream passes DuckDB's message on
            raise duckdb.Error(str(error)) from None
        status = reader.schema.names in (["Count"], ["Success"])  # what 2.0 returns for statements without rows
        if status and not str(con.extract_statements(text)[-1].type).endswith("SELECT"):
            return pa.table({}), 0
        return pa.Table.from_batches(batches, reader.schema).slice(0, limit), total


def width() -> int:
    return shutil.get_terminal_size((80, 24)).columns


@contextlib.contextmanager
def connection(parser: argparse.ArgumentParser, path: str, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open, register and close a database: 2.0 complains of one that is open when Python exits."""
    try:
        con = duckdb.connect(path, read_only=read_only)
    except duckdb.Error as error:
        parser.error(f"cannot open {path}: {error}")
    with contextlib.closing(con):
        con.execute("SET SESSION python_enable_replacements = false")  # no table is a variable of this module
        con.execute("SET SESSION enable_progress_bar = false")  # it would be written between the rows
        mwem_sql.register(con)
        yield con
