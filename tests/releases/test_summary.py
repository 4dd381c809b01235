"""The summary: its columns, and the warning it carries."""

from __future__ import annotations

from conftest import Connection

import mwem_sql
from mwem_sql.releases.summary import SUMMARY


def test_summary_and_plan_say_when_a_guarantee_is_nominal(con: Connection) -> None:
    call = "mwem_release('people', workload, {}, delta := {}, rounds := 2, output := '{}')"
    for number, (epsilon, delta, words) in enumerate(
        [(1, 0, None), (1e6, 0, "epsilon (1e+06)"), (1, 0.99, "delta (0.99)"), (1, 0.00009, None)]
    ):
        ((private, warning),) = con.execute(
            f"SELECT private, warning FROM {call.format(epsilon, delta, f'o{number}')}"
        ).fetchall()
        assert private
        # It may also say what was spent without a cap, and how little was measured.
        parts = [part for part in (warning or "").split("; ") if "epsilon (" in part or "delta (" in part]
        warning = "; ".join(parts) or None
        assert (warning is None) == (words is None)
        planned = con.execute(
            f"SELECT value FROM {call.format(epsilon, delta, 'p').replace('release', 'plan')} WHERE item = 'warning'"
        ).fetchall()
        assert [value[:40] for (value,) in planned] == ([] if words is None else [warning[:40]])
        if words is not None:
            assert words in warning


def test_a_release_has_the_columns_of_the_summary(con: Connection) -> None:
    made = mwem_sql.release(con, "people", "workload", epsilon=0.5, rounds=2, rows=30)
    assert (made.release, made.output, made.rows, made.epsilon, made.delta) == (
        1,
        "memory.main.people_synthetic",
        30,
        0.5,
        0.0,
    )
    assert (made.rounds, made.queries, made.attributes, made.private, made.reused) == (2, 3, 4, True, False)
    assert made.cells > 0
    assert made.seconds > 0
    assert repr(made).startswith("Release(release=1, output='memory.main.people_synthetic', rows=30,")
    assert all(name in repr(made) for name in SUMMARY)
