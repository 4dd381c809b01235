"""The tables of a release in its report: a picture of how their rows lead to one another, and how many lead to a row.

From stored releases only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from mwem_sql.releases.drawing import link_of
from mwem_sql.releases.store import Stored
from mwem_sql.reporting import card, charts
from mwem_sql.reporting.card import fill
from mwem_sql.reporting.charts import Ends, OneWay, TableBox
from mwem_sql.reporting.page import isolated, titled

MOST_NUMBERS = 12
"""Pictures of numbers of rows. Larger: the page of a release of many tables is about these alone."""


def section(stored: Stored, tables: Sequence[Stored], numbers: Mapping[tuple[str, str], tuple[OneWay, Ends]]) -> str:
    """The tables of a release, each after its parent; `stored` is the one that the page is about.

    `numbers` has for a table and one below it how many rows of that lead to a row, and between which numbers the truth
    is.
    """
    pictures = [titled("How rows lead to one another", charts.tree(nodes(stored, tables), "The tables of the release"))]
    for (parent, child), ((bars, rows), ends) in list(numbers.items())[:MOST_NUMBERS]:
        heading = f"Rows of {child} per {parent}"
        draw = charts.bars if len(bars.labels) <= 9 else charts.columns
        title = f"Rows of {isolated(child)} per {isolated(parent)}"
        pictures.append(titled(title, draw(bars.labels, rows, heading, ends)))
    words = "".join(f"<p>{escape(text)}</p>" for text in card.joined(stored.domain))
    return fill("joined.html", cards="".join(pictures), words=words)


def nodes(stored: Stored, tables: Sequence[Stored]) -> list[TableBox]:
    """The tables in the order of a picture: what is below a table right after it."""
    by_name = {one.domain.table: one for one in tables}
    out, places = list[TableBox](), dict[str, int]()

    def add(one: Stored, depth: int) -> None:
        link, rows = link_of(one.domain), one.facts["rows"]
        parent, words = None, ""
        if link.parent is not None:
            parent = places[link.parent]
            words = f"{rows / max(1, by_name[link.parent].facts['rows']):.2g} per {link.parent}"
        places[one.domain.table] = len(out)
        out.append(
            TableBox(
                name=one.name.table,
                parent=parent,
                depth=depth,
                rows=f"{rows:,} rows",
                words=words,
                is_this=one.name == stored.name,
            )
        )
        for table in link.below:
            add(by_name[table], depth + 1)

    add(tables[0], 0)
    return out
