"""Fresh virtual environments for what cannot be tested in this one.

Other versions, other people's packages. Needs a package index.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(*command: object, cwd: Path = ROOT, **variables: str) -> str:
    """What a command prints.

    It must end well. PYTHONPATH is taken off, so that an installed package is found and not the checkout.
    """
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=1800, check=False, cwd=cwd, env=clean
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(folder: Path, *requirements: object) -> Path:
    """The Python of a new environment with these packages in it."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    if requirements:
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
    return python
