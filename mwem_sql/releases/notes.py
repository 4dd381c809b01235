"""What is noted beside a release for whoever has nothing but the release: comments on its table and columns, and the workload that it was made for.

Public inputs and released facts only, and no clock time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from mwem_sql.accounting.caps import protected
from mwem_sql.database import catalog
from mwem_sql.database.catalog import Name
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.workload import Query, Workload

MOST_COLUMNS = 200
"""Columns of a table that has a comment on each. A comment copies the table's entry in the catalog: on 1,000 columns 1.6 s of a processor, on 200 some 0.1 s."""
MOST_VALUES = 8
"""Values of an attribute that are listed in a comment."""
_OURS = "Synthetic rows by mwem_release"


def comment(con: duckdb.DuckDBPyConnection, name: Name, facts: Mapping[str, Any]) -> None:
    """Say on an output, and on each of its columns, what it is and where to look."""
    budget = f"epsilon {facts['epsilon']:g}, delta {facts['delta']:g}"
    if not facts["private"]:
        budget += ", with a seed: NOT PRIVATE"
    protects = protected(facts["unit"], facts["rows_per_unit"])
    catalog.set_comment(
        con,
        name,
        f"{_OURS} ({budget}; protects {protects}). How they were made: release {facts['release']} in mwem.releases,"
        f" mwem.measurements and mwem.workloads of this database. Sharper than these rows: mwem_answer and mwem_count."
        f" DROP TABLE takes the rows only: the release stays, answers, and is charged. mwem_withdraw takes it back.",
    )
    attributes = list(Domain.from_json(json.loads(facts["domain"])))
    for attribute in attributes if len(attributes) <= MOST_COLUMNS else ():
        text = f"Synthetic ({budget}); {_declared(attribute)}; release {facts['release']} in mwem.releases"
        catalog.set_column_comment(con, name, attribute.name, text)


def is_output(con: duckdb.DuckDBPyConnection, name: Name) -> bool:
    """Whether a table is the output of a release, by what is noted on it."""
    return _OURS in catalog.comment(con, name)


def comment_withdrawn(con: duckdb.DuckDBPyConnection, name: Name, withdrawal: object) -> None:
    """Say on an output, if it is still there, that its release was withdrawn."""
    before = catalog.comment(con, name)
    if before.startswith(_OURS):
        catalog.set_comment(con, name, f"WITHDRAWN {withdrawal}. {before}")


def _declared(attribute: Attribute) -> str:
    """The public domain in a few words."""
    if attribute.values is None:
        assert attribute.low is not None and attribute.high is not None
        found = f"from {attribute.text(attribute.low)} to {attribute.text(attribute.high)}"
    else:
        more = len(attribute.values) - MOST_VALUES
        found = "one of " + ", ".join(attribute.values[:MOST_VALUES]) + (f" and {more:,} more" if more > 0 else "")
    beyond = "others are NULL" if attribute.values is not None else "what is beyond is shown as the bound"
    return found + (f", {beyond}" if attribute.open else "")


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
