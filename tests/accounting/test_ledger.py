"""Caps and spending: exact arithmetic, one winner of a race, and entries that tell what happened."""

from __future__ import annotations

import threading
from collections.abc import Callable
from fractions import Fraction

import duckdb
import pytest
from conftest import Connection, Open
from hypothesis import given, settings
from hypothesis import strategies as st

import mwem_sql
from mwem_sql.accounting.accounts import ledger_of
from mwem_sql.accounting.budget import Budget
from mwem_sql.accounting.caps import Cap, Charge, pure_rho
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.accounting.scales import zcdp_epsilon, zcdp_rho
from mwem_sql.accounting.statement import entries
from mwem_sql.boundary.relations import describe
from mwem_sql.database import metadata
from mwem_sql.database.catalog import Name, Place, is_read_only
from mwem_sql.database.metadata import prepare
from mwem_sql.database.resources import read_sql
from mwem_sql.errors import BudgetError, OutputError

TABLE = Name("memory", "main", "t")


@pytest.fixture
def ledger() -> Ledger:
    return Ledger.of_table("memory", TABLE)


@pytest.fixture
def plain(connect: Open) -> Connection:
    return connect(registered=False)


def charge(epsilon: str | Fraction, delta: str = "0", unit: str | None = None, rows_per_unit: int = 1) -> Charge:
    """As Laplace noise costs, or with delta as Gaussian noise does."""
    budget = Budget(Fraction(epsilon), Fraction(delta))
    rho = zcdp_rho(budget.epsilon, budget.delta) if budget.delta else pure_rho(budget.epsilon)
    return Charge(budget, rho, unit, rows_per_unit)


def cap(epsilon: str | Fraction, delta: str = "0", unit: str | None = None, rows_per_unit: int = 1) -> Cap:
    return Cap(Budget(Fraction(epsilon), Fraction(delta)), unit, rows_per_unit)


def debit(
    con: Connection, ledger: Ledger, epsilon: str, delta: str = "0", unit: tuple[str | None, int] = (None, 1)
) -> str:
    return ledger.debit(con.cursor(), charge(epsilon, delta, *unit), "memory.main.o", action="mwem_release")


def at_once(count: int, act: Callable[[int], object]) -> list[Exception]:
    errors: list[Exception] = []
    ready = threading.Barrier(count)

    def run(number: int) -> None:
        ready.wait()
        try:
            act(number)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_an_entry_is_opened_and_closed(plain: Connection, ledger: Ledger) -> None:
    entry = debit(plain, ledger, "1/3")
    (row,) = entries(plain.cursor())
    assert (row["entry"], row["status"], row["finished"]) == (entry, "open", None)
    assert (row["database_name"], row["schema_name"], row["table_name"], row["output"]) == (
        "memory",
        "main",
        "t",
        "memory.main.o",
    )
    assert (row["epsilon"], row["epsilon_exact"], row["private"]) == (1 / 3, "1/3", True)
    ledger.close(plain.cursor(), entry, "failed")
    (row,) = entries(plain.cursor())
    assert row["status"] == "failed"
    assert row["finished"] >= row["started"]


def test_ten_tenths_fit_one(plain: Connection, ledger: Ledger) -> None:
    ledger.set_cap(plain.cursor(), cap("1"))
    for _ in range(10):
        debit(plain, ledger, "1/10")
    with pytest.raises(BudgetError, match="0 of 1 is left"):
        debit(plain, ledger, "1/1000000000000")
    assert len(entries(plain.cursor())) == 10


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
    assert ledger.balance(con.cursor()).spent == spent
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
    assert ledger.balance(plain.cursor()).spent == spent
    left = own.limit - spent
    with pytest.raises(
        BudgetError,
        match=rf"and {float(left):g} of {float(own.limit):g} is left: enough for epsilon {own.epsilon(left):g} at delta 1e-06",
    ):
        debit(plain, ledger, "1")
    ledger.debit(plain.cursor(), Charge(Budget(Fraction(1)), left), "o", action="mwem_release")
    assert ledger.balance(plain.cursor()).epsilon_left == 0
    assert ledger.balance(plain.cursor()).epsilon_spent == pytest.approx(2, rel=1e-9)
    with pytest.raises(BudgetError):
        ledger.debit(plain.cursor(), Charge(Budget(Fraction(1)), Fraction(1, 10**40)), "o", action="mwem_release")


def test_one_release_of_all_that_a_cap_allows_fits_it(plain: Connection, ledger: Ledger) -> None:
    ledger.set_cap(plain.cursor(), cap("1", "1/1000000"))
    debit(plain, ledger, "1", "1/1000000")


def test_gaussian_releases_go_further_than_their_epsilons(plain: Connection, ledger: Ledger) -> None:
    """What the accountant is for: 30 releases of (0.1, 1e-6) do not cost (3, 3e-5)."""
    ledger.set_cap(plain.cursor(), cap("20", "1/1000000"))
    for _ in range(30):
        debit(plain, ledger, "1/10", "1/1000000")
    spent = ledger.balance(plain.cursor()).epsilon_spent
    assert spent == zcdp_epsilon(30 * zcdp_rho(Fraction(1, 10), Fraction(1, 10**6)), Fraction(1, 10**6))
    assert spent < 30 * 0.1


@pytest.mark.parametrize("given", [("person", 3), (None, 1)])
@pytest.mark.parametrize("other", [("person", 2), ("household", 3), (None, 1), ("person", 3)])
def test_a_cap_fixes_the_unit(
    plain: Connection, ledger: Ledger, given: tuple[str | None, int], other: tuple[str | None, int]
) -> None:
    ledger.set_cap(plain.cursor(), cap("10", "0", *given))
    if given == other:
        debit(plain, ledger, "1", "0", other)
        return
    with pytest.raises(BudgetError, match="cannot be counted under the cap on t, which is for one"):
        debit(plain, ledger, "1", "0", other)
    assert entries(plain.cursor()) == []


def test_a_cap_that_could_not_count_what_was_spent_is_refused(plain: Connection, ledger: Ledger) -> None:
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
    assert ledger.set_cap(plain.cursor(), cap("10", "1/10000000")).epsilon_left > 9


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


def test_failed_and_open_entries_count(plain: Connection, ledger: Ledger) -> None:
    ledger.set_cap(plain.cursor(), cap("2"))
    ledger.close(plain.cursor(), debit(plain, ledger, "1"), "failed")
    debit(plain, ledger, "1")
    with pytest.raises(BudgetError):
        debit(plain, ledger, "1/100")


def test_a_note_spends_nothing(plain: Connection, ledger: Ledger) -> None:
    ledger.note(plain.cursor(), "o", "mwem_compare")
    assert ledger.set_cap(plain.cursor(), cap("1")).spent == 0
    (row,) = entries(plain.cursor())
    assert (row["action"], row["epsilon"], row["private"], row["status"]) == ("mwem_compare", 0.0, False, "done")


def test_what_is_not_private_is_refused_under_a_cap_and_not_counted_without(plain: Connection, ledger: Ledger) -> None:
    ledger.debit(plain.cursor(), charge("1"), "o", action="mwem_release", private=False)
    assert ledger.set_cap(plain.cursor(), cap("1")).spent == 0
    with pytest.raises(
        BudgetError, match=r"a seeded release of t is refused, because the table has a cap\. Hint: leave seed out"
    ):
        ledger.debit(plain.cursor(), charge("1"), "o", action="mwem_release", private=False)


def test_the_last_share_has_one_winner(plain: Connection, ledger: Ledger) -> None:
    ledger.set_cap(plain.cursor(), cap("1"))
    debit(plain, ledger, "1/2")
    cursors = [plain.cursor() for _ in range(8)]
    errors = at_once(8, lambda k: ledger.debit(cursors[k], charge("1/2"), f"o{k}", action="mwem_release"))
    assert [type(error) for error in errors] == [BudgetError] * 7
    assert len(entries(plain.cursor())) == 2


def test_the_last_share_has_one_winner_in_sql(con: Connection) -> None:
    con.execute("CALL mwem_budget('people', 1)").fetchall()
    cursors = [con.cursor() for _ in range(3)]
    errors = at_once(
        3,
        lambda k: (
            cursors[k].execute(f"CALL mwem_release('people', workload, 0.6, rounds := 1, output := 'o{k}')").fetchall()
        ),
    )
    assert len(errors) == 2
    assert all("0.4 of 1 is left" in str(error) for error in errors)
    assert con.execute("SELECT count(*), sum(epsilon) FROM mwem.ledger").fetchall() == [(1, 0.6)]


def test_first_debits_at_once_make_one_ledger(plain: Connection, ledger: Ledger) -> None:
    cursors = [plain.cursor() for _ in range(8)]
    assert at_once(8, lambda k: ledger.debit(cursors[k], charge("1"), f"o{k}", action="mwem_release")) == []
    assert len(entries(plain.cursor())) == 8
    assert plain.execute("FROM mwem.schema_version").fetchall() == [(1,)]


def test_tables_of_one_name_in_two_schemas_have_their_own_caps(plain: Connection, ledger: Ledger) -> None:
    other = Ledger.of_table("memory", Name("memory", "s", "t"))
    ledger.set_cap(plain.cursor(), cap("1"))
    debit(plain, ledger, "1")
    other.set_cap(plain.cursor(), cap("1"))
    debit(plain, other, "1")
    with pytest.raises(BudgetError):
        debit(plain, ledger, "1")


def test_an_open_entry_whose_release_exists_is_done(con: Connection) -> None:
    """The process may have died after storing and before writing so."""
    mwem_sql.release(con, "people", "workload", 1, rounds=1)
    mwem_sql.release(con, "people", "workload", 1, rounds=1, output="lost")
    con.execute("UPDATE mwem.ledger SET status = 'open', finished = NULL")
    con.execute("DELETE FROM mwem.releases WHERE table_name = 'lost'")
    assert con.execute("SELECT output, status FROM mwem_ledger()").fetchall() == [
        ("memory.main.people_synthetic", "done"), ("memory.main.lost", "open"),
    ]  # fmt: skip


def test_where_the_ledger_is(connect: Open, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("ledger") / "a.duckdb"
    con = connect(path, registered=False)
    con.execute("CREATE TABLE t (x INTEGER)")
    con.close()
    con = connect(registered=False)
    con.execute(f"ATTACH '{path}' AS a (READ_ONLY); ATTACH ':memory:' AS b")
    assert is_read_only(con, "a")
    assert not is_read_only(con, "b")
    con.execute("CREATE TABLE b.t (x INTEGER)")
    here = Place("memory", "main")
    first, second = describe(con, "a.t", here, "f"), describe(con, "b.t", here, "f")
    assert ledger_of(con, second, here, "f").home == "b"
    assert ledger_of(con, first, Place("b", "main"), "f").home == "b"
    with pytest.raises(OutputError, match=r"f: default database \(a\) cannot be written, and neither can a"):
        ledger_of(con, first, Place("a", "main"), "f")
    # There the entry names the database, so that tables of the same name are kept apart.
    debit(con, ledger_of(con, first, Place("b", "main"), "f"), "1")
    debit(con, ledger_of(con, second, Place("b", "main"), "f"), "1")
    assert con.execute("SELECT database_name FROM b.mwem.ledger ORDER BY 1").fetchall() == [("",), ("a",)]
    assert [row["database_name"] for row in entries(con)] == ["a", "b"]
    # Its account is that of the file: under another alias, and with another default database, it is the same.
    con.execute(f"DETACH a; ATTACH '{path}' AS other (READ_ONLY)")
    again = ledger_of(con, describe(con, "other.t", here, "f"), here, "f")
    assert (again.home, again.balance(con).spent) == ("b", 1)


# What the curator reads.


def test_spent_and_left_of_every_table_in_every_database(plain: Connection, ledger: Ledger) -> None:
    plain.execute("ATTACH ':memory:' AS b")
    other = Ledger.of_table("b", Name("b", "main", "t"))
    ledger.set_cap(plain.cursor(), cap("3"))
    debit(plain, ledger, "1/2")
    debit(plain, ledger, "1")
    other.set_cap(plain.cursor(), cap("2"))
    debit(plain, other, "2")
    seen = [
        (row["database_name"], row["epsilon"], row["epsilon_spent"], row["epsilon_left"], row["intact"])
        for row in entries(plain.cursor())
    ]
    assert seen == [("memory", 0.5, 1.5, 1.5, True), ("memory", 1.0, 1.5, 1.5, True), ("b", 2.0, 2.0, 0.0, True)]
    assert all(row["who"] for row in entries(plain.cursor()))


def test_a_changed_cap_is_logged(plain: Connection, ledger: Ledger) -> None:
    ledger.set_cap(plain.cursor(), cap("1"))
    assert entries(plain.cursor()) == []
    debit(plain, ledger, "1")
    ledger.set_cap(plain.cursor(), cap("3"))
    first, second = entries(plain.cursor())
    assert first["action"] == "mwem_release"
    assert (second["action"], second["table_name"], second["private"], second["epsilon"]) == (
        "mwem_budget: epsilon 1.0 to 3.0",
        "t",
        False,
        0.0,
    )
    assert second["who"]
    assert second["intact"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE mwem.ledger SET epsilon_exact = '1/1000', epsilon = 0.001 WHERE epsilon = 1", "UPDATE mwem.ledger SET status = 'failed'",
        "UPDATE mwem.ledger SET table_name = 'other'", "DELETE FROM mwem.ledger WHERE epsilon = 1", "DELETE FROM mwem.ledger",
        "DELETE FROM mwem.journal WHERE number = 2", "UPDATE mwem.budgets SET epsilon_exact = '1000'", "DELETE FROM mwem.budgets",
        "UPDATE mwem.journal SET event = replace(event, '1/2', '1/9') WHERE number = 3", "UPDATE mwem.journal SET number = number + 1 WHERE number = 6",
        "UPDATE mwem.ledger SET who = 'somebody else'", "UPDATE mwem.ledger SET private = false", "DELETE FROM mwem.journal", "DROP TABLE mwem.journal",
        "INSERT INTO mwem.ledger SELECT * REPLACE ('forged' AS entry) FROM mwem.ledger LIMIT 1",
    ],
)  # fmt: skip
def test_what_is_changed_by_hand_is_seen(plain: Connection, ledger: Ledger, change: str) -> None:
    ledger.set_cap(plain.cursor(), cap("3"))
    ledger.close(plain.cursor(), debit(plain, ledger, "1/2"), "done")
    ledger.close(plain.cursor(), debit(plain, ledger, "1"), "done")
    assert all(row["intact"] for row in entries(plain.cursor()))
    plain.execute(change)
    assert not all(row["intact"] for row in entries(plain.cursor()))


def test_nothing_on_the_surface_changes_what_was_written(con: Connection) -> None:
    """Append-only: of an entry, only its status changes, from open, once."""
    before: list[dict[str, object]] = []
    for call in (
        "CALL mwem_release('people', workload, 1, rounds := 1)", "CALL mwem_budget('people', 2)", "CALL mwem_budget('people', 3)",
        "CALL mwem_release('people', workload, 1, rounds := 1)", "CALL mwem_release('people', workload, 1, rounds := 1, version := '2')",
        "FROM mwem_compare('people', 'people_synthetic', workload)", "FROM mwem_suggest_domain('people')", "DROP TABLE people",
    ):  # fmt: skip
        con.execute(call).fetchall()
        rows = entries(con.cursor())
        assert all(row["intact"] for row in rows)
        fixed = [
            {name: row[name] for name in ("entry", "table_name", "epsilon", "action", "status", "started")}
            for row in rows
        ]
        assert fixed[: len(before)] == before
        before = fixed
    assert len(before) == 5


@pytest.mark.parametrize("script", ["ledger.sql", "metadata.sql"])
def test_our_tables_appear_all_at_once(plain: Connection, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Else a process that is killed here leaves some of them."""
    monkeypatch.setattr(metadata, "read_sql", lambda name: read_sql(name) + "SELECT error('killed')")
    with pytest.raises(duckdb.Error, match="killed"):
        prepare(plain, "memory", script)
    assert plain.execute("SELECT count(*) FROM duckdb_schemas() WHERE schema_name = 'mwem'").fetchall() == [(0,)]


def test_a_file_from_before_the_journal(plain: Connection, ledger: Ledger) -> None:
    plain.execute(
        """CREATE SCHEMA mwem;
           CREATE TABLE mwem.ledger (entry VARCHAR PRIMARY KEY, database_name VARCHAR NOT NULL, schema_name VARCHAR NOT NULL, table_name VARCHAR NOT NULL,
               output VARCHAR, epsilon DOUBLE NOT NULL, delta DOUBLE NOT NULL, epsilon_exact VARCHAR NOT NULL, delta_exact VARCHAR NOT NULL,
               private BOOLEAN NOT NULL, action VARCHAR NOT NULL, status VARCHAR NOT NULL, started TIMESTAMP NOT NULL, finished TIMESTAMP);
           CREATE TABLE mwem.budgets (database_name VARCHAR NOT NULL, schema_name VARCHAR NOT NULL, table_name VARCHAR NOT NULL, epsilon DOUBLE NOT NULL,
               delta DOUBLE NOT NULL, epsilon_exact VARCHAR NOT NULL, delta_exact VARCHAR NOT NULL, debits BIGINT NOT NULL,
               PRIMARY KEY (schema_name, table_name, database_name));
           INSERT INTO mwem.ledger VALUES ('old', '', 'main', 't', 'o', 1, 0, '1', '0', true, 'mwem_release', 'done', '2026-01-01', '2026-01-01');
           INSERT INTO mwem.budgets VALUES ('', 'main', 't', 2, 0, '2', '0', 1)"""
    )
    (row,) = entries(plain.cursor())
    assert (row["epsilon_left"], row["intact"]) == (1.0, None)
    with pytest.raises(BudgetError, match="1 of 2 is left"):
        debit(plain, ledger, "3/2")
    debit(plain, ledger, "1")
    assert [row["intact"] for row in entries(plain.cursor())] == [None, True]


# Names.


def test_a_cap_follows_a_table_by_name_and_a_renamed_one_by_its_mark(con: Connection) -> None:
    call = "CALL mwem_release('{}', w, {}, output := '{}')"
    con.execute(
        "CREATE TABLE people_domain AS SELECT 'age' AS attribute, 0 AS low, 99 AS high; CREATE TABLE w AS SELECT 'age > 40' AS predicate"
    )
    con.execute("CALL mwem_budget('people', 1.5)").fetchall()
    con.execute(call.format("people", 1, "a")).fetchall()
    con.execute("CREATE OR REPLACE TABLE people AS FROM people LIMIT 3")  # its mark is gone, its name is not
    with pytest.raises(duckdb.Error, match=r"does not fit the cap on people: 0\.5 of 1\.5 is left"):
        con.execute(call.format("people", 1, "b"))
    con.execute(call.format("people", 0.1, "b")).fetchall()
    con.execute(
        "ALTER TABLE people RENAME TO crowd; ALTER TABLE people_domain RENAME TO crowd_domain; ALTER TABLE crowd ADD COLUMN more INTEGER"
    )
    con.execute("CREATE TABLE people AS SELECT age FROM crowd; CREATE TABLE others AS SELECT age FROM crowd")
    for table in ("crowd", "people"):
        with pytest.raises(duckdb.Error, match=rf"does not fit the cap on {table}: 0\.4 of 1\.5 is left"):
            con.execute(f"CALL mwem_release('{table}', w, 1, output := 'c', domain := 'crowd_domain')")
    with pytest.raises(
        duckdb.Error,
        match=r"table \(memory\.main\.others\) has no cap, and database memory has tables with one, whose rows it may hold\. Hint: have the curator decide",
    ):
        con.execute("CALL mwem_release('others', w, 0.1, domain := 'crowd_domain')")
    assert con.execute("SELECT table_name, epsilon_spent FROM mwem_budget('crowd', 3)").fetchall() == [
        ("crowd", pytest.approx(1.1))
    ]
    assert con.execute("SELECT epsilon FROM mwem_release('crowd', w, 1)").fetchall() == [(1.0,)]
    assert con.execute(
        "SELECT table_name, epsilon_spent, epsilon_left FROM mwem_ledger() WHERE private"
    ).fetchall() == [(name, pytest.approx(2.1), pytest.approx(0.9)) for name in ("people", "people", "crowd")]
    con.execute("CALL mwem_budget('others', 1)").fetchall()
    con.execute("CALL mwem_release('others', w, 1, domain := 'crowd_domain')").fetchall()
    assert con.execute("SELECT epsilon_spent FROM mwem_ledger() WHERE table_name = 'others'").fetchall() == [(1.0,)]


@pytest.mark.skipif(duckdb.__version__ < "2", reason="DuckDB 1.x does not mind")
def test_the_first_release_of_a_table_alters_it(con: Connection) -> None:
    """DuckDB 2.0 lets no transaction commit that wrote to a table which another has altered since, if only its comment; later releases write none."""
    call = "CALL mwem_release('people', workload, 1, rounds := 1, output := '{}')"
    con.execute("BEGIN; INSERT INTO people SELECT * FROM people LIMIT 1")
    con.execute(call.format("a")).fetchall()
    with pytest.raises(duckdb.Error, match="Failed to commit"):
        con.execute("COMMIT")
    con.execute("BEGIN; INSERT INTO people SELECT * FROM people LIMIT 1")
    con.execute(call.format("b")).fetchall()
    con.execute("COMMIT")
    assert con.execute("SELECT count(*) FROM people").fetchall() == [(401,)]
    assert con.execute("SELECT count(*) FROM mwem.ledger WHERE status = 'done'").fetchall() == [(2,)]


def test_a_mark_that_nobody_knows_is_refused(con: Connection) -> None:
    """Somebody dropped the schema mwem, and the budget would begin anew; or the table comes from another file."""
    con.execute("COMMENT ON TABLE people IS 'our people'")
    con.execute("CALL mwem_release('people', workload, 1, rounds := 1)").fetchall()
    ((comment,),) = con.execute("SELECT comment FROM duckdb_tables() WHERE table_name = 'people'").fetchall()
    ((account,),) = con.execute("SELECT DISTINCT account FROM mwem.names").fetchall()
    assert comment == f"our people [mwem account {account}]"
    con.execute("DROP SCHEMA mwem CASCADE; DROP TABLE people_synthetic")
    with pytest.raises(
        duckdb.Error,
        match=rf"table \(memory\.main\.people\) carries the account {account}, which the ledger in database \(memory\) does not know",
    ):
        con.execute("CALL mwem_release('people', workload, 1, rounds := 1)")


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM mwem.ledger", "DELETE FROM mwem.ledger WHERE epsilon = 0.5", "DELETE FROM mwem.budgets", "UPDATE mwem.budgets SET epsilon_exact = '100'",
        "UPDATE mwem.ledger SET epsilon_exact = '1/100'", "DELETE FROM mwem.names", "UPDATE mwem.names SET account = 'ffff'", "DELETE FROM mwem.journal",
        "INSERT INTO mwem.names VALUES ('', 'main', 'another', 'ffff')", "UPDATE mwem.ledger SET account = 'ffff'", "DROP TABLE mwem.journal",
    ],
)  # fmt: skip
def test_where_ledger_and_journal_differ_nothing_is_debited(con: Connection, change: str) -> None:
    con.execute("CALL mwem_budget('people', 1)").fetchall()
    con.execute("CALL mwem_release('people', workload, 0.5, rounds := 1)").fetchall()
    con.execute("COMMENT ON TABLE people IS NULL")
    con.execute(change)
    with pytest.raises(
        duckdb.Error,
        match=r"ledger: ledger and journal in the schema mwem of database \(memory\) differ, so nothing is debited\. Hint: rows with intact = false",
    ):
        con.execute("CALL mwem_release('people', workload, 0.1, rounds := 1, output := 'o')")
    with pytest.raises(duckdb.Error, match="differ, so nothing is debited"):
        con.execute("CALL mwem_budget('people', 9)")


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


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE people RENAME TO crowd; CREATE VIEW people AS FROM crowd",
        "ALTER TABLE people RENAME TO crowd; ALTER TABLE crowd ADD COLUMN more INTEGER; CREATE VIEW people AS SELECT * EXCLUDE (more) FROM crowd",
        "ALTER TABLE people RENAME TO crowd; CREATE VIEW middle AS FROM crowd; CREATE VIEW people AS FROM middle",
        "ALTER TABLE people RENAME TO crowd; CREATE VIEW people AS SELECT 1 AS other; CREATE VIEW v AS FROM crowd",
        "CREATE TABLE another AS FROM people LIMIT 0; CALL mwem_budget('another', 9); DROP TABLE another; ALTER TABLE people RENAME TO v",
    ],
)
def test_a_view_or_another_cap_under_the_old_name_is_no_way_around_it(con: Connection, change: str) -> None:
    con.execute("CALL mwem_budget('people', 0.5)").fetchall()
    con.execute(change)
    con.execute(
        "CREATE TABLE w AS SELECT 'age > 40' AS predicate; CREATE TABLE d AS SELECT 'age' AS attribute, 0 AS low, 99 AS high"
    )
    asked = (
        "v"
        if con.execute("SELECT count(*) FROM duckdb_columns() WHERE table_name = 'v'").fetchall()[0][0]
        else "people"
    )
    with pytest.raises(duckdb.Error, match=r"does not fit the cap on \w+: 0\.5 of 0\.5 is left"):
        con.execute(f"CALL mwem_release('{asked}', w, 1, domain := 'd')")
    con.execute(f"CALL mwem_release('{asked}', w, 0.4, domain := 'd', rounds := 1, rows := 5)").fetchall()
    assert con.execute("SELECT epsilon_left, intact FROM mwem_ledger() WHERE private").fetchall() == [
        (pytest.approx(0.1), True)
    ]


@pytest.mark.parametrize(
    "before",
    ['CREATE SCHEMA "MWEM"', "ATTACH ':memory:' AS mwem", "ATTACH ':memory:' AS mwem; CREATE SCHEMA mwem.mwem"],
)
def test_a_cap_holds_whatever_else_is_called_mwem(con: Connection, before: str) -> None:
    con.execute(before)
    con.execute("CALL mwem_budget('people', 1.5)").fetchall()
    con.execute("CALL mwem_release('people', workload, 1, rounds := 1, rows := 5)").fetchall()
    assert con.execute("SELECT reused FROM mwem_release('people', workload, 1, rounds := 1, rows := 5)").fetchall() == [
        (True,)
    ]
    with pytest.raises(duckdb.Error, match=r"0\.5 of 1\.5 is left"):
        con.execute("CALL mwem_release('people', workload, 1, rounds := 1, output := 'o')")
    assert con.execute("SELECT database_name, status, epsilon_left, intact FROM mwem_ledger()").fetchall() == [
        ("memory", "done", 0.5, True)
    ]
    assert con.execute("SELECT mwem_count('people_synthetic', 'true')").fetchall()[0][0] > 0


def test_a_database_may_be_called_mwem(connect: Open, tmp_path_factory: pytest.TempPathFactory) -> None:
    con = connect(tmp_path_factory.mktemp("name") / "mwem.duckdb")
    con.execute("CREATE TABLE t (x BOOLEAN NOT NULL); CREATE TABLE w AS SELECT 'x' AS predicate")
    con.execute("CALL mwem_release('t', w, 1, rounds := 1, rows := 5)").fetchall()
    assert con.execute("SELECT output, intact FROM mwem_ledger()").fetchall() == [("mwem.main.t_synthetic", True)]


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
           CREATE TABLE renamed_domain AS SELECT 'age' AS attribute, 0 AS low, 99 AS high; CREATE TABLE made_up_domain AS FROM renamed_domain"""
    )
    assert con.execute(
        "SELECT unit, rows_per_unit FROM mwem_budget('people', 10, unit := 'CITY', rows_per_unit := 2)"
    ).fetchall() == [("city", 2)]
    con.execute("CALL mwem_release('renamed', w, 1, unit := 'person', rows_per_unit := 2)").fetchall()
    for wrong in (
        "'made_up', w, 1, unit := 'city', rows_per_unit := 2",
        "'people', w, 1",
        "'people', w, 1, unit := 'city'",
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
    assert Ledger.of_table("memory", Name("memory", "main", "people")).balance(con).spent == 3 * zcdp_rho(
        Fraction(1, 2), Fraction(1, 10**6)
    )


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE mwem.ledger SET epsilon_exact = 'abc'", "ALTER TABLE mwem.ledger DROP COLUMN epsilon_exact", "UPDATE mwem.budgets SET epsilon_exact = '1/0'",
        "ALTER TABLE mwem.ledger ALTER COLUMN started TYPE VARCHAR", "ALTER TABLE mwem.ledger ALTER COLUMN epsilon TYPE VARCHAR",
        "ALTER TABLE mwem.ledger ALTER COLUMN private TYPE INTEGER", "ALTER TABLE mwem.ledger ALTER COLUMN who TYPE VARCHAR[] USING [who]",
        "ALTER TABLE mwem.journal DROP COLUMN checksum",
    ],
)  # fmt: skip
def test_a_damaged_ledger_is_said_to_be_damaged(con: Connection, ledger: Ledger, change: str) -> None:
    ledger.set_cap(con.cursor(), cap("3"))
    debit(con, ledger, "1")
    con.execute(change)
    with pytest.raises(
        duckdb.Error,
        match=r"ledger: the tables ledger, budgets, names and journal .* \(memory\) cannot be read\. Hint: they were changed by hand",
    ):
        con.execute("FROM mwem_ledger()")
