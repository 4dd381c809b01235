"""The examples, each run as it stands, with the real packages in an environment of their own.

`pytest -m integrations`, slow and online.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from environments import ROOT, environment, run

EXAMPLES = ROOT / "examples"
PRINTED = {
    "sqlalchemy_engine.py": ["census.main.people_synthetic 0.5 True", "True", "True", "True", "True"],
    "ibis_backend.py": ["census.main.people_synthetic True", "['F', 'M']"],
    "frames.py": [
        "memory.main.people",
        "False True",
        "['query', 'name', 'cell', 'answer', 'low', 'high', 'measured']",
        "['age', 'sex', 'city'] True",
        "[('age', 100), ('sex', 2), ('city', 4)]",
    ],
    "files.py": ["memory.main.visitors_synthetic", "memory.main.from_csv_synthetic", "2"],
}
EXECUTE = """
import json, sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, resources={"metadata": {"path": "."}}).execute()
code = [cell for cell in notebook.cells if cell.cell_type == "code"]
print(json.dumps([[output.get("data", {}) for output in cell.outputs] for cell in code]))
"""
# What a front end is sent while two releases run, cell by cell: the first is told to show its progress without
# patience, the second to be silent.
WATCH = """
import json, nbformat
from nbclient import NotebookClient

class Watched(NotebookClient):
    sent = {}
    def process_message(self, message, cell, number):
        if message["msg_type"] not in {"status", "execute_input"}:
            text = message["content"].get("data", message["content"])
            self.sent.setdefault(number, []).append([message["msg_type"], text.get("text/plain", str(text))])
        return super().process_message(message, cell, number)

cells = [
    "import mwem_sql; from people import PEOPLE, ROWS, WORKLOAD; from mwem_sql.surface import progress_line",
    "con = mwem_sql.connect(); con.execute(PEOPLE); con.execute(ROWS); progress_line.SILENT_SECONDS, "
    "progress_line.REDRAW_SECONDS = 0, 0.001",
    "mwem_sql.release(con, 'people', WORKLOAD, 1.0)",
    "mwem_sql.release(con, 'people', WORKLOAD, 1.0, output='silent', progress=False)",
    "con.close()",
]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
client = Watched(notebook, timeout=300)
client.execute()
texts = [[output.get("data", {}).get("text/plain") for output in cell.outputs] for cell in notebook.cells]
print(json.dumps([client.sent, texts]))
"""
# What a call inside dbt's own transaction meets: on the first run there is no such table yet, later there is the one of
# the run before.
INSIDE = """{{ config(post_hook="CALL mwem_release('inside', workload, 0.5, domain := 'people_domain')") }}
-- depends_on: {{ ref('workload') }}, {{ ref('people_domain') }}
SELECT * FROM {{ ref('people') }}
"""
LEDGER = (
    "import mwem_sql; ledger = mwem_sql.ledger(mwem_sql.connect('people.duckdb')); "
    "print(ledger.select(['table_name', 'output', 'epsilon']).to_pylist())"
)


def test_every_example_is_tested() -> None:
    """Here, below, or imported by one."""
    assert {path.name for path in EXAMPLES.iterdir() if path.name != "__pycache__"} == {
        *PRINTED, "anywhere.py", "people.py", "notebook.ipynb", "dbt", "requirements.txt", "README.md",
        "mwem-sql.service", "nginx.conf",
    }  # fmt: skip


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("examples") / "environment", ROOT, "-r", EXAMPLES / "requirements.txt")


@pytest.mark.integrations
@pytest.mark.parametrize("name", PRINTED)
def test_a_script(name: str, python: Path, tmp_path: Path) -> None:
    assert run(python, EXAMPLES / name, cwd=tmp_path).splitlines() == PRINTED[name]


@pytest.mark.integrations
def test_the_notebook(python: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "people.py", tmp_path)
    cells = json.loads(run(python, "-c", EXECUTE, EXAMPLES / "notebook.ipynb", cwd=tmp_path).splitlines()[-1])
    shown, in_sql, answers, spent = (outputs[-1] for outputs in cells[2:])  # a slow machine shows progress, too
    assert "ε = 0.5, for one row" in shown["text/html"]
    assert "census.main.people_synthetic" in in_sql["text/plain"] and "True" in in_sql["text/plain"]
    assert "age &gt;= 65" in answers["text/html"]
    assert spent["text/plain"].count("done") == 1


@pytest.mark.integrations
def test_progress_in_a_notebook(python: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "people.py", tmp_path)
    sent, kept = json.loads(run(python, "-c", WATCH, cwd=tmp_path).splitlines()[-1])
    (first, said), *others = sent["2"]
    assert first == "display_data" and said.startswith("people: ")
    assert {kind for kind, _ in others[:-1]} == {"update_display_data"}
    assert others[-2] == ["update_display_data", ""] and others[-1][0] == "execute_result"
    # Of the line nothing is left; without progress, and without a release, nothing is sent.
    assert kept[2][0] == "" and len(kept[2]) == 2
    assert [kind for kind, _ in sent["3"]] == ["execute_result"]
    assert set(sent) == {"2", "3"}


@pytest.mark.integrations
def test_a_dbt_project(python: Path, tmp_path: Path) -> None:
    project = tmp_path / "dbt"
    shutil.copytree(EXAMPLES / "dbt", project)
    dbt = python.parent / "dbt"
    build = (dbt, "--no-use-colors", "build", "--profiles-dir", ".")
    quiet = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    assert "PASS=13 WARN=0 ERROR=0" in run(*build, cwd=project, **quiet)
    spent = run(python, "-c", LEDGER, cwd=project)
    assert (spent.count("'epsilon': 0.5"), spent.count("'epsilon': 1.0")) == (3, 1)
    # The tables are new, the requests are not: nothing is charged.
    assert "PASS=13 WARN=0 ERROR=0" in run(*build, cwd=project, **quiet)
    assert run(python, "-c", LEDGER, cwd=project) == spent
    # A new version is charged, and replaces the output.
    assert "ERROR=0" in run(*build, "--select", "people_release+", "--vars", '{"version": "2"}', cwd=project, **quiet)
    assert run(python, "-c", LEDGER, cwd=project).count("'epsilon': 0.5") == 4


@pytest.mark.integrations
def test_a_hook_inside_the_transaction_is_refused_and_not_charged(python: Path, tmp_path: Path) -> None:
    project = tmp_path / "dbt"
    shutil.copytree(EXAMPLES / "dbt", project)
    for model in ("people_by_hook.sql", "from_python.py", "people_release.sql", "old_people.sql"):
        (project / "models" / model).unlink()
    shutil.rmtree(project / "models" / "visits")
    model = project / "models" / "inside.sql"
    command = f"{python.parent / 'dbt'} --no-use-colors build --profiles-dir . || true"
    quiet = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    model.write_text(INSIDE)
    assert "table ('inside') does not exist for this call" in run("bash", "-c", command, cwd=project, **quiet)
    model.write_text(INSIDE.split("\n", 1)[1])
    assert "ERROR=0" in run("bash", "-c", command, cwd=project, **quiet)
    model.write_text(INSIDE)
    assert "is being changed by a transaction that is still open" in run("bash", "-c", command, cwd=project, **quiet)
    assert run(python, "-c", LEDGER, cwd=project) == "[]\n"
