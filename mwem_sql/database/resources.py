"""The SQL files that ship with the package: beside it in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def read_sql(name: str) -> str:
    """The text of `sql/<name>`."""
    inside = _PACKAGE / "sql" / name
    return (inside if inside.exists() else _PACKAGE.parent / "sql" / name).read_text(encoding="utf-8")
