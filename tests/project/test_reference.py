"""docs/reference.md is what docs/reference.py writes, and names everything that there is."""

from __future__ import annotations

import sys

from pages import ROOT

from mwem_sql.surface import words

sys.path.append(str(ROOT / "docs"))

import reference


def test_the_page_is_up_to_date() -> None:
    written = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert written == reference.page(), "run: python docs/reference.py"


def test_the_page_has_every_function_once() -> None:
    listed = [name for names in reference.ORDER.values() for name in names]
    assert sorted(listed) == sorted(entry.name for entry in words.entries())


def test_the_page_has_every_stored_table() -> None:
    for table in ("releases", "measurements", "workloads", "factors", "certificates", "bounds", "ledger", "budgets"):
        assert f"### mwem.{table}\n" in reference.page()
