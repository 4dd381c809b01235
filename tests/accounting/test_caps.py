"""Caps: exact arithmetic in epsilon or in rho, for one unit; and what is refused under them."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest
from conftest import Connection
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import TABLE, cap, debit, marked

from mwem_sql.accounting.caps import Charge, nominal
from mwem_sql.accounting.journal import statement
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.errors import BudgetError
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.scales import zcdp_epsilon, zcdp_rho
from mwem_sql.platform.catalog import Name


def test_ten_tenths_fit_one(plain: Connection, ledger: Ledger) -> None:
    ledger.set_cap(plain.cursor(), cap("1"))
    for _ in range(10):
        debit(plain, ledger, "1/10")
    with pytest.raises(BudgetError, match="0 of 1 is left"):
        debit(plain, ledger, "1/1000000000000")
    assert len(statement(plain.cursor())) == 10


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.fractions(min_value=Fraction(1, 1000), max_value=2, max_denominator=10**6), min_size=1, max_size=6),
    st.fractions(min_value=1, max_value=5),
)
def test_a_cap_holds_exactly(asked: list[Fraction], most: Fraction) -> None:
    con = duckdb.connect()
    ledger = Ledger.of_table("memory", TABLE)
    ledger.set_cap(con.cursor(), cap(most))
    spent = Fraction(0)
    for epsilon in asked:
        if spent + epsilon <= most:
            debit(con, ledger, str(epsilon))
            spent += epsilon
        else:
            with pytest.raises(BudgetError):
                debit(con, ledger, str(epsilon))
    assert ledger.at(con.cursor()).balance.spent == spent
    con.close()


def test_a_cap_without_delta_takes_no_delta(plain: Connection, ledger: Ledger) -> None:
    ledger.set_cap(plain.cursor(), cap("10"))
    with pytest.raises(
        BudgetError,
        match=r"delta \(1e-09\) does not fit the cap on t, which has none \(delta 0\)\. Hint: leave delta out",
    ):
        debit(plain, ledger, "1", "1/1000000000")
    debit(plain, ledger, "10")


def test_a_cap_with_delta_counts_rho_and_converts_once(plain: Connection, ledger: Ledger) -> None:
    own = cap("2", "1/1000000")
    ledger.set_cap(plain.cursor(), own)
    debit(plain, ledger, "1", "1/1000000000")
    debit(plain, ledger, "1/10")
    spent = zcdp_rho(Fraction(1), Fraction(1, 10**9)) + Fraction(1, 200)
    assert ledger.at(plain.cursor()).balance.spent == spent
    left = own.limit() - spent
    with pytest.raises(
        BudgetError,
        match=rf"and {float(left):g} of {float(own.limit()):g} is left: enough for epsilon {own.epsilon(left):g} at "
        rf"delta 1e-06",
    ):
        debit(plain, ledger, "1")
    ledger.debit(plain.cursor(), Charge(budget=Budget(Fraction(1)), rho=left), "o", action="mwem_release")
    assert ledger.at(plain.cursor()).balance.epsilon_left == 0
    assert ledger.at(plain.cursor()).balance.epsilon_spent == pytest.approx(2, rel=1e-9)
    with pytest.raises(BudgetError):
        ledger.debit(
            plain.cursor(), Charge(budget=Budget(Fraction(1)), rho=Fraction(1, 10**40)), "o", action="mwem_release"
        )


def test_one_release_of_all_that_a_cap_allows_fits_it(plain: Connection, ledger: Ledger) -> None:
    ledger.set_cap(plain.cursor(), cap("1", "1/1000000"))
    debit(plain, ledger, "1", "1/1000000")


def test_gaussian_releases_go_further_than_their_epsilons(plain: Connection, ledger: Ledger) -> None:
    """What the accountant is for: 30 releases of (0.1, 1e-6) do not cost (3, 3e-5)."""
    ledger.set_cap(plain.cursor(), cap("20", "1/1000000"))
    for _ in range(30):
        debit(plain, ledger, "1/10", "1/1000000")
    spent = ledger.at(plain.cursor()).balance.epsilon_spent
    assert spent == zcdp_epsilon(30 * zcdp_rho(Fraction(1, 10), Fraction(1, 10**6)), Fraction(1, 10**6))
    assert spent < 30 * 0.1


@pytest.mark.parametrize("given", [("person", 3), (None, 1)])
@pytest.mark.parametrize("other", [("person", 2), ("household", 3), (None, 1), ("person", 3)])
def test_a_cap_fixes_the_unit(plain: Connection, given: tuple[str | None, int], other: tuple[str | None, int]) -> None:
    ledger = marked(plain)
    ledger.set_cap(plain.cursor(), cap("10", "0", *given))
    if given == other:
        debit(plain, ledger, "1", "0", other)
        return
    with pytest.raises(BudgetError, match="cannot be counted under the cap on t, which is for one"):
        debit(plain, ledger, "1", "0", other)
    assert statement(plain.cursor()) == []


def test_a_cap_that_could_not_count_what_was_spent_is_refused(plain: Connection) -> None:
    ledger = marked(plain)
    debit(plain, ledger, "1", "1/1000000")
    with pytest.raises(
        BudgetError, match=r"mwem_budget: delta \(0\) does not fit t: it has releases with delta above 0"
    ):
        ledger.set_cap(plain.cursor(), cap("10"))
    with pytest.raises(
        BudgetError, match="a cap for one person, at most 3 rows cannot count releases of t that protect one row"
    ):
        ledger.set_cap(plain.cursor(), cap("10", "1/1000000", "person", 3))
    ledger.set_cap(plain.cursor(), cap("10", "1/1000000"))
    with pytest.raises(BudgetError, match=r"delta \(0\) cannot replace 1e-06: 1 releases of t were counted with it"):
        ledger.set_cap(plain.cursor(), cap("10"))
    assert ledger.set_cap(plain.cursor(), cap("10", "1/10000000")).balance.epsilon_left > 9


def test_an_accountant_is_not_changed_once_it_has_counted(plain: Connection, ledger: Ledger) -> None:
    ledger.set_cap(plain.cursor(), cap("1"))
    ledger.set_cap(plain.cursor(), cap("1", "1/1000000"))
    ledger.set_cap(plain.cursor(), cap("1"))
    debit(plain, ledger, "1/10")
    with pytest.raises(
        BudgetError,
        match=r"cannot be changed to or from 0: 1 releases of t were counted without it\. Hint: keep delta := 0",
    ):
        ledger.set_cap(plain.cursor(), cap("1", "1/1000000"))


def test_a_seeded_release_is_neither_counted_nor_returned_under_a_cap(con: Connection) -> None:
    call = "SELECT private, reused FROM mwem_release('people', workload, 1, rounds := 1, seed := 7)"
    assert con.execute(call).fetchall() == [(False, False)]
    assert con.execute(call).fetchall() == [(False, True)]
    assert con.execute("SELECT epsilon_spent, seeded FROM mwem_budget('people', 1)").fetchall() == [(0.0, 1)]
    with pytest.raises(duckdb.Error, match=r"a seeded release of people is refused, because the table has a cap"):
        con.execute(call)
    con.execute("DROP TABLE people; CREATE VIEW people AS SELECT count(*) AS n FROM range(3)")
    with pytest.raises(duckdb.Error, match=r"a seeded release of people is refused, because the table has a cap"):
        con.execute(call)


def test_case_is_no_way_around_a_cap(con: Connection) -> None:
    con.execute("CALL mwem_budget('people', 0.5)").fetchall()
    con.execute("ALTER TABLE people RENAME TO interim; ALTER TABLE interim RENAME TO PEOPLE")
    with pytest.raises(duckdb.Error, match=r"0\.5 of 0\.5 is left"):
        con.execute("CALL mwem_release('people', workload, 1)")


def test_a_unit_under_a_view_is_the_tables(con: Connection) -> None:
    con.execute(
        """CREATE VIEW renamed AS SELECT age, sex, member, city, city AS person FROM people;
           CREATE VIEW made_up AS SELECT age, sex, member, city || 'x' AS city FROM people;
           CREATE TABLE w AS SELECT 'age > 40' AS predicate;
           CREATE TABLE renamed_domain AS SELECT 'age' AS attribute, 0 AS low, 99 AS high; CREATE TABLE made_up_domain
           AS FROM renamed_domain"""
    )
    assert con.execute(
        "SELECT unit, rows_per_unit FROM mwem_budget('people', 10, unit := 'CITY', rows_per_unit := 2)"
    ).fetchall() == [("city", 2)]
    con.execute("CALL mwem_release('renamed', w, 1, unit := 'person', rows_per_unit := 2)").fetchall()
    for wrong in (
        "'made_up', w, 1, unit := 'city', rows_per_unit := 2",
        "'people', w, 1",
        "'people', w, 1, unit := 'city', rows_per_unit := 1",
        "'people', w, 1, unit := 'sex', rows_per_unit := 2",
    ):
        with pytest.raises(
            duckdb.Error, match="cannot be counted under the cap on people, which is for one city, at most 2 rows"
        ):
            con.execute(f"CALL mwem_release({wrong}, output := 'other')")
    with pytest.raises(duckdb.Error, match=r"mwem_budget: unit \('nobody'\) is not a column of people"):
        con.execute("CALL mwem_budget('people', 10, unit := 'nobody')")
    with pytest.raises(duckdb.Error, match=r"mwem_budget: rows_per_unit \(2\) needs a unit"):
        con.execute("CALL mwem_budget('people', 10, rows_per_unit := 2)")


def test_under_a_cap_with_delta_a_release_with_delta_has_gaussian_noise(con: Connection) -> None:
    """Laplace noise would be a little smaller, and cost a hundred times as much of the cap."""
    plan = "SELECT value FROM mwem_plan('people', workload, 0.5, delta := {}, rounds := 2) WHERE item = 'composition'"
    assert con.execute(plan.format("1e-6")).fetchall() == [("pure epsilon, Laplace noise",)]
    con.execute("CALL mwem_budget('people', 3, delta := 1e-6)").fetchall()
    assert con.execute(plan.format("1e-6")).fetchall() == [("zCDP, Gaussian noise",)]
    assert con.execute(plan.format("0")).fetchall() == [("pure epsilon, Laplace noise",)]
    for number in range(3):
        con.execute(
            f"CALL mwem_release('people', workload, 0.5, delta := 1e-6, rounds := 2, output := 'o{number}')"
        ).fetchall()
    assert Ledger.of_table("memory", Name("memory", "main", "people")).at(con).balance.spent == 3 * zcdp_rho(
        Fraction(1, 2), Fraction(1, 10**6)
    )


@pytest.mark.parametrize(
    ("epsilon", "delta", "rows", "words"),
    [
        (1.0, 0.0, 1000, None), (20.0, 1e-4, 100, None), (20.5, 0.0, 10, "epsilon (20.5) is above 20"),
        (1e6, 0.0, None, "one row may change the odds by e^1e+06"),
        (1.0, 0.01, 10, "delta (0.01) is above 0.0001"),
        (1.0, 1e-5, 1_000_000, "delta (1e-05) is above 1 / 1,000,000 rows"), (1.0, 1e-5, 1000, None),
        (1.0, 1e-5, None, None),
    ],
)  # fmt: skip
def test_a_nominal_guarantee_is_called_so(epsilon: float, delta: float, rows: int | None, words: str | None) -> None:
    found = nominal(epsilon, delta, rows)
    if words is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith("nominal guarantee: ")
        assert words in found
