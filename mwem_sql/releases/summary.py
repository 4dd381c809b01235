"""The summary of a release: its columns with their Python and DuckDB types, declared here and nowhere else.

`mwem_release` has these columns and `mwem_sql.Release` these attributes; those that are stored have the same name and type in
`sql/metadata.sql`, which a test checks. Owns no values: `run.py` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, get_type_hints


@dataclass(frozen=True, eq=False, kw_only=True)
class Summary:
    """What a call returns about its release."""

    release: Annotated[int, "INTEGER"]
    output: Annotated[str, "VARCHAR"]
    rows: Annotated[int, "BIGINT"]
    epsilon: Annotated[float, "DOUBLE"]
    delta: Annotated[float, "DOUBLE"]
    rounds: Annotated[int, "INTEGER"]
    queries: Annotated[int, "INTEGER"]
    attributes: Annotated[int, "INTEGER"]
    cells: Annotated[int, "BIGINT"]
    seconds: Annotated[float, "DOUBLE"]
    private: Annotated[bool, "BOOLEAN"]
    reused: Annotated[bool, "BOOLEAN"]
    protects: Annotated[str, "VARCHAR"]
    warning: Annotated[str | None, "VARCHAR"]
    measured: Annotated[int | None, "INTEGER"]
    mean_error: Annotated[float | None, "DOUBLE"]
    mean_error_within: Annotated[float | None, "DOUBLE"]
    quality: Annotated[str | None, "VARCHAR"]


SUMMARY: dict[str, str] = {
    name: kind.__metadata__[0] for name, kind in get_type_hints(Summary, include_extras=True).items()
}
"""The columns in order, with their DuckDB types."""
