"""What a private relation may be: the one place that says so.

    relation  a table of an attached DuckDB database, or a view
    table     its generated columns must be in the grammar of `views`
    view      in the grammar of `views`, over one relation or over files in the grammar of `files`
    file      its path, or a call that reads it: what a view `SELECT * FROM file` would be

An allow-list: what is not named here is refused, with the part of its definition that is not allowed, the rule and the
cure. A view is expanded down to its table or files, and that is what scans read: what was checked is what runs, however
names are changed later. Reads the catalog and the schemas of files, never a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import duckdb
from sqlglot import exp

from mwem_sql.boundary import files, sources
from mwem_sql.boundary.files import Files, NotAllowedError
from mwem_sql.boundary.sources import Describes, Source
from mwem_sql.boundary.views import ROW_ALIAS, Expansion, NotRowWiseError, View, tried, with_generated
from mwem_sql.errors import MwemError, OptionError, TableError, did_you_mean, literal, refuse
from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold, function_name, quoted
from mwem_sql.language.functions import SPECIFIED, ZONED
from mwem_sql.language.ticks import cast
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Column, Name, Place
from mwem_sql.platform.metadata import Key

DEEPEST = 50
"""Views over views, at most; DuckDB itself stops at a similar depth."""
_FILE_RULE = "private files are Parquet files, read whole and each once"


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A private relation. `below` is what a view reads: views, and last a table; or `files`.

    `declared` maps its columns to the table's, where they are the same values, so that `checks` and `computed`, which
    speak of the table's columns, speak of them too. `conditions` are those of the views, of the table's columns and of
    placeholders for what views compute.
    """

    name: Name
    columns: tuple[Column, ...]
    rows: exp.Expr
    checks: tuple[str, ...] = ()
    below: tuple[Name, ...] = ()
    declared: dict[str, Column] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)  # what the table's generated columns are computed by
    files: Files | None = None
    conditions: tuple[exp.Expr, ...] = ()
    odd: dict[str, str] = field(default_factory=dict)  # generated columns that may not be read, and why
    source: Source | None = None  # where it is, if not in this instance
    keys: tuple[tuple[Key, ...], ...] = ()  # of its rows, there
    mark: str | None = field(default=None, compare=False)  # the account that it carries there
    definition: object = None

    def tree(self) -> exp.Expr:
        """What a scan reads: the table, or the view written out."""
        return self.rows.copy()

    @property
    def dialect(self) -> str:
        return "duckdb" if self.source is None else self.source.engine.dialect

    @property
    def charged(self) -> Name:
        """The relation whose rows are protected: the table under a view; of files, the view."""
        return self.names[-1]

    @property
    def names(self) -> tuple[Name, ...]:
        """All names under which its rows are asked for: its own, and those below."""
        return (self.name, *self.below)

    def column(self, unit: str, function: str) -> Column:
        """The column that identifies a unit."""
        # No collation reaches into values of these types, or it can be taken off (`codes.source`).
        allowed = (
            "VARCHAR", "UUID", "BLOB", "BOOLEAN", "DATE", "TIMESTAMP", "TIME", "ENUM(", "DECIMAL(", "FLOAT", "DOUBLE",
            "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "TINYINT", "SMALLINT", "INTEGER", "BIGINT",
            "HUGEINT",
        )  # fmt: skip
        column = next((column for column in self.columns if fold(column.name) == fold(unit)), None)
        if column is None:
            names = [column.name for column in self.columns]
            what = f"unit ({unit!r}) is not a column of {self.name.table}"
            hint = f"{did_you_mean(unit, names)}its columns are {', '.join(map(literal, names))}"
            raise refuse(OptionError, function, what, hint)
        if not column.type.startswith(allowed) or column.type.endswith("]"):
            what = f"unit ({unit!r}) is of type {column.type}, of which equal values need not be the same"
            raise refuse(OptionError, function, what, "identify units by a number, text, date or UUID")
        return column

    def origin(self, unit: str, function: str) -> Column | None:
        """The column of the protected table itself that identifies a unit; None if a view computes it."""
        return self.declared.get(self.column(unit, function).name)


def describe(
    con: duckdb.DuckDBPyConnection, text: str, place: Place, function: str, within: Describes | None = None
) -> Relation:
    """The private relation under a name; a TableError says why it cannot be one.

    That of a source is described by its engine, or `within` a snapshot.
    """
    elsewhere = sources.named(con, text)
    if elsewhere is not None:
        source, parts = elsewhere
        facts = (within or source.engine).describe(parts, function)
        return Relation(
            name=Name(source.alias, facts.schema, facts.table), columns=facts.columns, rows=facts.rows,
            checks=facts.checks, declared=facts.declared, source=source, keys=facts.keys, mark=facts.mark,
            definition=facts.definition,
        )  # fmt: skip
    catalog.check_functions(con, function)
    name = catalog.find(con, text, place)
    relation = _file(con, text, place, function) if name is None else _describe(con, *name, function, DEEPEST)
    if relation is None:
        raise refuse(
            TableError,
            function,
            f"table ({text!r}) does not exist for this call",
            f"{catalog.nearest(con, text, place)}name a table of an attached database in full; a temporary table, one "
            "registered from Python or one whose transaction is still open cannot be seen here: create it as a table "
            "and COMMIT",
        )
    for column, reason in relation.odd.items():
        what = f"table ({relation.name.table!r}) has the generated column {column}, which {reason}"
        raise refuse(TableError, function, what, "release a view that leaves the column out, or make it a plain column")
    return relation


def _describe(con: duckdb.DuckDBPyConnection, name: Name, is_view: bool, function: str, depth: int) -> Relation:
    kind = catalog.databases(con)[name.database].type
    if kind != "duckdb":
        what = f"table ({name}) is in a database of type {kind}, whose tables may be anything"
        raise refuse(TableError, function, what, "copy it: CREATE TABLE ... AS FROM ...")
    if is_view:
        return _view(con, name, function, depth)
    return _table(con, name)


def _table(con: duckdb.DuckDBPyConnection, name: Name) -> Relation:
    """A table as it is; one with generated columns expanded, as a view would be."""
    columns = catalog.columns(con, name)
    declared = {column.name: column for column in columns}
    table = Relation(name=name, columns=columns, rows=name.tree(), checks=catalog.checks(con, name), declared=declared)
    expressions = catalog.generated_columns(con, name)
    if not expressions:
        return table
    expansion, odd, trees = with_generated(table.rows, columns, expressions)
    try:
        _typed(con, expansion)
    except NotRowWiseError as reason:
        odd |= {column: str(reason) for column in expressions if column not in odd}
    computed = {column: dialect.sql(tree) for column, tree in trees.items()}
    return replace(table, rows=_subquery(expansion.select, list(declared)), odd=odd, computed=computed)


def _file(con: duckdb.DuckDBPyConnection, text: str, place: Place, function: str) -> Relation | None:
    """A file that is named where a table is: what a view of it would be, under the same rules; None for other names."""
    name: Name = Name(place.database, place.schema, text)
    view: View | None = None
    try:
        named = files.named(text, place)
        if named is None:
            return None
        name, source = named
        view = View.of(exp.select("*").from_(source))
        read = files.read(con, source)
        assert read is not None  # by its ending or its function
        columns = read.columns(con)
        expansion = view.expand(read.tree(), columns)
        _check_odd(expansion.read, read)
        types = _typed(con, expansion)
    except NotAllowedError as reason:
        what = f"file ({text!r}) {reason}; {_FILE_RULE}"
        raise refuse(TableError, function, what, _with_ddl(reason, view, name.beside(name.stem))) from None
    except NotRowWiseError as reason:
        cure = "release a view that leaves the column out, or make the rows a table"
        raise refuse(TableError, function, f"file ({text!r}) {reason}", cure) from None
    return _relation(name, columns, types, expansion.select, files=read)


def _check_odd(columns: set[str], source: Relation | Files) -> None:
    """Refuse a column that may not be read, before anything is planned: a plan of files reads their extremes."""
    kind = "generated column" if isinstance(source, Relation) else "column"
    for column in sorted(columns):
        reason = source.odd.get(column if isinstance(source, Relation) else fold(column))
        if reason is not None:
            raise NotRowWiseError(f"reads the {kind} {column}, which {reason}")


def _view(con: duckdb.DuckDBPyConnection, name: Name, function: str, depth: int) -> Relation:
    """A view, expanded over what it reads, with the declarations of the table under it."""

    def no(
        reason: object,
        cure: str = "write a plain projection or filter of one table, or make the result a table of its own",
        rule: str = "a private view must give at most one row per row of one table",
    ) -> MwemError:
        return refuse(TableError, function, f"view ({name.table!r}) {reason}; {rule}", cure)

    if depth == 0:
        raise no(f"is over more than {DEEPEST} other views")
    try:
        view = View.of(catalog.view_query(con, name))
    except NotRowWiseError as reason:
        raise no(reason) from None
    try:
        source = _source(con, view, name, function, depth)
        if isinstance(source, Relation):
            full = source.name.database, source.name.schema, source.name.table
            expansion = view.expand(source.tree(), [column.name for column in source.columns], full)
        else:
            expansion = view.expand(source.tree(), source.columns(con))
        _check_odd(expansion.read, source)
        types = _typed(con, expansion)
    except NotRowWiseError as reason:
        raise no(reason) from None
    except NotAllowedError as reason:
        raise no(reason, _with_ddl(reason, view, name.beside(f"{name.table}_rows")), _FILE_RULE) from None
    shown = [column.name for column in catalog.columns(con, name)]
    if len(types) != len(shown):
        raise no("no longer has the columns that it had when it was made", "create the view again")
    relation = _relation(name, shown, types, expansion.select)
    if isinstance(source, Files):
        return replace(relation, files=source)
    declared = {
        column: source.declared[origin]
        for column, origin in zip(shown, expansion.origins, strict=True)
        if origin in source.declared
    }
    return replace(
        relation,
        checks=source.checks,
        below=source.names,
        declared=declared,
        computed=source.computed,
        conditions=(*source.conditions, *_conditions(expansion, source)),
        files=source.files,
    )


def _conditions(expansion: Expansion, source: Relation) -> Iterator[exp.Expr]:
    """The condition of a view over a relation, of the table's columns."""
    if expansion.condition is not None:
        yield expansion.condition.transform(
            lambda node: _column_below(node, source) if isinstance(node, exp.Column) else node
        )


def _column_below(column: exp.Column, source: Relation) -> exp.Expr:
    below = source.declared.get(column.name)
    return exp.Placeholder() if below is None else exp.column(below.name, quoted=True)


def _relation(
    name: Name, columns: Sequence[str], types: Sequence[str], select: exp.Select, files: Files | None = None
) -> Relation:
    """What a view shows, by the names of its columns."""
    typed = tuple(Column(column, kind, nullable=True) for column, kind in zip(columns, types, strict=True))
    return Relation(name=name, columns=typed, rows=_subquery(select, columns), files=files)


def _subquery(select: exp.Select, columns: Sequence[str]) -> exp.Subquery:
    names = [exp.to_identifier(column, quoted=True) for column in columns]
    return exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier(ROW_ALIAS), columns=names))


def _with_ddl(refused: NotAllowedError, view: View | None, name: Name) -> str:
    """The cure, with the statement that makes a table of it where that can be said."""
    if refused.call is None or view is None:
        return refused.cure
    select = view.select.copy()
    select.args["from_"].this.set("this", refused.call)
    target = exp.table_(name.table, db=None if name.schema == "main" else name.schema)
    ddl = exp.Create(this=target, kind="TABLE", expression=select)
    return f"{refused.cure}: {ddl.sql('duckdb', normalize_functions=False)}"


def _source(con: duckdb.DuckDBPyConnection, view: View, name: Name, function: str, depth: int) -> Relation | Files:
    """What a view selects from: a relation, or files."""
    dotted = ".".join(quoted(part.name) for part in view.source.parts)
    is_call = isinstance(view.source.this, exp.Func)
    relation = None if is_call else catalog.find(con, dotted, Place(name.database, name.schema))
    if relation is not None:
        return _describe(con, *relation, function, depth - 1)
    read = files.read(con, view.source)
    if read is None and is_call:
        raise NotRowWiseError(f"reads the table function {function_name(view.source.this)}")
    if read is None:
        raise NotRowWiseError(f"reads {view.source.name}, which is not a table of an attached database")
    return read


def _typed(con: duckdb.DuckDBPyConnection, expansion: Expansion) -> list[str]:
    """The types of a SELECT's columns, without running it; a NotRowWiseError if a part cannot run, whatever the rows.

    Calls of `CALENDAR` are made with constants of their arguments' types, and the rest is planned: either would fail
    after the charge. No statistic of a column reaches an expression (`views._total`), so that neither depends on rows.
    """
    source = expansion.select.args["from_"].this
    for call in expansion.calls:
        _check_call(con, call, source)
    types = _described(con, expansion.select)
    try:
        con.execute(exp.Command(this="EXPLAIN", expression=expansion.select.sql("duckdb")).sql("duckdb")).fetchall()
    except duckdb.Error:
        raise NotRowWiseError("has a constant part that cannot be evaluated") from None
    return types


def _check_call(con: duckdb.DuckDBPyConnection, call: exp.Func, source: exp.Expr) -> None:
    """Make a call of `CALENDAR` once, with a constant of each argument's type."""
    date = "2000-01-01"
    samples = {"INTERVAL": "1 day", "TIMESTAMP": date, "DATE": date, "TIME": "12:00:00", "VARCHAR": date}
    name, sample = function_name(call), call.copy()
    parts = [part for part in sample.iter_expressions() if part.find(exp.Column) is not None]
    kinds = _described(con, exp.select(*(part.copy() for part in parts)).from_(source.copy())) if parts else []
    for part, kind in zip(parts, kinds, strict=True):
        if kind == "VARCHAR" and name in SPECIFIED | ZONED:
            raise NotRowWiseError(f"calls {name} with a text that is not a constant")
        value = next((text for start, text in samples.items() if kind.startswith(start)), "1")
        part.replace(cast(exp.Literal.string(value), kind))
    try:
        con.execute(exp.select(cast(tried(sample), "VARCHAR")).sql("duckdb")).fetchall()
    except duckdb.Error:
        raise NotRowWiseError(f"calls {name} of {', '.join(kinds) or 'constants'}, which DuckDB has not") from None


def _described(con: duckdb.DuckDBPyConnection, rows: exp.Select) -> list[str]:
    try:
        return [row[1] for row in con.execute(exp.Describe(this=rows).sql("duckdb")).fetchall()]
    except duckdb.Error:
        raise NotRowWiseError("has an expression or a column that DuckDB has not") from None
