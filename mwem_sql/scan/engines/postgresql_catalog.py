"""What PostgreSQL's catalog says of a relation, in DuckDB's words: columns, types, declarations, and the rules of the boundary.

    relation  a table of a user's schema with all that it reads: partitions and children, each a table; or a view
    table     without row-level security in force; its generated columns must be row-wise (`postgresql_expressions`)
    view      its rule must be in the grammar of `postgresql_rules`, over one relation

A relation is found by its name, then locked, then described: what is described under the lock is what is read. Reads the catalog only, and
takes nothing by its printed text: rules and expressions are read as trees, whose functions, operators and types are looked up by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from mwem_sql.boundary.sources import Facts
from mwem_sql.boundary.views import NotRowWiseError
from mwem_sql.errors import MwemError, TableError, refuse
from mwem_sql.platform.catalog import Column
from mwem_sql.platform.metadata import Key
from mwem_sql.scan.engines.postgresql_checks import condition
from mwem_sql.scan.engines.postgresql_expressions import FIRST_OF_USERS, Function, Numbers, Type, numbers_in
from mwem_sql.scan.engines.postgresql_nodes import Node
from mwem_sql.scan.engines.postgresql_rules import Rule, check_expression, expression

_MOST_VIEWS = 50
_RELATION = """
    SELECT c.oid::bigint AS oid, n.nspname::text AS schema, c.relname::text AS name, c.relkind::text AS kind, c.relpersistence::text AS persistence,
        c.relrowsecurity AS secured, row_security_active(c.oid) AS active, has_table_privilege(c.oid, 'SELECT') AS readable
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND """
_BY_NAME = _RELATION + "n.nspname = $1 AND c.relname = $2"
_BY_NUMBER = _RELATION + "c.oid = $1::oid"
# All that a table reads, and all tables above those: whoever reads one of them reads some of the same rows.
_TREE = """
    WITH RECURSIVE below(oid) AS (
        SELECT $1::oid UNION SELECT i.inhrelid FROM pg_inherits AS i JOIN below ON i.inhparent = below.oid
    ), above(oid) AS (
        SELECT oid FROM below UNION SELECT i.inhparent FROM pg_inherits AS i JOIN above ON i.inhrelid = above.oid
    )
    SELECT c.oid::bigint AS oid, n.nspname::text AS schema, c.relname::text AS name, c.relkind::text AS kind, c.relpersistence::text AS persistence,
        c.relrowsecurity AS secured, row_security_active(c.oid) AS active, c.oid IN (SELECT oid FROM below) AS is_read,
        c.oid NOT IN (SELECT inhrelid FROM pg_inherits) AS is_top
    FROM above JOIN pg_class AS c ON c.oid = above.oid JOIN pg_namespace AS n ON n.oid = c.relnamespace ORDER BY c.oid"""
_COLUMNS = """
    SELECT a.attname::text AS name, a.attnum::int AS number, a.attnotnull AS required, a.atttypid::bigint AS type, a.atttypmod AS modifier,
        a.attgenerated::text AS generated, CASE WHEN a.attgenerated <> '' THEN d.adbin::text END AS expression
    FROM pg_attribute AS a LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
# citext is a text whose cast to text runs no code. An operator class of a user's for an enum would run when it is grouped by.
_KINDS_OF_TYPES = """
    WITH RECURSIVE chain(oid) AS (
        SELECT unnest(string_to_array($1::text, ',')::oid[]) UNION SELECT t.typbasetype FROM pg_type AS t JOIN chain ON t.oid = chain.oid WHERE t.typtype = 'd'
    )
    SELECT t.oid::bigint AS oid, t.typname::text AS name, n.nspname::text AS schema, t.typtype::text AS kind, t.typbasetype::bigint AS base,
        t.typtypmod AS modifier, t.typnotnull AS required,
        t.typname = 'citext' AND t.typtype = 'b' AND EXISTS (
            SELECT 1 FROM pg_cast AS c WHERE c.castsource = t.oid AND c.casttarget = 25 AND c.castmethod = 'b'
        ) AND EXISTS (
            SELECT 1 FROM pg_depend AS d JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
            WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e' AND e.extname = 'citext'
        ) AS binary_text,
        EXISTS (SELECT 1 FROM pg_opclass AS o WHERE o.opcintype = t.oid AND o.oid >= 16384) AS classed
    FROM chain JOIN pg_type AS t ON t.oid = chain.oid JOIN pg_namespace AS n ON n.oid = t.typnamespace"""
_LABELS = "SELECT enumlabel::text AS label FROM pg_enum WHERE enumtypid = $1::oid ORDER BY enumsortorder"
_CHECKS = "SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE conrelid = $1::oid AND contype = 'c' ORDER BY conname"
_TYPE_CHECKS = "SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE contypid = $1::oid AND contype = 'c' ORDER BY conname"
_RULE = """
    SELECT rulename::text AS name, ev_enabled::text AS enabled, is_instead, ev_qual::text AS condition, ev_action::text AS action
    FROM pg_rewrite WHERE ev_class = $1::oid AND ev_type = '1'"""
_FUNCTIONS = """
    SELECT p.oid::bigint AS oid, CASE WHEN p.pronamespace = 'pg_catalog'::regnamespace THEN '' ELSE p.pronamespace::regnamespace::text || '.' END
        || p.proname AS name, p.prosrc::text AS source, p.oid < 16384 AND p.prolang = 12 AND p.prokind = 'f'
        AND NOT p.proretset AND p.provolatile = 'i' AND p.pronamespace = 'pg_catalog'::regnamespace AS shipped
    FROM pg_proc AS p WHERE p.oid = ANY (string_to_array($1::text, ',')::oid[])"""
_OPERATORS = """
    SELECT o.oid::bigint AS oid, p.oid::bigint AS code, CASE WHEN o.oprnamespace = 'pg_catalog'::regnamespace THEN ''
        ELSE o.oprnamespace::regnamespace::text || '.' END || o.oprname AS name, p.prosrc::text AS source, o.oid < 16384 AND p.oid < 16384
        AND p.prolang = 12 AND p.prokind = 'f' AND NOT p.proretset AND p.provolatile = 'i' AND p.pronamespace = 'pg_catalog'::regnamespace AS shipped
    FROM pg_operator AS o JOIN pg_proc AS p ON p.oid = o.oprcode WHERE o.oid = ANY (string_to_array($1::text, ',')::oid[])"""
# What scans call by name or through a type: made anew by a superuser, in pg_catalog itself, it would run for every row.
_REPLACED = """
    SELECT p.oid::regprocedure::text AS name FROM pg_proc AS p
    WHERE p.pronamespace = 'pg_catalog'::regnamespace AND (p.oid >= 16384 OR p.prolang <> 12) AND (
        p.proname IN ('width_bucket', 'isfinite', 'md5', 'concat', 'count', 'sum', 'row_number', 'enum_out', 'uuid_out', 'int4pl')
        OR p.oid IN (SELECT oprcode FROM pg_operator WHERE oprname IN ('=', '<', '<=', '>', '>=', '<>') AND oprnamespace = 'pg_catalog'::regnamespace)
        OR p.oid IN (SELECT castfunc FROM pg_cast WHERE oid < 16384 AND casttarget IN (20, 21, 23, 25, 1700) AND castsource IN (18, 19, 20, 21, 23, 25, 1042, 1043, 1700))
        OR p.oid IN (SELECT amproc FROM pg_amproc WHERE oid < 16384))
    UNION ALL SELECT o.oid::regoperator::text FROM pg_operator AS o
    WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oid >= 16384 AND o.oprname IN ('=', '<', '<=', '>', '>=', '<>', '+')
    UNION ALL SELECT a.amopopr::regoperator::text FROM pg_amop AS a WHERE a.oid >= 16384 AND a.amopopr < 16384 AND a.amopmethod IN (403, 405)"""
_TYPES = {
    "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "FLOAT", "float8": "DOUBLE", "bool": "BOOLEAN", "text": "VARCHAR",
    "varchar": "VARCHAR", "bpchar": "VARCHAR", "name": "VARCHAR", "date": "DATE", "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE", "uuid": "UUID",
}  # fmt: skip
_KINDS = {"m": "a materialized view, whose rows are computed", "f": "a foreign table, which may be anything"}
_CURE = "release a table, or a view that is a plain projection or filter of one"
_COMPUTED = "leave the column out and compute it in the workload, whose predicates are evaluated here, or make the result a table"

Ask = Callable[[str, Sequence[object]], list[dict[str, Any]]]
Row = Mapping[str, Any]


class Catalog:
    """The catalog as one transaction sees it."""

    def __init__(self, ask: Ask, identity: str) -> None:
        self._ask = ask
        self._identity = identity
        self._kinds: dict[int, Row] = {}

    def find(self, parts: Sequence[str], function: str) -> Row:
        """What a name stands for now, in the catalog's own spelling; refused if it could not be a private relation, whatever it reads."""
        if len(parts) > 2:
            raise refuse(
                TableError, function, f"table ({'.'.join(parts)!r}) has too many parts", "write alias.schema.table"
            )
        schema, table = ("public", *parts)[-2:]
        # As written, or as PostgreSQL folds what is written without quotes.
        rows = self._ask(_BY_NAME, [schema, table]) or self._ask(_BY_NAME, [schema.lower(), table.lower()])
        if not rows:
            raise refuse(
                TableError, function, f"table ({schema}.{table}) does not exist in the source", "name it as alias.schema.table"
            )  # fmt: skip
        _check(rows[0], function)
        if not rows[0]["readable"]:
            raise refuse(
                TableError,
                function,
                f"table ({_name(rows[0])}) may not be read by this role",
                "GRANT SELECT on all of it to the role, or on a view of some of its columns",
            )
        return rows[0]

    def facts(self, relation: Row, locked: Callable[[], set[int]], function: str) -> Facts:
        """The relation that was found and then locked, as it is now that it is locked."""
        being_replaced = refuse(TableError, function, f"table ({_name(relation)}) is being replaced", "try again")
        if self._ask(_BY_NAME, [relation["schema"], relation["name"]]) != [relation]:
            raise being_replaced
        replaced = self._ask(_REPLACED, [])
        if replaced:
            raise refuse(
                TableError,
                function,
                f"source has a function or operator in pg_catalog ({replaced[0]['name']}) that PostgreSQL did not come with",
                "restore it: scans call it for every row",
            )
        facts, read = self._described(relation, function, _MOST_VIEWS)
        if not read <= locked():
            raise being_replaced
        return facts

    def _described(self, relation: Row, function: str, depth: int) -> tuple[Facts, set[int]]:
        """A relation, and the numbers of all that it reads, itself included."""
        _check(relation, function, is_inner=depth < _MOST_VIEWS)
        listed = self._ask(_COLUMNS, [relation["oid"]])
        if relation["kind"] == "v":
            return self._view(relation, listed, function, depth)
        tree = self._ask(_TREE, [relation["oid"]])
        read = [row for row in tree if row["is_read"]]
        for leaf in read:
            _check(leaf, function, is_inner=depth < _MOST_VIEWS)
            self._check_generated(leaf, listed if leaf["oid"] == relation["oid"] else None, function)
        columns, texts = self._columns(listed, self._ids(relation, tree, listed))
        types = {column.name: column.type for column in columns}
        checks = [condition(row["text"], types) for row in self._ask(_CHECKS, [relation["oid"]])]
        texts += [text for text in checks if text is not None]
        rows = exp.table_(relation["name"], db=relation["schema"], quoted=True)
        facts = Facts(
            relation["schema"], relation["name"], tuple(columns), rows, self._keys(tree), tuple(texts),
            {column.name: column for column in columns}, repr((relation, tree, listed)),
        )  # fmt: skip
        return facts, {row["oid"] for row in read}

    def _check_generated(self, leaf: Row, listed: Sequence[Row] | None, function: str) -> None:
        """A stored column was computed when its row was written, so that it cannot fail any more; what it was made of is checked all the same."""
        for row in self._ask(_COLUMNS, [leaf["oid"]]) if listed is None else listed:
            if row["generated"] == "":
                continue
            try:
                tree = expression(row["expression"])
                check_expression(tree, self._numbers([tree]), total=row["generated"] != "s")
            except NotRowWiseError as reason:
                raise refuse(
                    TableError,
                    function,
                    f"table ({leaf['name']!r}) has the generated column {row['name']}, which {reason}",
                    "make it a plain column (ALTER COLUMN ... DROP EXPRESSION), or release a table without it",
                ) from None

    def _columns(self, listed: Sequence[Row], ids: Mapping[str, str]) -> tuple[list[Column], list[str]]:
        """The columns that have a type of DuckDB's, and the conditions of their domains."""
        columns: list[Column] = []
        texts: list[str] = []
        self._look_up(row["type"] for row in listed)
        for row in listed:
            column, conditions = self._column(row, ids.get(row["name"], ""))
            if column is not None:
                columns.append(column)
                texts += conditions
        return columns, texts

    def _column(self, row: Row, number: str) -> tuple[Column | None, list[str]]:
        """A column with DuckDB's type for it, and the conditions of its domains; None for a type that has no exact counterpart."""
        oid, modifier, required = row["type"], row["modifier"], row["required"]
        checks: list[str] = []
        is_domain = False
        while True:
            kind = self._kinds[oid]
            if kind["kind"] != "d":
                break
            is_domain = True
            checks += [check["text"] for check in self._ask(_TYPE_CHECKS, [oid])]
            required = required or kind["required"]
            oid, modifier = kind["base"], kind["modifier"] if kind["modifier"] != -1 else modifier
        text = self._type(kind, modifier, is_domain=is_domain)
        if text is None:
            return None, []
        conditions = [condition(check, {row["name"]: text}, value=row["name"]) for check in checks]
        return Column(row["name"], text, not required, number), [text for text in conditions if text is not None]

    def _type(self, kind: Row, modifier: int, *, is_domain: bool) -> str | None:
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

    def _ids(self, relation: Row, tree: Sequence[Row], listed: Sequence[Row]) -> dict[str, str]:
        """What columns are known by: table and number, those of the one table at the top where it has the column; a name may be anybody's."""
        ids = {row["name"]: f"{relation['oid']}:{row['number']}" for row in listed}
        tops = [row["oid"] for row in tree if row["is_top"]]
        if len(tops) == 1 and tops != [relation["oid"]]:
            above = {row["name"]: f"{tops[0]}:{row['number']}" for row in self._ask(_COLUMNS, tops)}
            ids |= {name: above[name] for name in ids if name in above}
        return ids

    def _keys(self, tree: Sequence[Row]) -> tuple[tuple[Key, ...], ...]:
        """First the numbers of all that is read and of all tables above, which follow them through renames; then the names of those."""
        numbers = tuple((self._identity, "", str(row["oid"])) for row in tree)
        return numbers, tuple((self._identity, row["schema"], row["name"]) for row in tree)

    def _view(self, relation: Row, listed: Sequence[Row], function: str, depth: int) -> tuple[Facts, set[int]]:
        """A view, read as it is (its owner's rights may be needed), after its rule was found to be row-wise down to its table."""

        def no(reason: object, cure: str = _CURE) -> MwemError:
            rule = "a private view must give at most one row per row of one table, and cannot fail on any"
            return refuse(TableError, function, f"view ({relation['name']!r}) {reason}; {rule}", cure)

        if depth == 1:
            raise no(f"is over more than {_MOST_VIEWS} other views")
        rules = self._ask(_RULE, [relation["oid"]])
        if [(row["name"], row["enabled"], row["is_instead"], row["condition"]) for row in rules] != [
            ("_RETURN", "O", True, "<>")
        ]:
            raise no("has other rules than its definition")
        try:
            rule = Rule.of(rules[0]["action"], relation["oid"])
        except NotRowWiseError as reason:
            raise no(reason) from None
        source = self._ask(_BY_NUMBER, [rule.relation])
        if not source:
            raise no("reads something other than a table")
        below, read = self._described(source[0], function, depth - 1)
        try:
            origins = rule.columns(self._numbers([rule.query]))
        except NotRowWiseError as reason:
            raise no(reason, _COMPUTED) from None
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
            relation["schema"], relation["name"], tuple(Column(column.name, column.type, nullable=True) for column in columns),
            exp.table_(relation["name"], db=relation["schema"], quoted=True), below.keys, below.checks, declared,
            (repr((relation, listed)), rules[0]["action"], below.definition),
        )  # fmt: skip
        return facts, read | {relation["oid"]}

    def _numbers(self, trees: Sequence[Node]) -> Numbers:
        """What the numbers in trees stand for."""
        functions, operators, types = numbers_in(trees)
        self._look_up(types)
        return Numbers(
            {row["oid"]: _function(row) for row in self._ask(_FUNCTIONS, [_listed(functions)])},
            {row["oid"]: (row["code"], _function(row)) for row in self._ask(_OPERATORS, [_listed(operators)])},
            {number: self._base(number) for number in types if number in self._kinds},
        )

    def _look_up(self, types: Iterable[int]) -> None:
        """Learn what types are, and those that they are domains over."""
        news = set(types) - self._kinds.keys()
        if news:
            self._kinds |= {row["oid"]: row for row in self._ask(_KINDS_OF_TYPES, [_listed(news)])}

    def _base(self, number: int) -> Type:
        while (kind := self._kinds[number])["kind"] == "d":
            number = kind["base"]
        return Type(kind["kind"], number, kind["binary_text"])


def _listed(numbers: Iterable[int]) -> str:
    """An array as one text: drivers differ in how they pass one."""
    return ",".join(map(str, sorted(numbers)))


def _function(row: Row) -> Function:
    return Function(row["name"], row["source"], row["shipped"])


def _name(relation: Row) -> str:
    return f"{relation['schema']}.{relation['name']}"


def _check(relation: Row, function: str, *, is_inner: bool = False) -> None:
    """Refuse what no private relation may be, or be made of."""
    name = _name(relation)
    if relation["kind"] in _KINDS:
        raise refuse(TableError, function, f"table ({name}) is {_KINDS[relation['kind']]}", _CURE)
    is_system = relation["schema"].startswith("pg_") or relation["schema"] == "information_schema"
    if is_system or relation["oid"] < FIRST_OF_USERS or relation["persistence"] == "t":
        raise refuse(
            TableError,
            function,
            f"table ({name}) is PostgreSQL's own or temporary, so that its rows are made of other rows or of the session",
            _CURE,
        )
    if relation["active"] or (relation["secured"] and is_inner):
        raise refuse(
            TableError,
            function,
            f"table ({name}) has row-level security, so that which rows are seen depends on the role and on other rows",
            "use a role with BYPASSRLS that reads the table itself",
        )
