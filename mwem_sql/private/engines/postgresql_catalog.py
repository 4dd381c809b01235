"""What PostgreSQL's catalog says of a relation, in DuckDB's words: columns, types, declarations, and the rules of the boundary.

    relation  a table, a partitioned table or a partition, without row-level security; or a view
    table     its generated columns must be in the grammar of `boundary.views`
    view      in that grammar, over one relation; its functions, operators and types must be those of pg_catalog

Reads the catalog only. Definitions are read with search_path = pg_catalog, so that whatever is not PostgreSQL's own is printed with its schema and refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mwem_sql.boundary.sources import Facts
from mwem_sql.boundary.views import NotRowWiseError, View, columns_read
from mwem_sql.database.catalog import Column
from mwem_sql.database.metadata import Key
from mwem_sql.database.ticks import scale_of
from mwem_sql.errors import MwemError, TableError, refuse

_MOST_VIEWS = 50
_RELATION = """
    SELECT c.oid::bigint AS oid, n.nspname::text AS schema, c.relname::text AS name, c.relkind::text AS kind, c.relrowsecurity AS secured,
        row_security_active(c.oid) AS active, has_any_column_privilege(c.oid, 'SELECT') OR has_table_privilege(c.oid, 'SELECT') AS readable,
        CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END AS definition
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname = $1 AND c.relname = $2"""
_COLUMNS = """
    SELECT a.attname::text AS name, a.attnotnull AS required, a.atttypid::bigint AS type, a.atttypmod AS modifier,
        CASE WHEN a.attgenerated <> '' THEN pg_get_expr(d.adbin, d.adrelid) END AS generated
    FROM pg_attribute AS a LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_TYPE = """
    SELECT t.typname::text AS name, n.nspname::text AS schema, t.typtype::text AS kind, t.typbasetype::bigint AS base, t.typtypmod AS modifier,
        t.typnotnull AS required
    FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace WHERE t.oid = $1::oid"""
_LABELS = "SELECT enumlabel::text AS label FROM pg_enum WHERE enumtypid = $1::oid ORDER BY enumsortorder"
_CHECKS = "SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE conrelid = $1::oid AND contype = 'c' ORDER BY conname"
_TYPE_CHECKS = "SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE contypid = $1::oid AND contype = 'c' ORDER BY conname"
_PARENTS = """
    SELECT c.oid::bigint AS oid, n.nspname::text AS schema, c.relname::text AS name
    FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhparent JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE i.inhrelid = $1::oid"""
_TYPES = {
    "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "FLOAT", "float8": "DOUBLE", "bool": "BOOLEAN", "text": "VARCHAR",
    "varchar": "VARCHAR", "bpchar": "VARCHAR", "name": "VARCHAR", "date": "DATE", "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE", "uuid": "UUID",
}  # fmt: skip
_KINDS = {"m": "a materialized view, whose rows are computed", "f": "a foreign table, which may be anything"}
_CURE = "release a table, or a view that is a plain projection or filter of one"
_TEXT = (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR)

Ask = Callable[[str, Sequence[object]], list[dict[str, Any]]]


class Catalog:
    """The catalog as one transaction sees it. `lock` runs a statement without a result."""

    def __init__(self, ask: Ask, lock: Callable[[str], None], identity: str) -> None:
        self._ask = ask
        self._lock = lock
        self._identity = identity

    def facts(self, parts: Sequence[str], function: str, depth: int = _MOST_VIEWS) -> Facts:
        if len(parts) > 2:
            raise refuse(
                TableError, function, f"table ({'.'.join(parts)!r}) has too many parts", "write alias.schema.table"
            )
        schema, table = ("public", *parts)[-2:]
        # As written, or as PostgreSQL folds what is written without quotes.
        found = self._ask(_RELATION, [schema, table]) or self._ask(_RELATION, [schema.lower(), table.lower()])
        if not found:
            raise refuse(
                TableError, function, f"table ({schema}.{table}) does not exist in the source", "name it as alias.schema.table"
            )  # fmt: skip
        own = found[0]
        self._check(own, function, is_inner=depth < _MOST_VIEWS)
        rows = exp.table_(own["name"], db=own["schema"], quoted=True)
        if depth == _MOST_VIEWS:
            # Until the transaction ends nobody changes it, nor what a view reads; SELECT is right enough for that.
            self._lock(f"LOCK TABLE {rows.sql('postgres')} IN ACCESS SHARE MODE")
            again = self._ask(_RELATION, [own["schema"], own["name"]])
            if again != found:
                raise refuse(TableError, function, f"table ({schema}.{table}) is being replaced", "try again")
        listed = self._ask(_COLUMNS, [own["oid"]])
        columns: list[Column] = []
        checks = [row["text"] for row in self._ask(_CHECKS, [own["oid"]])]
        texts: list[str] = []
        for row in listed:
            made, inherited = self._column(row)
            if made is not None:
                columns.append(made)
                texts += inherited
        types = {column.name: column.type for column in columns}
        texts += [text for check in checks if (text := _condition(check, types)) is not None]
        names = [row["name"] for row in listed]
        if own["kind"] != "v":
            self._check_generated(listed, names, own, function)
            declared = {column.name: column for column in columns}
            return Facts(
                own["schema"], own["name"], tuple(columns), rows, self._keys(own, function), tuple(texts), declared, repr(found)
            )  # fmt: skip
        return self._view(own, names, columns, rows, function=function, depth=depth)

    def _check(self, own: Mapping[str, Any], function: str, *, is_inner: bool) -> None:
        name = f"{own['schema']}.{own['name']}"
        if own["kind"] in _KINDS:
            raise refuse(TableError, function, f"table ({name}) is {_KINDS[own['kind']]}", _CURE)
        if own["active"] or (own["secured"] and is_inner):
            raise refuse(
                TableError,
                function,
                f"table ({name}) has row-level security, so that which rows are seen depends on the role and on other rows",
                "use a role with BYPASSRLS that reads the table itself",
            )
        if not own["readable"] and not is_inner:
            raise refuse(
                TableError, function, f"table ({name}) may not be read by this role", "GRANT SELECT on it to the role"
            )

    def _check_generated(
        self, listed: Sequence[Mapping[str, Any]], names: list[str], own: Mapping[str, Any], function: str
    ) -> None:
        for row in listed:
            if row["generated"] is None:
                continue
            try:
                tree = _parsed(row["generated"])
                if tree is None:
                    raise NotRowWiseError("cannot be read")  # noqa: TRY301
                _check_own(tree)
                columns_read(tree, names)
            except NotRowWiseError as reason:
                raise refuse(
                    TableError,
                    function,
                    f"table ({own['name']!r}) has the generated column {row['name']}, which {reason}",
                    "release a view that leaves the column out, or make it a plain column",
                ) from None

    def _column(self, row: Mapping[str, Any]) -> tuple[Column | None, list[str]]:
        """A column with DuckDB's type for it, and the conditions of its domains; None for a type that has no exact counterpart."""
        oid, modifier, required = row["type"], row["modifier"], row["required"]
        checks: list[str] = []
        while True:
            (kind,) = self._ask(_TYPE, [oid])
            if kind["kind"] != "d":
                break
            checks += [check["text"] for check in self._ask(_TYPE_CHECKS, [oid])]
            required = required or kind["required"]
            oid, modifier = kind["base"], kind["modifier"] if kind["modifier"] != -1 else modifier
        text = self._type(kind, oid, modifier)
        if text is None:
            return None, []
        conditions = [_condition(check, {row["name"]: text}, value=row["name"]) for check in checks]
        return Column(row["name"], text, not required), [own for own in conditions if own is not None]

    def _type(self, kind: Mapping[str, Any], oid: int, modifier: int) -> str | None:
        if kind["kind"] == "e":
            labels = [exp.Literal.string(row["label"]).sql("duckdb") for row in self._ask(_LABELS, [oid])]
            return f"ENUM({', '.join(labels)})" if labels else None
        if kind["name"] == "citext":
            return "VARCHAR"
        if kind["schema"] != "pg_catalog":
            return None
        if kind["name"] == "numeric" and modifier >= 4:
            width, digits = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
            return f"DECIMAL({width},{digits})" if digits <= width <= 38 else None
        return _TYPES.get(kind["name"])

    def _keys(self, own: Mapping[str, Any], function: str) -> tuple[tuple[Key, ...], ...]:
        """The table's number, which follows it through renames, and its name; of a partition or a child, those of the table at the top."""
        top: Mapping[str, Any] = own
        while parents := self._ask(_PARENTS, [top["oid"]]):
            if len(parents) > 1:
                raise refuse(
                    TableError, function, f"table ({own['name']!r}) inherits from {len(parents)} tables, each with an account of its own", _CURE
                )  # fmt: skip
            top = parents[0]
        return ((self._identity, "", str(top["oid"])),), ((self._identity, top["schema"], top["name"]),)

    def _view(
        self,
        own: Mapping[str, Any],
        names: list[str],
        columns: list[Column],
        rows: exp.Expr,
        *,
        function: str,
        depth: int,
    ) -> Facts:
        """A view, read as it is (its owner's rights may be needed), after its definition was found to be row-wise down to its table."""

        def no(reason: object) -> MwemError:
            rule = "a private view must give at most one row per row of one table"
            return refuse(TableError, function, f"view ({own['name']!r}) {reason}; {rule}", _CURE)

        if depth == 1:
            raise no(f"is over more than {_MOST_VIEWS} other views")
        try:
            query = _parsed(str(own["definition"]).rstrip().rstrip(";"))
            if query is None:
                raise NotRowWiseError("has a definition that cannot be read")  # noqa: TRY301
            view = View.of(query)
            if isinstance(view.source.this, exp.Func) or not view.source.db:
                raise NotRowWiseError("reads something other than a table")  # noqa: TRY301
            _check_own(query)
            below = self.facts([view.source.db, view.source.name], function, depth - 1)
            listed = [row["name"] for row in self._ask(_COLUMNS, [self._oid(below)])]
            written = view.written_out(below.rows, listed, [below.schema, below.table])
        except NotRowWiseError as reason:
            raise no(reason) from None
        if len(written.origins) != len(names):
            raise no("has other columns than its definition")
        origins = dict(zip(names, written.origins, strict=True))
        known = {column.name: column.type for column in columns}
        declared = {
            name: below.declared[origin]
            for name, origin in origins.items()
            if origin in below.declared and below.declared[origin].type == known.get(name)
        }
        shown = tuple(Column(column.name, column.type, nullable=True) for column in columns)
        definition = (own["oid"], own["definition"], below.definition)
        return Facts(own["schema"], own["name"], shown, rows, below.keys, below.checks, declared, definition)

    def _oid(self, below: Facts) -> int:
        return int(self._ask(_RELATION, [below.schema, below.table])[0]["oid"])


def _parsed(text: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(text, dialect="postgres")
    except (SqlglotError, RecursionError):
        return None


def _check_own(tree: exp.Expr) -> None:
    """Refuse what is not PostgreSQL's own: a type or an operator of somebody's may run any code."""
    for node in tree.walk():
        if isinstance(node, exp.DataType) and node.this == exp.DataType.Type.USERDEFINED:
            raise NotRowWiseError(f"casts to {node.sql('postgres')}, a type of its own")
        if isinstance(node, exp.Operator):
            raise NotRowWiseError("has an operator of its own")


def _condition(check: str, types: Mapping[str, str], value: str | None = None) -> str | None:
    """A CHECK as PostgreSQL prints it, in DuckDB's words; None if it cannot be read. `value` is the column that VALUE stands for."""
    tree = _parsed(check.strip().removeprefix("CHECK").strip())
    if tree is None:
        return None
    tree = tree.unnest() if isinstance(tree, exp.Paren) else tree
    return tree.transform(lambda node: _translated(node, types, value)).sql("duckdb")


def _translated(node: exp.Expr, types: Mapping[str, str], value: str | None) -> exp.Expr:
    if isinstance(node, exp.Column):
        if value is not None and node.name.upper() == "VALUE" and not node.this.quoted:
            return exp.column(value, quoted=True)
        return exp.column(node.name, quoted=True)
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        listed = node.expression.this.unnest()
        while isinstance(listed, exp.Cast):
            listed = listed.this.unnest()
        if isinstance(listed, exp.Array):
            column = _translated(_plain(node.this, types, value), types, value)
            return exp.In(
                this=column, expressions=[_translated(item.copy(), types, value) for item in listed.expressions]
            )
    if isinstance(node, exp.Cast):
        inner = node.this.unnest()
        if isinstance(inner, exp.Literal) and node.to.this in (
            *_TEXT,
            exp.DataType.Type.CHAR,
            exp.DataType.Type.BPCHAR,
        ):
            return inner
        if isinstance(inner, exp.Literal) and node.to.this == exp.DataType.Type.USERDEFINED:  # a label of an ENUM
            return inner
        return _plain(node, types, value)
    return node


def _plain(node: exp.Expr, types: Mapping[str, str], value: str | None) -> exp.Expr:
    """A column without a cast that changes none of its values: PostgreSQL compares in a wider type."""
    inner = node.unnest()
    if not isinstance(inner, exp.Cast) or not isinstance(inner.this.unnest(), exp.Column):
        return inner
    column = inner.this.unnest()
    name = value if value is not None and column.name.upper() == "VALUE" else column.name
    own = types.get(name, "")
    scale = scale_of(own)
    to = inner.to
    wider = to.this in _TEXT and own == "VARCHAR"
    if scale is not None and not to.expressions:
        wide = {exp.DataType.Type.BIGINT, exp.DataType.Type.DECIMAL, exp.DataType.Type.DOUBLE}
        wider = {
            "integer": to.this in wide or (to.this == exp.DataType.Type.INT and own == "SMALLINT"),
            "decimal": to.this == exp.DataType.Type.DECIMAL,
            "real": to.this == exp.DataType.Type.DOUBLE,
        }.get(scale.family, False)
    return exp.column(name, quoted=True) if wider else inner
