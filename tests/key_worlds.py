"""Random schemas of tables that keys connect, views along those keys, and the same without one unit.

A world has households, persons, visits and prescriptions, and a public table of codes. Keys are constraints, or rows of
`mwem_keys`, and then some rows refer to rows that are not there. Keys have one or two columns, numbers or texts that
differ in their case only, and NULLs. A unit is a row of one of the tables; what goes with it is worked out here, in
Python, from the rows alone. Much of it must be refused: two paths, cycles, joins that are on no key.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import duckdb

import mwem_sql
from mwem_sql.workload import Workload

Row = dict[str, object]
Rows = dict[str, list[Row]]
ABOVE = {"person": "household", "visit": "person", "rx": "visit"}
"""The table that each leads to."""
DOMAIN = """CREATE OR REPLACE TABLE asked_domain AS
    FROM (VALUES ('a', NULL, '-1', '3'), ('b', ['x', 'y', 'z'], NULL, NULL), ('c', ['x', 'y', 'z'], NULL, NULL))
    AS listed(attribute, "values", low, high)"""
QUERIES: list[dict[str, str]] = [
    {"predicate": "a > 1"},
    {"predicate": "b = 'x' OR c = 'y'"},
    {"group_by": "a, b"},
    {"group_by": "b, c"},
    {"measure": "a - 1", "group_by": "c"},
]
NUMBERS = [0, 1, 2, 3, 77]
TEXTS = ["x", "y", "z", "12", "2020-01-01"]


@dataclass
class KeyWorld:
    """What the curator may have declared, and what is asked of it. `unit` and the rest are those of a request."""

    unit: str | None
    rows_per_unit: int
    workload: Workload
    view: str
    base: str
    unit_table: str | None
    has_constraints: bool
    is_text: bool
    is_composite: bool
    collation: str
    extra: str
    declared: list[str] = field(default_factory=list)

    @property
    def person_key(self) -> list[str]:
        return ["pid", "cc"] if self.is_composite else ["pid"]

    def key(self, table: str) -> list[str]:
        return {"household": ["hid"], "person": self.person_key, "visit": ["vid"], "rx": ["rid"]}[table]

    def build(self, con: duckdb.DuckDBPyConnection, rows: Rows) -> None:
        kind = f"VARCHAR{self.collation}" if self.is_text else "INTEGER"
        for table in ("rx", "visit", "doctor", "person", "household"):
            con.execute(f"DROP TABLE IF EXISTS {table} CASCADE")
        con.execute("DROP TABLE IF EXISTS mwem_keys")
        person, other = ", ".join(self.person_key), ", cc INTEGER" if self.is_composite else ""
        ddl = {
            "household": f"hid {kind} PRIMARY KEY, a INTEGER, b VARCHAR",
            "person": f"pid {kind}{other}, hid {kind}, a INTEGER, b VARCHAR, boss {kind}, PRIMARY KEY ({person})",
            "doctor": f"did INTEGER PRIMARY KEY, pid {kind}{other}",
            "visit": f"vid INTEGER PRIMARY KEY, pid {kind}{other}, code INTEGER, did INTEGER, a INTEGER, b VARCHAR",
            "rx": "rid INTEGER PRIMARY KEY, vid INTEGER, a INTEGER, b VARCHAR",
        }
        keys = [
            ("person", ["hid"], "household", ["hid"]),
            ("visit", self.person_key, "person", self.person_key),
            ("rx", ["vid"], "visit", ["vid"]),
        ]
        if self.extra == "two paths":
            keys += [("doctor", self.person_key, "person", self.person_key), ("visit", ["did"], "doctor", ["did"])]
        if self.extra == "self" and not self.is_composite:
            keys.append(("person", ["boss"], "person", ["pid"]))
        for table, columns in ddl.items():
            references = [
                f", FOREIGN KEY ({', '.join(own)}) REFERENCES {to} ({', '.join(others)})"
                for child, own, to, others in keys
                if child == table and self.has_constraints
            ]
            con.execute(f"CREATE TABLE {table} ({columns}{''.join(references)})")
            listed = [name.split()[0] for name in columns.split(", PRIMARY KEY (")[0].split(", ")]
            for row in rows[table]:
                marks = ", ".join("?" for _ in listed)
                con.execute(f"INSERT INTO {table} VALUES ({marks})", [row.get(name) for name in listed])
        if not self.has_constraints:
            con.execute(
                "CREATE TABLE mwem_keys (table_name VARCHAR, columns VARCHAR[], refers_to VARCHAR, "
                "refers_columns VARCHAR[])"
            )
            con.executemany("INSERT INTO mwem_keys VALUES (?, ?, ?, ?)", keys)
        con.execute(f"CREATE OR REPLACE VIEW asked AS {self.view}")


def instance() -> duckdb.DuckDBPyConnection:
    """A database with a domain, and a public table of codes."""
    con = mwem_sql.connect(":memory:")
    con.execute(DOMAIN)
    con.execute("CREATE TABLE icd (code INTEGER PRIMARY KEY, other INTEGER, b VARCHAR)")
    con.execute("INSERT INTO icd VALUES (0, 0, 'x'), (1, 0, 'y'), (2, 0, 'z'), (3, 0, 'z')")
    con.execute("CALL mwem_public('icd')")
    return con


def world(chance: random.Random) -> KeyWorld:
    """One of many."""
    base = chance.choice(["person", "visit", "visit", "rx", "rx"])
    is_composite = chance.random() < 0.3
    extra = chance.choice(["", "", "", "", "two paths", "self", "wrong"])
    unit_table = chance.choice([None, "household", "household", "person", "person", "person", "visit"])
    unit = unit_table
    if unit_table == "person" and not is_composite and base == "visit" and chance.random() < 0.3:
        unit = "pid"
    view = _view(chance, base, is_composite, extra, unit == "pid")
    is_text = chance.random() < 0.5
    return KeyWorld(
        unit=unit,
        rows_per_unit=chance.randrange(1, 4) if unit else 1,
        workload=Workload.from_rows(chance.sample(QUERIES, chance.randrange(1, 4))),
        view=view,
        base=base,
        unit_table=unit_table,
        has_constraints=chance.random() < 0.5,
        is_text=is_text,
        is_composite=is_composite,
        collation=chance.choice(["", " COLLATE NOCASE"]) if is_text else "",
        extra=extra,
    )


def _view(chance: random.Random, base: str, is_composite: bool, extra: str, shows_pid: bool) -> str:
    """A view of a table and of some that it leads to, perhaps with one join that is on no key."""
    aliases, joins, here = [base], [], base
    keys = {"visit": ["vid"], "person": ["pid", "cc"] if is_composite else ["pid"], "household": ["hid"]}
    while here in ABOVE and chance.random() < 0.7:
        above = ABOVE[here]
        columns = keys[above]
        if extra == "wrong" and chance.random() < 0.5:
            columns = chance.choice([columns[:1], ["a"], [*columns, "a"], ["b"]])
        sort = chance.choice(["JOIN", "LEFT JOIN", "INNER JOIN", "JOIN"])
        if extra == "wrong" and chance.random() < 0.3:
            sort = chance.choice(["RIGHT JOIN", "FULL JOIN", "SEMI JOIN"])
        on = " AND ".join(f"{here}.{column} = {above}.{column}" for column in columns)
        joins.append(f"{sort} {above} ON {on}")
        aliases.append(above)
        here = above
    if base == "visit" and chance.random() < 0.4:
        column = "other" if extra == "wrong" and chance.random() < 0.5 else "code"
        joins.append(f"{chance.choice(['JOIN', 'LEFT JOIN'])} icd ON visit.code = icd.{column}")
        aliases.append("icd")
    if base == "visit" and extra == "two paths" and chance.random() < 0.6:
        joins.append("JOIN doctor ON visit.did = doctor.did")
    numbers = [alias for alias in aliases if alias != "icd"]
    a, b, c = chance.choice(numbers), chance.choice(aliases), chance.choice(aliases)
    items = [
        chance.choice([f"{a}.a", f"{a}.a + 1 - 1", f"abs({a}.a)", f"{b}.b::INTEGER", f"{a}.a + 2147483600"]) + " AS a",
        chance.choice([f"{b}.b", f"lower({b}.b)", f"{b}.b::DATE::VARCHAR", f"nullif({b}.b, {c}.b)"]) + " AS b",
        f"{c}.b AS c",
    ]
    if shows_pid:
        items.append("visit.pid")
    where = chance.choice(["", "", f" WHERE {a}.a > 0", f" WHERE {b}.b::INTEGER > 3 OR {c}.b <> 'x'"])
    return f"SELECT {', '.join(items)} FROM {base} {' '.join(joins)}{where}"


def random_rows(chance: random.Random, made: KeyWorld) -> Rows:
    """Rows of all tables. Without constraints some refer to what is not there."""
    ids: Sequence[object] = ["a", "A", "b", "B", "é", "É"] if made.is_text else [1, 2, 3, 4, 5, 6]

    def chosen(table: str, columns: Sequence[str], rows: Rows) -> dict[str, object]:
        """Values for a key: of a row that is there, of none, or NULL."""
        fate = chance.random()
        if fate < 0.15 or not rows[table]:
            return dict.fromkeys(columns)
        if fate < 0.3 and not made.has_constraints:
            strange = {"hid": chance.choice(ids), "pid": chance.choice(ids), "cc": 9, "vid": 99}
            return {column: strange[column] for column in columns}
        row = chance.choice(rows[table])
        values = {column: row[column] for column in columns}
        if fate < 0.4 and "cc" in values and not made.has_constraints:
            values["cc"] = None
        return values

    def values() -> Row:
        return {"a": chance.choice([None, *NUMBERS]), "b": chance.choice([None, *TEXTS])}

    rows: Rows = {"household": [], "person": [], "doctor": [], "visit": [], "rx": []}
    rows["household"] = [{"hid": each} | values() for each in chance.sample(ids, chance.randrange(1, 4))]
    for each in chance.sample(ids, chance.randrange(1, 5)):
        rows["person"].append({"pid": each, "cc": chance.randrange(2)} | chosen("household", ["hid"], rows) | values())
    for number in range(3):
        rows["doctor"].append({"did": number} | chosen("person", made.person_key, rows))
    for number in range(chance.randrange(1, 10)):
        row = {"vid": number, "code": chance.choice([None, 0, 1, 2, 8]), "did": chance.choice([None, 0, 1, 2])}
        rows["visit"].append(row | chosen("person", made.person_key, rows) | values())
    for number in range(chance.randrange(0, 12)):
        rows["rx"].append({"rid": number} | chosen("visit", ["vid"], rows) | values())
    return rows


def neighbours(chance: random.Random, made: KeyWorld, rows: Rows, count: int) -> Iterator[Rows]:
    """The same without one unit: a row and all that leads to it. Without a unit, without a row of the first table."""
    top = made.unit_table or made.base
    key = made.key(top)
    candidates = [_values(row, key) for row in rows[top]]
    child = next((table for table, above in ABOVE.items() if above == top), None)
    if child is not None and made.unit_table is not None:
        candidates += [_values(row, key) for row in rows[child]]  # some refer to a row that is not there
    candidates = [values for values in candidates if None not in values]
    for _ in range(count if candidates else 0):
        gone = chance.choice(candidates)
        left = dict(rows)
        table: str | None = top
        values = {gone}
        left[top] = [row for row in rows[top] if _values(row, key) != gone]
        while (table := next((one for one, above in ABOVE.items() if above == table), None)) is not None:
            own = made.key(ABOVE[table])
            removed = [row for row in rows[table] if _values(row, own) in values]
            left[table] = [row for row in rows[table] if row not in removed]
            values = {_values(row, made.key(table)) for row in removed}
        if made.extra == "two paths" and top != "visit":
            left = _without_doctors(made, left)
        yield left


def _without_doctors(made: KeyWorld, rows: Rows) -> Rows:
    """Doctors whose persons are gone go too, and what leads to them, so that constraints hold."""
    there = {_values(row, made.person_key) for row in rows["person"]}
    gone = [
        row for row in rows["doctor"]
        if None not in _values(row, made.person_key) and _values(row, made.person_key) not in there
    ]  # fmt: skip
    numbers = {row["did"] for row in gone}
    visits = [row for row in rows["visit"] if row["did"] not in numbers]
    kept = {row["vid"] for row in visits} | {None}
    return rows | {
        "doctor": [row for row in rows["doctor"] if row not in gone],
        "visit": visits,
        "rx": [row for row in rows["rx"] if row["vid"] in kept or not made.has_constraints],
    }


def _values(row: Row, columns: Sequence[str]) -> tuple[object, ...]:
    return tuple(row.get(column) for column in columns)
