"""What PostgreSQL keeps unique, and what leads where by its foreign keys: of the whole database, read in one snapshot.

    unique    an index that is valid, over columns alone and all rows, by operators that PostgreSQL came with; of a
              table with children it says nothing, unless they are partitions
    foreign   every FOREIGN KEY, validated or not, also of a partition or child alone: nothing relies on it that a row
              is there, but a row must not lead to its unit by two

What leads where is said of tables at the top: rows of a partition are rows of the table above it. Reads the catalog
only.
"""

from __future__ import annotations

from mwem_sql.boundary.sources import Constraint, Facts, Linked
from mwem_sql.scan.engines.postgresql_catalog import Ask, CatalogRow
from mwem_sql.scan.engines.protocol import refuse_relation

_TOPS = """WITH RECURSIVE up(oid, top) AS (
        SELECT c.oid, c.oid FROM pg_class AS c WHERE c.relkind IN ('r', 'p', 'f') AND c.oid >= 16384
        UNION SELECT up.oid, i.inhparent FROM up JOIN pg_inherits AS i ON i.inhrelid = up.top
    ), tops(oid, top) AS (
        SELECT up.oid, up.top FROM up WHERE NOT EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = up.top)
    ), named(oid, schema, name) AS (
        SELECT c.oid, n.nspname::text, c.relname::text
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    )"""
_BELOW = f"""{_TOPS}
    SELECT named.schema AS schema, named.name AS name, above.schema AS top_schema, above.name AS top_name
    FROM tops JOIN named ON named.oid = tops.oid JOIN named AS above ON above.oid = tops.top
    WHERE tops.oid <> tops.top"""  # noqa: S608  of constants
_UNIQUE = f"""{_TOPS}
    SELECT named.schema AS schema, named.name AS name, i.indisprimary AS is_primary,
        (SELECT array_agg(a.attname::text ORDER BY k.place) FROM unnest(i.indkey) WITH ORDINALITY AS k(number, place)
            JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number
            WHERE k.place <= i.indnkeyatts) AS columns
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid JOIN named ON named.oid = i.indrelid
    WHERE i.indrelid >= 16384 AND i.indisunique AND i.indisvalid AND i.indisready AND i.indislive
        AND NOT i.indisexclusion AND i.indpred IS NULL AND i.indexprs IS NULL
        AND NOT EXISTS (SELECT FROM unnest(i.indclass) AS o(number) WHERE o.number >= 16384)
        AND (c.relkind = 'p' OR NOT EXISTS (SELECT FROM pg_inherits AS h WHERE h.inhparent = i.indrelid))
    ORDER BY 1, 2, i.indisprimary DESC, i.indexrelid"""  # noqa: S608  of constants
_FOREIGN = f"""{_TOPS}
    SELECT DISTINCT one.schema AS schema, one.name AS name, other.schema AS to_schema, other.name AS to_name,
        (SELECT array_agg(a.attname::text ORDER BY k.place) FROM unnest(f.conkey) WITH ORDINALITY AS k(number, place)
            JOIN pg_attribute AS a ON a.attrelid = f.conrelid AND a.attnum = k.number) AS columns,
        (SELECT array_agg(a.attname::text ORDER BY k.place) FROM unnest(f.confkey) WITH ORDINALITY AS k(number, place)
            JOIN pg_attribute AS a ON a.attrelid = f.confrelid AND a.attnum = k.number) AS to_columns
    FROM pg_constraint AS f
    JOIN tops AS here ON here.oid = f.conrelid JOIN named AS one ON one.oid = here.top
    JOIN tops AS there ON there.oid = f.confrelid JOIN named AS other ON other.oid = there.top
    WHERE f.contype = 'f' ORDER BY 1, 2, 3, 4, 5, 6"""  # noqa: S608  of constants
_NUMBERS = f"""{_TOPS}
    SELECT DISTINCT tops.top::bigint AS oid, named.schema AS schema, named.name AS name
    FROM tops JOIN named ON named.oid = tops.top
    WHERE tops.oid IN (SELECT conrelid FROM pg_constraint WHERE contype = 'f'
        UNION SELECT confrelid FROM pg_constraint WHERE contype = 'f')"""  # noqa: S608  of constants

_ALIKE = """
    SELECT min(a.attname)::text AS one, max(a.attname)::text AS other
    FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped
    GROUP BY lower(a.attname::text) HAVING count(*) > 1"""


def linked(ask: Ask, identity: str, facts: tuple[Facts, ...]) -> Linked:
    """Some relations with all keys of their database; one that is only a part of a table is refused."""
    above = {(row["schema"], row["name"]): row for row in ask(_BELOW, [])}
    part = next((above[each.base] for each in facts if each.base in above), None)
    if part is not None:
        top = f"{part['top_schema']}.{part['top_name']}"
        what = f"table ({part['schema']}.{part['name']}) is a partition or child of {top}, and keys lead to all of that"
        raise refuse_relation(what, f"name {top}; or release the part alone")
    for each in facts:
        for row in ask(_ALIKE, list(each.base)):
            one, table = row["one"], ".".join(each.base)
            what = f"table ({table}) has the columns {one} and {row['other']}, which differ in case alone"
            raise refuse_relation(what, f'ALTER TABLE {table} RENAME COLUMN "{one}" TO "{one}_1"')
    unique = [
        Constraint(table=_table(row), columns=tuple(row["columns"]), is_primary=row["is_primary"])
        for row in ask(_UNIQUE, [])
    ]
    foreign = [
        Constraint(
            table=_table(row),
            columns=tuple(row["columns"]),
            refers_to=(row["to_schema"], row["to_name"]),
            refers_columns=tuple(row["to_columns"]),
        )
        for row in ask(_FOREIGN, [])
    ]
    ids = {_table(row): (identity, "", str(row["oid"])) for row in ask(_NUMBERS, [])}
    return Linked(facts=facts, constraints=(*unique, *foreign), ids=ids)


def _table(row: CatalogRow) -> tuple[str, ...]:
    return row["schema"], row["name"]
