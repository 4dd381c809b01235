"""Charges that count for some values of a column: the cap holds for the value with least left, whatever the order."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import duckdb
import pytest
from conftest import Connection
from hypothesis import given
from hypothesis import strategies as st
from ledgers import at_once, cap, charge

import mwem_sql
from mwem_sql.accounting.caps import Balance, Charge, PartitionColumn, sums_by_value
from mwem_sql.accounting.ledger import Ledger, ledger_of
from mwem_sql.accounting.partitions import extent_of
from mwem_sql.boundary.relations import describe
from mwem_sql.boundary.scope import EVERYTHING, Scope
from mwem_sql.errors import BudgetError
from mwem_sql.kernel.budget import Budget
from mwem_sql.platform.catalog import Place

HERE = Place("memory", "main")
SETUP = """
    CREATE TABLE visit (month VARCHAR, day DATE, age BOOLEAN NOT NULL, person INTEGER, half DOUBLE, low INTEGER
        GENERATED ALWAYS AS (person - 1), kind VARCHAR COLLATE NOCASE);
    INSERT INTO visit SELECT CASE WHEN i % 3 > 0 THEN '2025-0' || (i % 3) END, DATE '2025-01-01' + (i % 59)::INTEGER,
        i % 2 = 0, i // 4, 0.5, 'a' FROM range(120) t(i);
    CREATE VIEW january AS SELECT age, person FROM visit WHERE month = '2025-01';
    CREATE VIEW february AS SELECT age, person FROM visit WHERE month = '2025-02';
    CREATE VIEW two AS SELECT age FROM visit WHERE month IN ('2025-01', '2025-02');
    CREATE VIEW missing AS SELECT age FROM visit WHERE month IS NULL;
    CREATE VIEW unclear AS SELECT age FROM visit WHERE month LIKE '2025-01%';
    CREATE VIEW shown AS SELECT month AS m, upper(month) AS big, age FROM visit;
    CREATE TABLE workload AS SELECT 'age' AS predicate"""
VALUES = [*range(-3, 4), None]
COSTS = st.fractions(min_value=0, max_value=3, max_denominator=50)
ENDS = st.none() | st.integers(-3, 4)
SCOPES = st.none() | st.builds(
    lambda stretches, null: Scope.of(stretches, null=null), st.lists(st.tuples(ENDS, ENDS), max_size=3), st.booleans()
)
COLUMN = PartitionColumn(number=1, name="n", id="", type="INTEGER")


@pytest.fixture
def visits(connect) -> Connection:
    con = connect()
    con.execute(SETUP)
    return con


def has(scope: Scope | None, value: int | None) -> bool:
    if scope is None or value is None:
        return scope is None or scope.null
    return any((low is None or low <= value) and (high is None or value < high) for low, high in scope.stretches)


def scoped(scope: Scope | None, epsilon: Fraction, rho: Fraction, failure: Fraction) -> Charge:
    return Charge(budget=Budget(epsilon, failure), rho=rho, failure=failure, scope=scope, partition=COLUMN)


@given(st.lists(st.tuples(SCOPES, st.tuples(COSTS, COSTS)), max_size=8))
def test_sums_are_those_of_each_value(items: list[tuple[Scope | None, tuple[Fraction, Fraction]]]) -> None:
    sums = sums_by_value(items)
    for value in VALUES:
        (found,) = [pair for scope, pair in sums if has(scope, value)]
        counted = [pair for scope, pair in items if has(scope, value)]
        assert found == tuple(sum((pair[place] for pair in counted), Fraction(0)) for place in (0, 1))


@given(
    st.lists(st.tuples(SCOPES, COSTS, COSTS, st.integers(0, 3)), max_size=12),
    st.sampled_from(["0", "1/1000000"]),
    st.fractions(min_value=1, max_value=4, max_denominator=10),
)
def test_a_cap_holds_for_the_value_with_least_left(
    asked: list[tuple[Scope | None, Fraction, Fraction, int]], delta: str, most: Fraction
) -> None:
    """Against an oracle that adds up by hand for every value, what is refused and what is left."""
    limit = cap(most, delta)
    kept: list[Charge] = []
    # A value beyond all stretches stands for all others.
    values = [*VALUES, 1000, -1000]
    for scope, epsilon, rho, millions in asked:
        failure = Fraction(0) if limit.pure else Fraction(millions, 10**7)
        new = scoped(scope if scope != Scope() else None, epsilon + Fraction(1, 100), rho / 100, failure)

        def fits(value: int | None, charges: list[Charge]) -> bool:
            counted = [each for each in charges if has(each.scope, value)]
            failures = sum((each.failure for each in counted), Fraction(0))
            return sum((limit.cost(each) for each in counted), Fraction(0)) <= limit.limit(failures)

        expected = all(fits(value, [*kept, new]) for value in values if has(new.scope, value))
        new = replace(new, budget=Budget(new.budget.epsilon))
        try:
            limit.check("t", new, kept)
        except BudgetError:
            assert not expected
        else:
            assert expected
            kept.append(new)
    balance = Balance.of(limit, kept)
    for value in values:
        counted = [each for each in kept if has(each.scope, value)]
        spent = sum((limit.cost(each) for each in counted), Fraction(0))
        failures = sum((each.failure for each in counted), Fraction(0))
        assert limit.limit(balance.failure) - balance.spent <= limit.limit(failures) - spent
        assert spent <= limit.limit(failures)


def test_without_a_cap_epsilon_and_delta_are_the_largest() -> None:
    january, february = Scope((("1", "2"),)), Scope((("2", "3"),))
    charges = [
        scoped(january, Fraction(1), Fraction(0), Fraction(1, 10)),
        scoped(february, Fraction(2), Fraction(0), Fraction(0)),
        scoped(None, Fraction(4), Fraction(0), Fraction(1, 100)),
    ]
    balance = Balance.of(None, charges)
    assert (balance.spent, balance.delta) == (Fraction(6), Fraction(11, 100))


def release(con: Connection, table: str, epsilon: float = 0.4, **options: object) -> mwem_sql.Release:
    release.number += 1
    return mwem_sql.release(con, table, "workload", epsilon, rounds=1, output=f"o{release.number}", **options)


release.number = 0


def left(con: Connection) -> list[tuple[str | None, float]]:
    return con.execute("SELECT partition, round(epsilon_left, 6) FROM mwem_partition('visit', 'month')").fetchall()


def test_months_cost_the_larger_of_the_two(visits: Connection) -> None:
    visits.execute("CALL mwem_budget('visit', 1)")
    release(visits, "january", 0.1)
    assert left(visits) == [(None, 0.9)]
    assert release(visits, "january").warning is None
    release(visits, "february", 0.5)
    release(visits, "missing", 0.3)
    assert left(visits) == [("NULL", 0.6), ("2025-01", 0.5), ("2025-02", 0.4), (None, 0.9)]
    release(visits, "two", 0.4)
    with pytest.raises(BudgetError, match=r"does not fit the cap on visit for month 2025-02: 0 of 1 is left"):
        release(visits, "february", 0.01)
    with pytest.raises(BudgetError, match=r"does not fit the cap on visit: 0 of 1 is left"):
        release(visits, "visit", 0.01)
    release(visits, "january", 0.1)
    rows = visits.execute("SELECT partition, epsilon FROM mwem_ledger() WHERE private ORDER BY started").fetchall()
    assert rows == [(None, 0.1), ("2025-01", 0.4), ("2025-02", 0.5), ("NULL", 0.3), ("2025-01, 2025-02", 0.4),
                    ("2025-01", 0.1)]  # fmt: skip
    ((spent, rest, by),) = visits.execute(
        "SELECT epsilon_spent, round(epsilon_left, 6), partition_by FROM mwem_budget('visit', 1)"
    ).fetchall()
    assert (spent, rest, by) == (1.0, 0.0, "month")
    assert visits.execute("SELECT partition_by FROM mwem.budgets").fetchall() == [("month",)]


def test_a_view_that_does_not_say_which_counts_for_all(visits: Connection) -> None:
    visits.execute("CALL mwem_partition('visit', 'month'); CALL mwem_budget('visit', 1)")
    warning = release(visits, "unclear").warning
    assert warning is not None
    assert "counts for every month, because the conditions of unclear do not say which month its rows have" in warning
    assert "every month" not in (release(visits, "visit", 0.1).warning or "")
    assert left(visits) == [(None, 0.5)]


def test_a_person_has_rows_of_many_months(visits: Connection) -> None:
    visits.execute("CALL mwem_partition('visit', 'month')")
    for table in ("january", "february"):
        warning = release(visits, table, unit="person", rows_per_unit=2).warning
        assert warning is not None
        assert "all rows of one person are protected together, and they may have any month" in warning
    rows = visits.execute("SELECT epsilon_spent, partition FROM mwem_ledger() WHERE private").fetchall()
    assert rows == [(0.8, None), (0.8, None)]


def test_a_plan_says_for_what_it_counts(visits: Connection) -> None:
    plan = "SELECT value FROM mwem_plan('{}', workload, 0.4) WHERE item = 'counts for'"
    assert visits.execute(plan.format("january")).fetchall() == []
    visits.execute("CALL mwem_partition('visit', 'month')")
    assert visits.execute(plan.format("january")).fetchall() == [("month 2025-01",)]
    assert visits.execute(plan.format("visit")).fetchall() == [("every month: it is of the whole table",)]


def test_taken_back_all_add_up_again(visits: Connection) -> None:
    visits.execute("CALL mwem_partition('visit', 'month'); CALL mwem_budget('visit', 2)")
    release(visits, "january")
    release(visits, "february")
    spent = "SELECT partition_by, partition, epsilon_spent FROM mwem_partition('visit', {})"
    assert visits.execute(spent.format("NULL")).fetchall() == [(None, None, 0.8)]
    # Declared anew it is the word of another day: what was charged before counts for all.
    assert visits.execute(spent.format("'month'")).fetchall() == [("month", None, 0.8)]
    assert visits.execute("SELECT DISTINCT partition FROM mwem_ledger()").fetchall() == [(None,)]
    actions = visits.execute("SELECT action FROM mwem_ledger() WHERE action LIKE 'mwem_partition%'").fetchall()
    assert actions == [("mwem_partition: month",), ("mwem_partition: none",), ("mwem_partition: month",)]


def test_what_is_declared_is_not_declared_anew(visits: Connection) -> None:
    visits.execute("CALL mwem_partition('visit', 'month')")
    release(visits, "january")
    for again in ("'MONTH'", "'month'"):
        visits.execute(f"CALL mwem_partition('visit', {again})")
    assert visits.execute("SELECT count(*) FROM mwem.journal WHERE event = 'partition'").fetchall() == [(1,)]
    visits.execute("CALL mwem_partition('shown', 'm')")
    assert visits.execute("SELECT count(*) FROM mwem.journal WHERE event = 'partition'").fetchall() == [(1,)]
    visits.execute("CALL mwem_partition('visit', 'day')")
    assert [each.scope for each in _ledger(visits).charges] == [None]


def test_the_column_is_known_however_it_is_called(visits: Connection) -> None:
    visits.execute("CALL mwem_partition('visit', 'month')")
    visits.execute(
        """DROP VIEW shown; ALTER TABLE visit RENAME month TO mm; ALTER TABLE visit RENAME kind TO month;
           ALTER TABLE visit RENAME TO seen; CREATE VIEW renamed AS SELECT age FROM seen WHERE mm = '2025-01';
           CREATE VIEW other AS SELECT age FROM seen WHERE month = '2025-01'"""
    )
    release(visits, "renamed")
    assert "do not say which month" in (release(visits, "other").warning or "")
    rows = visits.execute("SELECT partition FROM mwem_ledger() WHERE private ORDER BY started").fetchall()
    assert rows == [("2025-01",), (None,)]


def test_of_a_table_that_was_replaced_the_name_decides(visits: Connection) -> None:
    visits.execute("CALL mwem_partition('visit', 'month')")
    release(visits, "january")
    visits.execute("CREATE OR REPLACE TABLE visit AS SELECT * EXCLUDE (low) FROM visit")
    for table in ("january", "february"):  # by name, and then by the mark that the first of them makes
        release(visits, table)
    assert [each.scope is None for each in _ledger(visits).charges] == [False] * 3
    assert [row[0] for row in left(visits)] == ["2025-01", "2025-02", None]


def test_another_type_or_a_collation_ends_it(visits: Connection) -> None:
    visits.execute("CALL mwem_partition('visit', 'day')")
    view = "CREATE OR REPLACE VIEW v AS SELECT age FROM visit WHERE day < '2025-02-01'"
    visits.execute(view)
    release(visits, "v")
    visits.execute(f"ALTER TABLE visit ALTER day TYPE VARCHAR; {view}")
    assert "that column is no longer what was declared (DATE)" in (release(visits, "v").warning or "")
    visits.execute("CALL mwem_partition('visit', 'month')")
    visits.execute("SET GLOBAL default_collation = 'NOCASE'")
    try:
        assert "no longer what was declared" in (release(visits, "january").warning or "")
    finally:
        visits.execute("RESET GLOBAL default_collation")


@pytest.mark.parametrize(
    ("table", "column", "message"),
    [
        ("visit", "mont", r"column \('mont'\) is not a column of visit\. Hint: did you mean 'month'\?"),
        ("shown", "big", r"column \('big'\) is computed by a view\. Hint: name a column of visit itself"),
        ("visit", "low", r"column \('low'\) is computed from others, which may change\. Hint: name a plain column"),
        ("visit", "half", r"column \('half'\) is of type DOUBLE, whose values cannot be told apart"),
        (
            "visit",
            "kind",
            r"column \('kind'\) is compared under a collation, .*ALTER TABLE visit ALTER kind TYPE VARCHAR",
        ),
    ],
)
def test_what_cannot_be_declared(visits: Connection, table: str, column: str, message: str) -> None:
    with pytest.raises(duckdb.Error, match=message):
        visits.execute(f"CALL mwem_partition('{table}', '{column}')")
    assert visits.execute("SELECT count(*) FROM mwem_ledger()").fetchall() == [(0,)]


def test_a_cap_for_a_person_takes_no_partition(visits: Connection) -> None:
    visits.execute("CALL mwem_budget('visit', 1, unit := 'person', rows_per_unit := 4)")
    with pytest.raises(duckdb.Error, match=r"its cap is for one person, at most 4 rows\. Hint: a person may have rows"):
        visits.execute("CALL mwem_partition('visit', 'month')")


def test_files_have_accounts_of_their_own(visits: Connection, tmp_path) -> None:
    visits.execute(f"COPY visit TO '{tmp_path}/visit.parquet'")
    visits.execute(f"CREATE VIEW filed AS FROM '{tmp_path}/visit.parquet'")
    with pytest.raises(duckdb.Error, match="is not a DuckDB table that can be written, so that a column of it cannot"):
        visits.execute("CALL mwem_partition('filed', 'month')")


def _ledger(con: Connection) -> Ledger:
    return ledger_of(con, describe(con, "visit", HERE, "f"), HERE, "f")


def test_a_charge_of_another_declaration_counts_for_all(visits: Connection) -> None:
    """What was worked out before the column was taken back, or another was declared, is not gone by."""
    visits.execute("CALL mwem_partition('visit', 'month')")
    before = extent_of(visits, _ledger(visits), describe(visits, "january", HERE, "f"), None, {})
    assert before.scope is not None
    visits.execute("CALL mwem_partition('visit', NULL); CALL mwem_partition('visit', 'month')")
    late = replace(charge("1"), scope=before.scope, partition=before.partition)
    receipt = _ledger(visits).debit(visits.cursor(), late, "o", action="mwem_release")
    assert receipt.charge.scope is None
    assert [each.scope for each in _ledger(visits).charges] == [None]


def test_the_last_share_of_a_month_has_one_winner(visits: Connection) -> None:
    visits.execute("CALL mwem_partition('visit', 'month'); CALL mwem_budget('visit', 1)")
    ledger = _ledger(visits)
    cursors = [visits.cursor() for _ in range(8)]

    asked = []
    for table in ("january", "february"):
        extent = extent_of(visits.cursor(), ledger, describe(visits, table, HERE, "f"), None, {})
        asked.append(replace(charge("3/5"), scope=extent.scope, partition=extent.partition))
    errors = at_once(8, lambda k: ledger.debit(cursors[k], asked[k % 2], f"o{k}", action="mwem_release"))
    assert [type(error) for error in errors] == [BudgetError] * 6
    assert _ledger(visits).balance.spent == Fraction(3, 5)


def test_a_view_that_changes_before_it_is_read_is_not_read(visits: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scope is asked for again in the snapshot: here a column has taken the name of the one that was declared."""
    visits.execute("CALL mwem_partition('visit', 'month'); DROP VIEW shown; ALTER TABLE visit ADD COLUMN other VARCHAR")
    debit = Ledger.debit

    def swapped(self: Ledger, con: Connection, *arguments: object, **facts: object) -> object:
        receipt = debit(self, con, *arguments, **facts)
        visits.execute("ALTER TABLE visit RENAME month TO old; ALTER TABLE visit RENAME other TO month")
        return receipt

    monkeypatch.setattr(Ledger, "debit", swapped)
    with pytest.raises(mwem_sql.EngineError):
        release(visits, "january")
    assert EVERYTHING not in [each.scope for each in _ledger(visits).charges]


def test_a_row_in_or_out_changes_only_views_whose_scope_has_its_value(visits: Connection) -> None:
    """The condition of the theorem, on what scans read: neighbours in one month are the same in all others."""
    visits.execute(
        "CREATE VIEW early AS SELECT age FROM visit WHERE '2025-01' >= month AND person > 3 OR month IS NULL"
    )
    visits.execute("CREATE VIEW late AS SELECT age FROM early; CREATE VIEW odd AS SELECT age FROM two WHERE age")
    visits.execute("CALL mwem_partition('visit', 'month')")
    relations = {name: describe(visits, name, HERE, "f") for name in ("january", "two", "missing", "late", "odd")}
    extents = {name: extent_of(visits, _ledger(visits), each, None, {}) for name, each in relations.items()}

    def rows() -> dict[str, int]:
        counts = "SELECT count(*) FROM {}"
        return {
            name: visits.execute(counts.format(each.tree().sql("duckdb"))).fetchall()[0][0]
            for name, each in relations.items()
        }

    changed: set[tuple[str, str | None]] = set()
    for number in range(40):
        before = rows()
        visits.execute(
            f"CREATE OR REPLACE TEMP TABLE gone AS SELECT rowid AS r, month FROM visit OFFSET {number} LIMIT 1"
        )
        ((row, month),) = visits.execute("FROM gone").fetchall()
        visits.execute("BEGIN; DELETE FROM visit WHERE rowid = " + str(row))
        after = rows()
        visits.execute("ROLLBACK")
        point = Scope(null=True) if month is None else Scope(((month, f"{month}\0"),))
        for name, extent in extents.items():
            assert extent.scope is not None
            if before[name] != after[name]:
                changed.add((name, month))
                assert not extent.scope.is_disjoint(point)
    assert {name for name, _ in changed} == set(relations)
    assert {month for _, month in changed} == {None, "2025-01", "2025-02"}
