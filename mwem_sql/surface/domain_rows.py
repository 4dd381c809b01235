"""The rows of `mwem_domain` and `mwem_suggest_domain`: a column of the table each.

Owns their columns. Must not read a private row itself, nor write the script: that is `scan/suggest.py` and
`surface/script.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from sqlglot import exp

from mwem_sql.accounting.ledger import ledger_of
from mwem_sql.boundary import files, relations
from mwem_sql.boundary.relations import Relation
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.declarations import from_schema
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import DomainError, refuse
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session
from mwem_sql.scan import engine
from mwem_sql.scan.suggest import Suggestion, suggest_domain
from mwem_sql.surface.script import Script

DOMAIN_COLUMNS = {
    "attribute": "VARCHAR", "type": "VARCHAR", "values": "VARCHAR[]", "low": "VARCHAR", "high": "VARCHAR",
    "step": "VARCHAR", "bins": "INTEGER", "nullable": "BOOLEAN", "open": "BOOLEAN", "cells": "BIGINT",
    "declared": "VARCHAR", "lacks": "VARCHAR", "edges": "VARCHAR[]",
}  # fmt: skip
SUGGESTION_COLUMNS = {
    "attribute": "VARCHAR", "values": "VARCHAR[]", "low": "VARCHAR", "high": "VARCHAR", "nullable": "BOOLEAN",
    "open": "BOOLEAN", "ddl": "VARCHAR", "bins": "INTEGER", "note": "VARCHAR", "step": "VARCHAR",
    "edges": "VARCHAR[]", "reason": "VARCHAR", "read_as": "VARCHAR", "rows_per_unit": "INTEGER", "script": "VARCHAR",
}  # fmt: skip
"""The script is last: a shell shows it alone."""


def domain_rows(domain: Domain, types: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """What is declared of each column, and what it lacks. `types` are those of columns of which nothing is declared."""
    for name in domain.columns:
        attribute = domain.attribute(name)
        if attribute is not None:
            yield _attribute(attribute)
        else:
            yield {"attribute": name, "type": types[name], "lacks": domain.lacks(name)}


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
        rows = engine.engine_of(session.cursor(), relation)
        suggestions = {each.attribute: each for each in suggest_domain(rows, relation, declared)}
    if not declared and all(each.missing for each in suggestions.values()):
        reasons = "; ".join(f"{each.attribute}: {each.missing}" for each in suggestions.values())
        raise refuse(
            DomainError,
            function,
            f"table ({relation.name.table!r}) has no column that a domain can be suggested for ({reasons})",
            "declare the columns yourself, in the schema or in a table <name>_domain",
        )
    sources = {name: attribute.source for name, attribute in declared.items()}
    script = Script(
        relation.name, _home(session, relation), session.place, list(suggestions.values()), sources,
        _file(session, relation, table),
    )  # fmt: skip
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
