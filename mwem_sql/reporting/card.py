"""The data card of a release: what a stranger must know of the table, as data and as a page of text.

Owns the words of the promise, and what noise does to measurements by their purpose. From what is stored, which may be
published.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import chain, combinations
from math import exp, log, pi, sqrt
from string import Template
from typing import Any

import duckdb
import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.measurement import NOISE, Measurement
from mwem_sql.domains.classes import Classes
from mwem_sql.domains.domain import Domain
from mwem_sql.judge import grade
from mwem_sql.judge.evidence import is_inside
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.platform.metadata import VERSION
from mwem_sql.releases import store, summary
from mwem_sql.releases.drawing import NUMBER, table_keys
from mwem_sql.releases.store import Stored
from mwem_sql.reporting.charts import rounded


def fill(template: str, **values: str) -> str:
    """A file of `templates/` with values in the place of its names; these must be quoted already."""
    return _template(template).substitute(values).removesuffix("\n")


@cache
def _template(name: str) -> Template:
    return Template(resources.files("mwem_sql.reporting").joinpath("templates", name).read_text(encoding="utf-8"))


@dataclass(frozen=True, kw_only=True)
class PurposeNoise:
    """All measurements of one purpose: how many, their cells, and by how many rows a cell is off by noise.

    On average, and 95 times in 100 at most.
    """

    purpose: str
    count: int
    cells: int
    typical: float
    most: float


def purposes(measurements: Sequence[Measurement]) -> list[PurposeNoise]:
    """By purpose, in the order in which they were measured first. The noise is the mean over them."""
    words = {
        "total": "how many rows there are",
        "histogram": "a histogram to start from",
        "first": "each attribute by itself",
        "round": "what rounds measured",
        "again": "what was measured again",
        "detail": "values inside the workload's classes",
        "always": "what the workload always wants",
    }
    grouped: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        grouped.setdefault(measurement.purpose, []).append(measurement)
    return [
        PurposeNoise(
            purpose=words.get(purpose, purpose),
            count=len(several),
            cells=sum(len(each.values) for each in several),
            typical=float(np.mean([typical(each) for each in several])),
            most=float(np.mean([_most(each) for each in several])),
        )
        for purpose, several in grouped.items()
    ]


def typical(measurement: Measurement) -> float:
    """By how much noise puts a value off on average, in rows or in the measure's own unit."""
    mean = 1.0 if measurement.kind == "pure" else sqrt(2 / pi)
    return float(measurement.scale * measurement.query.unit * mean)


def _most(measurement: Measurement) -> float:
    """The same, 95 times in 100 at most."""
    quantile = log(20) if measurement.kind == "pure" else 1.96
    return float(measurement.scale * measurement.query.unit * quantile)


def promise(facts: Mapping[str, Any]) -> list[str]:
    """What differential privacy with these numbers promises, for somebody who never heard of it."""
    epsilon, delta, unit = facts["epsilon"], facts["delta"], facts["unit"]
    sure = 100 / (1 + exp(-epsilon))
    percent = f"{sure:.0f}%" if sure < 99 else f"{min(sure, 99.9999):.4g}%"
    first = (
        f"Take {protected_rows(facts)} out of the private table: whatever is in this release would be almost as likely."
        f" The odds of any outcome change by a factor of at most {odds(facts)} (e to the power of epsilon,"
        f" {epsilon:g})." + (f" This may fail with a probability of at most {delta:g}." if delta else "")
    )
    second = (
        f"So somebody who thought it as likely as not that a certain {'row' if unit is None else unit} is in the table"
        f" can be at most {percent} sure of it after reading this release, whatever else they know."
    )
    out = [first, second]
    if unit is None:
        out.append("The promise is made for each row. A person with several rows is promised less.")
    out.append(
        f"It cost {epsilon:g} of the private table's budget (epsilon). Costs of releases from the same table add up,"
        f" and so does what they tell: two like this one promise what one with an epsilon of {2 * epsilon:g} does."
    )
    if epsilon > 10:
        out.append("An epsilon above 10 promises next to nothing.")
    used = summary.rows_used(facts)
    if used is not None:
        out.append(f"{used[0].upper()}{used[1:]}.")
    if facts["total_is_public"]:
        out.append("The number of rows was given as a public number. It is not protected.")
    totals = len(json.loads(facts.get("domain", "{}")).get("totals", ()))
    if totals:
        words = "1 public total was given" if totals == 1 else f"{totals:,} public totals were given"
        out.append(f"{words}, and the release agrees with what they say. That is not protected.")
    return out


def joined(domain: Domain) -> list[str]:
    """How the rows lead to those of other tables of the release, and what is not kept of that."""
    link = domain.link
    if link is None:
        return []
    out = []
    if link.parent is not None:
        numbers = "a new number" if len(link.foreign) == 1 else "new numbers"
        out.append(
            f"Each row leads to a row of {link.parent}_synthetic by {', '.join(link.foreign)}, {numbers}. How rows that"
            f" lead to one {link.parent} depend on one another is not kept, beyond what the columns above them tell."
        )
    by_most: dict[int, list[str]] = {}
    for table in link.below:
        by_most.setdefault(int(domain[table].most), []).append(table)
    for most, tables in by_most.items():
        beyond = f": {most:,} stands for {most:,} or more" if most > 1 else ""
        of = f"is how many rows of {tables[0]}" if len(tables) == 1 else "are how many rows of these tables"
        out.append(f"{_and(tables)} {of} lead to a row{beyond}.")
    if link.below:
        out.append(
            f"Rows of {_and([f'{table}_synthetic' for table in link.below])} lead to these rows."
            + (" How such tables depend on one another is not kept." if len(link.below) > 1 else "")
        )
    return out


def _and(names: Sequence[str]) -> str:
    """Names in a sentence: a, b and c."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def protected_rows(facts: Mapping[str, Any]) -> str:
    """Whose rows the promise is about."""
    return "any one row" if facts["unit"] is None else f"all rows of any one {facts['unit']}"


def odds(facts: Mapping[str, Any]) -> str:
    """The factor by which odds change at most."""
    return rounded(exp(min(facts["epsilon"], 700)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Card:
    """What is said of one table of a release: `content` as data. Its rows are in `file`."""

    stored: Stored
    measurements: Sequence[Measurement]
    content: Mapping[str, Any]
    file: str


def of(con: duckdb.DuckDBPyConnection, stored: Stored, file: str) -> Card:
    """The card of a stored table.

    No time and no path in it: what is published is the same whenever and wherever it is exported.
    """
    facts, measurements = stored.facts, store.read_measurements(con, stored)
    copied = (
        "release", "version", "epsilon", "delta", "unit", "rows_per_unit", "private", "rows", "rounds",
        "total_is_public",
    )  # fmt: skip
    content = {
        "table": stored.name.table,
        "made_by": f"mwem-sql {VERSION}",
        **{name: facts[name] for name in copied},
        "promise": [*promise(facts), *joined(stored.domain)],
        "quality": grade.word(facts),
        "quality_in_words": grade.meaning(facts),
        "mean_error": facts.get("mean_error"),
        "mean_error_within": facts.get("mean_error_within"),
        "rows_used": summary.rows_used(facts),
        **_keys(stored.domain),
        "attributes": [
            {"name": name, "type": classes.attribute.type, **summary.Cut.of(classes).as_json()}
            for name, classes in stored.classes.items()
        ],
        "off_the_domain": [
            {"attribute": name, "where": where, "share": share}
            for name, where, share in summary.off_domain_shares(stored.state(), stored.classes)
        ],
        "workload": store.workload_of(con, stored).to_arrow().to_pylist(),
        "measurements": [
            {
                "purpose": each.purpose,
                "name": each.name,
                "noise": NOISE[each.kind],
                "scale": each.scale * each.query.unit,
                "cells": len(each.values),
            }
            for each in measurements
        ],
    }
    return Card(stored=stored, measurements=measurements, content=content, file=file)


def _keys(domain: Domain) -> dict[str, Any]:
    """The keys, where tables are joined."""
    if domain.link is None:
        return {}
    return {
        "keys": [
            {
                "columns": list(key.columns),
                "key": key.kind,
                "refers_to": None
                if key.refers_to is None
                else {"table": key.refers_to[0], "columns": list(key.refers_to[1])},
            }
            for key in table_keys(domain.link)
        ]
    }


def as_json(cards: Sequence[Card]) -> Mapping[str, Any]:
    """What is said of a release as data: of several tables, a list."""
    return cards[0].content if len(cards) == 1 else {"tables": [one.content for one in cards]}


def tables_of(content: Mapping[str, Any]) -> list[str]:
    """The tables that a card as data is about."""
    return [one["table"] for one in content.get("tables", [content])]


def as_text(cards: Sequence[Card]) -> str:
    """The same for people, in Markdown. What is promised is said once: the tables protect the same units."""
    first = cards[0]
    seeded = [] if first.content["private"] else ["**Made with a seed, for experiments. It protects nobody.**", ""]
    if len(cards) == 1:
        text = fill(
            "card.md",
            **_facts(first),
            promise="\n".join([*seeded, *first.content["promise"]]),
            body=_body(first, "##"),
            made_by=first.content["made_by"],
        )
        return f"{text}\n"
    text = fill(
        "cards.md",
        tables=" and ".join(one.content["table"] for one in cards),
        listed="\n".join(map(_listed, cards)),
        limits=grade.limits(),
        promise="\n".join([*seeded, *promise(first.stored.facts)]),
        sections="\n\n".join(map(_section, cards)),
        made_by=first.content["made_by"],
    )
    return f"{text}\n"


def _facts(card: Card) -> dict[str, str]:
    """What is said of a table before all else."""
    content = card.content
    return {
        "table": content["table"],
        "file": card.file,
        "rows": f"{content['rows']:,}",
        "quality": str(content["quality"]),
        "meaning": str(content["quality_in_words"]),
        "limits": grade.limits(),
    }


def _listed(card: Card) -> str:
    """A table among others: its file, rows and quality, and where its rows lead."""
    content, link = card.content, card.stored.domain.link
    leads = ""
    if link is not None and link.parent is not None:
        leads = f"`{link.parent}_synthetic` by `{_cell(', '.join(link.foreign))}`"
    return f"| `{_cell(content['table'])}` | `{card.file}` | {content['rows']:,} | {content['quality']} | {leads} |"


def _section(card: Card) -> str:
    """What is said of a table that is not said of all."""
    used = summary.rows_used(card.stored.facts)
    said = [f"{used[0].upper()}{used[1:]}."] if used else []
    words = "\n".join([*said, *joined(card.stored.domain)])
    return fill("card_section.md", **_facts(card), words=words, body=_body(card, "###"))


def _body(card: Card, heading: str) -> str:
    """The columns of a table, what was measured, and the questions that it was made for."""
    content = card.content
    domain = card.stored.domain
    columns = [_column(*each) for each in _key_words(domain)]
    columns += [
        _column(item["name"], item["type"].split("(")[0], f"{_elsewhere(domain, item['name'])}{item['in_words']}")
        for item in content["attributes"]
    ]
    measured = [
        f"| {noise.purpose} | {noise.count:,} | {noise.cells:,} | {rounded(noise.typical)} | {rounded(noise.most)} |"
        for noise in purposes(card.measurements)
    ]
    queries, listed = content["workload"], 100
    questions = [f"- `{_one_line(query)}`" for query in queries[:listed]]
    if len(queries) > listed:
        questions.append(f"- and {len(queries) - listed:,} more, in the JSON card")
    return fill(
        "card_body.md",
        heading=heading,
        columns="\n".join(columns),
        off=_off(content["off_the_domain"]),
        measured="\n".join(measured),
        count=f"{len(queries):,}",
        questions="\n".join(questions),
    )


def _column(name: str, kind: str, words: str) -> str:
    return f"| {_cell(name)} | {_cell(kind)} | {_cell(words)} |"


def _key_words(domain: Domain) -> Iterator[tuple[str, str, str]]:
    """The columns of each key, with their type and what they lead to."""
    for key in table_keys(domain.link) if domain.link is not None else ():
        leads = "" if key.refers_to is None else f", the {', '.join(key.refers_to[1])} of {key.refers_to[0]}"
        numbers = "a new number" if len(key.columns) == 1 else "new numbers"
        yield ", ".join(key.columns), NUMBER, f"{key.kind}{leads}; {numbers}"


def _elsewhere(domain: Domain, name: str) -> str:
    """Where an attribute is that can be asked about, and is no column of the rows."""
    above = domain.column_above(name)
    if above is not None:
        return f"in {above[0]}_synthetic: "
    return f"not in the rows, how many of {name}_synthetic lead to each: " if _is_number(domain, name) else ""


def _is_number(domain: Domain, name: str) -> bool:
    return domain.link is not None and name in domain.link.below


def _off(shares: Sequence[Mapping[str, Any]]) -> str:
    """How many rows have a value off the domain, where some may."""
    if not shares:
        return ""
    lines = [f"- `{item['attribute']}` {item['where']}: about {grade.percent(item['share'])}\n" for item in shares]
    return f"Rows that have a value off the domain, as far as noise lets it be seen:\n\n{''.join(lines)}\n"


def _one_line(query: Mapping[str, Any]) -> str:
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


def of_classes(measurements: Sequence[Measurement]) -> list[Measurement]:
    """The measurements about the state's classes: not those of values inside them."""
    return [each for each in measurements if each.purpose != "detail"]


def pairs_by_count(measurements: Sequence[Measurement]) -> list[tuple[str, str]]:
    """Attributes that were measured together, the most often first."""
    counts = Counter(chain.from_iterable(combinations(each.query.attributes, 2) for each in of_classes(measurements)))
    return sorted(counts, key=lambda pair: -counts[pair])


def fits(
    state: State | Mixture, classes: Mapping[str, Classes], measurements: Sequence[Measurement]
) -> tuple[list[str], Floats]:
    """The names of what was measured, and how far the state is from each, over what noise explains.

    About 1 or less is a fit.
    """
    misfits, counts = [], {name: each.count for name, each in classes.items()}
    for measurement in of_classes(measurements):
        query = measurement.query
        weights = state.marginal(query.attributes).astype(np.float64)
        for axis, name in enumerate(query.attributes if is_inside(measurement, counts) else ()):
            weights = classes[name].spread(weights, axis)
        off = measurement.values - query.answer(weights).ravel()
        misfits.append(float(np.sqrt(np.mean(off**2) / measurement.variance)))
    return [each.name for each in of_classes(measurements)], np.array(misfits)
