"""docs/reference.md and sql/macros.sql are what docs/reference.py writes, and the page names every function."""

from __future__ import annotations

import sys

from pages import ROOT

from mwem_sql.domains import declarations
from mwem_sql.platform.metadata import read_sql
from mwem_sql.workload import COLUMNS

sys.path.append(str(ROOT / "docs"))

import reference


def test_what_is_written_is_up_to_date() -> None:
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert page == reference.page(), "run: python docs/reference.py"
    assert read_sql("macros.sql") == reference.macros(), "run: python docs/reference.py"


def test_tables_that_a_user_writes_have_these_columns() -> None:
    assert tuple(reference.WORKLOAD_COLUMNS) == COLUMNS
    assert tuple(reference.DOMAIN_COLUMNS) == declarations._DOMAIN_COLUMNS


def test_the_page_has_every_stored_table() -> None:
    for table in ("releases", "measurements", "workloads", "factors", "certificates", "bounds", "ledger", "budgets"):
        assert f"### mwem.{table}\n" in reference.page()
