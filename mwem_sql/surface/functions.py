"""What each SQL function does: arguments as JSON in, rows as dicts out.

Owns the reading of arguments, the columns of the functions and the sentence that a user reads when one fails. Must not do the work: a body
reads its arguments and calls the room that does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
from sqlglot import exp

from mwem_sql.accounting import statement
from mwem_sql.accounting.accounts import ledger_of
from mwem_sql.accounting.budget import Budget
from mwem_sql.accounting.caps import Cap
from mwem_sql.accounting.ledger import write_policy
from mwem_sql.accounting.policy import requires_caps
from mwem_sql.boundary import relations
from mwem_sql.database import calls, catalog
from mwem_sql.database.catalog import Name, Place
from mwem_sql.database.sandbox import Sandbox
from mwem_sql.database.session import Session
from mwem_sql.database.ticks import cast
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.declarations import from_schema
from mwem_sql.domains.domain import Domain, read_domain
from mwem_sql.errors import DomainError, MwemError, OptionError, WorkloadError, refuse, spoken_by
from mwem_sql.private import engine
from mwem_sql.private.engines.opening import check_no_secret
from mwem_sql.private.suggest import suggest_domain
from mwem_sql.releases import answer, compare
from mwem_sql.releases.explain import plan_rows
from mwem_sql.releases.quality import QUALITY, quality
from mwem_sql.releases.request import Request, read_whole
from mwem_sql.releases.run import run_release
from mwem_sql.releases.summary import SUMMARY
from mwem_sql.reporting import export, report
from mwem_sql.surface.attaching import SOURCE_COLUMNS, attach_source, detach_source, source_rows
from mwem_sql.surface.script import insert, script
from mwem_sql.workload import Workload

Rows = Iterable[dict[str, Any]]
Cursor = Callable[[], duckdb.DuckDBPyConnection]
Body = Callable[[Session, dict[str, Any], list[str] | None], Rows]

_WORKLOAD = {
    "predicate": "VARCHAR",
    "measure": "VARCHAR",
    "group_by": "VARCHAR[]",
    "name": "VARCHAR",
    "weight": "DOUBLE",
}


@dataclass(frozen=True)
class Function:
    """A table function: its name, its columns with DuckDB types, and its body."""

    name: str
    columns: dict[str, str]
    body: Body

    def run(self, cursor: Cursor, text: str, queries: list[str] | None) -> list[dict[str, Any]]:
        """The rows; or one row with the refusal in `err`, which the macro raises as an error of DuckDB's."""
        try:
            return calls.run(self.name, lambda: list(self.body(*_call(cursor, text), queries)))
        except Exception as error:  # noqa: BLE001
            return [{"err": _sentence(self.name, error)}]


def _call(cursor: Cursor, text: str) -> tuple[Session, dict[str, Any]]:
    """Where a call comes from, and its arguments."""
    arguments = json.loads(text)
    context = arguments.pop("context")
    return Session(cursor, Place(context["database"], context["schema"]), context["settings"]), arguments


def _sentence(function: str, error: Exception) -> str:
    """What the user reads. Of an error that nobody foresaw only the kind: its text could quote a private figure."""
    if isinstance(error, MwemError):
        return str(error)
    if isinstance(error, duckdb.Error):
        return f"{function}: {str(error).splitlines()[0]}"
    return f"{function}: unexpected {type(error).__name__}. Hint: please report it"


def _workload(queries: list[str] | None) -> Workload:
    if queries is None:
        raise refuse(WorkloadError, "workload", "the workload has no rows", "add at least one query")
    return Workload.from_json(queries)


def _domain(session: Session, arguments: dict[str, Any], function: str) -> Domain:
    con = session.cursor()
    relation = relations.describe(con, _name(arguments, "private_table", function), session.place, function)
    domain = None if arguments["domain"] is None else _name(arguments, "domain", function)
    with Sandbox(session.settings) as sandbox:
        return read_domain(con, relation, domain, session.place, sandbox)


def _name(arguments: dict[str, Any], key: str, function: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str) or not value.strip():
        what = f"{key} ({value!r}) must be the name of a table"
        raise refuse(OptionError, function, what, "write it as a string, 'adult'")
    return value


def _whole(arguments: dict[str, Any], key: str, function: str) -> int:
    return read_whole(function, key, arguments.get(key), 0, 10**9, cure="write a number such as 2")


def name_list(value: object) -> list[str] | None:
    """A list of names from a list, or from text with commas."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    return [str(part) for part in value] if isinstance(value, list) else None


def _request(given: dict[str, Any], queries: list[str] | None) -> Request:
    return Request.parse(given["private_table"], _workload(queries), given["epsilon"], given["options"])


def _release(session: Session, arguments: dict[str, Any], queries: list[str] | None) -> Rows:
    return [run_release(session, _request(arguments, queries))[1]]


def _plan(session: Session, arguments: dict[str, Any], queries: list[str] | None) -> Rows:
    with spoken_by("mwem_plan"):
        return list(plan_rows(session, _request(arguments, queries)))


def _show_domain(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    con = session.cursor()
    domain = _domain(session, arguments, "mwem_domain")
    relation = relations.describe(con, arguments["private_table"], session.place, "mwem_domain")
    declared = {attribute.name: attribute for attribute in domain}
    for column in relation.columns:
        if column.name in declared:
            yield _attribute(declared[column.name])
        else:
            yield {"attribute": column.name, "type": column.type, "lacks": domain.lacks(column.name)}


def _attribute(attribute: Attribute) -> dict[str, Any]:
    return {
        "attribute": attribute.name,
        "type": attribute.type,
        "values": None if attribute.values is None else list(attribute.values),
        "low": None if attribute.low is None else attribute.text(attribute.low),
        "high": None if attribute.high is None else attribute.text(attribute.high),
        "step": None if attribute.step is None else str(attribute.step),
        "bins": attribute.bins,
        "nullable": attribute.nullable,
        "open": attribute.open,
        "cells": attribute.cells,
        "declared": attribute.source,
        "lacks": attribute.lacks,
    }


def _suggest_domain(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    function = "mwem_suggest_domain"
    con = session.cursor()
    relation = relations.describe(con, _name(arguments, "private_table", function), session.place, function)
    with Sandbox(session.settings) as sandbox:
        declared = from_schema(relation, sandbox)
    with ledger_of(con, relation, session.place, function).noted(session.cursor, None, function):
        rows = engine.engine_of(session.cursor(), relation)
        suggestions = {each.attribute: each for each in suggest_domain(rows, relation, declared)}
    found = {name: each for name, each in suggestions.items() if not each.missing}
    if not found and not declared:
        reasons = "; ".join(f"{each.attribute}: {each.missing}" for each in suggestions.values())
        raise refuse(
            DomainError,
            function,
            f"table ({relation.name.table!r}) has no column that a domain can be suggested for ({reasons})",
            "declare the columns yourself, in the schema or in a table <name>_domain",
        )
    # What is declared of a source's table is kept here.
    home = (
        relation.name
        if relation.source is None
        else Name(session.place.database, session.place.schema, relation.name.table)
    )
    text = script(
        relation.name,
        home,
        session.place,
        list(suggestions.values()),
        {name: attribute.source for name, attribute in declared.items()},
    )
    for column in relation.columns:
        if column.name in declared:
            yield {**_attribute(declared[column.name]), "note": "declared in the schema", "script": text}
        elif column.name in found:
            suggested = found[column.name]
            yield {**asdict(suggested), "ddl": insert(home, session.place, suggested), "script": text}


def _attach(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    given = arguments["source"]
    if not isinstance(given, str) or not given.strip():
        raise refuse(
            OptionError,
            "mwem_attach",
            "source must be text",
            "write 'postgresql://user@host/database', 'sc://host:15002' or the path of a DuckDB file",
        )
    check_no_secret(given)
    return [attach_source(session, arguments["alias"], given, arguments["ledger"], arguments["timeout"])]


def _detach(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    return [detach_source(session, arguments["alias"])]


def _sources(session: Session, _: dict[str, Any], __: list[str] | None) -> Rows:
    return source_rows(session)


def _built(workload: Workload) -> Rows:
    return list(workload.to_arrow().to_pylist())


def _marginals(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    domain = _domain(session, arguments, "mwem_marginals")
    return _built(Workload.marginals(domain, _whole(arguments, "k", "mwem_marginals")))


def _ranges(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    domain = _domain(session, arguments, "mwem_ranges")
    seed = None if arguments["seed"] is None else _whole(arguments, "seed", "mwem_ranges")
    count = _whole(arguments, "count", "mwem_ranges")
    return _built(Workload.ranges(domain, name_list(arguments.get("columns")) or [], count, seed))


def _parities(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    domain = _domain(session, arguments, "mwem_parities")
    return _built(
        Workload.parities(domain, _whole(arguments, "k", "mwem_parities"), name_list(arguments.get("columns")))
    )


def _answer(session: Session, arguments: dict[str, Any], queries: list[str] | None) -> Rows:
    confidence = answer.read_confidence(arguments["confidence"], "mwem_answer")
    ready = answer.answerer(session, _name(arguments, "output", "mwem_answer"), "mwem_answer")
    return ready.rows(_workload(queries), confidence)


def _compare(session: Session, arguments: dict[str, Any], queries: list[str] | None) -> Rows:
    table = _name(arguments, "private_table", "mwem_compare")
    confidence = answer.read_confidence(arguments["confidence"], "mwem_compare")
    return compare.compare(session, table, _name(arguments, "output", "mwem_compare"), _workload(queries), confidence)


def _quality(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    function = "mwem_quality"
    confidence = answer.read_confidence(arguments["confidence"], function)
    return quality(session, _name(arguments, "output", function), confidence)


def _report(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    compared = None if arguments["compare"] is None else _name(arguments, "compare", "mwem_report")
    output = _name(arguments, "output", "mwem_report")
    ready = answer.answerer(session, output, "mwem_report")
    workload = ready.workload("mwem_report")
    with spoken_by("mwem_report", instead_of="mwem_compare"):
        rows = ready.rows(workload) if compared is None else compare.compare(session, compared, output, workload)
        return list(report.write(session, ready.stored, rows, compared, arguments["path"]))


def _export(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    ready = answer.answerer(session, _name(arguments, "output", "mwem_export"), "mwem_export")
    return export.export(session, ready.stored, ready.workload("mwem_export"), arguments["path"])


def _budget(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    function = "mwem_budget"
    budget = Budget.parse(arguments["epsilon"], arguments["delta"] or 0, function)
    con = session.cursor()
    relation = relations.describe(con, _name(arguments, "private_table", function), session.place, function)
    unit = None
    if arguments["unit"] is not None:
        given = _name(arguments, "unit", function)
        column = relation.origin(given, function)
        if column is None:
            raise refuse(
                OptionError,
                function,
                f"unit ({given!r}) is computed by a view, so that a cap could not count by it",
                f"name a column of {relation.charged.table} itself, or one that the view shows unchanged",
            )
        unit = column.name
    rows_per_unit = read_whole(function, "rows_per_unit", arguments["rows_per_unit"], 1, 10**6)
    if unit is None and rows_per_unit != 1:
        what = f"rows_per_unit ({rows_per_unit}) needs a unit"
        raise refuse(OptionError, function, what, "name the column that identifies a unit")
    account = ledger_of(con, relation, session.place, function)
    balance = account.set_cap(session.cursor(), Cap(budget, unit, rows_per_unit))
    return [
        {
            "schema_name": relation.charged.schema, "table_name": relation.charged.table, "epsilon": float(budget.epsilon),
            "delta": float(budget.delta), "epsilon_spent": balance.epsilon_spent, "delta_spent": float(balance.delta),
            "epsilon_left": balance.epsilon_left, "unit": unit, "rows_per_unit": rows_per_unit, "seeded": balance.seeded,
            "also_charged_as": account.other_names(session.cursor()),
        }
    ]  # fmt: skip


def _policy(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    function, home = "mwem_policy", session.place.database
    wanted = arguments["require_caps"]
    if wanted is not None:
        if not isinstance(wanted, bool):
            raise refuse(
                OptionError,
                function,
                f"require_caps ({wanted!r}) must be true or false",
                "leave it out to see what holds",
            )
        if catalog.is_read_only(session.cursor(), home):
            raise refuse(
                OptionError,
                function,
                f"database ({home!r}) cannot be written",
                "USE the database whose tables are private",
            )
        write_policy(session.cursor(), home, require_caps=wanted)
    return [{"database_name": home, "require_caps": requires_caps(session.cursor(), home)}]


def _ledger(session: Session, _: dict[str, Any], __: list[str] | None) -> Rows:
    return statement.entries(session.cursor())


def _weights(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    return answer.weights(session, arguments["output"], name_list(arguments["attributes"]) or [])[1]


def weights_sql(cursor: Cursor, text: str) -> str:
    """The SELECT behind mwem_weights: its columns depend on its arguments."""
    try:
        session, arguments = _call(cursor, text)
        output = _name(arguments, "output", "mwem_weights")
        columns, _ = answer.weights(session, output, name_list(arguments["attributes"]) or [])
    except Exception as error:  # noqa: BLE001
        raised = exp.Literal.string(_sentence("mwem_weights", error))
        return exp.select(exp.Anonymous(this="error", expressions=[raised])).sql("duckdb")
    row = exp.column("r")
    listed = exp.Dot(this=row.copy(), expression=exp.to_identifier("cell"))
    cells = [
        exp.alias_(
            cast(exp.Bracket(this=listed.copy(), expressions=[exp.Literal.number(k)], offset=1), kind),
            name,
            quoted=True,
        )
        for k, (name, kind) in enumerate(columns, start=1)
    ]
    call = exp.Anonymous(this="_mwem_weights", expressions=[exp.Literal.string(text), exp.null()])
    inner = exp.select(exp.alias_(exp.Anonymous(this="unnest", expressions=[call]), "r"))
    weight = exp.alias_(exp.Dot(this=row, expression=exp.to_identifier("weight")), "weight")
    return exp.select(*cells, weight).from_(inner.subquery("w")).sql("duckdb")


def counts(cursor: Cursor, texts: list[str]) -> list[dict[str, Any]]:
    """One answer per row, and its interval if a confidence is given. All predicates that ask the same of the same release are compiled together."""
    out: list[dict[str, Any]] = [{} for _ in texts]
    calls = [_call(cursor, text) for text in texts]
    groups: dict[str, list[int]] = {}
    for row, (session, arguments) in enumerate(calls):
        asked = arguments["output"], "confidence" in arguments, arguments.get("confidence")
        same = session.place, session.settings, *asked
        groups.setdefault(repr(same), []).append(row)
    for rows in groups.values():
        session, arguments = calls[rows[0]]
        function = "mwem_count_interval" if "confidence" in arguments else "mwem_count"
        try:
            ready = answer.answerer(session, _name(arguments, "output", function), function)
            predicates = [_predicate(calls[row][1], function) for row in rows]
            if "confidence" in arguments:
                confidence = answer.read_confidence(arguments["confidence"], function)
                found = list(ready.rows(Workload.from_predicates(predicates), confidence))
            else:
                found = [{"answer": value} for value in ready.counts(predicates)]
            for row, value in zip(rows, found, strict=True):
                out[row] = {name: value[name] for name in COUNTED if name in value}
        except Exception as error:  # noqa: BLE001
            out[rows[0]] = {"err": _sentence(function, error)}
    return out


def _predicate(arguments: dict[str, Any], function: str) -> str:
    if arguments["predicate"] is None:
        what = "predicate (NULL) must be an SQL expression"
        raise refuse(WorkloadError, function, what, "write 'true' to count all rows")
    return str(arguments["predicate"])


_INTERVAL = {"low": "DOUBLE", "high": "DOUBLE", "measured": "VARCHAR"}
COUNTED = {"answer": "DOUBLE", **_INTERVAL}
"""The fields of an answer to one predicate; without a confidence there is no interval in it."""
_ANSWER = {"query": "INTEGER", "name": "VARCHAR", "cell": "VARCHAR[]"}
_DECLARED = {"attribute": "VARCHAR", "values": "VARCHAR[]", "low": "VARCHAR", "high": "VARCHAR"}

FUNCTIONS = (
    Function("mwem_release", SUMMARY, _release),
    Function("mwem_plan", {"item": "VARCHAR", "value": "VARCHAR"}, _plan),
    Function(
        "mwem_domain",
        {"attribute": "VARCHAR", "type": "VARCHAR", "values": "VARCHAR[]", "low": "VARCHAR", "high": "VARCHAR", "step": "VARCHAR",
         "bins": "INTEGER", "nullable": "BOOLEAN", "open": "BOOLEAN", "cells": "BIGINT", "declared": "VARCHAR", "lacks": "VARCHAR"},
        _show_domain,
    ),
    Function(
        "mwem_suggest_domain",
        {**_DECLARED, "nullable": "BOOLEAN", "open": "BOOLEAN", "ddl": "VARCHAR", "bins": "INTEGER", "note": "VARCHAR", "script": "VARCHAR"},
        _suggest_domain,
    ),
    Function("mwem_attach", SOURCE_COLUMNS, _attach),
    Function("mwem_detach", SOURCE_COLUMNS, _detach),
    Function("mwem_sources", SOURCE_COLUMNS, _sources),
    Function("mwem_marginals", _WORKLOAD, _marginals),
    Function("mwem_ranges", _WORKLOAD, _ranges),
    Function("mwem_parities", _WORKLOAD, _parities),
    Function("mwem_answer", {**_ANSWER, "answer": "DOUBLE", **_INTERVAL}, _answer),
    Function(
        "mwem_compare",
        {**_ANSWER, "true_answer": "DOUBLE", "answer": "DOUBLE", "error": "DOUBLE", **_INTERVAL, "binning_error": "DOUBLE", "note": "VARCHAR"},
        _compare,
    ),
    Function("mwem_quality", QUALITY, _quality),
    Function("mwem_report", {"file": "VARCHAR", "bytes": "BIGINT", "private": "BOOLEAN"}, _report),
    Function("mwem_export", {"file": "VARCHAR", "bytes": "BIGINT"}, _export),
    Function(
        "mwem_budget",
        {"schema_name": "VARCHAR", "table_name": "VARCHAR", "epsilon": "DOUBLE", "delta": "DOUBLE", "epsilon_spent": "DOUBLE",
         "delta_spent": "DOUBLE", "epsilon_left": "DOUBLE", "unit": "VARCHAR", "rows_per_unit": "INTEGER", "seeded": "INTEGER",
         "also_charged_as": "VARCHAR"},
        _budget,
    ),
    Function("mwem_policy", {"database_name": "VARCHAR", "require_caps": "BOOLEAN"}, _policy),
    Function(
        "mwem_ledger",
        {"database_name": "VARCHAR", "schema_name": "VARCHAR", "table_name": "VARCHAR", "output": "VARCHAR", "epsilon": "DOUBLE",
         "delta": "DOUBLE", "action": "VARCHAR", "private": "BOOLEAN", "status": "VARCHAR", "started": "TIMESTAMP",
         "finished": "TIMESTAMP", "who": "VARCHAR", "unit": "VARCHAR", "rows_per_unit": "INTEGER", "epsilon_spent": "DOUBLE",
         "epsilon_left": "DOUBLE", "intact": "BOOLEAN", "version": "VARCHAR", "workload": "VARCHAR", "claimed": "VARCHAR"},
        _ledger,
    ),
    Function("mwem_weights", {"cell": "VARCHAR[]", "weight": "DOUBLE"}, _weights),
)  # fmt: skip
