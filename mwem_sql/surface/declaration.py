"""How an SQL function is declared, the parameters and columns that several share, and the SQL that follows.

Owns what macros and comments look like. Must not know any function: these are in `spec.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from importlib import import_module
from textwrap import fill
from typing import Any, Literal, Protocol

import duckdb
import pyarrow as pa
from sqlglot import exp

from mwem_sql.platform.sandbox import MEANINGFUL_SETTINGS
from mwem_sql.platform.seats import VARIABLE

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
        FROM (SELECT list(j ORDER BY n) AS queries
              FROM (SELECT row_number() OVER () AS n, to_json(__mwem_row)::VARCHAR AS j
                    FROM query_table(workload) AS __mwem_row))"""
_TYPED = """ TABLE
    FROM query(_{name}_sql({arguments}));
"""
_ONE_VALUE = """
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
    _: KW_ONLY
    is_curators: bool = False
    """Whether a server refuses an analyst's call that gives it."""


@dataclass(frozen=True)
class ResultColumn:
    """What a function returns. A name in <> and a type in words are those that a call decides on."""

    name: str
    type: str
    words: str


class Home(Protocol):
    """The instance that a call comes from."""

    key: str

    def cursor(self) -> duckdb.DuckDBPyConnection: ...


@dataclass(frozen=True, kw_only=True)
class SqlFunction:
    """An SQL function: all that macros, Python, comments, the reference and the shell know of it."""

    name: str
    section: str
    """Of the reference."""
    purpose: str
    example: str
    cost: str
    parameters: Sequence[Parameter] = ()
    options: Sequence[Parameter] = ()
    """Parameters that are passed on together; in Python they are keywords, `**options`."""
    columns: Sequence[ResultColumn]
    kind: Literal["rows", "typed", "scalar"] = "rows"
    """A table; a table whose columns depend on the arguments; or one value."""
    is_curators: bool = False
    """Whether a server refuses it to its analysts."""
    module: Literal["bodies", "attachments", "counting", "requesting"] = "bodies"
    """Of this folder, where its body is."""

    @cached_property
    def body(self) -> Callable[[Any], Any]:
        """What it does: the function of its name. With the first one, all is imported that does the work."""
        module = import_module(f"{__package__}.{self.module}")
        body: Callable[[Any], Any] = getattr(module, self.name.removeprefix("mwem_"))
        return body

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
        place, ticket = "database: current_database(), schema: current_schema()", f"getvariable('{VARIABLE}')"
        fields.append(f"context: {{{place}, settings: {{{settings}}}, ticket: {ticket}}}")
        arguments = "\n        " + _wrap(f"to_json({{{', '.join(fields)}}})::VARCHAR")
        if self.kind == "typed":
            return head + _TYPED.format(name=self.name, arguments=arguments)
        if self.kind == "scalar":
            fields = [f"{column.name}: r.{column.name}" for column in self.columns]
            result = f"r.{self.columns[0].name}" if len(fields) == 1 else f"{{{', '.join(fields)}}}"
            return head + _ONE_VALUE.format(name=self.name, arguments=arguments, result=result)
        queries, source = ("queries", _WORKLOAD) if self.takes_workload else ("NULL", "")
        return head + _ROWS.format(name=self.name, arguments=arguments, queries=queries, source=source)


def columns_of(types: Mapping[str, str], words: Mapping[str, str]) -> tuple[ResultColumn, ...]:
    """Columns whose names and types are declared elsewhere, with words for each."""
    return tuple(ResultColumn(name, kind, words[name]) for name, kind in types.items())


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


def script(functions: Sequence[SqlFunction]) -> str:
    """All that a database is given."""
    return "\n".join((HEADER, *(function.statements for function in functions)))


# fmt: off
TABLE = Parameter("private_table", None, VALUE, "The private table by its name, as text: 'adult' or "
                                               "'census.main.adult'. Or the path of a Parquet file, or a table of an "
                                               "attached source.")
TABLES = Parameter("private_table", None, VALUE, f"{TABLE.words} Or a list of tables that keys join, ['person', "
                                                 "'visit']: a table for each, whose keys join.")
JOINED_TABLES = Parameter("private_table", None, VALUE, f"{TABLE.words} Or a list of tables that keys join, ['person', "
                                                        "'visit'].")
WORKLOAD = Parameter("workload", None, VALUE, "The questions: a table or view, by its bare name. In Python also a "
                                              "frame or a Workload.")
DOMAIN_TABLE = Parameter("domain", "NULL", VALUE, "The name of a domain table. NULL: <table>_domain, if there is one. "
                                              "Of several tables: a name for each that has another, {person: 'd'}.")
RULES_TABLE = Parameter("rules", "NULL", VALUE, "The name of a rules table. NULL: <table>_rules, if there is one. Of "
                                            "several tables: {person: 'r'}.")
KNOWN_TABLE = Parameter("known", "NULL", VALUE, "The name of a table of public totals. NULL: <table>_known, if "
                                            "there is one. Of several tables: {person: 'k'}.")
OUTPUT = Parameter("output", None, TEXT, "The output of a release by its name, as text: 'adult_synthetic'.")
CONFIDENCE_LEVEL = Parameter("confidence", "0.95", TEXT, "How often the true answer is to be between low and high: "
                                                         "above 0 and below 1.")
PREDICATE = Parameter("predicate", None, TEXT, "A condition in SQL, as text: 'age > 40'.")
GIVEN = Parameter("given", "NULL", TEXT, "A condition in SQL, as text, that rows have to meet: 'sex = ''F'' AND age "
                                         ">= 65'. NULL: all rows.")
ALIAS = Parameter("alias", None, TEXT, "A plain name that stands for the source: its tables are alias.schema.table.")
RELEASE_EPSILON = Parameter("epsilon", None, TEXT, "The privacy budget of this release. Smaller is more private, and "
                                                   "noisier.")
RELEASE_OPTIONS = (
    Parameter("delta", "0.0", TEXT, "Above 0, noise may be Gaussian and is counted by zCDP, where the error will be "
                                    "smaller. 1e-6 is usual; it must be far below 1 over the number of people."),
    Parameter("rounds", "NULL", VALUE, "How many queries are selected and measured. NULL: chosen by itself."),
    Parameter("output", "NULL", VALUE, "The name of the output; database.schema.table for another database. NULL: "
                                       "<table>_synthetic."),
    Parameter("rows", "NULL", VALUE, "The rows of the output. NULL: as many as the noisy count says."),
    Parameter("total", "NULL", VALUE, "The number of rows, if it is public. If you give the true count, you have "
                                      "published it. NULL: estimated from what is measured, or with 1/50 of the "
                                      "budget."),
    DOMAIN_TABLE,
    RULES_TABLE,
    KNOWN_TABLE,
    Parameter("unit", "NULL", VALUE, "The column that identifies a person: all rows of a person are protected "
                                     "together. NULL: each row by itself."),
    Parameter("rows_per_unit", "NULL", VALUE, "How many rows of one person count. Needs unit. Of several tables: a "
                                              "number for all below the root, or one for each, {visit: 20}."),
    Parameter("start", "'uniform'", VALUE, "What the first round starts from. 'histogram': a noisy histogram of the "
                                           "whole domain, for a quarter of the budget. The output of an earlier "
                                           "release, or a table of public rows: what these say of columns of the "
                                           "same names. It is dropped where it turns out to be wrong."),
    Parameter("average", "false", VALUE, "true: release the average of all rounds, not the last one. This is the "
                                         "paper's figure and its theorem, without replays."),
    Parameter("fit", "'mirror'", VALUE, "How measurements are fitted after each round. 'mirror': all at once, until "
                                        "the misfit no longer falls. 'replay': 100 passes of the paper's fixed step."),
    Parameter("max_cells", "NULL", VALUE, "The largest model, in cells. NULL: 10,000,000. A query that would exceed "
                                          "it is not asked. If none is left, rounds measure again what was measured."),
    Parameter("certify", "NULL", VALUE, "The share of the budget that tells how far off the answers are in the end, 0 "
                                        "to 0.5. NULL: 0.02, or 0 if rounds or average is given."),
    Parameter("publish_if", "NULL", VALUE, "A condition on the certificate, 'mean_share < 0.1': mean_share is the most "
                                           "that the true mean error may be, 95 times in 100. Where it is not met, "
                                           "the budget is spent and nothing is published. NULL: always published."),
    Parameter("version", "NULL", TEXT, "A new version makes, and charges, a new release under the same output name."),
    Parameter("seed", "NULL", VALUE, "Repeatable noise, for experiments. The release is marked private = false.",
              is_curators=True),
)
CAP = (
    Parameter("epsilon", None, TEXT, "What all releases of the table may spend together."),
    Parameter("delta", "0.0", TEXT, "0: epsilons are added up, and a release with a delta is refused. Above "
                                    "0: everything is counted in rho (zCDP) and converted once at this delta."),
    Parameter("unit", "NULL", VALUE, "Makes it a cap per person: every release of the table must give the "
                                     "same unit. A table: a row of it and all rows that lead to it by keys."),
    Parameter("rows_per_unit", "1", VALUE, "As many as every release of the table must give. Not for a table "
                                           "as unit: there each release says for itself."),
    Parameter("user", "NULL", VALUE, "Makes it a cap on what this user of a server asks, beside the table's: "
                                     "of the table, or of all tables where the table is NULL."),
    Parameter("every", "NULL", VALUE, "'30 days', '12 hours': a cap that renews. Each window is a new cap by "
                                      "your word: over k windows a table's rows are in for k times epsilon."),
)
QUERY = ResultColumn("query", "INTEGER", "The row of the workload, from 1.")
QUERY_NAME = ResultColumn("name", "VARCHAR", "The query's name, or its text.")
CELL = ResultColumn("cell", "VARCHAR[]", "The group_by values, in their order; NULL for a query without.")
ANSWER_VALUE = ResultColumn("answer", "DOUBLE", "What the release says. A count need not be whole.")
MEASURED = ResultColumn("measured", "VARCHAR", "directly: it was measured, and only noise is in the way. in part: "
                                               "some of it was. never: a guess of the model.")
INTERVAL = (
    ResultColumn("low", "DOUBLE", "The true answer is above this and below high, as often as confidence says."),
    ResultColumn("high", "DOUBLE", "See low."),
    MEASURED,
)
QUESTION = (
    ResultColumn("predicate", "VARCHAR", "The condition; NULL: all rows."),
    ResultColumn("measure", "VARCHAR", "What is summed up; NULL: rows are counted."),
    ResultColumn("group_by", "VARCHAR[]", "The columns."),
    ResultColumn("name", "VARCHAR", "The query's text."),
    ResultColumn("weight", "DOUBLE", "1."),
    ResultColumn("of", "VARCHAR", "The table whose rows are counted, of a list of tables; NULL: there is one."),
)
SOURCE = (
    ResultColumn("alias", "VARCHAR", "What stands for the source."),
    ResultColumn("kind", "VARCHAR", "postgresql, spark or duckdb."),
    ResultColumn("source", "VARCHAR", "Where it is, without secrets."),
    ResultColumn("ledger", "VARCHAR", "The database that keeps its accounts."),
    ResultColumn("timeout", "DOUBLE", "Seconds for all scans of a call; NULL: no limit."),
)
BUDGET = (
    ResultColumn("schema_name", "VARCHAR", "The table's schema."),
    ResultColumn("table_name", "VARCHAR", "The table."),
    ResultColumn("epsilon", "DOUBLE", "The cap."),
    ResultColumn("delta", "DOUBLE", "The delta of the cap."),
    ResultColumn("epsilon_spent", "DOUBLE", "What its releases have spent, as the cap counts."),
    ResultColumn("delta_spent", "DOUBLE", "The delta at which that was worked out."),
    ResultColumn("epsilon_left", "DOUBLE", "What is left."),
    ResultColumn("unit", "VARCHAR", "Whose rows are protected together; NULL: each row by itself."),
    ResultColumn("rows_per_unit", "INTEGER", "How many rows of one unit count; NULL: all, of a table as unit."),
    ResultColumn("seeded", "INTEGER", "Releases with a seed from before the cap, which no budget covers."),
    ResultColumn("also_charged_as", "VARCHAR", "Other names under which the same rows were charged, and what "
                                               "was spent there."),
    ResultColumn("partition_by", "VARCHAR", "The column by whose values charges add up (mwem_partition): "
                                            "spent and left are those of the value with least left, and what "
                                            "is left is for a release of all rows. NULL: none."),
    ResultColumn("user_name", "VARCHAR", "The user of a server whose cap it is; NULL: it is for all."),
    ResultColumn("every", "VARCHAR", "After how long it renews; NULL: never."),
)
LEDGER = (
    ResultColumn("database_name", "VARCHAR", "Where the private table is."),
    ResultColumn("schema_name", "VARCHAR", "Its schema."),
    ResultColumn("table_name", "VARCHAR", "Its name, when it was charged."),
    ResultColumn("output", "VARCHAR", "What was written; NULL where nothing was."),
    ResultColumn("epsilon", "DOUBLE", "What was charged."),
    ResultColumn("delta", "DOUBLE", "What was charged."),
    ResultColumn("action", "VARCHAR", "The function: mwem_release, or one that is only noted: not private, or "
                                      "mwem_withdraw."),
    ResultColumn("private", "BOOLEAN", "false: a seed, or a function that is not private."),
    ResultColumn("status", "VARCHAR", "done; open: running, or killed; failed; withheld: made, "
                                      "and not published (publish_if). All of them count."),
    ResultColumn("started", "TIMESTAMP", "When."),
    ResultColumn("finished", "TIMESTAMP", "When; NULL while it is open."),
    ResultColumn("who", "VARCHAR", "The user, as the system says by the process's user id."),
    ResultColumn("unit", "VARCHAR", "Whose rows were protected together; NULL: each row by itself."),
    ResultColumn("rows_per_unit", "INTEGER", "How many rows of one unit counted."),
    ResultColumn("epsilon_spent", "DOUBLE", "What all releases of the table have spent, to this day; with a "
                                            "partition, at the value with most."),
    ResultColumn("epsilon_left", "DOUBLE", "What the cap leaves for a release of all rows; NULL without one."),
    ResultColumn("intact", "BOOLEAN", "false: somebody changed the journal by hand."),
    ResultColumn("version", "VARCHAR", "The version that was asked for; NULL without one."),
    ResultColumn("workload", "VARCHAR", "What was asked: its first query, and how many more there are."),
    ResultColumn("claimed", "VARCHAR", "The user that the environment names (USER, LOGNAME), where that is "
                                       "another one."),
    ResultColumn("reason", "VARCHAR", "Why a release was withdrawn; NULL for all else."),
    ResultColumn("partition", "VARCHAR", "For which values of the column that mwem_partition declares it "
                                         "counts; NULL: for all."),
    ResultColumn("user_name", "VARCHAR", "The user of a server that asked; NULL: it did not come by a server."),
)
REQUEST_ID = Parameter("request", None, VALUE, "The request, as mwem_requests() names it, as text.")
REQUEST = (
    ResultColumn("request", "VARCHAR", "What it is named by, for mwem_approve and the others."),
    ResultColumn("kind", "VARCHAR", "release: it is beyond the user's caps. publish: it was made and charged, and "
                                    "does not meet its publish_if."),
    ResultColumn("state", "VARCHAR", "open; approved: the same call of mwem_release does it, once; used: it was done; "
                                     "refused; withdrawn."),
    ResultColumn("asked", "TIMESTAMP", "Since when."),
    ResultColumn("user_name", "VARCHAR", "The user of a server who asks; NULL: it did not come by a server."),
    ResultColumn("database_name", "VARCHAR", "Where the private table is."),
    ResultColumn("schema_name", "VARCHAR", "Its schema."),
    ResultColumn("table_name", "VARCHAR", "Its name."),
    ResultColumn("output", "VARCHAR", "What would be written."),
    ResultColumn("epsilon", "DOUBLE", "The price."),
    ResultColumn("delta", "DOUBLE", "The price."),
    ResultColumn("unit", "VARCHAR", "Whose rows would be protected together; NULL: each row by itself."),
    ResultColumn("rows_per_unit", "INTEGER", "How many rows of one unit would count."),
    ResultColumn("version", "VARCHAR", "The version that is asked for; NULL without one."),
    ResultColumn("workload", "VARCHAR", "What is asked: its first query, and how many more there are. mwem.requests "
                                        "has all of it."),
    ResultColumn("decided", "TIMESTAMP", "When it was approved, refused or withdrawn; NULL: it was not."),
    ResultColumn("reason", "VARCHAR", "Why it was refused; NULL for all else."),
    ResultColumn("used_by", "VARCHAR", "The entry of the ledger that it was used by; NULL: it was not."),
    ResultColumn("plan", "VARCHAR[]", "What would run, as mwem_plan said when it was asked; NULL: it is gone."),
    ResultColumn("intact", "BOOLEAN", "false: somebody changed the journal by hand."),
)
RULE = (
    ResultColumn("rule", "VARCHAR", "A condition that no row makes false, or what a column is computed by."),
    ResultColumn("attributes", "VARCHAR[]", "The columns that it is about."),
    ResultColumn("declared", "VARCHAR", "Where it is declared: CHECK, GENERATED or the rules table."),
    ResultColumn("holds", "VARCHAR", "cells of the model are 0: as far as classes of a workload tell rows "
                                     "apart that break it. rows are drawn again: it joins too many values. "
                                     "computed: the column is not modelled."),
    ResultColumn("lacks", "VARCHAR", "What is missing before it can hold; NULL: nothing."),
    ResultColumn("of", "VARCHAR", "Which of several tables it is about; NULL for one."),
)
PUBLIC_TOTAL = (
    ResultColumn("predicate", "VARCHAR", "Which rows are counted; NULL: all."),
    ResultColumn("rows", "BIGINT", "How many there are; NULL: the totals do not say it."),
    ResultColumn("attributes", "VARCHAR[]", "The columns that it is about."),
    ResultColumn("declared", "VARCHAR", "table of public totals, or: follows from others."),
    ResultColumn("lacks", "VARCHAR", "What is missing before it can hold; NULL: nothing."),
    ResultColumn("of", "VARCHAR", "Which of several tables it is about; NULL for one."),
)
FILE = (
    ResultColumn("file", "VARCHAR", "What was written."),
    ResultColumn("bytes", "BIGINT", "Its size."),
)
ATTRIBUTE = ResultColumn("attribute", "VARCHAR", "The column.")
VALUES = ResultColumn("values", "VARCHAR[]", "Its possible values; NULL where it has bounds.")
LOW = ResultColumn("low", "VARCHAR", "The smallest possible value, as text.")
HIGH = ResultColumn("high", "VARCHAR", "The largest possible value, as text.")
STEP = ResultColumn("step", "VARCHAR", "What synthetic values are multiples of, from low on: days for dates, seconds "
                                       "for timestamps. Without bins and edges, bins begin there, too.")
BIN_COUNT = ResultColumn("bins", "INTEGER", "Equal bins that its values are counted in.")
EDGES = ResultColumn("edges", "VARCHAR[]", "Where bins begin, after the first at low, if they are not equal.")
NULLABLE = ResultColumn("nullable", "BOOLEAN", "Whether NULL is a value of its own.")
OPEN = ResultColumn("open", "BOOLEAN", "Whether values off the list are one class more.")
DISCOVER = ResultColumn("discover", "BOOLEAN", "Whether a release finds its values, those of enough units.")
