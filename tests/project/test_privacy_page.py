"""docs/privacy.md and docs/selection-proof.md are proofs by names, docs/architecture.md is a map by names.

What they name is there.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import mwem_sql
from mwem_sql.platform.metadata import read_sql
from mwem_sql.releases.request import Request
from mwem_sql.surface import spec

ROOT = Path(__file__).resolve().parents[2]
PAGES = "".join(
    (ROOT / "docs" / page).read_text(encoding="utf-8")
    for page in ("privacy.md", "selection-proof.md", "architecture.md")
)
WITHOUT = {
    "mwem_sql.cli.__main__",
    "mwem_sql.dbt",
    "mwem_sql.scan.engines.spark",
    "mwem_sql.scan.engines.postgresql",
}
"""A command, and modules that need packages which are not installed with the tests."""
MODULES: dict[str, ModuleType] = {
    found.name.rpartition(".")[2]: importlib.import_module(found.name)
    for found in pkgutil.walk_packages(mwem_sql.__path__, "mwem_sql.")
    if found.name not in WITHOUT
}
TABLES = {"mwem.schema_version"} | {
    f"mwem.{table}"
    for script in ("ledger.sql", "metadata.sql")
    for table in re.findall(r"CREATE (?:TABLE|VIEW) IF NOT EXISTS (\w+)", read_sql(script))
}
FUNCTIONS = set(spec.FUNCTIONS)
OPTIONS = {option.name for option in fields(Request)}
DUCKDB = {
    "READ_ONLY",
    "con.interrupt",
    "enable_logging",
    "estimated_size",
    "file_row_number",
    "read_parquet",
    "read_csv",
    "read_json",
    "read_ndjson",
}


def is_there(name: str) -> bool:
    """A table of ours, an SQL function, an option, a file, `module.thing`, `Class.method`, or something that a module
    defines.
    """
    if name in TABLES | FUNCTIONS | OPTIONS or any((at / name).exists() for at in (ROOT, ROOT / "mwem_sql")):
        return True
    first, *rest = name.split(".")
    starts: list[object] = [MODULES[first]] if first in MODULES else []
    starts += [getattr(module, first) for module in MODULES.values() if hasattr(module, first)] + (
        [mwem_sql] if first == "mwem_sql" else []
    )
    for start in starts:
        found = start
        for part in rest:
            found = getattr(found, part, None)
        if found is not None:
            return True
    return False


def names() -> list[str]:
    """What stands in `code` and could be ours: with a dot, a slash, an underscore or a capital."""
    spans = set(re.findall(r"`([A-Za-z_][\w./]*)(?:\(\))?`", PAGES))
    return sorted(span for span in spans - DUCKDB if re.search(r"[._A-Z/]", span))


def test_what_the_proofs_name_is_there() -> None:
    assert [name for name in names() if not is_there(name)] == []


def test_the_proof_names_its_steps() -> None:
    assert {
        "execution.true_answers",
        "Kernel.select",
        "Kernel.measure",
        "Kernel.certify",
        "Accountant.settle",
        "Ledger.debit",
        "store.write",
    } <= set(names())
    assert not is_there("Kernel.peek")
    assert not is_there("mwem.gossip")
