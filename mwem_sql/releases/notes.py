"""What is noted beside a release for whoever has nothing but the release: comments on its table and columns, and the workload that it was made for.

Public inputs and released facts only, and no clock time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from mwem_sql.accounting.caps import protected
from mwem_sql.domains.classes import Classes
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Name
from mwem_sql.releases import left_out
from mwem_sql.releases.cut import Cut
from mwem_sql.workload import Query, Workload

MOST_COLUMNS = 200
"""Columns of a table that has a comment on each. A comment copies the table's entry in the catalog: on 1,000 columns 1.6 s of a processor, on 200 some 0.1 s."""
MOST_VALUES = 8
"""Values of an attribute that are listed in a comment."""
_OURS = "Synthetic rows by mwem_release"


def comment(
    con: duckdb.DuckDBPyConnection,
    name: Name,
    facts: Mapping[str, Any],
    classes: Mapping[str, Classes],
    off: Sequence[str],
) -> None:
    """Say on an output, and on each of its columns, what it is and where to look; `off` are sentences of rows off the domain."""
    budget = f"epsilon {facts['epsilon']:g}, delta {facts['delta']:g}"
    if not facts["private"]:
        budget += ", with a seed: NOT PRIVATE"
    protects = protected(facts["unit"], facts["rows_per_unit"])
    catalog.set_comment(
        con,
        name,
        f"{_OURS} ({budget}; protects {protects}). How they were made: release {facts['release']} in mwem.releases,"
        f" mwem.measurements and mwem.workloads of this database. Sharper than these rows: mwem_answer and mwem_count."
        f" DROP TABLE takes the rows only: the release stays, answers, and is charged. mwem_withdraw takes it back."
        + "".join(
            f" {sentence[0].upper()}{sentence[1:]}." for sentence in filter(None, [left_out.sentence(facts), *off])
        ),
    )
    for column, own in classes.items() if len(classes) <= MOST_COLUMNS else ():
        text = f"Synthetic ({budget}); {Cut.of(own).words(MOST_VALUES)}; release {facts['release']} in mwem.releases"
        catalog.set_column_comment(con, name, column, text)


def is_output(con: duckdb.DuckDBPyConnection, name: Name) -> bool:
    """Whether a table is the output of a release, by what is noted on it."""
    return _OURS in catalog.comment(con, name)


def comment_withdrawn(con: duckdb.DuckDBPyConnection, name: Name, withdrawal: object) -> None:
    """Say on an output, if it is still there, that its release was withdrawn."""
    before = catalog.comment(con, name)
    if before.startswith(_OURS):
        catalog.set_comment(con, name, f"WITHDRAWN {withdrawal}. {before}")


def workload_rows(workload: Workload) -> pa.Table:
    """The rows of mwem.workloads."""
    return pa.table(
        {
            "query": pa.array(range(1, len(workload) + 1), pa.int32()),
            "predicate": pa.array([query.predicate for query in workload], pa.string()),
            "measure": pa.array([query.measure for query in workload], pa.string()),
            "group_by": pa.array([query.group_text for query in workload], pa.string()),
            "name": pa.array([_name(query) for query in workload], pa.string()),
            "weight": pa.array([float(query.weight) for query in workload], pa.float64()),
            "always": pa.array([bool(query.always) for query in workload], pa.bool_()),
        }
    )


def _name(query: Query) -> str | None:
    """A name that the text does not give: that of listed columns is made of their bare names."""
    return query.name if query.group_by is None else query.label
