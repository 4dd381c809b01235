"""What ships with the package: its version, and its SQL files, beside it in a checkout, inside it in a wheel."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

VERSION = next((package.version for package in metadata.distributions(name="mwem-sql")), "from source")
_PACKAGE = Path(__file__).resolve().parent.parent


def read_sql(name: str) -> str:
    """The text of `sql/<name>`."""
    inside = _PACKAGE / "sql" / name
    return (inside if inside.exists() else _PACKAGE.parent / "sql" / name).read_text(encoding="utf-8")
