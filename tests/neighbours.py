"""Random private sources, down to files and DDL, and their neighbours.

The same source with one row, or one unit's rows, less.

A world is everything that a curator may have typed in: tables with generated columns, structs, collations and odd
names; views of views, with expressions that fail on some values; Parquet, CSV and JSON files; macros, operators
included; settings. Much of it must be refused. It is built once for each set of rows, by the same statements, so that
whatever a call shows of it before a debit must be the same. It is looked at where it is, or in a DuckDB file that is
attached as a source.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

import mwem_sql
from mwem_sql.algebra.arrays import Integers
from mwem_sql.errors import EngineError, MwemError
from mwem_sql.kernel.budget import Budget
from mwem_sql.platform.session import Session
from mwem_sql.releases.plan import Plan, make_plan
from mwem_sql.releases.request import Request
from mwem_sql.scan import execution
from mwem_sql.scan.pushdown import Pushdown
from mwem_sql.workload import Workload

Row = tuple[Any, ...]
TYPES = {"id": "VARCHAR", "a": "INTEGER", "b": "VARCHAR", "c": "DOUBLE", "d": "BOOLEAN"}
DOMAIN = """CREATE OR REPLACE TABLE asked_domain AS
    FROM (VALUES ('a', NULL, '-1', '3'), ('b', ['x', 'y', 'z'], NULL, NULL), ('c', NULL, '-5', '10'))
    AS listed(attribute, "values", low, high)"""
QUERIES: list[dict[str, str]] = [
    {"predicate": "a > 1"},
    {"predicate": "a BETWEEN 1 AND 2 AND d"},
    {"predicate": "b = 'x' OR NOT d"},
    {"predicate": "c > 0.5"},
    {"group_by": "a, b"},
    {"predicate": "d", "group_by": "a // 2"},
    {"group_by": "upper(b), d IS NULL"},
    {"measure": "a"},
    {"predicate": "d", "measure": "a * 2 - 3"},
    {"measure": "a - 1", "group_by": "b"},
]
# What an item of a view may be, by the column that it stands for: the column itself, expressions of one row, and what
# sees others.
FINE = {
    "id": ["id", "upper(id)", "id || 'x'", "s.id"],
    "a": [
        "a",
        "a + 1 - 1",
        "abs(a)",
        "s.a",
        "CASE WHEN d THEN a ELSE 0 END",
        "TRY_CAST(b AS INTEGER)",
        "b::INTEGER",
        "b::INTEGER + b::INTEGER - 12",
        "a + 2147483600",
        "c::TINYINT::INTEGER",
        "year(date_trunc('month', b::DATE))",
        "s.a + (epoch_ns(s.t) // 10**18)::INTEGER",
        "factorial(a)::INTEGER",
        "('x' || b)::INTEGER",
    ],
    "b": [
        "b",
        "lower(b)",
        "b COLLATE NOCASE",
        "left(b, 1)",
        "nullif(b, 'y')",
        "chr(a)",
        "b::DATE::VARCHAR",
        "b[:a]",
        "(b::INTEGER + 1)::VARCHAR",
    ],
    "c": [
        "c",
        "c * 2",
        "round(c)",
        "a::DOUBLE",
        "coalesce(c, 0)",
        "b::DOUBLE",
        "ln(c)",
        "c::DECIMAL(4, 1)::DOUBLE",
        "asin(c)",
    ],
    "d": [
        "d",
        "NOT d",
        "a > 1",
        "b LIKE 'x%'",
        "d IS NULL",
        "b::BOOLEAN",
        "b::INTEGER > 3",
        "b::DATE > DATE '2020-01-01'",
        "b LIKE 'x!%' ESCAPE '!'",
    ],
}
WRONG = {
    "id": ["rowid::VARCHAR", "peek(id)", "random()::VARCHAR"],
    "a": [
        "rowid",
        "row_number() OVER ()",
        "(SELECT max(a) FROM base)",
        "max(a)",
        "nextval('seq')",
        "hash(rowid) % 4",
        "stats(a)::VARCHAR::INTEGER",
        "peek(a)",
        "file_row_number",
        "list_sum([a, 1])",
        "tools.peek(a)",
        "sum(a) OVER (ORDER BY c)",
        "count(*) OVER ()",
        "week(to_days(a))",
        "date_part(b, b::DATE)",
    ],
    "b": [
        "json_serialize_plan('SELECT count(*) FROM base', optimize := true)::VARCHAR",
        "stats(b)::VARCHAR",
        "filename",
        "current_date::VARCHAR",
        "getvariable('x')",
    ],
    "c": ["random()", "(SELECT avg(c) FROM base)", "epoch(now())", "percent_rank() OVER (ORDER BY c)"],
    "d": [
        "EXISTS (FROM base)",
        "a > (SELECT avg(a) FROM base)",
        "a = ANY (SELECT a FROM base)",
        "b LIKE b ESCAPE 'x'",
        "b LIKE 'ax' ESCAPE 'x'",
    ],
}
MACROS = [
    '"-"(x, y) AS (SELECT max(a) FROM base)',
    '"-"(x, y) AS (SELECT count(*) FROM base)',
    "lower(x) AS (SELECT max(b) FROM base)",
    '"~~"(x, y) AS (SELECT count(*) > 5 FROM base)',
    "abs(x) AS (SELECT count(*) % 3 FROM base)",
    "round(x) AS (SELECT max(c) FROM base)",
    "my_own(x) AS x + 1",
]
DECLARED = (
    "columns := {id: 'VARCHAR', a: 'INTEGER', b: 'VARCHAR', c: 'DOUBLE', d: 'BOOLEAN'}, "
    "auto_detect := false, records := true"
)


FILES = {"one": "a IS NULL OR a < 1", "two": "a >= 1"}
"""Which rows are in which file: by their own values, so that no row moves when another goes."""


@dataclass
class World:
    """Statements that make a source called `asked` of the rows in a table `base`; `files` are written in between."""

    unit: str | None
    rows_per_unit: int
    workload: Workload
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    file: str | None = None
    mixed: bool = False
    settings: list[str] = field(default_factory=list)
    macro: str | None = None

    def build(self, con: duckdb.DuckDBPyConnection, rows: Sequence[Row], folder: Path) -> None:
        """Raises DuckDB's error where the statements are none of its SQL."""
        listed = ", ".join("(" + ", ".join(_literal(value) for value in row) + ")" for row in rows)
        for statement in self.before:
            con.execute(statement)
        if rows:
            con.execute(
                f"INSERT INTO base (id, a, b, c, d, s) SELECT i, p, q, r, t, {{'id': i, 'a': p, 't': TRY_CAST(q AS "
                f"DATE)}} FROM (VALUES {listed}) AS v(i, p, q, r, t)"
            )
        for old in folder.iterdir():
            old.unlink()
        for name, condition in FILES.items() if self.file else ():
            columns = "id, b AS a, b, c, d" if self.mixed and name == "two" else "id, a, b, c, d"
            asked, path = f"SELECT {columns} FROM base WHERE {condition}", folder / f"{name}.{self.file}"
            if self.file == "parquet":  # as Arrow writes them: NaN is in no statistic of its footers
                pq.write_table(con.sql(asked).to_arrow_table(), path)
            else:
                con.execute(
                    f"COPY ({asked}) TO '{path}' (FORMAT {self.file}{', HEADER true' if self.file == 'csv' else ''})"
                )
        for statement in self.after:
            con.execute(statement.replace("FOLDER", str(folder)))


def world(chance: random.Random) -> World:
    """One of many."""
    unit = chance.choice([None, None, "id"])
    asked = chance.sample(QUERIES, chance.randrange(1, 5))
    made = World(unit, chance.randrange(1, 4) if unit else 1, Workload.from_rows(asked))
    names = list(TYPES)
    collation = chance.choice(["", "", " COLLATE NOCASE"])
    generated = chance.choice(
        [
            "",
            "",
            ", g INTEGER AS (a + 1)",
            ", g AS (stats(a))",
            ", g AS (upper(b))",
            ", g AS (random())",
            ", g AS (nextval('seq'))",
            ", g INTEGER AS (TRY_CAST(b AS INTEGER)), h INTEGER AS (g + 1)",
        ]
    )
    kinds = ", ".join(f"{name} {kind}{collation if kind == 'VARCHAR' else ''}" for name, kind in TYPES.items())
    made.before = [
        f"CREATE OR REPLACE TABLE base ({kinds}, s STRUCT(id VARCHAR, a INTEGER, t DATE){generated})",
        DOMAIN,
    ]
    source = chance.choice(["table", "view", "view", "views", "file", "file"])
    if source == "file":
        made.file = chance.choice(["parquet", "parquet", "parquet", "csv", "json"])
        made.mixed = chance.random() < 0.15
        read = _file(chance, made.file)
        items = _items(chance, names, unit, file=True)
        if "file_row_number" in read and chance.random() < 0.7:
            items = "* REPLACE (file_row_number::INTEGER AS a)"
        made.after.append(f"CREATE OR REPLACE VIEW asked AS SELECT {items} FROM {read}{_where(chance)}")
    elif source == "table":
        made.after.append(
            "CREATE OR REPLACE TABLE asked AS FROM base" if generated else "ALTER TABLE base RENAME TO asked"
        )
        made.before.insert(0, "DROP TABLE IF EXISTS asked")
        if generated:
            made.before[1] = made.before[1].replace("TABLE base", "TABLE asked")
            made.after = []
    else:
        inner = "base"
        if source == "views":
            made.after.append(
                f"CREATE OR REPLACE VIEW middle AS SELECT *{chance.choice(['', ' EXCLUDE (s)', ', a + 1 AS more'])} "
                f"FROM base{_where(chance)}"
            )
            inner = chance.choice(["middle", "main.middle AS m", "memory.main.middle"])
        made.after.append(
            f"CREATE OR REPLACE VIEW asked AS SELECT {_items(chance, names, unit, file=False)} FROM "
            f"{inner}{_where(chance)}"
        )
    if chance.random() < 0.15:
        made.macro = chance.choice(MACROS)
        made.after.append(f"CREATE OR REPLACE MACRO {made.macro}")
    if chance.random() < 0.3:
        made.settings.append(
            chance.choice(
                [
                    "SET GLOBAL default_collation = 'NOCASE'",
                    "SET GLOBAL TimeZone = 'Asia/Tokyo'",
                    "SET GLOBAL default_collation = 'NOACCENT'",
                ]
            )
        )
    return made


def _items(chance: random.Random, names: Sequence[str], unit: str | None, *, file: bool) -> str:
    if chance.random() < 0.25:
        return "*"
    wrong = chance.choice(names) if chance.random() < 0.3 else None
    out = []
    for name in names:
        chosen = chance.choice(WRONG[name] if name == wrong else FINE[name])
        if (file and "s." in chosen) or (
            unit == name and name != wrong
        ):  # neighbours are made by the unit's own values
            chosen = name
        out.append(f"{chosen} AS {name}")
    return ", ".join(out)


def _where(chance: random.Random) -> str:
    return chance.choice(
        [
            "",
            "",
            "",
            " WHERE a > 0",
            " WHERE d",
            " WHERE rowid > 2",
            " WHERE a > (SELECT avg(a) FROM base)",
            " ORDER BY a",
            " LIMIT 5",
            " WHERE b IN ('x', 'y')",
            " WHERE b",
            " WHERE b::INTEGER > 3 OR b::INTEGER IS NULL",
            " WHERE a + 2147483600 > 0",
            " WHERE c > 5",
        ]
    )


def _file(chance: random.Random, ending: str) -> str:
    """A way to read the files; about half of them must be refused."""
    one, two, both = f"'FOLDER/one.{ending}'", f"'FOLDER/two.{ending}'", f"'FOLDER/*.{ending}'"
    path = chance.choice([one, two, both, f"[{one}, {two}]", f"[{one}, {both}]", f"[{two}, {two}]"])
    if ending == "parquet":
        argument = chance.choice(
            [
                "",
                "",
                "",
                ", file_row_number := true",
                ", file_row_number => true",
                ", filename := true",
                ", union_by_name := true",
            ]
        )
        return chance.choice([f"read_parquet({path}{argument})", both])
    if ending == "csv":
        argument = chance.choice(
            [
                f", {DECLARED}, header := true",
                f", {DECLARED}, header := true",
                "",
                ", header := true",
                f", {DECLARED}, header := true, ignore_errors := true",
            ]
        )
        return chance.choice([f"read_csv({path}{argument})", f"read_csv({path}{argument})", both])
    argument = chance.choice(
        [f", {DECLARED}", f", {DECLARED}, format := 'newline_delimited'", "", ", format := 'newline_delimited'"]
    )
    return chance.choice([f"read_json({path}{argument})", f"read_json({path}{argument})", both])


def random_rows(chance: random.Random) -> list[Row]:
    """Rows, some of them odd.

    Units that differ in their case only, values off the domain, texts that look like other types.
    """
    numbers = chance.choice(
        [[None, -1e300, -5.0, 0.5, 3.25, 10.0, math.nan], [math.nan, math.nan, math.nan, -5.0, 3.25]]
    )
    ids = chance.choice([[None, "aB3", "Ab3", "AB3", "p1", "é", "É"], ["aB3", "Ab3"], ["É", "é", "e"]])
    return [
        (
            chance.choice(ids),
            chance.choice([None, -9, 0, 1, 2, 3, 77]),
            chance.choice([None, "x", "y", "z", "X", "2020-01-01", "12", "true", "5881580-07-10"]),
            chance.choice(numbers),
            chance.choice([None, True, False]),
        )
        for _ in range(chance.randrange(2, 16))
    ]


def neighbours(chance: random.Random, made: World, rows: Sequence[Row], count: int) -> Iterator[list[Row]]:
    """The same rows without one of them, or without those of one unit."""
    for _ in range(count):
        if made.unit is None:
            gone = chance.randrange(len(rows))
            yield [row for place, row in enumerate(rows) if place != gone]
        else:
            left = chance.choice([row[0] for row in rows])
            yield [row for row in rows if row[0] != left]


@dataclass(frozen=True)
class Seen:
    """What a call shows before its debit, and the true answers, query by query, with what one row may move them by."""

    public: object
    answers: tuple[tuple[int, ...], ...] | None
    bounds: tuple[int, ...]
    failed: bool = False


def look(con: duckdb.DuckDBPyConnection, made: World, table: str = "asked") -> Seen:
    request = Request(
        table=table,
        workload=made.workload,
        budget=Budget(Fraction(1)),
        rounds=1,
        unit=made.unit,
        rows_per_unit=made.rows_per_unit,
    )
    try:
        plan = make_plan(Session.of(con), request)
    except MwemError as refused:
        return Seen(str(refused), None, ())
    public = shown(plan)
    try:
        answers = execution.true_answers(execution.engine_of(con.cursor(), plan.relation), plan.pushdown)
    except EngineError as failed:
        return Seen((public, str(failed)), None, (), failed=True)
    split = queries_and_units(plan.pushdown, answers, made.rows_per_unit)
    return Seen(public, split, (*(int(bound) for bound in plan.problem.bounds()), 1))


def shown(plan: Plan) -> object:
    """What a call may show of a plan."""
    statements = [statement.sql("duckdb") for part in plan.pushdown.parts for statement in part.statements]
    return (
        statements,
        plan.relation.columns,
        sorted(plan.compiled.classes),
        [own.count for own in plan.compiled.classes.values()],
        repr(plan.schedule),
        len(plan.problem.queries),
    )


def compared(whole: Seen, part: Seen, rows_per_unit: int, met: Counter[str], case: object) -> float:
    """How far answers moved at most, of what neighbours show the same of; refused if they do not."""
    assert not whole.failed and not part.failed, case  # after the plan nothing fails, whatever a row is
    assert part.public == whole.public, case
    if whole.answers is None or part.answers is None:
        met["refused"] += 1
        return 0.0
    met["released"] += 1
    return largest_move(whole, part, rows_per_unit, case)


def largest_move(whole: Seen, part: Seen, rows_per_unit: int, case: object) -> float:
    """How far answers moved at most, as a part of what noise covers; refused if one moved by more."""
    return max(moves(whole, part, rows_per_unit, case))


def moves(whole: Seen, part: Seen, rows_per_unit: int, case: object) -> list[float]:
    """How far each answer moved, as a part of what noise covers; refused if one moved by more."""
    assert whole.answers is not None and part.answers is not None
    out = []
    for one, other, bound in zip(whole.answers, part.answers, whole.bounds, strict=True):
        moved = sum(abs(x - y) for x, y in zip(one, other, strict=True))
        allowed = bound * rows_per_unit
        assert moved <= allowed, (case, moved, allowed)
        out.append(moved / allowed)
    return out


def queries_and_units(pushdown: Pushdown, answers: Integers, rows_per_unit: int) -> tuple[tuple[int, ...], ...]:
    """The answers query by query.

    And, behind them, the counts of units, times what all others may be moved by: one unit moves these by 1 in all.
    """
    inside, units = pushdown.apart(answers)
    return (
        *(tuple(answer.tolist()) for answer in np.split(inside, pushdown.starts[1:])),
        tuple((units * rows_per_unit).tolist()),
    )


class Here:
    """Worlds in an instance, looked at where they are."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con

    def see(self, made: World, rows: Sequence[Row], folder: Path) -> Seen:
        """Raises DuckDB's error where the world's statements are none of its SQL."""
        try:
            for setting in made.settings:
                self._con.execute(setting)
            made.build(self._con, rows, folder)
            return look(self._con, made)
        finally:
            clean(self._con, made)


class There:
    """Worlds in a DuckDB file, which is then attached as a source of another instance."""

    def __init__(self, con: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self._con = con
        self._file = folder / "memory.duckdb"  # so that full names of worlds are those of the file
        con.execute(DOMAIN)

    def see(self, made: World, rows: Sequence[Row], folder: Path) -> Seen:
        self._file.unlink(missing_ok=True)
        with instance(str(self._file)) as con:
            made.build(con, rows, folder)
        mwem_sql.attach(self._con, "there", str(self._file))
        try:
            for setting in made.settings:
                self._con.execute(setting)
            return look(self._con, made, "there.main.asked")
        finally:
            mwem_sql.detach(self._con, "there")
            clean(self._con, made)


@contextmanager
def instance(path: str = ":memory:") -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with what worlds refer to."""
    with duckdb.connect(path, config={"threads": 1}) as con:
        con.execute("CREATE SEQUENCE seq; CREATE SCHEMA tools; CREATE TABLE base (a INTEGER)")
        con.execute(
            "CREATE MACRO peek(x) AS (SELECT max(a) FROM base); CREATE MACRO tools.peek(x) AS (SELECT max(a) FROM base)"
        )
        yield con


def clean(con: duckdb.DuckDBPyConnection, made: World) -> None:
    """Take back what the next world would meet."""
    for statement in (
        "DROP VIEW IF EXISTS asked",
        "DROP TABLE IF EXISTS asked",
        "DROP VIEW IF EXISTS middle",
        "RESET GLOBAL default_collation",
        "RESET GLOBAL TimeZone",
    ):
        _quietly(lambda statement=statement: con.execute(statement))
    if made.macro is not None:
        name = made.macro.split("(")[0]
        _quietly(lambda: con.execute(f"DROP MACRO IF EXISTS {name}"))


def _quietly(act: Callable[[], object]) -> None:
    with suppress(duckdb.Error):
        act()


def _literal(value: object) -> str:
    if isinstance(value, float) and math.isnan(value):
        return "'nan'::DOUBLE"
    return "NULL" if value is None else repr(value).upper() if isinstance(value, (bool, int, float)) else f"'{value}'"


def check_caught(broken: str, seeds: Sequence[int], ask: Callable[[int], object]) -> None:
    """What a broken rule lets through is caught for one of some seeds."""
    for number, seed in enumerate(seeds, start=1):
        try:
            ask(seed)
        except AssertionError:
            print(f"\n{broken}: caught in world {number}")
            return
    pytest.fail(f"{broken}: not caught")
