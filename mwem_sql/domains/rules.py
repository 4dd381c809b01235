"""What is possible of several columns together: rules that no row breaks, and columns that are computed of others.

Public all of it: CHECKs and generated columns of the schema, and a rules table that the curator declares. Reads the
catalog and public rows only, and evaluates nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mwem_sql.boundary.public import check_public
from mwem_sql.boundary.relations import Joined, Relation
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import is_long
from mwem_sql.domains.declarations import check_conditions
from mwem_sql.errors import DomainError, TableError, did_you_mean, refuse
from mwem_sql.language import conditions, dialect
from mwem_sql.language.conditions import columns_of, conjuncts
from mwem_sql.language.dialect import fold
from mwem_sql.language.predicate import Columns, parse
from mwem_sql.language.ticks import cast, scale_of
from mwem_sql.platform import catalog

RULES_COLUMN = "rule"
"""The one column of a rules table."""
_KEY = re.compile(r"\s*foreign\s+key\b", re.IGNORECASE)


@dataclass(frozen=True)
class PublicRule:
    """A condition that no row makes false; as of a CHECK, NULL will do. `source` is where it is declared."""

    text: str
    source: str


@dataclass(frozen=True)
class Computed:
    """A column whose values follow from other columns of the row: `text` is the expression, in the column's type."""

    name: str
    type: str
    text: str
    source: str

    @cached_property
    def tree(self) -> exp.Expr:
        return dialect.expression(self.text)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads; none of them is computed."""
        return columns_of(self.tree)


def rules_of_schema(relation: Relation) -> Iterator[PublicRule]:
    """The CHECKs over several columns of a table, all of which the relation shows. Those over one are its domain.

    Where a view may show no row of a table, its CHECKs do not hold: they are about rows that are there.
    """
    for table in relation.tables:
        shown = _shown(table)
        for text in () if isinstance(table, Joined) and table.optional else table.checks:
            for tree in check_conditions(text):
                names = [fold(name) for name in columns_of(tree)]
                if len(set(names)) > 1 and shown.keys() >= set(names) and _means_the_same(tree, relation):
                    yield PublicRule(dialect.sql(_renamed(tree, shown)), "CHECK")


def computed_of_schema(relation: Relation, declared: Mapping[str, Attribute]) -> Iterator[Computed]:
    """The generated columns that follow from declared ones.

    One that has a domain of its own is modelled as any other column where it joins several columns, or cuts a long one
    otherwise than by comparisons: nobody can list its values then.
    """
    listed = [(table, name, origin) for table in relation.tables for name, origin in table.declared.items()]
    for table, name, origin in listed:
        text, shown = table.computed.get(origin.name), _shown(table)
        if text is None:
            continue
        tree = dialect.expression(text)
        if not shown.keys() >= {fold(column) for column in columns_of(tree)}:
            continue
        tree = _renamed(tree, shown)
        columns = columns_of(tree)
        if not columns or not all(column in declared for column in columns):
            continue
        is_plain = len(columns) == 1 and (
            not is_long(declared[columns[0]]) or conditions.leaf(tree).compared is not None
        )
        if name not in declared or is_plain:
            yield Computed(name, origin.type, dialect.sql(tree), "GENERATED")


def rules_of_table(
    con: duckdb.DuckDBPyConnection, relation: Relation, table: catalog.Name, place: catalog.Place
) -> tuple[list[PublicRule], list[Computed]]:
    """What a rules table declares: conditions, `column = expression` for columns that are computed of others, and keys.

    FOREIGN KEY (...) REFERENCES t (...) says that t is public, too.
    """
    types = {column.name: column.type for column in relation.columns}
    names = Columns(types)
    rules, computed = list[PublicRule](), dict[str, exp.Expr]()
    for text in _texts(con, table):
        key = _foreign_key(text)
        if key is not None:
            rules.append(PublicRule(_listed(con, relation, place, names, key), "rules table"))
            continue
        tree = parse(text, names, "rule", relation.name.stem)
        for part in conjuncts(tree):
            follows = _equation(part)
            if follows is None:
                rules.append(PublicRule(dialect.sql(part), "rules table"))
                continue
            name, expression = follows
            if name in computed:
                what = f"rules table ({table.table!r}) says twice what {name} is computed by"
                raise refuse(DomainError, "rules", what, "leave one of the two out")
            computed[name] = cast(expression, types[name])
    return rules, [
        Computed(name, types[name], dialect.sql(_in_plain_columns(name, computed)), "rules table") for name in computed
    ]


def _texts(con: duckdb.DuckDBPyConnection, table: catalog.Name) -> list[str]:
    present = [column.name for column in catalog.columns(con, table)]
    if [fold(name) for name in present] != [RULES_COLUMN]:
        odd = next((name for name in present if fold(name) != RULES_COLUMN), RULES_COLUMN)
        what = f"rules table ({table.table!r}) has the columns {', '.join(present)}"
        near = did_you_mean(odd, [RULES_COLUMN], shown=str)
        raise refuse(DomainError, "rules", what, f"{near}it has one column, rule VARCHAR, with a condition in each row")
    read = exp.select(cast(exp.column(present[0], quoted=True), "VARCHAR")).from_(table.tree())
    return [text for (text,) in con.execute(read.sql("duckdb")).fetchall() if text is not None]


def _foreign_key(text: str) -> exp.ForeignKey | None:
    """A text as a foreign key, if it begins as one."""
    if not _KEY.match(text):
        return None
    try:
        tree = sqlglot.parse_one(f"CREATE TABLE t ({text}\n)", dialect="duckdb").find(exp.ForeignKey)
    except (SqlglotError, RecursionError):
        tree = None
    reference = tree.args.get("reference") if tree is not None else None
    schema = reference.this if reference is not None else None
    if tree is None or not isinstance(schema, exp.Schema) or len(schema.expressions) != len(tree.expressions):
        what = f"rule ({text!r}) is not a foreign key with the columns on both sides"
        raise refuse(DomainError, "rules", what, "write FOREIGN KEY (zip, city) REFERENCES places (zip, city)")
    return tree


def _listed(
    con: duckdb.DuckDBPyConnection, relation: Relation, place: catalog.Place, names: Columns, key: exp.ForeignKey
) -> str:
    """A foreign key as a condition: its columns are NULL, or as in some row of the public table."""
    schema = key.args["reference"].this
    text = schema.this.sql("duckdb")
    lookup = catalog.find(con, text, place)
    if lookup is None:
        what = f"table ({text!r}) that a rule refers to does not exist for this call"
        raise refuse(TableError, "rules", what, f"{catalog.nearest(con, text, place)}create it, and COMMIT")
    check_public(con, lookup, relation.private_names, "lookup table", "rules")
    present = {fold(column.name): column.name for column in catalog.columns(con, lookup[0])}
    types = {column.name: column.type for column in relation.columns}
    sides: list[tuple[exp.Expr, dict[str, str]]] = [(key, names), (schema, present)]
    for column, listed in [(each.name, listed) for side, listed in sides for each in side.expressions]:
        if fold(column) not in listed:
            what = f"a foreign key names the unknown column {column!r}"
            near = did_you_mean(column, list(listed.values()))
            raise refuse(DomainError, "rules", what, f"{near}the columns are {', '.join(listed.values())}")
    columns = [names[fold(each.name)] for each in key.expressions]
    read = [cast(exp.column(present[fold(each.name)], quoted=True), "VARCHAR") for each in schema.expressions]
    select = exp.select(*read).distinct().from_(lookup[0].tree())
    kinds = [types[name] for name in columns]
    combinations = [
        exp.Tuple(expressions=[cast(exp.Literal.string(value), kind) for kind, value in zip(kinds, row, strict=True)])
        for row in sorted(row for row in con.execute(select.sql("duckdb")).fetchall() if None not in row)
    ]
    trees = [exp.column(name, quoted=True) for name in columns]
    missing = [exp.Is(this=tree.copy(), expression=exp.null()) for tree in trees]
    if not combinations:
        return dialect.sql(exp.or_(*missing))
    return dialect.sql(exp.or_(*missing, exp.In(this=exp.Tuple(expressions=trees), expressions=combinations)))


def _equation(tree: exp.Expr) -> tuple[str, exp.Expr] | None:
    """A column and what it is equal to, if that is an expression over other columns."""
    if not isinstance(tree, exp.EQ) or not conditions.is_column(tree.this):
        return None
    name, read = tree.this.unnest().name, columns_of(tree.expression)
    return (name, tree.expression) if read and name not in read else None


def _in_plain_columns(name: str, computed: Mapping[str, exp.Expr], above: Sequence[str] = ()) -> exp.Expr:
    """What a column is computed by, of columns that are not computed."""
    if name in above:
        what = f"{name} is computed by {', '.join([*above[above.index(name) + 1 :], name])}: by itself in the end"
        raise refuse(DomainError, "rules", what, "leave one of these rules out")
    return computed[name].transform(
        lambda node: (
            exp.Paren(this=_in_plain_columns(node.name, computed, (*above, name)))
            if isinstance(node, exp.Column) and node.name in computed
            else node
        )
    )


def _shown(table: Relation | Joined) -> dict[str, str]:
    """The columns of a table that a relation shows, folded, to its own names for them."""
    return {fold(origin.name): name for name, origin in table.declared.items()}


def _renamed(tree: exp.Expr, shown: Mapping[str, str]) -> exp.Expr:
    return tree.transform(
        lambda node: exp.column(shown[fold(node.name)], quoted=True) if isinstance(node, exp.Column) else node
    )


def _means_the_same(tree: exp.Expr, relation: Relation) -> bool:
    """Whether a CHECK means here what it means to the engine that keeps it.

    Of another engine: comparisons of columns with constants, texts with equal ones only.
    """
    if relation.source is None:
        return True
    types = {fold(origin.name): origin.type for origin in relation.declared.values()}
    for leaf in conditions.leaves(conditions.condition(tree)):
        operator = leaf.test[0] if leaf.test else ""
        is_ordered = len(leaf.columns) == 1 and scale_of(types[fold(leaf.columns[0])]) is not None
        if not operator or not (is_ordered or operator in {"=", "<>", "in"}):
            return False
    return True
