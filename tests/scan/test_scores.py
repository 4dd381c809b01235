"""Scores beside the private table: the same rows have the best ones, other rows worse ones; not private, and noted."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import duckdb
import pytest
from conftest import Connection

import mwem_sql
from mwem_sql.errors import OptionError, TableError

TABLE = """
CREATE TABLE t (a INTEGER NOT NULL CHECK (a BETWEEN 0 AND 9), b INTEGER CHECK (b BETWEEN 0 AND 9), c ENUM ('x',
'y') NOT NULL);
INSERT INTO t SELECT i % 10, CASE WHEN i % 50 > 0 THEN i % 10 END, CASE WHEN i % 10 < 4 THEN 'x' ELSE 'y'
END::ENUM ('x', 'y') FROM range(1000) t(i);
CREATE TABLE w AS SELECT unnest([['a', 'c'], ['b', 'c'], ['a', 'b']]) AS group_by;
CALL mwem_release('t', w, 100, output := 'o');
"""


@pytest.fixture(scope="module")
def made() -> Iterator[Connection]:
    with mwem_sql.connect() as con:
        con.execute(TABLE)
        yield con


def found(con: Connection, **options: object) -> dict[str, float]:
    rows = mwem_sql.quality(con, "o", summary=True, **options).to_pylist()  # type: ignore[arg-type]
    return {row["name"]: row["score"] for row in rows}


def test_what_the_release_itself_says_is_private(made: Connection) -> None:
    rows = mwem_sql.quality(made, "o", summary=True).to_pylist()
    assert [row["name"] for row in rows] == [
        "rows in wrong cells",
        "rows in wrong cells, expected",
        "questions measured",
    ]
    assert all(row["note"].startswith("private: ") and row["query"] is None for row in rows)
    assert 0 <= rows[0]["low"] <= rows[0]["score"] <= rows[0]["high"] <= 1
    ((share,),) = made.execute("SELECT measured / queries FROM mwem.releases WHERE release = 1").fetchall()
    assert rows[2]["score"] == pytest.approx(share)
    assert made.execute("SELECT count(*) FROM mwem_quality('o', summary := true)").fetchall() == [(3,)]
    assert "mwem_quality" not in mwem_sql.ledger(made).column("action").to_pylist()


def test_good_rows_have_good_scores(made: Connection) -> None:
    good = found(made, compare="t", target="C")
    assert good["mean L1 distance of pairs"] < 0.05
    assert good["mean difference of correlations"] < 0.02
    assert good["pMSE"] < 0.01
    assert good["accuracy for c, trained on synthetic rows"] > 0.97
    assert good["accuracy for c, trained on true rows"] > 0.97
    assert 0.5 < good["accuracy for c, always the most frequent"] < 0.7
    noted = made.execute("SELECT private, status FROM mwem_ledger() WHERE action = 'mwem_quality'").fetchall()
    assert noted == [(False, "done")]


def test_other_rows_have_worse_scores(made: Connection) -> None:
    made.execute("CALL mwem_release('t', w, 100, output := 'spoiled')")
    made.execute(
        "DELETE FROM spoiled; INSERT INTO spoiled SELECT i % 2, 9 - i // 100, ['y', 'x'][1 + i // 7 % 2] "
        "FROM range(1000) t(i)"
    )
    rows = mwem_sql.quality(made, "spoiled", summary=True, compare="t", target="c").to_pylist()
    poor = {row["name"]: row["score"] for row in rows}
    assert poor["mean L1 distance of pairs"] > 0.5
    assert poor["mean difference of correlations"] > 0.3
    assert poor["pMSE"] > 0.03
    assert poor["accuracy for c, trained on synthetic rows"] < 0.8
    notes = [row["note"] for row in rows if row["name"] != "questions measured" and "wrong cells" not in row["name"]]
    assert all(note.startswith("NOT PRIVATE: ") for note in notes)
    assert any("random_state 0" in note for note in notes) and any("C = 1" in note for note in notes)


def test_without_the_library_one_sentence_says_what_to_install(
    made: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(OptionError,
        match=r"compare \('t'\) needs scikit-learn, which is not installed. "
              r"Hint: pip install 'mwem-sql\[quality\]'"):  # fmt: skip
        found(made, compare="t")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("compare := 't'", "mwem_quality: compare ('t') is for scores. Hint: add summary := true"),
        ("summary := true, target := 'c'", "mwem_quality: target ('c') is for scores. Hint: add compare := "),
        ("summary := 'yes'", "mwem_quality: summary ('yes') must be true or false"),
        ("summary := true, compare := 3", "mwem_quality: compare (3) must be a name"),
        ("summary := true, compare := 't', target := 'd'", "mwem_quality: target ('d') is not a column of o. Hint: "),
        ("summary := true, compare := 't', target := 'a'",
            "mwem_quality: target ('a') is not a list of at most 50 values"),
        ("summary := true, compare := 'w'",
            "mwem_quality: compare ('w') has no column 'a'. Hint: name the table that o was made from"),
    ],
)  # fmt: skip
def test_what_is_refused(made: Connection, call: str, says: str) -> None:
    before = len(mwem_sql.ledger(made))
    with pytest.raises(duckdb.Error) as raised:
        made.execute(f"FROM mwem_quality('o', {call})")
    assert says in str(raised.value)
    assert len(mwem_sql.ledger(made)) == before


def test_a_table_that_was_dropped_is_named(made: Connection) -> None:
    made.execute("CALL mwem_release('t', w, 100, output := 'gone'); DROP TABLE gone")
    with pytest.raises(TableError, match="is no longer there as a table"):
        mwem_sql.quality(made, "gone", summary=True, compare="t")
