"""Random private relations of Spark: folders, links, spellings, options, settings, and what a call sees of them.

A world is built once for each set of rows, by the same steps in a folder of the same name, so that whatever a call
shows of it before a debit must be the same. Much of it must be refused. Tables are external: what is special about
managed ones is in test_spark.py.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from neighbours import Seen, queries_and_units
from pyarrow import orc

from mwem_sql.boundary.relations import Relation
from mwem_sql.boundary.sources import Facts
from mwem_sql.compile.compiled import Compiled
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import EngineError, MwemError
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.scan import execution
from mwem_sql.scan.dialects import DIALECTS
from mwem_sql.scan.dialects.dialect import Unit
from mwem_sql.scan.pushdown import plan_pushdown
from mwem_sql.workload import Workload

Row = tuple[Any, ...]
QUERIES: list[dict[str, str]] = [
    {"predicate": "a > 1"}, {"predicate": "b = 'x' OR a = 0"}, {"group_by": "a, b"}, {"group_by": "k"},
    {"measure": "a"}, {"predicate": "k = '1'", "measure": "a * 2 - 3"},
]  # fmt: skip
ARROW = {"id": pa.string(), "a": pa.int32(), "b": pa.string(), "k": pa.string()}
# Values of a partition column: some are of its declared type, some only look like folders, patterns or addresses.
ODD = [
    "1",
    "2",
    "x",
    "12345678.999",
    "a/b",
    "..",
    "[x]",
    "{1,2}",
    "*",
    "%31",
    "2020-01-01",
    "1e99",
    "true",
    "é",
    " ",
    "k=1",
    None,
]
TAME = ["1", "2", "3", None]
DECLARED = ["STRING", "STRING", "INT", "DECIMAL(3,1)", "DATE", "BOOLEAN", "DOUBLE"]
SPELLINGS = {
    "plain": "{folder}", "slash": "{folder}/", "dots": "{parent}/./x/../{name}", "doubled": "/{folder}",
    "scheme": "file:{folder}", "three slashes": "file://{folder}",
    "capital": "FILE:{folder}", "link": "{parent}/link", "relative": "./{relative}", "pattern": "{folder}*",
    "alternatives": "{parent}/{{{name},none}}",
    "host": "file://localhost{folder}", "other door": "viewfs:{folder}", "absent": "{folder}/none",
    "percent": "{parent}/%72ows",
}  # fmt: skip
SETTINGS = {
    "spark.sql.ansi.enabled": "true", "spark.sql.caseSensitive": "true", "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
    "spark.sql.sources.validatePartitionColumns": "true", "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoredPathSegmentRegex": "two", "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.sources.useV1SourceList": "", "spark.sql.orc.impl": "hive",
}  # fmt: skip
STEPS = [
    "none", "none", "none", "symbolic link", "hard link", "link to elsewhere", "hidden file", "subfolder",
    "other types", "more columns", "not a file of its kind", "views",
]  # fmt: skip
OPTIONS = [
    "",
    "",
    "",
    " OPTIONS (pathGlobFilter 'o*')",
    " OPTIONS (recursiveFileLookup 'true')",
    " OPTIONS (compression 'zstd')",
]


@dataclass
class World:
    """Where the rows are and how they are named."""

    kind: str
    is_table: bool
    is_partitioned: bool
    declared: str
    spelling: str
    step: str
    options: str
    unit: str | None
    rows_per_unit: int
    queries: tuple[int, ...]
    settings: dict[str, str] = field(default_factory=dict)

    def parts(self, folder: Path) -> list[str]:
        if self.is_table:
            return ["default", "world"]
        names = {"folder": folder, "parent": folder.parent, "name": folder.name, "relative": os.path.relpath(folder)}
        return [self.kind, SPELLINGS[self.spelling].format(**names)]

    def build(self, session: Any, rows: Sequence[Row], folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("link", "elsewhere.file"):
            (folder.parent / name).unlink(missing_ok=True)
        (folder.parent / "link").symlink_to(folder)
        ending = self.kind
        for name, mine in (("one", [row for row in rows if not row[1]]), ("two", [row for row in rows if row[1]])):
            if not self.is_partitioned:  # a file by its own value: no row moves when another goes
                self._write(mine, folder / f"{name}.{ending}")
                continue
            for value in {row[3] for row in mine}:
                inner = folder / f"k={_escaped(value)}"
                inner.mkdir(exist_ok=True)
                self._write([row for row in mine if row[3] == value], inner / f"{name}.{ending}")
        self._act(session, rows, folder)
        if self.is_table:
            columns = f"id STRING, a INT, b STRING, k {self.declared if self.is_partitioned else 'STRING'}"
            by = " PARTITIONED BY (k)" if self.is_partitioned else ""
            session.sql("DROP TABLE IF EXISTS world")
            session.sql(f"CREATE TABLE world ({columns}) USING {self.kind}{self.options}{by} LOCATION '{folder}'")
            if self.is_partitioned:
                session.sql("MSCK REPAIR TABLE world")

    def _write(self, rows: Sequence[Row], path: Path, types: dict[str, Any] = ARROW) -> None:
        names = [name for name in types if not (self.is_partitioned and name == "k")]
        places = {name: list(types).index(name) for name in names}
        table = pa.table({name: pa.array([row[places[name]] for row in rows], types[name]) for name in names})
        orc.write_table(table, path) if self.kind == "orc" else pq.write_table(table, path)

    def _act(self, session: Any, rows: Sequence[Row], folder: Path) -> None:
        first = next(iter(sorted(folder.rglob(f"*.{self.kind}"))), None)
        if first is None:
            return
        beside = first.with_name(f"zzz.{self.kind}")
        if self.step == "symbolic link":
            beside.symlink_to(first)
        elif self.step == "hard link":
            os.link(first, beside)
        elif self.step == "link to elsewhere":
            self._write([], folder.parent / "elsewhere.file")
            beside.symlink_to(folder.parent / "elsewhere.file")
        elif self.step == "hidden file":
            (folder / f"_hidden.{self.kind}").write_bytes(b"nothing")
            (folder / f".hidden.{self.kind}").write_bytes(b"nothing")
        elif self.step == "subfolder":
            (folder / "sub").mkdir()
            self._write([], folder / "sub" / f"zzz.{self.kind}")
        elif self.step == "other types":
            self._write([("p9", "text", "x", "1")], beside, {**ARROW, "a": pa.string()})
        elif self.step == "more columns":
            self._write([("p9", 1, "x", "1", 5)], beside, {**ARROW, "extra": pa.int32()})
        elif self.step == "not a file of its kind":
            beside.write_text("no such file")
        elif self.step == "views":
            session.sql(f"CREATE OR REPLACE TEMPORARY VIEW world AS SELECT {len(rows)} AS a, 'x' AS b")


def world(chance: random.Random) -> World:
    unit = chance.choice([None, None, "id"])
    is_table = chance.random() < 0.5
    return World(
        chance.choice(["parquet", "parquet", "orc"]), is_table, chance.random() < (0.6 if is_table else 0.2),
        chance.choice(DECLARED),
        chance.choice(list(SPELLINGS)) if chance.random() < 0.5 else "plain",
        chance.choice(STEPS) if chance.random() < 0.6 else "none", chance.choice(OPTIONS), unit,
        chance.randrange(1, 4) if unit else 1, tuple(sorted(chance.sample(range(len(QUERIES)), 2))),
        {name: SETTINGS[name] for name in chance.sample(sorted(SETTINGS), chance.randrange(3))},
    )  # fmt: skip


def random_rows(chance: random.Random) -> list[Row]:
    ids = chance.choice([[None, "p1", "P1", "é"], ["p1", "p2"]])
    values = chance.choice([ODD, TAME])
    return [
        (chance.choice(ids), chance.choice([None, -9, 0, 1, 2, 3, 77]), chance.choice([None, "x", "y", "X", "12"]),
            chance.choice(values))
        for _ in range(chance.randrange(2, 10))
    ]  # fmt: skip


def neighbours(chance: random.Random, made: World, rows: Sequence[Row], count: int) -> Iterator[list[Row]]:
    """The same rows without one of them, or without those of one unit.

    Some are left: that a folder has no file at all is seen.
    """
    for _ in range(count):
        gone = chance.choice(rows)
        left = [row for row in rows if row[0] != gone[0]] if made.unit else list(rows)
        if not made.unit:
            left.remove(gone)
        if left:
            yield left


@contextmanager
def configured(session: Any, made: World) -> Iterator[None]:
    """The user's session with the world's settings."""
    before = {name: session.conf.get(name) for name in made.settings}
    for name, value in made.settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)
        with suppress(Exception):
            session.catalog.dropTempView("world")


class _Opened:
    """A snapshot that is open already, as an engine."""

    timeout = None

    def __init__(self, snapshot: Any) -> None:
        self._snapshot = snapshot

    @contextmanager
    def snapshot(self) -> Iterator[Any]:
        yield self._snapshot


def look(spark: Any, made: World, folder: Path) -> tuple[Seen, Facts | None]:
    """What a call shows before its debit, and the true answers; and what the rows are known by."""
    try:
        with spark.snapshot() as snapshot:
            try:
                facts = snapshot.describe(made.parts(folder), "test")
            except MwemError as refused:
                return Seen(str(refused), None, ()), None
            types = tuple((column.name, column.type) for column in facts.columns)
            compiled = _compiled(types, made.queries)
            relation = Relation(
                name=Name("w", facts.schema, facts.table),
                columns=facts.columns,
                rows=facts.rows,
                declared=facts.declared,
            )
            unit = Unit("id", made.rows_per_unit, "VARCHAR") if made.unit else None
            queries = [query.linear for query in compiled.queries]
            pushdown = plan_pushdown(relation, compiled.classes, queries, unit, DIALECTS["spark"])
            statements = [statement.sql("spark") for part in pushdown.parts for statement in part.statements]
            shown = (facts.columns, facts.definition, statements)
            try:
                answers = execution.true_answers(_Opened(snapshot), pushdown)
            except EngineError as failed:
                return Seen((shown, str(failed)), None, ()), facts
            split = queries_and_units(pushdown, answers, made.rows_per_unit)
            bounds = (*(int(query.bound) for query in queries), 1)
            return Seen(shown, split, bounds), facts
    except MwemError:
        raise
    except Exception as broken:  # noqa: BLE001  what a call would show is not its text, but that it failed
        return Seen(f"not described: {type(broken).__name__}", None, ()), None


@cache
def _compiled(types: tuple[tuple[str, str], ...], asked: tuple[int, ...]) -> Compiled:
    known = dict(types)
    listed = {
        "a": Attribute("a", "INTEGER", True, low=0, high=3),
        "b": Attribute("b", "VARCHAR", True, values=("x", "y")),
    }
    columns = tuple(known)
    if known.get("k") == "VARCHAR":
        listed["k"] = Attribute("k", "VARCHAR", True, values=("1", "2", "x"))
    rows = [QUERIES[place] for place in asked]
    rows = [row for row in rows if "k" in listed or not any("k" in text.split() for text in row.values())]
    workload = Workload.from_rows(rows or [{"predicate": "a > 1"}])
    with Sandbox({"TimeZone": "UTC"}) as sandbox:
        return compile_workload(Domain("t", columns, tuple(listed.values())), workload, sandbox)


def _escaped(value: str | None) -> str:
    """The name of a partition's folder: what no file system takes is written as a number, a pattern as it is."""
    if value is None:
        return "__HIVE_DEFAULT_PARTITION__"
    return "".join(f"%{ord(letter):02X}" if letter in "/%=" or value == ".." else letter for letter in value)
