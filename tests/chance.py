"""How many random or repeated cases a run has: chosen once, before test files are imported, from the markers.

Every run of the suite draws the same examples, so that it fails on a change and not by chance. It counts no seconds.
What random seeds found stands above its test as an @example, so that it is drawn in every run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.register_profile("random", derandomize=False, database=None, deadline=None, print_blob=True)
settings.load_profile("fixed")  # when this file is imported: tests take what they do not set from it when they are
_all = False


def choose(markers: str, profile: str | None) -> None:
    """For `-m <markers>` and `--hypothesis-profile <profile>`: campaigns are random, and these have all examples."""
    global _all  # noqa: PLW0603
    wanted = set(re.findall(r"\w+", re.sub(r"\bnot \w+", "", markers)))
    _all = profile is not None or bool(wanted & {"thorough", "campaign", "hypothesis"})
    if profile is None and "campaign" in wanted:
        settings.load_profile("random")


def examples(most: int) -> int:
    """How many examples a slow property draws: a quarter by default, and `most` with `-m thorough` and in campaigns."""
    return most if _all else min(most, max(8, most // 4))


def sampled(cases: Iterable[Any], most: int) -> list[Any]:
    """`most` cases of a parametrized test, at even distances, in the default suite; others with `-m thorough`."""
    listed = list(cases)
    kept = {number * len(listed) // most for number in range(most)}
    return [case if number in kept else _thorough(case) for number, case in enumerate(listed)]


def _thorough(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.thorough)
