"""docs/reference.md and sql/macros.sql, from what `mwem_sql/surface/spec.py` declares.

python docs/reference.py        # writes both; tests/project/test_reference.py fails where one is not up to date
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

import sqlglot
from sqlglot import exp

from mwem_sql.platform.metadata import read_sql
from mwem_sql.surface import spec
from mwem_sql.surface.declaration import SqlFunction, script

HERE = Path(__file__).resolve().parent
TITLE = """\
# Reference

Every function, parameter and column. This page is written by `python docs/reference.py` from the same words that the
database has as comments on the functions:

```sql
SELECT comment FROM duckdb_functions() WHERE function_name = 'mwem_detach';
```

`name := value` gives a parameter that has a default; the others are given by their place. In Python,
`mwem_sql.<name>(con, ...)` is `mwem_<name>(...)`, with the same parameters; it returns an Arrow table, `release` a
`Release` with the columns as attributes, `count` a number.
"""
WORKLOAD = """\
## A workload

Any table or view with any of these columns, one query per row, read as
`SELECT group_by, sum(measure) FROM t WHERE predicate GROUP BY group_by`.
"""
WORKLOAD_COLUMNS = {
    "predicate": "VARCHAR: a condition in SQL, as it would follow WHERE. NULL: all rows.",
    "measure": "VARCHAR: what is summed up, pay or sum(pay) or avg(pay). NULL: rows are counted.",
    "group_by": (
        "VARCHAR[]: column names and SQL expressions, ['sex', 'age // 10']; or VARCHAR: the same as text, 'sex, age "
        "// 10'. NULL: one number."
    ),
    "name": "VARCHAR: what answers call the query. NULL: its text.",
    "weight": "DOUBLE above 0: how important it is when queries are selected. NULL: 1.",
    "always": "BOOLEAN: measured in any case, ahead of all that is selected. NULL: false.",
    "of": (
        "VARCHAR: in a release of several tables, the one whose rows are counted. NULL: the one nearest to the root "
        "that has all columns of the row, or sees them above it."
    ),
}
DOMAIN = """\
## A domain table

Declares which values are possible where the schema does not (ENUM, BOOLEAN, CHECK, NOT NULL), or overrides it. Called
`<table>_domain`, it is found by itself.
"""
DOMAIN_COLUMNS = {
    "attribute": "VARCHAR: the column of the private table.",
    "values": "VARCHAR[]: all values that are possible. Or:",
    "low": "VARCHAR: the smallest possible value, of a number, date or timestamp. Smaller ones count as it.",
    "high": "VARCHAR: the largest. Larger ones count as it.",
    "step": (
        "VARCHAR: synthetic values lie at low, low + step and so on: days for dates, seconds for timestamps. "
        "Without bins and edges, bins begin there, too."
    ),
    "bins": "INTEGER: so many equal bins, for a column with very many values that is grouped or summed.",
    "edges": (
        "VARCHAR[]: where bins begin, instead of bins, the least first: ['10000', '100000']. The first bin begins "
        "at low, and an edge at high is a bin of that value alone."
    ),
    "nullable": "BOOLEAN: whether NULL is a value of its own. NULL or left out: as in the schema.",
    "open": "BOOLEAN: values off the list are one class more, which reads as NULL. NULL or left out: false.",
    "discover": (
        "BOOLEAN: of a text column, whether each release finds its values, those that enough rows (or units) have,"
        " beside the listed ones; the others are one class more. Needs a delta. NULL or left out: false."
    ),
}
STORED = """\
## What is stored

In the schema `mwem` of the output's database. All of it but `mwem.ledger`, `mwem.budgets`, `mwem.journal`,
`mwem.journal_head` and `mwem.draws` may be published with the output; those five are beside the private table and are
the curator's.
"""
_TABLE = re.compile(r"((?:^--[^\n]*\n)*)^CREATE TABLE IF NOT EXISTS (\w+) \(\n(.*?)^\);", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r"^ {4}\"?([a-z_]+)\"? ([A-Z]+(?:\([^\n]*\))?(?:\[\])?)[^\n]*?(?:-- ([^\n]*))?$", re.MULTILINE)
_VIEW = re.compile(r"((?:^--[^\n]*\n)+)^CREATE VIEW IF NOT EXISTS (\w+)", re.MULTILINE)


def page() -> str:
    """The whole text."""
    parts = [TITLE, *_index()]
    for title, functions in _sections():
        parts.append(f"## {title}\n")
        parts += [part for function in functions for part in _function(function)]
    parts += [WORKLOAD, _listed("column", WORKLOAD_COLUMNS), DOMAIN, _listed("column", DOMAIN_COLUMNS), STORED]
    parts += [part for file in ("metadata.sql", "ledger.sql") for part in _stored(read_sql(file))]
    parts += _views(read_sql("ledger.sql"))
    return "\n".join(map(_wrapped, "\n".join(parts).split("\n")))


def _wrapped(line: str) -> str:
    """A line of prose ends at 120; a row of a table has no end but its own."""
    if line.startswith("|"):
        return line
    rest = "  " if line.startswith("- ") else ""
    wrapped = textwrap.wrap(line, 120, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrapped)


def macros() -> str:
    """The script that `register` runs."""
    return script(tuple(spec.FUNCTIONS.values()))


def _sections() -> Iterator[tuple[str, list[SqlFunction]]]:
    for title, functions in groupby(spec.FUNCTIONS.values(), key=lambda function: function.section):
        yield title, list(functions)


def _index() -> Iterator[str]:
    for title, functions in _sections():
        yield f"- {title}: " + ", ".join(f"[{function.name}](#{function.name})" for function in functions)
    yield "- [A workload](#a-workload), [a domain table](#a-domain-table), [what is stored](#what-is-stored)\n"


def _function(function: SqlFunction) -> Iterator[str]:
    yield f"### {function.name}\n"
    yield f"{function.purpose}\n"
    yield f"- Example: `{function.example}`\n- Cost: {function.cost}\n"
    if function.name == "mwem_plan":
        yield "The parameters are those of [mwem_release](#mwem_release).\n"
    elif function.signature:
        yield "| parameter | default | meaning |\n|---|---|---|"
        for each in function.signature:
            default = "must be given" if each.default is None else f"`{each.default}`"
            yield f"| `{each.name}` | {default} | {_cell(each.words)} |"
        yield ""
    yield "| column | type | meaning |\n|---|---|---|"
    for column in function.columns:
        yield f"| `{column.name}` | {column.type} | {_cell(column.words)} |"
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
    (HERE.parent / "sql" / "macros.sql").write_text(macros(), encoding="utf-8")
