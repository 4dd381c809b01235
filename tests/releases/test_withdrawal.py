"""Withdrawn releases: the mark goes where the release goes, the ledger notes it where it is at hand, and nothing is
half done.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Connection, Open
from ledgers import at_once

import mwem_sql
from mwem_sql.errors import OutputError, TableError
from mwem_sql.releases import withdrawal
from mwem_sql.workload import Workload

ASKED = Workload.from_predicates(["age > 40", "member"])
SAYS = r"was withdrawn on \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC by \S+: too old\. Hint: use it no more"


def noted(con: Connection) -> list[tuple[str, str, float, str | None]]:
    rows = mwem_sql.ledger(con).to_pylist()
    return [(row["action"], row["status"], row["epsilon"], row["reason"]) for row in rows]


def test_a_release_in_hand_answers_no_more(con: Connection) -> None:
    made = mwem_sql.release(con, "people", ASKED, 1)
    assert made.answer(ASKED).num_rows == 2
    (row,) = mwem_sql.withdraw(con, made.output, "too old").to_pylist()
    assert (row["output"], row["release"], row["reason"], row["noted"]) == (made.output, 1, "too old", True)
    with pytest.raises(OutputError, match=f"^mwem_answer: output .* {SAYS}"):
        made.answer(ASKED)
    assert noted(con) == [("mwem_release", "done", 1.0, None), ("mwem_withdraw", "done", 0.0, "too old")]


def test_an_exported_release_is_withdrawn_by_itself(con: Connection, connect: Open, tmp_path: Path) -> None:
    """There is no ledger beside it. What was exported before does not know of what is withdrawn later, and the other
    way round.
    """
    mwem_sql.release(con, "people", ASKED, 1)
    mwem_sql.export(con, "people_synthetic", tmp_path / "r.duckdb")
    away = connect(tmp_path / "r.duckdb")
    (row,) = mwem_sql.withdraw(away, "people_synthetic", "too old").to_pylist()
    assert row["noted"] is False
    assert noted(away) == []
    away.close()
    again = connect(tmp_path / "r.duckdb")
    with pytest.raises(OutputError, match=SAYS):
        mwem_sql.count(again, "people_synthetic", "member")
    assert mwem_sql.count(con, "people_synthetic", "member") > 0


def test_the_mark_goes_with_the_release(con: Connection, connect: Open, tmp_path: Path) -> None:
    mwem_sql.release(con, "people", ASKED, 1)
    mwem_sql.withdraw(con, "people_synthetic", "too old")
    con.execute(f"ATTACH '{tmp_path / 'copy.duckdb'}' AS copied; COPY FROM DATABASE memory TO copied; DETACH copied")
    copied = connect(tmp_path / "copy.duckdb", read_only=True)
    with pytest.raises(OutputError, match=SAYS):
        mwem_sql.count(copied, "people_synthetic", "member")
    with pytest.raises(OutputError, match=r"^mwem_withdraw: output \(copy\.main\.people_synthetic\) is in a database "
                                          r"that cannot be written\. Hint: open it writable"):  # fmt: skip
        mwem_sql.withdraw(copied, "people_synthetic", "once more")


def test_output_and_ledger_in_two_databases(con: Connection, tmp_path: Path) -> None:
    con.execute(f"ATTACH '{tmp_path / 'public.duckdb'}' AS public")
    mwem_sql.release(con, "people", ASKED, 1, output="public.main.o")
    (row,) = mwem_sql.withdraw(con, "public.main.o", "too old").to_pylist()
    assert row["noted"] is True
    assert noted(con)[-1] == ("mwem_withdraw", "done", 0.0, "too old")
    assert con.execute("SELECT release, reason FROM public.mwem.withdrawals").fetchall() == [(1, "too old")]
    with pytest.raises(OutputError, match=SAYS):
        mwem_sql.quality(con, "public.main.o")


def test_a_table_that_came_later_is_not_spoken_of(con: Connection) -> None:
    mwem_sql.release(con, "people", ASKED, 1)
    con.execute("DROP TABLE people_synthetic; CREATE TABLE people_synthetic (mine INTEGER)")
    mwem_sql.withdraw(con, "people_synthetic", "too old")
    assert con.execute("SELECT comment FROM duckdb_tables() WHERE table_name = 'people_synthetic'").fetchall() == [
        (None,)
    ]


def test_of_two_at_once_one_withdraws(con: Connection) -> None:
    mwem_sql.release(con, "people", ASKED, 1)
    cursors = [con.cursor() for _ in range(3)]
    errors = at_once(3, lambda k: mwem_sql.withdraw(cursors[k], "people_synthetic", "too old"))
    assert [type(error) for error in errors] == [OutputError] * 2
    assert all("was withdrawn already, on " in str(error) for error in errors)
    assert [action for action, *_ in noted(con)] == ["mwem_release", "mwem_withdraw"]


def test_what_fails_is_noted_as_failed_and_withdraws_nothing(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    mwem_sql.release(con, "people", ASKED, 1)

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(withdrawal, "insert", full)
    with pytest.raises(OSError, match="no space left"):
        mwem_sql.withdraw(con, "people_synthetic", "too old")
    monkeypatch.undo()
    assert noted(con)[-1] == ("mwem_withdraw", "failed", 0.0, "too old")
    assert mwem_sql.count(con, "people_synthetic", "member") > 0
    mwem_sql.withdraw(con, "people_synthetic", "too old")


def test_a_note_is_no_charge(con: Connection) -> None:
    """Neither a cap nor what it counts by changes: a note has no unit."""
    con.execute("ALTER TABLE people ADD COLUMN person INTEGER; UPDATE people SET person = rowid")
    mwem_sql.release(con, "people", ASKED, 1, unit="person", rows_per_unit=1)
    mwem_sql.withdraw(con, "people_synthetic", "too old")
    (row,) = mwem_sql.budget(con, "people", 3, unit="person").to_pylist()
    assert (row["epsilon_spent"], row["epsilon_left"], row["seeded"], row["also_charged_as"]) == (1.0, 2.0, 0, None)
    assert all(row["intact"] for row in mwem_sql.ledger(con).to_pylist())
    mwem_sql.release(con, "people", ASKED, 1, unit="person", rows_per_unit=1, version="2")


@pytest.mark.parametrize(
    "spoil",
    ["DROP TABLE mwem.withdrawals", "UPDATE mwem.withdrawals SET reason = NULL",
        "ALTER TABLE mwem.withdrawals DROP COLUMN who", ("ALTER TABLE mwem.withdrawals ALTER COLUMN withdrawn TYPE "
                                                        "VARCHAR")],
)  # fmt: skip
def test_a_mark_that_was_changed_by_hand(con: Connection, spoil: str) -> None:
    mwem_sql.release(con, "people", ASKED, 1)
    mwem_sql.withdraw(con, "people_synthetic", "too old")
    con.execute("ALTER TABLE mwem.withdrawals ALTER COLUMN reason DROP NOT NULL")
    con.execute(spoil)
    with pytest.raises(TableError, match=r"cannot be read\. Hint: it was changed by hand"):
        mwem_sql.count(con, "people_synthetic", "member")
