"""A release as files to publish: the table as Parquet, CSV or a DuckDB file, and its card beside it. Owns which files there are; reads what is stored, nothing private."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import exp

from mwem_sql.errors import OutputError, refuse
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.metadata import SCHEMA, created, prepare
from mwem_sql.platform.session import Session, transaction
from mwem_sql.releases import beyond, notes, store
from mwem_sql.releases.store import Stored
from mwem_sql.reporting import card, drafts
from mwem_sql.workload import Workload

FUNCTION = "mwem_export"
CARD = "mwem_card"
"""The key of the card in a Parquet file's own metadata, and its mark in JSON."""


def export(session: Session, stored: Stored, workload: Workload, path: object) -> Iterator[dict[str, Any]]:
    """Write the files; a row for each, with its size. None of them is there if one cannot be written."""
    con = session.cursor()
    file = drafts.target(con, path, FUNCTION, "release.parquet", _WRITERS)
    write = _WRITERS[file.suffix.lower()]
    text, data = file.with_suffix(".md"), file.with_suffix(".json")
    for each in (file, text, data):
        drafts.check_free(each, lambda _: _is_ours(data, stored), FUNCTION)
    _check_table(session.cursor(), stored.name)
    measurements = store.read_measurements(con, stored)
    content = card.as_json(stored, measurements, workload.to_arrow().to_pylist())
    written = json.dumps({CARD: content}, indent=2, ensure_ascii=False, default=str)
    with (
        drafts.whole(data, FUNCTION) as data_draft,
        drafts.whole(text, FUNCTION) as text_draft,
        drafts.whole(file, FUNCTION) as draft,
    ):
        data_draft.write_text(written + "\n", encoding="utf-8")
        text_draft.write_text(card.as_text(content, measurements, file.name), encoding="utf-8")
        write(session, stored, draft, json.dumps(content, default=str))
    for each in (file, text, data):
        yield {"file": str(each), "bytes": each.stat().st_size}


def _is_ours(data: Path, stored: Stored) -> bool:
    """Whether the files are an older export of the same table: its card says so."""
    with suppress(OSError, ValueError, TypeError, LookupError):
        return bool(json.loads(data.read_text(encoding="utf-8"))[CARD]["table"] == stored.name.table)
    return False


def _check_table(con: duckdb.DuckDBPyConnection, name: Name) -> None:
    try:
        con.execute(exp.Describe(this=exp.select("*").from_(name.tree())).sql("duckdb"))
    except duckdb.Error:
        raise refuse(
            OutputError,
            FUNCTION,
            f"output ({name}) is no longer there as a table",
            "make the same release again: it costs nothing and writes the table anew",
        ) from None


def _copy(name: Name, draft: Path, **parameters: exp.Expr) -> str:
    listed = [exp.CopyParameter(this=exp.var(key), expression=value) for key, value in parameters.items()]
    rows = exp.select("*").from_(name.tree()).subquery()
    return exp.Copy(this=rows, kind=False, files=[exp.Literal.string(str(draft))], params=listed).sql("duckdb")


def _parquet(session: Session, stored: Stored, draft: Path, content: str) -> None:
    noted = exp.Struct(
        expressions=[exp.PropertyEQ(this=exp.to_identifier(CARD), expression=exp.Literal.string(content))]
    )
    session.cursor().execute(_copy(stored.name, draft, FORMAT=exp.var("parquet"), KV_METADATA=noted))


def _csv(session: Session, stored: Stored, draft: Path, _: str) -> None:
    session.cursor().execute(_copy(stored.name, draft, FORMAT=exp.var("csv"), HEADER=exp.true()))


def _database(session: Session, stored: Stored, draft: Path, _: str) -> None:
    """A database with the table and what was stored beside it, so that mwem_answer works there, too."""
    con, alias = session.cursor(), f"mwem_{uuid.uuid4().hex}"
    # The release's own database may be opened read-only, and a new one would be so, too.
    writable = exp.AttachOption(this=exp.var("READ_WRITE"))
    file = exp.alias_(exp.Literal.string(str(draft)), alias)
    off = beyond.sentences(stored.state(), stored.classes)
    con.execute(exp.Attach(this=file, expressions=[writable]).sql("duckdb"))
    try:
        prepare(con, alias, "metadata.sql")
        number = stored.facts["release"]
        with transaction(con):
            table = exp.table_(stored.name.table, db="main", catalog=alias, quoted=True)
            rows = exp.select("*").from_(stored.name.tree())
            con.execute(exp.Create(this=table, kind="TABLE", expression=rows).sql("duckdb"))
            notes.comment(con, Name(alias, "main", stored.name.table), stored.facts, stored.classes, off)
            for kept in created("metadata.sql"):
                source = (
                    exp.select("*")
                    .from_(Name(stored.name.database, SCHEMA, kept).tree())
                    .where(exp.column("release").eq(number))
                )
                target = Name(alias, SCHEMA, kept).tree()
                con.execute(exp.Insert(this=target, by_name=True, expression=source).sql("duckdb"))
            moved = exp.Update(
                this=exp.table_("releases"),
                expressions=[exp.EQ(this=exp.column("schema_name"), expression=exp.Literal.string("main"))],
            )
            con.execute(moved.sql("duckdb"))
    finally:
        con.execute(exp.Use(this=exp.table_("main", db=stored.name.database, quoted=True)).sql("duckdb"))
        con.execute(exp.Detach(this=exp.to_identifier(alias)).sql("duckdb"))


_Writer = Callable[[Session, Stored, Path, str], None]
_WRITERS: dict[str, _Writer] = {".parquet": _parquet, ".csv": _csv, ".duckdb": _database}
