"""What is declared once stays the same where it must be said again.

SQL functions are declared in `surface/spec.py`, options also in `Request`, columns of the summary in `Summary`, tables
in `sql/*.sql`. Signatures in Python and stored tables are compared with them.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
from types import ModuleType
from typing import get_type_hints

import pytest
from sqlglot import exp

import mwem_sql
from mwem_sql.platform.metadata import _PYTHON, declared
from mwem_sql.releases.columns import SUMMARY_TYPES, Summary
from mwem_sql.releases.request import OPTIONS, Request
from mwem_sql.surface import declaration
from mwem_sql.surface.spec import FUNCTIONS
from mwem_sql.workload import Query, Workload

# The summary and the other tables.

STORED = [
    ("mwem_release", "metadata.sql", "releases", {"seconds", "reused", "protects", "warning", "quality"}),
    ("mwem_ledger", "ledger.sql", "journal", {"started", "finished", "epsilon_spent", "epsilon_left", "intact"}),
    (
        "mwem_budget",
        "ledger.sql",
        "journal",
        {"epsilon_spent", "delta_spent", "epsilon_left", "seeded", "also_charged_as"},
    ),
]
"""Functions that show a stored table, and the columns that they compute."""


def spelled(kind: str) -> str:
    """A type as `declared` spells it."""
    return exp.DataType.build(kind, dialect="duckdb").sql("duckdb")


@pytest.mark.parametrize(("function", "script", "table", "computed"), STORED)
def test_columns_that_are_stored_have_their_name_and_type(
    function: str, script: str, table: str, computed: set[str]
) -> None:
    columns = {column.name: spelled(column.type) for column in FUNCTIONS[function].columns}
    stored = {name: column.type for name, column in declared(script, table).items() if name in columns}
    assert stored == {name: kind for name, kind in columns.items() if name not in computed}


def test_python_types_of_the_summary_are_those_of_its_columns() -> None:
    for name, kind in get_type_hints(Summary).items():
        assert kind in {_PYTHON[spelled(SUMMARY_TYPES[name])], _PYTHON[spelled(SUMMARY_TYPES[name])] | None}, name


@pytest.mark.parametrize(("script", "table"), [("metadata.sql", "releases"), ("ledger.sql", "journal")])
def test_every_type_that_is_stored_can_be_checked(script: str, table: str) -> None:
    assert {column.type for column in declared(script, table).values()} <= _PYTHON.keys()


def test_what_builds_workloads_gives_the_columns_of_one() -> None:
    of_tables = Workload((Query("x", of="t"),))
    assert of_tables.to_arrow().schema == FUNCTIONS["mwem_marginals"].schema
    for name in ("mwem_marginals", "mwem_ranges", "mwem_parities"):
        assert FUNCTIONS[name].columns == declaration.QUESTION


# Options and signatures.


def value_of(default: str) -> object:
    """What a default in SQL is in Python."""
    return json.loads(default.replace("'", '"').replace("NULL", "null"))


def test_options_are_those_of_a_request_with_its_defaults() -> None:
    assert [option.name for option in declaration.RELEASE_OPTIONS] == list(OPTIONS)
    workload = Workload.from_predicates(["x"])
    defaults = {option.name: value_of(str(option.default)) for option in declaration.RELEASE_OPTIONS}
    assert Request.parse("t", workload, 1, defaults) == Request.parse("t", workload, 1, {})
    (max_cells,) = (option for option in declaration.RELEASE_OPTIONS if option.name == "max_cells")
    assert f"NULL: {OPTIONS['max_cells']:,}." in max_cells.words


PYTHON = {"private_table": "table"}
"""Parameters that have another name in Python."""
ONLY_PYTHON = {"mwem_release": {"progress"}}
"""Parameters that SQL has no use for."""


def test_python_functions_have_the_parameters_of_sql() -> None:
    """What must be given comes first and by its place.

    What has a default has the same in Python, and takes its name.
    """
    for name, function in FUNCTIONS.items():
        own = inspect.signature(getattr(mwem_sql, name.removeprefix("mwem_"))).parameters
        found = {each: parameter for each, parameter in own.items() if each not in ONLY_PYTHON.get(name, ())}
        expected = ["con", *(PYTHON.get(each.name, each.name) for each in function.parameters)]
        assert list(found) == expected + ["options"] * bool(function.options), name
        for each in function.parameters:
            parameter = found[PYTHON.get(each.name, each.name)]
            if each.default is None:
                assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD, (name, each.name)
                assert parameter.default is inspect.Parameter.empty, (name, each.name)
            else:
                assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, (name, each.name)
                assert parameter.default == value_of(each.default), (name, each.name)
        if function.options:
            assert found["options"].kind is inspect.Parameter.VAR_KEYWORD, name


# Names of the package.


def test_no_module_has_the_name_of_a_public_function() -> None:
    modules = {module.name for module in pkgutil.iter_modules(mwem_sql.__path__)}
    assert modules.isdisjoint(name.removeprefix("mwem_") for name in FUNCTIONS)
    assert modules.isdisjoint(mwem_sql.__all__)
    assert not [name for name in mwem_sql.__all__ if isinstance(getattr(mwem_sql, name), ModuleType)]
