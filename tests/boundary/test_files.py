"""Files as private sources: what may read them, with which arguments, each once, and held still."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from sqlglot import exp

import mwem_sql
from mwem_sql.boundary import files
from mwem_sql.boundary.relations import Relation, describe
from mwem_sql.database.catalog import Name, Place
from mwem_sql.errors import OutputError, TableError

HERE = Place("memory", "main")
TYPES = "columns := {age: 'INTEGER', sex: 'VARCHAR'}, auto_detect := false"


@pytest.fixture
def con(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[duckdb.DuckDBPyConnection]:
    """With people.parquet, people.csv and people.json in the current folder."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as con:
        for ending in ("parquet", "csv", "json"):
            con.execute(f"COPY (SELECT i AS age, 'f' AS sex FROM range(20, 23) t(i)) TO 'people.{ending}'")
        yield con


def view(con: duckdb.DuckDBPyConnection, query: str) -> Relation:
    con.execute(f"CREATE OR REPLACE VIEW v AS {query}")
    return describe(con, "v", HERE, "f")


@pytest.mark.parametrize(
    "source",
    [
        "'people.parquet'", "'*.parquet'", "read_parquet('people.parquet')", "parquet_scan('people.parquet')", "read_parquet(['people.parquet'])",
        "read_parquet('people.parquet', binary_as_string := true, union_by_name => false, hive_partitioning = false)",
        f"read_csv('people.csv', {TYPES}, header := true)", f"read_csv('people.csv', {TYPES}, header := true, delim := ',', nullstr := ['', 'NA'], quote := '\"')",
        f"read_json('people.json', {TYPES})", f"read_json('people.json', {TYPES}, format := 'newline_delimited')", f"read_ndjson('people.json', {TYPES})",
    ],
)  # fmt: skip
def test_allowed(con: duckdb.DuckDBPyConnection, tmp_path: Path, source: str) -> None:
    found = view(con, f"SELECT sex, age + 1 AS older FROM {source} WHERE age > 20")
    assert [column.name for column in found.columns] == ["sex", "older"]
    assert (found.declared, found.checks, found.charged) == ({}, (), Name("memory", "main", "v"))
    assert found.files is not None
    assert [Path(path).parent for path in found.files.paths] == [tmp_path]
    assert con.execute(f"SELECT * FROM {found.tree().sql('duckdb')}").fetchall() == [("f", 22), ("f", 23)]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        *((f"read_parquet('people.parquet', file_row_number {sign} true)", "calls read_parquet with the argument file_row_number, which is not allowed") for sign in (":=", "=>", "=")),
        ("read_parquet('people.parquet', filename := true)", "with the argument filename"),
        ("read_parquet('people.parquet', schema := MAP {0: {name: 'age', type: 'BIGINT', default_value: NULL}})", "with the argument schema"),
        ("read_parquet(['people.parquet', 'people.parquet'])", "reads people.parquet twice: each row would count twice"),
        ("read_parquet(['people.parquet', '*.parquet'])", "people.parquet twice"),
        ("read_parquet(['people.parquet', './people.parquet'])", "twice"),
        ("read_parquet('people' || '.parquet')", "with a file name that is computed"),
        ("read_parquet('nothing*.parquet')", None),
        ("'people.csv'", "lets read_csv sniff the types of 'people.csv' from private rows"),
        ("'people.json'", "lets read_json sniff"),
        ("read_csv('people.csv')", "lets read_csv sniff"),
        ("read_csv('people.csv', auto_detect := false, columns := {age: 'INTEGER', sex: 'VARCHAR'}, skip := 1)", "with the argument skip"),
        ("read_csv('people.csv', columns := {age: 'INTEGER', sex: 'VARCHAR'}, header := true)", "lets read_csv sniff"),
        ("read_csv('people.csv', columns := {age: 'INTEGER', sex: 'VARCHAR'}, header := true, auto_detect := true)", "lets read_csv sniff"),
        (f"read_csv('people.csv', {TYPES}, header := true, ignore_errors := true)", "with the argument ignore_errors"),
        (f"read_csv('people.csv', {TYPES}, header := true, store_rejects := true)", "with the argument store_rejects"),
        ("read_csv('people.csv', types := {age: 'INTEGER'}, header := true)", "with the argument types"),
        ("read_csv_auto('people.csv')", "reads read_csv_auto, which sniffs types from private rows"),
        ("read_json('people.json')", "lets read_json sniff"),
        (f"read_json('people.json', {TYPES}, format := 'auto')", "with format := 'auto', which is sniffed"),
        ("read_parquet('people.parquet', hive_partitioning := true)", "columns would follow the names of folders"),
        ("read_text('people.csv')", "reads the table function read_text"),
        ("glob('*')", "reads the table function glob"),
        ("parquet_metadata('people.parquet')", "reads the table function parquet_metadata"),
    ],
)  # fmt: skip
def test_refused(con: duckdb.DuckDBPyConnection, source: str, reason: str | None) -> None:
    if reason is None:
        with pytest.raises(duckdb.Error):
            view(con, f"SELECT * FROM {source}")
        return
    with pytest.raises(TableError) as caught:
        view(con, f"SELECT * FROM {source}")
    assert str(caught.value).startswith("f: view ('v') ")
    assert reason in str(caught.value)
    assert ". Hint: " in str(caught.value)


def test_a_refusal_prints_the_view_as_it_should_be(con: duckdb.DuckDBPyConnection) -> None:
    """Types are left blank: what was sniffed came from private rows. Filled in, the text runs as it is."""
    with pytest.raises(TableError) as caught:
        view(con, "SELECT age, sex FROM 'people.csv' WHERE age > 3")
    ddl = str(caught.value).split("turn detection off: ")[1]
    assert ddl.replace('"columns"', "columns") == (  # sqlglot quotes it since 30.27
        """CREATE OR REPLACE VIEW "main"."v" AS SELECT age, sex FROM READ_CSV('people.csv', columns := {'first column': 'TYPE', 'second column': 'TYPE'}, """
        """auto_detect := FALSE, header := TRUE) WHERE (age > 3)"""
    )
    con.execute(ddl.replace("'first column': 'TYPE', 'second column': 'TYPE'", "age: 'INTEGER', sex: 'VARCHAR'"))
    assert [column.type for column in describe(con, "v", HERE, "f").columns] == ["INTEGER", "VARCHAR"]


@pytest.mark.parametrize("row", ["x,", "1;2;3", '"', "99999999999,f", "2020-01-01,true", ""])
def test_one_row_changes_nothing_that_can_be_seen(con: duckdb.DuckDBPyConnection, tmp_path: Path, row: str) -> None:
    """The types, and the text of a refusal, with and without an odd row."""
    seen = []
    for name, more in (("a", ""), ("b", f"{row}\n")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "p.csv").write_text(f"age,sex\n1,f\n{more}2,m\n")
        os.chdir(folder)
        found = view(con, f"SELECT * FROM read_csv('p.csv', {TYPES}, header := true)")
        con.execute("DROP VIEW v")
        try:
            con.execute("CREATE VIEW v AS SELECT * FROM 'p.csv'")
        except duckdb.Error:  # the curator meets it, and not a call
            seen.append((found.columns, None))
            continue
        with pytest.raises(TableError) as caught:
            describe(con, "v", HERE, "f")
        seen.append((found.columns, str(caught.value)))
    assert seen[0][0] == seen[1][0]
    assert seen[1][1] in {None, seen[0][1]}


def test_virtual_columns_are_not_columns(con: duckdb.DuckDBPyConnection) -> None:
    for column in ("file_row_number", "filename", "file_index"):
        with pytest.raises(TableError, match=f"reads {column}, which is not a column"):
            view(con, f"SELECT {column} AS age FROM 'people.parquet'")
    con.execute("COPY (SELECT 7 AS file_row_number) TO 'own.parquet'")
    found = view(con, "SELECT file_row_number AS n FROM 'own.parquet'")
    assert con.execute(f"SELECT n FROM {found.tree().sql('duckdb')}").fetchall() == [(7,)]


def test_links_are_the_same_file(con: duckdb.DuckDBPyConnection) -> None:
    os.link("people.parquet", "hard.parquet")
    with pytest.raises(TableError, match="which are one file: each row would count twice"):
        view(con, "SELECT * FROM '*.parquet'")
    Path("hard.parquet").unlink()
    Path("soft.parquet").symlink_to("people.parquet")
    with pytest.raises(TableError, match=r"(soft|people)\.parquet twice"):
        view(con, "SELECT * FROM '*.parquet'")


def test_folders_do_not_become_columns(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        con.execute(f"COPY (SELECT {year} AS n) TO 'year={year}/p.parquet'")
    for source in ("'*/*.parquet'", "'year=2020/*.parquet'"):
        with pytest.raises(
            TableError,
            match=r"reads folders by a pattern .* whose names may become columns; .* Hint: add hive_partitioning := false",
        ):
            view(con, f"SELECT * FROM {source}")
    found = view(con, "SELECT * FROM read_parquet('*/*.parquet', hive_partitioning := false)")
    assert con.execute(f"SELECT sum(n) FROM {found.tree().sql('duckdb')}").fetchall() == [(4041,)]


def test_odd_files_are_refused(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    con.execute("COPY (SELECT 1 AS n) TO 'a[1].parquet'")
    with pytest.raises(TableError, match="whose name DuckDB would take for a pattern"):
        view(con, "SELECT n FROM 'a*.parquet'")
    (tmp_path / "broken.parquet").write_bytes((tmp_path / "people.parquet").read_bytes())
    con.execute("CREATE OR REPLACE VIEW v AS SELECT * FROM 'broken.parquet'")
    (tmp_path / "broken.parquet").write_bytes(b"nothing")
    with pytest.raises(TableError, match="whose schema cannot be read"):
        describe(con, "v", HERE, "f")
    (tmp_path / "broken.parquet").unlink()
    with pytest.raises(TableError, match=r"'broken\.parquet', which matches no file"):
        describe(con, "v", HERE, "f")


def test_remote_files_are_refused_before_anything_is_fetched(con: duckdb.DuckDBPyConnection) -> None:
    for path in ("https://example.org/p.parquet", "s3://bucket/p.parquet", "file:///p.parquet"):
        source = exp.Table(this=exp.Anonymous(this="read_parquet", expressions=[exp.Literal.string(path)]))
        with pytest.raises(files.NotAllowedError, match="which is not a file of this machine"):
            files.read(con, source)


def test_state_tells_when_a_file_was_written_to(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    found = view(con, "SELECT * FROM 'people.parquet'").files
    assert found is not None
    before = found.state()
    assert found.state() == before
    times = (tmp_path / "people.parquet").stat()
    con.execute("COPY (SELECT i AS age, 'f' AS sex FROM range(30, 33) t(i)) TO 'people.parquet'")
    os.utime(
        "people.parquet", ns=(times.st_atime_ns, times.st_mtime_ns)
    )  # whoever resets the time is found out all the same
    assert found.state() != before


# A file in the place of a table.


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("people.parquet", "people.parquet"),
        ("./people.parquet", "people.parquet"),
        ("read_parquet('people.parquet')", "people.parquet"),
        (f"read_csv('people.csv', {TYPES}, header := true)", "people.csv"),
        (f"read_json('people.json', {TYPES})", "people.json"),
    ],
)
def test_a_file_in_the_place_of_a_table(con: duckdb.DuckDBPyConnection, tmp_path: Path, text: str, file: str) -> None:
    found = describe(con, text, HERE, "f")
    assert (str(found.name), found.name.stem, found.charged) == (str(tmp_path / file), "people", found.name)
    assert found.files is not None
    assert found.files.paths == (str(tmp_path / file),)
    assert [column.name for column in found.columns] == ["age", "sex"]
    assert con.execute(f"SELECT * FROM {found.tree().sql('duckdb')}").fetchall() == [(20, "f"), (21, "f"), (22, "f")]


def test_a_table_of_that_name_comes_first(con: duckdb.DuckDBPyConnection) -> None:
    con.execute('CREATE TABLE "people.parquet" (x INTEGER)')
    found = describe(con, "people.parquet", HERE, "f")
    assert (found.files, found.name.stem) == (None, "people.parquet")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("people.csv", r"file \('people.csv'\) lets read_csv sniff .* CREATE OR REPLACE VIEW \"main\".\"people\" AS SELECT \* FROM"),
        ("read_csv_auto('people.csv')", "which sniffs types"),
        ("nothing.parquet", "matches no file"),
        ("*.parquet", "may be several files, or none"),
        ("read_parquet('*.parquet')", "may be several files, or none"),
        ("read_parquet(['people.parquet'])", "may be several files, or none"),
        ("read_parquet('people.parquet', filename := true)", "with the argument filename"),
        ("https://example.org/people.parquet", "not a file of this machine"),
        ("read_text('people.csv')", "does not exist for this call"),
        ("read_parquet('people.parquet') WHERE age > 3", "does not exist for this call"),
        ("read_parquet('people.parquet'", "does not exist for this call"),
        ("(SELECT * FROM 'people.parquet')", "does not exist for this call"),
    ],
)  # fmt: skip
def test_a_file_that_is_refused(con: duckdb.DuckDBPyConnection, text: str, reason: str) -> None:
    with pytest.raises(TableError, match=reason):
        describe(con, text, HERE, "f")


def test_files_of_one_name_in_two_folders_are_two_requests_and_two_accounts(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    con.execute("COPY (FROM 'people.parquet') TO 'other/people.parquet'")
    con.execute("COPY (FROM 'people.parquet') TO 'other/People.parquet'")
    con.execute("CREATE TABLE people_domain AS SELECT 'age' AS attribute, '0' AS low, '99' AS high")
    asked = mwem_sql.Workload.from_predicates(["age > 20"])
    made = mwem_sql.release(con, "people.parquet", asked, 1)
    assert made.output == "memory.main.people_synthetic"
    for path in ("other/people.parquet", "other/People.parquet"):
        with pytest.raises(OutputError, match="holds a release of another request"):
            mwem_sql.release(con, path, asked, 1, output="people_synthetic")
        mwem_sql.release(con, path, asked, 1, output=f"of_{ord(path[6])}")
    with pytest.raises(OutputError, match="holds a release of another request"):  # a path keeps its case
        mwem_sql.release(con, "other/People.parquet", asked, 1, output=f"of_{ord('p')}")
    accounts = con.execute("SELECT count(DISTINCT account) FROM mwem.ledger").fetchall()
    assert accounts == [(3,)]
    # A view over one of them shares its account.
    con.execute("CREATE VIEW v AS SELECT * FROM 'people.parquet'")
    mwem_sql.release(con, "v", asked, 1, domain="people_domain")
    assert con.execute("SELECT count(DISTINCT account) FROM mwem.ledger").fetchall() == accounts


def test_a_release_of_a_file_is_returned_when_the_file_is_gone(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    con.execute("CREATE TABLE people_domain AS SELECT 'age' AS attribute, '0' AS low, '99' AS high")
    asked = mwem_sql.Workload.from_predicates(["age > 20"])
    source = f"read_csv('people.csv', {TYPES}, header := true)"
    assert not mwem_sql.release(con, source, asked, 1).reused
    (tmp_path / "people.csv").unlink()
    assert mwem_sql.release(con, source, asked, 1).reused
    # What is published does not say where the file was.
    assert str(tmp_path) not in str(con.execute("FROM mwem.releases").fetchall())
