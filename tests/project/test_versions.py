"""The SQL files on every DuckDB that is supported, each in an environment of its own: `pytest -m versions`, slow and online."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: object, cwd: Path = ROOT) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=900, check=False, cwd=cwd, env=clean
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.versions
@pytest.mark.parametrize("version", ["1.4", "1.5", "2.0"])
def test_the_sql_files(version: str, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "environment")
    python = tmp_path / "environment" / "bin" / "python"
    run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        f"{ROOT}[test]",
        f"duckdb=={version}.*",
    )
    found = run(python, "-c", "import duckdb; print(duckdb.__version__)")
    assert found.startswith(f"{version}.")
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
        ROOT / "tests" / "test_surface.py",
        cwd=tmp_path,
    )
    assert " passed" in report
    assert "skipped" not in report
