"""`mwem-sql suggest titanic.csv > titanic.sql`: a script that goes from a file to its release, for a person to review.

Owns how the table is made from the file: with the types that the file has now, so that the script reads no types when
it runs. The rest of the script is what `mwem_suggest_domain` gives.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import exp

from mwem_sql.cli.console import connection
from mwem_sql.errors import OptionError, refuse
from mwem_sql.explain.suggest_tables import TableFile, tables_script
from mwem_sql.language.dialect import quoted
from mwem_sql.platform.session import Session

_FUNCTION = "mwem-sql suggest"
_ENDINGS = (".csv", ".parquet")


def run(arguments: list[str]) -> int:
    """Print the script."""
    parser = argparse.ArgumentParser(
        prog="mwem-sql suggest",
        description="Print a script that makes a table from a file and releases it; of several files, or all of a "
        "folder, tables with the keys that join them. NOT PRIVATE: it reads the rows; review it.",
        epilog="mwem-sql suggest titanic.csv > titanic.sql; then read it, change it, and: mwem-sql titanic.duckdb -f "
        "titanic.sql",
    )
    parser.add_argument("file", nargs="+", help="a CSV or Parquet file, several, or a folder of such files")
    parser.add_argument("--table", metavar="NAME", help="what the table is to be called; the file's name without one")
    options = parser.parse_args(arguments)
    files = [each for text in options.file for each in _files(text)]
    if options.table is not None and len(files) > 1:
        parser.error("--table is for one file")
    with connection(parser, ":memory:", read_only=False) as con:
        if len(files) > 1:
            print(_of_several(con, files), end="")
            return 0
        name = options.table or _table(files[0])
        created = _created(_rows_of(con, files[0]), name)
        con.execute(created)
        query = "SELECT any_value(script) FROM mwem_suggest_domain(?)"
        ((script,),) = con.execute(query, [exp.to_identifier(name).sql("duckdb")]).fetchall()
    title, _, rest = script.partition("\n\n")
    heading = "-- 0. The table. CHECK the types: nothing is found out from the file when this runs."
    print(f"{title}\n\n{heading}\n{created};\n\n{rest}", end="")
    return 0


def _files(text: str) -> list[str]:
    """A file, or those of a folder in the order of their names."""
    if not Path(text).is_dir():
        return [text]
    files = sorted(str(path) for path in Path(text).iterdir() if path.suffix.lower() in _ENDINGS)
    if not files:
        what = f"folder ({text!r}) has no {' or '.join(_ENDINGS)} file in it"
        raise refuse(OptionError, _FUNCTION, what, "name the files")
    return files


def _table(file: str) -> str:
    """What the table of a file is called."""
    return re.sub(r"\W", "_", Path(file).name.split(".")[0])


def _of_several(con: duckdb.DuckDBPyConnection, files: list[str]) -> str:
    """The script for tables that keys join."""
    names = list(map(_table, files))
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        what = f"files ({', '.join(map(repr, files))}) would make two tables {twice!r}"
        raise refuse(OptionError, _FUNCTION, what, "rename one of them")
    sources = []
    for name, file in zip(names, files, strict=True):
        rows = _rows_of(con, file)
        con.execute(_created(rows, name))
        sources.append(TableFile(table=quoted(name), file=rows))
    return tables_script(Session.of(con), sources, _FUNCTION)


def _created(rows: exp.Expr, table: str) -> str:
    """The statement that makes the table."""
    target = exp.Table(this=exp.to_identifier(table, quoted=True))
    made = exp.Create(this=target, kind="TABLE", exists=True, expression=exp.select("*").from_(rows))
    return made.sql("duckdb", normalize_functions=False)


def _rows_of(con: duckdb.DuckDBPyConnection, file: str) -> exp.Expr:
    """What FROM says of a file, with declared types."""
    if not Path(file).is_file():
        raise refuse(OptionError, _FUNCTION, f"file ({file!r}) does not exist", "name a CSV or Parquet file")
    if Path(file).suffix.lower() == ".parquet":
        read = exp.Anonymous(this="read_parquet", expressions=[exp.Literal.string(file)])
    else:
        read = exp.Anonymous(this="read_csv", expressions=[exp.Literal.string(file), *_declared(con, file)])
    return exp.Table(this=read)


def _sniffed(con: duckdb.DuckDBPyConnection, file: str, separator: str) -> tuple[Any, ...]:
    """What DuckDB's sniffer makes of a file: seven options of read_csv, whether it has a header, and the columns."""
    query = """SELECT Delimiter, Quote, Escape, Comment, SkipRows, DateFormat, TimestampFormat, HasHeader, Columns
               FROM sniff_csv(?, sample_size := -1, decimal_separator := ?)"""
    try:
        (row,) = con.execute(query, [file, separator]).fetchall()
    except duckdb.Error as error:
        text = str(error)
        reason = text.splitlines()[0]
        hint = "name a CSV or Parquet file; or write the CREATE TABLE yourself, and call mwem_suggest_domain"
        if "not utf-8" in text:
            reason = "it is not in UTF-8"
            hint = "save it as UTF-8, for example: iconv -f latin1 -t utf-8 old.csv > new.csv"
        what = f"file ({file!r}) cannot be read as CSV: {reason}"
        raise refuse(OptionError, _FUNCTION, what, hint) from None
    return tuple(row)


def _texts(sniffed: tuple[Any, ...]) -> int:
    """How many columns are only text."""
    return sum(column["type"] == "VARCHAR" for column in sniffed[-1])


def _declared(con: duckdb.DuckDBPyConnection, file: str) -> list[exp.Expr]:
    """The arguments of read_csv beside the file: its columns with their types, and what is not the default."""
    point = _sniffed(con, file, ".")
    # The whole file is read again only for columns that could be numbers.
    comma = _sniffed(con, file, ",") if _texts(point) else point
    has_commas = _texts(comma) < _texts(point)  # 3,5 is a number there
    *values, header, columns = comma if has_commas else point
    defaults = {
        "delim": ",", "quote": '"', "escape": '"', "comment": "", "skip": 0, "dateformat": None,
        "timestampformat": None,
    }  # fmt: skip
    options = dict(zip(defaults, ("" if value == "(empty)" else value for value in values), strict=True))
    if not options["escape"]:  # none was needed
        options["escape"] = defaults["escape"]
    arguments: dict[str, exp.Expr] = {"auto_detect": exp.false(), "header": exp.convert(header)}
    arguments |= {name: exp.convert(value) for name, value in options.items() if value != defaults[name]}
    if has_commas:
        arguments["decimal_separator"] = exp.Literal.string(",")
    types = [
        exp.PropertyEQ(
            this=exp.to_identifier(column["name"], quoted=True), expression=exp.Literal.string(column["type"])
        )
        for column in columns
    ]
    arguments["columns"] = exp.Struct(expressions=types)
    return [exp.PropertyEQ(this=exp.to_identifier(name), expression=value) for name, value in arguments.items()]
