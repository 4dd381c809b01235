"""A request under a taken name is told in what it differs from the stored one."""

from __future__ import annotations

import json

import pytest

from mwem_sql.releases.changes import MOST_QUERIES, changes, in_short
from mwem_sql.workload import Query

ASKED = {"workload": [["age > 4"], ["age > 5"], ["sex"]], "epsilon": "1", "delta": "0", "table": ["", "main", "t"], "declared": None,
         "settings": {"TimeZone": "UTC", "default_collation": ""}}  # fmt: skip
QUERIES = [Query(predicate="age > 4"), Query(predicate="age > 5"), Query(group_by=("sex",))]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"epsilon": "2", "rounds": 3}, "epsilon (1, now 2); rounds (left out, now 3)"),
        ({"declared": ["('age', 0, 99)"]}, "the domain table"),
        ({"table": ["", "main", "u"]}, "the private table"),
        ({"settings": {"TimeZone": "Asia/Tokyo", "default_collation": ""}}, "TimeZone (UTC, now Asia/Tokyo)"),
        ({"workload": [["age > 4"], ["age > 5"], ["race"]]}, "query 3 ('sex'); 1 queries of before are not in it"),
        ({"workload": [["new"], ["age > 4"], ["age > 5"], ["sex"]]}, "query 1 ('age > 4')"),
        ({"workload": [["age > 4"], ["sex"]]}, "1 queries of before are not in it"),
        ({"workload": [["a"], ["b"], ["c"], ["d"], ["e"]]}, "query 1 ('age > 4'); query 2 ('age > 5'); query 3 ('sex'); 2 more queries; 3 queries of before are not in it"),
        ({"seed": 7}, "seed (left out, now given)"),
        ({"workload": [["q"]] * (MOST_QUERIES + 1)}, f"the workload, of {MOST_QUERIES + 1:,} rows now"),
    ],
)  # fmt: skip
def test_what_changed(changed: dict[str, object], told: str) -> None:
    now = {**ASKED, **changed}
    queries = (QUERIES + QUERIES * (len(now["workload"]) // 3))[: len(now["workload"])]  # type: ignore[arg-type]
    assert changes(in_short(ASKED), in_short(now), queries) == f". What changed: {told}"


def test_another_seed_is_not_told() -> None:
    one, two = in_short({**ASKED, "seed": 123_456_789}), in_short({**ASKED, "seed": 987_654_321})
    assert "123" not in json.loads(one)["seed"]
    assert changes(one, two, QUERIES) == ". What changed: the seed"


@pytest.mark.parametrize("stored", [None, "", "{}", "[]", "7", '{"workload": 3}'])
def test_what_is_older_or_damaged_tells_nothing(stored: object) -> None:
    assert changes(stored, in_short(ASKED), QUERIES) == ""
