"""Every function in words: the comments that the database has on its functions, and docs/reference.md.

What a function does, an example and its cost are the comment above its macro in `sql/macros.sql`; names and defaults are the macro's own; what
parameters and columns mean is in `meanings.py`. Owns how these are put together, and no words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from sqlglot import exp

from mwem_sql.platform.resources import read_sql
from mwem_sql.releases.quantile import OF_ITS_TYPE, QUANTILE
from mwem_sql.surface.functions import COUNTED, FUNCTIONS
from mwem_sql.surface.meanings import COLUMNS, OPTIONS, PARAMETERS


@dataclass(frozen=True)
class Entry:
    """A function as a reader looks it up."""

    name: str
    parameters: dict[str, str | None]
    """With their defaults, as SQL; None: it must be given."""
    purpose: str
    example: str
    cost: str
    columns: dict[str, str]
    """With their types."""

    @property
    def kind(self) -> str:
        """As DDL calls it."""
        return "MACRO TABLE" if self.name in _TABLES else "MACRO"

    @property
    def call(self) -> str:
        """How it is called, with all that must be given."""
        return f"{self.name}({', '.join(name for name, default in self.parameters.items() if default is None)})"

    def means(self, parameter: str) -> str:
        """Empty for one that nobody has described yet: a test says so, and no call fails for it."""
        if self.name in {"mwem_release", "mwem_plan"} and parameter in OPTIONS:
            return OPTIONS[parameter]
        return PARAMETERS.get(f"{self.name}.{parameter}") or PARAMETERS.get(parameter, "")

    def tells(self, column: str) -> str:
        """What a column tells; empty as above."""
        return COLUMNS.get(self.name, {}).get(column, "")

    @property
    def comment(self) -> str:
        """What the database says about it."""
        lines = [self.purpose, "", f"Example: {self.example}", f"Cost: {self.cost}", ""]
        for name, default in self.parameters.items():
            lines.append(f"{name}{'' if default is None else f' := {default}'}  {self.means(name)}")
        lines.append("")
        lines += [f"-> {name} {kind}  {self.tells(name)}" for name, kind in self.columns.items()]
        return "\n".join(lines)


# Columns that depend on arguments.
_TABLES = {function.name: function.columns for function in FUNCTIONS} | {
    "mwem_weights": {"<attribute>": "its type", "weight": "DOUBLE"},
    "mwem_quantile": QUANTILE | dict.fromkeys(OF_ITS_TYPE, "the column's type"),
    "mwem_sample": {"<column>": "its type"},
}
_SCALARS = {"mwem_count": {"answer": COUNTED["answer"]}, "mwem_count_interval": COUNTED}
_MACRO = re.compile(r"((?:^--[^\n]*\n)+)^CREATE OR REPLACE MACRO (\w+)\((.*?)\) AS\b", re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(r"(\w+)(?:\s*:=\s*(.*))?", re.DOTALL)


@cache
def entries() -> tuple[Entry, ...]:
    """Every function, in the order of the script."""
    return tuple(_entry(*found) for found in _MACRO.findall(read_sql("macros.sql")))


def _entry(head: str, name: str, listed: str) -> Entry:
    said: dict[str, list[str]] = {"": [], "Example": [], "Cost": []}
    for line in head.splitlines():
        key, found, rest = line.removeprefix("--").strip().partition(": ")
        if found and key in said:
            said[key].append(rest)
        else:
            said[""].append(line.removeprefix("--").strip())
    parameters: dict[str, str | None] = {}
    for part in listed.split(","):
        read = _PARAMETER.fullmatch(part.strip())
        if read is not None:
            parameters[read[1]] = read[2]
    columns = _TABLES.get(name) or _SCALARS.get(name, {})
    return Entry(name, parameters, " ".join(said[""]), " ".join(said["Example"]), " ".join(said["Cost"]), columns)


@cache
def comments() -> tuple[str, ...]:
    """Statements that say it in the database; `duckdb_functions()` shows it."""
    return tuple(
        exp.Comment(
            this=exp.to_identifier(entry.name), kind=entry.kind, expression=exp.Literal.string(entry.comment)
        ).sql("duckdb")
        for entry in entries()
    )
