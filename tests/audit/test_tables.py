"""The audit of a release of several tables: neighbours differ in a canary, a person with as many rows as are used.

What leaves the kernels of all tables is looked at together. The broken variants replace one thing: a kernel that is
told of one row where a person has many, parts of the budget that add up to more than all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest
from audit.estimate import ERROR, HONEST_ERROR
from audit.test_audit import EPSILON, WHOLE_SURE, Bounds
from conftest import Connection, Open

from mwem_sql.kernel.accountant import Accountant, AccountingError
from mwem_sql.kernel.draws import Draws
from mwem_sql.kernel.noise import OpenDPNoise
from mwem_sql.loop.problem import Outcome
from mwem_sql.platform.session import Session
from mwem_sql.releases import levels, tables
from mwem_sql.releases.levels import TablesRequest, TreePlan, plan_tree
from mwem_sql.releases.run import Run
from mwem_sql.workload import Query, Workload

ROWS = 30
"""Of the canary, and as many as are used of a person."""
SETUP = f"""
    CREATE SCHEMA without_it; CREATE SCHEMA with_it;
    CREATE TABLE without_it.person (pid INTEGER PRIMARY KEY, old BOOLEAN NOT NULL);
    CREATE TABLE without_it.visit (pid INTEGER REFERENCES without_it.person (pid), home BOOLEAN NOT NULL);
    INSERT INTO without_it.person SELECT i, false FROM range(6) t(i);
    INSERT INTO without_it.visit SELECT i, false FROM range(6) t(i);
    CREATE TABLE with_it.person (pid INTEGER PRIMARY KEY, old BOOLEAN NOT NULL);
    CREATE TABLE with_it.visit (pid INTEGER REFERENCES with_it.person (pid), home BOOLEAN NOT NULL);
    INSERT INTO with_it.person FROM without_it.person UNION ALL VALUES (6, true);
    INSERT INTO with_it.visit FROM without_it.visit UNION ALL SELECT 6, true FROM range({ROWS})
"""


@pytest.fixture
def con(connect: Open, monkeypatch: pytest.MonkeyPatch) -> Connection:
    con = connect()
    con.execute(SETUP)
    # All of a release but its debit and its outputs.
    monkeypatch.setattr(tables, "_check_of", lambda *_: lambda _: lambda: None)
    monkeypatch.setattr(tables, "store_all", lambda _, contents: list(range(len(contents))))
    return con


def planned(con: Connection, schema: str) -> tuple[TablesRequest, TreePlan]:
    asked = Workload((Query("old", of="person"), Query("home", of="visit")))
    request = TablesRequest.parse([f"{schema}.person", f"{schema}.visit"], asked, EPSILON, {"rows_per_unit": ROWS})
    return request, plan_tree(Session.of(con), request)


def outcomes(con: Connection, request: TablesRequest, tree: TreePlan, trials: int) -> list[list[Outcome]]:
    """What leaves the kernels, table by table."""
    seen: list[list[Outcome]] = []
    certified = Run.certified

    def noted(run: Run, outcome: Outcome) -> Outcome:
        seen[-1].append(certified(run, outcome))
        return seen[-1][-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "certified", noted)
        for _ in range(trials):
            seen.append([])
            entry = SimpleNamespace(receipt=SimpleNamespace(account=None), draws=Draws(OpenDPNoise()))
            tables._run_and_store(Session.of(con), request, tree, entry, outputs=[None] * 2, marks={})  # type: ignore[arg-type]
    return seen


def saw(levels_of: list[Outcome]) -> bool:
    """The event: all that is measured of the canary's cells is likelier with it than without it."""
    more = 0.0
    for outcome, column, rows in zip(levels_of, ("old", "home"), (1, ROWS), strict=True):
        for step in outcome.measurements:
            if step.query.attributes == (column,):
                noisy = float(step.values[-1])  # of true: nobody without the canary
                more += (abs(noisy) - abs(noisy - rows)) / step.scale
    return more > 0


def audited(
    con: Connection, trials: int, error: float, change: Callable[[TreePlan], TreePlan] = lambda tree: tree
) -> Bounds:
    hits = []
    for schema in ("without_it", "with_it"):
        request, tree = planned(con, schema)
        hits.append(sum(map(saw, outcomes(con, request, change(tree), trials))))
    return Bounds.of(hits, trials, error, 0.0, None)


@pytest.mark.parametrize(
    "trials", [12, pytest.param(200, marks=pytest.mark.thorough), pytest.param(2000, marks=pytest.mark.campaign)]
)
def test_a_person_with_many_rows(con: Connection, trials: int) -> None:
    found = audited(con, trials, HONEST_ERROR)
    found.tell(f"several tables, a person with {ROWS} rows", 2 * trials)
    assert found.hold


def test_a_kernel_that_is_told_of_one_row(con: Connection) -> None:
    def told(tree: TreePlan) -> TreePlan:
        root, visit = tree.levels
        return replace(tree, levels=(root, replace(visit, request=replace(visit.request, rows_per_unit=1))))

    found = audited(con, WHOLE_SURE, ERROR, told)
    found.tell("several tables, a kernel that is told of one row", 2 * WHOLE_SURE)
    assert not found.hold


@pytest.fixture
def more_than_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of the budget that add up to 40."""
    monkeypatch.setattr(levels, "Fraction", lambda *_: Fraction(20))


@pytest.mark.usefixtures("more_than_all")
def test_an_account_of_more_than_all_of_the_budget_does_not_open(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so nothing is read."""
    monkeypatch.setattr(tables.execution, "all_answers", pytest.fail)
    with pytest.raises(AccountingError, match="must not exceed epsilon"):
        outcomes(con, *planned(con, "with_it"), 1)


@pytest.mark.thorough
@pytest.mark.usefixtures("more_than_all")
def test_parts_of_the_budget_that_add_up_to_more_than_all(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Accountant, "_check_limit", lambda _: None)
    found = audited(con, WHOLE_SURE, ERROR)
    found.tell("several tables, parts that add up to 40", 2 * WHOLE_SURE)
    assert not found.hold
