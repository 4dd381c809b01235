"""What is printed of a result: boxes, records, CSV and JSON."""

from __future__ import annotations

import csv
import json

import pytest
from command import call
from conftest import Open

from mwem_sql.cli.console import Console


def test_an_error_in_the_middle_of_a_result_is_only_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    late = "SELECT (CASE WHEN i = 500000 THEN 'x' ELSE '1' END)::INTEGER FROM range(1000000) t(i)"
    code, out, err = call(capsys, "-c", late, "-c", "SELECT 1")
    assert (code, out) == (1, "")
    assert err.startswith("Conversion Error: ")
    assert "Traceback" not in err


def test_box_shows_the_first_rows_and_says_how_many_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "-c", "SELECT i FROM range(123456) t(i)")
    assert code == 0
    assert "│    39 │" in out
    assert "│    40 │" not in out
    assert "123,456 rows" in out


def test_box_fits_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    _, out, _ = call(capsys, "-c", "SELECT repeat('x', 300) AS a, repeat('y', 300) AS b, i FROM range(3) t(i)")
    assert "┌" in out
    assert max(map(len, out.splitlines())) <= 90


def test_a_long_name_is_wrapped_before_a_column_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = (
        "SELECT 1 AS query, 'survived, class' AS name, ['0', '1'] AS cell, 134.608e0 AS answer, 58.3788e0 AS low, "
        "273.621e0 AS high, 'directly' AS measured"
    )
    _, out, _ = call(capsys, "-c", answer + " FROM range(2)")
    assert out.count("134.608") == 2
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(("terminal", "said"), [("200", 0), ("80", 1)])
def test_the_shell_says_where_all_columns_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, connect: Open, terminal: str, said: int
) -> None:
    monkeypatch.setenv("COLUMNS", terminal)
    wide = "SELECT " + ", ".join(f"'a text of 20 letters' AS c{i}" for i in range(8)) + " FROM range(2)"
    assert Console(connect(), interactive=True).run(wide)
    assert capsys.readouterr().out.count("Some columns are left out: .mode record shows all of them.") == said


def test_a_wide_row_is_shown_with_all_its_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = call(capsys, "-c", "SELECT " + ", ".join(f"{i} AS column_number_{i}" for i in range(12)))
    assert [line.split() for line in out.split("\n") if line] == [[f"column_number_{i}", str(i)] for i in range(12)]


def test_csv_and_json_carry_every_kind_of_value(capsys: pytest.CaptureFixture[str]) -> None:
    row = """SELECT 1 AS a, 2 AS a, NULL AS n, 'q"' AS q, sum(5) AS h, [1, NULL] AS l, {'x': true} AS s,
             TIMESTAMPTZ '2020-01-02 03:04:05+00' IS NOT NULL AS t, DATE '2020-01-02' AS d, 'f'::ENUM ('m', 'f') AS e,
             now() AS tz"""
    code, out, _ = call(capsys, "--csv", "-c", row)
    assert code == 0
    header, values = csv.reader(out.splitlines())
    assert header == ["a", "a", "n", "q", "h", "l", "s", "t", "d", "e", "tz"]
    assert values[:-1] == ["1", "2", "", 'q"', "5", "[1, NULL]", "{'x': true}", "true", "2020-01-02", "f"]
    code, out, _ = call(capsys, "--json", "-c", row, "-c", "SELECT 7 AS x FROM range(2)")
    first, *others = map(json.loads, out.splitlines())
    del first["tz"]
    assert first == {
        "a": 1,
        "a_1": 2,
        "n": None,
        "q": 'q"',
        "h": 5,
        "l": [1, None],
        "s": {"x": True},
        "t": True,
        "d": "2020-01-02",
        "e": "f",
    }
    assert others == [{"x": 7}, {"x": 7}]


def test_statements_without_rows_print_nothing_and_a_column_called_count_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    silent = (
        "BEGIN; CREATE TABLE t (i INTEGER); INSERT INTO t VALUES (1); DELETE FROM t; COMMIT; SET threads = 2; "
        "CHECKPOINT"
    )
    assert call(capsys, "-c", silent) == (0, "", "")
    assert call(capsys, "--csv", "-c", 'SELECT 5 AS "Count"') == (0, "Count\n5\n", "")


def test_every_statement_runs_once(capsys: pytest.CaptureFixture[str]) -> None:
    sql = "CREATE SEQUENCE s; SELECT nextval('s') AS n; SELECT nextval('s') AS n"
    assert call(capsys, "--csv", "-c", sql) == (0, "n\n1\nn\n2\n", "")
    code, out, _ = call(capsys, "-c", sql)
    assert code == 0
    assert "│     2 │" in out


def test_no_table_name_finds_a_variable_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "-c", "SELECT * FROM relation")
    assert code == 1
    assert "does not exist" in err
