"""`mwem-sql [database]`: its options, and the shell that reads statements from a person or from a pipe.

Owns prompts and the history file. Must not print results: that is the console's.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Collection
from pathlib import Path

import duckdb

from mwem_sql.cli.commands import obey
from mwem_sql.cli.console import Console, connection
from mwem_sql.cli.scripts import read, run_script, split_script
from mwem_sql.errors import did_you_mean
from mwem_sql.platform.resources import VERSION

BANNER = f"mwem-sql {VERSION}, DuckDB {duckdb.__version__}"
PROMPT, CONTINUATION = "mwem> ", "  ... "
HISTORY = "~/.mwem_sql_history"


def run(arguments: list[str], commands: Collection[str]) -> int:
    """Run scripts, or the shell. `commands` are what the first word could have been instead of a database."""
    parser = argparse.ArgumentParser(
        prog="mwem-sql",
        description="A DuckDB shell with differentially private synthetic tables: mwem_release and its family.",
        epilog="`mwem-sql demo` shows on a made-up census what that is; `mwem-sql suggest FILE` prints a script that releases a CSV or"
        " Parquet file, to review. (A database called demo is ./demo.)",
    )
    add = parser.add_argument
    add("database", nargs="?", default=":memory:", help="a DuckDB file; in memory without one")
    add("-c", metavar="SQL", dest="scripts", action="append", type=lambda s: ("", s), help="run this; may be repeated")
    add("-f", metavar="FILE", dest="scripts", action="append", type=read, help="run this file, or stdin for -")
    add("--csv", dest="style", action="store_const", const="csv", default="box", help="print rows as CSV")
    add("--json", dest="style", action="store_const", const="json", help="print rows as JSON, an object per line")
    add("--readonly", action="store_true", help="open the database read-only")
    add("--version", action="version", version=BANNER)
    options, rest = parser.parse_known_args(arguments)
    if rest:
        near = did_you_mean(options.database, commands).strip()
        parser.error(f"unrecognized arguments: {' '.join(rest)}" + (f"; {near}" if near else ""))
    with connection(parser, options.database, read_only=options.readonly) as con:
        console = Console(con, options.style, not options.scripts and sys.stdin.isatty() and sys.stdout.isatty())
        if console.interactive:
            print(f"{BANNER}, {options.database}\nStatements end with ;  .help for help")
            converse(console)
            return 0
        scripts = (
            obey(console, text) if text.startswith(".") else run_script(console, text, source)
            for source, text in options.scripts or []
        )
        return 0 if (all(scripts) if options.scripts else run_lines(console)) else 1


def converse(console: Console) -> None:
    """Run what a person types; errors are theirs to mend. Ctrl-C drops what is typed, Ctrl-D leaves."""
    from mwem_sql.cli import editor  # noqa: PLC0415 (it takes a tenth of a second, which scripts need not wait for)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job of the background has it ignored
    history = Path(HISTORY).expanduser()
    reader = (
        editor.Editor(console.con, is_whole, (PROMPT, CONTINUATION), history).read
        if editor.is_usable()
        else read_plainly
    )
    while True:
        try:
            text = reader()
            if text.lstrip().startswith("."):
                obey(console, text.strip())
            else:
                for _, each in split_script(text)[0]:
                    if not console.run(each):
                        break
        except EOFError:
            print()
            return
        except KeyboardInterrupt as stopped:
            print()
            if str(stopped):
                console.fail(str(stopped))
        except (duckdb.Error, UnicodeError) as error:
            console.fail(str(error))


def is_whole(text: str) -> bool:
    """Whether a text can be run: a dot command, nothing at all, or statements of which the last one is ended."""
    if text.lstrip().startswith(".") or not text.strip():
        return True
    try:
        statements, rest = split_script(text)
        return bool(statements) and split_script(rest + "\n;") == ([], "")  # nothing but blanks and comments is left
    except duckdb.Error:
        return True  # DuckDB says what is wrong


def read_plainly() -> str:
    """A statement, line by line, on a terminal that can do no more than print lines."""
    text = ""
    while not text or not is_whole(text):
        text += input(CONTINUATION if text else PROMPT) + "\n"
    return text


def run_lines(console: Console) -> bool:
    """Run what stdin says, statement by statement as it comes, up to the first error."""
    buffer, line_number, well = "", 1, True
    while well:
        line = sys.stdin.readline()
        if not line:
            return run_script(console, "\n" * (line_number - 1) + buffer, "<stdin>")
        if not buffer and line.startswith("."):
            line_number += 1
            try:
                well = obey(console, line)
            except EOFError:
                return True
            continue
        buffer += line
        if ";" in line or len(buffer) < 1000:
            try:
                statements, rest = split_script(buffer, line_number)
            except (duckdb.Error, UnicodeError) as error:
                return console.fail(str(error))
            rest = "" if split_script(rest + "\n;") == ([], "") else rest  # nothing but blanks and comments
            line_number += buffer.count("\n") - rest.count("\n")
            buffer = rest
            well = all(console.run(each, f"<stdin>:{n}: ") for n, each in statements)
    return well
