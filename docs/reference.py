"""docs/reference.md, from what the package declares: the same words are the comments on the functions in the database (`mwem_sql/surface/words.py`).

python docs/reference.py        # writes docs/reference.md; tests/project/test_reference.py fails where it is not up to date
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import sqlglot
from sqlglot import exp

from mwem_sql.platform.resources import read_sql
from mwem_sql.surface import meanings, words
from mwem_sql.surface.words import Entry

HERE = Path(__file__).resolve().parent
TITLE = """\
# Reference

Every function, parameter and column. This page is written by `python docs/reference.py` from the same words that the database has as comments on the functions:

```sql
SELECT comment FROM duckdb_functions() WHERE function_name = 'mwem_detach';
```

`name := value` gives a parameter that has a default; the others are given by their place. In Python, `mwem_sql.<name>(con, ...)` is `mwem_<name>(...)`,
with the same parameters; it returns an Arrow table, `release` a `Release` with the columns as attributes, `count` a number.
"""
ORDER = {
    "Release": ("mwem_release", "mwem_plan"),
    "Say what is possible and what is asked": ("mwem_domain", "mwem_suggest_domain", "mwem_marginals", "mwem_ranges", "mwem_parities"),
    "Use a release": ("mwem_answer", "mwem_count", "mwem_count_interval", "mwem_average", "mwem_quantile", "mwem_quality", "mwem_weights", "mwem_sample", "mwem_report", "mwem_export", "mwem_withdraw", "mwem_compare"),
    "Keep count": ("mwem_budget", "mwem_ledger", "mwem_policy"),
    "Other engines": ("mwem_attach", "mwem_detach", "mwem_sources"),
}  # fmt: skip
WORKLOAD = """\
## A workload

Any table or view with any of these columns, one query per row, read as `SELECT group_by, sum(measure) FROM t WHERE predicate GROUP BY group_by`.
"""
DOMAIN = """\
## A domain table

Declares which values are possible where the schema does not (ENUM, BOOLEAN, CHECK, NOT NULL), or overrides it. Called `<table>_domain`, it is found by itself.
"""
STORED = """\
## What is stored

In the schema `mwem` of the output's database. All of it but `mwem.ledger`, `mwem.budgets`, `mwem.journal` and `mwem.journal_head` may be published with the output; those
four are beside the private table and are the curator's.
"""
_TABLE = re.compile(r"((?:^--[^\n]*\n)*)^CREATE TABLE IF NOT EXISTS (\w+) \(\n(.*?)^\);", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r"^ {4}\"?([a-z_]+)\"? ([A-Z]+(?:\([^\n]*\))?(?:\[\])?)[^\n]*?(?:-- ([^\n]*))?$", re.MULTILINE)
_VIEW = re.compile(r"((?:^--[^\n]*\n)+)^CREATE VIEW IF NOT EXISTS (\w+)", re.MULTILINE)


def page() -> str:
    """The whole text."""
    found = {entry.name: entry for entry in words.entries()}
    parts = [TITLE, *_index(found)]
    for title, names in ORDER.items():
        parts.append(f"## {title}\n")
        parts += [part for name in names for part in _function(found[name])]
    parts += [WORKLOAD, _listed("column", meanings.WORKLOAD), DOMAIN, _listed("column", meanings.DOMAIN), STORED]
    parts += [part for script in ("metadata.sql", "ledger.sql") for part in _stored(read_sql(script))]
    parts += _views(read_sql("ledger.sql"))
    return "\n".join(parts)


def _index(found: Mapping[str, Entry]) -> Iterator[str]:
    for title, names in ORDER.items():
        yield f"- {title}: " + ", ".join(f"[{name}](#{name})" for name in names if found[name])
    yield "- [A workload](#a-workload), [a domain table](#a-domain-table), [what is stored](#what-is-stored)\n"


def _function(entry: Entry) -> Iterator[str]:
    yield f"### {entry.name}\n"
    yield f"{entry.purpose}\n"
    yield f"- Example: `{entry.example}`\n- Cost: {entry.cost}\n"
    if entry.name == "mwem_plan":
        yield "The parameters are those of [mwem_release](#mwem_release).\n"
    elif entry.parameters:
        yield "| parameter | default | meaning |\n|---|---|---|"
        for name, default in entry.parameters.items():
            yield f"| `{name}` | {'must be given' if default is None else f'`{default}`'} | {_cell(entry.means(name))} |"
        yield ""
    yield "| column | type | meaning |\n|---|---|---|"
    for name, kind in entry.columns.items():
        yield f"| `{name}` | {kind} | {_cell(entry.tells(name))} |"
    yield ""


def _stored(script: str) -> Iterator[str]:
    for head, name, body in _TABLE.findall(script):
        said = " ".join(line.removeprefix("--").strip() for line in head.splitlines())
        columns = {column: (kind, meaning) for column, kind, meaning in _COLUMN.findall(body)}
        yield f"### mwem.{name}\n"
        if said:
            yield f"{said}\n"
        yield "| column | type | meaning |\n|---|---|---|"
        for column, (kind, meaning) in columns.items():
            if meaning:
                yield f"| `{column}` | {kind} | {_cell(meaning)} |"
        others = ", ".join(f"`{column}` {kind}" for column, (kind, meaning) in columns.items() if not meaning)
        yield f"\nAnd {others}.\n" if others else ""


def _views(script: str) -> Iterator[str]:
    """What is a view of the journal has its columns."""
    heads = {name: head for head, name in _VIEW.findall(script)}
    for statement in sqlglot.parse(script, read="duckdb"):
        if isinstance(statement, exp.Create) and statement.kind == "VIEW":
            name = statement.this.name
            said = " ".join(line.removeprefix("--").strip() for line in heads[name].splitlines())
            columns = ", ".join(f"`{column.alias_or_name}`" for column in statement.expression.selects)
            yield f"### mwem.{name}\n\nA view of `mwem.journal`. {said} Its columns: {columns}.\n"


def _listed(title: str, rows: Mapping[str, str]) -> str:
    lines = [f"| `{name}` | {_cell(meaning)} |" for name, meaning in rows.items()]
    return "\n".join([f"| {title} | meaning |", "|---|---|", *lines, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    (HERE / "reference.md").write_text(page(), encoding="utf-8")
