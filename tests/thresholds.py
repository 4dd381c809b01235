"""Thresholds that a test lowers, because what crosses them is too large for a test and no caller may choose them.

Other thresholds are parameters with the constant as their default, and a test gives the parameter. Those below are read
three calls or more beneath what the test calls, where a parameter on the way would serve tests alone. Each says what a
test would otherwise need. `tests/project/test_architecture.py` checks that no test lowers a threshold by itself.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import pytest

from mwem_sql.compile import build, cut
from mwem_sql.judge import containment
from mwem_sql.kernel import scales
from mwem_sql.loop import loop, strategy
from mwem_sql.loop.strategy import Setting
from mwem_sql.releases import plan, quantile, sample
from mwem_sql.scan import pushdown

LOWERED: dict[str, ModuleType] = {
    # 33 million cells of groups and measures, none of which may have more than 10 million.
    "MAX_VALUED": build,
    # Public rows on which a workload is tried, 65,000 at first: for thousands of releases, a few of them will do.
    "SAMPLES": cut,
    # Four million words of bits: 270 million counts of one class combination.
    "CHUNK": containment,
    # A release of 20,000 candidates.
    "MANY_CANDIDATES": scales,
    # Passes of fit := 'replay', 100 for each round: of thousands of releases, more of the same.
    "PASSES": loop,
    # Workloads that add 20,000 candidates, or candidates of 4 million cells.
    "MOST_ADDED": strategy,
    "MOST_CELLS": strategy,
    # A release whose model, with a condition's columns in one clique, has more than 10 million cells; and rows that are
    # drawn 65,000 at a time, 1,000 for one that is kept.
    "MAX_CELLS": sample,
    "MOST_DRAWN": sample,
    "LEAST_BATCH": sample,
    # A column of thousands of values, whose release takes seconds.
    "MOST_STRETCHES": quantile,
    # Tables of which the planner prefers one plan to another: `plans.force`.
    "UNION_CELLS": pushdown,
    "MAX_SCAN_CELLS": pushdown,
    "CACHED_CELLS": pushdown,
    "MAX_PART_CELLS": pushdown,
}
"""The module that reads each of them."""


def lower(patch: pytest.MonkeyPatch, **values: Any) -> None:
    """Give thresholds other values, by name, as long as the patch holds."""
    for name, value in values.items():
        patch.setattr(LOWERED[name], name, value)


def few_sets(patch: pytest.MonkeyPatch, most: int) -> None:
    """Let releases refine all sets of attributes up to so many, instead of eight.

    A call has no such option, and more than eight sets that are in no other take five attributes or more.
    """
    patch.setattr(plan, "Setting", partial(Setting, most_sets=most))
