"""DuckDB's own semantics without the user's database: an empty in-memory instance with external access off.

Everything evaluated here is public: constants of the schema, and workload expressions over the declared domain. How
much text an expression makes is bounded beforehand, so that none exhausts memory or time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import TypeVar

import duckdb
import pyarrow as pa
from sqlglot import exp

from mwem_sql.errors import MwemError
from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold
from mwem_sql.language.growth import PLAIN, characters
from mwem_sql.language.ticks import cast
from mwem_sql.platform import calls

Item = TypeVar("Item")

MEANINGFUL_SETTINGS = ("TimeZone", "default_collation", "integer_division", "ieee_floating_point_ops")
"""The connection's settings that change what an expression means."""
MOST_EXPRESSIONS = 250
"""Expressions of one SELECT. Larger: it is planned slowly; smaller: there are more statements."""
MAX_MADE = 2**30
"""Characters of text that one expression may make on all rows of a table. Larger: more time for one expression."""
_AT_ONCE = 2**24
"""Characters of text that are made in one SELECT, so the most of one row. Larger: more memory, fewer statements."""
_MOST_TEXT = MOST_EXPRESSIONS * PLAIN // 5  # characters of the expressions of one SELECT
_POSITION = "__mwem_position"  # a name that no column of the user has
_ARRIVED = "__mwem_arrived"  # a name that no table of the user has

Settings = tuple[tuple[str, str], ...]
"""Those that change what an expression means, by name, in a form to be compared."""
_IDLE: dict[Settings, list[duckdb.DuckDBPyConnection]] = {}
"""Instances without a table that no call has."""
_OF_THE_PARENT: list[list[duckdb.DuckDBPyConnection]] = []


def _leave_to_the_parent() -> None:
    """A forked process has no idle instance. Nor does it close them: without their threads it would crash."""
    _OF_THE_PARENT.extend(_IDLE.values())
    _IDLE.clear()


os.register_at_fork(after_in_child=_leave_to_the_parent)


def settings_of(settings: Mapping[str, object]) -> Settings:
    """Those of a connection that change what an expression means."""
    return tuple(sorted((name, repr(value)) for name, value in settings.items() if name in MEANINGFUL_SETTINGS))


class Sandbox:
    """A private in-memory DuckDB. Errors it raises are DuckDB's and quote public text only."""

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        given = {name: value for name, value in (settings or {}).items() if name in MEANINGFUL_SETTINGS}
        self.settings = settings_of(given)
        self._con = calls.track(_taken(self.settings) or _opened(given))
        self._rows: dict[str, int] = {}
        self._longest: dict[str, dict[str, float]] = {}
        # Whether equal texts are more than identical ones.
        self.collates = bool((settings or {}).get("default_collation"))

    def __enter__(self) -> Sandbox:  # noqa: PYI034  Self is not in Python 3.10
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Keep the instance for the next call, without its tables: to open one takes as long as to compile a workload.

        One that failed without a refusal is closed, and so is one with a large table, so that its memory comes back.
        """
        idle = _IDLE.setdefault(self.settings, [])
        has_failed = error is not None and not issubclass(error, MwemError)
        if has_failed or len(idle) >= 2 or max(self._rows.values(), default=0) > 100_000:
            self._con.close()
            return
        for table in self._rows:
            self._con.execute(f"DROP TABLE IF EXISTS {dialect.quoted(table)}")
        idle.append(self._con)

    def row(self, expressions: Sequence[exp.Expr | str]) -> list[object]:
        """Constant expressions, evaluated."""
        out: list[object] = []
        texts = [item if isinstance(item, str) else dialect.sql(item) for item in expressions]
        for batch in batches(texts, len, _MOST_TEXT):
            _bounded(batch, {}, rows=1)
            # fetchall, not fetchone: a result that is not read to its end blocks the connection.
            out += self._con.execute(f"SELECT {', '.join(batch)}").fetchall()[0]
        return out

    def tried(self, expressions: Sequence[exp.Expr | str]) -> list[object]:
        """Constant expressions, evaluated; None for one that cannot be."""
        try:
            return self.row(expressions)
        except duckdb.Error:
            return [self.tried([one])[0] for one in expressions] if len(expressions) > 1 else [None]

    def load(self, table: str, columns: Mapping[str, tuple[str, pa.Array]]) -> None:
        """A table of public values; each column is cast to its real type."""
        arrow = pa.table({f"c{k}": array for k, (_, array) in enumerate(columns.values())})
        self._rows[table] = arrow.num_rows
        self._longest[table] = {
            fold(name): _length(array) for name, (_, array) in columns.items() if pa.types.is_string(array.type)
        }
        create = _creation(table, tuple((name, kind) for name, (kind, _) in columns.items()))
        # Not by from_arrow(...).query(...): DuckDB 2.0 prints a message if the call is stopped meanwhile.
        self._con.register(_ARRIVED, arrow)
        try:
            self._con.execute(create)
        finally:
            self._con.unregister(_ARRIVED)

    def evaluate(self, table: str, expressions: Sequence[str]) -> list[pa.ChunkedArray]:
        """SQL expressions over every row of a loaded table, in its order."""
        out: list[pa.ChunkedArray] = []
        rows = self._rows[table]
        slice_of_rows = f"FROM {dialect.quoted(table)} WHERE {_POSITION} BETWEEN ? AND ? ORDER BY {_POSITION}"
        for batch in batches(expressions, len, _MOST_TEXT):
            made = _bounded(batch, self._longest[table], rows)
            at_once = max(1, int(_AT_ONCE / made)) if made else max(1, rows)
            # The expressions are text as the analyst wrote it, so this SELECT cannot be a tree. A newline ends a
            # comment that an expression may close with.
            listed = ", ".join(f"({text}\n) AS e{k}" for k, text in enumerate(batch))
            slices = [
                self._con.sql(f"SELECT {listed} {slice_of_rows}", params=[start + 1, start + at_once]).to_arrow_table()
                for start in range(0, max(1, rows), at_once)
            ]
            out.extend(pa.concat_tables(slices).columns)
        return out


@lru_cache(maxsize=256)
def _creation(table: str, columns: tuple[tuple[str, str], ...]) -> str:
    """The table of what has arrived, with its names and types. Kept: to write it takes as long as to run it."""
    casts = [exp.alias_(cast(exp.column(f"c{k}"), kind), name, quoted=True) for k, (name, kind) in enumerate(columns)]
    numbered = exp.select(exp.alias_(exp.Window(this=exp.RowNumber()), _POSITION), *casts).from_(exp.table_(_ARRIVED))
    return exp.Create(this=exp.table_(table, quoted=True), kind="TABLE", expression=numbered, replace=True).sql(
        "duckdb"
    )


def _taken(settings: Settings) -> duckdb.DuckDBPyConnection | None:
    try:
        return _IDLE.get(settings, []).pop()
    except IndexError:
        return None


def _opened(settings: Mapping[str, object]) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(":memory:", config={"threads": 1, "temp_directory": ""})
    for name, value in settings.items():
        con.execute(set_statement(name, value))
    # What an expression cannot change, once the connection's settings are made.
    con.execute(
        """SET enable_external_access = false; SET autoload_known_extensions = false;
           SET autoinstall_known_extensions = false; SET python_enable_replacements = false;
           SET lock_configuration = true"""
    )
    return con


def set_statement(name: str, value: object, *, is_variable: bool = False) -> str:
    """The statement that gives a setting of the connection, or a variable, its value."""
    equation = exp.EQ(this=exp.to_identifier(name), expression=exp.convert(value))
    item = exp.SetItem(this=equation, kind="VARIABLE" if is_variable else None)
    return exp.Set(expressions=[item]).sql("duckdb")


def batches(items: Iterable[Item], size: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Items to be evaluated together, in their order: not too many, nor of more than `most` in size unless one is."""
    batch: list[Item] = []
    room = most
    for item in items:
        if batch and (len(batch) == MOST_EXPRESSIONS or size(item) > room):
            yield batch
            batch, room = [], most
        batch.append(item)
        room -= size(item)
    if batch:
        yield batch


def _bounded(batch: Sequence[str], longest: Mapping[str, float], rows: int) -> float:
    """How much text expressions may make of a row; a refusal in DuckDB's form if that is too much."""
    made = characters(batch, longest)
    most = max(made)
    if most > min(_AT_ONCE, MAX_MADE / max(1, rows)):
        much = "any amount" if most == inf else f"{most:,.0f} characters"
        raise duckdb.OutOfRangeException(
            f"it may make {much} of text for each of {rows:,} values, more than {_AT_ONCE:,} for one or {MAX_MADE:,} "
            "for all; the size that repeat, lpad and rpad take, and the template of format and printf, must be small "
            "constants"
        )
    return sum(made)


def _length(array: pa.Array) -> int:
    import pyarrow.compute as pc  # noqa: PLC0415  takes a tenth of the time of `import mwem_sql`

    return pc.max(pc.binary_length(array)).as_py() or 0
