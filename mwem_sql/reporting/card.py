"""The data card of a release: what a stranger must know of the table, as data and as a page of text. From what is stored, which may be published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mwem_sql.database.resources import VERSION
from mwem_sql.domains.attribute import Attribute
from mwem_sql.releases.store import Stored
from mwem_sql.reporting import figures, page
from mwem_sql.reporting.charts import rounded

SHOWN = 12
"""Values of an attribute that the text lists."""


def as_json(
    stored: Stored, measurements: Sequence[Mapping[str, Any]], workload: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The card as data. No time and no path in it: what is published is the same whenever and wherever it is exported."""
    facts = stored.facts
    return {
        "table": stored.name.table,
        "made_by": f"mwem-sql {VERSION}",
        **{name: facts[name] for name in ("release", "version", "epsilon", "delta", "unit", "rows_per_unit", "private", "rows", "rounds", "total_is_public")},
        "promise": page.promise(facts),
        "attributes": [_attribute(stored.domain[name]) for name in stored.classes],
        "workload": list(workload),
        "measurements": [
            {"purpose": row["purpose"], "name": row["name"], "noise": row["noise"], "scale": row["scale"] * row["resolution"], "cells": len(row["values"])}
            for row in measurements
        ],
    }  # fmt: skip


def _attribute(attribute: Attribute) -> dict[str, Any]:
    bounds: dict[str, Any] = (
        {}
        if attribute.low is None or attribute.high is None
        else {"low": attribute.text(attribute.low), "high": attribute.text(attribute.high)}
    )
    parts = {
        "step": attribute.step_text,
        "bins": attribute.bins,
        "edges": None if attribute.edges is None else [attribute.text(edge) for edge in attribute.edges],
        "cut": attribute.cut or None,
    }
    bounds |= {name: value for name, value in parts.items() if value is not None}
    values = {} if attribute.values is None else {"values": list(attribute.values)}
    return {"name": attribute.name, "type": attribute.type, "nullable": attribute.nullable, **values, **bounds}


def as_text(card: Mapping[str, Any], measurements: Sequence[Mapping[str, Any]], file: str) -> str:
    """The same for people, in Markdown."""
    lines = [
        f"# {card['table']}",
        "",
        f"A synthetic table, in `{file}`. Its {card['rows']:,} rows are nobody's: they were drawn from noisy counts of a private table.",
        "",
        "## What is promised",
        "",
    ]
    if not card["private"]:
        lines += ["**Made with a seed, for experiments. It protects nobody.**", ""]
    lines += [*card["promise"], "", "## Columns", "", "| column | type | values |", "|---|---|---|"]
    lines += [
        f"| {_cell(item['name'])} | {_cell(item['type'].split('(')[0])} | {_cell(_values(item))} |"
        for item in card["attributes"]
    ]
    lines += [
        "",
        "Columns that the workload does not mention are not in the table. Answers to other questions are guesses.",
        "",
    ]
    lines += [
        "## What was measured",
        "",
        "| what | how many | cells | off by, on average | 95 of 100 within |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {kind.purpose} | {kind.count:,} | {kind.cells:,} | {rounded(kind.typical)} | {rounded(kind.most)} |"
        for kind in figures.kinds(measurements)
    ]
    lines += ["", f"## The questions it was made for ({len(card['workload']):,})", ""]
    lines += [f"- `{_asked(query)}`" for query in card["workload"][:100]]
    lines += [f"- and {len(card['workload']) - 100:,} more, in the JSON card"] if len(card["workload"]) > 100 else []
    return "\n".join([*lines, "", f"Made by {card['made_by']}.", ""])


def _values(item: Mapping[str, Any]) -> str:
    if "values" not in item:
        return f"{item['low']} to {item['high']}" + (f", {item['cut']}" if "cut" in item else "")
    shown = ", ".join(item["values"][:SHOWN])
    return shown if len(item["values"]) <= SHOWN else f"{shown}, ... ({len(item['values']):,} in all)"


def _asked(query: Mapping[str, Any]) -> str:
    """A query of the workload on one line."""
    groups = query.get("group_by")
    parts = [
        query.get("measure") or "count(*)",
        f"WHERE {query['predicate']}" if query.get("predicate") else "",
        f"GROUP BY {', '.join(groups) if isinstance(groups, list) else groups}" if groups else "",
    ]
    return " ".join(" ".join(filter(None, parts)).split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
