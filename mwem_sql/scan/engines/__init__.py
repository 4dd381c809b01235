"""Engines: where private rows live. From what a user names (a URI, a file, a session) to the engine that reads it.

Owns what counts as a secret.

Drivers are imported only when they are needed: they come with `pip install 'mwem-sql[engines]'`.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qsl, urlsplit

from mwem_sql.errors import OptionError, refuse
from mwem_sql.scan.engines.duckdb import DuckDBFile
from mwem_sql.scan.engines.protocol import RowEngine


def check_no_secret(source: str) -> None:
    """Refuse a text with a password in it, without repeating it: SQL is logged, and kept in histories."""
    keys = [key.lower() for key, _ in parse_qsl(urlsplit(source).query.replace(";", "&"), keep_blank_values=True)]
    keys += [part.partition("=")[0].lower() for part in source.split(";")[1:]]  # sc://host:15002/;token=...
    is_named = re.search(r"\b(password|passwd|pwd|token)\s*=", source, re.IGNORECASE) is not None
    if is_named or _has_password(source) or set(keys) & {"password", "sslpassword", "token"}:
        what = "source has a password or token in it, and SQL text is written to logs and histories"
        cure = "leave it out: set PGPASSWORD or PGPASSFILE in the environment"
        raise refuse(OptionError, "mwem_attach", what, f"{cure}, or use mwem_sql.attach(con, alias, source) in Python")


def open_engine(source: object, timeout: float | None) -> RowEngine:
    """The engine of a source."""
    if isinstance(source, Path):
        return DuckDBFile(source, timeout)
    if isinstance(source, str):
        if source.startswith(("postgresql://", "postgres://")):
            return _module("postgresql").PostgreSQL.of_uri(source, timeout)  # type: ignore[no-any-return]
        if source.startswith("sc://"):
            return _module("spark").Spark.of_remote(source, timeout)  # type: ignore[no-any-return]
        if "://" not in source:
            return DuckDBFile(source, timeout)
    kind = type(source)
    if kind.__module__.startswith("adbc_driver_manager"):
        return _module("postgresql").PostgreSQL.of_connection(source, timeout)  # type: ignore[no-any-return]
    if kind.__module__.startswith("pyspark.sql") and kind.__name__ == "SparkSession":
        return _module("spark").Spark.of_session(source, timeout)  # type: ignore[no-any-return]
    scheme = source.partition("://")[0] + "://..." if isinstance(source, str) else kind.__name__
    cure = "give postgresql://user@host/database, sc://host:15002, the path of a DuckDB file"
    raise refuse(
        OptionError,
        "mwem_attach",
        f"source ({scheme!r}) is not of a kind that can be attached",
        f"{cure}, or in Python an ADBC connection or a SparkSession",
    )


def _module(name: str) -> ModuleType:
    try:
        return import_module(f"mwem_sql.scan.engines.{name}")
    except ImportError:
        what = f"the driver for {name} is not installed"
        raise refuse(OptionError, "mwem_attach", what, "pip install 'mwem-sql[engines]'") from None


def _has_password(source: str) -> bool:
    try:
        return bool(urlsplit(source).password)
    except ValueError:
        return True  # what cannot be read may have one
