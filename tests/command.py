"""`mwem-sql` for tests: as a process where one matters, through `main` where it does not."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mwem_sql import cli

ROOT = Path(cli.__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "mwem_sql.cli"]
PATIENCE = 60  # seconds until a hanging process is given up: generous, the machine may be busy
ENDLESS = "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE a.range % 7 = b.range % 5"


def environment(home: Path | str = "/nonexistent") -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "HOME": str(home), "COLUMNS": "80"}


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
        env=environment(),
        cwd=ROOT,
    )


def call(capsys: pytest.CaptureFixture[str], *arguments: str, stdin: str = "") -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a call without a process of its own, which would take a second to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO(stdin))
        try:
            code = cli.main(list(arguments))
        except SystemExit as leaving:  # argparse
            code = int(str(leaving.code))
    return code, *capsys.readouterr()
