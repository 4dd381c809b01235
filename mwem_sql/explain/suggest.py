"""What is declared of a table's columns, and what is suggested for the others: a row each, and a script to review.

The script goes from a table without a domain to its release. Owns its words and the order of its lines. Must not read a
private row itself: `scan/suggestion.py` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from mwem_sql.accounting.ledger import ledger_of
from mwem_sql.boundary import files, relations
from mwem_sql.boundary.levels import NUMBER_TYPE, Level
from mwem_sql.boundary.public import PUBLIC_TABLES
from mwem_sql.boundary.relations import Relation
from mwem_sql.compile.rules import breaches
from mwem_sql.compile.totals import total_of_all
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.declarations import from_schema
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import DomainError, refuse
from mwem_sql.language import dialect
from mwem_sql.platform.catalog import Name, Place
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session
from mwem_sql.scan import execution
from mwem_sql.scan.suggestion import Suggestion, suggest_domain

_COLUMNS = {
    "attribute": "VARCHAR", "values": "VARCHAR[]", "low": "VARCHAR", "high": "VARCHAR", "step": "VARCHAR",
    "bins": "INTEGER", "edges": "VARCHAR[]", "nullable": "BOOLEAN", "open": "BOOLEAN",
}  # fmt: skip
TITLE = """\
NOT PRIVATE. This was made by reading the private rows, and no budget covers it: show it to nobody who may not see them.
Whatever stays in here becomes public. Read every line that says CHECK, change it where you know better, then run all \
of it.
"""
VIEW = "_numbers"
"""How the name of a view ends that has columns in other types than its table."""


def domain_rows(domain: Domain, types: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """What is declared of each column, and what it lacks. `types` are those of columns of which nothing is declared."""
    computed = {each.name: each for each in domain.computed}
    for name in domain.columns:
        attribute = domain.attribute(name)
        if attribute is not None:
            yield _attribute(attribute)
        elif name in computed:
            declared = f"computed: {computed[name].source}"
            yield {"attribute": name, "type": computed[name].type, "declared": declared, "lacks": domain.lacks(name)}
        else:
            yield {"attribute": name, "type": types[name], "lacks": domain.lacks(name)}


def levels_rows(levels: Sequence[Level], domains: Sequence[Domain]) -> Iterator[dict[str, Any]]:
    """The same of several tables that keys join: the columns of each, called table.column.

    And how many rows of the tables below lead to a row: a release gives the most of these.
    """
    for level, domain in zip(levels, domains, strict=True):
        types = {column.name: column.type for column in level.table.columns}
        for row in domain_rows(replace(domain, columns=domain.own), types):
            is_key = row["attribute"] in level.joining
            words = {"lacks": "it is a key: synthetic rows have new numbers there"} if is_key else {}
            yield {**row, "attribute": f"{level.name}.{row['attribute']}", **words}
        for name in () if domain.link is None else domain.link.below:
            declared = f"rows of {name}, up to rows_per_unit of the release"
            number = {"type": NUMBER_TYPE, "low": "0", "nullable": False, "open": False, "declared": declared}
            yield {"attribute": f"{level.name}.{name}", **number}


def rule_rows(domain: Domain, sandbox: Sandbox) -> Iterator[dict[str, Any]]:
    """What is possible of several columns together, and how it is kept."""
    for rule in domain.rules:
        columns = domain.columns_of(rule)
        lacking = [name for name in columns if domain.attribute(name) is None]
        is_cells = not lacking and all(
            breach.compiled is not None
            for breach in breaches(replace(domain, rules=(rule,)), set(domain.columns), sandbox)
        )
        yield {
            "rule": rule.text,
            "attributes": list(columns),
            "declared": rule.source,
            "holds": None if lacking else "cells of the model are 0" if is_cells else "rows are drawn again",
            "lacks": f"a domain of {lacking[0]}" if lacking else None,
        }
    for each in domain.computed:
        yield {
            "rule": f"{dialect.name(each.name)} = {each.text}",
            "attributes": [each.name, *each.columns],
            "declared": each.source,
            "holds": "computed" if domain.lacks(each.name) is None else None,
            "lacks": domain.lacks(each.name),
        }


def total_rows(domain: Domain, sandbox: Sandbox) -> Iterator[dict[str, Any]]:
    """Public totals, the number of rows if it follows from them, and what is lacking."""
    for total, columns in domain.columns_of_totals.items():
        lacking = [name for name in columns if domain.attribute(name) is None]
        yield {
            "predicate": total.text,
            "rows": total.rows,
            "attributes": list(columns),
            "declared": PUBLIC_TABLES["known"],
            "lacks": f"a domain of {lacking[0]}" if lacking else None,
        }
    rows = total_of_all(domain, sandbox) if domain.totals else None  # refuses what contradicts
    if domain.totals and not any(total.text is None for total in domain.totals):
        lacks = "totals of all that a column can be, NULL and values off its domain too, or a row that counts all rows"
        yield {
            "predicate": None,
            "rows": rows,
            "attributes": [],
            "declared": None if rows is None else "follows",
            "lacks": lacks if rows is None else None,
        }


def _attribute(attribute: Attribute) -> dict[str, Any]:
    return {
        "attribute": attribute.name,
        "type": attribute.type,
        "values": None if attribute.values is None else list(attribute.values),
        "low": None if attribute.low is None else attribute.text(attribute.low),
        "high": None if attribute.high is None else attribute.text(attribute.high),
        "step": attribute.step_text,
        "bins": attribute.bins,
        "edges": None if attribute.edges is None else [attribute.text(edge) for edge in attribute.edges],
        "nullable": attribute.nullable,
        "open": attribute.open,
        "discover": attribute.discover,
        "cells": attribute.cells,
        "declared": attribute.source,
        "lacks": attribute.lacks,
    }


def suggestion_rows(session: Session, table: str) -> Iterator[dict[str, Any]]:
    """What is suggested of each column, or why nothing is. The script is in the first row.

    Privacy:
        None: the suggestions are read off the private rows, and the ledger notes it.
    """
    function = "mwem_suggest_domain"
    con = session.cursor()
    relation = relations.describe(con, table, session.place, function)
    with Sandbox(session.settings) as sandbox:
        declared = from_schema(relation, sandbox)
    with ledger_of(con, relation, session.place, function).note(session.cursor, None, function):
        rows = execution.engine_of(session.cursor(), relation)
        suggestions = {each.attribute: each for each in suggest_domain(rows, relation, declared)}
    if not declared and all(each.missing for each in suggestions.values()):
        reasons = "; ".join(f"{each.attribute}: {each.missing}" for each in suggestions.values())
        what = f"table ({relation.name.table!r}) has no column that a domain can be suggested for ({reasons})"
        hint = "declare the columns yourself, in the schema or in a table <name>_domain"
        raise refuse(DomainError, function, what, hint)
    sources = {name: attribute.source for name, attribute in declared.items()}
    script = Script(
        table=relation.name,
        home=_home(session, relation),
        place=session.place,
        suggestions=list(suggestions.values()),
        declared=sources,
        file=_file(session, relation, table),
    )
    text: str | None = script.text()
    for column in relation.columns:
        if column.name in declared:
            words = dict.fromkeys(("reason", "note"), "declared in the schema")
            row = {**_attribute(declared[column.name]), **words}
        else:
            row = _suggestion(suggestions[column.name], script)
        yield {**row, "script": text}
        text = None


def _suggestion(suggestion: Suggestion, script: Script) -> dict[str, Any]:
    if not suggestion.missing:
        return {**asdict(suggestion), "ddl": script.insert(suggestion)}
    each = suggestion.rows_per_unit
    unit = ", proposed as the unit" if each else ""
    return {"attribute": suggestion.attribute, "reason": f"left out: {suggestion.missing}{unit}", "rows_per_unit": each}


def _home(session: Session, relation: Relation) -> Name:
    """Beside what the domain table is made: what is declared of a source's table is kept here."""
    if relation.source is None:
        return relation.name
    return Name(session.place.database, session.place.schema, relation.name.table)


def _file(session: Session, relation: Relation, text: str) -> exp.Expr | None:
    """What FROM says of a file; None of a table or view."""
    named = (
        files.named(text, session.place) if relation.files is not None and relation.name == relation.charged else None
    )
    return None if named is None else named[1]


@dataclass(frozen=True, kw_only=True)
class Script:
    """A release of a table, written down. `declared` has the columns that the schema declares, and by what.

    The domain table and the workload are made beside `home`: the table itself, or for another engine's a name where the
    caller is. Where columns must be read in another type, so is a view, and it is released in the table's place. `file`
    is what FROM says of rows that are in a file.
    """

    table: Name
    home: Name
    place: Place
    suggestions: Sequence[Suggestion]
    declared: Mapping[str, str]
    file: exp.Expr | None = None

    def text(self) -> str:
        """All of it: the view if there is one, the domain, the questions, the release."""
        parts = [self._view()] if self._has_view else []
        parts += [self.domain(), self._workload(), self._release()]
        blocks = [[comment(line) for line in TITLE.splitlines()]]
        for number, (heading, *lines) in enumerate(parts, start=1):
            blocks.append([comment(f"{number}. {heading}"), *lines])
        return "\n\n".join("\n".join(block) for block in blocks) + "\n"

    def insert(self, suggestion: Suggestion) -> str:
        """The INSERT that declares an attribute, with those columns of a domain table that it needs."""
        row = {name: getattr(suggestion, name, None) for name in _COLUMNS}
        row["open"] = suggestion.open or None
        return _inserted(self._domain_table, {name: value for name, value in row.items() if value is not None})

    @property
    def _has_view(self) -> bool:
        return any(each.read_as for each in self.suggestions)

    @property
    def _domain_table(self) -> exp.Table:
        return _beside(self.home, self.place, f"{VIEW if self._has_view else ''}_domain")

    @property
    def _released(self) -> exp.Expr:
        """What is released, as text in a call: the table or the view."""
        table = _beside(self.home, self.place, VIEW) if self._has_view else _beside(self.table, self.place)
        return exp.Literal.string(table.sql("duckdb"))

    @property
    def _workload_table(self) -> exp.Table:
        """A call takes the name of a workload bare, and so without quotes or dots in it."""
        stem = re.sub(r"\W+", "_", self.home.stem)
        return _beside(Name(self.home.database, self.home.schema, stem), self.place, "_workload")

    def _view(self) -> Iterator[str]:
        """A view in which columns have the types that their values have."""
        yield "Columns whose values are of another type than the column, and codes for missing values."
        columns = [each for each in self.suggestions if each.read_as]
        for each in columns:
            yield comment(f"CHECK {each.attribute}: {each.reason}.")
        read = [exp.alias_(exp.Var(this=each.read_as), each.attribute, quoted=True) for each in columns]
        rows = exp.select(exp.Star(replace=read)).from_(self.file or _beside(self.table, self.place))
        yield _created(_beside(self.home, self.place, VIEW), rows, "VIEW") + ";"

    def domain(self) -> Iterator[str]:
        """A heading, and the statements that declare which values are possible."""
        yield "Which values are possible. This takes the place of a domain table that is there already."
        columns = [
            exp.ColumnDef(this=exp.to_identifier(name, quoted=name == "values"), kind=exp.var(kind))
            for name, kind in _COLUMNS.items()
        ]
        yield _created(exp.Schema(this=self._domain_table, expressions=columns)) + ";"
        for each in self.suggestions:
            if not each.missing:
                seen = "" if each.read_as else f"{each.reason}. "  # the view says it
                yield f"{self.insert(each)};  {comment(f'CHECK {each.attribute}: {seen}{each.note}')}"
        for name, by in self.declared.items():
            yield comment(f"{name} is declared in the schema: {by}.")
        for each in self.suggestions:
            if each.rows_per_unit:
                yield comment(
                    f"CHECK {each.attribute} is left out: {each.missing}. It is the unit of the release below."
                )
            elif each.missing:
                yield comment(f"CHECK {each.attribute} is left out: {each.missing}. To have it, INSERT a row for it.")

    def _workload(self) -> Iterator[str]:
        yield "The questions that the release has to answer well."
        present = [each for each in self.suggestions if not each.missing]
        # Marginals of pairs of columns, if there are two.
        order = exp.Literal.number(min(2, len(present) + len(self.declared)))
        marginals = exp.Anonymous(this="mwem_marginals", expressions=[self._released, order])
        created = _created(self._workload_table, exp.select("*").from_(exp.Table(this=marginals)))
        yield f"{created};  {comment('CHECK: all pairs of columns. What else will be asked?')}"
        for example in _examples(present):
            yield comment(f"For example: {_inserted(self._workload_table, example)};")

    def _release(self) -> Iterator[str]:
        yield "The release. A larger epsilon means less noise and less privacy."
        capped = exp.Literal.string(_beside(self.table, self.place).sql("duckdb")).sql("duckdb")
        yield comment(
            f"CALL mwem_budget({capped}, 3.0);  -- CHECK: a cap on all releases together; then every table needs one."
        )
        options = ""
        check = (
            "CHECK epsilon. If a person may have several rows, add: unit := 'person', rows_per_unit := 3, "
            "with the column's name."
        )
        unit = next((each for each in self.suggestions if each.rows_per_unit), None)
        if self._has_view:
            output = exp.to_identifier(f"{self.home.stem}_synthetic").sql("duckdb")
            options += f", output := {exp.Literal.string(output).sql('duckdb')}"
        if unit is not None:
            column = exp.Literal.string(unit.attribute).sql("duckdb")
            options += f", unit := {column}, rows_per_unit := {unit.rows_per_unit}"
            check = (
                f"CHECK epsilon, and whom to protect: all rows of one {unit.attribute}, of which none has more than "
                f"{unit.rows_per_unit:,}. With fewer rows_per_unit there is less noise, and rows are left out."
            )
        workload = self._workload_table.sql("duckdb")
        yield f"CALL mwem_release({self._released.sql('duckdb')}, {workload}, 1.0{options});  {comment(check)}"


def _inserted(table: exp.Table, row: Mapping[str, object]) -> str:
    columns = [exp.to_identifier(name, quoted=name == "values") for name in row]
    values = exp.Values(expressions=[exp.Tuple(expressions=[exp.convert(value) for value in row.values()])])
    return exp.Insert(this=exp.Schema(this=table, expressions=columns), expression=values).sql("duckdb")


def _examples(present: Sequence[Suggestion]) -> Iterator[dict[str, object]]:
    """Rows that a person could add to the workload."""
    halves = ((each, _middle(each)) for each in sorted(present, key=lambda each: not (each.bins or each.edges)))
    ordered, middle = next(((each, half) for each, half in halves if half is not None), (None, None))
    if ordered is not None:
        yield {"predicate": exp.GTE(this=_column(ordered), expression=exp.convert(middle)).sql("duckdb")}
    listed = next((each for each in present if each.values), None)
    others = [each.attribute for each in present if each is not listed][:1]
    if listed is not None and others:
        equal = exp.EQ(this=_column(listed), expression=exp.Literal.string((listed.values or [""])[0]))
        yield {"predicate": equal.sql("duckdb"), "group_by": others}


def _middle(suggested: Suggestion) -> Decimal | None:
    """A number inside a range: the middle of its bins."""
    try:
        if suggested.edges:
            return Decimal(suggested.edges[len(suggested.edges) // 2])
        return (Decimal(suggested.low or "") + Decimal(suggested.high or "")) / 2
    except InvalidOperation:
        return None


def _column(suggested: Suggestion) -> exp.Expr:
    return exp.column(suggested.attribute, quoted=True)


def _created(what: exp.Expr, rows: exp.Expr | None = None, kind: str = "TABLE") -> str:
    return exp.Create(this=what, kind=kind, replace=True, expression=rows).sql("duckdb", normalize_functions=False)


def _beside(table: Name, place: Place, ending: str = "") -> exp.Table:
    """The table, or one with its name and another ending, as it is written at the caller's place."""
    name = exp.to_identifier(table.stem + ending if ending else table.table)
    if (table.database, table.schema) == (place.database, place.schema):
        return exp.Table(this=name)
    return exp.Table(this=name, db=exp.to_identifier(table.schema), catalog=exp.to_identifier(table.database))


def comment(text: str) -> str:
    """A comment of a script, whatever a column is called: nothing in it ends the line."""
    return "-- " + " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
