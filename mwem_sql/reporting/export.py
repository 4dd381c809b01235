"""Files of a release: the report, and a release to publish as Parquet, CSV or a DuckDB file with its card beside it.

Owns where files may be written and what is replaced: a file is written beside its path and moved there when it is
whole, and never over what somebody else made. Reads what is stored, nothing private.
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from mwem_sql.errors import MwemError, OptionError, OutputError, literal, refuse
from mwem_sql.language import dialect
from mwem_sql.platform.catalog import Name, Place
from mwem_sql.platform.metadata import SCHEMA, created, prepare
from mwem_sql.platform.session import Session, transaction, use
from mwem_sql.releases import ddl, store, summary
from mwem_sql.releases.answer import Answerer
from mwem_sql.releases.drawing import link_of, table_keys
from mwem_sql.releases.store import Stored
from mwem_sql.releases.tables import joined_tables
from mwem_sql.reporting import card, charts, joined, page
from mwem_sql.workload import Workload

CARD = "mwem_card"
"""The key of the card in a Parquet file's metadata, and its mark in JSON."""
MOST_ENDS = 1_000
"""Bars of a report whose error bars are worked out, a question each. Larger: reports of wide tables take longer."""


def report(
    session: Session,
    ready: Answerer,
    answers: pa.Table,
    *,
    compared: str | None,
    path: object,
    function: str,
) -> Iterator[dict[str, Any]]:
    """Write the page, or give it where no file is named; `answers` are those to the workload, as mwem_answer has them.

    They stand beside true ones where there is a table that they are `compared` with.
    """
    con, stored = session.cursor(), ready.stored
    file = None
    if path is not None:
        file = target(con, path, function, "report.html", (".html", ".htm"))
        _check_free(file, _is_report, function)
    pictures = charts.one_way(stored)
    measurements = store.read_measurements(con, stored)
    text = page.make(
        stored,
        measurements,
        answers,
        compared,
        pictures=pictures,
        ends=_ends(ready, pictures),
        tables=_tables(session, stored, function),
    )
    private = bool(stored.facts["private"]) and compared is None
    if file is None:
        yield {"file": None, "bytes": len(text.encode()), "private": private, "page": text}
        return
    with draft_of(file, function) as draft:
        draft.write_text(text, encoding="utf-8")
    yield {"file": str(file), "bytes": file.stat().st_size, "private": private, "page": None}


def _tables(session: Session, stored: Stored, function: str) -> str:
    """What the page says of the other tables of its release; nothing where there are none, or no longer."""
    if stored.domain.link is None:
        return ""
    try:
        tables = joined_tables(session.cursor(), stored, function)
    except OutputError:
        return ""
    numbers: dict[tuple[str, str], tuple[charts.OneWay, charts.Ends]] = {}
    for one in tables:
        pictures = charts.one_way(one, link_of(one.domain).below)
        ends = _ends(Answerer(session, one), pictures)
        numbers |= {(one.domain.table, below): (pictures[below], ends.get(below, ())) for below in pictures}
    return joined.section(stored, tables, numbers)


def _is_report(path: Path) -> bool:
    """Whether a file has the second line of every page: another file is somebody else's."""
    with path.open(encoding="utf-8", errors="replace") as opened:
        return "<!-- mwem_report -->" in opened.read(200)


def _ends(ready: Answerer, pictures: Mapping[str, charts.OneWay]) -> dict[str, charts.Ends]:
    """Of the attributes' pictures, between which numbers the truth of each bar is.

    Of very wide tables, of the first attributes only.
    """
    counts = np.cumsum([len(bars.labels) for bars, _ in pictures.values()])
    drawn = {
        name: bars for (name, (bars, _)), count in zip(pictures.items(), counts, strict=True) if count <= MOST_ENDS
    }
    predicates = [dialect.sql(predicate) for bars in drawn.values() for predicate in bars.predicates]
    if not predicates:
        return {name: [] for name in drawn}
    table = ready.table(Workload.from_predicates(predicates))
    ends = zip(table["low"].to_pylist(), table["high"].to_pylist(), strict=True)
    return {
        name: [None if low is None or high is None else (low, high) for low, high in islice(ends, len(bars.labels))]
        for name, bars in drawn.items()
    }


def export(session: Session, tables: Sequence[Stored], path: object, function: str) -> Iterator[dict[str, Any]]:
    """Write the tables of a release, each after its parent, and one card; a row for each file, with its size.

    None of the files is there if one cannot be written.
    """
    con = session.cursor()
    writers = {".parquet": _parquet, ".csv": _csv, ".duckdb": None}
    file = target(con, path, function, "release.parquet", writers)
    writer = writers[file.suffix.lower()]
    files = [_file_of(file, table, tables) for table in tables]
    text, data = file.with_suffix(".md"), file.with_suffix(".json")
    every = [*dict.fromkeys(files), text, data]
    for each in every:
        _check_free(each, lambda _: _is_export(data, tables), function)
    for table in tables:
        _check_table(session.cursor(), table.name, function)
    cards = [card.of(con, *pair) for pair in zip(tables, (each.name for each in files), strict=True)]
    with ExitStack() as writing:
        drafts = {each: writing.enter_context(draft_of(each, function)) for each in reversed(every)}
        content = json.dumps({CARD: card.as_json(cards)}, indent=2, ensure_ascii=False, default=str)
        drafts[data].write_text(f"{content}\n", encoding="utf-8")
        drafts[text].write_text(card.as_text(cards), encoding="utf-8")
        if writer is None:
            _database(session, tables, drafts[file])
        else:
            for table, each, about in zip(tables, files, cards, strict=True):
                writer(session, table, drafts[each], json.dumps(about.content, default=str))
    for each in every:
        yield {"file": str(each), "bytes": each.stat().st_size}


def _file_of(file: Path, table: Stored, tables: Sequence[Stored]) -> Path:
    """Where the rows of a table go: a file has one table, but for a database."""
    if len(tables) == 1 or file.suffix.lower() == ".duckdb":
        return file
    return file.with_name(f"{file.stem}_{table.name.table}{file.suffix}")


def _is_export(data: Path, tables: Sequence[Stored]) -> bool:
    """Whether the files are an older export of the same tables: its card says so."""
    with suppress(OSError, ValueError, TypeError, LookupError):
        return card.tables_of(json.loads(data.read_text(encoding="utf-8"))[CARD]) == [one.name.table for one in tables]
    return False


def _check_table(con: duckdb.DuckDBPyConnection, name: Name, function: str) -> None:
    try:
        con.execute(exp.Describe(this=exp.select("*").from_(name.tree())).sql("duckdb"))
    except duckdb.Error:
        what = f"output ({name}) is no longer there as a table"
        hint = "make the same release again: it costs nothing and writes the table anew"
        raise refuse(OutputError, function, what, hint) from None


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


def _database(session: Session, tables: Sequence[Stored], draft: Path) -> None:
    """A database with the tables and what was stored beside them, so that mwem_answer works there, too."""
    con, alias = session.cursor(), f"mwem_{uuid.uuid4().hex}"
    # The release's database may be opened read-only, and a new one would be so, too.
    writable = exp.AttachOption(this=exp.var("READ_WRITE"))
    file = exp.alias_(exp.Literal.string(str(draft)), alias)
    con.execute(exp.Attach(this=file, expressions=[writable]).sql("duckdb"))
    try:
        prepare(con, alias, "metadata.sql")
        with transaction(con):
            for stored in tables:
                _copy_table(con, stored, alias)
            use(con, Place(alias, SCHEMA))
            moved = exp.Update(
                this=exp.table_("releases"),
                expressions=[exp.EQ(this=exp.column("schema_name"), expression=exp.Literal.string("main"))],
            )
            con.execute(moved.sql("duckdb"))
    finally:
        con.execute(exp.Use(this=exp.table_("main", db=tables[0].name.database, quoted=True)).sql("duckdb"))
        con.execute(exp.Detach(this=exp.to_identifier(alias)).sql("duckdb"))


def _copy_table(con: duckdb.DuckDBPyConnection, stored: Stored, alias: str) -> None:
    """A table with its keys, and the rows about its release."""
    name, link = Name(alias, "main", stored.name.table), stored.domain.link
    rows = exp.select("*").from_(stored.name.tree())
    described = con.execute(exp.Describe(this=rows.copy()).sql("duckdb")).fetchall()
    types = {column: kind for column, kind, *_ in described}
    use(con, Place(alias, "main"))
    con.execute(ddl.create(name, types, () if link is None else table_keys(link)))
    con.execute(exp.Insert(this=name.tree(), expression=rows).sql("duckdb"))
    shown = {column: classes for column, classes in stored.classes.items() if column in types}
    off = summary.off_domain(stored.state(), stored.classes)
    summary.comment(con, name, stored.facts, shown, off)
    for kept in created("metadata.sql"):
        about = exp.select("*").from_(Name(stored.name.database, SCHEMA, kept).tree())
        source = about.where(exp.column("release").eq(stored.facts["release"]))
        copy = Name(alias, SCHEMA, kept).tree()
        con.execute(exp.Insert(this=copy, by_name=True, expression=source).sql("duckdb"))


def target(con: duckdb.DuckDBPyConnection, text: object, function: str, example: str, endings: Collection[str]) -> Path:
    """The file that a call names, in a folder that exists; refused where the database may not write files."""
    if not isinstance(text, str) or not text.strip():
        raise refuse(OptionError, function, f"path ({text!r}) must be the name of a file", f"write {example!r}")
    ((allowed,),) = con.execute("SELECT current_setting('enable_external_access')").fetchall()
    if not allowed:
        what = f"path ({text!r}) cannot be written: enable_external_access is off"
        raise refuse(OptionError, function, what, "ask whoever runs the database")
    path = Path(text).expanduser()
    if path.is_dir():
        inside = literal(str(path / example))
        raise refuse(OptionError, function, f"path ({text!r}) is a folder, and not a file", f"write {inside}")
    if path.suffix.lower() not in endings:
        what = f"path ({text!r}) must end with one of {', '.join(endings)}"
        raise refuse(OptionError, function, what, f"write {example!r}")
    if not path.parent.is_dir():
        raise refuse(
            OutputError, function, f"path ({text!r}) is in a folder that does not exist", "make the folder first"
        )
    return path


def _check_free(path: Path, is_ours: Callable[[Path], bool], function: str) -> None:
    """A file that is there already is replaced only if the same function made it."""
    if path.is_dir() or (path.exists() and not is_ours(path)):
        what = f"path ({str(path)!r}) exists and was not made by {function}"
        raise refuse(OutputError, function, what, "choose another name, or remove it first")


@contextmanager
def draft_of(path: Path, function: str) -> Iterator[Path]:
    """A new name beside `path` to write to; it becomes `path` if nothing fails, and is gone otherwise."""
    try:
        folder = tempfile.mkdtemp(prefix=".mwem-", dir=path.parent)
    except OSError as error:
        raise _unwritable(path, error, function) from None
    draft = Path(folder) / path.name
    try:
        yield draft
        draft.replace(path)
    except (OSError, duckdb.IOException) as error:
        raise _unwritable(path, error, function) from None
    finally:
        with suppress(OSError):
            for left in Path(folder).iterdir():
                left.unlink()
            Path(folder).rmdir()


def _unwritable(path: Path, error: Exception, function: str) -> MwemError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
    return refuse(
        OutputError,
        function,
        f"path ({str(path)!r}) could not be written ({reason})",
        "check the folder and the room on the disk",
    )
