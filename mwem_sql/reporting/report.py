"""`mwem_report`: the page as a file. Owns where it may be written and what is replaced; what it says is in `page.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mwem_sql.database.session import Session
from mwem_sql.releases import store
from mwem_sql.releases.store import Stored
from mwem_sql.reporting import drafts, page

FUNCTION = "mwem_report"
MARK = "<!-- mwem_report -->"
"""Second line of every page: a file without it is somebody else's."""


def write(
    session: Session, stored: Stored, answers: Iterable[Mapping[str, Any]], compared: str | None, path: object
) -> Iterator[dict[str, Any]]:
    """Write the page; `answers` are those to the workload, beside true ones where there is a table that they are `compared` with."""
    con = session.cursor()
    file = drafts.target(con, path, FUNCTION, "report.html", (".html", ".htm"))
    drafts.check_free(file, _is_ours, FUNCTION)
    text = page.make(stored, store.measurements_of(con, stored).to_pylist(), answers, compared)
    with drafts.whole(file, FUNCTION) as draft:
        draft.write_text(text, encoding="utf-8")
    yield {
        "file": str(file),
        "bytes": file.stat().st_size,
        "private": bool(stored.facts["private"]) and compared is None,
    }


def _is_ours(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as opened:
        return MARK in opened.read(200)
