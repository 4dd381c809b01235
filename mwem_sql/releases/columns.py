"""The columns of what calls return, with their DuckDB types: they are declared before anything of the work is imported.

`mwem_release` has the summary's columns and `mwem_sql.Release` has them as attributes; those that are stored have the
same name and type in `sql/metadata.sql`, which a test checks.
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


SUMMARY_TYPES: dict[str, str] = {
    name: kind.__metadata__[0] for name, kind in get_type_hints(Summary, include_extras=True).items()
}
"""The columns in order, with their DuckDB types."""

QUANTILE = {"share": "DOUBLE", "answer": "VARCHAR", "low": "VARCHAR", "high": "VARCHAR", "measured": "VARCHAR"}
"""The columns of `mwem_quantile` as they are worked out."""
OF_ITS_TYPE = ("answer", "low", "high")
"""Those that are cast to the type of the attribute."""
