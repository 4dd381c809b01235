"""The command line, `mwem-sql`: which command runs, and what the process exits with. Only this folder prints.

Exit codes: 0 done, 1 a statement failed, 2 bad usage, 130 interrupted, 141 nobody reads the pipe. No module here knows
the algorithm: it speaks to a database through SQL, as its user does.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import duckdb

from mwem_sql.cli import shell
from mwem_sql.cli.console import connection
from mwem_sql.errors import MwemError


def export(arguments: list[str]) -> int:
    """Write a release as files to publish, and print their names."""
    parser = argparse.ArgumentParser(
        prog="mwem-sql export",
        description="Write a release as a file to publish, and a data card beside it (.md for people, .json for "
        "programs).",
    )
    parser.add_argument("output", help="the output table of a release")
    parser.add_argument("--to", required=True, metavar="FILE", help="release.parquet, release.csv or release.duckdb")
    parser.add_argument(
        "--database", metavar="PATH", help="where the release is; without it, the only *.duckdb file of this folder"
    )
    options = parser.parse_args(arguments)
    files = [options.database] if options.database else sorted(map(str, Path().glob("*.duckdb")))
    if len(files) != 1:
        parser.error(f"there are {len(files)} *.duckdb files here; say which one: --database census.duckdb")
    if not Path(files[0]).is_file():
        parser.error(f"--database ({files[0]}) is not a file")
    with connection(parser, files[0], read_only=True) as con:
        for file, size in con.execute(
            "SELECT file, bytes FROM mwem_export(?, ?)", [options.output, options.to]
        ).fetchall():
            print(f"{size:>12,} bytes  {file}")
    return 0


def imported(module: str, command: str = "run") -> Callable[[list[str]], int]:
    """A command in a module: who runs another one need not wait for it."""

    def run(arguments: list[str]) -> int:
        code: int = getattr(import_module(f"mwem_sql.cli.{module}"), command)(arguments)
        return code

    return run


COMMANDS = {
    "demo": imported("demo"), "export": export, "suggest": imported("suggest"), "serve": imported("serve"),
    "user": imported("serve", "users"), "curator": imported("serve", "curator"),
}  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Be the console command. Bad usage raises SystemExit(2), as argparse does."""
    arguments = sys.argv[1:] if argv is None else argv
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a box on an ASCII terminal is ugly, but no error
    try:
        command = COMMANDS.get(arguments[0]) if arguments else None
        code = command(arguments[1:]) if command else shell.run(arguments, COMMANDS)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python's own last flush must be quiet too
        return 141
    except KeyboardInterrupt as stopped:
        print(stopped, file=sys.stderr, end="\n" if str(stopped) else "")
        return 130
    except (duckdb.Error, MwemError) as error:
        print(error, file=sys.stderr)
        return 1
    return code
