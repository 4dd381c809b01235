"""The SQL functions in Python give what SQL gives."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from conftest import Connection, Open

import mwem_sql
from mwem_sql import Workload
from mwem_sql.errors import BudgetError, OptionError, OutputError, TableError

ASKED = Workload.from_predicates(["age > 40", "member"])


@pytest.fixture(scope="module")
def released(shared: Connection) -> Connection:
    shared.execute("CALL mwem_release('people', workload, 1, rounds := 2)").fetchall()
    return shared


def in_sql(con: Connection, call: str) -> pa.Table:
    return con.sql(f"FROM {call}").to_arrow_table()


def same(found: pa.Table, expected: pa.Table) -> None:
    assert found.to_pylist() == expected.to_pylist()
    assert found.schema.names == expected.schema.names
    assert found.schema.types == expected.schema.types


def test_plan(shared: Connection) -> None:
    same(
        mwem_sql.plan(shared, "people", "workload", 1, rounds=2),
        in_sql(shared, "mwem_plan('people', workload, 1, rounds := 2)"),
    )


def test_domain(con: Connection) -> None:
    same(mwem_sql.domain(con, "people"), in_sql(con, "mwem_domain('people')"))
    con.execute("CREATE TABLE d AS SELECT 'age' AS attribute, '0' AS low, '9' AS high")
    same(mwem_sql.domain(con, "people", domain="d"), in_sql(con, "mwem_domain('people', domain := 'd')"))


def test_suggest_domain(con: Connection) -> None:
    same(mwem_sql.suggest_domain(con, "people"), in_sql(con, "mwem_suggest_domain('people')"))
    assert mwem_sql.ledger(con).column("action").to_pylist() == ["mwem_suggest_domain"] * 2


def test_builders(con: Connection) -> None:
    same(mwem_sql.marginals(con, "people", 2), in_sql(con, "mwem_marginals('people', 2)"))
    same(mwem_sql.ranges(con, "people", "age", 3, seed=1), in_sql(con, "mwem_ranges('people', 'age', 3, seed := 1)"))
    same(
        mwem_sql.ranges(con, "people", ["age"], 3, seed=1), in_sql(con, "mwem_ranges('people', ['age'], 3, seed := 1)")
    )
    same(mwem_sql.parities(con, "people", 2), in_sql(con, "mwem_parities('people', 2)"))
    same(
        mwem_sql.parities(con, "people", 1, columns=("sex",)),
        in_sql(con, "mwem_parities('people', 1, columns := 'sex')"),
    )
    # What they give is a workload.
    assert mwem_sql.release(con, "people", mwem_sql.marginals(con, "people", 2), 1, rounds=1).queries == 6


def test_answer_count_weights(released: Connection) -> None:
    same(
        mwem_sql.answer(released, "people_synthetic", "workload"),
        in_sql(released, "mwem_answer('people_synthetic', workload)"),
    )
    same(
        mwem_sql.weights(released, "people_synthetic", ["age", "sex"]),
        in_sql(released, "mwem_weights('people_synthetic', ['age', 'sex'])"),
    )
    same(
        mwem_sql.weights(released, "people_synthetic", "sex, member"),
        in_sql(released, "mwem_weights('people_synthetic', 'sex, member')"),
    )
    ((expected,),) = released.execute("SELECT mwem_count('people_synthetic', 'age > 40')").fetchall()
    assert mwem_sql.count(released, "people_synthetic", "age > 40") == expected


def test_average_quantile_sample(released: Connection) -> None:
    given = "sex = 'F' AND age > 20"
    quoted = given.replace("'", "''")
    assert (
        mwem_sql.average(released, "people_synthetic", "age", given=given)
        == (in_sql(released, f"mwem_average('people_synthetic', 'age', given := '{quoted}')").to_pylist()[0])
    )
    same(
        mwem_sql.quantile(released, "people_synthetic", "age", (0.25, 0.5), given=given, confidence=0.9),
        in_sql(
            released, f"mwem_quantile('people_synthetic', 'age', [0.25, 0.5], given := '{quoted}', confidence := 0.9)"
        ),
    )
    same(
        mwem_sql.quantile(released, "people_synthetic", "sex", 0.5),
        in_sql(released, "mwem_quantile('people_synthetic', 'sex', 0.5)"),
    )
    same(
        mwem_sql.sample(released, "people_synthetic", rows=20, given=given, seed=3),
        in_sql(released, f"mwem_sample('people_synthetic', rows := 20, given := '{quoted}', seed := 3)"),
    )


def test_withdraw(shared: Connection) -> None:
    shared.execute("CALL mwem_release('people', workload, 1, rounds := 1, output := 'gone')").fetchall()
    found = mwem_sql.withdraw(shared, "gone", "a test")
    assert found.schema.names == in_sql_names(shared, "mwem_withdraw('gone', 'again')")
    with pytest.raises(OutputError, match=r"^mwem_sample: output \(memory\.main\.gone\) was withdrawn"):
        mwem_sql.sample(shared, "gone")


def in_sql_names(con: Connection, call: str) -> list[str]:
    return [row[0] for row in con.execute(f"DESCRIBE FROM {call}").fetchall()]


def test_compare(released: Connection) -> None:
    found = mwem_sql.compare(released, "people", "people_synthetic", ASKED)
    assert found.column("true_answer").to_pylist() == [236.0, 200.0]
    same(
        mwem_sql.compare(released, "people", "people_synthetic", "workload"),
        in_sql(released, "mwem_compare('people', 'people_synthetic', workload)"),
    )


def test_budget_and_ledger(con: Connection) -> None:
    found = mwem_sql.budget(con, "people", "0.5", delta=1e-9).to_pylist()
    assert found == in_sql(con, "mwem_budget('people', 0.5, delta := 1e-9)").to_pylist()
    assert (found[0]["epsilon"], found[0]["delta"], found[0]["epsilon_left"]) == (0.5, 1e-9, 0.5)
    with pytest.raises(BudgetError):
        mwem_sql.release(con, "people", ASKED, 1)
    mwem_sql.release(con, "people", ASKED, 0.05)
    same(mwem_sql.ledger(con), in_sql(con, "mwem_ledger()"))


def test_they_need_no_registration(connect: Open) -> None:
    con = connect(registered=False)
    con.execute("CREATE TABLE t (x BOOLEAN NOT NULL)")
    assert mwem_sql.domain(con, "t").column("attribute").to_pylist() == ["x"]


def test_sentences_are_those_of_sql(shared: Connection) -> None:
    with pytest.raises(OptionError, match=r"^mwem_marginals: order \(9\) must be from 1 to 4"):
        mwem_sql.marginals(shared, "people", 9)
    with pytest.raises(TableError, match=r"^mwem_plan: workload \('nothing'\) does not exist"):
        mwem_sql.plan(shared, "people", "nothing", 1)
    with pytest.raises(OptionError, match="option round is unknown"):
        mwem_sql.plan(shared, "people", ASKED, 1, round=3)


def test_a_frame_in_the_place_of_a_table_is_not_shown(shared: Connection) -> None:
    secret = pa.table({"name": ["Smith"]})
    for call in (
        lambda: mwem_sql.release(shared, secret, ASKED, 1),
        lambda: mwem_sql.plan(shared, secret, ASKED, 1),
        lambda: mwem_sql.compare(shared, secret, "people_synthetic", ASKED),
        lambda: mwem_sql.domain(shared, secret),
    ):
        with pytest.raises(
            OptionError, match=r"table \(Table\) must be .* mwem_sql\.load\(con, frame, 'name'\)"
        ) as refused:
            call()
        assert "Smith" not in str(refused.value)


def test_a_path(con: Connection, tmp_path: Path) -> None:
    con.execute(f"COPY people TO '{tmp_path}/of_file.parquet'")
    con.execute("CREATE TABLE of_file_domain AS SELECT 'age' AS attribute, '0' AS low, '99' AS high")
    made = mwem_sql.release(con, tmp_path / "of_file.parquet", Workload.from_predicates(["age > 40"]), 1)
    assert made.output == "memory.main.of_file_synthetic"
