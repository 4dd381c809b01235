"""What a release leaves behind: the output table and mwem.releases, mwem.measurements, mwem.factors beside it.

Written in one transaction, read back into a state that answers new questions. Holds nothing private.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from mwem_sql import catalog
from mwem_sql.catalog import Name, Place
from mwem_sql.compiler.classes import Classes, Pieces
from mwem_sql.domain import Domain
from mwem_sql.errors import OutputError, TableError, refuse
from mwem_sql.ledger import prepare, rollback
from mwem_sql.state import Mixture, State
from mwem_sql.ticks import cast

_FIELDS = (
    "release", "output", "version", "request", "rows", "epsilon", "delta", "rounds", "queries", "attributes", "cells", "total",
    "total_is_public", "unit", "rows_per_unit", "private", "domain", "grid",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Stored:
    """A release as it was stored: its facts, and what is needed to answer from it."""

    name: Name
    facts: Mapping[str, Any]
    domain: Domain
    classes: dict[str, Classes]
    factors: pa.Table

    def state(self) -> State | Mixture:
        order = list(self.classes)
        if self.factors.column("state").to_pylist().count(0) == self.factors.num_rows:
            return State.from_table(self.factors.drop_columns(["state"]), order)
        return Mixture.from_table(self.factors, order)


def write(
    con: duckdb.DuckDBPyConnection, name: Name, facts: Mapping[str, Any], columns: Mapping[str, tuple[str, pa.Array]],
    *, measurements: pa.Table, factors: pa.Table,
) -> int:  # fmt: skip
    """Store everything in one transaction and return the release's number. An output of an older version is replaced."""
    prepare(con, name.database, "metadata.sql")
    con.execute("BEGIN TRANSACTION")
    try:
        found = con.execute("SELECT coalesce(max(release), 0) + 1 FROM mwem.releases").fetchall()
        release = int(found[0][0])
        con.execute(exp.Drop(tables=[name.tree()], kind="TABLE", exists=True).sql("duckdb"))
        arrived = pa.table({f"c{k}": array for k, (_, array) in enumerate(columns.values())})
        typed = [
            exp.alias_(cast(exp.column(f"c{k}"), kind), column, quoted=True)
            for k, (column, (kind, _)) in enumerate(columns.items())
        ]
        create = exp.Create(this=name.tree(), kind="TABLE", expression=exp.select(*typed).from_("arrived"))
        con.from_arrow(arrived).query("arrived", create.sql("duckdb"))
        con.execute(
            "INSERT INTO mwem.releases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [{**facts, "release": release}[field] for field in _FIELDS],
        )
        con.from_arrow(measurements).query("arrived", _insert("measurements", release, measurements.column_names))
        con.from_arrow(factors).query("arrived", _insert("factors", release, factors.column_names))
        con.execute("COMMIT")
    except BaseException:
        rollback(con)
        raise
    return release


def _insert(table: str, release: int, columns: Sequence[str]) -> str:
    source = exp.select(exp.Literal.number(release), *(exp.column(name, quoted=True) for name in columns)).from_("arrived")
    return exp.Insert(this=exp.table_(table, db="mwem"), expression=source).sql("duckdb")


def releases_of(con: duckdb.DuckDBPyConnection, name: Name) -> list[dict[str, Any]]:
    """All releases under an output name, newest first; none where nothing was ever released."""
    known = con.execute(
        "SELECT 1 FROM duckdb_tables() WHERE database_name = ? AND schema_name = 'mwem' AND table_name = 'releases'",
        [name.database],
    ).fetchall()
    if not known:
        return []
    query = (
        exp.select(*(exp.column(field, quoted=True) for field in _FIELDS)).from_(Name(name.database, "mwem", "releases").tree())
        .where(exp.column("output").eq(str(name))).order_by(exp.column("release").desc())
    )  # fmt: skip
    return [dict(zip(_FIELDS, row, strict=True)) for row in con.execute(query.sql("duckdb")).fetchall()]


def load(con: duckdb.DuckDBPyConnection, text: str, place: Place, function: str) -> Stored:
    """The newest release under an output name."""
    found = catalog.find(con, text, place)
    rows = releases_of(con, found[0]) if found is not None else []
    if found is None or not rows:
        raise refuse(
            TableError, function, f"output ({text!r}) is not a release of mwem_release",
            "name the output table of a release, in full if it is in another database",
        )
    facts = rows[0]
    domain = Domain.from_json(json.loads(facts["domain"]))
    return Stored(found[0], facts, domain, classes_from_json(domain, json.loads(facts["grid"])), _rows(con, found[0], "factors", facts["release"]))


def measurements_of(con: duckdb.DuckDBPyConnection, stored: Stored) -> pa.Table:
    return _rows(con, stored.name, "measurements", stored.facts["release"])


def _rows(con: duckdb.DuckDBPyConnection, name: Name, table: str, release: int) -> pa.Table:
    order = {"factors": ("state", "factor"), "measurements": ("step",)}[table]
    star = exp.Star(except_=[exp.to_identifier("release")])
    query = (
        exp.select(star).from_(Name(name.database, "mwem", table).tree())
        .where(exp.column("release").eq(release)).order_by(*(exp.column(column) for column in order))
    )  # fmt: skip
    return con.sql(query.sql("duckdb")).to_arrow_table()


def classes_to_json(classes: Mapping[str, Classes]) -> dict[str, Any]:
    return {
        name: {
            "codes": own.codes.tolist(),
            "lows": own.pieces.lows.tolist(),
            "highs": own.pieces.highs.tolist(),
            "points": own.pieces.points.tolist(),
            "bins": own.pieces.bins.tolist(),
        }
        for name, own in classes.items()
    }


def classes_from_json(domain: Domain, stored: Mapping[str, Any]) -> dict[str, Classes]:
    out = {}
    for name, own in stored.items():
        attribute = domain[name]
        kind = np.float64 if attribute.values is None and not attribute.ordered.discrete else np.int64
        lows, highs, points = (np.array(own[part], dtype=kind) for part in ("lows", "highs", "points"))
        pieces = Pieces(attribute, lows, highs, points, np.array(own["bins"], dtype=np.int32))
        out[name] = Classes(pieces, np.array(own["codes"], dtype=np.int32))
    return out


def check_output(con: duckdb.DuckDBPyConnection, name: Name, function: str) -> None:
    """The output's database and schema exist."""
    rows = con.execute(
        "SELECT count(*) FROM duckdb_schemas() WHERE database_name = ? AND schema_name = ?", [name.database, name.schema]
    ).fetchall()
    if not rows[0][0]:
        raise refuse(
            OutputError, function, f"output ({name}) names a database or schema that does not exist",
            "ATTACH the database or CREATE SCHEMA first",
        )

