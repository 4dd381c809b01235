"""`mwem_report`: the page as a file. Owns where it may be written and what is replaced; what it says is in `page.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from mwem_sql.algebra.arrays import Floats
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.releases.answer import Answerer
from mwem_sql.reporting import charts, drafts, page, shapes

FUNCTION = "mwem_report"
MARK = "<!-- mwem_report -->"
"""Second line of every page: a file without it is somebody else's."""

MOST_ENDS = 1_000
"""Bars whose error bars are worked out: a question each."""


def write(
    session: Session, ready: Answerer, answers: Iterable[Mapping[str, Any]], compared: str | None, path: object
) -> Iterator[dict[str, Any]]:
    """Write the page; `answers` are those to the workload, beside true ones where there is a table that they are `compared` with."""
    con, stored = session.cursor(), ready.stored
    file = drafts.target(con, path, FUNCTION, "report.html", (".html", ".htm"))
    drafts.check_free(file, _is_ours, FUNCTION)
    text = page.make(stored, store.read_measurements(con, stored), answers, compared, _ends(ready))
    with drafts.whole(file, FUNCTION) as draft:
        draft.write_text(text, encoding="utf-8")
    yield {
        "file": str(file),
        "bytes": file.stat().st_size,
        "private": bool(stored.facts["private"]) and compared is None,
    }


def _ends(ready: Answerer) -> dict[str, charts.Ends]:
    """Of the attributes' pictures, between which numbers the truth of each bar is. Of very wide tables, of the first attributes only."""
    drawn, bars = dict[str, tuple[shapes.Bars, Floats]](), 0
    for name, own in shapes.one_way(ready.stored).items():
        bars += len(own[0].labels)
        if bars <= MOST_ENDS:
            drawn[name] = own
    asked = shapes.workload(drawn)
    rows = iter(ready.rows(asked) if asked is not None else ())
    return {
        name: [
            None if row["low"] is None or row["high"] is None else (row["low"], row["high"])
            for row in islice(rows, len(own.labels))
        ]
        for name, (own, _) in drawn.items()
    }


def _is_ours(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as opened:
        return MARK in opened.read(200)
