"""Functions whose columns depend on their arguments: a refusal is read whatever is taken of them, and rows stay
rows."""

from __future__ import annotations

import duckdb
import pytest
from conftest import Connection

import mwem_sql
from mwem_sql.releases.sample import Sampler

BAD = (
    "mwem_quantile('nobody', 'age', 0.5)", "mwem_quantile('people_synthetic', 'age', 7)",
    "mwem_sample('people_synthetic', rows := -1)",
    "mwem_sample('nobody')", "mwem_weights('nobody', ['age'])",
)  # fmt: skip
OUTER = ("FROM {}", "SELECT count(*) FROM {}", "SELECT 1 FROM {}", "SELECT * FROM {} ORDER BY ALL LIMIT 1")


@pytest.fixture(scope="module")
def released(shared: Connection) -> Connection:
    shared.execute("CALL mwem_release('people', workload, 1, rounds := 2)").fetchall()
    return shared


def test_a_refusal_is_raised_whatever_the_outer_query_takes(released: Connection) -> None:
    for call in BAD:
        for outer in OUTER:
            with pytest.raises(duckdb.Error, match=r"^Invalid Input Error: mwem_\w+: .*\. Hint: "):
                released.execute(outer.format(call)).fetchall()


def test_a_column_that_is_named_does_not_hide_a_refusal(released: Connection) -> None:
    for statement, says in (
        ("SELECT answer FROM mwem_quantile('nobody', 'age', 0.5) WHERE share > 0.1", "'nobody'. is not a release"),
        (
            "SELECT age FROM mwem_sample('people_synthetic', given := 'agee > 1') WHERE sex = 'F'",
            "people_synthetic was made without agee",
        ),
        ("SELECT age FROM mwem_sample('nobody')", "mwem_sample: output .'nobody'. is not a release"),
    ):
        with pytest.raises(duckdb.Error, match=says):
            released.execute(statement).fetchall()


def test_rows_are_drawn_once_however_many_columns_there_are(
    released: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    draw = Sampler.draw

    def counted(self: Sampler) -> object:
        drawn.append(self)
        return draw(self)

    monkeypatch.setattr(Sampler, "draw", counted)
    released.execute(
        "CREATE TABLE rows_of AS FROM mwem_sample('people_synthetic', rows := 3000, given := 'sex = ''F'' OR age > 50')"
    )
    assert len(drawn) == 1
    assert released.execute("SELECT count(*), bool_and(sex = 'F' OR age > 50) FROM rows_of").fetchall() == [
        (3000, True)
    ]


def test_parameters(released: Connection) -> None:
    assert len(released.execute("FROM mwem_quantile(?, ?, ?)", ["people_synthetic", "age", [0.1, 0.9]]).fetchall()) == 2
    assert len(released.execute("FROM mwem_sample(?, rows := ?)", ["people_synthetic", 4]).fetchall()) == 4


def test_an_attribute_may_be_called_weight(con: Connection) -> None:
    con.execute(
        "CREATE TABLE t (weight INTEGER NOT NULL CHECK (weight BETWEEN 0 AND 1)); INSERT INTO t VALUES (0), (1)"
    )
    con.execute("CREATE TABLE w AS FROM mwem_marginals('t', 1)")
    con.execute("CALL mwem_release('t', w, 1)").fetchall()
    in_sql = con.execute("FROM mwem_weights('t_synthetic', 'weight')").fetchall()
    assert [row[0] for row in in_sql] == [0, 1]
    found = mwem_sql.weights(con, "t_synthetic", "weight")
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == in_sql
