"""README.md is short, and what others read out of it is there."""

from __future__ import annotations

import re

from pages import ROOT

from mwem_sql.surface.spec import FUNCTIONS

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_install_commands_are_the_two_that_ci_reads() -> None:
    lines = [line for line in README.splitlines() if line.startswith("pip install ")]
    assert lines == ["pip install . && mwem-sql demo", "pip install '.[test]' && pytest"]


def test_it_stays_short() -> None:
    assert len(README.splitlines()) < 240


def test_it_names_every_function() -> None:
    table = README[README.index("| function | what it is for | reads private rows |") :].split("\n\n")[0]
    called = [name for line in table.splitlines()[2:] for name in re.findall(r"(mwem_\w+)\(", line.split(" | ")[0])]
    assert sorted(called) == sorted(FUNCTIONS)


def test_it_names_every_marker() -> None:
    declared = re.findall(r'^    "(\w+): ', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"`pytest -m (\w+)", README)) == set(declared)
