"""A script that goes from the rows of several tables to their release, for a person to review.

It makes the tables with the keys that were seen in their rows, declares domains, and releases each tree of tables. Owns
its words and the order of its lines. Must not read a private row itself: `scan/links.py` and `scan/suggestion.py` do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb
from sqlglot import exp

from mwem_sql.accounting.ledger import ledger_of
from mwem_sql.boundary import relations
from mwem_sql.boundary.relations import Relation
from mwem_sql.domains.declarations import from_schema
from mwem_sql.errors import OptionError, refuse
from mwem_sql.explain.suggest import TITLE, Script, comment
from mwem_sql.language import dialect
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session
from mwem_sql.scan import execution
from mwem_sql.scan.links import Links, Reference, suggest_links
from mwem_sql.scan.suggestion import Suggestion, suggest_domain


@dataclass(frozen=True, eq=False, kw_only=True)
class TableFile:
    """A table whose rows are read to make suggestions. `file` is what FROM says of the file that they come from."""

    table: str
    file: exp.Expr


@dataclass(frozen=True, eq=False, kw_only=True)
class _Table:
    """What is known of a table: its relation, what is suggested of columns that are no keys, and its columns' types."""

    relation: Relation
    file: exp.Expr
    suggestions: Sequence[Suggestion]
    declared: Mapping[str, str]
    types: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.relation.name.table


def tables_script(session: Session, sources: Sequence[TableFile], function: str) -> str:
    """The script for some tables that were made of files.

    Privacy:
        None: keys and domains are read off the private rows, and the ledger notes it.
    """
    con = session.cursor()
    described = [relations.describe(con, source.table, session.place, function) for source in sources]
    for relation in described:
        with ledger_of(con, relation, session.place, function).note(session.cursor, None, function):
            pass
    links = suggest_links(execution.engine_of(session.cursor(), described[0]), described)
    joining = _joining(links)
    tables = []
    for place, (source, relation) in enumerate(zip(sources, described, strict=True)):
        with Sandbox(session.settings) as sandbox:
            declared = from_schema(relation, sandbox)
        rows = execution.engine_of(session.cursor(), relation)
        skipped = {*declared, *joining[place]}
        suggestions = [replace(each, rows_per_unit=None) for each in suggest_domain(rows, relation, skipped)]
        tables.append(
            _Table(
                relation=relation,
                file=source.file,
                suggestions=suggestions,
                declared={name: each.source for name, each in declared.items() if name not in joining[place]},
                types=_types(con, relation, suggestions),
            )
        )
    return _text(session, tables, links, function)


def _joining(links: Links) -> list[set[str]]:
    """The columns of keys of each table."""
    out = [{links.keys[place]} if place in links.keys else set[str]() for place in range(len(links.rows))]
    for table, reference in links.references.items():
        out[table].add(reference.column)
    return out


def _types(con: duckdb.DuckDBPyConnection, relation: Relation, suggestions: Sequence[Suggestion]) -> dict[str, str]:
    """The types of columns as they are to be read."""
    rows = exp.select(_read(suggestions)).from_(relation.name.tree())
    described = con.execute(exp.Describe(this=rows).sql("duckdb")).fetchall()
    return {name: kind for name, kind, *_ in described}


def _read(suggestions: Sequence[Suggestion]) -> exp.Star:
    """All columns, those in another type that have values of it."""
    read = [exp.alias_(exp.Var(this=each.read_as), each.attribute, quoted=True) for each in suggestions if each.read_as]
    return exp.Star(replace=read) if read else exp.Star()


def _text(session: Session, tables: Sequence[_Table], links: Links, function: str) -> str:
    trees = [tree for tree in links.trees() if len(tree) > 1]
    if not trees:
        what = f"no column of {', '.join(table.name for table in tables)} has the values of a key of another table"
        hint = (
            "name one file to have a script for it alone; or CREATE the tables with their keys, and mwem_release([...])"
        )
        raise refuse(OptionError, function, what, hint)
    blocks = [[comment(line) for line in TITLE.splitlines()]]
    heading = "1. Tables with keys, as far as keys were seen in these rows. CHECK each: rows of a person are protected"
    blocks.append([comment(f"{heading} together only along them.")])
    for place in links.order():
        blocks[-1] += _made(tables, links, place)
    blocks[-1] += [comment(text) for text in _not_used(tables, links)]
    joined = [tables[place] for tree in trees for place in tree]
    for number, table in enumerate(joined):
        script = Script(
            table=table.relation.name,
            home=table.relation.name,
            place=session.place,
            suggestions=[replace(each, read_as=None) for each in table.suggestions],
            declared=table.declared,
        )
        first, *lines = script.domain()
        blocks.append([comment(f"2. {first}")] if not number else [])
        blocks[-1] += lines
    for number, tree in enumerate(trees):
        workload = "workload" if len(trees) == 1 else f"workload_{number + 1}"
        blocks.append(_workload([tables[place] for place in tree], workload))
        blocks.append(_release(tables, links, tree, workload))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _made(tables: Sequence[_Table], links: Links, place: int) -> Iterator[str]:
    """The statements that make a table with its keys and fill it, once."""
    table, reference, key = tables[place], links.references.get(place), links.keys.get(place)
    types = dict(table.types)
    if reference is not None:  # a key and what refers to it have one type
        types[reference.column] = tables[reference.parent].types[reference.key]
    columns = []
    for name, kind in types.items():
        constraints: list[exp.Expr] = []
        if name == key:
            constraints.append(exp.PrimaryKeyColumnConstraint())
        if reference is not None and name == reference.column:
            parent = exp.to_identifier(tables[reference.parent].name, quoted=True)
            referred = exp.Schema(this=parent, expressions=[exp.to_identifier(reference.key, quoted=True)])
            constraints.append(exp.Reference(this=referred))
        columns.append(
            exp.ColumnDef(
                this=exp.to_identifier(name, quoted=True),
                kind=exp.DataType.build(kind, dialect="duckdb"),
                constraints=[exp.ColumnConstraint(kind=each) for each in constraints],
            )
        )
    target = exp.Table(this=exp.to_identifier(table.name, quoted=True))
    schema = exp.Schema(this=target, expressions=columns)
    created = exp.Create(this=schema, kind="TABLE", exists=True).sql("duckdb")
    seen = []
    if key is not None:
        seen.append(f"CHECK {key}: in {links.rows[place]:,} rows no value is there twice")
    if reference is not None:
        seen.append(f"CHECK {reference.column}: all its values are in {_column(tables, reference)}")
    yield f"{created};  {comment('; '.join(seen) or 'no key was seen')}"
    none = exp.Not(this=exp.Exists(this=exp.select("*").from_(target.copy())))
    rows = exp.select(_read(table.suggestions)).from_(table.file.copy()).where(none)
    filled = exp.Insert(this=target.copy(), expression=rows).sql("duckdb", normalize_functions=False)
    yield f"{filled};  {comment('only if it is empty')}"


def _column(tables: Sequence[_Table], reference: Reference) -> str:
    return f"{tables[reference.parent].name}.{reference.key}"


def _not_used(tables: Sequence[_Table], links: Links) -> Iterator[str]:
    """What could be a key, too, and tables that none leads from or to."""
    for each in links.others:
        where = f"{tables[each.table].name}.{each.column}"
        yield f"CHECK: all values of {where} are in {_column(tables, each)}, too. A table leads to one other."
    for tree in links.trees():
        if len(tree) == 1:
            name = tables[tree[0]].name
            yield f"CHECK: no key leads from {name} to another table, or back. It is not released here."


def _workload(joined: Sequence[_Table], workload: str) -> list[str]:
    """The questions: pairs of columns, or of a column and a number of rows."""
    marginals = exp.Anonymous(this="mwem_marginals", expressions=[_listed(joined), exp.Literal.number(2)])
    rows = exp.select("*").from_(exp.Table(this=marginals))
    made = exp.Create(this=exp.to_table(workload), kind="TABLE", replace=True, expression=rows)
    statement = made.sql("duckdb", normalize_functions=False)
    return [
        comment("3. The questions that the release has to answer well."),
        f"{statement};  {comment('CHECK: all pairs, also with columns of tables above. What else will be asked?')}",
    ]


def _listed(joined: Sequence[_Table]) -> exp.Array:
    return exp.Array(expressions=[exp.Literal.string(dialect.name(table.name)) for table in joined])


def _release(tables: Sequence[_Table], links: Links, tree: Sequence[int], workload: str) -> list[str]:
    joined, root = [tables[place] for place in tree], tables[tree[0]].name
    name = exp.Literal.string(dialect.name(root)).sql("duckdb")
    call = f"CALL mwem_release({_listed(joined).sql('duckdb')}, {workload}, 1.0"
    below = [(tables[place].name, links.units[place]) for place in tree[1:]]
    most = "; ".join(
        f"{table}: 99 in 100 have {rows.common:,} or fewer, none more than {rows.most:,}" for table, rows in below
    )
    numbers = [
        exp.PropertyEQ(this=exp.Literal.string(table), expression=exp.Literal.number(rows.common))
        for table, rows in below
    ]
    return [
        comment("4. The release. A larger epsilon means less noise and less privacy."),
        comment(
            f"CALL mwem_budget({name}, 3.0, unit := {name});  -- CHECK: a cap on all releases of these tables together;"
            " then every table needs one."
        ),
        f"{call}, rows_per_unit := {exp.Struct(expressions=numbers).sql('duckdb')});  "
        + comment(
            f"CHECK epsilon, and whom to protect: a row of {root} and all rows that lead to it. Of rows per {root}"
            f" ({most}) those beyond are left out; with fewer there is less noise."
        ),
    ]
