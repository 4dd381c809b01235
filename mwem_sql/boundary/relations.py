"""What a private relation may be: the one place that says so.

    relation  a table of an attached DuckDB database, or a view
    table     its generated columns must be in the grammar of `views`
    view      in the grammar of `views`, over one relation or over files in the grammar of `files`
    file      its path, or a call that reads it: what a view `SELECT * FROM file` would be
    joined    a table of the same schema, on all columns of a key (`keys`); public, or with rows of the same unit
    unit      a column, or a table that the rows lead to by foreign keys

An allow-list: what is not named here is refused, with the part of its definition that is not allowed, the rule and the
cure. A view is expanded down to its table or files, and that is what scans read: what was checked is what runs, however
names are changed later. Reads the catalog and the schemas of files, never a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import duckdb
from sqlglot import exp

from mwem_sql.boundary import files, sources
from mwem_sql.boundary.files import Files, NotAllowedError
from mwem_sql.boundary.keys import Keys, declaration, has_plain_type
from mwem_sql.boundary.sources import Describes, Source
from mwem_sql.boundary.views import (
    ROW_ALIAS,
    Expansion,
    Join,
    NotRowWiseError,
    Pairs,
    Side,
    View,
    equation,
    tried,
    with_generated,
)
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


UNIT_COLUMN = "__mwem_unit"
"""What hidden columns begin with that say of which unit a row is; no column of the user has such a name."""


@dataclass(frozen=True, kw_only=True)
class KeyUnit:
    """A unit that is a row of a table and all rows that lead to it. `table` is that table.

    `columns` are hidden ones of what a scan reads: the values of a key of `table`, by which a row leads to it. `path`
    are the tables on the way, that of the row first. `id` identifies the table through every rename.
    """

    table: Name
    columns: tuple[Column, ...]
    path: tuple[Name, ...]
    id: str = field(default="", compare=False)


@dataclass(frozen=True, kw_only=True)
class Joined:
    """A table of which at most one row is in each row of a view. `optional`: by a LEFT JOIN, so that it may be none.

    `units` are the tables whose units have this row and the rest of the view's row, whatever they are: the nearest
    first; of a public table, none are needed. `mark` says that it is public. `declared`, `checks` and `computed` are as
    those of a `Relation`.
    """

    name: Name
    optional: bool
    units: tuple[Name, ...] = ()
    mark: str | None = None
    declared: dict[str, Column] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    computed: dict[str, str] = field(default_factory=dict)
    side: int = 0  # of the view that joins it; 0 above


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A private relation. `below` is what a view reads: views, and last a table; or `files`.

    `declared` maps its columns to the table's, where they are the same values, so that `checks` and `computed`, which
    speak of the table's columns, speak of them too. `joined` are what its rows have besides. `keyed` has for a column
    of the table the tables of which it names a row. `connected` are the private tables that keys connect with its own,
    and `public_marks` what says that others are public.
    """

    name: Name
    columns: tuple[Column, ...]
    rows: exp.Expr
    checks: tuple[str, ...] = ()
    below: tuple[Name, ...] = ()
    declared: dict[str, Column] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)  # what the table's generated columns are computed by
    files: Files | None = None
    odd: dict[str, str] = field(default_factory=dict)  # generated columns that may not be read, and why
    source: Source | None = None  # where it is, if not in this instance
    keys: tuple[tuple[Key, ...], ...] = ()  # of its rows, there
    mark: str | None = field(default=None, compare=False)  # the account that it carries there
    definition: object = None
    joined: tuple[Joined, ...] = ()
    unit: KeyUnit | None = None
    keyed: dict[str, tuple[Name, ...]] = field(default_factory=dict)
    connected: tuple[Name, ...] = ()
    public_marks: tuple[str, ...] = ()

    def tree(self) -> exp.Expr:
        """What a scan reads: the table, or the view written out."""
        return self.rows.copy()

    @property
    def tables(self) -> tuple[Relation | Joined, ...]:
        """All tables that its columns are of, with what each declares of its own."""
        return (self, *self.joined)

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

    @property
    def private_names(self) -> tuple[Name, ...]:
        """All names of private rows that it has to do with: those, what it joins, and all that keys connect with it."""
        joined = (each.name for each in self.joined if each.mark is None)
        return tuple(dict.fromkeys((*self.names, *joined, *self.connected)))

    @property
    def hidden(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.unit.columns) if self.unit is not None else ()

    def check_unit(self, unit: str | None, function: str) -> None:
        """Refuse a unit that does not have all rows of private tables which are in one row of the relation."""
        mine: tuple[Name, ...] = ()
        if self.unit is not None:
            mine = (self.unit.table,)
        elif unit is not None and (origin := self.origin(unit, function)) is not None:
            mine = self.keyed.get(origin.name, ())
        private = [each for each in self.joined if each.mark is None]
        for each in private:
            if set(mine) & set(each.units):
                continue
            covering = [name for name in each.units if all(name in other.units for other in private)]
            whose = "one row" if unit is None else f"one {unit}"
            what = f"view ({self.name.table!r}) joins the private table {each.name.table}, whose rows would not be"
            cure = f"give unit := {literal(covering[0].table)}, rows_per_unit := 1 or as many as most of them have"
            public = f"or have the curator say that all of {each.name.table} is public: CALL mwem_public"
            raise refuse(
                OptionError,
                function,
                f"{what} protected with {whose} of {self.charged.table}",
                f"{cure}; {public}({literal(each.name.table)})",
            )

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
    con: duckdb.DuckDBPyConnection,
    text: str,
    place: Place,
    function: str,
    within: Describes | None = None,
    *,
    unit: str | None = None,
) -> Relation:
    """The private relation under a name; a TableError says why it cannot be one.

    That of a source is described by its engine, or `within` a snapshot. `unit` is a column of the relation, or a table
    that its rows lead to: then it has hidden columns that say to which row (`KeyUnit`).
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
    if unit is not None and name is not None and all(fold(column.name) != fold(unit) for column in relation.columns):
        table = catalog.find(con, unit, place)
        if table is not None:
            relation = _describe(con, *name, function, DEEPEST, table[0])
    for column, reason in relation.odd.items():
        what = f"table ({relation.name.table!r}) has the generated column {column}, which {reason}"
        raise refuse(TableError, function, what, "release a view that leaves the column out, or make it a plain column")
    return relation


def _describe(
    con: duckdb.DuckDBPyConnection, name: Name, is_view: bool, function: str, depth: int, unit: Name | None = None
) -> Relation:
    kind = catalog.databases(con)[name.database].type
    if kind != "duckdb":
        what = f"table ({name}) is in a database of type {kind}, whose tables may be anything"
        raise refuse(TableError, function, what, "copy it: CREATE TABLE ... AS FROM ...")
    if is_view:
        return _view(con, name, function, depth, unit)
    keys = Keys.of(con, name, function)
    connected = keys.tree(name)
    table = replace(
        _table(con, name),
        keyed={
            column.name: named
            for column in catalog.columns(con, name)
            if (named := tuple(keys.named(name, [column.name])))
        },
        connected=connected,
        public_marks=keys.public_near(connected),
    )
    return table if unit is None else _with_unit(con, table, unit, keys, function)


def _with_unit(con: duckdb.DuckDBPyConnection, table: Relation, unit: Name, keys: Keys, function: str) -> Relation:
    """A table with hidden columns that say of which unit a row is; along its path, all tables but the unit's own.

    Rows that lead to no unit are left out where the path has several steps, and otherwise have NULL there.
    """
    path = keys.path(table.name, unit, function)
    types = {column.name: column for column in table.columns}
    columns = next(iter(keys.unique(unit)), ())
    if not path and not columns:
        what = f"unit ({unit.table!r}) is a table without a PRIMARY KEY or UNIQUE constraint, so that its rows"
        cure = f"declare one: ALTER TABLE {unit.quoted()} ADD PRIMARY KEY ({next(iter(types))})"
        raise refuse(TableError, function, f"{what} cannot be told apart", cure)
    rows = _named(table.tree(), [f"0:{name}" for name in types], 0)
    select = exp.select(*(exp.column(f"0:{name}", quoted=True) for name in types)).from_(rows)
    for number, (key, further) in enumerate(pairwise(path)):
        types = {column.name: column for column in catalog.columns(con, key.refers_to)}
        needed = list(dict.fromkeys((*key.refers_columns, *further.columns)))
        equations = [
            equation(f"{number}:{one}", f"{number + 1}:{other}", is_text=types[other].type == "VARCHAR")
            for one, other in zip(key.columns, key.refers_columns, strict=True)
        ]
        # No other column is read: one may be generated.
        rows = exp.select(*(exp.column(name, quoted=True) for name in needed)).from_(key.refers_to.tree()).subquery()
        right = _named(rows, [f"{number + 1}:{name}" for name in needed], number + 1)
        select = select.join(right, on=exp.and_(*equations), join_type="inner", copy=False)
    columns = path[-1].columns if path else columns
    last = max(len(path) - 1, 0)
    hidden = []
    for number, name in enumerate(columns):
        column = types[name]
        if not has_plain_type(column):
            what = f"unit ({unit.table!r}) has a key of type {column.type}, of which equal values need not be the same"
            raise refuse(OptionError, function, what, "identify units by a number, text, date or UUID")
        hidden.append(Column(f"{UNIT_COLUMN}{number}", column.type, nullable=True))
        select = select.select(exp.column(f"{last}:{column.name}", quoted=True), copy=False)
    names = [*(column.name for column in table.columns), *(column.name for column in hidden)]
    found = KeyUnit(
        table=unit,
        columns=tuple(hidden),
        path=(table.name, *(key.refers_to for key in path)),
        id=catalog.table_unit(con, unit),
    )
    return replace(table, rows=_subquery(select, names), unit=found)


def _named(tree: exp.Expr, columns: Sequence[str], number: int) -> exp.Expr:
    """A table under an alias and with columns of ours."""
    tree = tree.copy()
    names = [exp.to_identifier(name, quoted=True) for name in columns]
    tree.set("alias", exp.TableAlias(this=exp.to_identifier(f"{ROW_ALIAS}_{number}"), columns=names))
    return tree


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
        expansion = view.expand(Side(read.tree(), columns))
        _check_odd(expansion.read, [read])
        types = _typed(con, expansion)
    except NotAllowedError as reason:
        what = f"file ({text!r}) {reason}; {_FILE_RULE}"
        raise refuse(TableError, function, what, _with_ddl(reason, view, name.beside(name.stem))) from None
    except NotRowWiseError as reason:
        cure = "release a view that leaves the column out, or make the rows a table"
        raise refuse(TableError, function, f"file ({text!r}) {reason}", cure) from None
    return _relation(name, columns, types, expansion.select, files=read)


def _check_odd(columns: set[tuple[int, str]], sources: Sequence[Relation | Files]) -> None:
    """Refuse a column that may not be read, before anything is planned: a plan of files reads their extremes."""
    for number, column in sorted(columns):
        source = sources[number]
        kind = "generated column" if isinstance(source, Relation) else "column"
        reason = source.odd.get(column if isinstance(source, Relation) else fold(column))
        if reason is not None:
            raise NotRowWiseError(f"reads the {kind} {column}, which {reason}")


def _view(con: duckdb.DuckDBPyConnection, name: Name, function: str, depth: int, unit: Name | None = None) -> Relation:
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
        source = _source(con, view, name, function, depth, unit)
        right = [_joined_table(con, join, name, function) for join in view.joins]
        sources: list[Relation | Files] = [source, *right]
        expansion = view.expand(_side(con, source), *(_side(con, each) for each in right))
        _check_odd(expansion.read, sources)
        joined = _joined(con, view, source, right, expansion, function)
        types = _typed(con, expansion)
    except NotRowWiseError as reason:
        if reason.cure:
            raise no(reason, reason.cure) from None
        raise no(reason) from None
    except NotAllowedError as reason:
        raise no(reason, _with_ddl(reason, view, name.beside(f"{name.table}_rows")), _FILE_RULE) from None
    shown = [column.name for column in catalog.columns(con, name)]
    hidden = source.hidden if isinstance(source, Relation) else ()
    if len(types) != len(shown) + len(hidden):
        raise no("no longer has the columns that it had when it was made", "create the view again")
    relation = _relation(name, shown, types, expansion.select, hidden=hidden)
    if isinstance(source, Files):
        return replace(relation, files=source, joined=joined)
    places = list(zip(shown, expansion.origins, strict=True))

    def declared(side: int, columns: Mapping[str, Column]) -> dict[str, Column]:
        return {
            column: columns[origin[1]]
            for column, origin in places
            if origin and origin[0] == side and origin[1] in columns
        }

    return replace(
        relation,
        checks=source.checks,
        below=source.names,
        declared=declared(0, source.declared),
        computed=source.computed,
        files=source.files,
        joined=tuple(replace(each, declared=declared(each.side, each.declared), side=0) for each in joined),
        unit=source.unit,
        keyed=source.keyed,
        connected=source.connected,
        public_marks=tuple(sorted({*source.public_marks, *(each.mark for each in joined if each.mark is not None)})),
    )


def _side(con: duckdb.DuckDBPyConnection, source: Relation | Files) -> Side:
    """What a view reads, to be expanded over."""
    if isinstance(source, Files):
        return Side(source.tree(), source.columns(con))
    full = source.name.database, source.name.schema, source.name.table
    columns = [column.name for column in source.columns]
    texts = {column.name for column in source.columns if column.type == "VARCHAR"}
    return Side(source.tree(), columns, full, source.hidden, texts)


def _joined_table(con: duckdb.DuckDBPyConnection, join: Join, name: Name, function: str) -> Relation:
    """A table that a view joins."""
    if isinstance(join.table.this, exp.Func):
        raise NotRowWiseError(f"joins the table function {function_name(join.table.this)}")
    dotted = ".".join(quoted(part.name) for part in join.table.parts)
    found = catalog.find(con, dotted, Place(name.database, name.schema))
    if found is None:
        raise NotRowWiseError(f"joins {join.table.name}, which is not a table of an attached database")
    if found[1]:
        cure = f"join the table under {join.table.name}, or make its rows a table with a PRIMARY KEY"
        raise NotRowWiseError(f"joins {join.table.name}, which is a view and has no key", cure)
    return _describe(con, *found, function, DEEPEST)


def _joined(
    con: duckdb.DuckDBPyConnection,
    view: View,
    source: Relation | Files,
    right: Sequence[Relation],
    expansion: Expansion,
    function: str,
) -> tuple[Joined, ...]:
    """The tables that are joined in a view and below it. Each that it joins itself is checked.

    On all columns of a key, so that there is one row at most; public, or with a row of the same unit as the rest.
    """
    if isinstance(source, Files):
        if view.joins:
            raise NotRowWiseError("joins a table to a file", "make the rows of the file a table, with its keys")
        return ()
    out = list(source.joined)
    keys = Keys.of(con, source.charged, function)
    for number, (join, table, pairs) in enumerate(zip(view.joins, right, expansion.pairs, strict=True), start=1):
        _check_key(con, source, right, pairs, table, keys)
        mark, units = keys.marks.get(table.name), tuple[Name, ...]()
        if mark is None:
            if table.name in [source.charged, *(each.name for each in out if each.mark is None)]:
                cure = f"CALL mwem_public({literal(table.name.table)}) says that it is public, if it is"
                raise NotRowWiseError(f"has rows of {table.name.table} twice, which may be of two units", cure)
            units = _units(source, right, pairs, table, keys)
        declared = {
            column: replace(origin, nullable=origin.nullable or join.is_left)
            for column, origin in table.declared.items()
        }
        computed = {} if join.is_left else table.computed
        out.append(
            Joined(
                name=table.name, optional=join.is_left, units=units, mark=mark, declared=declared,
                checks=table.checks, computed=computed, side=number,
            )
        )  # fmt: skip
    return tuple(out)


def _check_key(
    con: duckdb.DuckDBPyConnection,
    source: Relation,
    right: Sequence[Relation],
    pairs: Pairs,
    table: Relation,
    keys: Keys,
) -> None:
    """A join is on all columns of a key of its table, and on nothing else, and compares values of one type."""
    columns = [name for _, name in pairs]
    if not keys.is_unique(table.name, columns, enforced=keys.is_public(table.name)):
        listed = " and ".join(f"({', '.join(key)})" for key in keys.unique(table.name))
        has = f"whose keys are {listed}" if listed else "which has no key"
        cure = f"join on all columns of a key; ALTER TABLE {table.name.table} ADD PRIMARY KEY ({', '.join(columns)})"
        raise NotRowWiseError(
            f"joins {table.name.table} on ({', '.join(columns)}), {has}", f"{cure} makes one where values are unique"
        )
    types = {column.name: column.type for column in table.columns}
    for (number, left), name in pairs:
        before = (source, *right)[number]
        (other,) = (column for column in before.columns if column.name == left)
        if other.type != types[name] or not has_plain_type(other):
            what = f"joins {table.name.table} by {left} ({other.type}) and {name} ({types[name]})"
            cure = "columns of a key are of one type, a number, text, date or UUID: change the table of one of them"
            raise NotRowWiseError(f"{what}, which need not be equal where they compare as equal", cure)


def _units(source: Relation, right: Sequence[Relation], pairs: Pairs, table: Relation, keys: Keys) -> tuple[Name, ...]:
    """The tables whose units have both the row of a joined private table and the row that it is joined to.

    Both sides of the join name one row of a table, by a key or a foreign key; its unit is that of both.
    """
    origins = {_origin(source, right, number, left) for (number, left), _ in pairs}
    tables = {origin[0] for origin in origins if origin is not None}
    columns = [name for _, name in pairs]
    left = next(iter(tables), source.charged)
    named: list[str] = []
    if len(tables) == 1 and None not in origins and not keys.is_public(left):
        named = [origin[1] for place, _ in pairs if (origin := _origin(source, right, *place)) is not None]
        ours, theirs = keys.named(left, named), keys.named(table.name, columns)
        common = [each for each, by in ours.items() if theirs.get(each) == by]
        tops = dict.fromkeys(top for each in common for top in keys.above(each))
        units = [
            top
            for top in tops
            if all(keys.single_path(each, top) is not None for each in (source.charged, left, table.name))
        ]
        if units:
            return tuple(units)
        if common:
            what = f"joins {table.name.table} on ({', '.join(columns)}), whose rows lead to no unit on one path alone"
            raise NotRowWiseError(what, "leave the table out: its rows may be of another unit than the rest")
    cure = (
        f"if all of {table.name.table} is public, CALL mwem_public({literal(table.name.table)}); if it is a key that "
        f"leads to the unit, declare it: {declaration(left, table.name, [columns], named)}"
    )
    raise NotRowWiseError(f"joins {table.name.table} on ({', '.join(columns)}), which no FOREIGN KEY leads along", cure)


def _origin(source: Relation, right: Sequence[Relation], number: int, column: str) -> tuple[Name, str] | None:
    """The table and the column of it that a column of a side shows unchanged."""
    if number:
        table = right[number - 1]
        return table.name, table.declared[column].name
    if column in source.declared:
        return source.charged, source.declared[column].name
    return next(((each.name, each.declared[column].name) for each in source.joined if column in each.declared), None)


def _relation(
    name: Name,
    columns: Sequence[str],
    types: Sequence[str],
    select: exp.Select,
    files: Files | None = None,
    hidden: Sequence[str] = (),
) -> Relation:
    """What a view shows, by the names of its columns; what is `hidden` comes last."""
    typed = tuple(Column(column, kind, nullable=True) for column, kind in zip(columns, types, strict=False))
    return Relation(name=name, columns=typed, rows=_subquery(select, [*columns, *hidden]), files=files)


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


def _source(
    con: duckdb.DuckDBPyConnection, view: View, name: Name, function: str, depth: int, unit: Name | None
) -> Relation | Files:
    """What a view selects from: a relation, or files."""
    dotted = ".".join(quoted(part.name) for part in view.source.parts)
    is_call = isinstance(view.source.this, exp.Func)
    relation = None if is_call else catalog.find(con, dotted, Place(name.database, name.schema))
    if relation is not None:
        return _describe(con, *relation, function, depth - 1, unit)
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
