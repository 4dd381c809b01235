"""Other versions of what this depends on, each in an environment of its own: `pytest -m versions`, slow and online.

DuckDB: the SQL files, the command line, and what reads DuckDB's catalog, values and messages, on every version that is
supported; whatever Python runs this. `.ci/run` has some of these files on the oldest and the newest Python that are
installed. sqlglot: whatever reads or writes SQL text, on the oldest, on those that neighbours pin, and on the newest
one there is. A new sqlglot that breaks something fails here; then the range in pyproject.toml is narrowed or the code
mended.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from environments import ROOT, environment, run

SURFACE = ("cli", "database", "domains", "surface", "test_errors.py", "test_refusals.py", "test_workload.py")
COMPILER = (
    "compile/test_pipeline.py",
    "compile/test_templates.py",
    "scan/test_pushdown.py",
    "compile/test_differential.py",
    "language/test_predicate.py",
    "language/test_measures.py",
    "platform/test_catalog.py",
    "boundary/test_relations.py",
    "boundary/test_files.py",
    "boundary/test_hostile.py",
    "domains",
    "test_workload.py",
    "surface/test_functions.py",
    "releases/test_store.py",
)


def passes(python: Path, folder: Path, files: tuple[str, ...]) -> None:
    # From another folder, so that the installed package is tested and not the checkout.
    report = run(
        python,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n",
        "0",
        "-m",
        "thorough or not thorough",
        *(ROOT / "tests" / name for name in files),
        cwd=folder,
    )
    assert " passed" in report
    assert "skipped" not in report


@pytest.mark.versions
@pytest.mark.parametrize("version", ["1.4", "1.5", "2.0"])
def test_the_surface(version: str, tmp_path: Path) -> None:
    python = environment(tmp_path / "environment", f"{ROOT}[test]", f"duckdb=={version}.*")
    assert run(python, "-c", "import duckdb; print(duckdb.__version__)").startswith(f"{version}.")
    passes(python, tmp_path, SURFACE)


@pytest.mark.versions
@pytest.mark.parametrize(
    "version",
    [
        "==30.0.0",  # the oldest
        "~=30.8.0",  # SQLMesh 0.236
        "==30.20.0",
        "<30.28",  # SQLFrame 4.9
        "",  # the newest that pyproject.toml allows
    ],
)
def test_the_compiler(version: str, tmp_path: Path) -> None:
    python = environment(tmp_path / "environment", f"{ROOT}[test]", f"sqlglot{version}")
    passes(python, tmp_path, COMPILER)


@pytest.mark.versions
def test_a_new_sqlglot_is_seen(tmp_path: Path) -> None:
    """The newest sqlglot of all, whatever pyproject.toml allows.

    When this fails and the one above does not, the range ends where it should.
    """
    python = environment(tmp_path / "environment", f"{ROOT}[test]")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade", "sqlglot")
    passes(python, tmp_path, COMPILER)


@pytest.mark.versions
@pytest.mark.parametrize("neighbour", ["sqlframe", "sqlmesh"])
def test_neighbours_that_pin_sqlglot_can_be_installed_beside(neighbour: str, tmp_path: Path) -> None:
    python = environment(tmp_path / "environment")
    chosen = run(python, "-m", "pip", "install", "--dry-run", "--disable-pip-version-check", ROOT, neighbour)
    assert re.search(rf"Would install .*{neighbour}-", chosen)
    assert re.search(r"Would install .*sqlglot-30\.", chosen)
