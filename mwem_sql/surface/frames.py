"""Frames of pandas, Polars, Arrow and whatever else shows its rows as Arrow: workloads as is, tables after `load`.

Owns what counts as a frame and how one becomes rows of DuckDB. Must not take a frame for a private table: a private
table has a name, and under it an account.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
from sqlglot import exp

from mwem_sql.boundary.public import check_public
from mwem_sql.errors import OptionError, TableError, refuse
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.session import Session
from mwem_sql.releases import reuse
from mwem_sql.workload import Workload

Frame: TypeAlias = Any
"""A pandas or Polars frame, an Arrow table, a relation of DuckDB, or anything else with `__arrow_c_stream__`."""

WorkloadLike: TypeAlias = str | Workload | Frame


def as_arrow(frame: Frame) -> pa.Table | None:
    """The rows of a frame; None if it is none. An index of pandas is a column only if it has a name."""
    try:
        table = pa.table(frame)
    except (TypeError, ValueError, pa.ArrowException):  # an error of Arrow's may quote a value
        return None
    return table.drop_columns([name for name in table.column_names if re.fullmatch(r"__index_level_\d+__", name)])


def read_workload(
    session: Session, workload: WorkloadLike, private: str | Sequence[str] | None, function: str
) -> Workload:
    """A workload from any of its forms. Beside private tables, a name must be that of a plain table."""
    if isinstance(workload, Workload):
        return workload
    if not isinstance(workload, str):
        rows = as_arrow(workload)
        if rows is None:
            raise refuse(
                OptionError,
                function,
                f"workload ({type(workload).__name__}) must be a table name, a Workload or a frame (pandas, Polars, "
                "Arrow)",
                "Workload.from_predicates([...]) makes one from texts; collect() a lazy frame",
            )
        return Workload.from_arrow(rows)
    con = session.cursor()
    relation = catalog.find(con, workload, session.place)
    if relation is None:
        what = f"workload ({workload!r}) does not exist for this call"
        hint = f"{catalog.nearest(con, workload, session.place)}create it as a table and COMMIT, or pass a Workload"
        raise refuse(TableError, function, what, hint)
    if private is not None:
        names = [private] if isinstance(private, str) else private
        relations = [catalog.find(con, name, session.place) for name in names]
        check_public(con, relation, tuple(each[0] for each in relations if each is not None), "workload", function)
    return Workload.from_arrow(con.sql(exp.select("*").from_(relation[0].tree()).sql("duckdb")).to_arrow_table())


def load(con: object, frame: Frame, table: str, *, append: bool = False) -> str:
    """Copy a frame into a table of DuckDB, and commit; the table's full name.

    A private table must be a table: only this copies one there, under the name that you give it. It is made anew and
    refused if it exists; with `append`, rows are added to one that exists, column by column by name. Categories of
    pandas and Polars become text: they were read off the data, so they are no public domain. Declare one in the table
    that you append to, or in a domain table.
    """
    session = Session.of(con)
    cursor = session.cursor()
    rows = as_arrow(frame)
    if rows is None:
        raise refuse(
            OptionError,
            "load",
            f"frame ({type(frame).__name__}) must be a frame of pandas, Polars or Arrow, with columns that Arrow has "
            "types for",
            "collect() a lazy frame; a file needs no copy: name its path where a table is asked for",
        )
    name = reuse.output_name(cursor, table, Name(session.place.database, session.place.schema, ""), "load")
    exists = catalog.find(cursor, name.quoted(), session.place) is not None
    if exists != append:
        what = f"table ({table!r}) {'does not exist' if append else 'exists'}"
        hint = "leave append out to make it" if append else "choose another name, or add to it with append=True"
        raise refuse(TableError, "load", what, hint)
    arrived = "__mwem_frame"  # a name that no table of the user has
    cursor.register(arrived, rows)
    select = exp.select("*").from_(exp.table_(arrived))
    statement: exp.Expr = exp.Create(this=name.tree(), kind="TABLE", expression=select)
    if append:
        statement = exp.Insert(this=name.tree(), expression=select, by_name=True)
    try:
        cursor.execute(statement.sql("duckdb"))
    except duckdb.Error:  # its text may quote a value
        what = f"table ({table!r}) cannot take the frame: a column is missing, of another type, or against a constraint"
        hint = "compare the frame's columns with DESCRIBE, and its values with the table's constraints"
        raise refuse(TableError, "load", what, hint) from None
    finally:
        cursor.unregister(arrived)
    return str(name)
