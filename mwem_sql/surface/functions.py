"""What each SQL function does: arguments as JSON in, rows as dicts out.

Owns the reading of arguments, the columns of the functions and the sentence that a user reads when one fails. Must not do the work: a body
reads its arguments and calls the room that does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mwem_sql.accounting import statement
from mwem_sql.accounting.caps import Cap
from mwem_sql.accounting.ledger import ledger_of, requires_caps, set_policy
from mwem_sql.boundary import relations
from mwem_sql.domains.domain import Domain, read_domain
from mwem_sql.errors import OptionError, WorkloadError, refuse, spoken_by
from mwem_sql.explain.explain import plan_rows
from mwem_sql.explain.quality import QUALITY
from mwem_sql.kernel.budget import Budget
from mwem_sql.platform import calls, catalog
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session
from mwem_sql.releases import answer, store
from mwem_sql.releases.quantile import QUANTILE
from mwem_sql.releases.request import Request, read_whole
from mwem_sql.releases.run import run_release
from mwem_sql.releases.summary import SUMMARY
from mwem_sql.releases.withdrawal import WITHDRAWAL
from mwem_sql.scan.engines.opening import check_no_secret
from mwem_sql.surface import calling, questions
from mwem_sql.surface.arguments import Rows, name_list, read_name, read_number, read_queries
from mwem_sql.surface.attaching import SOURCE_COLUMNS, attach_source, detach_source, source_rows
from mwem_sql.surface.domain_rows import DOMAIN_COLUMNS, SUGGESTION_COLUMNS, domain_rows, suggestion_rows
from mwem_sql.workload import Workload

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

    def run(self, cursor: calling.Cursor, text: str, queries: list[str] | None) -> list[dict[str, Any]]:
        """The rows; or one row with the refusal in `err`, which the macro raises as an error of DuckDB's."""
        try:
            return calls.run(self.name, lambda: list(self.body(*calling.read(cursor, text), queries)))
        except Exception as error:  # noqa: BLE001
            return [{"err": calling.sentence(self.name, error)}]


def _domain(session: Session, arguments: dict[str, Any], function: str) -> tuple[Domain, dict[str, str]]:
    """The domain of a table, and the types of its columns. Of a table that is elsewhere, a release of it tells."""
    con, table = session.cursor(), read_name(arguments, "private_table", function)
    domain = None if arguments["domain"] is None else read_name(arguments, "domain", function)
    release = store.in_place_of_table(con, table, session.place, function) if domain is None else None
    if release is not None:
        return release.domain, {}
    relation = relations.describe(con, table, session.place, function)
    with Sandbox(session.settings) as sandbox:
        declared = read_domain(con, relation, domain, session.place, sandbox)
    return declared, {column.name: column.type for column in relation.columns}


def _request(given: dict[str, Any], queries: list[str] | None) -> Request:
    return Request.parse(given["private_table"], read_queries(queries), given["epsilon"], given["options"])


def _release(session: Session, arguments: dict[str, Any], queries: list[str] | None) -> Rows:
    return [run_release(session, _request(arguments, queries))[1]]


def _plan(session: Session, arguments: dict[str, Any], queries: list[str] | None) -> Rows:
    with spoken_by("mwem_plan"):
        return list(plan_rows(session, _request(arguments, queries)))


def _show_domain(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    return domain_rows(*_domain(session, arguments, "mwem_domain"))


def _suggest_domain(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    return suggestion_rows(session, read_name(arguments, "private_table", "mwem_suggest_domain"))


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


def _marginals(session: Session, arguments: dict[str, Any], __: list[str] | None) -> Rows:
    domain, _ = _domain(session, arguments, "mwem_marginals")
    return _built(Workload.marginals(domain, read_number(arguments, "k", "mwem_marginals")))


def _ranges(session: Session, arguments: dict[str, Any], __: list[str] | None) -> Rows:
    domain, _ = _domain(session, arguments, "mwem_ranges")
    seed = None if arguments["seed"] is None else read_number(arguments, "seed", "mwem_ranges")
    count = read_number(arguments, "count", "mwem_ranges")
    return _built(Workload.ranges(domain, name_list(arguments.get("columns")) or [], count, seed))


def _parities(session: Session, arguments: dict[str, Any], __: list[str] | None) -> Rows:
    domain, _ = _domain(session, arguments, "mwem_parities")
    return _built(
        Workload.parities(domain, read_number(arguments, "k", "mwem_parities"), name_list(arguments.get("columns")))
    )


def _budget(session: Session, arguments: dict[str, Any], _: list[str] | None) -> Rows:
    function = "mwem_budget"
    budget = Budget.parse(arguments["epsilon"], arguments["delta"] or 0, function)
    con = session.cursor()
    relation = relations.describe(con, read_name(arguments, "private_table", function), session.place, function)
    unit = None
    if arguments["unit"] is not None:
        given = read_name(arguments, "unit", function)
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
    ledger = ledger_of(con, relation, session.place, function)
    ledger = ledger.set_cap(session.cursor(), Cap(budget, unit, rows_per_unit))
    balance = ledger.balance
    return [
        {
            "schema_name": relation.charged.schema, "table_name": relation.charged.table, "epsilon": float(budget.epsilon),
            "delta": float(budget.delta), "epsilon_spent": balance.epsilon_spent, "delta_spent": float(balance.delta),
            "epsilon_left": balance.epsilon_left, "unit": unit, "rows_per_unit": rows_per_unit, "seeded": balance.seeded,
            "also_charged_as": ledger.other_names,
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
        set_policy(session.cursor(), home, require_caps=wanted)
    return [{"database_name": home, "require_caps": requires_caps(session.cursor(), home)}]


def _ledger(session: Session, _: dict[str, Any], __: list[str] | None) -> Rows:
    return statement.entries(session.cursor())


def counts(cursor: calling.Cursor, texts: list[str]) -> list[dict[str, Any]]:
    """One answer per row, and its interval if a confidence is given. All predicates that ask the same of the same release are compiled together."""
    out: list[dict[str, Any]] = [{} for _ in texts]
    calls = [calling.read(cursor, text) for text in texts]
    groups: dict[str, list[int]] = {}
    for row, (session, arguments) in enumerate(calls):
        asked = arguments["output"], "confidence" in arguments, arguments.get("confidence")
        same = session.place, session.settings, *asked
        groups.setdefault(repr(same), []).append(row)
    for rows in groups.values():
        session, arguments = calls[rows[0]]
        function = "mwem_count_interval" if "confidence" in arguments else "mwem_count"
        try:
            ready = answer.answerer(session, read_name(arguments, "output", function), function)
            predicates = [_predicate(calls[row][1], function) for row in rows]
            if "confidence" in arguments:
                confidence = answer.read_confidence(arguments["confidence"], function)
                found = list(ready.rows(Workload.from_predicates(predicates), confidence))
            else:
                found = [{"answer": value} for value in ready.counts(predicates)]
            for row, value in zip(rows, found, strict=True):
                out[row] = {name: value[name] for name in COUNTED if name in value}
        except Exception as error:  # noqa: BLE001
            out[rows[0]] = {"err": calling.sentence(function, error)}
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

FUNCTIONS = (
    Function("mwem_release", SUMMARY, _release),
    Function("mwem_plan", {"item": "VARCHAR", "value": "VARCHAR"}, _plan),
    Function("mwem_domain", DOMAIN_COLUMNS, _show_domain),
    Function("mwem_suggest_domain", SUGGESTION_COLUMNS, _suggest_domain),
    Function("mwem_attach", SOURCE_COLUMNS, _attach),
    Function("mwem_detach", SOURCE_COLUMNS, _detach),
    Function("mwem_sources", SOURCE_COLUMNS, _sources),
    Function("mwem_marginals", _WORKLOAD, _marginals),
    Function("mwem_ranges", _WORKLOAD, _ranges),
    Function("mwem_parities", _WORKLOAD, _parities),
    Function("mwem_answer", {**_ANSWER, "answer": "DOUBLE", **_INTERVAL, "note": "VARCHAR"}, questions.answer_rows),
    Function(
        "mwem_compare",
        {**_ANSWER, "true_answer": "DOUBLE", "answer": "DOUBLE", "error": "DOUBLE", **_INTERVAL, "binning_error": "DOUBLE", "note": "VARCHAR"},
        questions.compare_rows,
    ),
    Function("mwem_average", COUNTED, questions.average_rows),
    Function("mwem_quantile", QUANTILE, questions.quantile_rows),
    Function("mwem_quality", QUALITY, questions.quality_rows),
    Function("mwem_report", {"file": "VARCHAR", "bytes": "BIGINT", "private": "BOOLEAN"}, questions.report_rows),
    Function("mwem_export", {"file": "VARCHAR", "bytes": "BIGINT"}, questions.export_rows),
    Function("mwem_withdraw", WITHDRAWAL, questions.withdraw_rows),
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
         "epsilon_left": "DOUBLE", "intact": "BOOLEAN", "version": "VARCHAR", "workload": "VARCHAR", "claimed": "VARCHAR",
         "reason": "VARCHAR"},
        _ledger,
    ),
    Function("mwem_weights", {"cell": "VARCHAR[]", "weight": "DOUBLE"}, questions.weights_rows),
)  # fmt: skip
