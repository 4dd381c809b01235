"""The report: one page for people, without anything from the network. Owns its sentences and its file; what they tell is asked of the release.

With a private table to compare with, the page shows true answers, and says so in a banner. Otherwise it has released values only.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from math import exp
from string import Template
from typing import Any

from mwem_sql.algebra.measurement import Measurement
from mwem_sql.judge import grade
from mwem_sql.releases import left_out
from mwem_sql.releases.store import Stored
from mwem_sql.reporting import charts, figures, shapes, verdict

MOST_PAIRS = 6
"""Pictures of pairs of attributes."""
MOST_ANSWERS = 50_000
"""Answers in the page. A hundred bytes each: more make a page that a phone cannot open."""
COLUMNS = {
    "query": "query", "name": "question", "cell": "cell", "answer": "answer", "low": "at least", "high": "at most", "measured": "measured", "quote": "quote",
    "true_answer": "truth", "error": "off by",
}  # fmt: skip
"""Columns of the answers that a reader wants, in this order, and what they are called."""
SHOWN = 3
"""Questions on the first screen: so many of the surest, and so many of the least sure."""
MOST_OFF = 10.0
"""In parts of an answer: what is off by more than that is not said to the percent."""
MEASURED = {
    "directly": "it was measured. Only noise is in the way.",
    "in part": "only parts of what it asks for were measured. The rest is a guess.",
    "never": "a guess, made of other measurements. Do not quote it without its 'at least' and 'at most'.",
}
"""Why an answer may be trusted, or not."""
NUMBERS = {"query", "answer", "low", "high", "true_answer", "error"}


def make(
    stored: Stored,
    measurements: Sequence[Measurement],
    answers: Iterable[Mapping[str, Any]],
    compared: str | None,
    ends: Mapping[str, charts.Ends] | None = None,
) -> str:
    """The page of a release as HTML; `compared` is the private table that answers were compared with, `ends` have the error bars of attributes' pictures."""
    facts, state = stored.facts, stored.state()
    names, misfits = figures.fits(state, measurements)
    pictures = shapes.two_way(stored, figures.pairs(measurements, MOST_PAIRS))
    rows = [dict(row) for row in answers]
    for row in rows:
        if "measured" in row:
            row["quote"] = verdict.use(row)
    asked = verdict.questions(rows)
    page = Template(resources.files("mwem_sql.reporting").joinpath("page.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=escape(f"{stored.name.table}: what was released, and how sure it is"),
        heading=f"{_bdi(stored.name.table)}: what was released, and how sure it is",
        subtitle=escape(
            f"A synthetic table in the place of a private one. Release {facts['release']}, stored as {stored.name}."
        ),
        output=escape(str(stored.name)),
        verdict=_verdict(facts, asked),
        questions=_questions(asked),
        score=_score(facts, str(stored.name)),
        pairs_link='<a href="#pairs">pairs</a>' if len(stored.classes) > 1 else "",
        pairs=_known(verdict.pairs(list(stored.classes), measurements, float(facts["total"]))),
        banners="".join(f'<p class="banner" role="alert">{escape(text)}</p>' for text in _banners(facts, compared)),
        facts="".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in _facts(facts)),
        promise="".join(f"<p>{escape(text)}</p>" for text in promise(facts)),
        measured=_measured(figures.kinds(measurements), names, misfits.tolist()),
        answers_text="".join(f"<p>{escape(text)}</p>" for text in _about(rows, facts)),
        ones="".join(
            _card(_bdi(name), _picture(name, bars, found, (ends or {}).get(name, ())))
            for name, (bars, found) in shapes.one_way(stored).items()
        ),
        twos=_pairs(pictures),
        footer=escape("Made by mwem_report of mwem_sql. The page is complete by itself and loads nothing."),
        data=_data(rows[:MOST_ANSWERS], worst_first=compared is not None),
    )


def _verdict(facts: Mapping[str, Any], asked: Sequence[verdict.Question]) -> str:
    """May I use this, and for what: the word, why it has it, how many questions may be quoted, and the promise, each in a sentence."""
    word, meaning = grade.word(facts), grade.meaning(facts)
    counted = verdict.counted(asked)
    lines = [f"<p>{escape(text)}</p>" for text in (meaning, counted) if text is not None]
    whose = "any one row" if facts["unit"] is None else f"all rows of any one {facts['unit']}"
    odds = charts.rounded(exp(min(facts["epsilon"], 700)))
    lines.append(
        f"<p>The promise: take {escape(whose)} out of the private table, and the odds of all this change by a factor of at most {odds}. "
        '<a href="#promise">In full</a></p>'
    )
    shown = f'<p class="word {word}"><strong>{word}</strong> for the questions it was made for</p>'
    limits = f'<p class="quiet small">{escape(grade.limits())}</p>'
    return shown + "".join(lines) + limits


def _questions(asked: Sequence[verdict.Question]) -> str:
    """The surest and the least sure questions, side by side."""
    best, worst = verdict.ranked(asked, SHOWN)
    lists = (("The surest questions", best), ("The least sure", worst))
    return "".join(
        f'<div class="card"><h3>{title}</h3><ol class="questions">{"".join(map(_question, own))}</ol></div>'
        for title, own in lists
        if own
    )


QUOTE = {"yes": "may be quoted", "roughly": "roughly", "no": "not to be quoted"}


def _question(own: verdict.Question) -> str:
    off = "" if own.off is None or own.off > MOST_OFF else f", off by {grade.percent(own.off)} or less"
    use = own.use or "no"
    return (
        f'<li><span class="asked" dir="auto">{escape(own.name)}</span> <span class="use {use}">{QUOTE[use]}</span>'
        f'<br><span class="quiet small">measured: {escape(own.measured)}{off}. <span dir="auto">{escape(own.example)}</span></span></li>'
    )


def _score(facts: Mapping[str, Any], output: str) -> str:
    """One figure for those who compare products: what the release says of itself, and where the others are."""
    error = grade.mean_error(facts)
    if error is None:
        return ""
    call = f"FROM mwem_quality('{output}', summary := true, compare := '...', target := '...')"
    return (
        '<section id="score"><h2>One score, to compare with</h2>'
        f"<p>Rows in a wrong cell of a question, mean over the workload: <strong>{escape(error)}</strong>. It is private as the rest.</p>"
        "<p>What others print (mean L1 distance of pairs, pMSE, difference of correlations, accuracy of a classifier) reads the private rows and is not private. "
        f"For the curator: <code>{escape(call)}</code></p></section>"
    )


def _known(found: verdict.Pairs) -> str:
    """Which pairs of attributes are known, and how well."""
    if len(found.names) < 2:
        return ""
    used = {kind for i, row in enumerate(found.shades) for kind, _ in row[: i + 1]}
    legend = "".join(
        f'<li><svg class="key" viewBox="0 0 12 12" aria-hidden="true"><rect class="{kind}" width="12" height="12"/></svg> {escape(said)}</li>'
        for kind, said in verdict.LEGEND.items()
        if kind in used
    )
    more = f"<p>{found.left_out:,} more attributes are not in this picture.</p>" if found.left_out else ""
    picture = charts.matrix(found.names, found.shades, "Pairs of attributes that are known together, and how well")
    return (
        '<section id="pairs"><h2>Which pairs are known, and how well</h2>'
        '<p class="quiet">A square for each pair of attributes; on the slope, each attribute by itself. What is not measured together is a guess from each alone.</p>'
        f'<div class="cards known"><div class="card">{picture}</div><div class="card"><ul class="legend">{legend}</ul>{more}</div></div></section>'
    )


def _banners(facts: Mapping[str, Any], compared: str | None) -> list[str]:
    out = []
    if compared is not None:
        out.append(
            f"NOT PRIVATE: this page shows true answers of {compared}. It is for the curator. Do not publish it."
        )
    if not facts["private"]:
        out.append(
            "Made with a seed: whoever knows it can take the noise away again. This release is for experiments, it protects nobody."
        )
    return out


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    out = [("epsilon, the cost", f"{facts['epsilon']:g}")]
    if facts["delta"]:
        out.append(("delta", f"{facts['delta']:g}"))
    protects = "one row" if facts["unit"] is None else f"one {facts['unit']}"
    counts = {
        "rows": facts["rows"],
        "attributes": facts["attributes"],
        "questions": facts["queries"],
        "rounds": facts["rounds"],
    }
    out += [("protects", protects), *((name, f"{count:,}") for name, count in counts.items())]
    error = grade.mean_error(facts)
    if error is not None:
        out.append(("in wrong cells, for a question", error))
    return out


def promise(facts: Mapping[str, Any]) -> list[str]:
    """What differential privacy with these numbers promises, for somebody who never heard of it."""
    epsilon, delta, unit = facts["epsilon"], facts["delta"], facts["unit"]
    whose = "any one row" if unit is None else f"all rows of any one {unit}"
    factor, sure = exp(min(epsilon, 700)), 100 / (1 + exp(-epsilon))
    out = [
        f"Take {whose} out of the private table: whatever is in this release would be almost as likely. "
        f"The odds of any outcome change by a factor of at most {charts.rounded(factor)} (e to the power of epsilon, {epsilon:g})."
        + (f" This may fail with a probability of at most {delta:g}." if delta else ""),
        (
            f"So somebody who thought it as likely as not that a certain {'row' if unit is None else unit} is in the table can be at most {_percent(sure)} sure of it "
            "after reading this release, whatever else they know."
        ),
    ]
    if unit is None:
        out.append("The promise is made for each row. A person with several rows is promised less.")
    out.append(
        f"It cost {epsilon:g} of the private table's budget (epsilon). Costs of releases from the same table add up, and so does what they tell: "
        f"two like this one promise what one with an epsilon of {2 * epsilon:g} does."
    )
    if epsilon > 10:
        out.append("An epsilon above 10 promises next to nothing.")
    used = left_out.sentence(facts)
    if used is not None:
        out.append(f"{used[0].upper()}{used[1:]}.")
    if facts["total_is_public"]:
        out.append("The number of rows was given as a public number. It is not protected.")
    return out


def _percent(value: float) -> str:
    return f"{value:.0f}%" if value < 99 else f"{min(value, 99.9999):.4g}%"


def _measured(kinds: Sequence[figures.PurposeNoise], names: Sequence[str], misfits: Sequence[float]) -> str:
    head = "".join(
        f'<th scope="col"{" class=number" if k else ""}>{name}</th>'
        for k, name in enumerate(("what", "how many", "cells", "off by, on average", "95 of 100 within"))
    )
    lines = "".join(
        f'<tr><td>{escape(kind.purpose)}</td><td class="number">{kind.count:,}</td><td class="number">{kind.cells:,}</td>'
        f'<td class="number">{charts.rounded(kind.typical)}</td><td class="number">{charts.rounded(kind.most)}</td></tr>'
        for kind in kinds
    )
    table = f'<div class="table" tabindex="0" role="region" aria-label="Measurements"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
    table += '<p class="scrolls quiet small" aria-hidden="true">There is more to the right: the table scrolls sideways &rarr;</p>'
    text = "<p>Noise was added to every number that left the private table. This is how far it puts one number (a cell) off, in rows or in a sum's own unit:</p>"
    if not misfits:
        return text + table
    picture = charts.dots(
        misfits,
        names,
        1.0,
        "How far the release is from each measurement, over its noise",
        "dashes: as far as noise explains",
    )
    note = '<p class="quiet">Each dot is a measurement, in the order in which they were made. Below the line the release says what was measured, but for noise.</p>'
    return (
        text
        + table
        + note
        + f'<div class="cards">{_card("How well the release fits what was measured", picture)}</div>'
    )


def _about(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> list[str]:
    """What the table of answers shows, and which of them to trust."""
    first = (
        f"All {len(rows):,} answers to the workload."
        if len(rows) <= MOST_ANSWERS
        else f"The first {MOST_ANSWERS:,} of {len(rows):,} answers."
    )
    if not rows or "measured" not in rows[0]:
        return [first]
    counts = Counter(row["measured"] for row in rows)
    return [
        (
            f"{first} The truth is between 'at least' and 'at most' 95 times in 100. Trust an answer as far as these two are close to it: "
            "0 to 50 says that there are few, and not how many."
        ),
        "'quote': yes, if the truth is at most 10% of the answer away; roughly, up to half of it; else no.",
        *_checked(facts),
        *(f"'{kind}' ({counts[kind]:,}): {MEASURED[kind]}" for kind in MEASURED if counts[kind]),
    ]


def _checked(facts: Mapping[str, Any]) -> list[str]:
    """What the certificate says; nothing where there is none."""
    error = grade.mean_error(facts)
    if error is None:
        return []
    return [f"A check at the end, private as the rest, found in wrong cells of a question, on average: {error}."]


def _picture(name: str, bars: shapes.Bars, rows: Any, ends: charts.Ends) -> str:
    draw = charts.columns if bars.ordered and len(bars.labels) > 8 else charts.bars
    return draw(bars.labels, rows, f"Rows by {name}", ends)


def _card(title: str, picture: str) -> str:
    """`title` as HTML; names of other people's making are in <bdi>, so that none turns the others round."""
    return f'<div class="card"><h3>{title}</h3>{picture}</div>'


def _bdi(name: str) -> str:
    return f"<bdi>{escape(name)}</bdi>"


def _pairs(pictures: Mapping[tuple[str, str], tuple[shapes.Bars, shapes.Bars, Any]]) -> str:
    cards = "".join(
        _card(
            f"{_bdi(first)} and {_bdi(second)}",
            charts.heat(down.labels, across.labels, rows, f"Rows by {first} and {second}"),
        )
        for (first, second), (down, across, rows) in pictures.items()
    )
    text = '<p class="quiet">Attributes that were measured together. The stronger the colour, the more rows.</p>'
    return f'<section><h2>Two at a time</h2>{text}<div class="cards">{cards}</div></section>' if cards else ""


def _data(rows: Sequence[Mapping[str, Any]], *, worst_first: bool) -> str:
    """Columns and rows for the page's table, as JSON that may stand inside a script element."""
    names = [name for name in COLUMNS if rows and name in rows[0]]
    columns = [
        {"name": name, "title": COLUMNS[name], "number": name in NUMBERS, "first": worst_first and name == "error"}
        for name in names
    ]
    lines = [
        [
            ", ".join("NULL" if part is None else part for part in row[name] or ()) if name == "cell" else row[name]
            for name in names
        ]
        for row in rows
    ]
    return (
        json.dumps({"columns": columns, "rows": lines}, allow_nan=False)
        .replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
    )
