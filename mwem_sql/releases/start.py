"""The start of a release, by name: an earlier release, or a table of public rows.

Owns which names may be a start, what tells one start from another, and how its rows become classes of this workload.
A release is read as rows that are drawn from its state, and a table as it is. A column counts where the workload has
an attribute of its name; a value that is not in the attribute's domain counts nowhere. Must not read a private row.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from mwem_sql.accounting.ledger import read_ledger
from mwem_sql.boundary import relations
from mwem_sql.boundary.public import check_public
from mwem_sql.compile.compiled import Compiled
from mwem_sql.domains.classes import Classes
from mwem_sql.errors import RELEASE, OptionError, TableError, did_you_mean, literal, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.language.ticks import as_text, try_cast
from mwem_sql.model.start import Codes, Start
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.releases.request import STARTS, Request
from mwem_sql.releases.store import Stored
from mwem_sql.synthesis.values import draw_rows

DRAWN_ROWS: Final = 200_000
"""Rows that stand for a release. Every count of theirs is off by less than one; more take longer."""
MOST_START_ROWS: Final = 1_000_000
"""Rows of a public table that are read; of more, some at even distances."""


def find(session: Session, request: Request, private: Sequence[Name]) -> Stored | Name:
    """What a request starts from, by its name; refused if it may be private. `private` are all names of its table."""
    text, con = request.start, session.cursor()
    release = store.in_place_of_table(con, text, session.place, RELEASE)
    if release is not None:
        if not release.facts["private"] and request.seed is None:
            what = f"start ({text!r}) is a release with a seed, which is not private"
            raise refuse(OptionError, RELEASE, what, "start from a release that was made without a seed")
        return release
    relation = catalog.find(con, text, session.place)
    if relation is None:
        what = f"start ({text!r}) is neither {' nor '.join(map(repr, STARTS))} nor a release or table of this call"
        near = did_you_mean(text, STARTS) or catalog.nearest(con, text, session.place)
        hint = f"{near}name the output of a release or a public table, or leave start out for {STARTS[0]!r}"
        raise refuse(TableError, RELEASE, what, hint)
    check_public(con, relation, tuple(private), "start", RELEASE)
    name = relation[0]
    described = relations.describe(con, name.quoted(), session.place, RELEASE)
    if read_ledger(con, described, session.place, RELEASE).account is not None:
        what = f"start ({text!r}) has releases or a cap in its ledger, so its rows are private"
        raise refuse(TableError, RELEASE, what, "start from a release of it, by the name of the output")
    return name


def identity(session: Session, start: Stored | Name) -> list[str]:
    """What tells a start from another: the entry of a release, or the number of a table's rows and a checksum."""
    if isinstance(start, Stored):
        return ["release", str(start.facts["entry"])]
    row = exp.cast(exp.column("start"), "VARCHAR")
    digest = exp.Anonymous(this="md5_number_lower", expressions=[row])
    select = exp.select(exp.Count(this=exp.Star()), exp.Sum(this=exp.cast(digest, "HUGEINT")))
    query = select.from_(exp.alias_(start.tree(), "start", table=True))
    return ["table", *map(str, session.cursor().execute(query.sql("duckdb")).fetchall()[0])]


def read_start(session: Session, request: Request, private: Sequence[Name], compiled: Compiled) -> Start | None:
    """What a request starts from, on the classes of its workload; None for a start that no name stands for."""
    if request.start in STARTS:
        return None
    source, con = find(session, request, private), session.cursor()
    if isinstance(source, Stored):
        rows = draw_rows(source.state(), source.classes, DRAWN_ROWS, np.random.default_rng(0))
        con.register("__mwem_start", rows.reader.read_all().rename_columns(list(rows.types)))
        tree, columns, every = exp.table_("__mwem_start"), list(rows.types), 1
    else:
        tree, columns = source.tree(), [column.name for column in catalog.columns(con, source)]
        ((count,),) = con.execute(exp.select(exp.Count(this=exp.Star())).from_(tree).sql("duckdb")).fetchall()
        every = max(1, ceil(count / MOST_START_ROWS))
    spelling = {fold(column): column for column in columns}
    shared = {name: spelling[fold(name)] for name in compiled.classes if fold(name) in spelling}
    if not shared:
        what = f"start ({request.start!r}) has none of the workload's columns"
        hint = f"start from a release or table that has one of {', '.join(map(literal, compiled.classes))}"
        raise refuse(OptionError, RELEASE, what, hint)
    codes = {
        name: codes_of(con, tree, exp.column(column, quoted=True), compiled.classes[name], every)
        for name, column in shared.items()
    }
    return Start.of(codes, {name: compiled.classes[name].count for name in shared})


def codes_of(con: duckdb.DuckDBPyConnection, tree: exp.Expr, column: exp.Column, classes: Classes, every: int) -> Codes:
    """The class of each row; -1 for a value that is not in the attribute's domain."""
    attribute = classes.attribute
    # By its text: whatever type it has in the start.
    typed = try_cast(exp.cast(column, "VARCHAR"), attribute.type)
    if attribute.values is not None:
        value: exp.Expr = as_text(typed, attribute.type)
    else:
        value = attribute.ordered.measure(typed)
    select = exp.select(exp.alias_(value, "value"), exp.alias_(column.is_(exp.null()), "missing")).from_(tree)
    if every > 1:
        select = select.where(exp.Mod(this=exp.column("rowid"), expression=exp.Literal.number(every)).eq(0))
    table: pa.Table = con.sql(select.sql("duckdb")).to_arrow_table()
    values = table.column("value").combine_chunks()
    pieces = _of_list(classes, values) if attribute.values is not None else _of_range(classes, values)
    null = classes.pieces.non_null if attribute.nullable else -1
    pieces = np.where(table.column("missing").to_numpy(), null, pieces)
    return np.where(pieces >= 0, classes.codes[pieces], np.int32(-1))


def _of_list(classes: Classes, values: pa.Array) -> Codes:
    attribute = classes.attribute
    places = pc.index_in(values, value_set=pa.array(attribute.values, pa.string()))
    off = len(attribute.values or ()) if attribute.open else -1
    return np.asarray(places.fill_null(off).to_numpy(zero_copy_only=False), dtype=np.int32)


def _of_range(classes: Classes, values: pa.Array) -> Codes:
    attribute = classes.attribute
    assert attribute.low is not None and attribute.high is not None
    is_value = values.is_valid().to_numpy(zero_copy_only=False)
    ticks = values.fill_null(attribute.low).to_numpy(zero_copy_only=False)
    is_inside = is_value & (ticks >= attribute.low) & (ticks <= attribute.high)
    is_beyond = is_value & ~is_inside & ~np.isnan(ticks.astype(np.float64)) & attribute.open
    pieces = classes.pieces.holding(np.clip(np.where(is_value, ticks, attribute.low), attribute.least, attribute.most))
    return np.where(is_inside | is_beyond, pieces[: len(ticks)], -1).astype(np.int32)
