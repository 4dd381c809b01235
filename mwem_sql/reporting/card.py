"""The data card of a release: what a stranger must know of the table, as data and as a page of text. From what is stored, which may be published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mwem_sql.algebra.measurement import NOISE, Measurement
from mwem_sql.domains.classes import Classes
from mwem_sql.judge import grade
from mwem_sql.platform.resources import VERSION
from mwem_sql.releases import beyond, left_out
from mwem_sql.releases.cut import Cut
from mwem_sql.releases.store import Stored
from mwem_sql.reporting import figures, page
from mwem_sql.reporting.charts import rounded


def as_json(
    stored: Stored, measurements: Sequence[Measurement], workload: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The card as data. No time and no path in it: what is published is the same whenever and wherever it is exported."""
    facts = stored.facts
    return {
        "table": stored.name.table,
        "made_by": f"mwem-sql {VERSION}",
        **{name: facts[name] for name in ("release", "version", "epsilon", "delta", "unit", "rows_per_unit", "private", "rows", "rounds", "total_is_public")},
        "promise": page.promise(facts),
        "quality": grade.word(facts),
        "quality_in_words": grade.meaning(facts),
        "mean_error": facts.get("mean_error"),
        "mean_error_within": facts.get("mean_error_within"),
        "rows_used": left_out.sentence(facts),
        "attributes": [_attribute(own) for own in stored.classes.values()],
        "off_the_domain": [
            {"attribute": name, "where": where, "share": share}
            for name, where, share in beyond.shares(stored.state(), stored.classes)
        ],
        "workload": list(workload),
        "measurements": [
            {"purpose": each.purpose, "name": each.name, "noise": NOISE[each.kind], "scale": each.scale * each.query.unit, "cells": len(each.values)}
            for each in measurements
        ],
    }  # fmt: skip


def _attribute(classes: Classes) -> dict[str, Any]:
    return {"name": classes.attribute.name, "type": classes.attribute.type, **Cut.of(classes).as_json()}


def as_text(card: Mapping[str, Any], measurements: Sequence[Measurement], file: str) -> str:
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
    quality = ["## How good it is", "", f"**{card['quality']}** for its questions: {card['quality_in_words']}", ""]
    lines[-2:] = [*quality, f"({grade.limits()})", "", *lines[-2:]]
    lines += [*card["promise"], "", "## Columns", "", "| column | type | values |", "|---|---|---|"]
    lines += [
        f"| {_cell(item['name'])} | {_cell(item['type'].split('(')[0])} | {_cell(item['in_words'])} |"
        for item in card["attributes"]
    ]
    lines += [
        "",
        "A cell is what the release tells apart: inside one, values are made up. Columns that the workload does not mention are not in the table. Answers to other questions are guesses.",
        "",
        *_off(card["off_the_domain"]),
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


def _off(shares: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many rows have a value off the domain, where some may."""
    if not shares:
        return []
    lines = [f"- `{own['attribute']}` {own['where']}: about {grade.percent(own['share'])}" for own in shares]
    return ["Rows that have a value off the domain, as far as noise lets it be seen:", "", *lines, ""]


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
