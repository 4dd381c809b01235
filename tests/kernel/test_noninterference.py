"""Non-interference: with draws that do not depend on the rows nothing visible does.

What enters a draw costs between neighbours no more than was debited. `tests/noninterference.py` has the requests and
what is visible. `pytest -m campaign -n0 -s tests/kernel/test_noninterference.py` runs 1,000 triples of tables.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from noninterference import (
    Case,
    Column,
    DifferenceError,
    Figures,
    Seen,
    campaign,
    look,
    run,
    same_steps,
    same_view,
    within_shares,
)

from mwem_sql.errors import EngineError
from mwem_sql.kernel import kernel
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.platform.calls import announce
from mwem_sql.releases import plan
from mwem_sql.releases.request import OPTIONS
from mwem_sql.scan import execution

SHORT = [5068, 5051]
"""Seeds of a release in epsilon and of one in rho whose neighbours move answers and scores by as much as they can."""
NEAR = 1 - 2**-40
"""Of a share: OpenDP's maps round, and scales are moved up until they are within it."""


def test_no_table_can_be_told_from_another(tmp_path: Path) -> None:
    figures = campaign(SHORT, tmp_path)
    assert not figures.differences
    assert not figures.faults
    assert figures.released == len(SHORT)
    assert (
        min(figures.reached[draw] for draw in ("noise pure", "select pure", "noise zcdp")) > NEAR
    )  # bounds are not idle


@pytest.mark.campaign
def test_no_table_of_a_thousand_triples_can_be_told_from_another(tmp_path: Path) -> None:
    figures = campaign(range(1000), tmp_path)
    print(f"\n{figures}")
    assert not figures.differences
    assert not figures.faults
    assert figures.released > 700
    assert figures.options == set(OPTIONS) - {"seed"}
    assert min(figures.reached[draw] for draw in ("noise pure", "noise zcdp", "select pure")) > 1 - 1e-6
    # From very many candidates there is a slack, scales.SLACK; in rho a selection costs the square of how far scores
    # move.
    assert min(figures.reached["select many pure"], figures.reached["select many zcdp"]) > 1 - 1e-4
    assert figures.reached["select zcdp"] > 1 / 4
    assert figures.spent > 0.99


# Releases that leak, or cost more than is debited.

ROWS = [("1", "9", "true")] * 4 + [("1", "8", "true"), ("2", "0", "false"), ("3", "4", "true")]
OTHERS = [("5", "1", "false"), ("5", "2", "false"), ("6", "2", "true")]


def small() -> Case:
    """A sum with a bound of 9 and counts, in two rounds, for units of three rows; neighbours differ by five rows."""
    columns = [
        Column("person", "INTEGER", (), (), {}, ()),
        Column("a", "INTEGER", (), (), {}, ("a > 4",), "a BETWEEN 0 AND 9"),
        Column("b", "BOOLEAN NOT NULL", (), (), {}, ("b",)),
    ]
    workload = """CREATE TABLE workload AS
        FROM (VALUES ('b', 'a', 2.0), ('a > 4', NULL, 1.0), ('NOT b', NULL, 1.0)) AS t(predicate, measure, weight)"""
    options = {"unit": "'person'", "rows_per_unit": "3", "rounds": "2", "certify": "0.1"}
    return Case(
        0, columns, [f"CREATE TABLE base ({', '.join(column.ddl for column in columns)})"],
        ["ALTER TABLE base RENAME TO asked", workload], [ROWS, ROWS[5:], OTHERS], "1", options, [], 60, None,
    )  # fmt: skip


def difference(folder: Path, *numbers: int) -> str | None:
    """What tells the first table of the small case from others of it."""
    made, figures = small(), Figures()
    one = look(made, 0, folder)
    try:
        for number in numbers:
            other = look(made, number, folder)
            same_view(made, one, other)
            same_steps(made, one, other)
            if number == 1:
                within_shares(made, one, other, figures)
    except DifferenceError as found:
        return str(found)
    assert one.released and not one.faults
    _everything_is_looked_at(one)
    return None


def test_a_release_as_it_is_has_no_difference(tmp_path: Path) -> None:
    assert difference(tmp_path, 1, 2) is None


def _everything_is_looked_at(seen: Seen) -> None:
    views = {"news", "log", "debit", "release", "ledger", "stored", "printed", "warnings"}
    assert {what for what, _ in seen.visible} == views
    stored = dict(seen.visible)["stored"]
    tables = "asked_synthetic releases measurements factors bounds certificates workloads journal journal_head"
    assert all(f"'{name}'" in stored for name in tables.split())
    assert "Synthetic rows by mwem_release" in stored  # comments


def _with_answers(patch: pytest.MonkeyPatch, show: Callable[[int], object]) -> None:
    """Let something see the sum of all true answers."""
    read = execution.true_answers

    def shown(*given: Any) -> Any:
        answers = read(*given)
        show(int(answers.sum()))
        return answers

    patch.setattr(execution, "true_answers", shown)


def _raise(figure: int) -> None:
    raise EngineError(f"{figure} is too much")


def _scaled(patch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    _with_answers(patch, kept.append)
    scale = kernel.noise_scale
    patch.setattr(
        kernel, "noise_scale", lambda share, sensitivity, kind: scale(share, sensitivity + abs(kept[-1]), kind)
    )


def _summarised(patch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    _with_answers(patch, kept.append)
    summary = run._summary
    patch.setattr(run, "_summary", lambda *given, **options: summary(*given, **options) | {"queries": kept[-1]})


def _stored(patch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    _with_answers(patch, kept.append)
    draw = run.draw_rows
    patch.setattr(
        run, "draw_rows", lambda state, classes, rows, generator: draw(state, classes, rows + abs(kept[-1]), generator)
    )


def _made_for(patch: pytest.MonkeyPatch, change: Callable[[list[Any]], object]) -> None:
    """Give the kernel of the queries other arguments: answers, cells, accountant, noise, sensitivity, bounds.

    The kernel of the units has the first four only, and stays as it is.
    """
    made = Kernel.__init__

    def init(self: Kernel, *given: Any) -> None:
        limits = list(given)
        if len(limits) == 6:
            change(limits)
        made(self, *limits)

    patch.setattr(Kernel, "__init__", init)


def _selected(patch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    _with_answers(patch, kept.append)
    select = Kernel.select

    def chosen(self: Kernel, candidates: Any, *given: Any, **options: Any) -> int:
        picked = select(self, candidates, *given, **options)
        numbers = np.flatnonzero(candidates) if np.asarray(candidates).dtype == np.bool_ else np.asarray(candidates)
        return int(numbers[kept[-1] % numbers.size]) if kept[-1] % 2 else picked

    patch.setattr(Kernel, "select", chosen)


def _log(figure: int) -> None:
    logging.getLogger("mwem_sql.private").debug("%d", figure)


def _warn(figure: int) -> None:
    warnings.warn(str(figure), stacklevel=1)


def _announce(figure: int) -> None:
    announce("asked", "rounds", done=figure, of=figure)


# What is broken, where it shows, and between which tables.
PLANTED: dict[str, tuple[Callable[[pytest.MonkeyPatch], object], str, int]] = {
    "a log line": (lambda patch: _with_answers(patch, _log), "log", 2),
    "a print": (lambda patch: _with_answers(patch, lambda figure: print(figure, file=sys.stderr)), "printed", 2),
    "a warning": (lambda patch: _with_answers(patch, _warn), "warnings", 2),
    "progress": (lambda patch: _with_answers(patch, _announce), "log", 2),
    "an error's text": (lambda patch: _with_answers(patch, _raise), "release", 2),
    "a column of the summary": (_summarised, "release", 2),
    "the rows that are stored": (_stored, "stored", 2),
    "a scale": (_scaled, "release", 2),
    "a selection": (_selected, "log", 2),
    "bounds of measures": (lambda patch: _made_for(patch, lambda limits: limits.__setitem__(5, None)), "loses", 1),
    "rows per unit in the noise": (lambda patch: _made_for(patch, lambda limits: limits.__setitem__(4, 1)), "loses", 1),
    "rows per unit in the scan": (lambda patch: patch.setattr(plan, "_unit", lambda *_: None), "loses", 1),
}  # fmt: skip


OFTEN = {"a log line", "a scale"}
THOROUGH = {"an error's text", "bounds of measures", "rows per unit in the noise"}


def _marked(planted: str) -> Any:
    if planted in OFTEN:
        return planted
    return pytest.param(planted, marks=pytest.mark.thorough if planted in THOROUGH else pytest.mark.campaign)


@pytest.mark.parametrize("planted", list(map(_marked, PLANTED)))
def test_a_planted_fault_is_caught(planted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, where, number = PLANTED[planted]
    plant(monkeypatch)
    found = difference(tmp_path, number)
    print(f"\n{planted}: {found}")
    assert found is not None
    assert found.startswith(f"0: {where} ") or f" {where} " in found
