"""What may be quoted from a release: of each answer and each question of its workload, by how wide its interval is.

Owns the limits, the ranking and the picture's words of which pairs of attributes are known. Sees released values only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, Final, Literal, TypeAlias

from mwem_sql.algebra.measurement import Measurement
from mwem_sql.judge import grade
from mwem_sql.judge.intervals import RANK
from mwem_sql.reporting import figures

Use: TypeAlias = Literal["yes", "roughly", "no"]

OFF: Final[Mapping[Use, float]] = {"yes": 0.1, "roughly": 0.5}
"""How far an answer may be off, in parts of itself, to be quoted, or to be quoted roughly. Larger: more answers may be."""
MOST_NAMES: Final = 24
"""Attributes in the picture of pairs. More: its squares get smaller than a finger."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question of the workload: its cells, and how far they may be off together, in parts of what they add up to; None where that is not known."""

    query: int
    name: str
    cells: int
    off: float | None
    measured: str
    example: str

    @property
    def use(self) -> Use | None:
        return None if self.off is None else _use(self.off)


def use(row: Mapping[str, Any]) -> Use | None:
    """How an answer may be used; None without an interval."""
    half = _half(row)
    if half is None:
        return None
    return _use(half / abs(row["answer"])) if row["answer"] else "no"


def _use(off: float) -> Use:
    return "yes" if off <= OFF["yes"] else "roughly" if off <= OFF["roughly"] else "no"


def _half(row: Mapping[str, Any]) -> float | None:
    """How far the truth is from an answer at most."""
    if row["answer"] is None or row.get("low") is None or row.get("high") is None:
        return None
    return float(max(row["high"] - row["answer"], row["answer"] - row["low"]))


def questions(answers: Iterable[Mapping[str, Any]]) -> list[Question]:
    """In the order of the workload."""
    grouped: dict[int, list[Mapping[str, Any]]] = {}
    for row in answers:
        grouped.setdefault(row["query"], []).append(row)
    return [_question(number, rows) for number, rows in grouped.items()]


def _question(number: int, rows: Sequence[Mapping[str, Any]]) -> Question:
    known = [(abs(row["answer"]), half, row) for row in rows if (half := _half(row)) is not None]
    size = sum(answer for answer, _, _ in known)
    example = ""
    if known:
        _, half, row = max(known, key=lambda own: own[0])
        cell = ", ".join("NULL" if part is None else part for part in row.get("cell") or ())
        example = f"{cell}: " * bool(cell) + f"{row['answer']:,.{_digits(half)}f} ± {half:,.{_digits(half)}f}"
    return Question(
        query=number,
        name=str(rows[0]["name"]),
        cells=len(rows),
        # Nothing may be quoted of a question all of whose answers are 0, but for what they are at most.
        off=None if not known else sum(half for _, half, _ in known) / size if size else float("inf"),
        measured=max((row["measured"] for row in rows), key=RANK.__getitem__),
        example=example,
    )


def _digits(half: float) -> int:
    return 0 if half >= 2 else 1 if half >= 0.2 else 3


def ranked(found: Sequence[Question], count: int) -> tuple[list[Question], list[Question]]:
    """So many of the surest questions, the surest first, and so many others of the least sure, the least sure first. None is in both."""
    known = sorted((own for own in found if own.off is not None), key=lambda own: (own.off or 0.0, own.query))
    few = min(count, (len(known) + 1) // 2)
    return known[:few], known[: max(few, len(known) - count) - 1 : -1]


def counted(found: Sequence[Question]) -> str | None:
    """How many questions may be quoted, in a sentence; None where no interval is known."""
    counts = Counter(own.use for own in found if own.use is not None)
    if not counts:
        return None
    yes, roughly = (grade.percent(OFF[own]) for own in ("yes", "roughly"))
    whole = sum(counts.values())
    several = "question" if whole == 1 else "questions"
    return (
        f"Of its {whole:,} {several}, {counts['yes']:,} may be quoted (off by at most {yes}, on average over cells, 95 times in 100), "
        f"{counts['roughly']:,} as a rough figure (up to {roughly}), and {counts['no']:,} not."
    )


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Which pairs of attributes were measured together: of each, a class of the style sheet and words. On the diagonal, each attribute by itself."""

    names: list[str]
    shades: list[list[tuple[str, str]]]
    left_out: int


LEGEND: Final = {
    "known-good": f"measured, noise puts at most {grade.percent(grade.WRONG['good'])} of the rows in wrong cells",
    "known-fair": f"measured, at most {grade.percent(grade.WRONG['fair'])}",
    "known-poor": "measured, more than that",
    "known-part": "only some of their combinations were measured",
    "known-none": "not measured together: a guess",
}
"""The classes of a pair, the best first, and what they mean."""


def pairs(names: Sequence[str], measurements: Sequence[Measurement], total: float) -> Pairs:
    """Of each pair the best that one measurement says of it."""
    shown = list(names)[:MOST_NAMES]
    order, best = list(LEGEND), dict[tuple[str, ...], tuple[int, float, str]]()
    for measurement in figures.of_classes(measurements):
        query = measurement.query
        asked = sorted(query.attributes)
        share = min(1.0, figures.typical(measurement) / query.unit * query.cells / (2 * max(1.0, total)))
        if all(block.counts_all for block in query.blocks) and query.cells > 1:
            kind = next((f"known-{word}" for word, most in grade.WRONG.items() if share <= most), "known-poor")
            said = f"measured, noise puts about {grade.percent(share)} of the rows in wrong cells"
        else:
            kind, said = "known-part", LEGEND["known-part"]
        for pair in chain(((name,) for name in asked), combinations(asked, 2)):
            own = order.index(kind), share, said
            best[pair] = min(own, best.get(pair, own))
    none = order.index("known-none"), 1.0, LEGEND["known-none"]

    def shade(first: str, second: str) -> tuple[str, str]:
        place, _, said = best.get((first,) if first == second else tuple(sorted((first, second))), none)
        if first == second and order[place] == "known-none":
            said = "not measured by itself: a guess"
        return order[place], said

    shades = [[shade(first, second) for second in shown] for first in shown]
    return Pairs(names=shown, shades=shades, left_out=len(names) - len(shown))
