"""The functions of a workload are DuckDB's, deterministic, and scalar."""

from __future__ import annotations

import duckdb

from mwem_sql.language.functions import ALLOWED_FUNCTIONS

# Syntax and not functions, in all versions or in some; and functions that some versions lack.
NOT_EVERYWHERE = {"coalesce", "ifnull", "try", "if", "overlay", "binom", "days_in_month", "parse_formatted_bytes"}


def test_allowed_functions_are_deterministic_scalars() -> None:
    rows = duckdb.execute(
        "SELECT lower(function_name), function_type, coalesce(stability, 'CONSISTENT') FROM "
        "duckdb_functions() WHERE internal"
    ).fetchall()
    known = {name: set() for name, _, _ in rows}
    for name, kind, stability in rows:
        known[name].add((kind, stability))
    assert ALLOWED_FUNCTIONS - set(known) <= NOT_EVERYWHERE
    allowed = {
        ("scalar", "CONSISTENT"),
        ("macro", "CONSISTENT"),
        ("table", "CONSISTENT"),
    }  # repeat is a table function too
    assert {name: known[name] for name in ALLOWED_FUNCTIONS if known.get(name, set()) - allowed} == {}
    assert not ALLOWED_FUNCTIONS & {
        "random",
        "uuid",
        "now",
        "age",
        "getenv",
        "current_setting",
        "getvariable",
        "error",
        "current_localtime",
    }
