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
        assert row == {"file": str(path), "bytes": path.stat().st_size, "private": True}
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
