"""The page of a release: one for people, without anything from the network.

Owns its sentences, and what may be quoted from a release: of each answer and each question of its workload, by how wide
its interval is. With a private table to compare with, the page shows true answers, and says so in a banner. Otherwise
it has released values only. Its look is in `templates/`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain, combinations
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from mwem_sql.algebra.arrays import Floats, Integers
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.judge import grade
from mwem_sql.judge.intervals import RANK
from mwem_sql.releases.store import Stored
from mwem_sql.reporting import card, charts
from mwem_sql.reporting.card import fill

Use: TypeAlias = Literal["yes", "roughly", "no"]

MOST_ERROR: Final[Mapping[Use, float]] = {"yes": 0.1, "roughly": 0.5}
"""How far an answer may be off, in parts of itself, to be quoted, or to be quoted roughly. Larger: more answers may
be."""
MOST_ANSWERS = 50_000
"""Answers in the page. A hundred bytes each: more make a page that a phone cannot open."""
MOST_SHADES: Final = 24
"""Attributes in the picture of pairs. More: its squares get smaller than a finger."""
LEGEND: Final = {
    "known-good": f"measured, noise puts at most {grade.percent(grade.WRONG['good'])} of the rows in wrong cells",
    "known-fair": f"measured, at most {grade.percent(grade.WRONG['fair'])}",
    "known-poor": "measured, more than that",
    "known-part": "only some of their combinations were measured",
    "known-none": "not measured together: a guess",
}
"""The classes of a pair in the style sheet, the best first, and what they mean."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question of the workload: its cells, and how far they may be off together, in parts of what they add up to.

    None where that is not known.
    """

    query: int
    name: str
    cells: int
    off: float | None
    measured: str
    example: str

    @property
    def use(self) -> Use | None:
        return None if self.off is None else _use(self.off)


def make(
    stored: Stored,
    measurements: Sequence[Measurement],
    answers: pa.Table,
    compared: str | None,
    *,
    pictures: Mapping[str, charts.OneWay],
    ends: Mapping[str, charts.Ends],
    tables: str = "",
) -> str:
    """The page of a release as HTML. `answers` has a row for each cell of each question, as mwem_answer gives them.

    `compared` is the private table that answers were compared with; `pictures` are those of single attributes, and
    `ends` have their error bars. `tables` is the section about other tables of the release.
    """
    facts, name = stored.facts, str(stored.name)
    heading = "what was released, and how sure it is"
    several = questions(answers)
    labels, misfits = card.fits(stored.state(), stored.classes, measurements)
    pairs = charts.two_way(stored, card.pairs_by_count(measurements)[:6])
    return fill(
        "page.html",
        style=fill("style.css"),
        script=fill("answers.js"),
        title=escape(f"{stored.name.table}: {heading}"),
        heading=f"{isolated(stored.name.table)}: {heading}",
        subtitle=escape(
            f"A synthetic table in the place of a private one. Release {facts['release']}, stored as {name}."
        ),
        output=escape(name),
        verdict=_verdict(facts, several),
        questions=_questions(several),
        score=_score(facts, name),
        pairs_link='<a href="#pairs">pairs</a>' if len(stored.classes) > 1 else "",
        tables=tables,
        tables_link='<a href="#tables">tables</a>' if tables else "",
        pairs=_pairs(shades(list(stored.classes), measurements, float(facts["total"]))),
        banners="".join(fill("banner.html", text=escape(text)) for text in _banners(facts, compared)),
        facts="".join(fill("fact.html", name=escape(name), value=escape(value)) for name, value in _facts(facts)),
        promise=_paragraphs(card.promise(facts)),
        measured=_measured(measurements, labels, misfits.tolist()),
        answers_text=_paragraphs(_about(answers, facts)),
        ones="".join(
            titled(isolated(attribute), _picture(attribute, bars, counts, ends.get(attribute, ())))
            for attribute, (bars, counts) in pictures.items()
        ),
        twos=_combinations(pairs),
        footer="Made by mwem_report of mwem_sql. The page is complete by itself and loads nothing.",
        data=_data(answers.slice(0, MOST_ANSWERS), worst_first=compared is not None),
    )


def uses(answers: pa.Table) -> list[Use | None]:
    """How each answer may be used; None without an interval."""
    values, halves = _numbers(answers, "answer"), _halves(answers)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.where(values == 0, np.inf, halves / np.abs(values))
    return [
        None if unknown else _use(each) for each, unknown in zip(off.tolist(), np.isnan(halves).tolist(), strict=True)
    ]


def _use(off: float) -> Use:
    return "yes" if off <= MOST_ERROR["yes"] else "roughly" if off <= MOST_ERROR["roughly"] else "no"


def _numbers(answers: pa.Table, name: str) -> Floats:
    """A column as numbers; NaN for NULL, and where there is no such column."""
    if name not in answers.column_names:
        return np.full(len(answers), np.nan)
    return np.asarray(answers[name].cast(pa.float64()).to_numpy(), dtype=np.float64)


def _halves(answers: pa.Table) -> Floats:
    """How far the truth is from each answer at most; NaN where that is not known."""
    values = _numbers(answers, "answer")
    return np.maximum(_numbers(answers, "high") - values, values - _numbers(answers, "low"))


def _ranks(answers: pa.Table) -> Integers:
    """Of each answer, how well it was measured: its place in RANK."""
    ranks = answers["measured"].combine_chunks().dictionary_encode()
    numbers = np.array([RANK[word] for word in ranks.dictionary.to_pylist()], dtype=np.int64)
    return np.asarray(numbers[ranks.indices.to_numpy()])


def questions(answers: pa.Table) -> list[Question]:
    """In the order of the workload."""
    if not len(answers):
        return []
    numbers, first, which = np.unique(answers["query"].to_numpy(), return_index=True, return_inverse=True)
    values, halves, count = np.abs(_numbers(answers, "answer")), _halves(answers), len(numbers)
    bounded = np.flatnonzero(~np.isnan(halves))
    sizes, widths = (np.bincount(which[bounded], each[bounded], count) for each in (values, halves))
    # Nothing may be quoted of a question all of whose answers are 0, but for what they are at most.
    off = np.divide(widths, sizes, out=np.full(count, np.inf), where=sizes > 0)
    worst = np.zeros(count, dtype=np.int64)
    np.maximum.at(worst, which, _ranks(answers))
    # The example of a question is the first of its largest answers.
    largest = bounded[np.lexsort((-values[bounded], which[bounded]))]
    largest = largest[np.flatnonzero(np.diff(which[largest], prepend=-1))]
    examples = dict(zip(which[largest].tolist(), _examples(answers.take(largest)), strict=True))
    names, words = answers["name"].take(first).to_pylist(), list(RANK)
    return [
        Question(
            query=query,
            name=str(name),
            cells=cells,
            off=each if number in examples else None,
            measured=words[rank],
            example=examples.get(number, ""),
        )
        for number, (query, name, cells, each, rank) in enumerate(
            zip(numbers.tolist(), names, np.bincount(which).tolist(), off.tolist(), worst.tolist(), strict=True)
        )
    ]


def _examples(answers: pa.Table) -> Iterator[str]:
    cells = _cells(answers) if "cell" in answers.column_names else [""] * len(answers)
    for cell, value, half in zip(cells, answers["answer"].to_pylist(), _halves(answers).tolist(), strict=True):
        digits = 0 if half >= 2 else 1 if half >= 0.2 else 3
        yield f"{cell}: " * bool(cell) + f"{value:,.{digits}f} ± {half:,.{digits}f}"


def _cells(answers: pa.Table) -> list[str]:
    """The values of each cell in words; nothing of a question without groups."""
    cells = answers["cell"].to_pylist()
    return [", ".join(["NULL" if part is None else part for part in cell or ()]) for cell in cells]


def ranked(several: Sequence[Question], count: int) -> tuple[list[Question], list[Question]]:
    """So many of the surest questions, and so many others of the least sure, each from its end; none is in both."""
    bounded = sorted((each for each in several if each.off is not None), key=lambda each: (each.off or 0.0, each.query))
    few = min(count, (len(bounded) + 1) // 2)
    return bounded[:few], bounded[: max(few, len(bounded) - count) - 1 : -1]


def counted(several: Sequence[Question]) -> str | None:
    """How many questions may be quoted, in a sentence; None where no interval is known."""
    counts = Counter(each.use for each in several if each.use is not None)
    if not counts:
        return None
    yes, roughly = (grade.percent(MOST_ERROR[word]) for word in ("yes", "roughly"))
    whole = sum(counts.values())
    noun = "question" if whole == 1 else "questions"
    return (
        f"Of its {whole:,} {noun}, {counts['yes']:,} may be quoted (off by at most {yes}, on average over cells,"
        f" 95 times in 100), {counts['roughly']:,} as a rough figure (up to {roughly}), and {counts['no']:,} not."
    )


@dataclass(frozen=True, kw_only=True)
class Shades:
    """Which pairs of attributes were measured together: of each, a class of the style sheet and words.

    On the diagonal, each attribute by itself.
    """

    names: list[str]
    shades: list[list[tuple[str, str]]]
    left_out: int


def shades(names: Sequence[str], measurements: Sequence[Measurement], total: float) -> Shades:
    """Of each pair the best that one measurement says of it."""
    shown = list(names)[:MOST_SHADES]
    order, best = list(LEGEND), dict[tuple[str, ...], tuple[int, float, str]]()
    for measurement in card.of_classes(measurements):
        query = measurement.query
        attributes = sorted(query.attributes)
        share = min(1.0, card.typical(measurement) / query.unit * query.cells / (2 * max(1.0, total)))
        if query.counts_all and query.cells > 1:
            kind = next((f"known-{word}" for word, most in grade.WRONG.items() if share <= most), "known-poor")
            words = f"measured, noise puts about {grade.percent(share)} of the rows in wrong cells"
        else:
            kind, words = "known-part", LEGEND["known-part"]
        for pair in chain(((name,) for name in attributes), combinations(attributes, 2)):
            entry = order.index(kind), share, words
            best[pair] = min(entry, best.get(pair, entry))
    none = order.index("known-none"), 1.0, LEGEND["known-none"]

    def shade(first: str, second: str) -> tuple[str, str]:
        rank, _, words = best.get((first,) if first == second else tuple(sorted((first, second))), none)
        if first == second and order[rank] == "known-none":
            words = "not measured by itself: a guess"
        return order[rank], words

    return Shades(
        names=shown,
        shades=[[shade(first, second) for second in shown] for first in shown],
        left_out=len(names) - len(shown),
    )


def _paragraphs(texts: Iterable[str]) -> str:
    return "".join(f"<p>{escape(text)}</p>" for text in texts)


def _verdict(facts: Mapping[str, Any], several: Sequence[Question]) -> str:
    """May I use this, and for what: the word, why it has it, how many questions may be quoted, and the promise."""
    return fill(
        "verdict.html",
        word=str(grade.word(facts)),
        sentences=_paragraphs(text for text in (grade.meaning(facts), counted(several)) if text is not None),
        whose=escape(card.protected_rows(facts)),
        odds=card.odds(facts),
        limits=escape(grade.limits()),
    )


def _questions(several: Sequence[Question]) -> str:
    """The surest and the least sure questions, side by side."""
    best, worst = ranked(several, 3)
    return "".join(
        titled(title, f'<ol class="questions">{"".join(map(_item, ranks))}</ol>')
        for title, ranks in (("The surest questions", best), ("The least sure", worst))
        if ranks
    )


def _item(question: Question) -> str:
    quote, off = {"yes": "may be quoted", "roughly": "roughly", "no": "not to be quoted"}, ""
    # What is off by more than ten times an answer is not said to the percent.
    if question.off is not None and question.off <= 10:
        off = f", off by {grade.percent(question.off)} or less"
    return fill(
        "question.html",
        name=escape(question.name),
        use=question.use or "no",
        quote=quote[question.use or "no"],
        measured=escape(question.measured),
        off=off,
        example=escape(question.example),
    )


def _score(facts: Mapping[str, Any], output: str) -> str:
    """One figure for those who compare products: what the release says of itself, and where the others are."""
    error = grade.mean_error(facts)
    if error is None:
        return ""
    call = f"FROM mwem_quality('{output}', summary := true, compare := '...', target := '...')"
    return fill("score.html", error=escape(error), call=escape(call))


def _pairs(pairs: Shades) -> str:
    """Which pairs of attributes are known, and how well."""
    if len(pairs.names) < 2:
        return ""
    used = {kind for i, row in enumerate(pairs.shades) for kind, _ in row[: i + 1]}
    heading = "Pairs of attributes that are known together, and how well"
    return fill(
        "pairs.html",
        picture=charts.matrix(pairs.names, pairs.shades, heading),
        legend="".join(
            fill("key.html", kind=kind, words=escape(words)) for kind, words in LEGEND.items() if kind in used
        ),
        more=f"<p>{pairs.left_out:,} more attributes are not in this picture.</p>" if pairs.left_out else "",
    )


def _banners(facts: Mapping[str, Any], compared: str | None) -> list[str]:
    out = []
    if compared is not None:
        out.append(
            f"NOT PRIVATE: this page shows true answers of {compared}. It is for the curator. Do not publish it."
        )
    if not facts["private"]:
        out.append(
            "Made with a seed: whoever knows it can take the noise away again."
            " This release is for experiments, it protects nobody."
        )
    return out


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    out = [("epsilon, the cost", f"{facts['epsilon']:g}")]
    if facts["delta"]:
        out.append(("delta", f"{facts['delta']:g}"))
    out.append(("protects", "one row" if facts["unit"] is None else f"one {facts['unit']}"))
    counts = {"rows": "rows", "attributes": "attributes", "questions": "queries", "rounds": "rounds"}
    out += [(name, f"{facts[fact]:,}") for name, fact in counts.items()]
    error = grade.mean_error(facts)
    if error is not None:
        out.append(("in wrong cells, for a question", error))
    return out


def _measured(measurements: Sequence[Measurement], labels: Sequence[str], misfits: Sequence[float]) -> str:
    rows = "".join(
        fill(
            "purpose.html",
            purpose=escape(noise.purpose),
            count=f"{noise.count:,}",
            cells=f"{noise.cells:,}",
            typical=charts.rounded(noise.typical),
            most=charts.rounded(noise.most),
        )
        for noise in card.purposes(measurements)
    )
    table = fill("measured.html", rows=rows)
    if not misfits:
        return table
    heading = "How far the release is from each measurement, over its noise"
    picture = charts.dots(misfits, labels, 1.0, heading, "dashes: as far as noise explains")
    return table + fill("fit.html", card=titled("How well the release fits what was measured", picture))


def _about(answers: pa.Table, facts: Mapping[str, Any]) -> list[str]:
    """What the table of answers shows, and which of them to trust."""
    first = (
        f"All {len(answers):,} answers to the workload."
        if len(answers) <= MOST_ANSWERS
        else f"The first {MOST_ANSWERS:,} of {len(answers):,} answers."
    )
    if not len(answers):
        return [first]
    counts = dict(zip(RANK, np.bincount(_ranks(answers), minlength=len(RANK)).tolist(), strict=True))
    error = grade.mean_error(facts)
    trust = (
        f"{first} The truth is between 'at least' and 'at most' 95 times in 100. Trust an answer as far as these two"
        " are close to it: 0 to 50 says that there are few, and not how many."
    )
    quote = "'quote': yes, if the truth is at most 10% of the answer away; roughly, up to half of it; else no."
    out = [trust, quote]
    if error is not None:
        out.append(f"A check at the end, private as the rest, found in wrong cells of a question, on average: {error}.")
    reasons = {
        "directly": "it was measured. Only noise is in the way.",
        "in part": "only parts of what it asks for were measured. The rest is a guess.",
        "never": "a guess, made of other measurements. Do not quote it without its 'at least' and 'at most'.",
    }
    return out + [f"'{status}' ({counts[status]:,}): {reasons[status]}" for status in reasons if counts[status]]


def _picture(name: str, bars: charts.Bars, rows: Floats, ends: charts.Ends) -> str:
    draw = charts.columns if bars.ordered and len(bars.labels) > 8 else charts.bars
    return draw(bars.labels, rows, f"Rows by {name}", ends)


def titled(title: str, content: str) -> str:
    """A picture under its title, which is HTML: names of other people's making in it are isolated."""
    return fill("picture.html", title=title, content=content)


def isolated(name: str) -> str:
    """A name as HTML, which does not turn what is around it."""
    return f"<bdi>{escape(name)}</bdi>"


def _combinations(pictures: Mapping[tuple[str, str], tuple[charts.Bars, charts.Bars, Floats]]) -> str:
    cards = "".join(
        titled(
            f"{isolated(first)} and {isolated(second)}",
            charts.heat(down.labels, across.labels, rows, f"Rows by {first} and {second}"),
        )
        for (first, second), (down, across, rows) in pictures.items()
    )
    return fill("combinations.html", cards=cards) if cards else ""


def _data(answers: pa.Table, *, worst_first: bool) -> str:
    """Columns and rows for the page's table, as JSON that may stand inside a script element."""
    titles = {
        "query": "query", "name": "question", "cell": "cell", "answer": "answer", "low": "at least", "high": "at most",
        "measured": "measured", "quote": "quote", "true_answer": "truth", "error": "off by",
    }  # fmt: skip
    made = {"quote": uses, "cell": _cells}
    names = [name for name in titles if len(answers) and name in {*answers.column_names, "quote"}]
    texts = {"name", "cell", "measured", "quote"}
    columns = [
        {"name": name, "title": titles[name], "number": name not in texts, "first": worst_first and name == "error"}
        for name in names
    ]
    values = [made[name](answers) if name in made else answers[name].to_pylist() for name in names]
    content = json.dumps({"columns": columns, "rows": list(zip(*values, strict=True))}, allow_nan=False)
    return content.replace("<", "\\u003c").replace("\u2028", "\\u2028")
