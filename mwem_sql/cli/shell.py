"""`mwem-sql [database]`: its options, and the shell that reads statements from a person or from a pipe.

Owns prompts, dot commands and the history file. Must not print results: that is the console's.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from importlib import metadata
from pathlib import Path

import duckdb

from mwem_sql.cli.console import Console, connection
from mwem_sql.cli.scripts import read, run_script, split_script

VERSION = next((package.version for package in metadata.distributions(name="mwem-sql")), "from source")
BANNER = f"mwem-sql {VERSION}, DuckDB {duckdb.__version__}"
PROMPT, CONTINUATION = "mwem> ", "  ... "

HELP = """\
A statement ends with ; and may take several lines. Ctrl-C drops or stops it.

  .tables          tables and views         .help            this text
  .schema [NAME]   how they were declared   .quit  Ctrl-D    leave

  CALL mwem_release('t', workload, 0.5);           makes t_synthetic, privately
  FROM mwem_plan('t', workload, 0.5);              what that would run and cost
  SELECT mwem_count('t_synthetic', 'age > 40');    an answer, free of charge
  FROM mwem_ledger();                              what was spent
"""
TABLES = "SELECT table_schema, table_name, table_type FROM information_schema.tables ORDER BY ALL"
SCHEMA = "SELECT sql FROM sqlite_master WHERE $name::VARCHAR IS NULL OR name = $name::VARCHAR ORDER BY name"


def run(arguments: list[str]) -> int:
    """Run scripts, or the shell."""
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
    options = parser.parse_args(arguments)
    with connection(parser, options.database, read_only=options.readonly) as con:
        console = Console(con, options.style, not options.scripts and sys.stdin.isatty() and sys.stdout.isatty())
        if console.interactive:
            print(f"{BANNER}, {options.database}\nStatements end with ;  .help for help")
            history("read")
            read_and_run(console)
            history("write")
            return 0
        scripts = (run_script(console, text, source) for source, text in options.scripts or [])
        return 0 if (all(scripts) if options.scripts else read_and_run(console)) else 1


def read_and_run(console: Console) -> bool:
    """Run what stdin says. A person gets prompts and may err; anything else stops at the first error."""
    buffer, line_number, well = "", 1, True
    while well or console.interactive:
        try:
            line = input(CONTINUATION if buffer else PROMPT) + "\n" if console.interactive else sys.stdin.readline()
            if not line:
                return run_script(console, "\n" * (line_number - 1) + buffer, "<stdin>")
            if not buffer and line.startswith("."):
                line_number += 1
                well = command(console, line)
                continue
            buffer += line
            if ";" in line or len(buffer) < 1000:
                statements, rest = split_script(buffer, line_number)
                rest = "" if split_script(rest + "\n;") == ([], "") else rest  # nothing but blanks and comments
                line_number += buffer.count("\n") - rest.count("\n")
                buffer = rest
                well = all(console.run(each, "" if console.interactive else f"<stdin>:{n}: ") for n, each in statements)
        except EOFError:  # Ctrl-D, .quit
            print(end="\n" if console.interactive else "")
            break
        except KeyboardInterrupt as stopped:
            if not console.interactive:
                raise
            print()
            if str(stopped):
                console.fail(str(stopped))
            buffer = ""
        except (duckdb.Error, UnicodeError) as error:
            well, buffer = console.fail(str(error)), ""
    return well or console.interactive


def command(console: Console, line: str) -> bool:
    """Obey a line that starts with a dot."""
    words = line.rstrip("; \n").split()
    if words in ([".quit"], [".exit"]):
        raise EOFError
    if words == [".help"]:
        print(HELP)
    elif words == [".tables"]:
        return console.run(TABLES)
    elif words[0] == ".schema" and len(words) <= 2:
        declared = console.con.execute(SCHEMA, {"name": words[1] if words[1:] else None}).fetchall()
        if words[1:] and not declared:
            return console.fail(f".schema: no table or view has this name ({words[1]}). Hint: .tables lists them")
        print(*(sql for (sql,) in declared), sep="\n")
    else:
        return console.fail(f"{line.strip()}: this is no command. Hint: .help lists them")
    return True


def history(action: str) -> None:
    """`read` or `write` the typed lines, where there are readline and a place for them."""
    with contextlib.suppress(ImportError, OSError):
        import readline  # noqa: PLC0415 (only a person at a terminal needs it)

        readline.set_history_length(2000)
        getattr(readline, f"{action}_history_file")(str(Path("~/.mwem_sql_history").expanduser()))
