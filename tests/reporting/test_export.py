"""Files to publish: all of them or none, over nothing that is somebody else's, and a card that says what they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from chance import sampled
from conftest import Connection

import mwem_sql
from mwem_sql.errors import OptionError, OutputError, TableError
from mwem_sql.reporting import export


@pytest.fixture(scope="module")
def made() -> Iterator[Connection]:
    with mwem_sql.connect() as con:
        con.execute("""CREATE TABLE people (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99), sex ENUM ('F', 'M'),
            born DATE NOT NULL CHECK (born BETWEEN
            DATE '1900-01-01' AND DATE '2020-12-31')); INSERT INTO people SELECT i % 100, 'F',
                DATE '1950-01-01' FROM range(500) t(i);
            CREATE TABLE workload (predicate VARCHAR, group_by VARCHAR[]);
            INSERT INTO workload VALUES ('age > 40 AND born > ''1960-01-01''', NULL), (NULL, ['sex', 'age'])""")
        con.execute("CALL mwem_release('people', workload, 1, rounds := 2)")
        yield con


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("ending", sampled([".parquet", ".csv", ".duckdb"], 1))
def test_the_rows_are_those_of_the_table(made: Connection, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"it's{ending}"
    written = mwem_sql.export(made, "people_synthetic", path).to_pylist()
    assert [Path(row["file"]).suffix for row in written] == [ending, ".md", ".json"]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(Path(row["file"]).name for row in written)
    as_text = "SELECT COLUMNS(*)::VARCHAR FROM"
    expected = made.execute(f"{as_text} people_synthetic").fetchall()
    with duckdb.connect(str(path) if ending == ".duckdb" else ":memory:") as con:
        reads = {".parquet": "read_parquet($path)", ".csv": "read_csv($path, all_varchar := true)"}
        found = (
            con.execute(f"{as_text} {reads[ending]}", {"path": str(path)})
            if ending in reads
            else con.execute(f"{as_text} people_synthetic")
        )
        assert found.fetchall() == expected


def test_a_database_answers_questions(made: Connection, tmp_path: Path) -> None:
    mwem_sql.export(made, "people_synthetic", tmp_path / "r.duckdb")
    with mwem_sql.connect(tmp_path / "r.duckdb") as con:
        expected = mwem_sql.answer(made, "people_synthetic", "workload").to_pylist()
        workload = mwem_sql.Workload.from_arrow(made.sql("FROM workload").to_arrow_table())
        assert mwem_sql.answer(con, "people_synthetic", workload).to_pylist() == expected
        assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'people'").fetchall() == [(0,)]
        assert con.execute("SELECT comment FROM duckdb_tables() WHERE table_name = 'people_synthetic'").fetchall()[0][0]


@pytest.mark.thorough
def test_a_database_plans_the_next_request(made: Connection, tmp_path: Path) -> None:
    """What follows from the domain is what the curator's plan says; the table and its cap are not there."""
    mwem_sql.export(made, "people_synthetic", tmp_path / "r.duckdb")
    away = ("table", "from release", "left out", "aggregate")
    with mwem_sql.connect(tmp_path / "r.duckdb") as con:
        con.execute("CREATE TABLE next AS FROM mwem_marginals('people_synthetic', 1)")
        made.execute("CREATE OR REPLACE TABLE next AS FROM mwem_marginals('people', 1)")
        assert con.execute("FROM next").fetchall() == made.execute("FROM next").fetchall()
        expected = made.execute("FROM mwem_plan('people', next, 0.5, rounds := 3)").fetchall()
        found = con.execute("FROM mwem_plan('people_synthetic', next, 0.5, rounds := 3)").fetchall()
        assert [row for row in found if row[0] not in away] == [row for row in expected if row[0] not in away]
        assert found[:2] == [
            ("table", "people"),
            ("from release", next(value for item, value in found if item == "from release")),
        ]
        assert "mwem_release needs the table" in found[1][1]
        assert (
            con.execute("FROM mwem_domain('people_synthetic')").fetchall()
            == made.execute("FROM mwem_domain('people')").fetchall()
        )
        con.execute("DROP TABLE people_synthetic")
        assert con.execute("FROM mwem_plan('people_synthetic', next, 0.5, rounds := 3)").fetchall() == found
        con.execute(
            "CREATE TABLE people_synthetic (mine BOOLEAN NOT NULL); CREATE TABLE mine AS SELECT 'mine' AS predicate"
        )
        assert con.execute("FROM mwem_plan('people_synthetic', mine, 0.5)").fetchall()[0] == (
            "table",
            "r.main.people_synthetic",
        )


def test_a_plan_knows_the_unit_of_the_release() -> None:
    with mwem_sql.connect() as con:
        con.execute(
            "CREATE TABLE t (person INTEGER, a BOOLEAN NOT NULL); INSERT INTO t SELECT i // 2, true FROM range(50) r(i)"
        )
        mwem_sql.release(con, "t", mwem_sql.Workload.from_predicates(["a"]), 1.0, unit="person", rows_per_unit=2)
        asked = mwem_sql.Workload.from_predicates(["NOT a"])
        rows = mwem_sql.plan(con, "t_synthetic", asked, 1, unit="person", rows_per_unit=2).to_pylist()
        plan = {row["item"]: row["value"] for row in rows}
        assert plan["protects"] == "one person, at most 2 rows"
        with pytest.raises(OptionError, match=r"unit \('who'\) is not a column of t"):
            mwem_sql.plan(con, "t_synthetic", asked, 1, unit="who", rows_per_unit=1)


def test_the_card_says_what_it_is_and_is_in_the_parquet_file_too(made: Connection, tmp_path: Path) -> None:
    mwem_sql.export(made, "people_synthetic", tmp_path / "r.parquet")
    card = json.loads((tmp_path / "r.json").read_text("utf-8"))["mwem_card"]
    assert (card["table"], card["epsilon"], card["delta"], card["unit"], card["private"]) == (
        "people_synthetic",
        1.0,
        0.0,
        None,
        True,
    )
    assert [item["name"] for item in card["attributes"]] == ["age", "sex", "born"]
    assert card["workload"][0]["predicate"] == "age > 40 AND born > '1960-01-01'"
    assert len(card["measurements"]) == len(made.execute("FROM mwem.measurements").fetchall())
    told = made.execute(
        "SELECT value::VARCHAR FROM parquet_kv_metadata(?) WHERE key = 'mwem_card'", [str(tmp_path / "r.parquet")]
    ).fetchall()
    assert (
        json.loads(told[0][0].encode().decode("unicode_escape") if "\\x" in told[0][0] else told[0][0])["epsilon"]
        == 1.0
    )
    text = (tmp_path / "r.md").read_text("utf-8")
    for part in (
        "| sex | ENUM | one of 'F', 'M' or NULL |",
        "e to the power of epsilon, 1)",
        "`count(*) WHERE age > 40",
        "| what rounds measured | 2 |",
    ):
        assert part in text


def test_an_older_export_is_replaced_and_nothing_else(made: Connection, tmp_path: Path) -> None:
    mwem_sql.export(made, "people_synthetic", tmp_path / "r.csv")
    mwem_sql.export(made, "people_synthetic", tmp_path / "r.csv")
    (tmp_path / "mine.md").write_text("mine")
    with pytest.raises(OutputError, match=r"exists and was not made by mwem_export\. Hint: choose another name"):
        mwem_sql.export(made, "people_synthetic", tmp_path / "mine.csv")
    assert (tmp_path / "mine.md").read_text() == "mine"
    assert not (tmp_path / "mine.csv").exists()


@pytest.mark.parametrize(
    ("path", "kind", "says"),
    [
        ("r.xlsx", OptionError, "must end with one of .parquet, .csv, .duckdb"),
        ("", OptionError, "must be the name of a file"),
        ("nowhere/r.csv", OutputError, "is in a folder that does not exist"),
    ],
)
def test_refusals(made: Connection, inside: Path, path: str, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        mwem_sql.export(made, "people_synthetic", path)
    assert not list(inside.iterdir())


def test_a_release_without_its_table_or_its_workload(made: Connection, tmp_path: Path) -> None:
    made.execute("CALL mwem_release('people', workload, 1, rounds := 1, output := 'gone')")
    made.execute("DROP TABLE gone")
    with pytest.raises(OutputError, match=r"is no longer there as a table\. Hint: make the same release again"):
        mwem_sql.export(made, "gone", tmp_path / "r.csv")
    made.execute("CALL mwem_release('people', workload, 1, rounds := 1, output := 'gone')")
    made.execute("DELETE FROM mwem.workloads WHERE release = 2")
    with pytest.raises(TableError, match=r"what is stored of output .* cannot be read"):
        mwem_sql.export(made, "gone", tmp_path / "r.csv")


def test_where_files_are_off_limits_none_is_written(tmp_path: Path) -> None:
    with mwem_sql.connect() as con:
        con.execute("CREATE TABLE t (a BOOLEAN NOT NULL)")
        mwem_sql.release(con, "t", mwem_sql.Workload.from_predicates(["a"]), 1.0)
        con.execute("SET enable_external_access = false")
        for function in (mwem_sql.export, mwem_sql.report):
            with pytest.raises(OptionError, match="enable_external_access is off"):
                function(con, "t_synthetic", tmp_path / "r.csv")


def test_a_draft_becomes_the_file_when_it_is_whole(tmp_path: Path) -> None:
    with export.draft_of(tmp_path / "a.txt", "f") as draft:
        draft.write_text("new")
        assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "a.txt").read_text() == "new"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")

    def fail() -> None:
        with export.draft_of(tmp_path / "a.txt", "f") as draft:
            draft.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_an_error_of_the_disk_is_said(tmp_path: Path) -> None:
    with (
        pytest.raises(
            OutputError, match=r"f: path \(.*\) could not be written \(No space left on device\). Hint: check"
        ),
        export.draft_of(tmp_path / "a.txt", "f"),
    ):
        raise OSError(28, "No space left on device")
    with pytest.raises(OutputError, match="could not be written"), export.draft_of(tmp_path / "no" / "a.txt", "f"):
        pass


@pytest.fixture(scope="module")
def reported(shared: Connection) -> Connection:
    shared.execute("CALL mwem_release('people', workload, 1, rounds := 2, rows := 30)")
    return shared


def test_a_page_is_written_and_written_again(reported: Connection, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    for _ in range(2):
        (row,) = mwem_sql.report(reported, "people_synthetic", path).to_pylist()
        assert row == {"file": str(path), "bytes": path.stat().st_size, "private": True, "page": None}
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_a_file_of_somebody_else_stays(reported: Connection, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("<html>mine</html>")
    with pytest.raises(OutputError, match="exists and was not made by mwem_report"):
        mwem_sql.report(reported, "people_synthetic", path)
    assert path.read_text() == "<html>mine</html>"


def test_a_page_is_no_pdf(reported: Connection, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"report.pdf'\) must end with one of .html, .htm. Hint: write 'report.html'"):
        mwem_sql.report(reported, "people_synthetic", tmp_path / "report.pdf")
    assert not list(tmp_path.iterdir())


def test_true_answers_make_it_not_private_and_the_ledger_notes_it(reported: Connection, tmp_path: Path) -> None:
    (row,) = mwem_sql.report(reported, "people_synthetic", tmp_path / "r.html", compare="people").to_pylist()
    assert row["private"] is False
    assert "NOT PRIVATE: this page shows true answers of people" in (tmp_path / "r.html").read_text("utf-8")
    assert "mwem_compare" in mwem_sql.ledger(reported).column("action").to_pylist()


def test_from_sql(reported: Connection, tmp_path: Path) -> None:
    rows = reported.execute("CALL mwem_report('people_synthetic', ?)", [str(tmp_path / "r.html")]).fetchall()
    assert rows[0][0] == str(tmp_path / "r.html")


@pytest.fixture(scope="module")
def joined() -> Iterator[Connection]:
    with mwem_sql.connect() as con:
        con.execute("""
            CREATE TABLE person (pid VARCHAR PRIMARY KEY, sex ENUM ('F', 'M') NOT NULL);
            CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid VARCHAR REFERENCES person (pid), away BOOLEAN NOT NULL);
            INSERT INTO person SELECT 'p' || i, if(i % 3 = 0, 'F', 'M') FROM range(200) t(i);
            INSERT INTO visit SELECT row_number() OVER (), pid, i = 0 FROM person, range(2) t(i);
            CREATE TABLE workload AS FROM mwem_marginals(['person', 'visit'], 2);
            CALL mwem_release(['visit', 'person'], workload, 100, rows_per_unit := 3)""")
        yield con


@pytest.mark.parametrize("output", ["person_synthetic", "visit_synthetic"])
def test_tables_of_a_release_are_exported_together_a_file_for_each_and_one_card(
    joined: Connection, inside: Path, output: str
) -> None:
    for _ in range(2):  # an older export of the same tables is replaced
        files = [row["file"] for row in mwem_sql.export(joined, output, "practice.parquet").to_pylist()]
        names = [
            "practice_person_synthetic.parquet",
            "practice_visit_synthetic.parquet",
            "practice.md",
            "practice.json",
        ]
        assert files == names and sorted(names) == sorted(file.name for file in inside.iterdir())
    join = "SELECT sex, away, count(*) FROM {} JOIN {} USING (pid) GROUP BY ALL ORDER BY ALL"
    rows = joined.execute(join.format("visit_synthetic", "person_synthetic")).fetchall()
    assert duckdb.execute(join.format(f"'{files[1]}'", f"'{files[0]}'")).fetchall() == rows
    person, visit = json.loads(Path(files[3]).read_text("utf-8"))["mwem_card"]["tables"]
    assert (person["table"], visit["table"]) == ("person_synthetic", "visit_synthetic")
    assert visit["keys"] == [
        {"columns": ["vid"], "key": "PRIMARY KEY", "refers_to": None},
        {"columns": ["pid"], "key": "FOREIGN KEY", "refers_to": {"table": "person_synthetic", "columns": ["pid"]}},
    ]
    assert (person["rows_used"], visit["rows_used"][:20]) == (None, "at most 3 rows of ea")
    text = Path(files[2]).read_text("utf-8")
    assert "| `visit_synthetic` | `practice_visit_synthetic.parquet` |" in text
    assert "| pid | BIGINT | FOREIGN KEY, the pid of person_synthetic; a new number |" in text
    assert "| person.sex | ENUM | in person_synthetic: one of 'F', 'M' |" in text
    assert "| visit | INTEGER | not in the rows, how many of visit_synthetic lead to each: from 0 to 3 |" in text
    assert text.count("Take all rows of any one person out") == 1
    key = duckdb.execute(f"SELECT decode(key) FROM parquet_kv_metadata('{files[1]}')").fetchall()
    assert ("mwem_card",) in key


def test_a_database_of_several_tables_has_their_keys_and_answers(joined: Connection, tmp_path: Path) -> None:
    first = tmp_path / "r.duckdb"
    for path in (first, tmp_path / "again.duckdb"):  # and whoever has it can pass it on
        mwem_sql.export(joined if path == first else mwem_sql.connect(first), "visit_synthetic", path)
        with mwem_sql.connect(path) as con:
            keys = con.execute(
                "SELECT table_name, constraint_text FROM duckdb_constraints() WHERE table_name LIKE '%_synthetic'"
                " AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY') ORDER BY ALL"
            ).fetchall()
            assert keys == [
                ("person_synthetic", "PRIMARY KEY(pid)"),
                ("visit_synthetic", "FOREIGN KEY (pid) REFERENCES person_synthetic(pid)"),
                ("visit_synthetic", "PRIMARY KEY(vid)"),
            ]
            for output, predicate in (("visit_synthetic", "person.sex = 'F'"), ("person_synthetic", "visit = 2")):
                assert mwem_sql.count(con, output, predicate) == mwem_sql.count(joined, output, predicate)
                rows = f"SELECT * FROM {output} ORDER BY ALL"
                assert con.execute(rows).fetchall() == joined.execute(rows).fetchall()
                assert con.execute(
                    "SELECT comment FROM duckdb_columns() WHERE table_name = ? AND comment IS NOT NULL", [output]
                ).fetchall()


def test_tables_that_are_no_longer_of_one_release_are_not_exported(tmp_path: Path) -> None:
    with mwem_sql.connect() as con:
        con.execute("""
            CREATE TABLE a (id INTEGER PRIMARY KEY, x BOOLEAN NOT NULL);
            CREATE TABLE b (id INTEGER REFERENCES a (id), y BOOLEAN NOT NULL);
            INSERT INTO a VALUES (1, true); INSERT INTO b VALUES (1, false);
            CREATE TABLE w AS FROM mwem_marginals(['a', 'b'], 1); CREATE TABLE w1 AS SELECT 'x' AS predicate;
            CALL mwem_release(['a', 'b'], w, 1, rows_per_unit := 1);
            DROP TABLE b_synthetic; CALL mwem_release('a', w1, 1, version := '2')""")
        with pytest.raises(
            OutputError, match=r"output \(memory.main.a_synthetic\) is another release than that of b_s"
        ):
            mwem_sql.export(con, "b_synthetic", tmp_path / "r.csv")
        con.execute("CALL mwem_release(['a', 'b'], w, 1, rows_per_unit := 1, version := '3')")
        con.execute("CALL mwem_withdraw('a_synthetic', 'wrong')")
        with pytest.raises(OutputError, match=r"a_synthetic\) was withdrawn"):
            mwem_sql.export(con, "b_synthetic", tmp_path / "r.csv")
        assert not list(tmp_path.iterdir())
