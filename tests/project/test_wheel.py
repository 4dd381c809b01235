"""The built wheel, not the checkout: it has the SQL files and nothing of the tests, and a release runs from it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=300, check=False, cwd=cwd, env=clean
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("build") is None:
        pytest.skip("the package `build` is not installed: pip install '.[test]'")
    target = tmp_path_factory.mktemp("wheel")
    isolation = ["--no-isolation"] if find_spec("hatchling") else []
    done = run(sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", target, ROOT, cwd=target)
    if (
        done.returncode
        and "hatchling" in done.stdout + done.stderr
        and "No matching distribution" in done.stdout + done.stderr
    ):
        pytest.skip("the build backend hatchling cannot be had: no package index, and it is not installed")
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = target.glob("mwem_sql-*.whl")
    return built


def test_what_is_in_it(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    sql = {f"mwem_sql/sql/{path.name}" for path in (ROOT / "sql").glob("*.sql")}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "mwem_sql").rglob("*.py")}
    templates = {str(path.relative_to(ROOT)) for path in (ROOT / "mwem_sql/reporting/templates").iterdir()}
    assert {
        "mwem_sql/sql/macros.sql",
        "mwem_sql/sql/ledger.sql",
        "mwem_sql/sql/metadata.sql",
        "mwem_sql/sql/demo.sql",
    } <= sql
    assert sql | modules | {"mwem_sql/py.typed", *templates} == {
        name for name in names if not name.startswith("mwem_sql-")
    }
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.thorough
def test_a_release_runs_from_it(wheel: Path, tmp_path: Path) -> None:
    installed = run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--disable-pip-version-check",
        "--target",
        tmp_path / "site",
        wheel,
        cwd=tmp_path,
    )
    assert installed.returncode == 0, installed.stderr
    script = tmp_path / "use.py"
    script.write_text(
        """
import sys
sys.path.insert(0, sys.argv[1])
import mwem_sql
assert mwem_sql.__file__.startswith(sys.argv[1]), mwem_sql.__file__
con = mwem_sql.connect(sys.argv[2])
con.execute("SET enable_progress_bar = false")
con.execute("CREATE TABLE t (x BOOLEAN NOT NULL); INSERT INTO t SELECT i % 2 = 0 FROM range(50) r(i)")
con.execute("CREATE TABLE w AS SELECT 'x' AS predicate")
print(con.execute("SELECT output, rounds, private FROM mwem_release('t', w, 1)").fetchall()[0])
con.close()
"""
    )
    done = run(sys.executable, "-W", "error", script, tmp_path / "site", tmp_path / "a.duckdb", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "('a.main.t_synthetic', 1, True)\n"
    command = run(
        sys.executable,
        "-c",
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from mwem_sql.cli import main; sys.exit(main())",
        tmp_path / "site",
        tmp_path / "a.duckdb",
        "-c",
        "SELECT output FROM mwem_ledger()",
        cwd=tmp_path,
    )
    assert command.returncode == 0, command.stderr
    assert "a.main.t_synthetic" in command.stdout
