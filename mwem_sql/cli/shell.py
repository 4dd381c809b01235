"""`mwem-sql [database]`: its options, and the shell that reads statements from a person or from a pipe.

Owns prompts, the history file and the dot commands. Must not print results: that is the console's.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Collection
from pathlib import Path

import duckdb

from mwem_sql.cli.console import STYLES, Console, connection, split_script
from mwem_sql.errors import did_you_mean
from mwem_sql.platform.metadata import VERSION

BANNER = f"mwem-sql {VERSION}, DuckDB {duckdb.__version__}"
PROMPT, CONTINUATION = "mwem> ", "  ... "
HELP = """\
A statement ends with ; and may take several lines. Ctrl-C drops or stops it. Tab completes names and options.

  .tables          tables and views         .mode [NAME]     how rows are shown: box, record, csv, json
  .schema [NAME]   how they were declared   .help            this text
  .quit  Ctrl-D    leave

  CALL mwem_release('t', workload, 0.5);           makes t_synthetic, privately
  FROM mwem_plan('t', workload, 0.5);              what that would run and cost
  SELECT mwem_count('t_synthetic', 'age > 40');    an answer, free of charge
  FROM mwem_ledger();                              what was spent
"""


def run(arguments: list[str], commands: Collection[str]) -> int:
    """Run scripts, or the shell. `commands` are what the first word could have been instead of a database."""
    parser = argparse.ArgumentParser(
        prog="mwem-sql",
        description="A DuckDB shell with differentially private synthetic tables: mwem_release and its family.",
        epilog="`mwem-sql demo` shows on a made-up census what that is; `mwem-sql suggest FILE` prints a script that "
        "releases a CSV or Parquet file, to review. (A database called demo is ./demo.)",
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
            obey(console, text) if text.startswith(".") else console.run_script(text, source)
            for source, text in options.scripts or []
        )
        return 0 if (all(scripts) if options.scripts else run_lines(console)) else 1


def read(file: str) -> tuple[str, str]:
    """Read a script for argparse: what to call it in messages, and its text."""
    try:
        return ("<stdin>", sys.stdin.read()) if file == "-" else (file, Path(file).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeError) as error:
        raise argparse.ArgumentTypeError(error) from None


def obey(console: Console, line: str) -> bool:
    """Do what a line that starts with a dot says. EOFError: leave."""
    words = line.rstrip("; \n").split()
    if words in ([".quit"], [".exit"]):
        raise EOFError
    if words == [".help"]:
        print(HELP)
    elif words == [".tables"]:
        return console.run("SELECT table_schema, table_name, table_type FROM information_schema.tables ORDER BY ALL")
    elif words[0] == ".schema" and len(words) <= 2:
        query = "SELECT sql FROM sqlite_master WHERE $name::VARCHAR IS NULL OR name = $name::VARCHAR ORDER BY name"
        declared = console.con.execute(query, {"name": words[1] if words[1:] else None}).fetchall()
        if words[1:] and not declared:
            return console.fail(f".schema: no table or view has this name ({words[1]}). Hint: .tables lists them")
        print(*(sql for (sql,) in declared), sep="\n")
    elif words[0] == ".mode" and len(words) <= 2:
        if not words[1:]:
            print(console.style)
        elif words[1] in STYLES:
            console.style = words[1]
        else:
            return console.fail(f".mode: rows cannot be shown as this ({words[1]}). Hint: {', '.join(STYLES)}")
    else:
        return console.fail(f"{line.strip()}: this is no command. Hint: .help lists them")
    return True


def converse(console: Console) -> None:
    """Run what a person types; errors are theirs to mend. Ctrl-C drops what is typed, Ctrl-D leaves."""
    from mwem_sql.cli import editor  # noqa: PLC0415 (it takes a tenth of a second, which scripts need not wait for)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job of the background has it ignored
    history = Path("~/.mwem_sql_history").expanduser()
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
            return console.run_script("\n" * (line_number - 1) + buffer, "<stdin>")
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
