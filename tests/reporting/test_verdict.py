"""What may be quoted: limits, ranking, and which pairs are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from measurements import measurement

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.measurement import Measurement, Purpose
from mwem_sql.reporting import verdict


def answer(query: int, value: float | None, low: float | None, high: float | None, **more: object) -> dict[str, Any]:
    return {"query": query, "name": f"q{query}", "cell": None, "answer": value, "low": low, "high": high, "measured": "directly", **more}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "low", "high", "use"),
    [
        (100, 90, 105, "yes"), (100, 89.9, 105, "roughly"), (100, 60, 150, "roughly"), (100, 60, 151, "no"), (0, 0, 3, "no"), (-100, -105, -95, "yes"),
        (100, None, None, None), (None, 1, 2, None),
    ],
)  # fmt: skip
def test_an_answer_may_be_quoted_by_how_far_it_may_be_off(
    value: float | None, low: float | None, high: float | None, use: str | None
) -> None:
    assert verdict.use(answer(1, value, low, high)) == use


def test_a_question_is_as_good_as_its_cells_together() -> None:
    rows = [
        answer(1, 900, 890, 910, cell=["F", None]),
        answer(1, 0, 0, 30, cell=["M", "x"], measured="never"),
        answer(2, 5, None, None, measured="never"),
        answer(3, 0, 0, 9),
    ]
    first, second, third = verdict.questions(rows)
    assert first.off == pytest.approx(40 / 900) and first.use == "yes"
    assert (first.cells, first.measured, first.example) == (2, "never", "F, NULL: 900 ± 10")
    assert (second.off, second.use, second.measured, second.example) == (None, None, "never", "")
    assert third.use == "no"
    assert verdict.counted([first, second, third]) == (
        "Of its 2 questions, 1 may be quoted (off by at most 10%, on average over cells, 95 times in 100), 0 as a rough figure (up to 50%), and 1 not."
    )
    assert verdict.counted([second]) is None


@pytest.mark.parametrize(("count", "best", "worst"), [(0, [], []), (1, [0], []), (2, [0], [1]), (3, [0, 1], [2]), (5, [0, 1, 2], [4, 3]), (9, [0, 1, 2], [8, 7, 6])])  # fmt: skip
def test_the_surest_and_the_least_sure_are_different_questions(count: int, best: list[int], worst: list[int]) -> None:
    found = verdict.questions([answer(number, 100, 100 - number, 100 + number) for number in range(count)])
    assert tuple([own.query for own in each] for each in verdict.ranked(found, 3)) == (best, worst)


def measured(
    *attributes: str, scale: float = 10.0, cells: tuple[int, ...] = (0, 1), purpose: Purpose = "round"
) -> Measurement:
    """The last attribute of two classes decides."""
    labels = np.broadcast_to(np.array(cells, dtype=np.int32), [2] * len(attributes))
    query = LinearQuery((Block(attributes, labels, 2),))
    return measurement(query, np.array([1, 2]), 2 * scale**2, purpose)


def test_which_pairs_are_known() -> None:
    rows = [
        measured("a", "b"),
        measured("b", "a", scale=300.0),  # the better one counts
        measured("a", "c", scale=120.0),
        measured("b", "c", scale=900.0),
        measured("c", "d", cells=(-1, 0)),
        measured("a", "d", purpose="detail"),
    ]
    found = verdict.pairs(["a", "b", "c", "d"], rows, 1000.0)
    kinds = {(found.names[i], found.names[j]): kind for i in range(4) for j in range(i) for kind, _ in [found.shades[i][j]]}  # fmt: skip
    assert kinds == {
        ("b", "a"): "known-good", ("c", "a"): "known-fair", ("c", "b"): "known-poor", ("d", "c"): "known-part",
        ("d", "a"): "known-none", ("d", "b"): "known-none",
    }  # fmt: skip
    assert found.shades[1][0][1] == "measured, noise puts about 1% of the rows in wrong cells"
    assert found.shades[0][1] == found.shades[1][0]


def test_of_many_attributes_some_are_shown_and_the_others_counted() -> None:
    found = verdict.pairs([f"c{k}" for k in range(100)], [], 1.0)
    assert (len(found.names), found.left_out) == (verdict.MOST_NAMES, 100 - verdict.MOST_NAMES)
