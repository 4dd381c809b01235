"""No bug of ours costs a budget: whatever is refused is refused before the debit, and whatever was debited comes to its
end.

`tests/charges.py` has the scenarios. `pytest -m campaign -n0 -s tests/accounting/test_charges.py` plays 3,000 of them.
"""

from __future__ import annotations

from typing import Any

import pytest
from charges import Figures, Scenario, campaign
from noninterference import run

from mwem_sql.loop.transcript import Transcript
from mwem_sql.releases import plan
from mwem_sql.releases.request import OPTIONS

SHORT = [500, 517]
"""Seeds with several releases each: more rows, another seed, another version, a release that was dropped."""
QUICK = 502


def test_what_is_charged_comes_to_its_end() -> None:
    figures = campaign(SHORT)
    assert not figures.defects
    assert figures.releases >= 4


@pytest.mark.campaign
def test_what_is_charged_comes_to_its_end_in_three_thousand_scenarios() -> None:
    figures = campaign(range(3000), print)
    print(f"\n{figures}\n{figures.done}")
    assert not figures.defects, "\n\n".join(figures.defects)
    assert figures.releases > 2000
    assert figures.options == set(OPTIONS)
    assert set(figures.strategies) == {"parities", "sets", "averaged", "histogram", "plain", "rounds"}


def _raise(*_: Any, **__: Any) -> None:
    raise KeyError("a bug")


@pytest.mark.parametrize(("owner", "name"), [(run.store, "write"), (Transcript, "total")])
def test_a_bug_after_the_debit_is_found(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    monkeypatch.setattr(owner, name, _raise)
    figures = Figures()
    Scenario(QUICK, figures).play()
    assert any("unexpected KeyError" in defect and "a bug" in defect for defect in figures.defects)
    assert any("was charged, or left something behind" in defect for defect in figures.defects)


def test_a_bug_before_the_debit_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "check_room", _raise)
    figures = Figures()
    Scenario(QUICK, figures).play()
    assert figures.defects and not any("left something behind" in defect for defect in figures.defects)
