"""What is declared once stays the same wherever it is repeated.

Options are the fields of `Request`, columns of the summary those of `Summary`, tables those of `sql/*.sql`, and SQL functions those of
`FUNCTIONS`. Macros, stored tables, docs/reference.md and the package's own names are compared with them.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

import pytest
from sqlglot import exp

import mwem_sql
from mwem_sql.platform.metadata import _PYTHON, declared
from mwem_sql.platform.resources import read_sql
from mwem_sql.releases.answer import ANSWER
from mwem_sql.releases.request import OPTIONS, Request
from mwem_sql.releases.summary import SUMMARY, Summary
from mwem_sql.surface.functions import FUNCTIONS
from mwem_sql.surface.register import _ARROW
from mwem_sql.workload import Workload

COLUMNS = {function.name: function.columns for function in FUNCTIONS}
COMPUTED = {
    "mwem_release": {"seconds", "reused", "protects", "warning", "quality"},
    "mwem_ledger": {"started", "finished", "epsilon_spent", "epsilon_left", "intact"},
    "mwem_budget": {"epsilon_spent", "delta_spent", "epsilon_left", "seeded", "also_charged_as"},
}
HEADS = {
    name: dict(re.match(r"(\w+)(?: := (.*))?", part.strip()).groups() for part in parameters.split(",") if part.strip())  # type: ignore[union-attr]
    for name, parameters in re.findall(r"CREATE OR REPLACE MACRO (\w+)\((.*?)\) AS", read_sql("macros.sql"), re.DOTALL)
}
BODIES = dict(re.findall(r"CREATE OR REPLACE MACRO (\w+)\(.*?\) AS(.*?);\n", read_sql("macros.sql"), re.DOTALL))


def spelled(kind: str) -> str:
    """A type as `declared` spells it."""
    return exp.DataType.build(kind, dialect="duckdb").sql("duckdb")


def value_of(default: str | None) -> object:
    """What a default of a macro or of the reference is in Python."""
    text = (default or "NULL").replace("'", '"').replace("NULL", "null").replace(",", "")
    return json.loads(text)


# The summary and the other tables.


@pytest.mark.parametrize(
    ("function", "script", "table"),
    [
        ("mwem_release", "metadata.sql", "releases"),
        ("mwem_ledger", "ledger.sql", "journal"),
        ("mwem_budget", "ledger.sql", "journal"),
    ],
)
def test_columns_that_are_stored_have_their_name_and_type(function: str, script: str, table: str) -> None:
    stored = {name: spelled(kind) for name, kind in COLUMNS[function].items() if name not in COMPUTED[function]}
    assert stored == {
        name: column.type for name, column in declared(script, table).items() if name in COLUMNS[function]
    }


def test_a_release_has_the_summary_as_attributes() -> None:
    public = [field.name for field in fields(mwem_sql.Release) if not field.name.startswith("_")]
    assert public == list(SUMMARY) == list(COLUMNS["mwem_release"])


def test_python_types_of_the_summary_are_those_of_its_columns() -> None:
    for name, kind in get_type_hints(Summary).items():
        assert kind in {_PYTHON[spelled(SUMMARY[name])], _PYTHON[spelled(SUMMARY[name])] | None}, name


@pytest.mark.parametrize(("script", "table"), [("metadata.sql", "releases"), ("ledger.sql", "journal")])
def test_every_type_that_is_stored_can_be_checked(script: str, table: str) -> None:
    assert {column.type for column in declared(script, table).values()} <= _PYTHON.keys()


def test_arrow_tables_have_the_columns_of_sql() -> None:
    assert {field.name: field.type for field in ANSWER} == {
        name: _ARROW[kind] for name, kind in COLUMNS["mwem_answer"].items()
    }
    written = Workload.from_predicates(["x"]).to_arrow().schema
    for function in ("mwem_marginals", "mwem_ranges", "mwem_parities"):
        assert {field.name: field.type for field in written} == {
            name: _ARROW[kind] for name, kind in COLUMNS[function].items()
        }


# Macros.


def test_every_function_has_a_macro() -> None:
    assert set(HEADS) == set(BODIES) == {*COLUMNS, "mwem_count", "mwem_count_interval", "mwem_sample"}


@pytest.mark.parametrize("name", HEADS)
def test_a_macro_passes_on_all_its_parameters(name: str) -> None:
    body = BODIES[name]
    for parameter in HEADS[name]:
        assert re.search(rf'query_table\({parameter}\)|[{{\s]"?{parameter}"?: ', body), parameter


@pytest.mark.parametrize("name", ["mwem_release", "mwem_plan"])
def test_a_macro_has_the_options_of_a_request(name: str) -> None:
    parameters = HEADS[name]
    assert list(parameters) == ["private_table", "workload", "epsilon", *OPTIONS]
    passed = re.search(r"options: \{(.*?)\}", BODIES[name])
    assert passed is not None
    assert [item.split(":")[0].strip('" ') for item in passed[1].split(", ")] == list(OPTIONS)
    workload = Workload.from_predicates(["x"])
    defaults = {option: value_of(parameters[option]) for option in OPTIONS}
    assert Request.parse("t", workload, 1, defaults) == Request.parse("t", workload, 1, {})


# Python.


ONLY_PYTHON = {"mwem_release": {"progress"}}
"""Parameters that SQL has no use for."""


@pytest.mark.parametrize("name", HEADS)
def test_a_python_function_has_the_parameters_of_its_macro(name: str) -> None:
    """Options of a release come as keywords; a default of SQL's is one of Python's, and takes its name."""
    parameters = inspect.signature(getattr(mwem_sql, name.removeprefix("mwem_"))).parameters
    expected = {"con": None} | HEADS[name]
    parameters = {own: parameter for own, parameter in parameters.items() if own not in ONLY_PYTHON.get(name, ())}
    if "options" in parameters:
        expected = {"options" if parameter in OPTIONS else parameter: None for parameter in expected}
    assert list(parameters) == [{"private_table": "table"}.get(parameter, parameter) for parameter in expected]
    for parameter, default in HEADS[name].items():
        if default is not None and "options" not in parameters:
            assert parameters[parameter].default == value_of(default), parameter
            assert parameters[parameter].kind is inspect.Parameter.KEYWORD_ONLY, parameter


# The reference: docs/reference.md is generated, so that what it says is what is declared.


REFERENCE = (Path(__file__).resolve().parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")


def reference_rows(function: str, header: str) -> list[list[str]]:
    """The cells of a table about a function, as a reader sees them."""
    section = REFERENCE.split(f"### {function}\n")[1].split("\n### ")[0]
    table = section[section.index(f"| {header} |") :].split("\n\n")[0]
    return [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


def test_the_reference_has_every_option_with_its_default() -> None:
    rows = reference_rows("mwem_release", "parameter | default | meaning")
    assert [name for name, _, _ in rows] == ["private_table", "workload", "epsilon", *OPTIONS]
    shown = {name: value_of(default) for name, default, _ in rows[3:]}
    assert shown == OPTIONS | {"max_cells": None, "rows_per_unit": None}
    assert f"NULL: {OPTIONS['max_cells']:,}." in rows[3 + list(OPTIONS).index("max_cells")][2]


@pytest.mark.parametrize("function", sorted(COLUMNS.keys() - {"mwem_weights", "mwem_quantile"}))
def test_the_reference_has_every_column_with_its_type(function: str) -> None:
    rows = reference_rows(function, "column | type | meaning")
    assert {name: kind for name, kind, _ in rows} == COLUMNS[function]
    assert all(meaning for _, _, meaning in rows)


@pytest.mark.parametrize("function", [name for name in HEADS if HEADS[name] and name != "mwem_plan"])
def test_the_reference_has_every_parameter(function: str) -> None:
    rows = reference_rows(function, "parameter | default | meaning")
    assert {name: default for name, default, _ in rows} == {
        name: "must be given" if default is None else default for name, default in HEADS[function].items()
    }


# Names of the package.


def test_no_module_has_the_name_of_a_public_function() -> None:
    modules = {module.name for module in pkgutil.iter_modules(mwem_sql.__path__)}
    assert modules.isdisjoint(name.removeprefix("mwem_") for name in HEADS)
    assert modules.isdisjoint(mwem_sql.__all__)
    assert not [name for name in mwem_sql.__all__ if isinstance(getattr(mwem_sql, name), ModuleType)]
