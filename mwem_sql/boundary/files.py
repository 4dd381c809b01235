"""Files as private sources: Parquet, how it is read, and how a change while it is read is noticed.

An allow-list. A row of a Parquet file does not depend on other rows. A row of a CSV or JSON file does: an open quote
swallows the lines that follow, so those are refused before a byte of them is read. Every argument of the call that
reads a file is spelled out here, so that nothing is sniffed and no setting decides. A file is read once, however many
patterns match it. Reads schemas, never rows.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import duckdb
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold, function_name
from mwem_sql.platform.catalog import Name, Place
from mwem_sql.platform.metadata import Key

_READER = "read_parquet"
# Which functions may read a private file, and the arguments that each may have.
READERS = {name: {"binary_as_string", "union_by_name", "hive_partitioning"} for name in (_READER, "parquet_scan")}
_TEXT_READERS = {
    "read_csv", "read_csv_auto", "read_json", "read_json_auto", "read_ndjson", "read_ndjson_auto", "read_json_objects",
    "read_json_objects_auto", "read_ndjson_objects",
}  # fmt: skip
# What a plain 'people.csv' is read with.
_READER_OF_ENDING = {".parquet": _READER} | {
    plain + packed: reader
    for plain, reader in (
        (".csv", "read_csv"), (".tsv", "read_csv"), (".json", "read_json"), (".jsonl", "read_ndjson"),
        (".ndjson", "read_ndjson"),
    )
    for packed in ("", ".gz", ".zst")
}  # fmt: skip
ARGUMENTS: dict[str, exp.Expr] = {
    "binary_as_string": exp.false(), "union_by_name": exp.false(),
    # No column that is not in the file: of a row's position, of the file's name, of its folders.
    "file_row_number": exp.false(), "filename": exp.false(), "hive_partitioning": exp.false(),
    "hive_types_autocast": exp.false(),
    # A footer's least and greatest value leave out NaN. Without this, whether 1,000 rows of NaN are read depends on
    # the row that is greatest.
    "can_have_nan": exp.true(),
    # What is no UTF-8 would fail the whole read.
    "utf8_validation": exp.Literal.string("replace"),
    "int96_as": exp.Literal.string("timestamp"), "allow_empty": exp.false(), "column_statistics": exp.null(),
    # No value of these changes what is read: an estimate (0 for none), in which order bytes are fetched, how keys are
    # applied, what is for writers.
    "explicit_cardinality": exp.Literal.number(0), "prefetch_strategy": exp.Literal.string("auto"),
    "debug_use_openssl": exp.true(), "compression": exp.Literal.string("uncompressed"),
}  # fmt: skip
"""The arguments of DuckDB's `read_parquet` that have a default value, each with the value that a scan gives."""
UNWRITTEN = {"encryption_config", "hive_types", "schema", "bound_schema", "parquet_version"}
"""Those that have none: each is off unless it is given, whatever is set. `parquet_version` is for writers."""
# Logical types with values that DuckDB's type has not, each of which fails the read: times beyond a day, milliseconds
# beyond the year 294,247.
_PARTIAL = re.compile(
    r"TimeType\(|TIME_|TimestampType\(.*MILLIS=Milli|TIMESTAMP_MILLIS|GEOMETRY|GEOGRAPHY|VARIANT", re.IGNORECASE
)
_GLOB = re.compile(r"[*?\[{]")
_INODE = "inode "


@dataclass(frozen=True)
class FileName(Name):
    """A file that was named where a table is: the name of a view `SELECT * FROM <file>` that nobody made.

    `table` is its real path; `call` is how it is read, where the user said so: read_parquet(...).
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
    """Which part of a source is not allowed, the cure in words, and the call that a table is to be made of."""

    def __init__(self, reason: str, cure: str, call: exp.Expr | None = None) -> None:
        super().__init__(reason)
        self.cure = cure
        self.call = call


@dataclass(frozen=True)
class Files:
    """The files that a view reads: each once, by its real path, in an order that is theirs and not that of their rows.

    `odd` are columns that some value would fail to be read of, and why.
    """

    paths: tuple[str, ...]
    arguments: tuple[exp.Expr, ...]
    odd: Mapping[str, str] = field(default_factory=dict)

    def tree(self) -> exp.Table:
        """The call that reads them, with nothing left to be looked up."""
        listed = exp.Anonymous(this="list_value", expressions=[exp.Literal.string(path) for path in self.paths])
        arguments = [listed, *(argument.copy() for argument in self.arguments)]
        return exp.Table(this=exp.Anonymous(this=_READER, expressions=arguments))

    def columns(self, con: duckdb.DuckDBPyConnection) -> list[str]:
        """The names of their columns, as the schema in their footers says."""
        try:
            rows = con.execute(exp.Describe(this=exp.select("*").from_(self.tree())).sql("duckdb")).fetchall()
        except duckdb.Error:
            raise _unreadable(self.paths[0]) from None
        return [row[0] for row in rows]

    def state(self) -> tuple[tuple[object, ...], ...]:
        """What changes when somebody writes to a file: its identity, size and times, and a checksum of its footer."""
        return tuple(map(_state, self.paths))


def keys_of(path: str) -> tuple[Key, ...]:
    """The keys of a file's rows, whichever engine reads it: device and inode, which links share; last its real path."""
    try:
        facts = Path(path).stat()
    except OSError:  # an address of another machine
        return ((path, "", ""),)
    return (f"{_INODE}{facts.st_dev}:{facts.st_ino}", "", ""), (os.path.realpath(path), "", "")


def is_inode(key: Key) -> bool:
    """Whether a key is the first of the two that a file has."""
    return key[0].startswith(_INODE)


def named(text: str, place: Place) -> tuple[FileName, exp.Table] | None:
    """One file that is named where a table is, by its path or by the call that reads it: its name, and its FROM clause.

    None for any other text. Looks nothing up: the file need not be there any more.
    """
    path: exp.Expr = exp.Literal.string(text)
    call: exp.Expr | None = None
    if not _ending(text):
        call = _call(text)
        if call is None:
            return None
        path = call.expressions[0]
    if not isinstance(path, exp.Literal) or not path.is_string or _GLOB.search(path.name):
        raise NotAllowedError(
            "may be several files, or none", "make a view of them: CREATE VIEW people AS SELECT * FROM ..."
        )
    name = FileName(place.database, place.schema, os.path.realpath(path.name), dialect.sql(call) if call else "")
    return name, exp.Table(this=call or exp.to_identifier(text, quoted=True))


def _call(text: str) -> exp.Expr | None:
    """A call of a function that reads files; None if a text is anything else."""
    if not re.match(r"\s*\w+\s*\(", text):
        return None
    try:
        (call,) = dialect.parse(text)
    except (SqlglotError, RecursionError, ValueError):
        return None
    if not isinstance(call, exp.Func) or function_name(call) not in READERS.keys() | _TEXT_READERS:
        return None
    return call if call.expressions else None


def _ending(path: str) -> str | None:
    endings = sorted(_READER_OF_ENDING, key=len, reverse=True)
    return next((ending for ending in endings if fold(path).endswith(ending)), None)


def read(con: duckdb.DuckDBPyConnection, source: exp.Table) -> Files | None:
    """The files that a FROM clause names, checked, or a NotAllowedError; None if it names something else."""
    if isinstance(source.this, exp.Func):
        function, arguments = function_name(source.this), list(source.this.expressions)
    else:
        ending = _ending(source.name)
        if ending is None or source.args.get("db"):
            return None
        function, arguments = _READER_OF_ENDING[ending], [exp.Literal.string(source.name)]
    if function in _TEXT_READERS:
        raise NotAllowedError(
            f"reads a text file by {function}: one record of it may swallow others, or fail them all",
            "make it a table", exp.Anonymous(this=function, expressions=arguments),
        )  # fmt: skip
    if function not in READERS:
        return None
    if not arguments:
        raise NotAllowedError(f"calls {function} without a file", "name one file, or several in a list")
    patterns = _texts(arguments[0], function)
    given = dict(_named(argument, function) for argument in arguments[1:])
    # Folders called key=value would be columns in DuckDB, of types that it reads off those names.
    if "hive_partitioning" not in given and any(
        _GLOB.search(folder) or "=" in folder for folder in map(os.path.dirname, patterns)
    ):
        raise NotAllowedError(
            f"reads folders by a pattern ({patterns[0]!r}), whose names may become columns",
            "add hive_partitioning := false",
        )
    paths = _paths(con, patterns)
    values = {name: value for name, value in (ARGUMENTS | given).items() if name in parameters()}
    schemas = _schemas(con, paths)
    _check_same_types(schemas, paths, by_name=bool(values["union_by_name"].this))
    passed = [exp.PropertyEQ(this=exp.to_identifier(name), expression=value.copy()) for name, value in values.items()]
    return Files(paths, tuple(passed), _partial_columns(schemas))


@cache
def parameters() -> frozenset[str]:
    """The named arguments of DuckDB's `read_parquet`, in the version that runs."""
    with duckdb.connect(":memory:") as con:
        rows = con.execute(
            "SELECT parameters[2:] FROM duckdb_functions() WHERE function_name = ? AND function_type = 'table'",
            [_READER],
        ).fetchall()
    return frozenset(name for (names,) in rows for name in names)


_Leaf = tuple[int, str, str | None, str | None]


def _schemas(con: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> list[dict[str, list[_Leaf]]]:
    """For each file its columns, by folded name, with the logical types of all that is in them. From the footers.

    Whether a column may be NULL is left out: DuckDB writes that off the rows.
    """
    listed = exp.Anonymous(this="list_value", expressions=[exp.Literal.string(path) for path in paths])
    schema = exp.Table(this=exp.Anonymous(this="parquet_schema", expressions=[listed]))
    columns = exp.select("name", "num_children", "duckdb_type", "converted_type", "logical_type").from_(schema)
    try:
        rows = con.execute(columns.sql("duckdb")).fetchall()
    except duckdb.Error:
        raise _unreadable(paths[0]) from None
    out: list[dict[str, list[_Leaf]]] = []
    left: list[int] = []  # children that are still to come, by level
    column: list[_Leaf] = []
    for name, children, kind, converted, logical in rows:
        while left and left[-1] == 0:
            left.pop()
        if not left:
            out.append({})
        else:
            left[-1] -= 1
            if len(left) == 1:
                column = out[-1].setdefault(fold(name), [])
            # The names of a column's own parts count, its own may be spelt in another way.
            column.append((len(left), "" if len(left) == 1 else name, kind, logical or converted))
        left.append(children or 0)
    return out


def _check_same_types(schemas: Sequence[Mapping[str, Sequence[_Leaf]]], paths: Sequence[str], *, by_name: bool) -> None:
    """Refuse files of which one has a column of another type: a value that DuckDB cannot cast fails the read."""
    types: dict[str, Sequence[_Leaf]] = {}
    for schema, path in zip(schemas, paths, strict=True):
        for name, leaves in schema.items():
            if types.setdefault(name, leaves) != leaves:
                raise NotAllowedError(
                    f"reads {path}, where column {name} is of another type than in files before it",
                    "write the files with the same types, or make a view and a release of each",
                )
        for name in () if by_name else schemas[0].keys() - schema.keys():
            raise NotAllowedError(f"reads {path}, which has no column {name}", "add union_by_name := true")


def _partial_columns(schemas: Sequence[Mapping[str, Sequence[_Leaf]]]) -> dict[str, str]:
    """Columns of which DuckDB cannot read every value that the file may hold, and why."""
    return {
        name: f"is of the Parquet type {logical or kind}, some values of which fail to be read"
        for schema in schemas
        for name, leaves in schema.items()
        for _, _, kind, logical in leaves
        if _PARTIAL.search(f"{logical} {kind}")
    }


def _unreadable(path: str) -> NotAllowedError:
    return NotAllowedError(
        f"reads {path}, whose schema cannot be read",
        "check that it is a Parquet file and that this process may read it",
    )


def _named(argument: exp.Expr, function: str) -> tuple[str, exp.Expr]:
    """An argument's name and value; DuckDB takes `name := value`, `name => value` and `name = value`."""
    inner = argument.unnest()
    name = fold(inner.this.name) if isinstance(inner, (exp.PropertyEQ, exp.Kwarg, exp.EQ)) else ""
    if name not in READERS[function]:
        raise NotAllowedError(
            f"calls {function} with the argument {name or argument.sql('duckdb')}, which is not allowed",
            f"the arguments may be {', '.join(sorted(READERS[function]))}",
        )
    value = inner.expression
    if not isinstance(value, exp.Boolean):
        raise NotAllowedError(
            f"calls {function} with {name} := {value.sql('duckdb')}, which is neither true nor false",
            "write one of them",
        )
    if name == "hive_partitioning" and value.this:
        raise NotAllowedError(
            f"calls {function} with {name} := {value.sql('duckdb')}: columns would follow the names of folders",
            "write hive_partitioning := false",
        )
    return name, value


def _texts(value: exp.Expr, function: str) -> list[str]:
    """One path or a list of them, as it is written or as DuckDB prints it."""
    inner = value.unnest()
    is_list = isinstance(inner, exp.Array) or (
        isinstance(inner, exp.Anonymous) and function_name(inner) == "list_value"
    )
    listed = inner.expressions if is_list else [inner]
    if not listed or not all(isinstance(item, exp.Literal) and item.is_string for item in listed):
        raise NotAllowedError(
            f"calls {function} with a file name that is computed ({value.sql('duckdb')})",
            "write the name itself, or a list of names",
        )
    return [item.name for item in listed]


def _paths(con: duckdb.DuckDBPyConnection, patterns: Sequence[str]) -> tuple[str, ...]:
    """The files that patterns match, by their real paths; one that is matched twice, or linked twice, is refused."""
    paths: dict[tuple[int, int], str] = {}
    for path in _matches(con, patterns):
        try:
            facts = Path(path).stat()
        except OSError:
            raise NotAllowedError(
                f"reads {path}, which cannot be looked at", "check that this process may read it"
            ) from None
        if _GLOB.search(os.path.realpath(path)):
            raise NotAllowedError(
                f"reads {path}, whose name DuckDB would take for a pattern", "rename the file: without *, ?, [ and {"
            )
        if not stat.S_ISREG(facts.st_mode):
            raise NotAllowedError(f"reads {path}, which is not a plain file", "write its rows to a file or a table")
        before = paths.setdefault((facts.st_dev, facts.st_ino), path)
        if before is not path:
            is_same = os.path.realpath(before) == os.path.realpath(path)
            twice = f"{path} twice" if is_same else f"{before} and {path}, which are one file"
            raise NotAllowedError(
                f"reads {twice}: each row would count twice",
                "name every file once; let no two patterns match the same one",
            )
    return tuple(sorted(map(os.path.realpath, paths.values())))


def _matches(con: duckdb.DuckDBPyConnection, patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        # s3://, https://, file:; a drive of Windows has one letter.
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", pattern):
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


def _state(path: str) -> tuple[object, ...]:
    facts = Path(path).stat()
    return path, facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, _footer(path)


def _footer(path: str) -> str:
    """A checksum of a Parquet file's footer, which is followed by its length and by PAR1, four bytes each."""
    with Path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little") if tail[4:] == b"PAR1" else 0
        file.seek(max(0, size - 8 - length))
        return hashlib.sha256(file.read(length + 8)).hexdigest()
