"""What a private relation may be: tables, row-wise views, files; and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from conftest import SCHEMA

from mwem_sql.boundary.relations import Relation, describe
from mwem_sql.errors import OptionError, TableError
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Name, Place

HERE = Place("memory", "main")


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(SCHEMA)
        yield con


def view(con: duckdb.DuckDBPyConnection, query: str) -> Relation:
    con.execute(f"CREATE OR REPLACE VIEW v AS {query}")
    return describe(con, "v", HERE, "f")


def test_unknown_and_temporary_tables_are_refused(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TEMP TABLE hidden (a INTEGER)")
    for table in ("nothing", "hidden", "a.b.c.d", ""):
        with pytest.raises(TableError, match=r"^f: table \('.*'\) does not exist for this call. Hint: name a table"):
            describe(con.cursor(), table, HERE, "f")


def test_a_table_is_described_by_its_schema_alone(con: duckdb.DuckDBPyConnection) -> None:
    found = describe(con, "t", HERE, "f")
    assert [(column.name, column.type, column.nullable) for column in found.columns] == [
        ("age", "INTEGER", False), ("sex", "VARCHAR", True), ("d", "DATE", True), ("x", "DOUBLE", True),
    ]  # fmt: skip
    assert found.checks == ("(age BETWEEN 17 AND 90)",)
    assert found.charged == found.name == Name("memory", "main", "t")


def inherited(relation: Relation) -> dict[str, str]:
    return {name: column.name for name, column in relation.declared.items()}


@pytest.mark.parametrize("kind", ["macro", "operator", "comparison", "table", "python"])
def test_names_of_duckdbs_own_functions_are_not_the_users(con: duckdb.DuckDBPyConnection, kind: str) -> None:
    """Not even of one that nobody calls: a scan or a view could, and the name may be an operator's."""
    made = {
        "macro": "CREATE MACRO lower(x) AS (SELECT max(sex) FROM t)",
        "operator": 'CREATE MACRO "-"(a, b) AS (SELECT max(age) FROM t)',
        "comparison": 'CREATE MACRO "^@"(a, b) AS true',
        "table": "CREATE MACRO read_parquet(x) AS TABLE SELECT * FROM t",
    }  # fmt: skip
    describe(con, "t", HERE, "f")
    if kind == "python":
        con.create_function("hash", lambda _: 0, ["INTEGER"], "INTEGER")
    else:
        con.execute(made[kind])
    with pytest.raises(
        TableError,
        match=r"^f: (macro|function) \('.+'\) has the name of a function of DuckDB's that private rows may be read "
        r"with. Hint: drop",
    ):
        describe(con, "t", HERE, "f")


def test_a_function_list_of_the_users_own_hides_nothing(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE MACRO lower(x) AS 'x'; CREATE MACRO duckdb_functions() AS TABLE SELECT 'a' AS function_name, 'b' AS "
        "function_type, ['c'] AS parameter_types"
    )
    with pytest.raises(TableError, match="has the name of a function of DuckDB's"):
        describe(con, "t", HERE, "f")


def test_generated_columns_are_inspected(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE g (a INTEGER, b INTEGER AS (a + 1), c VARCHAR AS (upper(a::VARCHAR)))")
    assert [column.name for column in describe(con, "g", HERE, "f").columns] == ["a", "b", "c"]
    con.execute('CREATE TABLE h (a INTEGER, odd AS (stats(a)), "GENERATED ALWAYS AS" INTEGER)')
    wanted = (
        r"table \('h'\) has the generated column odd, which calls stats, which is not on the list of functions of one "
        r"row. Hint: release a view"
    )
    with pytest.raises(TableError, match=wanted):
        describe(con, "h", HERE, "f")
    assert inherited(view(con, "SELECT a FROM h")) == {"a": "a"}
    assert inherited(view(con, "SELECT * EXCLUDE (odd) FROM h")) == {
        "a": "a",
        "GENERATED ALWAYS AS": "GENERATED ALWAYS AS",
    }
    con.execute(
        "CREATE TABLE i (a INTEGER, last AS (next || 'x'), odd AS (stats(a)), next AS (odd::VARCHAR), fine AS (a + 1))"
    )
    assert inherited(view(con, "SELECT a, fine FROM i")) == {"a": "a", "fine": "fine"}
    with pytest.raises(TableError, match="reads the generated column last, which reads the generated column next"):
        view(con, "SELECT last AS l FROM i")
    for query in ("SELECT * FROM h", "SELECT a, odd::VARCHAR AS o FROM h", "SELECT z::VARCHAR AS z FROM h AS y(a, z)"):
        with pytest.raises(TableError, match="reads the generated column odd, which calls stats"):
            view(con, query)


def test_only_databases_of_duckdbs_own_are_described(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of an attached SQLite file may be a view there; its extension is not on every machine, so its catalog is
    made up."""
    monkeypatch.setattr(catalog, "databases", lambda _: {"memory": catalog.Database("memory", None, False, "sqlite")})
    with pytest.raises(
        TableError,
        match=r"table \(memory.main.t\) is in a database of type sqlite, whose tables may be anything. Hint: copy it",
    ):
        describe(con, "t", HERE, "f")


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        ("VARCHAR", True),
        ("UUID", True),
        ("HUGEINT", True),
        ("VARCHAR[]", False),
        ("STRUCT(a VARCHAR)", False),
        ("INTERVAL", False),
    ],
)
def test_units_are_of_types_that_no_collation_reaches(con: duckdb.DuckDBPyConnection, kind: str, fits: bool) -> None:
    con.execute(f"CREATE TABLE n (id {kind})")
    relation = describe(con, "n", HERE, "f")
    if fits:
        assert relation.column("ID", "f").name == "id"
    else:
        with pytest.raises(
            OptionError,
            match=r"unit \('id'\) is of type .*, of which equal values need not be the same. Hint: identify units by "
            r"a number",
        ):
            relation.column("id", "f")


def test_a_column_called_rowid_is_a_column(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE r (rowid INTEGER)")
    assert inherited(view(con, "SELECT rowid AS n FROM r")) == {"n": "rowid"}
