"""Files as private sources: which functions may read them, with which arguments, and how they are held still while they are read.

An allow-list. Every argument is a constant and changes how one record is read, never which record it is. Types are declared: what DuckDB
would sniff, it would sniff from private rows. A file is read once, however many patterns match it. Reads schemas, never rows.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mwem_sql.database import dialect
from mwem_sql.database.catalog import Name, Place
from mwem_sql.database.dialect import fold, function_name
from mwem_sql.database.metadata import Key

_DECLARED = {"columns", "auto_detect"}
_COMMON = {"hive_partitioning", "compression"}
_TIMES = {"dateformat", "date_format", "timestampformat", "timestamp_format"}
_TEXT = {
    "header", "delim", "sep", "delimiter", "separator", "quote", "escape", "nullstr", "null", "decimal_separator", "thousands", "encoding", "comment",
    "new_line", "strict_mode", "force_not_null", "allow_quoted_nulls", "max_line_size", "maximum_line_size",
}  # fmt: skip
# Which functions may read a file, and the arguments that each may have.
FUNCTIONS = {
    "read_parquet": {"binary_as_string", "union_by_name", "hive_partitioning"},
    "parquet_scan": {"binary_as_string", "union_by_name", "hive_partitioning"},
    "read_csv": _DECLARED | _COMMON | _TIMES | _TEXT,
    "read_json": _DECLARED | _COMMON | _TIMES | {"format", "records", "maximum_object_size"},
    "read_ndjson": _DECLARED | _COMMON | _TIMES | {"records", "maximum_object_size"},
}
_SNIFFING = {"read_csv_auto": "read_csv", "read_json_auto": "read_json", "read_ndjson_auto": "read_ndjson"}
# What a plain 'people.csv' is read with.
_ENDINGS = {
    ".parquet": "read_parquet", ".csv": "read_csv", ".tsv": "read_csv", ".csv.gz": "read_csv", ".json": "read_json", ".jsonl": "read_ndjson",
    ".ndjson": "read_ndjson", ".csv.zst": "read_csv", ".json.gz": "read_json", ".ndjson.gz": "read_ndjson", ".jsonl.gz": "read_ndjson",
}  # fmt: skip
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # s3://, https://, file:; a drive of Windows has one letter
_PATTERN = re.compile(r"[*?\[{]")
_CALL = re.compile(r"\s*\w+\s*\(")
_INODE = "inode "
_MAGIC = b"PAR1"  # how a Parquet file ends, with the length of its footer before it
_TAIL = 8  # bytes of both


@dataclass(frozen=True)
class FileName(Name):
    """A file that was named where a table is: the name of a view `SELECT * FROM <file>` that nobody made. `table` is its real path.

    `call` is how it is read, where that was written out: read_csv(...).
    """

    call: str = ""

    def __str__(self) -> str:
        return self.table

    @property
    def stem(self) -> str:
        return Path(self.table).name.removesuffix(_ending(self.table) or "")

    @property
    def identity(self) -> list[str]:
        """The same file read in another way is another request. A path keeps its case."""
        return [fold(self.schema), self.table, *([self.call] if self.call else [])]


class NotAllowedError(Exception):
    """Which part of a source is not allowed, and what to write in its place: in words, and as a call if that can be said."""

    def __init__(self, reason: str, cure: str, call: exp.Expr | None = None) -> None:
        super().__init__(reason)
        self.cure = cure
        self.call = call


@dataclass(frozen=True)
class Files:
    """The files that a view reads: each once, by its real path, in an order that is theirs and not that of their rows."""

    function: str
    paths: tuple[str, ...]
    arguments: tuple[exp.Expr, ...]
    types: tuple[tuple[str, str], ...] | None = None

    def tree(self) -> exp.Table:
        """The call that reads them, with nothing left to be looked up."""
        listed = exp.Anonymous(this="list_value", expressions=[exp.Literal.string(path) for path in self.paths])
        arguments = [listed, *(argument.copy() for argument in self.arguments)]
        return exp.Table(this=exp.Anonymous(this=self.function, expressions=arguments))

    def columns(self, con: duckdb.DuckDBPyConnection) -> list[str]:
        """The names of their columns: as declared, or as the schema in the footers of Parquet files says."""
        if self.types is not None:
            return [name for name, _ in self.types]
        try:
            rows = con.execute(exp.Describe(this=exp.select("*").from_(self.tree())).sql("duckdb")).fetchall()
        except duckdb.Error:
            raise NotAllowedError(
                f"reads {self.paths[0]}, whose schema cannot be read",
                "check that it is a Parquet file and that this process may read it",
            ) from None
        return [row[0] for row in rows]

    def state(self) -> tuple[tuple[object, ...], ...]:
        """What changes when somebody writes to a file: its identity, size and times, and a checksum of a Parquet file's footer."""
        return tuple(_state(path, with_footer=self.types is None) for path in self.paths)


def keys_of(path: str) -> tuple[Key, ...]:
    """What the rows of a file are known by, whichever engine reads it: its device and inode, which links share, and last its real path."""
    try:
        facts = Path(path).stat()
    except OSError:  # an address of another machine
        return ((path, "", ""),)
    return (f"{_INODE}{facts.st_dev}:{facts.st_ino}", "", ""), (os.path.realpath(path), "", "")


def is_inode(key: Key) -> bool:
    """Whether a key is the first of the two that a file has."""
    return key[0].startswith(_INODE)


def named(text: str, place: Place) -> tuple[FileName, exp.Table] | None:
    """One file in the place of a table, by its path or by the call that reads it: what it is called, and what FROM would say.

    None for any other text. Looks nothing up: the file need not be there any more.
    """
    path: exp.Expr = exp.Literal.string(text)
    call: exp.Expr | None = None
    if not _ending(text):
        call = _call(text)
        if call is None:
            return None
        path = call.expressions[0]
    if not isinstance(path, exp.Literal) or not path.is_string or _PATTERN.search(path.name):
        raise NotAllowedError(
            "may be several files, or none", "make a view of them: CREATE VIEW people AS SELECT * FROM ..."
        )
    name = FileName(place.database, place.schema, os.path.realpath(path.name), dialect.sql(call) if call else "")
    return name, exp.Table(this=call or exp.to_identifier(text, quoted=True))


def _call(text: str) -> exp.Expr | None:
    """A call of a function that reads files; None if a text is anything else."""
    if not _CALL.match(text):
        return None
    try:
        (call,) = dialect.parse(text)
    except (SqlglotError, RecursionError, ValueError):
        return None
    known = isinstance(call, exp.Func) and function_name(call) in {*FUNCTIONS, *_SNIFFING}
    return call if known and call is not None and call.expressions else None


def _ending(path: str) -> str | None:
    return next((ending for ending in sorted(_ENDINGS, key=len, reverse=True) if fold(path).endswith(ending)), None)


def read(con: duckdb.DuckDBPyConnection, source: exp.Table) -> Files | None:
    """The files that a FROM clause names, checked; None if it names something else. A NotAllowedError says what is not allowed."""
    if isinstance(source.this, exp.Func):
        function, arguments = function_name(source.this), list(source.this.expressions)
    else:
        ending = _ending(source.name)
        if ending is None or source.args.get("db"):
            return None
        function, arguments = _ENDINGS[ending], [exp.Literal.string(source.name)]
    if function in _SNIFFING:
        raise NotAllowedError(
            f"reads {function}, which sniffs types from private rows",
            f"write {_SNIFFING[function]}, with columns := {{...}} and auto_detect := false",
        )
    if function not in FUNCTIONS:
        return None
    if not arguments:
        raise NotAllowedError(f"calls {function} without a file", "name one file, or several in a list")
    patterns = _texts(arguments[0], function)
    given = dict(_named(argument, function) for argument in arguments[1:])
    # Folders called key=value would add columns whose types DuckDB reads off those names.
    if "hive_partitioning" not in given and any(
        _PATTERN.search(folder) or "=" in folder for folder in map(os.path.dirname, patterns)
    ):
        raise NotAllowedError(
            f"reads folders by a pattern ({patterns[0]!r}), whose names may become columns",
            "add hive_partitioning := false",
        )
    paths, types = _paths(con, patterns), _types(function, patterns, given)
    return Files(function, paths, tuple(_argument(name, value) for name, value in given.items()), types)


def _named(argument: exp.Expr, function: str) -> tuple[str, exp.Expr]:
    """An argument's name and value; DuckDB takes `name := value`, `name => value` and `name = value`."""
    inner = argument.unnest()
    name = fold(inner.this.name) if isinstance(inner, (exp.PropertyEQ, exp.Kwarg, exp.EQ)) else ""
    if name not in FUNCTIONS[function]:
        shown = f"the argument {name}" if name else f"the argument {argument.sql('duckdb')}"
        raise NotAllowedError(
            f"calls {function} with {shown}, which is not allowed",
            f"the arguments may be {', '.join(sorted(FUNCTIONS[function]))}",
        )
    value = inner.expression
    if not _is_constant(value):
        raise NotAllowedError(
            f"calls {function} with {name} := {value.sql('duckdb')}, which is not a constant", "write the value itself"
        )
    if name == "hive_partitioning" and not _is(value, False):
        raise NotAllowedError(
            f"calls {function} with {name} := {value.sql('duckdb')}: columns would follow the names of folders",
            "write hive_partitioning := false",
        )
    if name == "format" and fold(value.name) == "auto":
        raise NotAllowedError(
            f"calls {function} with format := 'auto', which is sniffed from private rows",
            "write format := 'newline_delimited' or 'array'",
        )
    return name, value


def _argument(name: str, value: exp.Expr) -> exp.Expr:
    return exp.PropertyEQ(this=exp.to_identifier(name), expression=value.copy())


def _is(value: exp.Expr, truth: bool) -> bool:
    return isinstance(value, exp.Boolean) and bool(value.this) == truth


def _is_constant(value: exp.Expr) -> bool:
    """A literal, or a list or struct of them; as DuckDB prints them, too: it writes `struct_pack(a := 1)` and `list_value(1)`."""
    if isinstance(value, (exp.Literal, exp.Boolean, exp.Null)):
        return True
    if isinstance(value, (exp.PropertyEQ, exp.Kwarg)):
        return _is_constant(value.expression)
    if isinstance(value, exp.Cast):
        return _is_constant(value.this)
    is_made = isinstance(value, exp.Struct) or _is_call(value, "struct_pack") or _is_list(value)
    return is_made and all(map(_is_constant, value.expressions))


def _is_list(value: exp.Expr) -> bool:
    return isinstance(value, exp.Array) or _is_call(value, "list_value")


def _is_call(value: exp.Expr, name: str) -> bool:
    return isinstance(value, exp.Anonymous) and function_name(value) == name


def _texts(value: exp.Expr, function: str) -> list[str]:
    """One path or a list of them."""
    inner = value.unnest()
    listed = inner.expressions if _is_list(inner) else [inner]
    if not listed or not all(isinstance(item, exp.Literal) and item.is_string for item in listed):
        raise NotAllowedError(
            f"calls {function} with a file name that is computed ({value.sql('duckdb')})",
            "write the name itself, or a list of names",
        )
    return [item.name for item in listed]


def _types(function: str, patterns: Sequence[str], given: dict[str, exp.Expr]) -> tuple[tuple[str, str], ...] | None:
    """The declared columns; None for Parquet, which declares them itself."""
    if "columns" not in FUNCTIONS[function]:
        return None
    declared = given.get("columns")
    if declared is None or not _is(given.get("auto_detect", exp.null()), False):
        raise NotAllowedError(
            f"lets {function} sniff the types of {patterns[0]!r} from private rows",
            "declare every column of the file, in its order, and turn detection off", _declared(function, patterns, given),
        )  # fmt: skip
    return tuple((item.this.name, item.expression.name) for item in declared.expressions)


def _declared(function: str, patterns: Sequence[str], given: dict[str, exp.Expr]) -> exp.Expr:
    """The call as it should be, with the types to fill in. From the definition alone: what was sniffed is not shown."""
    listed = [exp.Literal.string(path) for path in patterns]
    blanks = [
        exp.PropertyEQ(this=exp.to_identifier(column, quoted=True), expression=exp.Literal.string("TYPE"))
        for column in ("first column", "second column")
    ]
    arguments: dict[str, exp.Expr] = {"columns": exp.Struct(expressions=blanks), "auto_detect": exp.false()}
    if function == "read_csv":
        arguments["header"] = exp.true()
    arguments |= {name: value for name, value in given.items() if name != "auto_detect"}
    path = listed[0] if len(listed) == 1 else exp.Array(expressions=listed)
    return exp.Anonymous(
        this=function, expressions=[path, *(_argument(name, value) for name, value in arguments.items())]
    )


def _paths(con: duckdb.DuckDBPyConnection, patterns: Sequence[str]) -> tuple[str, ...]:
    """The files that patterns match, by their real paths; one that is matched twice, or linked twice, is refused."""
    found: dict[tuple[int, int], str] = {}
    for path in _matches(con, patterns):
        try:
            facts = Path(path).stat()
        except OSError:
            raise NotAllowedError(
                f"reads {path}, which cannot be looked at", "check that this process may read it"
            ) from None
        if _PATTERN.search(os.path.realpath(path)):
            raise NotAllowedError(
                f"reads {path}, whose name DuckDB would take for a pattern", "rename the file: without *, ?, [ and {"
            )
        if not stat.S_ISREG(facts.st_mode):
            raise NotAllowedError(f"reads {path}, which is not a plain file", "write its rows to a file or a table")
        before = found.setdefault((facts.st_dev, facts.st_ino), path)
        if before is not path:
            is_same = os.path.realpath(before) == os.path.realpath(path)
            twice = f"{path} twice" if is_same else f"{before} and {path}, which are one file"
            raise NotAllowedError(
                f"reads {twice}: each row would count twice",
                "name every file once; let no two patterns match the same one",
            )
    return tuple(sorted(map(os.path.realpath, found.values())))


def _matches(con: duckdb.DuckDBPyConnection, patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        if _REMOTE.match(pattern):
            raise NotAllowedError(
                f"reads {pattern!r}, which is not a file of this machine: it could change while it is read",
                "copy it here, or write its rows to a table",
            )
        try:
            rows = con.execute("SELECT file FROM glob(?)", [pattern]).fetchall()
        except duckdb.Error:
            raise NotAllowedError(
                f"reads {pattern!r}, which this connection may not look for",
                "allow access to files, or write the rows to a table",
            ) from None
        if not rows:
            raise NotAllowedError(
                f"reads {pattern!r}, which matches no file",
                "check the path: it is relative to the folder that this process runs in",
            )
        yield from (path for (path,) in rows)


def _state(path: str, *, with_footer: bool) -> tuple[object, ...]:
    facts = Path(path).stat()
    held: tuple[object, ...] = (path, facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    return (*held, _footer(path)) if with_footer else held


def _footer(path: str) -> str:
    with Path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        tail = file.read(_TAIL)
        length = int.from_bytes(tail[:4], "little") if tail[4:] == _MAGIC else 0
        file.seek(max(0, size - _TAIL - length))
        return hashlib.sha256(file.read(length + _TAIL)).hexdigest()
