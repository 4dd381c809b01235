"""The command line: `mwem-sql demo`, a SQL shell, and scripts. The only module that prints.

It owns arguments, prompts, text tables and exit codes: 0 done, 1 a statement failed, 2 bad usage, 130 interrupted,
141 nobody reads the pipe. It must not know the algorithm; the demo shows true figures because nobody in it exists.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import mwem_sql
from mwem_sql.database.resources import read_sql
from mwem_sql.errors import MwemError

VERSION = next((found.version for found in metadata.distributions(name="mwem-sql")), "from source")
BANNER = f"mwem-sql {VERSION}, DuckDB {duckdb.__version__}"
PROMPT, CONTINUATION = "mwem> ", "  ... "
SHOWN_ROWS, RECORD_COLUMNS = 40, 6

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

RELEASE = "CALL mwem_release('census', workload, $epsilon)"
SEEDED = "CALL mwem_release('census', workload, $epsilon, seed := $seed)"
COMPARE = "FROM mwem_compare('census', 'census_synthetic', workload)"
MARGINALS = ("marital", "education, income", "sex, occupation")
NEXT = """
What to try next
----------------

  mwem-sql demo --epsilon 0.1             a tenth of the budget, and more error
  mwem-sql demo --database demo.duckdb    keep it; mwem-sql demo.duckdb, then
    SELECT sex, marital, count(*) FROM census_synthetic GROUP BY ALL;
    SELECT mwem_count('census_synthetic', 'age > 40 AND income = ''>50K''');"""


def split(script: str, line: int = 1) -> tuple[list[tuple[int, str]], str]:
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


@contextlib.contextmanager
def interruptible(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let Ctrl-C interrupt the statement of a connection, and end in KeyboardInterrupt.

    The signal must not raise while DuckDB works: 1.x then leaves a release running on a thread of its own, and crashes.
    Nor can it wait for the main thread, which on 2.0 stayed in a join for 50 s. So a thread that waits on the wake-up
    descriptor interrupts, and stops a release. A second Ctrl-C does not wait for it. Files survive an exit.
    """
    ear, mouth = socket.socketpair()
    mouth.setblocking(False)
    heard = threading.Event()

    def watch() -> None:
        while number := ear.recv(1):
            if number[0] == signal.SIGINT:
                if heard.is_set():
                    os._exit(130)
                heard.set()
                mwem_sql.cancel()
                con.interrupt()
                print("\nInterrupted. Ctrl-C again leaves at once.", file=sys.stderr, flush=True)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    handler = signal.signal(signal.SIGINT, lambda *_: None)
    descriptor = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(descriptor)
        signal.signal(signal.SIGINT, handler)
        mouth.close()
        watcher.join()
        ear.close()
        if heard.is_set():
            raise KeyboardInterrupt


def fetch(con: duckdb.DuckDBPyConnection, text: str, limit: int | None = None) -> tuple[pa.Table, int]:
    """Run a statement once: its first `limit` rows, and how many there are. No columns if it is not one for rows."""
    with interruptible(con):
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


@dataclass(frozen=True)
class Session:
    """A registered connection, and how to show what comes out of it."""

    con: duckdb.DuckDBPyConnection
    style: str = "box"
    interactive: bool = False

    def run(self, text: str, where: str = "") -> bool:
        """Run a statement once and show its result, or its error on stderr. True if it went well."""
        try:
            table, total = fetch(self.con, text, SHOWN_ROWS if self.style == "box" else None)
        except (duckdb.Error, MwemError, UnicodeError) as error:
            return self.fail(f"{where}{error}")
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

    def script(self, text: str, source: str) -> bool:
        """Run a script up to its first error. Its last `;` may be missing."""
        statements, rest = split(text := text + "\n;")
        if rest := rest.lstrip():  # an open quote or comment: DuckDB says which
            statements.append((1 + text.removesuffix(rest).count("\n"), rest))
        return all(self.run(each, f"{source}:{line}: " if source else "") for line, each in statements)

    def command(self, line: str) -> bool:
        """Obey a line that starts with a dot."""
        words = line.rstrip("; \n").split()
        if words in ([".quit"], [".exit"]):
            raise EOFError
        if words == [".help"]:
            print(HELP)
        elif words == [".tables"]:
            return self.run(TABLES)
        elif words[0] == ".schema" and len(words) <= 2:
            found = self.con.execute(SCHEMA, {"name": words[1] if words[1:] else None}).fetchall()
            if words[1:] and not found:
                return self.fail(f".schema: no table or view has this name ({words[1]}). Hint: .tables lists them")
            print(*(sql for (sql,) in found), sep="\n")
        else:
            return self.fail(f"{line.strip()}: this is no command. Hint: .help lists them")
        return True

    def shell(self) -> bool:
        """Run what stdin says. A person gets prompts and may err; anything else stops at the first error."""
        buffer, line_number, well = "", 1, True
        while well or self.interactive:
            try:
                line = input(CONTINUATION if buffer else PROMPT) + "\n" if self.interactive else sys.stdin.readline()
                if not line:
                    return self.script("\n" * (line_number - 1) + buffer, "<stdin>")
                if not buffer and line.startswith("."):
                    line_number += 1
                    well = self.command(line)
                    continue
                buffer += line
                if ";" in line or len(buffer) < 1000:
                    statements, rest = split(buffer, line_number)
                    rest = "" if split(rest + "\n;") == ([], "") else rest  # nothing but blanks and comments
                    line_number += buffer.count("\n") - rest.count("\n")
                    buffer = rest
                    well = all(self.run(each, "" if self.interactive else f"<stdin>:{n}: ") for n, each in statements)
            except EOFError:  # Ctrl-D, .quit
                print(end="\n" if self.interactive else "")
                break
            except KeyboardInterrupt:
                if not self.interactive:
                    raise
                print()
                buffer = ""
            except (duckdb.Error, UnicodeError) as error:
                well, buffer = self.fail(str(error)), ""
        return well or self.interactive


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


def history(action: str) -> None:
    """`read` or `write` the typed lines, where there are readline and a place for them."""
    with contextlib.suppress(ImportError, OSError):
        import readline  # noqa: PLC0415 (only a person at a terminal needs it)

        readline.set_history_length(2000)
        getattr(readline, f"{action}_history_file")(str(Path("~/.mwem_sql_history").expanduser()))


def read(file: str) -> tuple[str, str]:
    """Read a script for argparse: what to call it in messages, and its text."""
    try:
        return ("<stdin>", sys.stdin.read()) if file == "-" else (file, Path(file).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeError) as error:
        raise argparse.ArgumentTypeError(error) from None


def sql(arguments: list[str]) -> int:
    """Run scripts, or the shell."""
    parser = argparse.ArgumentParser(
        prog="mwem-sql",
        description="A DuckDB shell with differentially private synthetic tables: mwem_release and its family.",
        epilog="`mwem-sql demo` shows on a made-up census what that is. (A database called demo is ./demo.)",
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
        session = Session(con, options.style, not options.scripts and sys.stdin.isatty() and sys.stdout.isatty())
        if session.interactive:
            print(f"{BANNER}, {options.database}\nStatements end with ;  .help for help")
            history("read")
            session.shell()
            history("write")
            return 0
        scripts = (session.script(text, source) for source, text in options.scripts or [])
        return 0 if (all(scripts) if options.scripts else session.shell()) else 1


def demo(arguments: list[str]) -> int:
    """Release a made-up census and show it beside the truth."""
    parser = argparse.ArgumentParser(prog="mwem-sql demo", description="Release a made-up census; show how good it is.")
    add = parser.add_argument
    add("--rows", type=int, default=50_000, metavar="N", help="people in the census (50000)")
    add("--epsilon", type=float, default=1.0, metavar="E", help="privacy budget of the release (1.0)")
    add("--seed", type=int, metavar="S", help="noise that can be repeated, and so is not private")
    add("--database", default=":memory:", metavar="PATH", help="where to keep it; in memory without one")
    options = parser.parse_args(arguments)
    if options.rows < 1:
        parser.error(f"--rows ({options.rows}) must be at least 1")
    with connection(parser, options.database, read_only=False) as con:
        con.execute("SET VARIABLE demo_rows = $rows", {"rows": options.rows})
        if not Session(con).script(read_sql("demo.sql"), "sql/demo.sql"):
            return 1
        tell(con, options.epsilon, options.seed)
    return 0


def tell(con: duckdb.DuckDBPyConnection, epsilon: float, seed: int | None) -> None:
    """Tell the demo's story: the private table, its release, and both side by side."""
    page = max(60, min(width(), 100))
    rows = con.table("census").aggregate("count(*)").fetchall()[0][0]
    print(f"\nThe release\n-----------\n\ncensus has {rows:,} rows, and its columns depend on each other; workload")
    print("has questions about it. Both are made up. One call makes a synthetic table:\n")
    call = (RELEASE if seed is None else SEEDED).replace("$epsilon", str(epsilon)).replace("$seed", str(seed))
    print(f"  {call};\n", flush=True)
    Session(con).show(*fetch(con, call))
    print("census_synthetic is an ordinary table now. The same CALL again costs nothing.")
    if seed is not None:
        print("private is False: whoever knows the seed can take the noise away again.")

    print("\nThe truth and the synthetic table, side by side\n-----------------------------------------------\n")
    print(
        "This comparison is NOT private: it reads the true rows. It is only possible here\nbecause the data is made up."
    )
    for columns in MARGINALS:
        print(f"\n  SELECT {columns}, count(*) FROM ... GROUP BY ALL;\n")  # noqa: S608
        print_bars(con, columns, page)
    print(f"\n  {COMPARE};\n\n  {'predicate':<{page - 33}} {'true':>9} {'synthetic':>9} {'error':>9}")
    compared = fetch(con, COMPARE)[0].to_pylist()
    for row in compared:
        if row["cell"] is None:
            numbers = (f"{row[column]:>9,.0f}" for column in ("true_answer", "answer", "error"))
            print(f"  {row['name'][: page - 33]:<{page - 33}}", *numbers)
    errors = [abs(row["error"]) for row in compared]
    mean = sum(errors) / len(errors)
    print(f"\nOver all {len(errors)} answers of the workload, cell by cell, the error is {mean:,.1f} rows on")
    print(f"average and {max(errors):,.1f} at most, in a table of {rows:,} rows.")

    print(NEXT)


def print_bars(con: duckdb.DuckDBPyConnection, columns: str, page: int) -> None:
    """Print a marginal of both tables, side by side."""
    tables = (con.table("census"), con.table("census_synthetic"))
    both = [table.aggregate(f"{columns}, count(*)").order(columns).fetchall() for table in tables]
    truth, synthetic = ({", ".join(cell): n for *cell, n in rows} for rows in both)
    widest = max(map(len, [*truth, *synthetic]))
    room = (page - widest - 22) // 2
    unit = max(*truth.values(), *synthetic.values()) / (8 * room)
    print(f"  {'':{widest}}  {'true':>7} {'':{room}} synthetic")
    for label in dict.fromkeys([*truth, *synthetic]):
        pair = (truth.get(label, 0), synthetic.get(label, 0))
        bars = ["█" * (round(n / unit) // 8) + " ▏▎▍▌▋▊▉"[round(n / unit) % 8] for n in pair]
        print(f"  {label:<{widest}}  {pair[0]:>7,} {bars[0]:<{room + 1}} {pair[1]:>7,} {bars[1]}".rstrip())


def main(argv: list[str] | None = None) -> int:
    """Be the console command. Bad usage raises SystemExit(2), as argparse does."""
    arguments = sys.argv[1:] if argv is None else argv
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a box on an ASCII terminal is ugly, but no error
    try:
        code = demo(arguments[1:]) if arguments[:1] == ["demo"] else sql(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python's own last flush must be quiet too
        return 141
    except KeyboardInterrupt:
        return 130
    except (duckdb.Error, MwemError) as error:
        print(error, file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    raise SystemExit(main())
