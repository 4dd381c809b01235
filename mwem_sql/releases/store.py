"""The store: what a release leaves behind in its database, how it is written and read back.

That is the output table, and rows of mwem.releases, mwem.measurements, mwem.workloads, mwem.factors, mwem.bounds and
mwem.certificates beside it. All of it is written in one transaction and read back into a state that answers new
questions. Must not be given anything private.

A row of mwem.measurements describes itself by blocks, as a `LinearQuery` has them: the cells of a block are stretches
of its attributes' class combinations, in row-major order, and a value belongs to one cell of every block. Classes are
the stored ones: groups of the state. A detail is about one attribute's pieces instead, which are finer, and so is a
measurement that distinguishes classes of a group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property
from itertools import count
from math import prod
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from mwem_sql.algebra.arrays import Labels
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.measurement import KINDS, NOISE, Measurement
from mwem_sql.compile.read import Shapes
from mwem_sql.domains.classes import Classes
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import MwemError, OutputError, TableError, legible, refuse
from mwem_sql.kernel.scales import variance
from mwem_sql.language.dialect import fold
from mwem_sql.language.ticks import cast
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Name, Place
from mwem_sql.platform.metadata import SCHEMA, check_types, holders, prepare, read_rows, rows_if_any
from mwem_sql.platform.sandbox import Settings
from mwem_sql.platform.session import lock, transaction, use
from mwem_sql.releases import ddl, grid, kept, summary
from mwem_sql.synthesis.values import SyntheticRows
from mwem_sql.workload import Workload

MOST_SETTINGS = 8
"""Settings under which the shapes of questions are remembered with a release. More: memory."""
Value = TypeVar("Value")

MEASUREMENTS = pa.schema(
    {
        "step": pa.int32(), "purpose": pa.string(), "query": pa.int32(), "name": pa.string(), "noise": pa.string(),
        "scale": pa.float64(), "resolution": pa.float64(), "values": pa.large_list(pa.int64()),
        "blocks": pa.list_(
            pa.struct(
                {
                    "attributes": pa.list_(pa.string()), "shape": pa.list_(pa.int32()), "size": pa.int32(),
                    "begins": pa.large_list(pa.int32()), "cells": pa.large_list(pa.int32()),
                    "adds": pa.large_list(pa.int64()),
                }
            )
        ),
    }
)  # fmt: skip
"""The rows of mwem.measurements: `encode` writes them, `decode` reads them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Stored:
    """A release as it was stored: its facts, and what is needed to answer from it."""

    name: Name
    facts: Mapping[str, Any]
    domain: Domain
    classes: dict[str, Classes]
    factors: pa.Table
    number: int = field(default_factory=count().__next__)
    """No other one ever has it."""
    _shapes: dict[Settings, Shapes] = field(default_factory=dict, repr=False)

    def state(self) -> State | Mixture:
        """The caller's own: it shares the weights, and a reader of a state brings parts of it up to date."""
        return self._state.copy()

    def shapes(self, settings: Settings) -> Shapes:
        """The shapes of questions that were asked of it under these settings."""
        if settings not in self._shapes and len(self._shapes) == MOST_SETTINGS:
            self._shapes.clear()
        return self._shapes.setdefault(settings, Shapes())

    @cached_property
    def _state(self) -> State | Mixture:
        order = list(self.classes)
        with legible(damaged(self.name)):
            self._check_factors()
            if self.factors.column("state").to_pylist().count(0) == self.factors.num_rows:
                return State.from_table(self.factors.drop_columns(["state"]), order)
            return Mixture.from_table(self.factors, order)

    def _check_factors(self) -> None:
        """Factors over all classes of all attributes, whatever was changed by hand. The state checks its weights."""
        counts = {name: classes.count for name, classes in self.classes.items()}
        seen: dict[int, set[str]] = {}
        for row in self.factors.select(["state", "attributes", "shape"]).to_pylist():
            seen.setdefault(row["state"], set()).update(row["attributes"])
            if row["shape"] != [counts[name] for name in row["attributes"]]:
                raise ValueError("a factor of another shape")
        if not seen or any(names != set(counts) for names in seen.values()):
            raise ValueError("a state of other attributes")


@dataclass(frozen=True)
class Withdrawal:
    """When a release was withdrawn, by whom and why."""

    withdrawn: datetime
    who: str
    reason: str

    def __str__(self) -> str:
        return f"on {self.withdrawn:%Y-%m-%d %H:%M:%S} UTC by {self.who}: {self.reason}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Content:
    """What is stored under one name: facts, synthetic rows, and what goes into the tables of the schema mwem.

    `off` are sentences of rows off the domain, for the comment on the table.
    """

    facts: Mapping[str, Any]
    rows: SyntheticRows
    tables: Mapping[str, pa.Table]
    off: Sequence[str]
    name: Name


def write(con: duckdb.DuckDBPyConnection, contents: Sequence[Content]) -> list[int]:
    """Store everything in one transaction and return the releases' numbers. Outputs of an older version are replaced.

    All are in one database; one comes before those whose rows refer to it. A table of such a name which is not an older
    version makes it fail: it appeared after the release was checked.
    """
    database = contents[0].name.database
    prepare(con, database, "metadata.sql")
    # The lock: two releases at once would take the same number.
    with lock("mwem.releases"), transaction(con):
        ((number,),) = con.execute("SELECT coalesce(max(release), 0) FROM releases").fetchall()
        for content in reversed(contents):
            if releases_of(con, content.name, 1):
                con.execute(ddl.drop(content.name))
        for release, content in enumerate(contents, start=int(number) + 1):
            name = content.name
            write_table(con, name, {**content.facts, "release": release}, content.rows, content.off)
            use(con, Place(database, SCHEMA))
            row = {**content.facts, "output": str(name), "schema_name": name.schema, "table_name": name.table}
            _append(con, "releases", release, pa.Table.from_pylist([row]))
            for table, rows in content.tables.items():
                _append(con, table, release, rows)
    return list(range(int(number) + 1, int(number) + 1 + len(contents)))


def write_table(
    con: duckdb.DuckDBPyConnection, name: Name, facts: Mapping[str, Any], rows: SyntheticRows, off: Sequence[str] = ()
) -> None:
    """The synthetic rows, each column cast to its type, with comments. To be called in a transaction.

    The table's schema may be the current one then. DuckDB asks for batches as it writes them.
    """
    typed = [
        exp.alias_(cast(exp.column(batch_name), kind), column, quoted=True)
        for batch_name, (column, kind) in zip(rows.reader.schema.names, rows.types.items(), strict=True)
    ]
    select: exp.Expr = exp.select(*typed).from_(exp.table_("__mwem_rows"))
    statement: exp.Expr = exp.Create(this=name.tree(), kind="TABLE", expression=select)
    if rows.keys:
        use(con, Place(name.database, name.schema))
        con.execute(ddl.create(name, rows.types, rows.keys))
        statement = exp.Insert(this=name.tree(), expression=select)
    con.register("__mwem_rows", rows.reader)
    con.execute(statement.sql("duckdb"))
    domain = Domain.from_json(json.loads(facts["domain"]))
    classes = grid.from_json(domain, json.loads(facts["grid"]))
    shown = {column: of_column for column, of_column in classes.items() if column in rows.types}
    summary.comment(con, name, facts, shown, off)


def _append(con: duckdb.DuckDBPyConnection, table: str, release: int, rows: pa.Table) -> None:
    if rows.num_rows:
        con.register("__mwem_rows", rows)
        con.execute(_insertion(table), [release])


@cache
def _insertion(table: str) -> str:
    """Kept: to write it takes as long as to run it."""
    source = exp.select(exp.alias_(exp.Placeholder(), "release"), exp.Star()).from_(exp.table_("__mwem_rows"))
    return exp.Insert(this=exp.table_(table), by_name=True, expression=source).sql("duckdb")


def releases_of(con: duckdb.DuckDBPyConnection, name: Name, most: int | None = None) -> list[dict[str, Any]]:
    """All releases under an output name, or the newest, newest first; none where nothing was ever released."""
    with legible(damaged(name)):
        numbers = [
            int(row["release"]) for row in rows_if_any(con, name.database, "releases", _OF_NAMES)
            if [fold(row["schema_name"]), fold(row["table_name"])] == name.identity
        ]  # fmt: skip
        rows = [
            row
            for number in sorted(numbers, reverse=True)[:most]
            for row in read_rows(con, name.database, "releases", where={"release": number})
        ]
        for row in rows:
            check_types(row, "metadata.sql", "releases")
        return rows


_OF_NAMES = ("release", "schema_name", "table_name")
"""The columns by which a release is found. The others are large: what is not looked at need not be read."""


def damaged(name: Name) -> MwemError:
    return refuse(
        TableError,
        "mwem",
        f"what is stored of output ({name}) in the schema mwem of its database cannot be read",
        "it was changed by hand: restore it from a backup, or release under another output name",
    )


def load(con: duckdb.DuckDBPyConnection, text: str, place: Place, function: str) -> Stored:
    """The newest release under an output name, whether its table is still there or not; refused if it was withdrawn."""
    name, facts = find(con, text, place, function)
    check_standing(con, name, facts, function)
    return stored(con, name, facts)


def in_place_of_table(con: duckdb.DuckDBPyConnection, text: str, place: Place, function: str) -> Stored | None:
    """A release that is named where a private table might be: the release has what is public of that table.

    None if the text names any other table.
    """
    newest = release_named(con, text, place)
    if newest is None:
        return None
    name, facts = newest
    if catalog.find(con, name.quoted(), place) is not None and not summary.is_output(con, name):
        return None
    check_standing(con, name, facts, function)
    return stored(con, name, facts)


def withdrawal_of(con: duckdb.DuckDBPyConnection, name: Name, release: int) -> Withdrawal | None:
    """Who withdrew a release, if anybody did."""
    with legible(damaged(name)):
        for row in read_rows(con, name.database, "withdrawals"):
            if row["release"] == release:
                check_types(row, "metadata.sql", "withdrawals")
                return Withdrawal(row["withdrawn"], row["who"], row["reason"])
    return None


def check_standing(con: duckdb.DuckDBPyConnection, name: Name, facts: Mapping[str, Any], function: str) -> None:
    """Refuse to use a release that was withdrawn. An older version under its name does not take its place."""
    withdrawal = withdrawal_of(con, name, facts["release"])
    if withdrawal is not None:
        raise refuse(
            OutputError,
            function,
            f"output ({name}) was withdrawn {withdrawal}",
            "use it no more: have a new release made, by mwem_release with a new version := '...' under the same name,"
            " or with another output",
        )


def find(con: duckdb.DuckDBPyConnection, text: str, place: Place, function: str) -> tuple[Name, dict[str, Any]]:
    """The newest release under an output name and its facts."""
    newest = release_named(con, text, place)
    if newest is not None:
        return newest
    outputs = [
        Name(home, row["schema_name"], row["table_name"])
        for home in holders(con, "releases")
        for row in read_rows(con, home, "releases")
    ]
    raise refuse(
        TableError,
        function,
        f"output ({text!r}) is not a release of mwem_release",
        f"{catalog.nearest_of(outputs, text, place)}name the output table of a release,"
        " in full if it is in another database",
    )


def release_named(con: duckdb.DuckDBPyConnection, text: str, place: Place) -> tuple[Name, dict[str, Any]] | None:
    """The same; None if the text names no release."""
    for name in catalog.candidates(text, place):
        for row in releases_of(con, name, 1):
            return name, row
    return None


def stored(con: duckdb.DuckDBPyConnection, name: Name, facts: Mapping[str, Any]) -> Stored:
    def made(factors: pa.Table) -> Stored:
        domain = Domain.from_json(json.loads(facts["domain"]))
        classes = grid.from_json(domain, json.loads(facts["grid"]))
        return Stored(name=name, facts=facts, domain=domain, classes=classes, factors=factors)

    with legible(damaged(name)):
        texts = len(facts["domain"]) + len(facts["grid"])
        return kept.content(
            con,
            _table(name, "factors"),
            facts["release"],
            made,
            of=(name, *facts.items()),
            order=("state", "factor"),
            size=lambda release: release.factors.nbytes + texts,
        )


def _content(
    con: duckdb.DuckDBPyConnection,
    release: Stored,
    table: str,
    made: Callable[[pa.Table], Value],
    *,
    order: tuple[str, ...] = ("query",),
    size: Callable[[Value], int] | None = None,
) -> Value:
    """What is made of the rows that a table has of a release."""
    with legible(damaged(release.name)):
        return kept.content(con, _table(release.name, table), release.facts["release"], made, order=order, size=size)


def measurements_of(con: duckdb.DuckDBPyConnection, release: Stored) -> pa.Table:
    """What was measured, as it is stored."""
    with legible(damaged(release.name)):
        return kept.rows(con, _table(release.name, "measurements"), release.facts["release"], ("step",))


def read_measurements(con: duckdb.DuckDBPyConnection, release: Stored) -> Sequence[Measurement]:
    """What was measured, in the order of the steps, on the stored classes."""
    return _content(con, release, "measurements", lambda rows: decode(rows.to_pylist()), order=("step",), size=size_of)


def size_of(measurements: Iterable[Measurement]) -> int:
    return sum(each.values.nbytes + sum(block.labels.nbytes for block in each.query.blocks) for each in measurements)


def workload_of(con: duckdb.DuckDBPyConnection, release: Stored) -> Workload:
    """What a release was made for, as a workload."""
    return _content(con, release, "workloads", _workload)


def _workload(rows: pa.Table) -> Workload:
    if not rows.num_rows:
        raise ValueError("a release of nothing")
    return Workload.from_arrow(rows.drop_columns(["query"]))


def bounds_of(con: duckdb.DuckDBPyConnection, release: Stored) -> tuple[Workload, pa.Table]:
    """What a release was made for, and what is said of each query of that."""
    workload, rows = workload_of(con, release), _content(con, release, "bounds", lambda rows: rows)
    with legible(damaged(release.name)):
        if rows.num_rows != len(workload):
            raise ValueError("not one row for each query")
        return workload, rows


def figures_of(con: duckdb.DuckDBPyConnection, release: Stored) -> pa.Table:
    """The certificate."""
    return _content(con, release, "certificates", lambda rows: rows, order=("part",))


def _table(name: Name, table: str) -> Name:
    """A table of the schema mwem beside a release."""
    return Name(name.database, SCHEMA, table)


def workload_rows(workload: Workload) -> pa.Table:
    """The rows of mwem.workloads."""
    # Of listed columns the text does not give the name, which is made of their bare names.
    names = [query.name if query.group_by is None else query.label for query in workload]
    return pa.table(
        {
            "query": pa.array(range(1, len(workload) + 1), pa.int32()),
            "predicate": pa.array([query.predicate for query in workload], pa.string()),
            "measure": pa.array([query.measure for query in workload], pa.string()),
            "group_by": pa.array([query.group_text for query in workload], pa.string()),
            "name": pa.array(names, pa.string()),
            "weight": pa.array([float(query.weight) for query in workload], pa.float64()),
            "always": pa.array([bool(query.always) for query in workload], pa.bool_()),
        }
    )


def encode(measurement: Measurement) -> dict[str, Any]:
    """A measurement as a row, but for the number of its step and of the workload's query."""
    return {
        "purpose": measurement.purpose,
        "name": measurement.name,
        "noise": NOISE[measurement.kind],
        "scale": measurement.scale,
        "resolution": measurement.query.unit,
        "values": measurement.values,
        "blocks": list(map(_encode_block, measurement.query.blocks)),
    }


def decode(rows: Iterable[Mapping[str, Any]]) -> tuple[Measurement, ...]:
    """The measurements of a release, from its rows in the order of their steps."""
    return tuple(
        Measurement(
            values=np.array(row["values"], dtype=np.int64),
            kind=KINDS[row["noise"]],
            scale=row["scale"],
            variance=variance(row["scale"], KINDS[row["noise"]]),
            query=LinearQuery(tuple(_decode_block(block, row["resolution"]) for block in row["blocks"])),
            purpose=row["purpose"],
            name=row["name"],
        )
        for row in rows
    )


def _encode_block(block: Block) -> dict[str, Any]:
    """A block by stretches: where cells, or what a record adds to them, change, and to which."""
    cells, adds = block.labels.ravel(), None if block.values is None else block.values.ravel()
    if adds is not None:
        cells = np.where(adds != 0, cells, -1)
        adds = np.where(cells >= 0, adds, 0)
    is_changed = np.diff(cells) != 0
    if adds is not None:
        is_changed |= np.diff(adds) != 0
    begins = np.append(0, np.flatnonzero(is_changed) + 1).astype(np.int32)
    return {
        "attributes": list(block.attributes),
        "shape": list(block.shape),
        "size": block.size,
        "begins": begins,
        "cells": cells[begins],
        "adds": None if adds is None else adds[begins],
    }


def _decode_block(block: Mapping[str, Any], unit: float) -> Block:
    """`unit` is what an answer of 1 stands for: that of the block whose records add something."""
    shape = tuple(block["shape"])
    lengths = np.diff(np.append(block["begins"], prod(shape)))
    labels: Labels = np.repeat(np.array(block["cells"], dtype=np.int32), lengths).reshape(shape)
    if block["adds"] is None:
        return Block(tuple(block["attributes"]), labels, block["size"])
    adds = np.repeat(np.array(block["adds"], dtype=np.int64), lengths).reshape(shape)
    return Block(tuple(block["attributes"]), labels, block["size"], values=adds, unit=unit)
