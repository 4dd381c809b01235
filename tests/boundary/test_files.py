"""Files as private sources: what may read them, with which arguments, each once, and held still."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chance import sampled
from sqlglot import exp

import mwem_sql
from mwem_sql.boundary import files
from mwem_sql.boundary.relations import Relation, describe
from mwem_sql.errors import OutputError, TableError
from mwem_sql.platform.catalog import Name, Place

HERE = Place("memory", "main")


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
        "'people.parquet'", "'*.parquet'", "read_parquet('people.parquet')", "parquet_scan('people.parquet')",
        "read_parquet(['people.parquet'])",
        "read_parquet('people.parquet', binary_as_string := true, union_by_name => false, hive_partitioning = false)",
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
    sampled([
        *((f"read_parquet('people.parquet', file_row_number {sign} true)",
        "calls read_parquet with the argument file_row_number, which is not allowed") for sign in (":=", "=>", "=")),
        ("read_parquet('people.parquet', filename := true)", "with the argument filename"),
        ("read_parquet('people.parquet', schema := MAP {0: {name: 'age', type: 'BIGINT', default_value: NULL}})",
        "with the argument schema"),
        ("read_parquet(['people.parquet', 'people.parquet'])",
        "reads people.parquet twice: each row would count twice"),
        ("read_parquet(['people.parquet', '*.parquet'])", "people.parquet twice"),
        ("read_parquet(['people.parquet', './people.parquet'])", "twice"),
        ("read_parquet('people' || '.parquet')", "with a file name that is computed"),
        ("read_parquet('nothing*.parquet')", None),
        *((source, "reads a text file by read_csv: one record of it may swallow others, or fail them all")
          for source in (
            "'people.csv'", "read_csv('people.csv')",
            ("read_csv('people.csv', columns := {age: 'INTEGER', sex: 'VARCHAR'}, header := true, "
             "auto_detect := false)"))),
        *((source, "reads a text file by read_") for source in ("read_csv_auto('people.csv')", "'people.json'",
        "read_json('people.json')", "read_json_auto('people.json')",
            "read_ndjson('people.json')", ("read_ndjson('people.json', columns := {age: 'INTEGER', sex: 'VARCHAR'}, "
                                          "records := true, auto_detect := false)"))),
        ("read_parquet('people.parquet', union_by_name := 1)", "which is neither true nor false"),
        ("read_parquet('people.parquet', hive_partitioning := true)", "columns would follow the names of folders"),
        ("read_text('people.csv')", "reads the table function read_text"),
        ("glob('*')", "reads the table function glob"),
        ("parquet_metadata('people.parquet')", "reads the table function parquet_metadata"),
    ], 12),
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


def test_a_refusal_prints_the_table_to_make(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """The line runs when it is pasted, and its table is one to release."""
    (tmp_path / "people 2.csv").write_text("age,sex\n1,f\n")
    for source, wanted in (
        ("people.csv", "CREATE TABLE people AS SELECT * FROM read_csv('people.csv')"),
        ("people 2.csv", """CREATE TABLE "people 2" AS SELECT * FROM read_csv('people 2.csv')"""),
        ("read_json('people.json')", "CREATE TABLE people AS SELECT * FROM read_json('people.json')"),
    ):
        with pytest.raises(TableError) as caught:
            describe(con, source, HERE, "f")
        assert str(caught.value).endswith(
            f"private files are Parquet files, read whole and each once. Hint: make it a table: {wanted}"
        )
        con.execute(wanted)
        name = wanted.split(" AS ")[0].removeprefix("CREATE TABLE ")
        assert [column.name for column in describe(con, name, HERE, "f").columns] == ["age", "sex"]
        con.execute(f"DROP TABLE {name}")
    con.execute(
        "CREATE SCHEMA s; CREATE VIEW s.v AS SELECT age + 1 AS older FROM read_csv('people.csv', header := true) "
        "WHERE age > 20"
    )
    with pytest.raises(TableError) as caught:
        describe(con, "s.v", HERE, "f")
    ddl = str(caught.value).split("make it a table: ")[1]
    con.execute(ddl)
    assert con.execute("FROM s.v_rows ORDER BY ALL").fetchall() == [(22,), (23,)]
    describe(con, "s.v_rows", HERE, "f")


@pytest.mark.parametrize(
    "call",
    sampled(["mwem_domain", "mwem_plan", "mwem_release", "mwem_marginals", "mwem_compare", "mwem_suggest_domain"], 2),
)
def test_every_call_refuses_a_text_file_unread(con: duckdb.DuckDBPyConnection, tmp_path: Path, call: str) -> None:
    """Nothing of it is looked at: it need not even be there, and what is said is the same whatever is in it."""
    mwem_sql.register(con)
    con.execute("CREATE TABLE w AS SELECT 'age > 20' AS predicate")
    rest = {"mwem_plan": ", w, 1", "mwem_release": ", w, 1", "mwem_marginals": ", 1", "mwem_compare": ", 'x'"}.get(
        call, ""
    )
    said = []
    for text in ('{"age": 1}\n', '"x"\n', '"', None):
        (tmp_path / "p.json").unlink(missing_ok=True)
        if text is not None:
            (tmp_path / "p.json").write_text(text)
        with pytest.raises(duckdb.Error) as caught:
            con.execute(f"FROM {call}('p.json'{rest})").fetchall()
        said.append(str(caught.value))
    assert len(set(said)) == 1
    if call != "mwem_compare":  # which asks for the release first
        assert "make it a table: CREATE TABLE p AS SELECT * FROM read_json('p.json')" in said[0]


def test_every_argument_of_the_reader_is_written_out(con: duckdb.DuckDBPyConnection) -> None:
    """A new version of DuckDB with another argument is met here: it needs a value, or a reason."""
    rows = con.execute(
        "SELECT parameters FROM duckdb_functions() WHERE function_name IN ('read_parquet', 'parquet_scan')"
    ).fetchall()
    known = {name for (names,) in rows for name in names[1:]}
    assert known == files.parameters()
    assert known <= set(files.ARGUMENTS) | files.UNWRITTEN
    found = view(con, "SELECT * FROM read_parquet('people.parquet', binary_as_string := true)").files
    assert found is not None
    written = {argument.this.name: argument.expression.sql("duckdb") for argument in found.arguments}
    assert set(written) == known - files.UNWRITTEN
    assert (written["binary_as_string"], written["can_have_nan"]) == ("TRUE", "TRUE")


def test_settings_do_not_change_what_is_read(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("COPY (SELECT 'a'::BLOB AS b) TO 'blob.parquet'; SET GLOBAL binary_as_string = true")
    assert [column.type for column in view(con, "SELECT * FROM 'blob.parquet'").columns] == ["BLOB"]


def test_rows_of_nan_do_not_depend_on_the_greatest_row(con: duckdb.DuckDBPyConnection) -> None:
    """Arrow leaves NaN out of the least and greatest value in a footer, by which DuckDB passes over groups of rows."""
    counts = []
    for greatest in (7.0, 3.0):
        rows = pa.table({"c": pa.array([greatest] + [float("nan")] * 999)})
        pq.write_table(rows, f"nan{greatest:.0f}.parquet")
        found = view(con, f"SELECT c, c > 5 AS large FROM 'nan{greatest:.0f}.parquet' WHERE c > 2").tree().sql("duckdb")
        counts.append(
            con.execute(
                f"SELECT count(*), count_if(large), sum(CASE WHEN c > 5 THEN 1 ELSE 0 END) FROM {found}"
            ).fetchall()[0]
        )
    assert counts == [(1000, 1000, 1000), (1000, 999, 999)]


def test_files_of_one_view_have_the_same_types(con: duckdb.DuckDBPyConnection) -> None:
    """DuckDB would cast the values of the second to the type of the first, and fail on one that it cannot."""
    for name, text in (
        ("a1", "1 AS n, 2 AS m"),
        ("a2", "'x' AS n, 2 AS m"),
        ("a3", "1 AS N, 2 AS m, 3 AS o"),
        ("a4", "NULL::INTEGER AS n"),
    ):
        con.execute(f"COPY (SELECT {text}) TO '{name}.parquet'")
    with pytest.raises(TableError, match=r"a2\.parquet, where column n is of another type than in files before it"):
        view(con, "SELECT * FROM read_parquet(['a1.parquet', 'a2.parquet'])")
    with pytest.raises(TableError, match=r"a2\.parquet, where column n is of another type"):
        view(con, "SELECT * FROM read_parquet(['a1.parquet', 'a2.parquet'], union_by_name := true)")
    with pytest.raises(TableError, match=r"a4\.parquet, which has no column m; .* Hint: add union_by_name := true"):
        view(con, "SELECT * FROM read_parquet(['a1.parquet', 'a4.parquet'])")
    found = view(con, "SELECT n FROM read_parquet(['a1.parquet', 'a3.parquet', 'a4.parquet'], union_by_name := true)")
    assert con.execute(f"SELECT count(*), sum(n) FROM {found.tree().sql('duckdb')}").fetchall() == [(3, 2)]


@pytest.mark.parametrize(
    ("column", "is_odd"),
    [
        (pa.array([2**62, 0]).cast(pa.timestamp("ms")), True), (pa.array([2**62, 0]).cast(pa.time64("us")), True),
        (pa.array([2**30, 0], pa.int32()).cast(pa.time32("ms")), True),
        (pa.array([2**62, 0]).cast(pa.timestamp("us")), False), (pa.array([2**62, 0]).cast(pa.timestamp("ns")), False),
        (pa.array([2**30, 0], pa.int32()).cast(pa.date32()), False),
    ],
)  # fmt: skip
def test_columns_with_values_that_cannot_be_read(
    con: duckdb.DuckDBPyConnection, column: pa.Array, is_odd: bool
) -> None:
    pq.write_table(
        pa.table({"a": [1, 2], "T": column, "s": pa.StructArray.from_arrays([column], ["x"])}), "odd.parquet"
    )
    if is_odd:
        with pytest.raises(
            TableError,
            match=r"file \('.*odd.parquet'\) reads the column T, which is of the Parquet type .*, some values of "
            r"which fail",
        ):
            describe(con, "odd.parquet", HERE, "f")
        with pytest.raises(TableError, match=r"reads the column T, which is of the Parquet type"):
            view(con, "SELECT t AS x FROM 'odd.parquet'")
        found = view(con, "SELECT a FROM 'odd.parquet'")
    else:
        found = describe(con, "odd.parquet", HERE, "f")
    shown = ", ".join(f'"{own.name}"' for own in found.columns)
    assert con.execute(
        f"SELECT count(*) FROM (SELECT DISTINCT {shown} FROM {found.tree().sql('duckdb')})"
    ).fetchall() == [(2,)]


@pytest.mark.skipif(duckdb.__version__ < "2", reason="DuckDB before 2.0 has no way to read a text that is no UTF-8")
def test_a_text_that_is_no_text_does_not_fail_the_read(con: duckdb.DuckDBPyConnection) -> None:
    raw = pa.array([b"a", b"\xff\xfe"], pa.binary())
    pq.write_table(pa.table({"t": pa.Array.from_buffers(pa.string(), 2, raw.buffers())}), "bad.parquet")
    found = view(con, "SELECT t FROM 'bad.parquet'")
    assert con.execute(f"SELECT t FROM {found.tree().sql('duckdb')}").fetchall() == [("a",), ("??",)]


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
            match=r"reads folders by a pattern .* whose names may become columns; .* Hint: add hive_partitioning := "
            r"false",
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
        ("read_parquet('people.parquet', binary_as_string := false)", "people.parquet"),
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
    sampled([
        ("people.csv", r"file \('people.csv'\) reads a text file by read_csv"),
        ("people.tsv.gz", "reads a text file by read_csv"),
        ("read_csv_auto('people.csv')", "reads a text file by read_csv_auto"),
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
    ], 6),
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
    source = "read_parquet('people.parquet')"
    assert not mwem_sql.release(con, source, asked, 1).reused
    (tmp_path / "people.parquet").unlink()
    assert mwem_sql.release(con, source, asked, 1).reused
    # What is published does not say where the file was.
    assert str(tmp_path) not in str(con.execute("FROM mwem.releases").fetchall())
