"""A call from SQL: its arguments come in as JSON, and a failure goes out as one sentence. Owns both."""

from __future__ import annotations

import json
from collections.abc import Callable

import duckdb

from mwem_sql.errors import MwemError
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.session import Session
from mwem_sql.surface.arguments import Arguments

Cursor = Callable[[], duckdb.DuckDBPyConnection]


def read(cursor: Cursor, text: str) -> tuple[Session, Arguments]:
    """Where a call comes from, and its arguments."""
    arguments = json.loads(text)
    context = arguments.pop("context")
    return Session(cursor, Place(context["database"], context["schema"]), context["settings"]), arguments


def sentence(function: str, error: Exception) -> str:
    """What the user reads. Of an error that nobody foresaw only the kind: its text could quote a private figure."""
    if isinstance(error, MwemError):
        return str(error)
    if isinstance(error, duckdb.Error):
        return f"{function}: {str(error).splitlines()[0]}"
    return f"{function}: unexpected {type(error).__name__}. Hint: please report it"
