"""Which Pythons .ci/run finds: those that run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "run"
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
SHIM = "#!/bin/sh\necho 'command not found in this version' >&2\nexit 127\n"


def functions() -> str:
    """What .ci/run defines to find a Python, without what it runs."""
    lines = SCRIPT.read_text(encoding="utf-8").splitlines()
    starts = [number for number, line in enumerate(lines) if line in {"version_of() {", "python_of() {"}]
    assert len(starts) == 2
    return "\n".join("\n".join(lines[start : lines.index("}", start) + 1]) for start in starts)


def python_of(version: str, folder: Path, pyenv: Path) -> str:
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "-c", f"set -euo pipefail\n{functions()}\npython_of {version}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": str(folder), "PYENV_ROOT": str(pyenv), "HOME": "/nonexistent"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_a_python_that_does_not_run_is_not_installed(tmp_path: Path) -> None:
    if not SCRIPT.exists() or os.name != "posix":
        pytest.skip("it is not in the source distribution")
    shims, pyenv = tmp_path / "shims", tmp_path / "pyenv"
    shims.mkdir()
    for name in ("python3", f"python{VERSION}", "python3.99"):
        (shims / name).write_text(SHIM)
        (shims / name).chmod(0o755)
    assert python_of(VERSION, shims, pyenv) == ""
    behind = pyenv / "versions" / f"{VERSION}.0" / "bin"
    behind.mkdir(parents=True)
    (behind / f"python{VERSION}").symlink_to(sys.executable)
    assert python_of(VERSION, shims, pyenv) == str(behind / f"python{VERSION}")
    assert python_of("3.99", shims, pyenv) == ""
