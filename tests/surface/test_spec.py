"""Every SQL function is declared, in words, too; and the database and Python say these words."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

import mwem_sql
from mwem_sql.surface import spec
from mwem_sql.surface.declaration import TEXT, VALUE, Parameter, ResultColumn, SqlFunction, columns_of, script


def test_all_has_words() -> None:
    silent = [
        (name, getattr(each, "name", ""))
        for name, function in spec.FUNCTIONS.items()
        for each in (*function.signature, *function.columns)
        if not each.words.endswith((".", "..."))
    ]
    assert silent == []
    assert all(function.purpose.endswith(".") or function.purpose.endswith(")") for function in spec.FUNCTIONS.values())
    assert all(function.example and function.cost for function in spec.FUNCTIONS.values())


def test_a_column_without_words_is_no_declaration() -> None:
    assert columns_of({"a": "VARCHAR"}, {"a": "One."}) == (ResultColumn("a", "VARCHAR", "One."),)
    with pytest.raises(KeyError, match="b"):
        columns_of({"a": "VARCHAR", "b": "DOUBLE"}, {"a": "One."})


def test_a_declaration_is_all_that_a_macro_needs() -> None:
    """A function of two parameters, one of them a keyword of SQL, and a column; its Python function is DuckDB's
    here."""
    new = SqlFunction(
        section="Release",
        name="mwem_new",
        purpose="Is new.",
        example="FROM mwem_new('it''s')",
        cost="nothing",
        parameters=(Parameter("what", None, TEXT, "What."), Parameter("rows", "1", VALUE, "How many.")),
        columns=(ResultColumn("colour", "VARCHAR", "Which."),),
    )
    lines = [
        "Is new.",
        "",
        "Example: FROM mwem_new('it''s')",
        "Cost: nothing",
        "",
        "what  What.",
        "rows := 1  How many.",
    ]
    assert new.comment.splitlines() == [*lines, "", "-> colour VARCHAR  Which."]
    assert new.optional == ["rows"] and not new.takes_workload
    with duckdb.connect() as con:
        con.execute("CREATE MACRO _mwem_new(arguments, queries) AS [{err: NULL::VARCHAR, colour: arguments->>'rows'}]")
        con.execute(script([new]))
        assert con.execute("FROM mwem_new('it', rows := 3)").fetchall() == [("3",)]
        assert con.execute("SELECT colour FROM mwem_new(5)").fetchall() == [("1",)]
        con.execute("CREATE OR REPLACE MACRO _mwem_new(arguments, queries) AS [{err: arguments->>'what', colour: ''}]")
        with pytest.raises(duckdb.Error, match="refused"):
            con.execute("SELECT count(*) FROM mwem_new('refused')").fetchall()


def test_the_database_and_python_say_it(tmp_path: Path) -> None:
    said = "SELECT function_name, comment FROM duckdb_functions() WHERE function_name LIKE 'mwem_%'"
    expected = {name: function.comment for name, function in spec.FUNCTIONS.items()}
    with mwem_sql.connect(tmp_path / "t.duckdb") as con:
        assert dict(con.execute(said).fetchall()) == expected
        assert "rounds := NULL  How many queries" in expected["mwem_release"]
        mwem_sql.register(con)  # macros are replaced, and with them their comments
        assert dict(con.cursor().execute(said).fetchall()) == expected
    with mwem_sql.connect(tmp_path / "t.duckdb", read_only=True) as con:
        assert set(con.execute(f"{said} AND comment IS NOT NULL").fetchall()) == set(expected.items())
    for name, comment in expected.items():
        assert str(getattr(mwem_sql, name.removeprefix("mwem_")).__doc__).startswith(comment)


def test_register_runs_every_statement_once() -> None:
    """Beside macros and comments: three looks at the catalog, USE, BEGIN and COMMIT. None of them fails."""
    with duckdb.connect() as con:
        con.execute("CALL enable_logging('QueryLog')").fetchall()
        mwem_sql.register(con)
        logged = con.execute("SELECT message FROM duckdb_logs WHERE type = 'QueryLog'").fetchall()
        con.execute("CALL disable_logging()").fetchall()
    made = [text for (text,) in logged if re.search("^(CREATE OR REPLACE MACRO|COMMENT ON) ", text, re.MULTILINE)]
    assert len(made) == 2 * len(spec.FUNCTIONS)
    assert len(logged) == len(made) + 6
