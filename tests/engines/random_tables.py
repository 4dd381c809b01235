"""Random private tables with every awkward value, a public domain and a workload; and the same rows in every engine."""

from __future__ import annotations

import math
import random
import uuid
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp

from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.workload import Query, Workload

# Texts that some collation, some normalisation or some padding takes for each other.
TEXTS = [
    "a", "A", "b", "B", "", " ", "a ", "a  ", " a", "é", "e\u0301", "E\u0301", "ß", "ss", "ﬀ", "ff", "İ", "i", "I",
    "\u0131", "ñ", "n\u0303", "😀", "Z", "z", "\u00a0", "a\u200d", "it's", 'say "x"', "back\\slash", "%", "_", "10",
    "9", "ä", "Å", "\u212b", "æ", "ae", "\ud7ff", "\uffee", "𐀀",
]  # fmt: skip
LABELS = ["low", "mid", "high", "Mid", "n/a"]
UUIDS = [str(uuid.UUID(int=number * 7919**7 % 2**128)) for number in range(6)]
FLOATS = [
    0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, -5e-324, 0.1, 0.2, 0.30000000000000004, 0.3, 1.0,
    math.nextafter(1.0, 2), 1e308, -1e308,
]  # fmt: skip
DAY, INSTANT = date(2020, 2, 28), datetime(2020, 3, 29, 0, 59, 59, 999_999)  # noqa: DTZ001

TYPES: dict[str, tuple[str, str, pa.DataType]] = {
    # Some names are also names inside our statements: v0, c0, n, s.
    # column: DuckDB's type, PostgreSQL's, and Arrow's, from which Spark has its own
    "i": ("INTEGER", "integer", pa.int32()), "v0": ("BIGINT", "bigint", pa.int64()),
    "s": ("SMALLINT", "smallint", pa.int16()),
    "n": ("DECIMAL(38,10)", "numeric(38,10)", pa.decimal128(38, 10)),
    "c0": ("DECIMAL(12,3)", "numeric(12,3)", pa.decimal128(12, 3)), "x": ("DOUBLE", "double precision", pa.float64()),
    "f": ("FLOAT", "real", pa.float32()),
    "yes": ("BOOLEAN", "boolean", pa.bool_()), "t": ("VARCHAR", "text", pa.string()),
    "ci": ("VARCHAR", 'text COLLATE "ci"', pa.string()),
    "kind": ("ENUM('low', 'mid', 'high', 'Mid', 'n/a')", "kind", pa.string()), "d": ("DATE", "date", pa.date32()),
    "ts": ("TIMESTAMP", "timestamp", pa.timestamp("us")),
    "tz": ("TIMESTAMP WITH TIME ZONE", "timestamptz", pa.timestamp("us", "UTC")),
    "id": ("UUID", "uuid", pa.string()), "person": ("INTEGER", "integer", pa.int32()),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A table's columns, what is declared of them, and what is asked."""

    columns: dict[str, list[Any]]
    domain: Domain
    workload: Workload


def value(rng: random.Random, name: str) -> Any:
    if name in {"i", "s"}:
        return rng.choice([rng.randint(-5, 30), rng.randint(-300, 300), -32768, 32767, 0])
    if name == "v0":
        return rng.choice([rng.randint(-5, 30), 2**62, -(2**62), 2**63 - 1, -(2**63), 2**53 + 1])
    if name == "c0":
        return Decimal(rng.choice([rng.randint(-2000, 30_000), 10**12 - 1, -(10**12) + 1, 1, 0])).scaleb(-3)
    if name == "n":
        return Decimal(rng.choice([rng.randint(-50, 2000), 10**38 - 1, -(10**38) + 1, 2**63, 10**30])).scaleb(
            -10, Context(prec=60)
        )
    if name in {"x", "f"}:
        found = rng.choice([rng.choice(FLOATS), rng.uniform(-1, 2), rng.randint(0, 8) / 4])
        return float(np.float32(found)) if name == "f" and abs(found) < 1e38 else (found if name == "x" else 0.1)
    if name == "yes":
        return rng.random() < 0.3
    if name in {"t", "ci"}:
        return rng.choice(TEXTS)
    if name == "kind":
        return rng.choice(LABELS)
    if name == "d":
        return rng.choice(
            [DAY + timedelta(days=rng.randint(-40, 40)), date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10)]
        )
    if name in {"ts", "tz"}:
        near = INSTANT + timedelta(microseconds=rng.choice([0, 1, -1, 10**6, -(10**6), rng.randint(-(10**13), 10**13)]))
        ends = [datetime(1, 1, 2), datetime(9999, 12, 30), datetime(1969, 12, 31, 23, 59, 59, 999_999)]  # noqa: DTZ001
        found = rng.choice([near, *ends])
        return found if name == "ts" else found.replace(tzinfo=timezone.utc)
    if name == "id":
        return rng.choice(UUIDS)
    return rng.randint(0, 40)


def declared(rng: random.Random, name: str) -> Attribute:
    """A random public domain of a column, from a list or from bounds."""
    kind = TYPES[name][0]
    nullable = rng.random() < 0.6

    def listed(values: list[str], most: int = 12) -> Attribute:
        some = rng.sample(values, rng.randint(1, min(most, len(values))))
        is_open = kind == "VARCHAR" and nullable and rng.random() < 0.5
        return Attribute(name, kind, nullable, values=tuple(some), open=is_open)

    if name in {"t", "ci"}:
        return listed(TEXTS, 40)
    if name == "kind":
        return Attribute(name, kind, nullable, values=tuple(rng.sample(LABELS, rng.randint(1, 5))))
    if name == "id":
        return listed(UUIDS)
    if name == "yes":
        return Attribute(name, kind, nullable, values=("false", "true"))
    if name in {"i", "s", "v0"}:
        if rng.random() < 0.3:
            return listed([str(number) for number in range(-3, 12)])
        low = rng.randint(-10, 5)
        return Attribute(name, kind, nullable, low=low, high=low + rng.choice([0, 1, 17, 300, 1200]))
    if name == "c0":
        if rng.random() < 0.3:
            return listed(["0.000", "0.001", "1.500", "-2.000", "12.345"])
        low = rng.randint(-1000, 500)
        return Attribute(name, kind, nullable, low=low, high=low + rng.choice([1, 900, 20_000]))
    if name == "n":
        return Attribute(name, kind, nullable, low=rng.randint(-20, 0), high=rng.choice([10, 1500]))
    if name in {"x", "f"}:
        if rng.random() < 0.2:
            return listed(["0.0", "0.25", "1.0", "0.5", "inf", "nan", "-inf"])
        return Attribute(name, kind, nullable, low=rng.choice([-1.0, 0.0, -0.5]), high=rng.choice([1.0, 1.5, 2.0]))
    if name == "d":
        if rng.random() < 0.3:
            return listed([(DAY + timedelta(days=k)).isoformat() for k in range(6)])
        low = (DAY - date(1970, 1, 1)).days - rng.randint(0, 30)
        return Attribute(name, kind, nullable, low=low, high=low + rng.choice([0, 30, 700]))
    low = (INSTANT - datetime(1970, 1, 1)) // timedelta(microseconds=1) - rng.choice([0, 10**6, 10**12])  # noqa: DTZ001
    return Attribute(name, kind, nullable, low=low, high=low + rng.choice([1, 2 * 10**6, 2 * 10**12]))


def predicate(rng: random.Random, attribute: Attribute) -> str:
    """A random condition on one column, in DuckDB's SQL."""
    name, kind = attribute.name, attribute.type
    constant = _constant(rng, attribute)
    other = _constant(rng, attribute)
    forms = [f"{name} IS NULL", f"{name} = {constant}", f"{name} IN ({constant}, {other})", f"{name} <> {constant}"]
    if attribute.values is None or kind in {"VARCHAR", "DATE"}:
        forms += [f"{name} >= {constant}", f"{name} < {constant}", f"{name} BETWEEN {constant} AND {other}"] * 2
    if kind == "VARCHAR":
        forms += [
            f"lower({name}) = lower({constant})",
            f"{name} LIKE 'a%'",
            f"length({name}) > 1",
            f"trim({name}) = {constant}",
        ]
    if kind == "BOOLEAN":
        forms = [name, f"NOT {name}", f"{name} IS NULL"]
    if kind in {"INTEGER", "SMALLINT", "BIGINT"}:
        forms += [f"{name} % 3 = 1", f"{name} * 2 > {constant}"]
    if kind == "DATE":
        forms += [f"month({name}) = 2", f"dayofweek({name}) = 3"]
    return rng.choice(forms)


def _constant(rng: random.Random, attribute: Attribute) -> str:
    if attribute.values is not None:
        text = rng.choice(attribute.values)
    else:
        assert attribute.low is not None and attribute.high is not None
        spread = attribute.high - attribute.low
        tick: Any = attribute.low + (spread * rng.random() if isinstance(spread, float) else rng.randint(0, spread))
        if attribute.type == "FLOAT":
            tick = float(np.float32(tick))
        text = attribute.text(tick)
    return exp.cast(exp.Literal.string(text), exp.DataType.build(attribute.type, dialect="duckdb")).sql("duckdb")


def make(seed: int, rows: int = 300, queries: int = 60) -> Case:
    rng = random.Random(seed)
    names = rng.sample([name for name in TYPES if name != "person"], rng.randint(4, 9))
    nulls = rng.choice([0.0, 0.1, 0.5])
    columns = {
        name: [None if name != "person" and rng.random() < nulls else value(rng, name) for _ in range(rows)]
        for name in [*names, "person"]
    }
    attributes = tuple(declared(rng, name) for name in names)
    asked: list[Query] = []
    for number in range(queries):
        some = rng.sample(attributes, min(len(attributes), rng.choice([1, 1, 2, 2, 3])))
        parts = [predicate(rng, attribute) for attribute in some]
        text = rng.choice([" AND ", " OR ", " AND NOT "]).join(f"({part})" for part in parts)
        measure = None
        numbers = [own for own in attributes if own.type in {"INTEGER", "SMALLINT"} and own.values is None]
        if numbers and rng.random() < 0.2:
            measure = rng.choice(numbers).name
        asked.append(Query(text, measure=measure, name=f"q{number}"))
    few = [own for own in attributes if (own.cells or 10**9) <= 60]
    for k, own in enumerate(few):
        asked.append(Query(group_by=(own.name,)))
        asked += [Query(group_by=(own.name, other.name)) for other in few[k + 1 :]]
    triples = [some for some in combinations(few, 3) if math.prod(own.cells or 1 for own in some) <= 5000]
    asked += [Query(group_by=tuple(own.name for own in some)) for some in triples[:12]]
    ranged = [
        own for own in attributes if own.values is None and isinstance(own.low, int) and own.cells and own.cells > 900
    ]
    for own in ranged[:1]:  # cut so often that no tree of comparisons will do
        assert isinstance(own.low, int)
        asked += [
            Query(f"{own.name} < CAST('{own.text(own.low + k)}' AS {own.type})")
            for k in range(1, min(700, own.cells or 0))
        ]
    return Case(columns, Domain("rows", tuple(names), attributes), Workload(tuple(asked)))


def arrow(case: Case) -> pa.Table:
    return pa.table({name: pa.array(values, TYPES[name][2]) for name, values in case.columns.items()})


def into_duckdb(con: duckdb.DuckDBPyConnection, case: Case, table: str) -> None:
    listed = ", ".join(f'"{name}" {TYPES[name][0]}' for name in case.columns)
    con.execute(f'CREATE OR REPLACE TABLE "{table}" ({listed})')
    view = con.from_arrow(arrow(case))
    shown = ", ".join(f'CAST("{name}" AS {TYPES[name][0]})' for name in case.columns)
    view.query("arrived", f'INSERT INTO "{table}" SELECT {shown} FROM arrived')


def into_postgresql(cursor: Any, case: Case, table: str) -> None:
    cursor.execute(f'DROP TABLE IF EXISTS "{table}"')
    listed = ", ".join(f'"{name}" {TYPES[name][1]}' for name in case.columns)
    cursor.execute(f'CREATE TABLE "{table}" ({listed})')
    rows = zip(*([_literal(item) for item in values] for values in case.columns.values()), strict=True)
    cursor.execute(f'INSERT INTO "{table}" VALUES ' + ", ".join(f"({', '.join(row)})" for row in rows))


def _literal(item: Any) -> str:
    if item is None:
        return "NULL"
    if isinstance(item, float):
        return f"'{item!r}'"
    if isinstance(item, (bool, int, Decimal)):
        return f"'{item}'"
    return exp.Literal.string(str(item)).sql("postgres")


def into_parquet(case: Case, folder: Path, files: int = 3) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = arrow(case)
    size = -(-table.num_rows // files)
    for number in range(files):
        pq.write_table(table.slice(number * size, size), folder / f"{number}.parquet")
