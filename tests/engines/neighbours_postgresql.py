"""Random private relations of a PostgreSQL server, and their neighbours, as `tests/neighbours.py` has for files.

A world is a schema `n` that somebody made: a table `base` with the rows, and the relation that is asked for, over or
around it: views, partitions, children, foreign tables, generated columns, policies; with users' operators, casts, types
and functions that look at other rows, and with expressions that fail on some values. Much of it must be refused. The
schema is made once, and its rows are replaced between looks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import duckdb
from neighbours import DOMAIN, QUERIES, Row, queries_and_units
from servers import superuser

import mwem_sql
from mwem_sql.boundary.sources import Facts
from mwem_sql.errors import EngineError, MwemError
from mwem_sql.kernel.budget import Budget
from mwem_sql.platform.session import Session
from mwem_sql.releases.plan import make_plan
from mwem_sql.releases.request import Request
from mwem_sql.scan import execution
from mwem_sql.scan.pushdown import Pushdown
from mwem_sql.workload import Workload

# What every world has: functions that look at other rows, and what may call them without being named.
TOOLS = """
    CREATE SCHEMA n;
    GRANT USAGE ON SCHEMA n TO reader;
    CREATE TYPE n.letter AS ENUM ('x', 'y', 'z');
    CREATE FUNCTION n.peek(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER
        AS 'BEGIN RETURN (SELECT count(*) FROM n.base) % 4; END';
    CREATE FUNCTION n.unlike(integer, integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER
        AS 'BEGIN RETURN (SELECT count(*) FROM n.base) % 2 = 0; END';
    CREATE FUNCTION n.spelled(n.letter) RETURNS text LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER
        AS 'BEGIN RETURN substr(''xyz'', 1 + (SELECT count(*) FROM n.base)::int % 3, 1); END'
"""
OPERATOR = "CREATE OPERATOR n.= (FUNCTION = n.unlike, LEFTARG = integer, RIGHTARG = integer)"
CAST = "CREATE CAST (n.letter AS text) WITH FUNCTION n.spelled(n.letter)"
COMPOSITE = (
    "CREATE TYPE n.citext AS (word text)",
    (
        "CREATE FUNCTION n.told(n.citext) RETURNS text LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER AS 'BEGIN RETURN "
        "substr(''xyz'', 1 + (SELECT count(*) FROM n.base)::int % 3, 1); END'"
    ),
    "CREATE CAST (n.citext AS text) WITH FUNCTION n.told(n.citext) AS IMPLICIT",
)
FAR = "CREATE VIEW n.far AS SELECT b.* FROM n.base AS b, generate_series(1, 3)"
# By the column that they stand for: of one row and total; failing on some values; and seeing other rows.
FINE = {
    "id": ["id", "upper(id)", "id || 'x'", "left(id, 2)"],
    "a": ["a", "a / 2 * 2", "CASE WHEN d THEN a ELSE 0 END", "coalesce(a, 0)", "nullif(a, 2)", "greatest(a, 1)",
        "CASE a WHEN 1 THEN 2 ELSE a END", "length(b)"],
    "b": ["b", "lower(b)", "nullif(b, 'y')", "CASE b WHEN 'x' THEN 'y' ELSE b END", 'b COLLATE "C"', "left(b, 1)",
        "substr(b, 1, 1)"],
    "c": ["c", "a::float8", "coalesce(c, 0)", "abs(c)", "floor(c)"],
    "d": ["d", "NOT d", "a > 1", "b LIKE 'x%'", "d IS NULL", "a IS DISTINCT FROM 2", "a IN (1, 2)", "c >= 0.5"],
}  # fmt: skip
FAILING = {
    "id": ["id || substr(id, 1, a)"],
    "a": ["b::integer", "a * 30000000", "6 / a", "ascii(chr(a))", "a::smallint * 500::smallint"],
    "b": ["substr(b, 1, a)", "repeat(b, a * 30000)", "to_char(b::date, 'DD')"],
    "c": ["c * 1e300", "1 / c", "ln(c)", "sqrt(c)"], "d": ["b::boolean", "b ~ id", "id LIKE b || chr(92)"],
}  # fmt: skip
WRONG = {
    "id": ["ctid::text", "random()::text", "n.peek(a)::text"],
    "a": ["n.peek(a)", "(SELECT max(a) FROM n.base)", "(row_number() OVER ())::integer", "generate_series(1, a % 9)",
        "pg_relation_size('n.base')::integer / 8192", "max(a) OVER ()"],
    "b": ["(regexp_matches(b, '.', 'g'))[1]", "unnest(ARRAY[b, b, 'x'])", "n.spelled('x')",
        "query_to_xml('SELECT count(*) FROM n.base', true, true, '')::text"],
    "c": ["random()", "(SELECT avg(c) FROM n.base)", "(percent_rank() OVER (ORDER BY c))"],
    "d": ["EXISTS (SELECT 1 FROM n.base WHERE a > 2)", "a > (SELECT avg(a) FROM n.base)",
        "ctid IN ('(0,1)', '(0,3)', '(0,5)', '(0,7)', '(0,9)')", "a OPERATOR(n.=) 2"],
}  # fmt: skip
COLUMNS = "id text, a integer, b text, c double precision, d boolean"


@dataclass
class World:
    """Statements that make the schema, and what is asked of which relation in it."""

    unit: str | None
    rows_per_unit: int
    workload: Workload
    relation: str = "asked"
    statements: list[str] = field(default_factory=list)
    one_by_one: bool = False  # rows are written one by one: what is computed at writing sees those before


def world(chance: random.Random) -> World:
    """One of many."""
    unit = chance.choice([None, None, "id"])
    made = World(
        unit, chance.randrange(1, 4) if unit else 1, Workload.from_rows(chance.sample(QUERIES, chance.randrange(1, 4)))
    )
    source = chance.choice(["table", "view", "view", "view", "views", "parts", "children", "far", "policy", "kept"])
    if source == "table" and chance.random() < 0.8:
        made.statements += _odd_table(chance, made)
        return made
    made.statements.append(f"CREATE TABLE n.base ({COLUMNS})")
    if chance.random() < 0.2:
        made.statements.append(OPERATOR)
    if source == "table":
        made.relation = "base"
    elif source == "parts":
        made.statements += [
            f"CREATE TABLE n.asked ({COLUMNS}) PARTITION BY LIST (id)",
            "ALTER TABLE n.asked ATTACH PARTITION n.base DEFAULT",
        ]  # fmt: skip
        if chance.random() < 0.6:
            made.statements += [
                FAR,
                (
                    "CREATE FOREIGN TABLE n.remote PARTITION OF n.asked FOR VALUES IN ('far') SERVER loop OPTIONS "
                    "(schema_name 'n', table_name 'far')"
                ),
            ]
    elif source == "children":
        made.statements += [
            f"CREATE TABLE n.asked ({COLUMNS})",
            "ALTER TABLE n.base INHERIT n.asked",
            f"CREATE TABLE n.other ({COLUMNS})",
        ]
        made.statements += chance.choice(
            [[], ["ALTER TABLE n.base INHERIT n.other"], ["ALTER TABLE n.other INHERIT n.asked"]]
        )
    elif source == "far":
        made.statements += [
            FAR,
            f"CREATE FOREIGN TABLE n.asked ({COLUMNS}) SERVER loop OPTIONS (schema_name 'n', table_name 'far')",
        ]
    elif source == "policy":
        made.statements += [
            "ALTER TABLE n.base ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY visible ON n.base USING (coalesce(a, 0) < (SELECT n.peek(1)))",
        ]  # fmt: skip
        made.relation = "base"
    elif source == "kept":
        made.statements += [f"CREATE MATERIALIZED VIEW n.asked AS SELECT {_items(chance, unit)} FROM n.base"]
    else:
        inner = "n.base"
        if source == "views":
            made.statements.append(f"CREATE VIEW n.middle AS SELECT * FROM n.base{_where(chance)}")
            inner = "n.middle AS m"
        made.statements.append(f"CREATE VIEW n.asked AS SELECT {_items(chance, unit)} FROM {inner}{_where(chance)}")
    return made


def _odd_table(chance: random.Random, made: World) -> list[str]:
    """A table whose columns are of users' types, or computed at writing."""
    made.relation = "base"
    odd = chance.choice(["letter", "letter", "cast", "citext", "generated", "domain"])
    if odd == "letter":
        return [f"CREATE TABLE n.base ({COLUMNS.replace('b text', 'b n.letter')})"]
    if odd == "cast":
        return [f"CREATE TABLE n.base ({COLUMNS.replace('b text', 'b n.letter')})", CAST]
    if odd == "citext":
        return [*COMPOSITE, f"CREATE TABLE n.base ({COLUMNS.replace('b text', 'b n.citext')})"]
    if odd == "domain":
        return [
            "CREATE DOMAIN n.count AS integer CHECK (VALUE < 1000)",
            f"CREATE TABLE n.base ({COLUMNS.replace('a integer', 'a n.count')})",
        ]
    made.one_by_one = True
    expression = chance.choice(["n.peek(g)", "g / 2 * 2", "g + 1", "abs(g)"])
    columns = COLUMNS.replace("a integer", f"g integer, a integer GENERATED ALWAYS AS ({expression}) STORED")
    return [f"CREATE TABLE n.base ({columns})"]


def _items(chance: random.Random, unit: str | None) -> str:
    if chance.random() < 0.15:
        return "*"
    listed = chance.choices([FINE, FAILING, WRONG], [4, 2, 2])[0]
    odd = chance.choice(list(FINE))
    out = []
    for name in FINE:
        chosen = chance.choice((listed if name == odd else FINE)[name])
        if unit == name and (name != odd or listed is FINE):  # neighbours are made by the unit's own values
            chosen = name
        out.append(f"{chosen} AS {name}")
    return ", ".join(out)


def _where(chance: random.Random) -> str:
    return chance.choice(
        [
            "", "", "", "", " WHERE a > 0", " WHERE d", " WHERE a > (SELECT avg(a) FROM n.base)", " ORDER BY a",
            " LIMIT 5", " WHERE b IN ('x', 'y')",
            " WHERE b::integer > 0", " GROUP BY id, a, b, c, d", " WHERE a IS DISTINCT FROM 2",
            " TABLESAMPLE BERNOULLI (50) REPEATABLE (1)",
        ]
    )  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What a call shows before its debit, and the true answers, query by query, with what one row may move them by."""

    public: object
    answers: tuple[tuple[int, ...], ...] | None = None
    bounds: tuple[int, ...] = ()


class Server:
    """A server with one world at a time, and a DuckDB that has it attached as `w`."""

    def __init__(self, con: duckdb.DuckDBPyConnection, admin: Any, port: int) -> None:
        self.con, self._admin = con, admin
        self._run("DROP SERVER IF EXISTS loop CASCADE", "CREATE EXTENSION IF NOT EXISTS postgres_fdw")
        self._run(
            f"CREATE SERVER loop FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{port}', dbname "
            f"'postgres')",
            "GRANT USAGE ON FOREIGN SERVER loop TO reader",
            "CREATE USER MAPPING FOR PUBLIC SERVER loop OPTIONS (user 'postgres', password_required 'false')",
        )
        mwem_sql.attach(con, "w", f"postgresql://reader@127.0.0.1:{port}/postgres")
        con.execute(DOMAIN)

    def _run(self, *statements: str) -> None:
        for statement in statements:
            self._admin.execute(statement)

    def make(self, made: World) -> None:
        """Raises the driver's error where the statements are none of PostgreSQL's SQL."""
        self._run("SET search_path = pg_catalog", "DROP SCHEMA IF EXISTS n CASCADE", *TOOLS.split(";\n"))
        self._run(
            "SET search_path = n, pg_catalog", *made.statements, "GRANT SELECT ON ALL TABLES IN SCHEMA n TO reader"
        )

    def fill(self, made: World, rows: Sequence[Row]) -> None:
        """Have exactly these rows in `base`."""
        computed = any("GENERATED" in statement for statement in made.statements)
        composite = any("n.citext" in statement for statement in made.statements)
        letters = any("b n.letter" in statement for statement in made.statements)
        texts = [
            "("
            + ", ".join(_literal(value, place, composite=composite, letters=letters) for place, value in enumerate(row))
            + ")"
            for row in rows
        ]
        names = "id, g, b, c, d" if computed else "id, a, b, c, d"
        self._run("TRUNCATE n.base")
        for batch in [[text] for text in texts] if made.one_by_one else [texts]:
            if batch:
                self._run(f"INSERT INTO n.base ({names}) VALUES {', '.join(batch)}")
        if any("MATERIALIZED" in statement for statement in made.statements):
            self._run("REFRESH MATERIALIZED VIEW n.asked")

    def plan(self, made: World) -> Any:
        """The plan of a release, or why there is none."""
        request = Request(
            table=f"w.n.{made.relation}",
            workload=made.workload,
            budget=Budget(Fraction(1)),
            rounds=1,
            unit=made.unit,
            rows_per_unit=made.rows_per_unit,
            domain="asked_domain",
        )
        try:
            return make_plan(Session.of(self.con), request)
        except MwemError as refused:
            return str(refused)

    def look(self, made: World, plan: Any) -> Seen:
        """What is shown of the rows now, by a plan that was made of others: it takes only Facts from the server."""
        if isinstance(plan, str):
            return Seen(self.plan(made))
        pushdown: Pushdown = plan.pushdown
        seen: list[Facts] = []

        def held(snapshot: Any) -> execution.Fingerprint:
            seen.append(snapshot.describe(("n", made.relation), "test"))
            return lambda: None

        rows = execution.engine_of(self.con.cursor(), plan.relation)
        try:
            answers = execution.true_answers(rows, pushdown, held)
        except EngineError as failed:
            return Seen((_shown(seen), str(failed)))
        split = queries_and_units(pushdown, answers, made.rows_per_unit)
        bounds = (*(int(bound) for bound in plan.problem.bounds()), 1)
        return Seen(_shown(seen), split, bounds)


def _shown(seen: Sequence[Facts]) -> object:
    return [(facts, [column.id for column in facts.declared.values()]) for facts in seen]


@contextmanager
def server(port: int) -> Iterator[Server]:
    with mwem_sql.connect() as con, superuser(port) as connection, connection.cursor() as admin:
        made = Server(con, admin, port)
        yield made
        mwem_sql.detach(con, "w")
        admin.execute("DROP SCHEMA IF EXISTS n CASCADE")


def random_rows(chance: random.Random) -> list[Row]:
    """Rows, some of them odd: units that differ in their case only, values that casts and arithmetic fail on."""
    ids = chance.choice([[None, "aB3", "Ab3", "AB3", "p1", "é", "É", "("], ["aB3", "Ab3"], ["É", "é", "e"]])
    return [
        (
            chance.choice(ids), chance.choice([None, -9, 0, 1, 2, 3, 77, 2147483647]),
            chance.choice([None, "x", "y", "z", "X", "2020-01-01", "12", "true", ""]),
            chance.choice([None, -1e300, -5.0, 0.5, 3.25, 10.0, 0.0]), chance.choice([None, True, False]),
        )
        for _ in range(chance.randrange(2, 14))
    ]  # fmt: skip


def _literal(value: object, place: int, *, composite: bool, letters: bool) -> str:
    if value is None:
        return "NULL"
    if place == 2 and (composite or letters):
        known = value if value in {"x", "y", "z"} else "z"
        return f"ROW('{known}')" if composite else f"'{known}'"
    if isinstance(value, (bool, int, float)):
        return repr(value).upper()
    return f"'{value}'"
