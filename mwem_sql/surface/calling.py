"""A call of an SQL function: its arguments, where it comes from, and the sentence that goes out if it fails.

Owns how arguments are read, from SQL as JSON and from Python as they are, and what is said of one that cannot be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from mwem_sql.errors import MwemError, OptionError, WorkloadError, refuse
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.session import Session
from mwem_sql.releases import answer
from mwem_sql.releases.request import read_whole
from mwem_sql.workload import Workload

Cursor = Callable[[], duckdb.DuckDBPyConnection]


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call, read one by one."""

    function: str
    session: Session
    values: Mapping[str, Any]
    queries: Workload | list[str] | None = None
    """The workload; from SQL its rows, each as JSON, and None if it has none."""

    @classmethod
    def of_sql(cls, function: str, cursor: Cursor, text: str, queries: list[str] | None = None) -> Arguments:
        """What a macro passes on: the arguments and the caller's context, as one JSON text."""
        values = json.loads(text)
        context = values.pop("context")
        session = Session(cursor, Place(context["database"], context["schema"]), context["settings"])
        return cls(function, session, values, queries)

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def name(self, key: str) -> str:
        """The name of a table."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip():
            what = f"{key} ({value!r}) must be the name of a table"
            raise refuse(OptionError, self.function, what, "write it as a string, 'adult'")
        return value

    def number(self, key: str) -> int:
        """A whole number that is not negative."""
        return read_whole(self.function, key, self.values.get(key), 0, 10**9)

    def names(self, key: str) -> list[str] | None:
        """A list of names, from a list or from text with commas."""
        value = self.values.get(key)
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        return [str(part) for part in value] if isinstance(value, list) else None

    def confidence(self) -> float:
        return answer.read_confidence(self.values["confidence"], self.function)

    def given(self) -> str | None:
        return answer.read_given(self.values["given"], self.function)

    def answerer(self) -> answer.Answerer:
        """The release that the call is about."""
        return answer.answerer(self.session, self.name("output"), self.function)

    def workload(self) -> Workload:
        if self.queries is None:
            raise refuse(WorkloadError, "workload", "the workload has no rows", "add at least one query")
        return self.queries if isinstance(self.queries, Workload) else Workload.from_json(self.queries)


def sentence(function: str, error: Exception) -> str:
    """What the user reads. Of an error that nobody foresaw only the kind: its text could quote a private figure."""
    if isinstance(error, MwemError):
        return str(error)
    if isinstance(error, duckdb.Error):
        return f"{function}: {str(error).splitlines()[0]}"
    return f"{function}: unexpected {type(error).__name__}. Hint: please report it"
