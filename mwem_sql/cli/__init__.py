"""The command line, `mwem-sql`: which command runs, and what the process exits with. Only this folder prints.

Exit codes: 0 done, 1 a statement failed, 2 bad usage, 130 interrupted, 141 nobody reads the pipe. No module here knows
the algorithm: it speaks to a database through SQL, as its user does.
"""

from __future__ import annotations

import io
import os
import sys

import duckdb

from mwem_sql.cli import demo, exporting, shell, suggest
from mwem_sql.errors import MwemError

COMMANDS = {"demo": demo.run, "export": exporting.run, "suggest": suggest.run}


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
