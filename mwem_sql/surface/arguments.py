"""The arguments of a call, one by one: names, whole numbers, lists of names. Owns how they are read, and what is said of one that cannot be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mwem_sql.errors import OptionError, WorkloadError, refuse
from mwem_sql.releases.request import read_whole
from mwem_sql.workload import Workload

Arguments = dict[str, Any]
Rows = Iterable[dict[str, Any]]


def read_name(arguments: Arguments, key: str, function: str) -> str:
    """The name of a table."""
    value = arguments.get(key)
    if not isinstance(value, str) or not value.strip():
        raise refuse(
            OptionError, function, f"{key} ({value!r}) must be the name of a table", "write it as a string, 'adult'"
        )
    return value


def read_number(arguments: Arguments, key: str, function: str) -> int:
    """A whole number that is not negative."""
    return read_whole(function, key, arguments.get(key), 0, 10**9)


def read_queries(queries: list[str] | None) -> Workload:
    """The rows of a workload, each as JSON."""
    if queries is None:
        raise refuse(WorkloadError, "workload", "the workload has no rows", "add at least one query")
    return Workload.from_json(queries)


def name_list(value: object) -> list[str] | None:
    """A list of names from a list, or from text with commas."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    return [str(part) for part in value] if isinstance(value, list) else None
