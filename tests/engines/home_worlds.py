"""Random trees of tables that keys join, and the same without one unit.

A world has homes, persons, visits and bills, in one schema. Keys have one or two columns, numbers or texts that differ
in their case only; some lead nowhere, or are NULL. Some tables are views of tables, and some trees must be refused: a
second path to the unit, a key that nothing keeps unique. What goes with a unit is worked out here, in Python, from the
rows alone.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import duckdb
from neighbours import Seen, largest_move, queries_and_units

from mwem_sql.errors import EngineError, MwemError
from mwem_sql.platform.session import Session
from mwem_sql.releases.levels import TablesRequest, plan_tree, same_rows
from mwem_sql.scan import execution
from mwem_sql.scan.engines.protocol import Snapshot
from mwem_sql.workload import Query, Workload

Row = dict[str, object]
Rows = dict[str, list[Row]]
NUMBERS, TEXTS = [0, 1, 2], ["x", "X", "y"]
QUESTIONS = [
    Query("a > 1", of="home"),
    Query(group_by=("b",), of="person"),
    Query(group_by=("a", "home.b"), of="person"),
    Query(group_by=("person.b", "b"), of="visit"),
    Query("home.a = 1", of="visit"),
    Query(group_by=("a", "b"), of="visit"),
    Query("person.a > a", of="bill"),
    Query(group_by=("b",), of="bill"),
]


@dataclass(frozen=True, kw_only=True)
class HomeWorld:
    """What a curator may have declared. `keys` are the columns by which rows of each table are told apart."""

    is_text: bool
    is_composite: bool
    collation: str
    extra: str
    bills_of: str
    views: tuple[str, ...]
    is_wide: bool
    most: dict[str, int]
    questions: tuple[Query, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(["home", "person", *(query.of for query in self.questions if query.of)]))

    @property
    def keys(self) -> dict[str, list[str]]:
        person = ["hid", "pid"] if self.is_composite else ["pid"]
        return {"home": ["hid"], "person": person, "visit": [*(person if self.is_wide else []), "vid"], "bill": []}

    def key(self, name: str, row: Row) -> list[object]:
        """What the engine keeps unique."""
        values = [row[column] for column in self.keys[name]]
        return [str(value).lower() if "ci" in self.collation else value for value in values]

    @property
    def foreign(self) -> dict[str, tuple[list[str], str]]:
        """By table the columns that lead to another, and that."""
        return {
            "person": (["hid"], "home"),
            "visit": (self.keys["person"], "person"),
            "bill": (self.keys[self.bills_of], self.bills_of),
        }

    @property
    def columns(self) -> dict[str, list[str]]:
        own = {"home": [], "person": ["hid"], "visit": self.keys["person"], "bill": self.keys[self.bills_of]}
        own["visit"] = [*own["visit"], *(["owner"] if self.has_owner else [])]
        return {name: [*dict.fromkeys([*self.keys[name], *own[name]]), "a", "b"] for name in own}

    @property
    def is_declared(self) -> bool:
        """Whether nothing but `mwem_keys` speaks of keys: several rows may have one."""
        return self.extra == "declared"

    @property
    def has_owner(self) -> bool:
        """Whether visits have a second path to a home."""
        return self.extra == "two paths"

    def types(self, text: str = "VARCHAR") -> dict[str, str]:
        kind = f"{text}{self.collation}" if self.is_text else "INTEGER"
        return {"hid": kind, "pid": kind, "owner": kind, "vid": "INTEGER", "a": "INTEGER", "b": text}

    def ddl(self, text: str = "VARCHAR") -> Iterator[str]:
        """With constraints, in SQL that DuckDB and PostgreSQL share."""
        types = self.types(text)
        for name, columns in self.columns.items():
            checks = {"a": " NOT NULL CHECK (a BETWEEN 0 AND 2)", "b": " CHECK (b IN ('x', 'y'))"}
            parts = [f"{column} {types[column]}{checks.get(column, '')}" for column in columns]
            if self.keys[name] and not self.is_declared:
                parts.append(f"PRIMARY KEY ({', '.join(self.keys[name])})")
            if name in self.foreign and not self.is_declared:
                leading, other = self.foreign[name]
                listed = ", ".join(leading)
                parts.append(f"FOREIGN KEY ({listed}) REFERENCES {self.table(other)} ({listed})")
            if self.has_owner and not self.is_declared and name == "visit":
                parts.append(f"FOREIGN KEY (owner) REFERENCES {self.table('home')} (hid)")
            yield f"CREATE TABLE {self.table(name)} ({', '.join(parts)})"
        if self.is_declared:
            named = "table_name VARCHAR, columns VARCHAR[], refers_to VARCHAR, refers_columns VARCHAR[]"
            yield f"CREATE TABLE mwem_keys ({named})"
        for name, (leading, other) in self.foreign.items() if self.is_declared else ():
            tables = [self.table(name), self.table(other)]
            yield f"INSERT INTO mwem_keys VALUES ('{tables[0]}', {leading}, '{tables[1]}', {leading})"
        for name in self.views:
            yield f"CREATE VIEW {name} AS SELECT * FROM {self.table(name)} WHERE a < 2"

    def table(self, name: str) -> str:
        """The table under a name of the call."""
        return f"{name}_rows" if name in self.views else name


def world(
    chance: random.Random, collation: str = " COLLATE NOCASE", declared: Sequence[str] = ("declared", "declared")
) -> HomeWorld:
    """One of many; with keys that are `declared` where an engine is to have them."""
    is_text = chance.random() < 0.5
    questions = [
        query
        for table in ("home", "person", "visit", "bill")
        for query in chance.sample([query for query in QUESTIONS if query.of == table], 1)
        if table in {"home", "person"} or chance.random() < 0.7
    ]
    if any(query.of == "bill" for query in questions) and all(query.of != "visit" for query in questions):
        questions.append(QUESTIONS[5])
    return HomeWorld(
        is_text=is_text,
        is_composite=chance.random() < 0.4,
        collation=chance.choice(["", collation]) if is_text else "",
        extra=chance.choice(["", "", "", "two paths", *declared]),
        is_wide=chance.random() < 0.5,
        bills_of=chance.choice(["person", "visit"]),
        views=tuple(name for name in ("home", "person", "visit", "bill") if chance.random() < 0.2),
        most={name: chance.randrange(1, 4) for name in ("person", "visit", "bill")},
        questions=tuple(questions),
    )


def random_rows(chance: random.Random, made: HomeWorld, *, dangling: bool = False) -> Rows:
    """Rows whose keys are unique; where the engine allows it some lead to rows that are not there."""
    values: list[object] = list(TEXTS) if made.is_text else list(NUMBERS)
    rows: Rows = {}
    for name, columns in made.columns.items():
        listed: list[Row] = []
        for number in range({"home": 3, "person": 6, "visit": 10, "bill": 14}[name]):
            row: Row = {"a": chance.randrange(3), "b": chance.choice(["x", "y", None]), "vid": number}
            row |= {column: chance.choice(values) for column in ("hid", "pid")}
            if name in made.foreign:
                leading, other = made.foreign[name]
                if dangling and chance.random() < 0.1:
                    pass
                elif chance.random() < 0.15:
                    row |= {column: None for column in leading if column not in made.keys[name]}
                elif rows[other]:
                    row |= {column: chance.choice(rows[other])[column] for column in leading[:1]}
                    fitting = [each for each in rows[other] if all(each[c] == row[c] for c in leading[:1])]
                    row |= {column: fitting[0][column] for column in leading}
            if rows.get("home"):
                row["owner"] = chance.choice(rows["home"])["hid"]
            row = {column: row.get(column) for column in columns}
            key = made.key(name, row)
            is_there = name not in made.foreign or dangling or _leads(made, name, row, rows) is not None
            has_null = name in made.foreign and any(row[column] is None for column in made.foreign[name][0])
            is_new = (
                not key
                or (made.is_declared and chance.random() < 0.3)
                or (None not in key and key not in [made.key(name, other) for other in listed])
            )
            if (is_there or has_null) and is_new:
                listed.append(row)
        rows[name] = listed
    return rows


def _leads(made: HomeWorld, name: str, row: Row, rows: Rows) -> Row | None:
    leading, other = made.foreign[name]
    return next((each for each in rows[other] if all(each[c] == row[c] for c in leading)), None)


def neighbours(made: HomeWorld, rows: Rows) -> Iterator[Rows]:
    """The same without one home and all that leads to it."""
    for unit in dict.fromkeys(row["hid"] for row in rows["home"]):
        out: Rows = {"home": [row for row in rows["home"] if row["hid"] == unit]}
        for name in ("person", "visit", "bill"):
            out[name] = [row for row in rows[name] if row.get("owner", out) == unit or _leads(made, name, row, out)]
        yield {name: [row for row in rows[name] if all(row is not each for each in out[name])] for name in out}


def literal(value: object) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


def inserts(made: HomeWorld, rows: Rows) -> Iterator[str]:
    for name, columns in made.columns.items():
        for row in rows[name]:
            values = ", ".join(literal(row[column]) for column in columns)
            yield f"INSERT INTO {made.table(name)} ({', '.join(columns)}) VALUES ({values})"


def look(con: duckdb.DuckDBPyConnection, made: HomeWorld, alias: str = "") -> Seen:
    """What a call shows before its debit, and the true answers of all tables."""
    tables = [f"{alias}{name}" for name in reversed(made.tables)]
    most = {name: made.most[name] for name in made.tables if name != "home"}
    try:
        request = TablesRequest.parse(tables, Workload(made.questions), 1, {"rows_per_unit": most})
        tree = plan_tree(Session.of(con), request)
    except MwemError as refused:
        return Seen(str(refused), None, ())
    pushdowns = [one.plan.pushdown for one in tree.levels]
    shown = [
        (one.level.name, one.plan.relation.columns, statement.sql())
        for one in tree.levels
        for part in one.plan.pushdown.parts
        for statement in part.statements
    ]

    def check(snapshot: Snapshot) -> execution.Fingerprint:
        assert same_rows(Session.of(con), request, tree, snapshot)
        return lambda: None

    try:
        engine = execution.engine_of(con.cursor(), tree.root.level.table)
        found = execution.all_answers(engine, pushdowns, check)
    except EngineError as failed:
        return Seen((shown, str(failed)), None, (), failed=True)
    split: list[tuple[int, ...]] = []
    bounds: list[int] = []
    for one, pushdown, answers in zip(tree.levels, pushdowns, found, strict=True):
        rows = one.request.rows_per_unit
        split += queries_and_units(pushdown, answers, rows)
        bounds += [*(int(bound) * rows for bound in one.plan.problem.bounds()), rows]
    return Seen(shown, tuple(split), tuple(bounds))


def compare(
    made: HomeWorld, rows: Sequence[Rows], see: Callable[[HomeWorld, Rows], Seen], met: Counter[str], case: object
) -> float:
    """How far answers move at most between the first rows and each of the others, as a part of what is allowed."""
    whole, reached = see(made, rows[0]), 0.0
    assert not whole.failed, case
    for fewer in rows[1:]:
        part = see(made, fewer)
        assert part.public == whole.public and not part.failed, case
        if whole.answers is None:
            met["refused"] += 1
            continue
        met["released"] += 1
        reached = max(reached, largest_move(whole, part, 1, case))
    return reached
