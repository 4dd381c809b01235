"""Questions to a stored release, and what is made of one: what the SQL functions do that take its name. Arguments in, rows out.

Owns the reading of their arguments. Must not answer anything itself: rooms below do.
"""

from __future__ import annotations

from typing import Any

from mwem_sql.errors import spoken_by
from mwem_sql.explain import compare, quality
from mwem_sql.platform.session import Session
from mwem_sql.releases import answer, quantile, sample
from mwem_sql.releases.sample import Sampler
from mwem_sql.releases.withdrawal import withdraw
from mwem_sql.reporting import export, report
from mwem_sql.surface.arguments import Arguments, Rows, name_list, read_name, read_queries


def answer_rows(session: Session, arguments: Arguments, queries: list[str] | None) -> Rows:
    confidence = answer.read_confidence(arguments["confidence"], "mwem_answer")
    ready = answer.answerer(session, read_name(arguments, "output", "mwem_answer"), "mwem_answer")
    return ready.rows(read_queries(queries), confidence)


def compare_rows(session: Session, arguments: Arguments, queries: list[str] | None) -> Rows:
    table = read_name(arguments, "private_table", "mwem_compare")
    confidence = answer.read_confidence(arguments["confidence"], "mwem_compare")
    return compare.compare(
        session, table, read_name(arguments, "output", "mwem_compare"), read_queries(queries), confidence
    )


def quality_rows(session: Session, arguments: Arguments, _: list[str] | None) -> Rows:
    return quality.asked(session, read_name(arguments, "output", "mwem_quality"), arguments)


def report_rows(session: Session, arguments: Arguments, _: list[str] | None) -> Rows:
    compared = None if arguments["compare"] is None else read_name(arguments, "compare", "mwem_report")
    output = read_name(arguments, "output", "mwem_report")
    ready = answer.answerer(session, output, "mwem_report")
    workload = ready.workload()
    with spoken_by("mwem_report", instead_of="mwem_compare"):
        rows = ready.rows(workload) if compared is None else compare.compare(session, compared, output, workload)
        return list(report.write(session, ready, rows, compared, arguments["path"]))


def export_rows(session: Session, arguments: Arguments, _: list[str] | None) -> Rows:
    ready = answer.answerer(session, read_name(arguments, "output", "mwem_export"), "mwem_export")
    return export.export(session, ready.stored, ready.workload(), arguments["path"])


def weights_rows(session: Session, arguments: Arguments, _: list[str] | None) -> Rows:
    return answer.weights(session, arguments["output"], name_list(arguments["attributes"]) or [])[1]


def withdraw_rows(session: Session, arguments: Arguments, _: list[str] | None) -> Rows:
    return [withdraw(session, read_name(arguments, "output", "mwem_withdraw"), arguments["reason"])]


def average_rows(session: Session, arguments: Arguments, _: list[str] | None) -> Rows:
    function = "mwem_average"
    confidence = answer.read_confidence(arguments["confidence"], function)
    given = answer.read_given(arguments["given"], function)
    return answer.average(session, read_name(arguments, "output", function), arguments["measure"], given, confidence)


def quantile_rows(session: Session, arguments: Arguments, _: list[str] | None) -> Rows:
    return quantiles_of(session, arguments)[1]


def quantiles_of(session: Session, arguments: Arguments) -> tuple[str, list[dict[str, Any]]]:
    """The type of the column, and a row for each share with values as text."""
    function = quantile.FUNCTION
    confidence = answer.read_confidence(arguments["confidence"], function)
    shares = quantile.read_shares(arguments["share"])
    given = answer.read_given(arguments["given"], function)
    ready = answer.answerer(session, read_name(arguments, "output", function), function)
    attribute = quantile.ordered_attribute(ready, arguments["attribute"])
    return attribute.type, quantile.quantiles(ready, attribute, shares, given, confidence)


def sampler_of(session: Session, arguments: Arguments) -> Sampler:
    given = answer.read_given(arguments["given"], sample.FUNCTION)
    output = read_name(arguments, "output", sample.FUNCTION)
    return Sampler(session, output, arguments["rows"], given, arguments["seed"])
