"""An SQL function as it is declared, and the SQL text that follows from a declaration: its macro and its comment.

Owns what macros look like. Must not know any function: these are in `spec.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any, Literal

import pyarrow as pa
from sqlglot import exp

from mwem_sql.platform.sandbox import MEANINGFUL_SETTINGS

TEXT, VALUE, JSON = '"{0}"::VARCHAR', '"{0}"', 'to_json("{0}")'
"""Forms in which a macro passes a parameter on: as text, as it is, or as JSON of any type."""
_ARROW = {
    "VARCHAR": pa.string(), "VARCHAR[]": pa.list_(pa.string()), "INTEGER": pa.int32(), "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_(), "TIMESTAMP": pa.timestamp("us"),
}  # fmt: skip
HEADER = """\
-- The SQL surface of mwem_sql, run by register(). Written by `python docs/reference.py` from mwem_sql/surface/spec.py.
-- Why each body looks as it does: the function returns a LIST of STRUCT that is unnested, because unnesting a plain
-- STRUCT runs it once per field, and every run of a release is charged; the workload is read in FROM, ordered, because
-- a subquery as an argument cannot be copied; an error comes back as the field err, so that the user reads our sentence
-- and no Python stack. It is raised inside the list, before there are rows: whatever the outer query filters, projects
-- or limits comes after that. The context is in every body: after USE of another database, a macro is still found by
-- its full name, but not one that it calls.
"""
_ROWS = """ TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_{name}({arguments}, {queries}),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r{source});
"""
_WORKLOAD = """
        FROM (SELECT list({n: n, j: j} ORDER BY n) AS queries
              FROM (SELECT row_number() OVER () AS n, to_json(__mwem_row)::VARCHAR AS j
                    FROM query_table(workload) AS __mwem_row))"""
_TYPED = """ TABLE
    FROM query(_{name}_sql({arguments}));
"""
_SCALAR = """
    list_transform([_{name}({arguments})],
        lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE {result} END)[1];
"""


@dataclass(frozen=True)
class Parameter:
    """What a function is called with. The default is SQL; without one, it must be given."""

    name: str
    default: str | None
    form: str
    words: str


@dataclass(frozen=True)
class Column:
    """What a function returns. A name in <> and a type in words are those that a call decides on."""

    name: str
    type: str
    words: str


@dataclass(frozen=True, kw_only=True)
class Function:
    """An SQL function: all that macros, Python, comments, the reference and the shell know of it."""

    name: str
    purpose: str
    example: str
    cost: str
    parameters: Sequence[Parameter] = ()
    options: Sequence[Parameter] = ()
    """Parameters that are passed on together; in Python they are keywords, `**options`."""
    columns: Sequence[Column]
    body: Callable[[Any], Any]
    kind: Literal["rows", "typed", "scalar"] = "rows"
    """A table; a table whose columns depend on the arguments; or one value."""

    @property
    def signature(self) -> tuple[Parameter, ...]:
        """All parameters, options last."""
        return (*self.parameters, *self.options)

    @property
    def optional(self) -> list[str]:
        """Names of the parameters that have a default."""
        return [parameter.name for parameter in self.signature if parameter.default is not None]

    @property
    def takes_workload(self) -> bool:
        return any(parameter.name == "workload" for parameter in self.parameters)

    @property
    def schema(self) -> pa.Schema:
        """The columns in Arrow's types."""
        return pa.schema({column.name: _ARROW[column.type] for column in self.columns})

    @property
    def struct(self) -> str:
        """The type of a row, with a field for a refusal in front."""
        fields = ", ".join(f'"{column.name}" {column.type}' for column in self.columns)
        return f"STRUCT(err VARCHAR, {fields})"

    @property
    def ddl_kind(self) -> str:
        return "MACRO" if self.kind == "scalar" else "MACRO TABLE"

    @property
    def comment(self) -> str:
        """What the database says about it."""
        lines = [self.purpose, "", f"Example: {self.example}", f"Cost: {self.cost}", ""]
        lines += [f"{_in_signature(parameter)}  {parameter.words}" for parameter in self.signature]
        lines.append("")
        lines += [f"-> {column.name} {column.type}  {column.words}" for column in self.columns]
        return "\n".join(lines)

    @property
    def statements(self) -> str:
        """The macro and its comment."""
        said = exp.Literal.string(self.comment).sql("duckdb")
        return f"{self._macro()}\nCOMMENT ON {self.ddl_kind} {self.name} IS {said};\n"

    def _macro(self) -> str:
        head = _wrap(f"CREATE OR REPLACE MACRO {self.name}({', '.join(map(_in_signature, self.signature))}) AS")
        fields = [_argument(each) for each in self.parameters if each.name != "workload"]
        if self.options:
            fields.append(f'"options": {{{", ".join(map(_argument, self.options))}}}')
        settings = ", ".join(f"{name}: current_setting('{name}')" for name in MEANINGFUL_SETTINGS)
        fields.append(f"context: {{database: current_database(), schema: current_schema(), settings: {{{settings}}}}}")
        arguments = "\n        " + _wrap(f"to_json({{{', '.join(fields)}}})::VARCHAR")
        if self.kind == "typed":
            return head + _TYPED.format(name=self.name, arguments=arguments)
        if self.kind == "scalar":
            fields = [f"{column.name}: r.{column.name}" for column in self.columns]
            result = f"r.{self.columns[0].name}" if len(fields) == 1 else f"{{{', '.join(fields)}}}"
            return head + _SCALAR.format(name=self.name, arguments=arguments, result=result)
        queries, source = ("queries", _WORKLOAD) if self.takes_workload else ("NULL", "")
        return head + _ROWS.format(name=self.name, arguments=arguments, queries=queries, source=source)


def columns_of(types: Mapping[str, str], words: Mapping[str, str]) -> tuple[Column, ...]:
    """Columns whose names and types are declared elsewhere, with words for each."""
    return tuple(Column(name, kind, words[name]) for name, kind in types.items())


def _in_signature(parameter: Parameter) -> str:
    return parameter.name if parameter.default is None else f"{parameter.name} := {parameter.default}"


def _argument(parameter: Parameter) -> str:
    return f'"{parameter.name}": {parameter.form.format(parameter.name)}'


def _wrap(text: str) -> str:
    """Lines that end between items, never between a name and its value."""
    whole = re.sub(" ?:=? ", lambda colon: colon[0].replace(" ", "\0"), text)
    return fill(whole, 112, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False).replace(
        "\0", " "
    )


def script(functions: Sequence[Function]) -> str:
    """All that a database is given."""
    return "\n".join((HEADER, *(function.statements for function in functions)))
