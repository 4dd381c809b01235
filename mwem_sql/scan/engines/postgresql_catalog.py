"""What PostgreSQL's catalog says of a relation, in DuckDB's words: columns, types, declarations, rules of the boundary.

    relation  a table of a user's schema with all that it reads: partitions and children, each a table; or a view
    table     without row-level security in force; its generated columns must be row-wise (`postgresql_rules`)
    view      its rule must be in the grammar of `postgresql_rules`, over one relation

A relation is looked up by its name, then locked, then described: what is described under the lock is what is read.
Reads the catalog only, and takes nothing by its printed text: rules and expressions are read as trees, whose functions,
operators and types are looked up by number. CHECK constraints are read as text: they declare a domain, and no row
depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mwem_sql.boundary.sides import NotRowWiseError
from mwem_sql.boundary.sources import Facts
from mwem_sql.errors import MwemError
from mwem_sql.language.ticks import scale_of
from mwem_sql.platform.catalog import Column
from mwem_sql.platform.metadata import Key
from mwem_sql.scan.engines.postgresql_rules import FIRST_OF_USERS, Routine, Rule, Type, check_expression
from mwem_sql.scan.engines.protocol import refuse_relation

MOST_VIEWS = 50
"""Views over views. More: a longer chain is described, and its lookups take longer."""
_CLASS = """c.oid::bigint AS oid, n.nspname::text AS schema, c.relname::text AS name, c.relkind::text AS kind,
    c.relpersistence::text AS persistence, c.relrowsecurity AS secured, row_security_active(c.oid) AS active"""
_RELATION = f"""
    SELECT {_CLASS}, has_table_privilege(c.oid, 'SELECT') AS readable
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND """  # noqa: S608  of constants
_BY_NAME = _RELATION + "n.nspname = $1 AND c.relname = $2"
_BY_NUMBER = _RELATION + "c.oid = $1::oid"
# All that a table reads, and all tables above those: whoever reads one of them reads some of the same rows.
_TREE = f"""
    WITH RECURSIVE below(oid) AS (
        SELECT $1::oid UNION SELECT i.inhrelid FROM pg_inherits AS i JOIN below ON i.inhparent = below.oid
    ), above(oid) AS (
        SELECT oid FROM below UNION SELECT i.inhparent FROM pg_inherits AS i JOIN above ON i.inhrelid = above.oid
    )
    SELECT {_CLASS}, c.oid IN (SELECT oid FROM below) AS is_read,
        c.oid NOT IN (SELECT inhrelid FROM pg_inherits) AS is_top
    FROM above JOIN pg_class AS c ON c.oid = above.oid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    ORDER BY c.oid"""  # noqa: S608  of constants
_COLUMNS = """
    SELECT a.attname::text AS name, a.attnum::int AS number, a.attnotnull AS required, a.atttypid::bigint AS type,
        a.atttypmod AS modifier, a.attgenerated::text AS generated,
        CASE WHEN a.attgenerated <> '' THEN d.adbin::text END AS expression
    FROM pg_attribute AS a LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
# citext is a text whose cast to text runs no code. A user's operator class for an enum would run when it is grouped by.
_TYPE = """
    SELECT t.oid::bigint AS oid, t.typname::text AS name, n.nspname::text AS schema, t.typtype::text AS kind,
        t.typbasetype::bigint AS base, t.typtypmod AS modifier, t.typnotnull AS required,
        t.typname = 'citext' AND t.typtype = 'b' AND EXISTS (
            SELECT 1 FROM pg_cast AS c WHERE c.castsource = t.oid AND c.casttarget = 25 AND c.castmethod = 'b'
        ) AND EXISTS (
            SELECT 1 FROM pg_depend AS d
            JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
            WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e' AND e.extname = 'citext'
        ) AS binary_text,
        EXISTS (SELECT 1 FROM pg_opclass AS o WHERE o.opcintype = t.oid AND o.oid >= 16384) AS classed
    FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace WHERE t.oid = $1::oid"""
_LABELS = "SELECT enumlabel::text AS label FROM pg_enum WHERE enumtypid = $1::oid ORDER BY enumsortorder"
_CHECKS = """
    SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint
    WHERE conrelid = $1::oid AND contype = 'c' ORDER BY conname"""
_TYPE_CHECKS = _CHECKS.replace("conrelid", "contypid")
_RULE = """
    SELECT rulename::text AS name, ev_enabled::text AS enabled, is_instead, ev_qual::text AS condition,
        ev_action::text AS action
    FROM pg_rewrite WHERE ev_class = $1::oid AND ev_type = '1'"""
_ROUTINE = """
    SELECT CASE WHEN p.pronamespace = 'pg_catalog'::regnamespace THEN ''
        ELSE p.pronamespace::regnamespace::text || '.' END || p.proname AS name, p.prosrc::text AS source,
        p.oid < 16384 AND p.prolang = 12 AND p.prokind = 'f' AND NOT p.proretset AND p.provolatile = 'i'
        AND p.pronamespace = 'pg_catalog'::regnamespace AS shipped
    FROM pg_proc AS p WHERE p.oid = $1::oid"""
_OPERATOR = """
    SELECT oprcode::oid::bigint AS code, CASE WHEN oprnamespace = 'pg_catalog'::regnamespace THEN ''
        ELSE oprnamespace::regnamespace::text || '.' END || oprname AS name
    FROM pg_operator WHERE oid = $1::oid"""
# What scans call by name or through a type: made anew by a superuser, in pg_catalog itself, it would run for every row.
_REPLACED = """
    SELECT p.oid::regprocedure::text AS name FROM pg_proc AS p
    WHERE p.pronamespace = 'pg_catalog'::regnamespace AND (p.oid >= 16384 OR p.prolang <> 12) AND (
        p.proname IN ('width_bucket', 'isfinite', 'md5', 'concat', 'count', 'sum', 'row_number', 'enum_out', 'uuid_out',
            'int4pl')
        OR p.oid IN (SELECT oprcode FROM pg_operator
            WHERE oprname IN ('=', '<', '<=', '>', '>=', '<>') AND oprnamespace = 'pg_catalog'::regnamespace)
        OR p.oid IN (SELECT castfunc FROM pg_cast WHERE oid < 16384 AND casttarget IN (20, 21, 23, 25, 1700)
            AND castsource IN (18, 19, 20, 21, 23, 25, 1042, 1043, 1700))
        OR p.oid IN (SELECT amproc FROM pg_amproc WHERE oid < 16384))
    UNION ALL SELECT o.oid::regoperator::text FROM pg_operator AS o
    WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oid >= 16384
        AND o.oprname IN ('=', '<', '<=', '>', '>=', '<>', '+')
    UNION ALL SELECT a.amopopr::regoperator::text FROM pg_amop AS a
    WHERE a.oid >= 16384 AND a.amopopr < 16384 AND a.amopmethod IN (403, 405)"""
_TYPES = {
    "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "FLOAT", "float8": "DOUBLE", "bool": "BOOLEAN",
    "text": "VARCHAR", "varchar": "VARCHAR", "bpchar": "VARCHAR", "name": "VARCHAR", "uuid": "UUID", "date": "DATE",
    "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
_KINDS = {"m": "a materialized view, whose rows are computed", "f": "a foreign table, which may be anything"}
_CURE = "release a table, or a view that is a plain projection or filter of one"
_TEXTS = (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR)

Ask = Callable[[str, Sequence[object]], list[dict[str, Any]]]
CatalogRow = Mapping[str, Any]


class Catalog:
    """The catalog. `find` may see another state of it than `facts`, which runs in one transaction."""

    def __init__(self, ask: Ask, identity: str) -> None:
        self._ask = ask
        self._identity = identity
        self._row = cache(self._type_row)
        self.routine = cache(self._routine)
        self.operator = cache(self._operator)

    def find(self, parts: Sequence[str]) -> CatalogRow:
        """What a name stands for now, in the catalog's spelling; refused if it could not be a private relation."""
        if len(parts) > 2:
            raise refuse_relation(f"table ({'.'.join(parts)!r}) has too many parts", "write alias.schema.table")
        schema, table = ("public", *parts)[-2:]
        # As written, or as PostgreSQL folds what is written without quotes.
        rows = self._ask(_BY_NAME, [schema, table]) or self._ask(_BY_NAME, [schema.lower(), table.lower()])
        if not rows:
            what = f"table ({schema}.{table}) does not exist in the source"
            raise refuse_relation(what, "name it as alias.schema.table")
        _check(rows[0])
        if not rows[0]["readable"]:
            raise refuse_relation(
                f"table ({_name(rows[0])}) may not be read by this role",
                "GRANT SELECT on all of it to the role, or on a view of some of its columns",
            )
        return rows[0]

    def facts(self, relation: CatalogRow, locked: Callable[[], set[int]]) -> Facts:
        """The relation that `find` gave and that was then locked, as it is now that it is locked."""
        being_replaced = refuse_relation(f"table ({_name(relation)}) is being replaced", "try again")
        if self._ask(_BY_NAME, [relation["schema"], relation["name"]]) != [relation]:
            raise being_replaced
        replaced = self._ask(_REPLACED, [])
        if replaced:
            what = f"source has a function or operator in pg_catalog ({replaced[0]['name']})"
            cure = "restore it: scans call it for every row"
            raise refuse_relation(f"{what} that PostgreSQL did not come with", cure)
        facts, read = self._described(relation, MOST_VIEWS)
        if not read <= locked():
            raise being_replaced
        return facts

    def _described(self, relation: CatalogRow, depth: int) -> tuple[Facts, set[int]]:
        """A relation, and the numbers of all that it reads, itself included."""
        _check(relation, is_inner=depth < MOST_VIEWS)
        listed = self._ask(_COLUMNS, [relation["oid"]])
        if relation["kind"] == "v":
            return self._view(relation, listed, depth)
        tree = self._ask(_TREE, [relation["oid"]])
        read = [row for row in tree if row["is_read"]]
        for leaf in read:
            _check(leaf, is_inner=depth < MOST_VIEWS)
            self._check_generated(leaf)
        columns, conditions = self._columns(listed, self._ids(relation, tree, listed))
        types = {column.name: column.type for column in columns}
        conditions += [condition(row["text"], types) for row in self._ask(_CHECKS, [relation["oid"]])]
        facts = Facts(
            schema=relation["schema"],
            table=relation["name"],
            columns=tuple(columns),
            rows=_table(relation),
            keys=self._keys(tree),
            checks=tuple(text for text in conditions if text is not None),
            declared={column.name: column for column in columns},
            definition=repr((relation, tree, listed)),
            base=(relation["schema"], relation["name"]),
            id=str(relation["oid"]),
        )
        return facts, {row["oid"] for row in read}

    def _check_generated(self, leaf: CatalogRow) -> None:
        """A stored column was computed when its row was written, and cannot fail; its parts are checked still."""
        for row in self._ask(_COLUMNS, [leaf["oid"]]):
            if row["generated"] == "":
                continue
            try:
                check_expression(row["expression"], self, total=row["generated"] != "s")
            except NotRowWiseError as reason:
                raise refuse_relation(
                    f"table ({leaf['name']!r}) has the generated column {row['name']}, which {reason}",
                    "make it a plain column (ALTER COLUMN ... DROP EXPRESSION), or release a table without it",
                ) from None

    def _columns(self, listed: Sequence[CatalogRow], ids: Mapping[str, str]) -> tuple[list[Column], list[str | None]]:
        """The columns for whose type DuckDB has an exact counterpart, and the conditions of their domains."""
        columns: list[Column] = []
        conditions: list[str | None] = []
        for column in listed:
            name, required, modifier = column["name"], column["required"], column["modifier"]
            row = self._row(column["type"])
            checks: list[str] = []
            while row["kind"] == "d":
                checks += [check["text"] for check in self._ask(_TYPE_CHECKS, [row["oid"]])]
                required = required or row["required"]
                modifier = row["modifier"] if row["modifier"] != -1 else modifier
                row = self._row(row["base"])
            text = self._type(row, modifier, is_domain=row["oid"] != column["type"])
            if text is not None:
                columns.append(Column(name, text, not required, ids.get(name, "")))
                conditions += [condition(check, {name: text}, value=name) for check in checks]
        return columns, conditions

    def _type(self, kind: CatalogRow, modifier: int, *, is_domain: bool) -> str | None:
        if kind["kind"] == "e":
            if is_domain or kind["classed"]:  # enum_out takes no domain, and a cast to text may be a user's
                return None
            labels = [exp.Literal.string(row["label"]).sql("duckdb") for row in self._ask(_LABELS, [kind["oid"]])]
            return f"ENUM({', '.join(labels)})" if labels else None
        if kind["binary_text"]:
            return "VARCHAR"
        if kind["kind"] != "b" or kind["schema"] != "pg_catalog" or kind["oid"] >= FIRST_OF_USERS:
            return None
        if kind["name"] == "numeric" and modifier >= 4:
            width, digits = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
            return f"DECIMAL({width},{digits})" if digits <= width <= 38 else None
        return _TYPES.get(kind["name"])

    def _ids(self, relation: CatalogRow, tree: Sequence[CatalogRow], listed: Sequence[CatalogRow]) -> dict[str, str]:
        """The identities of columns: table and number, of the one table at the top where it has the column."""
        ids = {row["name"]: f"{relation['oid']}:{row['number']}" for row in listed}
        tops = [row["oid"] for row in tree if row["is_top"]]
        if len(tops) == 1 and tops != [relation["oid"]]:
            above = {row["name"]: f"{tops[0]}:{row['number']}" for row in self._ask(_COLUMNS, tops)}
            ids |= {name: above[name] for name in ids if name in above}
        return ids

    def _keys(self, tree: Sequence[CatalogRow]) -> tuple[tuple[Key, ...], ...]:
        """First the numbers of all that is read and of all tables above, which follow renames; then their names."""
        numbers = tuple((self._identity, "", str(row["oid"])) for row in tree)
        return numbers, tuple((self._identity, row["schema"], row["name"]) for row in tree)

    def _view(self, relation: CatalogRow, listed: Sequence[CatalogRow], depth: int) -> tuple[Facts, set[int]]:
        """A view, read as it is (its owner's rights may be needed), if its rule is row-wise down to its table."""

        def no(reason: object, cure: str = _CURE) -> MwemError:
            rule = "a private view must give at most one row per row of one table, and cannot fail on any"
            return refuse_relation(f"view ({relation['name']!r}) {reason}; {rule}", cure)

        if depth == 1:
            raise no(f"is over more than {MOST_VIEWS} other views")
        (definition, *others) = self._ask(_RULE, [relation["oid"]]) or [{}]
        action = definition.pop("action", "")
        if others or definition != {"name": "_RETURN", "enabled": "O", "is_instead": True, "condition": "<>"}:
            raise no("has other rules than its definition")
        try:
            rule = Rule.of(action, relation["oid"])
        except NotRowWiseError as reason:
            raise no(reason) from None
        source = self._ask(_BY_NUMBER, [rule.relation])
        if not source:
            raise no("reads something other than a table")
        below, read = self._described(source[0], depth - 1)
        try:
            origins = rule.columns(self)
        except NotRowWiseError as reason:
            cure = "leave the column out and compute it in the workload, whose predicates are evaluated here"
            raise no(reason, f"{cure}, or make the result a table") from None
        if len(origins) != len(listed):
            raise no("has other columns than its definition")
        names = {row["number"]: row["name"] for row in self._ask(_COLUMNS, [rule.relation])}
        columns, _ = self._columns(listed, {})
        types = {column.name: column.type for column in columns}
        declared: dict[str, Column] = {}
        for row, origin in zip(listed, origins, strict=True):
            shown = below.declared.get(names.get(origin, "")) if origin is not None else None
            if shown is not None and shown.type == types.get(row["name"]):
                declared[row["name"]] = shown
        facts = Facts(
            schema=relation["schema"],
            table=relation["name"],
            columns=tuple(Column(column.name, column.type, nullable=True) for column in columns),
            rows=_table(relation),
            keys=below.keys,
            checks=below.checks,
            declared=declared,
            definition=(repr((relation, listed)), action, below.definition),
            base=below.base,
            id=below.id,
        )
        return facts, read | {relation["oid"]}

    def _type_row(self, number: int) -> CatalogRow:
        """A type; one that is not there is of no kind."""
        return next(iter(self._ask(_TYPE, [number])), {"kind": ""})

    def type(self, number: int) -> Type | None:
        while (row := self._row(number))["kind"] == "d":
            number = row["base"]
        return Type(row["kind"], number, row["binary_text"]) if row["kind"] else None

    def _routine(self, number: int) -> Routine:
        rows = self._ask(_ROUTINE, [number])
        return Routine(**rows[0]) if rows else Routine(f"a function ({number})", "", shipped=False)

    def _operator(self, number: int) -> tuple[int, Routine]:
        rows = self._ask(_OPERATOR, [number])
        if not rows:
            return 0, Routine(f"an operator ({number})", "", shipped=False)
        code = rows[0]["code"]
        routine = self.routine(code)
        return code, Routine(rows[0]["name"], routine.source, routine.shipped and number < FIRST_OF_USERS)


def condition(check: str, types: Mapping[str, str], value: str | None = None) -> str | None:
    """A CHECK as PostgreSQL prints it, in DuckDB's words; None if it cannot be read.

    `value` is the column that VALUE stands for, in the check of a domain.
    """
    try:
        tree = sqlglot.parse_one(check.strip().removeprefix("CHECK").strip(), dialect="postgres")
    except (SqlglotError, RecursionError):
        return None
    return tree.unnest().transform(lambda node: _translated(node, types, value)).sql("duckdb")


def _translated(node: exp.Expr, types: Mapping[str, str], value: str | None) -> exp.Expr:
    if isinstance(node, exp.Column):
        is_value = node.name.upper() == "VALUE" and not node.this.quoted
        return exp.column(value if value is not None and is_value else node.name, quoted=True)
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        listed = node.expression.this.unnest()
        while isinstance(listed, exp.Cast):
            listed = listed.this.unnest()
        if isinstance(listed, exp.Array):
            column = _translated(_uncast(node.this, types, value), types, value)
            items = [_translated(item.copy(), types, value) for item in listed.expressions]
            return exp.In(this=column, expressions=items)
    if isinstance(node, exp.Cast):
        inner = node.this.unnest()
        texts = (*_TEXTS, exp.DataType.Type.CHAR, exp.DataType.Type.BPCHAR)
        # A type of a user's is an ENUM here, and the text one of its labels.
        if isinstance(inner, exp.Literal) and node.to.this in (*texts, exp.DataType.Type.USERDEFINED):
            return inner
        return _uncast(node, types, value)
    return node


def _uncast(node: exp.Expr, types: Mapping[str, str], value: str | None) -> exp.Expr:
    """A column without a cast that changes none of its values: PostgreSQL compares in a wider type."""
    inner = node.unnest()
    if not isinstance(inner, exp.Cast) or not isinstance(column := inner.this.unnest(), exp.Column):
        return inner
    name = value if value is not None and column.name.upper() == "VALUE" else column.name
    type_text, to = types.get(name, ""), inner.to
    scale = scale_of(type_text)
    is_wider = to.this in _TEXTS and type_text == "VARCHAR"
    if scale is not None and not to.expressions:
        wide = {exp.DataType.Type.BIGINT, exp.DataType.Type.DECIMAL, exp.DataType.Type.DOUBLE}
        is_wider = {
            "integer": to.this in wide or (to.this == exp.DataType.Type.INT and type_text == "SMALLINT"),
            "decimal": to.this == exp.DataType.Type.DECIMAL,
            "real": to.this == exp.DataType.Type.DOUBLE,
        }.get(scale.family, False)
    return exp.column(name, quoted=True) if is_wider else inner


def _name(relation: CatalogRow) -> str:
    return f"{relation['schema']}.{relation['name']}"


def _table(relation: CatalogRow) -> exp.Table:
    return exp.table_(relation["name"], db=relation["schema"], quoted=True)


def _check(relation: CatalogRow, *, is_inner: bool = False) -> None:
    """Refuse what no private relation may be, or be made of."""
    name = _name(relation)
    if relation["kind"] in _KINDS:
        raise refuse_relation(f"table ({name}) is {_KINDS[relation['kind']]}", _CURE)
    is_system = relation["schema"].startswith("pg_") or relation["schema"] == "information_schema"
    if is_system or relation["oid"] < FIRST_OF_USERS or relation["persistence"] == "t":
        reason = "is PostgreSQL's own or temporary, so that its rows are made of other rows or of the session"
        raise refuse_relation(f"table ({name}) {reason}", _CURE)
    if relation["active"] or (relation["secured"] and is_inner):
        reason = "has row-level security, so that which rows are seen depends on the role and on other rows"
        cure = "use a role with BYPASSRLS that reads the table itself"
        raise refuse_relation(f"table ({name}) {reason}", cure)
