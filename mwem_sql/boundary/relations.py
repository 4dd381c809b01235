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

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import duckdb
from sqlglot import exp

from mwem_sql.boundary import files, sources
from mwem_sql.boundary.files import Files, NotAllowedError
from mwem_sql.boundary.joins import joined_tables, with_unit
from mwem_sql.boundary.keys import Keys
from mwem_sql.boundary.relation import Joined, KeyUnit, Relation, subquery
from mwem_sql.boundary.sides import Join, NotRowWiseError, Side
from mwem_sql.boundary.sources import Describes, Facts, Source
from mwem_sql.boundary.views import Expansion, View, tried, with_generated
from mwem_sql.errors import MwemError, TableError, refuse
from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold, function_name, quoted
from mwem_sql.language.functions import SPECIFIED, ZONED
from mwem_sql.language.ticks import cast
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Column, Name, Place

__all__ = ["Joined", "KeyUnit", "Relation", "above", "describe"]

DEEPEST = 50
"""Views over views, at most; DuckDB itself stops at a similar depth."""
_FILE_RULE = "private files are Parquet files, read whole and each once"


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
        remote = of_source(source, (within or source.engine).describe(parts, function))
        if within is not None or source.engine.keeps_keys or remote.base is None:
            return remote
        keys = Keys.declared(con, place, remote.base, function)
        return replace(remote, beside=beside_of_source(source, remote.base, keys, {}, function))
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
        # Keys do not leave a schema: a table that is a unit is beside the relation, or beside what a view reads.
        beside = Place(name[0].database, name[0].schema)
        table = catalog.find(con, unit, beside) or catalog.find(con, unit, place)
        if table is not None:
            relation = _describe(con, *name, function, DEEPEST, unit=table[0])
    if relation.files is not None and name is not None:
        relation = replace(relation, beside=_views_beside(con, relation, function))
    for column, reason in relation.odd.items():
        what = f"table ({relation.name.table!r}) has the generated column {column}, which {reason}"
        raise refuse(TableError, function, what, "release a view that leaves the column out, or make it a plain column")
    return relation


def _views_beside(con: duckdb.DuckDBPyConnection, relation: Relation, function: str) -> tuple[Relation, ...]:
    """The views of files that keys connect with one, by whatever of its names."""
    names = dict.fromkeys(other for name in relation.names for other in Keys.of(con, name, function).tree(name))
    out = []
    for name in names:
        other = None if name in relation.names else catalog.find(con, name.quoted(), Place(name.database, name.schema))
        if other is not None and other[1]:
            out.append(_describe(con, *other, function, DEEPEST))
    return tuple(each for each in out if each.files is not None)


def beside_of_source(
    source: Source, table: Name, keys: Keys, described: Mapping[Name, Relation], function: str
) -> tuple[Relation, ...]:
    """The tables that keys connect with one of an engine that keeps none itself; some are described already.

    What `mwem_keys` says of a table that is not there is about another place.
    """
    out = []
    for name in keys.tree(table)[1:]:
        other = described.get(name)
        with suppress(TableError):
            other = other or of_source(source, source.engine.describe((name.schema, name.table), function))
        if other is not None:
            out.append(other)
    return tuple(out)


def of_source(source: Source, facts: Facts) -> Relation:
    """A relation of a source, as its engine has described it."""
    return Relation(
        name=Name(source.alias, facts.schema, facts.table), columns=facts.columns, rows=facts.rows,
        checks=facts.checks, declared=facts.declared, source=source, keys=facts.keys, mark=facts.mark,
        definition=facts.definition, base=Name(source.alias, *facts.base) if facts.base else None, base_id=facts.id,
    )  # fmt: skip


def _describe(
    con: duckdb.DuckDBPyConnection, name: Name, is_view: bool, function: str, depth: int, *, unit: Name | None = None
) -> Relation:
    _check_database(con, name, function)
    if is_view:
        return _view(con, name, function, depth, unit)
    keys = Keys.of(con, name, function)
    connected = keys.tree(name)
    plain = _table(con, name)
    table = replace(
        plain,
        keyed={column.name: named for column in plain.columns if (named := tuple(keys.named(name, [column.name])))},
        connected=connected,
        public_marks=keys.public_near(connected),
    )
    return table if unit is None else with_unit(con, table, unit, keys, function)


def _check_database(con: duckdb.DuckDBPyConnection, name: Name, function: str) -> None:
    kind = catalog.databases(con)[name.database].type
    if kind != "duckdb":
        what = f"table ({name}) is in a database of type {kind}, whose tables may be anything"
        raise refuse(TableError, function, what, "copy it: CREATE TABLE ... AS FROM ...")


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
    return replace(table, rows=subquery(expansion.select, list(declared)), odd=odd, computed=computed)


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
        expansion = view.expand(Side(tree=read.tree(), columns=columns))
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
        source = _source(con, view, name, function, depth, unit=unit)
        right = [_joined_table(con, join, name, function) for join in view.joins]
        made = _over(con, view, name, source, right)
    except NotRowWiseError as reason:
        if reason.cure:
            raise no(reason, reason.cure) from None
        raise no(reason) from None
    except NotAllowedError as reason:
        raise no(reason, _with_ddl(reason, view, name.beside(f"{name.table}_rows")), _FILE_RULE) from None
    if made is None:
        raise no("no longer has the columns that it had when it was made", "create the view again")
    return made


def above(con: duckdb.DuckDBPyConnection, table: Name, unit: Name, function: str) -> Relation:
    """The rows of a table, each with those of all tables that it leads to up to the unit: `"person.sex"`.

    What a view of it with LEFT JOINs along its keys would be.
    """
    source = _describe(con, table, False, function, DEEPEST, unit=unit)
    path = Keys.of(con, table, function).path(table, unit, function)
    select, items = (
        exp.select().from_(table.tree()),
        [exp.column(each.name, table=table.table, quoted=True) for each in source.columns],
    )
    names, right = [column.name for column in source.columns], []
    for key in path:
        parent = _table(con, key.refers_to)
        equations = [
            exp.EQ(
                this=exp.column(one, table=key.table.table, quoted=True),
                expression=exp.column(other, table=parent.name.table, quoted=True),
            )
            for one, other in zip(key.columns, key.refers_columns, strict=True)
        ]
        select = select.join(parent.name.tree(), on=exp.and_(*equations), join_type="left")
        items += [exp.column(each.name, table=parent.name.table, quoted=True) for each in parent.columns]
        names += [f"{parent.name.table}.{column.name}" for column in parent.columns]
        right.append(parent)
    try:
        made = _over(con, View.of(select.select(*items)), table, source, right, shown=names)
    except NotRowWiseError as reason:
        what = f"table ({table.table!r}) with the tables that it leads to {reason}"
        raise refuse(TableError, function, what, reason.cure or f"release {table.table} by itself") from None
    assert made is not None
    return replace(made, below=())


def _over(
    con: duckdb.DuckDBPyConnection,
    view: View,
    name: Name,
    source: Relation | Files,
    right: Sequence[Relation],
    *,
    shown: Sequence[str] = (),
) -> Relation | None:
    """A view, over its source and what it joins; None if its columns are no longer those that it was made with.

    `shown` are their names; of a view that is in the catalog, those there.
    """
    expansion = view.expand(_side(con, source), *(_side(con, each) for each in right))
    _check_odd(expansion.read, [source, *right])
    places = dict.fromkeys((each.name.database, each.name.schema) for each in right)
    keys = {place: Keys.of(con, Name(*place, ""), "keys") for place in places}
    joined = joined_tables(view, source, right, expansion, keys)
    types = _typed(con, expansion)
    shown = shown or [column.name for column in catalog.columns(con, name)]
    hidden = source.hidden if isinstance(source, Relation) else ()
    if len(types) != len(shown) + len(hidden):
        return None
    relation = _relation(name, shown, types, expansion.select, hidden=hidden)
    if isinstance(source, Files):
        return replace(relation, files=source, joined=joined)
    origins = list(zip(shown, expansion.origins, strict=True))

    def declared(side: int, columns: Mapping[str, Column]) -> dict[str, Column]:
        return {
            column: columns[origin[1]]
            for column, origin in origins
            if origin and origin[0] == side and origin[1] in columns
        }

    return replace(
        relation,
        checks=source.checks,
        below=source.names,
        declared=declared(0, source.declared),
        computed=source.computed,
        conditions=(*source.conditions, *_conditions(expansion, source)),
        files=source.files,
        joined=tuple(replace(each, declared=declared(each.side, each.declared), side=0) for each in joined),
        unit=source.unit,
        keyed=source.keyed,
        connected=source.connected,
        public_marks=tuple(sorted({*source.public_marks, *(each.mark for each in joined if each.mark is not None)})),
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


def _side(con: duckdb.DuckDBPyConnection, source: Relation | Files) -> Side:
    """What a view reads, to be expanded over."""
    if isinstance(source, Files):
        return Side(tree=source.tree(), columns=source.columns(con))
    full = source.name.database, source.name.schema, source.name.table
    columns = [column.name for column in source.columns]
    texts = {column.name for column in source.columns if column.type == "VARCHAR"}
    return Side(tree=source.tree(), columns=columns, full=full, hidden=source.hidden, texts=texts)


def _joined_table(con: duckdb.DuckDBPyConnection, join: Join, name: Name, function: str) -> Relation:
    """A table that a view joins."""
    if isinstance(join.table.this, exp.Func):
        raise NotRowWiseError(f"joins the table function {function_name(join.table.this)}")
    dotted = ".".join(quoted(part.name) for part in join.table.parts)
    named = catalog.find(con, dotted, Place(name.database, name.schema))
    if named is None:
        raise NotRowWiseError(f"joins {join.table.name}, which is not a table of an attached database")
    if named[1]:
        cure = f"join the table under {join.table.name}, or make its rows a table with a PRIMARY KEY"
        raise NotRowWiseError(f"joins {join.table.name}, which is a view and has no key", cure)
    _check_database(con, named[0], function)
    return _table(con, named[0])


def _relation(
    name: Name,
    columns: Sequence[str],
    types: Sequence[str],
    select: exp.Select,
    *,
    files: Files | None = None,
    hidden: Sequence[str] = (),
) -> Relation:
    """What a view shows, by the names of its columns; what is `hidden` comes last."""
    typed = tuple(Column(column, kind, nullable=True) for column, kind in zip(columns, types, strict=False))
    return Relation(name=name, columns=typed, rows=subquery(select, [*columns, *hidden]), files=files)


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
    con: duckdb.DuckDBPyConnection, view: View, name: Name, function: str, depth: int, *, unit: Name | None
) -> Relation | Files:
    """What a view selects from: a relation, or files."""
    dotted = ".".join(quoted(part.name) for part in view.source.parts)
    is_call = isinstance(view.source.this, exp.Func)
    relation = None if is_call else catalog.find(con, dotted, Place(name.database, name.schema))
    if relation is not None:
        return _describe(con, *relation, function, depth - 1, unit=unit)
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
