"""The planner made to choose one plan, so that all of them can be compared on tables that are too small to need any."""

from __future__ import annotations

import pytest
from thresholds import lower

from mwem_sql.scan.pushdown import _Planner

PLANS = ("one group by", "one group by, several histograms", "group by per set", "aggregates", "product")


def force(monkeypatch: pytest.MonkeyPatch, plan: str) -> None:
    """Everything that `plan` can answer is answered by it."""

    def only(name: str, chosen: bool) -> None:
        found = getattr(_Planner, name)
        monkeypatch.setattr(_Planner, name, lambda self, sets: found(self, sets)[:1] if chosen else [[]])

    only("_multipliable", plan == "product")
    only("_aggregatable", plan == "aggregates")
    if plan == "aggregates":
        monkeypatch.setattr(_Planner, "_queries_cost", lambda _self, _ranks: 0.0)
    if plan.startswith("one group by"):
        lower(monkeypatch, UNION_CELLS=())
    if plan == "one group by, several histograms":
        lower(monkeypatch, MAX_SCAN_CELLS=1, CACHED_CELLS=1, MAX_PART_CELLS=40)
    if plan == "group by per set":
        monkeypatch.setattr(_Planner, "_cover", lambda _self, sets, _limit, _most: [(ranks, [ranks]) for ranks in sets])
        monkeypatch.setattr(
            _Planner, "_group_cost", lambda _self, _union, made: float(sum(len(sets) for _, sets in made) ** 2)
        )
