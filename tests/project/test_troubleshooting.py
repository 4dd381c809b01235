"""docs/troubleshooting.md quotes messages that there are, and has those that people meet first."""

from __future__ import annotations

import re

import duckdb
import pytest
from pages import ROOT

import mwem_sql

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
QUOTED = [
    text for bold in re.findall(r"^\*\*(.*?)\*\*[: ,]", PAGE, re.MULTILINE) for text in re.findall(r"`([^`]+)`", bold)
]
SOURCES = re.sub(
    r'"\s*f?"', "", "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "mwem_sql").rglob("*.py")))
)
OTHERS = {
    "mwem-sql: command not found",
    "Could not set lock on file",
    'Referenced column "people" not found',
    "Table with name ... does not exist",
    "Macro mwem_release() does not support the supplied arguments",
    'Binder Error: Referenced column "rounds" not found',
    "Catalog Error: Table Function with name mwem_release does not exist",
    "Attempting to modify table ...",
    "mwem_count",
    "mwem_report",
    "mwem_export",
}
"""Messages of DuckDB's and of the system, and names."""


MISTAKES = {
    "CALL mwem_release(people, w, 0.5)": 'Referenced column "people" not found',
    "CALL mwem_release('people', w)": "Macro mwem_release() does not support the supplied arguments",
    "CALL mwem_release('peple', w, 0.5)": "does not exist for this call",
    "CALL mwem_release('people', w, 0)": "must be a positive finite number",
    "CALL mwem_release('plain', w, 0.5)": "has no public domain",
    "CALL mwem_release('people', sums, 0.5)": "values, and a query needs them one by one",
    "CALL mwem_release('people', misspelt, 0.5)": "reads the unknown column",
    "CALL mwem_release('people', counts, 0.5)": "a query is asked of one row at a time",
    "CALL mwem_release('people', columns, 0.5)": "is not a column of a workload",
    "CALL mwem_release('people', nothing, 0.5)": "the workload has no rows",
    "CALL mwem_release('people', elsewhere, 0.5)": "is false or NULL for every value of the public domain",
    "CALL mwem_release('people', numbers, 0.5)": "is true for every value of the public domain",
    "CALL mwem_release('people.csv', w, 0.5)": ": one record of it may swallow others, or fail them all",
    "CALL mwem_release('joined', w, 0.5)": "which has no key; a private view must give at most one row",
    "CALL mwem_release('nowhere.parquet', w, 0.5)": "which matches no file",
    "FROM mwem_answer('people', w)": "is not a release of mwem_release",
}
"""What people do wrong first, and words of the message."""
TABLES = """
CREATE TABLE plain AS SELECT age, city FROM people;
CREATE VIEW joined AS SELECT people.age FROM people JOIN plain USING (age);
CREATE TABLE w AS SELECT 'age >= 65' AS predicate;
CREATE TABLE sums AS SELECT 'sum(pay)' AS measure;
CREATE TABLE misspelt AS SELECT 'agee >= 65' AS predicate;
CREATE TABLE counts AS SELECT 'count(*) > 5' AS predicate;
CREATE TABLE columns AS SELECT 'sex' AS colunm;
CREATE TABLE nothing AS SELECT 'sex' AS predicate LIMIT 0;
CREATE TABLE numbers AS SELECT 'age + 1' AS predicate;
COPY plain TO 'people.csv' (HEADER);
CREATE TABLE elsewhere AS SELECT 'city = ''Zurich''' AS predicate;
"""


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, mwem_sql.connect() as opened:
        patch.chdir(tmp_path_factory.mktemp("files"))
        opened.execute((ROOT / "docs" / "people.sql").read_text(encoding="utf-8") + TABLES)
        yield opened


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_first_mistake_is_on_the_page(con: duckdb.DuckDBPyConnection, mistake: str) -> None:
    with pytest.raises(duckdb.Error, match=re.escape(MISTAKES[mistake])):
        con.execute(mistake).fetchall()
    assert MISTAKES[mistake] in PAGE


def test_messages_that_are_quoted_are_ours() -> None:
    """Word for word, but for values: `...`, ('t') and the names t and x."""
    wrong = []
    for message in sorted(set(QUOTED) - OTHERS):
        parts = [part.strip(" ,;:") for part in re.split(r"\.\.\.|\('t'\)|\bx\b", message)]
        words = [part for part in parts if len(part) > 3]
        if not words or not all(part in SOURCES or part in " ".join(MISTAKES.values()) for part in words):
            wrong.append(message)
    assert wrong == []
