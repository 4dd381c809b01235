"""The console: a registered connection, and how results, messages and errors of its statements are printed.

Owns text tables, CSV, JSON and what Ctrl-C says. Must not know where a statement comes from.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

import mwem_sql
from mwem_sql.cli.hints import with_hint
from mwem_sql.database import calls
from mwem_sql.errors import MwemError

SHOWN_ROWS, RECORD_COLUMNS = 40, 6


@dataclass(frozen=True)
class Console:
    """A registered connection, and how to show what comes out of it."""

    con: duckdb.DuckDBPyConnection
    style: str = "box"
    interactive: bool = False

    def run(self, text: str, where: str = "") -> bool:
        """Run a statement once and show its result, or its error on stderr. True if it went well."""
        try:
            table, total = fetch(self.con, text, SHOWN_ROWS if self.style == "box" else None)
        except (duckdb.Error, MwemError, UnicodeError) as error:
            return self.fail(f"{where}{with_hint(str(error), text)}")
        if table.column_names:
            self.show(table, total)
        elif self.interactive:
            print("OK")
        return True

    def fail(self, message: str) -> bool:
        """Say on stderr that something went wrong, after what stdout already has."""
        sys.stdout.flush()
        print(message.rstrip(), file=sys.stderr, flush=True)
        return False

    def show(self, table: pa.Table, total: int) -> None:
        """Print a fetched result; DuckDB writes the values, so that every type looks as it does there."""
        names = table.column_names
        distinct = [f"{name}_{i}" if name in names[:i] else name for i, name in enumerate(names)]  # 1.x needs that
        relation = self.con.from_arrow(table.rename_columns(distinct))
        if self.style == "json":
            for (row,) in relation.set_alias("__mwem_row").project("to_json(__mwem_row)").fetchall():
                print(row)
            return
        texts = relation.project("COLUMNS(*)::VARCHAR").fetchall()
        if self.style == "csv":
            csv.writer(sys.stdout, lineterminator="\n").writerows([names, *texts])
        elif (
            names[-1] == "script" and len({row[-1] for row in texts}) == 1
        ):  # of mwem_suggest_domain: to be copied as it is
            print(texts[0][-1], end="")
        elif names == ["explain_key", "explain_value"]:
            print(*(plan for _, plan in texts), sep="\n")
        elif total == 1 and len(names) > RECORD_COLUMNS:  # a box would leave some out
            for name, value in zip(names, texts[0], strict=True):
                print(f"  {name:>{max(map(len, names))}}  {'NULL' if value is None else value}")
            print()
        else:
            relation.show(max_width=width(), max_rows=SHOWN_ROWS)
            if total > len(texts):
                print(f"These are the first {len(texts)} of {total:,} rows.\n")


def fetch(con: duckdb.DuckDBPyConnection, text: str, limit: int | None = None) -> tuple[pa.Table, int]:
    """Run a statement once: its first `limit` rows, and how many there are. No columns if it is not one for rows."""
    with calls.interruptible(con, _say_interrupted, lambda: os._exit(130)):  # files survive an exit
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


def _say_interrupted() -> None:
    print("\nInterrupted. Ctrl-C again leaves at once.", file=sys.stderr, flush=True)


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
