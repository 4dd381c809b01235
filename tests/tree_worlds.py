"""Random trees of tables that keys join, what is asked of them together, and the same rows without one unit.

A root and up to three tables below it, at most two steps down, several below one. Keys are constraints, or rows of
`mwem_keys`, and then some rows refer to rows that are not there. They are numbers, or texts that differ in their case
only under a collation; with NULLs; of a table that refers by its own key; beside keys of two columns; to a column that
is not unique. A unit is a row of the root and all that leads to it, worked out here, in Python, from the rows alone.
Some must be refused (`WRONG`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import duckdb
from neighbours import Seen, queries_and_units, shown

import mwem_sql
from mwem_sql.errors import MwemError
from mwem_sql.language.dialect import quoted
from mwem_sql.platform.session import Session
from mwem_sql.releases.levels import TablesRequest, TreePlan, plan_tree
from mwem_sql.scan import execution
from mwem_sql.workload import Workload

Row = dict[str, object]
Rows = dict[str, list[Row]]
NAMES = ["person", "visit", "rx", "Home", "the bill", "größe"]
NUMBERS, TEXTS = [None, 0, 1, 2, 3, 77], [None, "x", "y", "z", "w"]
WRONG = [
    "a key to the table itself", "two parents", "two paths", "a circle", "a table is left out",
    "a column called as the table below", "two roots",
]  # fmt: skip
DEEPEST = 3


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key that leads from a table to another; declared in `mwem_keys` if it is not a constraint."""

    table: str
    columns: tuple[str, ...]
    refers_to: str
    refers_columns: tuple[str, ...]
    is_constraint: bool

    @property
    def constraint(self) -> str:
        there = f"{quoted(self.refers_to)} ({_listed(self.refers_columns)})"
        return f"FOREIGN KEY ({_listed(self.columns)}) REFERENCES {there}"

    def leads(self, row: Row, there: Row) -> bool:
        """Whether a row refers to another, by their values and not by a collation."""
        values = [row.get(column) for column in self.columns]
        return None not in values and values == [there.get(column) for column in self.refers_columns]


@dataclass(kw_only=True)
class Table:
    """The columns of a table by their types, and its keys. `depth` is 1 for the root."""

    name: str
    kind: str
    columns: dict[str, str]
    depth: int = 1
    above: tuple[str, ...] = ()
    """The tables above it, the nearest first."""
    unique: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)


@dataclass(kw_only=True)
class TreeWorld:
    """What the curator may have declared, and what is asked of it: `named` are the tables of the call."""

    root: str
    tables: dict[str, Table]
    keys: list[Key] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    rows_per_unit: int | dict[str, int] = 1
    workload: Workload | None = None
    wrong: str = ""

    def below(self, name: str) -> list[str]:
        return [each.name for each in self.tables.values() if each.above[:1] == (name,)]

    def build(self, con: duckdb.DuckDBPyConnection, rows: Rows) -> None:
        """A table refers to those before it, so that the last one goes first."""
        old = "FROM duckdb_tables() WHERE schema_name = 'main' AND table_name <> 'codes' ORDER BY table_oid DESC"
        for (name,) in con.execute(f"SELECT table_name {old}").fetchall():
            con.execute(f"DROP TABLE {quoted(name)}")
        for table in self.tables.values():
            items = [f"{quoted(column)} {kind}" for column, kind in table.columns.items()]
            items += [f"{kind} ({_listed(columns)})" for kind, columns in table.unique]
            items += [key.constraint for key in self.keys if key.table == table.name and key.is_constraint]
            con.execute(f"CREATE TABLE {quoted(table.name)} ({', '.join(items)})")
            con.execute(
                f"""CREATE TABLE {quoted(table.name + "_domain")} AS FROM (VALUES ('a', NULL, '-1', '3'),
                    ('b', ['x', 'y', 'z'], NULL, NULL)) AS listed(attribute, "values", low, high)"""
            )
            columns = [column for column, kind in table.columns.items() if " AS " not in kind]
            if rows[table.name]:
                con.executemany(
                    f"INSERT INTO {quoted(table.name)} ({_listed(columns)}) VALUES ({', '.join('?' for _ in columns)})",
                    [[row.get(column) for column in columns] for row in rows[table.name]],
                )
        declared = [key for key in self.keys if not key.is_constraint]
        if declared:
            con.execute(
                """CREATE TABLE mwem_keys (table_name VARCHAR, columns VARCHAR[], refers_to VARCHAR,
                   refers_columns VARCHAR[])"""
            )
            con.executemany(
                "INSERT INTO mwem_keys VALUES (?, ?, ?, ?)",
                [[key.table, list(key.columns), key.refers_to, list(key.refers_columns)] for key in declared],
            )


def instance() -> duckdb.DuckDBPyConnection:
    """A database with a public table of codes."""
    con = mwem_sql.connect(":memory:")
    con.execute("CREATE TABLE codes (code INTEGER PRIMARY KEY); INSERT INTO codes FROM range(4)")
    con.execute("CALL mwem_public('codes')")
    return con


def world(chance: random.Random) -> TreeWorld:
    """One of many."""
    names = chance.sample(NAMES, chance.randrange(2, 5))
    made = TreeWorld(root=names[0], tables={}, wrong=chance.choice(WRONG) if chance.random() < 0.25 else "")
    for name in names:
        _add_table(chance, made, name)
    made.named = chance.sample(names, len(names))
    _add_wrong(chance, made)
    if not made.wrong and chance.random() < 0.1:
        _add_loose(made, made.tables[names[-1]])
    if chance.random() < 0.2:  # what the root leads to is no part of a unit
        made.tables = {"town": Table(name="town", kind="INTEGER", columns=_columns("tid", "INTEGER"))} | made.tables
        made.tables["town"].unique.append(("PRIMARY KEY", ("tid",)))
        _add_key(made, names[0], "tid", ("town", "tid", "INTEGER"), is_constraint=True)
    if chance.random() < 0.2:
        _add_key(made, names[-1], "code", ("codes", "code", "INTEGER"), is_constraint=chance.random() < 0.5)
    made.rows_per_unit = chance.choice([1, 2, 3])
    if chance.random() < 0.5:
        made.rows_per_unit = {name.capitalize(): chance.choice([1, 2, 3]) for name in names[1:]}
    made.workload = Workload.from_rows(
        [
            _query(chance, made, name)
            for name in names
            for _ in range(chance.choice([0, 1, 2]) if name == names[0] else 1)
        ]
    )
    return made


def _columns(key: str, kind: str) -> dict[str, str]:
    return {key: kind, "a": "INTEGER", "b": "VARCHAR"}


def _add_table(chance: random.Random, made: TreeWorld, name: str) -> None:
    parents = [table for table in made.tables.values() if table.depth < DEEPEST]
    kind = chance.choice(["INTEGER", "VARCHAR", "VARCHAR COLLATE NOCASE", "VARCHAR COLLATE NOCASE"])
    table = Table(name=name, kind=kind, columns=_columns("id", kind))
    if not parents:
        table.unique.append((chance.choice(["PRIMARY KEY", "PRIMARY KEY", "UNIQUE"]), ("id",)))
    else:
        parent = chance.choice(parents)
        table.depth, table.above = parent.depth + 1, (parent.name, *parent.above)
        is_own = chance.random() < 0.15
        made.tables[name] = table
        if is_own:
            table.kind = table.columns["id"] = parent.kind
        column = "id" if is_own else f"{parent.name} id"
        _add_key(made, name, column, (parent.name, "id", parent.kind), is_constraint=chance.random() < 0.5)
        if is_own or chance.random() < 0.8:
            table.unique.append((chance.choice(["PRIMARY KEY", "UNIQUE"]), ("id",)))
    if table.unique and table.unique[0][0] == "UNIQUE" and chance.random() < 0.3:
        table.columns["part"] = "INTEGER"
        table.unique.append(("PRIMARY KEY", ("id", "part")))
    if chance.random() < 0.2:
        table.columns["g"] = "INTEGER AS (a + 1)"
    made.tables[name] = table
    if not table.unique:  # nothing can lead to it
        table.depth = DEEPEST


def _add_key(made: TreeWorld, table: str, column: str, to: tuple[str, str, str], *, is_constraint: bool) -> None:
    """A column that refers to a column of another table, of that type."""
    refers_to, other, kind = to
    made.tables[table].columns[column] = kind
    made.keys.append(
        Key(table=table, columns=(column,), refers_to=refers_to, refers_columns=(other,), is_constraint=is_constraint)
    )


def _add_loose(made: TreeWorld, table: Table) -> None:
    """A key in the place of a table's own, to a column that nothing keeps unique: refused, or few rows are read."""
    made.keys = [key for key in made.keys if key.table != table.name]
    _add_key(made, table.name, "loose", (table.above[0], "a", "INTEGER"), is_constraint=False)


def _add_wrong(chance: random.Random, made: TreeWorld) -> None:
    """What must be refused, if the tree has room for it."""
    names, wrong = list(made.tables), made.wrong
    root, last = made.tables[names[0]], made.tables[names[-1]]
    is_constraint = chance.random() < 0.5
    if wrong == "a key to the table itself" and root.unique:
        _add_key(made, root.name, "boss", (root.name, "id", root.kind), is_constraint=is_constraint)
    elif wrong == "two parents" and len(names) > 2:
        others = [made.tables[name] for name in names[:-1] if name not in last.above[:1] and made.tables[name].unique]
        other = chance.choice(others or [root])
        _add_key(made, last.name, "second", (other.name, "id", other.kind), is_constraint=is_constraint)
    elif wrong == "two paths":
        doctor = Table(name="doctor", kind="INTEGER", columns=_columns("did", "INTEGER"))
        doctor.unique.append(("PRIMARY KEY", ("did",)))
        made.tables = {root.name: root, "doctor": doctor} | made.tables
        _add_key(made, "doctor", "root", (root.name, "id", root.kind), is_constraint=is_constraint)
        _add_key(made, last.name, "did", ("doctor", "did", "INTEGER"), is_constraint=is_constraint)
    elif wrong == "a circle" and last.unique:
        _add_key(made, root.name, "last", (last.name, "id", last.kind), is_constraint=False)
    elif wrong == "a table is left out" and any(map(made.below, names[1:])):
        made.named.remove(next(name for name in names[1:] if made.below(name)))
    elif wrong == "a column called as the table below":
        made.tables[last.above[0]].columns[last.name.capitalize()] = "INTEGER"
    elif wrong == "two roots":
        made.tables["alone"] = Table(name="alone", kind="INTEGER", columns=_columns("id", "INTEGER"))
        made.tables["alone"].unique.append(("PRIMARY KEY", ("id",)))
        made.named.append("alone")
    else:
        made.wrong = ""


def _query(chance: random.Random, made: TreeWorld, name: str) -> dict[str, str]:
    """A row of the workload about rows of a table, and what is above and below it."""
    table = made.tables[name]
    above = [f"{quoted(other)}." for other in table.above]
    numbers = ["a", *(f"{other}a" for other in above), *map(quoted, made.below(name))]
    texts = ["b", *(f"{other}b" for other in above)]
    number, text = chance.choice(numbers), chance.choice(texts)
    row = chance.choice(
        [
            {"predicate": f"{number} > {chance.randrange(3)}"},
            {"predicate": f"{text} = 'x' OR {number} >= 2"},
            {"group_by": f"{text}, {number}"},
            {"group_by": f"{number}, {chance.choice(numbers)} > 1"},
            {"group_by": text, "predicate": f"{number} BETWEEN 1 AND 2"},
            {"measure": f"{number} - 1", "group_by": text},
        ]
    )
    return row | {"of": chance.choice([name, name.capitalize()])}


def random_rows(chance: random.Random, made: TreeWorld) -> Rows:
    """Rows of all tables. Without constraints some refer to what is not there; one unit has many."""
    rows: Rows = {name: [] for name in made.tables}
    rows["codes"] = [{"code": number} for number in range(4)]
    for table in made.tables.values():
        ids: list[object] = list("aAbBcCdDéÉßœ") if table.kind != "INTEGER" else list(range(12))
        keys = [key for key in made.keys if key.table == table.name]
        is_root = not table.above
        heavy = chance.random()
        for _ in range(chance.randrange(4, 13) if is_root else chance.randrange(0, 17)):
            row: Row = {column: _value(chance, column, kind) for column, kind in table.columns.items()}
            for key in keys:
                there = rows[key.refers_to]
                fate = chance.random()
                if fate < 0.1 or not there:
                    row |= dict.fromkeys(key.columns)
                elif fate < 0.2 and not key.is_constraint:
                    row |= {column: _value(chance, "id", table.columns[column]) for column in key.columns}
                else:
                    to = there[0] if chance.random() < heavy else chance.choice(there)
                    row |= {one: to.get(two) for one, two in zip(key.columns, key.refers_columns, strict=True)}
            if not any("id" in key.columns for key in keys):
                row["id"] = chance.choice(ids)
            if _fits(table, rows[table.name], row):
                rows[table.name].append(row)
    return rows


def _value(chance: random.Random, column: str, kind: str) -> object:
    if column == "id":
        return chance.choice([None, "a", "A", "b", "q"] if kind.startswith("VARCHAR") else [None, 1, 2, 3, 99])
    return chance.choice(TEXTS if kind.startswith("VARCHAR") else NUMBERS)


def _fits(table: Table, rows: Sequence[Row], row: Row) -> bool:
    """Whether the table's own keys take a row."""
    for kind, columns in table.unique:
        values = [row.get(column) for column in columns]
        if None in values and kind == "PRIMARY KEY":
            return False
        if None not in values and values in ([each.get(column) for column in columns] for each in rows):
            return False
    return True


def neighbours(chance: random.Random, made: TreeWorld, rows: Rows, count: int) -> Iterator[Rows]:
    """The same without one unit: a row of the root, there or not, and all rows that lead to it."""
    most, *others = [*([row] for row in rows[made.root]), [{"id": "q"}, {"id": 99}]]  # the last are not there
    for unit in [most, *chance.sample(others, min(count - 1, len(others)))]:
        gone: dict[str, list[Row]] = {name: [] for name in rows}
        gone[made.root] = unit
        before = -1
        while before < (before := sum(map(len, gone.values()))):
            for name, there in rows.items():
                ways = [key for key in made.keys if key.table == name]
                gone[name] += [
                    row
                    for row in there
                    if not any(row is other for other in gone[name])
                    and any(key.leads(row, other) for key in ways for other in gone[key.refers_to])
                ]
        yield {
            name: [row for row in there if not any(row is other for other in gone[name])]
            for name, there in rows.items()
        }


def planned(con: duckdb.DuckDBPyConnection, made: TreeWorld) -> tuple[object, TreePlan | None]:
    """What a call shows before its debit, and its plan; None where it refuses."""
    assert made.workload is not None
    try:
        request = TablesRequest.parse(
            [quoted(name) for name in made.named], made.workload, 1, {"rows_per_unit": made.rows_per_unit}
        )
        tree = plan_tree(Session.of(con), request)
    except MwemError as refused:
        return str(refused), None
    return [(one.level.name, one.request.rows_per_unit, shown(one.plan)) for one in tree.levels], tree


def answered(con: duckdb.DuckDBPyConnection, tree: TreePlan) -> list[Seen]:
    """The true answers of each level; nothing that is read may fail."""
    pushdowns = [one.plan.pushdown for one in tree.levels]
    answers = execution.all_answers(execution.engine_of(con.cursor(), tree.root.level.table), pushdowns)
    return [
        Seen(
            (),
            queries_and_units(one.plan.pushdown, own, one.request.rows_per_unit),
            (*map(int, one.plan.problem.bounds()), 1),
        )
        for one, own in zip(tree.levels, answers, strict=True)
    ]


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(quoted, columns))
