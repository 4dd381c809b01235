"""What a newcomer is told to do can be done: targets of make, files and links of the pages at the top."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "docs/dev/README.md",
    ".github/pull_request_template.md",
]


def targets() -> dict[str, list[str]]:
    """The commands of each target of the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return {
        name: re.findall(r"^\t(.*)$", body, re.MULTILINE)
        for name, body in re.findall(r"^(\w+):\n((?:\t.*\n?)+)", text, re.MULTILINE)
    }


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8")):
        assert (path.parent / link).exists(), link


def test_targets_that_are_named_are_there() -> None:
    named = {name for page in PAGES for name in re.findall(r"`make (\w+)`", (ROOT / page).read_text(encoding="utf-8"))}
    assert named and named <= set(targets())
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert phony is not None and set(phony[1].split()) == set(targets())


def test_commands_of_targets_name_what_is_there() -> None:
    commands = [command for own in targets().values() for command in own]
    files = [word for command in commands for word in command.split() if "/" in word]
    assert files and all((ROOT / file).exists() for file in files)
    markers = {marker for command in commands for marker in re.findall(r"-m (\w+)", command)}
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert markers and all(f'"{marker}: ' in declared for marker in markers)


def test_the_workflow_has_the_versions_that_are_supported() -> None:
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    least = re.search(r'requires-python = ">=(3\.\d+)"', project)
    assert least is not None and f'python: ["{least[1]}"' in workflow
    known = re.search(r'"duckdb>=(\d+\.\d+)', project)
    assert known is not None and f'duckdb: "{known[1]}"' in workflow
